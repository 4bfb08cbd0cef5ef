"""Devices that stand in for GPUs: they queue, they wait, they compute the same numbers."""

import os
import subprocess
import sys
import threading
import time

import pytest

from tested_results import claims, machine, timing


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


def test_virtual_devices_are_not_gpus(t):
    devices = t.devices(2)
    assert [str(d) for d in devices] == ['virtual:0', 'virtual:1'] and t.devices(2) == devices
    with pytest.raises(ValueError, match='at least one device'):
        t.devices(0)


def test_work_is_queued_and_waited_for(t):
    import torch
    device = t.devices(1)[0]
    gate = threading.Event()
    device.submit(gate.wait, 'gate')         # nothing behind it can have been computed yet
    x = t.put(torch.arange(6.0).reshape(2, 3), device)
    y = (x @ x.T).relu().sum(dim=0)
    assert y.shape == (2,) and not y.promise.done()
    gate.set()
    assert y.wait().tolist() == [19.0, 64.0] and y.promise.done()


def test_training_gives_the_numbers_of_the_cpu(t):
    """Convolution, pooling, an index, in-place updates: parameters after five steps are equal."""
    import torch
    from torch.func import functional_call
    device = t.devices(1)[0]
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                              torch.nn.Flatten(), torch.nn.Linear(576, 10))
    X, y = torch.randn(16, 1, 28, 28), torch.randint(0, 10, (16,))

    def train(params, X, y):
        for _ in range(5):
            loss = torch.nn.functional.cross_entropy(functional_call(net, params, (X,)), y)
            loss.backward()
            with torch.no_grad():
                for p in params.values():
                    p -= 0.1 * p.grad
                    p.grad = None
        return params
    start = {n: p.detach().clone() for n, p in net.named_parameters()}
    eager = train({n: p.clone().requires_grad_() for n, p in start.items()}, X, y)
    queued = train({n: t.put(p, device).requires_grad_() for n, p in start.items()},
                   t.put(X, device), t.put(y, device))
    for n in start:
        torch.testing.assert_close(queued[n].wait(), eager[n].detach())
        assert not torch.equal(queued[n].wait(), start[n])


def test_hidden_barriers(t):
    import torch
    x = t.put(torch.tensor([0.0, 2.0, 3.0]), t.devices(1)[0])
    assert x.sum().item() == 5 and bool((x > -1).all()) and 'tensor([0., 2., 3.])' in repr(x)
    assert torch.nonzero(x).wait().tolist() == [[1], [2]]
    assert x.cpu().tolist() == t.put(x, 'cpu').tolist() == [0, 2, 3]


def test_errors_come_late_or_with_a_check(t):
    import torch
    x = t.put(torch.eye(3), t.devices(1)[0])
    late = x[t.put(torch.tensor([7]), x.place)]
    with pytest.raises(IndexError, match='out of bounds'):
        late.wait()
    with pytest.raises(RuntimeError):
        torch.linalg.cholesky(-x)             # checks its result, as on a GPU
    with pytest.raises(RuntimeError):
        x @ t.put(torch.ones(5, 5), x.place)  # shapes are known at once
    assert x.sum().item() == 3                # the queue goes on


def test_devices_do_not_mix_but_copy(t):
    import torch
    one, two = t.devices(2)
    x, y = t.put(torch.ones(2), one), t.put(torch.ones(2), two)
    with pytest.raises(RuntimeError, match='virtual:0 and virtual:1'):
        x + y
    assert (t.put(x * 3, two) + y).wait().tolist() == [4, 4]


def test_threads_do_not_leak(t):
    import torch
    before = torch.get_num_threads()
    device = t.devices(3)[2]
    assert device.submit(torch.get_num_threads, 'ask').result() == 1
    found = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start(), other.join()
    assert torch.get_num_threads() == before == found[0]


@pytest.mark.alone
def test_two_virtual_devices_overlap(t):
    """What one of them does begins and ends while the other is at work."""
    one, two = devices = t.devices(2)

    def work():
        begun, over = threading.Event(), threading.Event()
        one.submit(lambda: (begun.set(), over.wait(300)), 'wait')
        assert begun.wait(300)
        two.submit(lambda: time.sleep(0.02), 'sleep').result(300)
        over.set()
    events = t.profile(work, devices)
    assert t.overlap(events, 'virtual:0', 'virtual:1') == pytest.approx(1)
    assert {e.lane for e in events} == {'front end', 'virtual:0', 'virtual:1'}

    def in_turn():
        for d in devices:
            d.submit(lambda: time.sleep(0.02), 'sleep')
            t.synchronize(d)
    assert t.overlap(t.profile(in_turn, devices), 'virtual:0', 'virtual:1') == 0


def test_what_is_queued_at_the_exit_is_done(t):
    code = ('import time, torch\nfrom d2l_local import torch as d2l\nd = d2l.devices(1)[0]\n'
            'd.submit(lambda: time.sleep(0.3), "wait")\nd.submit(lambda: print("done"), "say")')
    assert machine.run_child(code) == 'done\n'


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
        monkeypatch.setattr(t, '_gpu', gpu)
        monkeypatch.setattr(t, '_virtual', virtual)
        for call in (lambda: t.measure(int), lambda: t.ratio(int, int),
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
