"""All that knows PyTorch. ``from d2l_local import torch as d2l``.

Where the pages first use each helper:

    measuring/measuring_pytorch: compare, estimate, measured, plot, predict, synchronize, try_gpu
    measuring/background_pytorch: Timer
    measuring/gpt_pytorch: GPT, count, use_svg_display
    measuring/traces_pytorch: plot_trace, trace_events
    measuring/measuring_solutions_pytorch: measure
    hybridization/hybridization_pytorch: verify
    hybridization/hybridization_solutions_pytorch: evaluate_accuracy_gpu, load_data, ratio
    asynchrony/asynchrony_pytorch: devices, overlap, profile, put, timeline
    automatic_parallelism/automatic_parallelism_pytorch: Benchmark
    memory/memory_pytorch: resnet18
    multi_gpu/multi_gpu_pytorch: Animator, accuracy, ranks, run_ranks
"""

import functools
import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

try:
    import torch
except ImportError as e:
    raise ImportError(f'PyTorch does not import here ({e}): install requirements.txt, which '
                      '"make book" does, or read the MXNet notebooks.') from e

from d2l_local.gpt import GPT
from d2l_local.plotting import Animator, plot, plot_trace, timeline, use_svg_display
from d2l_local.torch_training import accuracy, evaluate_accuracy_gpu, load_data, resnet18
from d2l_local.virtual import VirtualDevice, put
from tested_results import claims, machine, timing, traces
from tested_results.claims import count, estimate, verify
from tested_results.predictions import predict
from tested_results.timing import measured
from tested_results.traces import overlap

if TYPE_CHECKING:
    from local_cluster.ranks import Ranks

__all__ = ['Animator', 'Benchmark', 'GPT', 'Timer', 'accuracy', 'compare', 'count', 'devices',
           'estimate', 'evaluate_accuracy_gpu', 'load_data', 'measure', 'measured', 'overlap', 'plot',
           'plot_trace', 'predict', 'profile', 'put', 'ranks', 'ratio', 'resnet18', 'run_ranks',
           'synchronize', 'timeline', 'trace_events', 'try_gpu', 'use_svg_display', 'verify']


def __dir__() -> list[str]:
    return __all__


def synchronize(device: torch.device | VirtualDevice | None = None) -> None:
    """Wait until a device has finished what was queued on it; without one, until all have.

    All are the GPUs, and the virtual devices that :func:`devices` has given.
    ``torch.cuda.synchronize()`` waits for the current GPU alone. On the CPU nothing is queued.
    """
    if device is None:
        gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
        devices = [*_virtual, *(torch.device('cuda', i) for i in range(gpus))]
        devices += [torch.device('mps')] * torch.backends.mps.is_available()
        for each in devices:
            synchronize(each)
    elif isinstance(device, VirtualDevice):
        device.synchronize()
    elif torch.device(device).type == 'cuda':
        torch.cuda.synchronize(device)
    elif torch.device(device).type == 'mps':
        torch.mps.synchronize()


_virtual: list[VirtualDevice] = []
if hasattr(os, 'register_at_fork'):     # a fork has none of their threads, and would wait for ever
    os.register_at_fork(after_in_child=_virtual.clear)


def devices(k: int) -> list[torch.device | VirtualDevice]:
    """``k`` devices: GPUs if there are as many, else virtual CPU devices (never called GPUs)."""
    if k < 1:
        raise ValueError(f'a lesson needs at least one device, not {k}')
    if torch.cuda.device_count() >= k:
        return [torch.device('cuda', i) for i in range(k)]
    while len(_virtual) < k:
        _virtual.append(VirtualDevice(len(_virtual)))
    return list(_virtual[:k])


def profile(work: Callable[[], Any],
            on: Sequence[torch.device | VirtualDevice]) -> list[traces.Event]:
    """What devices, all of one kind, did while ``work`` ran and until they were done.

    The lane ``front end`` is the time that ``work`` itself took: issuing, and waiting if it waits.
    The others are named as the devices.
    """
    if not isinstance(on[0], VirtualDevice):
        return _profile_gpus(work, on)
    for device in on:
        device.events, device.recording = [], True
    start = time.perf_counter()
    try:
        work()
        issued = time.perf_counter()
        for device in on:
            device.synchronize()
    finally:
        for device in on:
            device.recording = False
    return [traces.Event('front end', 'issue', start, issued), *(e for d in on for e in d.events)]


def _profile_gpus(work: Callable[[], Any], on: Sequence[torch.device]) -> list[traces.Event]:
    """Kernels and copies as torch.profiler records them; its clock serves for the front end too."""
    os.environ.setdefault('KINETO_LOG_LEVEL', '6')      # its notes on itself are no output of the page
    with torch.profiler.profile() as record:
        with torch.profiler.record_function('issue'):
            work()
        for device in on:
            synchronize(device)
    events = []
    for e in record.events():
        gpu = e.device_type == torch.autograd.DeviceType.CUDA
        if gpu != (e.name == 'issue'):      # "issue" leaves its mark on the GPU's lane as well
            events.append(traces.Event(f'cuda:{e.device_index}' if gpu else 'front end', e.name[:20],
                                       e.time_range.start / 1e6, e.time_range.end / 1e6))
    return [e for e in events if e.lane in ('front end', *map(str, on))]


def trace_events(record: torch.profiler.profile, phases: Sequence[str]) -> list[traces.Event]:
    """What a profiler has recorded, as a trace for :func:`d2l_local.plotting.plot_trace`, by start.

    Args:
        record: a profiler that has finished.
        phases: names that the program gave to its parts by ``record_function``: the lane ``phases``.

    Returns:
        The phases; in the lane ``operators`` those that no other operator has called; and in the lane
        ``GPU`` the kernels and copies of a GPU, if there are any.
    """
    def inside_an_operator(e: Any) -> bool:
        while (e := e.cpu_parent) is not None:
            if e.name.startswith('aten::'):
                return True
        return False

    events = []
    for e in record.events():
        if e.device_type == torch.autograd.DeviceType.CUDA:
            lane = None if e.name in phases else 'GPU'      # a phase leaves its mark there as well
        elif e.name in phases:
            lane = 'phases'
        else:
            lane = 'operators' if e.name.startswith('aten::') and not inside_an_operator(e) else None
        if lane:
            events.append(traces.Event(lane, e.name, e.time_range.start / 1e6, e.time_range.end / 1e6))
    return sorted(events, key=lambda e: e.start)


_gpu = torch.cuda.is_available() or torch.backends.mps.is_available()


def _drain() -> Callable[[], None] | None:
    """What waits until every device has finished what was queued; None where nothing queues.

    Asked for each measurement: there are virtual devices from the first call of :func:`devices` on,
    and where there are none, no clock need wait, and samples may be short.
    """
    return synchronize if _gpu or _virtual else None


def _drain_now() -> None:
    """Wait until every device has finished, where there is one that queues."""
    if drain := _drain():
        drain()


def _drained(measuring: Callable) -> Callable:
    """A function of :mod:`timing` with every device drained before each clock stops; or with the
    ``sync`` that a call gives, None included."""
    @functools.wraps(measuring)
    def with_sync(*args: Any, **how: Any) -> Any:
        return measuring(*args, **{'sync': _drain(), **how})
    return with_sync


# The clock stops only when the devices have finished what was queued.
Timer = functools.partial(timing.Timer, sync=_drain_now)
Benchmark = functools.partial(timing.Benchmark, sync=_drain_now)
measure, ratio = _drained(timing.measure), _drained(timing.ratio)


def compare(id: str, **how: Any) -> claims.Claim:
    """:func:`tested_results.claims.compare` with every device drained before each clock stops."""
    return claims.compare(id, **{'sync': _drain(), **how})


def ranks(k: int, **how: Any) -> 'Ranks':
    """:func:`local_cluster.ranks.ranks`, with the cores that this process may use divided among them; each
    rank has this module already."""
    from local_cluster import ranks
    threads = max(1, machine.cores() // k) if k > 0 else 1
    return ranks.ranks(k, **{'prepare': f'{__name__}:prepare_ranks', 'threads': threads, **how})


def run_ranks(function: str | Callable, k: int, *args: Any, timeout: float = 120.0, **how: Any) -> list:
    """Call a function in ``k`` new ranks; the results in rank order. ``how``: see :func:`ranks`."""
    with ranks(k, **how) as group:
        return group.run(function, *args, timeout=timeout)


def prepare_ranks() -> None:
    """Called in the process of which ranks are forks: this module has been imported there by now."""
    from local_cluster import ranks
    ranks.prepare()


def try_gpu(i: int = 0) -> torch.device:
    """GPU ``i`` if there is one (CUDA, or Apple's as ``mps``), else the CPU."""
    if torch.cuda.device_count() > i:
        return torch.device('cuda', i)
    if i == 0 and torch.backends.mps.is_available():
        return torch.device('mps')
    return torch.device('cpu')
