"""Traces: the gaps in one, and made-up ones to practise on. Knows no framework.

A trace is a list of :class:`d2l_local.timing.Event` with two lanes at least: ``phases``, the named parts
of a step, and ``operators``, the outermost operators of the framework. A GPU's kernels are a third lane,
``GPU``. The notebook ``chapters/measuring/traces_pytorch.ipynb`` introduces them.
"""

import random
from collections.abc import Sequence

from d2l_local.timing import Event, busy

PHASES = ('load', 'forward', 'backward', 'update')
KINDS = ('overhead', 'input', 'compute')
# Of made-up traces, by kind: how many operators, how long one takes, how long the gap after each is, and
# how long loading takes, in parts of the rest of the step. Times are in microseconds.
RANGES = {'overhead': ((180, 300), (2, 6), (4, 9), (0.01, 0.03)),
          'input': ((40, 80), (60, 300), (3, 8), (0.4, 2.2)),
          'compute': ((40, 80), (400, 2500), (15, 60), (0.001, 0.005))}


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
