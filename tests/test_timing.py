"""The measuring core, as an instrument (the quick part; ``instrument.py`` is the long one)."""

import gc
import math

import numpy as np
import pytest

from d2l_local import timing
from tests.instrument import busy, units_per_call

UNITS = units_per_call(70e-6)


@pytest.mark.parametrize(('truth', 'bound', 'side'), [(1.0, 1.1, -1), (1.1, 1.3, -1), (2.0, 1.5, 1),
                                                      (10.0, 5.0, 1)])
def test_known_ratios(truth, bound, side):
    """Of ten trials at least nine are right, on the clock that neighbours do not disturb."""
    slow, fast = busy(round(UNITS * truth)), busy(UNITS)
    found = [timing.ratio(slow, fast, above=bound, clock='thread', budget=0.3) for _ in range(10)]
    assert sum(r.low <= truth <= r.high for r in found) >= 9, found
    assert sum(timing.bound_side(r.low, r.high, bound, None) == side for r in found) >= 9, found
    assert all(timing.bound_side(r.low, r.high, bound, None) != -side for r in found), found


@pytest.mark.parametrize('clock', ['thread', 'wall'])
def test_a_variant_is_never_faster_than_itself(clock):
    f, g = busy(UNITS), busy(UNITS)
    found = [timing.ratio(f, g, above=1.1, clock=clock, budget=0.2) for _ in range(10)]
    assert not [r for r in found if r.low > 1.1]


def test_the_median_interval_covers_the_median():
    """2,000 times 40 samples of a skewed distribution: the share must fit the level."""
    rng = np.random.default_rng(0)
    for level in (0.9, 0.998):
        inside = [low <= math.log(2) <= high for _, low, high in (
            timing.median_interval(list(rng.exponential(size=40)), level) for _ in range(2000))]
        assert level - 0.02 < np.mean(inside) <= 1
    assert timing.median_interval([1.0] * 9)[2] == math.inf     # too few for the default level
    assert timing.median_interval(list(range(10)))[1:] == (0, 9)


@pytest.mark.parametrize(('interval', 'above', 'below', 'side'), [
    ((2, 3), 1, None, 1), ((2, 3), 2.5, None, 0), ((2, 3), 4, None, -1), ((2, 3), 2, None, 0),
    ((2, 3), None, 4, 1), ((2, 3), None, 2.5, 0), ((2, 3), None, 1, -1), ((2, 3), None, None, 0)])
def test_the_side_of_a_bound(interval, above, below, side):
    assert timing.bound_side(*interval, above, below) == side


def test_failing_takes_more_evidence_than_holding():
    f, g = busy(UNITS), busy(UNITS)
    holds = timing.ratio(f, g, below=5, clock='thread', budget=1)
    fails = timing.ratio(f, g, above=5, clock='thread', budget=1)
    assert holds.pairs < fails.pairs and fails.pairs >= timing.FAIL_PAIRS


def test_measure():
    """Twice the work takes twice the time; the interval holds the median."""
    one, two = (timing.measure(busy(n * UNITS), clock='thread', budget=0.2) for n in (1, 2))
    assert one.low <= one.value <= one.high and one.samples >= timing.MIN_PAIRS
    assert 1.5 < two.value / one.value < 2.7


def test_sync_is_called_before_each_clock_stops():
    calls = []
    timing.measure(lambda: calls.append('work'), sync=lambda: calls.append('sync'), budget=0.01)
    assert calls[-1] == 'sync' and calls.count('sync') > timing.MIN_PAIRS
    timer = timing.Timer(sync=lambda: calls.append('stop'))
    timer.stop()
    assert calls[-1] == 'stop'


def test_timer_and_accumulator():
    timer = timing.Timer()
    timer.times = [1.0, 2.0]
    assert (timer.sum(), timer.avg(), timer.cumsum()) == (3.0, 1.5, [1.0, 3.0])
    assert timer.stop() == timer.times[-1] > 0


def test_a_benchmark_that_raises_prints_nothing(capsys):
    with pytest.raises(KeyError), timing.Benchmark('work'):
        raise KeyError
    assert capsys.readouterr().out == ''


@pytest.mark.parametrize(('t', 'text'), [(2, '2 s'), (0.0123, '12.3 ms'), (1.5e-5, '15 µs'),
                                         (2.5e-8, '25 ns')])
def test_times_are_shown_with_a_unit_that_suits_them(t, text):
    assert timing.show_seconds(t) == text


def test_a_clock_that_is_too_coarse(monkeypatch):
    now = [0.0]

    def coarse():
        now[0] += 1e-4
        return math.floor(now[0] / 0.0156) * 0.0156
    monkeypatch.setitem(timing.CLOCKS, 'thread', ('thread_time', coarse))
    with pytest.raises(timing.ClockTooCoarse, match=r"15.6 ms.*clock='wall'"):
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
    with pytest.raises(timing.VariantError, match=says + '(.|\n)*agree=False'):
        timing.ratio(lambda: a, lambda: b, budget=0.1)
    timing.ratio(lambda: a, lambda: b, budget=0.01, agree=False)


@pytest.mark.parametrize('same', [
    (None, None), (float('nan'), float('nan')), (1.0, 1.000001), ([1, (2, 3)], [1, (2, 3)])])
def test_variants_that_agree(same):
    timing.check_agreement(*same)


@pytest.mark.parametrize('name', ['mxnet', 'torch'])
def test_arrays_of_both_frameworks_are_compared(name):
    pytest.importorskip(name)
    if name == 'mxnet':
        from mxnet import np as mnp
        one, two = mnp.array([1.0, 2.0]), mnp.array([1.0, 2.5])
    else:
        import torch
        one, two = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.5]).bfloat16()
    timing.check_agreement([one, one], [one, np.array([1.0, 2.0])])
    with pytest.raises(timing.VariantError, match='differ by up to 0.5'):
        timing.check_agreement([one], [two])


def test_an_interrupt_leaves_the_garbage_collector_on():
    seen = []

    def interrupted():
        seen.append(gc.isenabled())
        if seen.count(False) > 10:          # in the middle of the samples, where it is off
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        timing.measure(interrupted, sample=1e-4)
    assert gc.isenabled()
