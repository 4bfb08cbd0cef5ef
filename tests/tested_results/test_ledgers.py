"""Ledgers: what is accepted, and what several runs say of a result."""

import copy
import json
import math
import random
from dataclasses import replace

import pytest

from tested_results import ledgers
from tested_results.ledgers import Record
from tests.tested_results.made import HERE, OTHER, ledger_of, result, without


def test_what_the_stored_run_could_not_test_is_taken_from_a_ledger():
    """And nothing else is: not what failed, nor what is undecided."""
    others, mine = [ledger_of([result('a-b', value=7.0), result('a-c', value=7.0)], OTHER)], result('a-c')
    lost = without(result('a-b'), 'a GPU')
    here = {'a-b': lost, 'a-c': mine, 'a-d': replace(lost, id='a-d')}
    found = ledgers.with_results_of_other_machines(here, others)
    assert found['a-b'].value == 7.0 and found['a-b'].machine == ledgers.kind(OTHER)
    assert found['a-c'] is mine and found['a-d'].value is None


GOOD = {'version': 4, 'machine': HERE, 'claims': {'a-b': ledgers.Record.of_runs(result('a-b')).data()}}


def broken(**how):
    data = copy.deepcopy(GOOD)
    data.update(how)
    return json.dumps(data)


def entry(**how):
    return broken(claims={'a-b': {**GOOD['claims']['a-b'], **how}})


@pytest.mark.parametrize(('content', 'says'), [
    ('', 'not JSON'), (json.dumps(GOOD)[:-30], 'not written to its end'), ('[]', "not of type 'object'"),
    (broken(version=2), 'at version: 4 was expected'),
    (broken(machine={**HERE, 'cores': 'two'}), "at machine.cores: 'two' is not of type 'integer'"),
    (broken(machine={**HERE, 'hostname': 'x'}),
     "at machine: Additional properties are not allowed ('hostname'"),
    (broken(claims={'a-b': {}}), "at claims.a-b: 'kind' is a required property"),
    (entry(verdict='so so'), "at claims.a-b.verdict: 'so so' is not one of"),
    (entry(above='3'), "at claims.a-b.above: '3' is not"), (entry(above=-1), 'at claims.a-b.above: -1'),
    (entry(needs='links'), "at claims.a-b.needs: 'links' is not of type 'array'"),
    (entry(runs=['3']), "at claims.a-b.runs[0]: '3' is not of type 'number'"),
    (entry(runs=[math.inf]), 'the runs of a-b are not finite'),
    (entry(verdicts=['fails']), "the verdicts of a-b do not begin with 'holds'"),
    (broken(claims={'z-z': GOOD['claims']['a-b']}), 'results that nothing makes: z-z')])
def test_a_file_that_is_no_ledger_is_refused_by_name(tmp_path, content, says):
    """With the place in it, and what to do."""
    path = tmp_path / 'mine.json'
    path.write_text(content)
    with pytest.raises(ledgers.Refused, match='mine.json is no ledger of these results') as e:
        ledgers.load(path, ['a-b'])
    said = str(e.value).replace("['a-b']", '.a-b')
    assert says in said


def test_a_further_run_lies_in_the_published_interval():
    """Known truth: claims whose runs vary by 1 to 20%, intervals from four runs, one held out."""
    rng, inside, trials = random.Random(0), 0, 2000
    scale = [rng.choice([0.01, 0.05, 0.1, 0.2]) for _ in range(trials)]
    runs = [[math.exp(rng.gauss(0, s)) for _ in range(5)] for s in scale]
    records = {}
    for i, r in enumerate(runs):
        shown = result(f'c-{i}', value=r[0], low=0.95 * r[0], high=1.05 * r[0])
        records[shown.id] = Record.of_runs(shown, [result(shown.id, value=v).data() for v in r[1:4]])
    led = ledgers.Ledger('one', HERE, records)
    new = [result(f'c-{i}', value=r[4]) for i, r in enumerate(runs)]
    within, inside, n = ledgers.count_inside_intervals(new, led)
    assert n == trials and within < 0.7 * n and 0.95 * n <= inside


def test_one_run_alone_has_the_book_s_spread():
    c = result('a-b')
    low, high = ledgers.interval_between_runs(Record.of_runs(c), 0.1)
    assert low < 2.3 and high > 3.9
    without_one = Record.of_runs(replace(c, low=None, high=None))
    assert ledgers.interval_between_runs(without_one, 0.1) is None


def test_a_published_interval_ends_where_a_value_is_impossible():
    share = Record.of_runs(result('a-b', kind='estimate', value=0.97, unit='%', most=1.0))
    low, high = ledgers.interval_between_runs(share, 0.1)
    assert low < 0.75 and high == 1.0
    factor = Record.of_runs(result('a-b', kind='estimate', value=1.2, unit='×', least=1.0))
    low, high = ledgers.interval_between_runs(factor, 0.1)
    assert low == 1.0 and high > 1.5
