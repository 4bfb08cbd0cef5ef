"""Ladder, tables and figures of ``hardware_lab``."""

import re
import sys

import numpy as np
import pytest

from d2l_local import plotting
from hardware_lab import KIB, MIB, NotHere, core, devices, figures, ladder, memory, or_reason
from hardware_lab.figures import Row
from tested_results import machine
from tested_results.timing import Time
from tests.hardware_lab.stairs import exact, stairs, unsteady
from tools.refresh import sanitiser

masked = sanitiser()             # what a check of notebooks leaves of an output


def test_calls():
    nothing, add = devices.per_call(lambda: None, budget=0.01), devices.per_call(ladder.NUMPY_ADD)
    assert 1e-9 < nothing.value < 1e-4 and add.value > nothing.value


def test_snappy_or_its_absence(monkeypatch):
    monkeypatch.setitem(sys.modules, 'cramjam', None)
    assert 'cramjam' in or_reason(devices.snappy)
    monkeypatch.undo()
    pytest.importorskip('cramjam')
    assert 1e-8 < devices.snappy(0.01).value < 1e-2


@pytest.fixture
def fakes(monkeypatch):
    """Every measurement gives 10 ns at once."""
    ten = exact(1e-8)
    for module, names in ((memory, ['latency', 'bandwidth']),
                          (core, ['line_transfer', 'mispredict', 'mutex']),
                          (devices, ['snappy', 'round_trip']), (ladder, ['per_call'])):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_, **__: ten)
    monkeypatch.setattr(memory, 'reported_caches', lambda: {'L1': 48 * KIB, 'L2': MIB, 'L3': 64 * MIB})
    monkeypatch.setattr(core, 'arithmetic', lambda *_: {'add': ten, 'multiply': ten, 'FMA': ten})
    monkeypatch.setattr(machine, 'no_free_cores', lambda *_: '')
    monkeypatch.setattr(devices, 'disk_figures', lambda: {k: ten for k in (
        'read 4 KB', 'write 4 KB', 'read 1 MB', 'read 1 MB from the page cache')})


# The published table, in its order; a row may stand for several of ours.
PUBLISHED = {
    'L1': 1.5e-9, 'floating-point': 1.5e-9, 'L2': 5e-9, 'branch': 6e-9, 'L3.*not shared': 16e-9,
    'L3.*shared with another': 25e-9, 'mutex': 25e-9, 'modified in another core': 29e-9,
    'L3.*another socket': 40e-9, 'hop': 40e-9, '64 MB memory reference$': 46e-9,
    '64 MB.*other socket': 70e-9, '256 MB memory reference$': 75e-9, 'Optane random write': 94e-9,
    '256 MB.*other socket': 120e-9, 'Optane random read': 305e-9, '100 Gbit': 1e-6, 'Snappy': 3e-6,
    '10 Gbit': 1e-5, 'write 4 KB.*NVMe': 30e-6, 'NVLink': 30e-6, 'PCIe': 80e-6,
    'read 4 KB.*NVMe': 120e-6, '1 MB.*NVMe': 208e-6, 'write 4 KB.*SATA': 500e-6,
    'read 4 KB.*SATA': 500e-6, 'data cent': 500e-6, '1 MB.*SATA': 2e-3, '1 MB.*hard disk': 5e-3,
    'random access to a hard disk': 10e-3, 'California': 0.15,
    'GPU shared memory': 30e-9, 'GPU global memory': 200e-9, 'launch of a GPU kernel': 10e-6}


def test_the_ladder_has_every_published_row(fakes):
    rows = ladder.measure()
    published = [r for r in rows if r.published]
    for pattern, seconds in PUBLISHED.items():
        found = [r for r in published if re.search(pattern, r.action)]
        assert found and all(r.published == pytest.approx(seconds) for r in found), pattern
    assert all(any(re.search(p, r.action) for p in PUBLISHED) for r in published)
    assert len({r.action for r in rows}) == len(rows)
    assert all(r.measured or r.here.strip() for r in rows)                # a figure or a reason
    assert sum(bool(r.measured) for r in rows) >= 18
    text = figures.ladder_table(rows)
    assert len(text.rows) == len(rows) and '6.7×' in str(text)
    assert masked(str(text)).count('measured: FIGURE') == len(rows)


@pytest.mark.parametrize('error', [NotHere, MemoryError, RuntimeError, OSError])
def test_a_row_that_cannot_be_measured_says_why(fakes, monkeypatch, error):
    def fail(*_, **__):
        raise error('for a reason')
    for module, name in ((memory, 'latency'), (core, 'line_transfer'), (devices, 'disk_figures')):
        monkeypatch.setattr(module, name, fail)
    rows = {r.action: r for r in ladder.measure()}
    assert rows['L1 cache hit'].here == rows['line modified in another core'].here == 'for a reason'
    assert rows['read 1 MB from the page cache'].here == 'for a reason'
    assert 'for a reason' in str(figures.ladder_table(list(rows.values())))


def test_a_disk_that_refuses_is_asked_once(fakes, monkeypatch):
    """Each time, 128 MiB would be written in vain."""
    asked = []

    def refuse():
        asked.append(1)
        raise NotHere('no way around the cache')
    monkeypatch.setattr(devices, 'disk_figures', refuse)
    for times in 1, 2:      # a new table asks anew
        disk = [r for r in ladder.measure() if r.here == 'no way around the cache']
        assert len(disk) == 4 and len(asked) == times


def test_no_second_core(fakes, monkeypatch):
    monkeypatch.setattr(machine, 'no_free_cores', lambda *_: 'the cores are busy')
    rows = {r.action: r for r in ladder.measure()}
    assert rows['line modified in another core'].here == 'the cores are busy'


def test_the_third_cache_is_read_off_the_staircase(fakes):
    """That of the notebook, or one that is measured now: here a flat one, which shows no cache."""
    four_levels = stairs(1, 1, 4, 4, 20, 20, 60, 60)
    shown = {r.action: r for r in ladder.measure(four_levels)}['L3 cache hit, not shared']
    assert shown.measured.value == pytest.approx(20e-9)
    shown = {r.action: r for r in ladder.measure()}['L3 cache hit, not shared']
    assert 'no level between the second cache and memory' in shown.here


@pytest.mark.parametrize('caches', [{'L1': 32 * KIB, 'L3': MIB}, {}])
def test_a_second_cache_that_nobody_reports_is_read_all_the_same(fakes, monkeypatch, caches):
    monkeypatch.setattr(memory, 'reported_caches', lambda: caches)
    rows = {r.action: r for r in ladder.measure()}
    assert rows['L2 cache hit'].measured


# --- figures --------------------------------------------------------------------------------------

@pytest.fixture
def closed():
    """No figure is left open."""
    yield
    plotting.plt.close('all')


def hollow(axes):
    """Horizontal places of the hollow and of the filled markers."""
    dots = [x for x in axes.lines if x.get_marker() == 'o']
    return [sorted(float(v) for x in dots if (x.get_markerfacecolor() == 'white') == h
                   for v in np.ravel(x.get_xdata())) for h in (True, False)]


def test_the_staircase_draws_unsteady_points_hollow(closed):
    axes = figures.draw_staircase(stairs(1, 1, 4, 4, wide=[1]), [(8 * KIB, 16 * KIB)],
                                   {'L1': 8 * KIB, 'L3': 2 ** 40})
    assert hollow(axes) == [[8 * KIB], [4 * KIB, 16 * KIB, 32 * KIB]]
    said = [t.get_text() for t in axes.get_legend().get_texts()]
    assert {'here', 'here, unsteady', 'edge found', 'range'} <= set(said)
    shown = [t.get_text() for t in axes.texts]
    assert 'L1 reported' in shown and 'L3 reported' not in shown       # beyond the figure
    assert hollow(figures.draw_staircase(stairs(1, 2)))[0] == []


def test_the_ladder_draws_unsteady_figures_hollow(closed):
    rows = [Row('steady', 1e-8, exact(2e-8)), Row('wild', 3e-8, unsteady(5e-8)),
            Row('elsewhere', 1e-6, 'not here'), Row('ours', None, exact(1e-7))]
    axes = figures.draw_ladder(rows)
    assert hollow(axes) == [[5e-8], [2e-8, 1e-7]]
    assert [t.get_text() for t in axes.get_yticklabels()] == ['steady', 'wild', 'ours', 'elsewhere']
    assert axes.get_xscale() == 'log'


def test_the_ladder_leaves_no_time_out(closed):
    slow = Time(1.2e-4, 9e-5, 2e-3, 9)
    rows = [Row('quick', None, exact(2e-8)), Row('slow', None, slow),
            Row('elsewhere', 1e-6, 'not here'),
            Row('neither', None, 'no')]
    axes = figures.draw_ladder(rows)
    assert [t.get_text() for t in axes.get_yticklabels()] == ['quick', 'elsewhere', 'slow']
    low, high = axes.get_xlim()
    assert low < 2e-8 and high > 2e-3                   # the whole range of each
    assert figures.draw_ladder([Row('alone', 1e-6)]).get_legend()
    with pytest.raises(ValueError, match='no row has a time'):
        figures.draw_ladder(rows[-1:])
