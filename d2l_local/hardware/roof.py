"""The roofline as ceilings: slopes, peak and operations measured in turn. Knows no framework."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from d2l_local import machine
from d2l_local.hardware import kernels
from d2l_local.hardware.figures import roofline
from d2l_local.hardware.memory import MIB, reported_caches
from d2l_local.hardware.table import Table
from d2l_local.timing import _sample

Job = Callable[[], object]
AT_PEAK = 2 ** 28            # multiply-adds of one look at the peak: some milliseconds


def beyond_caches(arrays: int = 8) -> tuple[int, str]:
    """Bytes of an array that no cache keeps, as STREAM asks: four times the last cache, at least 64 MiB.

    Args:
        arrays: as many of them must fit into the free memory.

    Returns:
        The bytes, and an empty string; or 64 MiB, and why larger ones cannot be had here: what such
        arrays show is no limit of the memory.
    """
    n_bytes = max(64 * MIB, 4 * max(reported_caches().values(), default=0))
    if arrays * n_bytes > machine.free_memory():
        return 64 * MIB, (f'no ceiling here: {arrays} arrays of {n_bytes // MIB} MiB, four times the '
                          'last cache, do not fit into the free memory')
    return n_bytes, ''


def in_turn(jobs: Mapping[str, Job], rounds: int = 7,
            now: Callable[[], float] = time.thread_time) -> dict[str, np.ndarray]:
    """Seconds of each job in each round, so that what is compared met the same moments.

    A first round, not counted, compiles and warms up.
    """
    found = [{name: _sample(job, 1, None, now) for name, job in jobs.items()}
             for _ in range(rounds + 1)][1:]
    return {name: np.array([times[name] for times in found]) for name in jobs}


@dataclass(frozen=True)
class Roof:
    """What bounds one core, and the rates of some operations beneath, one number for each round.

    ``peak`` and ``rates`` are operations per second, ``slopes`` bytes per second, ``intensity``
    operations per byte; ``no_ceiling`` says why the slopes are reference lines and no ceilings.
    """

    peak: np.ndarray
    slopes: dict[str, np.ndarray]
    rates: dict[str, np.ndarray]
    intensity: dict[str, float]
    slope_of: dict[str, str]
    no_ceiling: str = ''

    def share(self, name: str) -> float:
        """Rate ÷ what the roof allows, the median of the rounds."""
        allowed = np.minimum(self.peak, self.intensity[name] * self.slopes[self.slope_of[name]])
        return float(np.median(self.rates[name] / allowed))

    def draw(self, peaks: dict[str, float]):
        """The roofline with both slopes; ``peaks`` as in :func:`figures.roofline`. Returns the axes."""
        points = {k: (self.intensity[k], float(np.median(r))) for k, r in self.rates.items()}
        return roofline(peaks, {k: float(np.median(s)) for k, s in self.slopes.items()}, points)

    def table(self) -> Table:
        """Operations per byte, rate, share of the peak and of the roof."""
        return Table(('operation', 'operations per byte', 'rate', 'of the peak', 'of its roof'), [
            (name, f'{self.intensity[name]:.3g}', f'{np.median(r) / 1e9:.3g} GFLOP/s',
             f'{np.median(r / self.peak):.1%}', self.no_ceiling or f'{self.share(name):.0%}')
            for name, r in self.rates.items()])


def roof(jobs: Mapping[str, tuple[Job, float, float, str]], arrays: tuple[np.ndarray, ...],
         no_ceiling: str = '', now: Callable[[], float] = time.thread_time) -> Roof:
    """Measure peak, slopes and jobs in turn, on one core.

    Args:
        jobs: by name the job, its operations, the bytes between core and memory, and the slope that
            bounds it: ``'reading'``, or ``'writing'`` if it writes. Before a line is written it is
            read (write-allocate), so each written byte counts twice.
        arrays: three of float32, alike and of :func:`beyond_caches` bytes, that the slopes are
            measured with: a sum of the first; STREAM's triad into the first. They are changed.
        no_ceiling: as from :func:`beyond_caches`.
        now: the clock; processor time counts no neighbours.
    """
    a, b, c = arrays
    peak, half = kernels.fma_peak(max(kernels.widths())), np.float32(0.5)
    slopes = {'reading': (lambda: kernels.read_all(a.view(np.int64)), a.nbytes),
              'writing': (lambda: kernels.stream_triad(a, b, c, half), 4 * a.nbytes)}
    every = [*slopes.items(), *jobs.items()]
    times = in_turn({'peak': lambda: peak(AT_PEAK), **{name: job for name, (job, *_) in every}}, now=now)
    return Roof(2 * AT_PEAK / times['peak'], {k: moved / times[k] for k, (_, moved) in slopes.items()},
                {k: operations / times[k] for k, (_, operations, *_) in jobs.items()},
                {k: operations / moved for k, (_, operations, moved, _) in jobs.items()},
                {k: slope for k, (*_, slope) in jobs.items()}, no_ceiling)
