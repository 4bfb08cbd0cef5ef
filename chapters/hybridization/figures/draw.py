"""The figures of this topic: python -m tools.figures hybridization

They are drawn from what the frameworks really export. Where a framework is absent, its
figure is left as it is.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path

from d2l_local import plotting


def symbol():
    """A two-layer perceptron as MXNet exports it."""
    if find_spec('mxnet') is None:
        return False
    from mxnet import np, npx
    from mxnet.gluon import nn
    npx.set_np()
    net = nn.HybridSequential(prefix='')
    net.add(nn.Dense(4, activation='relu', prefix='hidden_'), nn.Dense(2, prefix='out_'))
    net.initialize()
    net.hybridize()
    net(np.ones((1, 3)))
    with tempfile.TemporaryDirectory() as folder:
        net.export(f'{folder}/net')
        nodes, edges, inputs = plotting.symbol_graph(Path(folder, 'net-symbol.json').read_text())
    return plotting.graph(nodes, edges, inputs)


def fx():
    """The same perceptron as torch.export captures it."""
    if find_spec('torch') is None:
        return False
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    program = torch.export.export(net, (torch.ones(1, 3),))
    return plotting.graph(*plotting.fx_graph(program.graph_module))


FIGURES = {'symbol': symbol, 'fx': fx}
