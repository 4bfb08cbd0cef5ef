"""Caches and memory: the latency staircase, its edges, strides, bandwidth. Knows no framework."""

import functools
import itertools
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from d2l_local import machine
from d2l_local.hardware import kernels
from d2l_local.hardware.sampler import Figure, sample

KIB, MIB = 2 ** 10, 2 ** 20


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


@functools.lru_cache(8)
def ring(n_bytes: int) -> kernels.Ring:
    """A ring of cache lines in random order, kept for the next experiment of the same size."""
    if n_bytes * 1.5 > machine.free_memory():
        raise MemoryError(f'a working set of {n_bytes / MIB:.0f} MiB does not fit into the free memory: '
                          'close other programs or take a smaller set')
    return kernels.Ring(n_bytes)


def latency(n_bytes: int, budget: float = 0.1) -> Figure:
    """Seconds from a load to the next that needs it, in a working set of ``n_bytes``.

    The least of the samples while the set fits into a core's own caches, the median beyond.
    """
    own = reported_caches().get('L2', MIB)
    r = ring(n_bytes)
    r.chase(min(r.slots, 4_000_000))        # every line touched once
    return sample(r.chase, 'least' if n_bytes <= own // 2 else 'median', budget=budget)


def sizes(largest: int = 256 * MIB, per_octave: int = 2) -> list[int]:
    """Working sets from 4 KiB to ``largest``, whole cache lines, ``per_octave`` to each doubling."""
    steps = round(np.log2(largest / 4 / KIB) * per_octave)
    return [round(4 * KIB * 2 ** (i / per_octave) / kernels.LINE) * kernels.LINE
            for i in range(steps + 1)]


def staircase(working_sets: Sequence[int] | None = None, budget: float = 0.05) -> dict[int, Figure]:
    """Latency for each working set in bytes, smallest first."""
    largest = min(256 * MIB, machine.free_memory() // 4)
    return {s: latency(s, budget) for s in sorted(working_sets or sizes(largest))}


def edges(stairs: dict[int, Figure], rise: float = 1.35) -> list[tuple[int, int]]:
    """Where a staircase climbs: for each rise the last working set on the lower tread and the first
    on the upper one, in bytes. A cache ends in between.

    Unsteady figures are left out. A tread is a run of sizes between which the latency grows by less
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


def stride_times(strides: Sequence[int], n_bytes: int = 64 * MIB,
                 budget: float = 0.08) -> dict[int, Figure]:
    """Seconds for each word read, by the distance in bytes from word to word, in ``n_bytes``."""
    data = kernels.aligned(n_bytes)
    base, mask = data.ctypes.data, n_bytes - 1
    data[::4096] = 1                         # so that the system really hands out the pages
    return {s: sample(lambda n, s=s: kernels.stride_sum(base, mask, s, n), 'median', budget=budget)
            for s in strides}


def misaligned(offsets: Sequence[int], rotate: bool = True, window: int = 4 * MIB, windows: int = 16,
               budget: float = 0.08) -> dict[int, Figure]:
    """Seconds for each word of eight bytes, read one after the other from memory, by the distance in
    bytes of the first one from the beginning of a line.

    Args:
        rotate: each pass reads the next of ``windows`` windows of ``window`` bytes, and each offset
            goes on where the one before it stopped, so that none finds in a cache what another one
            brought. If False all read the same window: the first offset pays for bringing it, and
            the others seem to be faster than they are.
    """
    data = kernels.aligned(window * windows + kernels.LINE)
    data[::4096] = 1                         # so that the system really hands out the pages
    base, passes, n_words = data.ctypes.data, itertools.count(), window // 8

    def scan(offset: int, n: int) -> None:
        for _ in range(n):
            kernels.words(base + next(passes) % windows * window * rotate + offset, n_words)
    found = {}
    for offset in offsets:
        f = sample(functools.partial(scan, offset), 'median', budget=budget, first=1)
        found[offset] = Figure(f.value / n_words, f.low / n_words, f.high / n_words, f.samples)
    return found


STREAM_BYTES = {'copy': 16, 'scale': 16, 'add': 24, 'triad': 24}


def bandwidth(kind: str = 'triad', threads: int = 1, n_bytes: int | None = None,
              budget: float = 0.15) -> Figure:
    """Seconds for each byte that STREAM's ``kind`` moves between arrays of ``n_bytes`` and a core.

    As STREAM does, it counts the bytes that the program names, not those that a cache moves besides,
    and takes the best pass: neighbours only take bandwidth away.

    Args:
        n_bytes: of each array; by default 128 MiB, or 64 on a small machine: arrays that fit into a
            large last cache would show the cache, and how much of it the neighbours leave.
        threads: each works on its own part of the arrays.
    """
    n_bytes = n_bytes or (128 if machine.free_memory() > 4 * 2 ** 30 else 64) * MIB
    kernel, size = getattr(kernels, f'stream_{kind}'), n_bytes // 8 // threads
    parts = [tuple(np.full(size, float(i)) for i in range(3)) for _ in range(threads)]
    kernel(*(x[:8] for x in parts[0]), 0.5)               # compiles
    with ThreadPoolExecutor(threads) as pool:
        def once(n: int) -> None:
            for _ in range(n):
                list(pool.map(lambda p: kernel(*p, 0.5), parts))
        f = sample(once, 'least', budget=budget, first=1)
    moved = STREAM_BYTES[kind] * size * threads
    return Figure(f.value / moved, f.low / moved, f.high / moved, f.samples)
