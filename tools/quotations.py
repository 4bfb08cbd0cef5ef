"""What the text quotes: its sentences, the links to results in them, and the calls that make results."""

import ast
import contextlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tested_results.claims import Claim
from tested_results.numbers import Misfit, form
from tested_results.quoting import rendered
from tools import markup, source
from tools.source import read, tree

# `[6.0× faster](#hyb-pt-chain)` quotes a result, `[120 µs](#hyb-pt-chain:eager)` one of its two times;
# Before the # stands the notebook, if it is another one, so that JupyterLab finds it.
LINK = re.compile(r'\[((?:[^\[\]`]|`[^`]*`)+)\]\((?:[\w./-]+\.ipynb)?#([a-z0-9-]+?)(?::(\w+))?\)')
CELLS = re.compile(r'(?<!\\)\|')         # where a row of a table is divided
CALLS = ('compare', 'estimate', 'count', 'verify')      # `d2l.compare(…)` and so on make a result
OPTIONS = {'compare': {'above', 'below', 'work', 'needs', 'sync', 'clock'}}
# Directives whose body is no running text: code, formulas, definitions, tasks for the reader.
NOT_TEXT = {'code', 'code-block', 'math', 'exercise', 'figure', 'glossary', 'toctree', 'mermaid'}


def markdown(path: Path) -> str:
    """The text of a page."""
    return '\n\n'.join(text for _, text in parts(path))


def parts(path: Path) -> list[tuple[str, str]]:
    """The texts of a page with where they stand: the whole file, or each Markdown cell of a notebook.

    The text is as Sphinx gets it.
    """
    page = source.name(path).removesuffix(path.suffix)
    if path.suffix != '.ipynb':
        return [('', markup.for_sphinx(path.read_text(), page))]
    return [(f'cell {i}, ', markup.for_sphinx(c.source, page, c.id))
            for i, c in enumerate(read(path).cells) if c.cell_type == 'markdown']


# Sentences ---------------------------------------------------------------------------------------

def blocks(text: str) -> Iterator[str]:
    """Paragraphs, headings, list items and rows of tables, each in one line, without code and options."""
    text = re.sub(r'<!--.*?-->', '', text, flags=re.DOTALL)
    block: list[str] = []
    hidden: list[tuple[str, bool]] = []      # open fences: their marks, and whether they hide
    for raw in [*text.split('\n'), '']:
        line = raw.strip()
        fence = re.match(r'(`{3,}|~{3,}|:{3,})\s*(\{([\w-]+)\})?', line)
        ends = not line or fence or re.match(r'(#+ |[-*+] |\d+\. |\||>|:\w+:)', line)
        if ends and block:
            yield ' '.join(block)
            block = []
        if fence:
            if hidden and fence[1] == hidden[-1][0] and not fence[2]:
                hidden.pop()
            else:
                code = not fence[2] and fence[1][0] != ':'
                hidden.append((fence[1], code or fence[3] in NOT_TEXT))
        elif line and not any(h for _, h in hidden) and not re.match(r':[\w-]+:|\|[-:| ]+\|$|%', line):
            block.append(line)


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs, headings, list items and cells of tables, without code and options."""
    for block in blocks(text):
        yield from cells(block) if block[0] == '|' else [block]


def cells(row: str) -> Iterator[str]:
    """The cells of a table's row; one of fewer than four words with the row's first before it."""
    first, *rest = map(str.strip, CELLS.split(row.strip('|')))
    yield first
    for cell in rest:
        yield cell if len(cell.split()) > 3 else f'{first}: {cell}'


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page's text."""
    for p in paragraphs(text):
        yield from divided(p)


def divided(paragraph: str) -> list[str]:
    """The sentences of a paragraph."""
    return re.split(r'(?<=[.!?])\s+(?=[A-Z`\[*(“"])', paragraph)


def plain(sentence: str) -> str:
    """A sentence without Markdown: links as their words, no emphasis, no roles."""
    sentence = re.sub(r'\[((?:[^\[\]`]|`[^`]*`)+)\]\([^)]*\)', r'\1', sentence)
    sentence = re.sub(r'\{\w+\}`[^`]*`', '', sentence)
    sentence = re.sub(r'^(#+ |[-*+] |\d+\. |> ?)', '', sentence)
    marks = r'(`[^`]*`)|\*\*|(?<!\w)\*(?!\s)|(?<!\s)\*(?!\w)'         # in code a star is a star
    return re.sub(r'\s+', ' ', re.sub(marks, lambda m: m[1] or '', sentence)).strip(' |')


@cache
def _said() -> dict[str, str]:
    best: dict[str, str] = {}
    rank_of_best: dict[str, tuple[bool, bool, bool]] = {}
    for path in source.pages():
        own = {call.id for call in calls(path)}
        for sentence in sentences(markdown(path)):
            for words, id, _ in LINK.findall(sentence):
                asks = sentence.endswith('?')
                without_number = re.search(r'(?<!\w)\d', words) is None
                rank = (asks, without_number, id not in own)         # the least is the best
                if id not in best or rank < rank_of_best[id]:
                    best[id] = sentence
                    rank_of_best[id] = rank
    return best


def sentence_of(id: str) -> str:
    """The sentence that quotes a result, with its links.

    The first with its number on the page that measures it; else with its number on another page; else
    the first that links to it. A question comes last.
    """
    return _said().get(id, '')


# Links and calls ---------------------------------------------------------------------------------

@dataclass(frozen=True)
class Link:
    """A quotation of a result: its words, and where it stands (``chapters/…/x.md, line 3``)."""

    words: str
    id: str
    part: str           # of a comparison whose time is quoted; '' for the result itself
    page: Path
    where: str


def links(path: Path) -> list[Link]:
    """The results that a page's text quotes, in order."""
    found = []
    # The lines of a file are those of its source.
    texts = parts(path) if path.suffix == '.ipynb' else [('', path.read_text())]
    for where, text in texts:
        for m in LINK.finditer(text):
            line = text.count('\n', 0, m.start()) + 1
            found.append(Link(m[1], m[2], m[3] or '', path, f'{source.name(path)}, {where}line {line}'))
    return found


@dataclass(frozen=True)
class Call:
    """A call in a notebook that makes a result, such as ``d2l.compare(…)``."""

    id: str             # empty if it is no literal
    page: Path
    cell: int           # among the code cells, from 1
    where: str
    name: str           # of the function
    variants: int = 0   # of a comparison


def claimed(node: ast.AST, wanted: tuple[str, ...] = CALLS) -> str | None:
    """The id of the result that a call makes, or of another call whose name is ``wanted``.

    Empty if it is no literal; None if the call is another one.
    """
    if not isinstance(node, ast.Call):
        return None
    called = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
    owner = getattr(getattr(node.func, 'value', None), 'id', '')
    if called not in wanted or called in CALLS and owner not in ('d2l', 'claims'):
        return None
    return str(getattr(node.args[0], 'value', '')) if node.args else ''


def calls(path: Path) -> list[Call]:
    """The results that a notebook makes, in order."""
    if path.suffix != '.ipynb':
        return []
    found, count = [], 0
    for i, cell in enumerate(read(path).cells):
        if cell.cell_type == 'code':
            count += 1
            found += [Call(id, path, count, f'{source.name(path)}, cell {i}, line {line}', called, variants)
                      for id, called, variants, line in _calls_in(cell.source)]
    return found


@cache
def _calls_in(code: str) -> list[tuple[str, str, int, int]]:
    found = []
    for node in ast.walk(tree(code)):
        if (id := claimed(node)) is not None:
            called = getattr(node.func, 'attr', getattr(node.func, 'id', ''))
            variants = [k.arg for k in node.keywords if k.arg not in OPTIONS.get(called, set())]
            found.append((id, called, len(variants), node.lineno))
    return sorted(found, key=lambda f: f[3])


# Text and results --------------------------------------------------------------------------------

def problems(results: dict[str, Claim], pages: Iterable[Path] | None = None) -> list[str]:
    """What does not fit between the text of the book and the stored results, each with file and line.

    Args:
        results: the stored ones by id, completed by the ledgers (:func:`tools.ledger.quotable`).
        pages: all of the book's, unless a test says otherwise.
    """
    pages = list(pages or source.pages())
    all_calls: list[Call] = []
    all_links: list[Link] = []
    for page in pages:
        all_calls += calls(page)
        all_links += links(page)
    made = Counter(call.id for call in all_calls)
    quoted = {link.id for link in all_links}
    found = []
    for call in all_calls:
        if not call.id:
            found.append(f'{call.where}: the id of a result is no literal text: '
                         'write it in quotes in the call')
        elif made[call.id] > 1:
            found.append(f'{call.where}: the result {call.id!r} is made twice: give one of them another id')
        if call.name == 'compare' and call.variants != 2:
            found.append(f'{call.where}: compare takes two variants by name, such as eager=f, compiled=g, '
                         f'and here are {call.variants}: leave the others to another call')
        if call.id and call.id not in quoted:
            found.append(f'{call.where}: no text quotes the result {call.id!r}: link to it, or delete it')
    for link in all_links:
        if link.id not in made:
            found.append(f'{link.where}: no cell makes the result {link.id!r}; mend the link')
        elif link.id in results:
            found += _misfits(link, results[link.id])
    return found


def _misfits(link: Link, result: Claim) -> list[str]:
    """What does not fit between a quotation and the stored result that it quotes."""
    found = []
    if result.value is None and not result.decided and form(link.words):
        found.append(f'{link.where}: the text says "{link.words}", and no stored run and no ledger '
                     f'has a figure for {link.id!r}: say it without a number')
    try:
        now = rendered(link.words, result, link.part)
    except Misfit as e:
        return [*found, f'{link.where}: {e}']
    if now != link.words:
        found.append(f'{link.where}: the text says "{link.words}", and the stored run '
                     f'"{now}": make refresh puts it in')
    return found


def sentence(id: str, results: Mapping[str, Claim], asked: Collection[str] = ()) -> str:
    """The sentence that quotes a result, without Markdown, with the numbers of these results in it.

    Args:
        asked: results that the book asks to guess; the numbers of others than this one are left out.
    """
    def put(m: re.Match) -> str:
        if m[2] in asked and m[2] != id:
            return markup.NUMBER.sub('…', m[1])
        if m[2] in results:
            with contextlib.suppress(Misfit):
                return m[0].replace(f'[{m[1]}]', f'[{rendered(m[1], results[m[2]], m[3] or "")}]', 1)
        return m[0]
    return plain(LINK.sub(put, sentence_of(id)))
