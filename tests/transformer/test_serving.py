"""The server of the small GPT: what it refuses, and that its answers are those of the model alone."""

import pytest
import torch

from small_gpt import model, serving


@pytest.fixture(scope='module')
def net():
    """A small one whose scores lie far apart, so that rounding changes no answer."""
    torch.manual_seed(0)
    net = model.GPT(19, d=16, layers=2, heads=2, context=24).double().eval()
    for p in net.parameters():
        p.data *= 3
    return net


def prompt(*tokens):
    return torch.tensor(tokens)


def alone(net, tokens, n):
    return serving.generate(net, tokens[None], n)[0].tolist()


ORDERS = [(prompt(1, 2, 3), 7), (prompt(4), 20), (prompt(5, 6), 1), (prompt(*range(12)), 5),
          (prompt(7, 8, 9), 12), (prompt(3), 2)]


def test_the_cache_changes_no_token(net):
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    cached, plain = (serving.generate(net, tokens, 21, how) for how in (True, False))
    assert cached.shape == (2, 21) and torch.equal(cached, plain)
    assert len(set(cached.flatten().tolist())) > 3        # a model that repeats one token tests nothing


@pytest.mark.parametrize('continuous', [True, False])
@pytest.mark.parametrize('slots', [1, 2, 8])
def test_each_answer_is_as_if_its_request_came_alone(net, slots, continuous):
    server = serving.Server(net, slots, continuous=continuous)
    requests = [server.submit(*order) for order in ORDERS]
    server.run()
    assert [r.answer for r in requests] == [alone(net, *order) for order in ORDERS]
    assert not server.queue and not any(server.active) and not any(r.error for r in requests)


def test_static_batches_wait_for_the_longest_and_continuous_ones_do_not(net):
    def steps(continuous):
        server = serving.Server(net, 2, continuous=continuous)
        for n in (3, 11, 3, 11):
            server.submit(prompt(1), n)
        return server.run()
    # the first token of an answer comes with the prefill, so n tokens take n - 1 steps
    assert steps(continuous=False) == 10 + 10
    assert steps(continuous=True) == 2 + 2 + 10


def test_times_are_counted_in_steps(net):
    server = serving.Server(net, slots=1)
    first, second = server.submit(prompt(1), 5), server.submit(prompt(2), 3)
    server.step()
    third = server.submit(prompt(3), 1)
    server.run()
    assert [(r.arrived, r.finished) for r in (first, second, third)] == [(0, 4), (0, 6), (1, 6)]
    assert not server.step() and server.steps == 6        # with nothing to do, no step is counted


@pytest.mark.parametrize('tokens, n, why', [
    (prompt(), 3, 'at least one'), (prompt(1), 0, 'at least one'),
    (prompt(*range(19), *range(6)), 1, 'shorten the prompt'), (prompt(1, 2), 24, 'ask for less')])
def test_a_bad_request_is_refused_and_the_others_are_unharmed(net, tokens, n, why):
    server = serving.Server(net, slots=2)
    good = [server.submit(*order) for order in ORDERS[:2]]
    server.step()
    with pytest.raises(ValueError, match=why):
        server.submit(tokens, n)
    server.run()
    assert [r.answer for r in good] == [alone(net, *order) for order in ORDERS[:2]]


def test_a_request_may_fill_the_context_and_not_more(net):
    server = serving.Server(net)
    request = server.submit(prompt(1, 2), 23)             # the last token is written and never read
    server.run()
    assert request.answer == alone(net, prompt(1, 2), 23)


def test_a_full_queue_refuses_the_next_and_keeps_the_others(net):
    server = serving.Server(net, slots=1, waiting=2)
    good = [server.submit(*order) for order in ORDERS[:2]]
    with pytest.raises(serving.QueueFull, match='2 requests wait'):
        server.submit(*ORDERS[2])
    server.step()                                         # one is answered now, so one more may wait
    good.append(server.submit(*ORDERS[2]))
    server.run()
    assert [r.answer for r in good] == [alone(net, *order) for order in ORDERS[:3]]


@pytest.mark.parametrize('continuous', [True, False])
def test_a_request_that_is_cancelled_in_the_middle_leaves_the_others_alone(net, continuous):
    server = serving.Server(net, slots=3, continuous=continuous)
    requests = [server.submit(*order) for order in ORDERS]
    gone = [requests[1], requests[4]]                     # one is being answered, one waits
    server.step()
    server.step()
    for request in gone:
        server.cancel(request)
    written = [len(r.answer) for r in gone]
    server.run()
    assert [len(r.answer) for r in gone] == written == [3, 0]
    assert [(r.error, r.finished) for r in gone] == [('cancelled', 2)] * 2
    for request, order in zip(requests, ORDERS, strict=True):
        if request not in gone:
            assert request.answer == alone(net, *order) and not request.error


def test_a_slot_that_was_cancelled_serves_the_next_from_the_start(net):
    server = serving.Server(net, slots=1)
    gone = server.submit(*ORDERS[1])
    server.step()
    server.cancel(gone)
    request = server.submit(*ORDERS[0])
    server.run()
    assert request.answer == alone(net, *ORDERS[0])


def test_what_is_over_cannot_be_cancelled(net):
    server = serving.Server(net)
    request = server.submit(prompt(1), 3)
    server.run()
    server.cancel(request)
    assert (request.error, request.finished, len(request.answer)) == ('', 2, 3)
