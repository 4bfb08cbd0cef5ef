"""Numbers as a figure shows them; ``live.js`` has the twin of :func:`show`."""

import math
from typing import Any

from live_figures.describe import UNITS, Input
from tested_results.numbers import SIZES, TIMES, plain, with_unit

SCALES = {'s': TIMES, 'B': SIZES}       # with these units the prefix follows from the value


def show(x: Any, unit: str) -> str:
    """A value, given without a prefix, with its unit; a text as it is."""
    if isinstance(x, str):
        return x
    if unit not in SCALES or not math.isfinite(x):
        return with_unit(plain(x / UNITS.get(unit, 1)), unit)
    if x == 0:
        return '0 s' if unit == 's' else '0 bytes'
    divisor, name = next((d, n) for least, d, n in SCALES[unit] if abs(x) >= least * (1 - 1e-9))
    return f'{plain(x / divisor)} {name}'


def shown(x: float, one: Input) -> str:
    """The value of an input, given without a prefix, as its label names it."""
    if one.choices:     # a number that was measured may lie between them
        text, _ = min(one.choices, key=lambda choice: abs(choice[1] * one.factor - x))
        return text
    x /= one.factor
    return f'{x:,.0f}' if one.whole else plain(x)
