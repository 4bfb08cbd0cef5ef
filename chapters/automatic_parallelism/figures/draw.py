"""The figures of this topic: python -m tools.figures automatic_parallelism"""

from d2l_local import plotting
from tested_results.traces import Event


def perceptron():
    """A two-layer perceptron on one CPU and two devices, as the scheduler sees it."""
    nodes, edges = {'batch': 'CPU: read batch'}, []
    for d in (1, 2):
        steps = ['copy half', 'layer 1', 'layer 2', 'backward 2', 'backward 1']
        names = [f'{s} {d}' for s in steps]
        nodes |= {n: f'device {d}:\n{s}' for n, s in zip(names, steps, strict=True)}
        edges += list(zip(['batch', *names], names, strict=False))
        edges += [(f'backward 2 {d}', 'sum2'), (f'backward 1 {d}', 'sum1')]
    nodes |= {f'sum{n}': f'CPU: add gradients,\nupdate layer {n}' for n in (2, 1)}
    return plotting.graph(nodes, edges, marked=['batch', 'sum1', 'sum2'])


def schedule():
    """The same step in time: gradients of layer 2 travel while layer 1 still computes."""
    events = [Event('CPU', 'read', 0, 1), Event('bus', 'copy', 1, 2)]
    for d in ('device 1', 'device 2'):
        events += [Event(d, 'forward', 2, 4), Event(d, 'backward 2', 4, 6), Event(d, 'backward 1', 6, 8)]
    events += [Event('bus', 'copy', 6, 7), Event('CPU', 'add', 7, 7.6), Event('bus', 'copy', 8, 9),
               Event('CPU', 'add', 9, 9.6)]
    events += [Event('CPU', 'update', end, end + 0.5) for end in (7.6, 9.6)]
    ax = plotting.timeline(events, ['CPU', 'bus', 'device 1', 'device 2'])
    ax.set(xlabel='time', xticklabels=[])
    return ax


FIGURES = {'perceptron': perceptron, 'schedule': schedule}
