"""Disk, loopback and calls: what lies beyond the core. Knows no framework, needs no root."""

import contextlib
import mmap
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from d2l_local.hardware.sampler import Figure, figure, sample

MIB = 2 ** 20
WORDS = ('device', 'gradient', 'batch', 'the', 'of', 'a', 'waits', 'for', 'memory', 'and', 'then',
         'operator', 'sends', 'its', 'parameters', 'to', 'next', 'layer', 'cache', 'queue')
DISK_BYTES = 128 * MIB       # what the disk test writes, at most twice


class NotHere(Exception):
    """This machine cannot show the figure; the message says why, and what would help."""


# --- disk -----------------------------------------------------------------------------------------

def _mount(folder: str) -> tuple[str, str]:
    """Name of the device and of the file system that hold a folder; empty where unknown."""
    device = os.stat(folder).st_dev
    number = f'{os.major(device)}:{os.minor(device)}' if hasattr(os, 'major') else ''
    with contextlib.suppress(OSError):
        for line in Path('/proc/self/mountinfo').read_text().splitlines():
            before, after = line.split(' - ')
            if before.split()[2] == number:
                kind, name = after.split()[:2]
                return name, kind
    return '', ''


class Disk:
    """A file of at most 128 MiB in a temporary folder, read and written around the system's cache.

    Its name is removed as soon as it is open, so that nothing can be left behind; its room is
    free again after ``close()``, the end of a ``with`` block, or the end of the process.

    Raises:
        NotHere: no room, a folder that lives in memory, or a system that cannot go around its cache.
    """

    def __init__(self, n_bytes: int = DISK_BYTES, folder: str | None = None) -> None:
        folder = folder or tempfile.gettempdir()
        self.device, kind = _mount(folder)
        hint = 'set TMPDIR to a folder on a disk'
        if kind in ('tmpfs', 'ramfs'):
            raise NotHere(f'the temporary folder {folder} lives in memory: {hint}')
        if shutil.disk_usage(folder).free < 4 * n_bytes:
            raise NotHere(f'less than {4 * n_bytes // MIB} MiB are free in {folder}: {hint}')
        if not (hasattr(os, 'O_DIRECT') or sys.platform == 'darwin'):
            raise NotHere('this system offers no way around its cache')
        self.size, self._files = n_bytes, contextlib.ExitStack()
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

    def __enter__(self) -> 'Disk':
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def places(self, block: int, n: int, random_order: bool = True) -> list[int]:
        """Offsets of ``n`` blocks in the file, in random order or one after the other."""
        slots = self.size // block
        if not random_order:
            begin = random.randrange(slots)
            return [(begin + i) % slots * block for i in range(n)]
        return [random.randrange(slots) * block for _ in range(n)]

    def times(self, block: int, n: int, *, random_order: bool = True, write: bool = False,
              cached: bool = False) -> list[float]:
        """Seconds that each of ``n`` reads (or writes) of ``block`` bytes takes."""
        move = os.pwritev if write else os.preadv
        file, found = (self._cached if cached else self._file), []
        with mmap.mmap(-1, block) as buffer:          # begins at a page, as going around the cache asks
            for place in self.places(block, n, random_order):
                begin = time.perf_counter()
                if move(file, [buffer], place) != block:
                    raise OSError('the disk moved fewer bytes than it was asked for')
                found.append(time.perf_counter() - begin)
        return found

    def reads_at_once(self, depth: int, n: int, block: int = 4096) -> float:
        """Seconds for each of ``n`` random reads when ``depth`` of them are always under way."""
        begin = time.perf_counter()
        with ThreadPoolExecutor(depth) as pool:
            list(pool.map(lambda _: self.times(block, n // depth), range(depth)))
        return (time.perf_counter() - begin) / (n // depth * depth)


# --- sockets --------------------------------------------------------------------------------------

_ECHO = '''
import os, socket, sys
kind, core, patience = sys.argv[1], int(sys.argv[2]), 20
if core >= 0:
    os.sched_setaffinity(0, {core})
s = socket.socket(socket.AF_INET, getattr(socket, kind))
s.settimeout(patience)
s.bind(('127.0.0.1', 0))
if kind == 'SOCK_STREAM':
    s.listen(1)
print(s.getsockname()[1], flush=True)
if kind == 'SOCK_STREAM':
    s, _ = s.accept()
    s.settimeout(patience)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := s.recv(65536):
        s.sendall(data)
else:
    while True:
        data, who = s.recvfrom(65536)
        s.sendto(data, who)
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
    before = os.sched_getaffinity(0) if core is not None else None
    child = subprocess.Popen([sys.executable, '-c', _ECHO, kind.name, str(-1 if core is None else core)],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    s = socket.socket(socket.AF_INET, kind)
    try:
        port = child.stdout.readline()
        if not port:
            raise NotHere('the process at the other end of the loopback did not start')
        s.settimeout(20)
        s.connect(('127.0.0.1', int(port)))
        if protocol == 'TCP':
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if core is not None:
            os.sched_setaffinity(0, {core})
        yield s
    finally:
        if before:
            os.sched_setaffinity(0, before)
        s.close()
        child.kill()
        child.wait()
        child.stdout.close()


def round_trip(protocol: str = 'TCP', n_bytes: int = 64, same_core: bool = False,
               budget: float = 0.2) -> Figure:
    """Seconds for a message of ``n_bytes`` to another process and back over the loopback.

    It never leaves this machine: this is the cost of the system's network code, not of Ethernet.

    Raises:
        NotHere: both ends were to run on the same core, and this system cannot bind a process.
    """
    if same_core and not hasattr(os, 'sched_setaffinity'):
        raise NotHere('this system cannot bind a process to a core')
    core = min(os.sched_getaffinity(0)) if same_core else None
    message = bytes(n_bytes)
    with echo(protocol, core) as s:
        def trips(n: int) -> None:
            for _ in range(n):
                s.send(message)
                got = 0
                while got < n_bytes:
                    got += len(s.recv(65536))
        return sample(trips, 'median', budget=budget, first=16)


def send_in_pieces(piece: int, total: int = MIB) -> int:
    """Send ``total`` bytes through a pair of sockets of this process, ``piece`` bytes at a time.

    Returns:
        The bytes that arrived.
    """
    a, b = socket.socketpair()
    arrived, data = 0, bytes(piece)
    with a, b:
        a.setblocking(False)
        for begin in range(0, total, piece):    # the last piece may be shorter
            rest = memoryview(data)[:total - begin]
            while rest:                         # a large piece fills the socket's buffer several times
                sent = a.send(rest)
                rest = rest[sent:]
                while sent:
                    got = len(b.recv(min(sent, 2 ** 18)))
                    sent, arrived = sent - got, arrived + got
    return arrived


# --- calls ----------------------------------------------------------------------------------------

def _nothing() -> None:
    """What the cheapest call does."""


def python_call(budget: float = 0.05) -> Figure:
    """Seconds for calling a Python function that does nothing, in a loop."""
    def calls(n: int) -> None:
        for _ in range(n):
            _nothing()
    return sample(calls, budget=budget)


def numpy_add(budget: float = 0.05) -> Figure:
    """Seconds for adding two NumPy arrays of one number: what a call costs before any work."""
    x, y = np.ones(1, np.float32), np.ones(1, np.float32)

    def adds(n: int) -> None:
        for _ in range(n):
            np.add(x, y)
    return sample(adds, budget=budget)


def snappy(budget: float = 0.1) -> Figure:
    """Seconds for compressing 1 KiB of text, ordinary words in random order, with Snappy.

    Raises:
        NotHere: the package cramjam is missing.
    """
    try:
        import cramjam
    except ImportError:
        raise NotHere('the package cramjam is not installed') from None
    words = random.Random(0).choices(WORDS, k=400)
    text = ' '.join(words).encode()[:1024]

    def compress(n: int) -> None:
        for _ in range(n):
            cramjam.snappy.compress_raw(text)
    return sample(compress, budget=budget)


def _writes(disk: Disk) -> list[float]:
    """Times of random writes, without the first ones, which often take longer; all on a slow drive."""
    first = disk.times(4096, 200, write=True)
    return first if sum(first) > 1 else disk.times(4096, 800, write=True)


def disk_figures() -> dict[str, Figure]:
    """Seconds for the rows of the latency table that a disk can show; p99 of the random reads too.

    Raises:
        NotHere: see :class:`Disk`.
    """
    with Disk() as disk:
        reads = disk.times(4096, 500)
        found = {'read 4 KB': figure(reads, 'median'),
                 'write 4 KB': figure(_writes(disk), 'median'),
                 'read 1 MB': figure(disk.times(MIB, 60, random_order=False), 'median')}
        p99 = float(np.quantile(reads, 0.99))
        found['read 4 KB, p99'] = Figure(p99, p99, p99, len(reads))
        for _ in range(2):                          # the first pass brings the file into the cache
            cached = disk.times(MIB, 120, random_order=False, cached=True)
        found['read 1 MB from the page cache'] = figure(cached, 'median')
    return found
