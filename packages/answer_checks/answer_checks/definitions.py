"""What the checkers of a topic are made of, its ``chapters/<topic>/checkers.py``. No framework.

A checker asks for properties in order, and says of the first that is missing what it is and two hints;
the second is for the next try. None of them is the solution.
"""

import importlib.util
import math
import statistics
import time
import types
from collections.abc import Callable, Sequence
from functools import cache
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
    """A figure or a word that is asked for. A float is right within a share; all else is exact."""

    expected: Any
    asks: str
    hint: str
    second: str
    within: float = 0.02


class Exercise(NamedTuple):
    """What is known of an exercise: a test of its parts, the cell to begin with, what each part is.

    An answer that has code may take so many seconds and so many bytes.
    """

    test: Callable[..., None]
    stub: str
    asks: dict[str, str]
    points: tuple[str, ...] = ()
    seconds: float = 20
    memory: int = 2 << 30
    topic: str = ''


known: dict[tuple[str, str | None], Exercise] = {}      # by label and framework


@cache
def load() -> dict[tuple[str, str | None], Exercise]:
    """All exercises that can be checked; reads the ``checkers.py`` of the topics."""
    for path in sorted(ROOT.glob('chapters/*/checkers.py')):
        before, name = set(known), path.parent.name
        spec = importlib.util.spec_from_file_location(f'{name}_checks', path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        known.update({key: known[key]._replace(topic=name) for key in set(known) - before})
    return known


def exercise(label: str, stub: str, framework: str | None = None, **limits: float) -> Callable:
    """Decorates a test of a function; ``stub`` has its first lines and its docstring."""
    def register(test: Callable[[Any], None]) -> Callable[[Any], None]:
        name = stub.split('def ')[-1].split('(')[0]
        known[label, framework] = Exercise(test, f'{stub}\n    ...\n\n\ncheck({label!r}, {name})',
                                           {'answer': f'the function {name}'}, **limits)
        return test
    return register


def numbers(label: str, framework: str | None = None, **parts: Part) -> None:
    """An exercise whose answer is figures or words."""
    def test(*answers: Any) -> None:
        for answer, (name, part) in zip(answers, parts.items(), strict=True):
            need(_same(answer, part.expected, part.within), f'{name}, {part.asks}', part.hint,
                 part.second)
    lines = ''.join(f'    {name}=...,   # {part.asks}\n' for name, part in parts.items())
    known[label, framework] = Exercise(test, f'check(\n    {label!r},\n{lines})',
                                  {name: part.asks for name, part in parts.items()})


def text(label: str, *points: str) -> None:
    """An exercise of free text: its answer is shown the points to compare it with."""
    def test(answer: Any) -> None:
        need(isinstance(answer, str) and len(answer.split()) >= 10, 'an answer in words',
             'Write what you would tell a colleague, as a text in quotes.',
             'At least ten words: only then the points to compare with are shown.')
    known[label, None] = Exercise(test, f"answer = ...   # '''your text'''\n\ncheck({label!r}, answer)",
                                  {'answer': 'a text in quotes'}, points)


def need(holds: bool, what: str, hint: str, second: str) -> None:
    """A property of an answer.

    Raises:
        Missing: it does not hold.
    """
    if not holds:
        raise Missing(what, hint, second)


def _same(answer: Any, expected: Any, within: float) -> bool:
    if isinstance(expected, str | bool):
        return type(answer) is type(expected) and (
            str(answer).strip().casefold() == str(expected).casefold())
    if isinstance(expected, set | list):
        if not isinstance(answer, set | list | tuple) or len(answer) != len(expected):
            return False
        if isinstance(expected, set):
            return {str(a).casefold() for a in answer} == {str(e).casefold() for e in expected}
        return all(_same(a, e, within) for a, e in zip(answer, expected, strict=True))
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.number):
        return False
    return math.isclose(answer, expected, rel_tol=within if isinstance(expected, float) else 1e-9)


def fetch(y: Any) -> np.ndarray:
    """The numbers of an array of any framework, from its device or still to be computed: a copy."""
    for step in ('detach', 'cpu', 'asnumpy' if hasattr(y, 'asnumpy') else 'numpy'):
        y = getattr(y, step)() if hasattr(y, step) else y
    return np.array(y)


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
    issued, times, last = [], [], None
    for i in range(calls):
        args = make(i)
        before = [fetch(a) for a in args]
        begin = clock()
        y = function(*args)
        issued.append(clock() - begin)
        kind = str(getattr(y, 'dtype', '')).split('.')[-1]
        result = fetch(y.float() if kind == 'bfloat16' else y)      # which NumPy does not have
        times.append(clock() - begin)
        need(all(np.array_equal(fetch(a), b) for a, b in zip(args, before, strict=True)),
             'inputs that stay as they were', 'Something writes into the arrays that it was given.',
             'Look for operations in place, such as += or a name that ends with an underscore.')
        right, stale = expected(*before), last
        last, scale = right, np.abs(right).max()
        need(result.shape == right.shape, 'the shape',
             f'The result should have the shape {right.shape}.', 'Print the shape after each line.')
        off = np.abs(result.astype(float) - right).max() / scale
        need(off <= tolerance or stale is None or np.abs(result - stale).max() > tolerance * scale,
             'a fresh result in each call', 'This result belongs to the inputs of the call before.',
             'Each call gets new inputs. What is kept from one call to the next?')
        coarse = tolerance < off < 0.05 or (off <= tolerance and kind not in ('', right.dtype.name))
        need(not coarse, 'the precision', f'The result should be as exact as {right.dtype.name} allows.',
             'Which line rounds to fewer bits? A speed that comes from that should be said.')
        need(off <= tolerance, 'the right numbers', 'Compare with a plain loop on a small case.',
             'Print where the two differ most, and by how much.')
    need(all(getattr(time, name) is c and isinstance(c, types.BuiltinFunctionType)
             for name, c in CLOCKS.items()), 'the clocks of the system',
         'A function of the module time is not the one that Python came with.',
         'Restart the kernel, and leave the clocks alone.')
    returned, median = statistics.median(issued), statistics.median(times)
    need(returned > median / 2 or median < 1e-3, 'work that is done on return',
         'The call came back long before its numbers were there.', 'What is left in a queue?')
    need(median > floor, 'a time that is possible',
         f'{median:.2g} s is less than moving the bytes takes.',
         'Is the work done within the call, on the inputs of this call?')
    return min(times)
