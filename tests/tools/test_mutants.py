"""Planted faults: they fit the notebooks, and a sample of them is run (`make mutants` runs all)."""

import symtable
import sys

import nbformat
import pytest

from tested_results import execution
from tools import mutants, mutating, source
from tools.source import ROOT

PLANTED = mutants.planted()
RUNS_IN_SECONDS = ('asynchrony_pytorch', 'multi_gpu_mxnet')     # notebooks from which the sample comes


@pytest.mark.parametrize('m', PLANTED, ids=lambda m: m.claim)
def test_a_planted_fault_fits_its_notebook(m):
    cut = mutants.with_fault(m)
    assert m.new in '\n'.join(c.source for c in cut.cells) and m.old != m.new and m.what
    assert m.claim in cut.cells[-1].source


def test_faults_are_spread_over_the_topics():
    assert len({m.claim for m in PLANTED}) >= 30
    topics = {p.parent.name for p in source.notebooks()}
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
    if reason := source.missing(source.framework(ROOT / m.notebook)):
        pytest.skip(reason)
    assert mutants.try_planted(m) != 'holds'


def planted(tmp_path, source):
    path = tmp_path / 'one.ipynb'
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    return path


PAIRS = '''from tested_results import claims, timing
timing.SPAN = 0.2
def work(n):
    return lambda: sum(range(n))
def done(n):
    return lambda: sum(range(n)) and n
c = claims.compare('a-b', more=done(3000), less=done(300), clock='thread', work=(3000, 300), above=2)
c = claims.compare('a-c', a=work(300), b=work(300), clock='thread', below=1.5)
c = claims.compare('a-d', more=done(3000), less=done(300), clock='thread', work=(3000, 300), above=2)
c = claims.compare('a-e', one=work(300), other=work(300), clock='thread')
c = claims.verify('a-f', True)'''


@pytest.mark.parametrize('name', mutating.FAULTS)
@pytest.mark.parametrize(('bound', 'best'), [({'above': 2}, 1), ({'below': 12}, 20), ({'below': 2}, 20)])
def test_a_mutated_pair_cannot_hold(name, bound, best):
    """By calls, which cost the same: ten to one becomes one to one at most, or twice as much exactly,
    whatever the bound is: a bound that this does not break is too wide to say anything."""
    calls = []
    pair = mutating.fault(name, lambda: calls.extend('s' * 10), lambda: calls.append('f'),
                          bound.get('below'))
    work = []
    for f in pair:
        calls.clear()
        f()
        work.append(len(calls))
    assert work[0] / work[1] <= best if 'above' in bound else work[0] / work[1] == best


@pytest.mark.slow
@pytest.mark.alone
def test_pairs_are_mutated(tmp_path):
    found = mutants.try_pairs(planted(tmp_path, PAIRS))
    assert found == {id: ['fails', 'fails'] for id in ('a-b', 'a-c', 'a-d')}      # those with a bound


def test_a_fault_that_fits_nothing_is_named():
    name = str(source.notebooks()[0].relative_to(ROOT))
    with pytest.raises(ValueError, match='stands in 0 cells'):
        mutants.with_fault(mutants.Mutant('a-b', name, 'no such text anywhere', 'x', 'nothing'))


# --- variants that do a part of their work --------------------------------------------------------

HARDWARE, MXNET = 'chapters/hardware/hardware.ipynb', 'chapters/hardware/hardware_mxnet.ipynb'
LAZY = [mutants.Mutant(*m) for m in (
    ('hw-mx-peak-least', MXNET, 'fully_connected=lambda: linear(a, a),\n',
     'fully_connected=lambda: linear(a[:64], a),\n', 'an eighth of the rows'),
    ('hw-mx-peak-least', MXNET, 'multiply_adds(512**3)', 'multiply_adds(8 * 512**3)',
     'eight times the operations that are compared with'),
    ('hw-mx-dispatch', MXNET, 'numpy=lambda: numpy.add(np_one, np_one)', 'numpy=lambda: np_one',
     'NumPy does not add'),
    ('hw-random-stream', HARDWARE, 'lambda: kernels.read_all(next(pieces))',
     'lambda: kernels.read_all(next(pieces)[:steps // 8])', 'an eighth is read'),
    ('hw-random-stream', HARDWARE, 'ring.chase(steps)', 'ring.chase(steps - 1)', 'a chain that is shorter'),
    ('hw-socket-chunks', HARDWARE, 'range(MIB // piece)', 'range(MIB // piece // (1 + (piece > KIB)))',
     'half as many large pieces'),
    ('hw-socket-chunks', HARDWARE, 'rest = memoryview(data)', 'rest = memoryview(data)[:piece // 2]',
     'half of each piece, for both'))]


def what_it_needs(nb):
    """The notebook's last cell and, of those before it, what makes the names that it uses."""
    kept, wanted = [], set()
    for cell in [c for c in nb.cells if c.cell_type == 'code'][::-1]:
        top = symtable.symtable(cell.source, 'cell', 'exec')
        made = {x.get_name() for x in top.get_symbols() if x.is_assigned() or x.is_imported()}
        if not kept or made & wanted:
            kept.insert(0, cell)
            wanted = wanted - made | set(free_names(top))
    return kept


def free_names(table):
    """The names that a piece of code takes from outside of it."""
    for x in table.get_symbols():
        if x.is_referenced() and (x.is_global() or table.get_type() == 'module'):
            yield x.get_name()
    for inner in table.get_children():
        yield from free_names(inner)


@pytest.mark.slow
@pytest.mark.parametrize('m', LAZY, ids=lambda m: f'{m.claim}: {m.what}')
def test_a_variant_that_does_a_part_of_its_work_is_an_error(m):
    if reason := source.missing(source.framework(ROOT / m.notebook)):
        pytest.skip(reason)
    nb = mutants.with_fault(m)
    nb.cells = what_it_needs(nb)
    with pytest.raises(execution.CellFailed, match='VariantError: the variant'):
        mutants.execute(nb, ROOT / m.notebook, f'only({m.claim!r})', f'{m.claim}: ')


@pytest.mark.parametrize('name', ['chapters/measuring/measuring_pytroch.ipynb', 'README.md'])
def test_a_notebook_that_is_not_there_is_no_success(monkeypatch, capsys, name):
    monkeypatch.setattr(sys, 'argv', ['mutants', name])
    with pytest.raises(SystemExit) as end:
        mutants.main()
    assert end.value.code == 2 and 'no notebook of this book' in capsys.readouterr().err


def test_a_planted_fault_that_was_not_tested_went_by():
    assert [mutants.missed('planted', v) for v in ('fails', 'undecided', 'holds', 'gone', 'error: x')] == [
        False, False, True, True, True]
    assert not mutants.missed('swapped', 'gone')
