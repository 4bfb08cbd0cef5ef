"""Start, watch and always stop a group of processes on this machine. Knows no framework.

Two kinds of groups share one promise: leaving the block, an error, an interrupt and the death of
the process that started them end every member, and a member that fails is reported by name.

* :class:`Processes`: programs, each a command with its environment.
* :class:`Ranks`: copies of this Python, which call functions together and return results.

In a notebook, ``%%worker NAME`` makes a cell a module that the ranks can import.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib
import importlib.util
import itertools
import multiprocessing
import os
import pickle
import platform
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import weakref
from collections.abc import Callable, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

HOST = '127.0.0.1'
TIMEOUT = re.compile(r'(?i)timed?[ -]?out')     # what an error says that comes from waiting
STALE = 3600.0         # seconds after which a folder of a dead process is removed
LINES = 12             # of a log that an error shows
GRACE = 0.5            # seconds in which others may still say that they failed first,
LATE_GRACE = 2.0       # and that they have waited too long as well


class ClusterError(RuntimeError):
    """A member failed. ``member`` is its name; the first line of the message says what happened."""

    def __init__(self, message: str, member: str | None = None) -> None:
        super().__init__(message)
        self.member = member

    @property
    def headline(self) -> str:
        """The first line of the message."""
        return str(self).split('\n')[0]


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on now.

    Below the ports that systems give to outgoing connections: one of those could take it meanwhile.
    """
    for _ in range(100):
        port = random.SystemRandom().randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind((HOST, port))
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


def tail(path: Path, lines: int = LINES) -> str:
    """The last lines of a log; empty if there is none."""
    with contextlib.suppress(OSError), open(path, 'rb') as f:
        f.seek(max(0, os.path.getsize(path) - 8192))
        return '\n'.join(f.read().decode(errors='replace').rstrip().split('\n')[-lines:])
    return ''


def with_log(message: str, name: str, log: str) -> str:
    """A message with the end of a member's log, if there is any."""
    return f'{message}\nend of the log of {name}:\n{log}' if log else message


def check_environment(environment: dict[str, Any]) -> None:
    """Raise :class:`ValueError` if keywords cannot be meant as environment variables of members."""
    for name, value in environment.items():
        if not isinstance(value, str) or not name.isupper():
            raise ValueError(
                f'{name}={value!r}: what is not a keyword here becomes an environment variable of the '
                'members, which is written in capitals and has a text. What is meant for the function '
                'that they call stands without a name')


def numbering() -> str:
    """Who gives the process ids that this process sees: host, boot, and the container or namespace.

    With a temporary folder that several of them share, one id stands for several processes.
    """
    boot, space = Path('/proc/sys/kernel/random/boot_id'), '/proc/self/ns/pid'
    parts = [platform.node(), boot.read_text() if boot.exists() else '',
             os.readlink(space) if os.path.islink(space) else '']
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:8]


def new_folder() -> Path:
    """A temporary folder that names this process; those that killed ones have left are removed."""
    ours = f'd2l-cluster-{numbering()}-'
    if os.name == 'posix':      # elsewhere no signal asks whether a process is there
        for old in Path(tempfile.gettempdir()).glob(f'{ours}*-*'):
            with contextlib.suppress(OSError, ValueError):
                try:
                    os.kill(int(old.name.removeprefix(ours).split('-')[0]), 0)
                except ProcessLookupError:
                    if old.stat().st_mtime < time.time() - STALE:
                        shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f'{ours}{os.getpid()}-'))


def die_with_parent() -> None:
    """Let the system end this process when its parent ends (Linux; elsewhere nothing happens)."""
    if sys.platform == 'linux':
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)     # PR_SET_PDEATHSIG


class Processes:
    """Programs that live and die together, each with a name, a log and its own environment.

    ::

        with Processes() as group:
            group.start('server', [sys.executable, '-m', 'server'], PORT='9000')
            group.start('client', [sys.executable, '-m', 'client'], PORT='9000')
            group.wait('client', timeout=60)

    Start them in a thread that lives as long as they do, such as the main one: Linux ends a
    process when the *thread* that started it ends.
    """

    def __init__(self) -> None:
        self.folder = new_folder()
        self.members: dict[str, subprocess.Popen] = {}
        self._stop = weakref.finalize(self, _stop_processes, self.members, self.folder)

    def start(self, name: str, command: Sequence[str], **environment: str) -> subprocess.Popen:
        """Start a program; its outputs go to a log, its input is empty.

        Raises:
            ValueError: the name is taken.
            ClusterError: there is no such program.
        """
        if name in self.members or not self._stop.alive:
            raise ValueError(f'there is a member {name!r} already, or this group was stopped')
        if not shutil.which(command[0]):
            raise ClusterError(f'{name} does not start: there is no program {command[0]!r}', name)
        # This file runs as a small program of its own, which turns into the command or guards it.
        guard = [sys.executable, '-I', '-S', __file__, str(os.getpid()), *command]
        with open(self.log(name), 'wb') as log:
            self.members[name] = subprocess.Popen(
                guard, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environment})
        return self.members[name]

    def log(self, name: str) -> Path:
        """The file that has the outputs of a member."""
        return self.folder / f'{name}.log'

    def check(self) -> None:
        """Raise :class:`ClusterError` if a member failed; those that ended well are fine."""
        for name, p in self.members.items():
            if p.poll():
                self._fail(name, f'{name} failed: {how_it_ended(p.returncode)}')

    def wait(self, *names: str, timeout: float) -> None:
        """Wait until members (all, if none is named) have ended well, and watch the others.

        Raises:
            ClusterError: a member failed, or it is still running after ``timeout`` seconds. The
                whole group is stopped then.
        """
        end = time.monotonic() + timeout
        while running := [n for n in names or self.members if self.members[n].poll() is None]:
            self.check()
            if time.monotonic() > end:
                self._fail(running[0], f"{' and '.join(running)} did not end within {timeout:g} s")
            time.sleep(0.02)
        self.check()

    def _fail(self, name: str, message: str) -> None:
        message = with_log(message, name, tail(self.log(name)))
        self.stop()
        raise ClusterError(message, name)

    def stop(self) -> None:
        """End every member and remove the logs. May be called again."""
        self._stop()

    def __enter__(self) -> 'Processes':
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def _stop_processes(members: dict[str, subprocess.Popen], folder: Path) -> None:
    for p in members.values():
        with contextlib.suppress(OSError):      # its group too: it may have children
            os.killpg(p.pid, signal.SIGKILL) if hasattr(os, 'killpg') else p.kill()
    for p in members.values():
        p.wait()
        p.stdin.close()
    shutil.rmtree(folder, ignore_errors=True)


def _guard(parent: int, command: list[str]) -> None:
    """Become the command (Linux), or run it until the parent is gone."""
    if sys.platform == 'linux':
        die_with_parent()
        if os.getppid() == parent:      # or it has died before we asked
            os.execvp(command[0], command)
        return
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def watch() -> None:
        sys.stdin.buffer.read()         # ends when the parent does: it holds the other end
        child.kill()
    threading.Thread(target=watch, daemon=True).start()
    sys.stdout.flush()
    os._exit(child.wait() & 0xff)


def function_name(function: str | Callable) -> str:
    """A function as ``'module:name'``, by which another process finds it.

    Raises:
        ValueError: another process cannot import it: it belongs to ``__main__`` or to a function.
    """
    if isinstance(function, str):
        if not re.fullmatch(r'[\w.]+:[\w.]+', function):
            raise ValueError(f"a function's name looks like 'module:function', not {function!r}")
        return function
    module, name = getattr(function, '__module__', None), getattr(function, '__qualname__', '<')
    if module in (None, '__main__') or '<' in name:
        raise ValueError(f'other processes cannot import {name!r}: define it in a cell that begins '
                         'with "%%worker NAME", or in a module')
    return f'{module}:{name}'


class Ranks:
    """Processes with the numbers 0 … k−1 that call functions together and return their results.

    Each finds ``RANK``, ``LOCAL_RANK``, ``WORLD_SIZE``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and
    ``MASTER_PORT`` in its environment, as from torchrun. They stay until :meth:`stop`, the end of
    the ``with`` block, an error, or the end of this process, and keep what they have in memory.

    Args:
        ranks: how many.
        preload: modules that a rank finds already imported where the system can do that.
        port: for the group; a free one if it is None.
        contexts: one for each rank, which make its pipes and its process, as those of
            ``multiprocessing`` do. All on this machine if it is None.
        environment: of the ranks, over the inherited one.

    Raises:
        ClusterError: a rank does not start, or the port is in use. Nothing is left then.
        ValueError: fewer than one rank, or keywords that are no environment variables.
    """

    def __init__(self, ranks: int, preload: Sequence[str] = (), port: int | None = None,
                 contexts: Sequence[Any] | None = None, **environment: str) -> None:
        if ranks < 1:
            raise ValueError(f'a group needs at least one rank, not {ranks}')
        check_environment(environment)
        if port is not None:
            check_port(port)
        self.port = port or free_port()
        self.world = environment.get('WORLD_SIZE', str(ranks))
        self.folder = new_folder()
        self.members: list[_Rank] = []
        self._stop = weakref.finalize(self, _stop_ranks, self.members, self.folder)
        shared = {'WORLD_SIZE': str(ranks), 'LOCAL_WORLD_SIZE': str(ranks), 'MASTER_ADDR': HOST,
                  'MASTER_PORT': str(self.port)}
        try:
            contexts = contexts or [_context(tuple(preload))] * ranks
            for i, context in enumerate(contexts):
                own = {**shared, 'RANK': str(i), 'LOCAL_RANK': str(i), **environment}
                self.members.append(_Rank(context, i, own, self.folder))
        except BaseException:
            self.stop()
            raise

    def run(self, function: str | Callable, *args: Any, timeout: float = 120.0) -> list:
        """Call a function in every rank with the same arguments; the results in rank order.

        What ranks print is printed here when all are done, rank by rank.

        Args:
            function: ``'module:function'``, or a function of an importable module.
            args: what pickle can carry.
            timeout: seconds until all must have returned.

        Raises:
            ClusterError: a rank died, raised, or did not return in time. The error names it, and
                the whole group is stopped.
        """
        if not self._stop.alive:
            raise ClusterError('this group of ranks was stopped: start a new one')
        try:
            call = pickle.dumps((function_name(function), sys.path, _versions, pickle.dumps(args)))
            for m in self.members:
                m.state = None
                with contextlib.suppress(OSError):      # it has died: its state will tell
                    m.calls.send_bytes(call)
            self._collect(time.monotonic() + timeout)
            failed = any(m.failed for m in self.members)
            if failed:      # the others may say that they failed before
                late = any(m.timed_out for m in self.members)
                self._collect(time.monotonic() + (LATE_GRACE if late else GRACE), all_of_them=True)
            if failed or any(m.state is None for m in self.members):
                raise self._error(timeout)
            for m in self.members:
                m.show_output()
            return [pickle.loads(m.state[1]) for m in self.members]
        except BaseException:
            self.stop()
            raise

    def _collect(self, end: float, all_of_them: bool = False) -> None:
        """Wait for answers until all are there, one failed, or time is up."""
        while (waiting := [m for m in self.members if m.state is None]) and (
                all_of_them or not any(m.failed for m in self.members)):
            handles = {h: m for m in waiting for h in (m.calls, m.process.sentinel)}
            left = end - time.monotonic()
            ready = connection.wait(handles, min(max(0.0, left), 0.5))   # an interrupt is seen between
            if not ready and left <= 0:
                return
            for m in {handles[h].index: handles[h] for h in ready}.values():
                m.read_state()

    def _error(self, timeout: float) -> ClusterError:
        """The error that names the rank which failed first."""
        died = [m for m in self.members if m.state and m.state[0] == 'died']
        raised = sorted((m for m in self.members if m.state and m.state[0] == 'raised'),
                        key=lambda m: m.state[1])
        busy = [m for m in self.members if m.state is None]
        where = {m: m.stack() for m in busy}
        if died:
            first = died[0]
            message = f'{first} died: {how_it_ended(first.state[1])}'
        elif busy and raised and raised[0].timed_out:
            first = busy[0]     # who waited too long says so; the one it waited for says nothing
            message = f'{first} hangs: others have waited for it too long'
        elif raised:
            first = raised[0]
            message = f'{first} raised {first.state[2]}'
            if all(m.timed_out for m in self.members):
                message = (f'all ranks have waited too long for somebody else: there are '
                           f'{len(self.members)} ranks, and WORLD_SIZE is {self.world}\n{message}')
        else:
            first = busy[0]
            message = f"{' and '.join(map(str, busy))} did not return within {timeout:g} s"
        message += ''.join(f'\n{m} was at: {text}' for m, text in where.items())
        if raised and raised[0] is not first:
            message += f'\n{raised[0]} raised {raised[0].state[2]}'
        return ClusterError(with_log(message, str(first), tail(first.log)), str(first))

    def stop(self) -> None:
        """End every rank and remove the logs. May be called again."""
        self._stop()

    def __enter__(self) -> 'Ranks':
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def run(function: str | Callable, ranks: int, *args: Any, timeout: float = 120.0, **how: Any) -> list:
    """Start ranks, call a function in each, stop them, and return the results in rank order.

    ``how`` is for :class:`Ranks`; the rest is as for :meth:`Ranks.run`.
    """
    with Ranks(ranks, **how) as group:
        return group.run(function, *args, timeout=timeout)


class _Rank:
    """One rank as its starter sees it. ``state`` is None while it works."""

    def __init__(self, context: Any, index: int, environment: dict[str, str], folder: Path) -> None:
        self.index, self.log, self.out = index, folder / f'{index}.log', folder / f'{index}.out'
        self.state: tuple | None = None
        self._shown = 0
        # Two pipes: calls and results, and one on which a thread answers whatever the rank does.
        self.calls, calls = context.Pipe()
        self.questions, questions = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(calls, questions, environment, str(self.out), str(self.log)))
        self.process.daemon = True
        with _no_main():
            self.process.start()
        calls.close()
        questions.close()

    def __str__(self) -> str:
        return f'rank {self.index}'

    @property
    def failed(self) -> bool:
        return self.state is not None and self.state[0] != 'returned'

    @property
    def timed_out(self) -> bool:
        return self.failed and self.state[0] == 'raised' and bool(TIMEOUT.search(self.state[2]))

    def read_state(self) -> None:
        try:
            self.state = pickle.loads(self.calls.recv_bytes())
        except (EOFError, OSError):
            self.process.join(5)
            self.state = 'died', self.process.exitcode or 0

    def stack(self) -> str:
        """Where the rank is now, innermost frames first."""
        with contextlib.suppress(OSError, EOFError):
            self.questions.send_bytes(b'where are you?')
            if self.questions.poll(1):
                return self.questions.recv_bytes().decode()
        return 'no answer'

    def show_output(self) -> None:
        text = self.out.read_bytes()[self._shown:]
        self._shown += len(text)
        for line in text.decode(errors='replace').splitlines():
            print(f'[{self}] {line}')


def _stop_ranks(members: list[_Rank], folder: Path) -> None:
    for m in members:
        m.process.kill()
    for m in members:
        m.process.join()
        m.calls.close()
        m.questions.close()
        m.process.close()
    shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _context(preload: tuple[str, ...]) -> Any:
    """Ranks are forked from a clean process that has imported much already, or start anew.

    A fork of this process itself would hang: its threads for OpenMP do not survive a fork.
    """
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context('forkserver' if 'forkserver' in methods else 'spawn')
    if 'forkserver' in methods:
        context.set_forkserver_preload(list(preload))
    return context


@contextlib.contextmanager
def _no_main():
    """Keep a new process from running our main script again: no rank needs it."""
    main = sys.modules['__main__']
    sys.modules['__main__'] = types.ModuleType('__main__')
    try:
        yield
    finally:
        sys.modules['__main__'] = main


def _serve(calls: connection.Connection, questions: connection.Connection,
           environment: dict[str, str], out: str, log: str) -> None:
    """What a rank does: call what it is told, and answer, until its starter is gone."""
    die_with_parent()       # the parent is the fork server, which ends when our starter does
    threading.Thread(target=_answer, args=(questions,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)    # the starter is interrupted, and ends us
    for path, number in ((out, 1), (log, 2)):       # of libraries in C++ as well
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = open(1, 'w', buffering=1, closefd=False, encoding='utf8')
    sys.stderr = open(2, 'w', buffering=1, closefd=False, encoding='utf8')
    os.environ.update(environment)
    sys.dont_write_bytecode = True      # a module that changes twice in a second has one time stamp
    known: dict[str, int] = {}
    while True:
        try:
            name, sys.path[:], versions, args = pickle.loads(calls.recv_bytes())
        except (EOFError, OSError):
            return
        if any(versions[w] != v for w, v in known.items()):
            for worker in known:        # all of them: they may import names from each other
                sys.modules.pop(worker, None)
        known = versions
        try:
            module, function = name.split(':')
            target = functools.reduce(getattr, function.split('.'), importlib.import_module(module))
            answer = 'returned', pickle.dumps(target(*pickle.loads(args)))
        except BaseException as e:
            traceback.print_exception(type(e), e, e.__traceback__.tb_next)     # without this frame
            answer = 'raised', time.time(), ''.join(traceback.format_exception_only(e)).strip()
        sys.stdout.flush()
        calls.send_bytes(pickle.dumps(answer))


def _answer(questions: connection.Connection) -> None:
    """Say where the main thread is whenever asked; without a starter, end the rank."""
    main = threading.main_thread().ident
    while True:
        try:
            questions.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)
        frames = reversed(traceback.extract_stack(sys._current_frames()[main]))
        frames = itertools.takewhile(lambda f: f.filename != __file__, frames)
        lines = (f'{Path(f.filename).name}:{f.lineno} in {f.name}' for f in frames)
        questions.send_bytes((' ← '.join(itertools.islice(lines, 5)) or 'idle').encode())


_workers: Path | None = None
_versions: dict[str, int] = {}     # how often each worker has changed


def define_worker(name: str, source: str) -> types.ModuleType:
    """Make source a module that this process and its ranks can import. A later one replaces it.

    Ranks that run already take over the new source with their next call; what worker modules
    have kept in memory is lost then.

    Raises:
        ValueError: the name is no identifier, or belongs to another module.
    """
    global _workers
    if not name.isidentifier():
        raise ValueError(f'a worker needs a name such as "step", not {name!r}')
    if _workers is None:
        _workers = new_folder()
        weakref.finalize(define_worker, shutil.rmtree, _workers, True)      # when this process ends
        sys.path.insert(0, str(_workers))
    path = _workers / f'{name}.py'
    if not path.exists() and (name in sys.modules or importlib.util.find_spec(name)):
        raise ValueError(f'there is a module {name!r} already: give the worker another name')
    if not path.exists() or path.read_text(encoding='utf8') != source:
        _versions[name] = _versions.get(name, 0) + 1
    path.write_text(source, encoding='utf8')
    importlib.invalidate_caches()
    module = types.ModuleType(name)
    module.__file__ = str(path)
    module.__spec__ = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module
    exec(compile(source, str(path), 'exec'), module.__dict__)
    return module


def _worker_magic(line: str, cell: str) -> None:
    """``%%worker NAME``: make the cell a module, and its names known in the notebook."""
    from IPython import get_ipython
    names = vars(define_worker(line.strip(), cell))
    get_ipython().push({k: v for k, v in names.items()
                        if not k.startswith('_') and not isinstance(v, types.ModuleType)})


def _register_magic() -> None:
    if 'IPython' in sys.modules:
        shell = sys.modules['IPython'].get_ipython()
        if shell is not None:
            shell.register_magic_function(_worker_magic, 'cell', 'worker')


if __name__ == '__main__':
    _guard(int(sys.argv[1]), sys.argv[2:])
else:
    _register_magic()
