"""The figures of this topic that a reader can turn."""

from live_figures import Derived, Figure, Input, Measured, Output, Point

RATES = {name: Measured(f'msr-pt-{name}') for name in ('call', 'bandwidth', 'peak')}
# Operations and bytes of the three programs of that page.
SMALL, ADDITION, PRODUCT = 20 * 2 * 8 * 1024, 2 ** 25, 2 * 1024 ** 3
MOVED = 20 * 4 * (1056 + 8 * 64), 12 * 2 ** 25, 12 * 1024 ** 2


def regimes(calls, moved, work, call, bandwidth, peak):
    """Seconds that each of the three would take alone, and all together: added up, and overlapped."""
    issuing = calls * call
    moving = moved / bandwidth
    computing = work / peak
    added = issuing + max(moving, computing)
    overlapped = max(issuing, moving, computing)
    what = 'overhead' if issuing == overlapped else 'memory' if moving == overlapped else 'compute'
    return {'issuing': issuing, 'moving': moving, 'computing': computing, 'added': added,
            'overlapped': overlapped, 'what': what}


def roofline(intensity, bandwidth, peak):
    """Operations per second that are possible, and the intensity where the two limits meet."""
    ridge = peak / bandwidth
    rate = min(peak, bandwidth * intensity)
    return {'rate': rate, 'share': rate / peak, 'ridge': ridge,
            'what': 'memory bandwidth' if intensity < ridge else 'the peak'}


def amdahl(part, factor):
    """By what the time of the whole is divided if a part's is divided by ``factor``."""
    gain = 1 / (1 - part + part / factor)
    return {'gain': gain, 'limit': 1 / (1 - part), 'left': 1 / gain}


def reached(operations, variant):
    """Operations per second, from the time of a program that a comparison has measured."""
    return Derived(lambda seconds: operations / seconds, (Measured(variant),))


LIVE = {
    'regimes': Figure(
        'Overhead, memory bandwidth or compute?', regimes,
        (Input('calls', 'Calls', '', 1, 100_000, 20, whole=True),
         Input('moved', 'Bytes moved', 'MB', 0.001, 10_000, 0.125),
         Input('work', 'Operations', 'GFLOP', 1e-6, 10_000, 0.00033),
         Input('call', 'A call takes', 'µs', 0.1, 100, 9, measured=RATES['call']),
         Input('bandwidth', 'Memory', 'GB/s', 1, 10_000, 20, measured=RATES['bandwidth']),
         Input('peak', 'Arithmetic', 'GFLOP/s', 1, 1_000_000, 200, measured=RATES['peak'])),
        (Output('issuing', 'overhead', 's'), Output('moving', 'memory', 's'),
         Output('computing', 'compute', 's'), Output('added', 'on a CPU', 's'),
         Output('overlapped', 'if issue and execution overlap', 's')),
        ('It is {what}-bound: {added} on a CPU, and {overlapped} where issue and execution overlap.',),
        drawn=('issuing', 'moving', 'computing'), log_y=True,
        presets={
            'twenty small layers': {'calls': 20, 'moved': MOVED[0] / 1e6, 'work': SMALL / 1e9},
            'a long addition': {'calls': 1, 'moved': MOVED[1] / 1e6, 'work': ADDITION / 1e9},
            'a matmul of 1024 × 1024': {'calls': 1, 'moved': MOVED[2] / 1e6, 'work': PRODUCT / 1e9}}),
    'roofline': Figure(
        'The roofline of one core of this machine', roofline,
        (Input('intensity', 'Operations per byte', '', 0.01, 1000, 0.25),
         Input('bandwidth', 'Memory', 'GB/s', 1, 10_000, 20, measured=RATES['bandwidth']),
         Input('peak', 'Arithmetic', 'GFLOP/s', 1, 1_000_000, 200, measured=RATES['peak'])),
        (Output('rate', 'attainable rate', 'GFLOP/s'), Output('share', 'of the peak', '%')),
        ('At {intensity} operations per byte, {what} sets the limit: {rate}, {share} of the peak. '
         'The ridge is at {ridge}.',),
        over='intensity', rows=(0.01, 0.1, 1, 10, 100, 1000), drawn=('rate',), log_y=True,
        points=(Point('small layers', SMALL / MOVED[0], reached(SMALL, 'msr-pt-gap-layers.small_layers')),
                Point('addition', ADDITION / MOVED[1], reached(ADDITION, 'msr-pt-addition-cores.one_core')),
                Point('matmul', PRODUCT / MOVED[2], reached(PRODUCT, 'msr-pt-matmul-cores.one_core')))),
    'amdahl': Figure(
        "Amdahl's law", amdahl,
        (Input('part', 'Share of the part', '%', 1, 99, 50, log=False,
               measured=Derived(lambda rest: 1 - rest, (Measured('msr-pt-bound-layout'),))),
         Input('factor', 'Its time is divided by', '', 1, 1000, 2)),
        (Output('gain', 'the whole is divided by'), Output('limit', 'a perfect fix'),
         Output('left', 'of the time is left', '%')),
        ('A part of {part}, divided by {factor}, divides the whole by {gain}. '
         'No fix of this part reaches more than {limit}.',),
        over='part', rows=(1, 10, 25, 50, 75, 90, 99), drawn=('gain', 'limit'), log_y=True)}
