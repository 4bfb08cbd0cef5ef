"""The figures of this topic: python -m tools.figures measuring"""

from matplotlib import pyplot as plt

from chapters.drawing import BLUE, GREY, LIGHT, ORANGE, WARM, box, canvas, write

COLOURS = {'overhead': '#4c72b0', 'memory': '#dd8452', 'compute': '#55a868'}


def waits():
    """Three programs, and what limits each: the longest bar of each group."""
    times = {'small layers': (5.0, 0.6, 0.3), 'addition': (0.3, 5.0, 1.2),
             'matmul': (0.3, 1.1, 5.0)}
    _, ax = plt.subplots(figsize=(6, 2.9))
    for i, parts in enumerate(times.values()):
        for k, ((name, colour), t) in enumerate(zip(COLOURS.items(), parts, strict=True)):
            ax.barh(i + 0.25 * (k - 1), t, 0.22, color=colour, label=name if i == k else None,
                    alpha=1 if t == max(parts) else 0.45)
    ax.set(yticks=range(3), yticklabels=list(times), xticks=[], xlabel='time that each would need alone')
    ax.invert_yaxis()
    ax.legend(loc='lower center', bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    return ax


def roofline():
    """Slope, ridge and flat part, with the regions named."""
    _, ax = plt.subplots(figsize=(6, 2.9))
    ax.loglog([1 / 32, 8, 512], [1 / 32, 8, 8], color='black', linewidth=2)
    ax.fill_between([1 / 32, 8], [1 / 32, 8], 1 / 64, color=COLOURS['memory'], alpha=0.25, linewidth=0)
    ax.fill_between([8, 512], [8, 8], 1 / 64, color=COLOURS['compute'], alpha=0.25, linewidth=0)
    ax.axvline(8, ymax=0.86, color='black', linewidth=0.8, linestyle=':')
    ax.text(1.6, 0.03, 'memory-bound', ha='center')
    ax.text(64, 0.03, 'compute-bound', ha='center')
    ax.text(0.25, 0.6, 'bandwidth', rotation=36, ha='center', va='center')
    ax.text(64, 9.5, 'peak', ha='center')
    ax.text(8, 9.5, 'ridge', ha='center', va='bottom')
    for label, x, y, shift, side in (('addition', 1 / 12, 1 / 14, (6, -13), 'left'),
                                     ('matmul', 130, 6.5, (-6, -11), 'right'),
                                     ('small layers:\noverhead-bound', 2.6, 0.1, (-7, -9), 'right')):
        ax.plot(x, y, 'o', color='black')
        ax.annotate(label, (x, y), shift, textcoords='offset points', ha=side)
    ax.set(xlabel='operations for each byte', ylabel='operations per second', ylim=(1 / 64, 20),
           xticks=[], yticks=[])
    ax.minorticks_off()
    return ax


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


FIGURES = {'waits': waits, 'roofline': roofline, 'loop': loop, 'spinning': spinning}
