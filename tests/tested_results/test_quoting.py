"""Numbers in the text: how they are read, and how another run's stand in their place."""

import math
import random

import pytest

from tested_results import numbers, quoting
from tested_results.claims import Claim
from tested_results.numbers import Misfit
from tested_results.quoting import rendered
from tests.tools.small import counted, ratio


def figure(value, unit):
    return Claim('a-b', 'figure', 'holds', unit, above=1.0, value=value, low=value, high=value, where={},
                 machine='')


def fact():
    return Claim('a-b', 'fact', 'holds', where={}, machine='')


@pytest.mark.parametrize(('words', 'result', 'now'), [
    ('6.0× faster', ratio(7.314), '7.3× faster'),               # as many digits as there are
    ('6× faster', ratio(7.314), '7× faster'),
    ('6× faster', ratio(73.14), '73× faster'),                  # and two at least from ten on
    ('6.02×', ratio(7.3149), '7.31×'),
    ('6.0216×', ratio(7.3149), '7.31×'),                        # three are enough
    ('6.0× as long', ratio(1234.0), '1,200× as long'),
    ('takes **6.0× longer**', ratio(0.5), 'takes **0.50× longer**'),
    ('52% slower', ratio(1.314), '31% slower'),
    ('52% more', ratio(2.5), '150% more'),
    ('52% longer', ratio(0.9), '−10% longer'),
    ('52% less', ratio(4.0), '75% less'),
    ('saves 52% shorter', ratio(1.25), 'saves 20% shorter'),
    ('52% of the time', figure(0.314, '%'), '31% of the time'),
    ('1.0 ms', figure(2.5e-3, 's'), '2.5 ms'),
    ('900 µs', figure(1.3e-3, 's'), '1,300 µs'),
    ('900 µs', figure(3.0, 's'), '3.00 s'),                     # another unit where it would be long
    ('3.0 s', figure(4.4e-6, 's'), '4.40 µs'),
    ('2 min', figure(300.0, 's'), '5 min'),
    ('12 GB/s', figure(9.3, 'GB/s'), '9.3 GB/s'),
    ('12 GB/s', figure(9.3e9, 'B/s'), '9.3 GB/s'),
    ('1.2 GFLOP/s', figure(3.4e12, 'FLOP/s'), '3,400 GFLOP/s'),
    ('231 MB more', counted(7_340_032, 'bytes'), '7.34 MB more'),
    ('231 MB', counted(1000, 'MB'), '1,000 MB'),
    ('3 graphs', counted(15_329, 'graphs'), '15,329 graphs'),   # counts are whole
    ('3', counted(1_234_567), '1,234,567'),
    ('2.4e-07', counted(3.06e-9), '3.1e-9'),
    ('0', counted(0.25), '0.2'), ('3 graphs', counted(0), '0 graphs'),
    ('two graphs', counted(3, 'graphs'), 'two graphs'),         # no number: it stays
    ('much faster', ratio(), 'much faster'), ('`float32` and `x86_64` agree', fact(),
                                              '`float32` and `x86_64` agree')])
def test_a_result_takes_the_form_of_the_number_that_it_replaces(words, result, now):
    assert rendered(words, result) == now


def test_a_time_of_a_comparison():
    assert rendered('5 µs', ratio(), 'slow') == '120 µs'
    assert rendered('it takes 5.0 ms here', ratio(), 'fast') == 'it takes 20 ms here'
    assert rendered('5.00 ms', ratio(), 'fast') == '20.0 ms'


def test_a_result_without_a_figure_leaves_the_words():
    lost = Claim('a-b', 'ratio', 'not testable here', '×', above=2.0, where={}, machine='')
    assert rendered('6.0× faster', lost) == '6.0× faster' == rendered('6.0× faster', lost, 'fast')


@pytest.mark.parametrize(('words', 'result', 'part', 'says'), [
    ('from 2.0 to 6.0×', ratio(), '', '2 numbers, and a link quotes one: make a link of each'),
    ('6.0 ms', ratio(), '', "measured in ×, which ms does not fit: write '6.0×'"),
    ('6.0×', ratio(), 'fast', "measured in s, which × does not fit: write '20.0 ms'"),
    ('6 graphs', ratio(), 'fast', "write '20.0 ms'"),
    ('6.0 GB', figure(2e9, 'B/s'), '', "write '2.00 GB/s'"),
    ('6%', ratio(), '', "write '6.0×'"),
    ('6%', counted(15_329, 'graphs'), '', "write '15,329'"),
    ('6×', figure(0.31, '%'), '', "write '31%'"),
    ('6', figure(0.31, '%'), '', "write '31%'"),
    ('6.0 ms', ratio(), 'middle', "'a-b' has no time of 'middle'; it has slow, fast"),
    ('6.0 ms', counted(3), 'fast', "'a-b' has no time of 'fast'; it has none")])
def test_what_does_not_fit_says_what_to_write(words, result, part, says):
    with pytest.raises(Misfit) as e:
        rendered(words, result, part)
    assert says in str(e.value)


@pytest.mark.parametrize('make', [
    ratio, lambda x: figure(x, 's'), lambda x: figure(x, 'GB/s'), lambda x: figure(x, '%'),
    lambda x: counted(round(x), 'graphs'), counted, lambda x: counted(x, 'bytes')])
def test_what_was_put_in_stays_as_it_is(make):
    """Over thirty powers of ten: the second time, nothing changes; and it is the number, as rounded."""
    rng = random.Random(1)
    words = {'ratio': ['6×', '6.0×', '6.02×', '52% more'], 's': ['5 µs', '1.2 ms', '3.05 s', '4 min'],
             'GB/s': ['12 GB/s', '3.4 MB/s'], '%': ['5%', '31.2%'], '': ['3', '1,200', '2.4e-7', '0.05'],
             'graphs': ['3 graphs', '17'], 'bytes': ['3 MB', '1,204 bytes', '2.05 KiB']}
    for k in range(1500):
        x = rng.choice([1, 1, 1, 1 + 1e-12]) * 10 ** rng.uniform(-12, 14)
        if k % 4 == 0:
            x = float(f'{x:.1g}') * (1 - rng.choice([0, 1e-2, 1e-3, 4e-3]))
        c = make(x)
        for w in words['ratio' if c.kind == 'ratio' else c.unit]:
            once = rendered(w, c)
            assert rendered(once, c) == once, (w, x)
            f = numbers.form(once)
            shown = numbers.NUMBER.search(once)
            number = float(shown['number'].replace(',', '')) * (-1 if shown['sign'] else 1)
            near = 0.5 if f.digits == 1 else 0.06
            assert math.isclose(number, quoting.value_in(c, '', f), rel_tol=near), (once, x)


@pytest.mark.parametrize(('result', 'words'), [
    (ratio(), '6.0×'), (figure(2.5e-3, 's'), '2.50 ms'), (figure(0.314, '%'), '31%'), (fact(), 'holds'),
    (counted(15_329, 'graphs'), '15,329'), (counted(3.06e-9), '3.1e-9'),
    (counted(2e6, 'bytes'), '2.00 MB'), (figure(2e9, 'B/s'), '2.00 GB/s')])
def test_a_result_as_it_is_quoted_if_nothing_is_asked(result, words):
    assert quoting.default(result) == words == rendered(words, result)
