"""The figures of this topic: python -m tools.figures asynchrony"""

from matplotlib import pyplot as plt

from chapters.drawing import BLUE, GREY, LIGHT, WARM
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


def waits():
    """A chain of eleven matmuls in MXNet's engine, and when two kinds of waits return; a matmul lasts 1."""
    matmuls, issuing = 11, 0.35
    first_wait_returns = 2              # it is queued behind the second matmul
    _, ax = plt.subplots(figsize=(6.4, 2.6))
    for number in range(1, matmuls + 1):
        ax.broken_barh([(number - 1, 1)], (0.65, 0.7), facecolor=WARM, edgecolor=GREY, linewidth=0.8)
        ax.text(number - 0.5, 1, number, ha='center', va='center')
    for y, returns in ((2, first_wait_returns), (0, matmuls)):
        ax.broken_barh([(0, issuing)], (y - 0.35, 0.7), facecolor=BLUE, edgecolor='white', linewidth=0.8)
        ax.broken_barh([(issuing, returns - issuing)], (y - 0.35, 0.7), facecolor=LIGHT, edgecolor=GREY,
                       linewidth=0.8)
        ax.plot([returns, returns], [y, 1], color=GREY, linestyle=':', linewidth=1.5, zorder=0)
        ax.text((issuing + returns) / 2, y, 'waits', ha='center', va='center')
        ax.text(returns + 0.15, y, 'goes on', ha='left', va='center')
    ax.set(xlim=(0, 12.5), ylim=(-0.5, 2.5), xticks=[], xlabel='time', yticks=[2, 1, 0],
           yticklabels=['host: wait_to_read\nof the first result', 'device: matmuls', 'host: waitall'])
    ax.grid(visible=False)
    ax.tick_params('y', length=0)
    return ax


FIGURES = {'front_ends': front_ends, 'dependencies': dependencies, 'model': model, 'waits': waits}
