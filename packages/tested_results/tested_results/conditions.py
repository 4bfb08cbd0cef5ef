"""What a claim needs of a machine, by name, judged apart from what the claim measures.

A condition is *permanent* (this machine has a C++ compiler or it has none) or *transient* (two cores
are free, or just now they are not). Permanent ones are asked once, before anything is measured.
Passing ones are asked before, and watched while each window of samples is taken; a window during
which one did not hold is set aside, whatever it showed. No condition is ever asked because a claim
did not hold. Knows no framework; what a probe needs, it imports itself.
"""

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tested_results import machine

Probe = Callable[[], str]
FREE = 0.9           # of the cores that are asked for must have been ours, or idle
LOOK = 0.2           # seconds to look whether they are
WAIT = 0.5           # seconds between two questions whether a transient condition holds now


@dataclass(frozen=True)
class Condition:
    """Something that a claim needs.

    Attributes:
        name: what stands in ``needs=`` and in the ledger.
        probe: asks now: why the condition does not hold, or an empty string.
        system: it depends on the operating system and what is installed there, not on the
            processor: machines alike in system, cores and GPUs should all have it.
        watch: begins to watch; what it returns ends the watch and says why the condition did not
            hold meanwhile, or an empty string. Passing conditions have one.
    """

    name: str
    probe: Probe
    system: bool = False
    watch: Callable[[], Probe] | None = None

    @property
    def transient(self) -> bool:
        """Whether waiting may help."""
        return self.watch is not None


known: dict[str, Condition] = {}


def condition(name: str, system: bool = False, watch: Callable[[], Probe] | None = None) -> Callable:
    """Register the decorated probe as a condition; a permanent one is asked once in a process.

    Raises:
        ValueError: there is a condition of this name already.
    """
    def register(probe: Probe) -> Probe:
        if name in known:
            raise ValueError(f'there are two conditions called {name!r}: give one of them another name')
        known[name] = Condition(name, probe if watch else functools.cache(probe), system, watch)
        return probe
    return register


def named(needs: str | Iterable[str]) -> list[Condition]:
    """The conditions that these names stand for.

    Raises:
        ValueError: a name that no condition has.
    """
    names = [needs] if isinstance(needs, str) else list(needs)
    if unknown := [n for n in names if n not in known]:
        raise ValueError(f'no condition is called {unknown[0]!r}; there are: '
                         f'{", ".join(sorted(known))}. New ones are registered there.')
    return [known[name] for name in names]


def wait_for(needed: Iterable[Condition], seconds: float) -> tuple[Condition, str] | None:
    """The first condition that does not hold, and why; transient ones are asked again for ``seconds``."""
    permanent_first, end = sorted(needed, key=lambda c: c.transient), time.monotonic() + seconds
    while found := next(((c, why) for c in permanent_first if (why := c.probe())), None):
        if not found[0].transient or time.monotonic() >= end:
            return found
        time.sleep(WAIT)
    return None


def watch(needed: Iterable[Condition]) -> Callable[[], tuple[Condition, str] | None]:
    """Begin to watch the transient conditions; what it returns ends the watch: the first that did not
    hold meanwhile, and why, or None."""
    begun = [(c, c.watch()) for c in needed if c.watch]
    # the list ends every watch, also those behind one that found something
    return lambda: next(iter([(c, why) for c, finish in begun if (why := finish())]), None)


def _all_busy(cores: set[int]) -> float:
    """Seconds that these cores spent at work, or were kept from it by other machines."""
    return _busy(Path('/proc/stat').read_text(), cores) / os.sysconf('SC_CLK_TCK')


def _busy(stat: str, cores: set[int]) -> int:
    """Ticks of the clock that cores were busy, from the text of /proc/stat.

    psutil gives the lines without their numbers, and a core that is switched off has none. Where a
    container renumbers its cores, those of all lines together are meant.
    """
    ticks = {}
    for line in stat.splitlines():
        if line.startswith('cpu'):
            name, user, nice, system, _, _, irq, softirq, steal, *_ = line.split()
            ticks[name] = sum(map(int, (user, nice, system, irq, softirq, steal)))
    own = [f'cpu{i}' for i in cores]
    return sum(map(ticks.get, own)) if ticks.keys() >= set(own) else ticks['cpu']


def own_busy() -> float:
    """Seconds of processor time of this process and of its children, living and dead."""
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.Error:
            pass              # it ended between the two lines
    return total


def taken() -> Callable[[], float]:
    """Begin to count what others take; the result says how many cores' worth they took since then.

    On Linux by the kernel's own accounting of the cores on which this process may run: what other
    programs computed there, and what the host took away (steal time). Elsewhere 0, for nobody knows.
    """
    if not sys.platform.startswith('linux'):
        return lambda: 0.0
    # The first and the last tick may fall outside: a hundredth of a second for each core.
    cores = machine.own_cores()
    slack = 0.01 * len(cores)
    began, busy, own = time.monotonic(), _all_busy(cores), own_busy()

    def since() -> float:
        span = time.monotonic() - began
        return max(0.0, (_all_busy(cores) - busy) - (own_busy() - own) - slack) / max(span, 1e-9)
    return since


def too_few_left(others: float, k: int) -> str:
    """Why ``k`` cores are not free where others take so many of those on which this process may run;
    empty if nine tenths of ``k`` are, and its quota of time is good for them."""
    cores, quota = len(machine.own_cores()), machine.quota()
    if quota < FREE * k:
        return f'this program is granted the time of {quota:.1f} cores'
    return '' if cores - others >= FREE * k else f'other work took {others:.1f} of {cores} cores'


def _watch_cores(k: int = 2) -> Probe:
    """Watch whether ``k`` cores stay free of others: on Linux see :func:`taken`, and a probe at both
    ends whether they are cores of their own; elsewhere by the longer probe at both ends."""
    if not sys.platform.startswith('linux'):
        before = machine.no_free_cores(k)
        return lambda: before or machine.no_free_cores(k)
    before, others = machine.shared_cores(k), taken()
    return lambda: too_few_left(others(), k) or before or machine.shared_cores(k)


def _watch_all() -> Probe:
    """Watch whether others leave this program the cores that it may use: see :func:`taken`."""
    others = taken()
    return lambda: too_few_left(others(), machine.cores())


def _all_free() -> str:
    """Why others do not leave this program its cores now; on Linux by a look of a fifth of a second."""
    if not sys.platform.startswith('linux'):
        return machine.no_free_cores(min(2, machine.cores()))
    end = _watch_all()
    time.sleep(LOOK)
    return end()


def _gpus() -> int:
    """GPUs that a framework of this process can use; without one, those that the driver lists."""
    if torch := sys.modules.get('torch'):
        return torch.cuda.device_count()
    if mxnet := sys.modules.get('mxnet'):
        return mxnet.context.num_gpus()
    return len(machine.gpus())


def _permanent(name: str, holds: Callable[[], bool], otherwise: str, system: bool = False) -> None:
    condition(name, system)(lambda: '' if holds() else otherwise)


# For what a second core is worth; and for threads that wait for each other, wherever they run.
condition('two free cores', watch=_watch_cores)(machine.no_free_cores)
condition('free cores', watch=_watch_all)(_all_free)
_permanent('a GPU', lambda: _gpus() > 0, 'no GPU')
_permanent('two GPUs', lambda: _gpus() > 1, 'no second GPU')
_permanent('devices are CPUs', lambda: _gpus() < 2, 'GPUs do the work here')
_permanent('at most eight cores', lambda: machine.cores() <= 8, 'more than eight cores')
_permanent('a vector unit', lambda: bool(machine.flags() & {'fma', 'asimd'} or not machine.flags()),
           'no fused multiply-add on vectors here')
_permanent('AVX2', lambda: 'avx2' in machine.flags(), 'this system names no AVX2')
_permanent('AVX-512', lambda: 'avx512bw' in machine.flags(), 'this processor has no AVX-512')
_permanent('AVX-512 VNNI', lambda: 'avx512_vnni' in machine.flags(), 'this processor has no AVX-512 VNNI')
_permanent('AMX', lambda: 'amx_bf16' in machine.flags(), 'this processor has no AMX')
_permanent('a C++ compiler', lambda: bool(machine.compiler()),
           'no C++ compiler that torch.compile can use', system=True)
_permanent('byte counters', Path('/proc/net/dev').exists, 'this system has no /proc/net/dev',
           system=True)
_permanent('process memory',
           lambda: all(Path('/proc/self', name).exists() for name in ('statm', 'clear_refs')),
           'this system has no /proc/self/statm or clear_refs', system=True)
_permanent('threads set by PyTorch', lambda: sys.platform != 'darwin',
           'products go to Accelerate here, which chooses its own threads', system=True)
_permanent('bound processes', lambda: hasattr(os, 'sched_setaffinity'),
           'this system does not bind processes to cores', system=True)
