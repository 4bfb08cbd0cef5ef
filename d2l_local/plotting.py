"""Figures: curves, a live training curve, and graphs of operations. Knows no framework.

Every figure is an SVG with a white ground, legible in a light and in a dark page.
"""

import graphlib
import html
import itertools
import json
import re
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from tested_results import traces
from tested_results.timing import show_seconds
from tested_results.traces import Event

COLOURS = ('#1f5fa8', '#c2410c', '#2e7d32', '#7b3fa0', '#616161', '#0f766e', '#a16207', '#be185d')
# Of curves, by default: neighbours differ by marker and line style too, not by colour alone.
FORMATS = ('o-', 's--', '^-.', 'D:', 'v-', 'P--', 'X-.', '*:')
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
    def listed(z: Any) -> list:
        return [z] if np.ndim(z[0]) == 0 else list(z)
    if Y is None:
        return [range(len(y)) for y in listed(X)], listed(X)
    xs, ys = listed(X), listed(Y)
    if len(xs) not in (1, len(ys)):
        raise ValueError(f'{len(ys)} curves need one x or {len(ys)}, not {len(xs)}')
    return xs * (len(ys) if len(xs) == 1 else 1), ys


def plot(X: Any, Y: Any = None, xlabel: str | None = None, ylabel: str | None = None,
         legend: Sequence[str] = (), xlim=None, ylim=None, xscale: str = 'linear',
         yscale: str = 'linear', fmts: Sequence[str] | None = None,
         figsize: tuple[float, float] = (5, 3), axes=None):
    """Draw curves of ``Y`` over ``X``, or of ``X`` over its index (d2l's ``plot``).

    ``X`` and ``Y`` are one sequence of numbers, or one for each curve; ``fmts`` are Matplotlib's
    formats of the curves, in turn. Returns the axes, so that a cell can add to them (d2l returns None).
    """
    set_figsize(figsize)
    axes = axes or plt.gca()
    axes.cla()
    for x, y, fmt in zip(*_curves(X, Y), itertools.cycle(fmts or FORMATS), strict=False):
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
        if self._shown:
            self._shown.update(self.fig)
        elif _in_notebook():
            from IPython.display import display
            self._shown = display(self.fig, display_id=True)


def progress(iterable: Iterable, description: str = '', every: float = 0.2) -> Iterator:
    """Go through ``iterable`` and show in the notebook how far it is; elsewhere show nothing.

    The bar of plain HTML empties itself when the loop ends, however it ends.

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
    title, last = html.escape(description), time.perf_counter()

    def bar(done: int) -> str:
        if total is None:
            return f'{title} {done} done'
        return f'{title} <progress value="{done}" max="{total}"></progress> {done} of {total}'

    def page(inside: str) -> dict:
        return {'text/html': f'<div class="d2l-progress">{inside}</div>', 'text/plain': ''}

    shown = display(page(bar(0)), raw=True, display_id=True)
    try:
        for done, item in enumerate(iterable, 1):
            yield item
            if time.perf_counter() - last >= every:
                last = time.perf_counter()
                shown.update(page(bar(done)), raw=True)
    finally:       # also when the loop was left early, or raised
        shown.update(page(''), raw=True)


def timeline(events: Sequence[Event], lanes: Sequence[str] | None = None,
             figsize: tuple[float, float] | None = None, title: str | None = None,
             path: Sequence[Event] | Sequence[Sequence[Event]] = ()):
    """Draw recorded events as a Gantt chart: a row for each lane, a colour for each name.

    Args:
        events: with starts and ends in seconds; the axis starts at the first start.
        lanes: the rows from top to bottom; by default in the order of their first events.
        path: events to join by a line, as from :func:`tested_results.traces.critical_path`, or several lists.

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
    for one in ([path] if path and hasattr(path[0], 'lane') else path):
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


def plot_trace(events: Sequence[Event], title: str | None = None, marked: str = 'operators'):
    """Draw a trace: the phases in a row, with a colour for each, and a row for each other lane.

    Nothing is drawn around a bar, so that white between two of them is time in which nothing ran.

    Args:
        events: with the lane ``phases`` and at least one other, see :mod:`tested_results.traces`.
        title: above the axes.
        marked: a lane of which the longest gap is marked, with its length; empty for none.

    Returns:
        The axes, in milliseconds from the first start.
    """
    use_svg_display()
    zero, last = traces.span(events)
    lanes = sorted(dict.fromkeys(e.lane for e in events),     # the others in the order of their starts
                   key=lambda lane: (lane != 'phases', lane == 'GPU'))
    names = list(dict.fromkeys(e.name for e in events if e.lane == 'phases'))
    colours = dict(zip(names, itertools.cycle(COLOURS[1:]), strict=False))
    _, axes = plt.subplots(figsize=(8, 1.9 + 0.45 * (len(lanes) - 2)))
    for e in events:
        axes.broken_barh([(1e3 * (e.start - zero), 1e3 * (e.end - e.start))],
                         (lanes.index(e.lane) - 0.36, 0.72), linewidth=0,
                         facecolor=colours[e.name] if e.lane == 'phases' else COLOURS[0],
                         label=e.name if e.lane == 'phases' else None)
    if marked and (gaps := traces.gaps(events, marked)):
        start, end = (1e3 * (t - zero) for t in max(gaps, key=lambda gap: gap[1] - gap[0]))
        row, middle = lanes.index(marked), (start + end) / 2
        left = middle < 1e3 * (last - zero) / 2
        axes.hlines(row + 0.45, start, end, color='black', linewidth=2)
        axes.annotate(f'longest gap: {show_seconds((end - start) / 1e3)}', (middle, row + 0.47),
                      ((10 if left else -10), -16), textcoords='offset points', fontsize=8,
                      ha='left' if left else 'right', arrowprops={'arrowstyle': '-'})
    handles = {label: h for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    axes.legend(handles.values(), handles, ncols=len(names), loc='lower left',
                bbox_to_anchor=(0, 1), fontsize=8)
    axes.set(yticks=range(len(lanes)), yticklabels=lanes, xlabel='time in ms',
             ylim=(len(lanes) + 0.1, -0.5), xlim=(0, 1e3 * (last - zero)))
    axes.set_title(title, fontsize=10, loc='right')
    axes.grid(axis='y', visible=False)
    return axes


def _layers(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Nodes by depth: each stands one row below the lowest of its inputs."""
    inputs: dict[str, list[str]] = {n: [] for n in nodes}
    outputs: dict[str, list[str]] = {n: [] for n in nodes}
    for a, b in edges:
        inputs[b].append(a)
        outputs[a].append(b)
    depth: dict[str, int] = {}
    try:
        for n in graphlib.TopologicalSorter(inputs).static_order():
            depth[n] = max((depth[a] + 1 for a in inputs[n]), default=0)
    except graphlib.CycleError as e:
        raise ValueError('the edges form a cycle, which no drawing from top to bottom can show') from e
    rows: list[list[str]] = [[] for _ in depth]
    for n in inputs:     # an input stands right above the operation that first needs it
        first = min((depth[b] for b in outputs[n]), default=1) if not inputs[n] else depth[n] + 1
        rows[first - 1].append(n)
    return [r for r in rows if r]


def graph(nodes: dict[str, str], edges: Sequence[tuple[str, str]], marked: Iterable[str] = ()):
    """Draw a graph of operations, data flowing downward.

    Args:
        nodes: label of each node by its name.
        edges: pairs ``(from, to)`` of names; the graph has no cycle.
        marked: names of nodes to draw filled, such as inputs and parameters.

    Returns:
        The axes.
    """
    use_svg_display()
    rows = _layers(nodes, edges)
    width = max(len(r) for r in rows)
    _, axes = plt.subplots(figsize=(max(3.0, 1.5 * width), 0.72 * len(rows)))
    place: dict[str, tuple[float, float]] = {}
    for y, row in enumerate(rows):
        above = {n: [place[a][0] for a, b in edges if b == n and a in place] for n in row}
        row = sorted(row, key=lambda n: np.mean(above[n]) if above[n] else 0.0)
        place |= {n: (x - (len(row) - 1) / 2, -y) for x, n in enumerate(row)}
    axes.set(xlim=(-width / 2, width / 2), ylim=(-len(rows) + 0.4, 0.6))
    marked, boxes = set(marked), {}
    for n, (x, y) in place.items():
        label = '\n'.join(textwrap.fill(line, 16) for line in nodes[n].split('\n'))
        boxes[n] = axes.text(x, y, label, ha='center', va='center', fontsize=9, zorder=3, bbox={
            'boxstyle': 'round,pad=0.35', 'edgecolor': COLOURS[0], 'linewidth': 1,
            'facecolor': '#dbe7f5' if n in marked else 'white'})
    for a, b in edges:
        # drawn after the boxes, whose sizes it needs, and around those of the rows that it skips
        bend = 0.8 if place[a][1] - place[b][1] > 1 else 0
        axes.annotate('', place[b], place[a], zorder=4, arrowprops={
            'arrowstyle': '-|>', 'color': '#555555', 'shrinkA': 0, 'shrinkB': 1,
            'connectionstyle': f'arc3,rad={bend}',
            'patchA': boxes[a].get_bbox_patch(), 'patchB': boxes[b].get_bbox_patch()})
    axes.axis('off')
    return axes


def symbol_graph(exported: str) -> tuple[dict[str, str], list[tuple[str, str]], list[str]]:
    """Nodes, edges and inputs of a symbol that MXNet exported, as :func:`graph` takes them.

    Args:
        exported: the text of a ``…-symbol.json`` file, or of ``symbol.tojson()``.
    """
    nodes = json.loads(exported)['nodes']
    names = [n['name'] for n in nodes]
    inputs = [n['name'] for n in nodes if n['op'] == 'null']
    labels = {n['name']: re.sub(r'^_(npi|npx|np)_', '', n['op']) for n in nodes} | {i: i for i in inputs}
    return labels, [(names[i[0]], n['name']) for n in nodes for i in n['inputs']], inputs
