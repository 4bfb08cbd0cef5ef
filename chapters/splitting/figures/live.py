"""The figures of this topic that a reader can turn."""

from tools.live import Figure, Input, Output

WAYS = ('shard', 'tensor_data', 'tensor_pipe')     # as many as there are kinds of lines


def plan(rows, n, layers, width, cards, hosts, inside, between, card, micro):
    """Seconds of exchange in a step and bytes kept by a card, as ``plan`` of the notebook says.

    Args:
        rows: tokens in a step.
        n: parameters, with 16 bytes each of weights, gradients and moments.
        inside, between: bytes per second of a card's link inside a host, and of a host's link.
        card: bytes of a card's memory.
        micro: micro-batches of the pipeline.
    """
    p = cards * hosts
    act = 4 * rows * width
    every = 4 * n * (p - 1) / p / between
    outer = 4 * n * (hosts - 1) / hosts / between
    inner = 8 * layers * (cards - 1) / cards * act / hosts / inside
    cut = 2 * cards * act / between if hosts > 1 else 0
    data = 2 * every
    shard = 3 * every
    tensor_data = inner + 2 * outer
    tensor_shard = inner + 3 * outer
    tensor_pipe = (micro + hosts - 1) / micro * inner + (micro + hosts - 2) / micro * cut
    whole = 16 * n
    divided = 16 * n / cards
    share = 16 * n / p
    least = min(shard, tensor_shard, tensor_pipe)
    best = min(least, tensor_data, data) if whole <= card else \
        min(least, tensor_data) if divided <= card else least
    return {'data': data, 'shard': shard, 'tensor_data': tensor_data, 'tensor_shard': tensor_shard,
            'tensor_pipe': tensor_pipe, 'whole': whole, 'divided': divided, 'share': share, 'best': best,
            'name': 'nothing, even in shares' if share > card else
            'data everywhere' if best == data and whole <= card else
            'tensor inside and data between' if best == tensor_data and divided <= card else
            'sharded everywhere' if best == shard else
            'tensor inside and shards between' if best == tensor_shard else
            'tensor inside and a pipeline between'}


def bubble(m, p, step):
    """Seconds of m micro-batches on p stages, the same without gaps, and what is kept."""
    time = step * (m + p - 1) / m
    return {'time': time, 'full': step, 'gap': (time - step) / time,
            'gpipe': m, 'onef': min(m, p)}


LIVE = {
    'plan': Figure(
        'Which split, where?', plan,
        (Input('rows', 'Tokens in a step', '', 1, 10_000_000, 65_536, whole=True),
         Input('n', 'Parameters', 'million', 1, 1_000_000, 7000),
         Input('layers', 'Layers', '', 1, 200, 32, log=False, whole=True),
         Input('width', 'Width', '', 64, 32_768, 4096, whole=True),
         Input('cards', 'Cards of a host', '', 1, 16, 8, log=False, whole=True),
         Input('hosts', 'Hosts', '', 1, 64, 4, log=False, whole=True),
         Input('inside', 'Link of a card inside, each way', 'GB/s', 0.01, 1000, 450),
         Input('between', 'Link of a host, each way', 'GB/s', 0.01, 1000, 50),
         Input('card', 'Memory of a card', 'GB', 1, 200, 80),
         Input('micro', 'Micro-batches of the pipeline', '', 1, 64, 8, log=False, whole=True)),
        (Output('data', 'data everywhere', 's'), Output('shard', 'sharded everywhere', 's'),
         Output('tensor_data', 'tensor inside, data between', 's'),
         Output('tensor_shard', 'tensor inside, sharded between', 's'),
         Output('tensor_pipe', 'tensor inside, pipeline between', 's'),
         Output('whole', 'data everywhere keeps', 'B'),
         Output('divided', 'tensor inside, data between keeps', 'B'),
         Output('share', 'the others keep', 'B'), Output('best', 'least that fits', 's')),
        ('A card keeps {whole} with data everywhere, {divided} with tensor inside and data between, and '
         '{share} with any other of these, activations not counted.',
         'The least exchange that fits: {name}.'),
        over='rows', rows=(1024, 4096, 16_384, 65_536, 262_144, 1_048_576), drawn=WAYS, log_y=True,
        presets={'cards with NVLink, 400 Gbit/s': {'inside': 450, 'between': 50},
                 'cards on PCIe 4.0, 10 Gbit/s': {'inside': 32, 'between': 1.25}}),
    'bubble': Figure(
        'The bubble of a pipeline', bubble,
        (Input('m', 'Micro-batches', '', 1, 128, 8, whole=True),
         Input('p', 'Stages', '', 1, 64, 4, log=False, whole=True),
         Input('step', 'A step without gaps', 'ms', 1, 100_000, 1000)),
        (Output('time', 'with the bubble', 's'), Output('full', 'without gaps', 's'),
         Output('gap', 'idle', '%'), Output('gpipe', 'micro-batches kept by GPipe'),
         Output('onef', 'by one forward, one backward')),
        ('{m} micro-batches on {p} stages: {time}, of which {gap} is idle. GPipe keeps {gpipe} '
         'micro-batches on the first stage, one forward, one backward {onef}.',),
        over='m', rows=(1, 2, 4, 8, 16, 32, 64, 128), drawn=('time', 'full'))}
