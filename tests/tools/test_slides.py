"""Slides: each lecture has some, every mark names what is there, and a file needs nothing else."""

import re

import bs4
import nbformat
import pytest

from tests.book.browser import Browser
from tools import class_edition, quotations, runs, slides, source

LECTURES = slides.lectures()
MARKED = [path for lecture in LECTURES for path in lecture.notebooks
          if any(map(slides.mark, source.read(path).cells))]


def marks(lecture):
    return [cell for path in lecture.notebooks for cell in source.read(path).cells if slides.mark(cell)]


def test_each_of_the_twelve_lectures_has_its_marks():
    assert [lecture.number for lecture in LECTURES] == list(range(1, 13))
    assert all(lecture.ideas and lecture.exercise for lecture in LECTURES)
    assert {lecture.number: len(marks(lecture)) for lecture in LECTURES
            if not 8 <= len(marks(lecture)) <= 16} == {}


def test_no_mark_stands_outside_of_the_lectures():
    assert {path for path in source.notebooks()
            if any('slideshow' in cell.metadata for cell in source.read(path).cells)} == set(MARKED)


@pytest.mark.parametrize('path', MARKED, ids=source.name)
def test_each_mark_names_what_is_there_in_the_edition_for_a_class_too(path):
    claims = {c.id for p in class_edition.solutions() for c in quotations.calls(p)}
    nb = nbformat.read(path, as_version=4)
    made = slides.slides(path, nb)
    for cell in nb.cells:
        if cell.cell_type == 'markdown':
            cell.source = class_edition.without_solutions(cell.source, claims)
    assert len(slides.slides(path, nb)) == len(made) >= 4
    # Numbers in the text change with each run, so nothing is named by them.
    assert not [part for cell in nb.cells for part in slides.mark(cell).get('parts', []) if '](' in part]


def test_a_mark_changes_no_run():
    path = MARKED[0]
    nb = nbformat.read(path, as_version=4)
    before = runs.key(path, nb)
    for cell in nb.cells:
        cell.metadata.pop('slideshow', None)
    assert runs.key(path, nb) == before


def test_a_lecture_is_one_file(tmp_path):
    slides.write([LECTURES[0]], tmp_path)
    made, = tmp_path.iterdir()
    assert made.name == 'lecture-01.html'
    text = made.read_text()
    page = bs4.BeautifulSoup(text, 'html.parser')
    shown = page.find_all('section')
    assert len(shown) == 2 + sum(len(slides.slides(p, source.read(p))) for p in LECTURES[0].notebooks)
    assert 'overhead, memory bandwidth or compute?' in shown[0].h1.get_text()
    assert 'The numbers' in shown[0].get_text() and 'Exercise: The knee' in shown[-1].get_text()
    assert all(section.find(['h1', 'h2', 'h3']) for section in shown)
    # Nothing is loaded, nothing leads away, and formulas are MathML.
    assert not page.find_all(['link', 'iframe', 'a'])
    assert all(image['src'].startswith('data:') and image['alt'] for image in page.find_all('img'))
    assert not re.findall(r'url\((?!"data:)|@import|\bsrc="(?!data:)', text)
    assert page.find('math', display='block').get_text().endswith('=overhead+max(memory,compute)')
    assert not re.search(r'\$\$|\\text', page.main.get_text())
    results = [p.get_text() for p in page.select('p.d2l-claim')]
    assert any('twice the rows ÷ rows = ' in result for result in results)
    assert any('Guess first.' in p.get_text() for p in page.select('.d2l-predict'))
    assert page.select('.fragment') and not page.find('details')


@pytest.mark.slow
def test_every_slide_fits_and_the_keys_turn_them(tmp_path):
    slides.write(LECTURES, tmp_path)
    browser = Browser(tmp_path / 'profile')
    too_much = """[...document.querySelectorAll('section')].filter((s) => s.scrollHeight > s.clientHeight + 1
        || s.scrollWidth > s.clientWidth + 1 || parseFloat(getComputedStyle(s).fontSize) < 14)
        .map((s) => s.dataset.number)"""
    now = "document.querySelector('section.now').dataset.number.split(' ')[0]"
    later = "document.querySelectorAll('section.now .later').length"
    try:
        found = {}
        for path in sorted(tmp_path.glob('*.html')):
            browser.open(path)
            found[path.name] = browser.run(too_much)
        assert {name: numbers for name, numbers in found.items() if numbers} == {}
        browser.open(tmp_path / 'lecture-01.html')
        seen = []
        for key in ['ArrowRight'] * 4 + ['Space', 'ArrowLeft', 'ArrowLeft']:
            browser.press(key)
            seen.append((browser.run(now), browser.run(later)))
        assert seen == [('2', 0), ('3', 0), ('4', 1), ('4', 0), ('5', 0), ('4', 0), ('4', 1)]
        assert not browser.errors
    finally:
        browser.close()


def made(*cells):
    nb = nbformat.v4.new_notebook()
    for kind, text, mark in cells:
        new = nbformat.v4.new_markdown_cell if kind == 'text' else nbformat.v4.new_code_cell
        nb.cells.append(new(text, metadata={'slideshow': mark} if mark else {}))
    found = slides.slides(source.ROOT / 'one.ipynb', nb)
    return [(s.heading, [(kind, piece.source) for kind, piece in s.pieces]) for s in found]


def test_parts_of_cells():
    text = ('# One\n\nIt is so. Why is\nit *so*? It [is](#a-b) not.\n\n- first: it is. Or so\n- second\n\n'
            '## Two\n\nThen $$x$$ holds.\n\n$$ y = 1 $$\n\nThe end.')
    code = 'import a\n\ndef f():\n    return 1\n\ndef g():\n    return 2'
    assert made(
        ('text', text, {'slide_type': 'slide', 'parts': ['Why is', '- first', '## Two', '$$ y']}),
        ('text', 'Not shown.', None),
        ('code', code, {'slide_type': 'fragment', 'parts': ['def g', 'import']}),
        ('code', code, {'slide_type': 'skip'}),
        ('text', 'See. Or not.', {'slide_type': 'fragment', 'parts': ['See', '---', 'Or']}),
        ('text', 'Say it.', {'slide_type': 'notes'})) == [
        ('# One', [('here', 'Why is\nit *so*?\n\n- first: it is. Or so\n- second')]),
        ('## Two', [('here', '$$ y = 1 $$'), ('fragment', 'def g():\n    return 2\n\nimport a'),
                    ('fragment', 'See.')]),
        ('## Two', [('here', 'Or not.'), ('notes', 'Say it.')])]


@pytest.mark.parametrize(('kind', 'mark', 'said'), [
    ('text', {'slide_type': 'slide', 'parts': ['It was']}, r'one\.ipynb, .*: \'It was\' stands 0 times'),
    ('text', {'slide_type': 'slide', 'parts': ['o']}, 'stands 2 times'),
    ('code', {'slide_type': 'slide', 'parts': ['is']}, '0 lines of the cell begin with'),
    ('code', {'slide_type': 'page'}, "the mark 'page' is none of slide, fragment, notes, skip")])
def test_a_wrong_mark_is_named(kind, mark, said):
    with pytest.raises(ValueError, match=said):
        made((kind, 'So it is so.', mark))


def test_formulas_are_not_looked_for_in_code():
    assert slides.with_formulas('`$a$` and ``b $c$``') == '`$a$` and ``b $c$``'
    assert '<mi>a</mi>' in slides.with_formulas('it is $a * b$.')
    assert '*' not in slides.with_formulas('$a * b$')
