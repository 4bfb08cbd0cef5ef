"""The figures of this topic that a reader can turn."""

from math import ceil, floor

from live_figures import Derived, Figure, Input, Measured, Output

# Eight rounds of the page with an engine: a pause, and a matmul that takes as long. With one wait at the end
# that is the time of the first pause and of eight matmuls.
ONE = Derived(lambda seconds: seconds / 9, (Measured('asy-pt-barrier.one_wait_at_the_end'),))


def pipeline(i, n, t1, t2, t3, t):
    """Round i: issued, computed, brought back; with a wait in each round, and with one at the end.

    What is done after t of 32 equal steps. A count that should be whole may lie a little below.
    """
    each = t1 + t2 + t3
    pace = max(t1, t2)
    begin = t1 + i * pace
    last = begin + t2
    now = t / 32 * n * each
    issued = min(n, floor(now / t1 + 1e-9))
    computed = max(0, min(n, floor((now - t1 - t2) / pace + 1 + 1e-9)))
    return {'issue': i * each, 'compute': i * each + t1, 'back': i * each + t1 + t2,
            'end': (i + 1) * each,
            'ahead': i * t1, 'ahead_end': i * t1 + t1, 'begin': begin, 'ready': last,
            'out': last if i == n - 1 else 0, 'out_end': last + t3 if i == n - 1 else 0,
            'barriers': n * each, 'free': t1 + (n - 1) * pace + t2 + t3,
            'ratio': n * each / (t1 + (n - 1) * pace + t2 + t3),
            'pacer': 'computing sets' if t2 >= t1 else 'issuing sets', 'now': now,
            'done': min(n, floor(now / each + 1e-9)), 'issued': issued, 'queued': issued - computed}


def workers(loaders, load, step, batches):
    """Seconds for an epoch when other processes load the batches; none: the loop loads them itself."""
    pace = max(load / max(loaders, 1), step)
    alone = batches * (load + step)
    epoch = load + (batches - 1) * pace + step if loaders > 0 else alone
    return {'epoch': epoch, 'alone': alone, 'busy': batches * step / epoch,
            'needed': max(1, ceil(load / step))}


LIVE = {
    'pipeline': Figure(
        'A wait in each round, or one at the end', pipeline,
        (Input('t1', 't1: issue an operation (a pause)', 'ms', 0.001, 100, 1, measured=ONE),
         Input('t2', 't2: compute it', 'ms', 0.001, 100, 1, measured=ONE),
         Input('t3', 't3: bring the result back', 'ms', 0.0001, 100, 0.003),
         Input('n', 'Rounds', '', 1, 40, 8, log=False, whole=True),
         Input('t', 'Time that has passed, in steps', '', 0, 32, 32, log=False, whole=True, play=True)),
        (Output('barriers', 'a wait in each round', 's'),
         Output('free', 'one wait, at the end', 's'), Output('ratio', 'the first ÷ the second')),
        ('{n} rounds: {barriers} with a wait in each, {free} with one at the end, {ratio} to 1. '
         'With one wait at the end, {pacer} the pace.',
         'After {t} of 32 steps, {done} rounds with a wait are done. Without, {issued} are issued, '
         '{queued} of them not computed yet.'),
        count='n', clock='now', lanes=(
            ('a wait each: host', 'issue', 'compute'), ('a wait each: device', 'compute', 'back'),
            ('a wait each: host', 'back', 'end'), ('one wait: host', 'ahead', 'ahead_end'),
            ('one wait: device', 'begin', 'ready'), ('one wait: host', 'out', 'out_end'))),
    'workers': Figure(
        'An epoch, and the workers that load its batches', workers,
        (Input('loaders', 'Workers', '', 0, 16, 2, log=False, whole=True),
         Input('load', 'Loading a batch', 'ms', 0.1, 1000, 60),
         Input('step', 'A training step', 'ms', 0.1, 1000, 30),
         Input('batches', 'Batches', '', 1, 10_000, 100, whole=True)),
        (Output('epoch', 'epoch', 's'), Output('busy', 'of it, training computes', '%')),
        ('With {loaders} workers an epoch takes {epoch}, and training computes for {busy} of it. '
         'From {needed} on, loading no longer sets the pace.',),
        over='loaders', rows=(0, 1, 2, 3, 4, 8, 16), drawn=('epoch',))}
