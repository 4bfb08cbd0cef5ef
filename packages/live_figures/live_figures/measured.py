"""Measured numbers, and a figure that starts from them."""

import math
import re
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from live_figures.describe import UNITS, Derived, Figure, Input, Measured, Printed, Source

# A number, with commas between thousands or none, and on the same line its unit. What a sentence puts
# behind them is no part of them; what is no single number, such as a range, is not found.
PRINTED = (r'≈?\s*((?>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?))'
           r'(?![\d.,]*\d|\s*[–-]\s*\d)[^\S\n]*([^\s;,()]*)')


class Number(NamedTuple):
    """A measured number, in its unit without a prefix, and the page that has measured it."""

    value: float
    page: str


@dataclass(frozen=True)
class Measurements:
    """What has been measured.

    Args:
        numbers: by name.
        texts: what programs have printed, by page.
    """

    numbers: dict[str, Number] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def find(self, source: Source) -> Number | None:
        """The number, or None where it is not there or not positive and finite."""
        if isinstance(source, Derived):
            number = self._derived(source)
        elif isinstance(source, Printed):
            number = self._printed(source)
        else:
            number = self.numbers.get(source.name)
        if number is None or not 0 < number.value < math.inf:
            return None
        return number

    def _derived(self, source: Derived) -> Number | None:
        numbers = [self.find(one) for one in source.sources]
        if None in numbers:
            return None
        try:
            value = source.function(*(n.value for n in numbers))
        except ZeroDivisionError:
            return None
        return Number(value, numbers[0].page)

    def _printed(self, source: Printed) -> Number | None:
        match = re.search(f'(?:{source.text}){PRINTED}', self.texts.get(source.page, ''))
        if match is None:
            return None
        digits, unit = match.groups()[-2:]      # what stands before may have groups of its own
        return Number(float(digits.replace(',', '')) * UNITS.get(unit.rstrip('.:!?'), 1), source.page)


class Start(NamedTuple):
    """A figure with what was measured.

    Args:
        figure: as it starts.
        points: measured ones, for the script.
        names: of the inputs that were measured.
        pages: that have what was measured.
        absent: labels of what should have been measured and was not.
    """

    figure: Figure
    points: list[dict]
    names: set[str]
    pages: set[str]
    absent: list[str]


def with_start(one: Input, number: Number) -> Input:
    """An input that starts at a measured number; the slider widens where the number lies beyond it."""
    value = number.value / one.factor
    if one.whole:
        value = max(1, round(value))
    return replace(one, start=value, low=min(one.low, value), high=max(one.high, value))


def start(figure: Figure, found: Measurements) -> Start:
    """A figure whose inputs, points and presets have what was measured; the figure itself stays as it is."""
    begin = Start(figure, [], set(), set(), [])
    inputs = []
    for one in figure.inputs:
        number = found.find(one.measured) if one.measured else None
        if number:
            one = with_start(one, number)
            begin.names.add(one.name)
            begin.pages.add(number.page)
        elif one.measured:
            begin.absent.append(one.label)
        inputs.append(one)
    for point in figure.points:
        number = found.find(point.measured)
        if number:
            begin.points.append({'label': point.label, 'x': point.x, 'y': number.value})
            begin.pages.add(number.page)
        elif point.label:
            begin.absent.append(point.label)
    presets = {}
    factors = {i.name: i.factor for i in inputs}
    for text, values in figure.presets.items():
        sources = {name: x for name, x in values.items() if isinstance(x, Measured | Printed | Derived)}
        numbers = {name: found.find(source) for name, source in sources.items()}
        if None in numbers.values():
            begin.absent.append(text)
            continue
        begin.pages.update(number.page for number in numbers.values())
        label = f'≈ {text}' if numbers else text
        presets[label] = {**values, **{name: n.value / factors[name] for name, n in numbers.items()}}
    return begin._replace(figure=replace(figure, inputs=tuple(inputs), presets=presets))
