"""Clocks, samples, and paired ratios with an interval. Knows no framework.

Times are in seconds unless a name says otherwise. A *sample* is a loop of calls
that lasts at least ``sample`` seconds; what is compared is the time per call.
"""

import contextlib
import functools
import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

CLOCKS = {'wall': ('perf_counter', time.perf_counter),
          'thread': ('thread_time', time.thread_time)}
LEVEL = 0.998          # of one interval; about ten looks leave 98% for a whole sequence
MIN_PAIRS = 10         # the fewest pairs for which an interval of that level exists
FAIL_PAIRS = 30        # "fails" is red in CI at once, so it takes more evidence than "holds"
FAIL_SECONDS = 3.0


class ClockTooCoarse(RuntimeError):
    """The clock moves in steps that are too large for the samples asked for."""


class VariantError(RuntimeError):
    """A variant raised, or the two variants computed different numbers."""


class Timer:
    """Record several running times (d2l's ``Timer``, on a monotonic clock).

    ``sync``, if given, is called before the clock stops, so that work queued in a
    back end or on a device is counted.
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
        """Mean of the recorded times, in seconds."""
        return sum(self.times) / len(self.times)

    def sum(self) -> float:
        """Sum of the recorded times, in seconds."""
        return sum(self.times)

    def cumsum(self) -> list[float]:
        """Running sum of the recorded times, in seconds."""
        return np.cumsum(self.times).tolist()


class Benchmark:
    """Print the wall-clock time of a ``with`` block (d2l's ``Benchmark``).

    Shows one run. What the book claims is measured with :func:`ratio` instead.
    """

    def __init__(self, description: str = 'Done', sync: Callable[[], Any] | None = None) -> None:
        self.description, self.sync = description, sync

    def __enter__(self) -> 'Benchmark':
        self.timer = Timer(self.sync)
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        if kind is None:
            print(f'{self.description}: {show_seconds(self.timer.stop())}')


class Accumulator:
    """Sums over ``n`` variables (d2l's ``Accumulator``)."""

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


class Event(NamedTuple):
    """Something that a lane (a thread or a device) did from ``start`` to ``end``, in seconds."""

    lane: str
    name: str
    start: float
    end: float


def busy(events: list[Event], lane: str) -> list[tuple[float, float]]:
    """The intervals in which a lane is busy, merged and in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted((e.start, e.end) for e in events if e.lane == lane):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def overlap(events: list[Event], a: str, b: str) -> float:
    """Share of the less busy lane's time in which both lanes are busy: 0 in turn, 1 at once."""
    first, second = busy(events, a), busy(events, b)
    if not first or not second:
        raise ValueError(f'no events in the lane {a if not first else b!r}; there are '
                         f'{sorted({e.lane for e in events})}')
    both = sum(max(0.0, min(p[1], q[1]) - max(p[0], q[0])) for p in first for q in second)
    return both / min(sum(end - start for start, end in lane) for lane in (first, second))


def show_seconds(t: float) -> str:
    """A time with a unit that suits it and three digits: ``12.3 µs``."""
    for unit, size in (('s', 1.0), ('ms', 1e-3), ('µs', 1e-6)):
        if t >= size:
            return f'{t / size:.3g} {unit}'
    return f'{t / 1e-9:.3g} ns'


@dataclass(frozen=True)
class Time:
    """Time per call in seconds: the median and an interval that covers it."""

    value: float
    low: float
    high: float
    samples: int

    def __str__(self) -> str:
        return f'{show_seconds(self.value)} ({show_seconds(self.low)}–{show_seconds(self.high)})'

    __repr__ = __str__


@dataclass(frozen=True)
class Ratio:
    """``slow`` ÷ ``fast`` in time per call: median over pairs, and its interval."""

    value: float
    low: float
    high: float
    pairs: int
    slow: float       # median seconds per call
    fast: float
    seconds: float    # spent on measuring

    def __str__(self) -> str:
        return f'{self.value:.2f}× ({self.low:.2f}–{self.high:.2f})'

    __repr__ = __str__


@functools.lru_cache(4096)
def _rank(n: int, level: float) -> int:
    """Rank k such that the k-th smallest and k-th largest of n samples enclose the median."""
    tail, k = 0.0, 0
    while True:
        tail += math.comb(n, k) / 2 ** n
        if tail > (1 - level) / 2 or k > n // 2:
            return k
        k += 1


def median_interval(values: list[float], level: float = LEVEL) -> tuple[float, float, float]:
    """Median and the distribution-free interval that covers it with ``level``.

    The interval lies between two order statistics (sign test). With too few values
    for the level (10 for the default) it is unbounded.

    Source: Conover, *Practical Nonparametric Statistics*, 3rd ed., section 3.2.
    """
    v, n = np.sort(values), len(values)
    k = _rank(n, level)
    low, high = (v[k - 1], v[n - k]) if k else (0.0, math.inf)
    return float(np.median(v)), float(low), float(high)


@contextlib.contextmanager
def _no_gc():
    """Keep Python's garbage collector out of the samples."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _tick(clock: str) -> float:
    """The smallest step, in seconds, that the clock was seen to make."""
    name, now = CLOCKS[clock]
    steps = [time.get_clock_info(name).resolution]
    for _ in range(5):
        start = last = now()
        while last == start:
            last = now()
        steps.append(last - start)
    return min(steps[1:]) if min(steps[1:]) > 0 else steps[0]


def _sample(f: Callable[[], Any], calls: int, sync: Callable[[], Any] | None,
            now: Callable[[], float]) -> float:
    """Seconds per call of one loop of ``calls`` calls, ``sync`` included."""
    start = now()
    for _ in range(calls):
        f()
    if sync:
        sync()
    return (now() - start) / calls


def _calibrate(f, sync, now, sample: float) -> int:
    """The number of calls that last about ``sample`` seconds; it warms up on the way."""
    calls = 1
    while True:
        spent = _sample(f, calls, sync, now) * calls
        if spent >= sample:
            return max(1, math.ceil(calls * sample / spent))
        calls = max(calls + 1, min(calls * 10, math.ceil(1.2 * calls * sample / max(spent, 1e-9))))


def _check_clock(clock: str, sample: float) -> Callable[[], float]:
    if clock not in CLOCKS:
        raise ValueError(f"clock must be one of {sorted(CLOCKS)}, not {clock!r}")
    tick = _tick(clock)
    if tick * 100 > sample:
        raise ClockTooCoarse(
            f'the {clock} clock moves in steps of {show_seconds(tick)}: too coarse for samples of '
            f"{show_seconds(sample)}. Use clock='wall' or sample={100 * tick:.2g}.")
    return CLOCKS[clock][1]


def measure(f: Callable[[], Any], *, sync: Callable[[], Any] | None = None, clock: str = 'wall',
            budget: float = 0.5, sample: float = 0.005) -> Time:
    """Time per call of ``f``.

    Args:
        f: called without arguments.
        sync: called at the end of each sample, before the clock stops.
        clock: ``'wall'``, or ``'thread'``: CPU time of this thread alone, which busy
            neighbours do not disturb; only for work that runs in the calling thread.
        budget: seconds to spend.
        sample: least duration of one sample in seconds.

    Returns:
        A :class:`Time`; at least ten samples, however small the budget.
    """
    now = _check_clock(clock, sample)
    f()
    calls = _calibrate(f, sync, now, sample)
    times: list[float] = []
    end = time.perf_counter() + budget
    with _no_gc():
        while len(times) < MIN_PAIRS or time.perf_counter() < end:
            times.append(_sample(f, calls, sync, now))
    return Time(*median_interval(times), len(times))


def arrays(x: Any) -> list[np.ndarray]:
    """The numbers in ``x`` (arrays or tensors of either framework, nested in lists) as NumPy arrays."""
    if x is None:
        return []
    if isinstance(x, list | tuple):
        return [a for y in x for a in arrays(y)]
    if hasattr(x, 'asnumpy'):
        x = x.asnumpy()
    elif hasattr(x, 'detach'):
        x = x.detach().cpu().double().numpy()
    return [np.asarray(x)]


def check_agreement(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Raise :class:`VariantError` unless ``a`` and ``b`` hold the same numbers."""
    xs, ys = arrays(a), arrays(b)
    hint = 'A faster wrong answer is no speed-up; pass agree=False if they are meant to differ.'
    if [x.shape for x in xs] != [y.shape for y in ys]:
        raise VariantError(f'the variants return different shapes: {[x.shape for x in xs]} and '
                           f'{[y.shape for y in ys]}. {hint}')
    for x, y in zip(xs, ys, strict=True):
        if not np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True):
            raise VariantError(f'the variants compute different numbers: they differ by up to '
                               f'{np.max(np.abs(x - y)):.3g}. {hint}')


def _first_call(name: str, f: Callable[[], Any]) -> Any:
    try:
        return f()
    except Exception as e:
        raise VariantError(f"the variant '{name}' raised {type(e).__name__}: {e}. "
                           'Call it alone to find out why.') from e


def ratio(slow: Callable[[], Any], fast: Callable[[], Any], *, above: float | None = None,
          below: float | None = None, sync: Callable[[], Any] | None = None, clock: str = 'wall',
          agree: bool = True, budget: float = 6.0, sample: float = 0.005) -> Ratio:
    """How many times the time of ``fast`` a call of ``slow`` takes, as a paired ratio.

    The two variants run in turn (the order alternates), each sample long enough for the
    clock, so that a slow minute of the machine hits both. Sampling stops when the interval
    lies on the good side of the bound, when it lies firmly on the bad side, or when the
    budget ends. Without a bound it spends the whole budget.

    Args:
        slow, fast: called without arguments.
        above, below: the bound on the ratio; at most one of them.
        sync, clock, sample: as for :func:`measure`.
        agree: require that both return the same numbers.
        budget: seconds to spend at most, warm-up aside.

    Raises:
        VariantError: a variant raised, or the variants compute different numbers.
        ClockTooCoarse: see :func:`measure`.
    """
    now = _check_clock(clock, sample)
    results = _first_call('slow', slow), _first_call('fast', fast)
    if agree:
        check_agreement(*results)
    del results
    began = time.perf_counter()
    n_slow, n_fast = (_calibrate(f, sync, now, sample) for f in (slow, fast))
    slows: list[float] = []
    fasts: list[float] = []
    look, start = MIN_PAIRS, time.perf_counter()
    with _no_gc():
        while True:
            order = [(slow, n_slow, slows), (fast, n_fast, fasts)]
            for f, calls, times in order[::-1] if len(slows) % 2 else order:
                times.append(_sample(f, calls, sync, now))
            spent = time.perf_counter() - start
            if len(slows) >= look or spent >= budget:
                look = math.ceil(1.5 * len(slows))
                value, low, high = median_interval([s / f for s, f in zip(slows, fasts, strict=True)])
                side = bound_side(low, high, above, below)
                firm = len(slows) >= FAIL_PAIRS and spent >= min(budget, FAIL_SECONDS)
                if side > 0 or (side < 0 and firm) or spent >= budget:
                    return Ratio(value, low, high, len(slows), float(np.median(slows)),
                                 float(np.median(fasts)), time.perf_counter() - began)


def bound_side(low: float, high: float, above: float | None, below: float | None) -> int:
    """Where an interval lies: 1 within the bound, -1 outside, 0 across it (or no bound)."""
    if above is not None:
        return (low > above) - (high < above)
    if below is not None:
        return (high < below) - (low > below)
    return 0
