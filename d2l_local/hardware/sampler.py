"""Time per operation of small kernels, with the range that repetitions cover. Knows no framework."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from d2l_local.timing import _no_gc, show_seconds

SAMPLE = 0.002           # seconds: long against the clock, short against the slices of busy neighbours
FEWEST, MOST = 15, 200   # samples of one figure
BLOCKS = 5               # the range of a figure comes from as many parts of its samples
STEADY = 0.3             # a wider range than this share of the figure: drawn hollow


@dataclass(frozen=True)
class Figure:
    """Seconds per operation, and the lowest and highest that a fifth of the samples gave."""

    value: float
    low: float
    high: float
    samples: int

    @property
    def steady(self) -> bool:
        """Whether the range is narrow enough to trust the figure."""
        return self.high - self.low <= STEADY * self.value

    def __str__(self) -> str:
        return f'{show_seconds(self.value)} ({show_seconds(self.low)}–{show_seconds(self.high)})'

    __repr__ = __str__


def _interruptions() -> int:
    """How often the system took the core from this thread; always 0 where it does not count them."""
    with contextlib.suppress(ImportError, AttributeError):
        import resource
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
    return 0


def figure(times: list[float], pick: str = 'least') -> Figure:
    """The figure of some samples (seconds per operation) in the order in which they were taken.

    Args:
        pick: ``'least'`` for what the core does alone: whatever disturbs, only adds. ``'median'``
            for memory, other cores and devices, where the least is a lucky case: a line that
            was still cached, two threads that missed each other.
    """
    choose = {'least': np.min, 'median': np.median}[pick]
    parts = [choose(part) for part in np.array_split(times, min(BLOCKS, len(times)))]
    return Figure(float(choose(times)), float(min(parts)), float(max(parts)), len(times))


def _timed(kernel: Callable[[int], Any], n: int) -> float:
    begin = time.perf_counter()
    kernel(n)
    return time.perf_counter() - begin


def sample(kernel: Callable[[int], Any], pick: str = 'least', *, budget: float = 0.1,
           length: float = SAMPLE, first: int = 64) -> Figure:
    """Seconds per operation of ``kernel(n)``, which does ``n`` operations.

    Samples last about ``length`` seconds; those during which the system gave the core to
    somebody else are dropped. At least 15 samples, then as many as fit into ``budget`` seconds.

    Args:
        first: the number of operations to begin the search for the length with.
    """
    kernel(first)                          # compiles, and warms up
    n = first
    while (t := min(_timed(kernel, n) for _ in range(3))) < length / 4:
        n *= 2
        if n > 2 ** 50:
            raise ValueError('the kernel takes no time: does it do n operations?')
    n = max(1, round(n * length / t))
    clean, all_times = [], []
    end = time.perf_counter() + budget
    with _no_gc():
        while len(all_times) < MOST and (len(clean) < FEWEST or time.perf_counter() < end):
            before = _interruptions()
            all_times.append(_timed(kernel, n) / n)
            if _interruptions() == before:
                clean.append(all_times[-1])
            elif len(all_times) >= 4 * FEWEST and time.perf_counter() > end:
                break
    return figure(clean if len(clean) >= BLOCKS else all_times, pick)
