"""Sentences, the links and calls of results in them, and what does not fit."""


import nbformat
import pytest

from tested_results.claims import Claim
from tests.tools.small import CELLS, GOOD, RESULTS, ratio
from tools import quotations, source

PAGE = '''# A title

One [claim](#a) is fast. Two is 3.5× slow.
Three
is fine. "Four" quotes.

* Five is quick.
- [Six](#a-b), *so* to **say**

```python
seven = 'Not a sentence.'
```
```{note}
Eight is in a note.
```
```{exercise} Nine
:label: a-ex
Is it faster?
```
| Ten | eleven |
|---|---|
<!-- Twelve
is a remark. -->
'''


def test_sentences_end_where_they_end_and_code_is_none():
    assert list(quotations.sentences(PAGE)) == [
        '# A title', 'One [claim](#a) is fast.', 'Two is 3.5× slow.', 'Three is fine.',
        '"Four" quotes.', '* Five is quick.', '- [Six](#a-b), *so* to **say**', 'Eight is in a note.',
        'Ten', 'Ten: eleven']


@pytest.mark.parametrize(('marked', 'plain'), [
    ('- [6.0× faster](#a-b), *so* to **say**.', '6.0× faster, so to say.'),
    ('Say `a*b` or `d[0]` at [`f()`](x.md#y) {cite}`knuth`.', 'Say `a*b` or `d[0]` at `f()` .'),
    ('| a | 2 * 3 |', 'a | 2 * 3'), ('**`d**2`** of `f(*x)`', '`d**2` of `f(*x)`'),
    ('## A title', 'A title'), ('> 1. one', '1. one')])
def test_a_sentence_without_marks(marked, plain):
    assert quotations.plain(marked) == plain


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Two pages, in reading order: one of Markdown, one a notebook."""
    nb = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell('# Two\n\nIt is [6.0× faster](#a-b) in all.'),
        nbformat.v4.new_code_cell(
            "import numpy\nx = d2l.verify('a-old', True)\nif x:\n    d2l.verify('a-fact', 1 < 2)"),
        nbformat.v4.new_markdown_cell('And\n[`f(x)`: 5 µs](#a-b:fast), [so](#a-old) [a](b.html#c).'),
        nbformat.v4.new_code_cell(
            "%%time\nd2l.compare('a-b', slow=f, fast=g, above=3, needs='links')\nd2l.count(name, 3)\n"
            "'abc'.count('a')\npath.compare('x')\nnp.estimate('x')\nd2l.estimate('a-e', f, 's')")])
    two = tmp_path / 'two.ipynb'
    nbformat.write(nb, two)
    one = tmp_path / 'one.md'
    one.write_text('# One\n\nAs [we *say*](#a-b) first. Then [so it is](#a-old) again.\n')
    monkeypatch.setattr(source, 'pages', lambda: [one, two])
    quotations._said.cache_clear()
    yield [one, two]
    quotations._said.cache_clear()


def test_links_know_their_words_their_result_and_where_they_stand(book):
    found = [(ln.words, ln.id, ln.part, ln.where) for p in book for ln in quotations.links(p)]
    assert found == [
        ('we *say*', 'a-b', '', 'one.md, line 3'),
        ('so it is', 'a-old', '', 'one.md, line 3'),
        ('6.0× faster', 'a-b', '', 'two.ipynb, cell 0, line 3'),
        ('`f(x)`: 5 µs', 'a-b', 'fast', 'two.ipynb, cell 2, line 2'),
        ('so', 'a-old', '', 'two.ipynb, cell 2, line 2')]


def test_calls_are_those_of_the_book_s_own_functions(book):
    found = [(c.id, c.name, c.variants, c.cell, c.where) for c in quotations.calls(book[1])]
    assert found == [
        ('a-old', 'verify', 0, 1, 'two.ipynb, cell 1, line 2'),
        ('a-fact', 'verify', 0, 1, 'two.ipynb, cell 1, line 4'),
        ('a-b', 'compare', 2, 2, 'two.ipynb, cell 3, line 2'),
        ('', 'count', 0, 2, 'two.ipynb, cell 3, line 3'),
        ('a-e', 'estimate', 0, 2, 'two.ipynb, cell 3, line 7')]
    assert quotations.calls(book[0]) == []


def test_a_result_s_sentence_has_its_number_and_is_of_its_own_page(book):
    assert quotations.sentence_of('a-b') == 'It is [6.0× faster](#a-b) in all.'
    assert quotations.sentence_of('a-old') == 'And [`f(x)`: 5 µs](#a-b:fast), [so](#a-old) [a](b.html#c).'
    assert quotations.sentence_of('a-fact') == ''


def test_a_question_is_the_last_sentence_to_be_taken(book):
    book[0].write_text('# One\n\nIs [it 3×](#a-e)? It is [so](#a-e). Is [it](#a-b)?')
    assert quotations.sentence_of('a-e') == 'It is [so](#a-e).'


def test_what_fits_is_no_problem(two_pages):
    assert quotations.problems(RESULTS, two_pages()) == []


def test_a_number_that_nobody_has_measured_is_a_problem(two_pages):
    lost = Claim('a-b', 'ratio', 'not testable here', '×', lacked='a GPU', where={}, machine='')
    found = quotations.problems({**RESULTS, 'a-b': lost}, two_pages())
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
def test_each_problem_names_its_place_and_what_to_do(two_pages, how, says):
    found = quotations.problems(RESULTS, two_pages(**how))
    assert [f for f in found if says in f] and len(found) == 1 + ('made twice' in says), found


def test_a_sentence_has_the_numbers_of_the_results_that_are_shown(monkeypatch):
    said = 'It is *much* [6.0× faster](#a-b), in [20 ms](#a-b:fast).'
    monkeypatch.setattr(quotations, 'sentence_of', lambda id: said)
    assert quotations.sentence('a-b', {'a-b': ratio(2.5)}) == 'It is much 2.5× faster, in 20 ms.'
    assert quotations.sentence('a-b', {}) == 'It is much 6.0× faster, in 20 ms.'
