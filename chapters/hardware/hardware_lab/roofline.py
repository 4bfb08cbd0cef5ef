"""The roofline as ceilings: slopes, peak and operations measured in turn. Knows no framework."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from d2l_local import plotting
from hardware_lab import MIB, kernels
from hardware_lab.figures import Table
from hardware_lab.memory import reported_caches
from tested_results import machine
from tested_results.timing import one_round, seconds_per_call

AT_PEAK = 2 ** 28            # multiply-adds of one look at the peak: some milliseconds
WARM = 0.02                  # seconds of a sample: most of its calls find in the caches what these can keep
MOST = 1000                  # calls of a sample


def beyond_caches() -> tuple[int, str]:
    """Bytes of an array that no cache keeps, as STREAM asks: four times the last cache, at least 64 MiB.

    Returns:
        The bytes, and an empty string; or 64 MiB, and why larger ones cannot be had here, since eight
        must fit into the free memory: what such arrays show is no limit of the memory.
    """
    n_bytes = max(64 * MIB, 4 * max(reported_caches().values(), default=0))
    if 8 * n_bytes > machine.free_memory():
        return 64 * MIB, (f'no ceiling here: 8 arrays of {n_bytes // MIB} MiB, four times the '
                          'last cache, do not fit into the free memory')
    return n_bytes, ''


@dataclass(frozen=True)
class Roof:
    """What bounds one core, and some operations beneath, one number for each round.

    Attributes:
        peak: operations per second; no operation reaches more.
        slopes: bytes per second by name.
        operations: by name the rate in operations per second, operations per byte, and its slope.
        no_ceiling: why the slopes are reference lines and no ceilings, if they are.
    """

    peak: np.ndarray
    slopes: dict[str, np.ndarray]
    operations: dict[str, tuple[np.ndarray, float, str]]
    no_ceiling: str = ''

    def table(self) -> Table:
        """Operations per byte, rate, and the median share of the peak and of what the roof allows."""
        return Table(('operation', 'operations per byte', 'rate', 'of the peak', 'of its roof'), [
            (name, f'{intensity:.3g}', f'{np.median(rate) / 1e9:.3g} GFLOP/s',
             f'{np.median(rate / self.peak):.1%}', self.no_ceiling or
             f'{np.median(rate / np.minimum(self.peak, intensity * self.slopes[slope])):.0%}')
            for name, (rate, intensity, slope) in self.operations.items()])

    def draw(self, peaks: Mapping[str, float]):
        """What a core can reach at most, by operations for each byte moved, and where real work stands.

        Args:
            peaks: operations per second of each ceiling, by name; the highest is drawn as the roof's own
                peak, which was measured in turn with the operations.

        Returns:
            The axes, both logarithmic.

        Source: Williams, Waterman, Patterson, *Roofline*, CACM 52 (4), 2009.
        """
        plotting.use_svg_display()
        _, axes = plotting.plt.subplots(figsize=(6.5, 3.8))
        giga, top = 1e-9, float(np.median(self.peak))
        peaks = {**peaks, max(peaks, key=peaks.get): top}
        slopes = sorted(((float(np.median(s)), name) for name, s in self.slopes.items()), reverse=True)
        for (rate, name), style in zip(slopes, ('-', '--'), strict=False):
            axes.plot([0.05 / giga / rate, top / rate], [0.05, top * giga], style, color='#888888',
                      linewidth=1, label=f'{name} {rate * giga:.0f} GB/s')
        for name, peak in peaks.items():
            axes.hlines(peak * giga, peak / slopes[0][0], 1000, color='#888888', linewidth=1)
            axes.text(1000, peak * giga * 1.05, f'{name} ', fontsize=7, ha='right', va='bottom')
        for i, (name, (rate, intensity, _)) in enumerate(self.operations.items()):
            axes.plot(intensity, np.median(rate) * giga, 'osD^vPX*<>'[i % 10], markersize=7,
                      label=name, color=plotting.COLOURS[i % len(plotting.COLOURS)])
        axes.legend(fontsize=8, loc='lower right')
        axes.set(xscale='log', yscale='log', ylim=(0.05, top * giga * 2.5),
                 xlabel='operations per byte of memory moved', ylabel='GFLOP/s')
        return axes


def measure(jobs: Mapping[str, tuple[Callable, float, float, str]], arrays: tuple[np.ndarray, ...],
            no_ceiling: str = '', now: Callable[[], float] = time.thread_time) -> Roof:
    """Measure peak, slopes and jobs in turn, on one core, in seven rounds.

    A job is called again and again for some milliseconds, and its time is the mean: in a single call, one
    that works in a cache would fetch what the streams before it have evicted.

    Args:
        jobs: by name the job, its operations, the bytes between core and memory, and the slope that
            bounds it: ``'reading'``, or ``'writing'`` if it writes. Before a line is written it is
            read (write-allocate), so each written byte counts twice.
        arrays: three of float32, alike and of :func:`beyond_caches` bytes, that the slopes are
            measured with: a sum of the first; STREAM's triad and scale into the first. They are
            changed. A slope is the best of these and of its jobs, round by round, and the peak the best
            of its own loop and of all jobs, so nothing lies above the roof: a matrix unit raises it.
        no_ceiling: as from :func:`beyond_caches`.
        now: the clock; processor time counts no neighbours.
    """
    a, b, c = arrays
    peak, half = kernels.fma_peak(max(kernels.widths())), np.float32(0.5)
    streams = {'words': (lambda: kernels.read_all(a.view(np.int64)), a.nbytes, 'reading'),
               'triad': (lambda: kernels.stream_triad(a, b, c, half), 4 * a.nbytes, 'writing'),
               'scale': (lambda: kernels.stream_scale(a, b, half), 3 * a.nbytes, 'writing')}
    every = {k: job for k, (job, *_) in [*streams.items(), *jobs.items()]}
    every['peak'] = lambda: peak(AT_PEAK)
    calls = []
    for job in every.values():
        job()                                                           # the first call compiles
        calls.append(min(MOST, max(1, round(WARM / seconds_per_call(job, 1, None, now)))))
    rounds = [one_round(list(every.values()), calls, None, now) for _ in range(7)]
    times = dict(zip(every, np.array(rounds).T, strict=True))
    rates = [(slope, moved / times[k]) for k, (_, moved, slope) in streams.items()]
    rates += [(slope, moved / times[k]) for k, (_, _, moved, slope) in jobs.items()]
    slopes = {k: np.max([rate for slope, rate in rates if slope == k], 0) for k in ('reading', 'writing')}
    computed = [2 * AT_PEAK / times['peak'], *(job[1] / times[k] for k, job in jobs.items())]
    return Roof(np.max(computed, 0), slopes,
                {k: (operations / times[k], operations / moved, slope)
                 for k, (_, operations, moved, slope) in jobs.items()}, no_ceiling)
