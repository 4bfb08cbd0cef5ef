"""One core and two: clock, units, vectors, branches, locks, shared lines. Knows no framework."""

import contextlib
import functools
import math
import os
import threading
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from hardware_lab import kernels
from tested_results.kernels import time_kernel
from tested_results.timing import Time

PATIENCE = 1_000_000_000     # looks, about a second: the other thread may have to wait for a core


def clock(budget: float = 0.05) -> float:
    """Cycles per second, from a chain of instructions that takes four cycles a step on most cores.

    A cost model in part: on a core whose multiplier takes other than three cycles it is off by that.
    """
    return 4 / time_kernel(lambda n: kernels.clock_chain(1, n), budget=budget).value


def arithmetic(budget: float = 0.05) -> dict[str, Time]:
    """Time until the result of a float64 addition, multiplication, FMA can be used.

    On numbers that stay ordinary: a product that shrinks ends in denormal numbers, which some
    processors handle slowly.
    """
    chains = {'add': kernels.add_chain, 'multiply': kernels.multiply_chain, 'FMA': kernels.fma_chain}
    return {name: time_kernel(lambda n, f=f: f(1.0, 1.0, n), budget=budget) for name, f in chains.items()}


def peaks(budget: float = 0.1) -> dict[str, float]:
    """Operations per second of one core at its best, in float32, by the width of its vectors."""
    return {name: 2 / time_kernel(kernels.fma_peak(width), budget=budget, first=10_000).value
            for width, name in kernels.widths().items()}      # multiply and add


@functools.cache
def patterns() -> dict[str, np.ndarray]:
    """What a branch does, a byte for each time: in turn, or at random.

    A million times, because predictors learn short patterns by heart, random ones too: see :func:`going_on`.
    """
    n = 2 ** 20
    return {'in turn': (np.arange(n) % 2).astype(np.uint8),
            'at random': np.random.default_rng(0).integers(0, 2, n).astype(np.uint8)}


def going_on(branches: Callable, taken: np.ndarray) -> Callable[[int], Any]:
    """A kernel of ``n`` branches, each call of which begins where the last one stopped.

    A disturbed search for the length of a sample can end at few branches. Repeated from the start, ten
    thousand random ones are no surprise any more: a Zen 4 core has learned them, and takes 0.7 ns for
    each in place of 3.4.

    Args:
        branches: called as :func:`kernels.branches`.
        taken: a pattern, a byte for each branch.
    """
    work, at = np.zeros(64, np.uint64), 0

    def kernel(n: int) -> Any:
        nonlocal at
        result = branches(taken, work, n, at)
        at = (at + n) % taken.size
        return result
    return kernel


def mispredict(budget: float = 0.1) -> Time:
    """Time that a mispredicted branch costs: half of the random ones are."""
    t = {name: time_kernel(going_on(kernels.branches, taken), budget=budget)
         for name, taken in patterns().items()}
    a, b = t['at random'], t['in turn']
    return Time(2 * (a.value - b.value), 2 * (a.low - b.high), 2 * (a.high - b.low), a.values)


def mutex(budget: float = 0.1) -> Time:
    """Time to lock and unlock a mutex that nobody else wants.

    A thread is started before: until then the C library knows that nobody can interfere, and
    skips what makes a lock dear.

    Raises:
        NotHere: the system has no POSIX mutex (Windows).
    """
    kernel = kernels.mutex_kernel()
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    room = kernels.aligned(128)              # zeros are an unlocked mutex
    return time_kernel(lambda n: kernel(room.ctypes.data, n), budget=budget)


def siblings(cpu: int) -> str:
    """The logical cores that share a physical core, and its first cache, with this one, as Linux lists
    them; elsewhere this one alone."""
    listed = Path(f'/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list')
    try:
        return listed.read_text().strip()
    except OSError:
        return str(cpu)


def apart(cpus: Collection[int]) -> list[int]:
    """Logical cores, one of each physical core first, then the others."""
    first = {siblings(cpu): cpu for cpu in sorted(cpus, reverse=True)}.values()
    return sorted(cpus, key=lambda cpu: (cpu not in first, cpu))


def at_once(*jobs: Callable[[], object]) -> list:
    """Run jobs in threads that begin together, each bound to a core of its own where the system can do
    so, and to a physical one while there are enough; returns what they return.

    Raises what a job raised, once all have ended.
    """
    own = apart(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else []
    gate = threading.Barrier(len(jobs))

    def run(i: int, job: Callable[[], object]) -> object:
        if len(own) >= len(jobs):
            with contextlib.suppress(OSError):     # if a sandbox forbids it, the gate opens all the same
                os.sched_setaffinity(0, {own[i]})  # of this thread, which ends with its job
        gate.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        results = [pool.submit(run, i, job) for i, job in enumerate(jobs)]
    return [r.result() for r in results]


def line_transfer(budget: float = 0.2) -> Time:
    """Time for a line that one core has written to reach another core that waits for it.

    Raises:
        RuntimeError: a thread waited in vain; there was no second core.
    """
    room = kernels.aligned(64)
    word = room.view(np.int64)

    def rally(n: int) -> None:
        word[0] = 0
        n = math.ceil(n / 2)
        done = at_once(lambda: kernels.ping(room.ctypes.data, 0, PATIENCE, n),
                       lambda: kernels.ping(room.ctypes.data, 1, PATIENCE, n))
        if min(done) < n:
            raise RuntimeError('a thread waited in vain for the other: no second core is free')
    return time_kernel(rally, 'median', budget=budget, first=1000, length=0.004)
