"""One core and two: clock, units, vectors, branches, locks, shared lines. Knows no framework."""

import contextlib
import functools
import math
import os
import threading
from collections.abc import Callable

import numpy as np

from d2l_local.hardware import kernels
from d2l_local.hardware.sampler import Figure, sample


def clock(budget: float = 0.05) -> float:
    """Cycles per second, from a chain of instructions that takes four cycles a step on most cores.

    A cost model in part: on a core whose multiplier takes other than three cycles it is off by that.
    """
    return 4 / sample(lambda n: kernels.clock_chain(1, n), budget=budget).value


def arithmetic(budget: float = 0.05) -> dict[str, Figure]:
    """Seconds until the result of a float64 addition, multiplication, FMA can be used.

    On numbers that stay ordinary: a product that shrinks ends in denormal numbers, which some
    processors handle slowly.
    """
    chains = {'add': kernels.add_chain, 'multiply': kernels.multiply_chain, 'FMA': kernels.fma_chain}
    return {name: sample(lambda n, f=f: f(1.0, 1.0, n), budget=budget) for name, f in chains.items()}


def peaks(budget: float = 0.1) -> dict[str, Figure]:
    """Seconds for each float32 operation of one core at its best, by the width of its vectors."""
    found = {}
    for width, name in kernels.widths().items():
        f = sample(kernels.fma_peak(width), budget=budget, first=10_000)
        found[name] = Figure(f.value / 2, f.low / 2, f.high / 2, f.samples)   # multiply and add
    return found


PATIENCE = 1_000_000_000     # looks, about a second: the other thread may have to wait for a core


@functools.cache
def patterns() -> dict[str, np.ndarray]:
    """What a branch does, a byte for each time: always the same, in turn, or at random.

    A million times, because predictors learn short patterns by heart, random ones too.
    """
    n = 2 ** 20
    return {'always': np.ones(n, np.uint8), 'in turn': (np.arange(n) % 2).astype(np.uint8),
            'at random': np.random.default_rng(0).integers(0, 2, n).astype(np.uint8)}


def branch_times(budget: float = 0.1) -> dict[str, Figure]:
    """Seconds for each branch, by pattern."""
    work = np.zeros(64, np.uint64)
    return {name: sample(lambda n, p=p: kernels.branches(p, work, n), budget=budget)
            for name, p in patterns().items()}


def mispredict(budget: float = 0.1) -> Figure:
    """Seconds that a mispredicted branch costs: half of the random ones are."""
    t = branch_times(budget)
    a, b = t['at random'], t['in turn']
    return Figure(2 * (a.value - b.value), 2 * (a.low - b.high), 2 * (a.high - b.low), a.samples)


def mutex(budget: float = 0.1) -> Figure | None:
    """Seconds to lock and unlock a mutex that nobody else wants; None where there is none (Windows).

    A thread is started before: until then the C library knows that nobody can interfere, and
    skips what makes a lock dear.
    """
    kernel = kernels.mutex_kernel()
    if kernel is None:
        return None
    _start_a_thread()
    room = kernels.aligned(128)              # zeros are an unlocked mutex
    return sample(lambda n: kernel(room.ctypes.data, n), budget=budget)


@functools.cache
def _start_a_thread() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


def at_once(*jobs: Callable[[], object]) -> list:
    """Run jobs in threads that begin together, each on a core of its own where the system can say so;
    returns what they return.

    Raises what a job raised, once all have ended.
    """
    own = sorted(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else []
    gate = threading.Barrier(len(jobs))
    results: list = [None] * len(jobs)
    errors: list = []

    def run(i: int, job: Callable[[], object]) -> None:
        if len(own) >= len(jobs):
            with contextlib.suppress(OSError):     # if a sandbox forbids it, the gate opens all the same
                os.sched_setaffinity(0, {own[i]})  # of this thread, which ends with its job
        gate.wait()
        try:
            results[i] = job()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=x) for x in enumerate(jobs)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


def count_apart(distance: int, n: int) -> None:
    """Two threads count to ``n``, each in its own counter, ``distance`` bytes apart (8 or more)."""
    room = kernels.aligned(distance + 64)
    base = room.ctypes.data
    at_once(lambda: kernels.count(base, n), lambda: kernels.count(base + distance, n))


def sharing(distance: int, budget: float = 0.2) -> Figure:
    """Seconds for each step of two counters that two threads increment, ``distance`` bytes apart.

    The median: the least finds the moments in which one thread had the line for itself.
    """
    return sample(lambda n: count_apart(distance, n), 'median', budget=budget, first=1000, length=0.004)


def line_transfer(budget: float = 0.2) -> Figure:
    """Seconds for a line that one core has written to reach another core that waits for it.

    Raises:
        RuntimeError: a thread waited in vain; there was no second core.
    """
    room = kernels.aligned(64)
    word = room.view(np.uint64)

    def rally(n: int) -> None:
        word[0] = 0
        n = math.ceil(n / 2)
        done = at_once(lambda: kernels.ping(room.ctypes.data, 0, PATIENCE, n),
                       lambda: kernels.ping(room.ctypes.data, 1, PATIENCE, n))
        if min(done) < n:
            raise RuntimeError('a thread waited in vain for the other: no second core is free')
    return sample(rally, 'median', budget=budget, first=1000, length=0.004)
