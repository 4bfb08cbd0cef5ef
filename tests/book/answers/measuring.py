"""Right and wrong answers to the exercises on measuring."""

import functools
import statistics
import time
from fractions import Fraction

from tests.book.answers import stored

SOLUTIONS = 'measuring/measuring_solutions_pytorch.ipynb'


def differ(pairs, first, second):
    """The stored function, with the times of two programs."""
    def clock(program):
        begin = time.perf_counter()
        program()
        return time.perf_counter() - begin
    found = stored(SOLUTIONS, 'one_time', 'differs')['differs']
    return found(pairs, functools.partial(clock, first), functools.partial(clock, second))


def one_sided(first, second):
    def seconds(program):
        begin = time.perf_counter()
        program()
        return time.perf_counter() - begin
    return statistics.median(seconds(second) / seconds(first) for _ in range(30)) > 1.05


def kept(work):
    """The stored hooks, around the work of the checker."""
    s = stored(SOLUTIONS, 'Saved', 'kept', 'hooks')
    with s['hooks']:
        result = work()
    return s['kept']() if result is not None else None


def saved(work):
    import torch
    total = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: total.append(t.nbytes) or t, lambda t: t):
        work()
    return sum(total)


def attached(work):
    """The stored solution, but for an object that holds the saved tensor itself."""
    s = stored(SOLUTIONS, 'Saved', 'kept')

    def init(self, tensor):
        self.tensor = tensor
        s['Saved'].alive.add(self)
    s['Saved'].__init__ = init
    hooks = s['torch'].autograd.graph.saved_tensors_hooks(s['Saved'], lambda saved: saved.tensor)
    with hooks:
        result = work()
    return s['kept']() if result is not None else None


def twice(work):
    """The stored solution, which counts each object in place of each storage."""
    s = stored(SOLUTIONS, 'Saved', 'kept', 'hooks')
    with s['hooks']:
        result = work()
    return sum(saved.tensor.nbytes for saved in s['Saved'].alive) if result is not None else None


def always(work):
    import torch
    return kept(torch.enable_grad()(work))


def at_once(images):
    solution = stored(SOLUTIONS, 'at_once')
    solution['x'] = images
    return solution['at_once']()


def loop(images):
    solution = stored(SOLUTIONS, 'one_by_one')
    solution['x'] = images
    return solution['one_by_one']()


def loop_in_torch(images):
    import torch
    return torch.stack([(image - image.mean()) / image.std(correction=0) for image in images])


def over_and_over(images):
    return [at_once(images) for _ in range(30)][-1]


def of_the_batch(images):
    return (images - images.mean()) / images.std(correction=0)


def in_place(images):
    images -= images.mean((1, 2, 3), keepdim=True)
    return images / images.std((1, 2, 3), correction=0, keepdim=True)


@functools.cache
def once():
    return []


def cached(images):
    once().append(at_once(images))
    return once()[0]


def half(images):
    return at_once(images.bfloat16()).float()


def queued(images):
    from d2l_local import torch as d2l
    from virtual_devices import VirtualDevice
    device = VirtualDevice(0)
    device.submit(lambda: time.sleep(0.05), 'other work')
    x = d2l.put(images, device)
    return (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), correction=0, keepdim=True)


def patched(images):
    time.perf_counter = lambda: 0.0
    return at_once(images)


def busy_share_alone(events):
    """Takes whatever idles for input-bound."""
    found, share = diagnose(events)
    return 'compute' if found == 'compute' else 'input', share


def all_of_loading(events):
    """As if a prefetch hid loading behind nothing."""
    found, share = diagnose(events)
    begin, end = min(e.start for e in events), max(e.end for e in events)
    load = sum(e.end - e.start for e in events if e.name == 'load')
    return found, load / (end - begin) if found == 'input' else share


def below(microseconds):
    """An answer that knows overhead by the time of an operator."""
    def answer(events):
        _, share = diagnose(events)
        times = [e.end - e.start for e in events if e.lane == 'operators']
        if statistics.mean(times) < 1e-6 * microseconds:
            return 'overhead', share
        return 'compute' if share < 0.2 else 'input', share
    return answer


def diagnose(events):
    return stored(SOLUTIONS, 'diagnose')['diagnose'](events)


ANSWERS = {
    'msr-ex-w-clocks': (dict(first=3.8, second=0.05, third=1), [
        (dict(first=4), 'wall clock'), (dict(first=7.6), 'wall clock'), (dict(first=1.9), 'wall clock'),
        (dict(second=0.1), 'wall clock'), (dict(second=0.95), 'wall clock'), (dict(third=4), 'wall clock')]),
    'msr-ex-w-good': (dict(rate=7e15, longer=8), [
        (dict(rate=3.4e15), 'How many multiplications'), (dict(rate=7e9), 'How many multiplications'),
        (dict(rate=1.7e12), 'How many multiplications'), (dict(longer=4), 'grow like'),
        (dict(longer=2), 'grow like')]),
    'msr-ex-w-verdict': (dict(first='holds', second='undecided', third='fails'), [
        (dict(second='holds'), 'Where does the bound lie'), (dict(third='undecided'), 'Where does'),
        (dict(first='undecided'), 'Where does the bound lie')]),
    'msr-ex-w-amdahl': (dict(a=1.43, b=1.92, both=2.5, b_after_a=1.75, a_after_b=1.3), [
        (dict(a=1.3), 'at the same time'), (dict(b=5), 'Only the share'),
        (dict(both=2.75), 'must not be multiplied'), (dict(both=4.5), 'must not be multiplied'),
        (dict(b_after_a=1.92), 'Divide the two'), (dict(a_after_b=1.43), 'Divide the two')]),
    'msr-ex-w-regime': (dict(p='overhead', q='compute', r='memory'), [
        (dict(p='memory'), 'took hardly longer'), (dict(q='memory'), 'scales with'),
        (dict(r='compute'), 'nearly as well')]),
    'msr-ex-w-mfu': (dict(mfu=0.334, days=42), [
        (dict(mfu=2.67), 'six FLOPs'), (dict(mfu=0.11), 'six FLOPs'), (dict(mfu=0.67), 'six FLOPs'),
        (dict(days=1010), 'Divide the tokens'), (dict(days=5.3), 'Divide the tokens')]),
    'msr-ex-winner': (functools.partial(differ, 30), [
        (functools.partial(differ, 1), 'differ from itself'), (lambda a, b: True, 'differ from itself'),
        (lambda a, b: False, '30% longer'), (one_sided, 'first program takes 30% longer')]),
    'msr-ex-knee': (lambda one, many, n: one / ((many - one) / n), [
        (lambda one, many, n: n * one / many, 'costs'), (lambda one, many, n: n, 'costs'),
        (lambda one, many, n: 2 * n * one / many, 'costs'), (lambda one, many, n: print(), 'not None'),
        (lambda one, many, n: one * (n - 1) / (many - one) - 1, 'costs'),
        (lambda one, many, n: one / max((many - one) / n, 2e-6 * (one > 0.05)) + 9 * (one > 0.05),
         'milliseconds')]),
    'msr-ex-five': (dict(per_byte=0.5, linear='memory', lookup='overhead', convolution='compute',
                         tanh='memory'), [
        (dict(per_byte=0.25), 'read once'), (dict(per_byte=2), 'read once'),
        (dict(linear='compute'), 'for each byte'), (dict(lookup='memory'), 'does it move'),
        (dict(convolution='memory'), 'How often'), (dict(tanh='compute'), 'four bytes')]),
    'msr-ex-suspects': (kept, [
        (saved, 'frees what it has used'), (lambda work: 0, 'keeps its result'),
        (lambda work: min(kept(work), 4000), 'Three sigmoids'), (always, 'nothing is saved'),
        (lambda work: kept(work) // 4, 'keeps its result'), (twice, 'both save'),
        (attached, 'call before')]),
    'msr-ex-amdahl': (at_once, [
        (loop, 'operators for'), (loop_in_torch, 'operators for'),
        (over_and_over, 'A loop over the images takes'),
        (of_the_batch, 'plain loop'),
        (lambda x: (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True),
         'the same way off'),
        (cached, 'call before'), (in_place, 'writes into'), (half, 'as exact as float32'),
        (lambda x: at_once(x).half(), 'as exact as float32'), (queued, 'queue|long before'),
        (patched, 'module time'), (lambda x: at_once(x)[:, 0], 'the shape')]),
    'msr-ex-gap': (dict(a='input', a_saves=0.34, b='compute', b_saves=0.028, c='overhead',
                        c_saves=0.67), [
        (dict(a='overhead'), 'How much white'), (dict(a_saves=0.66), 'at the same time'),
        (dict(b='overhead'), 'How much white'), (dict(b_saves=0.97), 'no operator runs'),
        (dict(c='input'), 'How much white'), (dict(c_saves=0.33), 'no operator runs')]),
    'msr-ex-reader': (diagnose, [
        (busy_share_alone, "overhead-bound was called 'input'"),
        (all_of_loading, 'the longer of the two remains'),
        (below(10), 'times as long'), (below(6.5), 'times as long'),
        (lambda events: ('compute', 0.0), "was called 'compute'"),
        (lambda events: (diagnose(events)[0], 1 - diagnose(events)[1]), 'no operator runs'),
        (lambda events: diagnose(events)[0], 'a word and a number')]),
}


def of_each(images):
    return (images - images.mean((1, 2, 3), keepdim=True)) / images.std((1, 2, 3), correction=0, keepdim=True)


def exact_knee(one, many, n):
    each = (many - one) / (n - 1)
    return (2 * one - (one - each)) / each


def two_threads(images):
    import torch
    torch.set_num_threads(2)
    return of_each(images)


ALSO_RIGHT = {
    'msr-ex-w-mfu': [dict(mfu=0.33)],
    'msr-ex-knee': [exact_knee, lambda *a: round(exact_knee(*a)), lambda *a: Fraction(exact_knee(*a))],
    'msr-ex-amdahl': [of_each, two_threads, lambda x: of_each(x.double())],
    'msr-ex-reader': [lambda events: list(diagnose(events))],
}
