"""Right and wrong answers to the exercises on asynchrony."""

from collections import deque

from answer_checks import definitions
from tests.book.answers import stored

PYTORCH = 'asynchrony/asynchrony_solutions_pytorch.ipynb'
MXNET = 'asynchrony/asynchrony_solutions_mxnet.ipynb'


def run(batches, issue, wait, k):
    """The stored loop, on tickets in place of arrays."""
    solution = stored(MXNET, 'run', imports=False)
    solution['deque'] = deque
    rest = iter(batches)

    def step():
        ticket = issue(next(rest))
        return type('result', (), {'wait_to_read': lambda self: wait(ticket)})()
    solution['run'](step, len(batches), k)


def barrier(batches, issue, wait, k):
    for batch in batches:
        wait(issue(batch))


def no_limit(batches, issue, wait, k):
    tickets = [issue(batch) for batch in batches]
    wait(tickets[-1])


def one_too_many(batches, issue, wait, k):
    run(batches, issue, wait, k + 1)


def one_too_few(batches, issue, wait, k):
    run(batches, issue, wait, max(1, k - 1))


def every_k(batches, issue, wait, k):
    for i, batch in enumerate(batches):
        ticket = issue(batch)
        if i % k == k - 1:
            wait(ticket)


def forgets_the_last(batches, issue, wait, k):
    run(batches[:-1], issue, wait, k)


def two(batches, prepare, look, train, wait, after=False, before=True, last=True):
    done = None
    for batch in batches:
        ready = prepare(batch)
        if before:
            wait(ready)
        look(ready)
        done = train(ready)
        if after:
            wait(done)
    if last:
        wait(done)


def one_after_the_other(batches, prepare, look, train, wait):
    """Each device has its time, and never both."""
    ready = [prepare(batch) for batch in batches]
    for one in ready:
        wait(one)
    for one in ready:
        look(one)
    done = [train(one) for one in ready]
    wait(done[-1])


def prepares_all_first(batches, prepare, look, train, wait):
    """All are queued on the first device, and the second begins when the first batch is there."""
    for one in [prepare(batch) for batch in batches]:
        wait(one)
        look(one)
        done = train(one)
    wait(done)


def log_at_the_end(step, params, n):
    """The stored loop and its reading."""
    solution = stored(PYTORCH, 'issue', 'read')
    solution['step'] = step
    return solution['read'](solution['issue'](params, n))


def log_in_each_step(step, params, n):
    solution = stored(PYTORCH, 'train_and_log')
    solution['step'] = step
    return solution['train_and_log'](params, n)


def all_losses(step, params, n):
    losses = []
    for _ in range(n):
        loss, params = step(params)
        losses.append(loss)
    return [loss.item() for loss in losses]


def tensors(step, params, n):
    losses = []
    for _ in range(n):
        loss, params = step(params)
        losses.append(loss)
    return losses


def one_step_late(step, params, n):
    log, last = [], None
    for _ in range(n):
        loss, params = step(params)
        log += [last.item()] if last is not None else []
        last = loss
    return log + [last.item()]


def bounded(index, k):
    return stored(PYTORCH, 'Bounded')['Bounded'](index, k)


def unbounded(index, k):
    from virtual_devices import VirtualDevice
    return VirtualDevice(index)


def never_free(index, k):
    Bounded = stored(PYTORCH, 'Bounded')['Bounded']

    class Never(Bounded):
        def _run(self, work, name):
            if name == 'in work':
                return super()._run(work, name)
            return super(Bounded, self)._run(work, name)
    return Never(index, k)


def freed_at_the_end(index, k):
    Bounded = stored(PYTORCH, 'Bounded')['Bounded']

    class AtTheEnd(Bounded):
        def _run(self, work, name):
            try:
                return super(Bounded, self)._run(work, name)
            finally:
                self.places.release()
    return AtTheEnd(index, k)


def remembering(index):
    """The stored device; "this notebook" is the checker here."""
    solution = stored(PYTORCH, 'line', 'calling_line', 'Remembering')
    theirs = next(one.test for (label, _),
                  one in definitions.load().items() if label == 'asy-ex-late-error')
    solution['globals'] = lambda: theirs.__globals__
    return solution['Remembering'](index)


def noting(note):
    def answer(index):
        from virtual_devices import VirtualDevice

        class Noting(VirtualDevice):
            def submit(self, work, name):
                def noted():
                    try:
                        return work()
                    except Exception as e:
                        note(e, name)
                        raise
                return super().submit(noted, name)
        return Noting(index)
    return answer


def another_error(e, name):
    raise RuntimeError('something failed')


ANSWERS = {
    'asy-ex-w-wait': (dict(lines={5, 6, 7}), [
        (dict(lines={1, 3, 5, 6, 7}), 'not only a future'), (dict(lines={5, 6}), 'not only a future'),
        (dict(lines={2, 5, 6, 7}), 'not only a future'), (dict(lines=[5]), 'not only a future')]),
    'asy-ex-w-clock': (dict(rate=2.25e15), [
        (dict(rate=1.1e15), 'each number of the result'),
        (dict(rate=2.2e9), 'each number of the result'),
        (dict(rate=1.5e12), 'each number of the result')]),
    'asy-ex-w-raise': (dict(line=10, heard=False), [
        (dict(line=3), 'need a number'), (dict(line=4), 'need a number'),
        (dict(heard=True), 'Who would raise')]),
    'asy-ex-w-rounds': (dict(each=700, slow_device=403, slow_host=403), [
        (dict(each=500), 'nothing overlaps'), (dict(slow_device=400), 'as soon as'),
        (dict(slow_host=103), 'waits for the host'), (dict(slow_host=400), 'waits for the host')]),
    'asy-ex-w-flight': (dict(two=308e6, fit=12), [
        (dict(two=77e6), 'an image'), (dict(two=154e6), 'an image'), (dict(fit=13), 'whole batches'),
        (dict(fit=6), 'whole batches')]),
    'asy-ex-model': (lambda t1, t2, t3, n: t1 + (n - 1) * max(t1, t2) + t2 + t3, [
        (lambda t1, t2, t3, n: t1 + n * t2 + t3, 'Off for t1, t2, t3, n = 4, 1'),
        (lambda t1, t2, t3, n: n * max(t1, t2) + t3, 'Off for'),
        (lambda t1, t2, t3, n: n * (t1 + t2 + t3), 'Off for'),
        (lambda t1, t2, t3, n: t1 + n * t2 + t3 if n * t2 > (n - 1) * t1 else n * t1 + t2 + t3,
         '8, 7')]),
    'asy-ex-ahead': (run, [
        (barrier, 'although fewer'), (no_limit, '12 batches were issued and not'),
        (one_too_many, '2 batches were issued and not'), (one_too_few, 'although fewer'),
        (every_k, 'after a wait'), (forgets_the_last,
                                                                 'Of 12 batches, 11')]),
    'asy-ex-two-devices': (two, [
        (lambda *a: two(*a, after=True), 'waited for training 5 times'),
        (lambda *a: two(*a, before=False), 'not ready yet'),
        (lambda *a: two(*a, last=False), 'under way'), (one_after_the_other, 'when all batches were ready'),
        (lambda batches, *a: two(batches[1:], *a), r'prepare was called for \[1'),
        (lambda *a: print(), r'was called for \[\]')]),
    'asy-ex-waits': (dict(future=2, copy=12, everything=12, independent=2), [
        (dict(copy=2), 'copy stand|its own operation'), (dict(future=12), 'its own operation'),
        (dict(independent=1), 'its own operation'), (dict(everything=2), 'its own operation')]),
    'asy-ex-hidden': (log_at_the_end, [
        (log_in_each_step, 'before all steps are issued'),
        (one_step_late, 'before all steps are issued'),
        (tensors, 'list of floats'), (all_losses, '5 losses, where 3'),
        (lambda step, params, n: [step(params)[0].item()], '1 of 6 steps')]),
    'asy-ex-bounded': (bounded, [
        (unbounded, '10 operations waited'),
        (lambda index, k: bounded(index, k + 1), '2 operations waited'),
        (never_free, 'for ever'), (freed_at_the_end, 'Only 0 could be issued'),
        (lambda index, k: [], 'is none')]),
    'asy-ex-late-error': (remembering, [
        (lambda index: unbounded(index, 1), 'The error says'),
        (noting(lambda e, name: e.add_note(f'{name} failed')), 'index failed'),
        (noting(lambda e, name: e.add_note('total.item()')), 'The error says'),
        (noting(another_error), 'At the wait there was RuntimeError')]),
}
def numpy_model(t1, t2, t3, n):
    import numpy as np
    return np.maximum(t1 + n * t2, n * t1 + t2) + t3


def numpy_log(step, params, n):
    import numpy as np
    return [np.float64(x) for x in log_at_the_end(step, params, n)]


ALSO_RIGHT = {
    'asy-ex-w-wait': [dict(lines=range(5, 8)), dict(lines={5., 6., 7.}), dict(lines=frozenset({5, 6, 7}))],
    'asy-ex-w-clock': [dict(rate=2e15)],
    'asy-ex-w-raise': [dict(heard='no')],
    'asy-ex-model': [numpy_model],
    'asy-ex-two-devices': [prepares_all_first],
    'asy-ex-hidden': [numpy_log, lambda *a: tuple(log_at_the_end(*a))],
}
ANSWERS['asy-ex-waits mxnet'] = (dict(dependent='few', independent='all', everything='all'), [
    (dict(dependent='all'), 'stands before it'), (dict(independent='few'), 'stands before it'),
    (dict(everything='few'), 'stands before it')])
