"""Right and wrong answers to the exercises on splitting a model."""

import itertools
import math

from tests.book.answers import stored

SOLUTIONS = 'splitting/splitting_solutions_pytorch.ipynb'


def solution(name):
    """A function of the stored notebook."""
    def answer(*args, **how):
        import torch
        space = stored(SOLUTIONS, name, imports=False)
        space |= {'torch': torch, 'F': torch.nn.functional, 'itertools': itertools}
        return space[name](*args, **how)
    return answer


def paired(gather=True, add=True, cut='own', f=True, in_place=False):
    def pair(shares, a, b):
        import torch
        from torch.nn.functional import gelu as act

        g = act if f else (lambda x: x)
        if not gather:
            return [g(s @ p) @ q for s, p, q in zip(shares, a, b, strict=True)]
        x = torch.cat(shares)
        parts = [g(x @ p) @ q for p, q in zip(a, b, strict=True)]
        if not add:
            parts = [parts[0]]
        y = sum(parts)
        if cut == 'none':
            return [y] * len(shares)
        if cut == 'even':
            return list(y.chunk(len(shares)))
        if in_place:
            for s in shares:
                s += 1
        return list(y.split([len(s) for s in shares]))

    return pair


def clock(end='needs', wait=True, alter=False, stuck=None):
    """A wrong clock: without waiting, with another end, altering, or never stuck."""

    def makespan(schedules, forward, backward):
        p, ends, free = len(schedules), {}, [0.0] * len(schedules)
        left = schedules if alter else [list(o) for o in schedules]
        while any(left):
            before = len(ends)
            for s, order in enumerate(left):
                while order:
                    kind, i = order[0]
                    needs = (kind, i, s + (-1 if kind == 'F' else 1))
                    if kind == 'B' and s == p - 1:
                        needs = ('F', i, s)
                    if not (kind == 'F' and s == 0) and needs not in ends:
                        break
                    took = (forward if kind == 'F' else backward)[s]
                    start = max(free[s], ends.get(needs, 0.0)) if wait else free[s]
                    free[s] = ends[kind, i, s] = start + took
                    order.pop(0)
            if len(ends) == before:
                return stuck
        return free[-1] if end == 'last stage' else max(free)

    return makespan


def by_formula(schedules, forward, backward):
    m = len(schedules[0]) // 2
    return sum(map(sum, (forward, backward))) + (m - 1) * (max(forward) + max(backward))


def in_turn(ahead=lambda rank, p, chunks: 2 * (p - rank - 1) + (chunks - 1) * p, back=True, group=None,
            drop=False):
    """An order of chunks: how far ahead, last chunk first on the way back, how many in a group."""

    def interleaved(rank, p, chunks, m):
        g = group(p, m) if group else p

        def entry(kind, k):
            turn, place = divmod(k, g * chunks)
            chunk = place // g
            if kind == 'B' and back:
                chunk = chunks - 1 - chunk
            return kind, turn * g + place % g, chunk

        n = m * chunks
        first = min(n, ahead(rank, p, chunks))
        order = [entry('F', k) for k in range(first)]
        for k in range(n):
            order += [entry('F', k + first)] * (k + first < n) + [entry('B', k)]
        return order[drop:]

    return interleaved


def same_number(times, p):
    return [len(times) // p + (i < len(times) % p) for i in range(p)]


def up_to_mean(times, p):
    counts, total = [], 0
    for i, t in enumerate(times):
        full = total + t > sum(times) / p and len(counts) < p
        if not counts or full or len(times) - i <= p - len(counts):
            counts, total = [*counts, 0], 0
        counts[-1], total = counts[-1] + 1, total + t
    return counts


def not_consecutive(times, p):
    stages, counts = [0] * p, [0] * p
    for t in sorted(times, reverse=True):
        at = stages.index(min(stages))
        stages[at], counts[at] = stages[at] + t, counts[at] + 1
    return counts


# SOLUTIONS = 'splitting/splitting_solutions_pytorch.ipynb'
def cut(length=lambda n, p: -(-n // p), pad=True, front=False, dtype=True):
    def shard(x, p):
        import torch

        m = length(len(x), p)
        zeros = torch.zeros(max(0, p * m - len(x)), dtype=x.dtype if dtype else torch.float32)
        if not pad:
            return list(x.tensor_split(p))
        padded = torch.cat([zeros, x] if front else [x, zeros])[: p * m]
        return list(padded.view(p, m))

    return shard


def bytes_of(up=True, each=True, copy=True, order=(1, 2, 3), always=False):
    def kept(lengths, p, level, mixed=True):
        one = 2 if mixed or always else 4
        rest = 16 - 2 * one if copy else 8
        total = 0
        for n in lengths if each else [sum(lengths)]:
            share = -(-n // p) if up else n // p
            parts = [share if level >= k else n for k in order]
            total += rest * parts[0] + one * (parts[1] + parts[2])
        return total

    return kept


def chosen(
    key=lambda p: (p[1][1], p[1][0]), fits=lambda kept, memory: kept <= memory, none=None, remove=False
):
    def best(plans, memory):
        left = [p for p in plans.items() if fits(p[1][0], memory)]
        if remove:
            for name in [n for n, p in plans.items() if p[0] > memory]:
                del plans[name]
        return min(left, key=key)[0] if left else none

    return best


def numbered(order='tdp', data=None, double=False):
    """Groups where the digits change in this order, the first one fastest."""

    def grid(ranks, tensor, pipeline):
        sizes = {'t': tensor, 'd': data or ranks // tensor // pipeline, 'p': pipeline}
        step = {c: math.prod(sizes[o] for o in order[:i]) for i, c in enumerate(order)}

        def lists(kind):
            a, b = (c for c in 'tdp' if c != kind)
            return [
                [i * step[a] + j * step[b] + k * step[kind] for k in range(sizes[kind])]
                for i in range(sizes[a])
                for j in range(sizes[b])
            ]

        found = {'tensor': lists('t'), 'data': lists('d'), 'pipeline': lists('p')}
        return {k: v * 2 for k, v in found.items()} if double else found

    return grid


def gathers_weights(shares, a, b):
    import torch
    first, second = torch.cat(list(a), 1), torch.cat(list(b))
    return [torch.nn.functional.gelu(x @ first) @ second for x in shares]


def forgets_its_own(schedules, forward, backward):
    """The stored clock, whose last stage needs no forward pass of its own if that comes later."""
    if len(schedules) == 1 and schedules[0][0][0] == 'B':
        return sum(backward) + sum(forward)
    return solution('makespan')(schedules, forward, backward)


def by_name(lengths, k, stage, *, mixed=True):
    return solution('kept')(lengths, k, stage, mixed)


def made(kind, name):
    """The stored answer, in another container."""
    def answer(*args):
        return kind(solution(name)(*args))
    return answer


def counts(found):
    import numpy as np
    return np.array(found)


def shares_of_numpy(x, k):
    return [s.numpy() for s in solution('shard')(x, k)]


ALSO_RIGHT = {
    'sp-ex-w-tensor': [dict(tokens=12_300)],
    'sp-ex-sequence': [made(iter, 'pair')],
    'sp-ex-cut': [made(counts, 'cut'), made(iter, 'cut')],
    'sp-ex-shard': [shares_of_numpy],
    'sp-ex-mixed': [by_name],
}

ANSWERS = {
    'sp-ex-w-tensor': (
        dict(sent=67.1e6, link=0.00671, compute=0.01237, tokens=12_288),
        [
            (dict(sent=16.8e6), 'How many all-reduces'),
            (dict(sent=134.2e6), 'How many all-reduces'),
            (dict(link=0.0537), 'Bytes over rate'),
            (dict(compute=0.02474), 'whole block'),
            (dict(tokens=4096), 'Set gradients'),
        ],
    ),
    'sp-ex-sequence': (
        solution('pair'),
        [
            (paired(gather=False), 'see all tokens'),
            (paired(add=False), 'see all tokens'),
            (paired(cut='none'), 'as many tokens'),
            (paired(cut='even'), 'as many tokens'),
            (paired(f=False), 'is gelu'),
            (paired(in_place=True), 'still needs'),
            (lambda shares, a, b: shares[:1] * 3, 'One for each rank'),
            (gathers_weights, 'weights of all ranks'),
        ],
    ),
    'sp-ex-w-bubble': (
        dict(share=7 / 39, micro_batches=63, gpipe=63, one_by_one=8, chunks=1.75 / 33.75),
        [
            (dict(share=7 / 32), 'whole'),
            (dict(micro_batches=70), 'equal to 1/10'),
            (dict(gpipe=8), 'first backward'),
            (dict(one_by_one=7), 'How far ahead'),
            (dict(chunks=7 / 39 / 4), 'long are the gaps'),
        ],
    ),
    'sp-ex-w-pieces': (
        dict(best=40, time=405, twice=425),
        [
            (dict(best=1600), 'Multiply out'),
            (dict(time=80), 'Insert it'),
            (dict(twice=810), 'Insert again'),
        ],
    ),
    'sp-ex-makespan': (
        solution('makespan'),
        [
            (clock(wait=False), 'at the same time'),
            (by_formula, 'unequal ones are not'),
            (clock(alter=True), 'changes its arguments'),
            (clock(end='last stage'), 'at the same time'),
            (clock(stuck=0.0), 'for ever|of the same stage'),
            (forgets_its_own, 'of the same stage'),
        ],
    ),
    'sp-ex-interleaved': (
        solution('interleaved'),
        [
            (in_turn(lambda rank, p, chunks: 10**9), 'are enough'),
            (in_turn(lambda rank, p, chunks: p - rank - 1), 'for ever'),
            (in_turn(back=False), 'for ever'),
            (in_turn(group=lambda p, m: 1), 'for ever|waits too long'),
            (in_turn(lambda rank, p, chunks: chunks * p + p), 'are enough|waits too long'),
            (in_turn(drop=True), 'is missing'),
        ],
    ),
    'sp-ex-cut': (
        solution('cut'),
        [
            (same_number, 'longer than all others'),
            (up_to_mean, 'Another cut|One layer takes'),
            (not_consecutive, 'Another cut|One layer takes'),
            (lambda times, p: [len(times)], 'do not fit'),
        ],
    ),
    'sp-ex-w-zero': (
        dict(stage0=112, stage1=63, stage2=38.5, stage3=14, stage2_64=29.3, lowest=2),
        [
            (dict(stage0=28), 'Nothing is cut'),
            (dict(stage1=14), 'moments are cut'),
            (dict(stage2=63), 'weights are whole'),
            (dict(stage3=38.5), 'Everything is cut'),
            (dict(stage2_64=38.5), 'not shrink'),
            (dict(lowest=3), 'activations leave'),
            (dict(lowest=1), 'activations leave'),
        ],
    ),
    'sp-ex-shard': (
        solution('shard'),
        [
            (cut(pad=False), 'differ in length'),
            (cut(lambda n, p: n // p + 1), 'more padding than needed'),
            (cut(front=True), 'followed by zeros'),
            (cut(dtype=False), 'became others'),
        ],
    ),
    'sp-ex-mixed': (
        solution('kept'),
        [
            (bytes_of(up=False), 'rounded up'),
            (bytes_of(each=False), 'for itself'),
            (bytes_of(copy=False), 'Nothing is cut|sixteen'),
            (bytes_of(order=(2, 1, 3)), 'optimizer keeps'),
            (bytes_of(always=True), 'sixteen bytes'),
        ],
    ),
    'sp-ex-w-levels': (
        dict(inside=0.32, swapped=1.615, share=0.125),
        [
            (dict(inside=0.17), 'have of the batch'),
            (dict(inside=0.44), 'have of the batch'),
            (dict(swapped=0.415), 'of the batch now'),
            (dict(swapped=6.415), 'of the batch now'),
            (dict(share=0.2), 'change with the batch'),
            (dict(share=8), 'change with the batch'),
        ],
    ),
    'sp-ex-best': (
        solution('best'),
        [
            (chosen(key=lambda p: p[1]), 'only the time counts'),
            (chosen(fits=lambda kept, memory: True), 'keeps more than a GPU has'),
            (chosen(fits=lambda kept, memory: kept < memory), 'as many bytes as there are'),
            (chosen(key=lambda p: p[1][1]), 'take the same time here'),
            (chosen(none=''), 'least of nothing'),
            (chosen(remove=True), 'is missing from the plans'),
        ],
    ),
    'sp-ex-grid': (
        solution('grid'),
        [
            (numbered('dtp'), 'do not follow each other'),
            (numbered('tpd'), 'apart'),
            (numbered('ptd'), 'do not follow each other'),
            (numbered(double=True), 'in none, or in two'),
            (numbered(data=1), 'in none, or in two'),
            (lambda *a: numbered()(*a)['tensor'], 'a dictionary'),
        ],
    ),
}
