"""Ranks of torch.distributed: they meet, fail with a clear error, and talk where they should; and a
worker module under torchrun on two nodes, which are two addresses of this machine. Two hosts of a
shaped network: see ``test_parameter_servers.py``."""

import contextlib
import json
import os
import re
import socket
import sys
from types import SimpleNamespace

import pytest

from local_cluster import cluster, links, ranks, workers
from tested_results import machine
from tests.living import alive

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(machine.machine()['torch'] is None, reason='torch is not installed'),
    pytest.mark.skipif(sys.platform != 'linux', reason='127.0.0.2 and namespaces are there on Linux')]

WORKER = '''
import json, os, sys
from pathlib import Path
import torch
import torch.distributed as dist
from local_cluster.member import die_with_parent

def main(folder):
    die_with_parent()
    dist.init_process_group('gloo')
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.full((10,), 2.0 ** rank)
    dist.all_reduce(x)
    store = torch.tensor([float(rank)])
    if rank == 0:       # a server that takes what comes from anyone
        senders = sorted(dist.recv(store) for _ in range(n - 1))
    else:
        dist.send(store, 0)
        senders = []
    Path(folder, f'{rank}.json').write_text(json.dumps({
        'sum': x.tolist(), 'node': os.environ['GROUP_RANK'], 'local': os.environ['LOCAL_RANK'],
        'n': n, 'senders': senders}))
    dist.barrier()
    dist.destroy_process_group()

if __name__ == '__main__':
    main(sys.argv[1])
'''


@pytest.fixture
def script(tmp_path):
    (tmp_path / 'worker.py').write_text(WORKER)
    return tmp_path


def torchrun(endpoint, own_address, script, *more):
    """What the text tells readers to type on each computer, plus the address of this node."""
    return [sys.executable, '-m', 'torch.distributed.run', '--nnodes=2', '--nproc-per-node=2',
            '--max-restarts=0', '--rdzv-id=42', '--rdzv-backend=c10d', f'--rdzv-endpoint={endpoint}',
            f'--local-addr={own_address}', *more, str(script / 'worker.py'), str(script)]


def check(script):
    answers = [json.loads((script / f'{rank}.json').read_text()) for rank in range(4)]
    assert [a['sum'] for a in answers] == [[15.0] * 10] * 4 and {a['n'] for a in answers} == {4}
    assert sorted((a['node'], a['local']) for a in answers) == [
        ('0', '0'), ('0', '1'), ('1', '0'), ('1', '1')]
    assert answers[0]['senders'] == [1, 2, 3]


def test_two_addresses_of_this_machine(script):
    """Two launchers that only know an endpoint, on 127.0.0.1 and on 127.0.0.2."""
    endpoint = f'{cluster.HOST}:{cluster.free_port()}'
    with cluster.Group() as group:
        for i, address in enumerate(('127.0.0.1', '127.0.0.2')):
            group.program(f'node {i}', torchrun(endpoint, address, script),
                        GLOO_SOCKET_IFNAME='lo', OMP_NUM_THREADS='1')
        group.wait(timeout=300)
    check(script)


def test_a_node_that_is_missing_is_named(script):
    endpoint = f'{cluster.HOST}:{cluster.free_port()}'
    command = torchrun(endpoint, cluster.HOST, script, '--rdzv-conf=join_timeout=1')
    with cluster.Group() as group:
        group.program('node 0', command, GLOO_SOCKET_IFNAME='lo')
        with pytest.raises(cluster.ClusterError) as e:
            group.wait(timeout=300)
    assert re.search(r'(?s)node 0 failed: exit code.*imeout', str(e.value))


RANKS = '''
import os
import torch
import torch.distributed as dist

def total():
    x = torch.ones(3) * dist.get_rank()
    dist.all_reduce(x)
    return os.getpid(), x.tolist(), interfaces()

def interfaces():
    return [line.split(':')[0].strip() for line in open('/proc/self/net/dev').readlines()[2:]]

def listening():
    """The addresses of this process's network on which somebody listens, in hexadecimal."""
    rows = [line.split() for kind in ('tcp', 'tcp6') for line in open(f'/proc/self/net/{kind}')]
    return sorted({r[1].split(':')[0] for r in rows if r[3] == '0A'})

def die(rank):
    if dist.get_rank() == rank:
        os._exit(7)
    dist.barrier()
'''


@pytest.fixture
def worker():
    return workers.define('d2l_test_hosts', RANKS)


@pytest.mark.skipif(bool(links.unavailable()), reason=links.unavailable() or 'links can be shaped')
def test_ranks_in_hosts_talk_over_their_links_alone_and_end_with_the_group(worker):
    with links.Network(hosts=3, mbit=200) as net:
        with pytest.raises(ValueError, match='4 ranks do not fit on 3 hosts'):
            ranks.ranks(4, network=net)
        with ranks.ranks(3, patience=100, network=net) as group:
            answers = group.run(worker.total)
            assert [a[1] for a in answers] == [[3.0] * 3] * 3
            assert {n for a in answers for n in a[2]} >= {'lo', net.interface}
            # 10.0.0.i and nothing else: neither all interfaces nor the computer's own network
            assert group.run(worker.listening) == [[f'{i:02X}00000A'] for i in (1, 2, 3)]
            with pytest.raises(cluster.ClusterError, match='rank 1 died: exit code 7'):
                group.run(worker.die, 1)
        assert not any(alive(a[0]) for a in answers)


def test_ranks_of_this_machine_meet_on_loopback_alone(worker):
    with ranks.ranks(2, patience=100) as group:
        first = group.run(worker.total)[0][0]
        listening = {r[1].split(':')[0] for kind in ('tcp', 'tcp6')
                     for line in open(f'/proc/{first}/net/{kind}') if (r := line.split())[3] == '0A'
                     and r[9] in sockets(first)}
    assert listening == {'0100007F'}


def sockets(pid):
    """Inodes of the sockets that a process has open."""
    files = []
    for n in os.listdir(f'/proc/{pid}/fd'):
        with contextlib.suppress(OSError):
            files.append(os.readlink(f'/proc/{pid}/fd/{n}'))
    return {re.sub(r'\D', '', f) for f in files if f.startswith('socket:')}


GROUP = '''
import datetime, os, time
import torch
import torch.distributed as dist
from local_cluster import ranks

def total():
    x = torch.tensor([1.0 + dist.get_rank()], device=ranks.rank_device())
    dist.all_reduce(x)
    return x.item(), torch.get_num_threads()

def patience():
    return dist.group.WORLD._get_backend(torch.device('cpu')).options._timeout.total_seconds()

def missing(how):
    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9) if how == 'dies' else time.sleep(600)
    late = datetime.timedelta(seconds=0.5)
    dist.all_reduce(torch.ones(1), async_op=True).wait(late)
'''


def run_ranks(function, k, *args, **how):
    with ranks.ranks(k, **how) as group:
        return group.run(function, *args)


def test_ranks_of_torch_are_in_a_group_and_share_the_cores():
    worker = workers.define('d2l_test_group', GROUP)
    cores = max(1, machine.cores())
    with ranks.ranks(2, patience=60) as group:
        assert group.run(worker.total) == [(3.0, max(1, cores // 2))] * 2
        assert group.run(worker.patience) == [60.0] * 2
    assert run_ranks(worker.total, 1) == [(1.0, cores)]
    assert ranks.rank_device().type == 'cpu'


def test_missing_in_a_collective():
    worker = workers.define('d2l_test_group', GROUP)
    for how, says in (('dies', 'rank 1 died: killed by SIGKILL'),
                      ('hangs', 'rank 1 hangs: others have waited for it too long')):
        with pytest.raises(cluster.ClusterError) as e:
            run_ranks(worker.missing, 2, how, patience=60)
        assert e.value.headline == says
    with pytest.raises(cluster.ClusterError, match='there are 2 ranks, and WORLD_SIZE is 3'):
        ranks.ranks(2, patience=1, WORLD_SIZE='3')


NETWORK = SimpleNamespace(addresses=['10.0.0.1', '10.0.0.2', '10.0.0.3'], interface='eth', user='')


@pytest.mark.parametrize(('network', 'gpus', 'backend', 'taken', 'how'), [
    (None, 2, 'cpu:gloo,cuda:nccl', [0, 1], {}), (None, 1, 'gloo', [], {}), (None, 0, 'gloo', [], {}),
    (NETWORK, 2, 'gloo', [], {}), (NETWORK, 8, 'gloo', [], {}),
    (None, 1, 'cpu:gloo,cuda:nccl', [0], {'k': 1, 'single_gpu': True}), (None, 1, 'gloo', [], {'k': 1}),
    (None, 1, 'gloo', [], {'single_gpu': True}), (None, 0, 'gloo', [], {'k': 1, 'single_gpu': True})])
def test_each_rank_has_a_gpu_of_its_own_or_none(monkeypatch, network, gpus, backend, taken, how):
    """And none in a network, whose links NCCL would not use. Here, ranks join one after the other."""
    import torch
    from torch import distributed as dist
    places, devices, backends = [], [], []

    def run(self, function, *args, **_):
        for place in places:
            for name, value in place.items():
                monkeypatch.setenv(name, value)
            function(*args)
    monkeypatch.setattr(cluster, 'template', lambda *_, **__: None)
    monkeypatch.setattr(ranks.Ranks, 'add', lambda self, name, place, *_, **__: places.append(place))
    monkeypatch.setattr(ranks.Ranks, 'run', run)
    monkeypatch.setattr(socket, 'create_server', lambda address: socket.socket())
    monkeypatch.setattr(torch, 'set_num_threads', lambda n: None)
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '0,1')
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: gpus)
    monkeypatch.setattr(torch.cuda, 'set_device', devices.append)
    monkeypatch.setattr(dist, 'TCPStore', lambda *_, master_listen_fd=None, **__:
                        master_listen_fd and os.close(master_listen_fd))
    monkeypatch.setattr(dist, 'init_process_group', lambda backend, **_: backends.append(backend))
    how = {'k': 2, **how}
    ranks.ranks(network=network, **how).stop()
    numbers = [str(i) for i in range(how['k'])]
    assert [p['LOCAL_RANK'] for p in places] == numbers == [p['RANK'] for p in places]
    assert {p['LOCAL_WORLD_SIZE'] for p in places} == {str(how['k'])}
    assert (backends, devices) == ([backend] * how['k'], taken)
    assert os.environ['CUDA_VISIBLE_DEVICES'] == ('0,1' if taken else '')     # fully_shard takes what it sees
