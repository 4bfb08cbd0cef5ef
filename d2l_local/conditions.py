"""What a claim needs of a machine, by name, judged apart from what the claim measures.

A condition is *permanent* (this machine has a C++ compiler or it has none) or *passing* (two cores
are free, or just now they are not). Permanent ones are asked once, before anything is measured.
Passing ones are asked before, and watched while each stretch of samples is taken; a stretch during
which one did not hold is set aside, whatever it showed. No condition is ever asked because a claim
did not hold. Knows no framework; what a probe needs, it imports itself.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from d2l_local import machine

Watch = Callable[[], Callable[[], str]]
FREE = 0.9           # of the cores that are asked for must have been ours, or idle
WAIT = 0.5           # seconds between two questions whether a passing condition holds now


class UnknownCondition(ValueError):
    """A claim needs something that no condition is called."""


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
    probe: Callable[[], str]
    system: bool = False
    watch: Watch | None = None

    @property
    def passing(self) -> bool:
        """Whether waiting may help."""
        return self.watch is not None


known: dict[str, Condition] = {}
_answers: dict[Condition, str] = {}      # of the permanent ones: asked once in a process


def condition(name: str, system: bool = False, watch: Watch | None = None) -> Callable:
    """Register the decorated probe as a condition.

    Raises:
        ValueError: there is a condition of this name already.
    """
    def register(probe: Callable[[], str]) -> Callable[[], str]:
        if name in known:
            raise ValueError(f'there are two conditions called {name!r}: give one of them another name')
        known[name] = Condition(name, probe, system, watch)
        return probe
    return register


def named(needs: str | Iterable[str]) -> list[Condition]:
    """The conditions that these names stand for.

    Raises:
        UnknownCondition: a name that no condition has.
    """
    names = [needs] if isinstance(needs, str) else list(needs)
    for name in names:
        if name not in known:
            raise UnknownCondition(f'no condition is called {name!r}; there are: '
                                   f'{", ".join(sorted(known))}. New ones are registered there.')
    return [known[name] for name in names]


def lacking(needed: Iterable[Condition]) -> tuple[Condition, str] | None:
    """The first condition that does not hold now, and why; None if all hold."""
    for c in needed:
        if c.passing:
            reason = c.probe()
        else:
            reason = _answers[c] = _answers[c] if c in _answers else c.probe()
        if reason:
            return c, reason
    return None


def wait_for(needed: Iterable[Condition], seconds: float) -> tuple[Condition, str] | None:
    """As :func:`lacking`, but passing conditions are asked again for ``seconds``."""
    needed = list(needed)
    if found := lacking(c for c in needed if not c.passing):
        return found
    end = time.monotonic() + seconds
    while found := lacking(c for c in needed if c.passing):
        if time.monotonic() >= end:
            return found
        time.sleep(WAIT)
    return None


def watch(needed: Iterable[Condition]) -> Callable[[], tuple[Condition, str] | None]:
    """Begin to watch the passing conditions; what it returns ends the watch: the first that did not
    hold meanwhile, and why, or None."""
    begun = [(c, c.watch()) for c in needed if c.watch]

    def end() -> tuple[Condition, str] | None:
        # every watch is ended, also behind one that found something
        found = [(c, reason) for c, finish in begun if (reason := finish())]
        return found[0] if found else None
    return end


# Free cores --------------------------------------------------------------------------------------

def _all_busy() -> float:
    """Seconds that all processors spent at work, or were kept from it by other machines."""
    ticks = [int(t) for t in Path('/proc/stat').read_text().split('\n', 1)[0].split()[1:9]]
    user, nice, system, _idle, _wait, irq, soft, steal = ticks
    return (user + nice + system + irq + soft + steal) / os.sysconf('SC_CLK_TCK')


def _own_busy() -> float:
    """Seconds of processor time of this process and of its children, living and dead."""
    import psutil
    total = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        try:
            total += sum(child.cpu_times()[:4])
        except psutil.Error:
            pass              # it ended between the two lines
    return total


def _watch_cores(k: int = 2) -> Callable[[], str]:
    """Watch whether ``k`` cores stay free of others.

    On Linux by the kernel's own accounting: what others computed, and what the host took away
    (steal time), must leave nine tenths of ``k`` cores. Elsewhere by a probe at both ends.
    """
    if not sys.platform.startswith('linux'):
        before = machine.no_free_cores(k)
        return lambda: before or machine.no_free_cores(k)
    # The first and the last tick may fall outside: a hundredth of a second for each core.
    cores, slack = os.cpu_count() or 1, 0.01
    began, busy, own = time.monotonic(), _all_busy(), _own_busy()

    def end() -> str:
        span = time.monotonic() - began
        others = max(0.0, (_all_busy() - busy) - (_own_busy() - own) - slack * cores) / max(span, 1e-9)
        if cores - others >= FREE * k:
            return ''
        return f'other work took {others:.1f} of {cores} cores'
    return end


condition('two free cores', watch=_watch_cores)(machine.no_free_cores)


# What a machine has or has not -------------------------------------------------------------------

def _gpus() -> int:
    """GPUs that a framework of this process can use; without one, those that the driver lists."""
    if torch := sys.modules.get('torch'):
        return torch.cuda.device_count()
    if mxnet := sys.modules.get('mxnet'):
        return mxnet.context.num_gpus()
    return len(machine.gpus())


def _flags() -> set[str]:
    """What the processor says it can do; empty where the system does not tell."""
    try:
        text = Path('/proc/cpuinfo').read_text()
    except OSError:
        return set()
    return {f for line in text.splitlines() if line.startswith(('flags', 'Features'))
            for f in line.split(':', 1)[1].split()}


@condition('a GPU')
def _gpu() -> str:
    return '' if _gpus() else 'no GPU'


@condition('two GPUs')
def _two_gpus() -> str:
    return '' if _gpus() > 1 else 'no second GPU'


@condition('devices are CPUs')
def _no_gpus() -> str:
    return 'GPUs do the work here' if _gpus() > 1 else ''


@condition('two cores')
def _two_cores() -> str:
    return '' if machine.cores() > 1 else 'one core'


@condition('at most eight cores')
def _few_cores() -> str:
    return '' if machine.cores() <= 8 else 'more than eight cores'


@condition('a C++ compiler', system=True)
def _compiler() -> str:
    return '' if machine.compiler() else 'no C++ compiler that torch.compile can use'


@condition('links', system=True)
def _links() -> str:
    from d2l_local import links
    return links.unavailable() or ''


@condition('byte counters', system=True)
def _counters() -> str:
    return '' if Path('/proc/net/dev').exists() else 'this system has no /proc/net/dev'


@condition('process memory', system=True)
def _memory() -> str:
    return '' if Path('/proc/self/statm').exists() else 'this system has no /proc/self/statm'


@condition('bound processes', system=True)
def _bound() -> str:
    return '' if hasattr(os, 'sched_setaffinity') else 'this system does not bind processes to cores'


@condition('a POSIX mutex', system=True)
def _mutex() -> str:
    return '' if os.name == 'posix' else 'this system has no POSIX mutex'


@condition('a vector unit')
def _vectors() -> str:
    return '' if _flags() & {'fma', 'asimd'} or not _flags() else 'no fused multiply-add on vectors here'


@condition('AVX-512 VNNI')
def _vnni() -> str:
    return '' if 'avx512_vnni' in _flags() else 'this processor has no AVX-512 VNNI'


@condition('AMX')
def _amx() -> str:
    return '' if 'amx_bf16' in _flags() else 'this processor has no AMX'


@condition('no Apple silicon')
def _no_apple() -> str:
    return 'Apple silicon has matrix units of its own' if platform.machine() == 'arm64' else ''


@condition('AVX2')
def _avx2() -> str:
    return '' if 'avx2' in _flags() else 'this system names no AVX2'
