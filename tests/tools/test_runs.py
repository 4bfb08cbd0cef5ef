"""What a stored run depends on: it is shown again only where a new one would give the same."""

import re

import nbformat
import pytest

from tools import runs, source
from tools.source import ROOT

# Where guesses, exercises and ledgers lie.
INERT = {'TESTED_RESULTS_GUESSES', 'ANSWER_CHECKS_FOLDER', 'D2L_LEDGERS'}


@pytest.fixture
def topic(tmp_path, monkeypatch):
    """A book of one PyTorch notebook, with a helper package and a package of its topic."""
    monkeypatch.setattr(source, 'ROOT', tmp_path)
    for name in runs.SETTINGS:
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
    return runs.key(topic / f'{name}.ipynb', nb)


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


def test_a_helper_that_is_edited_while_a_notebook_runs_has_it_run_again(topic, monkeypatch):
    """The kernel has imported the old one."""
    path, helper = topic / 'one_pytorch.ipynb', topic.parents[1] / 'd2l_local/a.py'
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('import lab')]), path)
    monkeypatch.setattr(runs, 'EXECUTED', topic.parents[1] / '_build')
    monkeypatch.setattr(source, 'missing', lambda framework: '')

    def execute(path, label):
        return nbformat.read(path, as_version=4)

    def execute_while_edited(path, label):
        helper.write_text('x = 2')
        return nbformat.read(path, as_version=4)
    monkeypatch.setattr(runs, 'execute', execute)
    runs.keep(path)
    assert runs.latest(path)[1]
    monkeypatch.setattr(runs, 'execute', execute_while_edited)
    runs.keep(path)
    assert not runs.latest(path)[1]


def test_a_run_depends_on_its_code(topic):
    assert len({key(topic), key(topic, 'import lab  '), key(topic, name='two_pytorch')}) == 3


@pytest.mark.parametrize('name', ['TESTED_RESULTS_BUDGET', 'D2L_DATA', 'D2L_FULL', 'TESTED_RESULTS_SPAN',
                                  'TESTED_RESULTS_WINDOWS'])
def test_a_run_depends_on_the_settings(topic, monkeypatch, name):
    before = key(topic)
    monkeypatch.setenv(name, '')            # as if it were not set, for those who read it
    assert key(topic) == before
    monkeypatch.setenv(name, '7')
    assert key(topic) != before


def test_every_variable_that_the_helpers_read_is_a_setting_or_changes_nothing():
    modules = [p for folder in ('d2l_local', 'packages', 'chapters') for p in (ROOT / folder).rglob('*.py')]
    variable = re.compile(r'\b(?:D2L|TESTED_RESULTS|ANSWER_CHECKS)_[A-Z]+')
    read = {v for p in modules for v in variable.findall(p.read_text())}
    assert read - INERT == set(runs.SETTINGS)


def test_a_run_depends_on_its_framework_and_not_on_the_other(topic, monkeypatch):
    before, here = key(topic), dict(runs.machine.machine())
    monkeypatch.setattr(runs.machine, 'machine', lambda: {**here, 'mxnet': 'another'})
    assert key(topic) == before
    monkeypatch.setattr(runs.machine, 'machine', lambda: {**here, 'torch': 'another'})
    assert key(topic) != before


def test_the_files_of_the_book():
    found = {f.relative_to(ROOT).as_posix()
             for f in runs.files_a_run_depends_on(ROOT / 'chapters/transformer/serving_pytorch.ipynb')}
    assert {'d2l_local/digits.npz', 'packages/local_cluster/local_cluster/links.py',
            'chapters/transformer/small_gpt/gpt.pt', 'chapters/transformer/small_gpt/model.py'} <= found
    assert not [f for f in found if 'hardware' in f or 'figures' in f or f.endswith('/checkers.py')]


def test_no_notebook_calls_what_checks_answers():
    """So a run need not depend on it."""
    assert not any(f.parts[-2] == 'answer_checks' for f in runs.files_a_run_depends_on(source.notebooks()[0]))
    assert not [path for path in source.notebooks() if 'answer_checks' in path.read_text()]
