"""Numbers as a figure shows them; ``live.js`` has the twin."""

import math
from typing import Any

from live_figures.describe import UNITS, Input

# Least value, divisor, name.
TIMES = ((2 * 86400, 86400, 'days'), (7200, 3600, 'h'), (1, 1, 's'), (1e-3, 1e-3, 'ms'),
         (1e-6, 1e-6, 'µs'), (0, 1e-9, 'ns'))
SIZES = ((1e12, 1e12, 'TB'), (1e9, 1e9, 'GB'), (1e6, 1e6, 'MB'), (1e3, 1e3, 'KB'), (0, 1, 'bytes'))


def number(x: float) -> str:
    """About three digits."""
    if x == 0:
        return '0'
    if not math.isfinite(x):
        return '∞'
    size = abs(x)
    if x == math.floor(x) or size >= 99.95:
        digits = 0
    elif size >= 9.995:
        digits = 1
    elif size >= 0.9995:
        digits = 2
    else:
        digits = min(12, 2 - math.floor(math.log10(size)))
    return f'{x * (1 + 1e-12):,.{digits}f}'     # the middle is rounded up, here and in the browser


def with_unit(text: str, unit: str) -> str:
    """A number's text and its unit."""
    space = '' if unit in ('', '%', '×') else ' '
    return f'{text}{space}{unit}'


def show(x: Any, unit: str) -> str:
    """A value, given without a prefix, with its unit; a text as it is."""
    if isinstance(x, str):
        return x
    if unit not in ('s', 'B') or not math.isfinite(x):
        return with_unit(number(x / UNITS.get(unit, 1)), unit)
    if x == 0:
        return '0 s' if unit == 's' else '0 bytes'
    scales = TIMES if unit == 's' else SIZES
    divisor, name = next((d, n) for least, d, n in scales if abs(x) >= least * (1 - 1e-9))
    return f'{number(x / divisor)} {name}'


def shown(x: float, one: Input) -> str:
    """The value of an input, given without a prefix, as its label names it."""
    if one.choices:
        return next(text for text, n in one.choices if n == x)
    x /= one.factor
    return f'{x:,.0f}' if one.whole else number(x)
