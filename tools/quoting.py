"""Numbers in the text: `[6.0× faster](#hyb-pt-chain)` shows what the stored run, or this machine, measured.

What stands in a link's words is a number in some form. Here is how the form is read, and how another
value is written in it: with the same unit and as many digits.
"""

import math
import re
from dataclasses import dataclass

from tested_results.claims import Claim

DIGITS = 3              # that a measured number shows at most
# Units by what they measure. Others are words for what is counted ("graphs") and fit themselves alone.
UNITS = {
    'time': {'ns': 1e-9, 'µs': 1e-6, 'ms': 1e-3, 's': 1.0, 'min': 60.0, 'h': 3600.0},
    'bytes': {'B': 1, 'bytes': 1, 'kB': 1e3, 'KB': 1e3, 'MB': 1e6, 'GB': 1e9, 'TB': 1e12, 'KiB': 2 ** 10,
              'MiB': 2 ** 20, 'GiB': 2 ** 30},
    'rate': {'B/s': 1, 'kB/s': 1e3, 'MB/s': 1e6, 'GB/s': 1e9, 'TB/s': 1e12, 'Mbit/s': 1e6 / 8,
             'Gbit/s': 1e9 / 8},
    'arithmetic': {'FLOP/s': 1, 'MFLOP/s': 1e6, 'GFLOP/s': 1e9, 'TFLOP/s': 1e12},
    'FLOP': {'FLOP': 1, 'MFLOP': 1e6, 'GFLOP': 1e9, 'TFLOP': 1e12},
}
UNUSUAL = {'h', 'min', 'B', 'kB', 'KiB', 'MiB', 'GiB', 'Mbit/s', 'Gbit/s'}     # not written unasked
KNOWN = {unit: (what, size) for what, units in UNITS.items() for unit, size in units.items()}
_unit = '|'.join(re.escape(u) for u in sorted(KNOWN, key=len, reverse=True))
NUMBER = re.compile(rf'(?<![\w.])(?P<sign>[-−]?)(?P<number>\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)'
                    rf'(?P<unit>×|%|[  ](?:{_unit})(?![\w/])|(?!-[a-z]))')
MORE = re.compile(r'\s*(more|longer|slower|faster|larger|greater|higher)\b')
LESS = re.compile(r'\s*(less|fewer|shorter|smaller|lower|saved)\b')


class Misfit(ValueError):
    """The words of a link do not fit the result that they quote; the message says what to do."""


@dataclass(frozen=True)
class Form:
    """How a number is written: the words around it, its unit, and how many digits it shows."""

    before: str
    after: str
    unit: str
    digits: int
    exact: bool         # a whole number without unit: shown whole if what it quotes is one


def form(words: str) -> Form | None:
    """The form of the number in a link's words; None where there is no number.

    Raises:
        Misfit: there are two numbers.
    """
    found = list(NUMBER.finditer(words))
    if not found:
        return None
    if len(found) > 1:
        raise Misfit(f'"{words}" has {len(found)} numbers, and a link quotes one: make a link of each')
    m = found[0]
    mantissa = re.sub(r'e.*', '', m['number']).replace(',', '')
    digits = len(mantissa.replace('.', '').lstrip('0')) or 1
    if '.' not in mantissa and digits > 1:          # the last zeros of 120 or 1,200 count for nothing
        digits = max(2, len(mantissa.rstrip('0')))
    return Form(words[:m.start()], words[m.end():], m['unit'], min(digits, DIGITS),
                '.' not in m['number'] and 'e' not in m['number'])


def written(x: float, digits: int) -> str:
    """A number with so many digits that count, without an exponent: ``6.0``, ``0.052``, ``1,230``."""
    sign, x = ('−' if x < 0 else ''), abs(x)
    if x == 0:
        return '0'
    if x < 1e-4 or x >= 1e9:
        return sign + re.sub(r'e([-+])0*', lambda m: 'e' + m[1].replace('+', ''), f'{x:.{digits - 1}e}')
    text = f'{x:.{digits}g}' if x < 1 else f'{float(f"{x:.{digits}g}"):.15g}'
    if 'e' in text:
        text = f'{float(text):.15f}'.rstrip('0')
    whole, _, decimals = text.partition('.')
    shown = len((whole.lstrip('0') + decimals).lstrip('0')) if whole.strip('0') or decimals else 1
    if (missing := digits - shown) > 0:
        decimals += '0' * missing
    return sign + f'{int(whole):,}' + (f'.{decimals}' if decimals else '')


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
        return f'{written(value * size / scale, DIGITS)} {best}'
    if unit == '%':
        return f'{written(100 * value, 2)}%'
    number = f'{value:,.0f}' if claim.kind == 'count' and value == round(value) else written(value, 2)
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
        number = written(value, max(2, f.digits) if abs(value) >= 9.5 else f.digits)
        if not unit and claim.kind == 'count' and value == round(value) and (
                f.exact or re.fullmatch(r'−?[\d,]+', number)):        # it would be read as exact
            number = f'{value:,.0f}'
    return f'{f.before}{number}{unit}{f.after}'
