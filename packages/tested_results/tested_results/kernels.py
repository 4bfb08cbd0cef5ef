"""The time per operation of a kernel, from the samples that the system left alone."""

import contextlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tested_results.timing import Time, long_enough, no_gc, seconds_per_call

CLEAN, MOST = 15, 200  # samples of a kernel: so many undisturbed ones, and so many at most
BLOCKS = 5             # parts of a kernel's samples that give its range


def _range(values: list[float], parts: int, choose: Callable = np.median) -> tuple[float, float]:
    """The least and the greatest of what ``choose`` makes of each part of the values."""
    found = [float(choose(p)) for p in np.array_split(values, min(parts, len(values)))]
    return min(found), max(found)


def _interruptions() -> int:
    """How often the system took the core from this thread; always 0 where it does not count them."""
    with contextlib.suppress(ImportError, AttributeError):
        import resource
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    return 0


def summarize(times: list[float], pick: str = 'least') -> Time:
    """The least or the median of times per operation, in the order in which they were taken.

    ``low`` and ``high`` are the lowest and the highest that a fifth of them gave; it takes one at least.

    Args:
        pick: ``'least'`` for what the core does alone: whatever disturbs, only adds. ``'median'``
            for memory, other cores and devices, where the least is a lucky case: a line that
            was still cached, two threads that missed each other.
    """
    choose = {'least': np.min, 'median': np.median}[pick]
    return Time(float(choose(times)), *_range(times, BLOCKS, choose), len(times))


def time_kernel(kernel: Callable[[int], Any], pick: str = 'least', *, budget: float = 0.1,
           length: float = 0.002, first: int = 64) -> Time:
    """Time per operation of ``kernel(n)``, which does ``n`` operations: see :func:`summarize`.

    Samples during which the system gave the core to somebody else are dropped. There are at least 15,
    then as many as fit into ``budget`` seconds, up to 200.

    Args:
        length: of a sample in seconds: long against the clock, short against the slices of busy
            neighbours.
        first: the number of operations to begin the search for the length with.

    Raises:
        ValueError: a thousand million million operations take less than that.
    """
    def timed(n: int) -> float:
        return seconds_per_call(lambda: kernel(n), 1, None, time.perf_counter)

    kernel(first)                          # compiles, and warms up
    n, t = long_enough(timed, length / 4, first)
    n = max(1, round(n * length / t))
    clean, taken, end = [], [], time.perf_counter() + budget
    with no_gc():
        while len(taken) < MOST and (len(clean) < CLEAN or time.perf_counter() < end):
            before = _interruptions()
            taken.append(timed(n) / n)
            if _interruptions() == before:
                clean.append(taken[-1])
            elif len(taken) >= 4 * CLEAN and time.perf_counter() > end:
                break
    return summarize(clean if len(clean) >= BLOCKS else taken, pick)
