"""The figures of this book that a reader can turn: where they stand, and what they start from.

``chapters/TOPIC/figures/live.py`` has ``LIVE``, a figure of ``live_figures`` by each name. Where a page of
the topic, a notebook or Markdown, says ``<!-- live: NAME -->``, it gets the figure. In JupyterLab
(``make lab``), a cell shows the same figure: ``from tools.live import turn; turn('roofline')``. In a notebook
the mark follows a line that says so, and the figure takes the place of both.
"""

import html
import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

import nbformat
from IPython.display import HTML

import live_figures
from live_figures import UNITS, Figure, Measurements, Number
from tested_results import ledgers
from tools import source
from tools.runs import latest
from tools.source import ROOT

MARK = re.compile(r'[^\n]*<!-- live: ([\w-]+) -->')


@dataclass(frozen=True)
class Runs:
    """What notebooks have measured.

    Args:
        found: their numbers and printed texts.
        machines: the machine of a run, by page.
        stored: pages that were not run here.
    """

    found: Measurements
    machines: dict[str, str]
    stored: frozenset[str]

    def origin(self, pages: set[str]) -> str:
        """A sentence on the pages that have measured a figure's numbers, as HTML."""
        links = ', '.join(f'<a href="../../{p}.html">{p.rsplit("/")[-1]}</a>' for p in sorted(pages))
        machines = dict.fromkeys(self.machines[p] for p in sorted(pages) if p in self.machines)
        run = 'a stored run' if pages & self.stored else 'this run'
        return f'≈ measured in {run} of the book on {html.escape(" and ".join(machines))}: {links}.'


def measured(shown: dict[str, nbformat.NotebookNode], stored: Iterable[str] = ()) -> Runs:
    """The numbers from which figures may start: results by id, a variant of a comparison as ``ID.VARIANT``.

    Args:
        shown: the notebooks with their outputs, by page name.
        stored: names of pages that were not run here.
    """
    numbers: dict[str, Number] = {}
    texts: dict[str, str] = {}
    machines: dict[str, str] = {}
    for page, nb in shown.items():
        printed = []
        for cell in nb.cells:
            for output in cell.get('outputs', []):
                printed.append(output.get('text') or output.get('data', {}).get('text/plain', ''))
        texts[page] = '\n'.join(printed)
        for claim in ledgers.claims_of(nb):
            machines.setdefault(page, claim.machine)
            if claim.value is not None:
                prefix = 1 if claim.unit == '%' else UNITS.get(claim.unit, 1)      # a share is stored as such
                numbers[claim.id] = Number(claim.value * prefix, page)
            for variant, seconds in claim.parts.items():        # of a comparison
                numbers[f'{claim.id}.{variant}'] = Number(seconds, page)
    return Runs(Measurements(numbers, texts), machines, frozenset(stored))


def render(name: str, figure: Figure, runs: Runs) -> str:
    """A figure as HTML for a page of the book."""
    return live_figures.render(name, figure, runs.found, runs.origin,
                               f"from tools.live import turn; turn('{name}')")


def insert(page: str, figures: dict[str, Figure], runs: Runs) -> str:
    """The page with its figures in the place of their marks.

    Raises:
        ValueError: a mark names no figure.
    """
    def put(m: re.Match) -> str:
        if m[1] not in figures:
            raise ValueError(f'the page asks for the live figure {m[1]!r}, and figures/live.py has '
                             f'{", ".join(figures)}')
        return render(m[1], figures[m[1]], runs)
    return MARK.sub(put, page)


def of_topic(topic: str) -> dict[str, Figure]:
    """The figures of a topic, by name."""
    return importlib.import_module(f'chapters.{topic}.figures.live').LIVE


def of_all_topics() -> dict[str, Figure]:
    """The figures of all topics, by name."""
    figures = {}
    for script in sorted(ROOT.glob('chapters/*/figures/live.py')):
        figures |= of_topic(script.parts[-3])
    return figures


def turn(name: str) -> HTML:
    """A figure for the output of a cell, with the figures of the last run here, or the stored ones.

    Raises:
        ValueError: there is no such figure; says which there are.
    """
    known = of_all_topics()
    if name not in known:
        raise ValueError(f'there is no figure {name!r}; there are {", ".join(known)}')
    shown, stored = {}, []
    for path in source.notebooks():
        page = path.relative_to(ROOT).with_suffix('').as_posix()
        shown[page], here = latest(path)
        if not here:
            stored.append(page)
    figure = render(name, known[name], measured(shown, stored))
    without_links = re.sub(r'<a href="[^"]*">(.*?)</a>', r'\1', figure)
    return HTML(live_figures.frame(known[name].title, without_links))
