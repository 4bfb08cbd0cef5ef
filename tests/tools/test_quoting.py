"""Numbers in the text: how they are read, and how another run's stand in their place."""

import math
import random

import nbformat
import pytest

from tested_results.claims import Claim
from tools import ledger, notebooks, quoting, text
from tools.quoting import Misfit, rendered


def ratio(value=6.02, **more):
    return Claim('a-b', 'ratio', 'holds', '×', above=1.0, value=value, low=0.9 * value, high=1.1 * value,
                 names=('slow', 'fast'), parts={'slow': 120.4e-6, 'fast': 0.02}, where={}, machine='',
                 **more)


def figure(value, unit):
    return Claim('a-b', 'figure', 'holds', unit, above=1.0, value=value, low=value, high=value, where={},
                 machine='')


def counted(value, unit=''):
    return Claim('a-b', 'count', 'holds', unit, above=1.0, value=value, where={}, machine='')


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
            f = quoting.form(once)
            shown = quoting.NUMBER.search(once)
            number = float(shown['number'].replace(',', '')) * (-1 if shown['sign'] else 1)
            near = 0.5 if f.digits == 1 else 0.06
            assert math.isclose(number, quoting.value_in(c, '', f), rel_tol=near), (once, x)


@pytest.mark.parametrize(('result', 'words'), [
    (ratio(), '6.0×'), (figure(2.5e-3, 's'), '2.50 ms'), (figure(0.314, '%'), '31%'), (fact(), 'holds'),
    (counted(15_329, 'graphs'), '15,329'), (counted(3.06e-9), '3.1e-9'),
    (counted(2e6, 'bytes'), '2.00 MB'), (figure(2e9, 'B/s'), '2.00 GB/s')])
def test_a_result_as_it_is_quoted_if_nothing_is_asked(result, words):
    assert quoting.default(result) == words == rendered(words, result)


# The book -----------------------------------------------------------------------------------------

CELLS = ("d2l.compare('a-b', slow=f, fast=g, above=3)", "d2l.count('a-n', 15329, 'graphs')",
         "d2l.verify('a-so', True)")
GOOD = '''# One

It is [6.0× faster](#a-b), [20 ms](#a-b:fast),
[15,329 graphs](#a-n), [so](#a-so).
'''


@pytest.fixture
def book(tmp_path):
    """Pages of two files, with these texts and cells; returns them and the stored results."""
    def write(page=GOOD, cells=CELLS, said='# Two'):
        nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(said, id='a'),
                                             nbformat.v4.new_code_cell('\n'.join(cells), id='b')])
        one, two = tmp_path / 'one.md', tmp_path / 'two.ipynb'
        one.write_text(page)
        notebooks.write(two, nb)
        return [one, two]
    return write


RESULTS = {'a-b': ratio(), 'a-n': Claim('a-n', 'count', 'measured', 'graphs', value=15329.0, where={},
                                        machine=''),
           'a-so': Claim('a-so', 'fact', 'holds', where={}, machine='')}


def test_what_fits_is_no_problem(book):
    assert quoting.problems(RESULTS, book()) == []


def test_a_number_that_nobody_has_measured_is_a_problem(book):
    lost = Claim('a-b', 'ratio', 'not testable here', '×', lacked='a GPU', where={}, machine='')
    found = quoting.problems({**RESULTS, 'a-b': lost}, book())
    assert any('"6.0× faster", and no stored run and no ledger has a figure' in f for f in found), found


@pytest.mark.parametrize(('how', 'says'), [
    ({'page': GOOD + '[so](#a-gone)\n'},
     "one.md, line 5: no cell makes the result 'a-gone'; mend the link"),
    ({'said': '# Two\n\n[6.0×](#a-gone)'},
     "two.ipynb, cell 0, line 3: no cell makes the result 'a-gone'"),
    ({'cells': [*CELLS, '1 + 1', CELLS[1]]},
     "two.ipynb, cell 1, line 5: the result 'a-n' is made twice: give one of them another id"),
    ({'cells': [*CELLS, 'd2l.verify(name, True)']},
     'two.ipynb, cell 1, line 4: the id of a result is no literal text: write it in quotes in the call'),
    ({'page': GOOD.replace('6.0×', '7.0×')},
     'one.md, line 3: the text says "7.0× faster", and the stored run "6.0× faster": make refresh'),
    ({'page': GOOD.replace('20 ms', '21 ms')},
     'one.md, line 3: the text says "21 ms", and the stored run "20 ms"'),
    ({'page': GOOD.replace('15,329', '15')},
     'one.md, line 4: the text says "15 graphs", and the stored run "15,329 graphs"'),
    ({'cells': [*CELLS, "d2l.count('a-more', 3)"]},
     "two.ipynb, cell 1, line 4: no text quotes the result 'a-more': link to it, or delete it"),
    ({'cells': [CELLS[0].replace('fast=g, ', ''), *CELLS[1:]]},
     'two.ipynb, cell 1, line 1: compare takes two variants by name, such as eager=f, compiled=g, '
     'and here are 1: leave the others to another call'),
    ({'cells': [CELLS[0].replace('fast', 'third=h, fast'), *CELLS[1:]]},
     'two.ipynb, cell 1, line 1: compare takes two variants by name, such as eager=f, compiled=g, '
     'and here are 3: leave the others to another call'),
    ({'page': GOOD.replace('6.0× faster', '6.0 ms')},
     "one.md, line 3: 'a-b' is measured in ×, which ms does not fit: write '6.0×'"),
    ({'page': GOOD.replace(':fast', ':best')},
     "one.md, line 3: 'a-b' has no time of 'best'; it has slow, fast"),
    ({'page': GOOD.replace('20 ms', '20 to 30 ms')},
     'one.md, line 3: "20 to 30 ms" has 2 numbers, and a link quotes one: make a link of each')])
def test_each_problem_names_its_place_and_what_to_do(book, how, says):
    found = quoting.problems(RESULTS, book(**how))
    assert [f for f in found if says in f] and len(found) == 1 + ('made twice' in says), found


def test_update_writes_the_numbers_and_nothing_else(book):
    said = '# Two\n\nAs [6.0× faster](#a-b) \n\n* and  [so](#a-so), `[6.0×]`, [6×](b.md#a-b).'
    one, two = book(said=said)
    before, stamp = nbformat.read(two, as_version=4), one.stat().st_mtime_ns
    assert quoting.update(RESULTS, [one, two]) == [] and one.stat().st_mtime_ns == stamp
    now = {**RESULTS, 'a-b': ratio(2.5), 'a-n': counted(16, 'graphs')}
    assert quoting.update(now, [one, two]) == ['one.md', 'two.ipynb']
    assert one.read_text() == GOOD.replace('6.0×', '2.5×').replace('15,329', '16')
    before.cells[0].source = said.replace('[6.0× faster]', '[2.5× faster]')
    assert two.read_text() == nbformat.writes(before) + '\n'
    assert quoting.problems(now, [one, two]) == [] and quoting.update(now, [one, two]) == []
    assert quoting.update({}, [one, two]) == []
    assert sorted(p.name for p in one.parent.iterdir()) == ['one.md', 'two.ipynb']


def test_update_leaves_what_does_not_fit_and_goes_on(book):
    one, two = book(GOOD.replace('20 ms', '20 GB'), said='# Two\n\n[6.0×](#a-b)')
    assert quoting.update({'a-b': ratio(2.5)}, [one, two]) == ['one.md', 'two.ipynb']
    assert '[20 GB](#a-b:fast)' in one.read_text() and '[2.5× faster]' in one.read_text()
    assert 'one.md, line 3' in quoting.problems({'a-b': ratio(2.5)}, [one, two])[0]


def test_update_leaves_the_outputs_alone(book):
    one, two = book(said='# Two\n\n[6.0×](#a-b)')
    nb = nbformat.read(two, as_version=4)
    nb.cells[1].outputs = [nbformat.v4.new_output('stream', text='[6.0×](#a-b)\n')]
    nb.cells[1].source += '\n# [6.0×](#a-b)'
    notebooks.write(two, nb)
    quoting.update({'a-b': ratio(2.5)}, [two])
    after = nbformat.read(two, as_version=4)
    assert after.cells[0].source == '# Two\n\n[2.5×](#a-b)' and after.cells[1] == nb.cells[1]


def test_the_stored_results_stand_in_the_text():
    """Nothing would change if the numbers of the stored run were put in again."""
    stored = ledger.quotable(notebooks.notebooks())
    assert quoting.problems(stored) == []
    for link in (ln for p in text.pages() for ln in text.links(p)):
        once = rendered(link.words, stored[link.id], link.part)
        assert rendered(once, stored[link.id], link.part) == once == link.words


def test_a_sentence_has_the_numbers_of_the_results_that_are_shown(monkeypatch):
    said = 'It is *much* [6.0× faster](#a-b), in [20 ms](#a-b:fast).'
    monkeypatch.setattr(quoting.text, 'sentence_of', lambda id: said)
    assert quoting.sentence('a-b', {'a-b': ratio(2.5)}) == 'It is much 2.5× faster, in 20 ms.'
    assert quoting.sentence('a-b', {}) == 'It is much 6.0× faster, in 20 ms.'
