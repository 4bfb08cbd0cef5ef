"""Hot spots: the lines of the script that take most of a step, whether or not a finding speaks of them.

The samples say on which line the script is, with two flaws that are mended here. A signal is handled at the
next call, so a line of operators such as ``a * b`` is seen on a later one: the look at lines, which times
each call of PyTorch, says where these belong. And during the whole backward pass the script is on the line
that calls it: its time is shared out among the lines that made the nodes of its graph, for autograd numbers
the nodes as they are made, and the profiler says how long each took.
"""

import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from why_slow import looks

SHOWN = 6  # lines at most
LEAST = 0.04  # of a step: what takes less is not shown
SAMPLES = 20  # fewer say nothing about lines


class Recorder:
    """Which line of the script makes which nodes of autograd's graph, for one step."""

    def __init__(self, torch: Any, on_call: Callable[[Any, tuple, Any], None]) -> None:
        self.torch = torch
        # called after each function of PyTorch, with it, its arguments and the frame of its caller
        self.on_call = on_call
        self.mode: Any = None
        self.firsts: list[int] = []  # of each call of PyTorch that made nodes, the number of the first one
        self.calls: list[tuple[int, tuple | None]] = []  # and the number after the last one, and the line

    def start(self) -> None:
        """Begin to note the nodes, between two steps."""
        recorder = self
        next_number = self.torch.autograd._get_sequence_nr

        class Mode(self.torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                first = next_number()
                result = function(*args, **(kwargs or {}))
                after = next_number()
                recorder.on_call(function, args, sys._getframe(1))
                if after > first:
                    recorder.firsts.append(first)
                    recorder.calls.append((after, looks.scripts_line(sys._getframe(1))))
                return result

        self.mode = Mode()
        self.mode.__enter__()

    def stop(self) -> None:
        """End it, between two steps."""
        self.mode.__exit__(None, None, None)

    def line_of(self, node: int) -> tuple | None:
        """The line that made the node with this number, if that was seen."""
        call = bisect_right(self.firsts, node) - 1
        if call < 0:
            return None
        after, line = self.calls[call]
        return line if node < after else None


@dataclass
class Spent:
    """Seconds of a step on a line: in calls of the framework, and in other code."""

    calls: float = 0.0
    other: float = 0.0

    @property
    def seconds(self) -> float:
        """In all."""
        return self.calls + self.other


def by_line(
    samples: looks.Samples, calls: dict[tuple, Any], parts: dict[str, float]
) -> dict[tuple[str, tuple | None], Spent]:
    """Where the time of a step goes, by part and line; the line is None where none of the script is known.

    Args:
        samples: where the script was; they divide each part among its lines.
        calls: of the framework in one step, by line, name and part.
        parts: seconds of each part of a step, on average.
    """
    sampled: dict[str, Counter] = defaultdict(Counter)
    for (part, places, _), seconds in samples.found.items():
        sampled[part][places[0][:2] if places else None] += seconds
    called: dict[str, Counter] = defaultdict(Counter)
    for (line, _, part), one in calls.items():
        called[part][line] += one.seconds
    spent: dict[tuple[str, tuple | None], Spent] = defaultdict(Spent)
    for part, lines in sampled.items():
        scale = parts.get(part, 0.0) / sum(lines.values())
        _add_part(spent, part, {line: scale * seconds for line, seconds in lines.items()}, called[part])
    return spent


def _add_part(spent: dict, part: str, sampled: dict, called: Counter) -> None:
    """The calls keep their time. What the samples have in addition belongs to other code, on those lines on
    which they have more than the calls."""
    whole, in_calls = sum(sampled.values()), sum(called.values())
    scale = min(1.0, whole / in_calls) if in_calls else 0.0
    more = {line: max(0.0, seconds - called[line]) for line, seconds in sampled.items()}
    other = (whole - scale * in_calls) / (sum(more.values()) or 1.0)
    for line, seconds in called.items():
        spent[part, line].calls += scale * seconds
    for line, seconds in more.items():
        spent[part, line].other += other * seconds


@dataclass
class HotSpot:
    """A line of the script, and its share of the time of a step, with what the backward pass does for it."""

    line: str
    text: str
    share: float

    def to_dict(self) -> dict:
        return asdict(self)


def line_seconds(spent: dict, backward: Counter) -> Counter:
    """Seconds of a step by line, with what the backward pass does for the line; of None, what no line of the
    script is known for.

    Args:
        spent: what :func:`by_line` made of the samples.
        backward: seconds of the nodes of one backward pass by the line that made them, or by None.
    """
    whole = sum(backward.values())
    shares = {line: seconds / whole for line, seconds in backward.items() if line is not None}
    left = 1.0 - sum(shares.values())  # of the backward pass: stays on the line that calls it
    found: Counter = Counter()
    for (part, line), one in spent.items():
        if part != 'backward':
            found[line] += one.seconds
            continue
        found[line] += left * one.seconds
        for maker, share in shares.items():
            found[maker] += share * one.seconds
    return found


def hot_spots(spent: dict, backward: Counter) -> list[HotSpot]:
    """The lines that take most of a step, the one that takes most first; see :func:`line_seconds`."""
    found = line_seconds(spent, backward)
    step = sum(found.values())
    found.pop(None, None)
    return [
        HotSpot(looks.named(line), looks.text_of(line), seconds / step)
        for line, seconds in found.most_common(SHOWN)
        if seconds >= LEAST * step
    ]
