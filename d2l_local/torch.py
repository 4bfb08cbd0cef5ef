"""All that knows PyTorch. ``from d2l_local import torch as d2l``."""

import functools
from typing import Any

try:
    import torch
except ImportError as e:
    raise ImportError(f'PyTorch does not import here ({e}): install requirements.txt, which '
                      '"make book" does, or read the MXNet notebooks.') from e

from d2l_local import claims, timing
from d2l_local.data import digits
from d2l_local.machine import compiler, describe, machine
from d2l_local.plotting import Animator, graph, plot, set_axes, set_figsize, use_svg_display
from d2l_local.timing import Accumulator

__all__ = ['Accumulator', 'Animator', 'Benchmark', 'Timer', 'accuracy', 'claim', 'compiler',
           'describe', 'digits', 'fx_graph', 'graph', 'load_data_digits', 'machine', 'measure',
           'num_gpus', 'plot', 'ratio', 'set_axes', 'set_figsize', 'synchronize', 'try_all_gpus',
           'try_gpu', 'use_svg_display']


def synchronize() -> None:
    """Wait until every GPU has finished what was queued on it. On a CPU nothing is ever queued."""
    for i in range(torch.cuda.device_count()):
        torch.cuda.synchronize(i)
    if torch.backends.mps.is_available():
        torch.mps.synchronize()


_sync = synchronize if torch.cuda.is_available() or torch.backends.mps.is_available() else None

# The clock stops only when the devices have finished what was queued.
Timer = functools.partial(timing.Timer, sync=_sync)
Benchmark = functools.partial(timing.Benchmark, sync=_sync)
measure = functools.partial(timing.measure, sync=_sync)
ratio = functools.partial(timing.ratio, sync=_sync)


def claim(id: str, sentence: str, **what: Any) -> claims.Claim:
    """:func:`d2l_local.claims.claim` with every device drained before each clock stops."""
    if 'slow' in what:
        what.setdefault('sync', _sync)
    return claims.claim(id, sentence, **what)


def num_gpus() -> int:
    """The number of GPUs that PyTorch can use: CUDA devices, or one on Apple silicon."""
    return torch.cuda.device_count() or int(torch.backends.mps.is_available())


def try_gpu(i: int = 0) -> torch.device:
    """GPU ``i`` if there is one (CUDA, or Apple's as ``mps``), else the CPU."""
    if torch.cuda.device_count() > i:
        return torch.device('cuda', i)
    if i == 0 and torch.backends.mps.is_available():
        return torch.device('mps')
    return torch.device('cpu')


def try_all_gpus() -> list[torch.device]:
    """All GPUs, or ``[cpu]`` if there is none (d2l 1.0.3 returns an empty list then)."""
    return [try_gpu(i) for i in range(num_gpus())] or [torch.device('cpu')]


def accuracy(y_hat: torch.Tensor, y: torch.Tensor) -> float:
    """The number of right predictions.

    Args:
        y_hat: scores of shape ``(n, classes)``, or predicted classes of shape ``(n,)``.
        y: true classes of shape ``(n,)``.
    """
    if y_hat.ndim > 1 and y_hat.shape[1] > 1:
        y_hat = y_hat.argmax(dim=1)
    return float((y_hat.to(y.dtype) == y).sum())


def load_data_digits(batch_size: int, size: int = 28) -> tuple[torch.utils.data.DataLoader, ...]:
    """Iterators over the digits, for training (shuffled) and testing; see :func:`digits`.

    Labels are int64, as ``cross_entropy`` wants them.
    """
    train, test = (torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y).long())
                   for x, y in digits(size))
    return (torch.utils.data.DataLoader(train, batch_size, shuffle=True),
            torch.utils.data.DataLoader(test, batch_size))


def fx_graph(module: torch.fx.GraphModule) -> tuple[dict[str, str], list[tuple[str, str]], list[str]]:
    """Nodes, edges and inputs of an FX graph, as :func:`graph` takes them."""
    labels, edges, inputs = {}, [], []
    for n in module.graph.nodes:
        target = n.target
        if n.op == 'call_module':
            target = type(module.get_submodule(target)).__name__
        elif callable(target):
            target = getattr(target, '__name__', str(target))
        labels[n.name] = str(n.name if n.op in ('placeholder', 'output') else target)
        edges += [(a.name, n.name) for a in n.all_input_nodes]
        inputs += [n.name] * (n.op in ('placeholder', 'get_attr'))
    return labels, edges, inputs
