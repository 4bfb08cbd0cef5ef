"""The ledger: every claim of the book with the verdict of the run that the pages show."""

import csv
import html
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat

from d2l_local import machine, timing
from d2l_local.claims import MARKS, VERDICTS
from tools import ledgers, prose
from tools.ledgers import Ledger
from tools.notebooks import ROOT

WRONG = 2 / 2 ** timing.STRETCHES       # all stretches on one side of a bound that is the truth
HISTORY = ('claim', 'sentence', 'machine', 'figure', 'what became of it')
LOOKS = 2                               # within a reader's budget: at the span, and at its end


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
    return [Entry(c, page, stored) for c in ledgers.claims_of(nb)]


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
            + (f'{stored} of them stored, not run here; ' if stored else '')
            + machines(entries))


def by_kind(entries: list[Entry]) -> str:
    """How many claims there are of each kind, and how likely a wrong verdict is among those measured."""
    counts = Counter(e.claim['kind'] for e in entries)
    measured = counts['ratio'] + counts['figure']
    p = WRONG * LOOKS
    return (f'Of the {len(entries)} claims, {counts["ratio"]} are ratios of times and '
            f'{counts["figure"]} other measured figures, each with an interval; {counts["count"]} are '
            f'counts and {counts["fact"]} facts, which need none.\n\n**The chance of a wrong verdict.** '
            f'Suppose the worst: each of the {measured} measured truths lies exactly on its bound, so '
            f'that any verdict is wrong. With independent stretches of time a claim gets one in {p:.1%} '
            f'of runs, and the book at least one in {1 - (1 - p) ** measured:.0%}. Bounds leave room, '
            'which makes it rarer; disturbances as long as a measurement make it more frequent, and the '
            'columns of other machines are there to find them.')


def refuted(stored: list[Ledger]) -> str:
    """The claims that fail on a stored machine, in the run that is shown or in a further one."""
    pages = {c.id: page_name(c.page) for p in prose.pages() for c in prose.claim_calls(p)}
    rows = []
    for led in stored:
        for id, c in led.claims.items():
            if 'fails' in c['verdicts'] and id in pages:
                sentence, bound = (html.escape(c[k]).replace('|', '\\|') for k in ('sentence', 'bound'))
                rows.append(f'| <a href="{pages[id]}.html#claim-{id}">{sentence}</a> '
                            f'| {led.machine["processor"]} | {c["verdicts"].count("fails")} of '
                            f'{len(c["verdicts"])}{" judged" * (len(c["verdicts"]) < len(c["runs"]))} '
                            f'| {_figures(c)} | {bound} |')
    head = ['| sentence | fails on | in runs | measured | bound |', '|---|---|---|---|---|']
    return '\n'.join(head + rows) if rows else 'No claim fails on a machine whose ledger is stored.'


def history() -> str:
    """What was refuted before, from ``ledgers/refuted.csv``, as an HTML table for each topic."""
    with (ROOT / 'ledgers' / 'refuted.csv').open(newline='') as f:
        rows = list(csv.DictReader(f))
    parts = []
    for name in dict.fromkeys(r['topic'] for r in rows):
        body = ''.join('<tr>' + ''.join(f'<td>{html.escape(r[c])}</td>' for c in HISTORY) + '</tr>\n'
                       for r in rows if r['topic'] == name)
        head = ''.join(f'<th scope="col">{c}</th>' for c in HISTORY)
        parts += [f'### {name}', '', '<div class="d2l-ledger" tabindex="0" role="group" aria-label="'
                  f'{name}"><table class="table"><thead><tr>' + head
                  + '</tr></thead><tbody>\n' + body + '</tbody></table></div>', '']
    return '\n'.join(parts)


def _figures(c: dict) -> str:
    """What a machine measured: the figure of one run, or the medians of all."""
    runs = ', '.join(map(timing.show_figure, c['runs']))
    return runs if len(c['runs']) > 1 else c['figure'] or 'not so'


def outcome(verdicts: list[str]) -> str:
    """``holds on 2 of 3``: of the machines that have a verdict."""
    decided = [v for v in verdicts if v in ('holds', 'fails')]
    return f'holds on {decided.count("holds")} of {len(decided)}' if decided else 'not tested yet'


def badge(verdict: str) -> str:
    """A verdict as a mark with its word."""
    return f'<span class="d2l-badge {css(verdict)}">{MARKS[verdict]} {verdict}</span>'


def badges(old: dict | None) -> str:
    """A machine's verdict, and in how many of its runs it was another one."""
    if old is None:
        return '–'
    all_runs, first = old['verdicts'], old['verdict']
    return badge(first) + ''.join(f'<br>{badge(v)} in {all_runs.count(v)} of {len(all_runs)} runs'
                                  for v in VERDICTS if v != first and v in all_runs)


def page(entries: list[Entry], summary: str, stored: list[Ledger]) -> str:
    """The ledger as Markdown with one table for each page, to stand below the text of ``ledger.md``."""
    names = ['this run', *(led.machine['processor'] for led in stored)]
    rows = [summary.replace('ledger: ', '**', 1).replace(' claims:', ' claims:**', 1), '',
            by_kind(entries), '', '| column | machine |', '|---|---|',
            f'| this run | {machines(entries)} |']
    rows += [f'| {name} | {led.kind}; Python {led.machine["python"]} |'
             for name, led in zip(names[1:], stored, strict=True)]
    rows += ['', f'<div class="d2l-filter" data-machines="{html.escape("|".join(names))}"></div>', '']
    for name in dict.fromkeys(e.page for e in entries):
        mine = [e for e in entries if e.page == name]
        rows += [f'## [{title(name)}]({name})', '']
        if mine[0].stored:
            rows += [f'Not run here: stored outputs from {machines(mine)}.', '']
        rows += [table(mine, names, stored), '']
    return '\n'.join(rows)


def table(entries: list[Entry], names: list[str], stored: list[Ledger]) -> str:
    """Claims × machines as an HTML table; the attributes of a row are what the filters ask for."""
    head = ''.join(f'<th scope="col">{html.escape(n)}</th>' for n in
                   ('claim', 'kind and bound', 'measured in this run', *names, 'all machines'))
    body = []
    for e in entries:
        c = {k: html.escape(str(v)) for k, v in e.claim.items()}
        found = [led.same(e.claim) for led in stored]
        others = [old['verdict'] if old else '' for old in found]
        verdicts = [e.claim['verdict'], *others]
        cells = ''.join(f'<td>{x}</td>' for x in (badge(e.claim['verdict']), *map(badges, found)))
        body.append(
            f'<tr data-topic="{topic(e.page)}" data-needs="{"|".join(e.claim["needs"])}" '
            f'data-verdicts="{"|".join(verdicts)}"><th scope="row"><a href="{e.link("ledger")}">'
            f'{c["sentence"]}</a></th><td>{c["kind"]}, {c["bound"]}</td>'
            f'<td>{c["figure"] or c["reason"]}</td>{cells}<td>{outcome(others or verdicts)}</td></tr>')
    return ('<div class="d2l-ledger"><table class="table"><thead><tr>' + head + '</tr></thead><tbody>\n'
            + '\n'.join(body) + '\n</tbody></table></div>')


def topic(name: str) -> str:
    """The topic that a page belongs to: its folder."""
    return name.split('/')[-2].replace('_', ' ') if '/' in name else name


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
