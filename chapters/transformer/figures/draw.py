"""The figures of this topic: python -m tools.figures transformer"""

from matplotlib import pyplot as plt

ANSWERS = [7, 2, 3, 5, 4, 6, 2, 3, 4, 2, 5, 3]          # tokens of twelve requests, in order
SLOTS = 4


def schedule(continuous):
    """(request, slot, first step) of each answer in four slots."""
    free, found = [0] * SLOTS, []
    for i, length in enumerate(ANSWERS):
        if not continuous and i % SLOTS == 0:
            free = [max(free)] * SLOTS
        slot = free.index(min(free))
        found.append((i, slot, free[slot]))
        free[slot] += length
    return found


def slots():
    """Twelve requests in four slots: a batch that ends together, and one whose slots are given away."""
    _, panels = plt.subplots(2, 1, figsize=(6, 3.6), sharex=True, layout='constrained')
    for ax, title in zip(panels, ('static: a batch waits for its longest answer',
                                  'continuous: a free slot is given away'), strict=True):
        plan = schedule('continuous' in title)
        end = max(start + ANSWERS[i] for i, _, start in plan)
        ax.barh([slot for _, slot, _ in plan], [ANSWERS[i] for i, *_ in plan], 0.75,
                [start for *_, start in plan], color=[f'C{i % 8}' for i, *_ in plan], edgecolor='white')
        for i, slot, start in plan:
            ax.text(start + ANSWERS[i] / 2, slot, str(i + 1), ha='center', va='center', color='white')
        ax.axvline(end, color='0.4', linestyle=':')
        ax.set(title=title, yticks=[], ylabel='slots', ylim=(SLOTS - 0.4, -0.6))
        ax.text(end + 0.15, 1.5, f'{end} steps', va='center')
    panels[-1].set(xlabel='decode steps', xlim=(0, 20), xticks=range(0, 21, 5))
    return panels[-1]


def phases():
    """An answer in time: one pass over the prompt, then a pass for each token."""
    _, ax = plt.subplots(figsize=(6.2, 2.3), layout='constrained')
    prefill, decode, tokens = 3.0, 0.9, 7
    ax.barh(0, prefill - 0.06, 0.7, 0, color='#9ecae1', edgecolor='0.3')
    ax.text(prefill / 2, 0, 'prefill: one pass\nover the whole prompt', ha='center', va='center',
            fontsize=8.5)
    for i in range(tokens):
        ax.barh(0, decode - 0.06, 0.7, prefill + i * decode, color='#fdd0a2', edgecolor='0.3')
        ax.text(prefill + (i + 0.46) * decode, 0, '1 token', ha='center', va='center', fontsize=7.5)
    for start, end, text in ((0, prefill, 'time to first token'),
                             (prefill + decode, prefill + 2 * decode, 'time per output token')):
        ax.annotate('', (end, 0.62), (start, 0.62), arrowprops={'arrowstyle': '<->', 'color': '0.3',
                                                                'shrinkA': 0, 'shrinkB': 0})
        ax.text((start + end) / 2, 0.7, text, ha='center', va='bottom', fontsize=8.5)
    starts = [0, *(prefill + i * decode for i in range(tokens))]
    for x in starts:
        ax.annotate('', (x + 0.1, -0.38), (x + 0.1, -0.85), arrowprops={'arrowstyle': '->', 'color': '0.3'})
    ax.text(starts[3], -0.95, 'all weights are read, once in each pass', ha='center', va='top', fontsize=8.5)
    ax.set(xlim=(-0.1, prefill + tokens * decode + 0.1), ylim=(-1.25, 1.0))
    ax.axis('off')
    return ax


FIGURES = {'phases': phases, 'slots': slots}
