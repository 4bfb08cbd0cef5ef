"""The checkers of the exercises on a small transformer."""

import itertools
import math

import numpy as np

from answer_checks.definitions import Part, exercise, fetch, listed, need, number, numbers

MODES = 'torch._dynamo',        # what a TorchDispatchMode imports when it is entered
WIDTH, LAYERS = 768, 12
numbers('tr-ex-w-six',
        weights=Part(12.0 * LAYERS * WIDTH ** 2, 'weights in all layers', 'How many has one layer?',
                     'Insert the width in a layer, then count the layers.'),
        flops=Part(6 * 12.0 * LAYERS * WIDTH ** 2, 'FLOPs for a token in training, by weights',
                   'Add forward and backward for one weight.',
                   'The backward pass takes twice the FLOPs of the forward pass.'),
        context=Part(6 * WIDTH, 'tokens at which attention takes as many FLOPs',
                     'Compare within one layer.', 'What is left of the equation when you divide by d?'),
        slips={
            'weights': {12.0 * WIDTH ** 2: 'That is one layer.'},
            'flops': {
                2 * 12.0 * LAYERS * WIDTH ** 2: 'That is the forward pass.',
                4 * 12.0 * LAYERS * WIDTH ** 2: 'That is the backward pass. The forward pass is missing.',
            },
            'context': {
                WIDTH: 'Weights take 72 d² FLOPs in a layer.',
                2 * WIDTH:
                    'That is with the weights of the forward pass alone, and the attention of both passes.',
                6 * WIDTH * LAYERS: 'The layers stand on both sides.',
            },
        })

WEIGHTS, GPUS, TOKENS = 140e9, 160e9, 4096


def cache(heads: int) -> int:
    """Bytes of keys and values for a token."""
    return 2 * 80 * heads * 128 * 2


numbers('tr-ex-w-users',
        token=Part(cache(8), 'bytes of cache for a token',
                   'Keys and values, in each layer, for each head that is kept.',
                   'How many bytes are 16 bits?'),
        users=Part(int((GPUS - WEIGHTS) // (TOKENS * cache(8))), 'users that fit',
                   'What do the weights leave?', 'Round down: a user fits or does not.'),
        all_heads=Part(int((GPUS - WEIGHTS) // (TOKENS * cache(64))), 'users with all heads kept',
                       'How many times as much does a user take then?',
                       'The weights stay what they are.'),
        slips={
            'token': {
                cache(8) / 2: 'Keys and values are two, and a number has two bytes.',
                2 * cache(8): 'Sixteen bits are two bytes.',
                cache(64): 'That is with all heads kept.',
                cache(8) / 80: 'That is one layer.',
                cache(1): 'That is one head.',
            },
            'users': {
                15: 'The fifteenth does not fit as a whole.',
                int(GPUS // (TOKENS * cache(8))): 'The weights are in the 160 GB too.',
            },
            'all_heads': {
                2: 'The second does not fit as a whole.',
                14: 'That is with eight heads kept.',
            },
        })

numbers('tr-ex-w-decode',
        one=Part(0.016, 'seconds for a token of one user', 'Each weight is read once for a token.',
                 'Bytes over bandwidth; how many bytes has a weight?'),
        int8=Part(0.008, 'seconds with weights of 8 bits', 'What has become of the bytes?',
                  'A weight is one byte now.'),
        all=Part(32 / (16.0 + 32 * 0.13) * 1000, 'tokens a second for 32 users',
                 'What does a step read besides the weights?',
                 'The weights are read once for all, each cache for its user alone.'),
        slips={
            'one': {0.008: 'A weight of 16 bits has two bytes.'},
            'int8': {
                0.016: 'That is with 16 bits.',
                0.004: 'A weight of 8 bits has one byte.',
            },
            'all': {
                2000: 'A step also reads the cache of each user.',
                62.5: 'That is one user.',
                1000 / (16.0 + 32 * 0.13): 'Those are steps. Each gives a token to all 32 users.',
            },
        })

SLOTS, ANSWER, ARRIVALS, THERE = 8, 100 * 20e-3, 3, 7.2     # seconds, and requests
numbers('tr-ex-w-house',
        load=Part(ARRIVALS * ANSWER / SLOTS, 'load', 'How many requests a second can all slots do?',
                  'An answer keeps its slot for all of its steps.'),
        busy=Part(ARRIVALS * ANSWER, 'slots busy on average',
                  'What is there on average is a rate times a time.',
                  'How long is a request in a slot?'),
        stay=Part(THERE / ARRIVALS, 'seconds that a request is there',
                  'The same law, for all that are there.',
                  'What is there and how many come are known now.'),
        slips={
            'load': {
                ARRIVALS * ANSWER: 'Those are slots. The load is a share of all eight.',
                ARRIVALS / SLOTS: 'A slot does not answer one request a second.',
            },
            'busy': {
                ARRIVALS * ANSWER / SLOTS: 'That is the load, a share.',
                THERE: 'Those are all that are there, also those that wait.',
            },
            'stay': {
                ANSWER: 'That is the time in a slot. Some wait before.',
                THERE / ARRIVALS - ANSWER: 'That is the wait. The time in the slot comes after it.',
                THERE * ARRIVALS: 'What is there is the rate times the time: divide.',
            },
        })


def random(*shape: int, seed: int = 0):
    import torch
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@exercise('tr-ex-merge', '''def merge(a, b):
    """The result of two parts out of the results of each: (m, s, o).

    m: the largest score of each query, shape (T,), minus infinity where a query sees nothing.
    s: the sum of exp(score - m), shape (T,). o: the sum of exp(score - m) * value, shape (T, d).
    """''', 'pytorch')
def merge(merge) -> None:
    """Parts of equal and unequal size, more than two, large scores, and parts that see nothing."""
    import torch

    def part(scores, values):
        m = scores.amax(1)
        weights = torch.exp(scores - m.clamp(min=-1e30)[:, None])
        return m, weights.sum(1), weights @ values

    def compare(scores, cuts, what, hint, second):
        values = random(scores.shape[1], 4, seed=1)
        parts = [part(x, y) for x, y in zip(scores.split(cuts, 1), values.split(cuts), strict=True)]
        tensors = list(itertools.chain.from_iterable(parts))
        before = [t.clone() for t in tensors]
        whole = parts[0]
        for one in parts[1:]:
            whole = merge(whole, one)
            need(isinstance(whole, tuple | list) and len(whole) == 3, 'a result of three tensors',
                 'Return m, s and o.', 'It is merged with the next part, so it has the same three.')
        need(all(map(torch.equal, before, tensors)), 'parts that stay as they were',
             'Your function writes into its arguments.', 'Look for operations in place.')
        m, s, o = (fetch(t) for t in whole)
        right = fetch(scores.softmax(1) @ values)
        with np.errstate(all='ignore'):
            good = np.allclose(o / s[:, None], right, atol=1e-5)
        need(good and np.allclose(m, fetch(scores.amax(1))), what, hint, second)
    scores = random(5, 12)
    compare(torch.cat([scores, scores], 1), [12, 12], 'two equal halves',
            'Even two equal parts come out wrong.', 'Add what refers to the same maximum.')
    compare(scores, [9, 3], 'two parts with different maxima',
            'Both sums refer to a maximum of their own.', 'Which factor turns one maximum into another?')
    compare(torch.cat([scores - 300, scores], 1), [12, 12], 'parts whose maxima are far apart',
            'Something overflows or vanishes.', 'Both exponents should be zero or less.')
    compare(scores, [3, 4, 5], 'three parts', 'The result of two cannot be merged with a third.',
            'Return sums that have not been divided.')
    scores[:2, :8] = -math.inf
    compare(scores, [4, 4, 4], 'parts in which a query sees nothing',
            'What is minus infinity less minus infinity?', 'Subtract something finite in its place.')


@exercise('tr-ex-top-k', '''def draw(scores, k, generator):
    """A token, as an int: drawn from the softmax of the k largest scores, by this generator.

    scores: shape (V,). A k beyond V means all tokens.
    """''', 'pytorch', seconds=40)
def top_k(draw) -> None:
    """Tokens of the best k in their shares, ties, a large k, and no other random numbers."""
    import torch
    scores = torch.tensor([0.0, 2.0, 1.0, -1.0, 1.5])

    def drawn(scores, k, n):
        generator = torch.Generator().manual_seed(0)
        return [int(draw(scores, k, generator)) for _ in range(n)]
    need(drawn(scores, 3, 40) == drawn(scores, 3, 40), 'the same tokens for the same seed',
         'Two runs with the same seed differ.', 'Who draws, if not the generator that was given?')
    torch.manual_seed(0)
    state = torch.get_rng_state()
    drawn(scores, 3, 5)
    need(torch.equal(state, torch.get_rng_state()), "no other random numbers",
         'The state of the global generator has changed.',
         'Every function that draws takes a generator.')
    need(drawn(scores, 1, 5) == [1] * 5, 'the most probable token for k = 1',
         'With one to choose from there is no choice.',
         'Is it a token that you return, or an index among k?')
    shares = np.bincount(drawn(scores, 3, 1500), minlength=5) / 1500
    need(shares[[0, 3]].sum() == 0, 'tokens of the best k alone', 'Others came as well.',
         'Their probability has to be zero, not only small.')
    right = np.where(np.isin(np.arange(5), [1, 2, 4]), np.exp(fetch(scores)), 0)
    need(np.abs(shares - right / right.sum()).max() < 0.06, 'the shares of the softmax',
         f'The best three came in shares of {", ".join(f"{s:.2f}" for s in shares[[1, 4, 2]])}.',
         'Among those that are left, the ratios of probabilities stay what they were.')
    need(len(set(drawn(torch.zeros(6), 2, 60))) == 2, 'k tokens where scores are equal',
         'With equal scores, more than k tokens came, or always the same.',
         'A threshold lets all of them through that reach it.')
    need(set(drawn(scores, 99, 400)) == set(range(5)), 'all tokens for a k beyond V',
         'Some never came.', 'How many tokens are there at most?')


@exercise('tr-ex-grouped', '''def grouped(q, k, v):
    """Attention of h heads that share g heads of keys and values, g a divisor of h; no key is copied.

    q: (B, h, T, d), for new tokens that may see all of the cache. k, v: (B, g, S, d).
    Returns (B, h, T, d). Neighbouring heads share: the first h / g use the first head of keys.
    """''', 'pytorch', imports=MODES)
def grouped(grouped) -> None:
    """Equal to attention with repeated keys, for several g and T, and nothing as large as these."""
    import torch
    from torch.nn import functional as F
    from torch.utils._python_dispatch import TorchDispatchMode
    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for result in out if isinstance(out, tuple) else (out,):
                if isinstance(result, torch.Tensor):
                    made.append(result.untyped_storage().nbytes())
            return out
    for g, t in ((8, 1), (1, 1), (2, 1), (4, 3)):
        q = random(2, 8, t, 16)
        k = random(2, g, 300, 16, seed=1)
        v = random(2, g, 300, 16, seed=2)
        repeated = [x.repeat_interleave(8 // g, 1) for x in (k, v)]
        right = F.scaled_dot_product_attention(q, *repeated)
        hint = f'Wrong for g = {g} and {t} new tokens.'
        if g == 8:
            hint += ' The usual case is wrong already.'
        made.clear()
        with Watch():
            y = grouped(q, k, v)
        need(getattr(y, 'shape', None) == q.shape, 'the shape of the queries',
             'The result has another shape.', 'Bring groups and heads back into one dimension.')
        need(np.allclose(fetch(y), fetch(right), atol=1e-5), f'attention with 8 heads and {g} of keys',
             hint, 'Which heads share, neighbours or every second one? And what are scores divided by?')
        need(g == 8 or max(made) <= k.nbytes, 'keys that are not copied',
             f'With g = {g}, something larger than the keys was made.',
             'Let the queries of a group be rows of one matrix.')


@exercise('tr-ex-window', '''def step(t, q, k, v, keys, values):
    """Attention of token t, the first is 0, over itself and the w - 1 tokens before it.

    q, k, v: of this token, shape (h, d). keys, values: the cache, shape (h, w, d); the step stores
    k and v there, in place, and moves nothing. Returns (h, d).
    """''', 'pytorch')
def window(step) -> None:
    """A text three times as long as the window, and longer; one slot is written in each step."""
    import torch
    from torch.nn import functional as F
    for w, n in ((4, 13), (1, 3), (6, 4)):
        q, k, v = (random(2, n, 8, seed=s) for s in range(3))
        place = torch.arange(n)
        seen = (place <= place[:, None]) & (place > place[:, None] - w)
        right = F.scaled_dot_product_attention(q, k, v, seen)
        keys = torch.full((2, w, 8), 9.0)
        values = torch.full((2, w, 8), 9.0)
        for t in range(n):
            before = keys.clone(), values.clone()
            y = step(t, q[:, t], k[:, t], v[:, t], keys, values)
            need(getattr(y, 'shape', None) == (2, 8), 'the shape', 'Return (h, d).',
                 'Which dimension is T?')
            for old, new, what in zip(before, (keys, values), ('key', 'value'), strict=True):
                changed = int((old != new).any(0).any(1).sum())
                need(changed == 1, f'one {what} that is written in each step',
                     f'Token {t} changed {changed} slots of {w}.',
                     'The oldest token is not needed any more. Where does it stand?')
            what = 'the attention of the first tokens'
            if t >= w - 1:
                what = 'the attention of a token that has a full window before it'
            need(np.allclose(fetch(y), fetch(right[:, t]), atol=1e-5), what,
                 f'Wrong for token {t} and a window of {w}.',
                 'Which slots hold a token of this text that may be seen?')


@exercise('tr-ex-prefix', '''def to_prefill(prompts, block):
    """How many tokens of each prompt are left to compute, for prompts that come one after the other.

    prompts: lists of tokens. Of all earlier prompts, keys and values are there, in whole blocks of so
    many tokens. Blocks are taken from the beginning, as far as all tokens up to their end are the same.
    The last token of a prompt is always computed. Returns a list of numbers.
    """''')
def prefix(to_prefill) -> None:
    """Common beginnings of whole blocks, equal prompts, and blocks that are equal elsewhere."""
    def right(prompts, block):
        there = set()           # beginnings of earlier prompts, in whole blocks
        found = []
        for prompt in prompts:
            beginnings = [tuple(prompt[:end]) for end in range(block, len(prompt) + 1, block)]
            taken = 0
            for beginning in beginnings:
                if beginning not in there or len(beginning) == len(prompt):
                    break
                taken = len(beginning)
            found.append(len(prompt) - taken)
            there.update(beginnings)
        return found

    a, b = list(range(1, 9)), list(range(21, 29))
    for prompts, block, what, hint, second in (
            ([a, b], 4, 'prompts that have nothing in common', 'Nothing can be taken.',
             'Count their tokens.'),
            ([a, a[:4] + b], 4, 'a common block', 'The first block of the second prompt is there.',
             'What is left is the rest.'),
            ([a, a[:6] + b], 4, 'whole blocks alone', 'Six common tokens are a block and a half.',
             'Round down.'),
            ([a, a], 4, 'a prompt that was there before',
             'All of its blocks are there, and yet not all can be taken.',
             'Where do the scores of the next token come from?'),
            ([a + b, b], 4, 'the same tokens in another place',
             'A key depends on all that stands before it.', 'Compare from the beginning.'),
            ([a, b, a[:4] + b, a], 4, 'any earlier prompt', 'Look at all, not at the last alone.',
             'What is kept stays there.'),
            ([a + b, a[:4] + b[:4] + b], 4, 'beginnings that part and meet again',
             'After the first difference nothing can be taken.', 'Stop there.'),
            ([b[:1] * 6, b[:1] * 3, b[:1] * 7], 1, 'blocks of one token', 'Try short prompts by hand.',
             'The last token is computed, and all others may be there.')):
        given = [list(prompt) for prompt in prompts]
        answer = listed(to_prefill(given, block), 'a number for each prompt')
        found = [number(n, 'a number for each prompt') for n in answer]
        need(len(found) == len(prompts), 'a number for each prompt',
             'Return a list as long as that of the prompts.', 'The first prompt has one, too.')
        need(found == right(prompts, block), what, hint, second)


@exercise('tr-ex-draft', '''def verify(p, q, guesses, generator):
    """The tokens that one pass gives, a list of 1 to k + 1: guesses that are kept, and one more.

    p: probabilities of the large model, (k + 1, V). q: those of the draft, (k, V), from which the
    guesses (k,) were drawn. All chance comes from the generator.
    """''', 'pytorch', seconds=60)
def draft(verify) -> None:
    """Equal models, opposite ones, the distribution of each token, the number of tokens."""
    import torch
    p = torch.tensor([[0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    q = torch.tensor([[0.2, 0.3, 0.4, 0.1], [0.4, 0.3, 0.2, 0.1]])
    g = torch.Generator().manual_seed(0)

    def run(p, q, n):
        drawn = [torch.multinomial(row, n, True, generator=g) for row in q]
        found = []
        for guesses in torch.stack(drawn, 1):
            found.append([int(token) for token in verify(p, q, guesses, g)])
        return found

    def shares(tokens):
        return np.bincount(tokens, minlength=4) / max(1, len(tokens))

    def written(numbers):
        return ', '.join(f'{x:.2f}' for x in numbers)
    state = torch.get_rng_state()
    need({len(x) for x in run(q[[0, 1, 1]], q, 20)} == {3}, 'k guesses and one more, if models agree',
         'A draft equal to the model has k guesses kept, and the pass adds a token.',
         'When p and q are the same, what is the quotient? And what does the last row of p say?')
    need(torch.equal(state, torch.get_rng_state()), 'chance from the generator alone',
         'The global generator was used.', 'Every function that draws takes a generator.')
    apart = torch.tensor([[0.0, 0.0, 0.5, 0.5]] * 3), torch.tensor([[0.5, 0.5, 0.0, 0.0]] * 2)
    found = run(*apart, 40)
    need({len(x) for x in found} == {1}, 'one token, if the models contradict each other',
         'A guess that the large model never gives was kept, or the pass went on after another.',
         'Stop at the first that is not kept.')
    found = run(p, q, 3000)
    first = np.array([x[0] for x in found])
    need(np.abs(shares(first) - fetch(p[0])).max() < 0.04, 'the distribution of the large model',
         f'First tokens came in shares of {written(shares(first))}; p is {written(fetch(p[0]))}.',
         'Which tokens has the draft given too rarely? From what is the replacement drawn?')
    second = np.array([x[1] for x in found if len(x) > 1])
    need(np.abs(shares(second) - fetch(p[1])).max() < 0.06, 'the distribution of the second token',
         'The first token is right, the second is not.', 'Each guess has its own rows of p and q.')
    last = np.array([x[2] for x in found if len(x) > 2])
    need(np.abs(shares(last) - fetch(p[2])).max() < 0.08, 'the distribution of the token that is added',
         'If all are kept, one more is drawn.', 'No draft has a say in it: from which row?')
    kept = [fetch(torch.minimum(a, b)).sum() for a, b in zip(p[:2], q, strict=True)]
    wanted = 1 + kept[0] + kept[0] * kept[1]
    need(abs(np.mean([len(x) for x in found]) / wanted - 1) < 0.05, 'as many tokens as can be kept',
         'The distribution is right, and too few guesses are kept.',
         'A guess with p above q is always kept.')
