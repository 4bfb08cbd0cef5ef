"""The lines that take most of a step."""

from collections import Counter

import pytest

from tests.why_slow.scripts import HEAD, ids, training, watched

torch = pytest.importorskip('torch')

from why_slow import looks  # noqa: E402
from why_slow.hot_spots import Recorder, by_line, hot_spots  # noqa: E402

FORWARD, LOSS, BACKWARD = ('train.py', 1), ('train.py', 2), ('train.py', 3)


def samples(**parts):
    """Samples with seconds by part: each part has a line of its own."""
    lines = {'forward': FORWARD, 'rest': LOSS, 'backward': BACKWARD}
    found = looks.Samples(None)
    for part, seconds in parts.items():
        found.found[part, ((*lines[part], 'train'),), ('train.py', 'train')] = seconds
    return found


def shares(taken, nodes=(), **parts):
    """The hot spots with their shares; the parts take as long as they were sampled, unless they are given."""
    found = {part: seconds for (part, _, _), seconds in taken.found.items()}
    spent = by_line(taken, {}, {**found, **parts})
    return {spot.line: round(spot.share, 6) for spot in hot_spots(spent, Counter(nodes))}


def test_the_backward_pass_is_shared_out_by_what_its_nodes_take():
    found = shares(samples(forward=3.0, rest=1.0, backward=4.0), {FORWARD: 1.0, LOSS: 3.0})
    assert found == {'train.py:1': 0.5, 'train.py:2': 0.5}


def test_nodes_of_no_line_stay_where_the_backward_pass_is_called():
    found = shares(samples(forward=4.0, backward=4.0), {FORWARD: 1.0, None: 3.0})
    assert found == {'train.py:1': 0.625, 'train.py:3': 0.375}
    found = shares(samples(forward=1.0, backward=3.0))
    assert found == {'train.py:3': 0.75, 'train.py:1': 0.25}


def test_what_a_signal_finds_too_late_goes_back_to_the_line_that_called():
    """The samples see all of a part on the last line, and the calls were on the one before."""
    taken = looks.Samples(None)
    taken.found['rest', (('train.py', 3, 'train'),), ('train.py', 'train')] = 12.0
    noted = {
        (('train.py', 1), 'mul', 'rest'): looks.Calls(seconds=9.0),
        (('train.py', 3), 'zeros', 'rest'): looks.Calls(seconds=1.0),
    }
    spent = by_line(taken, noted, {'rest': 12.0})
    assert (spent['rest', ('train.py', 1)].calls, spent['rest', ('train.py', 1)].other) == (9.0, 0.0)
    assert (spent['rest', ('train.py', 3)].calls, spent['rest', ('train.py', 3)].other) == (1.0, 2.0)


def test_calls_of_a_step_that_was_disturbed_do_not_take_more_than_was_sampled():
    taken = looks.Samples(None)
    taken.found['forward', (('train.py', 1, 'train'),), ('train.py', 'train')] = 4.0
    noted = {
        (('train.py', 1), 'mul', 'forward'): looks.Calls(seconds=6.0),
        (('train.py', 2), 'mul', 'forward'): looks.Calls(seconds=2.0),
    }
    spent = by_line(taken, noted, {'forward': 4.0})
    assert [spent['forward', ('train.py', line)].calls for line in (1, 2)] == [3.0, 1.0]
    assert sum(one.other for one in spent.values()) == 0.0


def test_a_line_that_takes_little_is_not_shown():
    assert shares(samples(forward=97.0, rest=3.0)) == {'train.py:1': 0.97}


def test_the_samples_divide_each_part_as_long_as_it_was_timed():
    taken = samples(forward=3.0, rest=1.0)
    assert shares(taken, forward=2.0, rest=2.0) == {'train.py:1': 0.5, 'train.py:2': 0.5}


def test_each_node_is_known_by_the_line_that_made_it():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return 2 * x

        @staticmethod
        def backward(context, gradient):
            return 2 * gradient

    weight = torch.ones(3, requires_grad=True)
    before = weight.exp()
    recorder = Recorder(torch, lambda function, arguments, frame: None)
    recorder.start()
    try:
        first = before.exp()
        second = torch.nn.functional.gelu(first).sin()
        own = Double.apply(second)
        last = own.cos()
    finally:
        recorder.stop()
    lines = [recorder.line_of(x.grad_fn._sequence_nr()) for x in (before, first, second, own, last)]
    assert lines[0] is None and lines[3] is None  # made before, and by no function of PyTorch
    assert [line[1] - lines[1][1] for line in (lines[1], lines[2], lines[4])] == [0, 1, 3]
    assert lines[1][0] == __file__


PENALTY = '''

def masked(x):
    wide = x.repeat(64, 8)
    keep = (wide > 0) & (wide * wide > 0.5) & (wide + wide < 3) & (wide - 1 < 2)
    return torch.zeros(1).sum() + keep[0, 0]


def penalty(x):
    smooth = nn.functional.avg_pool1d(x.repeat(32, 1)[:, None], 63, stride=1, padding=31)
    steep = net(x).repeat(64, 8).cumprod(1).square()
    return smooth.mean() + steep.mean() + 0 * masked(x)
'''


@pytest.mark.alone  # it is about seconds
@pytest.mark.slow
def test_what_no_finding_knows_is_seen_in_the_lines_that_take_most(tmp_path):
    text = training(head=HEAD + PENALTY, loss='loss_function(net(x), y) + penalty(x)')
    _, report = watched(tmp_path, text, seconds=6.0)
    spots = {spot['text'].split(' = ')[0]: spot['share'] for spot in report['lines']}
    # The first has no backward pass, the second is mostly its backward pass, and the third has no call, so
    # the samples are all on the line after it.
    assert {'smooth', 'steep', 'keep'} <= set(spots)
    assert not any('backward' in words for words in spots)
    assert sum(spots.values()) <= 1.001
    assert 'gaps' not in ids(report)


@pytest.mark.alone
@pytest.mark.slow
def test_calls_that_only_some_steps_make_are_no_gap(tmp_path):
    head = '''

def echo(x):
    if len(seen) % 8 in (3, 4):  # the steps that are looked at do not come here
        return x
    return nn.functional.conv1d(x.repeat(8, 1)[:, None], kernel, padding=31)[:64, 0, :64]


kernel, seen = torch.randn(1, 1, 63), []
'''
    _, report = watched(tmp_path, training(head=HEAD + head, loss='loss_function(net(echo(x)), y)'), 6.0)
    assert 'gaps' not in ids(report)
