"""Two ledgers side by side: what counts as a change."""

from dataclasses import replace

import pytest

from tested_results import comparing, ledgers
from tested_results.ledgers import Ledger, Record
from tests.tested_results.made import HERE, OTHER, ledger_of, result

NEXT = {**HERE, 'torch': '2.14.1+cpu'}


def change(before, after):
    """How one result changed from this release to the next; None if it did not."""
    found = comparing.changes(ledger_of([before]), ledger_of([after], NEXT))
    return found[0].how if found else None


@pytest.mark.parametrize(('before', 'after', 'how'), [
    (result('a-b', value=3.0), result('a-b', value=3.1), None),
    (result('a-b', value=3.0), result('a-b', value=5.0), comparing.NUMBERS),
    (result('a-b', value=3.0), result('a-b', 'fails', value=1.5), comparing.SIDES),
    (result('a-b', kind='fact'), result('a-b', 'fails', kind='fact'), comparing.SIDES),
    (result('a-b', kind='fact'), result('a-b', kind='fact'), None),
    (result('a-b', kind='count', value=7.0), result('a-b', kind='count', value=8.0), comparing.COUNTS),
    (result('a-b', kind='count', value=7.51), result('a-b', kind='count', value=7.52), None),
    (result('a-b', kind='count', value=7.51), result('a-b', kind='count', value=8.52), comparing.COUNTS),
    (result('a-b'), result('a-b', 'undecided', lacked='x'), None),
    (result('a-b', 'measured', value=3.0), result('a-b', 'measured', value=1.0), comparing.NUMBERS),
    (result('a-b', value=3.0, unit='ms'), result('a-b', value=9.0, unit='s'), None)])
def test_what_counts_as_a_change(before, after, how):
    assert change(before, after) == how
    assert change(after, before) == how     # whichever came first


def test_several_runs_count_with_the_spread_between_them():
    """Two runs of one release differ by more than the interval of each: no change is made of that."""
    def several(runs, machine):
        found = result('a-b', value=runs[0])
        record = replace(Record.of(found.id, Record.of_runs(found).data(), machine),
                         runs=runs, verdicts=['holds'] * len(runs))
        return Ledger('one', machine, {'a-b': record})
    wide, other = [3.0, 4.2, 3.1, 4.4], [4.3, 3.2, 4.1, 3.3]
    assert change(result('a-b', value=3.0), result('a-b', value=4.3)) == comparing.NUMBERS
    assert comparing.changes(several(wide, HERE), several(other, NEXT)) == []
    far = several([90.0, 91.0, 92.0, 93.0], NEXT)
    assert [c.how for c in comparing.changes(several(wide, HERE), far)] == [comparing.NUMBERS]


def test_the_table_names_both_and_begins_with_what_changed_sides():
    old = ledger_of([result('a-a', value=3.0), result('a-b'), result('a-c'), result('a-d', value=3.0)])
    new = ledger_of([result('a-a', value=6.0), result('a-b', 'fails', value=1.0), result('a-c'),
                     result('a-d', value=60.0)], NEXT)
    lines = comparing.table(old, new).splitlines()
    assert lines[0] == '4 results are in both ledgers; 3 changed.'
    assert '| torch 2.13.0 | torch 2.14.1+cpu |' in lines[2]
    assert [line.split('`')[1] for line in lines[4:]] == ['a-b', 'a-d', 'a-a']
    assert '3.00× (2.70–3.30) holds | 1.00× (0.900–1.10) fails' in lines[4]
    elsewhere = comparing.table(old, ledger_of([result('a-a')], OTHER))
    assert 'Another Processor' in elsewhere and '1 results are in both' in elsewhere


def test_of_several_ledgers_of_a_kind_a_whole_one_stands_for_it():
    part, whole = replace(ledger_of([]), part='a half'), replace(ledger_of([], NEXT), name='two')
    other = ledger_of([], OTHER)
    assert ledgers.one_of_each_kind([part, other, whole]) == [whole, other]
    assert ledgers.one_of_each_kind([whole, part]) == [whole]


def test_releases_tell_ledgers_apart_and_builds_do_not():
    assert ledgers.slug(HERE) == 'some-processor-2-cores-no-gpu-linux-x86-64-torch-2-13-0-mxnet-1-9-1'
    assert ledgers.slug(NEXT) != ledgers.slug(HERE) == ledgers.slug({**HERE, 'torch': '2.13.0+cpu'})
    assert not ledgers.same_releases(HERE, NEXT)
    without_mxnet = {**HERE, 'mxnet': None, 'torch': '2.13.0+cu130', 'numpy': '2.2.6', 'python': '3.12.1'}
    assert ledgers.same_releases(HERE, without_mxnet) and ledgers.slug(without_mxnet) != ledgers.slug(HERE)
