"""The first page of the topic and the one on real machines: their algorithms and commands."""

import itertools
import math
import re
import subprocess
import sys
from collections import Counter

import nbformat
import pytest

from local_cluster import cluster, links
from tested_results import machine
from tools import figures
from tools.source import ROOT

pytestmark = pytest.mark.slow

CHAPTER = ROOT / 'chapters' / 'parameter_servers'
PAGE = (CHAPTER / 'index.md').read_text()
MACHINES = (CHAPTER / 'machines.md').read_text()
draw = figures.load('parameter_servers')


@pytest.mark.parametrize('n', [2, 3, 4, 8])
def test_the_ring_adds_each_number_once_and_keeps_every_node_busy(n):
    states, steps = draw.ring_trace(n)
    everyone = ''.join(chr(97 + i) for i in range(n))
    assert states[-1] == [[everyone] * n] * n and len(steps) == 2 * (n - 1)
    for messages in steps:
        assert sorted(a for a, _, _ in messages) == sorted(b for _, b, _ in messages) == list(range(n))
        assert all(b == (a + 1) % n for a, b, _ in messages)
    half = states[n - 1]
    assert [parts.count(everyone) for parts in half] == [1] * n
    for step, messages in enumerate(steps):
        before, after = states[step], states[step + 1]
        changed = {(i, part) for i in range(n) for part in range(n) if before[i][part] != after[i][part]}
        assert changed == {(b, part) for _, b, part in messages}
        for a, b, part in messages:
            if step < n - 1:
                assert not set(before[a][part]) & set(before[b][part])      # nothing is added twice
            else:
                assert before[a][part] == everyone


@pytest.mark.parametrize('n', [2, 4, 8, 16])
def test_the_tree_adds_up_in_a_logarithm_of_rounds(n):
    rounds, sums = draw.tree_trace(n), [{i} for i in range(n)]
    for messages in rounds:
        assert len(set(itertools.chain(*messages))) == 2 * len(messages)    # each node does one thing
        for a, b in messages:
            assert not sums[a] & sums[b]
            sums[b] |= sums[a]
    assert sums[0] == set(range(n)) and len(rounds) == math.log2(n)


def test_two_rings_use_every_link_of_the_mesh_once():
    links_, rings = draw.mesh_links(), draw.two_rings()
    degree = Counter()
    for (a, b), k in links_.items():
        degree[a] += k
        degree[b] += k
    assert set(degree.values()) == {6} and sum(links_.values()) == 24
    assert all(sorted(ring) == list(range(8)) for ring in rings.values())
    used = Counter()
    for k, ring in rings.items():
        for pair in draw.hops(ring):
            used[pair] += k
    assert used == links_
    for ring in rings.values():
        assert ', '.join(map(str, ring)) in MACHINES


def test_a_mesh_without_rings_has_none():
    assert draw.find_ring({(0, 1), (1, 2), (2, 3)}) is None


def test_rules_of_waiting():
    counts = {}
    for rule, bound in draw.RULES.items():
        done = draw.work(draw.SPEEDS, 12, bound)
        counts[rule] = [sum(end <= draw.UNTIL for _, end in steps) for steps in done]
        for steps, duration in zip(done, draw.SPEEDS, strict=True):
            assert all(end - start == pytest.approx(duration) for start, end in steps)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(steps))
        for i, j, c in itertools.product(range(3), range(3), range(12)):
            finished = sum(end <= done[i][c][0] for _, end in done[j])
            assert c - finished <= bound        # at the start of a step, nobody is further ahead
    assert list(counts.values()) == [[4, 4, 4], [6, 6, 4], [10, 8, 4]]
    assert 'finish 4 steps' in PAGE and 'finish 6, 6 and 4' in PAGE and 'finish 10, 8 and 4' in PAGE


WORKER = '''
import mxnet as mx
kv = mx.kv.create('dist_sync')
kv.init('w', mx.np.zeros(4))
kv.push('w', mx.np.full(4, 10.0 ** kv.rank))
out = mx.np.zeros(4)
kv.pull('w', out=out)
print('pulled', kv.rank, kv.num_workers, out.asnumpy().tolist(), flush=True)
'''


def block(text):
    """The block of commands on the page that has this text."""
    return next(b for b in re.findall(r'```bash\n(.*?)```', MACHINES, re.S) if text in b)


def typed(folder, first, change):
    """Type commands on two hosts of a network, with some changes on the second: what they said."""
    with links.Network(hosts=2, mbit=200) as net:
        assert (net.addresses, net.interface) == (['10.0.0.1', '10.0.0.2'], 'eth0')   # as in the text
        hosts = [subprocess.Popen(net.command(i, ['sh', '-c', text]), cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for i, text in enumerate((first, change(first)))]
        try:
            said = [p.communicate(timeout=300)[0] for p in hosts]
        except subprocess.TimeoutExpired:
            net.close()
            raise
    assert [p.returncode for p in hosts] == [0, 0], said
    return ''.join(said)


@pytest.mark.skipif(machine.machine()['mxnet'] is None, reason='MXNet is not installed')
@pytest.mark.skipif(bool(links.unavailable()), reason=links.unavailable() or 'links can be shaped')
def test_the_commands_for_mxnet_on_two_machines(tmp_path):
    """What the page tells readers to type, typed on two hosts of a network."""
    (tmp_path / 'train.py').write_text('from mxnet import npx\nnpx.set_np()\n' + WORKER)

    def change(text):
        text = text.replace('DMLC_NODE_HOST=10.0.0.1', 'DMLC_NODE_HOST=10.0.0.2')
        return '\n'.join(line for line in text.split('\n') if 'ROLE=scheduler' not in line)
    first = block('DMLC_ROLE=scheduler').replace('python', sys.executable) + 'wait\n'
    said = typed(tmp_path, first, change)
    pulled = sorted(re.findall(r'pulled.*', said))
    assert pulled == [f'pulled {i} 2 [11.0, 11.0, 11.0, 11.0]' for i in range(2)], said


@pytest.mark.skipif(machine.machine()['torch'] is None, reason='torch is not installed')
@pytest.mark.skipif(bool(links.unavailable()), reason=links.unavailable() or 'links can be shaped')
def test_the_commands_for_pytorch_on_two_machines(tmp_path):
    """The notebook's own modules, as files, and what the page tells readers to type, but with a victim:
    it dies at step 35, and the second life goes on from the checkpoint at 30 to step 60."""
    shared = tmp_path / 'shared'
    shared.mkdir()
    for cell in nbformat.read(CHAPTER / 'parameter_servers_store_pytorch.ipynb', 4).cells:
        if found := re.match(r'%%worker (\w+)\n', cell.source):
            (tmp_path / f'{found[1]}.py').write_text(cell.source[found.end():])
    first = block('torchrun --nnodes').replace('torchrun', f'{sys.executable} -m torch.distributed.run')
    assert '/shared/folder -1' in first
    first = first.replace('/shared/folder -1', f'{shared} 35')
    said = typed(tmp_path, first, lambda text: text.replace('local-addr=10.0.0.1', 'local-addr=10.0.0.2')
                 .replace('is_host=1', 'is_host=0'))
    done = [*range(35), *range(30, 60)]
    assert (shared / 'steps').read_text().split() == [str(step) for step in done], said


STORE = '''
import os, signal, sys
from datetime import timedelta
import torch
import torch.distributed as dist
from messages import END, pull, push
from store import serve

together, what, total = int(sys.argv[1]), sys.argv[2], 40
dist.init_process_group('gloo', timeout=timedelta(seconds=4))
rank, pushed = dist.get_rank(), 0
dist.barrier()
try:
    if rank == 0:
        serve(torch.zeros(8), 0.1, together, total)
    while rank > 0:
        version, w = pull(8, pushed if together > 1 else 0)
        if version == END:
            break
        if rank == 2 and pushed == 5:
            if what == 'raises':
                raise ValueError('a bad example')
            os.kill(os.getpid(), signal.SIGKILL if what == 'killed' else signal.SIGSTOP)
        push(torch.ones(8), version)
        pushed += 1
except RuntimeError as e:
    print('a timeout' if 'imed out' in str(e) else e, flush=True)
print('pushed', pushed, flush=True)
os._exit(0)
'''


@pytest.mark.skipif(machine.machine()['torch'] is None, reason='torch is not installed')
@pytest.mark.parametrize(('what', 'together', 'pushed'), [
    ('killed', 1, 35), ('killed', 2, 6), ('raises', 1, 35), ('stopped', 1, 35)])
def test_our_store_does_not_notice_a_dead_worker(tmp_path, what, together, pushed):
    """Without waiting, the other worker makes all that is missing of 40 gradients; with waiting, one more.

    Rank 0, which takes messages from anyone, sees nothing but its own timeout.
    """
    for cell in nbformat.read(CHAPTER / 'parameter_servers_store_pytorch.ipynb', 4).cells:
        if found := re.match(r'%%worker (messages|store)\n', cell.source):
            (tmp_path / f'{found[1]}.py').write_text(cell.source[found.end():])
    (tmp_path / 'ranks.py').write_text(STORE)
    port = str(cluster.free_port())
    loopback = 'lo' if sys.platform == 'linux' else 'lo0'
    with cluster.Group() as group:
        command = [sys.executable, str(tmp_path / 'ranks.py'), str(together), what]
        server, worker, dead = (
            group.program(f'rank {rank}', command, RANK=str(rank), WORLD_SIZE='3', MASTER_ADDR=cluster.HOST,
                          MASTER_PORT=port, GLOO_SOCKET_IFNAME=loopback, OMP_NUM_THREADS='1')
            for rank in range(3))
        server.wait(120)
        worker.wait(120)
        assert cluster.tail(server.log, 2) == 'a timeout\npushed 0'
        assert cluster.tail(worker.log, 1) == f'pushed {pushed}'
        assert 'pushed' not in cluster.tail(dead.log, 9)
