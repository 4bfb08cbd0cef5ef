"""What the plugin hands over between runs, and how it sets up kernels; ``test_nbval.py`` has the rest."""

import os
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from tested_results import pytest_plugin
from tested_results.claims import METADATA_KEY
from tests.tested_results.made import result


@pytest.fixture
def results():
    return pytest_plugin.Results(SimpleNamespace())


def notebook(path, *found):
    """A notebook with a cell for each of these results, and what nbval has of its cells after a run."""
    cells = []
    for c in found:
        out = nbformat.v4.new_output('display_data', metadata={METADATA_KEY: c.data()})
        cells.append(nbformat.v4.new_code_cell('', outputs=[out]))
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return [SimpleNamespace(path=path, cell_num=i, test_outputs=cell.outputs) for i, cell in enumerate(cells)]


def test_what_a_run_has_seen_comes_to_the_one_that_judges(results, tmp_path):
    """From a file of another run; and from a process beside others, whose results are known for it."""
    one = result('a-b', parts={'f': 1.0}, needs=['links'])
    for cell in notebook(tmp_path / 'one.ipynb', one, result('a-c')):
        results.pytest_runtest_teardown(cell)
    file = tmp_path / 'results.json'
    file.write_text(results._as_json())
    later = pytest_plugin.Results(SimpleNamespace())
    later.read(file)
    assert later.found == results.found and later.cells == {tmp_path / 'one.ipynb': 2} and not later.beside
    controller = pytest_plugin.Results(SimpleNamespace())
    node = SimpleNamespace(workeroutput={'tested_results': results._as_json()})
    controller.pytest_testnodedown(node, None)
    controller.pytest_testnodedown(SimpleNamespace(), 'it crashed')
    assert controller.found == results.found and controller.beside == {'a-b', 'a-c'}


def test_only_a_notebook_that_ran_to_its_end_must_have_its_results(results, tmp_path):
    first, second = notebook(tmp_path / 'one.ipynb', result('a-b'), result('a-c'))
    second.test_outputs = None              # its kernel died
    for cell in first, second:
        results.pytest_runtest_teardown(cell)
    assert [c.id for c in results.found] == ['a-b'] and results._stored_results() == ({}, {})
    for cell in notebook(tmp_path / 'two.ipynb', result('b-b'), result('b-c')):
        results.pytest_runtest_teardown(cell)
    reference, homes = results._stored_results()
    assert set(reference) == {'b-b', 'b-c'} and set(homes.values()) == {tmp_path / 'two.ipynb'}


@pytest.mark.parametrize('content', [None, '{"results": [', '{}', '[]', '{"results": [{}], "beside": []}'])
def test_a_file_that_has_no_results_is_refused_by_name(results, tmp_path, content):
    file = tmp_path / 'results.json'
    if content is not None:
        file.write_text(content)
    with pytest.raises(pytest.UsageError, match='results.json has no results of a run.*--results-to'):
        results.read(file)


def test_a_kernel_measures_for_less_time_unless_the_environment_says_how_long(monkeypatch):
    monkeypatch.setenv('TESTED_RESULTS_SPAN', '8')
    monkeypatch.setenv('TESTED_RESULTS_GUESSES', str(Path('mine.json')))
    monkeypatch.delenv('TESTED_RESULTS_WINDOWS', raising=False)
    before = dict(os.environ)
    with pytest_plugin._settings():
        assert os.environ['TESTED_RESULTS_SPAN'] == '8' and os.environ['TESTED_RESULTS_WINDOWS'] == '7'
        assert os.environ['TESTED_RESULTS_GUESSES'] == 'off'
    assert dict(os.environ) == before
