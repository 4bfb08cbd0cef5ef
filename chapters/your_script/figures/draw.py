"""The figures of this topic: python -m tools.figures your_script"""

from matplotlib import pyplot as plt

PARTS = [('loader', 4.0, '#8172b3'), ('forward', 2.0, '#4c72b0'), ('backward', 3.0, '#dd8452'),
         ('optimizer', 1.0, '#55a868')]
CHANGED = {'loader': 0.3}       # the remedy that is tried: the loader hands out the same batch again


def turns():
    """Four steps of a script: as it is, changed, changed, as it is. A changed one waits for no loader."""
    _, ax = plt.subplots(figsize=(8.4, 1.9))
    left = 0.0
    for number, name in enumerate(('as it is', 'changed', 'changed', 'as it is')):
        begin = left
        for part, seconds, colour in PARTS:
            if name == 'changed':
                seconds = CHANGED.get(part, seconds)
            ax.barh(0, seconds, 0.5, left=left, color=colour, label=part if number == 0 else None)
            left += seconds
        ax.annotate('', (begin, -0.45), (left, -0.45), arrowprops={'arrowstyle': '|-|,widthA=0.3,widthB=0.3'})
        ax.text((begin + left) / 2, -0.8, name, ha='center', va='center')
        left += 0.4
    ax.set(xlim=(-0.2, left), ylim=(-1.0, 0.4))
    ax.axis('off')
    ax.legend(loc='lower center', bbox_to_anchor=(0.5, 1.0), ncols=len(PARTS), frameon=False)
    return ax


FIGURES = {'turns': turns}
