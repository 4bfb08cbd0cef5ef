"""The ledger: every claim of the book with the verdict of the run that the pages show."""

import csv
import html
import json
import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import nbformat
from latex2mathml import converter

from tested_results import comparing, ledgers, machine, numbers
from tested_results.claims import MARKS, VERDICTS, Claim
from tested_results.ledgers import Ledger, Record
from tools import quotations, source
from tools.source import ROOT

HERE, REFUTED = 'chapters/reference/ledger', 'chapters/reference/refuted'        # as pages are named
HISTORY = ('claim', 'sentence', 'machine', 'figure', 'what became of it')


@dataclass(frozen=True)
class Entry:
    """One claim as a page shows it; ``stored`` if the page was not run here."""

    claim: Claim
    page: str           # path without suffix, from the root
    stored: bool

    def link(self, seen_from: str) -> str:
        """Relative address of the claim, seen from another page."""
        up = '../' * seen_from.count('/')
        return f'{"" if seen_from == self.page else up + self.page + ".html"}#{self.claim.id}'


def page_name(path: Path) -> str:
    """A page's path without a suffix, from the root."""
    return path.relative_to(ROOT).with_suffix('').as_posix()


def collect(nb: nbformat.NotebookNode, page: str, stored: bool) -> list[Entry]:
    """The claims in the outputs of a notebook."""
    return [Entry(c, page, stored) for c in ledgers.claims_of(nb)]


def results(entries: Iterable[Entry]) -> dict[str, Claim]:
    """Their results by id."""
    return {e.claim.id: e.claim for e in entries}


def machines(entries: list[Entry]) -> str:
    """The machines that measured these claims, each once: a cell that was refreshed alone may be
    from another one than its neighbours."""
    return ' and '.join(dict.fromkeys(e.claim.machine for e in entries))


def line(entries: list[Entry], seconds: float) -> str:
    """The ledger in one line."""
    counts = Counter(e.claim.verdict for e in entries if e.claim.bounded)
    stored = sum(e.stored for e in entries if e.claim.bounded)
    words = {'holds': 'hold', 'fails': 'fail'}
    parts = [f'{counts[v]} {words.get(v, v)}' for v in VERDICTS]
    return (f'ledger: {sum(counts.values())} tested statements: ' + ', '.join(parts) + '; '
            + (f'{seconds:.0f} s; ' if any(not e.stored for e in entries) else '')
            + (f'{stored} of them stored, not run here; ' if stored else '')
            + machines(entries))


def by_kind(entries: list[Entry]) -> str:
    """How many results there are of each kind."""
    counts = Counter(e.claim.kind for e in entries if e.claim.bounded)
    return (f'Of the {sum(counts.values())} tested statements, {counts["ratio"]} compare two times and '
            f'{counts["estimate"]} rest on another repeated measurement, each with an interval; '
            f'{counts["count"]} are counts and {counts["fact"]} facts, which need none. '
            '[The methods](methods.md) say how a result is measured, and how often it is wrong.')


def refuted(stored: list[Ledger], entries: Iterable[Entry] = ()) -> str:
    """The statements that fail on a stored machine, in the run that is shown or in a further one.

    Args:
        stored: all ledgers; where several are of one kind of machine, a row names the release of PyTorch.
        entries: of the pages; those that were measured here and fail stand first.
    """
    pages = {}
    for path in source.pages():
        for call in quotations.calls(path):
            pages[call.id] = page_name(call.page)
    here = results(entries)
    rows = []
    for e in entries:
        if e.claim.verdict == 'fails' and not e.stored:
            sentence = _in_a_table(quotations.sentence(e.claim.id, here))
            figure = _in_a_table(e.claim.reading or 'not so')
            bound = _in_a_table(e.claim.bound)
            rows.append(f'| <a href="{e.link(REFUTED)}">{sentence}</a> | **this machine** | this one '
                        f'| {figure} | {bound} |')
    ledgers_of = Counter(led.kind for led in stored)
    for led in stored:
        machine = called(led, stored)
        if ledgers_of[led.kind] > 1:
            machine += f', PyTorch {led.machine["torch"]}'
        theirs = {id: record.result for id, record in led.records.items()}
        for id, record in led.records.items():
            if 'fails' not in record.verdicts or id not in pages:
                continue
            sentence = _in_a_table(quotations.sentence(id, theirs))
            bound = _in_a_table(record.result.bound)
            failed = f'{record.verdicts.count("fails")} of {len(record.verdicts)}'
            if len(record.verdicts) < len(record.runs):
                failed += ' judged'
            link = f'<a href="../../{pages[id]}.html#{id}">{sentence}</a>'
            rows.append(f'| {link} | {machine} | {failed} | {_figures(record)} | {bound} |')
    head = ['| sentence | fails on | in runs | measured | bound |', '|---|---|---|---|---|']
    return '\n'.join(head + rows) if rows else 'No statement fails on a machine whose ledger is stored.'


def called(led: Ledger, stored: Iterable[Ledger]) -> str:
    """A machine's name beside those of the others: its processor, or its kind if another has the same one."""
    processor = led.machine['processor']
    kinds = {other.kind for other in stored if other.machine['processor'] == processor}
    return led.kind if len(kinds) > 1 else processor


def of_releases(stored: Iterable[Ledger]) -> str:
    """What changed from one release of a framework to the next, on each machine with ledgers of several.

    Args:
        stored: all ledgers.
    """
    machines: dict[str, list[Ledger]] = {}
    for led in stored:
        machines.setdefault(led.kind, []).append(led)
    pages = {call.id: page_name(call.page) for path in source.pages() for call in quotations.calls(path)}
    parts = []
    for kind, several in machines.items():
        for old, new in pairwise(several):
            if ledgers.same_releases(old.machine, new.machine):
                continue
            theirs = {id: record.result for id, record in old.records.items()}
            found = [change for change in comparing.changes(old, new) if change.old.id in pages]
            both = len(old.records.keys() & new.records.keys())
            parts += [f'On {kind}, {len(found)} of {both} results changed:', '', *comparing.head(old, new)]
            for change in found:
                id = change.old.id
                sentence = _in_a_table(quotations.sentence(id, theirs))
                parts.append(change.row(f'<a href="../../{pages[id]}.html#{id}">{sentence}</a>'))
            parts.append('')
    return '\n'.join(parts) or 'No machine has ledgers of two releases yet.'


def history() -> str:
    """What was refuted before, from ``ledgers/refuted.csv``, as an HTML table for each topic."""
    with (ROOT / 'ledgers' / 'refuted.csv').open(newline='') as f:
        rows = list(csv.DictReader(f))
    rows_by_topic: dict[str, list[str]] = {}
    for row in rows:
        cells = ''.join(f'<td>{html.escape(row[column])}</td>' for column in HISTORY)
        rows_by_topic.setdefault(row['topic'], []).append(f'<tr>{cells}</tr>\n')
    head = ''.join(f'<th scope="col">{column}</th>' for column in HISTORY)
    parts = []
    for name, body in rows_by_topic.items():
        table = (f'<table class="table"><thead><tr>{head}</tr></thead>'
                 f'<tbody>\n{"".join(body)}</tbody></table>')
        around = f'<div class="d2l-ledger" tabindex="0" role="group" aria-label="{name}">'
        parts += [f'### {name}', '', f'{around}{table}</div>', '']
    return '\n'.join(parts)


def _in_a_table(text: str) -> str:
    """Text as HTML in a cell of a Markdown table."""
    return html.escape(text).replace('|', '\\|')


def _figures(record: Record) -> str:
    """What a machine measured: the figure of one run, or the medians of all."""
    if len(record.runs) > 1:
        return ', '.join(numbers.figure(x) for x in record.runs)
    return record.result.reading or 'not so'


def outcome(verdicts: list[str]) -> str:
    """``holds on 2 of 3``: of the machines that have a verdict."""
    decided = [v for v in verdicts if v in ('holds', 'fails')]
    return f'holds on {decided.count("holds")} of {len(decided)}' if decided else 'not tested yet'


def badge(verdict: str) -> str:
    """A verdict as a mark with its word."""
    return f'<span class="d2l-badge {css(verdict)}">{MARKS[verdict]} {verdict}</span>'


def badges(record: Record) -> str:
    """A machine's verdict, and in how many of its runs it was another one."""
    first = record.result.verdict
    lines = [badge(first)]
    for verdict in VERDICTS:
        if verdict != first and verdict in record.verdicts:
            n = record.verdicts.count(verdict)
            lines.append(f'{badge(verdict)} in {n} of {len(record.verdicts)} runs')
    return '<br>'.join(lines)


def page(entries: list[Entry], summary: str, stored: list[Ledger], asked: dict[str, str]) -> str:
    """The ledger as Markdown with one table, to stand below the text of ``ledger.md``.

    Args:
        asked: for results that the book asks to guess, the address of the question.
    """
    names = ['this run', *(called(led, stored) for led in stored)]
    rows = [summary.replace('ledger: ', '**', 1).replace(' statements:', ' statements:**', 1), '',
            by_kind(entries), '', '| machine | what it is |', '|---|---|',
            f'| this run | {machines(entries)} |']
    for name, led in zip(names[1:], stored, strict=True):
        about = f'{led.kind}; Python {led.machine["python"]}'
        if led.part:
            about += f'; only {led.part}'
        rows.append(f'| {name} | {about} |')
    rows += ['', f'<div class="d2l-filter" data-machines="{html.escape("|".join(names))}"></div>', '',
             table(entries, results(entries), names, stored, asked), '']
    return '\n'.join(rows)


def table(entries: list[Entry], said: dict[str, Claim], names: list[str], stored: list[Ledger],
          asked: dict[str, str]) -> str:
    """Tested results as one HTML table, below the names of their pages; other machines are in the details.

    The attributes of a row are what the scripts ask for.

    Args:
        said: all results, whose numbers stand in the sentences.
        names: of the machines: this run, and then those of the ledgers.
    """
    head = ''.join(f'<th scope="col">{name}</th>' for name in ('statement', 'this run', 'all machines'))
    body = []
    for name in dict.fromkeys(e.page for e in entries):
        mine = [e for e in entries if e.page == name]
        head_of_page = heading(name)
        if mine[0].stored:
            whose = html.escape(machines(mine))
            head_of_page += f' <small>Not run here: stored outputs from {whose}.</small>'
        body.append(f'<tr class="d2l-page"><th scope="rowgroup" colspan="3">{head_of_page}</th></tr>')
        body += [row(e, said, names, stored, asked) for e in mine if e.claim.bounded]
    return ('<div class="d2l-ledger d2l-one"><table class="table"><thead><tr>'
            + head + '</tr></thead><tbody>\n' + '\n'.join(body) + '\n</tbody></table></div>')


def heading(name: str) -> str:
    """The title of a page with a link to it, seen from the ledger."""
    words = as_html(title(name))
    return f'<a href="{posixpath.relpath(name, posixpath.dirname(HERE))}.html">{words}</a>'


def row(e: Entry, said: dict[str, Claim], names: list[str], stored: list[Ledger],
        asked: dict[str, str]) -> str:
    """One result: its sentence, what this run found, and in the details its bound and each machine."""
    c = e.claim
    records = [led.records.get(c.id) for led in stored]
    verdicts = [record.result.verdict if record else '' for record in records]
    hidden = ''
    if c.id in asked and c.value:       # until guessed
        hidden = f' data-id="{c.id}" data-asked="../../{html.escape(asked[c.id])}"'
    needs = ''
    if c.needs:
        needs = f'<li>conditions: {html.escape(", ".join(c.needs))}</li>'
    of_machines = ''
    for name, record in zip(names[1:], records, strict=True):
        if record:
            of_machines += f'<li>{html.escape(name)}: {badges(record)}</li>'
    return (f'<tr data-topic="{topic(e.page)}" data-needs="{"|".join(c.needs)}" '
            f'data-verdicts="{"|".join([c.verdict, *verdicts])}"><th scope="row"{hidden}>'
            f'<a href="{e.link(HERE)}">{as_html(quotations.sentence(c.id, said, asked))}</a></th>'
            f'<td>{badge(c.verdict)} '
            f'<span class="d2l-figure">{html.escape(c.reading or c.reason)}</span></td>'
            f'<td><details><summary>{outcome(verdicts or [c.verdict])}</summary><ul><li>{c.kind}, '
            f'{html.escape(c.bound)}</li>{needs}{of_machines}</ul></details></td></tr>')


def as_html(sentence: str) -> str:
    """A sentence of Markdown as HTML: its code and its formulas; of other marks it has none."""
    parts = re.split(r'(`[^`]+`|\$[^$]+\$)', sentence)
    for i, part in enumerate(parts):
        if i % 2 == 0:          # what stands between them
            parts[i] = html.escape(part)
        elif part.startswith('`'):
            parts[i] = f'<code>{html.escape(part[1:-1])}</code>'
        else:
            parts[i] = converter.convert(part[1:-1])
    return ''.join(parts)


def topic(name: str) -> str:
    """The topic that a page belongs to: its folder."""
    return name.split('/')[-2].replace('_', ' ') if '/' in name else name


def css(verdict: str) -> str:
    """Class name of a verdict."""
    return 'd2l-' + verdict.split()[0]


def title(name: str) -> str:
    """The first heading of a page, or its name if it has none or is not there."""
    path = next((p for p in (ROOT / f'{name}.ipynb', ROOT / f'{name}.md') if p.exists()), None)
    if path is None:
        return name
    heads = [ln for ln in quotations.markdown(path).split('\n') if ln.startswith('# ')]
    return heads[0].removeprefix('# ') if heads else name


def as_json(entries: list[Entry], summary: str, asked: Collection[str]) -> str:
    """The ledger as JSON, with the machine's description.

    Args:
        asked: results that the book asks to guess; a sentence about another one gives no number of them away.
    """
    said = results(entries)
    return json.dumps({
        'summary': summary, 'machine': machine.machine(),
        'claims': [{**e.claim.data(), 'sentence': quotations.sentence(e.claim.id, said, asked),
                    'reading': e.claim.reading, 'bound': e.claim.bound, 'page': e.page,
                    'stored': e.stored} for e in entries],
    }, indent=1, ensure_ascii=False) + '\n'
