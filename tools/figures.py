"""Drawn figures and computed tables of the pages.

    python -m tools.figures [TOPIC …]

runs ``chapters/TOPIC/figures/draw.py``, of every topic if none is named. Such a script has ``FIGURES``,
functions by the name of their file, and may have ``TABLES``, functions of the page ``index.md`` by the
name of the table. The scripts draw with ``chapters/drawing.py``. Figures that a reader can turn are
another matter: ``tools/live.py``.
"""

import importlib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib.pyplot as plt

from d2l_local import plotting

CHAPTERS = Path(__file__).parent.parent / 'chapters'


# Figures.

def load(topic: str) -> ModuleType:
    """What draws the figures of a topic."""
    return importlib.import_module(f'chapters.{topic}.figures.draw')


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


# Tables of a page.

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
        script = load(topic)
        print(*(f'{topic}/figures/{name}.svg' for name in
                draw_svg(script.FIGURES, CHAPTERS / topic / 'figures')), sep='\n')
        if hasattr(script, 'TABLES'):
            page = CHAPTERS / topic / 'index.md'
            old = page.read_text()
            new = with_tables(old, script.TABLES)
            if new != old:
                page.write_text(new)


if __name__ == '__main__':
    main(sys.argv[1:])
