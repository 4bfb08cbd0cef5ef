"""Remedies that can be switched on and off between two steps of a running script, and the pairs that test
them.

A remedy is a class with ``applies``, ``apply`` and ``restore``. It is tested in the order A B B A: as it
is, changed, changed, as it is. A slow change of the machine's speed then weighs on both alike. The first
step after each switch does not count.
"""

import contextlib
import copy
import gc
import importlib
import logging
import math
import os
import re
import signal
import statistics
import sys
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

from why_slow.torch_hooks import Patches
from why_slow.trial import random_states, set_random_states
from why_slow.watch import Step, is_ordinary

LEAST = 1.02  # a ratio must lie beyond this to be called faster, and below its inverse for slower
NO_GAIN = 1.05  # an interval within this and its inverse is called no gain
FEWEST = 4  # quartets A B B A that make an interval
ENOUGH = 10  # quartets after which a what-if is over in any case
BLOCK = 0.1  # seconds that a block lasts at least
ROUNDING = 1e-5  # relative difference of two losses that is called rounding
SNAPSHOT = 400e6  # bytes of parameters and optimizer state that are copied to compare losses
DRAINED = 5.0  # seconds in which the batches that workers have ready must be used up
SPARE = 8  # times the memory that the process has had at most must be free to keep all activations
COPIES = 6  # a state takes so many times the memory of the parameters: gradients and Adam's two, twice


@dataclass
class Result:
    """What a remedy did to the time of a step, in seconds; ``ratio`` above 1 is faster."""

    id: str
    title: str
    before: float | None
    after: float | None
    ratio: float
    low: float
    high: float
    verdict: str
    losses: str = 'not compared'
    predicted: bool = False
    finding: str | None = None
    note: str = ''

    def to_dict(self) -> dict:
        return asdict(self)


def verdict(low: float, high: float) -> str:
    """What an interval of the ratio means."""
    if low > LEAST:
        return 'faster'
    if high < 1 / LEAST:
        return 'slower'
    if low > 1 / NO_GAIN and high < NO_GAIN:
        return 'no gain'
    return 'undecided'


def predicted(id: str, title: str, before: float, ratio: float, finding: str) -> Result:
    """A gain that is not tested, of a step that takes ``before`` seconds; it answers ``finding``."""
    said = verdict(ratio, ratio)
    return Result(
        id, title, before, before / ratio, ratio, ratio, ratio, said, predicted=True, finding=finding
    )


# Remedies ----------------------------------------------------------------------------------------


class Remedy:
    """A setting that can be switched between two steps."""

    id = ''
    title = ''
    finding: str | None = None
    part = ''  # of a step, if it can make only this part shorter
    failed = False  # whether the model raised an error with it, which the script was spared

    def __init__(self, session: Any) -> None:
        self.session = session
        self.torch = session.torch
        self.watch = session.watch

    def applies(self) -> bool:
        """Whether the script has what this switches; what does not apply is left out."""
        return True

    def worth_testing(self) -> bool:
        """Whether it could make a step 3% shorter, so that its test may take time from others."""
        if not self.part:
            return True
        steps = self.session.ordinary()
        spent = sum(step.parts.get(self.part, 0.0) for step in steps)
        return spent > 0.03 * sum(step.seconds for step in steps)

    def apply(self) -> None:
        """Switch it."""
        raise NotImplementedError

    def restore(self) -> None:
        """Switch it back to what the script had."""
        raise NotImplementedError

    def settled(self, step: Step) -> bool:
        """Whether a step as it is shows nothing any more of what a change before it has left behind."""
        return True


class AnomalyOff(Remedy):
    """Also where the mode surrounds the backward pass only: the mark of the backward pass switches it
    then."""

    id, title, finding = 'anomaly-off', 'anomaly mode off', 'anomaly'

    def applies(self):
        return self.torch.is_anomaly_enabled() or self.watch.anomaly

    def apply(self):
        self.on, self.nan = self.torch.is_anomaly_enabled(), self.torch.is_anomaly_check_nan_enabled()
        if self.on:
            self.torch.set_anomaly_enabled(False)
        self.watch.no_anomaly = True

    def restore(self):
        self.watch.no_anomaly = False
        if self.on:
            self.torch.set_anomaly_enabled(True, self.nan)


def monitors() -> dict[int, int]:
    """The tools that are told what Python does by sys.monitoring, with their events: from Python 3.12 on,
    cProfile is one of them, and ``sys.getprofile`` does not know of it."""
    monitoring = getattr(sys, 'monitoring', None)
    if monitoring is None:
        return {}
    found = {number: monitoring.get_events(number) for number in range(6) if monitoring.get_tool(number)}
    return {number: events for number, events in found.items() if events}


class ProfilerOff(Remedy):
    """Takes away a profile or trace function of Python; the profile misses these steps.

    PyTorch's profiler is left alone, for it cannot be stopped and continued without harm to what it holds.
    """

    id, title, finding = 'profiler-off', 'the profiler off', 'profiler'

    def applies(self):
        profile, trace = sys.getprofile(), sys.gettrace()
        if self.torch.autograd._profiler_enabled() or not (profile or trace or monitors()):
            return False
        return profile is None or callable(profile) or hasattr(profile, 'enable')

    def apply(self):
        self.functions = sys.getprofile(), sys.gettrace()
        sys.setprofile(None)
        sys.settrace(None)
        self.monitors = monitors()
        for number in self.monitors:
            sys.monitoring.set_events(number, 0)

    def restore(self):
        profile, trace = self.functions
        sys.settrace(trace)
        if hasattr(profile, 'enable'):  # cProfile is switched on by its own method
            profile.enable()
        else:
            sys.setprofile(profile)
        for number, events in self.monitors.items():
            sys.monitoring.set_events(number, events)


class DeterministicOff(Remedy):
    id, title, finding = 'deterministic-off', 'deterministic algorithms off', 'deterministic'

    def applies(self):
        return self.torch.are_deterministic_algorithms_enabled()

    def apply(self):
        self.warn = self.torch.is_deterministic_algorithms_warn_only_enabled()
        self.torch.use_deterministic_algorithms(False)

    def restore(self):
        self.torch.use_deterministic_algorithms(True, warn_only=self.warn)


class Threads(Remedy):
    finding = 'threads'

    def __init__(self, session, threads: int) -> None:
        super().__init__(session)
        self.threads = threads
        self.id = f'threads-{threads}'
        self.own = self.torch.get_num_threads()
        self.title = f'{threads} thread{"s" * (threads > 1)} instead of {self.own}'

    def applies(self):
        return self.threads != self.own

    def apply(self):
        self.torch.set_num_threads(self.threads)

    def restore(self):
        self.torch.set_num_threads(self.own)


class OptimizerFlag(Remedy):
    """``fused`` or ``foreach`` in the parameter groups, which optimizers read again at each step."""

    finding = 'optimizer-loop'
    part = 'optimizer'
    flag = ''

    def _optimizers(self) -> list[Any]:
        return [o for o in self.watch.optimizers.values() if hasattr(o, 'param_groups')]

    def _groups(self) -> list[dict]:
        """The groups as they are now: ``load_state_dict`` makes others."""
        return [g for g in self.watch.parameter_groups() if self.flag in g]

    def applies(self):
        optimizers, groups = self._optimizers(), self._groups()
        if not groups or all(g[self.flag] for g in groups):
            return False
        if self.flag == 'foreach' and any(g.get('fused') for g in groups):
            return False
        if any(g.get('differentiable') for g in groups):
            return False
        if any(isinstance(value, self.torch.Tensor) for g in groups for value in g.values()):
            return False  # a learning rate that is a tensor is not taken by all of them
        if self.flag == 'fused' and any(g.get('maximize') for g in groups):
            return False
        kinds = {type(o).__name__ for o in optimizers}
        if self.flag == 'fused' and not kinds <= {'Adam', 'AdamW', 'SGD', 'Adagrad'}:
            return False
        return all(
            p.is_floating_point() and not p.is_sparse and (p.grad is None or not p.grad.is_sparse)
            for g in groups
            for p in g['params']
        )

    def apply(self):
        self.groups = self._groups()
        self.kept = [(g.get('fused'), g.get('foreach')) for g in self.groups]
        for group in self.groups:
            group['foreach'] = None
            group[self.flag] = True

    def restore(self):
        for group, (fused, foreach) in zip(self.groups, self.kept, strict=True):
            if 'fused' in group:
                group['fused'] = fused
            group['foreach'] = foreach


class Fused(OptimizerFlag):
    id, title, flag = 'fused-optimizer', 'the fused optimizer', 'fused'


class Foreach(OptimizerFlag):
    id, title, flag = 'foreach-optimizer', 'the foreach optimizer', 'foreach'


class MatmulPrecision(Remedy):
    id, title = 'matmul-precision', 'float32 products in medium precision'

    def applies(self):
        try:
            precision = self.torch.get_float32_matmul_precision()
        except RuntimeError:  # the script sets it by each backend's fp32_precision
            return False
        if precision != 'highest' or self.session.compiles:
            return False
        a = self.torch.ones(256, 256) / 3
        a[0, 0] = 1.001
        exact = a @ a
        self.apply()
        changed = a @ a
        self.restore()
        return not self.torch.equal(exact, changed)  # otherwise this machine has nothing to switch

    def _matmuls(self):
        """Where PyTorch keeps the setting for each backend."""
        backends = self.torch.backends
        return backends.cuda.matmul, backends.mkldnn.matmul

    def apply(self):
        self.kept = [matmul.fp32_precision for matmul in self._matmuls()]
        self.torch.set_float32_matmul_precision('medium')

    def restore(self):
        self.torch.set_float32_matmul_precision('highest')
        for matmul, precision in zip(self._matmuls(), self.kept, strict=True):
            matmul.fp32_precision = precision  # 'none', where it follows a more general setting


class NoCheckpoints(Remedy):
    """Activations are kept instead of computed again, where far more memory is free than that can take."""

    id, title, finding = 'no-activation-checkpoints', 'without activation checkpoints', 'recomputation'

    def applies(self):
        from tested_results.machine import free_memory  # here, for it imports NumPy

        seen = self.session.not_needed
        if seen is None or not seen.checkpoints or self.session.compiles:
            return False
        on_the_host = all(p.device.type == 'cpu' for p in self.watch.parameters())
        return on_the_host and SPARE * self.session.memory['peak'] < free_memory()

    def apply(self):
        module = importlib.import_module('torch.utils.checkpoint')
        self.patches = Patches()
        self.patches.put(module, '_checkpoint_without_reentrant_generator', _around_nothing)
        self.patches.put(module, 'CheckpointFunction', _Directly)

    def restore(self):
        self.patches.restore()


def _around_nothing(*args: Any, **kwargs: Any) -> Generator[None, None, None]:
    """In the place of what PyTorch does before and after a function whose results are not kept."""
    yield


class _Directly:
    """In the place of the older kind of checkpoints, the reentrant ones."""

    @staticmethod
    def apply(function: Callable, preserve_random_state: bool, *args: Any) -> Any:
        return function(*args)


class ReplayBatch(Remedy):
    id, title, finding = 'replay-batch', 'a loader that costs nothing (same batch)', 'loader'
    part = 'loader'
    unsettled = 0.0  # seconds of steps since the replay that did not wait for the loader

    def applies(self):
        return self.watch.kept is not None and self.watch.kept.batch is not None

    def apply(self):
        self.watch.replaying = self.session.usual.get('batches', 0)

    def restore(self):
        self.watch.replaying = 0
        self.unsettled = 0.0

    def settled(self, step):
        """Workers fill their queue during a replay, and the steps that follow live on it: until one waits
        for the loader again."""
        usual = statistics.fmean(step.parts.get('loader', 0.0) for step in self.session.ordinary())
        if step.parts.get('loader', 0.0) >= usual / 2:
            return True
        self.unsettled += step.seconds
        if self.unsettled > DRAINED:
            self.failed = True
            self.session.notes.append(
                f'The test of {self.title} was given up: the steps after it live on batches that workers '
                f'have ready, for more than {DRAINED:.0f} s.'
            )
        return self.failed


class NoGc(Remedy):
    id, title = 'no-gc', "without Python's garbage collection"

    def applies(self):
        return gc.isenabled()

    def apply(self):
        gc.disable()

    def restore(self):
        gc.enable()


class Forward(Remedy):
    """Something around the call of the root module. It is tried on a copy first, and given up if the
    module fails with it all the same, so that it cannot break the script."""

    def applies(self):
        session = self.session
        if session.copy is None or session.compiles or self.failed:
            return False
        try:
            session.copy.step(self.changed)
        except Exception:
            return False
        return True

    def changed(self, original, module, args, kwargs):
        """The module's result, with the change."""
        raise NotImplementedError

    def call(self, original, module, args, kwargs):
        """The same for the module that was tried, and as it is for all others or after a failure."""
        if module is self.session.copy.original and not self.failed:
            try:
                return self.changed(original, module, args, kwargs)
            except Exception as error:
                self.failed = True
                self.session.notes.append(
                    f'The test of {self.title} was given up: with it the model fails with '
                    f'{type(error).__name__}.'
                )
        return original(module, *args, **kwargs)

    def apply(self):
        self.watch.forward_call = self.call

    def restore(self):
        self.watch.forward_call = None


class Autocast(Forward):
    id, title = 'autocast-bfloat16', 'the forward pass in bfloat16 (autocast)'

    def applies(self):
        copy = self.session.copy
        return copy is not None and copy.autocast is None and super().applies()

    def changed(self, original, module, args, kwargs):
        with self.torch.autocast('cpu', self.torch.bfloat16):
            result = original(module, *args, **kwargs)
        return self._wide(result)

    def _wide(self, x):
        """The results in float32, as the script expects them."""
        if isinstance(x, self.torch.Tensor):
            return x.float() if x.dtype == self.torch.bfloat16 else x
        if isinstance(x, tuple) and hasattr(x, '_fields'):
            return type(x)(*map(self._wide, x))
        if isinstance(x, list | tuple):
            return type(x)(map(self._wide, x))
        if type(x) is dict:
            return {k: self._wide(v) for k, v in x.items()}
        return x


class ChannelsLast(Forward):
    """Images in the layout in which the channels come last."""

    id, title = 'channels-last', 'images with the channels last'

    def applies(self):
        if self.session.copy is None:
            return False
        convolutions = [
            m for m in self.session.copy.original.modules() if isinstance(m, self.torch.nn.Conv2d)
        ]
        return bool(convolutions) and super().applies()

    def changed(self, original, module, args, kwargs):
        return original(module, *map(self._laid, args), **{k: self._laid(v) for k, v in kwargs.items()})

    def _laid(self, x):
        if isinstance(x, self.torch.Tensor) and x.dim() == 4:
            return x.contiguous(memory_format=self.torch.channels_last)
        return x


class Compiled(Forward):
    """``torch.compile`` of the root module. Its first call is made between two steps, and timed apart."""

    id, title, finding = 'compile', 'torch.compile of the model', 'small-operators'

    def prepare(self, seconds: float) -> float | None:
        """Seconds of the first call, forward and backward, or None if it fails or takes longer than
        ``seconds``."""
        session, torch = self.session, self.torch
        if session.not_needed is not None and session.not_needed.second_derivatives:
            session.notes.append('torch.compile was not tested: it has no gradients of gradients.')
            return None
        trial, module = session.copy, session.copy.original
        parameters = list(module.parameters())
        if any(getattr(p, '_post_accumulate_grad_hooks', None) for p in parameters):
            session.notes.append('torch.compile was not tested: hooks of the script act on each gradient.')
            return None
        gradients = [p.grad for p in parameters]
        for p in parameters:
            p.grad = None  # or the backward pass of the trial would be added to what the script has there
        buffers = [b.detach().clone() for b in module.buffers()]
        before = signal.getsignal(signal.SIGALRM)
        try:
            import torch._inductor.config as config

            one_thread = config.patch(compile_threads=1)
            with one_thread, _buffers_kept(), _without_its_errors(), _alarm(seconds):
                self.compiled = torch.compile(module.forward)
                began = perf_counter()
                trial.step(self.changed, module=module)
                return perf_counter() - began
        except Exception as error:
            said = f': {str(error).splitlines()[0][:200]}' if str(error) else ''
            why = f'{type(error).__name__}{said}'
            if late := re.search(r'it was not ready after \d+ s', said):  # the compiler wraps our exception
                why = f'{late[0]}; use a longer --seconds'
            session.notes.append(f'torch.compile was not tested: {why}')
            return None
        finally:
            signal.signal(signal.SIGALRM, before)
            for p, gradient in zip(parameters, gradients, strict=True):
                p.grad = gradient
            with torch.no_grad():
                for buffer, value in zip(module.buffers(), buffers, strict=True):
                    buffer.copy_(value)

    def changed(self, original, module, args, kwargs):
        return self.compiled(*args, **kwargs)

    def apply(self):
        super().apply()
        self.buffers = _buffers_kept()
        self.buffers.__enter__()

    def restore(self):
        self.buffers.__exit__(None, None, None)
        super().restore()


def _buffers_kept() -> contextlib.AbstractContextManager:
    """A backward pass of compiled code does not give its buffers away: a script may go through a graph
    twice."""
    from torch._functorch import config

    return config.patch(donated_buffer=False)


class NoAllReduce(Remedy):
    """DistributedDataParallel without its all-reduce. It is no remedy, for the ranks drift apart: it shows
    what a faster all-reduce could gain at most."""

    id, title, finding = 'no-all-reduce', 'no all-reduce of the gradients', 'all-reduce'

    def applies(self):
        parallel = self.torch.nn.parallel.DistributedDataParallel
        modules = [m for root in self.session.roots for m in root.modules()]
        self.modules = [m for m in modules if isinstance(m, parallel)]
        return bool(self.modules) and not any(m.static_graph for m in self.modules)

    def apply(self):
        for module in self.modules:
            module.require_backward_grad_sync = False

    def restore(self):
        for module in self.modules:
            module.require_backward_grad_sync = True


@contextlib.contextmanager
def _without_its_errors():
    """What the compiler logs when it is interrupted is no error of the script."""
    logger = logging.getLogger('torch._inductor')
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def _alarm(seconds: float):
    """An exception after so many seconds, in the main thread."""

    def late(number, frame):
        raise TimeoutError(f'it was not ready after {seconds:.0f} s')

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, seconds))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def remedies(session: Any) -> list[Remedy]:
    """All that can be tested on this script, the likeliest to matter first."""
    cores = session.cores
    own = session.torch.get_num_threads()
    numbers = [n for n in dict.fromkeys((cores, max(1, cores // 2), 1)) if n != own]
    found = [AnomalyOff(session), ProfilerOff(session), DeterministicOff(session), NoCheckpoints(session)]
    numbers_too_large = [Threads(session, n) for n in numbers if own > cores]
    found += [*numbers_too_large, ReplayBatch(session), Fused(session), Foreach(session)]
    found += [Threads(session, n) for n in numbers if own <= cores]
    found += [Autocast(session), ChannelsLast(session), MatmulPrecision(session), NoGc(session)]
    return found


# Pairs -------------------------------------------------------------------------------------------


def ordinary(
    session: Any, steps: int, seconds: float, settled: Callable[[Step], bool] | None = None
) -> Generator[None, Step, list[float]]:
    """Times of ordinary steps: at least so many, lasting at least so long together. The first does not
    count, nor do those before one that is ``settled``."""
    step = yield
    while settled is not None and not settled(step):
        step = yield
    times: list[float] = []
    passed = 0
    while (len(times) < steps or sum(times) < seconds) and passed < 3 * steps + 20:
        step = yield
        passed += 1
        if is_ordinary(step, session.usual):
            times.append(step.seconds)
    return times or [step.seconds]


def paired(session: Any, remedy: Remedy, until: float) -> Generator[None, Step, Result]:
    """Test a remedy by quartets A B B A until it is decided or the time is over."""
    before, after, ratios = [], [], []
    session.switched = remedy
    quartet = perf_counter()
    while len(ratios) < ENOUGH and not remedy.failed:
        a1 = yield from ordinary(session, 1, BLOCK, remedy.settled)
        remedy.apply()
        session.changed = True
        b = yield from ordinary(session, 2, 2 * BLOCK)
        remedy.restore()
        session.changed = False
        a2 = yield from ordinary(session, 1, BLOCK, remedy.settled)
        before += a1 + a2
        after += b
        as_it_is = (statistics.median(a1) + statistics.median(a2)) / 2
        ratios.append(as_it_is / statistics.median(b))
        now = perf_counter()
        length, quartet = now - quartet, now
        if len(ratios) >= FEWEST:
            ratio, low, high = interval(ratios)
            decided = verdict(low, high)
            if decided != 'undecided' and (len(ratios) >= 6 or low > 1.2 or high < 0.8):
                break
            if now + length > until:
                break
        elif now > until + 3 * length:
            break
    session.switched = None
    return tested(remedy, before, after, ratios)


def tested(remedy: Remedy, before: list[float], after: list[float], ratios: list[float]) -> Result:
    """What a remedy did, from the times as it is and changed, and the ratio of each quartet."""
    ratio, low, high = interval(ratios)
    return Result(
        remedy.id,
        remedy.title,
        statistics.median(before),
        statistics.median(after),
        ratio,
        low,
        high,
        verdict(low, high),
        finding=remedy.finding,
    )


def by_number(step: float, seconds: float) -> tuple[int, int]:
    """How many quartets of how many steps a block fit into ``seconds``; no quartets if there are too few."""
    steps = max(1, round(BLOCK / step))
    quartets = int(seconds / ((4 * steps + 3) * step))
    return (min(ENOUGH, quartets) if quartets >= FEWEST else 0), steps


def paired_by_number(
    session: Any, remedy: Remedy, quartets: int, steps: int
) -> Generator[None, Step, list[tuple[list[float], list[float]]]]:
    """Quartets A B B A in which each rank switches in the same step: the times of this rank's steps in each,
    as it is and changed."""

    def block(length: int) -> Generator[None, Step, list[float]]:
        yield  # the first step after a switch does not count
        times = []
        for _ in range(length):
            times.append((yield).seconds)
        return times

    pairs = []
    session.switched = remedy
    for _ in range(quartets):
        before = yield from block(steps)
        remedy.apply()
        session.changed = True
        changed = yield from block(2 * steps)
        remedy.restore()
        session.changed = False
        after = yield from block(steps)
        pairs.append((before + after, changed))
    session.switched = None
    return pairs


def slowest_rank(remedy: Remedy, of_ranks: list[list[tuple[list[float], list[float]]]]) -> Result:
    """What a remedy did to the job. Each of its steps is over when this step's slowest rank is: where the
    batches differ, that is another rank in each step."""

    def of_the_job(times_of_ranks: list[list[float]]) -> float:
        return statistics.median(max(step) for step in zip(*times_of_ranks, strict=True))

    before, after = [], []
    for quartet in zip(*of_ranks, strict=True):
        before.append(of_the_job([as_it_is for as_it_is, _ in quartet]))
        after.append(of_the_job([changed for _, changed in quartet]))
    result = tested(remedy, before, after, [b / a for b, a in zip(before, after, strict=True)])
    result.note = 'the ranks would drift apart'
    return result


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The median of the quartets' ratios and an interval of 95% around it, by Student's t of their
    logarithms.

    With fewer than three quartets the interval is unbounded.
    """
    ratio = statistics.median(ratios)
    if len(ratios) < 3:
        return ratio, 0.0, math.inf
    logs = sorted(math.log(r) for r in ratios)
    middle = math.log(ratio)
    deviation = statistics.stdev(logs)
    half = STUDENT[min(len(logs), max(STUDENT))] * deviation / math.sqrt(len(logs))
    half *= (
        1.25 if len(logs) > 3 else 1
    )  # the median of normal values varies by a quarter more than their mean
    return ratio, math.exp(middle - half), math.exp(middle + half)


# Quantile 97.5% of Student's t by the number of values (one more than the degrees of freedom).
STUDENT = {3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


# Losses ------------------------------------------------------------------------------------------


class State:
    """Parameters, buffers, optimizer state and random numbers at a moment, to begin a step from there
    again."""

    def __init__(self, session: Any) -> None:
        torch = self.torch = session.torch
        self.optimizers = list(session.watch.optimizers.values())
        tensors = {id(p): p for p in session.watch.parameters()}
        for root in session.roots:
            tensors.update({id(b): b for b in root.buffers()})
            tensors.update({id(p): p for p in root.parameters()})
        self.tensors = list(tensors.values())
        self.values = [t.detach().clone() for t in self.tensors]
        self.gradients = [None if t.grad is None else t.grad.detach().clone() for t in self.tensors]
        self.states = [copy.deepcopy(o.state_dict()) for o in self.optimizers]
        self.random = random_states(torch)

    @staticmethod
    def fits(session: Any) -> bool:
        """Whether the copies fit into half of the free memory, which the ranks of a machine share."""
        from tested_results.machine import free_memory  # here, for it imports NumPy

        ranks = int(os.environ.get('LOCAL_WORLD_SIZE', '1'))
        return COPIES * _parameter_bytes(session) < free_memory() / 2 / ranks

    @staticmethod
    def cheap(session: Any) -> bool:
        """Whether the copies are quickly made, and no other rank waits meanwhile."""
        return 4 * _parameter_bytes(session) < SNAPSHOT and os.environ.get('WORLD_SIZE', '1') == '1'

    def restore(self) -> None:
        with self.torch.no_grad():
            for tensor, value, gradient in zip(self.tensors, self.values, self.gradients, strict=True):
                tensor.copy_(value)
                if gradient is None or tensor.grad is None:
                    tensor.grad = None if gradient is None else gradient.clone()
                else:  # in place, for it may be a piece of a bucket of gradients
                    tensor.grad.copy_(gradient)
        for optimizer, state in zip(self.optimizers, self.states, strict=True):
            optimizer.load_state_dict(copy.deepcopy(state))
        set_random_states(self.torch, self.random)


def _parameter_bytes(session: Any) -> int:
    return sum(p.numel() * p.element_size() for p in session.watch.parameters())


def agreement(one: list[Any], other: list[Any]) -> str:
    """How the losses of two steps compare."""
    if not one or len(one) != len(other):
        return 'not compared'
    one, other = ([float(loss.double().sum()) for loss in losses] for losses in (one, other))
    if one == other:
        return 'same'
    if any(not math.isfinite(x) for x in one + other):
        return 'differs'
    gap = max(abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in zip(one, other, strict=True))
    return 'rounding' if gap < ROUNDING else 'differs'


def compare_losses(session: Any, chosen: list[Remedy]) -> Generator[None, Step, dict[str, str]]:
    """The loss of one step with each remedy against the loss without, from the same state and with the
    same batch.

    The step after the one that is changed is compared as well, for a changed optimizer shows only there.
    If the unchanged script does not repeat its own losses, nothing can be compared.
    """
    watch = session.watch
    try:
        state = State(session)
    except Exception:  # what cannot be copied is not compared
        return {}
    watch.keep_losses = True
    if watch.kept is not None and watch.kept.batch is not None:
        watch.replaying = session.usual.get('batches', 0)

    def two_steps(remedy: Remedy | None = None) -> Generator[None, Step, list[Any]]:
        state.restore()
        if remedy is not None:  # applied after that, for an optimizer's flags are a part of its state
            session.switched, session.changed = remedy, True
            remedy.apply()
        one = yield
        two = yield
        return one.losses + two.losses

    found: dict[str, str] = {}
    try:
        base = yield from two_steps()
        again = yield from two_steps()
        if agreement(base, again) in ('same', 'rounding'):
            for remedy in chosen:
                if isinstance(remedy, ReplayBatch):
                    continue
                losses = yield from two_steps(remedy)
                remedy.restore()
                session.switched, session.changed = None, False
                found[remedy.id] = agreement(base, losses)
    finally:
        watch.keep_losses = False
        watch.replaying = 0
    with contextlib.suppress(Exception):
        state.restore()
    return found
