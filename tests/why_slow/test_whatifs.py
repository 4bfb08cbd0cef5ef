"""Verdicts, intervals, and remedies that are restored."""

import math
from collections import Counter
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from tests.why_slow.scripts import training, watched
from why_slow.trial import Copy, random_states
from why_slow.watch import Step, Watch
from why_slow.whatifs import (
    Autocast,
    Compiled,
    Foreach,
    Fused,
    MatmulPrecision,
    Remedy,
    ReplayBatch,
    agreement,
    compare_losses,
    interval,
    paired,
    paired_by_number,
    slowest_rank,
    verdict,
)

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.alone  # two tests at a time would share the cores that they time
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from why_slow.torch_hooks import attach  # noqa: E402


@pytest.mark.parametrize(
    'low, high, expected',
    [
        (1.10, 1.30, 'faster'),
        (0.70, 0.90, 'slower'),
        (0.98, 1.03, 'no gain'),
        (0.90, 1.20, 'undecided'),
        (0.0, math.inf, 'undecided'),
    ],
)
def test_verdict(low, high, expected):
    assert verdict(low, high) == expected


def test_interval():
    ratio, low, high = interval([1.9, 2.0, 2.1, 2.0])
    assert ratio == 2.0
    assert 1.7 < low < 1.95 and 2.05 < high < 2.4
    assert interval([2.0, 2.0]) == (2.0, 0.0, math.inf)


def test_agreement():
    one = [torch.tensor(1.0)]
    assert agreement(one, [torch.tensor(1.0)]) == 'same'
    assert agreement(one, [torch.tensor(1.000001)]) == 'rounding'
    assert agreement(one, [torch.tensor(1.1)]) == 'differs'
    assert agreement(one, [torch.tensor(math.nan)]) == 'differs'
    assert agreement(one, []) == 'not compared'


class Replayed:
    """The replay of a loader's batch, as the what-ifs switch it, without a script."""

    def __init__(self):
        self.watch = Watch()
        self.session = SimpleNamespace(watch=self.watch, torch=torch, usual={'batches': 1})
        self.patches = attach(torch, self.watch)
        self.watch.active = True

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.patches.restore()

    def keep_batch(self, loader):
        self.watch.keep_batch = True
        batch = next(iter(loader))
        self.watch.keep_batch = False
        self.watch.fresh()
        return batch

    def switch(self):
        self.remedy = ReplayBatch(self.session)
        assert self.remedy.applies()
        self.remedy.apply()

    def step(self, batches):
        """The batch of the next step."""
        self.watch.fresh()
        return next(batches)


def numbers(first, batch_size=2):
    """A loader of four batches."""
    return DataLoader(TensorDataset(torch.arange(float(first), first + 4 * batch_size)), batch_size)


def test_a_batch_is_replayed_to_its_own_loader_alone():
    training, validation = numbers(0), numbers(100)
    with Replayed() as replayed:
        replayed.keep_batch(training)
        replayed.switch()
        both = zip(training, validation, strict=True)
        for i in range(2):
            (x,), (u,) = replayed.step(both)
            assert x.tolist() == [0, 1]
            assert u.tolist() == [100 + 2 * i, 101 + 2 * i]
        replayed.watch.fresh()
        assert len(list(islice(validation, 100))) == 4


def test_a_replay_ends_within_a_step_and_with_the_epoch():
    training = numbers(0)
    with Replayed() as replayed:
        replayed.keep_batch(training)
        replayed.switch()
        replayed.watch.fresh()
        assert len(list(islice(training, 100))) == 4
        batches = iter(training)
        for _ in range(2):
            replayed.step(batches)
        replayed.remedy.restore()
        assert len(list(islice(batches, 100))) == 2


def test_a_loader_made_anew_for_each_epoch_is_the_same_loader():
    with Replayed() as replayed:
        replayed.keep_batch(numbers(0))
        replayed.switch()
        [x] = replayed.step(iter(numbers(10)))
        assert x.tolist() == [0, 1]


def test_a_replayed_batch_is_as_it_was():
    """Although the script takes the batch to pieces, and changes it in place."""
    data = [{'x': torch.ones(2), 'label': i} for i in range(8)]
    training = DataLoader(data, 2)
    with Replayed() as replayed:
        batch = replayed.keep_batch(training)
        batch.pop('label')
        batch['x'].div_(2)
        replayed.switch()
        batches = iter(training)
        for _ in range(3):
            batch = replayed.step(batches)
            assert batch.pop('label').tolist() == [0, 1]
            assert batch['x'].eq(1).all()
            batch['x'].div_(2)


class FailsInBfloat16(torch.nn.Linear):
    """With batches of three rows alone, so that a trial on a batch of two does not show it."""

    def forward(self, x):
        y = super().forward(x)
        if len(x) == 3:
            y = torch.zeros(len(x), 2).index_add_(0, torch.arange(len(x)), y)
        return y


def tried_autocast(model):
    """The remedy, tried on a copy of the model and switched on."""
    watch = Watch()
    trial = Copy(torch, model, (torch.ones(2, 2),), {})
    session = SimpleNamespace(torch=torch, watch=watch, copy=trial, compiles=False, notes=[])
    remedy = Autocast(session)
    assert remedy.applies()
    remedy.apply()
    return remedy


@pytest.mark.parametrize('the_tried_one', [True, False])
def test_a_model_that_fails_with_a_change_is_called_without(the_tried_one):
    tried, other = FailsInBfloat16(2, 2), FailsInBfloat16(2, 2)
    remedy = tried_autocast(tried)
    model = tried if the_tried_one else other
    x = torch.ones(3, 2)
    result = remedy.watch.forward_call(type(model).__call__, model, (x,), {})
    assert result.equal(model(x))
    assert remedy.failed == the_tried_one
    assert len(remedy.session.notes) == the_tried_one
    assert remedy.applies() != the_tried_one


@pytest.mark.parametrize('options', [{'lr': torch.tensor(1e-3)}, {'differentiable': True}])
@pytest.mark.parametrize('flag', [Foreach, Fused])
def test_an_optimizer_that_the_flags_do_not_suit(flag, options):
    parameters = torch.nn.Linear(2, 2).parameters()
    optimizer = torch.optim.Adam(parameters, foreach=False, **options)
    watch = Watch()
    watch.optimizers = {id(optimizer): optimizer}
    assert not flag(SimpleNamespace(torch=torch, watch=watch)).applies()


def test_losses_are_compared_with_the_flag_set():
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), foreach=False)
    watch = Watch()
    watch.optimizers = {id(optimizer): optimizer}
    session = SimpleNamespace(torch=torch, watch=watch, roots=[model], usual={})
    remedy = Foreach(session)
    assert remedy.applies()
    flags = []
    comparing = compare_losses(session, [remedy])
    next(comparing)
    with pytest.raises(StopIteration) as end:
        while True:
            flags.append(optimizer.param_groups[0]['foreach'])
            comparing.send(Step(1.0, {}, Counter(), [torch.tensor(1.0)]))
    assert flags == [False, False, False, False, True, True]
    assert end.value.value == {'foreach-optimizer': 'same'}
    assert optimizer.param_groups[0]['foreach'] is False


class Noisy(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x) * np.random.rand()  # noqa: NPY002 (a script's habit)


def test_a_trial_on_a_copy_leaves_no_trace():
    model, seen = Noisy(2, 2), []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output))
    x = torch.ones(2, 2)
    _, numbers_before, place_before, *_ = random_states(torch)[2]
    Copy(torch, model, (x,), {}).step()
    _, numbers_after, place_after, *_ = random_states(torch)[2]
    assert place_after == place_before
    assert (numbers_after == numbers_before).all()
    assert not seen
    assert model.weight.grad is None


class Switch(Remedy):
    on = False

    def apply(self):
        self.on = True

    def restore(self):
        self.on = False


def quartets_of_rank(rank):
    """Of two ranks that have the longer batch, of 3 s, in turn, and wait for each other as it is."""
    session = SimpleNamespace(torch=torch, watch=Watch())
    remedy = Switch(session)
    testing = paired_by_number(session, remedy, quartets=4, steps=4)
    next(testing)
    number = 0
    while True:
        own = 3.0 if (number + rank) % 2 else 1.0
        number += 1
        try:
            testing.send(Step(own if remedy.on else 3.0, {}, Counter()))
        except StopIteration as end:
            return end.value


def test_waiting_for_each_other_is_no_all_reduce():
    remedy = Remedy(SimpleNamespace(torch=torch, watch=None))
    result = slowest_rank(remedy, [quartets_of_rank(0), quartets_of_rank(1)])
    assert result.before == result.after == 3.0
    assert result.verdict == 'no gain'


class Workers:
    """Steps of 5 ms whose batches take 8 ms, made by workers that have up to 16 ready. Milliseconds."""

    ready = 0.0

    def step(self, replaying):
        wait = 0.0
        if not replaying:
            wait = max(0.0, 8 * (1 - self.ready))
            self.ready += wait / 8 - 1
        self.ready = min(16, self.ready + 5 / 8)
        return Step((5 + wait) / 1000, {'loader': wait / 1000}, Counter())


def test_a_replay_does_not_count_what_workers_have_ready():
    workers, watch = Workers(), Watch()
    plain = [workers.step(False) for _ in range(20)]
    session = SimpleNamespace(
        torch=torch, watch=watch, usual={'batches': 1}, ordinary=lambda: plain, notes=[]
    )
    testing = paired(session, ReplayBatch(session), math.inf)
    next(testing)
    with pytest.raises(StopIteration) as end:
        while True:
            testing.send(workers.step(watch.replaying))
    assert end.value.value.verdict == 'faster'
    assert end.value.value.ratio == pytest.approx(8 / 5, rel=0.05)
    assert session.notes == []


def test_a_batch_that_cannot_be_copied_is_not_replayed():
    training = DataLoader(numbers(0).dataset, 2, collate_fn=lambda rows: (number for number in rows))
    with Replayed() as replayed:
        replayed.keep_batch(training)
        assert not ReplayBatch(replayed.session).applies()


@pytest.mark.slow
def test_without_what_ifs_the_model_is_called_by_the_script_alone(tmp_path):
    before = 'seen = net.seen = []\nnet.register_forward_hook(lambda module, x, y: seen.append(1))'
    run, _ = watched(tmp_path, training(before=before))
    assert run.watch.failure is None
    [net] = run.session.roots
    assert len(net.seen) == run.watch.steps


@pytest.mark.slow
def test_a_large_fault_is_tested_and_the_setting_restored(tmp_path):
    """Each line of an anomaly's trace costs; a net of many layers makes it a multiple of the step."""
    before = '''
net = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(20)], nn.Linear(64, 10))
optimizer = torch.optim.Adam(net.parameters(), fused=True)
torch.autograd.set_detect_anomaly(True)
'''
    try:
        run, found = watched(
            tmp_path, training(before=before, batches='DataLoader(data, 64)'), seconds=22, what_ifs=True
        )
        assert torch.is_anomaly_enabled()
    finally:
        torch.autograd.set_detect_anomaly(False)
    assert run.watch.failure is None
    [result] = [r for r in found['what_ifs'] if r['id'] == 'anomaly-off']
    assert result['ratio'] > 1.3
    assert result['losses'] in ('same', 'rounding')
    assert result['finding'] == 'anomaly'


@pytest.mark.slow
def test_the_loader_is_replayed(tmp_path):
    before = '''
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, i):
        time.sleep(0.005)
        return data[i]
'''
    run, found = watched(
        tmp_path, training(before=before, batches='DataLoader(Slow(), 32)'), seconds=25, what_ifs=True
    )
    assert run.watch.failure is None
    [result] = [r for r in found['what_ifs'] if r['id'] == 'replay-batch']
    assert result['verdict'] == 'faster'
    assert found['findings'][0]['id'] == 'loader'
    assert run.watch.replaying == 0


SECOND = """
other = nn.Linear(64, 64)
optimizer = torch.optim.Adam([*net.parameters(), *other.parameters()], fused=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    'output', ['net(x) + other(x)[:, :10]', 'net(other(x))'], ids=['called last', 'input with a graph']
)
def test_the_copy_is_of_the_module_with_most_forward_time(tmp_path, output):
    run, found = watched(
        tmp_path, training(before=SECOND, loss=f'loss_function({output}, y)'), seconds=6, what_ifs=True
    )
    assert isinstance(run.session.copy.original, torch.nn.Sequential)
    assert 'double-batch' in {result['id'] for result in found['what_ifs']}
    assert [note for note in found['notes'] if 'Sequential takes most of the forward pass' in note]


@pytest.mark.slow
def test_the_copy_has_the_input_that_takes_longest(tmp_path):
    text = training(batches='DataLoader(data, 1024)', loss='loss_function(net(x), y) + net(x[:8]).mean()')
    run, _ = watched(tmp_path, text, seconds=6, what_ifs=True)
    assert run.session.batch_size == len(run.session.copy.args[0]) == 1024


@pytest.mark.slow
def test_autocast_is_not_tried_where_the_script_uses_it(tmp_path):
    from why_slow.whatifs import Autocast

    before = "autocast = torch.autocast('cpu', torch.bfloat16)"
    run, _ = watched(
        tmp_path, training(before=before, loss='loss_function(autocast(net)(x), y)'), seconds=6, what_ifs=True
    )
    assert run.session.copy.autocast == torch.bfloat16
    assert not Autocast(run.session).applies()


@pytest.mark.slow
def test_a_copy_that_fails_is_noted(tmp_path):
    before = """
class Single(nn.Sequential):
    def __deepcopy__(self, memo):
        raise RuntimeError('there is one of it')

net = Single(*net)"""
    _, found = watched(tmp_path, training(before=before), what_ifs=True)
    assert [note for note in found['notes'] if 'a copy of Single ends with RuntimeError' in note]


@pytest.mark.slow
def test_all_marks_are_taken_away(tmp_path):
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    names = [
        (torch.Tensor, 'backward'),
        (torch.autograd, 'backward'),
        (torch, 'save'),
        (DataLoader, '__iter__'),
        (_BaseDataLoaderIter, '__next__'),
        (torch.nn.Sequential, '__call__'),
        (torch.Tensor, 'item'),
    ]
    before = [getattr(owner, name) for owner, name in names]
    watched(tmp_path, training(batches='DataLoader(data, 64)'))
    assert [getattr(owner, name) for owner, name in names] == before
    from torch.optim.optimizer import _global_optimizer_post_hooks

    assert not _global_optimizer_post_hooks
    assert '__call__' not in vars(torch.nn.Sequential)


def test_a_batch_that_is_replayed_is_not_the_last_of_an_epoch():
    """It may be smaller, and a step with it faster for another reason."""
    training = DataLoader(TensorDataset(torch.arange(10.0)), 4)
    with Replayed() as replayed:
        batches = iter(training)
        next(batches), next(batches)
        replayed.watch.keep_batch = True
        assert len(next(batches)[0]) == 2 and replayed.watch.kept is None
        next(iter(training))
        assert len(replayed.watch.kept.batch[0]) == 4


@pytest.fixture
def precision():
    """The settings for products in float32, put back afterwards."""
    backends = torch.backends
    owners = backends, backends.cuda.matmul, backends.mkldnn.matmul
    before = [owner.fp32_precision for owner in owners]
    yield owners
    for owner, was in zip(owners, before, strict=True):
        owner.fp32_precision = was


def test_the_precision_of_products_is_left_as_it_was(precision):
    remedy = MatmulPrecision(SimpleNamespace(torch=torch, watch=None, compiles=False))
    before = [owner.fp32_precision for owner in precision]
    remedy.apply()
    remedy.restore()
    assert [owner.fp32_precision for owner in precision] == before
    precision[0].fp32_precision = 'tf32'  # by the newer setting; PyTorch does not tell the older one then
    assert remedy.applies() is False


def test_the_trial_of_a_compiled_model_leaves_gradients_as_they_are(monkeypatch):
    """Those of a script that uses them after the backward pass, without an optimizer."""
    monkeypatch.setattr(torch, 'compile', lambda forward: forward)
    net = torch.nn.Linear(3, 2)
    net(torch.ones(4, 3)).sum().backward()
    before = [p.grad.clone() for p in net.parameters()]
    trial = Copy(torch, net, (torch.ones(4, 3),), {})
    session = SimpleNamespace(torch=torch, watch=None, notes=[], copy=trial, not_needed=None)
    assert Compiled(session).prepare(60) is not None, session.notes
    for p, gradient in zip(net.parameters(), before, strict=True):
        assert torch.equal(p.grad, gradient)
    net.weight.register_post_accumulate_grad_hook(lambda p: None)
    assert Compiled(session).prepare(60) is None and 'hooks of the script' in session.notes[-1]
