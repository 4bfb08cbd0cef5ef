"""The checkers of the exercises on parameter servers."""

import math

from answer_checks.definitions import Part, exercise, need, number, numbers, text

WORKERS, ARRAY, RATE = 8, 100e6, 1.25e9
numbers('ps-ex-w-one',
        one=Part(2 * WORKERS * ARRAY / RATE, 's with one server',
                 'All that the workers send goes through a link.',
                 'In and out, one after the other.'),
        eight=Part(2 * ARRAY / RATE, 's with eight servers', 'What does each server take in now?',
                   'A share of the array, from all workers.'),
        ninth=Part('no', "'yes' or 'no': does a ninth server help?", 'Which links are full?',
                   'A worker has one link.'),
        slips={
            'one': {
                WORKERS * ARRAY / RATE: 'That is one way. The sum goes back to all workers.',
                2 * ARRAY / RATE: 'That is one worker. Eight share the link of the server.',
            },
            'eight': {
                ARRAY / RATE: 'That is one way.',
                2 * ARRAY / 8 / RATE:
                    'Each server takes in an eighth of the array from each of eight workers.',
            },
            'ninth': {
                'yes': 'With eight servers the links of the workers are as full as those of the servers.',
            },
        })

numbers('ps-ex-w-late',
        three=Part(3 - 1, 'updates by others between pull and push, with three workers',
                   'How often does each of the others push meanwhile?', 'All are equally quick.'),
        ten=Part(10 - 1, 'the same with ten workers', 'How many others are there?', 'All push once.'),
        slips={
            'three': {
                3: "The worker's own push does not count, only those of the others.",
                1: 'That is one of the others. How many are there?',
            },
            'ten': {10: "The worker's own push does not count, only those of the others."},
        })

numbers('ps-ex-w-missed', **{
    name: Part(right, f"'all wait', 'an error' or 'nothing': what follows from the death of {what}",
               hint,
               'In synchronous training each step needs all of its parts.')
    for name, right, what, hint in (
        ('worker', 'all wait', 'a worker', 'A server adds up what it has. What does it lack now?'),
        ('server', 'all wait', 'a server', 'A worker pulls all weights. From whom?'),
        ('scheduler', 'nothing', 'the scheduler', 'What does a step need it for?'))},
        slips={
            'worker': {
                'an error': 'Nobody tells the server. It waits for the part that is missing.',
                'nothing': 'A synchronous step needs the part of every worker.',
            },
            'server': {
                'an error': 'Nobody tells the workers. They wait for an answer.',
                'nothing': 'A part of the weights was there and nowhere else.',
            },
            'scheduler': {
                'all wait':
                    'A step is made by workers and servers. They ask the scheduler at the start and at the '
                    'end.',
                'an error':
                    'A step is made by workers and servers. They ask the scheduler at the start and at the '
                    'end.',
            },
        })

RANKS = 8
numbers('ps-ex-w-shape',
        small_ring=Part(2 * (RANKS - 1), 'ms for 1 KB in a ring', 'Messages that follow each other.',
                        'Once round to add up, and once to tell.'),
        small_tree=Part(2 * int(math.log2(RANKS)), 'ms for 1 KB in a tree',
                        'Messages that follow each other.',
                        'How deep is the tree? Up and down.'),
        large_ring=Part(2 * (RANKS - 1) / RANKS * 0.1, 's for 100 MB in a ring',
                        'Each message is a share.',
                        'How many shares pass each link?'),
        large_tree=Part(2 * math.log2(RANKS) * 0.1, 's for 100 MB in a tree',
                        'Each message is the whole array.',
                        'How many of them follow each other?'),
        slips={
            'small_ring': {
                RANKS - 1: 'That is once round. The sums have to come to all.',
                2 * RANKS: 'A share is handed on one time less than there are ranks.',
            },
            'small_tree': {int(math.log2(RANKS)): 'That is the way up.'},
            'large_ring': {
                2 * (RANKS - 1) * 0.1: 'Each message is an eighth of the array.',
                (RANKS - 1) / RANKS * 0.1: 'That is once round.',
            },
            'large_tree': {
                math.log2(RANKS) * 0.1: 'That is the way up.',
                2 * math.log2(RANKS) / RANKS * 0.1: 'In a tree each message is the whole array.',
            },
        })

numbers('ps-ex-w-save',
        interval=Part(math.sqrt(2 * 20 * 4 * 3600), 's between checkpoints',
                      'Write the share that is lost as a function of T.',
                      'One term falls with T and one rises. Where is the sum least?', 0.03),
        slips={
            'interval': {
                math.sqrt(2 * 20 * 4 * 3600) / 60:
                    'Those are minutes, or the four hours were put in as 4. Put all times in as seconds.',
                math.sqrt(20 * 4 * 3600): 'A failure loses half of the interval on average.',
            },
        })


@exercise('ps-ex-async', '''def may_begin(steps, worker, s):
    """Whether a worker may begin a step: not while it is more than s steps ahead of the last one.

    steps: how many steps each worker has finished. s may be math.inf.
    """''')
def bounded(may_begin) -> None:
    """s = 0 is synchronous; the last one always goes on; the bound is s, or there is none."""
    for steps, worker, s, right, what in (
            ([3, 3, 3], 1, 0, True, 'equal workers, s = 0'),
            ([4, 3, 3], 0, 0, False, 'the first one, s = 0'),
            ([4, 3, 3], 1, 0, True, 'the last one, s = 0'),
            ([5, 3, 9], 0, 2, True, 'two steps ahead, s = 2'),
            ([5, 3, 9], 2, 2, False, 'six steps ahead, s = 2'),
            ([5, 3, 9], 1, 2, True, 'the last one, s = 2'),
            ([50, 0], 0, math.inf, True, 'no bound')):
        need(bool(may_begin(list(steps), worker, s)) == right, f'the rule for {what}',
             f'Wrong for steps {steps}, worker {worker}.', 'Ahead of whom? And what is "more than"?')


@exercise('ps-ex-checkpoint', '''def interval(c, f):
    """Seconds between checkpoints that lose least: each takes c s, and a failure comes every f s."""''')
def checkpoint(interval) -> None:
    """Hardly more is lost than with the best interval of a search, from frequent to rare failures."""
    for c, f in ((20, 14400), (1, 600), (60, 1e6), (5, 5000)):
        def lost(T, c=c, f=f):
            return c / T + T / (2 * f)
        found = number(interval(c, f), 'a time')
        need(found > 0, 'a time', f'{found:g} is none.', 'In seconds.')
        best = min(lost(c * 1.05 ** i) for i in range(400))
        need(lost(found) < 1.02 * best, 'the least loss',
             f'For c = {c} and f = {f:g}, {found:.0f} s lose {lost(found):.2%}; {best:.2%} is possible.',
             'Saving takes c of every T, and a failure loses half of T. Look for the least sum.')


numbers('ps-ex-tree',
        steps=Part(2 * int(math.log2(RANKS)),
                   'steps of the way with few steps and short messages, 8 ranks',
                   'In each step, swap with a partner, and halve what you are responsible for.',
                   'How often can eight be halved? And then the way back.'),
        sent=Part(2 * (1 - 1 / RANKS), 'times the array that each rank sends', 'Half, then a quarter, …',
                  'And the same on the way back.'),
        slips={
            'steps': {
                int(math.log2(RANKS)): 'That is one half of the way.',
                2 * (RANKS - 1): 'That is the ring.',
            },
            'sent': {1 - 1 / RANKS: 'That is one half of the way.'},
        })

LAWS = {'sum': (True, True), 'maximum': (True, True), 'product': (True, True),
        'subtraction': (False, False),
        'mean': (False, True), 'matrix product': (True, False)}
numbers('ps-ex-semiring',
        associative=Part({k for k, (a, _) in LAWS.items() if a},
                         f'the associative ones of {", ".join(LAWS)}: a set',
                         'Where the brackets are must not matter.', 'Try 1, 2 and 4.'),
        commutative=Part({k for k, (_, c) in LAWS.items() if c}, 'the commutative ones: a set',
                         'Which operand comes first must not matter.',
                         'Try 1 and 2; for matrices, two of them.'),
        ring=Part({k for k, (a, c) in LAWS.items() if a and c},
                  'those that a ring folds correctly: a set',
                  'Each share of the array begins its journey at another rank.',
                  'So a ring chooses both the brackets and the order.'))

numbers('ps-ex-both-ways',
        cables=Part(1 / 2,
                    'times as long as the simple ring, with a cable to each neighbour (long messages)',
                    'Each message has half the bytes.', 'Do the two directions share anything?'),
        switch=Part(1.0, 'the same behind a switch, with one cable for each rank',
                    'What leaves a rank in a step?',
                    'Two messages of half the size, on how many cables?'),
        slips={
            'cables': {1: 'With a cable to each neighbour the two directions share nothing.'},
            'switch': {1 / 2: 'Both messages leave a rank through its one cable.'},
        })
text('ps-ex-lost-server',
     'The program that has started the processes notices the death, names the member, and ends the '
     'others in time.',
     'The parameters of that server are lost, and those of the other are safe.',
     'With copies, each gradient is pushed twice: the additional bytes of a step are counted.',
     'A copy that gets the same pushes has the same optimizer state; one that gets weights alone '
     'has not.')
