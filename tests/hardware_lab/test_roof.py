"""The roofline's ceilings: sizes beyond the caches, rounds in turn, shares and the table."""

import sys

import numpy as np
import pytest

from d2l_local import machine
from d2l_local.hardware import MIB, Roof, beyond_caches, in_turn, kernels
from d2l_local.hardware import roof as make_roof

module = sys.modules['d2l_local.hardware.roof']


def test_arrays_are_four_times_the_last_cache_or_a_reason(monkeypatch):
    monkeypatch.setattr(module, 'reported_caches', lambda: {'L1': 1, 'L3': 48 * MIB})
    monkeypatch.setattr(machine, 'free_memory', lambda: 8 * 192 * MIB)
    assert beyond_caches() == (192 * MIB, '')
    monkeypatch.setattr(machine, 'free_memory', lambda: 8 * 192 * MIB - 1)
    n, why = beyond_caches()
    assert n == 64 * MIB and 'no ceiling' in why and '192 MiB' in why
    monkeypatch.setattr(module, 'reported_caches', dict)
    assert beyond_caches() == (64 * MIB, '')


def test_rounds_are_taken_in_turn():
    seen, clock = [], iter(range(1000))
    t = in_turn({'a': lambda: seen.append('a'), 'b': lambda: seen.append('b')}, 3, lambda: next(clock))
    assert ''.join(seen) == 'ab' * 4
    assert {k: v.tolist() for k, v in t.items()} == {'a': [1] * 3, 'b': [1] * 3}


def test_shares():
    r = Roof(np.array([100., 200., 300.]), {'reading': np.array([10., 20., 30.])},
             {'low': np.array([5., 10., 15.]), 'high': np.array([50., 100., 150.])},
             {'low': 1.0, 'high': 1000.0}, {'low': 'reading', 'high': 'reading'})
    assert r.share('low') == r.share('high') == 0.5
    assert [row[-1] for row in r.table().rows] == ['50%', '50%']
    assert 'why' in str(Roof(r.peak, r.slopes, r.rates, r.intensity, r.slope_of, 'why').table())


def test_a_small_roof():
    a, b, c = (np.ones(1024, np.float32) for _ in range(3))
    found = make_roof({'sum': (a.sum, 1024, 4096, 'reading')}, (a, b, c))
    assert found.rates['sum'].size == 7 and set(found.slopes) == {'reading', 'writing'}


@pytest.mark.parametrize('n', [8, 64, 4096])
def test_reading_all(n):
    assert kernels.read_all(np.arange(n)) == n * (n - 1) // 2
