"""The package without the book: the example of its README."""

import re
import subprocess
import sys
from pathlib import Path

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


def test_every_name_of_its_face_is_in_the_readme_or_is_a_type():
    types = {'Source', 'Start', 'UNITS', 'note', 'start', 'table', 'Number'}
    assert not [name for name in live_figures.__all__ if name not in types and name not in README]
