"""Right and wrong answers to the exercises on multi-GPU training."""

import numpy as np


def all_reduce(gradients):
    k = len(gradients)
    shares = [np.array_split(g, k) for g in gradients]
    total = np.concatenate([sum(s[i] for s in shares) for i in range(k)])
    return [total.copy() for _ in range(k)], max(map(len, shares[0])) * (k - 1)


def on_one_device(gradients):
    total = sum(gradients)
    return [total] * len(gradients), len(total) * (len(gradients) - 1)


def says_so(gradients):
    k, n = len(gradients), len(gradients[0])
    return [sum(gradients)] * k, -(-n // k) * (k - 1)


def without_the_rest(gradients):
    k, n = len(gradients), len(gradients[0])
    total = all_reduce(gradients)[0][0]
    total[n // k * k:] = gradients[0][n // k * k:]
    return [total] * k, n // k * (k - 1)


def shares(n, k):
    return [(i * n // k, (i + 1) * n // k) for i in range(k)]


def split(batch, speeds):
    counts = [int(batch * s / sum(speeds)) for s in speeds]
    for _ in range(batch - sum(counts)):
        i = min(range(len(speeds)), key=lambda i: (counts[i] + 1) / speeds[i])
        counts[i] += 1
    return counts


def combine(parts):
    n = sum(p[0] for p in parts)
    mean = sum(c * m for c, m, _ in parts) / n
    return mean, sum(c * (v + m * m) for c, m, v in parts) / n - mean ** 2


ANSWERS = {
    'mg-ex-w-bytes': (dict(sent=44.7e6, ms=4.5), [
        (dict(sent=11.2e6), 'Half of the sums'), (dict(sent=89.6e6), 'Half of the sums'),
        (dict(ms=0.0045), 'the rate'), (dict(ms=9), 'the rate')]),
    'mg-ex-w-scale': (dict(factor=4, divide=256, told=False), [
        (dict(factor=1), 'added up'), (dict(divide=64), 'all examples'),
        (dict(divide=4), 'all examples'),
        (dict(told=True), 'for the program')]),
    'mg-ex-w-equal': (dict(dropout='yes', batchnorm='yes', order='rounding', odd='yes'), [
        (dict(odd='rounding'), 'one device'),
        (dict(dropout='no'), 'one device'), (dict(batchnorm='no'), 'one device'),
        (dict(order='yes'), 'one device'), (dict(order='no'), 'one device')]),
    'mg-ex-w-pays': (dict(visible=0.9, hidden=0.54), [
        (dict(visible=0.447), 'may the all-reduce'), (dict(visible=9), 'may the all-reduce'),
        (dict(hidden=0.18), 'can be hidden'), (dict(hidden=1.34), 'can be hidden'),
        (dict(hidden=0.447), 'can be hidden')]),
    'mg-ex-w-ring': (dict(sent=[1, 1.5, 1.75, 1.98], messages=[2, 6, 14, 198]), [
        (dict(sent=[2, 2, 2, 2]), 'Twice round'), (dict(sent=[1, 3, 7, 99]), 'Twice round'),
        (dict(messages=[1, 3, 7, 99]), 'handed on'), (dict(messages=[2, 4, 8, 100]), 'handed on')]),
    'mg-ex-allreduce': (all_reduce, [
        (on_one_device, 'busiest makes 10'), (says_so, '10 numbers were added at once'),
        (without_the_rest, 'something else'),
        (lambda g: ([sum(g) / len(g)] * len(g), 5), 'something else'),
        (lambda g: ([sum(g)], 5), '1 sums for 2')]),
    'mg-ex-accuracy': (shares, [
        (lambda n, k: [(i * (n // k), (i + 1) * (n // k)) for i in range(k)], '296 are predicted'),
        (lambda n, k: [(i * (n // k), n if i == k - 1 else (i + 1) * (n // k)) for i in range(k)],
         '5 dev|4 dev'),
        (lambda n, k: [(0, n)] * k, '8 are predicted, 16'), (lambda n, k: [(0, n)], '1 shares')]),
    'mg-ex-uneven': (split, [
        (lambda batch, speeds: [batch // len(speeds)] * len(speeds), 's is possible'),
        (lambda batch, speeds: [int(batch * s / sum(speeds)) for s in speeds], 'not 10|not 64'),
        (lambda batch, speeds: [batch * s / sum(speeds) for s in speeds], 'cannot be cut|devices'),
        (lambda batch, speeds: split(batch, [1 / s for s in speeds]), 's is possible')]),
    'mg-ex-pt-accumulate': (dict(without=4, within=1), [
        (dict(without=1), 'When does'), (dict(within=0.25), 'added up'), (dict(within=4), 'added up')]),
    'mg-ex-pt-syncbn': (combine, [
        (lambda parts: (np.mean([m for _, m, _ in parts]), np.mean([v for *_, v in parts])),
         'is another'),
        (lambda parts: (combine(parts)[0], sum(c * v for c, _, v in parts) / sum(c for c, *_ in parts)),
         'is another'),
        (lambda parts: (np.mean([m for _, m, _ in parts]), combine(parts)[1]), 'is another')]),
}


def in_place(gradients):
    """Each device adds to its own share."""
    k = len(gradients)
    shares = [np.array_split(g, k) for g in gradients]
    for i in range(k):
        for other in range(k):
            if other != i:
                shares[i][i] += shares[other][i]
    return [np.concatenate([shares[i][i] for i in range(k)])] * k, len(shares[0][0]) * (k - 1)


ALSO_RIGHT = {
    'mg-ex-allreduce': [in_place],
    'mg-ex-uneven': [lambda batch, speeds: [float(n) for n in split(batch, speeds)]],
    'mg-ex-w-ring': [dict(messages=np.array([2, 6, 14, 198]))],
}
