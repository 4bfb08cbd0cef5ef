"""The front door says what is wrong and what to do, and leaves nothing half-made."""

import contextlib
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import filelock
import nbformat
import pytest

from tests.living import gone
from tools import book, front, ledger, notebooks, pages
from tools.notebooks import ROOT


def run(*command, **env):
    # Variables of a `make test PYTHON=…` that runs us would win over those of a test.
    outer = {k: v for k, v in os.environ.items()
             if not k.startswith('MAKE') and k not in ('PYTHON', 'REQUIREMENTS')}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300,
                          env={**outer, **env})
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def program(monkeypatch, capsys):
    """Run a module of the tools as a program, in this process: its exit status and all that it says."""
    def start(name, *args):
        monkeypatch.setattr(sys, 'argv', [name, *args])
        status = None
        try:
            runpy.run_path(str(ROOT / 'tools' / f'{name}.py'), run_name='__main__')
        except SystemExit as e:
            status = e.code
        said = ''.join(capsys.readouterr())
        return (1, said + status) if isinstance(status, str) else (status, said)
    return start


@pytest.mark.skipif(not shutil.which('make'), reason='no make')
def test_make_explains_itself():
    status, said = run('make', '-s', 'help')
    assert status == 0
    for target in ('book', 'test', 'lab', 'refresh', 'clean'):
        assert f'make {target}' in said


@pytest.mark.parametrize(('command', 'env', 'says'), [
    ('book', {'REQUIREMENTS': 'nope.txt'}, 'requirements-gpu.txt'),
    ('book', {'PYTHON': '/no/such/python', 'REQUIREMENTS': 'requirements-gpu.txt'}, 'does not run'),
    ('read', {}, 'make help'),
])
def test_bad_settings_are_named(command, env, says):
    status, said = run(sys.executable, 'tools/front.py', command, **env)
    assert status != 0 and says in said and 'Traceback' not in said


@pytest.mark.parametrize(('have', 'named', 'chosen'), [
    ({'python3.11': (3, 11), 'python3': (3, 9)}, '', ['python3.11', '-m', 'venv']),
    ({'python3': (3, 11)}, '', ['python3', '-m', 'venv']),
    ({'python3': (3, 9), 'p': (3, 13)}, 'p', ['p', '-m', 'venv']),
    ({'python3': (3, 9), 'uv': None}, '', 'uv'),
    ({'python3': (3, 9)}, 'p', SystemExit),
])
def test_the_interpreter(monkeypatch, have, named, chosen):
    monkeypatch.setattr(front, 'version', have.get)
    monkeypatch.setattr(front.shutil, 'which', lambda name: name if name in have else None)
    monkeypatch.setenv('PYTHON', named)
    if chosen is SystemExit:
        with pytest.raises(SystemExit, match='Python 3.11'):
            front.choose('book')
    elif chosen == 'uv':
        assert front.choose('book')[0] == 'uv'
    else:
        assert front.choose('book') == chosen


@pytest.mark.parametrize(('python', 'ends'), [((3, 9), True), ((3, 12), False)])
def test_other_pythons(monkeypatch, capsys, python, ends):
    monkeypatch.delenv('PYTHON', raising=False)
    monkeypatch.setattr(front, 'version', lambda name: None)
    monkeypatch.setattr(front.shutil, 'which', lambda name: None)
    monkeypatch.setattr(front.sys, 'version_info', python)
    if ends:
        with pytest.raises(SystemExit, match='Install Python 3.11'):
            front.choose('book')
    else:
        assert front.choose('book') == [sys.executable, '-m', 'venv']
        assert 'PyTorch half' in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which('make'), reason='no make')
def test_make_lab_passes_options_on():
    status, said = run('make', '-n', 'lab', 'ARGS=--port 9999 --no-browser')
    assert status == 0 and said.strip().endswith('tools/front.py lab --port 9999 --no-browser')


@pytest.mark.parametrize(('command', 'user', 'needed'), [
    ('lab', 0, ['--allow-root']), ('lab', 1000, []), ('book', 0, [])])
def test_the_lab_starts_for_root_too(monkeypatch, command, user, needed):
    """JupyterLab refuses root, whom containers run as; a user's own options come last and win."""
    monkeypatch.setattr(front.os, 'geteuid', lambda: user, raising=False)
    monkeypatch.setattr(front, 'ensure', lambda command: None)
    monkeypatch.setattr(sys, 'argv', ['front', command, '--port', '9999'])
    started = []
    monkeypatch.setattr(front.subprocess, 'Popen', lambda command, **how: started.append(command)
                        or SimpleNamespace(wait=lambda: 0))
    with pytest.raises(SystemExit):
        front.main()
    assert started == [[str(front.PYTHON), *front.COMMANDS[command], *needed, '--port', '9999']]


def test_a_read_only_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(front, 'ROOT', tmp_path / 'gone')     # cannot be written to, for any user
    with pytest.raises(SystemExit, match='cannot be written to.*\n.*Copy the book'):
        front.writable()


def test_uv_installs_where_it_is_there(monkeypatch):
    for have, first in ((True, 'uv'), (False, str(front.PYTHON))):
        monkeypatch.setattr(front.shutil, 'which', lambda name, have=have: '/uv' if have else None)
        assert front.installer()[0] == first


def test_bytecode_is_kept_in_the_environment_where_it_is_not_wanted_beside_sources(monkeypatch):
    """Without bytecode, each import of PyTorch or MXNet takes several times as long."""
    monkeypatch.delenv('PYTHONPYCACHEPREFIX', raising=False)
    code = 'import sys; print(sys.dont_write_bytecode, sys.pycache_prefix)'
    for asked, prefix in (('1', str(front.VENV / 'bytecode')), ('', 'None')):
        monkeypatch.setenv('PYTHONDONTWRITEBYTECODE', asked)
        out = subprocess.run([sys.executable, '-c', code], env=front.surroundings(), capture_output=True,
                             text=True)
        assert out.stdout.split() == ['False', prefix]


@pytest.mark.slow
def test_a_failed_install_says_so_and_is_not_marked_done(monkeypatch, tmp_path):
    monkeypatch.setattr(front, 'VENV', tmp_path)
    monkeypatch.setattr(front, 'PYTHON', sys.executable)
    with pytest.raises(SystemExit, match='pip failed'):
        front.pip('--no-index', 'no-such-package-for-this-book')
    assert not (tmp_path / 'installed').exists()


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A small book of one notebook whose second cell can be made to fail."""
    monkeypatch.setattr(notebooks, 'ROOT', tmp_path)
    monkeypatch.setattr(notebooks, 'EXECUTED', tmp_path / '_build')
    path = tmp_path / 'one.ipynb'
    monkeypatch.setattr(notebooks, 'notebooks', lambda: [path])

    def plant(second):
        cells = [nbformat.v4.new_markdown_cell('# One'), nbformat.v4.new_code_cell('x = 1'),
                 nbformat.v4.new_code_cell(second)]
        notebooks.write(path, nbformat.v4.new_notebook(cells=cells))
        return path
    return plant


@pytest.mark.slow
def test_a_cell_that_raises_is_named_and_nothing_is_stored(planted, capsys):
    path = planted('x.nothing')
    before = path.read_text()
    assert notebooks.refresh([path], ledger.kind) == 1
    said = capsys.readouterr().err
    assert 'one.ipynb: cell 2 raised AttributeError' in said and 'x.nothing' in said
    assert path.read_text() == before and [p.name for p in path.parent.iterdir()] == ['one.ipynb']


@pytest.mark.slow
def test_a_kernel_that_dies_is_named(planted, capsys):
    path = planted('import os; os._exit(3)')
    before = path.read_text()
    assert notebooks.refresh([path], ledger.kind) == 1
    said = capsys.readouterr().err
    assert 'one.ipynb: cell 2 ended it: Kernel died' in said and 'os._exit' in said
    assert path.read_text() == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == 'nt', reason='signals of another kind')
def test_ctrl_c_ends_the_kernel_and_says_so(planted, tmp_path):
    inside = tmp_path / 'inside'
    path = planted(f'import os, time; print(os.getpid(), file=open({str(inside)!r}, "w"), flush=True)\n'
                   'time.sleep(600)')
    code = (f'import sys; sys.argv = ["x", "refresh", {str(path)!r}]; from pathlib import Path; '
            f'from tools import notebooks; notebooks.ROOT = Path({str(tmp_path)!r}); '
            'notebooks.notebooks = lambda: [Path(sys.argv[-1])]; '
            'import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n'
            'try: notebooks.main()\nexcept KeyboardInterrupt: print("interrupted")')
    child = subprocess.Popen([sys.executable, '-c', code], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        end = time.monotonic() + 300
        while time.monotonic() < end and not (inside.exists() and inside.read_text().endswith('\n')):
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        said, _ = child.communicate(timeout=300)
    finally:
        child.kill()
    assert said.strip().endswith('interrupted') and 'Traceback' not in said
    assert gone([int(inside.read_text())])


@pytest.mark.slow
def test_an_interrupt_stores_nothing(planted, monkeypatch):
    path = planted('x + 1')
    before = path.read_text()

    def interrupted(*_, **how):
        raise KeyboardInterrupt
    monkeypatch.setattr(notebooks.NotebookClient, 'execute', interrupted)
    with pytest.raises(KeyboardInterrupt):
        notebooks.refresh([path], ledger.kind)
    assert path.read_text() == before and [p.name for p in path.parent.iterdir()] == ['one.ipynb']


@pytest.mark.slow
def test_a_refresh_changes_only_what_changed(planted):
    path = planted('import time; print(f"≈{time.perf_counter():.4f} s", 7)')
    assert notebooks.refresh([path], ledger.kind) == 0
    first = path.read_text()
    assert '"execution_count": 2' in first
    assert notebooks.refresh([path], ledger.kind) == 0 and path.read_text() == first
    path.write_text(first.replace(', 7)', ', 8)'))
    assert notebooks.refresh([path], ledger.kind) == 0 and ' 8' in path.read_text().split('outputs')[-1]


CLAIM = """from pathlib import Path
from tested_results.claims import estimate
c = estimate('a-b', [float(Path('truth').read_text())] * 10, above=2)"""


@pytest.mark.slow
def test_a_refresh_stores_the_verdict_that_came_out(planted):
    """Never a better one that was there before: nothing is selected."""
    path = planted(CLAIM)
    for truth in (3.0, 1.0, 3.0):
        (path.parent / 'truth').write_text(str(truth))
        assert notebooks.refresh([path], ledger.kind) == 0
        verdicts = [o.metadata['d2l_claim']['verdict']
                    for o in nbformat.read(path, as_version=4).cells[-1].outputs]
        assert verdicts == ['holds' if truth > 2 else 'fails']


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
    notebooks.write(path, nb)
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
    path, execute = planted('print(x + 41)'), notebooks.execute

    def interrupted(*args):
        execute(*args)
        raise KeyboardInterrupt
    monkeypatch.setattr(notebooks, 'execute', interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(path)
    assert made == [[[]]] and not (path.parent / '_build').exists()      # that one is not whole
    monkeypatch.setattr(notebooks, 'execute', execute)
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
    topics = ', '.join(dict.fromkeys(p.parent.name for p in notebooks.notebooks()))
    assert status == 2 and f'no topic nothing; there are {topics}' in said


def test_two_builds_at_once(program, tmp_path):
    """The second says so, and touches nothing."""
    book.BUILD.mkdir(exist_ok=True)
    with filelock.FileLock(book.BUILD / 'stored.lock'):
        status, said = program('book', '--stored', '--to', f'{tmp_path}/html')
    assert status == 1 and 'Another make book' in said and not (tmp_path / 'html').exists()


@contextlib.contextmanager
def unlimited():
    """Jupyter Book is a process of its own: a limit of this one is none of its."""
    if os.name == 'nt':
        return (yield)
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def standing(program, monkeypatch, tmp_path):
    """A book of one page without notebooks, built by a stand-in for Jupyter Book; its old page stands.

    Returns:
        A function that builds it from a new source and gives the exit status and what was said; Jupyter
        Book makes ``built`` of it and ends with ``status``.
    """
    def build(text, built=None, status=0):
        def prepare(shown, old, source):
            pages.put(source / 'index.md', text)
            pages.put(source / '_config.yml', 'title: one\nhtml: {}')
            (source / pages.MADE).unlink(missing_ok=True)
            return 'ledger: …', '{"claims": []}'

        def jupyter_book(command, **_):
            made = tmp_path / 'src-stored/_build/html'
            if built is not None:
                made.mkdir(parents=True, exist_ok=True)
                with unlimited():
                    (made / 'index.html').write_text(built)
                (made / 'searchindex.js').write_text(
                    'Search.setIndex({"docnames":[],"indexentries":{}})')
            return subprocess.CompletedProcess(command, status, '', '')
        monkeypatch.setattr(pages, 'prepare', prepare)
        monkeypatch.setattr(pages, 'subprocess', SimpleNamespace(run=jupyter_book))
        return program('book', '--stored', '--to', f'{tmp_path}/html')
    monkeypatch.setattr(pages, 'BUILD', tmp_path)
    monkeypatch.setattr(notebooks, 'notebooks', lambda: [])
    build('old', 'old')
    return build


@pytest.mark.skipif(os.name == 'nt', reason='limits of another kind')
@pytest.mark.parametrize('full', ['sources', 'pages'])
def test_a_full_disk_leaves_the_old_pages(standing, tmp_path, full):
    """A limit on the size of files stops a write in its middle, as a full disk does."""
    import resource
    page, text = tmp_path / 'html/index.html', 'new' * 10_000
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        status, said = standing(text if full == 'sources' else 'new', text)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 1 and 'File too large' in said and 'The pages are as they were' in said
    assert page.read_text() == 'old' and (tmp_path / 'src-stored/index.md').read_text() != text
    assert not [p for p in tmp_path.rglob('*') if p.suffix in ('.part', '.new', '.old')]
    assert standing(text, text)[0] is None and page.read_text() == text


def test_pages_that_stopped_half_made_are_made_anew(standing, tmp_path):
    """Sphinx would take a half-written page for done, since it is newer than its source."""
    status, said = standing('new', 'ne', status=1)
    assert status == 1 and 'not rebuilt' in said
    assert (tmp_path / 'html/index.html').read_text() == 'old'
    (tmp_path / 'src-stored/_build/html/half.html').write_text('')
    assert standing('new', 'new')[0] is None
    assert [p.name for p in (tmp_path / 'html').glob('*.html')] == ['index.html']


def test_refresh_of_something_else_is_refused(program):
    status, said = program('notebooks', 'refresh', 'README.md')
    assert status == 2 and 'not a notebook of this book' in said
