"""The latency ladder: the textbook's figures beside this machine's. Knows no framework."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from d2l_local import machine, plotting
from d2l_local.hardware import core, devices, memory
from d2l_local.hardware.devices import NotHere
from d2l_local.hardware.memory import KIB, MIB
from d2l_local.hardware.sampler import Figure
from d2l_local.hardware.table import Table
from d2l_local.timing import show_seconds

TEXTBOOK = 'https://gist.github.com/eshelman/343a1c46cb3fba142c1afdcdeec17646'


@dataclass(frozen=True)
class Row:
    """One row of the ladder. ``textbook`` in seconds, None where the textbook has no such row;
    ``measured`` is None where this machine cannot show it, and ``reason`` says why."""

    action: str
    textbook: float | None
    measured: Figure | None = None
    reason: str = ''

    @property
    def ratio(self) -> float | None:
        """Measured ÷ textbook."""
        return self.measured.value / self.textbook if self.measured and self.textbook else None


def _l3() -> Figure:
    caches = memory.reported_caches()
    if not caches.get('L2') or not caches.get('L3'):
        raise NotHere('no third cache level is reported here')
    if 3 * caches['L2'] > caches['L3'] / 2:
        raise NotHere('the third cache level is too small against the second to tell them apart')
    return memory.latency(3 * caches['L2'])


def _l2() -> Figure:
    return memory.latency(min(256 * KIB, memory.reported_caches().get('L2', MIB) // 2))


def _other_core() -> Figure:
    if reason := machine.no_free_cores():
        raise NotHere(reason)
    return core.line_transfer()


def _present(f: Callable[[], Figure | None], why: str) -> Callable[[], Figure]:
    def measure() -> Figure:
        if (found := f()) is None:
            raise NotHere(why)
        return found
    return measure


NS, US, MS = 1e-9, 1e-6, 1e-3
OTHER = 'not on this machine'
NO_GPU = 'measured in the PyTorch notebook where there is an NVIDIA GPU'
Measure = Callable[[], Figure] | str


def _rows() -> list[tuple[str, float | None, Measure]]:
    """Action, the textbook's seconds, and how to measure it here or why not."""
    disk: dict[str, Figure] = {}

    def on_disk(name: str) -> Callable[[], Figure]:
        def measure() -> Figure:
            if not disk:
                disk.update(devices.disk_figures())
            return disk[name]
        return measure

    def arithmetic(name: str) -> Callable[[], Figure]:
        return lambda: core.arithmetic()[name]
    socket = f'{OTHER}: one processor'
    return [
        ('L1 cache hit', 1.5 * NS, lambda: memory.latency(16 * KIB)),
        ('floating-point add', 1.5 * NS, arithmetic('add')),
        ('floating-point multiply', 1.5 * NS, arithmetic('multiply')),
        ('floating-point FMA', 1.5 * NS, arithmetic('FMA')),
        ('L2 cache hit', 5 * NS, _l2),
        ('branch mispredicted', 6 * NS, core.mispredict),
        ('L3 cache hit, not shared', 16 * NS, _l3),
        ('L3 cache hit, shared with another core', 25 * NS,
         'only hardware counters can tell it from the others'),
        ('mutex lock and unlock', 25 * NS, _present(core.mutex, 'this system has no POSIX mutex')),
        ('line modified in another core', 29 * NS, _other_core),
        ('L3 cache hit on another socket', 40 * NS, socket),
        ('hop to another socket', 40 * NS, socket),
        ('64 MB memory reference', 46 * NS, lambda: memory.latency(64 * MIB)),
        ('64 MB memory reference, other socket', 70 * NS, socket),
        ('256 MB memory reference', 75 * NS, lambda: memory.latency(256 * MIB)),
        ('Optane random write', 94 * NS, f'{OTHER}: no longer made'),
        ('256 MB memory reference, other socket', 120 * NS, socket),
        ('Optane random read', 305 * NS, f'{OTHER}: no longer made'),
        ('send 4 KB over a 100 Gbit/s fabric', 1 * US, OTHER),
        ('compress 1 KB with Snappy', 3 * US, devices.snappy),
        ('send 4 KB over 10 Gbit/s Ethernet', 10 * US, f'{OTHER}: it takes two machines'),
        ('write 4 KB at random to an NVMe SSD', 30 * US, on_disk('write 4 KB')),
        ('transfer 1 MB to or from a GPU by NVLink', 30 * US, NO_GPU),
        ('transfer 1 MB to or from a GPU by PCIe', 80 * US, NO_GPU),
        ('read 4 KB at random from an NVMe SSD', 120 * US, on_disk('read 4 KB')),
        ('read 1 MB in sequence from an NVMe SSD', 208 * US, on_disk('read 1 MB')),
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
        ('call of a Python function', None, devices.python_call),
        ('NumPy addition of one number', None, devices.numpy_add),
        ('loopback round trip, TCP, one core', None, lambda: devices.round_trip('TCP', same_core=True)),
        ('loopback round trip, TCP, any core', None, lambda: devices.round_trip('TCP')),
        ('loopback round trip, UDP, one core', None, lambda: devices.round_trip('UDP', same_core=True)),
        ('read 1 MB from the page cache', None, on_disk('read 1 MB from the page cache')),
    ]


def _row(action: str, textbook: float | None, how: Measure) -> Row:
    if isinstance(how, str):
        return Row(action, textbook, reason=how)
    try:
        return Row(action, textbook, how())
    except (NotHere, MemoryError, RuntimeError, OSError) as e:
        return Row(action, textbook, reason=str(e))


def ladder() -> list[Row]:
    """Measure every row of the ladder that this machine can show; about ten seconds.

    The textbook's rows and figures are from E. Eshelman's table (see :data:`TEXTBOOK`), after J. Dean's.
    """
    return [_row(*r) for r in _rows()]


def table(rows: Sequence[Row]) -> Table:
    """The ladder as a table: action, textbook, measured with its range, ratio."""
    def text(r: Row) -> tuple[str, ...]:
        book = show_seconds(r.textbook) if r.textbook else '–'
        if not r.measured:
            return r.action, book, r.reason, ''
        mark = '' if r.measured.steady else ' unsteady'
        return r.action, book, f'{r.measured}{mark}', f'{r.ratio:.2g}×' if r.ratio else '–'
    return Table(('action', 'textbook', 'here (range)', 'ratio'), [text(r) for r in rows])


def draw(rows: Sequence[Row], between: tuple[float, float] | None = None):
    """Draw the ladder on a logarithmic scale: the textbook's marks, this machine's with their ranges.

    An unsteady figure is drawn hollow; a row without a figure of this machine has the textbook's alone.

    Args:
        between: the times to show, in seconds, to look closer; by default every row that has a time.

    Returns:
        The axes.

    Raises:
        ValueError: no row has a time to show.
    """
    times = {r.action: r.textbook or (r.measured.value if r.measured else 0.0) for r in rows}
    if not between:
        every = [times[r.action] for r in rows if times[r.action]]
        every += [t for r in rows if r.measured for t in (r.measured.low, r.measured.high)]
        if not every:
            raise ValueError('no row has a time, of the textbook or of this machine')
        first, last = (math.floor(math.log10(t)) for t in (min(every), max(every)))
        between = 10.0 ** first, 10.0 ** (last + 1)
    low, high = between
    shown = sorted((r for r in rows if low <= times[r.action] <= high), key=lambda r: times[r.action])
    plotting.use_svg_display()
    _, axes = plotting.plt.subplots(figsize=(7, 0.24 * len(shown) + 1.2))
    for y, r in enumerate(shown):
        axes.plot([low, high], [y, y], color='#eeeeee', linewidth=1, linestyle='-', zorder=0)
        if r.textbook:
            axes.plot(r.textbook, y, '|', color='black', markersize=10, markeredgewidth=2,
                      label='textbook')
        if r.measured:
            m, colour = r.measured, plotting.COLOURS[0]
            axes.plot([m.low, m.high], [y, y], color=colour, linewidth=4, alpha=0.4, linestyle='-')
            axes.plot(m.value, y, 'o', color=colour, markersize=6,
                      label='here' if m.steady else 'here, unsteady',
                      markerfacecolor=colour if m.steady else 'white')
    handles = {label: h for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    axes.legend(handles.values(), handles, ncols=3, loc='lower left', bbox_to_anchor=(0, 1), fontsize=8)
    ticks = [t for t in (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0) if low <= t <= high]
    axes.set(xscale='log', xlim=between, ylim=(len(shown) - 0.5, -0.7), xlabel='time')
    axes.set_yticks(range(len(shown)), [r.action for r in shown], fontsize=8)
    axes.set_xticks(ticks, [show_seconds(t) for t in ticks], fontsize=8)
    axes.minorticks_off()
    axes.grid(axis='y', visible=False)
    return axes
