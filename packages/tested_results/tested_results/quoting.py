"""Numbers in a text: `[6.0× faster](#hyb-pt-chain)` shows what the stored run, or this machine, measured.

What stands in a link's words is a number in some form. Here is how another result's value is written in it:
with the same unit and as many digits.
"""

import math
import re

from tested_results.claims import Claim
from tested_results.numbers import DIGITS, KNOWN, UNITS, UNUSUAL, Form, Misfit, form, write

MORE = re.compile(r'\s*(more|longer|slower|faster|larger|greater|higher)\b')
LESS = re.compile(r'\s*(less|fewer|shorter|smaller|lower|saved)\b')


def value_in(claim: Claim, part: str, f: Form) -> float:
    """What a link quotes, in the unit of its form.

    Raises:
        Misfit: the result has no such part, or no figure in such a unit.
    """
    value, unit = claim.value if claim.value is None else claim.clipped(claim.value), claim.unit
    if part:
        if part not in claim.parts:
            raise Misfit(f'{claim.id!r} has no time of {part!r}; it has '
                         f'{", ".join(claim.parts) or "none"}')
        value, unit = claim.parts[part], 's'
    assert value is not None
    wanted = f.unit.strip()
    if wanted == '%':
        if unit == '%':
            return 100 * value
        if unit == '×' and MORE.match(f.after):
            return 100 * (value - 1)
        if unit == '×' and LESS.match(f.after):
            return 100 * (1 - 1 / value)
    elif wanted == '×':
        if unit == '×':
            return value
    elif wanted:
        if unit in KNOWN and KNOWN[unit][0] == KNOWN[wanted][0]:
            return value * KNOWN[unit][1] / KNOWN[wanted][1]
    elif unit not in KNOWN and unit != '%':
        return value
    raise Misfit(f'{claim.id!r} is measured in {unit or "no unit"}, which {wanted or "a bare number"} does '
                 f'not fit: write {default(claim, part)!r}')


def default(claim: Claim, part: str = '') -> str:
    """A result as a link quotes it if nothing is asked of its form."""
    value, unit = (claim.parts[part], 's') if part in claim.parts else (claim.value, claim.unit)
    if value is None:
        return claim.verdict
    if unit in KNOWN:
        what, size = KNOWN[unit]
        fitting = [(u, s) for u, s in UNITS[what].items() if u not in UNUSUAL and abs(value) * size >= s]
        best, scale = max(fitting or [min(UNITS[what].items(), key=lambda i: i[1])], key=lambda i: i[1])
        return f'{write(value * size / scale, DIGITS)} {best}'
    if unit == '%':
        return f'{write(100 * value, 2)}%'
    number = f'{value:,.0f}' if claim.kind == 'count' and value == round(value) else write(value, 2)
    return f'{number}{"×" if unit == "×" else ""}'


def rendered(words: str, claim: Claim, part: str = '') -> str:
    """A link's words with this result in the place of the number that they have.

    Words without a number stay as they are. A time or a size that would be shown with more than four
    digits before the point, or below a hundredth, changes its unit.

    Raises:
        Misfit: see :func:`value_in`.
    """
    f = form(words)
    if f is None or claim.value is None and not (part and part in claim.parts):
        return words
    value = value_in(claim, part, f)
    unit = f.unit
    if not math.isfinite(value):
        return f'{f.before}∞{unit}{f.after}'
    if unit.strip() in KNOWN and value and not 0.01 <= abs(value) < 10000:
        number, unit = default(claim, part), ''
    else:
        number = write(value, max(2, f.digits) if abs(value) >= 9.5 else f.digits)
        if not unit and claim.kind == 'count' and value == round(value) and (
                f.exact or re.fullmatch(r'−?[\d,]+', number)):        # it would be read as exact
            number = f'{value:,.0f}'
    return f'{f.before}{number}{unit}{f.after}'
