"""Call what a reader wrote, with a limit to its time and memory that really ends it. No framework.

The call runs in a fork of this process, so that it sees all that the reader defined, and there in a thread
of its own: OpenMP keeps its threads by the thread that started them, and would wait for ever for those of a
thread that has computed before. A guard between the two processes ends the fork and whatever it has started
when it has answered, when its time is over, on Ctrl-C, and on the death of this process.
"""

import builtins
import contextlib
import ctypes
import io
import json
import logging
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

FORKS = hasattr(os, 'fork')
LINUX = sys.platform.startswith('linux')
SHORT = ("can't allocate memory", 'not enough memory', 'out of memory', 'cannot allocate', 'bad_alloc',
         'failed to map segment', "can't start new thread")
GRACE = 2       # seconds in which a fork that is late may say where it is
PDEATHSIG, SUBREAPER = 1, 36


def short(error: BaseException) -> bool:
    """Whether an error says that there is no more memory, in Python's words or a framework's."""
    return isinstance(error, MemoryError) or any(s in str(error).lower() for s in SHORT)


class Tail(io.TextIOBase):
    """Keeps the end of what is printed, however much that is."""

    def __init__(self, most: int = 2000) -> None:
        self.most, self.kept = most, ''

    def write(self, text: str) -> int:
        self.kept = (self.kept + text[-self.most:])[-self.most:]
        return len(text)

    def writable(self) -> bool:
        return True


def call(work: Callable[[], Any], seconds: float, memory: int,
         where: Callable[[FrameType], str] = lambda frame: '') -> tuple[str, Any, str]:
    """Call ``work`` in a fork of this process.

    Args:
        work: returns something that JSON can hold, and may raise for a lack of memory.
        seconds: the time that it may take.
        memory: the bytes that it may take beside what is there; only Linux keeps this limit.
        where: says in words where a call is that is late, from its innermost frame.

    Returns:
        ``('returned', value)``, ``('late', where it was)``, ``('waits', where it was)`` if it is late and
        computes nothing, ``('memory', bytes)``, or ``('died', how)``; and the end of what it printed.

    Raises:
        OSError: this system cannot fork.
    """
    if not FORKS:
        raise OSError('this system cannot fork a process')
    (ours, theirs), (leash, hand) = os.pipe(), os.pipe()
    parent, guard = os.getpid(), os.fork()
    if not guard:
        os.close(hand)
        _guard(lambda: _run(work, seconds, memory, where, theirs), theirs, leash, parent)
    os.close(theirs)
    os.close(leash)
    said, ends = b'', time.monotonic() + seconds + GRACE
    try:
        with selectors.DefaultSelector() as ready:      # select alone knows 1,024 open files
            ready.register(ours, selectors.EVENT_READ)
            while b'\n' not in said and ready.select(max(0, ends - time.monotonic())):
                if not (more := os.read(ours, 65536)):
                    break
                said += more
    finally:
        with contextlib.suppress(OSError):      # the guard may be gone
            os.write(hand, b'.')        # it ends what there is; another fork may hold this end open
        os.close(hand)
        os.close(ours)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(guard, 0)
    if b'\n' in said:
        return tuple(json.loads(said.split(b'\n')[0]))
    return ('late', '', '') if time.monotonic() >= ends else ('died', 'its guard was ended', '')


def _guard(run: Callable[[], None], theirs: int, leash: int, parent: int) -> None:
    """The process between: starts the fork, says how it died, and leaves nothing of it."""
    worker = 0
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)        # an event loop's, which the parent still reads
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        asked = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: asked.set())
        if LINUX:
            ctypes.CDLL(None).prctl(SUBREAPER, 1)       # a process whose parent ends becomes a child of this
            ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                return
        me, worker = os.getpid(), os.fork()
        if not worker:
            os.setsid()
            if LINUX:
                ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
                if os.getppid() != me:
                    os._exit(1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            run()
        with selectors.DefaultSelector() as ready:
            ready.register(leash, selectors.EVENT_READ)
            while not ready.select(0.05) and not asked.is_set():
                ended, status = os.waitpid(worker, os.WNOHANG)
                if ended:       # after an answer, this line is one too many
                    code = os.waitstatus_to_exitcode(status)
                    how = f'signal {-code}' if code < 0 else f'exit status {code}'
                    os.write(theirs, json.dumps(('died', how, '')).encode() + b'\n')
                    ready.select(GRACE)
                    break
    finally:
        try:
            _end(worker)
        finally:
            os._exit(0)


def _end(worker: int) -> None:
    """End the worker's group and, on Linux, all processes that came from it, wherever they went."""
    deadline = time.monotonic() + 5
    while worker and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            os.killpg(worker, signal.SIGKILL)
        for child in _children() if LINUX else [worker]:        # its group may not be made yet
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _children() -> list[int]:
    """The children of this process, on Linux."""
    found = []
    for name in filter(str.isdigit, os.listdir('/proc')):
        with contextlib.suppress(OSError), open(f'/proc/{name}/stat') as stat:
            if int(stat.read().rpartition(')')[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found


def _run(work: Callable[[], Any], seconds: float, memory: int, where: Callable[[FrameType], str],
         theirs: int) -> None:
    """The fork: does the work in a thread, answers in a line, and goes."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(seconds) + GRACE + 5)      # ends it also where no parent's death is noticed
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    printed = sys.stdout = sys.stderr = Tail()
    builtins.input = _no_input
    logging.disable()       # it goes to the notebook's own channels, which are not this process's
    answered = []

    def answer(how: str, value: Any) -> None:
        if not answered:
            answered.append(True)
            os.write(theirs, json.dumps((how, value, printed.kept)).encode() + b'\n')

    def thread() -> None:
        lift: Callable[[], None] = lambda: None     # noqa: E731
        try:
            _settings()
            lift = _limit(memory)
            said = 'returned', work()
        except BaseException as e:
            lift()
            said = ('memory', memory) if short(e) else ('died', repr(e))
        lift()
        answer(*said)
    threading.stack_size(64 << 20)
    one = threading.Thread(target=thread, name='answer', daemon=True)
    one.start()
    threading.stack_size(0)
    one.join(seconds)
    if one.is_alive() and (frame := sys._current_frames().get(one.ident)):
        at, used = where(frame), time.process_time()
        one.join(GRACE / 4)     # on a busy machine, who computes gets a slice of this
        answer('waits' if time.process_time() - used < 1e-3 else 'late', at)
    os._exit(0)


def _no_input(prompt: object = '') -> str:
    raise EOFError('nobody can type anything into a check')


def _settings() -> None:
    """Frameworks that are there start few threads, and none asks for processes that stayed behind."""
    os.environ['TORCHINDUCTOR_COMPILE_THREADS'] = '1'
    if torch := sys.modules.get('torch'):
        torch.set_num_threads(1)        # of the many that a large machine has, each takes addresses
    if inductor := sys.modules.get('torch._inductor.config'):
        inductor.compile_threads = 1        # the pool that compiles belongs to the parent


def _limit(memory: int) -> Callable[[], None]:
    """Keep this process to so many more bytes; returns what lifts the limit."""
    if not LINUX:
        return lambda: None
    import resource
    with open('/proc/self/statm') as statm:
        there = int(statm.read().split()[0]) * os.sysconf('SC_PAGE_SIZE')
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = there + memory if hard == resource.RLIM_INFINITY else min(hard, there + memory)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
