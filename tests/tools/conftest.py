"""Small books, and the tools run as programs in this process."""

import runpy
import sys

import nbformat
import pytest

from tests.tools.small import CELLS, GOOD
from tools import runs, source
from tools.source import ROOT


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


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A small book of one notebook whose second cell can be made to fail."""
    monkeypatch.setattr(source, 'ROOT', tmp_path)
    monkeypatch.setattr(runs, 'EXECUTED', tmp_path / '_build')
    path = tmp_path / 'one.ipynb'
    monkeypatch.setattr(source, 'notebooks', lambda: [path])

    def plant(second):
        cells = [nbformat.v4.new_markdown_cell('# One'), nbformat.v4.new_code_cell('x = 1'),
                 nbformat.v4.new_code_cell(second)]
        source.write(path, nbformat.v4.new_notebook(cells=cells))
        return path
    return plant


@pytest.fixture
def two_pages(tmp_path):
    """Pages of two files, with these texts and cells; returns them and the stored results."""
    def write(page=GOOD, cells=CELLS, said='# Two'):
        nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(said, id='a'),
                                             nbformat.v4.new_code_cell('\n'.join(cells), id='b')])
        one, two = tmp_path / 'one.md', tmp_path / 'two.ipynb'
        one.write_text(page)
        source.write(two, nb)
        return [one, two]
    return write
