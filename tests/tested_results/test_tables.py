"""A table of measured values: what a notebook shows, and what a check compares."""

from tested_results.tables import Table
from tools.refresh import sanitiser

masked = sanitiser()             # what a check of notebooks leaves of an output


def test_an_empty_table():
    assert str(Table(('a', 'b'), [])) == ''


def test_a_table_marks_all_that_differs():
    t = Table(('row', 'here', 'there'), [('<first>', '1 ns', 'a & b'), ('second row', '', '2')])
    assert str(t).splitlines() == ['<first>     measured: 1 ns · a & b', 'second row  measured: 2']
    assert masked(str(t)) == '<first>     measured: FIGURE\nsecond row  measured: FIGURE'
    assert '<th scope="row">&lt;first&gt;</th><td>1 ns</td><td>a &amp; b</td>' in t._repr_html_()
    assert masked(t._repr_html_()) == 'TABLE' and repr(t) == str(t)
