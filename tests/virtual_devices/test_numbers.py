"""A program has on virtual devices the numbers that it has on GPUs, or the error: copies, writes, places."""

import copy
import io
import os
import threading

import pytest

from tested_results import machine

torch = pytest.importorskip('torch')
from torch import nn  # noqa: E402

from virtual_devices import devices, put, synchronize  # noqa: E402


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """On any machine, the devices are virtual."""
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 0)


@pytest.fixture
def one():
    return devices(2)[0]


@pytest.fixture
def two():
    return devices(2)[1]


@pytest.fixture
def busy():
    """Holds a device up until the test has issued everything, or for a second."""
    gates = []

    def hold(device):
        gates.append(threading.Event())
        device.submit(lambda: gates[-1].wait(1), 'busy')
    yield hold
    [gate.set() for gate in gates]
    synchronize()


# Copies

@pytest.mark.parametrize('read', [
    lambda x: x.cpu(), lambda x: x.wait(), lambda x: put(x, 'cpu'), lambda x: x.to('cpu'),
    lambda x: x.to(torch.ones(1)), lambda x: put(x, torch.device('cpu'))])
def test_what_was_read_does_not_change_later_nor_does_it_change_the_device(one, read):
    w = put(torch.tensor([1., 2.]), one)
    before = read(w)
    w.add_(10)
    assert type(before) is torch.Tensor and before.tolist() == [1, 2] and read(w).tolist() == [11, 12]
    read(w).add_(100)
    assert w.tolist() == [11, 12]


def test_what_is_read_includes_what_was_done_through_another_name(one, busy):
    w = put(torch.zeros(3), one)
    v = w[1:]
    busy(one)
    w.add_(1)
    assert v.cpu().tolist() == [1, 1]


def test_a_copy_has_the_numbers_of_when_it_was_issued(one, two, busy):
    x, t = put(torch.tensor([1., 2.]), one), torch.zeros(2)
    busy(two), busy(one)
    y, z = put(x, two), put(t, one)
    x.add_(100), t.fill_(1)
    assert (y.tolist(), z.tolist(), x.tolist()) == ([1, 2], [0, 0], [101, 102])


def test_a_copy_of_a_view_and_one_of_statistics_too(one, two, busy):
    x, mean, var = put(torch.ones(4, 3), one), put(torch.zeros(3), one), put(torch.ones(3), one)
    busy(two)
    y, old = put(x[0], two), put(mean, two)
    x.mul_(5)
    nn.functional.batch_norm(x, mean, var, training=True, momentum=1.0)
    assert y.tolist() == [1, 1, 1] and old.tolist() == [0, 0, 0] and mean.tolist() == [5, 5, 5]


def test_numbers_of_the_host_in_queued_work_are_those_of_when_it_was_issued(one, busy):
    x, scale, at = put(torch.arange(4.), one), torch.tensor(2.), torch.tensor([1, 3])
    busy(one)
    y, z = x * scale, x[at]
    scale.fill_(7), at.zero_()
    assert y.tolist() == [0, 2, 4, 6] and z.tolist() == [1, 3]


def test_copies_do_not_make_devices_wait_for_each_other_without_need(one, two, busy):
    x = put(torch.ones(2), one)
    busy(two)
    copied, other = put(x, two), x * 2
    other.wait()        # work that overwrites nothing goes on
    assert not copied.promise.done()


# Gradients

def test_gradients_go_back_through_copies(one, two):
    x, w1, w2 = torch.ones(2, 2), torch.full((2, 2), .5), torch.ones(2, 2)
    leaf = w1.clone().requires_grad_()
    (torch.relu(x @ leaf) @ w2).sum().backward()
    v1 = put(w1, one).requires_grad_()
    h = torch.relu(put(x, one) @ v1)
    (put(h, two) @ put(w2, two)).sum().backward()
    assert v1.grad.tolist() == leaf.grad.tolist() == [[4, 4], [4, 4]]


def test_gradients_reach_the_host_and_start_there(one, two):
    leaf = torch.tensor([1., 2.], requires_grad=True)
    put(put(leaf, one) ** 2, two).sum().cpu().backward()
    assert leaf.grad.tolist() == [2, 4] and type(leaf.grad) is torch.Tensor
    grad, = torch.autograd.grad((put(leaf, one) ** 3).sum(), leaf)
    assert grad.tolist() == [3, 12]
    assert not put(torch.ones(2), one).requires_grad and not put(leaf.detach(), one).requires_grad


# What is written

def test_what_is_written_is_the_argument_that_the_schema_names(one):
    a, b, c = (put(torch.full((2, 2), v), one) for v in (2., 3., 0.))
    assert torch.mm(a, b, out=c) is c
    assert c.tolist() == [[12, 12], [12, 12]] and a.tolist() == [[2, 2], [2, 2]]
    x, low = put(torch.tensor([3., 1., 2.]), one), put(torch.zeros(3), one)
    assert torch.clamp(x, max=2, out=low) is low and low.tolist() == [2, 1, 2] and x.tolist() == [3, 1, 2]
    values, at = put(torch.zeros(2), one), put(torch.zeros(2, dtype=torch.long), one)
    found = torch.topk(x, 2, out=(values, at))
    assert found[0] is values and values.tolist() == [3, 2] and at.tolist() == [0, 2]


def test_lists_are_written_in_place(one):
    xs, host = [put(torch.full((2,), v), one) for v in (1., 2.)], [torch.full((2,), v) for v in (1., 2.)]
    for _ in range(2000):       # promises do not grow into a chain
        torch._foreach_mul_(xs, 1.0)
    torch._foreach_add_(xs, 3), torch._foreach_add_(host, 3)
    assert [x.tolist() for x in xs] == [x.tolist() for x in host]


@pytest.mark.parametrize('write', [
    lambda log, x: log.__setitem__(0, x), lambda log, x: log[0].copy_(x), lambda log, x: log[0].add_(x)])
def test_what_is_written_to_the_host_is_there_when_the_call_returns(one, busy, write):
    x, log = put(torch.tensor(9.), one) * 1, torch.zeros(3)
    busy(one)
    x = x + 0
    write(log, x)
    assert log.tolist() == [9, 0, 0]


def test_a_write_from_elsewhere_is_a_copy(one, two, busy):
    x, other, host = put(torch.zeros(3), one), put(torch.tensor(4.), two), torch.tensor([1., 2.])
    busy(two)
    x[0] = other
    x[1:] = host
    host.zero_(), other.zero_()
    assert x.tolist() == [4, 1, 2]


def test_an_error_in_a_write_is_raised_by_what_was_to_be_written(one):
    x = put(torch.zeros(3), one)
    x.index_add_(0, put(torch.tensor([7]), one), put(torch.ones(1), one))
    with pytest.raises((IndexError, RuntimeError)):
        x.wait()


@pytest.mark.parametrize('change', [
    lambda x: x.t_(), lambda x: x.unsqueeze_(0), lambda x: x.squeeze_(), lambda x: x.transpose_(0, 1),
    lambda x: x.resize_(3, 1), lambda x: x.as_strided_((2,), (1,))])
def test_an_operation_that_changes_the_shape_in_place_does(one, change):
    host = torch.arange(3.).reshape(1, 3)
    x = put(host, one)
    change(x), change(host)
    assert x.shape == host.shape and x.stride() == host.stride()
    assert x.tolist() == host.tolist() and (x + 1).tolist() == (host + 1).tolist()


def test_data_is_exchanged(one):
    a, b = put(torch.zeros(2), one).requires_grad_(), put(torch.ones(3), one)
    a.data = b
    b.add_(1)
    assert a.shape == (3,) and a.tolist() == [2, 2, 2] and a.requires_grad
    with pytest.raises(RuntimeError, match='on virtual:0 and on the host'):
        a.data = torch.ones(3)


# Places

@pytest.mark.parametrize('call', [
    lambda x, h: x + h, lambda x, h: h + x, lambda x, h: torch.cat([x, h]), lambda x, h: h.add_(x),
    lambda x, h: torch.add(x, x, out=h), lambda x, h: nn.Linear(3, 2)(x), lambda x, h: h[x.long()],
    lambda x, h: torch.where(h > 0, x, x), lambda x, h: nn.functional.mse_loss(x, h)])
def test_tensors_of_the_host_do_not_mix_with_those_of_a_device(one, call):
    with pytest.raises(RuntimeError, match=r'on virtual:0 and on the host: use put\(x, device\)'):
        call(put(torch.ones(3), one), torch.ones(3))


def test_but_scalars_and_indices_do_as_on_a_gpu(one):
    x = put(torch.arange(3.), one)
    assert (x * torch.tensor(2.)).tolist() == [0, 2, 4] and (torch.tensor(1.) - x).tolist() == [1, 0, -1]
    assert x[torch.tensor([2, 0])].tolist() == [2, 0]
    x[torch.tensor([1])] = 5
    assert x[torch.tensor([True, True, False])].tolist() == [0, 5]


def test_what_an_operation_makes_inside_is_on_its_device(one):
    at = torch.tensor([0, 2])
    marks = nn.functional.one_hot(put(at, one), 3)
    assert marks.place is one and (marks + marks).tolist() == (2 * nn.functional.one_hot(at, 3)).tolist()
    q = torch.randn(1, 2, 4, 8)
    x = put(q, one).requires_grad_()
    mask = put(torch.ones(4, 4, dtype=torch.bool).tril(), one)
    y = nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
    z = nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    torch.testing.assert_close(y.cpu(), z.cpu())
    assert x.new_zeros(2).place is x.new_tensor([1., 2.]).place is one


def on(net, device):
    """A module, moved."""
    return net._apply(lambda t: put(t.detach(), device))


@pytest.mark.parametrize('kind', [nn.GRU, nn.LSTM, nn.RNN])
@pytest.mark.parametrize('given', [False, True])
def test_recurrent_layers_train(one, kind, given):
    torch.manual_seed(0)
    net = kind(3, 4, num_layers=2)
    moved, x = on(copy.deepcopy(net), one), torch.randn(5, 2, 3)
    state = torch.randn(2, 2, 4)
    state = (state, state) if kind is nn.LSTM else state

    def train(net, x, state):
        net(x, state)[0].square().sum().backward()
        return [p.grad for p in net.parameters()]
    there = tuple(put(s, one) for s in state) if kind is nn.LSTM else put(state, one)
    for a, b in zip(train(net, x, state if given else None),
                    train(moved, put(x, one), there if given else None), strict=True):
        torch.testing.assert_close(a, b.cpu())
    with pytest.raises(RuntimeError, match='on the host'):
        moved(put(x, one), state)


@pytest.mark.parametrize('make', [
    lambda p: torch.optim.SGD(p, .1, momentum=.9), lambda p: torch.optim.Adam(p, .1, foreach=True),
    lambda p: torch.optim.AdamW(p, .1, amsgrad=True), lambda p: torch.optim.Adam(p, .1, fused=True),
    lambda p: torch.optim.RMSprop(p, .1)])
def test_optimizers_have_the_numbers_of_the_cpu(one, make):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    moved, x = on(copy.deepcopy(net), one), torch.randn(8, 3)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def train(net, x):
        optimizer = make(net.parameters())
        for _ in range(10):
            optimizer.zero_grad()
            net(x).square().mean().backward()
            nn.utils.clip_grad_norm_(net.parameters(), .5)
            optimizer.step()
        return net.state_dict()
    try:
        right, found = train(net, x), train(moved, put(x, one))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(right[name], found[name].cpu()) for name in right)


# What Python asks

def test_text_numbers_copies_and_files(one, tmp_path):
    loss, x = put(torch.tensor(1.5), one), put(torch.eye(2), one)
    assert (f'{loss:.3f}', f'{loss}', x.tolist()) == ('1.500', '1.5', [[1, 0], [0, 1]])
    net = on(nn.Linear(2, 1), one)
    twin = copy.deepcopy(net)
    net.weight.data.zero_()
    assert isinstance(twin.weight, nn.Parameter) and twin.weight.place is one and twin.weight.cpu().any()
    file = io.BytesIO()
    torch.save(twin.state_dict(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert type(loaded['weight']) is torch.Tensor and loaded['weight'].tolist() == twin.weight.tolist()
    net.load_state_dict(loaded)
    assert net.weight.tolist() == twin.weight.tolist() and net.weight.place is one
    assert type(net.cpu().weight) is nn.Parameter and net(torch.ones(1, 2)).shape == (1, 1)


def test_what_is_no_tensor_is_refused_in_words(one):
    with pytest.raises(TypeError, match='put takes a tensor, not list: make one by torch.as_tensor'):
        put([1.0], one)
    with pytest.raises(ValueError, match='ask for at least one device, not 0'):
        devices(0)


def test_a_copy_from_a_gpu_to_the_host_waits(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.Tensor, 'to', lambda self, device, **how: asked.append((device, how)))
    put(torch.ones(1), 'cpu'), put(torch.ones(1), torch.device('cuda'))
    assert asked == [('cpu', {'non_blocking': False}), (torch.device('cuda'), {'non_blocking': True})]


# Forks

FORK = """import torch
import virtual_devices
from torch.utils.data import DataLoader
torch.cuda.device_count = lambda: 0

class Data(torch.utils.data.Dataset):
    x = virtual_devices.put(torch.arange(4.), virtual_devices.devices(1)[0])
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return {}

try:
    print(list(DataLoader(Data(), num_workers=1, multiprocessing_context='fork', timeout=30)))
except RuntimeError as e:
    print('virtual:0 was made by the process of which this one is a fork' in str(e), 'spawn' in str(e))"""


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system does not fork')
@pytest.mark.parametrize('use', ['self.x[i]', 'self.x.cpu()[i]', 'self.x.wait()[i]', 'self.x[i].item()',
                                 'virtual_devices.synchronize(self.x.place)'])
def test_a_fork_that_uses_a_tensor_of_its_parents_device_raises(use):
    assert machine.run_child(FORK.format(use), timeout=300) == 'True True\n'     # and not that it is late
