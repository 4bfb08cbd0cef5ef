"""Times of kernels of n operations, on a clock of ours."""

import os
import time
from types import SimpleNamespace

import pytest

from local_cluster.neighbours import neighbours
from tested_results import kernels
from tested_results.timing import Time

pytestmark = pytest.mark.alone


@pytest.fixture
def kernel(monkeypatch):
    """A clock of ours and a kernel whose operations take 1 ns, or 10 ns in the calls that it is told
    are interrupted; returns the function that tells it, and the numbers of operations of all calls."""
    now, calls, count, hit = [0.0], [], [0], [lambda i: False]

    def run(n):
        calls.append(n)
        interrupted = hit[0](len(calls))
        count[0] += interrupted
        now[0] += n * (1e-8 if interrupted else 1e-9)
    monkeypatch.setattr(kernels, 'time', SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(kernels, '_interruptions', lambda: count[0])

    def interrupted_in(f):
        hit[0] = f
        return run
    return interrupted_in, calls


@pytest.mark.parametrize('pick', ['least', 'median'])
def test_interrupted_samples_are_dropped(kernel, pick):
    interrupted_in, calls = kernel
    f = kernels.time_kernel(interrupted_in(lambda i: i > 60 and i % 3 == 0), pick, budget=1e9)
    assert [f.value, f.low, f.high] == pytest.approx([1e-9] * 3)
    assert f.values < kernels.MOST < len(calls)
    assert calls[-1] == pytest.approx(0.002 / 1e-9)             # samples of the length asked for


def test_a_core_that_is_never_left_alone(kernel):
    """The samples are taken as they are, and it ends."""
    f = kernels.time_kernel(kernel[0](lambda i: True), budget=0.0)
    assert f.value == pytest.approx(1e-8) and kernels.CLEAN <= f.values <= kernels.MOST


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'), reason='this system binds nobody to a core')
def test_the_system_counts_interruptions():
    """Two that are busy on one core: the system takes it from each in turn."""
    cores = os.sched_getaffinity(0)
    with neighbours(1) as others:
        try:
            for who in (0, others[0].pid):
                os.sched_setaffinity(who, {min(cores)})
            before, end = kernels._interruptions(), time.monotonic() + 60
            while kernels._interruptions() == before and time.monotonic() < end:
                sum(range(10_000))
            assert kernels._interruptions() > before
        finally:
            os.sched_setaffinity(0, cores)


@pytest.mark.parametrize(('pick', 'value', 'low', 'high'), [
    ('least', 1, 1, 9), ('median', 5.5, 1.5, 9.5)])
def test_the_least_or_the_median_of_samples(pick, value, low, high):
    f = kernels.summarize([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10], pick)      # five parts of two
    assert (f.value, f.low, f.high, f.values) == (value, low, high, 10)
    half = f / 2
    assert (half.value, half.low, half.high, half.values) == (value / 2, low / 2, high / 2, 10)


def test_few_samples_or_none():
    assert kernels.summarize([2.0]) == Time(2.0, 2.0, 2.0, 1)
    with pytest.raises(ValueError):
        kernels.summarize([])
    with pytest.raises(KeyError):
        kernels.summarize([1.0], 'mean')


def test_a_kernel_that_does_nothing():
    with pytest.raises(ValueError, match='takes no time'):
        kernels.time_kernel(lambda n: None)
