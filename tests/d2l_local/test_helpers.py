"""Data, plots, graphs, the machine, and who imports whom."""

import importlib
import itertools
import json
import math
import os
import re
import subprocess
import sys
import threading
import time

import matplotlib
import nbformat
import numpy as np
import pytest

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402

from d2l_local import data, plotting  # noqa: E402
from tested_results import machine  # noqa: E402
from tested_results.traces import Event, busy, critical_path, overlap  # noqa: E402
from tools import source  # noqa: E402
from tools.source import ROOT  # noqa: E402

FREE_OF_FRAMEWORKS = ['answer_checks', 'd2l_local.data', 'd2l_local.plotting', 'local_cluster.cluster',
                      'local_cluster.ranks', 'tested_results', 'tested_results.traces']


def in_fresh_python(code):
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_pytorch_says_of_python_3_13_0_stands_on_no_page():
    pytest.importorskip('torch')
    said = 'Guards may run slower on Python 3.13.0. Consider upgrading to Python 3.13.1+.'
    done = subprocess.run([sys.executable, '-c', 'import sys, warnings; from d2l_local import torch; '
                           'warnings.warn(sys.argv[1], RuntimeWarning); warnings.warn("another")', said],
                          capture_output=True, text=True, timeout=300)
    assert 'another' in done.stderr and 'Guards' not in done.stderr


def test_no_framework_is_imported():
    """Neither by the package nor by any of these modules, one after the other."""
    modules = ['d2l_local', *FREE_OF_FRAMEWORKS]
    out = in_fresh_python('import importlib, sys\n'
                          f'for module in {modules}:\n'
                          '    importlib.import_module(module)\n'
                          '    print(module, *(m for m in ("mxnet", "torch") if m in sys.modules))')
    assert out.splitlines() == modules


@pytest.mark.slow
@pytest.mark.parametrize(('ours', 'other'), [('mxnet', 'torch'), ('torch', 'mxnet')])
def test_a_half_does_not_import_the_other(ours, other):
    if machine.machine()[ours] is None:
        pytest.skip(f'{ours} is not installed')
    assert in_fresh_python(f'from d2l_local import {ours}; import sys; print("{other}" in sys.modules)'
                           ) == 'False'


@pytest.mark.slow
@pytest.mark.parametrize('half', ['mxnet', 'torch'])
def test_a_half_adds_little_to_the_import_of_its_framework(half):
    """Processor time, the least of some: what else goes on in the computer can only make it longer."""
    if machine.machine()[half] is None:
        pytest.skip(f'{half} is not installed')
    code = (f'import time, {half}, matplotlib.pyplot; t = time.process_time(); '
            f'from d2l_local import {half}; print(time.process_time() - t)')
    times, end = [], time.monotonic() + 60
    while not times or (times[-1] >= 0.5 and time.monotonic() < end):
        times.append(float(in_fresh_python(code)))
    assert times[-1] < 0.5, times


@pytest.mark.parametrize('half', ['mxnet', 'torch'])
def test_the_face_of_a_half_is_small_and_all_that_notebooks_use_of_it(half):
    if machine.machine()[half] is None:
        pytest.skip(f'{half} is not installed')
    face = importlib.import_module(f'd2l_local.{half}').__all__
    assert len(set(face)) == len(face) <= 30 and sorted(face) == face
    assert dir(importlib.import_module(f'd2l_local.{half}')) == face
    for path in sorted((ROOT / 'chapters').glob('*/*.ipynb')):
        code = '\n'.join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == 'code')
        if f'from d2l_local import {half} as d2l' in code:
            assert not set(re.findall(r'\bd2l\.(\w+)', code)) - set(face), path.name


@pytest.mark.parametrize('half', ['mxnet', 'torch'])
def test_a_half_says_where_the_pages_first_use_each_helper(half):
    if machine.machine()[half] is None:
        pytest.skip(f'{half} is not installed')
    module, first = importlib.import_module(f'd2l_local.{half}'), {}
    for path in source.notebooks():
        code = '\n'.join(c.source for c in source.read(path).cells if c.cell_type == 'code')
        if f'from d2l_local import {half} as d2l' in code:
            page = path.relative_to(ROOT / 'chapters').with_suffix('').as_posix()
            for name in set(re.findall(r'\bd2l\.(\w+)', code)):
                first.setdefault(name, page)
    table = module.__doc__.partition('first use each helper:')[2]
    said = {name.strip(): page for page, names in re.findall(r'([\w/]+): ([^:]*)(?=\n    \S|\Z)', table)
            for name in names.split(',')}
    # no page of MXNet has in_turn
    assert said == {name: first[name] for name in module.__all__ if name in first or name != 'in_turn'}


def test_the_two_faces_differ_where_the_frameworks_do():
    halves = [h for h in ('mxnet', 'torch') if machine.machine()[h]]
    if len(halves) < 2:
        pytest.skip('one framework is not installed')
    m, t = (set(importlib.import_module(f'd2l_local.{h}').__all__) for h in halves)
    assert m - t == {'Accumulator', 'evaluate_accuracy_gpus', 'num_gpus', 'sgd', 'split_batch', 'trace'}
    assert t - m == {'GPT', 'evaluate_accuracy_gpu', 'plot_trace', 'ranks', 'run_ranks', 'synchronize',
                     'trace_events', 'try_gpu'}


def test_digits():
    (x, y), (x_test, y_test) = data.digits()
    assert x.shape == (1500, 1, 28, 28) and x_test.shape == (297, 1, 28, 28)
    assert x.dtype == 'float32' and y.dtype == 'int32'
    assert x.min() == 0 and x.max() == 1 and set(y) == set(range(10)) == set(y_test)
    again = data.digits()
    assert np.array_equal(again[0][0], x) and np.array_equal(again[1][1], y_test)
    assert data.digits(8)[0][0].shape[2:] == (8, 8) and data.digits(9)[0][0].shape[2:] == (9, 9)
    with pytest.raises(ValueError, match='too small'):
        data.digits(7)


def test_curves_differ_by_more_than_their_colour():
    """Eight of them; with colours, even more. A curve alone is drawn as ever."""
    axes = plotting.plot([[i, i + 1] for i in range(40)])
    looks = [(ln.get_linestyle(), ln.get_marker()) for ln in axes.get_lines()]
    all_of_it = {(*look, ln.get_color()) for look, ln in zip(looks, axes.get_lines(), strict=True)}
    given = plotting.plot([[1, 2], [3, 4]], fmts=['-'])
    plt.close('all')
    assert looks[0] == ('-', 'o')
    assert len(set(looks)) == len({marker for _, marker in looks}) == 8 and len(all_of_it) == 40
    assert all(a[0] != b[0] and a[1] != b[1] for a, b in itertools.pairwise(looks))
    assert {(ln.get_linestyle(), ln.get_marker()) for ln in given.get_lines()} == {('-', 'None')}


def test_plot_of_curves_that_do_not_match():
    with pytest.raises(ValueError, match='3 curves need one x or 3'):
        plotting.plot([[1], [2]], [[1], [2], [3]])
    plt.close('all')


def test_a_graph_flows_downward():
    edges = [('a', 'sum'), ('b', 'sum'), ('sum', 'out'), ('a', 'out'), ('late', 'out')]
    axes = plotting.graph({n: n for n in ('a', 'b', 'late', 'sum', 'out')}, edges, marked=['a'])
    place = {t.get_text(): t.get_position() for t in axes.texts if t.get_text()}
    plt.close('all')
    assert all(place[a][1] > place[b][1] for a, b in edges)
    assert len(set(place.values())) == 5         # no two nodes in one place
    assert place['late'][1] == place['sum'][1]   # right above the operation that needs it


def test_the_graph_of_an_exported_symbol():
    nodes = [{'op': 'null', 'name': 'x', 'inputs': []}, {'op': 'null', 'name': 'w', 'inputs': []},
             {'op': '_npx_fully_connected', 'name': 'out', 'inputs': [[0, 0, 0], [1, 0, 0]]}]
    labels, edges, inputs = plotting.symbol_graph(json.dumps({'nodes': nodes}))
    assert labels == {'x': 'x', 'w': 'w', 'out': 'fully_connected'}
    assert (edges, inputs) == ([('x', 'out'), ('w', 'out')], ['x', 'w'])


@pytest.mark.parametrize('edges', [[('a', 'b'), ('b', 'a')], [('a', 'a')],
                                   [('a', 'b'), ('b', 'c'), ('c', 'b')]])
def test_a_graph_with_a_cycle_is_refused(edges):
    with pytest.raises(ValueError, match='cycle'):
        plotting.graph(dict.fromkeys('abc', 'x'), edges)
    plt.close('all')


def test_layers_of_random_graphs():
    """Every edge of 50 random graphs goes down, in whatever order the edges come."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        names = [f'n{i}' for i in rng.permutation(12)]
        edges = [(names[i], names[j]) for i in range(12) for j in range(i + 1, 12) if rng.random() < 0.2]
        edges = [edges[i] for i in rng.permutation(len(edges))]
        rows = plotting._layers(sorted(names), edges)
        row = {n: i for i, r in enumerate(rows) for n in r}
        assert sorted(row) == sorted(names) and all(row[a] < row[b] for a, b in edges)


def test_a_timeline_has_a_row_for_each_lane():
    events = [Event('one', 'f', 1, 2), Event('two', 'g', 1.5, 3), Event('one', 'g', 2, 2.001)]
    axes = plotting.timeline(events)
    labels = [t.get_text() for t in axes.get_yticklabels()]
    legend = [t.get_text() for t in axes.get_legend().get_texts()]
    plt.close('all')
    assert labels == ['one', 'two'] and legend == ['f', 'g'] and axes.get_xlabel() == 'time in s'


def test_overlap():
    events = [Event('a', 'x', 0, 2), Event('a', 'x', 1, 4), Event('b', 'x', 3, 5),
              Event('c', 'x', 9, 10)]
    assert busy(events, 'a') == [(0, 4)]
    assert overlap(events, 'a', 'b') == overlap(events, 'b', 'a') == 0.5
    assert overlap(events, 'a', 'c') == 0 and overlap(events, 'a', 'a') == 1
    with pytest.raises(ValueError, match=r"no events in the lane 'd'.*\['a', 'b', 'c'\]"):
        overlap(events, 'a', 'd')


def test_critical_path():
    a, b, c = Event('one', 'a', 0, 2), Event('two', 'b', 2, 5), Event('one', 'c', 2, 3)
    d, e = Event('one', 'd', 5.0004, 6), Event('two', 'e', 5, 5.5)
    assert critical_path([e, d, c, b, a]) == [a, b, d]      # c and e have slack
    assert critical_path([c]) == [c]
    axes = plotting.timeline([a, b, c, d, e], path=[a, b, d])
    line = [ln for ln in axes.get_lines() if ln.get_label() == 'critical path'][0]
    plt.close('all')
    assert list(line.get_ydata()) == [0, 0, 1, 1, 0, 0]
    assert line.get_xdata()[-1] == 6


def test_the_machine_is_plain_data():
    m = json.loads(json.dumps(machine.machine()))
    assert m['cores'] == machine.cores() >= 1 and m['memory_gib'] >= 1 and m['processor']
    assert m['numpy'] == np.__version__
    assert f"{m['cores']} cores" in machine.describe() and '\n' not in machine.describe()


@pytest.mark.parametrize('said, name', [
    ('model name\t: AMD EPYC 9654 96-Core\ncpu family: 25\n', 'AMD EPYC 9654 96-Core'),
    ('cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\nmodel\t\t: 18\n',
     'AMD EPYC (family 25, model 17)'),
    ('model name: Intel(R) Xeon(R) Processor @ 2.80GHz\ncpu family: 6\nmodel: 106\n',
     'Intel(R) Xeon(R) Processor @ 2.80GHz (family 6, model 106)'),
    ('processor: 0\nCPU part: 0xd40\n', f'{machine.platform.machine()} (part 0xd40)'),
    ('processor: 0\nModel: Raspberry Pi 5 Model B Rev 1.0\n', 'Raspberry Pi 5 Model B Rev 1.0'),
    ('', machine.platform.machine())])
def test_a_processor_whose_name_is_hidden_is_told_by_its_design(said, name):
    """Else two designs would share a ledger, and one's verdicts would be asked of the other."""
    assert machine._linux_processor(said) == name


@pytest.mark.parametrize(('membership', 'files', 'cores'), [
    ('0::/\n', {}, math.inf),                                    # the root group has no such file
    ('0::/\n', {'cpu.max': 'max 100000\n'}, math.inf),
    ('0::/\n', {'cpu.max': '150000 100000\n'}, 1.5),            # a container's own group
    ('0::/a/b\n', {'cpu.max': 'max 100000\n', 'a/cpu.max': '200000 100000\n',
                   'a/b/cpu.max': '50000 10000\n'}, 2.0),       # the narrowest of those around it
    ('0::/a\n', {'b/cpu.max': '100000 100000\n'}, math.inf),    # another's
    ('0::/../host/path\n', {'cpu.max': '250000 100000\n'}, 2.5),
    ('12:memory:/m\n4:cpu,cpuacct:/docker/17ab\n1:name=systemd:/docker/17ab\n0::/x\n',
     {'cpu,cpuacct/cpu.cfs_quota_us': '300000\n', 'cpu,cpuacct/cpu.cfs_period_us': '100000\n'}, 3.0),
    ('1:cpu:/a\n', {'cpu/a/cpu.cfs_quota_us': '-1\n', 'cpu/a/cpu.cfs_period_us': '100000\n'}, math.inf),
    ('1:cpu:/a\n', {'cpu/a/cpu.cfs_quota_us': '50000\n', 'cpu/a/cpu.cfs_period_us': '100000\n'}, 0.5),
    ('3:cpuset,memory:/a\n', {'cpu/cpu.cfs_quota_us': '1\n'}, math.inf),
    ('0::/\n', {'cpu.max': 'more than enough\n'}, math.inf)])
def test_the_quota_of_a_control_group(tmp_path, membership, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine._group_quota(membership, tmp_path) == cores


@pytest.mark.parametrize(('allowed', 'quota', 'cores'), [
    (64, math.inf, 64), (64, 1.5, 1), (64, 2.0, 2), (2, 8.0, 2), (64, 0.5, 1), (1, math.inf, 1)])
def test_cores_are_those_that_can_be_kept_busy(monkeypatch, allowed, quota, cores):
    monkeypatch.setattr(os, 'sched_getaffinity', lambda who: set(range(allowed)), raising=False)
    monkeypatch.setattr(machine, 'quota', lambda: quota, raising=False)
    assert machine.cores() == cores
    assert machine.no_free_cores(65).endswith(f'this program may use {cores}')


def test_a_system_without_control_groups_has_no_quota(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)
    monkeypatch.setattr(machine.Path, 'read_text', missing)
    assert machine.quota() == math.inf


def test_no_compiler_is_no_error(monkeypatch):
    monkeypatch.setenv('PATH', '')
    monkeypatch.delenv('CXX', raising=False)
    assert machine.compiler() is None


def test_free_cores(monkeypatch):
    assert machine.no_free_cores(1, enough=0) == ''
    assert 'free cores: 1 threads do' in machine.no_free_cores(1, enough=1e6)
    monkeypatch.setattr(machine, 'cores', lambda: 1)
    assert machine.no_free_cores(2) == 'no 2 free cores: this program may use 1'


@pytest.mark.parametrize(('longer', 'reason'), [(1.0, ''), (1.4, ''), (1.8, '1.8 times as long')])
def test_halves_of_a_core_are_known_by_their_arithmetic(monkeypatch, longer, reason):
    """By a clock on which each thread of two needs so many times as long as the main one."""
    now = threading.local()

    def clock():
        now.t = getattr(now, 't', 0) + (1 if threading.current_thread() is threading.main_thread()
                                        else longer)
        return now.t
    monkeypatch.setattr(machine.time, 'thread_time', clock)
    found = machine.shared_cores(2)
    assert (reason in found) and bool(found) == bool(reason)


def test_a_child_process():
    assert machine.run_child('import os\nprint(os.environ["A_B"])', A_B='7') == '7\n'
    with pytest.raises(RuntimeError, match='ZeroDivisionError'):
        machine.run_child('1 / 0')
    with pytest.raises(RuntimeError, match='more than 0.5 s'):
        machine.run_child('import time; time.sleep(600)', timeout=0.5)


@pytest.mark.parametrize(('setting', 'says'), [
    ({'DMLC_ROLE': 'server'}, 'wait for ever'), ({'FAKE_NUMPY': '1.26.4'}, 'older than 1.24'),
    ({'NO_MXNET': '1'}, 'does not import here'), ({'NO_TORCH': '1'}, 'does not import here')])
def test_what_keeps_a_half_from_working_is_said(setting, says):
    half = 'torch' if 'NO_TORCH' in setting else 'mxnet'
    code = ('import os, sys, numpy\n'
            'numpy.__version__ = os.environ.get("FAKE_NUMPY", "1.23.5")\n'
            'for name in ("mxnet", "torch"):\n'
            '    if "NO_" + name.upper() in os.environ: sys.modules[name] = None\n'
            f'from d2l_local import {half}')
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **setting})
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode and last.startswith('ImportError') and says in done.stderr
