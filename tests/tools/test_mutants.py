"""Planted faults: they fit the notebooks, and a sample of them is run (`make mutants` runs all)."""

import nbformat
import pytest

from tools import mutants, mutating, notebooks
from tools.notebooks import ROOT

PLANTED = mutants.planted()
RUNS_IN_SECONDS = ('asynchrony_pytorch', 'multi_gpu_mxnet')     # notebooks from which the sample comes


@pytest.mark.parametrize('m', PLANTED, ids=lambda m: m.claim)
def test_a_planted_fault_fits_its_notebook(m):
    cut = mutants.with_fault(m)
    assert m.new in '\n'.join(c.source for c in cut.cells) and m.old != m.new and m.what
    assert m.claim in cut.cells[-1].source


def test_faults_are_spread_over_the_topics():
    assert len({m.claim for m in PLANTED}) >= 30
    topics = {p.parent.name for p in notebooks.notebooks()}
    assert {m.notebook.split('/')[1] for m in PLANTED} == topics


def sample():
    """The first planted fault of each notebook that comes to its claim soon."""
    for stem in RUNS_IN_SECONDS:
        for m in PLANTED:
            if m.notebook.endswith(f'/{stem}.ipynb'):
                yield m
                break


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('m', list(sample()), ids=lambda m: m.claim)
def test_a_sample_of_the_faults_is_killed(m):
    if reason := notebooks.missing(notebooks.framework(ROOT / m.notebook)):
        pytest.skip(reason)
    assert mutants.try_planted(m) != 'holds'


def planted(tmp_path, source):
    path = tmp_path / 'one.ipynb'
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    return path


PAIRS = '''from d2l_local import claims, timing
timing.SPAN = 0.2
def work(n):
    return lambda: sum(range(n))
c = claims.claim('a-b', 'A takes longer.', (work(3000), work(300)), agree=False, clock='thread', above=2)
c = claims.claim('a-c', 'They take as long.', (work(300), work(300)), clock='thread', below=1.5)'''


@pytest.mark.parametrize('name', mutating.FAULTS)
@pytest.mark.parametrize(('bound', 'best'), [({'above': 2}, 1), ({'below': 12}, 24)])
def test_a_mutated_pair_cannot_hold(name, bound, best):
    """By calls, which cost the same: ten to one becomes one to one at most, or 24 to one at least."""
    calls = []
    pair = mutating.fault(name, lambda: calls.extend('s' * 10), lambda: calls.append('f'),
                          bound.get('below'))
    work = []
    for f in pair:
        calls.clear()
        f()
        work.append(len(calls))
    assert work[0] / work[1] <= best if 'above' in bound else work[0] / work[1] >= best


@pytest.mark.slow
@pytest.mark.alone
def test_pairs_are_mutated(tmp_path):
    found = mutants.try_pairs(planted(tmp_path, PAIRS))
    assert found == {'a-b': ['fails', 'fails'], 'a-c': ['fails', 'fails']}


def test_a_fault_that_fits_nothing_is_named():
    name = str(notebooks.notebooks()[0].relative_to(ROOT))
    with pytest.raises(ValueError, match='stands in 0 cells'):
        mutants.with_fault(mutants.Mutant('a-b', name, 'no such text anywhere', 'x', 'nothing'))
