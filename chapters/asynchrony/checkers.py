"""The checkers of the exercises on asynchrony: several are engines that never hurry."""

import math
import sys
import threading

from answer_checks.definitions import Part, exercise, fetch, listed, need, number, numbers

numbers('asy-ex-w-wait',
        lines=Part({5, 6, 7}, 'the lines that wait, as a set of their numbers from 1 to 7',
                   'Which lines need a number, and not only a future?',
                   'A shape follows from shapes. A slice is an operation like others.'))

numbers('asy-ex-w-clock',
        rate=Part(2 * 1500 ** 3 / 3e-6, 'operations per second, additions and multiplications',
                  'How many multiplications and additions does each number of the result need?',
                  'There are as many results as the matrix has numbers. Mind the µs.', 0.12),
        slips={
            'rate': {
                1500 ** 3 / 3e-6: 'Each step of a sum is a multiplication and an addition.',
                2 * 1500 ** 2 / 3e-6:
                    'That is one step for each number of the result, which is a sum of 1,500 products.',
            },
        })

numbers('asy-ex-w-raise',
        line=Part(10, 'the number of the operation whose result, when read, raises the error',
                  'Where does somebody need a number for the first time?',
                  'An operation that fails has nobody to tell until its result is asked for.'),
        heard=Part(False, 'True or False: an error surely appears if nothing is ever read',
                   'Who would raise it, and where?',
                   'What does a program do that ends with a full queue?'),
        slips={
            'line': {
                3: 'It fails, but nobody has asked for its result yet.',
                4: 'The fourth is queued like the others. Nobody has asked for a result yet.',
            },
            'heard': {True: 'An error is told to whoever asks for the result. Here nobody asks.'},
        })

LAZY = 'd2l_local.torch', 'virtual_devices'
N, T3 = 100, 2
numbers('asy-ex-w-rounds',
        each=Part(N * (1 + 4 + T3), 'ms for 100 rounds with a synchronization point in each',
                  'With a wait in each round, nothing overlaps.', 'What does one round take?'),
        slow_device=Part(1 + N * 4 + T3, 'ms with one wait at the end, t1 = 1 and t2 = 4',
                         'The device has work as soon as the first operation is there.',
                         'Issuing the first is not hidden, nor is one result.'),
        slow_host=Part(N * 4 + 1 + T3, 'ms with one wait at the end, t1 = 4 and t2 = 1',
                       'Here the device waits for the host.',
                       'What is left to do after the last operation is issued?'),
        slips={
            'each': {
                N * (1 + 4): 'The result is fetched in each round.',
                N * 4 + 1 + T3: 'That is with one wait at the end.',
            },
            'slow_device': {
                N * (1 + 4 + T3): 'That is with a wait in each round.',
                N * 4:
                    'Before the first computation an operation is issued, and after the last a result is '
                    'fetched.',
                N * 4 + 1: 'The last result is still to be fetched.',
                N * 4 + T3: 'Nothing is computed before the first operation is issued.',
                1 + N * (4 + T3): 'A result is fetched once, at the end.',
            },
            'slow_host': {
                N * (1 + 4 + T3): 'That is with a wait in each round.',
                N * 4: 'The last operation is still to be computed, and its result to be fetched.',
                N * 4 + 1: 'The last result is still to be fetched.',
                N * 4 + T3: 'The last operation is still to be computed.',
                4 + N * 1 + T3:
                    'The device could do it in that time, but the host issues an operation every 4 ms.',
            },
        })

BATCH = 256 * 3 * 224 * 224 * 4
numbers('asy-ex-w-flight',
        two=Part(2.0 * BATCH, 'bytes of two batches in flight', 'How many numbers has an image?',
                 'How many bytes has a float32?'),
        fit=Part(int(2e9 // BATCH), 'batches that fit into 2 · 10⁹ bytes', 'Only whole batches count.',
                 'Divide by the bytes of one batch.'),
        slips={
            'two': {
                BATCH: 'That is one batch.',
                BATCH / 2: 'Those are numbers. A float32 has four bytes.',
            },
            'fit': {
                13: 'The thirteenth does not fit as a whole.',
                51: 'That takes one byte for each number. A float32 has four bytes.',
                6: 'That divides by two batches.',
            },
        })


def ends(t1: float, t2: float, n: int) -> float:
    """When the last of n computations is done, one by one."""
    done = 0
    for k in range(1, n + 1):
        done = max(k * t1, done) + t2
    return done


@exercise('asy-ex-model', '''def total(t1, t2, t3, n):
    """The time of n rounds with one wait at the end, for any times."""''')
def model(total) -> None:
    """What the operations take one by one, where either side sets the pace, and for a single round."""
    for t1, t2, t3, n, what in ((1, 4, 2, 100, 'computing takes longer'),
                                (4, 1, 2, 100, 'issuing takes longer'),
                                (8, 7, 0, 5, 'issuing takes a little longer'),
                                (3, 3, 1, 7, 'both are equal'),
                                (5, 2, 1, 1, 'there is one round')):
        found, right = number(total(t1, t2, t3, n), 'a time'), ends(t1, t2, n) + t3
        need(math.isclose(found, right, rel_tol=1e-6), f'the time where {what}',
             f'Off for t1, t2, t3, n = {t1}, {t2}, {t3}, {n}.',
             'Follow the operations: each begins when it is issued and when the one before it is done.')


class Lazy:
    """An engine that finishes nothing before somebody waits for it, in order; it keeps count."""

    def __init__(self) -> None:
        self.issued, self.done, self.most, self.waits = [], 0, 0, []

    def issue(self, batch):
        self.issued.append(batch)
        self.most = max(self.most, len(self.issued) - self.done)
        return len(self.issued)         # a ticket: the first has the number 1

    def wait(self, ticket) -> None:
        before, self.done = len(self.issued) - self.done, max(self.done, ticket)
        self.waits.append((len(self.issued), before, len(self.issued) - self.done))


@exercise('asy-ex-ahead', '''def run(batches, issue, wait, k):
    """Issue all batches in order, with at most k in flight.

    issue(batch) starts a batch and returns a ticket at once; wait(ticket) returns when that batch is
    finished, and so all before it. The batches are a list.
    """''')
def ahead(run) -> None:
    """All batches in order; never more than k unfinished ones; and no wait as long as there is room."""
    for k in (1, 2, 4, 30):
        engine, batches = Lazy(), [f'batch {i}' for i in range(12)]
        run(list(batches), engine.issue, engine.wait, k)
        need(engine.issued == batches, 'all batches, in their order',
             f'Of 12 batches, {len(engine.issued)} were issued, or not in order.',
             'What ends your loop?')
        need(engine.most <= k, 'at most k in flight',
             f'For k = {k}, {engine.most} batches were issued and not yet waited for.',
             'Before you issue the next one: how many are unfinished, and which is the oldest?')
        before = [wait[1:] for wait in engine.waits if wait[0] < len(batches)]
        need(all(flying >= k for flying, _ in before), 'no wait as long as there is room',
             f'For k = {k} it waited although fewer batches were in flight.',
             'Count them before you wait.')
        need(all(left == k - 1 for _, left in before), 'a wait for the oldest batch',
             f'For k = {k}, fewer than k - 1 batches were in flight after a wait.',
             'A wait for the newest batch leaves none in flight. Which one do you have to wait for?')


@exercise('asy-ex-two-devices', '''def run(batches, prepare, look, train, wait):
    """Prepare each batch on one device and train on it on another; finished when all training is.

    ready = prepare(batch) and done = train(ready) only issue work. Between them, look(ready) reads a
    number of the batch, which needs wait(ready) before. wait(done) waits for a training step and all
    before it.
    """''')
def two_devices(run) -> None:
    """Each batch looked at when ready, trained on in order, and no wait for training but the last."""
    log = []

    def prepare(batch):
        log.append(('prepare', batch))
        return 'ready', batch

    def look(ready):
        need(('wait', ready) in log, 'a wait before the look',
             'A batch was looked at that was not ready yet.',
             'What does look need to be finished?')
        log.append(('look', ready[1]))

    def train(ready):
        log.append(('train', ready[1]))
        return 'done', ready[1]
    batches = list(range(6))
    run(list(batches), prepare, look, train, lambda ticket: log.append(('wait', ticket)))
    for what in ('prepare', 'look', 'train'):
        found = [batch for name, batch in log if name == what]
        need(found == batches, f'{what} for each batch, in order', f'{what} was called for {found}.',
             f'The batches are {batches}.')
    first, last = (log.index(('train', batches[i])) for i in (0, -1))
    early = log.index(('wait', ('ready', batches[-1])))
    need(first < early, 'two devices that work at the same time',
         'The first training step was issued when all batches were ready.',
         'What can the training device do while the next batch is prepared?')
    held = [ticket for name, ticket in log[:last] if name == 'wait' and ticket[0] == 'done']
    need(not held, 'a training device that is not waited for',
         f'The host waited for training {len(held)} times before the last step was issued.',
         'From which device does the next batch need something?')
    need(('wait', ('done', batches[-1])) in log[last:], 'all training finished at the end',
         'It came back while the last steps were under way.', 'One wait is enough: for which step?')


HOW = 'The queue is in order, and a wait returns when its own operation is done.'
numbers('asy-ex-waits', framework='pytorch', **{
    name: Part(done, f'matmuls of twelve done for sure, after the wait {what}', HOW, hint)
    for name, done, what, hint in (
        ('future', 2, 'for the future of the second',
         'What stands in the queue before the second result?'),
        ('copy', 12, 'for a copy of the second, issued last', 'Where in the queue does the copy stand?'),
        ('everything', 12, 'for everything', 'What does such a wait leave out?'),
        ('independent', 2, 'for the future of the second, if none needs another',
         'Does a queue in order ask what depends on what?'))},
        slips={
            'future': {
                1: 'The first is done too: it stands before the second in the queue.',
                12: 'What stands behind the second in the queue need not be done.',
            },
            'copy': {2: 'The copy was issued last. What stands before it in the queue?'},
            'independent': {
                1: 'The first is done too: it stands before the second in the queue.',
                12: 'What stands behind the second in the queue need not be done.',
            },
        })


@exercise('asy-ex-hidden', '''def train(step, params, n):
    """n training steps: their losses as a list of Python numbers, up to the first that is nan.

    loss, params = step(params) only issues a step. Issue all n before you wait for any.
    """''', 'pytorch', imports=LAZY)
def hidden(train) -> None:
    """The right log; cut at nan; and all steps issued while the device is still held up."""
    import torch

    from d2l_local import torch as d2l
    from virtual_devices import VirtualDevice
    for n, bad in ((6, None), (5, 3)):
        device, gate, opened = VirtualDevice(0), threading.Event(), []
        issued = 0

        def step(params, gate=gate, n=n, bad=bad):
            nonlocal issued
            issued += 1
            if issued == n:
                gate.set()
            loss = params * (math.nan if issued - 1 == bad else 1)
            return loss, params / 2
        start = d2l.put(torch.tensor(8.0), device)
        (start * 1 / 2).wait()      # the first use of anything takes long
        device.submit(lambda gate=gate, opened=opened: opened.append(gate.wait(1)), 'held up')
        log = train(step, start, n)
        device.synchronize()
        need(issued == n, 'all n steps', f'{issued} of {n} steps were issued.', 'What stops the loop?')
        need(opened == [True], 'no wait before the last step is issued',
             'Something in the loop asks for a number before all steps are issued.',
             'item, float, if, print and == wait. Keep the losses as tensors.')
        log = listed(log, 'Python numbers')
        need(not any(isinstance(x, torch.Tensor) for x in log), 'Python numbers',
             'The log should be a list of floats.', 'When all steps are issued, you may wait.')
        log = [number(x, 'Python numbers') for x in log]
        right = [8 / 2 ** i for i in range(n if bad is None else bad)]
        need(log == right, 'the losses' if bad is None else 'a log that ends before a nan',
             f'{len(log)} losses, where {len(right)} are right.',
             'Compare with a loop that logs in each step.')


@exercise('asy-ex-bounded', '''def bounded(index, k):
    """A VirtualDevice (of virtual_devices) with room for k waiting operations: one more blocks."""''',
          'pytorch', imports=LAZY)
def bounded(bounded) -> None:
    """k operations wait, the next blocks, it goes on when a place is free, and all are done in order."""
    from virtual_devices import VirtualDevice
    for k in (1, 3):
        device, gate, running, issued, done = bounded(7, k), threading.Event(), threading.Event(), [], []
        need(isinstance(device, VirtualDevice), 'a VirtualDevice', 'What you return is none.',
             'A class that inherits from it can change what submit does.')

        def issue(device=device, gate=gate, running=running, issued=issued, done=done):
            device.submit(lambda: (running.set(), gate.wait(10)), 'in work')
            running.wait(2)
            for i in range(10):
                device.submit(lambda i=i: done.append(i), f'operation {i}')
                issued.append(i)
        front = threading.Thread(target=issue, daemon=True)
        front.start()
        front.join(0.4)
        need(len(issued) <= k, 'a limit',
             f'With room for {k}, {len(issued)} operations waited behind the one that is executing.',
             'Who counts the free places, and what happens if there is none?')
        need(len(issued) == k, f'room for {k} operations', f'Only {len(issued)} could be issued. '
             'The one that is executing does not wait any more.', 'When is a place free again?')
        gate.set()
        front.join(2)
        need(not front.is_alive(), 'places that become free', 'Issuing went on for ever.',
             'Who gives a place back, and when?')
        device.synchronize()
        need(done == list(range(10)), 'all operations, in their order', f'Done were {done}.',
             'Keep the queue.')


@exercise('asy-ex-late-error', '''def remembering(index):
    """A VirtualDevice whose errors say, in a note or the message, where the failed operation was issued.

    That is: the text of the line, or its number.
    """''', 'pytorch', imports=LAZY)
def late_error(remembering) -> None:
    """The same error, raised at the wait, that names the line that issued it."""
    import torch

    from d2l_local import torch as d2l
    device = remembering(8)
    table, lines = d2l.put(torch.eye(3), device), {}

    def deep(words):
        lines['issued'] = sys._getframe().f_lineno + 1
        rows = table[words]
        return rows.mean(dim=0)
    right = fetch(deep(torch.tensor([0, 2])))
    need(right.tolist() == [0.5, 0, 0.5], 'results as before',
         'Operations that do not fail give other numbers.',
         'Hand on what the work returns.')
    total = torch.tanh(deep(torch.tensor([0, 7]))).sum()
    try:
        total.item()
        error = None
    except Exception as e:
        error = e
    need(isinstance(error, IndexError) and 'index 7' in str(error), 'the error itself',
         f'At the wait there was {error!r}.', 'Raise the error again after you have added to it.')
    said = ' '.join([str(error), *getattr(error, '__notes__', ())])
    short = said if len(said) < 200 else f'{said[:100]} … {said[-100:]}'
    need('rows = table[words]' in said or str(lines['issued']) in said, 'the line that issued it',
         f'The error says: {short!r}.',
         'On the device that line is forgotten. Where is it still known?')
    need('total.item()' not in said, 'that line alone', 'It names the line that waited.',
         'The first to know about a failure is the operation that failed.')


WORKER = 'All that is ready when the wait comes stands before it in the queue of the worker.'
numbers('asy-ex-waits', framework='mxnet', **{
    name: Part(right, f'of twelve matmuls, done when {what} returns: {choice}', WORKER, hint)
    for name, right, what, choice, hint in (
        ('dependent', 'few', 'wait_to_read on the second, if each needs the one before',
         "'few' or 'all'",
         'How many are ready at a time?'),
        ('independent', 'all', 'wait_to_read on the second, if none needs another', "'few' or 'all'",
         'How many are ready at a time?'),
        ('everything', 'all', 'waitall', "'few' or 'all'", 'What does such a wait leave out?'))})
