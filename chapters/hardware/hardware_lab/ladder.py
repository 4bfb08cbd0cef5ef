"""The latency ladder: published figures beside this machine's. Knows no framework."""

import functools
from collections.abc import Callable

import numpy as np

from hardware_lab import KIB, MIB, NotHere, core, devices, memory, or_reason
from hardware_lab.devices import per_call
from hardware_lab.figures import Row
from tested_results import machine
from tested_results.timing import Time

NS, US, MS = 1e-9, 1e-6, 1e-3
OTHER = 'not on this machine'
NO_GPU = 'measured in the PyTorch notebook where there is an NVIDIA GPU'
NUMPY_ADD = functools.partial(np.add, np.ones(1, np.float32), np.ones(1, np.float32))


def _other_core() -> Time:
    if reason := machine.no_free_cores():
        raise NotHere(reason)
    return core.line_transfer()


def _at_once(measure: Callable[[], dict[str, Time]]) -> Callable[[str], Time]:
    """A function of a row's name, for rows that are measured together: when the first one is asked.

    The reason why this machine cannot show them is kept as well: no disk is written once more for it.
    """
    found = functools.cache(lambda: or_reason(measure))

    def row(name: str) -> Time:
        if isinstance(figures := found(), str):
            raise NotHere(figures)
        return figures[name]
    return row


def rows(stairs: dict[int, Time] | None = None) -> list[tuple[str, float | None, Callable[[], Time] | str]]:
    """Action, the published seconds, and how to measure it here or why not.

    The published ones are from E. Eshelman's table, after J. Dean's:
    https://gist.github.com/eshelman/343a1c46cb3fba142c1afdcdeec17646

    Args:
        stairs: from :func:`memory.staircase`, which shows the third cache; measured if none are given.
    """
    disk, units = _at_once(devices.disk_figures), _at_once(core.arithmetic)
    counters = 'only hardware counters can tell it from the others'
    return [
        ('L1 cache hit', 1.5 * NS, lambda: memory.latency(16 * KIB)),
        ('floating-point add', 1.5 * NS, lambda: units('add')),
        ('floating-point multiply', 1.5 * NS, lambda: units('multiply')),
        ('floating-point FMA', 1.5 * NS, lambda: units('FMA')),
        ('L2 cache hit', 5 * NS,
         lambda: memory.latency(min(256 * KIB, memory.reported_caches().get('L2', MIB) // 2))),
        ('branch mispredicted', 6 * NS, core.mispredict),
        ('L3 cache hit, not shared', 16 * NS,
         lambda: memory.third_level(stairs or memory.staircase())),
        ('L3 cache hit, shared with another core', 25 * NS, counters),
        ('mutex lock and unlock', 25 * NS, core.mutex),
        ('line modified in another core', 29 * NS, _other_core),
        ('L3 cache hit on another socket', 40 * NS, counters),
        ('hop to another socket', 40 * NS, counters),
        ('64 MB memory reference', 46 * NS, lambda: memory.latency(64 * MIB)),
        ('64 MB memory reference, other socket', 70 * NS, lambda: memory.across(64 * MIB)),
        ('256 MB memory reference', 75 * NS, lambda: memory.latency(256 * MIB)),
        ('Optane random write', 94 * NS, f'{OTHER}: no longer made'),
        ('256 MB memory reference, other socket', 120 * NS, lambda: memory.across(256 * MIB)),
        ('Optane random read', 305 * NS, f'{OTHER}: no longer made'),
        ('send 4 KB over a 100 Gbit/s fabric', 1 * US, OTHER),
        ('compress 1 KB with Snappy', 3 * US, devices.snappy),
        ('send 4 KB over 10 Gbit/s Ethernet', 10 * US, f'{OTHER}: it takes two machines'),
        ('write 4 KB at random to an NVMe SSD', 30 * US, lambda: disk('write 4 KB')),
        ('transfer 1 MB to or from a GPU by NVLink', 30 * US, f'{OTHER}: it takes an NVLink'),
        ('transfer 1 MB to or from a GPU by PCIe', 80 * US, NO_GPU),
        ('read 4 KB at random from an NVMe SSD', 120 * US, lambda: disk('read 4 KB')),
        ('read 1 MB in sequence from an NVMe SSD', 208 * US, lambda: disk('read 1 MB')),
        ('write 4 KB at random to a SATA SSD', 500 * US, OTHER),
        ('read 4 KB at random from a SATA SSD', 500 * US, OTHER),
        ('round trip within a data centre', 500 * US, f'{OTHER}: it takes two machines'),
        ('read 1 MB in sequence from a SATA SSD', 2 * MS, OTHER),
        ('read 1 MB in sequence from a hard disk', 5 * MS, OTHER),
        ('random access to a hard disk', 10 * MS, OTHER),
        ('packet California–Netherlands–California', 150 * MS, f'{OTHER}: geography'),
        ('GPU shared memory access', 30 * NS, NO_GPU),
        ('GPU global memory access', 200 * NS, NO_GPU),
        ('launch of a GPU kernel', 10 * US, NO_GPU),
        ('call of a Python function', None, lambda: per_call(lambda: None)),
        ('NumPy addition of one number', None, lambda: per_call(NUMPY_ADD)),
        ('loopback round trip, TCP, one core', None, lambda: devices.round_trip('TCP', same_core=True)),
        ('loopback round trip, TCP, any core', None, lambda: devices.round_trip('TCP')),
        ('loopback round trip, UDP, one core', None, lambda: devices.round_trip('UDP', same_core=True)),
        ('read 1 MB from the page cache', None, lambda: disk('read 1 MB from the page cache')),
    ]


def measure(stairs: dict[int, Time] | None = None) -> list[Row]:
    """Measure every row of the ladder that this machine can show; about ten seconds.

    Args:
        stairs: as for :func:`rows`.
    """
    return [Row(action, published, how if isinstance(how, str) else or_reason(how))
            for action, published, how in rows(stairs)]
