"""What the checkers of a topic are made of, its ``chapters/<topic>/checkers.py``. No framework.

A checker asks for properties in order, and says of the first that is missing what it is and two hints;
the second is for the next try. None of them is the solution.
"""

import importlib.util
import itertools
import math
import re
import statistics
import time
import types
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


def _book() -> Path:
    """The folder with topics that have checkers: around the working directory, or around this package; else
    the working directory."""
    here = Path.cwd()
    around = here, *here.parents, *Path(__file__).resolve().parents
    return next((p for p in around if any(p.glob('chapters/*/checkers.py'))), here)


ROOT = _book()
CLOCKS = {name: getattr(time, name)
          for name in ('perf_counter', 'time', 'monotonic', 'process_time', 'thread_time')}
clock = time.perf_counter       # ours: an answer may put another in its place


class Missing(Exception):
    """A property that an answer lacks, and two hints."""


class Part(NamedTuple):
    """A figure or a word that is asked for, or a set or a list of them.

    A figure is right within a share; without one, a whole number below 1,000 is a count, which has to be
    exact, and any other figure is right within 2%. Of a wrong answer among ``slips`` is said what is behind
    it, in place of the first hint.
    """

    expected: Any
    asks: str
    hint: str
    second: str
    within: float | None = None
    slips: dict[Any, str] = {}


class Exercise(NamedTuple):
    """What is known of an exercise: a test of its parts, the cell to begin with, what each part is.

    An answer that has code may take so many seconds and so many bytes. What the test imports is imported
    before, and not at the expense of the answer. ``parts`` and ``also`` are those of :func:`numbers`: whoever
    shows such an exercise elsewhere, as a page does, checks the same there.
    """

    test: Callable[..., None]
    stub: str
    asks: dict[str, str]
    points: tuple[str, ...] = ()
    seconds: float = 20
    memory: int = 2 << 30
    imports: tuple[str, ...] = ()
    topic: str = ''
    parts: dict[str, Part] = {}
    also: Sequence[dict[str, Any]] = ()


known: dict[tuple[str, str | None], Exercise] = {}      # by label and framework
loading = ''        # the topic whose exercises are being read


@cache
def load() -> dict[tuple[str, str | None], Exercise]:
    """All exercises that can be checked; reads the ``checkers.py`` of the topics."""
    global loading
    for path in sorted(ROOT.glob('chapters/*/checkers.py')):
        loading = path.parent.name
        try:
            spec = importlib.util.spec_from_file_location(f'{loading}_checks', path)
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        finally:
            loading = ''
    return known


def _define(label: str, framework: str | None, one: Exercise) -> None:
    """Make an exercise known. One of a notebook or a script may be defined anew, one of a topic may not.

    Raises:
        ValueError: there is another one with this label.
    """
    there = known.get((label, framework))
    if there and (there.topic or loading):
        raise ValueError(f'there is an exercise {label!r} already')
    known[label, framework] = one._replace(topic=loading)


def exercise(label: str, stub: str, framework: str | None = None, **limits: Any) -> Callable:
    """Decorates a test of a function; ``stub`` has its first lines and its docstring.

    Args:
        limits: ``seconds``, ``memory`` and ``imports`` of an :class:`Exercise`.
    """
    def register(test: Callable[[Any], None]) -> Callable[[Any], None]:
        name = stub.split('def ')[-1].split('(')[0]
        _define(label, framework, Exercise(test, f'{stub}\n    ...\n\n\ncheck({label!r}, {name})',
                                           {'answer': f'the function {name}'}, **limits))
        return test
    return register


def numbers(label: str, framework: str | None = None, also: Sequence[dict[str, Any]] = (),
            slips: dict[str, dict[Any, str]] | None = None, **parts: Part) -> None:
    """An exercise whose answer is figures or words.

    Args:
        also: other figures for some of the parts, which are right together.
        slips: the ``slips`` of parts, by name.

    Raises:
        TypeError: a part expects something that no answer can be compared with, or there is no such part.
    """
    for name, some in (slips or {}).items():
        if name not in parts:
            raise TypeError(f'{label} has no part {name!r}')
        parts[name] = parts[name]._replace(slips=some)
    for name, part in parts.items():
        several = isinstance(part.expected, set | list)
        for value in part.expected if several else [part.expected]:
            if not isinstance(value, str | bool | int | float):
                raise TypeError(f'{name} expects {value!r}, which is neither a number nor a word')
    choices = {name: choices_of(part, parts) for name, part in parts.items()}

    def fits(answers: Sequence[Any], other: dict[str, Any]) -> list[bool]:
        """Whether each answer is the expected one, or the other figure for its part."""
        held = []
        for (name, part), answer in zip(parts.items(), answers, strict=True):
            expected = other.get(name, part.expected)
            held.append(_same(answer, expected, part.within, f'{name}, {part.asks}', choices[name]))
        return held

    def test(*answers: Any) -> None:
        held = fits(answers, {})
        others = [fits(answers, other) for other in also]
        if any(all(one) for one in (held, *others)):
            return
        for (name, part), right, answer in zip(parts.items(), held, answers, strict=True):
            if not right:
                raise Missing(f'{name}, {part.asks}', _slip(part, answer) or part.hint, part.second)
    lines = ''.join(f'    {name}=...,   # {part.asks}\n' for name, part in parts.items())
    asks = {name: part.asks for name, part in parts.items()}
    stub = f'check(\n    {label!r},\n{lines})'
    _define(label, framework, Exercise(test, stub, asks, parts=parts, also=also))


def slips_of(part: Part) -> list[tuple[str, list[Any]]]:
    """What is said of wrong answers that tell what went wrong, and the answers.

    Of a figure also the right one in another unit, in percent, and turned over.
    """
    found = [(said, [wrong]) for wrong, said in part.slips.items()]
    right = part.expected
    if isinstance(right, bool) or not isinstance(right, int | float) or right in (0, 1):
        return found
    found.append(('The digits are right, the unit is not: look at the prefixes.',
                  [right * 1000.0 ** k for k in range(-5, 6) if k]))
    if 0 < right < 1:
        found.append(('That is in percent. Asked for is a share, between 0 and 1.', [100 * right]))
    if 'byte' in part.asks or 'B/s' in part.asks:
        found.append(('You are off by a factor of eight: bits, or bytes?', [8.0 * right, right / 8]))
    found.append(('That is the inverse of what is asked for.', [1 / right]))
    return found


def _slip(part: Part, answer: Any) -> str:
    """What is behind a wrong answer that has the right form, if that is known."""
    for said, wrong in slips_of(part):
        for x in wrong:
            if isinstance(part.expected, set | list):   # which cannot be the key of a dictionary
                x = type(part.expected)(x)
            if _same(answer, x, part.within):
                return said
    return ''


def text(label: str, *points: str) -> None:
    """An exercise of free text: its answer is shown the points to compare it with."""
    def test(answer: Any) -> None:
        lines = [answer] if isinstance(answer, str) else listed(answer, 'an answer in words')
        words = ' '.join(map(str, lines))
        letters = [c for c in words if c.isalpha()]
        wide = [c for c in letters if unicodedata.east_asian_width(c) in 'WF']     # Chinese has no spaces
        need(len(letters) >= 30 and len({*words.casefold().split()}) >= 7
             or len(wide) >= 15 and len({*wide}) >= 8, 'an answer in words',
             'Write what you would tell a colleague, as a text in quotes.',
             'A sentence at least: only then the points to compare with are shown.')
    _define(label, None, Exercise(test, f"answer = ...   # '''your text'''\n\ncheck({label!r}, answer)",
                                  {'answer': 'a text in quotes'}, points))


def need(holds: bool, what: str, hint: str, second: str) -> None:
    """A property of an answer.

    Raises:
        Missing: it does not hold.
    """
    if not holds:
        raise Missing(what, hint, second)


def number(x: Any, what: str = 'a number') -> int | float:
    """A number in any form, as one of Python: of NumPy, of a framework, a Fraction, an array without axes.

    Raises:
        Missing: it is none. A text is none either, whatever it says: the hint names the form.
    """
    given = x
    if getattr(x, 'shape', None) == () and hasattr(x, 'item'):
        x = x.item()
    if isinstance(x, complex) and not x.imag:
        x = x.real
    try:
        if isinstance(x, Integral) and not isinstance(x, bool):
            if abs(x) < 1 << 1000:
                return int(x)
            return math.inf if x > 0 else -math.inf
        if isinstance(x, Real | Decimal) and not isinstance(x, bool):
            return float(x)
    except OverflowError:       # of a Fraction
        return math.inf if x > 0 else -math.inf
    raise Missing(what, f'Give a number, such as 0.5, not {_form(given)}.',
                  'Without quotes, brackets and units: a quarter is 0.25 or 1 / 4.')


def listed(x: Any, what: str = 'a list', ordered: bool = True) -> list:
    """What a list, a tuple, an array, a range or a generator has, and a set if there is no order.

    Raises:
        Missing: it is nothing of the kind. The hint names the form.
    """
    odd = (str, bytes, set, frozenset, dict) if ordered else (str, bytes)
    try:
        if not isinstance(x, odd):
            return list(itertools.islice(x, 1 << 20))
    except (TypeError, IndexError):     # of what cannot be iterated
        pass
    kind = 'list, such as [1, 2]' if ordered else 'set, such as {1, 2}'
    raise Missing(what, f'Give a {kind}, not {_form(x)}.', 'In brackets, and with commas between its parts.')


def _form(x: Any) -> str:
    """What somebody gave, in words."""
    if isinstance(x, str):
        return f'the text {x[:40]!r}'
    if x is None or isinstance(x, bool | np.bool_ | Real):
        return f'{x}'[:40]
    if shape := getattr(x, 'shape', None):
        return f'an array of shape {tuple(shape)}'
    kind = 'function' if callable(x) else type(x).__name__
    return f'{"an" if kind[0] in "aeiou" else "a"} {kind}'


def _word(x: Any) -> str:
    """A word without its case, spaces and full stop; yes and no for what is true and what is false."""
    x = x.item() if getattr(x, 'shape', None) == () and hasattr(x, 'item') else x
    if isinstance(x, bool):
        return 'yes' if x else 'no'
    word = ' '.join(x.split()).strip(' .,;!"\'').casefold() if isinstance(x, str) else ''
    return {'true': 'yes', 'false': 'no'}.get(word, word)


def choices_of(part: Part, parts: dict[str, Part]) -> list[str]:
    """The words that an exercise offers for a part: in quotes, in its own line or in that of another.

    For a set, those in its lines. Nothing, if it offers none.
    """
    lines = [part.asks, *(p.asks for p in parts.values())]
    if isinstance(part.expected, bool):
        return ['True', 'False']
    if isinstance(part.expected, str):
        offers = [re.findall(r"'([^']+)'", line) for line in lines]
        for words in offers:
            if part.expected in words:
                return words
        return list(dict.fromkeys(itertools.chain.from_iterable(offers)))
    if isinstance(part.expected, set) and all(isinstance(e, str) for e in part.expected):
        for line in lines:
            listing = re.search(r'(?<=of )[^:]*', line)
            if listing and part.expected <= set(listing[0].split(', ')):
                return listing[0].split(', ')
    return []


def _same(answer: Any, expected: Any, within: float | None, what: str = '',
          choices: Sequence[str] = ()) -> bool:
    """Whether an answer is the expected one.

    Raises:
        Missing: it has a form that cannot be compared, or is a word that was not offered.
    """
    if isinstance(expected, str | bool):
        word = _word(answer)
        offered = {_word(c) for c in choices} or {word} - {''}
        if word not in offered:
            words = [*map(repr, choices)] if isinstance(expected, str) else choices
            raise Missing(what, f'Give {" or ".join(words) or "a word in quotes"}, not {_form(answer)}.',
                          'Other words cannot be compared.')
        return word == _word(expected)
    if isinstance(expected, list):
        found = listed(answer, what)
        need(len(found) == len(expected), what, f'Give {len(expected)} of them, and not {len(found)}.',
             'In the order of the question.')
        return all(_same(a, e, within, what) for a, e in zip(found, expected, strict=True))
    if isinstance(expected, set):
        found = listed(answer, what, ordered=False)
        if all(isinstance(e, str) for e in expected):
            offered = {_word(c) for c in choices}
            odd = next((a for a in found if not _word(a) or offered and _word(a) not in offered), None)
            need(odd is None, what, f'{odd!r} is none of the words of the question.',
                 'Write them as they stand there.')
            return {*map(_word, found)} == {*map(_word, expected)}
        left = sorted({number(a, what) for a in found})     # a list may say one of them twice
        right = sorted(expected)
        return len(left) == len(right) and all(
            math.isclose(a, e, rel_tol=tolerance(e, within)) for a, e in zip(left, right, strict=True))
    return math.isclose(number(answer, what), expected, rel_tol=tolerance(expected, within))


def tolerance(expected: float, within: float | None = None) -> float:
    """The share by which a figure may be off, see :class:`Part`."""
    if within is not None:
        return within
    return 1e-9 if isinstance(expected, int) and abs(expected) < 1000 else 0.02


def fetch(y: Any) -> np.ndarray:
    """The numbers of an array of any framework, from its device or still to be computed: a copy."""
    for step in ('detach', 'cpu', 'asnumpy' if hasattr(y, 'asnumpy') else 'numpy'):
        y = getattr(y, step)() if hasattr(y, step) else y
    return np.array(y)


def _bits(kind: str) -> float:
    """The bits of a number by the name of its type; infinite, if the name does not say."""
    found = re.search(r'\d+', kind)
    return int(found[0]) if found else math.inf


def timed(function: Callable, make: Callable[[int], Sequence], expected: Callable, floor: float,
          calls: int = 5, tolerance: float = 1e-4) -> float:
    """The least seconds of calls, each on fresh inputs, until its numbers are there: others only add.

    Args:
        make: the inputs of call ``i``, arrays.
        expected: the right result, from NumPy arrays.
        floor: the seconds below which physics leaves no room, from bytes or operations.
        tolerance: how far results may be off, relative to the largest number.

    Raises:
        Missing: a result is wrong, stale, too coarse or not there on return; inputs or clocks were
            changed; the time is below the floor.
    """
    issued, waits, times, last = [], [], [], None
    for i in range(calls):
        args = make(i)
        before = [fetch(a) for a in args]
        begin = clock()
        y = function(*args)
        returned = clock()
        issued.append(returned - begin)
        kind = str(getattr(y, 'dtype', '')).split('.')[-1]
        result = fetch(y.float() if kind == 'bfloat16' else y)      # which NumPy does not have
        there = clock()
        waits.append(there - returned)
        times.append(there - begin)
        need(all(np.array_equal(fetch(a), b) for a, b in zip(args, before, strict=True)),
             'inputs that stay as they were', 'Something writes into the arrays that it was given.',
             'Look for operations in place, such as += or a name that ends with an underscore.')
        right, stale = expected(*before), last
        last, scale = right, np.abs(right).max() or 1
        need(result.shape == right.shape, 'the shape',
             f'The result should have the shape {right.shape}.', 'Print the shape after each line.')
        off = np.abs(result.astype(float) - right).max() / scale
        need(off <= tolerance or stale is None or np.abs(result - stale).max() > tolerance * scale,
             'a fresh result in each call', 'This result belongs to the inputs of the call before.',
             'Each call gets new inputs. What is kept from one call to the next?')
        errors = (result.astype(float) - right) * np.sign(right)
        at_random = abs(errors.sum()) < 0.5 * np.abs(errors).sum()      # as rounding goes, up and down
        coarse = _bits(kind) < _bits(right.dtype.name) or tolerance < off < 0.05 and at_random
        need(off > 0.05 or not coarse, 'the precision',
             f'The result should be as exact as {right.dtype.name} allows.',
             'Which line rounds to fewer bits? A speed that comes from that should be said.')
        need(not tolerance < off < 0.05, 'the right numbers',
             f'All are nearly right, and the same way off, by up to {off:.1g} of the largest.',
             'That is no rounding. Which definition does each operation follow, and what are its defaults?')
        need(off <= tolerance, 'the right numbers', 'Compare with a plain loop on a small case.',
             'Print where the two differ most, and by how much.')
    need(all(getattr(time, name) is c and isinstance(c, types.BuiltinFunctionType)
             for name, c in CLOCKS.items()), 'the clocks of the system',
         'A function of the module time is not the one that Python came with.',
         'Restart the kernel, and leave the clocks alone.')
    # A queue makes every call wait for its numbers; other programs interrupt only some of the waits.
    median = statistics.median(times)
    need(min(waits) < min(issued) or median < 1e-3, 'work that is done on return',
         'The call came back long before its numbers were there.', 'What is left in a queue?')
    need(median > floor, 'a time that is possible',
         f'{median:.2g} s is less than moving the bytes takes.',
         'Is the work done within the call, on the inputs of this call?')
    return min(times)
