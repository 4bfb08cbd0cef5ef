"""How numbers are written, everywhere: units, digits, and how a number in words is read again.

A number that was measured has three digits (:func:`figure`), or as many as somebody asks for
(:func:`write`). A time has a unit that suits it (:func:`seconds`). An exponent is short: ``1.2e-7``.
What is written here and read again (:func:`value`) is written the same.
"""

import math
import re
from dataclasses import dataclass

DIGITS = 3              # that a measured number shows at most
# Units by what they measure, in seconds, bytes, bytes/s, FLOP/s and FLOP. Others are words for what is
# counted ("graphs") and fit themselves alone.
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
KNOWN: dict[str, tuple[str, float]] = {}        # of each unit: what it measures, and its size
for _what, _units in UNITS.items():
    for _name, _size in _units.items():
        KNOWN[_name] = (_what, _size)
# With which unit a time and a size are shown: from the least value on, the divisor and its name.
TIMES = ((2 * 86400, 86400, 'days'), (2 * 3600, 3600, 'h'),
         *((UNITS['time'][unit], UNITS['time'][unit], unit) for unit in ('s', 'ms', 'µs')),
         (0, UNITS['time']['ns'], 'ns'))
SIZES = ((1e12, 1e12, 'TB'), (1e9, 1e9, 'GB'), (1e6, 1e6, 'MB'), (1e3, 1e3, 'KB'), (0, 1, 'bytes'))
_unit = '|'.join(re.escape(u) for u in sorted(KNOWN, key=len, reverse=True))
NUMBER = re.compile(rf'(?<![\w.])(?P<sign>[-−]?)(?P<number>\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)'
                    rf'(?P<unit>×|%|[  ](?:{_unit})(?![\w/])|(?!-[a-z]))')


class Misfit(ValueError):
    """A number in words does not fit what it quotes; the message says what to do."""


# Numbers to words ----------------------------------------------------------------------------------

def _short_exponent(text: str) -> str:
    """``1.2e-07`` as ``1.2e-7``, and ``2.4e+06`` as ``2.4e6``."""
    return re.sub(r'e([-+])0*', lambda m: 'e' + m[1].replace('+', ''), text)


def write(x: float, digits: int) -> str:
    """A number with so many digits that count: ``6.0``, ``0.052``, ``1,230``.

    Below a ten-thousandth, and from a thousand million on, it has an exponent: ``1.2e-7``.
    """
    sign, x = ('−' if x < 0 else ''), abs(x)
    if x == 0:
        return '0'
    rounded = float(f'{x:.{digits}g}')
    if rounded < 1e-4 or rounded >= 1e9:
        return sign + _short_exponent(f'{x:.{digits - 1}e}')
    text = f'{x:.{digits}g}' if x < 1 else f'{rounded:.15g}'
    whole, _, decimals = text.partition('.')
    shown = len((whole.lstrip('0') + decimals).lstrip('0')) if whole.strip('0') or decimals else 1
    missing = digits - shown
    if missing > 0:
        decimals += '0' * missing
    point = f'.{decimals}' if decimals else ''
    return f'{sign}{int(whole):,}{point}'


def figure(x: float) -> str:
    """A measured number with three digits, or all before the point: ``14.8``, ``1,050``, ``2.4e-7``.

    Below a thousandth, and from a thousand million on, it has two digits and an exponent.
    """
    size = abs(x)
    if size == 0 or not math.isfinite(x) or float(f'{size:.2g}') < 1e-3 or round(size) >= 1e9:
        return _short_exponent(f'{x:.2g}')
    rounded = float(f'{size:.3g}')        # 9.996 has three digits as 10.0
    decimals = max(0, 2 - math.floor(math.log10(rounded)))
    return f'{x:,.{decimals}f}'


def plain(x: float) -> str:
    """A number of a model: three digits as :func:`figure`, a whole one without a point, and no exponent.

    ``live.js`` of ``live_figures`` has the twin.
    """
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


def guess(x: float) -> str:
    """A number that somebody typed, to three digits, without zeros at its end: ``3``, ``0.25``, ``1,230``.

    ``predict.js`` of the book's pages has the twin of this and of :func:`factor`.
    """
    number, e, exponent = write(x, DIGITS).partition('e')
    if '.' in number:
        number = number.rstrip('0').rstrip('.')
    return f'{number}{e}{exponent}'


def factor(x: float) -> str:
    """By which factor a guess is off: ``1.40``, from ten on as :func:`guess`."""
    return f'{x:.2f}' if x < 10 else guess(x)


def seconds(t: float) -> str:
    """A time with a unit that suits it and three digits: ``12.3 µs``, ``1,234 s``."""
    rounded = abs(float(f'{t:.3g}'))        # 999.7 µs have three digits as 1 ms
    if rounded >= 1000:
        return f'{t:,.0f} s'
    for unit in ('s', 'ms', 'µs'):
        size = UNITS['time'][unit]
        if rounded >= size:
            return f'{t / size:.3g} {unit}'
    return _short_exponent(f'{t / 1e-9:.3g} ns')


def with_unit(text: str, unit: str) -> str:
    """A number's text and its unit: ``6.02×``, ``45.0%``, ``12 graphs``."""
    space = '' if unit in ('', '%', '×') else ' '
    return f'{text}{space}{unit}'


def show(x: float, unit: str) -> str:
    """A measured value with its unit: ``6.02×``, ``12.3 µs``, ``45.0%``, ``39.2 GB/s``, ``12.0 graphs``.

    Args:
        unit: ``'s'`` is turned into the unit that suits the time, and ``'%'`` multiplies by 100.
    """
    if unit == 's':
        return seconds(x)
    if unit == '%':
        return with_unit(figure(100 * x), unit)
    return with_unit(figure(x), unit.strip())


def counted(x: float, unit: str) -> str:
    """A value that no clock gave, with its unit: whole where it is a whole number, ``12 graphs``."""
    if unit == '%' or abs(x) >= 1e15 or x != round(x):
        return show(x, unit)
    number = f'{x:,.0f}'
    return f'{number}{unit}' if unit == '×' else f'{number} {unit}'.strip()


def measured(x: float, unit: str = '', form: str = '') -> str:
    """A measured figure as text, with the mark ≈ that says so: ``≈12.3 µs``, ``≈3.10×``, ``≈64.0%``.

    What is marked may differ from run to run, and a check does not compare it. Everything else
    that a cell prints is compared, so whatever comes from a clock must be printed by this.

    Args:
        unit: ``'s'`` is turned into the unit that suits the time; ``'%'`` multiplies by 100.
        form: a format such as ``'.2f'``; about three digits without one.
    """
    if unit == 's' and not form:
        return f'≈{seconds(x)}'
    x = 100 * x if unit == '%' else x
    text = format(x, form) if form else figure(x)
    return f'≈{with_unit(text, unit)}'


# Words to numbers ----------------------------------------------------------------------------------

def value(words: str) -> float:
    """The number in words, in seconds, bytes and so on where its unit is a known one.

    Raises:
        Misfit: there is no number, or there are two.
    """
    found = list(NUMBER.finditer(words))
    if len(found) != 1:
        raise Misfit(f'"{words}" has {len(found)} numbers, and must have one')
    number = float(found[0]['number'].replace(',', ''))
    unit = found[0]['unit'].strip()
    size = KNOWN[unit][1] if unit in KNOWN else 1.0
    return (-number if found[0]['sign'] else number) * size


@dataclass(frozen=True)
class Form:
    """How a number is written: the words around it, its unit, and how many digits it shows."""

    before: str
    after: str
    unit: str
    digits: int
    exact: bool         # a whole number without unit: shown whole if what it quotes is one


def form(words: str) -> Form | None:
    """The form of the number in words; None where there is no number.

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
