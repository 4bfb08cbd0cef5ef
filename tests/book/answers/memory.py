"""Right and wrong answers to the exercises on memory."""

import functools

from tests.book.answers import stored

SOLUTIONS = 'memory/memory_solutions_pytorch.ipynb'


def selective(block):
    """The stored policy, around the checker's block."""
    s = stored(SOLUTIONS, 'products', 'policy', 'selective')
    return lambda x: s['checkpoint'](block, x, use_reentrant=False, context_fn=s['selective'])


def plain_checkpoint(block):
    return lambda x: stored(SOLUTIONS)['checkpoint'](block, x, use_reentrant=False)


def keeps(decide):
    def answer(block):
        s = stored(SOLUTIONS)
        policy = s['CheckpointPolicy']

        def ask(context, operation, *args, **kwargs):
            return policy.MUST_SAVE if decide(str(operation)) else policy.PREFER_RECOMPUTE
        contexts = functools.partial(s['create_selective_checkpoint_contexts'], ask)
        return lambda x: s['checkpoint'](block, x, use_reentrant=False, context_fn=contexts)
    return answer


def compensated(values):
    return stored(SOLUTIONS, 'compensated_sum')['compensated_sum'](values)


def plain_sum(values):
    return stored(SOLUTIONS, 'plain_sum')['plain_sum'](values)


def given_back(w, group, levels=127, by='row'):
    groups = w.reshape(-1, group) if by == 'row' else w.T.reshape(-1, group)
    scale = (groups.abs().amax(1, keepdim=True) / levels).half().float()
    q = (groups / scale).round().clamp(-levels, levels) * scale
    return q.reshape(w.shape) if by == 'row' else q.reshape(w.T.shape).T


def error_of_the_stored(w, group):
    return stored(SOLUTIONS, 'int8')['int8'](w, group)


def in_float32(w, group):
    groups = w.reshape(-1, group)
    scale = groups.abs().amax(1, keepdim=True) / 127
    return ((groups / scale).round() * scale).reshape(w.shape)


ANSWERS = {
    'mem-ex-w-sixteen': (dict(adam=24, momentum=18, left=6), [
        (dict(adam=18), 'itself, its gradient'), (dict(adam=6), 'itself'), (dict(momentum=12), 'itself'),
        (dict(left=0), 'has 24 GB')]),
    'mem-ex-w-gelu': (dict(relu=1, gelu=2), [
        (dict(relu=2), 'ReLU its result'), (dict(gelu=1), 'GELU its input'),
        (dict(relu=0), 'ReLU its result')]),
    'mem-ex-w-batch': (dict(largest=30, pieces=9), [
        (dict(largest=33), 'worst moment'), (dict(largest=80), 'worst moment'),
        (dict(pieces=8), 'No piece')]),
    'mem-ex-w-root': (dict(g=4, peak=32, without=256), [
        (dict(g=8), 'Write down'), (dict(g=16), 'Write down'), (dict(peak=16), 'inside of one'),
        (dict(without=320), 'its inside')]),
    'mem-ex-w-mixed': (dict(bytes=16, less=0), [
        (dict(bytes=8), 'Five numbers'), (dict(bytes=12), 'Five numbers'),
        (dict(less=8), 'four numbers')]),
    'mem-ex-layers': (dict(convolution='input', sigmoid='result', relu='result', gelu='input',
                           dropout='mask', pooling=8), [
        (dict(convolution='result'), 'its weights'), (dict(gelu='result'), 'be undone'),
        (dict(dropout='input'), 'the same in the'), (dict(pooling=4), 'largest number'),
        (dict(sigmoid='input'), 'derivative')]),
    'mem-ex-inplace': (dict(usual=1, inplace=1, error='backward'), [
        (dict(usual=2), 'that is the same'), (dict(inplace=0), 'kept before'),
        (dict(error='forward'), 'When is')]),
    'mem-ex-last': (lambda sizes: [n / sum(sizes) for n in sizes], [
        (lambda sizes: [1 / len(sizes) for _ in sizes], r'\[256, 256, 128\]'),
        (lambda sizes: [n / max(sizes) for n in sizes], r'\[4, 4\]'), (lambda sizes: sizes, r'\[4, 4\]'),
        (lambda sizes: [1 / sum(sizes)], 'there are 1')]),
    'mem-ex-eval': (dict(ten=10, no_grad=0, training=0), [
        (dict(ten=1), 'say to autograd'), (dict(ten=0), 'say to autograd'),
        (dict(no_grad=1), 'need them'),
        (dict(training=1), 'has used')]),
    'mem-ex-selective': (selective, [
        (lambda block: block, 'not computed again'), (plain_checkpoint, 'A step computes'),
        (keeps(lambda name: True), 'not computed again'),
        (keeps(lambda name: 'gelu' in name), 'computed'),
        (lambda block: lambda x: block(2 * x), 'The result is another'),
        (lambda block: 1, 'be called')]),
    'mem-ex-kahan': (compensated, [
        (plain_sum, '256 comes out, and 4096'), (lambda values: values.float().sum(), 'There were'),
        (lambda values: sum(values.tolist()), 'fewer operations'),
        (lambda values: 4096.0, 'fewer operations')]),
    'mem-ex-forget': (dict(bfloat16=0.09814, float32=0.00064), [
        (dict(bfloat16=0.00064), 'neighbours'), (dict(bfloat16=0), 'neighbours'),
        (dict(float32=0.0952), 'thousandth'), (dict(float32=0), 'thousandth')]),
    'mem-ex-mx-scratch mxnet': (dict(more=16, leak='no'), [
        (dict(more=1), 'largest demand'), (dict(more=60), 'largest demand'),
        (dict(leak='yes'), 'for ever')]),
    'mem-ex-groups': (given_back, [
        (lambda w, group: given_back(w, w.numel()), 'In groups of 64'),
        (lambda w, group: w + 0, 'no multiples'), (in_float32, 'more bits than a float16'),
        (functools.partial(given_back, by='column'), 'In groups of'),
        (functools.partial(given_back, levels=7), 'further off|no multiples'),
        (error_of_the_stored, 'shape of w'), (lambda w, group: w.mul_(1.5), 'writes into w')]),
}
