"""The figures of this topic that a reader can turn."""

from math import floor

from live_figures import Figure, Input, Output, Printed


def fits(k, parameters, number, state, update, kept, largest, tensor, pieces, card):
    """Bytes of a training step with a batch of k, in micro-batches one after the other."""
    weights = number * parameters
    fixed = 2 * weights + state * parameters
    activations = number / 4 * kept * k / pieces
    moment = number / 2 * largest * k / pieces
    temporary = 2 * tensor if update == 0 else parameters if update == 1 else 0
    last = fixed + (4 * temporary if state >= 8 else 0)     # in float32, as Adam's averages are
    first = fixed - weights if pieces == 1 else fixed
    peak = max(first + activations + moment, last)
    example = (number / 4 * kept + number / 2 * largest) / pieces
    most = max(0, floor((card - first) / example)) if last <= card else 0
    return {'fixed': fixed, 'activations': activations, 'peak': peak, 'share': peak / card, 'most': most,
            'verdict': 'it fits' if peak <= card else 'it does not fit'}


def segments(parts, blocks, inside, given):
    """Bytes kept for the backward pass with a checkpoint before each part of the network."""
    used = min(parts, blocks)
    kept = used * given + blocks / used * inside
    plain = blocks * inside
    return {'kept': kept, 'plain': plain, 'share': kept / plain}


LIVE = {
    'fits': Figure(
        'The peak of a training step', fits,
        (Input('k', 'Examples in a batch', '', 1, 4096, 64, whole=True),
         Input('parameters', 'Parameters', 'million', 0.001, 100_000, 11.172, more=True),
         Input('number', 'Weights and activations', start=4, choices=(('float32', 4), ('16 bits', 2))),
         Input('state', 'The optimizer keeps for each weight', start=8, choices=(
             ('8 bytes: Adam in float32', 8), ('4 bytes: momentum, or Adam in 16 bits', 4),
             ('nothing: SGD', 0),
             ('12 bytes: Adam and a float32 copy', 12))),
         Input('update', 'Adam is implemented', start=1, choices=(
             ('as a loop: the default on a CPU', 0), ('with foreach: the default on CUDA', 1),
             ('fused', 2))),
         Input('kept', 'Kept for one example, in float32', 'MB', 0.001, 10_000, 3.48, more=True),
         Input('largest', 'Largest result for one example, in float32', 'MB', 0.001, 1000, 0.2,
               more=True),
         Input('tensor', 'Largest tensor of weights', 'million', 0.001, 1000, 2.36, more=True),
         Input('pieces', 'Micro-batches, one after the other', '', 1, 256, 1, whole=True),
         Input('card', 'Free memory', 'GB', 0.1, 1000, 3.2)),
        (Output('fixed', 'weights, gradients, state', 'B'), Output('activations', 'activations', 'B'),
         Output('peak', 'peak', 'B'), Output('share', 'of the memory', '%')),
        ('A batch of {k} peaks at {peak}, {share} of the memory: {verdict}.',
         'The largest batch that fits has {most} examples.'),
        over='k', rows=(1, 4, 16, 64, 128, 256, 512, 1024, 4096), drawn=('peak', 'fixed'), log_y=True,
        presets={'LeNet': {'parameters': 0.0617, 'kept': 0.03552, 'largest': 0.0188, 'tensor': 0.048},
                 'ResNet-18, 28 × 28': {'parameters': 11.172, 'kept': 3.48, 'largest': 0.2,
                                        'tensor': 2.36},
                 'a GPU of 4 GB beside a desktop': {'card': 3.2}, 'a GPU of 24 GB': {'card': 23},
                 '7 billion parameters, nearly no batch': {
                     'k': 1, 'parameters': 6738, 'kept': 500, 'largest': 10, 'tensor': 131, 'card': 120},
                 'all of this machine': {
                     'card': Printed('chapters/hardware/hardware', r'\nmemory +measured: ')}}),
    'segments': Figure(
        'Checkpoints, few or many', segments,
        (Input('parts', 'Parts with a checkpoint', '', 1, 96, 8, log=False, whole=True),
         Input('blocks', 'Blocks of the network', '', 1, 1000, 8, whole=True),
         Input('inside', 'Kept inside a block', 'MB', 0.01, 10_000, 2.626),
         Input('given', 'Input of a block', 'MB', 0.001, 1000, 0.262)),
        (Output('kept', 'with checkpoints', 'B'), Output('plain', 'without', 'B'),
         Output('share', 'is kept', '%')),
        ('With {parts} parts, {kept} are kept in place of {plain}, {share}.',
         {'min': 'kept', 'text': 'The least is {kept}, with {parts} parts.'}),
        over='parts', rows=(1, 2, 4, 8, 16, 32, 64, 96), drawn=('kept', 'plain'), log_y=True,
        presets={'the network of this page': {'blocks': 8, 'inside': 2.626, 'given': 0.262},
                 '96 blocks': {'blocks': 96, 'inside': 2.626, 'given': 0.262}})}
