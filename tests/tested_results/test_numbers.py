"""How numbers are written: what is written and read again is written the same, at every size."""

import math
import random

import pytest

from tested_results import numbers
from tested_results.numbers import Misfit

# Twenty-four powers of ten, with what lies just below and above each, and numbers between them.
POWERS = [10.0 ** k for k in range(-12, 12)]
RANDOM = random.Random(0)
EDGES = [power * near for power in POWERS
         for near in (0.9949, 0.995, 0.9951, 0.9994, 0.9995, 0.99951, 0.99996, 1, 1.0004, 1.005, 9.9951)]
BETWEEN = [10 ** RANDOM.uniform(-12, 12) for _ in range(3000)]
WRITERS = [numbers.figure, numbers.guess, numbers.seconds, numbers.measured,
           *(lambda x, digits=digits: numbers.write(x, digits) for digits in (1, 2, 3)),
           *(lambda x, unit=unit: numbers.show(x, unit) for unit in ('s', '×', 'GB/s', 'graphs')),
           lambda x: numbers.measured(x, 's')]


@pytest.mark.parametrize('write', WRITERS)
def test_what_is_written_and_read_again_is_written_the_same(write):
    for x in (*EDGES, *BETWEEN):
        once = write(x)
        again = numbers.value(once)
        unit = once.rpartition(' ')[2]
        if unit == 'GB/s':
            again /= numbers.KNOWN[unit][1]     # it was written as a number of GB/s
        assert write(again) == once, x
        assert math.isclose(again, x, rel_tol=0.5), x


@pytest.mark.parametrize('write', WRITERS)
def test_no_exponent_has_a_plus_or_a_zero_before_it(write):
    for x in (*EDGES, *BETWEEN, 1e30, 1e300, 1e-30):
        assert 'e+' not in write(x) and 'e0' not in write(x) and 'e-0' not in write(x), x


@pytest.mark.parametrize('write', [numbers.figure, numbers.seconds])
def test_a_number_below_zero_is_written_as_its_opposite(write):
    for x in BETWEEN[:300]:
        assert write(-x) == f'-{write(x)}'


@pytest.mark.parametrize('x', [0.0, 1.0, 7.0, 1230.0, 15329.0, 123456789.0, 12345678901.0])
def test_what_is_counted_is_written_whole(x):
    text = numbers.counted(x, 'graphs')
    assert numbers.value(text) == x and numbers.counted(numbers.value(text), 'graphs') == text


@pytest.mark.parametrize(('x', 'text'), [
    (3.0, '3'), (0.25, '0.25'), (1230, '1,230'), (0.0025, '0.0025'), (5e30, '5e30'), (1.25e-7, '1.25e-7'),
    (100, '100')])
def test_a_guess_is_written_as_it_was_typed(x, text):
    assert numbers.guess(x) == text


@pytest.mark.parametrize(('x', 'text'), [(1.4, '1.40'), (12.34, '12.3'), (5e30, '5e30')])
def test_a_factor_has_two_digits_after_the_point_or_three_in_all(x, text):
    assert numbers.factor(x) == text


@pytest.mark.parametrize(('words', 'value'), [
    ('6.0× faster', 6.0), ('takes 120 µs', 120e-6), ('1,234 s', 1234.0), ('−3.5', -3.5), ('2 GB/s', 2e9),
    ('1.2e-7', 1.2e-7)])
def test_a_number_in_words_is_read(words, value):
    assert math.isclose(numbers.value(words), value)


@pytest.mark.parametrize('words', ['much faster', '3 of 4'])
def test_words_that_have_no_number_or_two_are_refused(words):
    with pytest.raises(Misfit, match=r'has [02] numbers, and must have one'):
        numbers.value(words)


def test_a_unit_has_one_size():
    assert len(numbers.KNOWN) == sum(map(len, numbers.UNITS.values()))
    for least, divisor, name in (*numbers.TIMES, *numbers.SIZES):
        assert least in (0, divisor, 2 * divisor)
        assert name in ('days', *numbers.KNOWN) and numbers.KNOWN.get(name, ('', 86400))[1] == divisor
