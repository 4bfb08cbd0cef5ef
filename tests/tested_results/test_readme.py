"""What the README shows of another book's notebook, page and test is what comes out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tools.source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.alone]
README = (ROOT / 'packages' / 'tested_results' / 'README.md').read_text()
SECTION = README.partition('## The results of another book')[2]
CHANGED = '99_999'


def shown(language):
    """The blocks of code in a language."""
    return re.findall(rf'```{language}\n(.*?)\n```', SECTION, re.DOTALL)


def masked(text):
    """A text without what differs from machine to machine and from run to run."""
    text = re.sub(r'this kind of machine \(.*\)', 'this kind of machine', text)
    text = re.sub(r'(?m)^\d passed.* in .*$', 'passed', text)
    text = re.sub(r'\d+(\.\d+)?×', '×', text)
    text = re.sub(r'\d of 1\b', 'some of 1', text)
    return text.strip()


def run(command, folder, status=0):
    """What a command prints in a folder, where it ends with this status."""
    path = f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=300,
                          env={**os.environ, 'PATH': path})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    """The folder of the README, with the notebook run and the page made."""
    *cells, script = shown('python')
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    nbformat.write(nb, tmp_path / 'sums.ipynb')
    (tmp_path / 'sums.md').write_text(shown('markdown')[0] + '\n')
    (tmp_path / 'page.py').write_text(script)
    return tmp_path


def test_the_example_prints_what_the_readme_shows(folder):
    execute, page, test = shown('sh')[0].splitlines()
    run(execute, folder)
    printed, changed = shown('text')
    assert masked(run(page, folder) + run(test, folder)) == masked(printed)
    file = folder / 'sums.ipynb'
    file.write_text(file.read_text().replace('100_000', CHANGED))
    assert f'`range({CHANGED})`' in SECTION
    assert masked(run(test, folder, status=1)) == masked(changed)
