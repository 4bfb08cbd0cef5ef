"""What runs in a member of a group: calls of functions, until its starter is gone. No framework."""

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import os
import pickle
import signal
import socket
import struct
import sys
import time
import traceback
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn

# What this process is, if it is a member: its way to the starter, what each call gets first, and its number.
here = types.SimpleNamespace(calls=None, first=(), number=0)


def report(value: Any) -> None:
    """Called in a member: tell the starter something before the function returns."""
    answer('reported', value)


def answer(what: str, value: Any) -> None:
    """Tell the starter that this member has ``'reported'``, ``'returned'`` or ``'raised'`` a value."""
    here.calls.send((here.number, what, time.time(), value))


def traffic() -> dict[str, tuple[int, int]]:
    """Bytes that this process has sent to each address and port over TCP, and received from it.

    From the kernel's own counters (``TCP_INFO`` of Linux 4.19 and later), without headers and
    without what was sent again; empty on other systems.
    """
    if sys.platform != 'linux':
        return {}
    peers: dict[str, tuple[int, int]] = {}
    for name in os.listdir('/proc/self/fd'):
        with contextlib.suppress(OSError):      # no socket, or one without a peer
            if not os.readlink(f'/proc/self/fd/{name}').startswith('socket:'):
                continue
            with socket.socket(fileno=os.dup(int(name))) as s:
                if s.family not in (socket.AF_INET, socket.AF_INET6):
                    continue
                host, port = s.getpeername()[:2]
                info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 216)
            received, = struct.unpack_from('Q', info, 128)
            sent, again = struct.unpack_from('QQ', info, 200)
            out, back = peers.get(f'{host}:{port}', (0, 0))
            peers[f'{host}:{port}'] = out + sent - again, back + received
    return peers


def die_with_parent(parent: int | None = None) -> None:
    """Let the system end this process when its parent ends (Linux; elsewhere nothing happens).

    Args:
        parent: end at once if it has ended already.
    """
    if sys.platform == 'linux':
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)     # PR_SET_PDEATHSIG
        if parent not in (None, os.getppid()):
            os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of what processes below this one leave when they end (Linux; nothing elsewhere)."""
    if sys.platform == 'linux':
        ctypes.CDLL(None).prctl(36, 1)      # PR_SET_CHILD_SUBREAPER; a fork does not have it, a program has


def resolve(name: str) -> Callable:
    """The function that is called ``'module:name'``."""
    module, function = name.split(':')
    return functools.reduce(getattr, function.split('.'), importlib.import_module(module))


def run(calls: Connection, parent: int | None = None) -> NoReturn:
    """Become what the starter describes, a program or one that calls functions, until it is gone."""
    try:
        environment, folder, out, log, program = calls.recv()
        die_with_parent(parent)     # the template, which ends when the starter does
        adopt_orphans()
        for path, number in ((out, 1), (log, 2)):       # of libraries in C++ as well
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
        with contextlib.suppress(OSError):      # it may be gone
            os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        if program:
            for name in ('SIGPIPE', 'SIGXFSZ'):     # Python ignores them, and programs would
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            os.execvp(program[0], program)
        sys.stdout = open(1, 'w', buffering=1, closefd=False, encoding='utf8')
        sys.stderr = open(2, 'w', buffering=1, closefd=False, encoding='utf8')
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # the starter is interrupted, and ends us
        if hasattr(faulthandler, 'register'):
            places = open(f'{log}.places', 'w')
            faulthandler.register(signal.SIGUSR1, places, all_threads=False)
        here.calls = calls
        _serve()
    except BaseException:
        traceback.print_exc()
        os._exit(1)     # as below: to leave the frames may free what waits for other members
    os._exit(0)


def _serve() -> None:
    sys.dont_write_bytecode = True      # a module that changes twice in a second has one time stamp
    known: dict[str, int] = {}
    while True:
        try:
            here.number, name, sys.path[:], versions, args = pickle.loads(here.calls.recv_bytes())
        except (EOFError, OSError):
            return
        if any(versions[w] != v for w, v in known.items()):
            for worker in known:        # all of them: they may import names from each other
                sys.modules.pop(worker, None)
        known = versions
        importlib.invalidate_caches()
        try:
            said = 'returned', pickle.dumps(resolve(name)(*here.first, *pickle.loads(args)))
        except BaseException as e:
            traceback.print_exception(type(e), e, e.__traceback__.tb_next)     # without this frame
            said = 'raised', ''.join(traceback.format_exception_only(e)).strip()
        sys.stdout.flush()
        answer(*said)
