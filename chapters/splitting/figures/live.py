"""The figures of this topic that a reader can turn."""

from math import floor

from chapters.splitting.planning import Run, check, parts
from live_figures import Figure, Input, Output


def planned(**about):
    """Seconds of a training step, bytes kept by a GPU, and what the planner says of them.

    What the planner refuses has numbers here as well, beside its words.

    Args:
        about: the fields of the planner's Run.
    """
    run = Run(**about)
    try:
        check(run)
        problem = ''
    except ValueError as error:
        problem = str(error)
    found = parts(run)
    possible = problem == ''
    advice = found['advice'] if possible else ''
    tight = 'it may not fit' if 'may not fit' in advice else 'it does not fit'
    fits = possible and advice == ''
    return {'compute': found['compute'], 'sent_inside': found['tensor'] + found['context'],
            'shards': found['shards'], 'waits': found['bubble'] + found['cuts'], 'step': found['step'],
            'mfu': found['mfu'], 'total': found['kept'], 'problem': problem, 'possible': possible,
            'advice': advice, 'fits': fits,
            'outcome': ('it fits' if fits else tight) if possible else 'not possible'}


def schedule(i, m, t):
    """When micro-batch i begins on each of four stages, and what the first did after t of 33 equal steps.

    A batch takes 80 ms forward on each stage, and twice as long backward, as on the page with the pipeline.
    All forward passes come first. A count that should be whole may lie a little below.
    """
    forward = 0.08 / m
    backward = 2 * forward
    turned = (m + 3) * forward
    whole = turned + (m + 3) * backward
    now = t / 33 * whole
    there = min(m, floor(now / forward + 1e-9))
    back = max(0, min(m, floor((now - turned) / backward - 3 + 1e-9)))
    return {'f0': i * forward, 'f1': (i + 1) * forward, 'f2': (i + 2) * forward, 'f3': (i + 3) * forward,
            'f4': (i + 4) * forward, 'b3': turned + i * backward, 'b2': turned + (i + 1) * backward,
            'b1': turned + (i + 2) * backward, 'b0': turned + (i + 3) * backward,
            'end': turned + (i + 4) * backward, 'whole': whole, 'now': now, 'there': there, 'back': back,
            'kept': there - back, 'idle': 3 / (m + 3)}


def bubble(m, p, step):
    """Seconds of m micro-batches on p stages, the same without gaps, and what is kept."""
    time = step * (m + p - 1) / m
    return {'time': time, 'full': step, 'gap': (time - step) / time,
            'gpipe': m, 'onef': min(m, p)}


LIVE = {
    'plan': Figure(
        'Which split, where?', planned,
        (Input('tokens', 'Tokens in a step', '', 1024, 100_000_000, 524_288, whole=True),
         Input('n', 'Parameters', 'million', 10, 2_000_000, 8030, more=True),
         Input('active', 'Share of them that a token meets', '%', 1, 100, 100, log=False, more=True),
         Input('layers', 'Layers', '', 1, 200, 32, log=False, whole=True, more=True),
         Input('width', 'Width', '', 64, 32_768, 4096, whole=True, more=True),
         Input('keys', 'Heads of keys for each of queries', '%', 1, 100, 25, log=False, more=True),
         Input('length', 'Tokens of an example', '', 64, 1_000_000, 8192, whole=True, more=True),
         Input('hosts', 'Hosts', '', 1, 4096, 4, whole=True),
         Input('per_host', 'GPUs of a host', start=8, more=True, choices=(('4', 4), ('8', 8))),
         Input('tensor', 'GPUs of a tensor group', '', 1, 16, 1, whole=True),
         Input('context', 'GPUs that share an example', '', 1, 64, 1, whole=True, more=True),
         Input('stages', 'Stages of a pipeline', '', 1, 64, 1, whole=True),
         Input('micro', 'Micro-batches', '', 1, 512, 1, whole=True),
         Input('chunks', 'Chunks of layers on a stage', '', 1, 16, 1, log=False, whole=True, more=True),
         Input('inside', 'Link of a GPU inside, each way', 'GB/s', 0.01, 1000, 450, more=True),
         Input('adapters', 'Network adapters of a host', '', 1, 16, 8, log=False, whole=True, more=True),
         Input('gbit', 'Rate of an adapter, each way', 'Gbit/s', 1, 1600, 400),
         Input('peak', 'Peak of a GPU', 'TFLOP/s', 1, 5000, 989, more=True),
         Input('kernels', 'Share reached by its kernels', '%', 1, 100, 41, log=False, more=True),
         Input('element', 'Precision', start=2, more=True, choices=(('bfloat16', 2), ('float32', 4))),
         Input('kept', 'Activations', start=34, more=True, choices=(
             ('all kept', 34), ('about half kept', 17), ('computed twice', 2))),
         Input('memory', 'Memory of a GPU', 'GB', 1, 300, 80, more=True)),
        (Output('compute', 'arithmetic', 's'), Output('sent_inside', 'tensor and context parallelism', 's'),
         Output('shards', 'sharding, exposed', 's'), Output('waits', 'bubble and cuts', 's'),
         Output('step', 'a step', 's'), Output('mfu', 'MFU', '%'), Output('total', 'a GPU keeps', 'B'),
         Output('outcome', 'outcome')),
        ({'when': 'problem', 'text': '{problem}'},
         {'when': 'possible', 'text': 'A step takes {step}, an MFU of {mfu}: {compute} of arithmetic, '
                                      '{sent_inside} of tensor and context parallelism, {shards} of '
                                      'waiting for shards, {waits} of bubble and cuts.'},
         {'when': 'advice', 'text': '{advice}'},
         {'when': 'fits', 'text': 'It fits: a GPU keeps {total} of {memory}, logits not counted.'}),
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
    'schedule': Figure(
        'Four stages, and all forward passes first', schedule,
        (Input('m', 'Micro-batches', '', 1, 8, 8, log=False, whole=True),
         Input('t', 'Time that has passed, in steps', '', 0, 33, 33, log=False, whole=True, play=True)),
        (Output('whole', 'the batch takes', 's'), Output('idle', 'of it, each stage waits', '%'),
         Output('now', 'has passed', 's')),
        ('The batch takes {whole}, and each stage waits for {idle} of it. After {now}, the first stage has '
         'done {there} forward and {back} backward passes. It keeps the activations of {kept}.',),
        count='m', clock='now', kinds=2, lanes=(
            ('stage 0', 'f0', 'f1'), ('stage 0', 'b0', 'end'), ('stage 1', 'f1', 'f2'),
            ('stage 1', 'b1', 'b0'), ('stage 2', 'f2', 'f3'), ('stage 2', 'b2', 'b1'),
            ('stage 3', 'f3', 'f4'), ('stage 3', 'b3', 'b2'))),
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
