"""Right and wrong answers to the exercises on automatic parallelism."""

from tests.book.answers import stored

SOLUTIONS = 'automatic_parallelism/automatic_parallelism_solutions_pytorch.ipynb'


def longest(graph):
    """The stored recursion, for nodes in any order."""
    done = {}

    def to(node):
        if node not in done:
            time, needs = graph[node]
            done[node] = time + max((to(n) for n in needs), default=0)
        return done[node]
    return max(map(to, graph))


def in_the_order_given(graph):
    end = {}
    for node, (time, needs) in graph.items():
        end[node] = time + max((end.get(n, 0) for n in needs), default=0)
    return max(end.values())


def largest_side(free, kept):
    import math
    solution = stored(SOLUTIONS, 'largest_side', imports=False)
    solution['math'] = math
    return solution['largest_side'](free, kept)


ANSWERS = {
    'par-ex-w-overtake': (dict(a_and_b='yes', a_and_c='no', b_and_c='yes', last={'f', 'g'}), [
        (dict(a_and_c='yes'), 'neither needs'), (dict(b_and_c='no'), 'neither needs'),
        (dict(last={'f', 'g', 'h', 'k'}), 'Who reads'), (dict(last=['h', 'k']), 'Who reads')]),
    'par-ex-w-timeline': (dict(share=0.5, turns=0), [
        (dict(share=0.33), 'both busy'), (dict(share=3), 'both busy'),
        (dict(turns=0.5), 'when the other')]),
    'par-ex-w-core': (dict(arithmetic='no', waiting='yes'), [
        (dict(arithmetic='yes'), 'run at once'), (dict(waiting='no'), 'for a wait'),
        (dict(arithmetic=True), 'run at once')]),
    'par-ex-w-path': (dict(serial=14, best=12, devices=2), [
        (dict(serial=12), 'Add them up'), (dict(best=9), 'path shorter'),
        (dict(best=14), 'path shorter'),
        (dict(devices=3), 'ready at the same')]),
    'par-ex-w-amdahl': (dict(two=60, four=40, eight=30, any=20), [
        (dict(two=50), 'Only a part'), (dict(eight=10), 'Only a part'), (dict(any=0), 'Only a part')]),
    'par-ex-dependencies': (longest, [
        (lambda graph: sum(time for time, _ in graph.values()), 'Wrong for'),
        (in_the_order_given, '12 nodes'), (lambda graph: list(graph), 'Give a number, .* not a list'),
        (lambda graph: max(t for t, _ in graph.values()), 'Wrong for'),
        (lambda graph: longest({n: (1, needs) for n, (_, needs) in graph.items()}), 'Wrong for')]),
    'par-ex-pipeline': (lambda stages, n: sum(stages) + (n - 1) * max(stages), [
        (lambda stages, n: n * sum(stages), 'Wrong for'),
        (lambda stages, n: n * max(stages), 'Wrong for'),
        (lambda stages, n: sum(stages) + n * max(stages), 'Wrong for'),
        (lambda stages, n: sum(stages) + (n - 1) * stages[0], 'Wrong for')]),
    'par-ex-small-card': (largest_side, [
        (lambda free, kept: largest_side(free, kept - 1), 'need more than'),
        (lambda free, kept: largest_side(free / 2, kept), 'fits as well'),
        (lambda free, kept: (free / 4 / (kept + 1)) ** 0.5, 'has a fraction'),
        (lambda free, kept: largest_side(free, kept) // 256 * 256, 'fits as well')]),
}


def with_numpy(free, kept):
    import numpy as np
    return np.int64(np.sqrt(free / 4 / (kept + 1)))


ALSO_RIGHT = {
    'par-ex-w-core': [dict(waiting=True, arithmetic=False)],
    'par-ex-dependencies': [lambda graph: longest(graph) * 1.0],
    'par-ex-small-card': [with_numpy, lambda free, kept: float(largest_side(free, kept))],
}
