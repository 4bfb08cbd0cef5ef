"""Traces: what ran when and at once, the gaps, and made-up ones to practise on. Knows no framework.

A trace is a list of :class:`Event`. That of a training step has two lanes at least: ``phases``, the named
parts of a step, and ``operators``, the outermost operators of the framework. A GPU's kernels are a third
lane, ``GPU``. The notebook ``chapters/measuring/traces_pytorch.ipynb`` introduces them.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

PHASES = ('load', 'forward', 'backward', 'update')
KINDS = ('overhead', 'input', 'compute')
# Of made-up traces, by kind: how many operators, how long one takes, how long the gap after each is, and
# how long loading takes, in parts of the rest of the step. Times are in microseconds.
RANGES = {'overhead': ((180, 300), (2, 6), (4, 9), (0.01, 0.03)),
          'input': ((40, 80), (60, 300), (3, 8), (0.4, 2.2)),
          'compute': ((40, 80), (400, 2500), (15, 60), (0.001, 0.005))}


class Event(NamedTuple):
    """Something that a lane (a thread or a device) did from ``start`` to ``end``, in seconds."""

    lane: str
    name: str
    start: float
    end: float


def busy(events: list[Event], lane: str) -> list[tuple[float, float]]:
    """The intervals in which a lane is busy, merged and in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted((e.start, e.end) for e in events if e.lane == lane):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def overlap(events: list[Event], a: str, b: str) -> float:
    """Share of the less busy lane's time in which both lanes are busy: 0 in turn, 1 at once."""
    first, second = busy(events, a), busy(events, b)
    if not first or not second:
        raise ValueError(f'no events in the lane {a if not first else b!r}; there are '
                         f'{sorted({e.lane for e in events})}')
    both = sum(max(0.0, min(p[1], q[1]) - max(p[0], q[0])) for p in first for q in second)
    return both / min(sum(end - start for start, end in lane) for lane in (first, second))


def critical_path(events: list[Event], slack: float = 1e-3) -> list[Event]:
    """The chain of events that the end of the last one had to wait for, first to last.

    Going back from the event that ends last, each is preceded by the one that ended last before it
    started, on whatever lane (give or take ``slack`` seconds): where lanes start what is ready, that
    is what it waited for.
    """
    path = [max(events, key=lambda e: e.end)]
    while before := [e for e in events
                     if e.end <= path[-1].start + slack and e.start < path[-1].start]:
        path.append(max(before, key=lambda e: e.end))
    return path[::-1]


def span(events: Sequence[Event]) -> tuple[float, float]:
    """When the first event starts, and when the last one ends, in seconds."""
    return min(e.start for e in events), max(e.end for e in events)


def gaps(events: Sequence[Event], lane: str = 'operators') -> list[tuple[float, float]]:
    """Where nothing runs in a lane: starts and ends in seconds, in order, from the first event of any
    lane to the last."""
    start, end = span(events)
    edges = [start, *(t for interval in busy(list(events), lane) for t in interval), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]


def made_up(kind: str, seed: int | str) -> list[Event]:
    """A trace of one step that no machine has run.

    Args:
        kind: ``'overhead'``, ``'input'`` or ``'compute'``, see :data:`KINDS`.
        seed: the same trace for the same seed.
    """
    draw = random.Random(f'{kind} {seed}')
    many, length, gap, load = RANGES[kind]
    number, longest = draw.randint(*many), draw.uniform(*length)
    work = [(draw.uniform(0.5, 1) * longest, draw.uniform(0.5, 1.5) * draw.uniform(*gap))
            for _ in range(number)]
    loading = draw.uniform(*load) * sum(a + b for a, b in work)
    events, now = [Event('phases', 'load', 0.0, 1e-6 * loading)], loading
    for phase, part in (('forward', work[:number // 3]),
                        ('backward', work[number // 3:-number // 10]), ('update', work[-number // 10:])):
        began = now
        for takes, idle in part:
            events.append(Event('operators', 'aten::made_up', 1e-6 * (now + idle),
                                1e-6 * (now + idle + takes)))
            now += idle + takes
        events.append(Event('phases', phase, 1e-6 * began, 1e-6 * now))
    return events


def mystery(name: str) -> list[Event]:
    """One of three made-up traces, ``'A'``, ``'B'`` or ``'C'``, each of another kind, to be told apart."""
    return made_up(mystery_kinds()[name], name)


def mystery_kinds() -> dict[str, str]:
    """What limits each of the three: look only after you have answered."""
    order = random.Random('mystery')
    return dict(zip('ABC', order.sample(KINDS, 3), strict=True))
