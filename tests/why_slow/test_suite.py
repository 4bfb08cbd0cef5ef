"""The scripts that a diagnosis is judged by: they run, and their faults can be planted."""

import ast
import os

import pytest

from tests.why_slow import evidence
from tests.why_slow.suite import faults

FINDINGS = {
    'loader', 'synchronization', 'anomaly', 'profiler', 'deterministic', 'float64', 'threads', 'python-loop',
    'small-operators', 'optimizer-loop', 'copies', 'kept-graph', 'evaluation-gradients', 'checkpoints',
    'small-batch', 'recompilation', 'graph-breaks', 'pageable', 'gaps', 'tf32', 'all-reduce', 'straggler'}
EACH = [(script, fault) for script, planted in faults.FAULTS.items() for fault in planted]


def test_each_script_has_five_faults():
    scripts = {path.stem for path in faults.SUITE.glob('*.py')} - {'faults', '__init__'}
    assert scripts == set(faults.FAULTS)
    assert len(scripts) >= 8
    assert min(len(planted) for planted in faults.FAULTS.values()) >= 5


@pytest.mark.parametrize(('script', 'fault'), EACH)
def test_a_fault_can_be_planted(script, fault):
    without, faulty = faults.versions(script, fault)
    assert without != faulty
    ast.parse(without)
    ast.parse(faulty)
    planted = faults.FAULTS[script][fault]
    assert {planted.finding, *planted.also} <= FINDINGS


def test_a_text_that_is_not_there_once_is_an_error():
    with pytest.raises(ValueError, match="occurs 2 times, and not once: 'a'"):
        faults.replaced('aba', [('a', 'c')])
    with pytest.raises(ValueError, match='occurs 0 times'):
        faults.replaced('aba', [('d', 'c')])


def test_the_table_counts():
    what = {'id': 'anomaly', 'finding': 'anomaly', 'ratio': 1.4, 'predicted': False}
    one = {'script': 'a', 'fault': 'one', 'finding': 'anomaly', 'rank': 1, 'real': {'gain': 1.5},
           'tested': what}
    two = {'script': 'a', 'fault': 'two', 'finding': 'loader', 'rank': 4, 'real': {'gain': 2.5},
           'tested': {**what, 'predicted': True}}
    clean = {'script': 'a', 'fault': 'clean', 'findings': [{'id': 'loader'}], 'step': {'seconds': 0.0123}}
    rows = [one, two, clean]
    text = evidence.table(rows)
    assert '| a | one | anomaly | 1 | 1.50× | 1.40× | yes |' in text
    assert '| a | two | loader | 4 | 2.50× | 1.40× (predicted) | no |' in text
    assert '| a | 12.3 | loader |' in text
    assert 'Found among the first 3: 1 of 2. Accusations on clean scripts: 1 on 1.' in text
    assert 'Tested within 15% of the real gain: 1 of 2.' in text


def test_a_tested_gain_comes_before_a_predicted_one():
    report = {'what_ifs': [{'id': 'a', 'finding': 'loader', 'ratio': 3.0, 'predicted': True},
                           {'id': 'b', 'finding': 'loader', 'ratio': 2.0, 'predicted': False},
                           {'id': 'c', 'finding': 'threads', 'ratio': 9.0, 'predicted': False}]}
    assert evidence.tested(report, ('loader',))['id'] == 'b'
    assert evidence.tested(report, ('copies',)) is None


@pytest.mark.slow
@pytest.mark.parametrize('script', faults.FAULTS)
def test_a_clean_script_takes_three_steps(script, tmp_path):
    if script == 'gluon_digits':
        pytest.importorskip('mxnet')
    path = tmp_path / f'{script}.py'
    path.write_text((faults.SUITE / path.name).read_text())
    with evidence.Paced(path, 1, tmp_path) as paced:
        first = paced.result()
        assert all(min(paced.block()) > 0 for _ in range(2)) and min(first) > 0
        pid = paced.process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_a_script_that_ends_is_an_error_with_its_own_words(tmp_path):
    path = tmp_path / 'short.py'
    path.write_text('raise KeyError("no such thing")\n')
    with evidence.Paced(path, 1, tmp_path) as paced:
        with pytest.raises(RuntimeError, match='no such thing'):
            paced.result()
