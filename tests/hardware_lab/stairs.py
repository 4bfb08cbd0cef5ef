"""What the tests of the measuring suite share."""

import math
import os
import sys

import pytest

from hardware_lab import KIB
from tested_results.kernels import time_kernel
from tested_results.timing import Time

LINUX = sys.platform == 'linux'
needs_processes = pytest.mark.skipif(os.name == 'nt', reason='POSIX signals and descriptors')


def exact(value):
    """A figure without spread."""
    return Time(value, value, value, 15)


def unsteady(value):
    """A figure with a range as wide as itself."""
    return Time(value, value / 2, 1.5 * value, 15)


def least(*kernels_of_n, rounds=12, **how):
    """The least seconds per operation of several kernels, sampled in turn.

    The rounds last for several slices of the scheduler, so that beside busy neighbours each kernel
    meets a moment of its own.
    """
    how = {'budget': 0.02, 'length': 0.001, **how}
    best = [math.inf] * len(kernels_of_n)
    for _ in range(rounds):
        for i, f in enumerate(kernels_of_n):
            best[i] = min(best[i], time_kernel(f, **how).value)
    return best


def stairs(*treads, wide=()):
    """Figures at 4, 8, 16 … KiB; those whose place is in ``wide`` are unsteady."""
    return {4 * KIB * 2 ** i: (unsteady if i in wide else exact)(t * 1e-9)
            for i, t in enumerate(treads)}
