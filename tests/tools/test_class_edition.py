"""The edition for a class keeps its secrets, and has all else."""

import json
import re
import subprocess
import sys
from html import unescape

import nbformat
import pytest

from tools import class_edition, exercises, quotations, source
from tools.source import ROOT, pages


@pytest.fixture(scope='module')
def edition(tmp_path_factory):
    folder = tmp_path_factory.mktemp('student') / 'book'
    class_edition.make(folder)
    return folder


def secrets():
    """Sentences and lines of code of the solutions that stand nowhere else in the book."""
    texts = [c.source for p in class_edition.solutions() for c in nbformat.read(p, 4).cells]
    shown = []
    for path in pages():
        if path.suffix == '.md':
            text = path.read_text()
            texts += [m[0] for m in class_edition.SOLUTION.finditer(text)]
            shown.append(class_edition.SOLUTION.sub('', text))
        elif path not in class_edition.solutions():
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
    monkeypatch.setattr(class_edition, 'ROOT', tmp_path)
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
    assert {p.relative_to(tmp_path).as_posix() for p in class_edition.of_the_book()} == wanted


def test_its_readme_and_its_make_name_what_is_there():
    """What needs tests or solutions is gone; the rest of the front door is as it was."""
    makefile = (ROOT / 'Makefile').read_text()
    short = class_edition.without_targets(makefile)
    targets = {t for rule in re.findall(r'(?m)^([\w ]+):(?!=)', short) for t in rule.split()}
    helped = set(re.findall(r'@echo "make (\w+)', short))
    named = set(re.findall(r'`make (\w+)', class_edition.README))
    assert named <= targets and len(named) > 5
    assert helped <= targets
    assert set(re.search(r'(?m)^\.PHONY: (.*)', short)[1].split()) == targets
    before = {t for rule in re.findall(r'(?m)^([\w ]+):(?!=)', makefile) for t in rule.split()}
    assert before - targets == set(class_edition.ABSENT) and before > targets
    assert not re.findall(r'\b(?:tests|ARCHITECTURE)\b', class_edition.README)


@pytest.mark.slow
def test_it_has_all_else(edition):
    kept = [p for p in source.toc() if 'solutions' not in p]
    assert all((edition / 'html' / f'{p}.html').exists() for p in kept)
    first = edition / 'html' / 'chapters' / 'start' / 'intro.html'
    assert 'its exercises have no solutions' in first.read_text()
    assert (edition / 'README.md').read_text() == class_edition.README
    files = {p.name for p in edition.iterdir() if p.is_file()}
    linked = set(re.findall(r'\]\((?!http)([\w.-]+)\)', class_edition.README))
    assert linked <= files and {'Makefile', 'requirements.txt', 'pyproject.toml'} <= files
    listed = subprocess.run([sys.executable, '-c', 'from tools import exercises, source\n'
                             'print(len(exercises.all_exercises()), len(source.notebooks()))'],
                            cwd=edition, capture_output=True, text=True, check=True).stdout.split()
    kept = len(source.notebooks()) - len(class_edition.solutions())
    assert list(map(int, listed)) == [len(exercises.all_exercises()), kept]


def test_text_without_solutions():
    text = ('Ask [here](a.md). It is [solved](t_solutions_mxnet.ipynb), as a solution. It is '
            '[seen](#a-b) and [known](#a-c). It is [6.0× faster](#a-b), in [2 ms](#a-b:fast), '
            'and not [3 ms](#a-c:fast).\n\n'
            '| it | is so. Or so | [solutions](t_solutions_mxnet.ipynb) |\n'
            '| that | is not | [here](a.md) |\n\n'
            '<details><summary>Answer</summary>\n\nForty-two.\n\n</details>\n\n'
            '> <a id="a-sol-b"></a>**Solution to [B](exercises.md#a-ex-b)**\n>\n> Forty-three.\n\n'
            '3. [Exercises](exercises.md), with [solutions](t_solutions_pytorch.ipynb)\n4. More\n')
    assert class_edition.without_solutions(text, {'a-b'}) == (
        'Ask [here](a.md). It is seen and [known](#a-c). It is 6.0× faster, in 2 ms, and '
        'not [3 ms](#a-c:fast).\n\n'
        '| that | is not | [here](a.md) |\n\n'
        '3. [Exercises](exercises.md)\n4. More\n')


def test_each_page_of_exercises_says_how_to_solve_them_and_of_no_answer():
    claims = {c.id for p in class_edition.solutions() for c in quotations.calls(p)}
    for path in (p for p in pages() if p.name == 'exercises.md'):
        text = class_edition.without_solutions(path.read_text(), claims)
        assert '`make exercises`' in text and 'folded' not in text, path
