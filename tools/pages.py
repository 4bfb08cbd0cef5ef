"""The pages: the notebooks' outputs, the verdicts beside the sentences, the ledger, and Jupyter Book."""

import ast
import contextlib
import copy
import hashlib
import itertools
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import nbformat
import yaml

import live_figures
from tested_results import claims, predictions
from tested_results.claims import Claim
from tested_results.ledgers import Ledger, one_of_each_kind, with_results_of_other_machines
from tested_results.numbers import Misfit
from tested_results.quoting import rendered
from tools import (
    bibliography,
    cards,
    entries,
    exercises,
    ledger,
    ledger_page,
    live,
    markup,
    orders,
    questions,
    quotations,
    runs,
    searching,
    source,
    stubs,
    terms,
)
from tools.source import ROOT
from tools.theme import draw

BUILD = ROOT / '_build'
PICTURES = ('.svg', '.png')
SHOWN = ('.css', '.js', '.svg', '.woff2')         # of the theme
# What the theme and the extensions put into pages, and what stands there instead; see :func:`repair`.
REPAIRS = {name: (re.compile(pattern, re.DOTALL), instead) for name, pattern, instead in (
    # Nobody needs a live kernel, whose script is declared twice.
    ('the address of a live kernel', r'<script>const THEBE_JS_URL.*?</script>', ''),
    ('the files of a live kernel', r'<(?:script|link)[^>]*sphinx-thebe[^>]*>(?:</script>)?', ''),
    ('the settings of a live kernel', r'<script type="text/x-thebe-config">.*?</script>', ''),
    # Half a megabyte that draws icons, which the style sheet shows as well.
    ('a script of icons', r'<script src="[^"]*/fontawesome/[^"]*"></script>', ''),
    # A library of 80 KB for a menu and for the section in sight, which contents.js sees to.
    ('Bootstrap', r'<link [^>]*/bootstrap\.js[^>]*>\s*|<script src="[^"]*/bootstrap\.js[^"]*"></script>', ''),
    # An error where the pages are files.
    ('fonts loaded ahead of their use', r'<link rel="preload" as="font"[^>]*>', ''),
    ('an id that stands more than once', r' id="(?:exercise|solution)-content"', ''),
    # They ask for other roles, which are not there.
    ('the role of an entry of the bibliography', r' role="doc-biblioentry"', ''),
    ('the role of a list', r'(?<=<div) role="list"', ''),
    ('no mode of colours', re.escape('getItem("mode") || ""'), 'getItem("mode") || "auto"'),
    # On the page of results there is a second field.
    ('a second field with the id of the search', r'(id="search-input".*?)id="search-input"',
     r'\1id="search-again"'),
    # The book has its own, with excerpts from files too.
    ('a search by Sphinx',
     r'<script src="_static/searchtools.js"></script>\s*<script src="_static/language_data.js"></script>\s*'
     r'<script src="searchindex.js"></script>', f'<script src="{searching.NAME}"></script>'),
    # As a landmark with a name.
    ('the side bar', '<div class="bd-sidebar-primary ',
     '<div role="complementary" aria-label="The book" class="bd-sidebar-primary '),
)}
FIRST = 'msr-pt-all'           # the result that the first page shows
LEARN = re.compile(r'<!-- learn: (.*?) -->', re.DOTALL)      # in a topic's first page: what one learns there
FIGURE = re.compile(r'```\{figure\} (\S+)\n:alt: (.*)')
IMAGE = re.compile(r'_images/([^"]+)"')         # in an address
SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
MOVED = ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><title>This page has moved</title>'
         '<script>location.replace("{0}" + location.hash)</script>'
         '<meta http-equiv="refresh" content="1; url={0}"/>'
         '</head><body><p>This page <a href="{0}">has moved</a>.</p></body></html>\n')
# Pages that are gone, each with the one that has what was worth keeping.
GONE = {'chapters/transformer/case_study_pytorch': '../your_script/diagnosis_pytorch'}
# Pages that gave a part to another page, which has the sections and results that they have no more.
DIVIDED = {'chapters/hybridization/hybridization_pytorch': 'graphs_pytorch',
           'chapters/hybridization/practice_pytorch': 'graphs_pytorch',
           'chapters/hardware/hardware_pytorch': 'hardware_gpu_pytorch',
           'chapters/splitting/combined_pytorch': 'experts_pytorch',
           'chapters/splitting/planner': 'planner_tested',
           'chapters/transformer/serving_pytorch': 'serving_many_pytorch'}
ON_THE_OTHER = ('<script>document.addEventListener("DOMContentLoaded", () => {{'
                'const id = decodeURIComponent(location.hash.slice(1));'
                'if (id && !document.getElementById(id)) location.replace("{0}.html" + location.hash);'
                '}});</script>')
# In a source tree, and among the pages made from it: the same word, as long as neither gave way to others.
MADE = '.made'
RUN = uuid.uuid4().hex          # this run of the program


def put(path: Path, text: str) -> bool:
    """Write a file if it would change; tell if it did."""
    if path.exists() and path.read_text() == text:
        return False
    source.put_whole(path, text)
    return True


# What all pages are made from ----------------------------------------------------------------------

@dataclass(frozen=True)
class Question:
    """A guess that a notebook asks for, before it shows the result."""

    id: str             # of the result
    words: str
    page: str           # path without suffix, from the root

    @property
    def address(self) -> str:
        """Where the question stands, from the root of the pages."""
        return f'{self.page}.html#ask-{self.id}'


@dataclass(frozen=True)
class Book:
    """What all pages are made from; it is computed before the first page, and no page changes it.

    Args:
        entries: the results of the notebooks that are shown, in reading order.
        quotable: what the text may quote, by id: these results, and the stored one where they lack it.
        with_numbers: results of the stored run or of a ledger, by id; their number stands in the text
            where the shown run has none.
        ledgers: of other machines, one of each kind.
        releases: all ledgers, also those of other releases of the frameworks.
        homes: for each result, by id, the page to whose sentence its box leads (:func:`homes`).
        questions: by the id of the result, in reading order.
        stored: the names of the pages that were not run here.
        live_numbers: from which the figures start that a reader can turn.
        summary: the ledger in one line.
    """

    entries: list[ledger_page.Entry]
    quotable: dict[str, ledger_page.Entry]
    with_numbers: dict[str, Claim] = field(default_factory=dict)
    ledgers: list[Ledger] = field(default_factory=list)
    releases: list[Ledger] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    live_numbers: live.Runs | None = None
    summary: str = ''

    @property
    def asked(self) -> dict[str, str]:
        """The addresses of the questions, by the id of the result."""
        return {id: question.address for id, question in self.questions.items()}

    @classmethod
    def of(cls, shown: dict[Path, nbformat.NotebookNode], old: set[Path]) -> 'Book':
        """The book with these notebooks.

        Args:
            shown: the notebooks with the outputs to show, in reading order.
            old: those of them that were not run here.
        """
        notebooks = {ledger_page.page_name(path): nb for path, nb in shown.items()}
        not_run = frozenset(ledger_page.page_name(path) for path in old)
        entries: list[ledger_page.Entry] = []
        stored: list[ledger_page.Entry] = []
        questions: dict[str, Question] = {}
        for path, nb in shown.items():
            name = ledger_page.page_name(path)
            entries += ledger_page.collect(nb, name, path in old)
            stored += ledger_page.collect(source.read(path), name, True)
            for _, asked in outputs(nb, predictions.METADATA_KEY):
                questions[asked['id']] = Question(asked['id'], asked['question'], name)
        every_ledger = ledger.all_ledgers()
        machines = one_of_each_kind(every_ledger)
        quotable = {e.claim.id: e for e in [*stored, *entries]}
        seconds = sum(e.claim.seconds for e in entries if not e.stored)
        # A sentence of a notebook comes before those of the other pages.
        texts = [*shown, *(p for p in source.pages() if p.suffix == '.md')]
        quoted: list[tuple[str, str]] = []
        for path in texts:
            quoted += [(ledger_page.page_name(path), link.id) for link in quotations.links(path)]
        return cls(
            entries=entries,
            quotable=quotable,
            with_numbers=with_results_of_other_machines({e.claim.id: e.claim for e in stored}, machines),
            ledgers=machines,
            releases=every_ledger,
            homes=homes(quotable, quoted),
            questions=questions,
            stored=not_run,
            live_numbers=live.measured(notebooks, not_run),
            summary=ledger_page.line(entries, seconds))


def outputs(nb: nbformat.NotebookNode, key: str) -> Iterator[tuple[nbformat.NotebookNode, dict]]:
    """The outputs of a notebook that have such metadata, each with them."""
    for cell in nb.cells:
        for output in cell.get('outputs', []):
            if data := output.get('metadata', {}).get(key):
                yield output, data


def homes(results: dict[str, ledger_page.Entry], quoted: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each result that a page quotes, the page that measures it if that quotes it; else the first.

    Args:
        results: by id; others count for nothing.
        quoted: the name of a page and the id of a result that it quotes, in the order of the book.
    """
    found: dict[str, str] = {}
    for page, id in quoted:
        if id in results and (id not in found or page == results[id].page):
            found[id] = page
    return found


# One page ------------------------------------------------------------------------------------------

@dataclass
class Document:
    """A page on its way from its source to what Sphinx reads: a notebook, or one cell of Markdown.

    The processors change it one after another; each takes the document and the book, and returns nothing.
    """

    path: Path
    notebook: nbformat.NotebookNode

    @classmethod
    def of_markdown(cls, path: Path, text: str) -> 'Document':
        """A Markdown file."""
        return cls(path, nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)]))

    @property
    def name(self) -> str:
        """The path without suffix, from the root."""
        return ledger_page.page_name(self.path)

    @property
    def up(self) -> str:
        """The way from the page to the root of the book."""
        return '../' * self.name.count('/')

    def texts(self) -> list[nbformat.NotebookNode]:
        """The cells of Markdown."""
        return [cell for cell in self.notebook.cells if cell.cell_type == 'markdown']

    def written(self) -> str:
        """The content of the file for Sphinx."""
        if self.path.suffix == '.md':
            return self.notebook.cells[0].source
        return nbformat.writes(self.notebook)


def page(document: Document, book: Book) -> str:
    """A page as Sphinx reads it: each processor for its kind goes over the document once, in their order."""
    for process in PROCESSORS[document.path.suffix]:
        process(document, book)
    return document.written()


def say_where_it_ran(document: Document, book: Book) -> None:
    """Say below a notebook's title whether its outputs are from here, and from which machine."""
    mine = [e for e in book.entries if e.page == document.name]
    same_everywhere = mine and all(e.claim.kind in ('count', 'fact') for e in mine)
    can_run = not source.missing(source.framework(document.path))
    if document.name not in book.stored:
        note = measured_note(document.path, mine)
    elif same_everywhere and can_run:
        note = ''
    else:
        note = not_run_note(document.path, mine)
    if note:
        first = document.notebook.cells[0]
        title, _, rest = first.source.partition('\n')
        first.source = f'{title}\n\n{note}\n{rest}'


def not_run_note(path: Path, entries: list[ledger_page.Entry]) -> str:
    """Says that a page shows stored outputs, from which machine, and why.

    Args:
        entries: the results of this page.
    """
    reason = source.missing(source.framework(path))
    if reason:
        what, kind = 'Not re-run here', 'warning'
        why = f'{reason}.'
    else:
        what, kind = 'Not measured here yet', 'note'
        why = '`make book` replaces them by those of your machine.'
    where = f' of {ledger_page.machines(entries)}' if entries else ''
    return (f'```{{admonition}} {what}\n:class: {kind}\nThe outputs on this page '
            f'are stored ones{where}: {why}\n```')


def measured_note(path: Path, entries: list[ledger_page.Entry]) -> str:
    """Says that the numbers on a page are this machine's, and when they were measured; may be empty.

    Args:
        entries: the results of this page.
    """
    kept = runs.EXECUTED / path.relative_to(ROOT)
    if not entries or not kept.exists():
        return ''
    when = time.strftime('%Y-%m-%d', time.localtime(kept.stat().st_mtime))
    return (f'<p class="d2l-whose">The numbers on this page were measured on this '
            f'machine, {when}: {escape(ledger_page.machines(entries))}.</p>')


def write_for_sphinx(document: Document, book: Book) -> None:
    """Write directives and roles in the place of plain Markdown."""
    for cell in document.texts():
        id = cell.id if document.path.suffix == '.ipynb' else ''
        cell.source = markup.for_sphinx(cell.source, document.name, id)


def list_sources(document: Document, book: Book) -> None:
    """On the page of sources, Sphinx's own lists in the place of plain ones."""
    for cell in document.texts():
        cell.source = bibliography.for_sphinx(cell.source)


def link_solutions(document: Document, book: Book) -> None:
    """Lead from exercises to their solutions and stubs, and ask for answers where the page can check them."""
    for cell in document.texts():
        text = questions.with_forms(exercises.with_solutions(cell.source))
        cell.source = stubs.with_ways(text, document.path.parent)


def link_terms(document: Document, book: Book) -> None:
    """Lead from the first use of each term to the glossary, which itself stays as it is."""
    if document.path.stem == 'glossary':
        return
    seen: set[str] = set()
    for cell in document.texts():
        cell.source = terms.link(cell.source, seen)


def quote(document: Document, book: Book) -> None:
    """Put the shown run's numbers into the links that quote results, with a mark and a card.

    The first link to a result on the page that is its home gets the anchor that :func:`point_back` leads to.
    """
    anchored: set[str] = set()

    def replace(m: re.Match) -> str:
        words, id, part = m[1], m[2], m[3] or ''
        if id not in book.quotable:
            return words
        entry = book.quotable[id]
        claim, other = entry.claim, book.with_numbers.get(id)
        anchor = asked = whose_number = ''
        if book.homes.get(id) == document.name and id not in anchored:
            anchored.add(id)
            anchor = f'said-{id}'
        if id in book.questions and claim.value:
            asked = document.up + book.questions[id].address
        if claim.value is None and other and other.value is not None:
            whose_number = other.machine
        with contextlib.suppress(Misfit):       # a test names it; the page shows the source's
            words = rendered(words, claim, part)
        return cards.link(words, claim, entry.link(document.name), entry.stored, book.ledgers,
                          f'{document.up}{ledger_page.HERE}.html', anchor, asked, whose_number)

    for cell in document.texts():
        cell.source = quotations.LINK.sub(replace, cell.source)


def point_back(document: Document, book: Book) -> None:
    """Fold each result at its cell, and lead from it to the sentence that quotes it."""
    for output, data in outputs(document.notebook, claims.METADATA_KEY):
        entry = book.quotable[data['id']]
        home = book.homes.get(entry.claim.id, document.name)
        file = '' if home == document.name else f'{document.up}{home}.html'
        output.data['text/html'] = cards.box(entry.claim, entry.stored, book.ledgers,
                                             f'{file}#said-{entry.claim.id}', statement(entry.claim.id, book))


def statement(id: str, book: Book) -> str:
    """The sentence that quotes a result, without the numbers of others that are asked for."""
    results = {other: entry.claim for other, entry in book.quotable.items()}
    return quotations.sentence(id, results, book.questions)


def split_off_questions(document: Document, book: Book) -> None:
    """Show the questions at the end of a cell without their calls."""
    document.notebook.cells = list(itertools.chain.from_iterable(map(asking, document.notebook.cells)))


def asking(cell: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """A code cell in two: what it does, and the questions at its end; a page hides their calls."""
    if cell.cell_type != 'code' or cell.source.startswith('%%'):
        return [cell]
    ids = set()
    first = None                # the line of the first question at the end
    for statement in reversed(source.tree(cell.source).body):
        id = quotations.claimed(statement.value, ('predict',)) if isinstance(statement, ast.Expr) else None
        if not id:
            break
        ids.add(id)
        first = statement.lineno - 1
    if first is None:
        return [cell]
    lines = cell.source.split('\n')
    code = copy.deepcopy(cell)
    code.source = '\n'.join(lines[:first]).rstrip()
    code.outputs = []
    asked = copy.deepcopy(cell)
    asked.source = '\n'.join(lines[first:])
    asked.outputs = []
    asked.id += '-predict'
    asked.metadata = nbformat.from_dict({'tags': ['remove-input']})
    for output in cell.outputs:
        question = output.get('metadata', {}).get(predictions.METADATA_KEY, {})
        part = asked if question.get('id') in ids else code
        part.outputs.append(output)
    return [code, asked] if code.source or code.outputs else [asked]


def ask(document: Document, book: Book) -> None:
    """Give each question the figure that ``predict.js`` compares a guess with.

    Without that script, or where nothing was measured, the question stands before its result.
    """
    for output, data in outputs(document.notebook, predictions.METADATA_KEY):
        id = data['id']
        claim = book.quotable[id].claim if id in book.quotable else None
        more = ''
        if claim is not None and claim.value:
            known = {'value': claim.value, 'figure': claim.reading, 'unit': claim.unit,
                     'topic': document.name.split('/')[-2], 'up': document.up}
            more = ''.join(f' data-{name}="{escape(str(value))}"' for name, value in known.items())
        output.data['text/html'] = (f'<div class="d2l-predict" id="ask-{id}" data-claim="{id}"{more}>'
                                    f'<p><b>Guess first.</b> {escape(data["question"])}</p></div>')


def guesses(questions: Iterable[Question]) -> str:
    """All questions of the book; ``predict.js`` puts what the reader guessed beside them."""
    rows, last = [], ''
    for question in questions:
        if question.page != last:
            title = ledger_page.as_html(ledger_page.title(question.page))
            rows.append(f'<tr><th colspan="4" scope="rowgroup">{title}</th></tr>')
            last = question.page
        rows.append(f'<tr data-claim="{question.id}"><td>'
                    f'<a href="../../{question.address}">{escape(question.words)}</a></td></tr>')
    return ('<div class="d2l-guesses d2l-ledger"><table class="table"><thead><tr>'
            '<th scope="col">question</th></tr></thead><tbody>\n' + '\n'.join(rows)
            + '\n</tbody></table></div>')


def counted(entries: list[ledger_page.Entry]) -> str:
    """The ledger in one line, for the first page: how many tested statements have each verdict, and where."""
    counts = Counter(e.claim.verdict for e in entries if e.claim.bounded)
    badges = ' '.join(f'<a class="d2l-badge {ledger_page.css(v)}" href="../reference/ledger.html?verdict='
                      f'{v.replace(" ", "+")}">{mark} {counts[v]} {v.removesuffix("s")}</a>'
                      for v, mark in ledger_page.MARKS.items())
    return f'{badges} on {ledger_page.machines(entries)}.'


def one_result(book: Book) -> str:
    """The result of the first sentence of the book with its card open; empty if it is asked for."""
    if FIRST not in book.quotable or FIRST in book.questions:
        return ''
    entry, front = book.quotable[FIRST], source.toc()[0]
    said = cards.lines(entry.claim, entry.stored, book.ledgers)
    opened = cards.card(said, entry.link(front), f'{"../" * front.count("/")}{ledger_page.HERE}.html')
    return (f'<div class="d2l-shown {ledger_page.css(entry.claim.verdict)}" role="group" '
            'aria-label="A result with its card"><span>Each measured number of this book has such a card; '
            f'point at one, move to it with Tab, or tap it.</span>{opened}</div>')


def yours(book: Book) -> str:
    """How many notebooks show this machine's numbers, where to go on, and a place for ``read.js``."""
    names = [ledger_page.page_name(path) for path in source.notebooks()]
    others = [name for name in names if name in book.stored]
    count = len(names) - len(others)
    if not others:
        said = f'All {count} notebooks are yours: they show numbers of your machine.'
    else:
        next_one = f'[{ledger_page.title(others[0])}](../../{others[0]}.ipynb)'
        why = ('they show numbers of your machine, and the others those of ours' if count
               else 'until `make book` has measured, all numbers are those of our machines')
        said = f'**{count} of {len(names)} notebooks are yours**: {why}. Continue with {next_one}.'
    solved = ' '.join(questions.solved())
    return (f'{said}\n\n<div class="d2l-continue" data-pages="{len(source.toc())}" data-solved="{solved}">'
            '</div>')


def wide(figure: Path) -> bool:
    """Whether a drawing fits a card: a tall one would be too small to see."""
    width, height = map(float, SIZE.search(figure.read_text()).groups())
    return width > 1.1 * height


def topics() -> str:
    """A card for each topic, in reading order: what one learns, and the first wide figure."""
    cards = [card_of_topic(page) for page in source.toc() if page.endswith('/index')]
    return '::::{grid} 1 2 2 2\n:gutter: 3\n\n' + '\n'.join(cards) + '::::'


def card_of_topic(page: str) -> str:
    """The card of a topic, whose first page is given, as a directive."""
    folder = posixpath.dirname(page)
    text = quotations.markdown(ROOT / f'{page}.md')
    title = text.partition('\n')[0].removeprefix('# ')
    lines = [f':::{{grid-item-card}} {title}', f':link: /{page}', ':link-type: doc']
    figures = FIGURE.findall(text)
    wide_ones = [found for found in figures if wide(ROOT / folder / found[0])]
    if figures:
        figure, alt = (wide_ones or figures)[0]
        lines += [f':img-bottom: ../../{folder}/{figure}', f':img-alt: {alt}']
    learn = LEARN.search(text)
    lines += ['', learn[1] if learn else '', ':::', '']
    return '\n'.join(lines)


# What a comment in a Markdown page asks for.
CONTENTS: dict[str, Callable[[Book], str]] = {
    '<!-- ledger -->': lambda book: ledger_page.page(book.entries, book.summary, book.ledgers, book.asked),
    '<!-- ledger: line -->': lambda book: counted(book.entries),
    '<!-- topics -->': lambda book: topics(),
    '<!-- result -->': one_result,
    '<!-- yours -->': yours,
    '<!-- refuted -->': lambda book: ledger_page.refuted(book.releases, book.entries),
    '<!-- releases -->': lambda book: ledger_page.of_releases(book.releases),
    '<!-- history -->': lambda book: ledger_page.history(),
    '<!-- guesses -->': lambda book: guesses(book.questions.values()),
    '<!-- exercises -->': lambda book: exercises.index(),
}


def fill_in(document: Document, book: Book) -> None:
    """Put what a page's comments ask for in their place: the ledger, cards of the topics, tables.

    A line before a comment says in JupyterLab what the page has there; it gives way too.
    """
    for cell in document.texts():
        for comment, content in CONTENTS.items():
            if comment in cell.source:
                made = content(book)
                cell.source = re.sub(rf'[^\n]*{re.escape(comment)}', lambda _, made=made: made, cell.source)


def put_live_figures(document: Document, book: Book) -> None:
    """Put the figures that a reader can turn in the place of their marks."""
    for cell in document.texts():
        if live.MARK.search(cell.source):
            known = live.of_topic(document.path.parent.name)
            cell.source = live.insert(cell.source, known, book.live_numbers)


# For each kind of page, what is done to it, in this order: quoting asks for links as Sphinx has them; what
# is filled in afterwards has its numbers already, and no term in it is linked.
PROCESSORS: dict[str, tuple[Callable[[Document, Book], None], ...]] = {
    '.ipynb': (say_where_it_ran, write_for_sphinx, link_terms, quote, ask, point_back, split_off_questions,
               put_live_figures),
    '.md': (list_sources, write_for_sphinx, link_solutions, link_terms, quote, fill_in, put_live_figures),
}


# The source tree -----------------------------------------------------------------------------------

def assets() -> Iterator[tuple[Path, Path]]:
    """The files that Jupyter Book needs besides pages, and where in its tree they go."""
    for name in ('_toc.yml', 'chapters/reference/references.bib'):
        yield ROOT / name, Path(name)
    for path in (ROOT / 'chapters').rglob('*'):
        if path.suffix in PICTURES:
            yield path, path.relative_to(ROOT)
    for path in (ROOT / 'tools' / 'theme').iterdir():
        if path.suffix in SHOWN:
            yield path, path.relative_to(ROOT / 'tools')
    for path in (live_figures.SCRIPT, live_figures.STYLE):
        yield path, Path('theme') / path.name


def made_by() -> str:
    """Changes with the code that makes the pages: what it does after Sphinx shows in no other file."""
    modules = sorted((ROOT / 'tools').rglob('*.py'))
    return hashlib.sha256(b'\0'.join(module.read_bytes() for module in modules)).hexdigest()


def source_tree(shown: dict[Path, nbformat.NotebookNode], book: Book) -> Iterator[tuple[Path, str | Path]]:
    """What Jupyter Book reads: for each file its place in the tree, and its text or the file to copy."""
    yield Path('_config.yml'), published((ROOT / '_config.yml').read_text())
    yield Path('made_by'), made_by()
    for path, nb in shown.items():
        yield path.relative_to(ROOT), page(Document(path, copy.deepcopy(nb)), book)
    for path in source.pages():
        if path.suffix == '.md':
            yield path.relative_to(ROOT), page(Document.of_markdown(path, path.read_text()), book)
    for path, place in assets():
        yield place, path


def prepare(shown: dict[Path, nbformat.NotebookNode], old: set[Path],
            sphinx_source: Path) -> tuple[str, str, set[str]]:
    """Write the source tree that Jupyter Book reads; returns the ledger's line, its JSON, and what is asked.

    Where it differs from what stands there, the mark goes by which :func:`stand` knows its pages.

    Args:
        shown: the notebooks with the outputs to show; they stay as they are.
        old: those of them that were not run here.
    """
    book = Book.of(shown, old)
    wanted, same = {sphinx_source / MADE}, True
    for place, content in source_tree(shown, book):
        to = sphinx_source / place
        wanted.add(to)
        if isinstance(content, str):
            changed = put(to, content)
        else:
            changed = not to.exists() or to.read_bytes() != content.read_bytes()
            if changed:
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(content, to)
        same = same and not changed
    for stale in sphinx_source.rglob('*'):
        if stale.is_file() and stale not in wanted and '_build' not in stale.parts[len(sphinx_source.parts):]:
            stale.unlink()
            same = False
    if not same:
        (sphinx_source / MADE).unlink(missing_ok=True)
    return book.summary, ledger_page.as_json(book.entries, book.summary, book.questions), set(book.questions)


def published(config: str) -> str:
    """The configuration, with buttons that lead to the repository if it names one."""
    settings = yaml.safe_load(config)
    if not settings.get('repository', {}).get('url'):
        return config
    buttons = ('use_repository_button', 'use_issues_button', 'use_edit_page_button')
    settings['html'] |= dict.fromkeys(buttons, True)
    settings['repository'].setdefault('branch', 'main')       # Jupyter Book assumes another
    settings['launch_buttons'] = {'binderhub_url': 'https://mybinder.org',
                                  'notebook_interface': 'jupyterlab'}
    return yaml.safe_dump(settings, sort_keys=False)


# HTML ----------------------------------------------------------------------------------------------

def mended(page: str, found: set[str]) -> str:
    """A page without what is wrong or too much in it.

    Args:
        found: the names of the repairs that found something; those of this page are added.
    """
    for name, (pattern, instead) in REPAIRS.items():
        page, times = pattern.subn(instead, page)
        if times:
            found.add(name)
    return page


def repair(paths: list[Path]) -> None:
    """Mend all pages of a build, in place.

    Raises:
        ValueError: what a repair looks for stands on no page, so the theme or an extension has changed.
    """
    found: set[str] = set()
    for path in paths:
        path.write_text(mended(path.read_text(), found))
    absent = [name for name in REPAIRS if name not in found]
    if absent:
        raise ValueError(f'no page has {", ".join(absent)} any more: see what the theme and the extensions '
                         'write now, and mend REPAIRS in tools/pages.py')


def drop_images(html: Path, paths: list[Path]) -> None:
    """Delete the images that no page shows: those of outputs that have given way to others."""
    shown = {name for path in paths for name in IMAGE.findall(path.read_text())}
    for image in (html / '_images').glob('*'):
        if image.name not in shown:
            image.unlink()


def described(page: str, about: str) -> str:
    """A page that tells a search engine, or a program that shows links, what it is about."""
    return page.replace('</head>', f'<meta name="description" content="{escape(about)}"/>\n</head>', 1)


def put_sources(html: Path, shown: dict[Path, nbformat.NotebookNode]) -> None:
    """What *Download this page* gives: the notebook and the Markdown that a reader can use.

    Sphinx puts its own input there, which has directives for it and the cards of results in its sentences.
    """
    for path, nb in shown.items():
        source.write(html / '_sources' / path.relative_to(ROOT), nb)
    for path in source.pages():
        if path.suffix == '.md':
            put(html / '_sources' / path.relative_to(ROOT), path.read_text())


def shared(page: str, address: str, title: str, about: str) -> str:
    """A page with what other sites show beside a link to it: its title, what it is about, and a picture."""
    heading = re.search(r'<title>(.*?)( &#8212; .*)?</title>', page)[1]
    said = {'og:type': 'website', 'og:site_name': escape(title), 'og:title': heading,
            'og:description': escape(about), 'og:image': f'{address.rstrip("/")}/_static/social.png'}
    tags = ''.join(f'<meta property="{k}" content="{v}"/>\n' for k, v in said.items())
    card = '<meta name="twitter:card" content="summary_large_image"/>\n'
    return page.replace('</head>', f'{tags}{card}</head>', 1)


def lead_on(html: Path) -> None:
    """Let old addresses lead to where things are now: of pages that are gone, and of parts that moved."""
    for page, other in GONE.items():
        path = html / f'{page}.html'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MOVED.format(f'{other}.html'))
    for page, other in DIVIDED.items():
        path = html / f'{page}.html'
        if path.exists():
            path.write_text(path.read_text().replace('</head>', ON_THE_OTHER.format(other) + '</head>', 1))


def jupyter_book(sphinx_source: Path, *args: str) -> None:
    """Run Jupyter Book on a source tree; a warning ends the program."""
    program = 'import tools; from jupyter_book.cli.main import main; main()'        # it has no __main__
    done = subprocess.run([sys.executable, '-c', program, 'build', str(sphinx_source), '-n', '-W',
                           '--keep-going', '-q', *args], capture_output=True, text=True,
                          env={**os.environ, 'PYTHONPATH': str(ROOT), 'NO_COLOR': '1'})
    if done.returncode:
        sys.exit(done.stdout + done.stderr + '\nThe pages were not rebuilt: see the warnings above.')


def finish(html: Path, sphinx_source: Path, json_text: str, asked: set[str]) -> None:
    """What Sphinx leaves to do in its pages: the ledger, old addresses, the search, reading orders, repairs,
    cards of terms and sources.

    Args:
        html: the pages as Sphinx wrote them; they are changed in place.
        json_text: the ledger.
        asked: the ids of the results that the book asks to guess.
    """
    (html / 'ledger.json').write_text(json_text)
    lead_on(html)
    there = [page for page in source.toc() if (html / f'{page}.html').exists()]
    articles = searching.read(html, there)
    about = {html / f'{name}.html': searching.description(article) for name, article in articles.items()}
    results = json.loads(json_text)['claims']
    (html / searching.NAME).write_text(searching.index(articles, results, asked))
    (html / 'searchindex.js').unlink()           # what Sphinx's own search reads
    config = yaml.safe_load((sphinx_source / '_config.yml').read_text())
    title, address = config['title'], config['html'].get('baseurl', '')
    if address:
        draw.social(html / '_static' / 'social.png', title)
    # The one at the top only leads to the first page.
    whole = [path for path in html.rglob('*.html') if path != html / 'index.html']
    repair(whole)
    drop_images(html, whole)
    front = html / f'{source.toc()[0]}.html'
    orders.put(html, there)
    known = entries.entries(articles)
    for path in whole:
        page = entries.with_cards(path.read_text(), path.relative_to(html).as_posix(), known)
        page = entries.with_letters(page)
        if path == front:       # its heading is the book's title, which Sphinx repeats
            page = re.sub('<title>.*?</title>', f'<title>{escape(title)}</title>', page, count=1)
        if about.get(path):
            page = described(page, about[path])
        if address:
            page = shared(page, address, title, about.get(path, title))
        path.write_text(page)


def stand(html: Path, sphinx_source: Path) -> bool:
    """Whether these are the pages of this source tree as it is now.

    The pages may be those of another tree, as stored outputs and those of this machine have one each, or of
    an earlier state of this one, from which other pages were made since.
    """
    marks = [folder / MADE for folder in (html, sphinx_source)]
    return all(mark.exists() for mark in marks) and marks[0].read_text() == marks[1].read_text()


def make(shown: dict, old: set[Path], sphinx_source: Path, html: Path) -> str:
    """Make the pages of these notebooks, if they would differ; returns the ledger's line.

    Warnings are errors. The old pages give way to the new ones when these are complete.
    """
    summary, json_text, asked = prepare(shown, old, sphinx_source)
    new, gone = html.with_name(html.name + '.new'), html.with_name(html.name + '.old')
    if gone.exists() and not html.exists():         # stopped in the moment of changing places
        gone.rename(html)
    if stand(html, sphinx_source):
        return summary
    built = sphinx_source / '_build'
    # When pages are made again in one run, other notebooks have been measured, and nothing else is changed:
    # Sphinx makes those pages anew that show or quote them. Otherwise it begins from the start, also if it
    # was stopped or has warned before, for it would keep a half-written page, and not repeat a warning.
    complete = built / 'complete'
    if not complete.exists() or complete.read_text() != RUN:
        shutil.rmtree(built, ignore_errors=True)
    complete.unlink(missing_ok=True)
    jupyter_book(sphinx_source)
    complete.write_text(RUN)
    for folder in (new, gone):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        shutil.copytree(built / 'html', new)
        finish(new, sphinx_source, json_text, asked)
        put_sources(new, shown)
        mark = uuid.uuid4().hex
        (new / MADE).write_text(mark)
        if html.exists():
            html.rename(gone)
        new.rename(html)
    finally:
        if gone.exists() and not html.exists():
            gone.rename(html)
        for folder in (new, gone):
            shutil.rmtree(folder, ignore_errors=True)
    (sphinx_source / MADE).write_text(mark)
    return summary
