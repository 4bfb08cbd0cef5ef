"""The checkers of the exercises on splitting a model."""

import itertools
import math
import random as chance

import numpy as np

from answer_checks.definitions import Part, exercise, fetch, listed, need, number, numbers

MODES = 'torch._dynamo',        # what a TorchDispatchMode imports when it is entered
numbers('sp-ex-w-tensor',
        sent=Part(4 * 2048 * 4096 * 2.0, 'bytes that a rank sends in a step',
                  'How many all-reduces has a block, forward and backward?',
                  'Two pairs of matrix multiplications, two directions; on two ranks 2 (k - 1) / k is one.'),
        link=Part(4 * 2048 * 4096 * 2 / 10e9, 'seconds on the link', 'Bytes over rate.',
                  '10 GB are 10 billion bytes.'),
        compute=Part(6 * 12 * 4096.0**2 * 2048 / 2 / 1e14, 'seconds that a rank computes',
                     'Count the operations of the whole block first.',
                     'A rank has half of the weights, and all tokens.'),
        tokens=Part(3 * 4096, 'tokens for which both send as many bytes',
                    'Set gradients of all weights equal to activations.', 'What is left of 12 d² = 4 n d?'),
        slips={
            'sent': {
                2048 * 4096 * 2.0:
                    'That is one all-reduce. A block has two on the way forward, and two on the way back.',
                2 * 2048 * 4096 * 2.0: 'That is half: one direction of two, or one byte for each number.',
                8 * 2048 * 4096 * 2.0:
                    'On two ranks an all-reduce sends the array once: 2 (k - 1) / k is one.',
            },
            'compute': {
                6 * 12 * 4096.0**2 * 2048 / 1e14: 'A rank computes half of the block.',
                2 * 12 * 4096.0**2 * 2048 / 2 / 1e14: 'That is the forward pass alone.',
            },
            'tokens': {
                12 * 4096: 'Each token sends 4 d numbers, and not d.',
                3: 'Three times what?',
            },
        })


@exercise('sp-ex-sequence', '''def pair(shares, a, b):
    """The output of an MLP with gelu, as a list: of each rank, the output of its tokens.

    shares: of each rank, its tokens, shape (tokens, d). a: its columns of A, shape (d, h).
    b: its rows of B, shape (h, d).
    """''', 'pytorch', imports=MODES)
def pair(pair) -> None:
    """Two and four ranks, uneven tokens, inputs that stay, one rank, and no product with all weights."""
    import torch
    from torch.nn import functional as F
    from torch.utils._python_dispatch import TorchDispatchMode
    whole = []

    class Factors(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if 'mm' in func.overloadpacket.__name__:
                whole.extend(a.shape for a in args if isinstance(a, torch.Tensor) and 16 in a.shape)
            return func(*args, **(kwargs or {}))

    def compare(k, cuts, what, hint, second):
        random = torch.Generator().manual_seed(k)
        x, a, b = (torch.randn(*s, generator=random, dtype=torch.float64)
                   for s in [(sum(cuts), 8), (8, 16), (16, 8)])
        given = [t.clone() for t in x.split(cuts)]
        whole.clear()
        with Factors():
            found = pair(given, list(a.chunk(k, 1)), list(b.chunk(k, 0)))
        right = (F.gelu(x @ a) @ b).split(cuts)
        found = listed(found, f'a list with {k} outputs')
        need(len(found) == k, f'a list with {k} outputs',
             'One for each rank.', 'In the order of the ranks.')
        shapes = [tuple(getattr(y, 'shape', ())) for y in found]
        need(shapes == [tuple(y.shape) for y in right], f'outputs of the right shapes, {what}',
             'A rank ends with as many tokens as it began with.',
             'Which tokens of the sum does a rank need? No rank needs all.')
        need(all(abs(fetch(y) - fetch(z)).max() < 1e-9 for y, z in zip(found, right, strict=True)),
             f'the output of one process, {what}', hint, second)
        need(all(map(torch.equal, given, x.split(cuts))), 'inputs that stay as they are',
             'The next layer still needs them.', 'Do not add in place.')
        need(k == 1 or not whole, 'ranks that multiply by their own weights',
             f'A factor of a matrix multiplication has the shape {[*map(tuple, whole)][:1]}, with the '
             'weights of all ranks together.', 'Tokens are gathered, and weights stay where they are.')

    compare(1, [6], 'for one rank', 'The function between the matrix multiplications is gelu.',
            'First A, then gelu, then B.')
    compare(2, [4, 4], 'for two ranks', "Each rank's columns see all tokens.",
            'A token of the output is a sum over all ranks.')
    compare(4, [3, 3, 3, 3], 'for four ranks', 'A sum over all ranks, not over neighbours.',
            "Each rank's columns see all tokens.")
    compare(2, [5, 2], 'for uneven shares', 'Cut the sum where the input was cut.',
            'Take the sizes from the shares.')


numbers('sp-ex-w-bubble',
        share=Part(7 / 39, 'share of its time that a stage waits, 32 micro-batches',
                   'How many micro-batches long is the whole, and how many of them are gaps?',
                   'The gaps are as many as there are other stages.'),
        micro_batches=Part(63, 'micro-batches for a tenth', 'Set the share equal to 1/10.',
                           'A tenth of the whole time, gaps included.'),
        gpipe=Part(63, 'kept by the first stage in GPipe', 'When does the first backward pass begin?',
                   'All forward passes come before.'),
        one_by_one=Part(8, 'kept by the first stage in 1F1B', 'How far ahead does the first stage run?',
                        'Until the first micro-batch has gone through all stages and come back.'),
        chunks=Part(1.75 / 33.75, 'share with four chunks on each rank, 32 micro-batches',
                    'How many micro-batches long are the gaps now?',
                    'The work stays, the gaps are a quarter; the whole is their sum.'),
        slips={
            'share': {
                7 / 32: 'That compares the gaps with the work. Asked for is a share of the whole time.',
                8 / 40: 'A stage waits for the seven others, and not for itself.',
            },
            'micro_batches': {
                70: 'A tenth of the whole are gaps, and the whole is m + 7.',
                72: 'A stage waits for the seven others, and not for itself.',
            },
            'gpipe': {
                8: 'That is 1F1B.',
                32: 'The question is about as many micro-batches as a tenth needs.',
            },
            'one_by_one': {
                63: 'That is GPipe.',
                7: 'The micro-batch that goes back is still kept.',
                1: 'The first stage goes on while a micro-batch is in the others.',
            },
            'chunks': {
                7 / 39 / 4: 'With shorter gaps the whole is shorter too.',
                1.75 / 32: 'That compares the gaps with the work. Asked for is a share of the whole time.',
            },
        })

numbers('sp-ex-w-pieces',
        best=Part(40, 'micro-batches for which the time is least', 'Multiply out: which terms have m?',
                  'A sum of m and c/m is least where both are equal.'),
        time=Part(405.0, 'milliseconds then', 'Insert it.', 'Do not forget what does not depend on m.',
                  0.002),
        twice=Part(425.0, 'milliseconds for twice as many', 'Insert again.', 'One term doubles, one halves.',
                   0.002),
        slips={
            'best': {
                math.sqrt(320): 'The 320 ms enter five times: multiply out.',
                math.sqrt(6 * 320): 'It is m + 5, one less than there are stages.',
            },
            'time': {80.0: 'What does not depend on m is missing.'},
            'twice': {
                100.0: 'What does not depend on m is missing.',
                810.0: 'Only one of the terms doubles, and another halves.',
            },
        })


def order(kind: str, stage: int, stages: int, m: int) -> list:
    forward = [('F', i) for i in range(m)]
    backward = [('B', i) for i in range(m)]
    if kind == 'GPipe':
        return forward + backward
    ahead = min(stages - stage - 1, m)
    found = forward[:ahead]
    for i in range(m):
        found += forward[i + ahead:i + ahead + 1]        # none at the end
        found.append(backward[i])
    return found


def span(orders: list, forward: list, backward: list) -> float | None:
    """When all is done, or None if all wait: ends from what each entry needs, until nothing changes.

    orders: of each rank, (kind, micro-batch, chunk); its chunk c is stage c * ranks + rank.
    forward, backward: of each rank, the time of a pass.
    """
    p = len(orders)
    entries = list(itertools.chain.from_iterable(orders))
    last_stage = p * (1 + max(c for _, _, c in entries)) - 1
    ends = {}
    before = None
    while before != len(ends):
        before = len(ends)
        for rank, order in enumerate(orders):
            free = 0.0
            for kind, i, c in order:
                stage = c * p + rank
                if kind == 'F':
                    needs = ('F', i, stage - 1)
                    takes = forward[rank]
                else:
                    needs = ('F', i, stage) if stage == last_stage else ('B', i, stage + 1)
                    takes = backward[rank]
                needs_nothing = needs[2] < 0        # a forward pass on the first stage
                if not needs_nothing and needs not in ends:
                    break
                free = max(free, ends.get(needs, 0.0)) + takes
                ends[kind, i, stage] = free
    return max(ends.values()) if len(ends) == len(entries) else None


@exercise('sp-ex-makespan', '''def makespan(schedules, forward, backward):
    """When the last stage is done, or None if the schedules wait for each other for ever.

    schedules: a list for each stage, of pairs such as ('F', 0) or ('B', 0), in order.
    forward, backward: the time of such a pass on each stage.
    """''', 'pytorch')
def makespan(makespan) -> None:
    """One stage, one micro-batch, both schedules, unequal stages, other orders, and a deadlock."""

    def compare(plans, forward, backward, what, hint, second):
        given = [list(plan) for plan in plans]
        answer = makespan(given, list(forward), list(backward))
        need(given == plans, 'schedules that stay as they were', 'Your function changes its arguments.',
             'Work on copies, or keep places.')
        in_one_chunk = [[(kind, i, 0) for kind, i in plan] for plan in plans]
        right = span(in_one_chunk, forward, backward)
        if right is None or answer is None:
            good = right is None and answer is None
        else:
            good = math.isclose(number(answer, what), right, rel_tol=1e-6)
        need(good, what, hint, second)

    def plans(kind, p, m):
        return [order(kind, s, p, m) for s in range(p)]

    compare(plans('GPipe', 1, 3), [1], [2], 'a stage alone', 'Even one stage comes out wrong.',
            'It waits for no other stage: add up its entries.')
    compare(plans('GPipe', 3, 1), [1] * 3, [2] * 3, 'one micro-batch',
            'No two stages work at the same time here.',
            'The backward pass begins on the last stage, after its own forward pass.')
    for kind in ('GPipe', '1F1B'):
        compare(plans(kind, 4, 6), [1] * 4, [2] * 4, f'equal stages in {kind}',
                'Compare with the formula of the page.',
                'An entry begins at the later of two times: its stage is free, what it needs is there.')
        compare(plans(kind, 4, 5), [1, 3, 2, 1], [4, 2, 7, 3], f'unequal stages in {kind}',
                'Equal stages are right, unequal ones are not.',
                'An entry that starts at the earliest moment needs no formula: note when each one ends.')
    draws = chance.Random(1)
    late = plans('GPipe', 3, 4)
    late = [plan[:4] + plan[:3:-1] for plan in late]  # backward passes in the other order
    compare(late, [2, 1, 3], [draws.randint(1, 9) for _ in range(3)],
            'backward passes from the last micro-batch to the first',
            'Another order of the micro-batches comes out wrong.',
            'Take the order from the schedule alone.')
    wrong = [[('F', 0), ('B', 0), ('F', 1), ('B', 1)], [('F', 0), ('F', 1), ('B', 0), ('B', 1)]]
    compare([[('B', 0), ('F', 0)]], [1], [1], 'None for a stage that waits for itself',
            'On the last stage, a backward pass needs the forward pass of the same stage.',
            'What does the first entry wait for?')
    compare(wrong, [1, 1], [1, 1], 'None for schedules that wait for ever',
            'Here each stage waits for the other, for ever.',
            'Did a round over all stages change anything?')


def most_kept(order: list) -> int:
    return max(itertools.accumulate(1 if kind == 'F' else -1 for kind, *_ in order))


@exercise('sp-ex-interleaved', '''def interleaved(rank, p, chunks, m):
    """What a rank does, in order: (kind, micro-batch, chunk), such as ('F', 0, 0) or ('B', 3, 1).

    rank: 0 to p - 1. chunks: of each rank; its chunk c is stage c * p + rank. m: micro-batches, a
    multiple of p.
    """''', 'pytorch')
def interleaved(interleaved) -> None:
    """Each entry once, no waiting for ever, the time of the formula, and the activations kept."""
    for p, chunks, m in ((1, 1, 3), (2, 1, 4), (4, 1, 8), (2, 2, 4), (4, 2, 8), (3, 3, 9), (4, 4, 4)):
        case = f'{p} ranks, {chunks} chunks, {m} micro-batches'
        orders = []
        each = sorted(itertools.product('BF', range(m), range(chunks)))
        for rank in range(p):
            order = [tuple(entry) for entry in interleaved(rank, p, chunks, m)]
            need(sorted(order) == each, f'each pass of each chunk once: {case}',
                 'A pass is missing, comes twice, or is none.',
                 'A rank has chunks times micro-batches passes each way.')
            orders.append(order)
        found = span(orders, [1] * p, [2] * p)
        need(found is not None, f'an order that comes to its end: {case}',
             'Here all ranks wait for each other, for ever.',
             'In the backward pass, a micro-batch comes to the last chunk of a rank first.')
        right = 3 * (chunks * m + p - 1)
        need(found == right, f'the time of the formula: {case}',
             f'It takes {found:g} forward times in place of {right}: a rank waits too long.',
             'Take p micro-batches through a chunk, then the same ones through the next chunk.')
        most = max(map(most_kept, orders))
        enough = (chunks + 1) * p - 1
        need(most <= enough, f'few activations: {case}',
             f'A rank keeps {most}, and {enough} are enough.',
             'Start backward passes when the first micro-batch comes back, then one of each in turn.')


@exercise('sp-ex-cut', '''def cut(times, p):
    """How many layers each of p stages gets, at least one, so that the slowest stage is fastest.

    times: of the layers, whole numbers, in order; consecutive ones go together.
    """''', 'pytorch')
def cut(cut) -> None:
    """Small lists against all cuts, a large layer, as many stages as layers, and a long list."""

    def slowest(times, counts):
        ends = itertools.accumulate(counts)
        return max(sum(times[e - c : e]) for e, c in zip(ends, counts, strict=True))

    def fits(times, p, limit):
        stages = 1
        total = 0
        for time in times:
            if total + time > limit:        # the next stage begins
                stages += 1
                total = 0
            total += time
        return stages <= p

    def compare(times, p, what, hint, second):
        answer = listed(cut(list(times), p), 'a count for each stage')
        counts = [number(c, 'a count for each stage') for c in answer]
        whole = all(c == int(c) and c >= 1 for c in counts)
        need(len(counts) == p and sum(counts) == len(times) and whole,
             'p stages of at least one layer, all layers used',
             f'{len(times)} layers in {p} stages came out as {len(counts)} counts that do not fit.',
             'The counts add up to the number of layers, and none is zero.')
        found = slowest(times, [int(c) for c in counts])
        least = max(times)
        while not fits(times, p, least):
            least += 1
        need(found == least, what,
             f'{hint} The slowest stage takes {found}, and {least} is possible.', second)

    compare([3, 1, 2, 5], 1, 'one stage', 'There is one way only.', 'All layers.')
    compare([1] * 12, 4, 'equal layers', 'Equal layers are not cut evenly.', 'Three for each.')
    compare([2, 7, 1, 3], 4, 'a stage for each layer', 'One layer for each.', 'There is one way only.')
    compare([1, 1, 1, 1, 1, 12], 3, 'a large layer at the end', 'One layer takes longer than all others.',
            'Count times, not layers.')
    draws = chance.Random(2)
    for _ in range(30):
        compare([draws.randint(1, 20) for _ in range(12)], draws.randint(2, 6), 'a random list',
                'Another cut is better.',
                'Filling stages one by one leaves too much for the last, unless you know how far to fill.')
    compare([draws.randint(1, 50) for _ in range(200)], 16, '200 layers in 16 stages',
            'Another cut is better.', 'The best for k stages follows from the best for k - 1.')


def zero_gb(stage: int, k: int) -> float:
    """GB that a rank keeps of 7 billion parameters, with Adam in float32."""
    return 7.0 * sum(b / (k if stage >= s else 1) for s, b in ((1, 8), (2, 4), (3, 4)))


numbers('sp-ex-w-zero',
        stage0=Part(zero_gb(0, 8), 'GB at stage 0', 'Nothing is cut.', 'How many bytes has a parameter?'),
        stage1=Part(zero_gb(1, 8), 'GB at stage 1 on 8 ranks', 'The moments are cut, and nothing else.',
                    'Two moments have 8 of the 16 bytes.'),
        stage2=Part(zero_gb(2, 8), 'GB at stage 2 on 8 ranks', 'Only the weights are whole.',
                    'The gradients have 4 bytes; cut them like the moments.'),
        stage3=Part(zero_gb(3, 8), 'GB at stage 3 on 8 ranks', 'Everything is cut.',
                    'Each rank has an eighth of stage 0.'),
        stage2_64=Part(zero_gb(2, 64), 'GB at stage 2 on 64 ranks', 'What does not shrink with the ranks?',
                       'The whole weights, and a 64th of the rest.'),
        lowest=Part(2, 'lowest stage that fits on 64 ranks', 'How much do the activations leave?',
                    'Which arrays does each stage leave whole?'),
        slips={
            'stage0': {
                28.0: 'Those are the weights alone.',
                56.0: 'The moments are missing.',
            },
            'stage1': {
                zero_gb(2, 8): 'That is stage 2.',
                zero_gb(3, 8): 'That is stage 3.',
            },
            'stage2': {
                zero_gb(1, 8): 'That is stage 1.',
                zero_gb(3, 8): 'That is stage 3.',
            },
            'stage3': {
                zero_gb(2, 8): 'That is stage 2.',
                zero_gb(3, 64): 'That is on 64 ranks.',
            },
            'stage2_64': {
                zero_gb(2, 8): 'That is on 8 ranks.',
                zero_gb(1, 64): 'That is stage 1.',
            },
            'lowest': {
                3: 'Stage 3 fits too, but it is not the lowest.',
                1: 'Weights and gradients alone are 56 GB.',
                0: 'It keeps 112 GB.',
            },
        })


@exercise('sp-ex-shard', '''def shard(x, k):
    """A list of k shares of one length, as short as possible: x and then zeros. x: shape (n,)."""''',
    'pytorch')
def shard(shard) -> None:
    """Even and uneven lengths, fewer numbers than ranks, and other types."""
    import torch

    for n, k, what in ((12, 4, 'a length that k divides'), (13, 4, 'a length that k does not divide'),
                       (2, 5, 'fewer numbers than ranks'), (9, 4, 'a length just above a multiple'),
                       (7, 1, 'a single rank')):
        x = torch.arange(1.0, n + 1)
        shares = list(shard(x.clone(), k))
        need(len(shares) == k, what, f'There are {len(shares)} shares for {k} ranks.',
             'A rank without numbers needs a share as well, even if it is all zeros.')
        need(len({len(s) for s in shares}) == 1, what, 'The shares differ in length.',
             'Pad before you cut.')
        need(len(shares[0]) == -(-n // k), what,
             f'A share has {len(shares[0])} numbers: more padding than needed, or too little.',
             'Round the quotient up, and only up.')
        flat = np.concatenate([fetch(s) for s in shares])
        need(np.array_equal(flat[:n], fetch(x)) and not flat[n:].any(), what,
             'The numbers are not x followed by zeros.', 'Which share ends up with the padding?')
    x = torch.tensor([1, 2, 0], dtype=torch.int64)
    shares = list(shard(x, 2))
    need(all(fetch(s).dtype == np.int64 for s in shares), 'the type of the numbers',
         'Whole numbers became others.', 'Zeros have a type, too.')


@exercise('sp-ex-mixed', '''def kept(lengths, k, stage, mixed=True):
    """Bytes that each of k ranks keeps for layers of these lengths, at ZeRO stage 0 to 3.

    Each layer is padded to k equal shares of its own, where it is cut. mixed: 2 bytes for weights and
    for gradients, 12 for the optimizer; else 4, 4 and 8.
    """''', 'pytorch')
def mixed(kept) -> None:
    """All stages in both precisions, with even and uneven layers, and one rank."""

    def right(lengths, k, stage, mixed):
        one = 2 if mixed else 4
        total = 0
        for n in lengths:
            share = math.ceil(n / k)
            for cut_from_stage, size in ((3, one), (2, one), (1, 16 - 2 * one)):
                total += size * (share if stage >= cut_from_stage else n)
        return total

    cases = (('stage 0', [1000, 24], 8, 0, True, 'Nothing is cut at stage 0.',
              'Add up the bytes of a parameter.'),
             ('stage 1', [1000, 24], 8, 1, True, 'Stage 1 cuts what the optimizer keeps.',
              'The float32 copy of the weights belongs to the optimizer.'),
             ('stage 2', [1000, 24], 8, 2, True, 'Stage 2 also cuts the gradients.',
              'The weights in 16 bits are still whole.'),
             ('stage 3', [1000, 24], 8, 3, True, 'Stage 3 cuts everything.', 'What is an eighth of stage 0?'),
             ('float32', [1000, 24], 8, 1, False, 'Without mixed precision the sixteen bytes are other ones.',
              'No second copy of the weights there.'),
             ('an uneven layer', [1001], 8, 3, True, 'A share is rounded up.', 'Zeros take bytes as well.'),
             ('two uneven layers', [9, 9, 9], 8, 2, True, 'Each layer is padded for itself.',
              'Round up before you add.'),
             ('one rank', [77], 1, 3, True, 'One rank keeps all.', 'What is a share of one?'))
    for what, lengths, k, stage, mix, hint, second in cases:
        found = number(kept(lengths, k, stage, mixed=mix), 'bytes')
        need(found == right(lengths, k, stage, mix), what, hint, second)


numbers('sp-ex-w-levels',
        inside=Part(0.320, 'seconds with tensor inside and data between',
                    'What does a host have of the batch, and a GPU of the weights?',
                    'Four rings share the link of a host.'),
        swapped=Part(1.615, 'seconds with data inside and tensor between',
                     'What does a GPU have of the batch now?',
                     'Forty sums of four rings over the link of a host.'),
        share=Part(0.125, 'share of the batch at which both take the same time',
                   'Which of the four times change with the batch?',
                   'Two straight lines: where do they cross?'),
        slips={
            'inside': {
                0.120: 'That is the part inside the hosts.',
                0.200: 'That is the part between the hosts.',
                0.440: 'A host has half of the batch.',
                0.170: 'Four rings share the link of a host.',
            },
            'swapped': {
                0.415: 'Four rings share the link of a host.',
                3.215: 'Now data parallelism is inside a host, so its GPUs cut the batch too.',
            },
        })


@exercise('sp-ex-best', '''def best(plans, memory):
    """The name of the plan with the least seconds among those that fit, or None.

    plans: (bytes kept, seconds) by name. memory: bytes of a GPU. Of two plans that take the same
    time, the one that keeps less.
    """''')
def best(best) -> None:
    """The least seconds, within the memory, its border, ties, none, and plans as they were."""
    plans = {'a': (50, 3.0), 'b': (20, 5.0), 'c': (90, 1.0), 'd': (40, 3.0), 'e': (20, 9.0)}
    before = dict(plans)
    need(best(dict(plans), 100) == 'c', 'the least seconds where all fit',
         'With room for all, only the time counts.', 'Which of the two numbers are seconds?')
    need(best(dict(plans), 30) == 'b', 'only plans that fit',
         'Your choice keeps more than a GPU has, or is not the least.', 'First leave out, then compare.')
    need(best(dict(plans), 90) == 'c' and best(dict(plans), 20) == 'b', 'a plan that fits exactly',
         'A plan may keep as many bytes as there are.', 'Smaller, or smaller or equal?')
    need(best(dict(plans), 60) == 'd' and best(dict(reversed(plans.items())), 60) == 'd',
         'less memory where times are equal', 'Two plans take the same time here.',
         'What does Python compare when the first entries of two tuples are equal?')
    need(best(dict(plans), 10) is None and best({}, 10) is None, 'None where nothing fits',
         'What is the least of nothing?', 'Ask whether there is one left.')
    best(plans, 30)
    need(plans == before, 'plans that stay as they were',
         'Something is missing from the plans afterwards.', 'Collect what fits in a list of your own.')


@exercise('sp-ex-grid', '''def grid(ranks, tensor, pipeline):
    """The groups of each kind: {'tensor': [...], 'data': [...], 'pipeline': [...]}, lists of ranks.

    tensor, pipeline: the sizes of these groups; data groups get what is left. Tensor groups are
    neighbours, pipeline groups are as far apart as possible. Any order of the groups will do.
    """''')
def grid(grid) -> None:
    """Sizes, every rank once, neighbours, distances, and groups of one."""

    def apart(group, distance):
        return all(b - a == distance for a, b in itertools.pairwise(group))

    for ranks, tensor, pipeline in ((16, 4, 2), (8, 2, 2), (24, 2, 3), (6, 1, 3), (8, 8, 1)):
        groups = grid(ranks, tensor, pipeline)
        need(isinstance(groups, dict) and set(groups) == {'tensor', 'data', 'pipeline'},
             'groups of three kinds', 'Return a dictionary with tensor, data and pipeline.',
             'Each has a list of lists.')
        sizes = {'tensor': tensor, 'data': ranks // tensor // pipeline, 'pipeline': pipeline}
        found = {}
        for kind, size in sizes.items():
            found[kind] = [sorted(map(int, group)) for group in groups[kind]]
            need(all(len(group) == size for group in found[kind]), f'the size of {kind} groups',
                 f'With {ranks} ranks, tensor {tensor} and pipeline {pipeline}, a {kind} group has '
                 f'{size}.',
                 'The three sizes multiplied are the number of ranks.')
            members = sorted(itertools.chain.from_iterable(found[kind]))
            need(members == list(range(ranks)), f'every rank in one {kind} group',
                 'A rank is in none, or in two.', 'Three loops give each rank three places.')
        need(all(apart(group, 1) for group in found['tensor']),
             'tensor groups of neighbours', 'A tensor group has ranks that do not follow each other.',
             'The tensor place is the digit that changes fastest.')
        far = ranks // pipeline
        need(all(apart(group, far) for group in found['pipeline']),
             'pipeline groups that are far apart',
             f'Of {ranks} ranks in {pipeline} stages, two neighbours in a pipeline are {far} apart.',
             'The pipeline place is the digit that changes slowest.')
        need(all(apart(group, tensor) for group in found['data']),
             'data groups in one stage',
             'A data group has ranks of more than one stage, or of different shares of a layer.',
             'What is left between the fastest and the slowest digit?')
