"""The checkers of the exercises on memory."""

import math

import numpy as np

from answer_checks.definitions import Part, exercise, fetch, listed, need, number, numbers, text

MODES = 'torch._dynamo',        # what a TorchDispatchMode imports when it is entered
PARAMETERS, CARD = 1.5, 24      # billions, and GB
COUNT = 'How many float32 numbers does each parameter need: itself, its gradient, and what else?'
numbers('mem-ex-w-sixteen',
        adam=Part(16 * PARAMETERS, 'GB for weights, gradients and state with Adam', COUNT,
                  'Adam keeps two averages.'),
        momentum=Part(12 * PARAMETERS, 'GB with momentum', COUNT, 'Momentum keeps one number.'),
        left=Part(CARD - 12 * PARAMETERS, 'GB left for activations, with momentum',
                  'The GPU has 24 GB.', 'What is not taken is left, before the driver.'),
        slips={
            'adam': {
                4 * PARAMETERS: 'Those are the weights alone.',
                8 * PARAMETERS: 'The state of Adam is missing.',
                12 * PARAMETERS: 'Adam keeps two numbers for each parameter, beside its gradient.',
            },
            'momentum': {
                8 * PARAMETERS: 'The state is missing: momentum is a number for each parameter.',
                16 * PARAMETERS: 'Momentum keeps one number for each parameter, beside its gradient.',
            },
            'left': {
                0: 'That is with Adam.',
                CARD - 8 * PARAMETERS: 'The state is missing: momentum is a number for each parameter.',
            },
        })

numbers('mem-ex-w-gelu',
        relu=Part(1, 'tensors kept with ReLU', 'The matmul needs its factor, ReLU its result.',
                  'Are these two tensors, or the same one?'),
        gelu=Part(2, 'tensors kept with GELU', 'The matmul needs its factor, GELU its input.',
                  'Are these two tensors, or the same one?'),
        slips={
            'relu': {2: 'The result of ReLU is also the factor of the second matmul. Is it kept twice?'},
            'gelu': {
                1: 'The input of GELU is not the factor of the second matmul.',
                3: 'GELU keeps its input, and the result is kept once, by the matmul.',
            },
        })

FREE, EACH, BATCH = (16 - 10) * 1000, 180 + 20, 256
numbers('mem-ex-w-batch',
        largest=Part(FREE // EACH, 'examples in the largest batch',
                     'What is left, and what does an example need at the worst moment?',
                     'What is kept and what is needed for a moment are there together.'),
        pieces=Part(math.ceil(BATCH / (FREE // EACH)), 'pieces for 256 examples',
                    'No piece is larger than what fits.', 'A rest is a piece as well.'),
        slips={
            'largest': {
                FREE // (EACH - 20): 'Each example needs 20 MB more for a moment.',
                16_000 // EACH: 'Weights, gradients and state are in the 16 GB too.',
            },
            'pieces': {
                8: 'Eight pieces of 30 are 240 examples.',
                BATCH / (FREE // EACH): 'A rest is a piece as well.',
            },
        })


def kept_with(g: int) -> float:
    return 64 / g + 4 * g


BEST = min(range(1, 65), key=kept_with)
numbers('mem-ex-w-root',
        g=Part(BEST, 'layers in the best group', 'Write down what is kept for a group of g layers.',
               'One term falls with g and one rises. Where is their sum least?'),
        peak=Part(kept_with(BEST), 'MB kept at the peak with this group',
                  'The inputs of all groups, and the inside of one.', 'Insert your g.'),
        without=Part(64 * 4.0, 'MB kept without checkpoints', 'Every layer keeps its inside.',
                     'How many layers are there?'),
        slips={
            'g': {
                8:
                    'The square root of the layers is best where a layer keeps as much as its input. Here it '
                    'keeps four times as much.',
                16: 'With groups of 16, the inside of one alone is 64 MB. Where are the two terms equal?',
            },
            'peak': {
                kept_with(8): 'That is with groups of eight.',
                16: 'That is one of two terms.',
            },
            'without': {
                64: 'Those are the inputs of the layers. Inside, four times as much is kept.',
                320: 'The 4 MB are all that autograd keeps for a layer. Nothing comes on top of them.',
            },
        })

numbers('mem-ex-w-mixed',
        bytes=Part(2 + 2 + 4 + 4 + 4, 'bytes for each parameter', 'Five numbers for each parameter.',
                   'Which of the five have half of the bits?'),
        less=Part(16 - (2 + 2 + 4 + 4 + 4), 'bytes less than in float32, for each parameter',
                  'In float32 there are four numbers.', 'Compare the two sums.'),
        slips={
            'bytes': {
                2 + 2 + 4 + 4: 'The copy of the weights in float32 is missing.',
                2 + 2 + 2 + 2: 'The averages and the copy of the weights stay in float32.',
            },
            'less': {
                4: 'What weights and gradients save, the copy in float32 takes again.',
                8: 'The averages and the copy of the weights stay in float32.',
            },
        })

numbers('mem-ex-layers', **{
    name: Part(right, f"what {layer} keeps: 'input', 'result' or 'mask'", hint,
               'Count with saved_tensors_hooks, with the input there and without.')
    for name, right, layer, hint in (
        ('convolution', 'input', 'a convolution', 'What does the gradient of its weights need?'),
        ('sigmoid', 'result', 'a sigmoid', 'Its derivative is s (1 - s).'),
        ('relu', 'result', 'a ReLU', 'Where the result is zero, so is the gradient.'),
        ('gelu', 'input', 'a GELU', 'Can it be undone from its result?'),
        ('dropout', 'mask', 'dropout', 'What has to be the same in the backward pass?'))},
        pooling=Part(8, 'bytes of integers for each result of max pooling',
                     'It keeps where the largest number was.', 'What type has an index in PyTorch?'),
        slips={
            'convolution': {
                'result': 'The gradient of the weights is made from the input and from what comes back.',
                'mask': 'The gradient of the weights needs numbers.',
            },
            'sigmoid': {'input': 'Its derivative can be written with the result alone.'},
            'relu': {
                'input': 'Where the result is zero, so is the gradient: the input is not needed.',
                'mask': 'A mask would do, but the result has to be kept by the next layer anyway.',
            },
            'gelu': {
                'result': 'Two inputs may have the same result, so the result does not tell the derivative.',
            },
            'dropout': {
                'input': 'The gradient does not depend on the input.',
                'result': 'A zero in the result may be a zero of the input.',
            },
            'pooling': {
                4: 'An index is an int64 in PyTorch.',
                1: 'An index is an int64 in PyTorch.',
            },
        })

numbers('mem-ex-inplace',
        usual=Part(1, 'tensors of the batch kept by matmul, ReLU, matmul, besides the input',
                   'ReLU and the second matmul need something that is the same.', 'Count by storage.'),
        inplace=Part(1, 'the same with ReLU in place', 'What was kept before: input or result of ReLU?',
                     'Only what was kept can be saved.'),
        error=Part('backward', "behind a sigmoid, where the error comes: 'forward' or 'backward'",
                   'When is the saved result of the sigmoid needed?',
                   'A tensor has a version, which is compared when it is used.'),
        slips={
            'usual': {
                2: 'ReLU keeps its result, which is also the factor of the second matmul. Is it kept twice?',
            },
            'inplace': {0: 'What was kept is the result of ReLU, and it is still needed.'},
            'error': {
                'forward':
                    'The forward pass writes. That something kept has changed is seen where it is used.',
            },
        })


@exercise('mem-ex-last', '''def factors(sizes):
    """By what to multiply the mean loss of each piece of a batch, so that the gradients add up.

    sizes: the examples in each piece.
    """''')
def last(factors) -> None:
    """The gradient of the whole batch: for equal pieces, a smaller last piece, and any."""
    draw = np.random.default_rng(0)
    for sizes, what in (([4, 4], 'equal pieces'), ([256, 256, 128], 'a smaller last piece'),
                        ([3, 50, 1, 7], 'pieces of any size'), ([5], 'a single piece')):
        gradients = draw.normal(size=(sum(sizes), 6))       # of each example's loss
        answer = listed(factors(list(sizes)), 'a factor for each piece')
        found = [number(f, 'a factor for each piece') for f in answer]
        need(len(found) == len(sizes), 'a factor for each piece',
             f'For {len(sizes)} pieces there are {len(found)}.', 'Return a list.')
        pieces = np.split(gradients, np.cumsum(sizes)[:-1])
        total = 0
        for factor, piece in zip(found, pieces, strict=True):
            total += factor * piece.mean(0)
        need(np.allclose(total, gradients.mean(0)), f'the gradient of the whole batch, for {what}',
             f'Wrong for the sizes {sizes}.', 'How much does one example count in each piece?')


numbers('mem-ex-eval',
        ten=Part(10, 'times as many bytes kept by ten losses in a list as by one, after net.eval()',
                 'What does eval say to autograd?', 'Each loss has a graph of its own.'),
        no_grad=Part(0, 'bytes kept under torch.no_grad()', 'What would need them?',
                     'Without a graph nothing is saved.'),
        training=Part(0, 'bytes that the graph of a kept loss holds after its backward pass',
                      'What does backward do with what it has used?', 'Try to call it twice.'),
        slips={
            'ten': {
                1: 'Each loss in the list holds what its own graph has kept, and eval does not change that.',
                0: 'eval changes dropout and batch norm. Autograd records as before.',
            },
        })


@exercise('mem-ex-selective', '''def selective(block):
    """A function of x: block(x), in a checkpoint that keeps the results of matmuls alone."""''',
          'pytorch', seconds=40, imports=MODES)
def selective(selective) -> None:
    """The same results and gradients; no matmul computed twice; and everything else computed again."""
    import torch
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode
    torch.manual_seed(0)

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls[func.overloadpacket.__name__] = calls.get(func.overloadpacket.__name__, 0) + 1
            return func(*args, **(kwargs or {}))
    block = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32), nn.GELU())
    x, found = torch.randn(16, 32), []
    way = selective(block)
    need(callable(way), 'a function', 'What you return cannot be called.', 'Return a function of x.')
    for f in (block, way):
        calls: dict[str, int] = {}
        with Count():
            y = f(x)
            gradients = torch.autograd.grad(y.square().sum(), list(block.parameters()))
        found.append((y.detach(), gradients, calls))
    (y, gradients, plain), (ours, theirs, again) = found
    need(torch.equal(y, ours), 'the result of the block', 'The result is another.',
         'Call the block on x.')
    need(all(map(torch.equal, gradients, theirs)), 'the gradients of the block', 'They differ.',
         'Compare those of the first layer.')
    need(again.get('gelu', 0) > plain['gelu'], 'a second computation of what is no matmul',
         'GELU is not computed again, so its input was kept all the same.',
         'A checkpoint keeps what its policy names, and nothing else.')
    products = [sum(calls.get(n, 0) for n in ('mm', 'addmm')) for calls in (plain, again)]
    need(products[0] == products[1], 'matmuls that are computed once',
         f'A step computes {products[1]} matmuls, and {products[0]} without a checkpoint.',
         'A policy is asked about each operation. Which names do matmuls have?')


@exercise('mem-ex-kahan', '''def add(values):
    """The sum of bfloat16 numbers, one after the other, with nothing but bfloat16 on the way."""''',
          'pytorch', seconds=60, imports=MODES)
def kahan(add) -> None:
    """4,096 ones; random numbers; and no wider numbers on the way."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    kinds, scalars, results = set(), [], []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            y = func(*args, **(kwargs or {}))
            if isinstance(y, torch.Tensor):
                kinds.add(str(y.dtype).removeprefix('torch.'))
                results.append(y.numel())
            elif 'local_scalar' in str(func):
                scalars.append(y)
            return y
    torch.manual_seed(0)
    for values, what in ((torch.ones(4096), '4,096 ones'), (torch.rand(1000), 'random numbers')):
        values = values.bfloat16()
        with Watch():
            found = add(values)
        right = float(values.double().sum())
        need(abs(float(found) / right - 1) < (0.01 if 'random' in what else 1e-6), f'the sum of {what}',
             f'{float(found):.0f} comes out, and {right:.0f} would be right.',
             'What has the last addition rounded away? It can be computed, and added next time.')
        need(kinds <= {'bfloat16'} and len(scalars) <= 2, 'bfloat16 on the way',
             f'There were {", ".join(sorted(kinds))}' + ' and Python numbers.' * (len(scalars) > 2),
             'A second number in bfloat16 is enough.')
        need(len(results) >= len(values), 'one addition after the other',
             'There are fewer operations on tensors than numbers.', 'Write the loop.')
        results.clear()


def average(steps: int, rounded: bool) -> float:
    """Adam's average after 100 gradients of 1 and then zeros, in float32 or rounded to bfloat16."""
    def keep(x: float) -> np.float32:
        bits = np.float32(x).reshape(1).view(np.uint32).astype(np.uint64)
        if rounded:     # to 8 bits of mantissa, to even in the middle
            bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000
        return bits.astype(np.uint32).view(np.float32)[0]
    v = np.float32(0)
    for i in range(steps):
        v = keep(keep(0.999 * float(v)) + 0.001 * (i < 100))
    return float(v)


numbers('mem-ex-forget',
        bfloat16=Part(average(5100, True), 'v in bfloat16 after 100 ones and 5,000 zeros',
                      'How far apart are neighbours in bfloat16, and how far is a step?',
                      'A thousandth is less than half of the distance.'),
        float32=Part(average(5100, False), 'v in float32',
                     'Each zero takes a thousandth of what is left.',
                     'What is v after the ones, and what is 0.999 to the power of 5,000?'))


@exercise('mem-ex-groups', '''def int8(w, group):
    """The weights w as int8 gives them back: groups of so many, in order, with one float16 scale each.

    w: a float32 tensor, whose size the group divides. Returned: one of the same shape.
    """''', 'pytorch')
def groups(int8) -> None:
    """At most 255 levels in each group, and no error beyond half of a step of the group's own scale."""
    import torch
    torch.manual_seed(0)
    w = torch.randn(64, 64) / 16
    w[7, 9] = 3.0
    for group in (4096, 64, 16):
        before, y = w.clone(), int8(w, group)
        need(torch.equal(w, before), 'weights that stay as they were', 'Your function writes into w.',
             'Look for operations in place.')
        need(getattr(y, 'shape', None) == w.shape, 'the shape', 'Return a tensor of the shape of w.',
             'Bring the groups back into the shape that they came from.')
        old, new = fetch(w).reshape(-1, group), fetch(y).reshape(-1, group)
        step = np.abs(old).max(1, keepdims=True) / 127
        levels = np.abs(new / step - np.round(new / step)).max()
        need(levels < 0.1 and np.abs(new / step).max() < 128.5, 'whole numbers times a scale',
             f'In groups of {group}, the results are no multiples of one 127th of the largest weight of '
             'their group.',
             'Divide by the scale, round, keep to what int8 holds, multiply.')
        need((np.abs(new - old) <= 0.57 * step).all(), 'errors of half a step',
             f'In groups of {group}, some weights are further off than their own scale explains.',
             'Which weights share a scale? They follow each other in memory.')
        largest = np.abs(new).max(1, keepdims=True)
        scale = largest / np.round(largest / step)
        need(np.abs(scale.astype('float16') / scale - 1).max() < 1e-5, 'scales in float16',
             f'In groups of {group}, the scale has more bits than a float16.',
             'Which type has the scale by which you multiply in the end, and which bytes does that cost?')


numbers('mem-ex-mx-scratch', framework='mxnet',
        more=Part(64 // 4, 'times as many bytes held in the end with 64 pieces as with 4',
                  'Each piece grows to the largest demand that it meets.',
                  'And in the end all have met it.'),
        leak=Part('no', "'yes' or 'no': is it a leak?", 'Does it go on growing for ever?',
                  'What happens when every piece has its size?'),
        slips={
            'more': {1: 'Each of the pieces grows to the largest demand that it meets.'},
            'leak': {'yes': 'It stops growing when every piece has met the largest demand.'},
        })
text('mem-ex-mx-again',
     'The function keeps the input of its part alone, and records the part anew in its backward pass.',
     'The gradients are equal, to the last bit.',
     'The prediction is in tensors: inputs of parts, and the inside of one part.',
     'Peak with and without are counted, and compared with it.')
text('mem-ex-walk',
     'The list comes from a forward pass without numbers: shapes alone.',
     'On the way back, what a layer kept is freed, and the gradients of its weights appear.',
     'The peak is the highest point of the way, and not its beginning.',
     'What LeNet takes in addition is named: copies that a library makes for a moment.')
