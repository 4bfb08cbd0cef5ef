"""Two ranks under torchrun: what each waits for, and that all switch in the same steps."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from why_slow.plan import Session, _without_all_reduce
from why_slow.watch import Step, Watch

torch = pytest.importorskip('torch')
pytestmark = [
    pytest.mark.alone,
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_available(), reason='PyTorch without torch.distributed'),
]

SCRIPT = """
import time
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group('gloo')
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
{model}
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
torch.manual_seed(rank)
try:
    while True:
        x, y = torch.randn(8, 64), torch.randn(8, 10)
        {before}
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        {after}
        optimizer.step()
finally:
    {end}
"""
SMALL = 'nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))'
LARGE = 'nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 10))'
AGREE = """weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    both = [torch.empty_like(weights) for _ in range(2)]
    dist.all_gather(both, weights)
    print(f'equal {torch.equal(*both)}\\n', end='', flush=True)"""
QUICK = ['--no-what-ifs']
DDP = 'nn.parallel.DistributedDataParallel({})'


LEARNER = """
import torch
import torch.distributed as dist

dist.init_process_group('gloo')
going_on, over = torch.ones(1), torch.zeros(1)
if dist.get_rank() == 0:
    net = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(net.parameters())
    try:
        while True:
            net(torch.ones(8, 64)).sum().backward()
            optimizer.step()
            dist.broadcast(going_on, src=0)
    finally:
        dist.broadcast(over, src=0)
else:
    while going_on.item():
        dist.broadcast(going_on, src=0)
    print('the actor is done', flush=True)
"""


def watched(tmp_path, net, before='pass', after='pass', end='pass', seconds=12, options=()):
    """The report of rank 0, and what was printed."""
    script, report = tmp_path / 'train.py', tmp_path / 'report.json'
    script.write_text(SCRIPT.format(model=f'net = {net}', before=before, after=after, end=end))
    done = subprocess.run(
        [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2',
         '-m', 'why_slow', '--seconds', str(seconds), '--json', str(report), *options, str(script)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_text()), done.stdout


def by_id(results):
    return {result['id']: result for result in results}


def test_the_all_reduce_of_large_gradients(tmp_path):
    report, printed = watched(tmp_path, DDP.format(LARGE))
    assert report['findings'][0]['id'] == 'all-reduce'
    tested = by_id(report['what_ifs'])['no-all-reduce']
    assert tested['verdict'] == 'faster' and tested['finding'] == 'all-reduce'
    assert report['findings'][0]['at_most'] == tested['ratio'] > 1.2
    assert printed.count('A step takes') == 1


def test_a_straggler_is_no_all_reduce(tmp_path):
    """Rank 1 works for longer; without the all-reduce the job is as slow as rank 1."""
    report, _ = watched(tmp_path, DDP.format(SMALL), before='time.sleep(0.02 * rank)')
    assert report['findings'][0]['id'] == 'straggler'
    assert 'rank 1' in report['findings'][0]['title']
    assert by_id(report['what_ifs'])['no-all-reduce']['ratio'] < 1.2


def test_a_slow_rank_0_whose_buffers_the_others_wait_for(tmp_path):
    """They wait in their forward pass, which is not their own work."""
    net = DDP.format('nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 10))')
    report, _ = watched(tmp_path, net, before='time.sleep(0.02 * (1 - rank))', seconds=6, options=QUICK)
    assert report['findings'][0]['id'] == 'straggler'
    assert 'rank 0' in report['findings'][0]['title']


def test_collectives_that_are_waited_for_later(tmp_path):
    after = """works = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
        [work.wait() for work in works]"""
    report, _ = watched(tmp_path, LARGE, after=after, seconds=6, options=QUICK)
    assert report['findings'][0]['id'] == 'all-reduce'


def test_collectives_that_the_script_calls_itself(tmp_path):
    report, _ = watched(tmp_path, LARGE, after='[dist.all_reduce(p.grad) for p in net.parameters()]')
    assert report['findings'][0]['id'] == 'all-reduce'
    assert report['step']['parts']['collectives'] > 0.2 * report['step']['seconds']
    assert 'no-all-reduce' not in by_id(report['what_ifs'])


def test_the_ranks_hold_the_same_numbers_afterwards(tmp_path):
    """What-ifs let the ranks drift apart, and bring them back."""
    report, printed = watched(tmp_path, DDP.format(SMALL), end=AGREE)
    assert by_id(report['what_ifs'])['no-all-reduce']
    assert printed.count('equal True') == 2


def test_nothing_is_switched_without_what_ifs(tmp_path):
    report, _ = watched(tmp_path, DDP.format(LARGE), seconds=4, options=['--no-what-ifs'])
    assert report['what_ifs'] == []


def test_a_learner_and_an_actor(tmp_path):
    """The actor takes no step, and waits in a collective of the script all the while."""
    script, report = tmp_path / 'train.py', tmp_path / 'report.json'
    script.write_text(LEARNER)
    done = subprocess.run(
        [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2',
         '-m', 'why_slow', '--seconds', '4', '--json', str(report), str(script)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'the actor is done' in done.stdout
    report = json.loads(report.read_text())
    assert any('Not all ranks take steps' in note for note in report['notes'])
    assert report['step']['parts']['collectives'] > 0


@pytest.fixture
def one_rank():
    """A group of this process alone, as what is decided before a test needs no second rank."""
    distributed = torch.distributed
    distributed.init_process_group('gloo', store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def parallel_session(seconds, width=8):
    """Of a model with ``width`` times ``width`` parameters, whose steps take a second."""
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(width, width))
    watch = Watch()
    optimizer = torch.optim.SGD(net.parameters())
    watch.optimizers = {id(optimizer): optimizer}
    return Session(watch, seconds, True, torch=torch, roots=[net], plain=[Step(1.0, {}, Counter())])


def all_reduce_tested(session):
    """The result of the test without the all-reduce, or None; the steps are not taken."""
    testing = _without_all_reduce(session)
    try:
        next(testing)
        while True:
            testing.send(Step(1.0, {}, Counter()))
    except StopIteration:
        return session.results[0] if session.results else None


def test_a_model_of_the_size_of_resnet_50_is_tested(one_rank):
    session = parallel_session(seconds=100, width=5100)
    assert all_reduce_tested(session).id == 'no-all-reduce'
    assert session.notes == []


def test_what_is_not_tested_for_lack_of_time_or_memory_is_said(one_rank, monkeypatch):
    session = parallel_session(seconds=20)
    assert all_reduce_tested(session) is None
    assert 'the time is too short' in session.notes[0]
    monkeypatch.setattr('tested_results.machine.free_memory', lambda: 1000)
    session = parallel_session(seconds=100)
    assert all_reduce_tested(session) is None
    assert 'too little free memory' in session.notes[0]
