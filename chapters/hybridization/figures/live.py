"""The figures of this topic that a reader can turn."""

from math import ceil

from live_figures import Figure, Input, Measured, Output, Point, Printed

PT, MX = 'chapters/hybridization/hybridization_pytorch', 'chapters/hybridization/hybridization_mxnet'
FIRST = Printed(PT, r'first call of the chain: +')
EAGER = Measured('hyb-pt-chain.eager')


def break_even(calls, first, eager, gain):
    """Seconds for a number of calls, and the number from which compiling has repaid its first call."""
    compiled = eager / gain
    pays = gain > 1
    needed = ceil(first / (eager - compiled)) if pays else 0
    return {'plain': calls * eager, 'graph': first + calls * compiled, 'needed': needed,
            'pays': pays}


def width(units, batch, call, gain, rate, bandwidth):
    """Seconds for a layer whose calls are queued, call by call and as part of a graph."""
    work = max(2 * units * units * batch / rate, 4 * units * units / bandwidth)
    graph = call / gain + work          # for the engine, each operator has a cost of its own
    plain = max(call, graph)            # it works while Python issues
    return {'plain': plain, 'graph': graph, 'ratio': plain / graph}


LIVE = {
    'break_even': Figure(
        'When is compiling repaid?', break_even,
        (Input('calls', 'Calls', '', 1, 10_000_000, 1000, whole=True),
         Input('first', 'The first call, with compiling', 's', 0.01, 1000, 5, measured=FIRST),
         Input('eager', 'An eager call', 'µs', 1, 1_000_000, 200, measured=EAGER),
         Input('gain', 'Compiled, its time is divided by', '', 0.5, 100, 5)),
        (Output('plain', 'eager', 's'), Output('graph', 'compiled', 's')),
        ('{calls} calls take {plain} eager and {graph} compiled.',
         {'when': 'pays', 'text': 'Compiling is repaid after {needed} calls.',
          'none': 'Compiling is never repaid: its calls take no less.'}),
        over='calls', rows=(1, 10, 100, 1000, 10_000, 100_000, 1_000_000), log_y=True),
    'width': Figure(
        'How wide is wide enough?', width,
        (Input('units', 'Units of a layer', '', 8, 8192, 16, whole=True),
         Input('batch', 'Examples', '', 1, 1024, 1, whole=True),
         Input('call', 'A call of a layer', 'µs', 1, 1000, 100, measured=Measured('hyb-mx-layer')),
         Input('gain', 'In a graph, the call is divided by', '', 1, 100, 5),
         Input('rate', 'Arithmetic of a core', 'GFLOP/s', 1, 100_000, 20,
               measured=Printed(MX, r'this core does ')),
         Input('bandwidth', 'Memory', 'GB/s', 1, 10_000, 20,
               measured=Printed(MX, r'this core reads a matrix at '))),
        (Output('ratio', 'plain ÷ graph'), Output('plain', 'plain', 's'),
         Output('graph', 'in a graph', 's')),
        ('Plain, a layer takes {plain}, and in a graph {graph}: the graph divides the time by {ratio}.',),
        over='units', rows=(8, 16, 64, 128, 256, 512, 1024, 4096), drawn=('ratio',),
        points=tuple(Point(str(w), w, Printed(MX, rf'\b{w} units, batch 1 +measured: (?:[^·\n]*· ){{3}}'))
                     for w in (16, 128, 512)))}
