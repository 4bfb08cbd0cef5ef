"""Numbers that are typed into a sentence where one would expect a measured one.

    python -m tools.typed [PAGES…]

A number with a unit of time or rate, a ratio or a share should be a link to the result that measured it, so
that storing a run, or building the book, replaces it. It may be typed where the sentence shows the arithmetic
that it follows from, says that it is assumed, or asks, and where its paragraph cites a source. Any other is
listed here, until it is a link, or gone, or a line of ``tests/book/typed_numbers.txt`` says why it may stand:

    chapters/hybridization/index.md | setting | each launch costs the host 10 µs

that is the page, a kind of :data:`KINDS`, and words around the number, in the sentence without Markdown.
A number beside a link can moreover contradict it ("more than 2×" beside a measured 1.9×), and no
line accepts that.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tested_results import numbers
from tools import quotations, source
from tools.source import ROOT

ACCEPTED = ROOT / 'tests' / 'book' / 'typed_numbers.txt'
KINDS = {'assumption': 'we suppose it', 'definition': 'a rule or a term is defined by it',
         'setting': 'what an experiment or an example was given', 'bound': 'what a test asks for',
         'cited': 'its source stands elsewhere on the page',
         'arithmetic': 'it follows from numbers that the paragraph or the table shows',
         'counted': 'it was counted in simulations or in repeated runs that the paragraph describes'}
UNITS = [*numbers.UNITS['time'], *numbers.UNITS['rate'], *numbers.UNITS['arithmetic'], 'tokens/s',
         'tokens a second', 'tokens per second', 'seconds', 'second', 'milliseconds', 'microseconds',
         'nanoseconds', 'minutes', 'minute']
RATIO = r'times (?:as|faster|slower|longer|shorter)'
_unit = '|'.join([*map(re.escape, sorted(UNITS, key=len, reverse=True)), RATIO])
NUMBER = re.compile(r'(?<![\w.,^/])(?P<number>\d[\d,]*(?:\.\d+)?)'
                    rf'(?P<unit>×(?!\d)|%|[\s-](?:{_unit})(?![\w/]))')
# What shows arithmetic, or says that a number is given and not found.
ARITHMETIC = re.compile(r'[=≈·÷]|\d / \d|\\(?:approx|cdot|frac)|\bat \S+ \S+ (?:is|are)\b')
GIVEN = re.compile(r'\b(?:suppose|assume[sd]?|assuming|imagine)\b', re.IGNORECASE)
SET = re.compile(r'\b(?:delays?|pauses?|sleeps?|timeouts?|waits?|links?|late) (?:of|for|at|by|with) $')
SOURCE = re.compile(r'\{cite[:\w]*\}|\]\(https?://')
# Words before a number, and whether a measured value beside it agrees with it.
ALIKE = {
    r'(?:more than|over|above|at least|no less than)': lambda measured, said: measured >= said,
    r'(?:less than|under|below|at most|no more than|up to)': lambda measured, said: measured <= said,
    r'(?:about|almost|nearly|roughly|close to|some)': lambda measured, said: .7 < measured / said < 1.4}


@dataclass(frozen=True)
class Typed:
    """A typed number, and the sentence without Markdown in which it stands."""

    page: str
    where: str          # ``chapters/…/x.ipynb, cell 3``
    sentence: str
    start: int          # of the number within the sentence
    end: int
    against: str = ''   # the words of a link in the same sentence that contradict it

    @property
    def number(self) -> str:
        return self.sentence[self.start:self.end]

    def within(self, words: str) -> bool:
        """Whether the number stands among these words of its sentence."""
        return any(m.start() <= self.start and self.end <= m.end()
                   for m in re.finditer(re.escape(words), self.sentence))


def find(path: Path) -> Iterator[Typed]:
    """The typed numbers of a page that neither show their arithmetic, nor are said to be given, nor cited."""
    page = source.name(path)
    for cell, page_text in quotations.parts(path):
        where = ', '.join(filter(None, [page, cell.strip(' ,')]))
        for block in quotations.blocks(page_text):
            cited = SOURCE.search(block)
            for paragraph in quotations.cells(block) if block[0] == '|' else [block]:
                for sentence in quotations.divided(paragraph):
                    yield from _in_sentence(page, where, sentence, bool(cited))


def _in_sentence(page: str, where: str, sentence: str, cited: bool) -> Iterator[Typed]:
    measured = [m[1] for m in quotations.LINK.finditer(sentence)]
    rest = re.sub(r'`[^`]*`', '…', quotations.plain(quotations.LINK.sub('…', sentence)))
    given = cited or ARITHMETIC.search(rest) or GIVEN.search(rest) or rest.endswith('?')
    rest = re.sub(r'\$[^$]*\$', '…', rest)
    for m in NUMBER.finditer(rest):
        against = contradicts(rest[:m.start()], m, measured)
        if against or not (given or SET.search(rest[:m.start()])):
            yield Typed(page, where, rest, m.start(), m.end(), against)


def contradicts(before: str, number: re.Match, links: Iterable[str]) -> str:
    """The words of a link whose number has the same unit and another value than a typed one says.

    Only "more than", "at most", "about" and the like are judged: a number without them is another quantity
    more often than the same one.
    """
    for words, agrees in ALIKE.items():
        if re.search(rf'\b{words} $', before):
            for link in links:
                m = numbers.NUMBER.search(link)
                if m and m['unit'] == number['unit'] and not agrees(value(m), value(number)):
                    return link
    return ''


def value(number: re.Match) -> float:
    return float(number['number'].replace(',', ''))


def accepted(file: Path = ACCEPTED) -> list[tuple[str, str, str]]:
    """The accepted numbers: page, kind, and the words among which they stand."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    return [(page.strip(), kind.strip(), words.strip()) for line in lines if line and line[0] != '#'
            for page, kind, words in [[*line.split('|', 2), '', ''][:3]]]


def problems(paths: Iterable[Path], lines: list[tuple[str, str, str]]) -> list[str]:
    """What is to be mended: numbers that nothing accepts, contradictions, and lines that accept nothing."""
    found, used, pages = [], set(), set()
    for path in paths:
        pages.add(source.name(path))
        for n in find(path):
            by = [line for line in lines if line[0] == n.page and n.within(line[2])]
            used.update(by)
            if n.against:
                found.append(f'{n.where}: "{n.number}" contradicts the measured "{n.against}", mend or '
                             f'delete it: {n.sentence}')
            elif not by:
                found.append(f'{n.where}: "{n.number}" is typed: {n.sentence}')
    for page, kind, words in lines:
        if kind not in KINDS:
            found.append(f'{ACCEPTED.name}: {kind!r} is none of {", ".join(KINDS)}: '
                         f'{page} | {kind} | {words}')
        elif page in pages and (page, kind, words) not in used:
            found.append(f'{ACCEPTED.name}: no typed number stands among these words, delete the line: '
                         f'{page} | {kind} | {words}')
    return found


ADVICE = f"""
Make a measured number a link to its result, [6.0×](#id), or delete it. Show the arithmetic of one that
follows from others, and cite the source of one from elsewhere. Where it may stand as it is, add a line to
{ACCEPTED.relative_to(ROOT)}: page | kind | words around the number
with one of these kinds: {'; '.join(f'{k} ({v})' for k, v in KINDS.items())}."""


def main() -> int:
    found = problems([Path(a).resolve() for a in sys.argv[1:]] or source.pages(), accepted())
    if found:
        print(*found, f'{len(found)} to mend.', ADVICE, sep='\n')
    return bool(found)


if __name__ == '__main__':
    sys.exit(main())
