"""What `make book` does and says: of what it measures, of topics that failed, of results that do not hold."""

import sys

import filelock
import nbformat
import pytest

from tested_results import execution
from tested_results.claims import METADATA_KEY, Claim
from tools import book, runs, source

NONE = 'no C++ compiler that torch.compile can use'


def result(id, verdict='not testable here', reason='', **more):
    return Claim(id, 'ratio', verdict, unit='×', above=2.0, reason=reason, **more)


def test_results_that_do_not_hold_are_named_with_the_reason():
    """Those that share a reason share a line, and what holds or has no bound is not in it."""
    noise = 'the interval still contains the bound after {} measurements'
    found = [result('a-holds', 'holds', value=3.0), Claim('a-shown', 'ratio', 'measured', value=3.0),
             *(result(f'a-{k}', reason=NONE) for k in range(27)),
             Claim('b-one', 'figure', 'not testable here', reason='this processor has no AMX'),
             result('b-fails', 'fails', value=1.5, low=1.25, high=1.75),
             Claim('b-fact', 'fact', 'fails'),
             *(result(f'c-{n}', 'undecided', noise.format(n)) for n in (7, 313))]
    lines = book.without(found)
    assert lines[0].startswith('fails: b-fails: 1.5') and lines[0].endswith('tested: above 2×')
    assert lines[1] == 'fails: b-fact: not so; tested: exactly so'
    assert lines[2] == f'27 not testable here: {NONE}'
    names = [line for line in lines[3:] if line.startswith('    ')]
    assert ' '.join(' '.join(names[:-1]).split()) == ', '.join(f'a-{k}' for k in range(27))
    assert max(map(len, names)) <= 100 and names[-1] == '    c-7, c-313'
    assert [line for line in lines[3:] if line not in names] == [
        'not testable here: b-one: this processor has no AMX', f'2 undecided: {noise.format("…")}']


@pytest.fixture
def build(monkeypatch, tmp_path):
    """Build a book of two topics without running anything: notebooks whose names have *bad* in it fail.

    Each of the others has one result, which fails.
    """
    def keep(path, label):
        if 'bad' in path.stem:
            raise execution.CellFailed(f'{path.stem}: cell 2 raised NameError')
        data = result(f'{path.stem}-result', 'fails', value=1.5).data()
        out = nbformat.v4.new_output('display_data', metadata={METADATA_KEY: data})
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('', outputs=[out])])
    monkeypatch.setattr(book, 'ROOT', tmp_path)
    monkeypatch.setattr(runs, 'keep', keep)
    monkeypatch.setattr(source, 'missing', lambda name: '')
    monkeypatch.setattr(runs, 'latest', lambda path: (nbformat.v4.new_notebook(), False))
    monkeypatch.setattr(book.pages, 'make', lambda *args: 'ledger: …')
    return lambda *names: book.build([tmp_path / f'{n}.ipynb' for n in names], [], False, tmp_path)


def test_a_topic_is_measured_here_only_if_its_notebooks_ran(build, capsys, tmp_path):
    with pytest.raises(SystemExit, match='bad_one: cell 2 raised(.*\n)*.*show stored outputs'):
        build('a/good', 'a/bad_one', 'b/bad_two', 'c/fine')
    said = [line.removeprefix(f'{tmp_path}/') for line in capsys.readouterr().out.splitlines()]
    assert [line for line in said if line[:2] in ('a/', 'b/', 'c/')] == [
        'a/index.html  1 of 2 notebooks measured here, FAILED: bad_one',
        'b/index.html  FAILED: bad_two',
        'c/index.html  measured here']
    assert [line.split(':')[1] for line in said if line.startswith('fails')] == [
        ' good-result', ' fine-result']


def test_the_results_of_this_machine_are_told_at_the_end(build, monkeypatch, capsys, tmp_path):
    assert [line.split(':')[1] for line in build('a/good')[1]] == [' good-result']
    monkeypatch.setattr(source, 'missing', lambda name: 'is not installed')
    assert build('a/good')[1] == []                       # stored ones are those of another machine
    monkeypatch.setattr(book, 'BUILD', tmp_path)
    monkeypatch.setattr(book, 'build', lambda *args: ('ledger: …', ['fails: a-b: 1.5×']))
    monkeypatch.setattr(sys, 'argv', ['book'])
    book.main()
    assert '\nfails: a-b: 1.5×\nledger: …\n' in capsys.readouterr().out


@pytest.fixture
def small_book(planted, monkeypatch):
    """That book with its pages made by a stand-in for Jupyter Book, which notes what it was given."""
    made = []

    def make(shown, old, source, html):
        made.append([[o.get('text') for c in nb.cells if c.cell_type == 'code' for o in c.outputs]
                     for nb in shown.values()])
        return 'ledger: …'
    root = planted('1').parent
    monkeypatch.setattr(book, 'ROOT', root)
    monkeypatch.setattr(book.pages, 'make', make)
    return lambda path, **how: book.build([path], how.get('topics', []), how.get('stored', False),
                                          root / 'html'), made


@pytest.mark.slow
def test_the_pages_come_before_the_measuring(planted, small_book, capsys):
    """With stored outputs first, then with those of this machine; unchanged, nothing runs again."""
    build, made = small_book
    path = planted('print(x + 41)')
    build(path)
    assert made == [[[]], [['42\n']]]
    said = capsys.readouterr().out
    assert said.index('1 with stored outputs') < said.index('2 cells') < said.index('measured here\n')
    nb = nbformat.read(path, as_version=4)
    nb.cells.insert(1, nbformat.v4.new_markdown_cell('More.'))      # prose is not code
    source.write(path, nb)
    build(path)
    assert made[2:] == [[['42\n']]] and '1 of 1 notebooks measured here' in capsys.readouterr().out


@pytest.mark.slow
def test_a_broken_notebook_leaves_its_page_as_stored(planted, small_book):
    build, made = small_book
    path = planted('x.nothing')
    with pytest.raises(SystemExit, match='one.ipynb: cell 2 raised.*(\n.*)*show stored outputs'):
        build(path)
    assert made == [[[]], [[]]] and not (path.parent / '_build').exists()


@pytest.mark.slow
def test_an_interrupt_keeps_what_was_measured(planted, small_book, monkeypatch):
    build, made = small_book
    path, execute = planted('print(x + 41)'), runs.execute

    def interrupted(*args):
        execute(*args)
        raise KeyboardInterrupt
    monkeypatch.setattr(runs, 'execute', interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(path)
    assert made == [[[]]] and not (path.parent / '_build').exists()      # that one is not whole
    monkeypatch.setattr(runs, 'execute', execute)
    build(path)
    assert made[-1] == [['42\n']]


@pytest.mark.slow
def test_one_topic_alone(planted, small_book):
    build, made = small_book
    path = planted('print(x + 41)')
    build(path, topics=['another'])
    assert made == [[[]]]
    build(path, topics=[path.parent.name])
    assert made[-1] == [['42\n']]


def test_a_topic_that_does_not_exist_is_named(program):
    status, said = program('book', 'asynchrony', 'nothing')
    topics = ', '.join(dict.fromkeys(p.parent.name for p in source.notebooks()))
    assert status == 2 and f'no topic nothing; there are {topics}' in said


def test_two_builds_at_once(program, tmp_path):
    """The second says so, and touches nothing."""
    html = tmp_path / 'html'
    book.BUILD.mkdir(exist_ok=True)
    for lock in book.locks(stored=True, html=html):
        with filelock.FileLock(lock):
            status, said = program('book', '--stored', '--to', str(html))
        assert status == 1 and 'Another make book' in said and not html.exists()


def test_builds_that_share_a_folder_share_a_lock():
    """Pages with stored outputs and those that are measured may be made at once, in two folders."""
    def locks(stored, folder):
        return set(book.locks(stored, book.BUILD / folder))
    assert locks(True, 'html') & locks(False, 'html')
    assert not locks(True, 'stored') & locks(False, 'html')
    assert locks(True, 'stored') & locks(True, 'other')         # one tree
