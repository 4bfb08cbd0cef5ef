"""Devices that stand in for GPUs: they queue, they wait, they compute the same numbers."""

import os
import threading
import time

import pytest

from tested_results import machine, traces
from tested_results.traces import overlap

torch = pytest.importorskip('torch')
from virtual_devices import (  # noqa: E402
    Event,
    VirtualDevice,
    devices,
    given,
    profile,
    put,
    synchronize,
)


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """On any machine, the devices are virtual."""
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 0)


@pytest.mark.parametrize(('set_up', 'waited_for'), [(False, []), (True, ['cuda:1'])])
def test_only_gpus_that_this_process_uses_are_waited_for(monkeypatch, set_up, waited_for):
    """A rank would set CUDA up on the GPU of another rank, or fail as a fork where it must not."""
    waits = []
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'is_initialized', lambda: set_up)
    monkeypatch.setattr(torch.cuda, 'memory_reserved', [0, 2 ** 21].__getitem__)
    monkeypatch.setattr(torch.cuda, 'synchronize', lambda device: waits.append(str(device)))
    synchronize()
    assert waits == waited_for


def test_virtual_devices_are_not_gpus():
    two = devices(2)
    assert [str(d) for d in two] == ['virtual:0', 'virtual:1'] and devices(2) == two == given()[:2]
    with pytest.raises(ValueError, match='at least one device'):
        devices(0)


def test_work_is_queued_and_waited_for():
    device = devices(1)[0]
    gate = threading.Event()
    device.submit(gate.wait, 'gate')         # nothing behind it can have been computed yet
    x = put(torch.arange(6.0).reshape(2, 3), device)
    y = (x @ x.T).relu().sum(dim=0)
    assert y.shape == (2,) and not y.promise.done()
    gate.set()
    assert y.wait().tolist() == [19.0, 64.0] and y.promise.done()


def test_training_gives_the_numbers_of_the_cpu():
    """Convolution, pooling, an index, in-place updates: parameters after five steps are equal."""
    from torch.func import functional_call
    device = devices(1)[0]
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
    queued = train({n: put(p, device).requires_grad_() for n, p in start.items()},
                   put(X, device), put(y, device))
    for n in start:
        torch.testing.assert_close(queued[n].wait(), eager[n].detach())
        assert not torch.equal(queued[n].wait(), start[n])


def test_hidden_barriers():
    x = put(torch.tensor([0.0, 2.0, 3.0]), devices(1)[0])
    assert x.sum().item() == 5 and bool((x > -1).all()) and 'tensor([0., 2., 3.])' in repr(x)
    assert torch.nonzero(x).wait().tolist() == [[1], [2]]
    assert x.cpu().tolist() == put(x, 'cpu').tolist() == [0, 2, 3]


def test_errors_come_late_or_with_a_check():
    x = put(torch.eye(3), devices(1)[0])
    late = x[put(torch.tensor([7]), x.place)]
    with pytest.raises(IndexError, match='out of bounds'):
        late.wait()
    with pytest.raises(RuntimeError):
        torch.linalg.cholesky(-x)             # checks its result, as on a GPU
    with pytest.raises(RuntimeError):
        x @ put(torch.ones(5, 5), x.place)  # shapes are known at once
    assert x.sum().item() == 3                # the queue goes on


def test_devices_do_not_mix_but_copy():
    one, two = devices(2)
    x, y = put(torch.ones(2), one), put(torch.ones(2), two)
    with pytest.raises(RuntimeError, match='virtual:0 and virtual:1'):
        x + y
    assert (put(x * 3, two) + y).wait().tolist() == [4, 4]


def test_threads_do_not_leak():
    before = torch.get_num_threads()
    device = devices(3)[2]
    assert device.submit(torch.get_num_threads, 'ask').result() == 1
    found = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start(), other.join()
    assert torch.get_num_threads() == before == found[0]


@pytest.mark.alone
def test_two_virtual_devices_overlap():
    """What one of them does begins and ends while the other is at work."""
    one, two = both = devices(2)

    def work():
        begun, over = threading.Event(), threading.Event()
        one.submit(lambda: (begun.set(), over.wait(300)), 'wait')
        assert begun.wait(300)
        two.submit(lambda: time.sleep(0.02), 'sleep').result(300)
        over.set()
    events = profile(work, both)
    assert overlap(events, 'virtual:0', 'virtual:1') == pytest.approx(1)
    assert {e.lane for e in events} == {'front end', 'virtual:0', 'virtual:1'}

    def in_turn():
        for d in both:
            d.submit(lambda: time.sleep(0.02), 'sleep')
            synchronize(d)
    assert overlap(profile(in_turn, both), 'virtual:0', 'virtual:1') == 0


def test_where_there_are_gpus_they_are_given(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    assert devices(2) == [torch.device('cuda', 0), torch.device('cuda', 1)]
    assert {type(d) for d in devices(3)} == {VirtualDevice}


def test_to_wait_for_all_is_to_wait_for_each():
    """With an error in the work of one, which is raised where its result is asked for."""
    one, two = devices(2)
    late = put(torch.ones(2), one)[put(torch.tensor([7]), one)]
    slow = two.submit(lambda: time.sleep(0.1), 'sleep')
    synchronize()
    assert slow.done() and late.promise.done()
    synchronize('cpu')
    with pytest.raises(IndexError, match='out of bounds'):
        late.wait()


def test_what_fails_is_raised_and_nothing_is_recorded_after_it():
    device = devices(1)[0]
    with pytest.raises(ZeroDivisionError):
        profile(lambda: 1 / 0, [device])
    put(torch.ones(2), device).wait()
    assert not device.recording and device.events == []


def test_events_are_those_of_traces():
    assert Event._fields == traces.Event._fields


def test_what_is_queued_at_the_exit_is_done():
    code = ('import time\nfrom virtual_devices import VirtualDevice\nd = VirtualDevice(0)\n'
            'd.submit(lambda: time.sleep(0.3), "wait")\nd.submit(lambda: print("done"), "say")')
    assert machine.run_child(code) == 'done\n'


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system does not fork')
def test_a_fork_has_no_device_of_its_parent():
    code = """import os
import torch
import virtual_devices
torch.cuda.device_count = lambda: 0
virtual_devices.devices(1)
if pid := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
else:
    none = not virtual_devices.given()
    virtual_devices.synchronize()
    x = virtual_devices.put(torch.ones(2), virtual_devices.devices(1)[0])
    os._exit(not (none and (x + 1).wait().tolist() == [2, 2]))"""
    assert machine.run_child(code, timeout=60) == '0\n'


@pytest.mark.parametrize('other', ['d2l_local', 'tested_results'])
def test_it_needs_no_other_package_of_the_book(other):
    code = f'import sys, virtual_devices; print(any(m.split(".")[0] == "{other}" for m in sys.modules))'
    assert machine.run_child(code) == 'False\n'
