"""Drawn figures and computed tables of the pages.

    python -m tools.figures [TOPIC …]

runs ``chapters/TOPIC/figures/draw.py``, of every topic if none is named. Such a script has ``FIGURES``,
functions by the name of their file, and may have ``TABLES``, functions of the page ``index.md`` by the
name of the table. Figures that a reader can turn are another matter: ``tools/live.py``.
"""

import importlib.util
import io
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

from d2l_local import plotting

CHAPTERS = Path(__file__).parent.parent / 'chapters'
BLUE, ORANGE, GREEN = plotting.COLOURS[:3]
LIGHT, WARM, MINT, GREY = '#dbe7f5', '#fbe3d3', '#dcefdd', '#555555'


# Figures.

def load(topic: str, name: str = 'draw') -> ModuleType:
    """A script of a topic, as a module: ``draw``, or ``live`` for the figures that a reader can turn."""
    script = CHAPTERS / topic / 'figures' / f'{name}.py'
    spec = importlib.util.spec_from_file_location(f'{name}_{topic}', script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw_svg(figures: dict[str, Callable[[], Any]], folder: Path) -> dict[str, str]:
    """Write each figure as ``NAME.svg`` into a folder; a figure that returns False is left as it is.

    Returns:
        The text of each file that was written, by name. The same figure gives the same bytes.
    """
    plotting.use_svg_display()
    texts = {}
    for name, figure in figures.items():
        if figure() is not False:
            out = io.StringIO()
            plt.savefig(out, format='svg', metadata={'Date': None}, bbox_inches='tight')
            texts[name] = out.getvalue()
            (folder / f'{name}.svg').write_text(texts[name])
        plt.close('all')
    return texts


def canvas(width: float, height: float) -> Any:
    """Axes without a frame. A unit is 0.82 inches: so narrow a figure stays legible on a phone."""
    _, ax = plt.subplots(figsize=(0.82 * width, 0.82 * height))
    ax.set(xlim=(0, width), ylim=(0, height), position=(0, 0, 1, 1))
    ax.axis('off')
    return ax


def write(ax, x, y, text, size=9, **how):
    """Text around (x, y), unless ``ha`` or ``va`` says otherwise."""
    ax.text(x, y, text, **{'ha': 'center', 'va': 'center', 'zorder': 6, 'linespacing': 1.2,
                           'fontsize': size, **how})


def box(ax, x, y, width, height, text='', fill='white', edge=BLUE, size=9):
    """A rounded box with its lower left corner at (x, y)."""
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle='round,pad=0,rounding_size=0.05',
                                facecolor=fill, edgecolor=edge, linewidth=1.2, zorder=2))
    write(ax, x + width / 2, y + height / 2, text, size)


def arrow(ax, start, end, style='-|>', colour=GREY, width=1.5, bend=0.0, near=0.0, zorder=1):
    """An arrow, or a line (style ``-``), behind the boxes; it leaves ``near`` free at both ends."""
    (xa, ya), (xb, yb) = start, end
    length = math.hypot(xb - xa, yb - ya)
    dx, dy = near * (xb - xa) / length, near * (yb - ya) / length
    ax.annotate('', (xb - dx, yb - dy), (xa + dx, ya + dy), zorder=zorder, arrowprops={
        'arrowstyle': style, 'color': colour, 'shrinkA': 0, 'shrinkB': 0, 'linewidth': width,
        'connectionstyle': f'arc3,rad={bend}'})


# Tables of a page.

def number(x: float) -> str:
    """About three digits."""
    return f'{x:.0f}' if x >= 100 else f'{x:.1f}' if x >= 10 else f'{x:.2f}'


def with_tables(page: str, tables: dict[str, Callable[[str], str]]) -> str:
    """The page with its tables computed anew, each between the two comments that name it."""
    for name, table in tables.items():
        head, _, rest = re.split(rf'(?<=<!-- {name}: computed by figures/draw.py; a test compares -->)'
                                 rf'(.*?)(?=<!-- end {name} -->)', page, flags=re.S)
        page = f'{head}\n\n{table(page)}\n\n{rest}'
    return page


def main(topics: list[str]) -> None:
    """Draw the figures of topics, and put their tables into their pages."""
    for topic in topics or sorted(p.parts[-3] for p in CHAPTERS.glob('*/figures/draw.py')):
        script, page = load(topic), CHAPTERS / topic / 'index.md'
        print(*(f'{topic}/figures/{name}.svg' for name in
                draw_svg(script.FIGURES, CHAPTERS / topic / 'figures')), sep='\n')
        old = page.read_text()
        new = with_tables(old, getattr(script, 'TABLES', {}))
        if new != old:
            page.write_text(new)


if __name__ == '__main__':
    main(sys.argv[1:])
