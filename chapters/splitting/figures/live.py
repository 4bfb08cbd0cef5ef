"""The figures of this topic that a reader can turn."""

from math import ceil, floor

from live_figures import Figure, Input, Output


def plan(tokens, n, active, layers, width, keys, length, hosts, per_host, tensor, context, stages, micro,
         chunks, inside, adapters, gbit, peak, kernels, element, kept, memory):
    """Seconds of a training step and bytes kept by a GPU: the functions of the notebook, as one.

    What its ``check`` raises is a number here, ``problem``, and the figure says a sentence for each.

    Args:
        tokens: of a step; ``length``: of an example.
        n: parameters; ``active``: the share of them that a token meets.
        keys: heads of keys for each head of queries.
        hosts, per_host: of the cluster, and GPUs of a host.
        tensor, context, stages: GPUs of a tensor group, GPUs that share an example, and stages of a
            pipeline; the rest is data parallel.
        micro, chunks: micro-batches, and chunks of layers on a stage.
        inside: bytes per second that a GPU sends inside its host.
        adapters, gbit: network adapters of a host, and Gbit/s of each.
        peak, kernels: FLOP/s of a GPU, and the share of it that is reached.
        element: bytes per element.
        kept: bytes of activations for each token and layer, in units of the width and for bfloat16; 2:
            all are computed twice.
        memory: bytes of a GPU.
    """
    gpus = per_host * hosts
    data = gpus / (tensor * context * stages)
    ranks = data * context
    between = adapters * gbit * 1e9 / 8
    again = kept <= 2
    longest = ceil(layers / (stages * chunks)) * chunks if stages > 1 else layers
    activation = element * tokens / ranks * width
    flops = tokens * (6 * n * active + 12 * layers * width * length)
    compute = flops * (4 / 3 if again else 1) * longest * stages / layers / (gpus * peak * kernels)
    sums = (6 if again else 4) * longest * 2 * (tensor - 1) / tensor * activation / inside
    shared = inside if tensor * context <= per_host else between / per_host
    gathers = (4 if again else 3) * longest * 2 * keys * activation / tensor * (context - 1) / shared
    traffic = (micro * (2 * element + 4) if stages == 1 else element + 4) * n / stages
    into_host = traffic * max(1 - stages / hosts, 0) / between
    into_gpu = traffic / tensor * (ranks - 1) / ranks / inside
    shards = max(into_host, into_gpu)
    exposed = max(shards - compute, shards / longest)
    bubble = (stages - 1) / (micro * chunks) * (compute + sums + gathers)
    sent = 2 * chunks * activation / tensor
    cut_time = sent * per_host / between if hosts > 1 else sent / inside
    cuts = cut_time if stages > 1 else 0
    step = compute + sums + gathers + exposed + bubble + cuts
    more = (stages - 1) / chunks if chunks > 1 else 0
    in_flight = min((stages + more) / micro, 1) if stages > 1 else 1 / micro
    whole = n / (layers if stages == 1 else stages) / tensor
    weights = element * whole * (2 if stages == 1 else 1)
    layer = activation / tensor / 2
    activations = kept * layer * longest * in_flight + (34 - kept) * layer / micro
    total = 16 * n / gpus + weights + 4 * whole + activations
    groups = per_host / tensor
    examples = floor(tokens / (data * length))
    problem = (1 if floor(groups) < groups else 2 if floor(data) < data else
               3 if stages > 1 and stages * chunks > layers + 2 else
               4 if tokens < data * length else 5 if examples < micro else 0)
    return {'compute': compute, 'tensor_time': sums, 'context_time': gathers, 'shards': exposed,
            'bubble': bubble, 'cuts': cuts,
            'step': step, 'mfu': flops / (step * gpus * peak), 'rate': tokens / step / gpus,
            'total': total, 'problem': problem, 'gpus': gpus, 'data': data, 'examples': examples,
            'waits': bubble + cuts, 'sent_inside': sums + gathers,
            'no_groups': problem == 1, 'no_grid': problem == 2, 'no_layers': problem == 3,
            'no_examples': problem == 4, 'no_micro': problem == 5, 'possible': problem == 0,
            'full': problem == 0 and total > 4 / 3 * memory,
            'close': problem == 0 and total > 3 / 4 * memory and total <= 4 / 3 * memory,
            'fine': problem == 0 and total <= 3 / 4 * memory,
            'outcome': 'it does not divide' if problem > 0 and problem < 4 else
            'too few examples' if problem > 0 else 'it fits' if total <= 3 / 4 * memory else
            'it may not fit' if total <= 4 / 3 * memory else 'it does not fit'}


def bubble(m, p, step):
    """Seconds of m micro-batches on p stages, the same without gaps, and what is kept."""
    time = step * (m + p - 1) / m
    return {'time': time, 'full': step, 'gap': (time - step) / time,
            'gpipe': m, 'onef': min(m, p)}


LIVE = {
    'plan': Figure(
        'Which split, where?', plan,
        (Input('tokens', 'Tokens in a step', '', 1024, 100_000_000, 524_288, whole=True),
         Input('n', 'Parameters', 'million', 10, 2_000_000, 8030),
         Input('active', 'Share of them that a token meets', '%', 1, 100, 100, log=False),
         Input('layers', 'Layers', '', 1, 200, 32, log=False, whole=True),
         Input('width', 'Width', '', 64, 32_768, 4096, whole=True),
         Input('keys', 'Heads of keys for each of queries', '%', 1, 100, 25, log=False),
         Input('length', 'Tokens of an example', '', 64, 1_000_000, 8192, whole=True),
         Input('hosts', 'Hosts', '', 1, 4096, 4, whole=True),
         Input('per_host', 'GPUs of a host', start=8, choices=(('4', 4), ('8', 8))),
         Input('tensor', 'GPUs of a tensor group', '', 1, 16, 1, whole=True),
         Input('context', 'GPUs that share an example', '', 1, 64, 1, whole=True),
         Input('stages', 'Stages of a pipeline', '', 1, 64, 1, whole=True),
         Input('micro', 'Micro-batches', '', 1, 512, 1, whole=True),
         Input('chunks', 'Chunks of layers on a stage', '', 1, 16, 1, log=False, whole=True),
         Input('inside', 'Link of a GPU inside, each way', 'GB/s', 0.01, 1000, 450),
         Input('adapters', 'Network adapters of a host', '', 1, 16, 8, log=False, whole=True),
         Input('gbit', 'Rate of each, each way', 'Gbit/s', 1, 1600, 400),
         Input('peak', 'Peak of a GPU', 'TFLOP/s', 1, 5000, 989),
         Input('kernels', 'Share reached by its kernels', '%', 1, 100, 41, log=False),
         Input('element', 'Precision', start=2, choices=(('bfloat16', 2), ('float32', 4))),
         Input('kept', 'Activations', start=34, choices=(
             ('all kept', 34), ('about half kept', 17), ('computed twice', 2))),
         Input('memory', 'Memory of a GPU', 'GB', 1, 300, 80)),
        (Output('compute', 'arithmetic', 's'), Output('sent_inside', 'tensor and context parallelism', 's'),
         Output('shards', 'sharding, exposed', 's'), Output('waits', 'bubble and cuts', 's'),
         Output('step', 'a step', 's'), Output('mfu', 'MFU', '%'), Output('total', 'a GPU keeps', 'B'),
         Output('outcome', 'outcome')),
        ({'when': 'no_groups', 'text': 'Tensor groups of {tensor} do not fill hosts of {per_host} GPUs. '
                                       'Choose a number that divides {per_host}.'},
         {'when': 'no_grid', 'text': '{gpus} GPUs cannot be divided into {stages} stages, tensor groups '
                                     'of {tensor} and context groups of {context}. Choose degrees whose '
                                     'product divides {gpus}.'},
         {'when': 'no_layers', 'text': '{stages} stages of {chunks} chunks are more than {layers} layers, '
                                       'an embedding and an output can fill.'},
         {'when': 'no_examples', 'text': 'With {data}-fold data parallelism each rank needs an example of '
                                         '{length} tokens, and a step has {tokens} tokens. Use more '
                                         'tokens, or fewer ranks: larger groups, or more stages.'},
         {'when': 'no_micro', 'text': 'With {data}-fold data parallelism a rank has {examples} of the '
                                      'examples of a step, too few for {micro} micro-batches. Use at most '
                                      '{examples}, or more tokens in a step.'},
         {'when': 'possible', 'text': 'A step takes {step}, an MFU of {mfu}: {compute} of arithmetic, '
                                      '{sent_inside} of tensor and context parallelism, {shards} of '
                                      'waiting for shards, {waits} of bubble and cuts.'},
         {'when': 'full', 'text': 'It does not fit: {total} of {memory}. Recompute activations, use fewer '
                                  'tokens for each GPU, or split further.'},
         {'when': 'close', 'text': 'It may not fit: {total} of {memory}. Recompute activations, use fewer '
                                   'tokens for each GPU, or split further.'},
         {'when': 'fine', 'text': 'It fits: a GPU keeps {total} of {memory}, logits not counted.'}),
        over='tokens', rows=(262_144, 524_288, 1_048_576, 2_097_152, 4_194_304, 16_777_216),
        drawn=('step', 'compute', 'shards'), log_y=True,
        presets={'tensor groups inside the hosts': {'tensor': 8},
                 'tensor groups, and each host a stage': {'tensor': 8, 'stages': 4, 'micro': 64,
                                                           'chunks': 2},
                 'sharded inside, and each host a stage': {'stages': 4, 'micro': 8, 'chunks': 8},
                 'GPUs on PCIe 4.0, a host with 10 Gbit/s': {'inside': 32, 'adapters': 1, 'gbit': 10},
                 'Llama 3 405B on 8,192 GPUs': {
                     'tokens': 16_777_216, 'n': 405_000, 'layers': 126, 'width': 16_384, 'hosts': 1024,
                     'keys': 6.25, 'tensor': 8, 'stages': 16, 'micro': 32, 'chunks': 8, 'kernels': 53}}),
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
