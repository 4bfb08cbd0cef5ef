"""Passport, ladder, tables and figures of ``d2l_local.hardware``."""

import errno
import json
import os
import re
import sys

import numpy as np
import pytest

from d2l_local import hardware, machine, plotting
from d2l_local.hardware import core, devices, memory
from d2l_local.hardware.memory import KIB, MIB
from d2l_local.hardware.passport import VERSION
from tests.hardware_lab.stairs import CONFIG, exact, stairs, unsteady

# --- calls, passport, ladder ----------------------------------------------------------------------

def test_calls():
    nothing, add = hardware.python_call(0.01), hardware.numpy_add(0.01)
    assert 1e-9 < nothing.value < 1e-4 and add.value > nothing.value


def test_snappy_or_its_absence(monkeypatch):
    monkeypatch.setitem(sys.modules, 'cramjam', None)
    with pytest.raises(hardware.NotHere, match='cramjam'):
        hardware.snappy()
    monkeypatch.undo()
    pytest.importorskip('cramjam')
    assert 1e-8 < hardware.snappy(0.01).value < 1e-2


def a_passport():
    return hardware.Passport({
        'version': VERSION, 'machine': machine.machine(), 'quick': True, 'clock_hz': 4e9,
        'caches': {'L1': {'reported_bytes': 48 * KIB, 'measured_bytes': [48 * KIB, 64 * KIB]},
                   'edge 2': {'reported_bytes': None, 'measured_bytes': None}},
        'latency_s': {'L1': 1e-9}, 'bandwidth_bytes_per_s': {'one core': 1e10},
        'peak_flops': {'scalar': 1e10}, 'dispatch_s': {'Python call': 2e-8}, 'disk': 'no disk: why',
        'loopback_s': 1e-5, 'seconds': 1.0})


def test_a_passport_is_saved_and_loaded(tmp_path):
    p = a_passport()
    found = hardware.Passport.load(p.save(tmp_path / 'p.json'))
    assert found == p and found.of_this_machine and isinstance(found, hardware.Passport)
    found['machine'] = {**found['machine'], 'cores': 10 ** 6}
    assert not found.of_this_machine
    assert [f.name for f in tmp_path.iterdir()] == ['p.json']


@pytest.mark.parametrize('fails', ['json', 'replace'])
def test_a_passport_is_saved_whole_or_not_at_all(monkeypatch, tmp_path, fails):
    file = a_passport().save(tmp_path / 'p.json')
    before = file.read_bytes()
    p = a_passport()
    if fails == 'json':
        p['seconds'] = object()                        # at the end: half of the file is written by then
    else:
        def full(*_):
            raise OSError(errno.ENOSPC, 'No space left on device')
        monkeypatch.setattr(os, 'replace', full)
    with pytest.raises((TypeError, OSError)):
        p.save(file)
    assert file.read_bytes() == before and [f.name for f in tmp_path.iterdir()] == ['p.json']


@pytest.mark.parametrize('text', ['', 'no JSON', '{}', '{"version": 0}', '{"version": 1', '[]', '[1]',
                                  '3', 'null'])
def test_what_is_no_passport(tmp_path, text):
    (tmp_path / 'p.json').write_text(text)
    with pytest.raises(ValueError, match='measure a new one'):
        hardware.Passport.load(tmp_path / 'p.json')


def test_a_binary_file_is_no_passport(tmp_path):
    (tmp_path / 'p.json').write_bytes(b'\xff\xfe\x00')
    with pytest.raises(ValueError, match='measure a new one'):
        hardware.Passport.load(tmp_path / 'p.json')


def test_no_passport(tmp_path):
    with pytest.raises(FileNotFoundError):
        hardware.Passport.load(tmp_path / 'p.json')


def masked(text):
    """What a check of notebooks leaves of an output."""
    for regex, replace in re.findall(r'^regex: (.*)\nreplace: (.*)$', CONFIG, re.M):
        text = re.sub(regex, replace, text)
    return text


def test_the_table_of_a_passport_shows_no_figure_to_a_check():
    p = a_passport()
    q = hardware.Passport({**p, 'clock_hz': 1e9, 'latency_s': {'L1': 2e-9}, 'loopback_s': 'why not',
                           'disk': {'seconds': {'r': 1.0}},
                           'machine': {**p['machine'], 'processor': 'another'}})
    assert masked(repr(p)) == masked(repr(q)) and repr(p) != repr(q)
    assert masked(p._repr_html_()) == masked(q._repr_html_()) == 'TABLE'
    assert '4.00 GHz' in p._repr_html_() and 'edge measured between 48 and 64 KiB' in repr(p)
    assert 'no edge found near it' in repr(p) and 'no disk: why' in repr(p)


@pytest.fixture
def fakes(monkeypatch):
    """Every measurement gives 10 ns at once."""
    ten = exact(1e-8)
    for module, names in ((memory, ['latency', 'bandwidth']),
                          (core, ['line_transfer', 'mispredict', 'mutex']),
                          (devices, ['snappy', 'python_call', 'numpy_add', 'round_trip'])):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_, **__: ten)
    monkeypatch.setattr(memory, 'staircase', lambda *_, **__: stairs(1, 1, 1, 1, 4, 4))
    monkeypatch.setattr(memory, 'reported_caches', lambda: {'L1': 48 * KIB, 'L2': MIB, 'L3': 64 * MIB})
    monkeypatch.setattr(core, 'arithmetic', lambda *_: {'add': ten, 'multiply': ten, 'FMA': ten})
    monkeypatch.setattr(core, 'peaks', lambda *_: {'scalar': ten})
    monkeypatch.setattr(core, 'clock', lambda *_: 1e9)
    monkeypatch.setattr(machine, 'no_free_cores', lambda *_: '')
    monkeypatch.setattr(devices, 'disk_figures', lambda: {k: ten for k in (
        'read 4 KB', 'write 4 KB', 'read 1 MB', 'read 4 KB, p99', 'read 1 MB from the page cache')})


def test_a_passport_is_plain_data(fakes, tmp_path):
    p = hardware.passport()
    assert set(p) == set(a_passport())
    assert hardware.Passport.load(p.save(tmp_path / 'p')) == json.loads(json.dumps(p))
    assert p['caches'] == {'L1': {'reported_bytes': 48 * KIB, 'measured_bytes': [32 * KIB, 64 * KIB]},
                           'L2': {'reported_bytes': MIB, 'measured_bytes': None},
                           'L3': {'reported_bytes': 64 * MIB, 'measured_bytes': None}}
    assert p['disk']['seconds']['read 4 KB'] == p['loopback_s'] == 1e-8


def test_each_reported_cache_gets_the_edge_nearest_to_it(fakes, monkeypatch):
    monkeypatch.setattr(memory, 'edges', lambda _: [(32 * KIB, 48 * KIB), (64 * KIB, 128 * KIB)])
    monkeypatch.setattr(memory, 'reported_caches',
                        lambda: {'L1': 32 * KIB, 'L2': 96 * KIB, 'L3': MIB})
    found = [c['measured_bytes'] for c in hardware.passport()['caches'].values()]
    assert found == [[32 * KIB, 48 * KIB], [64 * KIB, 128 * KIB], None]


def test_a_passport_says_what_could_not_be_measured(fakes, monkeypatch):
    def fail(*_, **__):
        raise hardware.NotHere('for a reason')
    monkeypatch.setattr(devices, 'disk_figures', fail)
    monkeypatch.setattr(devices, 'round_trip', fail)
    p = hardware.passport()
    assert p['disk'] == p['loopback_s'] == 'for a reason' and 'for a reason' in repr(p)


# Both tables of the text that this one follows, in its order; a row may stand for several of ours.
TEXTBOOK = {
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


def test_the_ladder_has_every_row_of_the_textbook(fakes):
    rows = hardware.ladder()
    book = [r for r in rows if r.textbook]
    for pattern, seconds in TEXTBOOK.items():
        found = [r for r in book if re.search(pattern, r.action)]
        assert found and all(r.textbook == pytest.approx(seconds) for r in found), pattern
    assert all(any(re.search(p, r.action) for p in TEXTBOOK) for r in book)
    assert len({r.action for r in rows}) == len(rows)
    assert all((r.measured is None) == bool(r.reason) for r in rows)      # a figure or a reason
    assert all(r.measured or r.reason.strip() for r in rows)
    assert sum(bool(r.measured) for r in rows) >= 18
    text = hardware.ladder_table(rows)
    assert len(text.rows) == len(rows) and '6.7×' in str(text)
    assert masked(str(text)).count('measured: FIGURE') == len(rows)


@pytest.mark.parametrize('error', [hardware.NotHere, MemoryError, RuntimeError, OSError])
def test_a_row_that_cannot_be_measured_says_why(fakes, monkeypatch, error):
    def fail(*_, **__):
        raise error('for a reason')
    for module, name in ((memory, 'latency'), (core, 'line_transfer'), (devices, 'disk_figures')):
        monkeypatch.setattr(module, name, fail)
    monkeypatch.setattr(core, 'mutex', lambda: None)
    rows = {r.action: r for r in hardware.ladder()}
    assert rows['L1 cache hit'].reason == rows['line modified in another core'].reason == 'for a reason'
    assert rows['read 1 MB from the page cache'].reason == 'for a reason'
    assert 'POSIX' in rows['mutex lock and unlock'].reason and rows['L1 cache hit'].ratio is None
    assert 'for a reason' in str(hardware.ladder_table(list(rows.values())))


def test_no_third_cache_and_no_second_core(fakes, monkeypatch):
    monkeypatch.setattr(memory, 'reported_caches', lambda: {'L1': 48 * KIB, 'L2': MIB})
    monkeypatch.setattr(machine, 'no_free_cores', lambda *_: 'the cores are busy')
    rows = {r.action: r for r in hardware.ladder()}
    assert 'no third cache' in rows['L3 cache hit, not shared'].reason
    assert rows['line modified in another core'].reason == 'the cores are busy'


@pytest.mark.parametrize('caches', [{'L1': 32 * KIB, 'L3': MIB}, {'L2': MIB, 'L3': 4 * MIB}, {}])
def test_caches_that_show_no_third_level(fakes, monkeypatch, caches):
    monkeypatch.setattr(memory, 'reported_caches', lambda: caches)
    rows = {r.action: r for r in hardware.ladder()}
    assert 'third cache level' in rows['L3 cache hit, not shared'].reason
    assert rows['L2 cache hit'].measured


def test_an_empty_table():
    assert str(hardware.Table(('a', 'b'), [])) == ''


def test_a_table_marks_all_that_differs():
    t = hardware.Table(('row', 'here', 'there'), [('<first>', '1 ns', 'a & b'), ('second row', '', '2')])
    assert str(t).splitlines() == ['<first>     measured: 1 ns · a & b', 'second row  measured: 2']
    assert masked(str(t)) == '<first>     measured: FIGURE\nsecond row  measured: FIGURE'
    assert '<th scope="row">&lt;first&gt;</th><td>1 ns</td><td>a &amp; b</td>' in t._repr_html_()
    assert masked(t._repr_html_()) == 'TABLE' and repr(t) == str(t)


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
    axes = hardware.draw_staircase(stairs(1, 1, 4, 4, wide=[1]), [(8 * KIB, 16 * KIB)],
                                   {'L1': 8 * KIB, 'L3': 2 ** 40})
    assert hollow(axes) == [[8 * KIB], [4 * KIB, 16 * KIB, 32 * KIB]]
    said = [t.get_text() for t in axes.get_legend().get_texts()]
    assert {'here', 'here, unsteady', 'edge found', 'range'} <= set(said)
    shown = [t.get_text() for t in axes.texts]
    assert 'L1 reported' in shown and 'L3 reported' not in shown       # beyond the figure
    assert hollow(hardware.draw_staircase(stairs(1, 2)))[0] == []


def test_the_ladder_draws_unsteady_figures_hollow(closed):
    rows = [hardware.Row('steady', 1e-8, exact(2e-8)), hardware.Row('wild', 3e-8, unsteady(5e-8)),
            hardware.Row('elsewhere', 1e-6, reason='not here'), hardware.Row('ours', None, exact(1e-7)),
            hardware.Row('too slow to be shown', 1.0, exact(1.0))]
    axes = hardware.draw_ladder(rows, between=(1e-9, 1e-3))
    assert hollow(axes) == [[5e-8], [2e-8, 1e-7]]
    assert [t.get_text() for t in axes.get_yticklabels()] == ['steady', 'wild', 'ours', 'elsewhere']
    assert axes.get_xscale() == 'log'


def test_the_ladder_leaves_no_time_out_unless_asked(closed):
    slow = hardware.Figure(1.2e-4, 9e-5, 2e-3, 9)
    rows = [hardware.Row('quick', None, exact(2e-8)), hardware.Row('slow', None, slow),
            hardware.Row('elsewhere', 1e-6, reason='not here'),
            hardware.Row('neither', None, reason='no')]
    axes = hardware.draw_ladder(rows)
    assert [t.get_text() for t in axes.get_yticklabels()] == ['quick', 'elsewhere', 'slow']
    assert axes.get_xlim() == pytest.approx((1e-8, 1e-2))
    alone = hardware.draw_ladder([hardware.Row('alone', 1e-6)])
    assert alone.get_xlim() == pytest.approx((1e-6, 1e-5))
    with pytest.raises(ValueError, match='no row has a time'):
        hardware.draw_ladder(rows[-1:])


def test_the_roofline(closed):
    axes = hardware.roofline({'scalar': 1e10, 'wide': 1e11}, 1e10,
                             {'sum': (0.1, 1e9), 'product': (50, 9e10)})
    x, y = axes.lines[0].get_data()
    assert (y <= 10.001).all() and y[-1] == pytest.approx(10) and y[0] == pytest.approx(10 * x[0])
    assert {t.get_text() for t in axes.get_legend().get_texts()} == {'sum', 'product'}
    assert hardware.roofline({'scalar': 1e10}, 1e10).get_legend() is None
