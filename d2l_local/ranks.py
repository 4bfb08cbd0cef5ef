"""Ranks of torch.distributed: processes on this machine, one for each device."""

import datetime
import multiprocessing
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from d2l_local import cluster, machine

if TYPE_CHECKING:
    from d2l_local import links

# What a rank finds already imported. No rank waits for these, and none of them starts a thread.
PRELOAD = ('d2l_local.torch', 'sklearn.datasets', 'torch.distributed', 'torch.distributed.fsdp',
           'torch.nn.parallel')
LOOPBACK = {'linux': 'lo', 'darwin': 'lo0'}


def ranks(k: int, patience: float = 10.0, port: int | None = None,
          network: 'links.Network | None' = None, **environment: str) -> cluster.Ranks:
    """Start ``k`` ranks that have joined one process group; ``run`` calls a function in all.

    With a GPU for each of at least two ranks, a rank has one and they talk by NCCL. Else they
    compute on the CPU, share its cores evenly, and talk by Gloo on the loopback interface.
    A group of one rank is the honest baseline: it has all the cores.

    Args:
        patience: seconds that a rank waits for the others in a collective operation, and at the
            start, before it raises.
        port, environment: as for :class:`d2l_local.cluster.Ranks`.
        network: of at least ``k`` hosts. Each rank then lives in a host of its own, and what it
            sends goes over that host's link. Ranks start anew there, so each imports PyTorch for
            itself: some seconds for eight of them.

    Raises:
        cluster.ClusterError: see there.
        ValueError: the network has too few hosts, or see there.
    """
    contexts = None
    if network is not None:
        if k > len(network.addresses):
            raise ValueError(f'{k} ranks do not fit on {len(network.addresses)} hosts')
        contexts = [_Host(network, i) for i in range(k)]
        environment = {'MASTER_ADDR': network.addresses[0], 'GLOO_SOCKET_IFNAME': network.interface,
                       'LOCAL_WORLD_SIZE': '1', 'LOCAL_RANK': '0', **environment}
    elif sys.platform in LOOPBACK:
        environment.setdefault('GLOO_SOCKET_IFNAME', LOOPBACK[sys.platform])
    group = cluster.Ranks(k, PRELOAD, port, contexts, **environment)
    group.run(join, patience, max(1, machine.cores() // k), timeout=patience + 50)
    return group


class _Host:
    """What multiprocessing calls a context: makes pipes, and processes in one host of a network."""

    Pipe = staticmethod(multiprocessing.Pipe)

    def __init__(self, network: 'links.Network', host: int) -> None:
        self.network, self.host = network, host

    def Process(self, target: Callable, args: tuple) -> '_HostProcess':
        return _HostProcess(self.network, self.host, target, *args)


class _HostProcess:
    """A process in a host, with the part of ``multiprocessing.Process`` that a rank needs."""

    def __init__(self, network: 'links.Network', host: int, target: Callable, *args: Any) -> None:
        *self.pipes, environment, out, log = args
        root = str(Path(__file__).resolve().parent.parent)
        code = (f'import sys; sys.path.insert(0, {root!r})\n'
                'from multiprocessing.connection import Connection\n'
                f'from {target.__module__} import {target.__name__} as serve\n'
                f'serve(*map(Connection, {[p.fileno() for p in self.pipes]}), '
                f'{environment!r}, {out!r}, {log!r})')
        self.command, self.log = network.command(host, [sys.executable, '-c', code]), log

    def start(self) -> None:
        with open(self.log, 'ab') as log:
            self.program = subprocess.Popen(
                self.command, pass_fds=[p.fileno() for p in self.pipes], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True)
        self.sentinel = os.pidfd_open(self.program.pid)     # becomes readable when it ends
        self.kill = self.program.kill

    @property
    def exitcode(self) -> int | None:
        return self.program.poll()

    def join(self, timeout: float | None = None) -> None:
        try:
            self.program.wait(timeout)
        except subprocess.TimeoutExpired:
            pass

    def close(self) -> None:
        os.close(self.sentinel)


def run_ranks(function: str | Callable, k: int, *args: Any, timeout: float = 120.0,
              **how: Any) -> list:
    """Call a function in ``k`` new ranks; the results in rank order. ``how``: see :func:`ranks`."""
    with ranks(k, **how) as group:
        return group.run(function, *args, timeout=timeout)


def join(patience: float, threads: int) -> None:
    """Called in each rank: take a device or a share of the cores, and join the group."""
    torch.set_num_threads(threads)
    here = int(os.environ['LOCAL_WORLD_SIZE'])
    backend = 'gloo'
    if torch.cuda.device_count() >= max(2, here):
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
        backend = 'cpu:gloo,cuda:nccl'
    late = datetime.timedelta(seconds=patience)
    dist.init_process_group(backend, timeout=late, store=_store(late),
                            rank=int(os.environ['RANK']), world_size=int(os.environ['WORLD_SIZE']))


def _store(late: datetime.timedelta) -> dist.TCPStore:
    """Where ranks find each other. By itself rank 0 would listen on all interfaces."""
    host, port = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])
    first, how = os.environ['RANK'] == '0', {}
    if first and os.name == 'posix':
        how['master_listen_fd'] = socket.create_server((host, port)).detach()
    return dist.TCPStore(host, port, int(os.environ['WORLD_SIZE']), first, late, **how)


def rank_device() -> torch.device:
    """The device of this rank: its GPU if the group talks by NCCL, else the CPU, as outside a rank."""
    if dist.is_initialized() and 'nccl' in dist.get_backend():
        return torch.device('cuda', torch.cuda.current_device())
    return torch.device('cpu')
