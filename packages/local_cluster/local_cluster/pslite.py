"""Clusters of ps-lite, MXNet's parameter server, on this machine.

A cluster has a scheduler, servers and workers, each a process of its own. ps-lite waits for ever
when one of them dies; a group, which this is, does not.

Members listen on 127.0.0.1 only, or on the address of their host in a network: ps-lite binds to
``DMLC_NODE_HOST``, which is set here. Started by other means and without it, ps-lite takes the
address of the first network interface (that of ``DMLC_INTERFACE``, if it is set) and has no
password: keep it behind a firewall then. With ``DMLC_USE_KUBERNETES`` it listens on all addresses;
members do not inherit that variable.

Importing this module imports no MXNet.
"""

import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from local_cluster import cluster, links, member
from local_cluster.cluster import ClusterError, Member
from local_cluster.member import report, traffic  # noqa: F401

# MXNet imports these if they are there. Members rarely need them, and import them then.
NOT_NEEDED = ('onnx', 'scipy')
# What a worker says, rarely, if two threads of MXNet's engine use a key for the first time at once.
ENGINE_RACE = 'The value size cannot be changed'
WHO = 'who are you?'    # a command to all servers
KINDS = 'dist_sync', 'dist_async'
START = 60.0            # seconds in which members must have found each other


class Cluster(cluster.Group):
    """A scheduler, servers, and workers that call functions together and return their results.

    Servers and workers are named by the ranks that ps-lite gives them. An array that is not split is
    on the server whose rank is 9973 times its key, modulo the number of servers.

    ::

        with Cluster(workers=2, servers=1) as c:
            print(c.run(work, 3))           # [work(kv, 3) in worker 0, the same in worker 1]

    Args:
        workers, servers: how many of each.
        kind: of the store that a worker gets: ``'dist_sync'`` or ``'dist_async'``.
        network: where; on loopback if it is None. On a network the servers take hosts 0, 1 …,
            the workers the hosts after them, from the start again if there are fewer hosts; the
            scheduler, through which little passes, is on host 0.
        variables: of the environment of all members, over what they inherit.

    Raises:
        ClusterError: the members do not find each other. Nothing is left of them then.
        ValueError: no workers, no servers, another kind, or keywords that are no environment
            variables.
    """

    def __init__(self, workers: int = 1, servers: int = 1, kind: str = 'dist_sync',
                 network: links.Network | None = None, **variables: str) -> None:
        if workers < 1 or servers < 1:
            raise ValueError(f'a cluster needs workers and servers, not {workers} and {servers}')
        if kind not in KINDS:
            raise ValueError(f'the kind of store is one of {KINDS}, not {kind!r}')
        threads = {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1',
                   'MXNET_OMP_MAX_THREADS': os.environ.get('MXNET_OMP_MAX_THREADS', '1')}
        super().__init__(f'{__name__}:prepare', network, threads, **variables)
        addresses = network.addresses if network else [cluster.HOST]
        shared = {'DMLC_PS_ROOT_URI': addresses[0], 'DMLC_NUM_WORKER': str(workers),
                  'DMLC_PS_ROOT_PORT': str(cluster.free_port()), 'DMLC_NUM_SERVER': str(servers)}
        names = ['scheduler', *(f'server {i}' for i in range(servers)),
                 *(f'worker {i}' for i in range(workers))]
        with self._all_or_none():
            for i, name in enumerate(names):
                role, host = name.split()[0], max(0, i - 1) % len(addresses)
                own = {'DMLC_ROLE': role, 'DMLC_NODE_HOST': addresses[host]}
                m = self.add(name, {**own, **shared}, host)
                self.start(*((join, kind) if role == 'worker' else (serve,)), members=[m])
            self.members['scheduler'].state = 'idle'        # it never returns
            self._name_by_rank()

    def _name_by_rank(self) -> None:
        """Wait until servers and workers have met: ps-lite has numbered them in another order."""
        scheduler, *ranked = self.members.values()
        self.wait_for(lambda: [m for m in ranked if m.state == 'working'], START)
        for m in ranked:
            m.name, m.state = f'{m.name.split()[0]} {pickle.loads(m.answer)}', 'idle'
        self.members.clear()
        self.members |= {m.name: m for m in (scheduler, *sorted(ranked, key=_kind_and_rank))}

    @property
    def callers(self) -> list[Member]:
        """The workers in rank order: they call ``function(kv, *args)``."""
        return [m for n, m in self.members.items() if n.startswith('worker')]

    def wait_reports(self, n: int, timeout: float = 60.0) -> None:
        """Wait until workers have reported ``n`` values in all. Raises as :meth:`run` does."""
        self.wait_for(lambda: [] if len(self.reports) >= n else self.working or self.callers, timeout,
                      'report enough')

    def observe(self, seconds: float) -> dict[str, str]:
        """Let the cluster go on for up to ``seconds``, whoever dies: what became of each member.

        One of ``'idle'``, ``'working'``, ``'returned'``, ``'raised …'``, ``'stopped'`` and how it
        ended. Returns early when no living worker is working.
        """
        end = time.monotonic() + seconds
        while self.working and (left := end - time.monotonic()) > 0:
            self.read(min(0.5, left))
        return {name: self._state(m) for name, m in self.members.items()}

    def _state(self, m: Member) -> str:
        if m.state == 'ended':
            return cluster.how_it_ended(m.code)
        return 'stopped' if m.halted else f'raised {m.answer}' if m.state == 'raised' else m.state

    def answers(self) -> dict[str, Any]:
        """What those workers have returned that have."""
        return {m.name: pickle.loads(m.answer) for m in self.callers if m.state == 'returned'}

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a member: by default the one that ends it at once."""
        os.kill(self.members[name].pid, number)


def _kind_and_rank(m: Member) -> tuple[str, int]:
    """By this, worker 10 comes after worker 2."""
    kind, rank = m.name.split()
    return kind, int(rank)


def run(function: str | Callable, workers: int, servers: int, *args: Any, timeout: float = 60.0,
        **how: Any) -> list:
    """Start a cluster, call a function in each worker, stop it, and return the results.

    ``how`` is for :class:`Cluster`; the rest is as for :meth:`Cluster.run`. If MXNet stumbles over
    :data:`ENGINE_RACE`, everything is done once more, in a new cluster.
    """
    for last in (False, True):
        try:
            with Cluster(workers, servers, **how) as c:
                return c.run(function, *args, timeout=timeout)
        except ClusterError as e:
            if last or ENGINE_RACE not in str(e):
                raise


# What follows runs in members, and in the template of which they are forks.

def prepare() -> None:
    """Import MXNet, which takes most of the time that a process needs to start, once for all."""
    for name in NOT_NEEDED:
        sys.modules[name] = None        # as if it were not installed
    from mxnet import npx
    npx.set_np()
    for name in NOT_NEEDED:
        del sys.modules[name]


def join(kind: str) -> int:
    """Called in each worker: get a store, which each later call is given first; the rank."""
    import mxnet as mx
    kv = mx.kv.create(kind)
    if kv.rank == 0:
        kv._send_command_to_servers(0, WHO)
    member.here.first = (kv,)
    return kv.rank


def serve() -> None:
    """Called in the scheduler and in servers, for good. A server answers with its rank."""
    import mxnet as mx
    from mxnet.kvstore import KVStoreServer

    class Server(KVStoreServer):
        """Says its rank when it is asked: it does not know it before."""

        def _controller(self) -> Callable:
            usual = super()._controller()

            def controller(command: int, body: bytes, context: Any) -> None:
                if body == WHO.encode():
                    member.answer('returned', pickle.dumps(self.kvstore.rank))
                else:
                    usual(command, body, context)
            return controller
    Server(mx.kv.create('dist')).run()
    os._exit(0)
