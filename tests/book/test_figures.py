"""The figures that are stored are the figures that their scripts draw."""

import re

import pytest

from d2l_local import plotting
from tested_results import machine
from tools import figures, pages, quotations, source

IN_A_NOTEBOOK = re.compile(r'!\[([^\[\]]*)\]\(([^()\s]+)\)')
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


def test_each_figure_stands_on_a_page_with_words_for_those_who_do_not_see_it():
    shown = {}
    for path in source.pages():
        text = quotations.markdown(path)
        found = [(name, words) for words, name in IN_A_NOTEBOOK.findall(text)]
        found += pages.FIGURE.findall(text)
        shown |= {(path.parent / name).resolve(): words for name, words in found}
    assert set(shown) == set(figures.CHAPTERS.glob('*/figures/*.svg'))
    assert not [path for path, words in shown.items() if len(words) <= 20]
