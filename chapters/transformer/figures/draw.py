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


FIGURES = {'slots': slots}
