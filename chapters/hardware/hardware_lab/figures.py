"""Tables and pictures of what was measured. Knows no framework."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from d2l_local import plotting
from hardware_lab import KIB, MIB
from tested_results.tables import Table
from tested_results.timing import Time, show_seconds

BLUE = plotting.COLOURS[0]
PUBLISHED = {'L1': 1.5e-9, 'L2': 5e-9, 'L3': 16e-9, 'memory': 75e-9}


@dataclass(frozen=True)
class Row:
    """One row of the ladder: ``published`` in seconds, None where the published table has no such row,
    and what was measured ``here``, or the reason why this machine cannot show it."""

    action: str
    published: float | None
    here: Time | str = ''

    @property
    def measured(self) -> Time | None:
        """What was measured here, if anything was."""
        return self.here if isinstance(self.here, Time) else None


def ladder_table(rows: Sequence[Row]) -> Table:
    """The ladder as a table: action, published figure, measured with its range, ratio."""
    def text(r: Row) -> tuple[str, ...]:
        published = show_seconds(r.published) if r.published else '–'
        if not r.measured:
            return r.action, published, r.here, ''
        mark = '' if r.measured.steady else ' unsteady'
        return r.action, published, f'{r.measured}{mark}', (
            f'{r.measured.value / r.published:.2g}×' if r.published else '–')
    return Table(('action', 'published', 'here (range)', 'ratio'), [text(r) for r in rows])


def _dots(axes, x: np.ndarray, y: np.ndarray, figures: Sequence[Time]) -> None:
    """A dot for each figure; a hollow one if it is unsteady."""
    for steady, label, face in ((True, 'here', BLUE), (False, 'here, unsteady', 'white')):
        which = np.array([f.steady == steady for f in figures], bool)
        if which.any():
            axes.plot(x[which], y[which], 'o', color=BLUE, markersize=6, label=label,
                      markerfacecolor=face)


def draw_ladder(rows: Sequence[Row]):
    """Draw the ladder on a logarithmic scale: the published marks, this machine's with their ranges.

    An unsteady figure is drawn hollow; a row without a figure of this machine has the published one alone.

    Returns:
        The axes.

    Raises:
        ValueError: no row has a time to show.
    """
    times = {r: r.published or r.measured.value for r in rows if r.published or r.measured}
    if not times:
        raise ValueError('no row has a time to show, published or of this machine')
    shown = sorted(times, key=times.get)
    plotting.use_svg_display()
    _, axes = plotting.plt.subplots(figsize=(7, 0.24 * len(shown) + 1.2))
    published = [(r.published, y) for y, r in enumerate(shown) if r.published]
    if published:
        axes.plot(*zip(*published, strict=True), '|', color='black', markersize=10, markeredgewidth=2,
                  label='published')
    here = [r.measured for r in shown if r.measured]
    y = np.flatnonzero([bool(r.measured) for r in shown])
    axes.hlines(y, [f.low for f in here], [f.high for f in here], color=BLUE, linewidth=4, alpha=0.4)
    _dots(axes, np.array([f.value for f in here]), y, here)
    axes.legend(ncols=3, loc='lower left', bbox_to_anchor=(0, 1), fontsize=8)
    axes.set(xscale='log', ylim=(len(shown) - 0.5, -0.7), xlabel='time')
    axes.set_yticks(range(len(shown)), [r.action for r in shown], fontsize=8)
    axes.xaxis.set_major_formatter(lambda t, _: show_seconds(t))
    axes.tick_params(axis='x', labelsize=8)
    axes.minorticks_off()
    axes.grid(axis='y', color='#eeeeee')
    return axes


def draw_staircase(stairs: dict[int, Time], edges: Sequence[tuple[int, int]] = (),
                   caches: dict[str, int] | None = None):
    """Latency over working set, both logarithmic, with the range of each point.

    Args:
        stairs: from :func:`memory.staircase`; unsteady points are drawn hollow.
        edges: from :func:`memory.edges`; shaded.
        caches: reported sizes in bytes by level; dashed lines.

    Returns:
        The axes.
    """
    plotting.use_svg_display()
    _, axes = plotting.plt.subplots(figsize=(6.5, 3.6))
    at = np.array(list(stairs))
    low, value, high = (1e9 * np.array([getattr(f, end) for f in stairs.values()])
                        for end in ('low', 'value', 'high'))
    for i, (begin, end) in enumerate(edges):
        axes.axvspan(begin, end, color=plotting.COLOURS[1], alpha=0.15, linewidth=0,
                     label='' if i else 'edge found')
    axes.fill_between(at, low, high, color=BLUE, alpha=0.3, linewidth=0, label='range')
    axes.plot(at, value, '-', color=BLUE, linewidth=1)
    _dots(axes, at, value, list(stairs.values()))
    for name, t in PUBLISHED.items():
        axes.axhline(1e9 * t, color='#999999', linewidth=0.8, linestyle=':')
        axes.text(at[-1], 1e9 * t, f'published: {name} ', fontsize=7, color='#555555', ha='right',
                  va='bottom')
    for level, size in (caches or {}).items():
        if at[0] <= size <= at[-1]:
            axes.axvline(size, color='black', linewidth=0.8, linestyle='--')
            axes.text(size, 1.02, f'{level} reported', fontsize=7, ha='center', va='bottom',
                      transform=axes.get_xaxis_transform())
    axes.legend(fontsize=8, loc='upper left', framealpha=1, frameon=True)
    axes.set(yscale='log', xlabel='working set', ylabel='latency in ns')
    axes.set_xscale('log', base=4)
    axes.xaxis.set_major_formatter(
        lambda size, _: f'{size / MIB:g} MiB' if size >= MIB else f'{size / KIB:g} KiB')
    axes.set_yticks([1, 10, 100], ['1', '10', '100'])
    axes.minorticks_off()
    return axes
