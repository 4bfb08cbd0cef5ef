"""What the drawn figures of all topics share: colours, axes, text, boxes and arrows.

``chapters/TOPIC/figures/draw.py`` draws with it; ``python -m tools.figures`` runs these scripts.
"""

import math
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from d2l_local import plotting

BLUE, ORANGE, GREEN = plotting.COLOURS[:3]
LIGHT, WARM, MINT, GREY = '#dbe7f5', '#fbe3d3', '#dcefdd', '#555555'


def canvas(width: float, height: float) -> Any:
    """Axes without a frame, from (0, 0) to (width, height).

    A unit is 0.82 inches: so narrow a figure stays legible on a phone. All lengths below are in this unit.
    """
    _, ax = plt.subplots(figsize=(0.82 * width, 0.82 * height))
    ax.set(xlim=(0, width), ylim=(0, height), position=(0, 0, 1, 1))
    ax.axis('off')
    return ax


def write(ax, x, y, text, size=9, **how):
    """Write text around (x, y), unless ``ha`` or ``va`` says otherwise; ``size`` is in points."""
    ax.text(x, y, text, **{'ha': 'center', 'va': 'center', 'zorder': 6, 'linespacing': 1.2,
                           'fontsize': size, **how})


def box(ax, x, y, width, height, text='', fill='white', edge=BLUE, size=9):
    """Draw a rounded box with its lower left corner at (x, y), and a text in its middle."""
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle='round,pad=0,rounding_size=0.05',
                                facecolor=fill, edgecolor=edge, linewidth=1.2, zorder=2))
    write(ax, x + width / 2, y + height / 2, text, size)


def arrow(ax, start, end, style='-|>', colour=GREY, width=1.5, bend=0.0, near=0.0, zorder=1):
    """Draw an arrow, or a line (style ``-``), behind the boxes; it leaves ``near`` free at both ends.

    Args:
        start, end: points (x, y).
        width: of the line, in points.
        bend: how far the arrow bulges to its side, as a share of its length.
    """
    (xa, ya), (xb, yb) = start, end
    length = math.hypot(xb - xa, yb - ya)
    dx, dy = near * (xb - xa) / length, near * (yb - ya) / length
    ax.annotate('', (xb - dx, yb - dy), (xa + dx, ya + dy), zorder=zorder, arrowprops={
        'arrowstyle': style, 'color': colour, 'shrinkA': 0, 'shrinkB': 0, 'linewidth': width,
        'connectionstyle': f'arc3,rad={bend}'})
