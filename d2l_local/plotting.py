"""Figures: curves, a live training curve, and graphs of operations. Knows no framework.

Every figure is an SVG with a white ground, legible in a light and in a dark page.
"""

import html
import io
import itertools
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from d2l_local.timing import Event

COLOURS = ('#1f5fa8', '#c2410c', '#2e7d32', '#7b3fa0', '#616161', '#0f766e', '#a16207', '#be185d')
STYLE = {
    'axes.grid': True, 'grid.color': '#dddddd', 'axes.axisbelow': True,
    'axes.spines.top': False, 'axes.spines.right': False,
    'axes.prop_cycle': matplotlib.cycler(color=COLOURS[:5], linestyle=['-', '--', '-.', ':', '-']),
    'figure.facecolor': 'white', 'font.size': 10, 'legend.frameon': False,
    'lines.linewidth': 2, 'svg.fonttype': 'none', 'svg.hashsalt': 'd2l_local',
}


def use_svg_display() -> None:
    """Show the figures of this notebook as SVG, the same bytes for the same figure."""
    plt.rcParams.update(STYLE)
    from IPython import get_ipython
    if get_ipython() is not None:
        from matplotlib_inline import backend_inline
        backend_inline.set_matplotlib_formats('svg', metadata={'Date': None})


def set_figsize(figsize: tuple[float, float] = (5, 3)) -> None:
    """Set the size of the next figures, in inches (d2l's ``set_figsize``)."""
    use_svg_display()
    plt.rcParams['figure.figsize'] = figsize


def set_axes(axes, xlabel, ylabel, xlim, ylim, xscale, yscale, legend) -> None:
    """Set labels, limits, scales and legend of ``axes`` (d2l's ``set_axes``)."""
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale=xscale, yscale=yscale)
    if xlim is not None:
        axes.set_xlim(xlim)
    if ylim is not None:
        axes.set_ylim(ylim)
    if legend:
        axes.legend(legend)


def _curves(X: Any, Y: Any) -> tuple[list, list]:
    """Curves to draw from d2l's loose arguments: one x for all, one for each, or none."""
    def one(z: Any) -> bool:
        return np.ndim(z[0]) == 0
    ys = [X if one(X) else None] if Y is None and one(X) else (X if Y is None else Y)
    ys = [ys] if one(ys) else list(ys)
    if Y is None:
        return [range(len(y)) for y in ys], ys
    xs = [X] * len(ys) if one(X) else list(X) * (len(ys) if len(X) == 1 else 1)
    if len(xs) != len(ys):
        raise ValueError(f'{len(ys)} curves need one x or {len(ys)}, not {len(xs)}')
    return xs, ys


def plot(X: Any, Y: Any = None, xlabel: str | None = None, ylabel: str | None = None,
         legend: Sequence[str] = (), xlim=None, ylim=None, xscale: str = 'linear',
         yscale: str = 'linear', fmts: Sequence[str] | None = None,
         figsize: tuple[float, float] = (5, 3), axes=None):
    """Draw curves of ``Y`` over ``X``, or of ``X`` over its index (d2l's ``plot``).

    Args:
        X: one sequence of numbers, or one for each curve.
        Y: likewise; None if ``X`` holds the curves.

    Returns:
        The axes, so that a cell can add to them. (d2l returns None.)
    """
    set_figsize(figsize)
    axes = axes or plt.gca()
    axes.cla()
    for x, y, fmt in zip(*_curves(X, Y), itertools.cycle(fmts or ('o-',)), strict=False):
        axes.plot(x, y, fmt, markersize=4)
    set_axes(axes, xlabel, ylabel, xlim, ylim, xscale, yscale, legend)
    return axes


def _in_notebook() -> bool:
    """Whether a notebook shows what is displayed (a terminal's IPython has no kernel)."""
    from IPython import get_ipython
    return getattr(get_ipython(), 'kernel', None) is not None


class Animator:
    """A figure that grows while a model trains (d2l's ``Animator``).

    It updates its own output and leaves the others of the cell alone: one figure is stored.
    """

    def __init__(self, xlabel: str | None = None, ylabel: str | None = None,
                 legend: Sequence[str] = (), xlim=None, ylim=None, xscale: str = 'linear',
                 yscale: str = 'linear', fmts: Sequence[str] | None = None, nrows: int = 1,
                 ncols: int = 1, figsize: tuple[float, float] = (5, 3)) -> None:
        use_svg_display()
        self.fig, axes = plt.subplots(nrows, ncols, figsize=figsize)
        plt.close(self.fig)      # else the cell shows it once more at its end
        self.axes, self._shown = np.ravel(axes), None
        self._config = (xlabel, ylabel, xlim, ylim, xscale, yscale, legend)
        self.fmts, self.X, self.Y = fmts or ('-', '--', '-.', ':'), [], []

    def add(self, x: Any, y: Any) -> None:
        """Add a point to each curve; None leaves a curve as it is. Redraws the figure."""
        ys = list(y) if hasattr(y, '__len__') else [y]
        xs = list(x) if hasattr(x, '__len__') else [x] * len(ys)
        if not self.X:
            self.X, self.Y = [[] for _ in ys], [[] for _ in ys]
        for i, (a, b) in enumerate(zip(xs, ys, strict=True)):
            if a is not None and b is not None:
                self.X[i].append(a)
                self.Y[i].append(b)
        self.axes[0].cla()
        for a, b, fmt in zip(self.X, self.Y, itertools.cycle(self.fmts), strict=False):
            self.axes[0].plot(a, b, fmt)
        set_axes(self.axes[0], *self._config)
        if _in_notebook():
            from IPython.display import display
            if self._shown is None:
                self._shown = display(self.fig, display_id=True)
            else:
                self._shown.update(self.fig)


def progress(iterable: Iterable, description: str = '', every: float = 0.2) -> Iterator:
    """Go through ``iterable`` and show in the notebook how far it is.

    A bar of plain HTML that empties itself when the loop ends, however it ends. Outside a
    notebook it shows nothing.

    Args:
        iterable: with or without a length.
        description: printed before the bar.
        every: seconds between two updates, at least.
    """
    if not _in_notebook():
        yield from iterable
        return
    from IPython.display import display
    total = len(iterable) if hasattr(iterable, '__len__') else None
    title, shown, last = html.escape(description), None, time.perf_counter()

    def show(inside: str) -> None:
        nonlocal shown
        data = {'text/html': f'<div class="d2l-progress">{inside}</div>', 'text/plain': ''}
        if shown is None:
            shown = display(data, raw=True, display_id=True)
        else:
            shown.update(data, raw=True)

    def bar(done: int) -> str:
        if total is None:
            return f'{title} {done} done'
        return f'{title} <progress value="{done}" max="{total}"></progress> {done} of {total}'

    show(bar(0))
    try:
        for done, item in enumerate(iterable, 1):
            yield item
            if time.perf_counter() - last >= every:
                last = time.perf_counter()
                show(bar(done))
    finally:       # also when the loop was left early, or raised
        show('')


def timeline(events: Sequence[Event], lanes: Sequence[str] | None = None,
             figsize: tuple[float, float] | None = None, title: str | None = None,
             path: Sequence[Event] | Sequence[Sequence[Event]] = ()):
    """Draw recorded events as a Gantt chart: a row for each lane, a colour for each name.

    Args:
        events: with starts and ends in seconds; the axis starts at the first start.
        lanes: the rows from top to bottom; by default in the order of their first events.
        path: events to join by a line, such as :func:`d2l_local.timing.critical_path`, or several
            such paths.

    Returns:
        The axes.
    """
    use_svg_display()
    events = sorted(events, key=lambda e: e.start)
    lanes = list(lanes or dict.fromkeys(e.lane for e in events))
    names = list(dict.fromkeys(e.name for e in events if e.lane in lanes))
    zero, last = events[0].start, max(e.end for e in events)
    unit, size = ('ms', 1e3) if last - zero < 2 else ('s', 1)
    _, axes = plt.subplots(figsize=figsize or (6, 0.45 * len(lanes) + 1.3))
    for name, colour in zip(names, itertools.cycle(COLOURS), strict=False):
        for row, lane in enumerate(lanes):
            bars = [((e.start - zero) * size, (e.end - e.start) * size) for e in events
                    if e.lane == lane and e.name == name]
            wide = [width > 0.01 * (last - zero) * size for _, width in bars]
            axes.broken_barh(bars, (row - 0.36, 0.72), facecolor=colour, linewidth=0.5, label=name,
                             edgecolor=['white' if w else colour for w in wide] or None)
    for one in ([path] if path and isinstance(path[0], Event) else path):
        points = [(t - zero, lanes.index(e.lane)) for e in one for t in (e.start, e.end)]
        axes.plot([x * size for x, _ in points], [y for _, y in points], color='black', linewidth=2,
                  linestyle='-', marker='.', label='critical path')
    handles = {label: h for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    axes.legend(handles.values(), handles, ncols=min(len(names), 4), loc='lower left',
                bbox_to_anchor=(0, 1), fontsize=8)
    axes.set(yticks=range(len(lanes)), yticklabels=lanes, xlabel=f'time in {unit}', title=title,
             ylim=(len(lanes) - 0.5, -0.5))
    axes.grid(axis='y', visible=False)
    return axes


def draw_svg(figures: dict[str, Callable[[], Any]], folder: Path) -> dict[str, str]:
    """Write each figure as ``NAME.svg`` into a folder; a figure that returns False is left as it is.

    Returns:
        The text of each file that was written, by name. The same figure gives the same bytes.
    """
    use_svg_display()
    texts = {}
    for name, figure in figures.items():
        if figure() is not False:
            out = io.StringIO()
            plt.savefig(out, format='svg', metadata={'Date': None}, bbox_inches='tight')
            texts[name] = out.getvalue()
            (folder / f'{name}.svg').write_text(texts[name])
        plt.close('all')
    return texts


def _layers(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Nodes by depth: each stands one row below the lowest of its inputs."""
    depth = dict.fromkeys(nodes, 0)
    for _ in depth:
        for a, b in edges:
            depth[b] = max(depth[b], depth[a] + 1)
    if any(depth[b] <= depth[a] for a, b in edges):
        raise ValueError('the edges form a cycle, which no drawing from top to bottom can show')
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    targets: dict[str, list[str]] = {}
    for a, b in edges:
        targets.setdefault(a, []).append(b)
    for n in depth:     # an input stands right above the operation that first needs it
        if depth[n] == 0 and n in targets:
            depth[n] = min(depth[t] for t in targets[n]) - 1
        rows[depth[n]].append(n)
    return [r for r in rows if r]


def graph(nodes: dict[str, str], edges: Sequence[tuple[str, str]],
          marked: Iterable[str] = (), title: str | None = None, axes=None):
    """Draw a graph of operations, data flowing downward.

    Args:
        nodes: label of each node by its name.
        edges: pairs ``(from, to)`` of names; the graph has no cycle.
        marked: names of nodes to draw filled, such as inputs and parameters.
        title: printed above.

    Returns:
        The axes.
    """
    use_svg_display()
    rows = _layers(nodes, edges)
    width = max(len(r) for r in rows)
    if axes is None:
        _, axes = plt.subplots(figsize=(max(3.0, 1.5 * width), 0.72 * len(rows) + 0.3 * bool(title)))
    place: dict[str, tuple[float, float]] = {}
    for y, row in enumerate(rows):
        above = {n: [place[a][0] for a, b in edges if b == n and a in place] for n in row}
        row = sorted(row, key=lambda n: np.mean(above[n]) if above[n] else 0.0)
        for x, n in enumerate(row):
            place[n] = (x - (len(row) - 1) / 2, -y)
    axes.set(xlim=(-width / 2, width / 2), ylim=(-len(rows) + 0.4, 0.6), title=title)
    marked, boxes = set(marked), {}

    def label(text: str) -> str:
        return '\n'.join(textwrap.fill(line, 16) for line in text.split('\n'))

    for n, (x, y) in place.items():
        boxes[n] = axes.text(
            x, y, label(nodes[n]), ha='center', va='center', fontsize=9, zorder=3,
            bbox={'boxstyle': 'round,pad=0.35', 'edgecolor': COLOURS[0], 'linewidth': 1,
                  'facecolor': '#dbe7f5' if n in marked else 'white'})
    for a, b in edges:
        # drawn after the boxes, whose sizes it needs
        axes.annotate('', place[b], place[a], zorder=4, arrowprops={
            'arrowstyle': '-|>', 'color': '#555555', 'shrinkA': 0, 'shrinkB': 1,
            # around the boxes of the rows that it skips
            'connectionstyle': f'arc3,rad={0.8 if place[a][1] - place[b][1] > 1 else 0}',
            'patchA': boxes[a].get_bbox_patch(), 'patchB': boxes[b].get_bbox_patch()})
    axes.axis('off')
    return axes
