"""The measuring core, as an instrument (the quick part; ``instrument.py`` is the long one)."""

import functools
import gc
import itertools
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest

from tested_results import timing
from tests.instrument import busy, simulate, simulated, units_per_call

pytestmark = pytest.mark.alone
UNITS = units_per_call(70e-6)


@pytest.fixture
def short(monkeypatch):
    """Less time before a verdict than the book takes: for tests of anything but the verdicts."""
    monkeypatch.setattr(timing, 'SPAN', 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(('truth', 'bound', 'side'), [(1.0, 1.3, -1), (2.0, 1.5, 1), (10.0, 5.0, 1)])
def test_known_ratios(short, truth, bound, side):
    """Of ten trials at least nine are right, on the clock that neighbours do not disturb."""
    slow, fast = busy(round(UNITS * truth)), busy(UNITS)
    found = [timing.ratio(slow, fast, above=bound, clock='thread') for _ in range(10)]
    # a call costs something besides its work, by which the truth is up to 1% less than the ratio
    assert sum(0.99 * r.low <= truth <= 1.01 * r.high for r in found) >= 9, found
    assert sum(timing.decided(r.low, r.high, bound, None) == side for r in found) >= 9, found
    assert all(timing.decided(r.low, r.high, bound, None) != -side for r in found), found


@pytest.mark.slow
@pytest.mark.parametrize('clock', ['thread', 'wall'])
def test_a_variant_is_never_faster_than_itself(short, clock):
    f, g = busy(UNITS), busy(UNITS)
    found = [timing.ratio(f, g, above=1.1, clock=clock, budget=0.2) for _ in range(10)]
    assert not [r for r in found if timing.decided(r.low, r.high, 1.1, None) > 0]


def test_the_interval_of_independent_windows():
    """It covers the median as often as the binomial law says."""
    rng, trials = np.random.default_rng(0), 2000
    for n, exact in ((7, 1 - 2 / 2 ** 7), (10, 1 - 2 / 2 ** 10), (200, 1 - 2 / 2 ** 10)):
        found = [timing.interval(list(x)) for x in rng.exponential(size=(trials, n))]
        inside = np.mean([low <= math.log(2) <= high for _, low, high in found])
        assert exact - 0.005 < inside <= exact + 0.01
    twenty = [timing.between(list(x), float(np.median(x))) for x in rng.exponential(size=(trials, 20))]
    inside = np.mean([low <= math.log(2) <= high for low, high in twenty])
    assert 1 - 422 / 2 ** 20 - 0.002 < inside <= 1


@pytest.mark.parametrize(('n', 'ends'), [(7, (0, 6)), (10, (0, 9)), (19, (0, 18)), (20, (2, 17))])
def test_the_ends_of_the_interval(n, ends):
    """The least and the greatest window; of twenty the third ones. The value is inside in any case."""
    medians = [float(x) for x in np.random.default_rng(0).permutation(n)]
    assert timing.between(medians, n / 2) == ends
    assert timing.between(medians, -5.0) == (-5, ends[1]) and timing.between(medians, 99.0)[1] == 99


def test_the_interval_of_few_or_equal_values():
    assert timing.interval([1.0] * 6)[1:] == timing.interval([])[1:] == (-math.inf, math.inf)
    assert timing.interval([1.0] * 7) == (1, 1, 1)
    assert timing.interval([3.0, 0, 6, 1, 5, 2, 4]) == (3, 0, 6)
    assert timing.interval([-1.0] * 8) == (-1, -1, -1)


@pytest.mark.parametrize(('interval', 'above', 'below', 'side'), [
    ((2.2, 3), 2, None, 1), ((2.09, 3), 2, None, 0), ((1.5, 1.89), 2, None, -1),
    ((1.5, 1.95), 2, None, 0), ((1.5, 1.89), None, 2, 1), ((1.5, 1.95), None, 2, 0),
    ((2.2, 3), None, 2, -1), ((2.09, 3), None, 2, 0), ((1, 9), None, None, 0),
    ((-math.inf, math.inf), 2, None, 0), ((-math.inf, math.inf), None, 2, 0)])
def test_what_five_percent_would_decide_nobody_does(interval, above, below, side):
    """To hold and to fail, the interval must lie equally far beyond the bound."""
    assert timing.decided(*interval, above, below) == side


@pytest.mark.parametrize(('kind', 'parameter', 'step', 'wrong'), [
    ('correlated', 0.0, 0.02, ('holds', 'fails')), ('correlated', 0.8, 0.02, ('holds', 'fails')),
    ('third', 0.2, 0.01, ('holds',)), ('two thirds', 0.2, 0.01, ('fails',))])
def test_samples_that_depend_on_each_other(kind, parameter, step, wrong):
    """At most 2% of wrong verdicts, at least 97% covered (``instrument.py`` has the whole table)."""
    found = simulated(kind, parameter, step, 300)
    assert all(found[w] <= 0.02 for w in wrong) and found['covers'] >= 0.97, found


@pytest.mark.parametrize(('kind', 'parameter', 'step', 'wrong'), [
    ('correlated', 0.8, 0.2, ('holds', 'fails')), ('third', 1, 0.01, ('holds',)),
    ('two thirds', 1, 0.01, ('fails',))])
def test_what_lasts_longer_than_a_window(kind, parameter, step, wrong):
    """There the interval covers less (``instrument.py`` says how much), and verdicts are right still."""
    found = simulated(kind, parameter, step, 300)
    assert all(found[w] <= 0.02 for w in wrong), found


def windows(*medians, step=0.1, above=None, below=None, **how):
    """What is found if each window, of measurements that take ``step`` s, shows one value throughout."""
    each = round(timing.SPAN / timing.WINDOWS / step)
    values = itertools.chain.from_iterable([m] * each for m in medians)
    return simulate(values, step, above, below, **how)


TEN = (1.0, 1.1) * 5
WIDE = (1.0, 1.2) * 5      # too wide to stop at the first look


@pytest.mark.parametrize('bound', [{'above': 0.55}, {'below': 2.0}, {}])
def test_a_precise_result_far_from_its_bound_stops_at_the_first_look(bound):
    """After half of the windows; what is published is wider by 5% at each end than what was found."""
    f = windows(*(1.0, 1.05) * 5, **bound)
    assert (f.windows, f.seconds) == (5, pytest.approx(timing.SPAN / 2))
    assert (f.low, f.high) == pytest.approx((1 / 1.05, 1.05 * 1.05))
    assert bool(timing.decided(f.low, f.high, bound.get('above'), bound.get('below'))) == bool(bound)


@pytest.mark.parametrize('bound', [
    {'above': 0.6}, {'below': 1.75},            # within the bound by less than the factor of 1.7
    {'above': 1.9}, {'below': 0.5}])            # far outside: what fails is measured for the whole time
def test_what_is_close_or_fails_goes_on_at_the_first_look(bound):
    f = windows(*(1.0, 1.05) * 5, **bound)
    assert (f.windows, f.seconds) == (10, pytest.approx(timing.SPAN))
    assert (f.low, f.high) == (1.0, 1.05)


@pytest.mark.parametrize(('high', 'bound', 'taken'), [
    (1.12, {'above': 0.1}, 5), (1.18, {'above': 0.1}, 10),
    (1.12, {'below': 10}, 5), (1.18, {'below': 10}, 10),
    # where there is no bound, the width alone tells
    (1.08, {}, 5), (1.12, {}, 10)])
def test_a_wide_interval_does_not_stop_at_the_first_look(high, bound, taken):
    assert windows(*(1.0, high) * 5, **bound).windows == taken


@pytest.mark.parametrize('low', [0.0, -1.0])
def test_no_factor_tells_how_far_from_zero_it_is(low):
    assert windows(*[low] * 10, below=5).windows == 10


def test_the_first_look_needs_ten_measurements():
    """Of a figure that takes as long as a window, there are five then."""
    length = timing.SPAN / timing.WINDOWS
    assert windows(*[1.0] * 10, step=length, above=0.1).windows == 10
    assert windows(*[1.0] * 10, step=length / 2, above=0.1).windows == 5


@pytest.mark.parametrize(('pattern', 'taken'), [
    ([True] * 5 + [False] * 20, 5), ([True] * 6 + [False] * 20, 10), ([True] * 11 + [False] * 20, 0)])
def test_at_the_first_look_no_more_windows_may_be_set_aside_than_count(pattern, taken):
    f = windows(*[1.0] * 25, above=0.1, watch=disturbed(pattern))
    assert (f.windows, f.set_aside) == (taken, pattern.count(True))


def test_there_is_no_first_look_with_fewer_windows(monkeypatch):
    """As ``make test`` has them."""
    monkeypatch.setattr(timing, 'WINDOWS', 7)
    assert windows(*[1.0] * 7, above=0.1).windows == 7


@pytest.mark.parametrize('kind', ['third', 'third at the bound'])
def test_the_first_look_makes_nothing_hold_wrongly(kind):
    """Where the ratio is 1.6 times too large for a second at a time."""
    with_look, without = (simulated(kind, 1, 0.02, 100, early) for early in (timing.EARLY, 0.0))
    assert with_look['holds'] <= without['holds'] and with_look['fails'] <= without['fails']


@pytest.mark.parametrize(('bound', 'taken'), [
    ({'above': 0.9}, 10), ({'above': 1.2}, 10), ({'below': 1.2}, 10), ({'below': 0.9}, 10),
    ({'above': 1.05}, 20), ({'below': 1.05}, 20),
    ({'above': 0.97}, 20), ({'below': 0.97}, 20), ({'above': 1.13}, 20), ({'below': 1.13}, 20)])
def test_ten_more_windows_are_taken_exactly_if_the_first_ten_do_not_decide(bound, taken):
    """And never a third ten; within 5% of the bound nothing is decided."""
    f = windows(*TEN * 3, **bound)
    assert (f.windows, f.values, f.set_aside) == (taken, 4 * taken, 0)
    assert f.seconds == pytest.approx(timing.SPAN * taken / 10) and (f.low, f.high) == (1.0, 1.1)
    assert bool(timing.decided(f.low, f.high, bound.get('above'), bound.get('below'))) == (taken == 10)


def test_without_a_bound_ten_windows_are_enough():
    f = windows(*WIDE * 3)
    assert (f.windows, f.low, f.high) == (10, 1.0, 1.2)


def test_ten_more_windows_may_decide():
    """Two windows at each end are left out then, and no more."""
    f = windows(*[2.0] * 9, 1.0, *[2.0] * 9, 1.0, above=1.5)
    assert (f.windows, f.low, f.high) == (20, 2.0, 2.0)
    f = windows(*[2.0] * 9, 1.0, *[2.0] * 8, 1.0, 1.0, above=1.5)
    assert (f.windows, f.low, timing.decided(f.low, f.high, 1.5, None)) == (20, 1.0, 0)


def test_after_the_first_look_holding_and_failing_take_the_same_evidence():
    for values in (itertools.repeat(1.0), itertools.cycle(TEN)):
        fails, holds = (simulate(values, 0.01, **how) for how in ({'above': 1.5}, {'below': 1.5}))
        assert (fails.values, fails.windows, fails.seconds) == pytest.approx(
            (holds.values, holds.windows, holds.seconds))
        assert holds.windows == timing.WINDOWS and holds.seconds == pytest.approx(timing.SPAN, rel=0.1)


def test_what_is_long_makes_a_window_of_each_measurement():
    f = simulate(itertools.repeat(1.0), 2.0, above=5)
    assert f.values == f.windows == timing.WINDOWS and f.seconds == 20


def test_a_short_budget_makes_short_windows():
    f = simulate(itertools.repeat(1.0), 0.01, above=5, budget=1.0)
    assert f.windows == timing.WINDOWS and f.seconds == pytest.approx(1.0, abs=0.11)


def disturbed(pattern):
    """A watch that says of each window, in turn, whether other work disturbed it."""
    turn = itertools.cycle(pattern)

    def watch():
        this = next(turn)
        return lambda: ('cores', 'other work') if this else None
    return watch


def test_disturbed_windows_are_set_aside_whatever_they_showed():
    """Every other window is disturbed and shows something else: nothing of it is in the figure."""
    f = windows(*[9.0, 1.0] * 20, above=0.7, watch=disturbed([True, False]))
    assert (f.value, f.low, f.high, f.windows, f.set_aside) == (1.0, 1.0, 1.0, 10, 10)
    assert f.reason == 'other work' and timing.decided(f.low, f.high, 0.7, None) == 1


def test_from_less_than_half_of_the_time_nothing_is_concluded():
    """The true ratio is 1.0. One window of fifteen is left, and shows more: once enough for "holds"."""
    shown, left = [1.0], itertools.cycle([False] * 14 + [True])

    def watch():
        shown[0], this = (1.3, None) if next(left) else (1.0, ('cores', 'other work'))
        return lambda: this
    f = simulate(iter(lambda: shown[0], None), 0.005, above=1.2, watch=watch)
    assert timing.decided(f.low, f.high, 1.2, None) == 0
    assert (f.windows, f.set_aside, f.reason) == (0, 11, 'other work') and not math.isfinite(f.low)


@pytest.mark.parametrize(('pattern', 'bound', 'counted'), [
    ([True] * 10 + [False] * 10, 5, True), ([True] * 11 + [False] * 9, 5, False),
    ([False] * 9 + [True] * 10 + [False], 5, True), ([False] * 9 + [True] * 11, 5, False),
    # the first ten leave it open, and of the next ones too many are set aside
    ([False] * 10 + [True] * 20 + [False] * 10, 1.05, True),
    ([False] * 10 + [True] * 21 + [False] * 10, 1.05, False),
    ([False] * 19 + [True] * 21, 1.05, False)])
def test_a_figure_takes_all_its_windows_and_no_more_may_be_set_aside(pattern, bound, counted):
    f = windows(*TEN * 5, above=bound, watch=disturbed(pattern))
    assert math.isfinite(f.low) == math.isfinite(f.high) == counted
    assert f.windows in (10, 20) and f.set_aside <= f.windows if counted else f.set_aside > f.windows


def test_nothing_undisturbed_ends_after_eleven_windows():
    f = simulate(itertools.repeat(1.0), 0.01, above=5, watch=disturbed([True]))
    assert f.values == f.windows == 0 and f.set_aside == 11 and f.seconds < 5
    assert timing.decided(f.low, f.high, 5, None) == 0 and math.isnan(f.value)


def test_a_clock_that_jumps(monkeypatch):
    """A sleeping laptop: the clock leaps ahead by an hour, and the measurement ends in good order."""
    now = [0.0]
    monkeypatch.setattr(timing, 'time', SimpleNamespace(perf_counter=lambda: now[0]))
    count = itertools.count()

    def take():
        now[0] += 3600 if next(count) == 50 else 0.01
        return 1.0
    _, f = timing._until_decided(take, lambda x: x, 5, None, 6.0, timing._no_watch)
    assert f.windows == timing.WINDOWS and timing.decided(f.low, f.high, 5, None) == -1


@pytest.mark.parametrize('step', [0.0, -5.0])
def test_a_clock_that_stands_still_or_is_set_back(step):
    """The sample is taken again; a clock that never moves gives a time, not an error."""
    ticks, reads = iter([0.0, step, step, step + 2.0]), []
    assert timing.seconds_per_call(lambda: reads.append(1), 2, None, lambda: next(ticks)) == 1.0
    assert len(reads) == 4
    assert 0 < timing.seconds_per_call(int, 1, None, lambda: 0.0) < 1e-6


@pytest.mark.parametrize(('f', 'says'), [
    (lambda: 1 / 0, 'raised ZeroDivisionError.*alone'), (lambda: math.nan, 'returned nan'),
    (lambda: math.inf, 'returned inf'), (lambda: None, 'raised TypeError')])
def test_what_measures_a_figure_and_cannot(f, says):
    with pytest.raises(timing.VariantError, match=says):
        timing.repeat(f, budget=0.1)


@pytest.mark.parametrize(('x', 'unit', 'form', 'text'), [
    (1.23e-5, 's', '', '≈12.3 µs'), (3.1, '×', '', '≈3.10×'), (0.643, '%', '', '≈64.3%'),
    (0.643, '%', '.0f', '≈64%'), (1050, 'MB', '', '≈1,050 MB'), (0.0, '', '', '≈0'),
    (2.4e-7, '', '', '≈2.4e-7'), (12.0, 's', '.1f', '≈12.0 s')])
def test_measured_figures_are_marked(x, unit, form, text):
    assert timing.measured(x, unit, form) == text


def test_measure():
    """Ten times the work takes ten times as long, give or take what the minute brings."""
    one, ten = (timing.measure(busy(n * UNITS), clock='thread', budget=0.2) for n in (1, 10))
    assert one.low <= one.value <= one.high and one.values >= timing.WINDOWS
    assert 4 < ten.value / one.value < 25


def test_sync_is_called_before_each_clock_stops():
    calls = []
    timing.measure(lambda: calls.append('work'), sync=lambda: calls.append('sync'), budget=0.01)
    assert calls[-1] == 'sync' and calls.count('sync') > timing.WINDOWS


@pytest.mark.parametrize(('t', 'text'), [(2, '2 s'), (0.0123, '12.3 ms'), (1.5e-5, '15 µs'),
                                         (2.5e-8, '25 ns'), (999.7e-6, '1 ms'), (0.99996, '1 s'),
                                         (999.6e-9, '1 µs'), (999.4e-6, '999 µs'), (999.7, '1,000 s'),
                                         (1234, '1,234 s')])
def test_times_are_shown_with_a_unit_that_suits_them(t, text):
    assert timing.show_seconds(t) == text


@pytest.mark.parametrize(('x', 'text'), [
    (14.84, '14.8'), (0.65, '0.650'), (1050.3, '1,050'), (2.4e-7, '2.4e-7'),
    (9.996, '10.0'), (0.9996, '1.00'), (99.96, '100'), (0.09996, '0.100')])
def test_figures_have_three_digits(x, text):
    assert timing.show_figure(x) == text


def test_a_clock_that_is_too_coarse(monkeypatch):
    now = [0.0]

    def coarse():
        now[0] += 1e-4
        return math.floor(now[0] / 0.0156) * 0.0156
    monkeypatch.setitem(timing.CLOCKS, 'thread', coarse)
    with pytest.raises(ValueError, match=r"15.6 ms.*clock='wall'"):
        timing.measure(int, clock='thread')
    with pytest.raises(ValueError, match='wall'):
        timing.measure(int, clock='sundial')


@pytest.mark.parametrize('which', ['slow', 'fast'])
def test_a_variant_that_raises(which):
    good, bad = (lambda: 1), (lambda: [][1])
    with pytest.raises(timing.VariantError, match=f"'{which}' raised IndexError.*alone"):
        timing.ratio(*((bad, good) if which == 'slow' else (good, bad)))


@pytest.mark.parametrize(('a', 'b', 'says'), [
    (1.0, 1.1, 'differ by up to 0.1'), ([1, 2], [1, 2, 3], 'different shapes'),
    (np.ones(3), np.ones((3, 1)), 'different shapes'), (float('nan'), 1.0, 'different numbers')])
def test_variants_that_disagree(a, b, says):
    with pytest.raises(timing.VariantError, match=says + '(.|\n)*work='):
        timing.ratio(lambda: a, lambda: b, budget=0.1)
    timing.ratio(lambda: a, lambda: b, budget=0.01, agree=False)


ONES = [np.ones(3), (np.ones((2, 2)), np.ones(1))]       # eight elements


@pytest.mark.parametrize(('results', 'work'), [
    ((8, 8.0), 8), ((np.int64(8), np.float32(2.5)), (8, 2.5)),          # each says how much it did
    ((ONES, np.zeros((4, 2))), 8), ((ONES, np.zeros(3)), (8, 3)),       # or it is counted
    ((ONES, 8), 8), ((0, None), 0)])
def test_how_much_the_variants_did(results, work):
    """Numbers, arrays, or one of each; as much for both, or for each what it does."""
    a, b = results
    assert timing.ratio(lambda: a, lambda: b, work=work, budget=0.01).windows in (5, 10)


@pytest.mark.parametrize(('results', 'work', 'says'), [
    ((8, 7), 8, "'new' did 7 and not 8"), ((7, 8), 8, "'old' did 7 and not 8"),
    ((8, 16), (8, 4), "'new' did 16 and not 4"), ((ONES[:1], ONES), 8, "'old' did 3 and not 8"),
    ((ONES, ONES[1:]), (8, 8), "'new' did 5 and not 8"), ((8, None), 8, "'new' did 0 and not 8")])
def test_a_variant_that_did_not_do_its_work(results, work, says):
    a, b = results
    with pytest.raises(timing.VariantError, match=says + '.*returns how much it did'):
        timing.ratio(lambda: a, lambda: b, work=work, budget=0.01, names=('old', 'new'))


def test_work_that_is_not_for_two_variants():
    with pytest.raises(ValueError):
        timing.ratio(int, int, work=(0, 0, 0), budget=0.01)


def test_a_variant_whose_results_change():
    total = np.zeros(3)

    def adds():
        total[:] += 1
        return total
    with pytest.raises(timing.VariantError, match="first and the last call of the variant 'adds'.*same"):
        timing.ratio(lambda: np.ones(3), adds, budget=0.01, names=('makes', 'adds'))


@pytest.mark.parametrize('changes', [
    lambda x: x.sort(), lambda x: x.append(x[0]), lambda x: x.pop(), lambda x: x.reverse()])
def test_a_variant_that_changes_its_input(changes):
    """Its result may be the same at each call, and its work is not."""
    mine = list(range(100, 0, -1))

    def in_place():
        changes(mine)
    with pytest.raises(timing.VariantError, match="'in_place' changes 'mine'.*Copy 'mine' in each call"):
        timing.ratio(lambda: None, in_place, budget=0.01, names=('copy', 'in_place'))
    timing.ratio(lambda: 1, lambda: (changes(mine[:]), 1)[1], work=1, budget=0.01)


@pytest.mark.parametrize('given', [
    lambda mine: mine.sort,
    lambda mine: lambda mine=mine: mine.sort(),
    lambda mine: functools.partial(list.sort, mine),
    lambda mine: functools.partial(mine.sort, reverse=False)])
def test_a_variant_that_changes_what_it_is_given(given):
    """As the object of a method, a default, or an argument."""
    mine = list(range(100, 0, -1))
    with pytest.raises(timing.VariantError, match='changes .*Copy'):
        timing.ratio(lambda: None, given(mine), budget=0.01, names=('copy', 'in_place'))


def test_a_variant_may_read_a_list_and_write_into_an_array():
    numbers, out = [3.0, 1.0, 2.0], np.empty(3)
    timing.ratio(lambda: np.sort(numbers), lambda: np.add(np.sort(numbers), 0, out=out), budget=0.01)


def test_cycles_do_not_pile_up():
    """The collector is off within samples, and frees between windows what variants have left."""
    class Node:
        made = alive = most = 0

        def __init__(self):
            self.me = self
            Node.made += 1
            Node.alive += 1
            Node.most = max(Node.most, Node.alive)

        def __del__(self):
            Node.alive -= 1

    timing.ratio(lambda: Node() and None, lambda: None, budget=0.2)
    assert Node.most < Node.made / 3
    gc.collect()
    assert Node.alive == 0


def test_a_variant_that_raises_later():
    """Not at its first call: the error says so and has the variant's own behind it; nothing is left."""
    count = iter(range(50))
    with pytest.raises(timing.VariantError, match="'slow'.*StopIteration in a later call") as error:
        timing.ratio(lambda: next(count), int, agree=False, budget=1)
    assert isinstance(error.value.__cause__, StopIteration)
    assert gc.isenabled()


@pytest.mark.parametrize('broken', ['a watch', 'the calibration'])
def test_an_error_of_the_instrument_is_not_told_as_a_variant_s(monkeypatch, broken):
    def fails(*_):
        raise OSError('no such counter')
    how = {'watch': fails} if broken == 'a watch' else {}
    if broken == 'the calibration':
        monkeypatch.setattr(timing, '_counts', fails)
    with pytest.raises(OSError, match='no such counter') as error:
        timing.ratio(int, int, budget=1, **how)
    assert 'No variant raised this' in error.value.__notes__[0]


@pytest.mark.parametrize(('times', 'sample', 'calls'), [
    ([1e-4, 1e-4], 0.001, [10, 10]), ([1e-4, 1e-3], 0.001, [10, 1]),
    ([4e-3, 1e-3], 0.001, [1, 4]),         # the shorter one is repeated for as long
    ([4e-3, 4.4e-3], 0.005, [1, 1]), ([1.0, 1e-3], 0.001, [1, 50]),    # but not for a second
    ([1e-3], 0.0055, [6]), ([1e-3, 1e-3], 1.0, [1000, 1000])])
def test_samples_last_equally_long(times, sample, calls):
    assert timing._counts(times, sample) == calls


def test_the_order_within_a_pair_is_random():
    """Neither first nor second nor alternating: busy neighbours would fall into step with it."""
    order = []
    pairs = [timing.one_round([lambda: order.append(0), lambda: order.append(1)], [1, 1], None,
                           timing.CLOCKS['wall']) and order[-2:] for _ in range(200)]
    assert 50 < pairs.count([0, 1]) < 150 and pairs.count([0, 1]) + pairs.count([1, 0]) == 200


def test_the_readers_random_numbers_stay_as_they_are():
    import random
    random.seed(0)
    expected = random.random(), random.random()
    random.seed(0)
    found = [random.random()]
    timing.ratio(int, int, budget=0.01)
    assert (*found, random.random()) == expected


@pytest.mark.parametrize(('count', 'freezes'), [(0, True), (375, True), (200_000, False)])
def test_what_a_program_has_frozen_stays_frozen(monkeypatch, count, freezes):
    """Python 3.12 has some hundred frozen objects of its own: were they taken for the program's, each call
    between samples would go through everything that there is."""
    called = []
    monkeypatch.setattr(timing.gc, 'get_freeze_count', lambda: count)
    for name in ('freeze', 'unfreeze'):
        monkeypatch.setattr(timing.gc, name, functools.partial(called.append, name))
    with timing.no_gc():
        pass
    assert called == (['freeze', 'unfreeze'] if freezes else [])


def test_an_interrupt_leaves_the_garbage_collector_on():
    seen = []

    def interrupted():
        seen.append(gc.isenabled())
        if seen.count(False) > 10:          # in the middle of the samples, where it is off
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        timing.measure(interrupted, sample_seconds=1e-4)
    assert gc.isenabled()


@pytest.mark.parametrize(('low', 'high', 'steady'), [(1, 1, True), (0.9, 1.15, True), (0.9, 1.3, False)])
def test_a_wide_range_is_not_steady(low, high, steady):
    assert timing.Time(1.0, low, high, 15).steady == steady


@pytest.mark.parametrize(('f', 'text'), [
    (timing.Time(1.5e-9, 1e-9, 2e-9, 15), '≈1.5 ns (1 ns–2 ns)'),
    (timing.Ratio(2, 1.5, 3, 15), '≈2.00× (1.50–3.00)'),
    (timing.Estimate(2, 1.5, 3, 15), '≈2.00 (1.50–3.00)')])
def test_figures_show_their_range_in_the_form_that_a_check_masks(f, text):
    assert str(f) == repr(f) == text


@pytest.mark.parametrize('text', ['0', '-3', 'soon', 'nan', 'inf'])
def test_a_bad_number_of_seconds_is_named(monkeypatch, text):
    monkeypatch.setenv('TESTED_RESULTS_SPAN', text)
    with pytest.raises(ValueError, match=f"TESTED_RESULTS_SPAN.*'{text}'"):
        timing.seconds_of('TESTED_RESULTS_SPAN', 4)
    monkeypatch.setenv('TESTED_RESULTS_SPAN', '')
    assert timing.seconds_of('TESTED_RESULTS_SPAN', 4) == 4


# --- several programs in turn ---------------------------------------------------------------------

class Clock:
    """A clock of ours, on which programs take as long as they say, give or take a tenth."""

    def __init__(self, seed):
        self.now, self.noise = 0.0, random.Random(seed)

    def __call__(self):
        self.now += 1e-7
        return self.now

    def program(self, seconds, result=None):
        def run():
            self.now += seconds * self.noise.lognormvariate(0, 0.1)
            return result
        return run


@pytest.fixture
def clock(monkeypatch):
    clock = Clock(7)
    monkeypatch.setattr(timing, 'time', SimpleNamespace(perf_counter=clock))
    monkeypatch.setattr(timing, 'CLOCKS', {'wall': clock})
    monkeypatch.setattr(timing, '_order', random.Random(7))
    return clock


def test_a_ratio_is_the_case_of_two_programs(clock):
    """These numbers were found before there were more than two."""
    f = timing.ratio(clock.program(0.003), clock.program(0.002), above=1.4)
    assert (f.value, f.low, f.high) == (1.4975540202149777, 1.4756505660781565, 1.5471302799779914)
    assert (f.slow, f.fast) == (0.0029853134357087363, 0.0019964179988145037)
    assert (f.values, f.windows) == (795, 10)


def test_in_turn_two_programs_have_the_ratio_that_they_have_alone(clock, monkeypatch):
    programs = {'slow': clock.program(0.003), 'fast': clock.program(0.002)}
    turns = timing.in_turn(programs)
    again = Clock(7)
    monkeypatch.setattr(timing, 'time', SimpleNamespace(perf_counter=again))
    monkeypatch.setattr(timing, 'CLOCKS', {'wall': again})
    monkeypatch.setattr(timing, '_order', random.Random(7))
    f = timing.ratio(again.program(0.003), again.program(0.002), above=1.4)
    assert vars(turns.ratio('slow', 'fast')) == vars(f)


def test_programs_in_turn(clock):
    turns = timing.in_turn({'a': clock.program(0.002), 'long': clock.program(0.004),
                            'c': clock.program(0.001)})
    assert turns.names == ('a', 'long', 'c') and len(turns.windows) == timing.WINDOWS
    assert turns.seconds == pytest.approx(timing.SPAN, rel=0.1)
    for name, seconds in (('a', 0.002), ('long', 0.004), ('c', 0.001)):
        time = turns.time(name)
        assert time.low <= time.value <= time.high and time.value == pytest.approx(seconds, rel=0.05)
        assert time.values == len(turns.rounds) and time.windows == 10
    assert turns.ratio('long').value == pytest.approx(2, rel=0.05)
    assert turns.ratio('long', 'c').value == pytest.approx(4, rel=0.05)
    assert turns.ratio('long', 'c').slow == turns.time('long').value
    share = turns.estimate(lambda times: (times['long'] - times['a']) / times['c'])
    assert share.value == pytest.approx(2, rel=0.1) and share.low < share.value < share.high
    lines = str(turns).splitlines()
    assert len(lines) == 3 and lines[1].startswith('long  ≈') and '÷ a: ≈2' in lines[1]
    with pytest.raises(ValueError, match="'b'; there are: a, long, c"):
        turns.ratio('b')


def test_programs_take_their_turns_in_random_order(clock):
    order, wait = [], clock.program(0.01)

    def program(name):
        def run():
            wait()
            order.append(name)
        return run
    timing.in_turn({name: program(name) for name in 'abc'}, agree=False)
    rounds = {tuple(order[i:i + 3]) for i in range(len(order) - 300, len(order), 3)}
    assert len(rounds) == 6


def test_windows_in_which_programs_were_disturbed_do_not_count(clock):
    programs = {name: clock.program(0.01) for name in 'abc'}
    turns = timing.in_turn(programs, watch=disturbed([True, False]))
    assert (len(turns.windows), turns.set_aside, turns.time('a').set_aside) == (10, 10, 10)
    turns = timing.in_turn(programs, watch=disturbed([True]))
    assert (turns.windows, turns.set_aside) == ([], 11) and math.isnan(turns.ratio('b').value)
    assert not math.isfinite(turns.time('a').low) and str(turns) == 'no times: other work'


def test_programs_in_turn_must_agree(clock):
    same, other = clock.program(0.01, 1.0), clock.program(0.01, 2.0)
    with pytest.raises(timing.VariantError, match="'a' and 'c' compute.*differ by up to 1"):
        timing.in_turn({'a': same, 'b': same, 'c': other})
    timing.in_turn({'a': same, 'b': same, 'c': other}, agree=False)
    timing.in_turn({'a': same, 'b': same, 'c': other}, work=(1, 1, 2))
    with pytest.raises(timing.VariantError, match="'c' did 2 and not 1"):
        timing.in_turn({'a': same, 'b': same, 'c': other}, work=1)
    with pytest.raises(ValueError, match='two at least'):
        timing.in_turn({'a': same})
    count = iter(range(50))
    with pytest.raises(timing.VariantError, match="'a', 'b' and 'c', or what.*StopIteration in a later call"):
        timing.in_turn({'a': same, 'b': same, 'c': lambda: next(count)}, agree=False)
