"""The package without the book: the example of its README."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import live_figures
from live_figures.numbers import shown

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


def test_a_function_may_assign_to_its_arguments_and_call_them_as_it_likes(chromium, tmp_path):
    (tmp_path / 'page.html').write_text('<title>one</title>')
    chromium.open(tmp_path / 'page.html')
    translated = live_figures.javascript(assigns)
    assert chromium.run(f'({translated})({{v: 5, rate: 9}}).y') == assigns(5, 9)['y'] == 14


@pytest.mark.parametrize(('model', 'why'), [('default', 'k=2'), ('word', "'new': JavaScript"),
                                            ('assigned', "'switch': JavaScript")])
def test_what_a_browser_could_not_run_is_refused(model, why):
    with pytest.raises(ValueError, match=why):
        live_figures.javascript(globals()[model])


def default(x, k=2):
    return {'y': k * x}


def word(new):
    return {'y': new}


def assigned(x):
    switch = 2 * x
    return {'y': switch}


def assigns(v, rate):
    rate = helped(min(v, rate))
    return {'y': rate + v}


def helped(x):
    x = x + 4
    return x


def test_notebooks_of_one_name_in_two_folders_keep_their_functions(tmp_path):
    modules = []
    for factor in (2, 1000):
        path = tmp_path / str(factor) / 'lecture.ipynb'
        path.parent.mkdir()
        cell = nbformat.v4.new_code_cell(f'def model(x):\n    return {{"y": {factor} * x}}')
        nbformat.write(nbformat.v4.new_notebook(cells=[cell]), path)
        modules.append(live_figures.definitions(path, {}))
    assert modules[0].model(1) == {'y': 2} and '(2 * x)' in live_figures.javascript(modules[0].model)


def test_choices_are_in_the_unit_of_their_input():
    gpu = live_figures.Input('gpu', 'Memory', 'GB', choices=(('small', 80), ('large', 94)), start=80)
    assert [shown(x, gpu) for x in (80e9, 94e9, 93e9)] == ['small', 'large', 'large']


def test_equal_factors_begin_above_zero():
    with pytest.raises(ValueError, match="'x' goes by equal factors.*log=False"):
        live_figures.Input('x', 'X', '', 0, 100, 10)


def test_a_text_that_is_printed_may_have_groups_and_alternatives():
    found = live_figures.Measurements(texts={'page': 'write bandwidth: 3 GB/s'})
    assert found.find(live_figures.Printed('page', '(read|write) bandwidth: ')).value == 3e9
    assert found.find(live_figures.Printed('page', 'read bandwidth: |write bandwidth: ')).value == 3e9


def inner(x):
    return 2 * x


def outer(x):
    return {'y': inner(x)}


def test_every_name_of_its_face_is_in_the_readme_or_is_a_type():
    types = {'Source', 'Start', 'UNITS', 'note', 'start', 'table', 'Number'}
    assert not [name for name in live_figures.__all__ if name not in types and name not in README]
