"""Clocks, samples, and paired ratios with an interval. Knows no framework.

Times are in seconds unless a name says otherwise. A *sample* is a loop of calls
that lasts about ``sample`` seconds; what is compared is the time per call.
``tests/instrument.py`` shows how often its intervals and verdicts are right.
"""

import contextlib
import functools
import gc
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

CLOCKS = {'wall': time.perf_counter, 'thread': time.thread_time}
LEVEL = 0.998          # of one interval; about ten looks leave 98% for a whole sequence
MIN_PAIRS = 10         # the fewest pairs for which an interval of that level exists
FAIL_PAIRS = 30        # "fails" is red in CI at once, so it takes more evidence than "holds"
FAIL_SECONDS = 3.0
SAMPLE = 0.0005        # shorter than the slice of time after which a busy neighbour gets the core,
SYNC_SAMPLE = 0.005    # but long against the filling and draining of a queue that ``sync`` waits for
LEAST = 0.05           # seconds for warming up, and again for measuring, before any verdict
LONGEST = 0.05         # shorter samples are stretched to equal length; longer ones even out
_order = random.Random()     # its own, so that the reader's random numbers stay as they are


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


def critical_path(events: list[Event], slack: float = 1e-3) -> list[Event]:
    """The chain of events that the end of the last one had to wait for, first to last.

    Going back from the event that ends last, each is preceded by the event that ended last
    before it started, on whatever lane (give or take ``slack`` seconds): in a trace where lanes
    start what is ready, that is what it waited for.
    """
    path = [max(events, key=lambda e: e.end)]
    while True:
        before = [e for e in events if e.end <= path[-1].start + slack and e.start < path[-1].start]
        if not before:
            return path[::-1]
        path.append(max(before, key=lambda e: e.end))


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


def _tick(now: Callable[[], float]) -> float:
    """The smallest step, in seconds, that the clock was seen to make."""
    steps = []
    for _ in range(5):
        start = last = now()
        while last == start:
            last = now()
        steps.append(last - start)
    return min(steps)


def _sample(f: Callable[[], Any], calls: int, sync: Callable[[], Any] | None,
            now: Callable[[], float]) -> float:
    """Seconds per call of one loop of ``calls`` calls, ``sync`` included."""
    start = now()
    for _ in range(calls):
        f()
    if sync:
        sync()
    return (now() - start) / calls


def _round(variants: list[Callable[[], Any]], calls: list[int], sync: Callable[[], Any] | None,
           now: Callable[[], float]) -> list[float]:
    """Seconds per call of one sample of each variant, taken in random order.

    Busy neighbours interrupt at regular intervals: any fixed order can fall into step with them.
    """
    times = [0.0] * len(variants)
    for i in _order.sample(range(len(variants)), len(variants)):
        times[i] = _sample(variants[i], calls[i], sync, now)
    return times


def _counts(times: list[float], sample: float) -> list[int]:
    """Calls per sample for variants that take ``times`` a call: about ``sample`` seconds, or one call.

    All samples last equally long, as far as whole calls allow: a busy neighbour stretches long
    samples by another factor than short ones, which would shift the median of their ratio.
    """
    least = [max(1, round(sample / t)) for t in times]
    length = min(max(n * t for n, t in zip(least, times, strict=True)), max(sample, LONGEST))
    return [max(n, round(length / t)) for n, t in zip(least, times, strict=True)]


def _calibrate(variants: list[Callable[[], Any]], sync: Callable[[], Any] | None,
               now: Callable[[], float], sample: float) -> list[int]:
    """Calls per sample of each variant; it warms up on the way.

    Takes the least of many short loops, since a busy neighbour interrupts the others.
    """
    times = []
    for f in variants:
        n = 1
        while (t := min([_sample(f, n, sync, now) for _ in range(2)])) * n < sample / 4:
            n *= 2
        times.append(t)
    for _ in range(2):      # the second time with loops that are about equally long
        if max(times) < LONGEST:
            calls, rounds, end = _counts(times, sample / 4), [], time.perf_counter() + LEAST / 2
            while len(rounds) < 5 or time.perf_counter() < end:
                rounds.append(_round(variants, calls, sync, now))
            times = np.min(rounds, axis=0).tolist()
    return _counts(times, sample)


def _clock(clock: str, sample: float | None, sync: Any) -> tuple[Callable[[], float], float]:
    """The clock's function, and the length of a sample, for which it must be fine enough."""
    if clock not in CLOCKS:
        raise ValueError(f"clock must be one of {sorted(CLOCKS)}, not {clock!r}")
    sample = sample or (SYNC_SAMPLE if sync else SAMPLE)
    now = CLOCKS[clock]
    tick = _tick(now)
    if tick * 100 > sample:
        raise ClockTooCoarse(
            f'the {clock} clock moves in steps of {show_seconds(tick)}: too coarse for samples of '
            f"{show_seconds(sample)}. Use clock='wall' or sample={100 * tick:.2g}.")
    return now, sample


def measure(f: Callable[[], Any], *, sync: Callable[[], Any] | None = None, clock: str = 'wall',
            budget: float = 0.5, sample: float | None = None) -> Time:
    """Time per call of ``f``.

    Args:
        f: called without arguments.
        sync: called at the end of each sample, before the clock stops.
        clock: ``'wall'``, or ``'thread'``: CPU time of this thread alone, which busy
            neighbours do not disturb; only for work that runs in the calling thread.
        budget: seconds to spend.
        sample: duration of one sample in seconds, unless a single call takes longer; 0.0005, or
            0.005 with ``sync``.

    Returns:
        A :class:`Time`; at least ten samples, however small the budget.
    """
    now, sample = _clock(clock, sample, sync)
    f()
    calls = _calibrate([f], sync, now, sample)
    times: list[float] = []
    end = time.perf_counter() + budget
    with _no_gc():
        while len(times) < MIN_PAIRS or time.perf_counter() < end:
            times += _round([f], calls, sync, now)
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
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    return [np.asarray(x)]


def gap(a: Any, b: Any) -> float:
    """The largest difference between the numbers in ``a`` and ``b``, on whatever devices they are."""
    return max(float(np.max(np.abs(x - y), initial=0))
               for x, y in zip(arrays(a), arrays(b), strict=True))


def check_agreement(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Raise :class:`VariantError` unless ``a`` and ``b`` hold the same numbers."""
    xs, ys = arrays(a), arrays(b)
    hint = 'A faster wrong answer is no speed-up; pass agree=False if they are meant to differ.'
    if [x.shape for x in xs] != [y.shape for y in ys]:
        raise VariantError(f'the variants return different shapes: {[x.shape for x in xs]} and '
                           f'{[y.shape for y in ys]}. {hint}')
    for x, y in zip(xs, ys, strict=True):
        if x.dtype.kind not in 'biufc' or y.dtype.kind not in 'biufc':
            raise VariantError(f'the variants return {x.dtype} and {y.dtype}, which are no numbers: '
                               'let them return arrays or nothing, or pass agree=False.')
        if not np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True):
            gap = np.abs(np.subtract(x, y, dtype=np.result_type(x, y, float)))
            raise VariantError(f'the variants compute different numbers: they differ by up to '
                               f'{np.max(gap):.3g}. {hint}')


def _first_call(name: str, f: Callable[[], Any]) -> Any:
    try:
        return f()
    except Exception as e:
        raise VariantError(f"the variant '{name}' raised {type(e).__name__}: {e}. "
                           'Call it alone to find out why.') from e


def ratio(slow: Callable[[], Any], fast: Callable[[], Any], *, above: float | None = None,
          below: float | None = None, sync: Callable[[], Any] | None = None, clock: str = 'wall',
          agree: bool = True, budget: float = 6.0, sample: float | None = None) -> Ratio:
    """How many times the time of ``fast`` a call of ``slow`` takes, as a paired ratio.

    The two variants run in turn, in random order, each sample long enough for the clock
    and as long as the other's, so that what disturbs the machine hits both. Sampling stops
    when the interval lies on the good side of the bound, when it lies firmly on the bad
    side, or when the budget ends. Without a bound it spends the whole budget.

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
    now, sample = _clock(clock, sample, sync)
    results = _first_call('slow', slow), _first_call('fast', fast)
    if agree:
        check_agreement(*results)
    del results
    began = time.perf_counter()
    calls = _calibrate([slow, fast], sync, now, sample)
    pairs: list[list[float]] = []
    look, start = MIN_PAIRS, time.perf_counter()
    with _no_gc():
        while True:
            pairs.append(_round([slow, fast], calls, sync, now))
            spent = time.perf_counter() - start
            if (len(pairs) >= look and spent >= LEAST) or spent >= budget:
                look = math.ceil(1.5 * len(pairs))
                value, low, high = median_interval([s / f for s, f in pairs])
                side = bound_side(low, high, above, below)
                firm = len(pairs) >= FAIL_PAIRS and spent >= min(budget, FAIL_SECONDS)
                if side > 0 or (side < 0 and firm) or spent >= budget:
                    return Ratio(value, low, high, len(pairs), *np.median(pairs, axis=0).tolist(),
                                 time.perf_counter() - began)


def bound_side(low: float, high: float, above: float | None, below: float | None) -> int:
    """Where an interval lies: 1 within the bound, -1 outside, 0 across it (or no bound)."""
    if above is not None:
        return (low > above) - (high < above)
    if below is not None:
        return (high < below) - (low > below)
    return 0


def processor_time(f: Callable[[], Any], calls: int = 3, sync: Callable[[], Any] | None = None) -> float:
    """Seconds that all cores together spend on a call of ``f``, in any thread of this process.

    Waiting does not count, so neighbours disturb it little.

    Args:
        sync: called before and after, so that queued work counts where it belongs.
    """
    wait = sync or (lambda: None)
    wait()
    begin = time.process_time()
    for _ in range(calls):
        f()
    wait()
    return (time.process_time() - begin) / calls
