"""Caches and memory: the latency staircase, its edges, strides, bandwidth. Knows no framework."""

import contextlib
import functools
import mmap
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from hardware_lab import KIB, MIB, NotHere, kernels
from tested_results import machine
from tested_results.conditions import condition
from tested_results.kernels import time_kernel
from tested_results.timing import Time


def reported_caches() -> dict[str, int]:
    """Bytes of the data caches that the system reports for core 0, by level; empty if it reports none.

    Linux: /sys/devices/system/cpu/cpu0/cache; macOS: sysctl. In a virtual machine the last level is
    what the hypervisor says, which may be shared with other machines or not be there at all.
    """
    found = {}
    for index in sorted(Path('/sys/devices/system/cpu/cpu0/cache').glob('index*')):
        try:
            kind, level, size = ((index / f).read_text().strip() for f in ('type', 'level', 'size'))
        except OSError:
            continue
        if kind != 'Instruction':
            found[f'L{level}'] = int(size[:-1]) * {'K': KIB, 'M': MIB}[size[-1]]
    if sys.platform == 'darwin':
        for level, name in (('L1', 'l1dcachesize'), ('L2', 'l2cachesize'), ('L3', 'l3cachesize')):
            out = subprocess.run(['sysctl', '-n', f'hw.{name}'], capture_output=True, text=True).stdout
            if out.strip().isdigit() and int(out):
                found[level] = int(out)
    return found


_nodes = Path('/sys/devices/system/node')


def nodes() -> list[set[int]]:
    """The cores of each NUMA node on which this process may run; a single one where none are told."""
    own, found = machine.own_cores(), []
    for place in sorted(_nodes.glob('node[0-9]*')):
        try:
            listed = (place / 'cpulist').read_text().strip()
        except OSError:
            continue
        parts = [p.split('-') for p in listed.split(',') if p]
        cores = {c for part in parts for c in range(int(part[0]), int(part[-1]) + 1)} & set(own)
        if cores:
            found.append(cores)
    return found or [set(own)]


def across(n_bytes: int) -> Time:
    """As :func:`latency`, from a core of one NUMA node to memory of another.

    Raises:
        NotHere: this process may run on one node only, or not choose its cores.
    """
    if len(found := nodes()) < 2:
        raise NotHere('one NUMA node: it takes a machine with two, or a process that may run on both')
    first, second = found[:2]
    before = os.sched_getaffinity(0)
    try:
        _bind(first)                            # who writes a page first has it on the own node
        far = kernels.Ring(n_bytes)
        _bind(second)
        return time_kernel(far.chase, 'median')
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


def _bind(cores: set[int]) -> None:
    """Let this thread run on these cores alone; raises NotHere where the system forbids it."""
    try:
        os.sched_setaffinity(0, cores)
    except OSError:
        raise NotHere('this system does not let the program choose its cores: start it without a CPU '
                      'limit, or with numactl') from None


HUGE = 2 * MIB      # bytes of a huge page on x86, and on Arm with pages of 4 KiB
_permits = Path('/sys/kernel/mm/transparent_hugepage/enabled')
_mappings = Path('/proc/self/smaps')
NO_HUGE = ('this system grants no huge pages: as administrator, write madvise to '
           '/sys/kernel/mm/transparent_hugepage/enabled, or run outside the container')


def _room(n_bytes: int, huge: bool) -> np.ndarray:
    """Memory that begins at a huge page and asks for such, or for none; NotHere if they are refused."""
    private = {} if sys.platform == 'win32' else {'flags': mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    raw = mmap.mmap(-1, n_bytes + 2 * HUGE, **private)
    try:
        raw.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    except (OSError, AttributeError):       # refused, or a system that knows no such advice
        if huge:
            raise NotHere(NO_HUGE) from None
    room = np.frombuffer(raw, np.uint8)
    start = -room.ctypes.data % HUGE
    return room[start:start + n_bytes + HUGE]


def paged_ring(n_bytes: int, huge: bool) -> kernels.Ring:
    """A ring through pages of 2 MiB, or of the usual size.

    How many huge pages it was granted, :func:`in_huge_pages` says.

    Raises:
        NotHere: the system refuses huge pages.
    """
    _fits(2 * n_bytes)
    return kernels.Ring(n_bytes, memory=_room(n_bytes, huge))


def in_huge_pages(room: np.ndarray) -> int | None:
    """Bytes of this memory that lie in huge pages, as Linux says; None where it does not tell."""
    try:
        listed = _mappings.read_text()
    except OSError:
        return None
    inside = False
    for line in listed.splitlines():
        if ends := re.match(r'([0-9a-f]+)-([0-9a-f]+) ', line):
            first, last = (int(x, 16) for x in ends.groups())
            inside = first <= room.ctypes.data < last
        elif inside and line.startswith('AnonHugePages:'):
            return min(int(line.split()[1]) * KIB, room.nbytes)
    return None


@condition('huge pages', system=True)
def _no_huge_pages() -> str:
    """Why no huge pages are granted; empty if one is."""
    try:
        if '[never]' in _permits.read_text():
            return NO_HUGE
        room = _room(2 * HUGE, huge=True)
    except (OSError, NotHere):
        return NO_HUGE
    room[::4 * KIB] = 1             # the system hands a page out when it is written
    return NO_HUGE if in_huge_pages(room) == 0 else ''


condition('cache sizes', system=True)(
    lambda: '' if 'L1' in reported_caches() else 'the system reports no cache sizes here')


@functools.lru_cache(8)
def ring(n_bytes: int) -> kernels.Ring:
    """A ring of cache lines in random order, kept for the next experiment of the same size."""
    _fits(n_bytes)
    return kernels.Ring(n_bytes)


def _fits(n_bytes: int) -> None:
    if n_bytes * 1.5 > machine.free_memory():
        raise MemoryError(f'a working set of {n_bytes / MIB:.0f} MiB does not fit into the free memory: '
                          'close other programs or take a smaller set')


def latency(n_bytes: int, budget: float = 0.1) -> Time:
    """Time from a load to the next that needs it, in a working set of ``n_bytes``.

    The least of the samples while the set fits into a core's own caches, the median beyond.
    """
    r, own = ring(n_bytes), reported_caches().get('L2', MIB) // 2
    r.chase(min(r.slots, 4_000_000))        # every line touched once
    return time_kernel(r.chase, 'least' if n_bytes <= own else 'median', budget=budget)


def sizes(largest: int = 256 * MIB) -> list[int]:
    """Working sets from 4 KiB to ``largest``, whole cache lines, two to each doubling."""
    octaves = np.arange(0, np.log2(largest / 4 / KIB) + 0.1, 0.5)
    return [round(4 * KIB * 2 ** i / kernels.LINE) * kernels.LINE for i in octaves]


def staircase(working_sets: Sequence[int] | None = None, budget: float = 0.05) -> dict[int, Time]:
    """Latency for each working set in bytes, smallest first."""
    working_sets = working_sets or sizes(min(256 * MIB, machine.free_memory() // 4))
    return {s: latency(s, budget) for s in sorted(working_sets)}


def edges(stairs: dict[int, Time], rise: float = 1.35) -> list[tuple[int, int]]:
    """Where a staircase climbs: for each rise the last working set on the lower level and the first
    on the upper one, in bytes. A cache ends in between.

    Unsteady figures are left out. A level is a run of sizes between which the latency grows by less
    than an eighth a step; a rise counts from a factor of ``rise`` on. A fuzzy edge, as that of a
    shared cache, is a wide pair.
    """
    steady = {s: f.value for s, f in stairs.items() if f.steady}
    at, values = list(steady), list(steady.values())
    found, i = [], 0
    while i < len(at) - 1:
        j = i
        while j < len(at) - 1 and values[j + 1] > 1.125 * values[j]:
            j += 1
        if values[j] >= rise * values[i]:
            found.append((at[i], at[j]))
        i = max(j, i + 1)
    return found


def third_level(stairs: dict[int, Time]) -> Time:
    """Latency on the level between the second and the third edge of a staircase, in the middle of it.

    Raises:
        NotHere: the staircase has no third edge, so its last level may be memory.
    """
    found = edges(stairs)
    if len(found) < 3:
        raise NotHere('the staircase has no level between the second cache and memory here')
    begin, end = found[1][1], found[2][0]
    level = [f for size, f in stairs.items() if begin <= size <= end and f.steady]
    return level[len(level) // 2]


def streams(threads: int = 1, n_bytes: int | None = None) -> list[tuple[np.ndarray, ...]]:
    """Three arrays of float64 for each thread, for one of STREAM's loops.

    Args:
        threads: each gets its own part of the arrays.
        n_bytes: of each array, all parts together. By default three of them fill four times the last cache,
            but no more than a quarter of the free memory, and each has at least 128 MiB, or 64 on a small
            machine: arrays that fit into the cache would show it, and how much of it the neighbours leave.
    """
    free, cache = machine.free_memory(), max(reported_caches().values(), default=0)
    least = (128 if free > 4 * 2 ** 30 else 64) * MIB
    size = (n_bytes or max(least, min(4 * cache // 3, free // 12))) // 8 // threads
    return [tuple(np.full(size, float(i)) for i in range(3)) for _ in range(threads)]


def bandwidth(loop: Callable = kernels.stream_triad, bytes_each: int = 24, threads: int = 1,
              n_bytes: int | None = None, budget: float = 0.15) -> Time:
    """Time for each byte that one of STREAM's loops moves between arrays of ``n_bytes`` and a core.

    As STREAM does, it counts the bytes that the program names, not those that a cache moves besides,
    and takes the best pass: neighbours only take bandwidth away.

    Args:
        loop: compiled; it takes three arrays of float64 and a number.
        bytes_each: what it moves for each number of an array.
        threads, n_bytes: as for :func:`streams`; each thread works on its own part of the arrays.
    """
    parts = streams(threads, n_bytes)
    size = parts[0][0].size
    with ThreadPoolExecutor(threads) as pool:
        def once(n: int) -> None:
            for _ in range(n):
                list(pool.map(lambda p: loop(*p, 0.5), parts))
        return time_kernel(once, 'least', budget=budget, first=1) / (bytes_each * size * threads)
