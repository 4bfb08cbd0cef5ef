"""Figures: curves, a live training curve, and graphs of operations. Knows no framework.

Every figure is an SVG with a white ground, legible in a light and in a dark page.
"""

import itertools
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

COLOURS = ('#1f5fa8', '#c2410c', '#2e7d32', '#7b3fa0', '#616161')
STYLE = {
    'axes.grid': True, 'grid.color': '#dddddd', 'axes.axisbelow': True,
    'axes.spines.top': False, 'axes.spines.right': False,
    'axes.prop_cycle': matplotlib.cycler(color=COLOURS, linestyle=['-', '--', '-.', ':', '-']),
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
    xs = [X] * len(ys) if one(X) else list(X)
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


class Animator:
    """A figure that grows while a model trains (d2l's ``Animator``)."""

    def __init__(self, xlabel: str | None = None, ylabel: str | None = None,
                 legend: Sequence[str] = (), xlim=None, ylim=None, xscale: str = 'linear',
                 yscale: str = 'linear', fmts: Sequence[str] | None = None, nrows: int = 1,
                 ncols: int = 1, figsize: tuple[float, float] = (5, 3)) -> None:
        use_svg_display()
        self.fig, axes = plt.subplots(nrows, ncols, figsize=figsize)
        self.axes = np.ravel(axes)
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
        from IPython import display
        display.display(self.fig)
        display.clear_output(wait=True)


def _layers(nodes: Iterable[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Nodes by depth: each stands one row below the lowest of its inputs."""
    depth = dict.fromkeys(nodes, 0)
    for _ in depth:
        for a, b in edges:
            depth[b] = max(depth[b], depth[a] + 1)
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
    for n, (x, y) in place.items():
        boxes[n] = axes.text(
            x, y, textwrap.fill(nodes[n], 16), ha='center', va='center', fontsize=9, zorder=3,
            bbox={'boxstyle': 'round,pad=0.35', 'edgecolor': COLOURS[0], 'linewidth': 1,
                  'facecolor': '#dbe7f5' if n in marked else 'white'})
    for a, b in edges:
        # drawn after the boxes, whose sizes it needs
        axes.annotate('', place[b], place[a], zorder=4, arrowprops={
            'arrowstyle': '-|>', 'color': '#555555', 'shrinkA': 0, 'shrinkB': 1,
            'patchA': boxes[a].get_bbox_patch(), 'patchB': boxes[b].get_bbox_patch()})
    axes.axis('off')
    return axes
