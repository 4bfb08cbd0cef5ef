"""Conditions: asked apart from what a claim measures, watched by the kernel's own accounting."""

import hashlib
import importlib
import math
import os
import sys
import time

import pytest

from hardware_lab import devices, memory  # noqa: F401  (their conditions are known then)
from local_cluster import links  # noqa: F401
from local_cluster.neighbours import neighbours
from tested_results import conditions, machine
from tested_results.conditions import Condition

linux = pytest.mark.skipif(not sys.platform.startswith('linux'), reason='the accounting of Linux')


@pytest.fixture(autouse=True)
def own(monkeypatch):
    monkeypatch.setattr(conditions, 'known', dict(conditions.known))
    monkeypatch.setattr(conditions, 'WAIT', 0)


def test_two_conditions_of_one_name():
    conditions.condition('a moon')(lambda: '')
    with pytest.raises(ValueError, match="two conditions called 'a moon'.*another name"):
        conditions.condition('a moon')(lambda: '')


def test_names():
    assert [c.name for c in conditions.named('a GPU')] == ['a GPU']
    assert [c.name for c in conditions.named(('two GPUs', 'a GPU'))] == ['two GPUs', 'a GPU']
    assert conditions.named(()) == []
    with pytest.raises(ValueError, match="'links and luck'; there are: .*links"):
        conditions.named('links and luck')


def test_permanent_conditions_are_asked_once():
    asked = []
    conditions.condition('a moon')(lambda: asked.append(1) or 'no moon')
    c, = conditions.named('a moon')
    for _ in range(3):
        assert conditions.wait_for([c], 60) == (c, 'no moon')      # and not waited for
    assert len(asked) == 1


def test_passing_conditions_are_waited_for_and_then_given_up():
    answers = iter(['rain', 'rain', ''])
    c = Condition('weather', lambda: next(answers), watch=lambda: lambda: '')
    assert conditions.wait_for([c], 60) is None
    rain = Condition('rain', lambda: 'rain', watch=lambda: lambda: '')
    assert conditions.wait_for([rain], 0.05) == (rain, 'rain')


def test_every_watch_is_ended():
    ended = []

    def watched(name, says):
        return Condition(name, lambda: '', watch=lambda: lambda: ended.append(name) or says)
    both = [watched('a', 'rain'), watched('b', 'snow'), Condition('permanent', lambda: '')]
    assert conditions.watch(both)() == (both[0], 'rain') and ended == ['a', 'b']
    assert conditions.watch([])() is None


@pytest.mark.parametrize(('all_busy', 'own_busy', 'seconds', 'free'), [
    (2.0, 2.0, 1.0, True),           # all that ran was ours
    (1.0, 1.0, 1.0, True),           # one core of ours, one idle
    (0.0, 0.0, 1.0, True),
    (2.0, 1.5, 1.0, False),          # somebody else, or the host, took half a core
    (2.0, 1.87, 1.0, True),          # less than a tenth of two cores
    (0.9, 1.0, 1.0, True)])          # the two accounts differ by a tick
def test_the_accounting(monkeypatch, all_busy, own_busy, seconds, free):
    monkeypatch.setattr(sys, 'platform', 'linux')
    now, busy, own = iter([0.0, seconds]), iter([0.0, all_busy]), iter([0.0, own_busy])
    monkeypatch.setattr(machine, 'own_cores', lambda: {0, 1})
    monkeypatch.setattr(machine, 'quota', lambda: math.inf)
    monkeypatch.setattr(conditions.time, 'monotonic', lambda: next(now))
    monkeypatch.setattr(conditions, '_all_busy', lambda cores: next(busy))
    monkeypatch.setattr(conditions, 'own_busy', lambda: next(own))
    monkeypatch.setattr(machine, 'shared_cores', lambda k: '')
    assert (conditions._watch_cores()() == '') == free


@pytest.mark.parametrize(('answers', 'reason'), [
    (['', ''], ''), (['shared', ''], 'shared'), (['', 'shared'], 'shared')])
def test_cores_that_are_shared_are_not_free(monkeypatch, answers, reason):
    """Even if nobody took them, by a probe at both ends."""
    monkeypatch.setattr(sys, 'platform', 'linux')
    monkeypatch.setattr(conditions, 'taken', lambda: lambda: 0.0)
    monkeypatch.setattr(machine, 'shared_cores', lambda k: answers.pop(0))
    assert conditions._watch_cores()() == reason


@linux
@pytest.mark.parametrize(('others', 'free'), [(0.1, True), (1.9, False)])
def test_free_cores_are_those_that_this_program_may_use(monkeypatch, others, free):
    monkeypatch.setattr(conditions, 'taken', lambda: lambda: others)
    monkeypatch.setattr(machine, 'own_cores', lambda: set(range(4)))
    monkeypatch.setattr(machine, 'quota', lambda: math.inf)
    condition = conditions.known['free cores']
    assert condition.transient
    assert (condition.probe() == '') == free and (condition.watch()() == '') == free


@pytest.mark.parametrize(('own', 'granted', 'others', 'k', 'reason'), [
    ({0, 1}, math.inf, 0.1, 2, ''),
    ({0, 1}, math.inf, 1.0, 2, 'other work took 1.0 of 2 cores'),       # whatever 62 other cores do
    ({0, 1}, math.inf, 1.0, 1, ''),
    (set(range(64)), 1.5, 0.0, 2, 'this program is granted the time of 1.5 cores'),
    (set(range(64)), 1.5, 40.0, 1, ''),                                 # of others there is enough
    (set(range(64)), 0.5, 0.0, 1, 'this program is granted the time of 0.5 cores'),
    (set(range(64)), 2.0, 62.5, 2, 'other work took 62.5 of 64 cores')])
def test_cores_that_are_not_ours_are_not_free(monkeypatch, own, granted, others, k, reason):
    monkeypatch.setattr(os, 'cpu_count', lambda: 64)
    monkeypatch.setattr(os, 'sched_getaffinity', lambda who: own, raising=False)
    monkeypatch.setattr(machine, 'quota', lambda: granted, raising=False)
    assert conditions.too_few_left(others, k) == reason


STAT = """cpu  1000 20 300 9000 50 6 7 80 90 0
cpu0 100 0 10 500 0 1 2 3 90 0
cpu2 200 10 20 400 50 0 0 40 0 0
cpu11 700 10 270 8100 0 5 5 37 0 0
intr 12345 0 9
ctxt 99
"""


@pytest.mark.parametrize(('cores', 'ticks'), [
    ({0}, 116), ({2}, 270), ({0, 2}, 386), ({11}, 1027),
    ({0, 1}, 1413), (set(), 0)])         # no line for core 1: those of all cores together
def test_the_time_of_some_cores(cores, ticks):
    """Idle time and waiting for a disk are not busy; a core that is off (1) shifts no number."""
    assert conditions._busy(STAT, cores) == ticks


@linux
@pytest.mark.parametrize(('own', 'others'), [({0}, 0.0), ({1}, 0.499), ({0, 1}, 0.498)])
def test_what_others_take_is_counted_where_this_process_may_run(monkeypatch, own, others):
    """In ten seconds, others are busy for five on core 1, and for none on core 0."""
    stat = iter(f'cpu  {n} 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 {n} 0 0 0 0 0 0 0 0 0\n'
                for n in (0, 500))
    now = iter([0.0, 10.0])
    monkeypatch.setattr(conditions.Path, 'read_text', lambda path: next(stat))
    monkeypatch.setattr(os, 'sysconf', lambda name: 100)
    monkeypatch.setattr(conditions.time, 'monotonic', lambda: next(now))
    monkeypatch.setattr(conditions, 'own_busy', lambda: 0.0)
    monkeypatch.setattr(os, 'sched_getaffinity', lambda who: own)
    assert conditions.taken()() == pytest.approx(others)


@linux
@pytest.mark.slow
@pytest.mark.alone
def test_busy_neighbours_are_seen(monkeypatch):
    """As many as there are cores: whatever else the machine does, none is free."""
    # they are this process's children, whose work would count as its own
    monkeypatch.setattr(conditions, 'own_busy', lambda: sum(os.times()[:2]))
    with neighbours(machine.cores()):
        for _ in range(5):
            end = conditions._watch_cores(machine.cores())
            time.sleep(0.2)
            assert 'other work took' in end()


@linux
@pytest.mark.alone
def test_own_work_is_known():
    """Of this thread, and of a child while it lives and after its end."""
    import multiprocessing
    before = conditions.own_busy()
    end = time.thread_time() + 0.2
    while time.thread_time() < end:
        hashlib.sha256(bytes(10 ** 6)).digest()
    assert 0.15 < conditions.own_busy() - before
    child = multiprocessing.get_context('spawn').Process(target=sum, args=(range(2 * 10 ** 7),))
    before = conditions.own_busy()
    child.start()
    child.join()
    assert conditions.own_busy() - before > 0.1


def test_elsewhere_a_probe_at_both_ends(monkeypatch):
    monkeypatch.setattr(sys, 'platform', 'darwin')
    for answers, reason in ((['', ''], ''), (['busy', ''], 'busy'), (['', 'busy'], 'busy')):
        left = list(answers)
        monkeypatch.setattr(machine, 'no_free_cores', lambda k, left=left: left.pop(0))
        assert conditions._watch_cores()() == reason


def test_every_condition_answers_on_this_machine():
    """With a sentence or with nothing; none raises where what it asks for is missing."""
    if machine.version('torch'):
        importlib.import_module('hardware_lab.gpu')
    assert 'direct I/O' in conditions.known
    for c in conditions.known.values():
        assert isinstance(c.probe(), str), c.name
