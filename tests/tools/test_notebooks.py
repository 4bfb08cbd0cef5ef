"""What a stored run depends on: it is shown again only where a new one would give the same."""

import re

import nbformat
import pytest

from tools import ledger, notebooks
from tools.notebooks import ROOT

INERT = {'D2L_GUESSES', 'D2L_EXERCISES', 'D2L_LEDGERS'}     # where guesses, exercises and ledgers lie


@pytest.fixture
def topic(tmp_path, monkeypatch):
    """A book of one PyTorch notebook, with a helper package and a package of its topic."""
    monkeypatch.setattr(notebooks, 'ROOT', tmp_path)
    for name in notebooks.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / 'chapters' / 'one'
    files = {tmp_path / 'd2l_local': ('__init__.py', 'a.py', 'digits.npz'),
             tmp_path / 'packages' / 'one': ('README.md', 'pyproject.toml', 'one/b.py'),
             folder: ('own.py', 'checkers.py', 'index.md', 'trace.json', 'lab/__init__.py',
                      'lab/below/c.py', 'lab/weights.pt', 'figures/draw.py', 'lab/__pycache__/c.pyc')}
    for place, names in files.items():
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text('x = 1')
    return folder


def key(topic, code='import lab', name='one_pytorch'):
    """The key of a run of a notebook with this code."""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    return notebooks.key(topic / f'{name}.ipynb', nb)


@pytest.mark.parametrize(('file', 'text', 'same'), [
    ('d2l_local/a.py', 'x = 2', False),
    ('d2l_local/a.py', 'x = (\n    1)    # one', True),
    ('d2l_local/a.py', '"""Of one."""\nx = 1', True),
    ('packages/one/one/b.py', 'x = 2', False),
    ('packages/one/README.md', 'x = 2', True),
    ('packages/one/pyproject.toml', 'x = 2', True),
    ('d2l_local/digits.npz', 'x  = 1', False),
    ('d2l_local/new.py', 'x = 1', False),
    ('chapters/one/own.py', 'x = 2', False),
    ('chapters/one/lab/below/c.py', 'x = 2', False),
    ('chapters/one/lab/weights.pt', 'x = 2', False),
    ('chapters/one/lab/__pycache__/c.pyc', 'x = 2', True),
    ('chapters/one/trace.json', 'x = 2', True),         # a run may write such files beside the notebook
    ('chapters/one/index.md', 'x = 2', True),
    ('chapters/one/checkers.py', 'x = 2', True),
    ('chapters/one/figures/draw.py', 'x = 2', True)])
def test_a_run_depends_on_modules_and_their_data(topic, file, text, same):
    before = key(topic)
    (topic.parents[1] / file).write_text(text)
    assert (key(topic) == before) == same


@pytest.mark.parametrize('text', ['x = 1    # one', '"""Of one."""\nx = 1'])
def test_a_run_that_prints_source_depends_on_its_words(topic, text):
    code = 'print(inspect.getsource(a))'
    before = key(topic, code)
    (topic.parents[1] / 'd2l_local/a.py').write_text(text)
    assert key(topic, code) != before


def test_a_docstring_of_a_function_is_no_code(topic):
    module = topic.parents[1] / 'd2l_local/a.py'
    module.write_text('class A:\n    def f(self):\n        return 1')
    before = key(topic)
    module.write_text('class A:\n    """An A."""\n    def f(self):\n        """One."""\n        return 1')
    assert key(topic) == before
    module.write_text('class A:\n    """An A."""\n    def f(self):\n        """One."""\n        return 2')
    assert key(topic) != before


def test_a_run_depends_on_its_code(topic):
    assert len({key(topic), key(topic, 'import lab  '), key(topic, name='two_pytorch')}) == 3


@pytest.mark.parametrize('name', ['D2L_BUDGET', 'D2L_DATA', 'D2L_FULL', 'D2L_SPAN', 'D2L_WINDOWS'])
def test_a_run_depends_on_the_settings(topic, monkeypatch, name):
    before = key(topic)
    monkeypatch.setenv(name, '')            # as if it were not set, for those who read it
    assert key(topic) == before
    monkeypatch.setenv(name, '7')
    assert key(topic) != before


def test_every_variable_that_the_helpers_read_is_a_setting_or_changes_nothing():
    modules = [p for folder in ('d2l_local', 'packages', 'chapters') for p in (ROOT / folder).rglob('*.py')]
    read = {v for p in modules for v in re.findall(r'\bD2L_[A-Z]+', p.read_text())}
    assert read - INERT == set(notebooks.SETTINGS)


def test_a_run_depends_on_its_framework_and_not_on_the_other(topic, monkeypatch):
    before, here = key(topic), dict(notebooks.machine.machine())
    monkeypatch.setattr(notebooks.machine, 'machine', lambda: {**here, 'mxnet': 'another'})
    assert key(topic) == before
    monkeypatch.setattr(notebooks.machine, 'machine', lambda: {**here, 'torch': 'another'})
    assert key(topic) != before


def test_the_files_of_the_book():
    found = {f.relative_to(ROOT).as_posix()
             for f in notebooks.helpers(ROOT / 'chapters/transformer/serving_pytorch.ipynb')}
    assert {'d2l_local/digits.npz', 'packages/local_cluster/local_cluster/links.py',
            'chapters/transformer/small_gpt/gpt.pt', 'chapters/transformer/small_gpt/model.py'} <= found
    assert not [f for f in found if 'hardware' in f or 'figures' in f or f.endswith('/checkers.py')]


THIS, OTHER = ({'processor': name, 'cores': 2, 'gpus': [], 'system': 'Linux'} for name in ('this', 'other'))


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Two notebooks whose stored results come from another machine; those of a run come from this one."""
    def notebook(where):
        cell = nbformat.v4.new_code_cell('1', execution_count=1)
        result = {'where': where, 'verdict': 'holds', 'reason': '', 'kind': 'ratio', 'needs': []}
        metadata = {notebooks.METADATA_KEY: result}
        cell.outputs = [nbformat.v4.new_output('display_data', {'text/plain': '1'}, metadata=metadata)]
        return nbformat.v4.new_notebook(cells=[cell])

    def run(path, label):
        ran.append(path.stem)
        if path.stem in raising:
            raise notebooks.CellFailed(f'{path.stem} raised')
        return notebook(THIS)

    paths, ran, raising = [tmp_path / 'one.ipynb', tmp_path / 'two.ipynb'], [], set()
    for path in paths:
        nbformat.write(notebook(OTHER), path)
    monkeypatch.setattr(notebooks, 'ROOT', tmp_path)
    monkeypatch.setattr(notebooks, 'EXECUTED', tmp_path / 'executed')
    monkeypatch.setattr(notebooks, 'notebooks', lambda: paths)
    monkeypatch.setattr(notebooks, 'keep', run)
    monkeypatch.setattr(notebooks.machine, 'machine', lambda: THIS)
    return paths, ran, raising


def stored(path):
    return nbformat.read(path, as_version=4).cells[0].outputs[0].metadata[notebooks.METADATA_KEY]['where']


def test_one_notebook_is_not_stored_beside_those_of_another_machine(book):
    paths, ran, _ = book
    with pytest.raises(notebooks.Mixed, match='two.ipynb are stored from another .*refresh ALL=1'):
        notebooks.refresh(paths[:1], ledger.kind)
    assert not ran and stored(paths[0]) == OTHER


def test_the_whole_book_is_stored(book):
    paths, ran, _ = book
    assert notebooks.refresh(paths, ledger.kind, all_outputs=True) == 0
    assert ran == ['one', 'two'] and [stored(p) for p in paths] == [THIS, THIS]
    assert notebooks.refresh(paths[:1], ledger.kind) == 0


def test_a_whole_run_of_which_a_notebook_raised_is_not_stored(book):
    paths, _, raising = book
    raising.add('two')
    with pytest.raises(notebooks.Mixed, match='two.ipynb'):
        notebooks.refresh(paths, ledger.kind, all_outputs=True)
    assert [stored(p) for p in paths] == [OTHER, OTHER]


def test_runs_that_were_kept_are_stored_with_those_that_were_missing(book, monkeypatch):
    paths, ran, _ = book
    first = notebooks.keep(paths[0], '')
    monkeypatch.setattr(notebooks, 'latest', lambda path: (first, path == paths[0]))
    assert notebooks.refresh(paths, ledger.kind, all_outputs=True, kept=True) == 0
    assert ran == ['one', 'two'] and [stored(p) for p in paths] == [THIS, THIS]
