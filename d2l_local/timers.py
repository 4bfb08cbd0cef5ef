"""d2l's Timer, Benchmark and Accumulator. What a sentence of the book rests on is measured by
:mod:`tested_results` instead."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tested_results.timing import measured


class Timer:
    """Record several running times in seconds (d2l's ``Timer``, on a monotonic clock).

    ``sync``, if given, is called before the clock stops, so that work queued in a back end or on a
    device is counted.
    """

    def __init__(self, sync: Callable[[], Any] | None = None) -> None:
        self.times: list[float] = []
        self.sync = sync
        self.start()

    def start(self) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def stop(self) -> float:
        """Stop the clock; record and return the seconds since ``start``."""
        if self.sync:
            self.sync()
        self.times.append(time.perf_counter() - self._start)
        return self.times[-1]

    def avg(self) -> float:
        """Mean of the recorded times."""
        return self.sum() / len(self.times)

    def sum(self) -> float:
        """Sum of the recorded times."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """Running sum of the recorded times."""
        return np.cumsum(self.times).tolist()


@contextlib.contextmanager
def Benchmark(description: str = 'Done', sync: Callable[[], Any] | None = None) -> Iterator[None]:
    """Print the wall-clock time of a ``with`` block (d2l's ``Benchmark``).

    Shows one run. What the book claims is measured with :func:`tested_results.timing.ratio` instead.
    """
    timer = Timer(sync)
    yield
    print(f'{description}: {measured(timer.stop(), "s")}')


class Accumulator:
    """Sums over ``n`` variables, in ``data`` (d2l's ``Accumulator``)."""

    def __init__(self, n: int) -> None:
        self.data = [0.0] * n

    def add(self, *args: float) -> None:
        """Add one number to each sum."""
        if len(args) != len(self.data):
            raise ValueError(f'{len(self.data)} sums need {len(self.data)} numbers, got {len(args)}')
        self.data = [a + float(b) for a, b in zip(self.data, args, strict=True)]

    def reset(self) -> None:
        """Set every sum to zero."""
        self.data = [0.0] * len(self.data)

    def __getitem__(self, i: int) -> float:
        return self.data[i]
