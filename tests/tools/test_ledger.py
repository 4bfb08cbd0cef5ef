"""Ledgers: what is accepted, what a run means beside them, and that nothing vanishes unseen."""

import copy
import json
import math
import random
import signal
import subprocess
import sys
from dataclasses import replace

import nbformat
import pytest

from hardware_lab import devices, memory  # noqa: F401  (their conditions are known then)
from tested_results import claims as claiming
from tested_results import conditions, judgement, ledgers
from tested_results.claims import METADATA_KEY, Claim
from tests import notebook_plugin
from tools import ledger, quotations, runs, source
from tools.source import ROOT

HERE = {'processor': 'Some Processor', 'cores': 2, 'memory_gib': 8, 'gpus': [], 'system': 'Linux x86_64',
        'python': '3.11.7', 'numpy': '1.23.5', 'mxnet': '1.9.1', 'torch': '2.13.0'}
OTHER = {**HERE, 'processor': 'Another Processor'}
BIG = {**OTHER, 'cores': 64}
NEW = {**BIG, 'processor': 'A Processor that nobody has recorded'}


def passes(lacked):
    """Whether the want of it may pass."""
    known = conditions.known.get(lacked)
    return known is not None and known.transient or lacked in (claiming.NOISE, claiming.DISTURBED)


def result(id, verdict='holds', kind='ratio', lacked='', needs=(), value=3.0, **more):
    """A result as a run finds it."""
    timed = kind in ('ratio', 'estimate')
    numbers = {'value': None if kind == 'fact' else value}
    if timed and verdict in ('holds', 'fails', 'measured'):
        numbers |= {'low': 0.9 * value, 'high': 1.1 * value}
    elif timed:
        numbers = {}
    bound = {} if kind == 'fact' or verdict == 'measured' else {'above': 2.0}
    unit = '×' if kind == 'ratio' else ''
    return Claim(id, kind, verdict, **{'unit': unit, **bound, **numbers, **more}, lacked=lacked,
                 transient=passes(lacked), reason=f'no {lacked}' * bool(lacked), needs=tuple(needs),
                 where=HERE, machine='m')


def ledger_of(found, machine=HERE):
    return ledgers.Ledger('one', machine, {c.id: ledgers.entry(c) for c in found})


def many(n=100, **how):
    return [result(f'c-{i}', **how) for i in range(n)]


def line(id, machine=HERE, reason='known'):
    """A row of ``expected.csv``."""
    return {'id': id, 'machine': machine if machine == '*' else ledgers.kind(machine), 'reason': reason}


def judge(found, old, machine=HERE, known=(), twice=None, stored=None):
    """What a run means where ``old`` is stored, in the notebooks and in a ledger of this machine."""
    reference = {c.id: c for c in old}
    return judgement.judge(found, machine, [ledger_of(old)] if stored is None else stored, reference,
                         list(known), twice)


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


def stored():
    found = ledger.all_ledgers()
    if not found:
        pytest.skip('no ledger is stored')
    return found


def all_of(led):
    """The results of a ledger, as a run on that machine would find them."""
    return [led.claim(i) for i in led.claims]


def without(c, lacked, verdict='not testable here'):
    """A result that has lost its outcome for want of this."""
    return replace(c, verdict=verdict, lacked=lacked, reason='gone', transient=passes(lacked), value=None,
                   low=None, high=None)


def test_the_stored_ledgers_are_of_this_book():
    """Every result of a page, decided or not; what is younger than a ledger is not in it."""
    ids = {p.name: {c.id for c in quotations.calls(p)} for p in source.pages()}
    ids = {name: found for name, found in ids.items() if found}
    for led in (ledgers.load(p, ledger.book_ids()) for p in sorted(ledger.FOLDER.glob('*.json'))):
        assert led.name == ledgers.slug(led.machine)
        younger = [name for name, mine in ids.items() if not mine & set(led.claims)]
        assert led.part or len(younger) <= len(ids) / 4, 'time for a new ledger of this machine'


def test_what_the_stored_run_could_not_test_is_taken_from_a_ledger():
    """And nothing else is: not what failed, nor what is undecided."""
    others, mine = [ledger_of([result('a-b', value=7.0), result('a-c', value=7.0)], OTHER)], result('a-c')
    lost = without(result('a-b'), 'a GPU')
    found = ledgers.completed({'a-b': lost, 'a-c': mine, 'a-d': replace(lost, id='a-d')}, others)
    assert found['a-b'].value == 7.0 and found['a-b'].machine == ledgers.kind(OTHER)
    assert found['a-c'] is mine and found['a-d'].value is None


def test_a_part_of_a_run_makes_no_kind_of_machine_familiar():
    part = replace(ledger_of([result('a-b')]), part='the cells that need a GPU')
    failing = [result(f'a-{i}') for i in range(60)] + [result('b-c', verdict='fails')]
    assert not judge(failing, [], stored=[part]).red
    assert judge(failing, [], stored=[replace(part, part='')]).red


def test_the_failures_that_are_expected_are_known_ones():
    rows, every, ids = judgement.expected(ledger.FOLDER), stored(), ledger.book_ids()
    kinds = {led.kind for led in every}
    assert not [r for r in rows if r['id'] not in ids]
    assert not [r for r in rows if r['machine'] not in {'*'} | kinds or not r['reason'].strip()]
    assert not [r for r in rows if set(r) != {'id', 'machine', 'reason'}]
    lines = [(r['id'], r['machine']) for r in rows]
    assert len(set(lines)) == len(lines)
    for led in every:
        failing = [i for i, c in led.claims.items() if c['verdict'] == 'fails']
        assert not [i for i in failing if not {(i, '*'), (i, led.kind)} & set(lines)]
    # and each of them is seen to fail there
    seen = {(i, kind) for led in every for i, c in led.claims.items() if 'fails' in c['verdicts']
            for kind in ('*', led.kind)}
    assert set(lines) <= seen


@pytest.mark.parametrize('name', sorted(n for n, c in conditions.known.items() if not c.transient))
def test_each_condition_removed_is_red(name):
    """With its means gone, every result that needs it would vanish: a machine of the kind sees red."""
    for led in stored():
        found, known = all_of(led), judgement.expected(ledger.FOLDER)
        hit = {c.id for c in found if name in c.needs and c.decided}
        assert not judge(found, found, led.machine, known, stored=[led]).red
        new = [without(c, name) if c.id in hit else c for c in found]
        assert len(judge(new, found, led.machine, known, stored=[led]).red) == len(hit)


def test_a_probe_of_free_cores_that_always_says_no_is_red():
    """Enough of a whole run rests on it for the loss to be seen."""
    for led in (led for led in stored() if not led.part):
        found = all_of(led)
        hit = {c.id for c in found if 'two free cores' in c.needs and c.decided}
        new = [without(c, 'two free cores') if c.id in hit else c for c in found]
        said = judge(new, found, led.machine, judgement.expected(ledger.FOLDER), stored=[led])
        able = sum(c.timed and c.bounded and c.decided for c in found)
        assert len(hit) > (1 - judgement.DECIDED) * able, (len(hit), able)
        assert 'are not decided' in said.red[0]


def test_half_of_the_book_without_an_outcome_is_red():
    for led in stored():
        found = all_of(led)
        timed = [c.id for c in found if c.timed and c.decided][::2]
        new = [without(c, claiming.NOISE, 'undecided') if c.id in timed else c for c in found]
        said = judge(new, found, led.machine, judgement.expected(ledger.FOLDER), stored=[led])
        assert len(said.red) == 1 and 'are not decided' in said.red[0]


@pytest.mark.parametrize('should', [True, False])
def test_a_run_without_mxnet_is_whole_only_where_mxnet_has_no_wheel(monkeypatch, should):
    """An environment that has lost it is no reason to be green."""
    monkeypatch.setattr(source, 'should_have_mxnet', lambda: should)
    left = {str(p.relative_to(ROOT)): 'MXNet is not installed' for p in source.notebooks()
            if source.framework(p) == 'mxnet'}
    said = notebook_plugin.absent(left)
    assert len(said) == (len(left) if should else 0) and len(left) > 10
    assert all('did not run, and could on such a system: MXNet is not installed' in s for s in said)


# Files ---------------------------------------------------------------------------------------------

GOOD = {'version': 4, 'machine': HERE, 'claims': {'a-b': ledgers.entry(result('a-b'))}}


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


def test_a_ledger_is_written_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, 'FOLDER', tmp_path / 'ledgers')
    found = {'a-b': result('a-b', needs=['links'], names=('f', 'g'), parts={'f': 3.0, 'g': 1.0}),
             'a-n': result('a-n', 'measured', 'count'),
             'a-o': result('a-o', kind='fact'),
             'a-x': result('a-x', 'not testable here', lacked='a GPU', above=None)}
    path = ledger.write(found, {'a-b': [{'verdict': 'fails', 'value': 3.1, 'low': 2.9, 'high': 3.3}]})
    led = ledgers.load(path, found)
    kept = led.claims['a-b']
    assert (kept['runs'], kept['verdicts']) == ([3.0, 3.1], ['holds', 'fails'])
    again = led.claim('a-b')
    assert (again.needs, again.reading, again.bound) == (('links',), '3.00× (2.70–3.30)', 'above 2×')
    assert led.claim('a-z') is None and led.claims['a-n']['verdict'] == 'measured'
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    import getpass
    import socket
    for word in (socket.gethostname(), str(ROOT)):
        assert len(word) < 4 or word not in path.read_text()
    assert f'"{getpass.getuser()}"' not in path.read_text()


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of a PyTorch and an MXNet notebook with a result each; and what runs one of them here."""
    monkeypatch.setattr(source, 'ROOT', tmp_path)
    monkeypatch.setattr(ledger, 'ROOT', tmp_path)
    monkeypatch.setattr(runs, 'EXECUTED', tmp_path / 'executed')
    monkeypatch.setattr(source, 'notebooks', lambda: paths)
    monkeypatch.setattr(source, 'missing', lambda name: '')
    monkeypatch.setattr(source, 'pages', lambda: paths)
    monkeypatch.setattr(source, 'ROOT', tmp_path)
    monkeypatch.setattr(ledger, 'FOLDER', tmp_path / 'ledgers')
    monkeypatch.setattr(ledger, 'RUNS', tmp_path / 'runs')
    monkeypatch.setattr(sys, 'argv', ['ledgers'])
    quotations._said.cache_clear()
    paths = [tmp_path / 'chapters' / 'one' / f'one_{name}.ipynb' for name in ('pytorch', 'mxnet')]

    def notebook(path):
        id = 'a-pt' if 'pytorch' in path.name else 'a-mx'
        out = nbformat.v4.new_output('display_data', metadata={METADATA_KEY: result(id).data()})
        cell = nbformat.v4.new_code_cell(f"d2l.compare('{id}', slow=f, fast=g, above=2)", outputs=[out])
        return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell('# One'), cell])

    def run(path):
        nb = notebook(path)
        nb.metadata['key'] = runs.key(path, nb)
        source.write(runs.EXECUTED / path.relative_to(tmp_path), nb)
    for path in paths:
        source.write(path, notebook(path))
    yield paths, run
    quotations._said.cache_clear()


def test_a_ledger_comes_from_a_whole_run(book, capsys):
    (one, two), run = book
    run(one)
    assert list(ledger.last_run()[0]) == ['a-pt']
    with pytest.raises(SystemExit, match='Not run here yet, or changed since: .*one_mxnet.ipynb') as e:
        ledger.main()
    assert 'one_pytorch' not in str(e.value) and not ledger.FOLDER.exists()
    run(two)
    assert ledger.main() == 0 and '2 results: 2 holds' in capsys.readouterr().out
    led, = ledger.all_ledgers()
    assert set(led.claims) == {'a-pt', 'a-mx'}


def test_a_ledger_can_be_made_where_mxnet_cannot_be_installed(book, monkeypatch, capsys):
    (one, two), run = book
    monkeypatch.setattr(source, 'missing', lambda name: 'no MXNet' if name == 'mxnet' else '')
    run(one)
    assert ledger.main() == 0 and '1 results: 1 holds' in capsys.readouterr().out
    led, = ledger.all_ledgers()
    assert set(led.claims) == {'a-pt'}
    run(two)            # a run of earlier, which nobody can repeat here, does not count
    assert set(ledger.last_run()[0]) == {'a-pt'}


@pytest.mark.parametrize('change', ['code', 'helper', 'machine', 'no key'])
def test_a_run_that_is_not_of_this_book_any_more_does_not_count(book, monkeypatch, tmp_path, change):
    (one, two), run = book
    for path in one, two:
        run(path)
    assert ledger.last_run()[1] == []
    kept = runs.EXECUTED / one.relative_to(tmp_path)
    if change == 'code':
        one.write_text(one.read_text().replace('above=2', 'above=1'))
    elif change == 'helper':
        (one.parent / 'own.py').write_text('x = 1')
    elif change == 'machine':
        here = runs.machine.machine()
        monkeypatch.setattr(runs.machine, 'machine', lambda: {**here, 'processor': 'Another'})
    else:
        nb = nbformat.read(kept, as_version=4)
        del nb.metadata['key']
        source.write(kept, nb)
    found, absent = ledger.last_run()
    assert 'chapters/one/one_pytorch.ipynb' in absent and 'a-pt' not in found
    with pytest.raises(SystemExit, match='changed since'):
        ledger.main()


def test_repetitions_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, 'RUNS', tmp_path)
    for k in range(3):
        now = {'verdict': 'holds', 'value': float(k), 'low': 0.1, 'high': 4.0}
        (tmp_path / f'{k:03}.json').write_text(json.dumps({'a-b': now, f'a-{k}': now}))
    assert {i: len(c) for i, c in ledger.repetitions().items()} == {
        'a-b': 3, 'a-0': 1, 'a-1': 1, 'a-2': 1}
    assert [c['value'] for c in ledger.repetitions()['a-b']] == [0.0, 1.0, 2.0]


def test_a_further_run_lies_in_the_published_interval():
    """Known truth: claims whose runs vary by 1 to 20%, intervals from four runs, one held out."""
    rng, inside, trials = random.Random(0), 0, 2000
    scale = [rng.choice([0.01, 0.05, 0.1, 0.2]) for _ in range(trials)]
    runs = [[math.exp(rng.gauss(0, s)) for _ in range(5)] for s in scale]
    led = ledgers.Ledger('one', HERE, {
        f'c-{i}': {**ledgers.entry(result(f'c-{i}', value=r[0]),
                                   [result(f'c-{i}', value=v).data() for v in r[1:4]]),
                   'low': 0.95 * r[0], 'high': 1.05 * r[0]}
        for i, r in enumerate(runs)})
    new = [result(f'c-{i}', value=r[4]) for i, r in enumerate(runs)]
    within, inside, n = ledgers.covered(new, led)
    assert n == trials and within < 0.7 * n and 0.95 * n <= inside


def test_one_run_alone_has_the_book_s_spread():
    c = ledgers.entry(result('a-b'))
    low, high = ledgers.published(c, 0.1)
    assert low < 2.3 and high > 3.9 and ledgers.published({**c, 'low': None}, 0.1) is None


def test_a_published_interval_ends_where_a_value_is_impossible():
    share = ledgers.entry(result('a-b', kind='estimate', value=0.97, unit='%', most=1.0))
    low, high = ledgers.published(share, 0.1)
    assert low < 0.75 and high == 1.0
    factor = ledgers.entry(result('a-b', kind='estimate', value=1.2, unit='×', least=1.0))
    low, high = ledgers.published(factor, 0.1)
    assert low == 1.0 and high > 1.5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == 'win32', reason='signals')
def test_an_interrupt_keeps_what_was_measured(tmp_path):
    """Ctrl-C in the second notebook of a repetition: the first one's figures are there, whole."""
    code = f'''
import json, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)    # in the background it is ignored
sys.path.insert(0, {str(ROOT)!r})
from tested_results import claims
from tools import ledger
ledger.RUNS = pathlib.Path({str(tmp_path)!r})
calls = []
def execute(path, label):
    calls.append(path)
    if len(calls) == 2:
        print('second', flush=True)
        time.sleep(600)
    return calls
ledger.runs.execute = execute
ledger.claims_of = lambda nb: [
    claims.Claim('a-b', 'ratio', 'holds', '×', above=2.0, value=3.0, low=2.0, high=4.0)]
try:
    ledger.repeat(1)
except KeyboardInterrupt:
    sys.exit(7)
'''
    child = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert child.stdout.readline() == 'second\n'
        child.send_signal(signal.SIGINT)
        assert child.wait(300) == 7
    finally:
        child.kill()
        child.stdout.close()
    assert [p.name for p in tmp_path.iterdir()] == ['001.json']
    assert json.loads((tmp_path / '001.json').read_text()) == {
        'a-b': {'verdict': 'holds', 'value': 3.0, 'low': 2.0, 'high': 4.0}}
