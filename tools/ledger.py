"""The ledger: every claim of the book with the verdict of the run that the pages show."""

import html
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat

from d2l_local import machine
from d2l_local.claims import MARKS, METADATA_KEY, VERDICTS
from tools import prose
from tools.notebooks import ROOT


@dataclass(frozen=True)
class Entry:
    """One claim as a page shows it; ``stored`` if the page was not run here."""

    claim: dict
    page: str           # path without suffix, from the root
    stored: bool

    def link(self, source: str) -> str:
        """Relative address of the claim, seen from the page ``source``."""
        up = '../' * source.count('/')
        return f'{"" if source == self.page else up + self.page + ".html"}#claim-{self.claim["id"]}'


def page_name(path: Path, root: Path = ROOT) -> str:
    """A page's path without a suffix, from the root."""
    return path.relative_to(root).with_suffix('').as_posix()


def collect(nb: nbformat.NotebookNode, page: str, stored: bool) -> list[Entry]:
    """The claims in the outputs of a notebook."""
    return [Entry(dict(out.metadata[METADATA_KEY]), page, stored)
            for cell in nb.cells if cell.cell_type == 'code'
            for out in cell.outputs if METADATA_KEY in out.get('metadata', {})]


def machines(entries: list[Entry]) -> str:
    """The machines that measured these claims, each once: a cell that was refreshed alone may be
    from another one than its neighbours."""
    return ' and '.join(dict.fromkeys(e.claim['machine'] for e in entries))


def line(entries: list[Entry], seconds: float) -> str:
    """The ledger in one line."""
    counts = Counter(e.claim['verdict'] for e in entries)
    stored = sum(e.stored for e in entries)
    words = {'holds': 'hold', 'fails': 'fail'}
    parts = [f'{counts[v]} {words.get(v, v)}' for v in VERDICTS]
    parts += [f'{sum(len(prose.unclassified(prose.markdown(p))) for p in prose.pages())} unclassified']
    return (f'ledger: {len(entries)} claims: ' + ', '.join(parts) + f'; {seconds:.0f} s; '
            + (f'{stored} of them stored, not run here; ' if stored else '') + machine.describe())


def page(entries: list[Entry], summary: str) -> str:
    """The ledger as Markdown, to stand below the text of ``ledger.md``."""
    rows = [summary.replace('ledger: ', '**', 1).replace(' claims:', ' claims:**', 1), '']
    titles = {e.page: None for e in entries}
    for name in titles:
        mine = [e for e in entries if e.page == name]
        rows += [f'## [{title(name)}]({name})', '']
        if mine[0].stored:
            rows += [f'Not run here: stored outputs from {machines(mine)}.', '']
        rows += ['| verdict | claim | bound | measured |', '|---|---|---|---|']
        for e in mine:
            c = {k: html.escape(str(v)).replace('|', '\\|') for k, v in e.claim.items()}
            rows.append(f'| <span class="d2l-badge {css(c["verdict"])}">{MARKS[c["verdict"]]} '
                        f'{c["verdict"]}</span> | <a href="{e.link("ledger")}">{c["sentence"]}</a> '
                        f'| {c["bound"]} | {c["figure"] or c["reason"]} |')
        rows.append('')
    return '\n'.join(rows)


def css(verdict: str) -> str:
    """Class name of a verdict."""
    return 'd2l-' + verdict.split()[0]


def title(name: str) -> str:
    """The first heading of a page."""
    path = next(p for p in (ROOT / f'{name}.ipynb', ROOT / f'{name}.md') if p.exists())
    heads = [ln for ln in prose.markdown(path).split('\n') if ln.startswith('# ')]
    return heads[0].removeprefix('# ') if heads else name


def as_json(entries: list[Entry], summary: str) -> str:
    """The ledger as JSON, with the machine's description."""
    return json.dumps({
        'summary': summary, 'machine': machine.machine(),
        'claims': [{**e.claim, 'page': e.page, 'stored': e.stored} for e in entries],
    }, indent=1, ensure_ascii=False) + '\n'
