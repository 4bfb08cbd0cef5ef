"""The figures of this topic: python -m tools.figures splitting"""

from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

STAGES, MICRO = 4, 8
FIRST, SECOND = '#9ecae1', '#fdd0a2'        # the colours of two ranks


def cuts():
    """The weights of four layers on two ranks, in three ways; dashed is what a rank has to fetch."""
    _, panels = plt.subplots(1, 3, figsize=(6.2, 3), layout='constrained')
    titles = ('tensor', 'pipeline', 'sharded data')
    sent = ('sent: activations,\nin every layer', 'sent: activations,\nat the cut',
            'sent: weights before use,\ngradients after')
    for ax, title, text in zip(panels, titles, sent, strict=True):
        ax.set_title(title, fontsize=10)
        ax.text(1, -0.75, text, ha='center', va='top', fontsize=8.5)
        ax.set(xlim=(-0.1, 2.1), ylim=(-1.6, 4.1))
        ax.axis('off')

    def box(ax, x, y, width, colour, line='-'):
        ax.add_patch(Rectangle((x, y), width, 0.8, facecolor=colour, edgecolor='0.3', linestyle=line))

    tensor, pipeline, sharded = panels
    for layer in range(4):
        box(tensor, 0.1, layer, 0.9, FIRST)
        box(tensor, 1.0, layer, 0.9, SECOND)
        box(pipeline, 0.1, layer, 1.8, FIRST if layer < 2 else SECOND)
        box(sharded, 0, layer, 0.45, FIRST)
        box(sharded, 0.45, layer, 0.45, 'white', '--')
        box(sharded, 1.1, layer, 0.45, 'white', '--')
        box(sharded, 1.55, layer, 0.45, SECOND)
    for ax, places in ((tensor, (0.55, 1.45)), (sharded, (0.45, 1.55))):
        for rank, x in enumerate(places):
            ax.text(x, -0.15, f'rank {rank}', ha='center', va='top', fontsize=8.5)
    for layer in range(4):
        pipeline.text(1, layer + 0.4, f'rank {layer // 2}', ha='center', va='center', fontsize=8.5)
    return tensor


def halves():
    """An MLP on two ranks: the first matrix cut by columns, the second by rows."""
    _, ax = plt.subplots(figsize=(6, 3), layout='constrained')

    def box(x, y, width, height, colour, text):
        ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor='0.3'))
        ax.text(x + width / 2, y + height / 2, text, ha='center', va='center')
    for rank, (y, colour) in enumerate(((2.1, '#9ecae1'), (0.1, '#fdd0a2'))):
        ax.text(-0.15, y + 0.7, f'rank {rank}', ha='right', va='center')
        box(0, y + 0.2, 1.2, 1, '0.9', 'X\nwhole')
        box(1.9, y, 0.7, 1.4, colour, f'A{"₀₁"[rank]}')
        box(3.3, y + 0.2, 0.7, 1, colour, f'H{"₀₁"[rank]}')
        box(4.7, y + 0.35, 1.4, 0.7, colour, f'B{"₀₁"[rank]}')
        box(6.8, y + 0.2, 1.2, 1, '0.9', f'H{"₀₁"[rank]} B{"₀₁"[rank]}')
        for x, sign in ((1.55, '·'), (2.95, '='), (4.35, '·'), (6.45, '=')):
            ax.text(x, y + 0.7, sign, ha='center', va='center')
        ax.annotate('', (8.6, 1.8), (8.02, y + 0.7), arrowprops={'arrowstyle': '->'})
    box(8.6, 1.3, 1.2, 1, '0.9', 'Y\nsum')
    ax.text(9.2, 1.1, 'all-reduce', ha='center', va='top')
    for x, text in ((2.25, 'cut by\ncolumns'), (3.65, 'nothing\nis sent'), (5.4, 'cut by\nrows')):
        ax.text(x, 3.65, text, ha='center', va='bottom', color='0.35')
    ax.set(xlim=(-1, 9.9), ylim=(0, 4.4))
    ax.axis('off')
    return ax


def gpipe(stage):
    """All forward passes, then all backward passes."""
    return [('F', i) for i in range(MICRO)] + [('B', i) for i in range(MICRO)]


def one_forward_one_backward(stage):
    """As many forward passes as there are stages from here on, then one of each in turn."""
    ahead = min(STAGES - stage, MICRO)
    found = [('F', i) for i in range(ahead)]
    for i in range(MICRO):
        found += [('B', i)] + [('F', i + ahead)] * (i + ahead < MICRO)
    return found


def times(schedule):
    """(stage, what, micro-batch, start) when a backward pass takes two steps and a forward pass one."""
    plans, done, clock, found = [schedule(s) for s in range(STAGES)], {}, [0] * STAGES, []
    while any(plans):
        for s, plan in enumerate(plans):
            while plan:
                what, i = plan[0]
                before = (what, i, s + (1 if what == 'B' else -1))
                if not 0 <= before[2] < STAGES:
                    before = ('F', i, s) if what == 'B' else None
                if before and before not in done:
                    break
                start = max(clock[s], done.get(before, 0))
                clock[s] = done[what, i, s] = start + (2 if what == 'B' else 1)
                found.append((s, what, i, start))
                plan.pop(0)
    return found


def schedules():
    """Two orders of the same work on four stages, and what the first stage keeps meanwhile."""
    _, panels = plt.subplots(2, 1, figsize=(6, 3.8), sharex=True, layout='constrained')
    for ax, schedule, title in zip(
            panels, (gpipe, one_forward_one_backward),
            ('GPipe: the first stage keeps 8 micro-batches', '1F1B: the first stage keeps 4'),
            strict=True):
        for stage, what, i, start in times(schedule):
            length = 2 if what == 'B' else 1
            ax.barh(stage, length, 0.85, start, color='#9ecae1' if what == 'F' else '#fdae6b',
                    edgecolor='white')
            ax.text(start + length / 2, stage, str(i + 1), ha='center', va='center', fontsize=7)
        ax.set(title=title, yticks=range(STAGES), yticklabels=[f'stage {s}' for s in range(STAGES)],
               ylim=(STAGES - 0.5, -0.5), xlim=(0, 3 * (MICRO + STAGES - 1)))
    panels[-1].set(xlabel='steps; forward in blue, backward in orange and twice as long')
    return panels[-1]


def shares():
    """Bytes that a rank keeps for each parameter at ZeRO stages 0 to 3, on four ranks."""
    _, ax = plt.subplots(figsize=(6, 2.8), layout='constrained')
    parts = (('weights', 4, 3, '#9ecae1'), ('gradients', 4, 2, '#fdd0a2'),
             ("Adam's moments", 8, 1, '#c7e9c0'))     # bytes, and the stage from which they are cut
    for stage in range(4):
        at = 0.0
        for name, size, from_stage, colour in parts:
            kept = size / 4 if stage >= from_stage else size
            ax.barh(stage, kept, 0.7, at, color=colour, edgecolor='0.3',
                    label=name if stage == 0 else None)
            ax.text(at + kept / 2, stage, f'{kept:g}', ha='center', va='center', fontsize=8)
            at += kept
    ax.set(yticks=range(4), yticklabels=['data parallel', 'ZeRO 1', 'ZeRO 2', 'ZeRO 3'],
           ylim=(3.5, -0.5), xlabel='bytes for a parameter on each of four ranks')
    ax.legend(loc='lower right')
    return ax


def alexnet():
    """AlexNet's layers on two GPUs, and the layers before which these communicate."""
    _, ax = plt.subplots(figsize=(6.4, 2.6), layout='constrained')
    layers = (('conv 1', 48, False), ('conv 2', 128, False), ('conv 3', 192, True), ('conv 4', 192, False),
              ('conv 5', 128, False), ('full 6', 2048, True), ('full 7', 2048, True))
    rows = ((1.5, '#9ecae1'), (0, '#fdd0a2'))
    ax.add_patch(Rectangle((-1.6, 0.55), 1, 1.4, facecolor='0.9', edgecolor='0.3'))
    ax.text(-1.1, 1.25, 'image', ha='center', va='center', fontsize=8)
    ends = [(-0.6, 1.25)] * 2
    for k, (name, kernels, crossing) in enumerate(layers):
        x = 1.5 * k
        for gpu, (y, colour) in enumerate(rows):
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor='0.3'))
            ax.text(x + 0.5, y + 0.5, f'{name}\n{kernels}', ha='center', va='center', fontsize=8)
            for start in ends if crossing else ends[gpu:gpu + 1]:
                ax.annotate('', (x, y + 0.5), start, arrowprops={'arrowstyle': '->', 'shrinkA': 0,
                                                                 'shrinkB': 0})
        ends = [(x + 1, y + 0.5) for y, _ in rows]
    x = 1.5 * len(layers)
    ax.add_patch(Rectangle((x, 0.55), 1, 1.4, facecolor='0.9', edgecolor='0.3'))
    ax.text(x + 0.5, 1.25, 'full 8\n1,000', ha='center', va='center', fontsize=8)
    for start in ends:
        ax.annotate('', (x, 1.25), start, arrowprops={'arrowstyle': '->', 'shrinkA': 0, 'shrinkB': 0})
    for gpu, (y, _) in enumerate(rows):
        ax.text(-0.1, y + (1.15 if gpu == 0 else -0.2), f'GPU {gpu}', ha='left',
                va='bottom' if gpu == 0 else 'top', fontsize=8)
    ax.set(xlim=(-1.8, x + 1.2), ylim=(-0.6, 3))
    ax.axis('off')
    return ax


FIGURES = {'alexnet': alexnet, 'cuts': cuts, 'halves': halves, 'schedules': schedules, 'shares': shares}
