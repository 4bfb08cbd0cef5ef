"""The checkers of the exercises on automatic parallelism."""

import random

from answer_checks.definitions import Part, exercise, need, number, numbers, text

READS = 'Two of them may run at the same time if neither needs what the other gives.'
numbers('par-ex-w-overtake', **{
    name: Part(right, f"'yes' or 'no': may {what} run at the same time?", READS, hint)
    for name, right, what, hint in (
        ('a_and_b', 'yes', 'a and b', 'Both only read x.'),
        ('a_and_c', 'no', 'a and c', 'What is the argument of h?'),
        ('b_and_c', 'yes', 'b and c', 'Is there a way from one to the other?'))},
        last=Part({'f', 'g'}, 'the functions that x += 1 has to wait for, as a set of letters',
                  'Who reads x?', 'Reading a is not reading x.'),
        slips={
            'a_and_b': {'no': 'Both read x, and neither writes it.'},
            'a_and_c': {'yes': 'The argument of h is a.'},
            'b_and_c': {'no': 'Neither of them needs what the other gives.'},
        })

BUSY = ((0, 6), (3, 9))
BOTH = min(b for _, b in BUSY) - max(a for a, _ in BUSY)
numbers('par-ex-w-timeline',
        share=Part(BOTH / min(b - a for a, b in BUSY), 'share of the time of the less busy one',
                   'For how long are both busy?', 'Divide by the busy time of one device.'),
        turns=Part(0, 'the share if they took turns', 'Who is busy when the other is?', 'Draw it.'),
        slips={
            'share': {
                BOTH: 'Those are ms.',
                1 / 3: 'That divides by all nine ms. Each device is busy for six.',
            },
            'turns': {
                1: 'When one of them is busy, the other is not.',
                0.5: 'When one of them is busy, the other is not.',
            },
        })

numbers('par-ex-w-core', **{
    name: Part(right, f"'yes' or 'no': can {what} overlap on one core?", hint, 'Does it need the core?')
    for name, right, what, hint in (
        ('arithmetic', 'no', 'the arithmetic of two threads',
         'How many of them can the core run at once?'),
        ('waiting', 'yes', 'waiting for a disk and arithmetic', 'What does a core do for a wait?'))},
        slips={
            'arithmetic': {
                'yes': 'The two threads take turns on the core, and take as long as one after the other.',
            },
            'waiting': {'no': 'While a thread waits, the core is free for the other.'},
        })

TIMES = {'A': (3, ''), 'B': (2, 'A'), 'C': (5, 'A'), 'D': (4, 'BC')}


def longest_path(graph: dict) -> float:
    """The length of the longest path of a graph: its nodes in an order that respects what they need."""
    end = {}
    for node, (time, needs) in graph.items():
        end[node] = time + max((end[n] for n in needs), default=0)
    return max(end.values(), default=0)


numbers('par-ex-w-path',
        serial=Part(sum(t for t, _ in TIMES.values()), 'ms one after the other', 'Add them up.',
                    'All four.'),
        best=Part(longest_path(TIMES), 'ms at best', 'No order makes a path shorter.',
                  'Which path takes longest?'),
        devices=Part(2, 'devices that this takes', 'How many are ready at the same time?',
                     'Look at the moment after A.'),
        slips={
            'best': {
                14: 'B and C can run at the same time.',
                9: 'That is the way through B. D needs C as well.',
                8: 'D has to be done too.',
            },
            'devices': {
                3: 'After A only B and C are ready, and D needs both.',
                4: 'No four of them can run at the same time.',
                1: 'On one device B and C take turns.',
            },
        })

numbers('par-ex-w-amdahl', **{
    name: Part(20 + 80 // k if k else 20,
               f'ms on {k} devices' if k else 'ms that remain with any number',
               'Only a part of the step divides.', 'Add what does not divide.')
    for name, k in (('two', 2), ('four', 4), ('eight', 8), ('any', 0))},
        slips={
            'two': {
                50: 'Only 80 of the 100 ms are divided.',
                40: 'The 20 ms that are not divided are missing.',
            },
            'four': {
                25: 'Only 80 of the 100 ms are divided.',
                20: 'The 20 ms that are not divided are missing.',
            },
            'eight': {
                12.5: 'Only 80 of the 100 ms are divided.',
                10: 'The 20 ms that are not divided are missing.',
            },
            'any': {0: 'What is not divided stays.'},
        })


@exercise('par-ex-dependencies', '''def longest(graph):
    """The length of the longest path. graph: for each node its time, and the nodes that it needs."""''')
def longest(longest) -> None:
    """A chain, a fork and a join, several ends, random graphs, in any order of the nodes."""
    draw = random.Random(0)
    graphs = [{'a': (1, []), 'b': (2, ['a']), 'c': (3, ['b'])},
              {'a': (1, []), 'b': (2, ['a']), 'c': (9, ['a']), 'd': (1, ['b', 'c'])},
              {'a': (5, []), 'b': (1, []), 'c': (1, ['b'])}]
    for _ in range(20):
        names = list(range(12))
        graph = {}
        for n in names:
            time = draw.randint(1, 9)
            needed = draw.sample(names[:n], draw.randint(0, min(n, 3)))
            graph[n] = (time, needed)
        graphs.append(graph)
    for i, graph in enumerate(graphs):
        order = list(graph)
        what = 'the length of the longest path'
        hint = f'Wrong for {graph}.'
        if i >= 3:        # of random ones, which are long
            hint = f'Wrong for a graph of {len(graph)} nodes.'
        if i >= 10:
            order = draw.sample(order, len(order))
            what += ' in any order of nodes'
        found = number(longest({n: graph[n] for n in order}), 'a length')
        need(found == longest_path(graph), what, hint,
             'The longest path to a node is its time and the longest of the paths to what it needs.')


@exercise('par-ex-pipeline', '''def total(stages, n):
    """The time of n batches in a pipeline. stages: the time of each stage, each with one worker."""''')
def pipeline(total) -> None:
    """What a simulation of the workers gives, for any longest stage, and for one batch."""
    for stages, n in (([2, 5, 3], 10), ([7, 1, 1], 4), ([1, 1, 6, 2], 3), ([4], 5), ([2, 3], 1)):
        free = [0] * len(stages)
        for _ in range(n):
            ready = 0
            for i, t in enumerate(stages):
                ready = free[i] = max(ready, free[i]) + t
        found = number(total(list(stages), n), 'a time')
        need(found == ready, 'the time of the last batch', f'Wrong for stages of {stages} and n = {n}.',
             'Which stage sets the pace, and how often? The others show up once.')


@exercise('par-ex-small-card', '''def largest_side(free, kept):
    """The side of the largest float32 matrices that fit: an input and kept results."""''')
def small_card(largest_side) -> None:
    """It fits, and one more row and column would not, for any memory and any number of results."""
    for free in (4e9, 3e9, 1e6, 123456789):
        for kept in (1, 10, 50, 200):
            side = number(largest_side(free, kept), 'a whole number')
            need(side == int(side), 'a whole number', f'{side} has a fraction.', 'Round down.')
            need(4 * side ** 2 * (kept + 1) <= free, 'a size that fits',
                 f'{kept} results and an input of side {side} need more than {free:.0f} bytes.',
                 'How many matrices exist, and how many bytes has each?')
            need(4 * (side + 1) ** 2 * (kept + 1) > free, 'the largest size',
                 f'For {free:.0f} bytes and {kept} results, a larger side fits as well.',
                 'Solve for the side. math.isqrt is exact.')

text('par-ex-ten',
     'Whether two of the ten overlap is read from a recording of starts and ends, not from a total '
     'time.',
     'A control: ten matmuls that need each other show no overlap in the same experiment.',
     'The setting is the number of workers behind a device; one queue with one worker gives no overlap.',
     'In PyTorch, a second worker behind a virtual device no longer keeps operations in their order.')
text('par-ex-tiny',
     'Compared are the same multiplications: one by one, at the same time, and stacked into one call.',
     'Handing over a tiny operation is more work than the operation, so a second worker does not help.',
     'One call for all of them does.')
text('par-ex-transfers',
     'A transfer is issued as soon as its matmul is, and has a queue or lane of its own.',
     'The figure is a share: the time in which a transfer and a device are busy, of one of the two.',
     'A control, such as a wait after each transfer, brings the share down.')
text('par-ex-by-hand',
     'Results of both ways are equal to those of the serial program.',
     'By hand, each thread needs its own settings, a place for its result, and one for its error.',
     'The engine needs none of these lines, and takes about as long.')
text('par-ex-profile',
     'Trace and clock come from the same run, and the duration by both agrees.',
     'The number of busy devices and the number of busy cores are two figures, and both are given.',
     'The host is done early; what fills the gaps is named.')
text('par-ex-threads',
     'For small matrices a plain loop in one thread wins: to hand over the work is more than the work.',
     'For large ones both ways win over one thread, as long as two cores are free.',
     'Each worker has one thread inside, or there are more threads than cores.')
