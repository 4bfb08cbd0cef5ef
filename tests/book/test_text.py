"""The text of the book: its sources, its sentences, and the links and calls of results."""

import re

import nbformat
import pytest
from pybtex.database import parse_file

from tools import text
from tools.notebooks import ROOT

# Kinds of hosts that are no source: encyclopaedias that anyone edits, magazines, shops, forums, mirrors.
WEAK_HOSTS = re.compile(r'\]\((https?://(?:[\w-]+\.)*(?:wikipedia|anandtech|tomshardware|techpowerup|tweaktown|'
                        r'csdn|pcper|pcguide|eweek|storagereview|geektopia|sysrqmts|easymanua|manualspro|ques10|'
                        r'inkl|vdocuments|scribd|medium|reddit|stackoverflow|stackexchange|quora|euno|arxivlens|'
                        r'kingston|chipsandcheese|numberworld)'
                        r'\.[a-z.]+/[^)]*)\)')


@pytest.mark.parametrize('path', [*text.pages(), ROOT / 'README.md'], ids=lambda p: p.name)
def test_sources_are_primary(path):
    """The paper, the standard, the vendor or the project itself."""
    assert WEAK_HOSTS.findall(text.markdown(path)) == []


def test_a_weak_source_is_caught():
    said = 'It [is so](https://en.wikipedia.org/wiki/X), [says the paper](https://arxiv.org/abs/1).'
    assert WEAK_HOSTS.findall(said) == ['https://en.wikipedia.org/wiki/X']


def test_the_bibliography_has_what_pages_cite_and_nothing_else():
    entries = parse_file(ROOT / 'chapters' / 'reference' / 'references.bib').entries
    cited = {key for p in text.pages() for key in re.findall(r'\{cite\}`([^`]+)`', text.markdown(p))}
    assert cited == set(entries)
    for key, entry in entries.items():
        assert entry.persons.get('author') and entry.fields['title'], key
        assert {'url', 'doi', 'eprint'} & set(entry.fields), key
        assert not WEAK_HOSTS.findall(f"[]({entry.fields.get('url', '')}/)"), key


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
    assert list(text.sentences(PAGE)) == [
        '# A title', 'One [claim](#a) is fast.', 'Two is 3.5× slow.', 'Three is fine.',
        '"Four" quotes.', '* Five is quick.', '- [Six](#a-b), *so* to **say**', 'Eight is in a note.',
        'Ten', 'Ten: eleven']


@pytest.mark.parametrize(('marked', 'plain'), [
    ('- [6.0× faster](#a-b), *so* to **say**.', '6.0× faster, so to say.'),
    ('Say `a*b` or `d[0]` at [`f()`](x.md#y) {cite}`knuth`.', 'Say `a*b` or `d[0]` at `f()` .'),
    ('| a | 2 * 3 |', 'a | 2 * 3'), ('**`d**2`** of `f(*x)`', '`d**2` of `f(*x)`'),
    ('## A title', 'A title'), ('> 1. one', '1. one')])
def test_a_sentence_without_marks(marked, plain):
    assert text.plain(marked) == plain


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Two pages, in reading order: one of Markdown, one a notebook."""
    nb = nbformat.v4.new_notebook(cells=[
        nbformat.v4.new_markdown_cell('# Two\n\nIt is [6.0× faster](#a-b) in all.'),
        nbformat.v4.new_code_cell(
            "import numpy\nx = d2l.verify('a-old', True)\nif x:\n    d2l.verify('a-fact', 1 < 2)"),
        nbformat.v4.new_markdown_cell('And\n[`f(x)`: 5 µs](#a-b:fast), [so](#a-old) [a](b.md#c).'),
        nbformat.v4.new_code_cell(
            "%%time\nd2l.compare('a-b', slow=f, fast=g, above=3, needs='links')\nd2l.count(name, 3)\n"
            "'abc'.count('a')\npath.compare('x')\nnp.estimate('x')\nd2l.estimate('a-e', f, 's')")])
    two = tmp_path / 'two.ipynb'
    nbformat.write(nb, two)
    one = tmp_path / 'one.md'
    one.write_text('# One\n\nAs [we *say*](#a-b) first. Then [so it is](#a-old) again.\n')
    monkeypatch.setattr(text, 'pages', lambda: [one, two])
    text._said.cache_clear()
    yield [one, two]
    text._said.cache_clear()


def test_links_know_their_words_their_result_and_where_they_stand(book):
    found = [(ln.words, ln.id, ln.part, ln.where) for p in book for ln in text.links(p)]
    assert found == [
        ('we *say*', 'a-b', '', 'one.md, line 3'),
        ('so it is', 'a-old', '', 'one.md, line 3'),
        ('6.0× faster', 'a-b', '', 'two.ipynb, cell 0, line 3'),
        ('`f(x)`: 5 µs', 'a-b', 'fast', 'two.ipynb, cell 2, line 2'),
        ('so', 'a-old', '', 'two.ipynb, cell 2, line 2')]


def test_calls_are_those_of_the_book_s_own_functions(book):
    found = [(c.id, c.name, c.variants, c.cell, c.where) for c in text.calls(book[1])]
    assert found == [
        ('a-old', 'verify', 0, 1, 'two.ipynb, cell 1, line 2'),
        ('a-fact', 'verify', 0, 1, 'two.ipynb, cell 1, line 4'),
        ('a-b', 'compare', 2, 2, 'two.ipynb, cell 3, line 2'),
        ('', 'count', 0, 2, 'two.ipynb, cell 3, line 3'),
        ('a-e', 'estimate', 0, 2, 'two.ipynb, cell 3, line 7')]
    assert text.calls(book[0]) == []


def test_a_result_s_sentence_has_its_number_and_is_of_its_own_page(book):
    assert text.sentence_of('a-b') == 'It is [6.0× faster](#a-b) in all.'
    assert text.sentence_of('a-old') == 'And [`f(x)`: 5 µs](#a-b:fast), [so](#a-old) [a](b.md#c).'
    assert text.sentence_of('a-fact') == ''


def test_a_question_is_the_last_sentence_to_be_taken(book):
    book[0].write_text('# One\n\nIs [it 3×](#a-e)? It is [so](#a-e). Is [it](#a-b)?')
    assert text.sentence_of('a-e') == 'It is [so](#a-e).'


def test_every_result_of_the_book_has_a_sentence():
    assert not [c.id for p in text.pages() for c in text.calls(p) if not text.sentence_of(c.id)]
