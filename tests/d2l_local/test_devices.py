"""Devices in either half of the book: its clocks wait for what they have queued."""

import os
import subprocess
import sys
import threading
import time

import pytest

from tested_results import claims, machine, timing, traces


@pytest.fixture
def t():
    torch = pytest.importorskip('torch')
    from d2l_local import torch as half
    if torch.cuda.device_count() >= 2:
        pytest.skip('two GPUs: no virtual devices')
    return half


@pytest.fixture
def m():
    if machine.machine()['mxnet'] is None:
        pytest.skip('mxnet is not installed')
    from d2l_local import mxnet as half
    return half


def test_the_half_gives_the_calls_of_virtual_devices(t):
    import virtual_devices
    for name in ('devices', 'profile', 'put', 'synchronize'):
        assert getattr(t, name) is getattr(virtual_devices, name)


def test_what_was_profiled_is_drawn_with_its_critical_path(t):
    import matplotlib.pyplot as plt
    device, = both = t.devices(1)
    events = t.profile(lambda: device.submit(lambda: time.sleep(0.02), 'sleep').result(), both)
    for path in (traces.critical_path(events), [traces.critical_path(events)] * 2):
        axes = t.timeline(events, path=path)
        assert [text.get_text() for text in axes.get_legend().get_texts()][-1] == 'critical path'
    plt.close('all')


def timer(t, queue):
    timer = t.Timer()
    queue()
    return timer.stop()


def benchmark(t, queue):
    start = time.perf_counter()
    with t.Benchmark():
        queue()
    return time.perf_counter() - start


@pytest.mark.parametrize('clock', [
    timer, benchmark,
    lambda t, queue: t.measure(queue, budget=0.01, sample_seconds=0.001).value,
    lambda t, queue: t.ratio(queue, queue, budget=0.01, sample_seconds=0.001).fast],
    ids=['Timer', 'Benchmark', 'measure', 'ratio'])
def test_no_clock_stops_before_virtual_devices_are_done(t, clock):
    """Least of all because there was none when this was imported."""
    for device in t.devices(2):
        device.synchronize()
        assert clock(t, lambda d=device: d.submit(lambda: time.sleep(0.05), 'sleep') and None) >= 0.05


def test_a_given_wait_goes_before(t):
    device, release = t.devices(1)[0], threading.Event()
    device.submit(lambda: release.wait(60), 'gate')
    try:
        assert t.Timer(sync=None).stop() < 30
        assert t.measure(int, sync=None, budget=0.01).value < 1
        with t.Benchmark(sync=None):
            pass
    finally:
        release.set()


def test_where_nothing_queues_nothing_is_waited_for(t, monkeypatch):
    """Samples are short then, and no clock pays for a look at each device."""
    given = []
    monkeypatch.setattr(timing, '_clock', lambda clock, sample, sync: given.append(sync) or 1 / 0)
    monkeypatch.setattr(claims, 'compare', lambda *what, **how: timing._clock('wall', None, how['sync']))
    for gpu, virtual, waits in ((False, [], False), (False, t.devices(1), True), (True, [], True)):
        monkeypatch.setattr(t, '_gpu', lambda gpu=gpu: gpu)
        monkeypatch.setattr(t, 'given', lambda virtual=virtual: virtual)
        for call in (lambda: t.measure(int), lambda: t.ratio(int, int), lambda: t.in_turn(a=int, b=int),
                     lambda: t.compare('a-b', a=int, b=int)):
            with pytest.raises(ZeroDivisionError):
                call()
            assert given.pop() is (t.synchronize if waits else None)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system does not fork')
def test_a_fork_waits_for_no_device_of_its_parent(t):
    code = """import os
from d2l_local import torch as d2l
d2l.devices(1)
if pid := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    d2l.Timer().stop()
    os._exit(0)"""
    assert machine.run_child(code, timeout=60) == '0\n'


def test_an_import_does_not_set_up_cuda(t):
    """Ranks are forks of a process that has imported this module, and then they could not use a GPU."""
    code = """import torch
def refuse(*_):
    raise SystemExit('asked for GPUs')
torch.cuda.is_available = torch.cuda.device_count = torch.cuda.init = refuse
from d2l_local import torch as d2l
print('imported')"""
    assert machine.run_child(code, timeout=60) == 'imported\n'


def test_mxnet_devices(m):
    from mxnet import np
    assert [str(d) for d in m.devices(2)] == ['cpu(0)', 'cpu(1)'] or m.num_gpus() >= 2
    x = m.put(np.ones((2, 2)), m.devices(2)[1])
    assert x.ctx == m.devices(2)[1]
    with pytest.raises(ValueError, match='at least one device'):
        m.devices(0)


def test_mxnet_would_hang_and_says_so(m):
    done = subprocess.run([sys.executable, '-c', 'from d2l_local import mxnet as d; d.devices(2)'],
                          env={**os.environ, 'OMP_NUM_THREADS': '2'}, text=True,
                          capture_output=True, timeout=300)
    assert done.returncode and 'OMP_NUM_THREADS=2: unset it' in done.stderr


def test_mxnet_trace_tells_the_bytes_that_are_held(m):
    from mxnet import np
    if m.num_gpus():
        pytest.skip('bytes of CPU arrays are meant')
    alive = []
    found = m.trace(lambda: alive.append(np.ones((256, 256))), profile_memory=True)
    held = [e['args'][e['name']] for e in found if e['name'] == 'Memory: cpu/0']
    assert max(held) >= alive[0].size * 4


def test_mxnet_profile_twice(m):
    """The second dump of a process is broken JSON, which is repaired; operators stand in lanes."""
    from mxnet import np
    if m.num_gpus() >= 2:
        pytest.skip('lanes of CPU contexts are meant')
    xs = [np.ones((300, 300), ctx=d) for d in m.devices(2)]
    for _ in range(2):
        events = m.profile(lambda: [np.dot(x, x) for x in xs])
        dots = [e.lane for e in events if e.name == 'dot']
        assert sorted(dots) == ['cpu/0', 'cpu/1']
        assert any(e.lane == 'front end' for e in events) and all(e.end >= e.start for e in events)
