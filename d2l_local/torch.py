"""All that knows PyTorch. ``from d2l_local import torch as d2l``.

Where the pages first use each helper:

    measuring/measuring_pytorch: compare, estimate, measure, measured, plot, predict, synchronize, try_gpu
    measuring/regimes_pytorch: in_turn
    measuring/background_pytorch: Timer
    measuring/gpt_pytorch: GPT, count, use_svg_display
    measuring/traces_pytorch: plot_trace, ratio, trace_events
    measuring/around_pytorch: verify
    hybridization/hybridization_solutions_pytorch: evaluate_accuracy_gpu, load_data
    asynchrony/asynchrony_pytorch: devices, overlap, profile, put, timeline
    automatic_parallelism/automatic_parallelism_pytorch: Benchmark
    memory/memory_pytorch: resnet18
    multi_gpu/multi_gpu_pytorch: Animator, accuracy, ranks, run_ranks
"""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

try:
    import torch
except ImportError as e:
    raise ImportError(f'PyTorch does not import here ({e}): install requirements.txt, which '
                      '"make book" does, or read the MXNet notebooks.') from e

from d2l_local import timers
from d2l_local.gpt import GPT
from d2l_local.plotting import Animator, plot, plot_trace, timeline, use_svg_display
from d2l_local.torch_training import accuracy, evaluate_accuracy_gpu, load_data, resnet18
from tested_results import claims, conditions, machine, timing, traces
from tested_results.claims import count, estimate, verify
from tested_results.predictions import predict
from tested_results.timing import measured
from tested_results.traces import overlap
from virtual_devices import devices, given, profile, put, synchronize

if TYPE_CHECKING:
    from local_cluster.ranks import Ranks

# Python 3.13.0 has a fault for which compiled code checks more before each call. The README says so; PyTorch
# would say so in each notebook that compiles, below the first cell that does.
warnings.filterwarnings('ignore', 'Guards may run slower on Python 3.13.0', RuntimeWarning)

__all__ = ['Animator', 'Benchmark', 'GPT', 'Timer', 'accuracy', 'compare', 'count', 'devices',
           'estimate', 'evaluate_accuracy_gpu', 'in_turn', 'load_data', 'measure', 'measured', 'overlap',
           'plot', 'plot_trace', 'predict', 'profile', 'put', 'ranks', 'ratio', 'resnet18', 'run_ranks',
           'synchronize', 'timeline', 'trace_events', 'try_gpu', 'use_svg_display', 'verify']


def __dir__() -> list[str]:
    return __all__


@conditions.condition('PyTorch before 2.14')
def _dispatch_modes_switch_off_compiled_code() -> str:
    """Until 2.13 a call inside a dispatch mode made Dynamo skip the function for good."""
    major, minor = map(int, torch.__version__.split('.')[:2])
    if (major, minor) < (2, 14):
        return ''
    return f'PyTorch {torch.__version__} compiles the function again'


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


@functools.cache
def _gpu() -> bool:
    """Whether this machine has a GPU. Not asked by an import: where the driver must be asked, forks of this
    process, as ranks are, could not use CUDA."""
    return torch.cuda.device_count() > 0 or torch.backends.mps.is_available()


def _drain() -> Callable[[], None] | None:
    """What waits until every device has finished what was queued; None where nothing queues.

    Asked for each measurement: there are virtual devices from the first call of :func:`devices` on,
    and where there are none, no clock need wait, and samples may be short.
    """
    return synchronize if _gpu() or given() else None


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
Timer = functools.partial(timers.Timer, sync=_drain_now)
Benchmark = functools.partial(timers.Benchmark, sync=_drain_now)
measure, ratio = _drained(timing.measure), _drained(timing.ratio)


def compare(id: str, **how: Any) -> claims.Claim:
    """:func:`tested_results.claims.compare` with every device drained before each clock stops."""
    return claims.compare(id, **{'sync': _drain(), **how})


def in_turn(**how: Any) -> timing.Turns:
    """:func:`tested_results.claims.in_turn` with every device drained before each clock stops."""
    return claims.in_turn(**{'sync': _drain(), **how})


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
