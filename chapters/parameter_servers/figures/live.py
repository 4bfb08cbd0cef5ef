"""The figures of this topic that a reader can turn."""

from math import ceil, log2

from live_figures import Figure, Input, Output, Point, Printed

MX = 'chapters/parameter_servers/parameter_servers_mxnet'


def aggregation(k, size, gpu, cpu):
    """Seconds to add up the arrays of ``k`` GPUs and hand out the sum.

    Args:
        size: bytes of an array.
        gpu, cpu: bytes per second of a GPU's link, and of the link to the CPU, in each direction.
    """
    one = 2 * (k - 1) * size / gpu
    host = 2 * k * size / cpu
    shares = 2 * (k - 1) * size / k / gpu
    return {'one': one, 'host': host, 'shares': shares,
            'spread': max(one, host) / min(one, host, shares)}


def ways(size, m, latency, overhead, rate):
    """Seconds for the sum of m arrays: through one server, round a ring, up and down a tree.

    Args:
        latency: seconds that a message travels; those that are sent together wait for it once.
        overhead: seconds for which a sender is busy with each message, one after the other.
        rate: bytes per second of a link.
    """
    star = 2 * latency + m * overhead + 2 * (m - 1) * size / rate
    ring = 2 * (m - 1) * (latency + overhead + size / m / rate)
    tree = 2 * ceil(log2(m)) * (latency + overhead + size / rate)
    return {'star': star, 'ring': ring, 'tree': tree,
            'crossing': (latency + overhead / 2) * rate * m * (m - 2) / (m - 1) / (m - 1),
            'ratio': max(star, ring, tree) / min(star, ring, tree),
            'best': 'the star' if star <= min(ring, tree) else
            'the tree' if tree <= ring else 'the ring'}


def servers(n, m, pair):
    """Seconds for a push and a pull of m workers with n servers, from those of one and one."""
    time = pair * max(m / n, 1)
    return {'time': time, 'ratio': pair * m / time,
            'what': "the servers' links" if m > n else "the workers' own links"}


def seen(m, n):
    """What m workers with n servers took."""
    return Printed(MX, rf'{m} worker\(s\), {n} server\(s\), 800,000 bytes: model [^\n]*measured +')


LIVE = {
    'aggregation': Figure(
        'Adding up the arrays of several GPUs', aggregation,
        (Input('k', 'GPUs', '', 2, 64, 4, whole=True),
         Input('size', 'Array', 'MB', 0.001, 100_000, 160),
         Input('gpu', 'Link of a GPU, each way', 'GB/s', 0.01, 1000, 16),
         Input('cpu', 'Link of the CPU, each way', 'GB/s', 0.01, 1000, 16)),
        (Output('one', 'on one GPU', 's'), Output('host', 'on the CPU', 's'),
         Output('shares', 'in shares', 's')),
        ('{k} GPUs: {one} on one GPU, {host} on the CPU, {shares} in shares, which is {spread} to 1.',),
        over='k', rows=(2, 4, 8, 16, 32, 64), log_y=True,
        presets={'PCIe 3.0': {'gpu': 16, 'cpu': 16}, 'PCIe 5.0': {'gpu': 63, 'cpu': 63},
                 'NVSwitch of H100': {'gpu': 450, 'cpu': 63},
                 '10 Gbit Ethernet': {'gpu': 1.25, 'cpu': 1.25}}),
    'ways': Figure(
        'Star, ring or tree?', ways,
        (Input('size', 'Array', 'KB', 0.1, 1_000_000, 100),
         Input('m', 'Members', '', 2, 64, 8, whole=True),
         Input('latency', 'Latency α of a message', 'ms', 0.001, 100, 10),
         Input('overhead', 'Overhead o of a message', 'ms', 0, 20, 0, log=False),
         Input('rate', 'Rate β of a link, without headers', 'Mbit/s', 1, 1_000_000, 95.6)),
        (Output('star', 'star', 's'), Output('ring', 'ring', 's'), Output('tree', 'tree', 's'),
         Output('crossing', 'star and ring cross at', 'B')),
        ('{star} by the star, {ring} by the ring, {tree} by the tree. '
         'Star and ring take the same time at {crossing}. Here {best} is the best, {ratio} to 1 '
         'against the worst.',),
        over='size', rows=(0.1, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000),
        drawn=('star', 'ring', 'tree'), log_y=True),
    'servers': Figure(
        'Servers against workers', servers,
        (Input('n', 'Servers', '', 1, 16, 1, log=False, whole=True),
         Input('m', 'Workers', '', 1, 64, 4, whole=True),
         Input('pair', 'One worker and one server take', 'ms', 0.1, 10_000, 134,
               measured=seen(1, 1))),
        (Output('time', 'push and pull', 's'), Output('ratio', 'against one server')),
        ('{m} workers and {n} servers: {time}. The narrowest are {what}.',),
        over='n', rows=(1, 2, 3, 4, 8, 16), drawn=('time',),
        points=tuple(Point('4 workers, measured' if n == 4 else '', n, seen(4, n)) for n in (1, 2, 4)))}
