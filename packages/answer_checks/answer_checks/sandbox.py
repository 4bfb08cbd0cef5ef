"""Call what a reader wrote, with a limit to its time and memory that really ends it. No framework.

The call runs in a fork of this process, so that it sees all that the reader defined. The fork is
ended when it has answered, when its time is over, on Ctrl-C, and on the death of its parent.
"""

import ctypes
import io
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

FORKS = hasattr(os, 'fork')
SHORT = "can't allocate memory", 'not enough memory', 'out of memory', 'cannot allocate', 'bad_alloc'


def short(error: BaseException) -> bool:
    """Whether an error says that there is no more memory, in Python's words or a framework's."""
    return isinstance(error, MemoryError) or any(s in str(error).lower() for s in SHORT)


def call(work: Callable[[], Any], seconds: float, memory: int) -> tuple[str, Any]:
    """Call ``work`` in a fork of this process; what it prints is dropped.

    Args:
        work: returns something that JSON can hold, and may raise for a lack of memory.
        seconds: the time that it may take.
        memory: the bytes that it may take beside what is there; only Linux keeps this limit.

    Returns:
        ``('returned', value)``, ``('late', seconds)``, ``('memory', bytes)``, or ``('died', how)``.

    Raises:
        OSError: this system cannot fork.
    """
    if not FORKS:
        raise OSError('this system cannot fork a process')
    ours, theirs = os.pipe()
    parent, child = os.getpid(), os.fork()
    if not child:
        _run(work, seconds, memory, theirs, parent)
    os.close(theirs)
    said, ends = b'', time.monotonic() + seconds
    try:
        while not said.endswith(b'\n'):
            if not select.select([ours], [], [], max(0, ends - time.monotonic()))[0]:
                return 'late', seconds
            if not (more := os.read(ours, 65536)):
                break
            said += more
    finally:
        os.close(ours)
        for end in (os.killpg, os.kill):    # the group has what it started, and may not be made yet
            try:
                end(child, signal.SIGKILL)
            except OSError:
                pass
        status = os.waitpid(child, 0)[1]
    if said.endswith(b'\n'):
        return tuple(json.loads(said))
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGALRM:
        return 'late', seconds
    return 'died', f'signal {-code}' if code < 0 else f'exit status {code}'


def _run(work: Callable[[], Any], seconds: float, memory: int, theirs: int, parent: int) -> None:
    """The fork: does the work, answers in a line, and goes."""
    try:
        os.setsid()
        if sys.platform == 'linux':             # the kernel ends it when its parent ends
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)          # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                return                          # it has ended already
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(seconds) + 5)      # ends it also where no parent's death is noticed
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        if 'torch' in sys.modules:          # its other threads stayed behind, and would be waited for
            sys.modules['torch'].set_num_threads(1)
        lift = _limit(memory)
        try:
            said = 'returned', work()
        except Exception as e:
            lift()
            said = ('memory', memory) if short(e) else ('died', repr(e))
        lift()
        os.write(theirs, json.dumps(said).encode() + b'\n')
    finally:
        os._exit(0)


def _limit(memory: int) -> Callable[[], None]:
    """Keep this process to so many more bytes; returns what lifts the limit."""
    if not sys.platform.startswith('linux'):
        return lambda: None
    import resource
    with open('/proc/self/statm') as statm:
        there = int(statm.read().split()[0]) * os.sysconf('SC_PAGE_SIZE')
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = there + memory if hard == resource.RLIM_INFINITY else min(hard, there + memory)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
