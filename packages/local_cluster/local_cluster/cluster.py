"""Start, watch and always stop a group of processes on this machine. Knows no framework.

Leaving the block, an error, an interrupt and the death of the process that started them end every
member, and a member that fails is reported by name.
"""

import contextlib
import math
import os
import pickle
import random
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

import psutil

from local_cluster import links, workers
from local_cluster.files import new_folder, tail
from local_cluster.forkserver import ClusterError, environment, template
from local_cluster.system import at_end

HOST = '127.0.0.1'
TIMEOUT = re.compile(r'(?i)timed?[ -]?out')     # what an error says that comes from waiting
MISTAKE = re.compile(r'(Type|Value|Key|Index|Name|Attribute|Import|ModuleNotFound|UnboundLocal)Error\b')
GRACE = 0.5            # seconds in which others may still say that they failed first,
LATE_GRACE = 2.0       # and that they have waited too long as well
PLACES = 0.5           # seconds in which members say where they are
OWN = os.path.join('local_cluster', 'member.py')     # where a call comes from


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now.

    Below the ports that systems give to outgoing connections: one of those could take it meanwhile.
    """
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        with contextlib.suppress(ClusterError):
            check_port(port)
            return port
    raise ClusterError(f'no free port between 20000 and 30000 on {HOST}: end what holds them')


def check_port(port: int) -> None:
    """Raise :class:`ClusterError` if something listens on this port of 127.0.0.1."""
    with socket.socket() as s:
        if os.name == 'posix':      # a port that waits for late packets counts as free
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((HOST, port))
        except OSError as e:
            raise ClusterError(f'port {port} of {HOST} is in use: leave the port out and a free '
                               'one is taken, or stop the program that holds it') from e


def how_it_ended(code: int) -> str:
    """A return code in words."""
    if code < 0:
        with contextlib.suppress(ValueError):
            return f'killed by {signal.Signals(-code).name}'
    return f'exit code {code}'


class Member:
    """A process of a group, as its starter sees it.

    Attributes:
        pid: its process id, and that of the group of processes that it and its children are.
        log, out: the files that have its errors, and what it prints; one for both by default.
        code: how it ended (negative: the signal); None while it runs.
        state: ``'idle'``, ``'working'``, ``'returned'``, ``'raised'`` or ``'ended'``.
        answer: what it has returned, pickled, or raised, as text.
        since: when it came into this state, in the seconds of ``time.time()``.
    """

    def __init__(self, name: str, log: Path, out: Path, is_program: bool, forked: tuple) -> None:
        self.name, self.log, self.out, self.is_program = name, log, out, is_program
        self.state, self.answer, self.since, self.code = 'idle', None, 0.0, None
        self.call = 0           # the number of the call that it works on, or has answered last
        self.pid, self.calls, self.status = forked
        if is_program:
            self.state = 'working'      # until it ends

    def __repr__(self) -> str:
        return self.name

    @property
    def timed_out(self) -> bool:
        """Whether it has raised because it has waited too long.

        A mistake in the code may speak of a timeout too, such as an argument of that name.
        """
        waited = self.state == 'raised' and TIMEOUT.search(self.answer)
        return bool(waited) and not MISTAKE.match(self.answer)

    @property
    def halted(self) -> bool:
        """Whether it was stopped by a signal and may go on later."""
        with contextlib.suppress(psutil.Error):
            return self.code is None and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        return False

    def poll(self) -> int | None:
        """Its code, by now."""
        if self.code is None and self.status.poll():
            try:
                self.code = self.status.recv()
            except (EOFError, OSError):     # its template has died, and on Linux it has as well
                self.kill()
                self.code = -signal.SIGKILL
            self.state, self.since = 'ended', time.time()
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        """Its code, when it has ended. Raises :class:`TimeoutError` after so many seconds."""
        if self.code is None and not self.status.poll(timeout):
            raise TimeoutError(f'{self} did not end within {timeout:g} s')
        return self.poll()

    def read(self, reports: list[tuple[str, Any]]) -> None:
        """Take in what it has sent, and whether it has ended."""
        with contextlib.suppress(EOFError, OSError):
            while not self.is_program and self.calls.poll():
                call, what, when, value = self.calls.recv()
                if what == 'reported':
                    reports.append((self.name, value))
                elif call == self.call:
                    self.state, self.since, self.answer = what, when, value
        self.poll()

    def place(self) -> str:
        """Where it was when it got the signal that asks, innermost frames first; empty if unknown."""
        with contextlib.suppress(OSError):
            text = Path(f'{self.log}.places').read_text().split(OWN)[0]
            frames = re.findall(r'File ".*?([^/\\]+)", line (\d+) in (\S+)', text)
            return ' ← '.join(f'{file}:{line} in {name}' for file, line, name in frames[:5])
        return ''

    def kill(self) -> None:
        """End it and its children, at once."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (AttributeError, OSError):       # it leads no group, or has ended
            with contextlib.suppress(psutil.Error):
                if self.code is None:
                    psutil.Process(self.pid).kill()


class Group:
    """Processes that live and die together: programs, and members that call functions.

    Args:
        prepare: a function, ``'module:name'``, that imports what members need. It is called once,
            in the template of which they are forks.
        network: with hosts for members.
        preset: variables of the environment of the template and of members.
        variables: of the environment of members, over all others.

    Attributes:
        members: by their names.
        reports: what members have reported while they worked: name and value.
        folder: of their logs.

    Raises:
        ClusterError: what members need cannot be imported.
        ValueError: keywords that are no environment variables.
    """

    def __init__(self, prepare: str = '', network: links.Network | None = None,
                 preset: dict[str, str] | None = None, **variables: str) -> None:
        for name, value in variables.items():
            if not isinstance(value, str) or not name.isupper():
                raise ValueError(
                    f'{name}={value!r}: what is not a keyword here becomes an environment variable of '
                    'the members, which is written in capitals and has a text. What is meant for the '
                    'function that they call stands without a name')
        self.folder, self._preset, self._variables = new_folder(), preset or {}, variables
        self._network, self._all_late = network, 'all members have waited too long for somebody else'
        self.members: dict[str, Member] = {}
        self.reports: list[tuple[str, Any]] = []
        self._starting, self._prepare = threading.Lock(), prepare
        self._stop = at_end(self, _stop, self.members, self.folder)
        with self._all_or_none():
            self._template = template(prepare, network.user if network else '', **self._preset)

    def add(self, name: str, variables: dict[str, str], host: int = 0, program: Sequence[str] = (),
            separate: bool = False) -> Member:
        """Start a member, on a host of the network if there is one.

        Args:
            variables: of its environment; those of the group go before them.
            program: a command that it becomes; without one, it calls functions.
            separate: whether what it prints has a file of its own.
        """
        if name in self.members or not self._stop.alive:
            raise ValueError(f'there is a member {name!r} already, or this group was stopped')
        forked = self._template.fork(self._network.namespace(host) if self._network else '')
        log = self.folder / f'{name}.log'
        out = log.with_suffix('.out') if separate else log
        m = self.members[name] = Member(name, log, out, bool(program), forked)
        known = {**environment(), **self._preset, **variables, **self._variables}
        with contextlib.suppress(OSError):      # it has died: waiting will tell
            m.calls.send((known, os.getcwd(), str(out), str(log), list(program)))
        return m

    def program(self, name: str, command: Sequence[str], **variables: str) -> Member:
        """Start a program; its outputs go to a log, its input is empty.

        Raises:
            ValueError: the name is taken, or the command is a text.
            ClusterError: there is no such program.
        """
        if isinstance(command, str):
            raise ValueError(f'a command is a list of words, such as {command.split()}, not a text')
        if not shutil.which(command[0]):
            raise ClusterError(f'{name} does not start: there is no program {command[0]!r}', name)
        return self.add(name, variables, program=command)

    @property
    def callers(self) -> list[Member]:
        """Those that call functions, in the order of their results."""
        return [m for m in self.members.values() if not m.is_program]

    @property
    def working(self) -> list[Member]:
        """Those that have not returned yet, and programs that have not ended."""
        return [m for m in self.members.values() if m.state == 'working']

    def run(self, function: str | Callable, *args: Any, timeout: float | None = 120.0) -> list:
        """Call a function in every caller with the same arguments; the results in their order.

        Args:
            function: ``'module:function'``, or one of an importable module, as of a ``%%worker``
                cell.
            args: what pickle can carry.
            timeout: seconds until all must have returned; None: no limit.

        Raises:
            ClusterError: a member died, raised, or did not return in time. The error names it, and
                the whole group is stopped.
            ValueError: other processes cannot import the function, or members still work on an earlier
                call. The group goes on as it was.
        """
        self.start(function, *args)
        with self._all_or_none():
            return self.wait(timeout)

    def start(self, function: str | Callable, *args: Any, members: Sequence[Member] = ()) -> None:
        """Begin as :meth:`run` does, in callers or certain members, and return at once."""
        if not self._stop.alive:
            raise ClusterError('this group was stopped: start a new one')
        call = (workers.function_name(function), sys.path, workers.versions, pickle.dumps(args))
        with self._starting:            # of several threads, one is first
            asked = [m for m in members or self.callers if m.poll() is None]
            if busy := [m for m in asked if m.state == 'working']:
                raise ValueError(f"{' and '.join(map(str, busy))} still work on an earlier call: wait for it "
                                 'first')
            for m in asked:
                m.state, m.call = 'working', m.call + 1
                with contextlib.suppress(OSError):      # it has died: waiting will tell
                    m.calls.send_bytes(pickle.dumps((m.call, *call)))

    def wait(self, timeout: float | None = 120.0) -> list:
        """The results of what was started, when programs have ended too. Raises as :meth:`run` does."""
        # One that was dead before the call was asked nothing; that it died is said below.
        if idle := [m for m in self.callers if not m.call and m.poll() is None]:
            raise ValueError(f"nothing was started in {' and '.join(map(str, idle))}")
        self.wait_for(lambda: self.working, timeout)
        return [pickle.loads(m.answer) for m in self.callers]

    def wait_for(self, late: Callable[[], list[Member]], timeout: float | None, what: str = 'return') -> None:
        """Watch members until none is late any more to do what it should. Raises as :meth:`run`."""
        with self._all_or_none():
            end = math.inf if timeout is None else time.monotonic() + timeout
            self.check()
            while missing := late():
                if time.monotonic() >= end:
                    halted = [m for m in self.members.values() if m.halted]
                    stopped = ''.join(f'{m} was stopped by a signal, and ' for m in halted)
                    raise self._error((halted or missing)[0], f'{stopped}'
                                      f"{' and '.join(map(str, missing))} did not "
                                      f"{'end' if missing[0].is_program else what} within {timeout:g} s"
                                      + self._forks())
                self.read(min(0.5, end - time.monotonic()))     # an interrupt is seen between
                self.check()

    def read(self, seconds: float) -> None:
        """Take in what members have sent, after waiting for the first of it up to ``seconds``."""
        pipes = {p: m for m in self.members.values() if m.code is None
                 for p in ([m.status] if m.is_program else [m.status, m.calls])}
        ready = connection.wait(list(pipes), max(0.0, seconds))
        for m in dict.fromkeys(pipes[p] for p in ready):
            m.read(self.reports)

    def check(self) -> None:
        """Raise :class:`ClusterError` for the member that failed first, if one has failed.

        The group is stopped then. A program that has ended well has not failed.
        """
        self.read(0)
        if raised := self._in('raised'):        # others may say that they failed before
            end = time.monotonic() + (LATE_GRACE if any(m.timed_out for m in raised) else GRACE)
            while self.working and not self._in('ended') and (left := end - time.monotonic()) > 0:
                self.read(left)
            raised = self._in('raised')
        if ended := self._in('ended'):
            first, how = ended[0], how_it_ended(ended[0].code)
            message = f'{first} failed: {how}' if first.is_program else f'{first} died: {how}'
        elif not raised:
            return
        elif raised[0].timed_out and (returned := [m for m in self.callers if m.state == 'returned']):
            first, others = returned[0], self.working       # who waited says so, the others say nothing
            message = f"{' and '.join(map(str, returned))} had returned, and {raised[0]} waited too long"
            message += f", and {' and '.join(map(str, others))} went on" if others else ''
        elif self.working and raised[0].timed_out:
            halted = [m for m in self.working if m.halted]
            first = (halted or self.working)[0]
            how = 'was stopped by a signal' if halted else 'hangs'
            message = f'{first} {how}: others have waited for it too long{self._forks()}'
        else:
            first, message = raised[0], f'{raised[0]} raised {raised[0].answer}'
            if all(m.timed_out for m in self.callers):
                message = f'{self._all_late}{self._forks()}\n{message}'
        if raised and raised[0] is not first:
            message += f'\n{raised[0]} raised {raised[0].answer}'
        raise self._error(first, message)

    def _forks(self) -> str:
        """Why members may do nothing: what they are forks of has threads, and they have none of those."""
        with contextlib.suppress(psutil.Error):
            threads = psutil.Process(self._template.process.pid).num_threads()
            if threads > 1 and not self._prepare.startswith('local_cluster.'):
                return (f'\nmembers are forks of a process in which {self._prepare} has left {threads - 1} '
                        'threads, as an operation with several threads does: in forks, the next one hangs')
        return ''

    def _in(self, state: str) -> list[Member]:
        """Members in a state, by the time at which they came into it."""
        found = (m for m in self.members.values()
                 if m.state == state and not (m.is_program and m.code == 0))
        return sorted(found, key=lambda m: m.since)

    def _error(self, first: Member, message: str) -> ClusterError:
        """Stop all; the error says where others were and has the end of a log."""
        asked = [m for m in self.working if hasattr(signal, 'SIGUSR1') and not m.is_program]
        end = time.monotonic() + PLACES
        for m in asked:
            with contextlib.suppress(OSError):
                os.kill(m.pid, signal.SIGUSR1)
        while not all(places := [m.place() for m in asked]) and time.monotonic() < end:
            time.sleep(0.01)
        message += ''.join(f'\n{m} was at: {p}' for m, p in zip(asked, places, strict=True) if p)
        if first.out != first.log and (said := tail(first.out)):
            message += f'\nend of what {first} has printed:\n{said}'
        if log := tail(first.log):
            message += f'\nend of the log of {first}:\n{log}'
        self.stop()
        return ClusterError(message, first.name)

    @contextlib.contextmanager
    def _all_or_none(self):
        """Stop all if something goes wrong in the block."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every member and remove the logs. May be called again."""
        self._stop()

    def __enter__(self):
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def _stop(members: dict[str, Member], folder: Path) -> None:
    for m in members.values():
        m.kill()        # if it has ended, what it has started
    for m in members.values():
        with contextlib.suppress(TimeoutError):
            m.wait(10)
        m.calls.close()
        m.status.close()
    shutil.rmtree(folder, ignore_errors=True)
