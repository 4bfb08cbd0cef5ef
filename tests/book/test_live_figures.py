"""The package without the book: the example of its README."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import live_figures

README = (Path(live_figures.__file__).parent.parent / 'README.md').read_text()


def test_the_example_makes_a_page_that_turns(tmp_path, chromium):
    code, = re.findall(r'^```python\n(.*?)^```', README, re.MULTILINE | re.DOTALL)
    (tmp_path / 'example.py').write_text(code)
    subprocess.run([sys.executable, 'example.py'], cwd=tmp_path, check=True)
    chromium.open(tmp_path / 'roofline.html')
    said = 'document.querySelector("[role=status]").textContent'
    assert chromium.run(said) == ('At 1 operations per byte 31.5 GFLOP/s are possible. '
                                  'The limit is bandwidth.')
    assert chromium.run('document.querySelectorAll(".live-figure-how").length') == 1
    chromium.run('((slider) => { slider.value = slider.max; slider.dispatchEvent(new Event("input")); })'
                 '(document.querySelector("input[type=range]"))')
    assert 'The limit is the peak.' in chromium.run(said)
    note = chromium.run('document.querySelector(".live-figure-note").textContent')
    assert note == '≈ measured: my measurement.'
    assert not chromium.errors


def test_functions_of_a_notebook_are_those_of_cells_that_only_define(tmp_path):
    cells = ['%matplotlib inline', 'def low(x):\n    return 0 if x < limit else x',
             'def high(x):\n    pass\nhigh(1)',
             'def check(x):\n    """Raises."""\n    raise ValueError("no")',
             'def both(x):\n    check(x)\n    return {"y": low(x)}']
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbformat.write(nb, tmp_path / 'page.ipynb')
    module = live_figures.definitions(tmp_path / 'page.ipynb', {'limit': 3}, skip=['check'])
    assert not hasattr(module, 'high') and module.both(2) == {'y': 0} and module.both(4) == {'y': 4}
    with pytest.raises(ValueError, match='no'):
        live_figures.definitions(tmp_path / 'page.ipynb', {'limit': 3}).both(2)


def test_a_function_that_a_model_uses_is_translated_with_it():
    assert live_figures.javascript(outer).startswith('(() => { const inner = (x) => {')


def inner(x):
    return 2 * x


def outer(x):
    return {'y': inner(x)}


def test_every_name_of_its_face_is_in_the_readme_or_is_a_type():
    types = {'Source', 'Start', 'UNITS', 'note', 'start', 'table', 'Number'}
    assert not [name for name in live_figures.__all__ if name not in types and name not in README]
