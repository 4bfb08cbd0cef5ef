"""The figures of this topic that a reader can turn."""

from math import floor, log2

from live_figures import Figure, Input, Measured, Output, Printed, erlang_c


def served(users, parameters, number, layers, heads, each, context, memory, bandwidth, peak, price):
    """A GPU that answers users at the same time, a token for each of them in a step."""
    head_dimension = 128
    weights = number * parameters
    cache = 2 * layers * heads * head_dimension * each * context
    most = max(0, floor((memory - weights) / cache))
    now = max(1, min(users, most))
    read = (weights + now * cache) / bandwidth
    work = 2 * parameters * now / peak
    step = max(read, work)
    rate = now / step
    return {'cache': cache, 'most': most, 'now': now, 'step': step, 'speed': 1 / step, 'rate': rate,
            'cost': price / 3600 * 1e6 / rate,
            'limit': 'the bandwidth' if read >= work else 'compute'}


def waiting(load, slots, tokens, step, more, spread):
    """A queue before slots: Erlang's formula, exact for exponential times."""
    service = tokens * (step + more * (load * slots - 1 if load * slots > 1 else 0))
    share = erlang_c(slots, load)
    rest = service * (1 + spread) / 2 / (slots * (1 - load))
    mean = share * rest
    tail = rest * log2(max(1, 100 * share)) / log2(2.718281828)
    return {'service': service, 'rate': load * slots / service, 'mean': mean, 'tail': tail,
            'calm': service / 10 - mean}


def operations(context, d, layers, vocabulary):
    """GFLOP for each token of a training step."""
    weights = 12 * layers * d ** 2 + vocabulary * d
    matmuls = 6 * weights / 1e9
    attention = 12 * layers * d * context / 1e9
    return {'matmuls': matmuls, 'attention': attention, 'share': attention / (matmuls + attention),
            'less': matmuls - attention}


LIVE = {
    'users': Figure(
        'How many users, how fast, for how much', served,
        (Input('users', 'Users who want an answer', '', 1, 1024, 16, whole=True),
         Input('parameters', 'Parameters', 'million', 0.1, 1_000_000, 8000),
         Input('number', 'A weight takes', start=2, choices=(
             ('32 bits', 4), ('16 bits', 2), ('8 bits', 1), ('4 bits', 0.5))),
         Input('layers', 'Layers', '', 1, 200, 32, log=False, whole=True, more=True),
         Input('heads', 'Heads of keys and values, of 128 numbers', '', 1, 128, 8, whole=True, more=True),
         Input('each', 'An element of the cache takes', start=2, more=True, choices=(
             ('32 bits', 4), ('16 bits', 2), ('8 bits', 1))),
         Input('context', 'Tokens that a user has in the cache', '', 1, 1_000_000, 2048, whole=True),
         Input('memory', 'Memory', 'GB', 0.1, 10_000, 24),
         Input('bandwidth', 'Its bandwidth', 'GB/s', 1, 1_000_000, 1000),
         Input('peak', 'Arithmetic', 'TFLOP/s', 0.001, 100_000, 150, more=True),
         Input('price', 'Price of an hour, in dollars', '', 0.01, 1000, 0.5, more=True)),
        (Output('cache', "a user's cache", 'B'), Output('now', 'answered at a time'),
         Output('step', 'a step', 's'), Output('speed', 'tokens/s for each'),
         Output('rate', 'tokens/s in all'), Output('cost', 'dollars for a million tokens')),
        ('{now} of {users} users are answered at a time: {speed} tokens a second for each, {rate} in '
         'all. The limit is {limit}. A million tokens cost {cost} dollars.',
         {'when': 'most', 'text': "A user's cache takes {cache}: {most} users fit beside the weights.",
          'none': 'Weights and the cache of one user do not fit.'}),
        over='users', rows=(1, 2, 4, 8, 16, 32, 64, 256, 1024), drawn=('rate', 'speed'), log_y=True,
        presets={'8 billion parameters': {'parameters': 8000, 'layers': 32, 'heads': 8},
                 '70 billion': {'parameters': 70_000, 'layers': 80, 'heads': 8},
                 '70 billion, 64 heads cached': {'parameters': 70_000, 'layers': 80, 'heads': 64},
                 'a GPU of 24 GB': {'memory': 24, 'bandwidth': 1000, 'peak': 150, 'price': 0.5},
                 'eight GPUs of 80 GB': {'memory': 640, 'bandwidth': 26_800, 'peak': 7900, 'price': 24},
                 'this machine': {
                     'memory': Printed('chapters/hardware/hardware', r'\nmemory +measured: '),
                     'bandwidth': Measured('msr-pt-bandwidth'),
                     'peak': Measured('msr-pt-peak'), 'price': 0.1}}),
    'queue': Figure(
        'A queue before the slots', waiting,
        (Input('load', 'Load', '%', 1, 98, 75, log=False, whole=True),
         Input('slots', 'Slots', '', 1, 256, 8, whole=True),
         Input('tokens', 'Tokens of an answer', '', 1, 10_000, 10),
         Input('step', 'A step with one slot busy', 'ms', 0.1, 1000, 20),
         Input('more', 'More for each further one (an example)', 'ms', 0, 100, 0.5, log=False),
         Input('spread', 'Lengths of the answers', start=1, choices=(
             ('all the same', 0), ('spread, some long', 1), ('mostly short, few very long', 4)))),
        (Output('rate', 'requests/s'), Output('mean', 'mean wait', 's'),
         Output('tail', 'one in a hundred waits longer than', 's'),
         Output('service', 'an answer', 's')),
        ('At a load of {load}, {rate} requests come in a second. They wait for {mean} on average, and '
         'one in a hundred for more than {tail}. The answer itself takes {service}.',
         {'last': 'calm', 'text': 'Up to a load of {load}, the mean wait is less than a tenth of the '
          'answer.'}),
        over='load', rows=(10, 30, 50, 70, 80, 90, 95, 98), drawn=('tail', 'mean', 'service'),
        presets={'one slot': {'slots': 1}, '8 slots': {'slots': 8}, '64 slots': {'slots': 64},
                 'steps that do not grow': {'more': 0}}),
    'context': Figure(
        'FLOPs of a training step, for each token', operations,
        (Input('context', 'Tokens of the context', '', 16, 1_000_000, 128, whole=True),
         Input('d', 'Width', '', 16, 32_768, 96, whole=True),
         Input('layers', 'Layers', '', 1, 200, 3, log=False, whole=True),
         Input('vocabulary', 'Different tokens', '', 2, 300_000, 87, whole=True)),
        (Output('matmuls', 'GFLOP in matmuls with weights'), Output('attention', 'GFLOP in attention'),
         Output('share', 'attention takes', '%')),
        ('At {context} tokens, attention takes {share} of the FLOPs.',
         {'last': 'less', 'text': 'Up to {context} tokens, the matmuls with weights take more.',
          'none': 'Attention takes more at any length.'}),
        over='context', rows=(128, 1024, 4096, 16_384, 131_072, 1_000_000),
        drawn=('matmuls', 'attention'), log_y=True,
        presets={'the model of this page': {'context': 128, 'd': 96, 'layers': 3, 'vocabulary': 87},
                 'd = 768, 12 layers': {'d': 768, 'layers': 12, 'vocabulary': 50_257},
                 'd = 4,096, 32 layers': {'d': 4096, 'layers': 32, 'vocabulary': 128_256}})}
