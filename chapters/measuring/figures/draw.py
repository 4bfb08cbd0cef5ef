"""The figures of this topic: python -m tools.figures measuring"""

from matplotlib import pyplot as plt

from chapters.drawing import BLUE, GREY, LIGHT, ORANGE, WARM, box, canvas, write


def loop():
    """The method as a ring of four steps."""
    steps = ['measure', 'classify', 'bound the gain', 'fix one thing']
    _, ax = plt.subplots(figsize=(8.4, 1.5))
    for i, step in enumerate(steps):
        ax.text(2 * i, 0, step, ha='center', va='center',
                bbox={'boxstyle': 'round,pad=0.5', 'facecolor': 'white', 'edgecolor': 'black'})
        if i:
            ax.annotate('', (2 * i - 0.82, 0), (2 * i - 1.18, 0), arrowprops={'arrowstyle': '->'})
    ax.annotate('', (0, -0.38), (6, -0.38), arrowprops={
        'arrowstyle': '->', 'connectionstyle': 'arc3,rad=-0.18'})
    ax.text(3, -1.5, 'and measure again', ha='center')
    ax.set(xlim=(-0.9, 6.9), ylim=(-1.6, 0.5))
    ax.axis('off')
    return ax


def spinning():
    """Two threads on one core, since another program has the other: they spin, and they sleep."""
    ax = canvas(5.3, 3.2)
    left, end, height = 0.75, 5.25, 0.42
    work, slice_length = 0.5, 2.0       # of a thread in a layer; of the operating system
    looks = {1: (LIGHT, BLUE), 2: (WARM, ORANGE)}

    def compute(thread, y, start):
        box(ax, start, y, work - 0.03, height, f'{thread}', *looks[thread])
        return start + work

    for title, spins, y in (('waiting threads spin', True, 1.85), ('waiting threads sleep', False, 0.25)):
        write(ax, 0.05, y + 1.2, title, 10, ha='left', weight='bold')
        for core, row in enumerate((y + 0.55, y)):
            write(ax, 0.05, row + height / 2, f'core {core}', 9, ha='left', color=GREY)
        box(ax, left, y + 0.55, end - left, height, 'the neighbour computes', '#eeeeee', GREY)
        now, turn, layer = left, 1, 1
        while now + 2 * work < end + 0.01:
            now = compute(turn, y, now)
            if spins and layer == 1:
                text = f'{turn} spins: a time slice'
                box(ax, now, y, slice_length - 0.03, height, text, 'white', looks[turn][1])
                now += slice_length
            turn = 3 - turn
            now = compute(turn, y, now)
            done = now - 0.015
            ax.plot([done, done], [y - 0.14, y + height + 0.05], '-', color='black', linewidth=1.5, zorder=5)
            write(ax, now - 0.06, y - 0.15, f'layer {layer}', 8, ha='right')
            layer += 1
    return ax


FIGURES = {'loop': loop, 'spinning': spinning}
