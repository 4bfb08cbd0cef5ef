"""Clocks, samples, and paired ratios with an interval. Knows no framework.

Times are in seconds unless a name says otherwise. A *sample* is a loop of calls
that lasts about ``sample_seconds`` seconds; what is compared is the time per call.

How long a result is measured follows a rule that stands here, before anything is measured. The
measuring goes on in windows of time of :data:`SPAN` / 10, and looks at what it has found after 5, 10
and 20 of them, which is after 2, 4 and 8 seconds:

1. After five windows it stops if the result is far from its bound and precise. The measurements are cut
   into ten parts, and the interval goes from the least to the greatest of the parts' medians. It must
   lie within the bound by a factor of 1.7 (:data:`EARLY_MARGIN`) and be at most 15% wide
   (:data:`EARLY_WIDTH`). Where there is no bound, it must be at most 10% wide. What is published is this
   interval, 5% wider at each end (:data:`EARLY_WIDENING`), because fewer seconds have seen less of what
   the machine does.
2. After ten windows it stops if there is no bound, or if the interval lies beyond the bound by 5%
   (:data:`MARGIN`), on either side.
3. After twenty windows it stops in any case.

So only "holds" may come early; what fails is always measured for the whole time. The factor of 1.7
answers what the few seconds cannot see: while a machine is slow for longer than five windows last, and the
ratio is therefore up to 1.6 times too large, the first look lets nothing hold that does not. There is no
look after the twentieth window: in simulation, twenty more windows decided a quarter of the results that
were still undecided, took two thirds of the time that the first look saves, and were wrong more
often where the machine's speed changes every few seconds. ``tests/instrument.py`` shows how often intervals
and verdicts are right, by this rule and without its first look.
"""

import contextlib
import gc
import itertools
import math
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from tested_results.agreement import (
    VariantError,
    call,
    check_agreement,
    check_later_calls,
    check_work,
    copied,
    first_call,
    thinned,
)
from tested_results.agreement import gap as gap  # notebooks import it from here
from tested_results.numbers import figure as show_figure
from tested_results.numbers import measured
from tested_results.numbers import seconds as show_seconds


def __getattr__(name: str) -> Any:
    """The functions of :mod:`tested_results.kernels`, which notebooks import from here.

    That module imports this one, so they cannot be imported above.
    """
    if name in ('summarize', 'time_kernel'):
        from tested_results import kernels
        return getattr(kernels, name)
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


def seconds_of(variable: str, default: float) -> float:
    """Seconds that an environment variable asks for.

    Raises:
        ValueError: it is set, and not to a positive number.
    """
    text = os.environ.get(variable, '')
    try:
        seconds = float(text or default)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f'{variable} must be a positive number of seconds, not {text!r}')
    return seconds


CLOCKS = {'wall': time.perf_counter, 'thread': time.thread_time}
DROPPED = 2            # of twenty windows, so many at each end do not count
FEWEST = 7             # single measurements that make an interval where each is long: 98.4%
# Stretches of time, one after the other, whose medians make the interval. Fewer than ten are for tests,
# which ask whether something broke.
WINDOWS = max(FEWEST, round(seconds_of('TESTED_RESULTS_WINDOWS', 10)))
SPAN = seconds_of('TESTED_RESULTS_SPAN', 4)   # seconds that ten windows last together
MARGIN = 1.05          # so far beyond the bound the interval must lie: what 5% decides, nobody should
EARLY = 0.5            # share of the windows after which the first look comes; 0 for none
EARLY_MARGIN = 1.7     # so far within the bound the interval must lie for a "holds" at the first look
EARLY_WIDTH = 0.15     # the interval's width at the first look, at most, as a share of the value
EARLY_WIDTH_UNBOUNDED = 0.10    # the same where nothing but the width tells that it is enough
EARLY_WIDENING = 1.05  # by this factor each end of an interval of the first look is moved outwards
SAMPLE = 0.0005        # shorter than the slice of time after which a busy neighbour gets the core,
SYNC_SAMPLE = 0.005    # but long against the filling and draining of a queue that ``sync`` waits for
WARM = 0.05            # seconds for warming up
LONGEST = 0.05         # shorter samples are stretched to equal length; longer ones even out
STEADY = 0.3           # a range wider than this share of the value is not to be trusted
_order = random.Random()     # its own, so that the reader's random numbers stay as they are


@dataclass(frozen=True, repr=False)
class Estimate:
    """A figure that was measured repeatedly: its value, and an interval that covers it.

    ``values`` is how many measurements there were, in how many ``windows``; ``set_aside`` how many
    windows did not count because a condition did not hold meanwhile, and ``reason`` the last one's
    reason. ``needs`` are the names of the conditions that were watched, where programs ran in turn.
    """

    unit: ClassVar[str] = ''
    value: float
    low: float
    high: float
    values: int
    seconds: float = 0.0
    set_aside: int = 0
    reason: str = ''
    windows: int = 0
    needs: tuple[str, ...] = ()

    @property
    def steady(self) -> bool:
        """Whether the interval is narrow enough to trust the value: 30% of it at most."""
        return self.high - self.low <= STEADY * self.value

    def __truediv__(self, parts: float) -> Self:
        """The figure of one of so many equal parts."""
        return replace(self, value=self.value / parts, low=self.low / parts, high=self.high / parts)

    def __str__(self) -> str:
        show = show_seconds if self.unit == 's' else show_figure
        return f'{measured(self.value, self.unit)} ({show(self.low)}–{show(self.high)})'

    __repr__ = __str__


class Time(Estimate):
    """Time per call or per operation, in seconds."""

    unit = 's'


@dataclass(frozen=True, repr=False)
class Ratio(Estimate):
    """``slow`` ÷ ``fast`` in time per call; ``slow`` and ``fast`` are medians in seconds."""

    unit = '×'
    slow: float = math.nan
    fast: float = math.nan


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median of measurements in the order in which they were taken, and an interval around it.

    The measurements are cut into ten windows; the interval goes from the least to the greatest of the
    windows' medians (see :func:`between`). With fewer than ten values each is a window of its own, and
    with fewer than seven the interval is unbounded.
    """
    value = float(np.median(values)) if len(values) else math.nan
    if len(values) < FEWEST:
        return value, -math.inf, math.inf
    medians = [float(np.median(p)) for p in np.array_split(values, min(WINDOWS, len(values)))]
    return value, *between(medians, value)


def between(medians: list[float], value: float) -> tuple[float, float]:
    """The interval that the medians of windows give for the median of what was measured.

    Up to ten windows: from the least to the greatest. Twenty: from the third least to the third
    greatest. If the windows are independent, it misses the median in 2 of 2^10 cases, or in 422 of
    2^20. Measurements *within* a window may depend on each other; only what lasts as long as a window
    makes the windows dependent. ``value`` is inside in any case.

    Sources: non-overlapping batches, Schmeiser (1982), *Batch size effects in the analysis of
    simulation output*; the interval between order statistics, Conover, *Practical Nonparametric
    Statistics*, 3rd ed., section 3.2; repetition where it varies, Kalibera and Jones (2013),
    *Rigorous benchmarking in reasonable time*.
    """
    drop = DROPPED if len(medians) >= 2 * WINDOWS else 0
    low, high = sorted(medians)[drop], sorted(medians)[-1 - drop]
    return min(low, value), max(high, value)


# Python 3.12 counts some hundred objects of its own as frozen, from its start on.
IMMORTAL = 5_000


@contextlib.contextmanager
def no_gc() -> Iterator[Callable[[], None]]:
    """Keep Python's garbage collector out of the samples.

    Yields:
        To be called between samples: frees the cycles that variants have left since the beginning. What was
        there before is not looked at, which keeps such a call short.
    """
    was, frozen = gc.isenabled(), gc.get_freeze_count() > IMMORTAL
    gc.disable()
    if not frozen:
        gc.freeze()
    try:
        yield gc.collect
    finally:
        if not frozen:
            gc.unfreeze()
        if was:
            gc.enable()


def seconds_per_call(f: Callable[[], Any], calls: int, sync: Callable[[], Any] | None,
                     now: Callable[[], float]) -> float:
    """Seconds per call of one loop of ``calls`` calls, ``sync`` included.

    A virtual machine's clock of processor time was seen to stand still for a whole sample: such a
    sample, and one during which the clock was set back, is taken again.
    """
    for _ in range(10):
        start = now()
        for _ in range(calls):
            f()
        if sync:
            sync()
        if (spent := now() - start) > 0:
            return spent / calls
    return 1e-9 / calls             # less than the clock can tell


def _raised_in_a_sample(e: Exception) -> bool:
    """Whether an error came out of a loop of calls, and not out of what is around it."""
    return any(frame.f_code is seconds_per_call.__code__ for frame, _ in traceback.walk_tb(e.__traceback__))


def one_round(variants: list[Callable[[], Any]], calls: list[int], sync: Callable[[], Any] | None,
              now: Callable[[], float]) -> list[float]:
    """Seconds per call of one sample of each variant, taken in random order.

    Busy neighbours interrupt at regular intervals: any fixed order can fall into step with them.
    """
    times = [0.0] * len(variants)
    for i in _order.sample(range(len(variants)), len(variants)):
        times[i] = seconds_per_call(variants[i], calls[i], sync, now)
    return times


def _counts(times: list[float], sample: float) -> list[int]:
    """Calls per sample for variants that take ``times`` a call: about ``sample`` seconds, or one call.

    All samples last equally long, as far as whole calls allow: a busy neighbour stretches long
    samples by another factor than short ones, which would shift the median of their ratio.
    """
    least = [max(1, round(sample / t)) for t in times]
    length = min(max(n * t for n, t in zip(least, times, strict=True)), max(sample, LONGEST))
    return [max(n, round(length / t)) for n, t in zip(least, times, strict=True)]


def long_enough(seconds: Callable[[int], float], least: float, n: int = 1) -> tuple[int, float]:
    """How many operations, doubled from ``n``, take ``least`` seconds, and how long they take.

    Takes the shorter of two times, since a busy neighbour interrupts the other.
    """
    while (t := min(seconds(n), seconds(n))) < least:
        n *= 2
        if n > 2 ** 50:
            raise ValueError('the kernel takes no time: does it do n operations?')
    return n, t


def _calibrate(variants: list[Callable[[], Any]], sync: Callable[[], Any] | None,
               now: Callable[[], float], sample: float) -> list[int]:
    """Calls per sample of each variant; it warms up on the way.

    Takes the least of many short loops, since a busy neighbour interrupts the others.
    """
    found = [long_enough(lambda n, f=f: n * seconds_per_call(f, n, sync, now), sample / 4)
             for f in variants]
    times = [t / n for n, t in found]
    for _ in range(2):      # the second time with loops that are about equally long
        if max(times) < LONGEST:
            calls, rounds, end = _counts(times, sample / 4), [], time.perf_counter() + WARM / 2
            while len(rounds) < 5 or time.perf_counter() < end:
                rounds.append(one_round(variants, calls, sync, now))
            times = np.min(rounds, axis=0).tolist()
    return _counts(times, sample)


def _clock(clock: str, sample_seconds: float | None, sync: Any) -> tuple[Callable[[], float], float]:
    """The clock's function, and the length of a sample, for which it must be fine enough."""
    if clock not in CLOCKS:
        raise ValueError(f"clock must be one of {sorted(CLOCKS)}, not {clock!r}")
    length, now, steps = sample_seconds or (SYNC_SAMPLE if sync else SAMPLE), CLOCKS[clock], []
    for _ in range(5):
        start = last = now()
        while last == start:
            last = now()
        steps.append(last - start)
    if (step := min(steps)) * 100 > length:
        raise ValueError(
            f'the {clock} clock moves in steps of {show_seconds(step)}: too coarse for samples of '
            f"{show_seconds(length)}. Use clock='wall' or sample_seconds={100 * step:.2g}.")
    return now, length


def measure(f: Callable[[], Any], *, sync: Callable[[], Any] | None = None, clock: str = 'wall',
            budget: float = 0.5, sample_seconds: float | None = None) -> Time:
    """Time per call of ``f``.

    Args:
        f: called without arguments.
        sync: called at the end of each sample, before the clock stops.
        clock: ``'wall'``, or ``'thread'``: CPU time of this thread alone, which busy
            neighbours do not disturb; only for work that runs in the calling thread.
        budget: seconds to spend.
        sample_seconds: duration of one sample in seconds, unless a single call takes longer; 0.0005, or
            0.005 with ``sync``.

    Returns:
        A :class:`Time`; at least ten samples, however small the budget.

    Raises:
        ValueError: there is no such clock, or it moves in too large steps for such samples.
    """
    now, length = _clock(clock, sample_seconds, sync)
    f()
    calls = _calibrate([f], sync, now, length)
    times: list[float] = []
    began = time.perf_counter()
    with no_gc():
        while len(times) < WINDOWS or time.perf_counter() < began + budget:
            times += one_round([f], calls, sync, now)
    return Time(*interval(times), len(times), time.perf_counter() - began)


def _no_watch() -> Callable[[], None]:
    return lambda: None


def _until_decided(take: Callable[[], Any], read: Callable[[Any], float], above: float | None,
                   below: float | None, budget: float, watch: Callable,
                   first_look: bool = True) -> tuple[list[list], Estimate]:
    """Take measurements in windows of time until the rule at the top of this module says that it is enough.

    A window lasts a tenth of :data:`SPAN` (or of the budget, if that is shorter), and holds one
    measurement at least. Each is watched; one during which a condition did not hold is set aside,
    whatever it showed. If more windows are set aside than count, there is no figure: nothing is
    concluded from less than half of the time.

    Args:
        take: takes one measurement.
        read: the number that a measurement gives.
        first_look: whether it may stop after half of the windows.

    Returns:
        The windows that count, each with its measurements, and the figure.
    """
    windows: list[list] = []
    aside, reason, start = 0, '', time.perf_counter()
    length = min(SPAN, budget) / WINDOWS
    looks = [WINDOWS, 2 * WINDOWS]
    early = round(EARLY * WINDOWS)
    # Fewer than ten windows are short of measurements at the first look.
    if first_look and early and WINDOWS >= 10:
        looks.insert(0, early)

    def estimated(low: float, high: float, value: float, count: int) -> Estimate:
        return Estimate(value, low, high, count, time.perf_counter() - start, aside, reason, len(windows))

    with no_gc() as free_cycles:
        for look in looks:
            most_aside = max(look, WINDOWS)
            while len(windows) < look and aside <= most_aside:
                free_cycles()
                end, began, window = watch(), time.perf_counter(), []
                while not window or time.perf_counter() - began < 0.99 * length:
                    window.append(take())
                if found := end():
                    aside, reason = aside + 1, found[1]
                else:
                    windows.append(window)
            values = [read(x) for x in flat(windows)]
            value = float(np.median(values)) if values else math.nan
            if len(windows) < look:         # too many were set aside
                figure = estimated(-math.inf, math.inf, value, len(values))
                break
            if look < WINDOWS:
                # As everywhere, no more windows may have been set aside than count.
                ends = early_interval(values, above, below) if aside <= look else None
                if ends is not None:
                    figure = estimated(*ends, value, len(values))
                    break
                continue
            low, high = between(_medians(windows, read), value)
            figure = estimated(low, high, value, len(values))
            if (above is None and below is None) or decided(low, high, above, below):
                break
    return windows, figure


def flat(windows: list[list]) -> list:
    """The measurements of all windows, in the order in which they were taken."""
    return list(itertools.chain.from_iterable(windows))


def _medians(windows: list[list], read: Callable[[Any], float]) -> list[float]:
    """The median of each window."""
    return [float(np.median([read(x) for x in window])) for window in windows]


def early_interval(values: list[float], above: float | None,
                   below: float | None) -> tuple[float, float] | None:
    """The interval to be published if measuring may stop at the first look, and None if it may not.

    The rule stands at the top of this module. The interval that is published is wider, by
    :data:`EARLY_WIDENING` at each end, than the one that has to be precise and far from the bound.

    Args:
        values: the measurements so far, in the order in which they were taken.
        above, below: the bound; at most one of them.
    """
    if len(values) < WINDOWS:
        return None             # one measurement at least for each of the parts
    value, low, high = interval(values)
    if low <= 0:
        return None             # no factor tells how far it is from a bound
    bounded = above is not None or below is not None
    widest = EARLY_WIDTH if bounded else EARLY_WIDTH_UNBOUNDED
    if high - low > widest * value:
        return None
    if above is not None and low <= above * EARLY_MARGIN:
        return None
    if below is not None and high >= below / EARLY_MARGIN:
        return None
    return low / EARLY_WIDENING, high * EARLY_WIDENING


def repeat(f: Callable[[], float], *, above: float | None = None, below: float | None = None,
           budget: float = 6.0, watch: Callable = _no_watch) -> Estimate:
    """Call ``f``, which measures something and returns it as a number, until the bound is decided.

    Args:
        f: each call measures anew.
        above, below, budget, watch: as for :func:`ratio`.

    Raises:
        VariantError: ``f`` raised, or did not return a finite number.
    """
    def take() -> float:
        x = call('what measures the figure', lambda: float(f()))
        if not math.isfinite(x):
            raise VariantError(f'what measures the figure returned {x}, which is no figure')
        return x
    return _until_decided(take, lambda x: x, above, below, budget, watch)[1]


def ratio(slow: Callable[[], Any], fast: Callable[[], Any], *, above: float | None = None,
          below: float | None = None, sync: Callable[[], Any] | None = None, clock: str = 'wall',
          agree: bool = True, budget: float = 6.0, sample_seconds: float | None = None,
          watch: Callable = _no_watch, work: float | tuple[float, float] | None = None,
          names: tuple[str, str] = ('slow', 'fast')) -> Ratio:
    """How many times the time of ``fast`` a call of ``slow`` takes, as a paired ratio.

    The two variants run in turn, in random order, each sample long enough for the clock
    and as long as the other's, so that what disturbs the machine hits both. They are taken in ten
    windows of time; in five if the ratio is then precise and far from the bound, and in twenty if ten
    leave the bound undecided. The rule stands at the top of this module.

    Args:
        slow, fast: called without arguments.
        above, below: the bound on the ratio; at most one of them.
        sync, clock, sample_seconds: as for :func:`measure`.
        agree: require that both return the same numbers, and that each returns in its last call what it
            returned in its first.
        budget: seconds for ten windows, if that is less than :data:`SPAN`; warm-up aside, and at
            least ten pairs all the same.
        watch: begins to watch whatever must hold meanwhile; what it returns ends the watch and says
            what did not hold, or None (see :func:`tested_results.conditions.watch`).
        work: what the two variants do where they return different things: how many bytes, examples
            or products, for both or for each. They return it, or arrays of so many elements.
        names: of the variants, for errors.

    Raises:
        VariantError: a variant raised, the variants compute different numbers, the last call of one differs
            from its first, or one of them did not do its work.
        ValueError: see :func:`measure`.
    """
    variants = dict(zip(names, (slow, fast), strict=True))

    def until_decided(take: Callable[[], list[float]]) -> tuple[list[list], Estimate]:
        return _until_decided(take, lambda pair: pair[0] / pair[1], above, below, budget, watch)
    windows, f = _in_turn(variants, until_decided, sync, clock, agree, sample_seconds, work)
    pairs = flat(windows)
    medians = np.median(pairs, axis=0).tolist() if pairs else [math.nan] * 2
    return Ratio(**vars(f), slow=medians[0], fast=medians[1])


def _in_turn(variants: dict[str, Callable[[], Any]],
             until_decided: Callable[[Callable[[], list[float]]], tuple[list[list], Estimate]],
             sync: Callable[[], Any] | None, clock: str, agree: bool, sample_seconds: float | None,
             work: float | tuple[float, ...] | None) -> tuple[list[list[list[float]]], Estimate]:
    """Check the variants, find how many calls make a sample, and take rounds of one sample of each.

    Args:
        until_decided: gets the function that takes a round, and calls it until there are enough: a
            :func:`_until_decided`, whose windows and figure are returned. A round is a list with the
            seconds per call of each variant, in the order of ``variants``.
        sync, clock, agree, sample_seconds, work: as for :func:`ratio`, and so are the errors.
    """
    now, length = _clock(clock, sample_seconds, sync)
    if work is not None:
        check_work({name: call(f'the variant {name!r}', f) for name, f in variants.items()}, work)
    elif agree:
        # copies: another variant may write into the same array
        first = {name: copied(first_call(name, f)) for name, f in variants.items()}
        one, *others = first
        for another in others:
            check_agreement(first[one], first[another], of=f'the variants {one!r} and {another!r}')
        first = {name: thinned(result) for name, result in first.items()}
    else:
        for name, f in variants.items():
            call(f'the variant {name!r}', f)
    functions = list(variants.values())
    try:
        calls = _calibrate(functions, sync, now, length)
        windows, figure = until_decided(lambda: one_round(functions, calls, sync, now))
    except Exception as e:      # around all samples: around each call it would take time of its own
        if not _raised_in_a_sample(e):
            e.add_note('No variant raised this: it is an error of the instrument that times them, or of what '
                       'watches the conditions.')
            raise
        *names, last = map(repr, variants)
        raise VariantError(f'one of the variants {", ".join(names)} and {last}, or what waits for them, '
                           f'raised {type(e).__name__} in a later call than the first: {e}. Variants are '
                           'called thousands of times: each call must find what the first one found.') from e
    if agree and work is None:
        check_later_calls(first, {name: thinned(copied(call(f'the variant {name!r}', f)))
                                  for name, f in variants.items()})
    return windows, figure


@dataclass(frozen=True, repr=False)
class Turns:
    """What several programs took that ran in turn; printed, it is a table.

    Attributes:
        names: of the programs.
        windows: the windows of time that count. Each is a list of rounds, and a round has the seconds per
            call of each program, in the order of ``names``.
        seconds: that the measuring took, warm-up aside.
        set_aside: windows that do not count because a condition did not hold meanwhile.
        reason: why the last of these does not count, or why nothing was measured.
        needs: names of the conditions that were watched.
    """

    names: tuple[str, ...]
    windows: list[list[list[float]]]
    seconds: float = 0.0
    set_aside: int = 0
    reason: str = ''
    needs: tuple[str, ...] = ()

    @property
    def rounds(self) -> list[list[float]]:
        """The rounds of all windows, in the order in which they were taken."""
        return flat(self.windows)

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(f'no program is called {name!r}; there are: {", ".join(self.names)}')
        return self.names.index(name)

    def _fields(self, read: Callable[[list[float]], float]) -> dict[str, Any]:
        """The fields of the estimate that ``read`` makes of the rounds.

        The interval is unbounded if more windows were set aside than count.
        """
        values = [float(read(times)) for times in self.rounds]
        value = float(np.median(values)) if values else math.nan
        whole = len(self.windows) >= WINDOWS
        low, high = between(_medians(self.windows, read), value) if whole else (-math.inf, math.inf)
        return {'value': value, 'low': low, 'high': high, 'values': len(values), 'seconds': self.seconds,
                'set_aside': self.set_aside, 'reason': self.reason, 'windows': len(self.windows),
                'needs': self.needs}

    def time(self, name: str) -> Time:
        """The seconds that a call of this program takes: median and interval."""
        place = self._place(name)
        return Time(**self._fields(lambda times: times[place]))

    def ratio(self, slow: str, fast: str | None = None) -> Ratio:
        """How many times the time of ``fast`` (or of the first program) a call of ``slow`` takes.

        The ratio is formed in each round, so that what disturbs the machine disturbs both.
        """
        above, below = self._place(slow), self._place(fast or self.names[0])
        fields = self._fields(lambda times: times[above] / times[below])
        medians = np.median(self.rounds, axis=0).tolist() if self.rounds else [math.nan] * len(self.names)
        return Ratio(**fields, slow=medians[above], fast=medians[below])

    def estimate(self, number: Callable[[dict[str, float]], float]) -> Estimate:
        """A number that is made of the times of a round, such as a share of one program in another.

        Args:
            number: gets the seconds of each program in a round, by name.
        """
        def read(times: list[float]) -> float:
            return number(dict(zip(self.names, times, strict=True)))
        return Estimate(**self._fields(read))

    def __str__(self) -> str:
        if len(self.windows) < WINDOWS:
            return f'no times: {self.reason}'
        first = self.names[0]
        width = max(map(len, self.names))
        lines = [f'{first:{width}}  {self.time(first)}']
        for name in self.names[1:]:
            lines.append(f'{name:{width}}  {self.time(name)}, ÷ {first}: {self.ratio(name)}')
        return '\n'.join(lines)

    __repr__ = __str__


def in_turn(programs: dict[str, Callable[[], Any]], *, sync: Callable[[], Any] | None = None,
            clock: str = 'wall', agree: bool = True, budget: float = 6.0, sample_seconds: float | None = None,
            watch: Callable = _no_watch, work: float | tuple[float, ...] | None = None) -> Turns:
    """Time several programs, which run in turn, and in another random order in each round.

    A round is one sample of each, as a pair is in :func:`ratio`. They are taken in ten windows; as there
    is no bound, there are neither fewer nor more.

    Args:
        programs: functions without arguments, by name; two at least.
        sync, clock, agree, budget, sample_seconds, watch, work: as for :func:`ratio`, for all programs.

    Raises:
        VariantError, ValueError: as for :func:`ratio`.
    """
    if len(programs) < 2:
        raise ValueError(f'programs run in turn if there are two at least, not {len(programs)}')

    def ten_windows(take: Callable[[], list[float]]) -> tuple[list[list], Estimate]:
        return _until_decided(take, lambda times: times[0], None, None, budget, watch, first_look=False)
    windows, figure = _in_turn(programs, ten_windows, sync, clock, agree, sample_seconds, work)
    return Turns(tuple(programs), windows, figure.seconds, figure.set_aside, figure.reason)


def decided(low: float, high: float, above: float | None, below: float | None) -> int:
    """Where an interval lies: 1 within the bound, -1 outside, 0 across it (or no bound).

    The whole interval must lie 5% beyond the bound, on either side.
    """
    if above is not None:
        return (low > above * MARGIN) - (high < above / MARGIN)
    if below is not None:
        return (high < below / MARGIN) - (low > below * MARGIN)
    return 0
