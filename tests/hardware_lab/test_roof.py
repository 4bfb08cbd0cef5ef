"""The roofline's ceilings: sizes beyond the caches, rounds in turn, shares and the table."""

import numpy as np

from d2l_local import plotting
from hardware_lab import MIB, kernels, roofline
from hardware_lab.roofline import Roof, beyond_caches
from tested_results import machine


def test_arrays_are_four_times_the_last_cache_or_a_reason(monkeypatch):
    monkeypatch.setattr(roofline, 'reported_caches', lambda: {'L1': 1, 'L3': 48 * MIB})
    monkeypatch.setattr(machine, 'free_memory', lambda: 8 * 192 * MIB)
    assert beyond_caches() == (192 * MIB, '')
    monkeypatch.setattr(machine, 'free_memory', lambda: 8 * 192 * MIB - 1)
    n, why = beyond_caches()
    assert n == 64 * MIB and 'no ceiling' in why and '192 MiB' in why
    monkeypatch.setattr(roofline, 'reported_caches', dict)
    assert beyond_caches() == (64 * MIB, '')


def a_roof(no_ceiling=''):
    return Roof(np.array([100., 200., 300.]), {'reading': np.array([10., 20., 30.])},
                {'low': (np.array([5., 10., 15.]), 1.0, 'reading'),
                 'high': (np.array([50., 100., 150.]), 1000.0, 'reading')}, no_ceiling)


def test_shares():
    assert [row[-2:] for row in a_roof().table().rows] == [('5.0%', '50%'), ('50.0%', '50%')]
    assert {row[-1] for row in a_roof('why').table().rows} == {'why'}


def test_every_job_is_measured_in_every_round():
    """A call that compiles, one that tells how many fill a sample, and seven rounds."""
    seen, clock = [], iter(range(1000))
    arrays = tuple(np.ones(1024, np.float32) for _ in range(3))
    found = roofline.measure({'job': (lambda: seen.append(1), 8, 4, 'reading')}, arrays,
                             now=lambda: next(clock))
    assert len(seen) == 9 and set(found.slopes) == {'reading', 'writing'}
    rate, intensity, slope = found.operations['job']
    assert rate.tolist() == [8] * 7 and (intensity, slope) == (2, 'reading')


def test_nothing_lies_above_the_roof():
    """A job that streams faster than the loops of the slopes sets the slope itself, and one that computes
    faster than the loop of the peak, in a matrix unit for instance, sets the peak."""
    arrays = tuple(np.ones(1024, np.float32) for _ in range(3))
    found = roofline.measure({'quick': (lambda: None, 1e9, 1e9, 'reading'),
                              'matrix unit': (lambda: None, 1e15, 1e9, 'reading')}, arrays)
    for rate, intensity, slope in found.operations.values():
        assert (rate <= intensity * found.slopes[slope] * (1 + 1e-9)).all()
        assert (rate <= found.peak).all()
    assert (found.peak == found.operations['matrix unit'][0]).all()


def test_the_roofline():
    axes = a_roof().draw({'scalar': 1e10, 'wide': 1e11})
    said = {t.get_text() for t in axes.get_legend().get_texts()}
    assert said == {'reading 0 GB/s', 'low', 'high'}
    assert [t.get_text().strip() for t in axes.texts] == ['scalar', 'wide']
    plotting.plt.close('all')


def test_a_dot_is_no_first_call_after_others(monkeypatch):
    """Between its samples the streams empty the caches; a rate is that of a job that goes on."""
    now, cold = [0.0], []
    for name in ('read_all', 'stream_triad'):
        monkeypatch.setattr(kernels, name, lambda *_: cold.append(True))
    monkeypatch.setattr(kernels, 'fma_peak', lambda width: cold.append)

    def job():
        now[0] += 0.01 if cold else 0.001
        cold.clear()
    arrays = tuple(np.ones(1024, np.float32) for _ in range(3))
    found = roofline.measure({'job': (job, 1000, 1, 'reading')}, arrays, now=lambda: now[0])
    assert 6e5 < np.median(found.operations['job'][0]) <= 1e6
