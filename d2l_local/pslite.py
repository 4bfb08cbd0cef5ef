"""Clusters of ps-lite, MXNet's parameter server, on this machine.

A cluster has a scheduler, servers and workers, each a process of its own. ps-lite waits for ever
when one of them dies, so this module watches them: a member that dies, raises or takes too long
is named with the end of its log, and every member is ended with the block, an error, an
interrupt, or the death of the process that started them.

Members listen on 127.0.0.1 only, or on the address of their host in a
:class:`d2l_local.links.Network`: ps-lite binds to ``DMLC_NODE_HOST``, which is set here. Started by
other means and without it, ps-lite takes the address of the first network interface (that of
``DMLC_INTERFACE``, if it is set) and has no password: keep it behind a firewall then. With
``DMLC_USE_KUBERNETES`` it listens on all addresses; that variable is removed here.

This module imports no MXNet. Importing it takes most of the time that a process needs to start,
so one process imports it, and members are forks of that one.
"""

import contextlib
import faulthandler
import functools
import importlib
import os
import pickle
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import Any

from d2l_local import cluster
from d2l_local.cluster import ClusterError

# MXNet imports these if they are there. Members rarely need them, and import them then.
NOT_NEEDED = ('matplotlib', 'onnx', 'scipy', 'sklearn')
# What a worker says, rarely, if two threads of MXNet's engine use a key for the first time at once.
ENGINE_RACE = 'The value size cannot be changed'
WHO = 'who are you?'    # a command to all servers
KINDS = 'dist_sync', 'dist_async'
START = 60.0            # seconds in which members must have found each other
IMPORT = 120.0          # and MXNet must have been imported
UNCOUNTED = '' if sys.platform == 'linux' else 'the bytes of a connection are counted on Linux only'


class Machines:
    """Where members run: this machine, or the hosts of a network. Serves any number of clusters.

    Keeps one idle process per host, of which members are forks, until the block ends.

    Args:
        net: a :class:`d2l_local.links.Network`; None for this machine, on loopback.
    """

    def __init__(self, net: Any = None) -> None:
        self.net = net
        self.group = cluster.Processes()
        self.templates: dict[int, connection.Connection] = {}
        self._door = _door(self.group.folder)

    @property
    def addresses(self) -> list[str]:
        """One address per host."""
        return list(self.net.addresses) if self.net else [cluster.HOST]

    def prepare(self, hosts: set[int]) -> None:
        """Have a process ready on each of these hosts.

        Raises:
            ClusterError: one does not start, for instance because MXNet does not import.
        """
        new = sorted(hosts - set(self.templates))
        for i in new:
            code = (f'import sys; sys.path[:] = {sys.path!r}; from d2l_local import pslite; '
                    f'pslite._template({str(self.group.folder)!r}, {i})')
            command = [sys.executable, '-c', code]
            self.group.start(f'host {i}', self.net.command(i, command) if self.net else command,
                             OMP_NUM_THREADS='1', OPENBLAS_NUM_THREADS='1')
        end = time.monotonic() + IMPORT
        for _ in new:
            c = _accept(self._door, end, self.group.check)
            self.templates[c.recv()] = c

    def fork(self, host: int, *member: Any) -> int:
        """Start a member on a host; its process id."""
        self.templates[host].send(('fork', *member))
        return self.templates[host].recv()

    def ended(self, host: int, pid: int, kill: bool = False) -> int | None:
        """How a member ended (negative: the signal), or None if it runs."""
        try:
            self.templates[host].send(('kill' if kill else 'ended', pid))
            return self.templates[host].recv()
        except (KeyError, OSError, EOFError):      # its members have died with it
            return -signal.SIGKILL

    def stop(self) -> None:
        """End all processes, members included. May be called again."""
        for c in self.templates.values():
            c.close()
        self.templates.clear()
        self._door.close()
        self.group.stop()

    def __enter__(self) -> 'Machines':
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


_here: Machines | None = None


def here() -> Machines:
    """This machine, on loopback. Its idle process ends with this one."""
    global _here
    if _here is None or any(p.poll() is not None for p in _here.group.members.values()):
        _here = Machines()
    return _here


class Member:
    """A process of a cluster, as its starter sees it. ``answer`` is None while it works."""

    def __init__(self, name: str, host: int, log: Path) -> None:
        self.name, self.host, self.log = name, host, log
        self.pid, self.conn, self.answer = 0, None, ('idle', None)
        self.code: int | None = None

    def __repr__(self) -> str:
        return self.name


class Cluster:
    """A scheduler, servers, and workers that call functions together and return their results.

    Servers and workers are named by the ranks that ps-lite gives them. An array that is not split is
    on the server whose rank is 9973 times its key, modulo the number of servers.

    ::

        with Cluster(workers=2, servers=1) as c:
            print(c.run(work, 3))           # [work(kv, 3) in worker 0, the same in worker 1]

    Args:
        workers, servers: how many of each.
        kind: of the store that a worker gets: ``'dist_sync'`` or ``'dist_async'``.
        machines: where; on loopback if it is None. On a network the servers take hosts 0, 1 …,
            the workers the hosts after them, from the start again if there are fewer hosts; the
            scheduler, through which little passes, is on host 0.
        environment: of all members, over the inherited one.

    Raises:
        ClusterError: the members do not find each other. Nothing is left of them then.
        ValueError: no workers, no servers, another kind, or keywords that are no environment
            variables.
    """

    def __init__(self, workers: int = 1, servers: int = 1, kind: str = 'dist_sync',
                 machines: Machines | None = None, **environment: str) -> None:
        if workers < 1 or servers < 1:
            raise ValueError(f'a cluster needs workers and servers, not {workers} and {servers}')
        if kind not in KINDS:
            raise ValueError(f'the kind of store is one of {KINDS}, not {kind!r}')
        cluster.check_environment(environment)
        self.machines = machines or here()
        self.folder = cluster.new_folder()
        self.members: dict[str, Member] = {}
        self.reports: list[tuple[str, Any]] = []      # what workers reported: name and value
        self._stop = weakref.finalize(self, _stop, self.machines, self.members, self.folder)
        addresses = self.machines.addresses
        places = {'scheduler': 0}
        for i in range(servers + workers):
            name = f'server {i}' if i < servers else f'worker {i - servers}'
            places[name] = i % len(addresses)
        try:
            self.machines.prepare(set(places.values()))
            shared = {'DMLC_PS_ROOT_URI': addresses[0], 'DMLC_NUM_WORKER': str(workers),
                      'DMLC_PS_ROOT_PORT': str(cluster.free_port()),
                      'DMLC_NUM_SERVER': str(servers), **environment}
            with contextlib.closing(_door(self.folder)) as door:
                for name, host in places.items():
                    own = {'DMLC_ROLE': name.split()[0], 'DMLC_NODE_HOST': addresses[host]}
                    self._start_member(name, host, kind, {**own, **shared})
                self._meet(door)
        except BaseException:
            self.stop()
            raise

    def _start_member(self, name: str, host: int, kind: str, environment: dict[str, str]) -> None:
        m = self.members[name] = Member(name, host, self.folder / f'{name}.log')
        m.pid = self.machines.fork(host, name, kind, str(self.folder), environment, sys.path)

    def _meet(self, door: socket.socket) -> None:
        """Hear from every member, then wait until all know their ranks; name them by rank."""
        end = time.monotonic() + START
        for _ in self.members:
            c = _accept(door, end, self.machines.group.check)
            self.members[c.recv()].conn = c
        ranked = [m for m in self.members.values() if m.name != 'scheduler']
        for m in ranked:
            m.answer = None
        self._wait(START)
        for m in ranked:        # ps-lite has numbered them in another order
            del self.members[m.name]
        for m in sorted(ranked, key=lambda m: (m.name.split()[0], m.answer[1])):
            m.name = f'{m.name.split()[0]} {m.answer[1]}'
            self.members[m.name] = m
            m.answer = ('idle', None) if m.name.startswith('server') else m.answer

    @property
    def workers(self) -> list[Member]:
        """The workers in rank order."""
        return [m for n, m in self.members.items() if n.startswith('worker')]

    def run(self, function: str | Callable, *args: Any, timeout: float = 60.0) -> list:
        """Call ``function(kv, *args)`` in every worker; the results in rank order.

        A ``%%worker`` module is imported anew for each call.

        Args:
            function: of an importable module, such as a ``%%worker`` cell.
            args: what pickle can carry.
            timeout: seconds until all must have returned.

        Raises:
            ClusterError: a member died, a worker raised, or not all have returned in time. The
                error names the member, and the whole cluster is stopped.
        """
        self.start(function, *args)
        return self.wait(timeout)

    def start(self, function: str | Callable, *args: Any) -> None:
        """Begin as :meth:`run` does, and return at once."""
        if not self._stop.alive:
            raise ClusterError('this cluster was stopped: start a new one')
        call = pickle.dumps((cluster.function_name(function), sys.path, pickle.dumps(args)))
        for m in self.workers:
            m.answer = None
            with contextlib.suppress(OSError):      # it has died: waiting will tell
                m.conn.send_bytes(call)

    def wait(self, timeout: float = 60.0) -> list:
        """The results of what was started. Raises as :meth:`run` does."""
        self._wait(timeout)
        return [pickle.loads(m.answer[1]) for m in self.workers]

    def _wait(self, timeout: float) -> None:
        try:
            end = time.monotonic() + timeout
            while any(m.answer is None for m in self.members.values()):
                self._read(min(0.5, end - time.monotonic()))
                self.check()
                if time.monotonic() > end:
                    self._fail_late(timeout)
            self.check()
        except BaseException:
            self.stop()
            raise

    def wait_reports(self, n: int, timeout: float = 60.0) -> None:
        """Wait until workers have reported ``n`` values in all. Raises as :meth:`run` does."""
        end = time.monotonic() + timeout
        while len(self.reports) < n:
            self._read(min(0.5, end - time.monotonic()))
            self.check()
            if time.monotonic() > end:
                self._fail_late(timeout)

    def observe(self, seconds: float) -> dict[str, str]:
        """Let the cluster go on for up to ``seconds``, whoever dies: what became of each member.

        One of ``'idle'``, ``'working'``, ``'returned'``, ``'raised …'``, ``'stopped'`` and how it
        ended. Returns early when no living worker is working.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(m.answer is None for m in self.workers):
            self._read(min(0.5, end - time.monotonic()))
        return {name: self._state(m) for name, m in self.members.items()}

    def answers(self) -> dict[str, Any]:
        """What those workers have returned that have."""
        return {m.name: pickle.loads(m.answer[1]) for m in self.workers
                if m.answer and m.answer[0] == 'returned' and isinstance(m.answer[1], bytes)}

    def _state(self, m: Member) -> str:
        if m.code is not None:
            return cluster.how_it_ended(m.code)
        if _stopped(m.pid):
            return 'stopped'
        return 'working' if m.answer is None else m.answer[0] + (
            f' {m.answer[1]}' if m.answer[0] == 'raised' else '')

    def check(self) -> None:
        """Raise :class:`ClusterError` if a member has died or a worker raised."""
        self._read(0)
        failed = [m for m in self.members.values() if m.code is not None]
        if failed:      # who has died first: ps-lite may take others along
            m = min(failed, key=lambda m: m.answer[1])
            self._fail(m, f'{m} died: {cluster.how_it_ended(m.code)}')
        for m in self.members.values():
            if m.answer and m.answer[0] == 'raised':
                self._fail(m, f'{m} raised {m.answer[1]}')

    def _read(self, seconds: float) -> None:
        """Take in what members have sent, after waiting for the first of it up to ``seconds``."""
        conns = {m.conn: m for m in self.members.values() if m.code is None}
        for c in connection.wait(conns, max(0.0, seconds)):
            m = conns[c]
            try:
                what, value = c.recv()
            except (EOFError, OSError):
                m.code = self.machines.ended(m.host, m.pid)
                m.code = 0 if m.code is None else m.code
                m.answer = 'died', time.monotonic()
                continue
            if what == 'report':
                self.reports.append((m.name, value))
            else:
                m.answer = what, value

    def _fail_late(self, timeout: float) -> None:
        """Name who is stopped by a signal, or else who has not returned, and where it is."""
        late = [m for m in self.members.values() if m.answer is None]
        message = f"{' and '.join(map(str, late))} did not return within {timeout:g} s"
        if halted := [m for m in self.members.values() if _stopped(m.pid)]:
            self._fail(halted[0], f"{' and '.join(map(str, halted))} was stopped by a signal, and "
                                  + message)
        if not late:
            late, message = self.workers, f'no more reports came within {timeout:g} s'
        for m in late:
            os.kill(m.pid, signal.SIGUSR1)      # its stack goes to its log
        time.sleep(0.3)
        self._fail(late[0], message)

    def _fail(self, m: Member, message: str) -> None:
        message = cluster.with_log(message, m.name, cluster.tail(m.log))
        self.stop()
        raise ClusterError(message, m.name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a member: by default the one that ends it at once."""
        os.kill(self.members[name].pid, number)

    def stop(self) -> None:
        """End every member and remove the logs. May be called again."""
        self._stop()

    def __enter__(self) -> 'Cluster':
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


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


def _stop(machines: Machines, members: dict[str, Member], folder: Path) -> None:
    for m in members.values():
        if m.pid and m.code is None:
            machines.ended(m.host, m.pid, kill=True)
        if m.conn:
            m.conn.close()
    shutil.rmtree(folder, ignore_errors=True)


def _stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal and may go on later."""
    if sys.platform == 'linux':     # where the program ps is not always there
        with contextlib.suppress(OSError):
            return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] == 'T'
        return False
    out = subprocess.run(['ps', '-o', 'state=', '-p', str(pid)], capture_output=True, text=True)
    return out.stdout.strip().startswith('T')


def _door(folder: Path) -> socket.socket:
    """Where processes of this machine report, whatever network they are in: a file, not a port."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(folder / 'door'))
    door.listen(64)
    return door


def _accept(door: socket.socket, end: float, check: Callable[[], None]) -> connection.Connection:
    door.settimeout(0.1)
    while time.monotonic() < end:
        check()
        with contextlib.suppress(TimeoutError):
            s, _ = door.accept()
            s.setblocking(True)
            return connection.Connection(s.detach())
    raise ClusterError('a process of the cluster did not start in time')


# What follows runs in the other processes.

_conn: connection.Connection | None = None


def report(value: Any) -> None:
    """Called in a worker: tell the notebook something before the function returns."""
    _conn.send(('report', value))


def traffic() -> dict[str, tuple[int, int]]:
    """Bytes that this process has sent to each address and port over TCP, and received from it.

    From the kernel's own counters (``TCP_INFO`` of Linux 4.19 and later), without headers and
    without what was sent again; empty where :data:`UNCOUNTED` says why.
    """
    if UNCOUNTED:
        return {}
    peers: dict[str, tuple[int, int]] = {}
    for name in os.listdir('/proc/self/fd'):
        with contextlib.suppress(OSError):      # no socket, or one without a peer
            if not os.readlink(f'/proc/self/fd/{name}').startswith('socket:'):
                continue
            with socket.socket(fileno=os.dup(int(name))) as s:
                if s.family != socket.AF_INET:
                    continue
                host, port = s.getpeername()
                info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 216)
            received, = struct.unpack_from('Q', info, 128)
            sent, again = struct.unpack_from('QQ', info, 200)
            out, back = peers.get(f'{host}:{port}', (0, 0))
            peers[f'{host}:{port}'] = out + sent - again, back + received
    return peers


def _connect(folder: str, name: Any) -> connection.Connection:
    c = connection.Client(str(Path(folder, 'door')), 'AF_UNIX')
    c.send(name)
    return c


def _template(folder: str, host: int) -> None:
    """Import MXNet, then fork members on demand, and say how they ended."""
    for name in NOT_NEEDED:
        sys.modules[name] = None        # as if it were not installed
    for name in [n for n in os.environ if n.startswith(('DMLC_', 'PS_'))]:
        del os.environ[name]
    os.environ.setdefault('MXNET_OMP_MAX_THREADS', '1')
    from mxnet import npx
    npx.set_np()
    for name in NOT_NEEDED:
        del sys.modules[name]
    control, codes = _connect(folder, host), {}
    while True:
        try:
            what, *args = control.recv()
        except (EOFError, OSError):     # our starter is gone, and our members go with us
            os._exit(0)
        if what == 'fork':
            parent, pid = os.getpid(), os.fork()
            if not pid:
                control.close()
                _member(parent, *args)
            codes.pop(pid, None)        # of an earlier member: the system counts in a circle
            control.send(pid)
            continue
        pid = args[0]
        if what == 'kill' and pid not in codes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 2.0
        while pid not in codes and time.monotonic() < end:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.005)
        control.send(codes.get(pid))


def _member(parent: int, name: str, kind: str, folder: str, environment: dict[str, str],
            path: list[str]) -> None:
    """A scheduler, server or worker, until it is ended."""
    global _conn
    try:
        cluster.die_with_parent()
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # the starter is interrupted, and ends us
        log = os.open(Path(folder, f'{name}.log'), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number in (1, 2):       # of libraries in C++ as well
            os.dup2(log, number)
        sys.stdout = open(1, 'w', buffering=1, closefd=False, encoding='utf8')
        sys.stderr = open(2, 'w', buffering=1, closefd=False, encoding='utf8')
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=False)
        os.environ.update(environment)
        sys.dont_write_bytecode = True
        sys.path[:] = path
        _conn = _connect(folder, name)
        _work(kind) if environment['DMLC_ROLE'] == 'worker' else _serve()
    except BaseException:
        traceback.print_exc()
        os._exit(1)     # from here: to leave the frames would free the store, and that waits for all
    os._exit(0)


def _watch(parent: int) -> None:
    """End this process when its parent has ended, where the system does not do it."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _serve() -> None:
    import mxnet as mx
    from mxnet.kvstore import KVStoreServer

    class Server(KVStoreServer):
        """Says its rank when it is asked: it does not know it before."""

        def _controller(self) -> Callable:
            usual = super()._controller()

            def controller(command: int, body: bytes, context: Any) -> None:
                if body == WHO.encode():
                    _conn.send(('returned', self.kvstore.rank))
                else:
                    usual(command, body, context)
            return controller
    Server(mx.kv.create('dist')).run()


def _work(kind: str) -> None:
    """Call what the notebook tells."""
    import mxnet as mx
    kv = mx.kv.create(kind)
    if kv.rank == 0:
        kv._send_command_to_servers(0, WHO)
    _conn.send(('returned', kv.rank))
    while True:
        try:
            name, sys.path[:], args = pickle.loads(_conn.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        for n, module in list(sys.modules.items()):
            if '/d2l-cluster-' in (getattr(module, '__file__', None) or ''):
                del sys.modules[n]      # a %%worker cell: it may have changed
        try:
            module, function = name.split(':')
            importlib.invalidate_caches()
            target = functools.reduce(getattr, function.split('.'), importlib.import_module(module))
            answer = 'returned', pickle.dumps(target(kv, *pickle.loads(args)))
        except BaseException as e:
            traceback.print_exception(type(e), e, e.__traceback__.tb_next)     # without this frame
            answer = 'raised', ''.join(traceback.format_exception_only(e)).strip()
        _conn.send(answer)
