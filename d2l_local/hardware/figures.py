"""Pictures of measured hardware: the latency staircase and the roofline. Knows no framework."""

import numpy as np

from d2l_local import plotting
from d2l_local.hardware.memory import KIB, MIB
from d2l_local.hardware.sampler import Figure

TEXTBOOK = {'L1': 1.5e-9, 'L2': 5e-9, 'L3': 16e-9, 'memory': 75e-9}


def _size(n_bytes: float) -> str:
    return f'{n_bytes / MIB:g} MiB' if n_bytes >= MIB else f'{n_bytes / KIB:g} KiB'


def draw_staircase(stairs: dict[int, Figure], edges: list[tuple[int, int]] = (),
                   caches: dict[str, int] | None = None):
    """Latency over working set, both logarithmic, with the range of each point.

    Args:
        stairs: from :func:`d2l_local.hardware.staircase`; unsteady points are drawn hollow.
        edges: from :func:`d2l_local.hardware.edges`; shaded.
        caches: reported sizes in bytes by level; dashed lines.

    Returns:
        The axes.
    """
    plotting.use_svg_display()
    _, axes = plotting.plt.subplots(figsize=(6.5, 3.6))
    at, ns = np.array(list(stairs)), 1e9
    for begin, end in edges:
        axes.axvspan(begin, end, color=plotting.COLOURS[1], alpha=0.15, linewidth=0,
                     label='edge found')
    axes.fill_between(at, [f.low * ns for f in stairs.values()], [f.high * ns for f in stairs.values()],
                      color=plotting.COLOURS[0], alpha=0.3, linewidth=0, label='range')
    axes.plot(at, [f.value * ns for f in stairs.values()], '-', color=plotting.COLOURS[0], linewidth=1)
    for steady in (True, False):
        points = [(s, f.value * ns) for s, f in stairs.items() if f.steady == steady]
        if points:
            axes.plot(*zip(*points, strict=True), 'o', color=plotting.COLOURS[0], markersize=5,
                      markerfacecolor=plotting.COLOURS[0] if steady else 'white',
                      label='here' if steady else 'here, unsteady')
    for name, t in TEXTBOOK.items():
        axes.axhline(t * ns, color='#999999', linewidth=0.8, linestyle=':')
        axes.text(at[-1], t * ns, f'textbook {name} ', fontsize=7, color='#555555', ha='right',
                  va='bottom')
    for level, size in (caches or {}).items():
        if at[0] <= size <= at[-1]:
            axes.axvline(size, color='black', linewidth=0.8, linestyle='--')
            axes.text(size, 1.02, f'{level} reported', fontsize=7, ha='center', va='bottom',
                      transform=axes.get_xaxis_transform())
    ticks = [4 * KIB * 4 ** i for i in range(12) if 4 * KIB * 4 ** i <= at[-1]]
    handles = {label: h for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    axes.legend(handles.values(), handles, fontsize=8, loc='upper left', framealpha=1, frameon=True)
    axes.set(xscale='log', yscale='log', xlabel='working set', ylabel='latency in ns')
    axes.set_xticks(ticks, [_size(t) for t in ticks], fontsize=8)
    axes.set_yticks([1, 10, 100], ['1', '10', '100'])
    axes.minorticks_off()
    return axes


def roofline(peaks: dict[str, float], bandwidth: float | dict[str, float],
             points: dict[str, tuple[float, float]] = None):
    """What a core can reach at most, by operations for each byte moved, and where real work stands.

    Args:
        peaks: operations per second of each ceiling, by name.
        bandwidth: bytes per second from memory: the slope; or several slopes by name.
        points: by name, operations per byte and operations per second, as measured.

    Returns:
        The axes.

    Source: Williams, Waterman, Patterson, *Roofline*, CACM 52 (4), 2009.
    """
    plotting.use_svg_display()
    _, axes = plotting.plt.subplots(figsize=(6.5, 3.8))
    giga, points = 1e-9, points or {}
    slopes = bandwidth if isinstance(bandwidth, dict) else {'': bandwidth}
    bandwidth = max(slopes.values())
    x = np.logspace(-2, 3, 200)
    x = x[x * bandwidth * giga > 0.05]
    for name, peak in sorted(peaks.items(), key=lambda p: p[1]):
        axes.plot(x, np.minimum(x * bandwidth, peak) * giga, '-', color='#888888', linewidth=1)
        axes.text(x[-1], peak * giga * 1.05, f'{name} ', fontsize=7, ha='right', va='bottom')
    top = max(peaks.values())
    for i, (name, rate) in enumerate(sorted(slopes.items(), key=lambda s: -s[1])):
        if i:
            axes.plot(x, np.minimum(x * rate, top) * giga, '--', color='#888888', linewidth=1)
        axes.annotate(f'{name} {rate * giga:.0f} GB/s'.strip(), (x[30], x[30] * rate * giga),
                      (6, -12) if i else (-4, 6), fontsize=8, textcoords='offset points',
                      ha='left' if i else 'right', va='bottom')
    markers = 'osD^vPX*<>'
    for i, (name, (intensity, flops)) in enumerate(points.items()):
        axes.plot(intensity, flops * giga, markers[i % len(markers)], markersize=7, label=name,
                  color=plotting.COLOURS[i % len(plotting.COLOURS)])
    if points:
        axes.legend(fontsize=8, loc='lower right')
    axes.set(xscale='log', yscale='log', ylim=(0.05, top * giga * 2.5),
             xlabel='operations per byte of memory moved', ylabel='GFLOP/s')
    return axes
