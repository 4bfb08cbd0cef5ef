"""Other editions: the one for a class keeps its secrets, the EPUB keeps the standard."""

import json
import posixpath
import re
import shutil
import subprocess
import sys
import zipfile
from html import unescape
from xml.etree import ElementTree

import nbformat
import pytest

from tools import exercises, quotations, source, student
from tools.source import ROOT, pages


@pytest.fixture(scope='module')
def edition(tmp_path_factory):
    folder = tmp_path_factory.mktemp('student') / 'book'
    student.student(folder)
    return folder


def secrets():
    """Sentences and lines of code of the solutions that stand nowhere else in the book."""
    texts = [c.source for p in student.solutions() for c in nbformat.read(p, 4).cells]
    shown = []
    for path in pages():
        if path.suffix == '.md':
            text = path.read_text()
            texts += [m[0] for m in student.SOLUTION.finditer(text)]
            shown.append(student.SOLUTION.sub('', text))
        elif path not in student.solutions():
            shown.append('\n'.join(c.source for c in nbformat.read(path, 4).cells))
    # a class checks its answers, so the checkers go with it, as all modules do, and know what is right
    public = '\n'.join([*shown, *(p.read_text() for p in ROOT.glob('[cdp]*/**/*.py'))])
    lines = {line.strip().removeprefix('> ') for text in texts for line in text.split('\n')}
    return [line for line in lines if len(line) > 40 and not line.startswith((':', '```', '#', '|', '<'))
            and line not in public]


@pytest.mark.slow
def test_nothing_of_a_solution_is_in_it(edition):
    """Not in a page, an index for searching, a ledger or a notebook, whatever the kind of file."""
    wanted, found = sorted(secrets())[::4], []       # what leaks, leaks in blocks
    assert len(wanted) > 250
    for path in edition.rglob('*'):
        if path.is_file() and path.suffix not in ('.png', '.woff2', '.ttf', '.gz', '.inv', '.svg'):
            text = unescape(re.sub(r'<[^>]*>', '', path.read_text(errors='replace')))
            if path.suffix in ('.json', '.ipynb'):
                text += json.dumps(text, ensure_ascii=False)
            found += [(path.relative_to(edition), line) for line in wanted if line in text]
            if path.suffix in ('.html', '.js', '.json', '.ipynb', '.csv', '.md'):
                assert not re.findall(r'\b[a-z]+-(?:mx-|pt-)?sol-[\w-]+', text), path
    assert not found
    assert not list(edition.rglob('*solutions*'))


def test_what_lies_beside_the_book_is_not_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(source, 'ROOT', tmp_path)
    monkeypatch.setattr(student, 'ROOT', tmp_path)
    wanted = {'_toc.yml', 'chapters/start/intro.md', 'Makefile', 'LICENSE', 'chapters/a/index.md',
              'chapters/a/one.ipynb', 'chapters/a/lab/weights.pt', 'tests/sanitize.cfg',
              'packages/tested_results/tested_results/claims.py'}
    for name in (*wanted, 'answers.txt', 'README.md', 'notes.md', '.env', 'key.json', 'tests/test_a.py',
                 'exercises/one.ipynb', 'chapters/a/solved.ipynb', 'chapters/a/a_solutions_mxnet.ipynb',
                 'chapters/a/.ipynb_checkpoints/one.ipynb', 'chapters/guesses.json',
                 'd2l_local/__pycache__/claims.pyc'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('')
    (tmp_path / '_toc.yml').write_text(
        'root: chapters/start/intro\n'
        'chapters: [{file: chapters/a/index, sections: [{file: chapters/a/one}]}]')
    assert {p.relative_to(tmp_path).as_posix() for p in student.of_the_book()} == wanted


def test_its_readme_and_its_make_name_what_is_there():
    """What needs tests or solutions is gone; the rest of the front door is as it was."""
    makefile = (ROOT / 'Makefile').read_text()
    short = student.without_targets(makefile)
    targets = {t for rule in re.findall(r'(?m)^([\w ]+):(?!=)', short) for t in rule.split()}
    helped = set(re.findall(r'@echo "make (\w+)', short))
    named = set(re.findall(r'`make (\w+)', student.README))
    assert named <= targets and len(named) > 5
    assert helped <= targets
    assert set(re.search(r'(?m)^\.PHONY: (.*)', short)[1].split()) == targets
    before = {t for rule in re.findall(r'(?m)^([\w ]+):(?!=)', makefile) for t in rule.split()}
    assert before - targets == set(student.ABSENT) and before > targets
    assert not re.findall(r'\b(?:tests|ARCHITECTURE)\b', student.README)


@pytest.mark.slow
def test_it_has_all_else(edition):
    kept = [p for p in source.toc() if 'solutions' not in p]
    assert all((edition / 'html' / f'{p}.html').exists() for p in kept)
    first = edition / 'html' / 'chapters' / 'start' / 'intro.html'
    assert 'its exercises have no solutions' in first.read_text()
    assert (edition / 'README.md').read_text() == student.README
    files = {p.name for p in edition.iterdir() if p.is_file()}
    linked = set(re.findall(r'\]\((?!http)([\w.-]+)\)', student.README))
    assert linked <= files and {'Makefile', 'requirements.txt', 'pyproject.toml'} <= files
    listed = subprocess.run([sys.executable, '-c', 'from tools import exercises, source\n'
                             'print(len(exercises.all_exercises()), len(source.notebooks()))'],
                            cwd=edition, capture_output=True, text=True, check=True).stdout.split()
    kept = len(source.notebooks()) - len(student.solutions())
    assert list(map(int, listed)) == [len(exercises.all_exercises()), kept]


@pytest.fixture(scope='module')
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp('epub')
    student.epub(folder)
    with zipfile.ZipFile(folder / 'book.epub') as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.slow
def test_the_epub_has_every_page_well_formed_and_linked(book):
    assert next(iter(book)) == 'mimetype'
    assert {f'{p}.xhtml' for p in source.toc()} <= set(book)
    found = {n: ElementTree.fromstring(data) for n, data in book.items() if n.endswith('.xhtml')}
    ids = {n: {e.get('id') for e in page.iter()} for n, page in found.items()}
    for name, page in found.items():
        assert not list(page.iterfind('.//{*}script')), name
        for link in page.iterfind('.//{*}a[@href]'):
            if not re.match(r'[a-z]+:', link.get('href')):
                file, _, anchor = link.get('href').partition('#')
                to = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
                assert to in book and (not anchor or anchor in ids[to]), (name, link.get('href'))
        assert all(image.get('alt') for image in page.iterfind('.//{*}img')), name
    assert sum(len(list(page.iterfind('.//{*}math'))) for page in found.values()) > 200


@pytest.mark.slow
def test_one_page_for_the_printer(book, tmp_path):
    for name, data in book.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    page = student.one_page(tmp_path)          # of several megabytes, for which a parser needs a minute
    ids = re.findall(r'<[^<>]*\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 2000
    contents = re.findall(r'<li><a href="#[^"]*">([^<]*)</a></li>', page.partition('</nav>')[0])
    assert len(contents) == len(source.toc())
    title = re.search('<title>(.*?)</title>', page)[1]
    assert contents.count(title) == 1 and '<details open' not in page
    links = re.findall(r'<a [^<>]*href="#([^"]*)"', page)
    assert len(links) > 1000 and set(map(unescape, links)) <= set(map(unescape, ids))
    images = re.findall(r'<img [^<>]*src="([^"]*)"', page)
    assert len(images) > 50 and all((tmp_path / image).exists() for image in images)


@pytest.mark.slow
def test_what_is_printed_has_an_outline_and_tags(tmp_path):
    if not any(map(shutil.which, student.BROWSERS)):
        pytest.skip('needs Chromium')
    style = (ROOT / 'tools' / 'theme' / 'print.css').read_text()
    lines = '\n'.join(f'line {i}' for i in range(100))
    (tmp_path / 'page.html').write_text(
        f'<html lang="en"><title>T</title><style>{style}</style><h1>One</h1><p>Text</p><h2>Two</h2>'
        f'<details><summary>folded</summary><p>Secret</p></details><pre>{lines}</pre></html>')
    student.printed(tmp_path / 'page.html', tmp_path / 'page.pdf')
    data = (tmp_path / 'page.pdf').read_bytes()
    assert b'/Outlines' in data and b'/Title (Two)' in data
    assert re.search(rb'/MarkInfo\s*<<\s*/Marked true', data)
    # Each page is more than half full: code of 100 lines does not begin on a new one.
    assert len(re.findall(rb'/Type\s*/Page\b', data)) == 2


def test_a_pdf_needs_a_browser(monkeypatch, tmp_path):
    monkeypatch.setattr(student.shutil, 'which', lambda name: None)
    with pytest.raises(SystemExit, match='install the package chromium'):
        student.pdf(tmp_path)
    assert not list(tmp_path.iterdir())


def test_text_without_solutions():
    text = ('Ask [here](a.md). It is [solved](t_solutions_mxnet.ipynb), as a solution. It is '
            '[seen](#a-b) and [known](#a-c). It is [6.0× faster](#a-b), in [2 ms](#a-b:fast), '
            'and not [3 ms](#a-c:fast).\n\n'
            '| it | is so. Or so | [solutions](t_solutions_mxnet.ipynb) |\n'
            '| that | is not | [here](a.md) |\n\n'
            '<details><summary>Answer</summary>\n\nForty-two.\n\n</details>\n\n'
            '> <a id="a-sol-b"></a>**Solution to [B](exercises.md#a-ex-b)**\n>\n> Forty-three.\n\n'
            '3. [Exercises](exercises.md), with [solutions](t_solutions_pytorch.ipynb)\n4. More\n')
    assert student.without_solutions(text, {'a-b'}) == (
        'Ask [here](a.md). It is seen and [known](#a-c). It is 6.0× faster, in 2 ms, and '
        'not [3 ms](#a-c:fast).\n\n'
        '| that | is not | [here](a.md) |\n\n'
        '3. [Exercises](exercises.md)\n4. More\n')


def test_each_page_of_exercises_says_how_to_solve_them_and_of_no_answer():
    claims = {c.id for p in student.solutions() for c in quotations.calls(p)}
    for path in (p for p in pages() if p.name == 'exercises.md'):
        text = student.without_solutions(path.read_text(), claims)
        assert '`make exercises`' in text and 'folded' not in text, path


def test_an_edition_that_there_is_not(capsys, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['editions', 'large-print'])
    with pytest.raises(SystemExit, match='There are these editions: student, epub, pdf'):
        student.main()
