"""Disk, loopback and calls: what lies beyond the core. Knows no framework, needs no root."""

import contextlib
import functools
import keyword
import mmap
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from hardware_lab import MIB, NotHere, or_reason
from tested_results.conditions import condition
from tested_results.kernels import summarize, time_kernel
from tested_results.timing import Time

DISK_BYTES = 128 * MIB       # what the disk test writes, at most twice

def _file_system(folder: str) -> str:
    """Kind of the file system that holds a folder; empty where unknown."""
    place = Path(folder).resolve()
    mounts = [p for p in psutil.disk_partitions(all=True) if place.is_relative_to(p.mountpoint)]
    return max(reversed(mounts), key=lambda p: len(p.mountpoint)).fstype if mounts else ''


class Disk(contextlib.AbstractContextManager):
    """A file of at most 128 MiB in a temporary folder, read and written around the system's cache.

    Its name is removed as soon as it is open, so that nothing can be left behind; its room is
    free again after ``close()``, the end of a ``with`` block, or the end of the process.

    Raises:
        NotHere: no room, a folder that lives in memory, or a system that cannot go around its cache.
    """

    def __init__(self, n_bytes: int = DISK_BYTES, folder: str | None = None) -> None:
        folder = folder or tempfile.gettempdir()
        hint = 'set TMPDIR to a folder on a disk'
        if _file_system(folder) in ('tmpfs', 'ramfs'):
            raise NotHere(f'the temporary folder {folder} lives in memory: {hint}')
        # for whatever size, since a small one tells whether a usual one can be had
        if shutil.disk_usage(folder).free < 4 * DISK_BYTES:
            raise NotHere(f'less than {4 * DISK_BYTES // MIB} MiB are free in {folder}: {hint}')
        if not (hasattr(os, 'O_DIRECT') or sys.platform == 'darwin'):
            raise NotHere('this system offers no way around its cache')
        self.size, self._files, self._local = n_bytes, contextlib.ExitStack(), threading.local()
        with tempfile.TemporaryDirectory(dir=folder, prefix='d2l-disk-') as room:
            path, piece = Path(room, 'file'), random.Random(0).randbytes(MIB)
            with open(path, 'wb') as f:
                for _ in range(self.size // MIB):
                    f.write(piece)
                f.flush()
                os.fsync(f.fileno())
            try:
                self._file = self._open(path, os.O_RDWR | getattr(os, 'O_DIRECT', 0))
                self._cached = self._open(path, os.O_RDONLY)
                if sys.platform == 'darwin':
                    import fcntl
                    fcntl.fcntl(self._file, fcntl.F_NOCACHE, 1)
                self.times(4096, 1)
            except OSError as e:
                self.close()
                raise NotHere(f'the file system of {folder} does not let a program go around '
                              f'its cache ({e.strerror})') from None

    def _open(self, path: Path, flags: int) -> int:
        file = os.open(path, flags)
        self._files.callback(os.close, file)
        return file

    def close(self) -> None:
        """Give the room back."""
        self._files.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def places(self, block: int, n: int, random_order: bool = True) -> list[int]:
        """Offsets of ``n`` blocks in the file, in random order or one after the other."""
        slots = self.size // block
        begin = random.randrange(slots)
        return [(random.randrange(slots) if random_order else (begin + i) % slots) * block
                for i in range(n)]

    def times(self, block: int, n: int, *, random_order: bool = True, write: bool = False,
              cached: bool = False) -> list[float]:
        """Seconds that each of ``n`` reads (or writes) of ``block`` bytes takes."""
        move = os.pwritev if write else os.preadv
        file, found = (self._cached if cached else self._file), []
        buffer = self._buffer(block)
        for place in self.places(block, n, random_order):
            begin = time.perf_counter()
            if move(file, [buffer], place) != block:
                raise OSError('the disk moved fewer bytes than it was asked for')
            found.append(time.perf_counter() - begin)
        return found

    def _buffer(self, block: int) -> memoryview:
        """Memory of the calling thread, kept from call to call, so that no read pays for fresh pages.

        It begins at a page, as going around the cache asks.
        """
        if block > len(getattr(self._local, 'buffer', b'')):
            self._local.buffer = memoryview(mmap.mmap(-1, block))
            self._local.buffer[::mmap.PAGESIZE] = bytes(-(-block // mmap.PAGESIZE))
        return self._local.buffer[:block]


condition('direct I/O', system=True)(lambda: or_reason(lambda: Disk(MIB).close()) or '')


def disk_figures() -> dict[str, Time]:
    """Time for the rows of the ladder that a disk can show; raises :class:`NotHere` as a Disk does."""
    with Disk() as disk:
        reads = disk.times(4096, 500)
        writes = disk.times(4096, 200, write=True)      # the first ones often take longer
        if sum(writes) < 1:                             # but are all that we ask of a slow drive
            writes = disk.times(4096, 800, write=True)
        large = disk.times(MIB, 60, random_order=False)
        for _ in range(2):                              # the first pass brings the file into the cache
            cached = disk.times(MIB, 120, random_order=False, cached=True)
    found = {'read 4 KB': reads, 'write 4 KB': writes, 'read 1 MB': large,
             'read 1 MB from the page cache': cached}
    return {name: summarize(times, 'median') for name, times in found.items()}

def per_call(f: Callable[[], Any], pick: str = 'least', budget: float = 0.05, first: int = 64) -> Time:
    """Time for each call of ``f`` in a Python loop, the loop included."""
    def calls(n: int) -> None:
        for _ in range(n):
            f()
    return time_kernel(calls, pick, budget=budget, first=first)


def snappy(budget: float = 0.1) -> Time:
    """Time for compressing 1 KiB of text, Python's keywords in random order, with Snappy."""
    import cramjam
    text = ' '.join(random.Random(0).choices(keyword.kwlist, k=400)).encode()[:1024]
    return per_call(functools.partial(cramjam.snappy.compress_raw, text), budget=budget)


_ECHO = '''
import socket, sys
kind = getattr(socket, sys.argv[1])
socket.setdefaulttimeout(20)
s = socket.socket(socket.AF_INET, kind)
s.bind(('127.0.0.1', 0))
if kind == socket.SOCK_STREAM:
    s.listen(1)
print(s.getsockname()[1], flush=True)
if kind == socket.SOCK_STREAM:
    s, _ = s.accept()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
else:
    data, who = s.recvfrom(65536)
    s.connect(who)
    s.send(data)
while data := s.recv(65536):
    s.sendall(data)
'''


@contextlib.contextmanager
def echo(protocol: str = 'TCP', core: int | None = None) -> Iterator[socket.socket]:
    """A socket on 127.0.0.1, whose other end, in a process of its own, sends back what it gets.

    The process ends with the block, and by itself 20 seconds after the last message.

    Args:
        protocol: ``'TCP'`` or ``'UDP'``.
        core: number of the core to which both ends are bound for the time of the block.
    """
    kind = {'TCP': socket.SOCK_STREAM, 'UDP': socket.SOCK_DGRAM}[protocol]
    with contextlib.ExitStack() as undo:
        if core is not None:
            undo.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, {core})          # the child inherits it
        child = subprocess.Popen([sys.executable, '-c', _ECHO, kind.name], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
        undo.enter_context(child)
        undo.callback(child.kill)
        s = undo.enter_context(socket.socket(socket.AF_INET, kind))
        port = child.stdout.readline()
        if not port:
            raise NotHere('the process at the other end of the loopback did not start')
        s.settimeout(20)
        s.connect(('127.0.0.1', int(port)))
        if protocol == 'TCP':
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield s


def round_trip(protocol: str = 'TCP', n_bytes: int = 64, same_core: bool = False,
               budget: float = 0.2) -> Time:
    """Time for a message of ``n_bytes`` to another process and back over the loopback.

    It never leaves this machine: this is the cost of the system's network code, not of Ethernet.

    Raises:
        NotHere: both ends were to run on the same core, and this system cannot bind a process.
    """
    if same_core and not hasattr(os, 'sched_setaffinity'):
        raise NotHere('this system cannot bind a process to a core')
    core = min(os.sched_getaffinity(0)) if same_core else None
    message = bytes(n_bytes)
    with echo(protocol, core) as s:
        def trip() -> None:
            s.send(message)
            got = 0
            while got < n_bytes:
                got += len(s.recv(65536))
        return per_call(trip, 'median', budget, first=16)
