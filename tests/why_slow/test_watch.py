"""Steps, rounds of optimizers, and parts of a step."""

import threading
import weakref
from collections import Counter

import pytest

from why_slow.watch import Ended, Step, Watch, is_ordinary, usual_counts


class Optimizer:
    pass


def rounds(order):
    """After which of the optimizers' steps a step ends; ``order`` names the optimizers."""
    optimizers = {name: Optimizer() for name in set(order)}
    watch = Watch()
    taken, ends = [], []
    watch.end_step = lambda: ends.append(len(taken))
    for name in order:
        watch.optimizer_stepped(optimizers[name])
        taken.append(name)
    return ends


def test_one_optimizer():
    assert rounds('aaa') == [0, 1, 2]


def test_two_in_turn_are_one_step():
    assert rounds('dgdgdgdgdgdgdg')[1:] == [1, 3, 5, 7, 9, 11, 13]


def test_the_rarer_one_ends_a_round():
    ends = rounds('dddgdddgdddgdddgdddg')
    assert ends[-3:] == [11, 15, 19]


def ends_of(passes_before_each_step, has_optimizer, steps=3):
    """After how many backward passes a step ends, where so many come before each step of the optimizer."""
    watch, optimizer = Watch(), Optimizer()
    watch.has_optimizer = lambda: has_optimizer
    ends, passes = [], 0
    watch.end_step = lambda: ends.append(passes)
    for _ in range(steps):
        for _ in range(passes_before_each_step):
            passes += 1
            watch.backward_done()
        if has_optimizer:
            watch.optimizer_stepped(optimizer)
    return ends


def test_backward_passes_before_the_first_step_of_an_optimizer_end_none():
    """Gradients that are accumulated, and the closure of LBFGS."""
    assert ends_of(2, True) == [2, 4, 6]
    assert ends_of(32, True) == [32, 64, 96]


def test_an_optimizer_that_is_not_used_is_none_after_a_while():
    assert ends_of(10, False, steps=1) == [4, 5, 6, 7, 8, 9, 10]
    assert ends_of(202, True, steps=1) == [200, 201, 202, 202]      # it has one, and does not use it


def test_an_optimizer_that_is_not_used_any_more():
    ends = rounds('dg' * 10 + 'd' * 150)
    assert 169 in ends


def test_an_optimizer_made_anew_for_each_task():
    """Ten steps of an inner one, which is gone afterwards, and then one of the outer one."""
    watch = Watch()
    taken, ends, gone = [], [], []
    watch.end_step = lambda: ends.append(len(taken))
    outer = Optimizer()
    for _ in range(20):
        inner = Optimizer()
        for _ in range(10):
            watch.optimizer_stepped(inner)
            taken.append('inner')
        gone.append(weakref.ref(inner))
        watch.optimizer_stepped(outer)
        taken.append('outer')
    assert [taken[number] for number in ends[-15:]] == ['outer'] * 15
    assert sum(one() is not None for one in gone) == 1
    assert len(watch.order) < 20


def test_parts_add_up_and_the_innermost_counts():
    watch = Watch()
    found = []

    def plan():
        while True:
            found.append((yield))

    watch.plan = plan()
    next(watch.plan)
    watch.enter('optimizer')
    watch.enter('forward')
    watch.leave()
    watch.leave()
    watch.end_step()
    assert sum(found[0].parts.values()) == pytest.approx(found[0].seconds, abs=1e-6)
    assert set(found[0].parts) == {'rest', 'optimizer', 'forward'}


def at_the_end_of_its_plan():
    """A watch whose next step is the last."""
    watch = Watch()

    def plan():
        yield

    watch.plan = plan()
    next(watch.plan)
    return watch


def test_the_end_of_the_plan_ends_the_script_and_is_repeated_thrice():
    watch = at_the_end_of_its_plan()
    given_up = []
    watch.given_up = lambda why: given_up.append(True)
    for _ in range(4):
        with pytest.raises(Ended):
            watch.end_step()
    assert not given_up
    watch.end_step()
    watch.end_step()
    assert given_up == [True]


def test_a_thread_of_the_script_is_not_ended():
    """Its end would leave the script waiting for it."""
    watch = at_the_end_of_its_plan()
    given_up = []
    watch.given_up = given_up.append
    finished = []

    def train():
        for _ in range(5):
            watch.optimizer_stepped(Optimizer())
        finished.append(True)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert finished
    assert len(given_up) == 1 and 'thread of its own' in given_up[0]


def test_an_error_of_the_plan_is_not_the_scripts():
    watch = Watch()

    def plan():
        yield
        raise ValueError('ours')

    watch.plan = plan()
    next(watch.plan)
    with pytest.raises(Ended):
        watch.end_step()
    assert str(watch.failure) == 'ours'


def test_without_an_optimizer_a_backward_pass_ends_a_step():
    watch = Watch()
    ends = []
    watch.end_step = lambda: ends.append(True)
    for _ in range(6):
        watch.backward_done()
    assert len(ends) == 3


def test_ordinary_steps():
    steps = [Step(1.0, {}, Counter(forward=1)) for _ in range(5)] + [
        Step(9.0, {}, Counter(forward=1, evaluation=7))
    ]
    usual = usual_counts(steps)
    assert [is_ordinary(step, usual) for step in steps] == [True] * 5 + [False]


def test_a_module_is_not_taken_for_one_that_is_gone():
    """A loss that is made anew in each step has no parameters; a model may get its place in memory."""
    torch = pytest.importorskip('torch')
    from why_slow import torch_hooks

    watch, patches, x = Watch(), torch_hooks.Patches(), torch.ones(1, 2)
    torch_hooks.mark_modules(torch, watch, patches, [torch.nn.Linear(2, 2), torch.nn.MSELoss()])
    watch.active = True
    try:
        kept, net = [], None
        while net is None and len(kept) < 1000:
            loss = torch.nn.MSELoss()
            loss(x, x)
            place = id(loss)
            del loss
            kept.append(torch.nn.Linear(2, 2))
            net = kept[-1] if id(kept[-1]) == place else None
        net(x)
        net(x)
    finally:
        watch.active = False
        patches.restore()
    assert watch.counts['calls of one module'] == 2
