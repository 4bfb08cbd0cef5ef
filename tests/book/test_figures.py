"""The figures that are stored are the figures that their scripts draw."""

import pytest

from d2l_local import plotting
from tested_results import machine
from tools import figures

TOPICS = sorted(p.parts[-3] for p in figures.CHAPTERS.glob('*/figures/draw.py'))


@pytest.mark.parametrize('topic', TOPICS)
def test_stored_figures_are_drawn_by_their_script(topic, tmp_path):
    module, folder = figures.load(topic), figures.CHAPTERS / topic / 'figures'
    assert {p.stem for p in folder.glob('*.svg')} == set(module.FIGURES)
    drawn = figures.draw_svg(module.FIGURES, tmp_path)
    assert drawn
    if machine.version('matplotlib') != '3.7.2':
        pytest.skip('another matplotlib draws other bytes')
    for name, svg in drawn.items():
        assert svg == (folder / f'{name}.svg').read_text(), name


def test_the_same_figure_has_the_same_bytes(tmp_path):
    def figure():
        plotting.plot([1, 2], [3, 4])
    first, second = (figures.draw_svg({'f': figure, 'absent': lambda: False}, tmp_path) for _ in '12')
    assert first == second and set(first) == {'f'}
    assert (tmp_path / 'f.svg').read_text() == first['f'] and not (tmp_path / 'absent.svg').exists()
