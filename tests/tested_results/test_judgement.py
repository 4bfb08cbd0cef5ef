"""What a run means beside ledgers, and that nothing vanishes unseen."""

import copy
from dataclasses import replace

import pytest

from hardware_lab import devices, memory  # noqa: F401  (their conditions are known then)
from tested_results import claims as claiming
from tested_results import conditions, judgement
from tests.tested_results.made import BIG, HERE, NEW, OTHER, judge, ledger_of, line, many, result


def test_a_run_like_the_stored_one_is_green():
    found = [*many(), result('a-b', 'fails'), result('a-n', kind='count'), result('a-f', kind='fact'),
             result('a-m', 'measured')]
    said = judge(found, found, known=[line('a-b')])
    assert (said.red, said.findings, said.again) == ([], [], [])
    assert said.notes == ['failed as expected: a-b: 3.00× (2.70–3.30); tested: above 2× (known)']


def test_a_recorded_failure_is_green_only_by_a_line():
    """What a ledger says is no leave to fail; a line is, for one kind of machine or for all."""
    found = [*many(), result('a-b', 'fails')]
    assert judge(found, found).again == ['a-b'] and len(judge(found, found).red) == 1
    assert 'no line of expected.csv expects it' in judge(found, found).red[0]
    assert not judge(found, found, known=[line('a-b')]).red
    assert not judge(found, found, known=[line('a-b', '*')]).red
    assert judge(found, found, known=[line('a-b', OTHER)]).red
    assert judge(found, found, known=[line('c-1')]).red


def test_another_bound_or_unit_hides_no_failure():
    old = [*many(), result('a-b')]
    for other in ({'above': 2.5}, {'unit': 'times'}):
        said = judge([*many(), replace(result('a-b', 'fails'), **other)], old)
        assert len(said.red) == 1 and 'a-b' in said.red[0] and not said.findings


@pytest.mark.parametrize(('again', 'red', 'note'), [
    (['fails'], 'fails twice, in two fresh kernels: a-b: 3.00×', ''),
    (['holds'], '', 'failed once and then holds: a-b: 3.00×'),
    (['undecided'], '', 'failed once and then undecided: a-b'),
    ([], '', 'failed once and then was gone')])
def test_a_failure_that_does_not_repeat_is_a_note(again, red, note):
    said = judge([*many(), result('a-b', 'fails')], [*many(), result('a-b')], twice={'a-b': again})
    assert [r for r in said.red if red in r] == said.red and bool(said.red) == bool(red)
    assert not note or [n for n in said.notes if note in n]
    assert not said.again and not said.findings


def test_what_is_expected_to_fail_and_holds_is_told():
    said = judge([*many(), result('a-b')], [*many(), result('a-b', 'fails')], known=[line('a-b')])
    assert not said.red and said.notes == ['expected to fail, and holds: a-b: 3.00× (2.70–3.30)']


@pytest.mark.parametrize('stands', ['as a ledger', 'in a line'])
def test_a_kind_is_known_by_its_ledger_or_by_a_line(stands):
    known = [] if stands == 'as a ledger' else [line('c-1')]
    stored = [ledger_of(many())] if stands == 'as a ledger' else []
    said = judge([*many(), result('a-b', 'fails')], [*many(), result('a-b')], known=known, stored=stored)
    assert said.again == ['a-b'] and not said.findings


@pytest.mark.parametrize(('failures', 'red'), [(1, False), (5, False), (6, True)])
def test_on_a_new_kind_one_in_twenty_may_fail(failures, red):
    found = [*many(100 - failures), *(result(f'f-{i}', 'fails') for i in range(failures))]
    said = judge(found, [replace(c, verdict='holds') for c in found], OTHER, known=[line('c-1')])
    assert len(said.findings) == failures and bool(said.red) == red and not said.again


@pytest.mark.parametrize('machine', [HERE, OTHER, NEW])
def test_a_fact_that_fails_is_red_on_any_machine(machine):
    old = [*many(), result('a-f', kind='fact'), result('a-n', kind='count')]
    said = judge([*many(), result('a-f', 'fails', 'fact'), old[-1]], old, machine)
    assert said.red == ['a-f: fails, and no clock made it']
    said = judge([*many(), old[-2], result('a-n', 'fails', 'count', value=1.0)], old, machine)
    assert said.red == ['a-n: fails, and no clock made it (1)']
    # no line of expected.csv helps, and it is red too where nothing is stored, or where it is stored so
    new = [*many(), result('a-f', 'fails', 'fact')]
    assert judge(new, [*many()], machine, known=[line('a-f', '*')]).red == [
        'a-f: fails, and no clock made it']
    assert judge(new, new, machine).red == ['a-f: fails, and no clock made it']


@pytest.mark.parametrize('verdict', ['holds', 'measured'])
@pytest.mark.parametrize(('before', 'now', 'red'), [
    (15329.0, 15329.0, False), (15329.0, 15330.0, True), (727.0, 727.5, True), (0.0, 1.0, True),
    (0.0, 2.4e-7, False)])
@pytest.mark.parametrize('machine', [HERE, NEW])
def test_a_whole_count_is_the_stored_one(verdict, before, now, red, machine):
    """But for zero, beside which rounding shows."""
    old = [*many(), result('a-n', verdict, 'count', value=before, unit='graphs')]
    said = judge([*many(), replace(old[-1], value=now)], old, machine)
    assert bool(said.red) == red
    if now == 15330:
        assert said.red == ['a-n: 15,330 graphs, and stored is 15,329 graphs']


@pytest.mark.parametrize(('unit', 'now', 'elsewhere', 'told', 'far'), [
    ('×', 2.6, [], False, False), ('×', 2.7, [], True, False), ('×', 2.3, [], True, False),
    ('×', 5.1, [], False, True), ('×', 1.2, [], False, True),
    ('×', 5.1, [2.8], True, False), ('×', 1.2, [2.8], False, True),     # another machine's value is one, too
    ('%', 0.25, [], False, True), ('', 3.1e-7, [], False, False)])      # of rounding, the bound alone says
def test_a_count_that_is_not_whole_is_near_the_stored_ones(unit, now, elsewhere, told, far):
    """Such as the peak of a queue's memory. Beyond twice, red on a kind of machine that is known, on another
    a finding; below that it is told."""
    old = [*many(), result('a-n', 'holds', 'count', value=2.5, unit=unit)]
    found = [*many(), replace(old[-1], value=now)]
    ledgers = [ledger_of([replace(old[-1], value=x) for x in elsewhere], OTHER)]
    said = judge(found, old, stored=[ledger_of(old), *ledgers])
    assert bool(said.red) == far and not said.findings and bool(said.notes) == told
    said = judge(found, old, NEW, stored=[ledger_of(old), *ledgers])
    assert bool(said.findings) == far and not said.red and bool(said.notes) == told


@pytest.mark.parametrize('machine', [HERE, NEW])
def test_a_result_that_does_not_appear_is_red(machine):
    """One, or all of a topic whose notebooks ran: whatever the rest says."""
    old = [*many(), *(result(f't-{i}') for i in range(17)), result('a-f', kind='fact')]
    said = judge(many(), old, machine)
    assert len(said.red) == 18 and 't-3: the notebook ran, and this result did not appear' in said.red


@pytest.mark.parametrize(('lacked', 'machine', 'red'), [
    ('links', HERE, True), ('links', OTHER, True), ('links', BIG, False),       # of the system
    ('AMX', HERE, True), ('AMX', OTHER, False),                                 # of the processor
    ('something that is no condition any more', HERE, True)])
def test_a_result_lost_for_good_is_red_where_it_should_be_there(lacked, machine, red):
    for kind, before, bound in (('ratio', 'holds', 2.0), ('fact', 'holds', None),
                                ('estimate', 'measured', None)):
        old = [*many(), result('a-b', before, kind, needs=[lacked], above=bound)]
        new = [*many(), result('a-b', 'not testable here', kind, lacked, [lacked], above=bound)]
        said = judge(new, old, machine)
        assert bool(said.red) == red and ('a-b' in ''.join(said.red)) == red


def test_one_that_never_came_out_is_not_lost():
    old = [*many(), result('a-b', 'not testable here', lacked='a GPU', needs=['a GPU'])]
    assert not judge(copy.deepcopy(old), old).red


@pytest.mark.parametrize('machine', [HERE, OTHER, NEW])
@pytest.mark.parametrize('before', ['fails', 'holds'])
def test_a_need_put_to_a_failing_result_is_red(before, machine):
    """As if it needed something that this machine has not: it fails no more, and is not tested."""
    old = [*many(), result('a-b', before, needs=['links'])]
    new = [*many(), result('a-b', 'not testable here', lacked='two GPUs', needs=['links', 'two GPUs'])]
    said = judge(new, old, machine, known=[line('a-b', '*')])
    assert len(said.red) == 1 and 'a-b' in said.red[0] and 'two GPUs' in said.red[0]
    # what the stored run did not have is no news
    untested = [*many(), result('a-b', 'not testable here', lacked='two GPUs', needs=['two GPUs'])]
    assert not judge(untested, untested, machine).red


@pytest.mark.parametrize('machine', [HERE, NEW])
@pytest.mark.parametrize('lacked', ['two free cores', claiming.NOISE, claiming.DISTURBED])
def test_nine_in_ten_timed_results_come_out(lacked, machine):
    """A probe that always says no is red, and so is a machine that is never quiet."""
    old, n = many(needs=[lacked] if lacked in conditions.known else []), 100
    verdict = 'not testable here' if lacked in conditions.known else 'undecided'
    for lost, red in ((10, False), (11, True), (42, True), (50, True), (100, True)):
        new = [*(result(f'c-{i}', verdict, lacked=lacked, needs=old[0].needs) for i in range(lost)),
               *old[lost:]]
        said = judge(new, old, machine)
        assert bool(said.red) == red and len([x for x in said.notes if 'without a result' in x]) == lost
        assert not red or f'{lost} of {n} timed results are not decided' in said.red[0]


@pytest.mark.parametrize('machine', [HERE, NEW])
@pytest.mark.parametrize('lacked', ['two free cores', claiming.NOISE, claiming.DISTURBED])
def test_what_was_disturbed_beside_another_notebook_is_neither_lost_nor_counted(lacked, machine):
    old = many()
    verdict = 'not testable here' if lacked in conditions.known else 'undecided'
    new = [*(result(f'c-{i}', verdict, lacked=lacked) for i in range(40)), *old[40:]]
    reference = {c.id: c for c in old}
    for beside, red in (set(), 1), ({f'c-{i}' for i in range(33)}, 1), (reference, 0):
        said = judgement.judge(new, machine, [ledger_of(old)], reference, [], beside=beside)
        assert len(said.red) == red, said.red
    failing = [result('c-0', 'fails'), *old[1:]]
    assert judgement.judge(failing, HERE, [ledger_of(old)], reference, [], beside=reference).red


def test_facts_make_up_for_no_time():
    """Half of the timed results are open: that other kinds came out does not count."""
    old = [*many(20), *(result(f'f-{i}', kind='fact') for i in range(400))]
    new = [*(result(f'c-{i}', 'undecided', lacked=claiming.NOISE) for i in range(10)), *old[10:]]
    assert '10 of 20 timed results' in judge(new, old).red[0]


def test_a_part_of_a_run_makes_no_kind_of_machine_familiar():
    part = replace(ledger_of([result('a-b')]), part='the cells that need a GPU')
    failing = [result(f'a-{i}') for i in range(60)] + [result('b-c', verdict='fails')]
    assert not judge(failing, [], stored=[part]).red
    assert not judge(failing, [], stored=[part], known=[line('a-b')]).red
    assert judge(failing, [], stored=[replace(part, part='')]).red


def test_a_release_that_nobody_has_recorded_makes_findings_of_its_failures():
    """On a machine with a ledger, a timed failure is red; with another release of a framework it is news."""
    old = many(100)
    new = [*old[1:], result('c-0', 'fails', value=1.0)]
    assert 'no line of expected.csv' in judge(new, old).red[0]
    said = judge(new, old, {**HERE, 'torch': '2.14.1'}, stored=[ledger_of(old)])
    assert not said.red and [f.split(':')[0] for f in said.findings] == ['c-0']
    assert judge(new, old, {**HERE, 'torch': '2.13.0+cpu'}, stored=[ledger_of(old)]).red     # a build of it
    # what no clock made is red there as well: the sentence is wrong with that release, and somebody must know
    fails, held = result('f-0', 'fails', kind='fact'), result('f-0', kind='fact')
    assert judge([fails], [held], {**HERE, 'torch': '2.14.1'}, stored=[ledger_of(old)]).red
