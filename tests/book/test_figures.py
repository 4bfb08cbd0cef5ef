"""The figures that are stored are the figures that their scripts draw."""

import importlib.util

import pytest

from d2l_local import machine, plotting
from tools.notebooks import ROOT

SCRIPTS = sorted((ROOT / 'chapters').glob('*/figures/draw.py'))


def load(script):
    spec = importlib.util.spec_from_file_location(f'draw_{script.parent.parent.name}', script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize('script', SCRIPTS, ids=lambda p: p.parent.parent.name)
def test_stored_figures_are_drawn_by_their_script(script, tmp_path):
    module = load(script)
    assert {p.stem for p in script.parent.glob('*.svg')} == set(module.FIGURES)
    drawn = plotting.draw_svg(module.FIGURES, tmp_path)
    assert drawn
    if machine.version('matplotlib') != '3.7.2':
        pytest.skip('another matplotlib draws other bytes')
    for name, svg in drawn.items():
        assert svg == script.with_name(f'{name}.svg').read_text(), name
