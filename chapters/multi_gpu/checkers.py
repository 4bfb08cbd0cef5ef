"""The checkers of the exercises on multi-GPU training."""

import math

import numpy as np

from answer_checks.definitions import Part, exercise, listed, need, number, numbers, text

GRADIENTS = 4 * 11.2e6
numbers('mg-ex-w-bytes',
        sent=Part(2 / 2 * GRADIENTS, 'bytes that each of two devices sends in a step',
                  'Half of the sums is formed here and sent, and half of the gradients goes there.',
                  'How many bytes has a parameter?'),
        ms=Part(GRADIENTS / 10e9 * 1e3, 'ms at 10 GB/s', 'Bytes divided by the rate.', 'Mind the ms.'),
        slips={
            'sent': {
                2 * GRADIENTS: 'In each of the two phases a device sends one half.',
                GRADIENTS / 2: 'That is one of the two phases.',
                GRADIENTS / 4: 'Those are numbers. A float32 has four bytes.',
            },
            'ms': {2 * GRADIENTS / 10e9 * 1e3: 'In each of the two phases a device sends one half.'},
        })

numbers('mg-ex-w-scale',
        factor=Part(4, 'times as far as it should go, in each step',
                    'What is added up, over how many devices?',
                    'The sum has as many terms as examples.'),
        divide=Part(4 * 64, 'what to divide by', 'The mean is over all examples.', 'Of all devices.'),
        told=Part(False, 'True or False: some message tells you', 'Is anything wrong for the program?',
                  'A large step is a step.'),
        slips={
            'factor': {
                64: 'The update divides by the 64 examples of one device. How many devices add to the sum?',
                256: 'The update divides by 64 already.',
                1: 'Four sums are added, and divided by the examples of one.',
            },
            'divide': {
                64: 'That is what it divides by now. The sum is over the examples of all devices.',
                4: 'That would be right in addition to the 64. By what is that in all?',
            },
            'told': {True: 'For the program nothing is wrong: a large step is a step.'},
        })

EQUAL = 'Would one device with the whole batch have computed the same?'
numbers('mg-ex-w-equal', **{
    name: Part(right, f"'yes', 'no' or 'rounding': does {what} break it?", EQUAL, hint)
    for name, right, what, hint in (
        ('dropout', 'yes', 'dropout', 'Which numbers does each device draw?'),
        ('batchnorm', 'yes', 'batch norm', 'Of which examples does it take the mean?'),
        ('order', 'rounding', 'the order of additions', 'Are the sums other sums?'),
        ('odd', 'yes', 'a last batch of odd size, if both parts count equally,',
         'How much does an example count in each part?'))},
        slips={
            'dropout': {
                'no': 'Each device draws numbers of its own.',
                'rounding': 'Other masks make other numbers, and not only in the last digits.',
            },
            'batchnorm': {
                'no': 'Each device takes the mean of its own examples.',
                'rounding':
                    'The means of two halves differ from the mean of the whole by more than rounding.',
            },
            'order': {
                'yes': 'The sums are the same, up to their last digits.',
                'no': 'Floating-point sums depend on their order, in their last digits.',
            },
            'odd': {
                'no': 'Then an example counts more in the smaller part than in the larger one.',
                'rounding': 'Then an example counts more in the smaller part than in the larger one.',
            },
        })

numbers('mg-ex-w-pays',
        visible=Part(44.7e6 / 0.05 / 1e9, 'GB/s at least, if nothing overlaps',
                     'How long may the all-reduce take, so that both together are below 100 ms?',
                     'Divide the bytes by that time.'),
        hidden=Part(44.7e6 / (0.05 + 0.05 * 2 / 3) / 1e9, 'GB/s, if it can run during the backward pass',
                    'No more can be hidden than the backward pass takes.',
                    'How long may the all-reduce take, what is hidden and what is visible together?'),
        slips={
            'visible': {
                44.7e6 / 0.1 / 1e9: 'Two devices still compute for 50 of the 100 ms.',
                44.7e6 / (0.05 * 2 / 3) / 1e9:
                    'Nothing overlaps here: computing and sending have 100 ms together.',
            },
            'hidden': {
                44.7e6 / (0.05 * 2 / 3) / 1e9:
                    'What does not fit into the backward pass may still take the time that is left after it.',
                44.7e6 / 0.1 / 1e9: 'During the forward pass there are no gradients to send.',
                44.7e6 / 0.05 / 1e9: 'That is without overlap.',
            },
        })

DEVICES = 2, 4, 8, 100
numbers('mg-ex-w-ring',
        sent=Part([2 * (k - 1) / k for k in DEVICES],
                  'what each of k = 2, 4, 8, 100 sends, in arrays: a list',
                  'Twice round, but not to oneself.', 'Each message is a share of the array.'),
        messages=Part([2 * (k - 1) for k in DEVICES], 'messages in a row for k = 2, 4, 8, 100: a list',
                      'How often is a share handed on until all have its sum?', 'And once more round.'))


class Adds(np.ndarray):
    """An array that notes how many numbers an addition of it has."""

    longest = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **how):
        def base(x):
            return x.view(np.ndarray) if isinstance(x, Adds) else x
        if out:
            how['out'] = tuple(map(base, out))
        y = getattr(ufunc, method)(*map(base, inputs), **how)
        if ufunc is np.add and method == '__call__':
            Adds.longest = max(Adds.longest, np.size(y))
        return out[0] if out else y.view(Adds) if isinstance(y, np.ndarray) else y


@exercise('mg-ex-allreduce', '''def all_reduce(gradients):
    """The sum of arrays of equal length, one of each device; every device adds up an equal share.

    Returned: a list with the sum for each device, and the additions that the busiest device makes.
    """''')
def all_reduce(all_reduce) -> None:
    """The sum on each device, for any length; and no device with more than its share of additions."""
    draw = np.random.default_rng(0)
    for k, n in ((2, 10), (4, 12), (4, 10), (3, 7)):
        given = [draw.normal(size=n) for _ in range(k)]
        whole = sum(given)
        longest_share = math.ceil(n / k)
        Adds.longest = 0
        answer = listed(all_reduce([g.copy().view(Adds) for g in given]), 'the sums and a count')
        need(len(answer) == 2, 'the sums and a count', f'{len(answer)} results came back.', 'Return two.')
        sums = listed(answer[0], 'a sum for each device')
        busiest = number(answer[1], 'a count of additions')
        need(len(sums) == k, 'a sum for each device', f'{len(sums)} sums for {k} devices.',
             'All devices get the whole of it.')
        for one in sums:
            need(np.shape(one) == (n,) and np.allclose(one, whole), 'the sum',
                 f'For {k} devices and {n} numbers, a device has something else.',
                 'What becomes of the rest, where the shares are not equal?')
        need(busiest == longest_share * (k - 1), 'equal shares of the additions',
             f'With {k} devices and {n} numbers, the busiest makes {busiest} additions.',
             'How long is the longest share, and how many arrays are added there?')
        need(Adds.longest <= longest_share, 'shares that are added up, each by its device',
             f'{Adds.longest} numbers were added at once, and no share of {n} numbers on {k} devices is as '
             'long.', 'Cut the arrays first, and add what belongs to one device.')


@exercise('mg-ex-accuracy', '''def shares(n, k):
    """What each of k devices predicts of n examples: a list of k pairs (begin, end)."""''')
def accuracy(shares) -> None:
    """Every example exactly once, in k shares, of which none is longer than another by more than one."""
    for n, k in ((8, 2), (297, 4), (10, 3), (5, 5), (2, 4)):
        found = [tuple(pair) for pair in shares(n, k)]
        need(len(found) == k, 'a share for each device', f'{len(found)} shares for {k} devices.',
             'One that is empty is a share too.')
        seen = []
        for begin, end in found:
            seen += range(begin, end)
        need(sorted(seen) == list(range(n)), 'every example exactly once',
             f'Of {n} examples on {k} devices, {len(set(seen))} are predicted, {len(seen)} in all.',
             'What happens to the rest of the division?')
        lengths = [end - begin for begin, end in found]
        need(max(lengths) - min(lengths) <= 1, 'equal shares',
             f'{n} examples on {k} devices: {lengths}.',
             'The slowest sets the pace: deal the rest out.')


@exercise('mg-ex-uneven', '''def split(batch, speeds):
    """The examples for each device, so that the step is shortest. speeds: examples a second."""''')
def uneven(split) -> None:
    """All examples, in whole numbers, and a step about as short as the best split's."""

    def longest(counts, speeds):
        return max(n / speed for n, speed in zip(counts, speeds, strict=True))

    def best_split(batch, speeds):
        counts = [0] * len(speeds)
        for _ in range(batch):        # each example to who would end first with it
            ends = [(n + 1) / speed for n, speed in zip(counts, speeds, strict=True)]
            counts[ends.index(min(ends))] += 1
        return counts

    for batch, speeds in ((64, [1, 1]), (60, [3, 1]), (100, [7, 2, 1]), (10, [1, 1, 1]), (64, [100, 1])):
        answer = listed(split(batch, list(speeds)), 'whole numbers')
        found = [number(n, 'whole numbers') for n in answer]
        whole = all(n == int(n) and n >= 0 for n in found)
        need(len(found) == len(speeds) and whole, 'whole numbers',
             f'{found} for {len(speeds)} devices.', 'Examples cannot be cut.')
        need(sum(found) == batch, 'the whole batch', f'{found} has {sum(found)} examples, not {batch}.',
             'Give the rest of the rounding to somebody.')
        took = longest(found, speeds)
        best = longest(best_split(batch, speeds), speeds)
        need(took < 1.15 * best, 'the shortest step',
             f'For speeds {speeds}, {found} takes {took:.3g} s, where {best:.3g} s is possible.',
             'Who is quicker should not wait. What is equal for all devices in the best split?')


numbers('mg-ex-pt-accumulate',
        without=Part(4, 'times the bytes of one all-reduce, without no_sync', 'When does DDP send?',
                     'How many backward passes are there?'),
        within=Part(1, 'times the bytes of one all-reduce, with no_sync for all micro-batches but the last',
                    'What is sent is what has been added up.', 'Which pass may send?'),
        slips={
            'without': {1: 'DDP sends in each backward pass, unless it is told not to.'},
            'within': {
                4: 'Under no_sync a backward pass adds up, and sends nothing.',
                0: 'The last backward pass sends the sum.',
                1 / 4: 'The last backward pass sends all gradients, and not a quarter.',
            },
        })


@exercise('mg-ex-pt-syncbn', '''def combine(parts):
    """Mean and variance (correction 0) of a batch, from (examples, mean, variance) of ranks."""''')
def syncbn(combine) -> None:
    """Those of the whole batch, for equal ranks, unequal ones, and ranks whose means differ."""
    draw = np.random.default_rng(0)
    for sizes, shift, what in (([8, 8], 0, 'equal ranks'), ([8, 8], 5, 'ranks with different means'),
                               ([30, 2, 5], 3, 'ranks of different size')):
        ranks = [draw.normal(size=n) + shift * i for i, n in enumerate(sizes)]
        parts = [(len(x), x.mean(), x.var()) for x in ranks]
        answer = listed(combine(parts), 'mean and variance')
        need(len(answer) == 2, 'mean and variance', f'{len(answer)} results came back.', 'Return two.')
        mean = number(answer[0], 'mean and variance')
        var = number(answer[1], 'mean and variance')
        whole = np.concatenate(ranks)
        need(abs(mean - whole.mean()) < 1e-9, f'the mean, for {what}', f'{mean:.4f} is another.',
             'A rank counts as much as it has examples.')
        need(abs(var - whole.var()) < 1e-9, f'the variance, for {what}', f'{var:.4f} is another.',
             'Mean of the squares, less square of the mean: what are the squares of a rank?')

text('mg-ex-batch',
     'With k times the batch an epoch has a k-th of the updates, and k times the rate makes up for it.',
     'Equal losses lie along the diagonals of the table of batch sizes and rates.',
     'The line ends where the rate alone is too large, for any batch.')
text('mg-ex-barrier',
     'The parameters do not change: a queue keeps its order.',
     'Without any wait, as many steps are in flight as were issued, and each holds its batch.',
     'A mark of each step is kept, and the one before the last is waited for.',
     'The second step helps where Python itself waits, for data for instance; a third finds no gap '
     'to fill.')
text('mg-ex-concise-batch',
     'One thing is changed at a time, and settings are compared after the same number of examples.',
     'The predictions are written down before each run, and the score is kept.',
     'A large batch also means fewer updates of the running statistics of batch norm.')
text('mg-ex-concise-resnet',
     'The batch is the same for 1, 2 and 4, and the comparison is one device that may use all cores.',
     'Devices that share cores gain nothing beyond the number of cores.',
     'For sixteen GPUs, both answers: the same batch, and sixteen times the batch.',
     'Two things that the model leaves out are named, such as loading, or a slow device.')
text('mg-ex-pt-buckets',
     'Share of overlap and time of a step are given for each size, for both networks.',
     'With small buckets more of the all-reduce runs during the backward pass, and each message has a '
     'fixed cost.',
     'One bucket pays that cost once, and overlaps with nothing: it is full when the backward pass is '
     'over.',
     'For many tiny layers small buckets are the worse end; for a few large ones it is one bucket '
     'for all.')
