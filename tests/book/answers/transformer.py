"""Right and wrong answers to the exercises on a small transformer."""

import itertools

from tests.book.answers import stored

SOLUTIONS = 'transformer/transformer_solutions_pytorch.ipynb'


def solution(name):
    """A function of the stored notebook, without the topic's own package, which it does not need."""
    def answer(*args):
        import torch
        space = stored(SOLUTIONS, name, imports=False)
        space |= {'torch': torch, 'F': torch.nn.functional}
        return space[name](*args)
    return answer


def merged(rescale_values=True, common=True, divide=False, guard=True):
    def merge(a, b):
        import torch
        m = torch.maximum(a[0], b[0]) if common else a[0]
        x, y = (torch.exp(p[0] - (m.clamp(min=-1e30) if guard else m)) for p in (a, b))
        s = x * a[1] + y * b[1]
        o = x[:, None] * a[2] + y[:, None] * b[2] if rescale_values else a[2] + b[2]
        return torch.maximum(a[0], b[0]) if not common else m, s, o / s[:, None] if divide else o
    return merge


def added(a, b):
    import torch
    return torch.maximum(a[0], b[0]), a[1] + b[1], a[2] + b[2]


def drawn(alike=False, own=True, threshold=False, place=False, limit=True):
    def draw(scores, k, generator):
        import torch
        best, token = scores.topk(min(k, len(scores)) if limit else 2)
        if threshold:
            best, token = scores[scores >= best[-1]], (scores >= best[-1]).nonzero()[:, 0]
        shares = torch.ones_like(best) if alike else best.softmax(-1)
        one = torch.multinomial(shares, 1, generator=generator if own else None)
        return int(one if place else token[one])
    return draw


def shared(way='neighbours', scale=True, copy=False):
    def grouped(q, k, v):
        import torch
        b, h, t, d = q.shape
        g = k.shape[1]
        if copy:
            k, v = (x.repeat_interleave(h // g, 1) for x in (k, v))
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)
        if way == 'neighbours':
            rows = q.reshape(b, g, h // g * t, d)
        else:       # every second head
            rows = q.reshape(b, h // g, g, t, d).transpose(1, 2).reshape(b, g, h // g * t, d)
        scores = rows @ k.transpose(-1, -2) / (d ** 0.5 if scale else 1)
        y = scores.softmax(-1) @ v
        if way == 'neighbours':
            return y.reshape(b, h, t, d)
        return y.reshape(b, g, h // g, t, d).transpose(1, 2).reshape(b, h, t, d)
    return grouped


def windowed(place=lambda t, w: t % w, seen=lambda t, w: min(t + 1, w), moves=False):
    def step(t, q, k, v, keys, values):
        import torch
        w = keys.shape[1]
        if moves:
            keys[:, :-1], values[:, :-1] = keys[:, 1:].clone(), values[:, 1:].clone()
        at = w - 1 if moves else place(t, w)
        keys[:, at], values[:, at] = k, v
        n = seen(t, w)
        return torch.nn.functional.scaled_dot_product_attention(q[:, None], keys[:, :n],
                                                                values[:, :n])[:, 0]
    return step


def left(known=lambda prompt, end: tuple(prompt[:end]), whole=True, memory=None):
    """Tokens to prefill, where blocks are known by something, and all or the last prompts are kept."""
    def to_prefill(prompts, block):
        kept, found = [], []
        for p in prompts:
            there = set().union(*kept[-memory:] if memory else kept)
            mine = [known(p, end) for end in range(block, len(p) + 1, block)]
            taken = sum(1 for _ in itertools.takewhile(lambda b, there=there: b in there, mine))
            if whole:
                taken = min(taken, (len(p) - 1) // block)
            kept.append(set(mine))
            found.append(len(p) - block * taken)
        return found
    return to_prefill


def by_tokens(prompts, block):
    """Common tokens, whole blocks or not."""
    found = []
    for i, p in enumerate(prompts):
        common = [sum(1 for _ in itertools.takewhile(lambda x: x[0] == x[1], zip(p, q, strict=False)))
                  for q in prompts[:i]]
        found.append(len(p) - min(len(p) - 1, max(common, default=0)))
    return found


def verified(rest='difference', more=True, strict=False, stop=True, row=None):
    def verify(p, q, guesses, generator):
        import torch
        kept = []
        for i, x in enumerate(guesses):
            chance = 1.0 if strict else torch.rand((), generator=generator)
            if chance * q[i, x] > p[i, x]:
                last = (p[i] - q[i]).clamp(min=0) if rest == 'difference' else p[i]
                kept.append(int(torch.multinomial(last, 1, generator=generator)))
                if stop:
                    return kept
            else:
                kept.append(int(x))
        last = p[-1] if row is None else q[row]
        return kept + [int(torch.multinomial(last, 1, generator=generator))] * more
    return verify


ANSWERS = {
    'tr-ex-w-six': (dict(weights=84.9e6, flops=510e6, context=4608), [
        (dict(weights=7.08e6), 'has one layer'), (dict(flops=170e6), 'forward and backward'),
        (dict(flops=340e6), 'forward and backward'), (dict(context=55_296), 'within one layer'),
        (dict(context=768), 'within one layer')]),
    'tr-ex-w-users': (dict(token=327_680, users=14, all_heads=1), [
        (dict(token=163_840), 'Keys and values'), (dict(token=2_621_440), 'for each head'),
        (dict(users=119), 'weights leave'), (dict(users=15), 'weights leave'),
        (dict(all_heads=14), 'as much'), (dict(all_heads=2), 'as much')]),
    'tr-ex-w-decode': (dict(one=0.016, int8=0.008, all=1587), [
        (dict(one=0.008), 'read once for a'), (dict(int8=0.016), 'become of'),
        (dict(all=2000), 'besides the weights'), (dict(all=62.5), 'besides the weights')]),
    'tr-ex-w-house': (dict(load=0.75, busy=6, stay=2.4), [
        (dict(stay=3), 'The same law'),
        (dict(load=0.375), 'all slots'), (dict(busy=8), 'rate times a time'),
        (dict(busy=3), 'rate times a time'), (dict(stay=2), 'The same law'),
        (dict(stay=27), 'The same law')]),
    'tr-ex-merge': (solution('merge'), [
        (added, 'maximum of their own|maxima'), (merged(rescale_values=False), 'maximum of their own'),
        (merged(common=False), 'maximum of their own|overflows'), (merged(divide=True), 'equal parts'),
        (merged(guard=False), 'minus infinity'), (lambda a, b: a, 'equal parts|maximum of')]),
    'tr-ex-top-k': (solution('draw'), [
        (drawn(alike=True), 'in shares of'), (drawn(own=False), 'same seed'),
        (drawn(threshold=True), 'equal scores'), (drawn(place=True), 'no choice'),
        (lambda scores, k, generator: int(scores.argmax()), 'in shares of'),
        (drawn(limit=False), 'no choice|shares|Others')]),
    'tr-ex-grouped': (solution('grouped'), [
        (shared(copy=True), 'larger than the keys'), (shared('every second'), 'Wrong for g = 2'),
        (shared(scale=False), 'usual case'), (lambda q, k, v: q[:, :1], 'another shape')]),
    'tr-ex-window': (solution('step'), [
        (windowed(seen=lambda t, w: w), 'first tokens'),
        (windowed(moves=True), 'slots of|first tokens'),
        (windowed(place=lambda t, w: min(t, w - 1)), 'Wrong for token 4'),
        (windowed(seen=lambda t, w: t % w + 1), 'Wrong for token 4'),
        (lambda t, q, k, v, keys, values: v, 'changed 0 slots')]),
    'tr-ex-prefix': (solution('to_prefill'), [
        (by_tokens, 'block and a half'), (left(whole=False), 'not all can be'),
        (left(known=lambda p, end: tuple(p[end - 4:end])), 'depends on all'),
        (left(memory=1), 'at the last'),
        (lambda prompts, block: [len(p) for p in prompts], 'first block|The first'),
        (lambda prompts, block: sum(map(len, prompts)), 'Give a list')]),
    'tr-ex-draft': (solution('verify'), [
        (verified('p'), 'shares of'), (verified(strict=True), 'shares of'),
        (verified(more=False), 'one more'), (verified(stop=False), 'contradict|went on'),
        (verified(row=-1), 'from which row|one more is drawn'),
        (lambda p, q, guesses, generator: [int(p[0].multinomial(1, generator=generator))],
         'guesses kept|k guesses')]),
}


def arrayed(prompts, block):
    import numpy as np
    return np.array(solution('to_prefill')(prompts, block))


ALSO_RIGHT = {
    'tr-ex-w-users': [dict(token=328e3)],
    'tr-ex-w-six': [dict(context=4600)],
    'tr-ex-prefix': [arrayed, lambda *a: (n for n in solution('to_prefill')(*a))],
}
