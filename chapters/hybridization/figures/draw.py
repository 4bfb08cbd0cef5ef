"""The figures of this topic: python -m tools.figures hybridization

The graph is drawn from what PyTorch really exports. Where PyTorch is absent, it is left as it is.
"""

from importlib.util import find_spec

from chapters.drawing import BLUE, GREEN, GREY, LIGHT, MINT, ORANGE, WARM, box, canvas, write
from d2l_local import plotting


def launches():
    """Three operations of which each is dispatched by itself, and the same ones in a graph: a sketch."""
    ax = canvas(6.4, 3.1)
    dispatch, kernel, left, height = 1.25, 0.76, 1.0, 0.42
    write(ax, 0.05, 2.92, 'eager: a dispatch for each operation', 10, weight='bold', ha='left')
    write(ax, 0.05, 1.32, 'a graph: one call', 10, weight='bold', ha='left')
    for y, name in ((2.3, 'Python'), (1.78, 'device'), (0.7, 'Python'), (0.18, 'device')):
        write(ax, 0.05, y + height / 2, name, 9, ha='left', color=GREY)
    for i, name in enumerate(('matmul', 'relu', 'matmul')):
        start = left + i * dispatch
        box(ax, start, 2.3, dispatch - 0.05, height, 'dispatch', LIGHT, BLUE)
        box(ax, start + dispatch, 1.78, kernel, height, name, WARM, ORANGE)
    box(ax, left, 0.7, dispatch - 0.05, height, 'enter', LIGHT, BLUE)
    box(ax, left + dispatch, 0.18, 1.5 * kernel, height, 'matmul+relu', MINT, GREEN, 8)
    box(ax, left + dispatch + 1.5 * kernel + 0.03, 0.18, kernel, height, 'matmul', WARM, ORANGE)
    return ax


def nodes_and_edges(graph):
    """Labels of nodes by name, edges and inputs of an exported graph, as ``plotting.graph`` takes them."""
    labels = {}
    edges = []
    inputs = []
    for node in graph.nodes:
        called = node.op == 'call_function'
        labels[node.name] = node.target.__name__ if called else node.name
        edges += [(source.name, node.name) for source in node.all_input_nodes]
        if node.op == 'placeholder':
            inputs.append(node.name)
    return labels, edges, inputs


def fx():
    """A two-layer perceptron as torch.export captures it."""
    if find_spec('torch') is None:
        return False
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    program = torch.export.export(net, (torch.ones(1, 3),))
    return plotting.graph(*nodes_and_edges(program.graph))


FIGURES = {'launches': launches, 'fx': fx}
