"""Traces: gaps, made-up ones, drawings, and what a profiler has recorded."""

import pytest

from d2l_local import plotting
from tested_results import traces
from tested_results.traces import Event

STEP = [Event('phases', 'load', 1.0, 3.0), Event('phases', 'forward', 3.0, 6.0),
        Event('operators', 'a', 3.5, 5.0), Event('operators', 'b', 4.0, 4.5),
        Event('operators', 'c', 5.25, 5.5)]


def test_gaps_go_from_the_first_event_of_any_lane_to_the_last():
    assert traces.gaps(STEP) == [(1.0, 3.5), (5.0, 5.25), (5.5, 6.0)]
    assert traces.gaps(STEP, 'phases') == []
    assert traces.gaps(STEP, 'GPU') == [(1.0, 6.0)]


@pytest.mark.parametrize('seed', range(20))
def test_made_up_traces_are_of_their_kind(seed):
    share, longest, mean = {}, {}, {}
    for kind in traces.KINDS:
        events = traces.made_up(kind, seed)
        assert events == traces.made_up(kind, seed) != traces.made_up(kind, seed + 1)
        begin, end = traces.span(events)
        idle = [b - a for a, b in traces.gaps(events)]
        share[kind], longest[kind] = sum(idle) / (end - begin), max(idle) / (end - begin)
        took = [e.end - e.start for e in events if e.lane == 'operators']
        mean[kind] = sum(took) / len(took)
        phases = [e for e in events if e.lane == 'phases']
        assert [e.name for e in sorted(phases, key=lambda e: e.start)] == list(traces.PHASES)
        assert all(a.end == pytest.approx(b.start) for a, b in zip(phases, phases[1:], strict=False))
    assert share['compute'] < 0.15 < 0.25 < min(share['overhead'], share['input'])
    assert longest['overhead'] < 0.1 < 0.2 < longest['input']
    assert mean['overhead'] < 1e-5 < mean['input']


def test_the_three_to_tell_apart_are_one_of_each_kind():
    assert sorted(traces.mystery_kinds().values()) == sorted(traces.KINDS)
    assert traces.mystery('A') == traces.made_up(traces.mystery_kinds()['A'], 'A')


def test_a_drawing_marks_the_longest_gap_with_its_length():
    def words(axes):
        return [t.get_text() for t in axes.texts]
    axes = plotting.plot_trace(STEP, 'a step')
    assert words(axes) == ['longest gap: 2.5 s'] and axes.get_title(loc='right') == 'a step'
    assert [t.get_text() for t in axes.get_yticklabels()] == ['phases', 'operators']
    assert words(plotting.plot_trace(STEP, marked='')) == []
    assert words(plotting.plot_trace(STEP, marked='phases')) == [], 'there is none'
    gpu = plotting.plot_trace([*STEP, Event('GPU', 'k', 4.0, 6.0)], marked='GPU')
    assert [t.get_text() for t in gpu.get_yticklabels()] == ['phases', 'operators', 'GPU']
    assert words(gpu) == ['longest gap: 3 s']


def test_operators_of_a_record_are_those_that_no_other_has_called():
    torch = pytest.importorskip('torch')
    from d2l_local import torch as d2l
    layer, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as record:
        with torch.profiler.record_function('forward'):
            y = layer(x)
        with torch.profiler.record_function('backward'):
            y.sum().backward()
    events = d2l.trace_events(record, ['forward', 'backward'])
    phases = {e.name: e for e in events if e.lane == 'phases'}
    first = [e.name for e in events if e.lane == 'operators' and e.end <= phases['forward'].end]
    assert list(phases) == ['forward', 'backward'] and first == ['aten::linear']
    names = [e.name for e in events]
    assert 'aten::addmm' not in names and 'aten::mm' in names, 'within another, and called by autograd'
    assert events == sorted(events, key=lambda e: e.start)
