"""What a figure consists of: its model, its inputs and outputs, and where its measured numbers are."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tested_results import numbers

# What a unit's prefix multiplies by; a model gets numbers without it. A unit that is not here has no prefix.
_prefixed = ('ns', 'µs', 'ms', 's', 'KB', 'MB', 'GB', 'KiB', 'MiB', 'GiB', 'GB/s', 'Mbit/s', 'GFLOP',
             'GFLOP/s', 'TFLOP/s')
UNITS = {unit: numbers.KNOWN[unit][1] for unit in _prefixed} | {'million': 1e6, '%': 0.01}


@dataclass(frozen=True)
class Measured:
    """A measured number, by its name."""

    name: str


@dataclass(frozen=True)
class Printed:
    """A measured number that has no name: it stands in a text that a program has printed.

    Args:
        page: the name of the text.
        text: a regular expression, up to the number; after it come number and unit.
    """

    page: str
    text: str


@dataclass(frozen=True)
class Derived:
    """A number that follows from measured ones."""

    function: Callable[..., float]
    sources: tuple[Measured | Printed, ...]


Source = Measured | Printed | Derived


@dataclass(frozen=True)
class Input:
    """A slider, or with ``choices`` a list of (text, number).

    Args:
        unit: of ``low``, ``high``, ``start`` and ``choices``; the model gets units without prefixes.
        log: equal factors are equal ways of the slider, whose ``low`` is above zero then.
        whole: no fractions.
        measured: where the start is found; ``start`` serves where it is not there.
        more: folded away with the others of its kind, until a reader asks for more.
        play: has buttons that go through its values, one after another.
    """

    name: str
    label: str
    unit: str = ''
    low: float = 0
    high: float = 1
    start: float = 0
    log: bool = True
    whole: bool = False
    choices: tuple[tuple[str, float], ...] = ()
    measured: Source | None = None
    more: bool = False
    play: bool = False

    def __post_init__(self) -> None:
        if self.log and self.low <= 0 and not self.choices:
            raise ValueError(f'the input {self.name!r} goes by equal factors, which never reach '
                             f'low={self.low:g}: give it a low above zero, or log=False')

    @property
    def factor(self) -> float:
        """One ``unit`` in the unit without a prefix."""
        return UNITS.get(self.unit, 1)


@dataclass(frozen=True)
class Output:
    """What the model returns as ``name``. Seconds (``s``) and bytes (``B``) get a fitting prefix."""

    name: str
    label: str
    unit: str = ''


@dataclass(frozen=True)
class Point:
    """A measured point beside the curves, at ``x`` in the unit of the axis."""

    label: str
    x: float
    measured: Source


@dataclass(frozen=True)
class Figure:
    """One figure: curves if ``over`` names an input, a timeline if there are ``lanes``, else bars.

    Args:
        model: from the inputs to a dictionary of outputs; with lanes, also from the round ``i``.
        say: sentences below the figure; ``{name}`` is a value. A dictionary says
            ``text`` if ``when`` is true, else ``none``; or it looks along the curve where ``max`` is
            largest, ``min`` least, or ``last`` not negative for the last time, and says ``end``
            where that is the end of the range, ``one`` at its start, ``none`` where it is nowhere.
        rows: values of ``over`` in the table.
        drawn: names of the outputs that are drawn; all if none is named.
        ideal: a diagonal beside the curve.
        lanes: lane, output of the start, output of the end; for rounds 0 … ``count`` - 1.
        kinds: how many kinds of bars there are; the lanes have them in turn.
        clock: the output with the time up to which the lanes are drawn; all of it if none is named.
        presets: values of inputs, by the text of a button; one that was not measured has no button.
    """

    title: str
    model: Callable[..., dict[str, Any]]
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    say: tuple[str | dict[str, str], ...]
    over: str = ''
    rows: tuple[float, ...] = ()
    drawn: tuple[str, ...] = ()
    log_y: bool = False
    ideal: bool = False
    lanes: tuple[tuple[str, str, str], ...] = ()
    count: str = ''
    kinds: int = 3
    clock: str = ''
    points: tuple[Point, ...] = ()
    presets: dict[str, dict[str, float | Source]] = field(default_factory=dict)

    def starts(self) -> dict[str, float]:
        """The inputs as the figure starts, without prefixes."""
        return {i.name: i.start * i.factor for i in self.inputs}

    def run(self, values: dict[str, float]) -> dict[str, Any]:
        """Inputs and outputs by name; with lanes, of the last round unless ``i`` names another."""
        if self.count:
            values = {'i': values[self.count] - 1, **values}
        return {**values, **self.model(**values)}
