"""The figures of this topic: python -m tools.figures asynchrony"""

from d2l_local import plotting
from tested_results.traces import Event


def front_ends():
    """Several languages over one engine."""
    languages = ['Python', 'C++', 'Scala', 'R']
    nodes = {n: n for n in languages} | {
        'queue': 'queue of operations', 'engine': 'engine: sorts by dependency',
        'cpu': 'CPU worker threads', 'gpu': 'GPU streams'}
    edges = [*((n, 'queue') for n in languages), ('queue', 'engine'), ('engine', 'cpu'),
             ('engine', 'gpu')]
    return plotting.graph(nodes, edges, marked=languages)


def dependencies():
    """What the engine knows of z = x * y + 2."""
    nodes = {'x': 'x', 'y': 'y', 'product': 'x * y', 'z': 'z = … + 2'}
    return plotting.graph(nodes, [('x', 'product'), ('y', 'product'), ('product', 'z')], marked='xy')


def model():
    """Host and device for three operations: with a wait each, and with one at the end."""
    t1, t2, t3 = 1.0, 2.0, 0.5
    events = []
    for i in range(3):
        start = i * (t1 + t2 + t3)
        events += [Event('a wait each: host', 't1 issue', start, start + t1),
                   Event('a wait each: device', 't2 compute', start + t1, start + t1 + t2),
                   Event('a wait each: host', 't3 return', start + t1 + t2, start + t1 + t2 + t3),
                   Event('one wait: host', 't1 issue', i * t1, (i + 1) * t1),
                   Event('one wait: device', 't2 compute', t1 + i * t2, t1 + (i + 1) * t2)]
    events.append(Event('one wait: host', 't3 return', t1 + 3 * t2, t1 + 3 * t2 + t3))
    ax = plotting.timeline(events, [f'{waits}: {side}' for waits in ('a wait each', 'one wait')
                                    for side in ('host', 'device')])
    ax.set(xlabel='time', xticklabels=[])
    return ax


FIGURES = {'front_ends': front_ends, 'dependencies': dependencies, 'model': model}
