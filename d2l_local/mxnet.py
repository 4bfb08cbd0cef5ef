"""All that knows MXNet. ``from d2l_local import mxnet as d2l``.

Importing it switches MXNet to its NumPy-compatible arrays (``npx.set_np``), as d2l does.
"""

import functools
import json
from typing import Any

import numpy

if tuple(map(int, numpy.__version__.split('.')[:2])) >= (1, 24):
    raise ImportError(f'MXNet 1.9.1 needs a NumPy older than 1.24, and this is {numpy.__version__}: '
                      'install the versions of requirements.txt, which "make book" does, '
                      'or read the PyTorch notebooks.')
try:
    import mxnet as mx
except ImportError as e:
    raise ImportError(f'MXNet does not import here ({e}). It has wheels for Linux and for Intel '
                      'Macs, for Python 3.11 and older; elsewhere, read the PyTorch notebooks.') from e
from mxnet import npx

from d2l_local import claims, timing
from d2l_local.data import digits
from d2l_local.machine import describe, machine
from d2l_local.plotting import Animator, graph, plot, set_axes, set_figsize, use_svg_display
from d2l_local.timing import Accumulator

npx.set_np()

# The clock stops only when the engine has finished what was queued.
Timer = functools.partial(timing.Timer, sync=npx.waitall)
Benchmark = functools.partial(timing.Benchmark, sync=npx.waitall)
measure = functools.partial(timing.measure, sync=npx.waitall)
ratio = functools.partial(timing.ratio, sync=npx.waitall)

__all__ = ['Accumulator', 'Animator', 'Benchmark', 'Timer', 'accuracy', 'claim', 'describe',
           'digits', 'graph', 'load_data_digits', 'machine', 'measure', 'num_gpus', 'plot', 'ratio',
           'set_axes', 'set_figsize', 'symbol_graph', 'synchronize', 'try_all_gpus', 'try_gpu',
           'use_svg_display']


def claim(id: str, sentence: str, **what: Any) -> claims.Claim:
    """:func:`d2l_local.claims.claim` with the engine drained before each clock stops."""
    if 'slow' in what:
        what.setdefault('sync', npx.waitall)
    return claims.claim(id, sentence, **what)


def synchronize() -> None:
    """Wait until the engine has finished everything that was queued, on all devices."""
    npx.waitall()


def num_gpus() -> int:
    """The number of GPUs that MXNet can use."""
    return npx.num_gpus()


def try_gpu(i: int = 0) -> mx.Context:
    """``gpu(i)`` if there is one, else ``cpu()``."""
    return npx.gpu(i) if num_gpus() > i else npx.cpu()


def try_all_gpus() -> list[mx.Context]:
    """All GPUs, or ``[cpu()]`` if there is none (d2l 1.0.3 returns an empty list then)."""
    return [npx.gpu(i) for i in range(num_gpus())] or [npx.cpu()]


def accuracy(y_hat: Any, y: Any) -> float:
    """The number of right predictions.

    Args:
        y_hat: scores of shape ``(n, classes)``, or predicted classes of shape ``(n,)``.
        y: true classes of shape ``(n,)``.
    """
    if y_hat.ndim > 1 and y_hat.shape[1] > 1:
        y_hat = y_hat.argmax(axis=1)
    return float((y_hat.astype('int32') == y.astype('int32')).sum())


def load_data_digits(batch_size: int, size: int = 28) -> tuple[mx.gluon.data.DataLoader, ...]:
    """Iterators over the digits, for training (shuffled) and testing; see :func:`digits`."""
    train, test = (mx.gluon.data.ArrayDataset(*part) for part in digits(size))
    return (mx.gluon.data.DataLoader(train, batch_size, shuffle=True),
            mx.gluon.data.DataLoader(test, batch_size))


def symbol_graph(exported: str) -> tuple[dict[str, str], list[tuple[str, str]], list[str]]:
    """Nodes, edges and inputs of an exported symbol, as :func:`graph` takes them.

    Args:
        exported: the text of a ``…-symbol.json`` file, or of ``symbol.tojson()``.
    """
    nodes = json.loads(exported)['nodes']
    names = [n['name'] for n in nodes]
    labels = {n['name']: n['name'] if n['op'] == 'null' else n['op'].removeprefix('_npx_').
              removeprefix('_np_') for n in nodes}
    edges = [(names[i[0]], n['name']) for n in nodes for i in n['inputs']]
    return labels, edges, [n['name'] for n in nodes if n['op'] == 'null']
