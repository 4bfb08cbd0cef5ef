"""Groups whose members have the numbers 0 … k−1, and those of torch.distributed: one for each device.

Imports PyTorch only when ranks of it are asked for.
"""

import contextlib
import datetime
import importlib
import os
import socket
import sys
from typing import TYPE_CHECKING

from local_cluster import cluster, links

if TYPE_CHECKING:
    import torch

# What a rank finds already imported. No rank waits for these, and none of them starts a thread.
PRELOAD = ('torch.distributed', 'torch.nn.parallel')
LOOPBACK = {'linux': 'lo', 'darwin': 'lo0'}


class Ranks(cluster.Group):
    """Processes with the numbers 0 … k−1 that call functions together and return their results.

    Each finds ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and
    ``MASTER_PORT`` in its environment, as from torchrun. They stay until :meth:`stop`, the end of
    the ``with`` block, an error, or the end of this process, and keep what they have in memory.

    Args:
        k: how many.
        prepare: see :class:`cluster.Group`.
        port: for the group; a free one if it is None.
        network: of at least ``k`` hosts. Each rank then lives in a host of its own.
        variables: of the environment of the ranks, over what they inherit.

    Raises:
        cluster.ClusterError: a rank does not start, or the port is in use. Nothing is left then.
        ValueError: fewer than one rank, too few hosts, or keywords that are no environment variables.
    """

    def __init__(self, k: int, prepare: str = '', port: int | None = None,
                 network: links.Network | None = None, **variables: str) -> None:
        if k < 1:
            raise ValueError(f'a group needs at least one rank, not {k}')
        if network and k > len(network.addresses):
            raise ValueError(f'{k} ranks do not fit on {len(network.addresses)} hosts')
        if port is not None:
            cluster.check_port(port)
        super().__init__(prepare, network, **variables)
        self.port = port or cluster.free_port()
        self._all_late = (f'all ranks have waited too long for somebody else: there are {k} ranks, and '
                          f"WORLD_SIZE is {variables.get('WORLD_SIZE', k)}")
        # hosts of a network are this computer too: as far as its GPUs go, all ranks are local
        shared = {'WORLD_SIZE': str(k), 'LOCAL_WORLD_SIZE': str(k),
                  'MASTER_ADDR': network.addresses[0] if network else cluster.HOST,
                  'MASTER_PORT': str(self.port)}
        with self._all_or_none():
            for i in range(k):
                self.add(f'rank {i}', {**shared, 'RANK': str(i), 'LOCAL_RANK': str(i)}, i, separate=True)

    def wait(self, timeout: float | None = 120.0) -> list:
        """As in every group. What ranks print is printed here when all are done, rank by rank."""
        results = super().wait(timeout)
        for m in self.callers:
            for line in m.out.read_text(errors='replace').splitlines():
                print(f'[{m}] {line}')
            os.truncate(m.out, 0)       # they append
        return results


def ranks(k: int, patience: float = 10.0, port: int | None = None,
          network: links.Network | None = None, prepare: str = f'{__name__}:prepare',
          threads: int | None = None, single_gpu: bool = False, **variables: str) -> Ranks:
    """Start ``k`` ranks that have joined one process group; ``run`` calls a function in all.

    With a GPU for each of at least two ranks, a rank has one and they talk by NCCL. Else, and
    always in a ``network``, they compute on the CPU, share its cores evenly, and talk by Gloo, on the
    loopback interface or over the links. A group of one rank is the honest baseline: it has all the
    cores.

    Args:
        patience: seconds that a rank waits for the others in a collective operation, and at the
            start, before it raises.
        port, prepare, variables: as for :class:`Ranks`. What replaces ``prepare`` calls it.
        threads: of each rank; by default the cores that this process can keep busy, divided among the ranks.
        single_gpu: a group of one rank takes a GPU where there is a single one, too. By default it does
            not, so that one rank is on the same kind of device as two.
        network: as for :class:`Ranks`. What a rank sends goes over its host's link. GPUs stay unused
            then: NCCL would send from one to the other inside this computer, past the links.

    Raises:
        cluster.ClusterError: see there.
        ValueError: see there.
    """
    interface = network.interface if network else LOOPBACK.get(sys.platform)
    if interface:
        variables = {'GLOO_SOCKET_IFNAME': interface, **variables}
    group = Ranks(k, prepare, port, network, **variables)
    if not threads:
        from tested_results import machine  # here, because ranks import this module and do not need it
        threads = max(1, machine.cores() // k)
    group.run(join, patience, threads, bool(network), 1 if single_gpu else 2, timeout=patience + 50)
    return group


def rank_device() -> 'torch.device':
    """The device of this rank: its GPU if the group talks by NCCL, else the CPU, as outside a rank."""
    import torch
    from torch import distributed as dist
    if dist.is_initialized() and 'nccl' in dist.get_backend():
        return torch.device('cuda', torch.cuda.current_device())
    return torch.device('cpu')


# What follows runs in ranks, and in the template of which they are forks.

def prepare() -> None:
    """Import what ranks need, once for all."""
    for name in PRELOAD:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def join(patience: float, threads: int, emulated: bool = False, least: int = 2) -> None:
    """Called in each rank: take a device or a share of the cores, and join the group.

    With ``emulated`` links it takes no GPU: only what Gloo sends goes over them. A rank that takes none sees
    none, or PyTorch would lay out meshes of devices over GPUs.
    GPUs are used where there are ``least`` of them or more.
    """
    import torch
    from torch import distributed as dist
    torch.set_num_threads(threads)
    here, first = int(os.environ['LOCAL_WORLD_SIZE']), os.environ['RANK'] == '0'
    backend = 'gloo'
    if not emulated and torch.cuda.device_count() >= max(least, here):
        torch.cuda.set_device(int(os.environ['LOCAL_RANK']))
        backend = 'cpu:gloo,cuda:nccl'
    else:
        os.environ['CUDA_VISIBLE_DEVICES'] = ''
    late, n = datetime.timedelta(seconds=patience), int(os.environ['WORLD_SIZE'])
    address, how = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])), {}
    if first and os.name == 'posix':    # by itself rank 0 would listen on all interfaces
        how['master_listen_fd'] = socket.create_server(address).detach()
    store = dist.TCPStore(*address, n, first, late, **how)
    dist.init_process_group(backend, timeout=late, store=store, rank=int(os.environ['RANK']),
                            world_size=n)
