"""The figures of these pages: python -m tools.figures start"""

from matplotlib import pyplot as plt

from chapters.drawing import GREEN, LIGHT, MINT, ORANGE, arrow, box, canvas, write

# The questions from the top, each with the page to which a yes leads.
QUESTIONS = [('Does it run out of memory?', 'Out of memory'),
             ('Is it no faster on more\ndevices, or does it hang?', 'Several devices'),
             ('Do users wait too long\nfor answers?', 'Serving'),
             ('Does it get slower,\nor pause now and then?', 'Slower with time')]
# What a timeline shows, and the page to which that leads.
GAPS = [('long gaps', 'The device\nwaits'), ('many short gaps', 'Overhead'),
        ('no gaps', 'The device\nis busy')]


def symptoms():
    """A decision tree: a yes leads to the right, a no leads down, and the last question has three answers."""
    width, row, height = 5.1, 0.72, 0.46
    top = 4.4
    ax = canvas(width, top + 0.1)
    question_width, page_width = 2.75, 1.6
    middle, page_left = question_width / 2 + 0.05, width - page_width - 0.05
    for i, (question, page) in enumerate(QUESTIONS):
        y = top - height - i * row
        box(ax, 0.05, y, question_width, height, question, LIGHT, size=10)
        box(ax, page_left, y, page_width, height, page, MINT, GREEN, size=10)
        arrow(ax, (question_width + 0.05, y + height / 2), (page_left, y + height / 2))
        write(ax, (question_width + 0.05 + page_left) / 2, y + height / 2 + 0.12, 'yes', 9)
        arrow(ax, (middle, y), (middle, y - row + height))
        write(ax, middle + 0.17, y - (row - height) / 2, 'no', 9)
    y = top - height - len(QUESTIONS) * row
    box(ax, 0.05, y, width - 0.1, height, 'What gaps does a timeline of a few steps have?', LIGHT, size=10)
    between = (width - 0.1 - 3 * page_width) / 2
    for i, (gaps, page) in enumerate(GAPS):
        left = 0.05 + i * (page_width + between)
        centre = left + page_width / 2
        arrow(ax, (centre, y), (centre, height + 0.05))
        write(ax, centre, (y + height + 0.1) / 2, gaps, 9,
              bbox={'facecolor': 'white', 'edgecolor': 'none', 'pad': 1})
        box(ax, left, 0.05, page_width, height, page, MINT, GREEN, size=10)
    return ax


def outcomes():
    """One test on three machines: medians of ten windows, their interval, the bound and its margin."""
    bound, margin = 2, 1.05
    panels = {'holds': [2.6, 2.7, 2.6, 2.5, 2.7, 2.6, 2.7, 2.4, 2.6, 2.8],
              'undecided': [2.1, 1.9, 2.2, 2.0, 2.1, 2.3, 2.0, 2.2, 2.1, 2.1],
              'fails': [1.6, 1.7, 1.6, 1.5, 1.6, 1.7, 1.8, 1.6, 1.5, 1.6]}
    colours = {'holds': GREEN, 'undecided': ORANGE, 'fails': '#b3261e'}
    figure, axes = plt.subplots(1, 3, sharey=True, figsize=(4.8, 2.5))
    figure.subplots_adjust(wspace=0.1)
    for ax, (outcome, medians) in zip(axes, panels.items(), strict=True):
        windows = range(1, len(medians) + 1)
        ax.axhspan(bound / margin, bound * margin, color='#bbbbbb', linewidth=0)
        ax.axhline(bound, color='black', linewidth=1)
        ax.axhspan(min(medians), max(medians), color=colours[outcome], alpha=0.2, linewidth=0)
        ax.plot(windows, medians, 'o', color=colours[outcome], markersize=4)
        ax.set(title=outcome, xlabel='window', xticks=[1, 10], xlim=(0, 11), ylim=(1.3, 3))
    axes[0].set(ylabel='ratio of the two times', yticks=[1.5, 2, 2.5, 3])
    axes[0].text(10.7, bound * margin, 'bound', ha='right', va='bottom', fontsize=9)
    return axes


FIGURES = {'symptoms': symptoms, 'outcomes': outcomes}
