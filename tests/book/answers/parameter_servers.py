"""Right and wrong answers to the exercises on parameter servers."""

import math

ANSWERS = {
    'ps-ex-w-one': (dict(one=1.28, eight=0.16, ninth='no'), [
        (dict(one=0.64), 'through a link'), (dict(one=0.16), 'through a link'),
        (dict(eight=0.08), 'take in'),
        (dict(ninth='yes'), 'links are full')]),
    'ps-ex-w-late': (dict(three=2, ten=9), [
        (dict(three=3), 'How often'), (dict(three=0), 'How often'), (dict(ten=10), 'How many others')]),
    'ps-ex-w-missed': (dict(worker='all wait', server='all wait', scheduler='nothing'), [
        (dict(worker='an error'), 'What does it lack'), (dict(worker='nothing'), 'What does it lack'),
        (dict(server='nothing'), 'From whom'), (dict(scheduler='all wait'), 'a step need')]),
    'ps-ex-w-shape': (dict(small_ring=14, small_tree=6, large_ring=0.175, large_tree=0.6), [
        (dict(small_ring=7), 'follow each other'), (dict(small_ring=16), 'follow each other'),
        (dict(small_tree=3), 'follow each other'), (dict(large_ring=1.4), 'is a share'),
        (dict(large_tree=0.3), 'whole array')]),
    'ps-ex-w-save': (dict(interval=759), [
        (dict(interval=537), 'share that is lost'), (dict(interval=20), 'share that is lost'),
        (dict(interval=7200), 'share that is lost'), (dict(interval=13), 'share that is lost')]),
    'ps-ex-async': (lambda steps, worker, s: steps[worker] - min(steps) <= s, [
        (lambda steps, worker, s: steps[worker] - min(steps) < s, 'Wrong for steps'),
        (lambda steps, worker, s: True, 'worker 0'),
        (lambda steps, worker, s: max(steps) - steps[worker] <= s, 'Wrong for steps'),
        (lambda steps, worker, s: max(steps) - min(steps) <= s, 'worker 1')]),
    'ps-ex-checkpoint': (lambda c, f: math.sqrt(2 * c * f), [
        (lambda c, f: math.sqrt(c * f), 'is possible'), (lambda c, f: f / 2, 'is possible'),
        (lambda c, f: c, 'is possible'), (lambda c, f: 0, 'is none'), (lambda c, f: '759', 'not the text')]),
    'ps-ex-tree': (dict(steps=6, sent=1.75), [
        (dict(steps=14), 'a partner'), (dict(steps=3), 'a partner'), (dict(sent=6), 'a quarter'),
        (dict(sent=0.875), 'a quarter')]),
    'ps-ex-both-ways': (dict(cables=0.5, switch=1), [
        (dict(cables=1), 'half the bytes'), (dict(cables=0.25), 'half the bytes'),
        (dict(switch=0.5), 'leaves a rank'), (dict(switch=2), 'leaves a rank')]),
    'ps-ex-semiring': (dict(associative={'sum', 'maximum', 'product', 'matrix product'},
                            commutative={'sum', 'maximum', 'product', 'mean'},
                            ring={'sum', 'maximum', 'product'}), [
        (dict(associative={'sum', 'maximum', 'product', 'mean'}), 'brackets are'),
        (dict(commutative={'sum', 'maximum', 'product', 'matrix product'}), 'comes first'),
        (dict(ring={'sum', 'maximum', 'product', 'matrix product'}), 'begins its journey'),
        (dict(associative={'sum'}), 'brackets are')]),
}


def searched(c, f):
    import numpy as np
    times = np.arange(1, 30_000)
    return times[np.argmin(c / times + times / (2 * f))]


ALSO_RIGHT = {'ps-ex-w-save': [dict(interval=13 * 60)], 'ps-ex-checkpoint': [searched]}
