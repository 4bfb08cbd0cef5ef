"""All that knows MXNet. ``from d2l_local import mxnet as d2l``.

Importing it switches MXNet to its NumPy-compatible arrays (``npx.set_np``), as d2l does.

Where the pages first use each helper:

    measuring/measuring_mxnet: compare, estimate, measure, measured, predict, profile, timeline
    hybridization/hybridization_mxnet: plot, verify
    hybridization/hybridization_solutions_mxnet: Accumulator, accuracy, load_data, ratio
    asynchrony/asynchrony_mxnet: Benchmark, trace
    asynchrony/asynchrony_solutions_mxnet: devices, overlap, put
    automatic_parallelism/automatic_parallelism_mxnet: in_turn, num_gpus
    memory/memory_mxnet: Timer, count
    multi_gpu/multi_gpu_mxnet: Animator, evaluate_accuracy_gpus, sgd, split_batch
    multi_gpu/multi_gpu_concise_mxnet: resnet18
    parameter_servers/parameter_servers_faults_mxnet: use_svg_display
"""

import functools
import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

if tuple(map(int, numpy.__version__.split('.')[:2])) >= (1, 24):
    raise ImportError(f'MXNet 1.9.1 needs a NumPy older than 1.24, and this is {numpy.__version__}: '
                      'install the versions of requirements.txt, which "make book" does, '
                      'or read the PyTorch notebooks.')
# Operators with workspace (products, convolutions) share four buffers over all CPU contexts by
# default, so that one device waits for another. It must be set before the first operation.
os.environ.setdefault('MXNET_CPU_TEMP_COPY', '64')
# From four logical cores on, MXNet gives an operator half of them as OpenMP threads, and then
# products on two CPU contexts hang. It must be set before the import; children inherit it.
os.environ.setdefault('MXNET_OMP_MAX_THREADS', '1')
if os.environ.get('DMLC_ROLE') in ('server', 'scheduler'):
    raise ImportError(f"DMLC_ROLE={os.environ['DMLC_ROLE']} makes `import mxnet` wait for ever: it is "
                      'for the processes of a cluster. Remove it from the environment of this kernel.')
try:
    import mxnet as mx
except ImportError as e:
    raise ImportError(f'MXNet does not import here ({e}). It has wheels for Linux and for Intel '
                      'Macs, for Python 3.11 and older; elsewhere, read the PyTorch notebooks.') from e
from mxnet import npx

from d2l_local import timers
from d2l_local.mxnet_training import accuracy, evaluate_accuracy_gpus, load_data, resnet18, sgd, split_batch
from d2l_local.plotting import Animator, plot, timeline, use_svg_display
from d2l_local.timers import Accumulator
from tested_results import claims, timing, traces
from tested_results.claims import count, estimate, verify
from tested_results.predictions import predict
from tested_results.timing import measured
from tested_results.traces import overlap

__all__ = ['Accumulator', 'Animator', 'Benchmark', 'Timer', 'accuracy', 'compare', 'count',
           'devices', 'estimate', 'evaluate_accuracy_gpus', 'in_turn', 'load_data', 'measure', 'measured',
           'num_gpus', 'overlap', 'plot', 'predict', 'profile', 'put', 'ratio', 'resnet18', 'sgd',
           'split_batch', 'timeline', 'trace', 'use_svg_display', 'verify']


def __dir__() -> list[str]:
    return __all__

npx.set_np()     # every cell of the book computes with MXNet's NumPy-compatible arrays, as d2l's do

# The clock stops only when the engine has finished what was queued.
Timer = functools.partial(timers.Timer, sync=npx.waitall)
Benchmark = functools.partial(timers.Benchmark, sync=npx.waitall)
measure = functools.partial(timing.measure, sync=npx.waitall)
ratio = functools.partial(timing.ratio, sync=npx.waitall)


def compare(id: str, **how: Any) -> claims.Claim:
    """:func:`tested_results.claims.compare` with the engine drained before each clock stops."""
    return claims.compare(id, **{'sync': npx.waitall, **how})


def in_turn(**how: Any) -> timing.Turns:
    """:func:`tested_results.claims.in_turn` with the engine drained before each clock stops."""
    return claims.in_turn(**{'sync': npx.waitall, **how})


def devices(k: int) -> list[mx.Context]:
    """``k`` devices: GPUs if there are as many, else ``cpu(0)`` to ``cpu(k - 1)``.

    The engine schedules CPU contexts as separate devices, each with worker threads of its own.
    """
    if k < 1:
        raise ValueError(f'a lesson needs at least one device, not {k}')
    if num_gpus() >= k:
        return [npx.gpu(i) for i in range(k)]
    if k > 1 and os.environ.get('OMP_NUM_THREADS', '1') != '1':
        raise RuntimeError('MXNet hangs when several CPU contexts multiply matrices with '
                           f"OMP_NUM_THREADS={os.environ['OMP_NUM_THREADS']}: unset it, or set it "
                           'to 1, and restart the kernel.')
    return [npx.cpu(i) for i in range(k)]


def put(x: Any, device: mx.Context) -> Any:
    """A copy of ``x`` on a device; it is only queued."""
    return x.copyto(device)


def profile(work: Callable[[], Any]) -> list[traces.Event]:
    """What the engine's threads did while ``work`` ran and until they were done.

    Lanes: ``front end`` (the calls that issue operators) and one for each device, ``cpu/0`` and
    so on; a device with several worker threads has several, ``cpu/0 #1`` and so on. An event
    ``WaitForVar`` is a wait that stands in the queue: leave it out before you compute an overlap.
    """
    return _events(trace(work, profile_imperative=True, profile_symbolic=True, profile_api=True))


def trace(work: Callable[[], Any], **what: bool) -> list[dict]:
    """The events of MXNet's profiler while ``work`` ran and until all was done; times there are in µs.

    Args:
        what: settings of ``mx.profiler.set_config``, such as ``profile_memory=True``.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, 'profile.json')
        mx.profiler.set_config(filename=str(file), continuous_dump=False, **what)
        mx.profiler.set_state('run')
        try:
            work()
            npx.waitall()
        finally:
            mx.profiler.set_state('stop')
            mx.profiler.dump()
        # From its second dump on, MXNet writes a comma before the first event.
        text = re.sub(r'(\[\s*),', r'\1', file.read_text(), count=1)
    events = json.loads(text)['traceEvents']
    _lanes.update({e['pid']: e['args']['name'] for e in events if e['name'] == 'process_name'})
    return events


_lanes: dict[int, str] = {}      # names of devices by number; only the first dump has them


def _events(trace: list[dict]) -> list[traces.Event]:
    """Operators and front-end calls of a Chrome trace as events; times there are in µs."""
    started, events, threads = {}, [], {}
    for e in trace:
        front = e['name'].startswith(('MXImperativeInvoke', 'MXInvokeCachedOp'))
        if front and e['ph'] in 'be':
            lane = 'front end'
        elif e.get('cat') == 'operator' and e['ph'] in 'BE' and e['name'] != 'DeleteVariable':
            workers = threads.setdefault(e['pid'], [])
            if e['tid'] not in workers:
                workers.append(e['tid'])
            number = workers.index(e['tid'])
            lane = _lanes.get(e['pid'], f"device {e['pid']}") + (f' #{number}' if number else '')
        else:
            continue
        key = e['pid'], e['tid'], e['name'], e.get('id')
        if e['ph'] in 'bB':
            started[key] = e['ts']
        elif key in started:
            name = 'issue' if front else _short(e['name'])
            events.append(traces.Event(lane, name, started.pop(key) / 1e6, e['ts'] / 1e6))
    return sorted(events, key=lambda e: e.start)


def _short(operator: str) -> str:
    """An operator's name without the prefix that says which kind of arrays it is for."""
    return re.sub(r'^_(npi|npx|np)_', '', operator)


def num_gpus() -> int:
    """The number of GPUs that MXNet can use."""
    return npx.num_gpus()
