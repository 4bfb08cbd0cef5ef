"""The figures of this topic that a reader can turn."""

from math import floor

from tools.live import Figure, Input, Output


def plan(rows, n, layers, width, example, hosts, cards, tensor, stages, micro, chunks, inside, between,
         peak, kernels, kept, card):
    """Seconds of a training step and bytes kept by a card, as ``plan`` of the notebook says.

    Args:
        rows: tokens in a step; ``example``: of one.
        n: parameters.
        hosts, cards: of the cluster, and cards of a host.
        tensor, stages: cards that share a layer, and stages of a pipeline; the rest is sharded.
        micro, chunks: micro-batches, and chunks of layers on a stage.
        inside, between: bytes per second that a card sends inside its host, and a host to others.
        peak, kernels: FLOP/s of a card, and the share of it that is reached.
        kept: bytes of activations for each token and layer, in units of the width; 2: all are
            computed twice.
        card: bytes of a card's memory.
    """
    gpus = cards * hosts
    data = gpus / (tensor * stages)
    flops = rows * (6 * n + 12 * layers * width * example)
    own = layers / stages
    activation = 2 * rows / data * width
    compute = flops * (4 / 3 if kept <= 2 else 1) / (gpus * peak * kernels)
    split = (6 if kept <= 2 else 4) * own * 2 * (tensor - 1) / tensor * activation / inside
    traffic = (8 if stages == 1 else 6) * n / stages
    into_host = traffic * max(1 - stages / hosts, 0) / between
    into_card = traffic / tensor * (data - 1) / data / inside
    fetch = max(into_host, into_card)
    shards = max(fetch - compute, fetch / own)
    bubble = (stages - 1) / (micro * chunks) * (compute + split)
    cuts = 2 * chunks * activation * cards / tensor / between if stages > 1 else 0
    step = compute + split + shards + bubble + cuts
    flight = min(stages / micro, 1) if stages > 1 else 1
    gathered = 4 * n / layers if stages == 1 else 2 * n / stages
    held = 16 * n / gpus + gathered / tensor + kept * rows / data * width * own * flight / tensor
    return {'compute': compute, 'sums': split, 'shards': shards, 'bubble': bubble + cuts, 'step': step,
            'mfu': flops / (step * gpus * peak), 'held': held,
            'name': 'these degrees do not divide the cards'
            if floor(data) < data or data < 1 or tensor > cards else
            'there are fewer examples than ranks' if rows < data * example else
            'it fits, logits not counted' if held <= card else 'it does not fit'}


def bubble(m, p, step):
    """Seconds of m micro-batches on p stages, the same without gaps, and what is kept."""
    time = step * (m + p - 1) / m
    return {'time': time, 'full': step, 'gap': (time - step) / time,
            'gpipe': m, 'onef': min(m, p)}


LIVE = {
    'plan': Figure(
        'Which split, where?', plan,
        (Input('rows', 'Tokens in a step', '', 1024, 100_000_000, 524_288, whole=True),
         Input('n', 'Parameters', 'million', 10, 2_000_000, 8030),
         Input('layers', 'Layers', '', 1, 200, 32, log=False, whole=True),
         Input('width', 'Width', '', 64, 32_768, 4096, whole=True),
         Input('example', 'Tokens of an example', '', 64, 1_000_000, 8192, whole=True),
         Input('hosts', 'Hosts', '', 1, 4096, 4, whole=True),
         Input('cards', 'Cards of a host', start=8, choices=(('4', 4), ('8', 8))),
         Input('tensor', 'Cards that share a layer', '', 1, 16, 1, whole=True),
         Input('stages', 'Stages of a pipeline', '', 1, 64, 1, whole=True),
         Input('micro', 'Micro-batches of the pipeline', '', 1, 512, 16, whole=True),
         Input('chunks', 'Chunks of layers on a stage', '', 1, 16, 1, log=False, whole=True),
         Input('inside', 'Link of a card inside, each way', 'GB/s', 0.01, 1000, 450),
         Input('between', 'Links of a host, each way', 'GB/s', 0.1, 2000, 400),
         Input('peak', 'Peak of a card', 'TFLOP/s', 1, 5000, 989),
         Input('kernels', 'Reached by its kernels', '%', 1, 100, 41, log=False),
         Input('kept', 'Activations', start=34, choices=(
             ('all kept', 34), ('about half kept', 17), ('computed twice', 2))),
         Input('card', 'Memory of a card', 'GB', 1, 300, 80)),
        (Output('compute', 'arithmetic', 's'), Output('sums', 'sums inside layers', 's'),
         Output('shards', 'shards, exposed', 's'), Output('bubble', 'bubble and cuts', 's'),
         Output('step', 'a step', 's'), Output('mfu', 'MFU', '%'), Output('held', 'a card keeps', 'B')),
        ('A step takes {step}, an MFU of {mfu}: {compute} of arithmetic, {sums} of sums inside layers, '
         '{shards} of waiting for shards, {bubble} of bubble and cuts.',
         'A card keeps {held}: {name}.'),
        over='rows', rows=(16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216),
        drawn=('step', 'compute', 'shards'), log_y=True,
        presets={'tensor groups inside the hosts': {'tensor': 8},
                 'tensor groups, and each host a stage': {'tensor': 8, 'stages': 4},
                 'cards on PCIe 4.0, a host with 10 Gbit/s': {'inside': 32, 'between': 1.25},
                 'Llama 3 405B on 8,192 cards': {
                     'rows': 16_777_216, 'n': 405_000, 'layers': 126, 'width': 16_384, 'hosts': 1024,
                     'tensor': 8, 'stages': 16, 'micro': 32, 'chunks': 7, 'kernels': 53}}),
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
