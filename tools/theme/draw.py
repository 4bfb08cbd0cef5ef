"""The book's sign, and the picture that a link to it shows elsewhere: python -m tools.theme.draw"""

import textwrap
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

from chapters import drawing
from tools import figures


def sign(ax) -> None:
    """A tick whose long arm ends as a roofline does: tested, and how far it can go. Axes are square."""
    ax.add_patch(FancyBboxPatch((0, 0), 10, 10, boxstyle='round,pad=0,rounding_size=2',
                                facecolor=drawing.BLUE, linewidth=0))
    inch = ax.bbox.height / ax.figure.dpi
    ax.plot([1.6, 3.4, 6.3, 8.5], [5, 2.7, 7.1, 7.1], color='white', linestyle='-', linewidth=8.6 * inch,
            solid_capstyle='round', solid_joinstyle='round')
    ax.set(xlim=(0, 10), ylim=(0, 10))
    ax.axis('off')


def logo():
    """The sign alone, for the side bar and the browser's tab."""
    figure = plt.figure(figsize=(4, 4), facecolor='none')
    sign(figure.add_axes((0, 0, 1, 1)))


def social(path: Path, title: str) -> None:
    """Write the picture of 1200 × 630 pixels that other sites show beside a link, as PNG."""
    figure = plt.figure(figsize=(12, 6.3), facecolor='white')
    sign(figure.add_axes((0.06, 0.24, 0.52 * 6.3 / 12, 0.52)))
    figure.text(0.4, 0.62, textwrap.fill(title, 16), size=38, weight='bold', va='center',
                linespacing=1.3)
    figure.text(0.4, 0.3, 'Every sentence about performance\nis tested on your machine.', size=27,
                va='center', linespacing=1.4, color=drawing.GREY)
    figure.savefig(path, dpi=100)
    plt.close(figure)


FIGURES = {'logo': logo}
if __name__ == '__main__':
    figures.draw_svg(FIGURES, Path(__file__).parent)
