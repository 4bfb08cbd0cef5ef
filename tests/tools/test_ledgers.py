"""Ledgers: what is accepted, what a run means beside them, and that nothing vanishes unseen."""

import copy
import json
import math
import random
import signal
import subprocess
import sys

import pytest

from d2l_local import claims as claiming
from d2l_local import conditions
from hardware_lab import devices, memory  # noqa: F401  (their conditions are known then)
from tools import ledgers, prose
from tools.notebooks import ROOT

HERE = {'processor': 'Some Processor', 'cores': 2, 'memory_gib': 8, 'gpus': [], 'system': 'Linux x86_64',
        'python': '3.11.7', 'numpy': '1.23.5', 'mxnet': '1.9.1', 'torch': '2.13.0'}
OTHER = {**HERE, 'processor': 'Another Processor'}
BIG = {**OTHER, 'cores': 64}


def claim(id, verdict='holds', kind='ratio', bound='> 2', lacked='', needs=(), value=3.0):
    """A claim as a run finds it."""
    passing = lacked in conditions.known and conditions.known[lacked].passing or lacked in (
        claiming.NOISE, claiming.DISTURBED)
    c = claiming.Claim(id, 'A sentence.', kind, bound, verdict, lacked=lacked, passing=bool(passing),
                       reason=f'no {lacked}' * bool(lacked), needs=tuple(needs), machine='m', figure='3',
                       **({'value': value, 'low': 0.9 * value, 'high': 1.1 * value}
                          if verdict in ('holds', 'fails') and kind in ('ratio', 'figure') else {}))
    return json.loads(json.dumps(claiming.asdict(c)))


def ledger(found, machine=HERE):
    return ledgers.Ledger('one', machine, {c['id']: ledgers.entry(c) for c in found})


def many(n=100, **how):
    return [claim(f'c-{i}', **how) for i in range(n)]


def test_a_run_like_the_stored_one_is_green():
    found = [*many(), claim('a-b', 'fails')]
    said = ledgers.judge(found, HERE, [ledger(found)])
    assert (said.red, said.findings, said.open) == ([], [], [])


def test_a_new_failure_on_a_known_kind_is_red_and_a_recorded_one_is_not():
    old = [*many(), claim('a-b')]
    said = ledgers.judge([*many(), claim('a-b', 'fails')], HERE, [ledger(old)])
    assert len(said.red) == 1 and 'a-b' in said.red[0] and not said.findings
    recorded = ledger([*many(), claim('a-b', 'fails')])
    assert not ledgers.judge([*many(), claim('a-b', 'fails')], HERE, [recorded]).red
    # one that failed in a further run there has no one verdict to lose
    wavering = ledgers.Ledger('one', HERE, recorded.claims
                              | {'a-b': ledgers.entry(claim('a-b'), [claim('a-b', 'fails')])})
    assert not ledgers.judge([*many(), claim('a-b', 'fails')], HERE, [wavering]).red
    # another bound is another claim, and so is another sentence
    for other in ({'bound': '> 9'}, {'sentence': 'Another sentence.'}):
        new = [*many(), {**claim('a-b', 'fails'), **other}]
        assert ledgers.judge(new, HERE, [ledger(old)]).findings


@pytest.mark.parametrize(('failures', 'red'), [(1, False), (2, False), (3, True)])
def test_on_a_new_kind_one_in_fifty_may_fail(failures, red):
    found = [*many(100 - failures), *(claim(f'f-{i}', 'fails') for i in range(failures))]
    said = ledgers.judge(found, OTHER, [ledger(many())])
    assert len(said.findings) == failures and bool(said.red) == red


@pytest.mark.parametrize(('lacked', 'machine', 'red'), [
    ('links', HERE, True), ('links', OTHER, True), ('links', BIG, False),       # of the system
    ('AMX', HERE, True), ('AMX', OTHER, False),                                 # of the processor
    ('something that is no condition any more', HERE, True)])
def test_a_verdict_lost_for_good_is_red_where_it_should_be_there(lacked, machine, red):
    needs = [lacked]
    old = [*many(), claim('a-b', needs=needs)]
    new = [*many(), claim('a-b', 'not testable here', lacked=lacked, needs=needs)]
    said = ledgers.judge(new, machine, [ledger(old)])
    assert bool(said.red) == red and ('a-b' in ''.join(said.red)) == red


def test_one_that_never_had_a_verdict_has_none_to_lose():
    old = [*many(), claim('a-b', 'not testable here', lacked='a GPU')]
    assert not ledgers.judge(copy.deepcopy(old), HERE, [ledger(old)]).red


@pytest.mark.parametrize('lacked', ['two free cores', claiming.NOISE, claiming.DISTURBED])
def test_verdicts_lost_to_noise_count_against_an_allowance(lacked):
    needs = [lacked] if lacked in conditions.known else []
    n = 100
    allowed = max(1, int(ledgers.OPEN_SHARE.get(lacked, ledgers.OTHERS_OPEN) * n))
    old = ledger(many(n, needs=needs))
    for lost, red in ((allowed, False), (allowed + 1, True)):
        verdict = 'not testable here' if lacked in conditions.known else 'undecided'
        new = many(n, needs=needs)
        new[:lost] = [claim(f'c-{i}', verdict, lacked=lacked, needs=needs) for i in range(lost)]
        said = ledgers.judge(new, HERE, [old])
        assert len(said.open) == lost and bool(said.red) == red, (lost, said.red)


@pytest.mark.parametrize(('machine', 'once', 'noise', 'red'), [
    (OTHER, 0, 0, 0), (HERE, 0, 0, 1), (OTHER, 1, 0, 1), (OTHER, 0, 30, 2)])
def test_what_a_new_kind_of_machine_never_has_is_no_noise(machine, once, noise, red):
    """Unless it held once, this kind is known to have it, or the machine was disturbed in other ways."""
    lacked, needs = 'two free cores', ['two free cores']
    old = [*many(100), *(claim(f'f-{i}', needs=needs) for i in range(30))]
    new = copy.deepcopy(old)
    for c in new[100 + once:]:
        c |= {'verdict': 'not testable here', 'lacked': lacked, 'passing': True, 'reason': 'shared'}
    for c in new[:noise]:
        c |= {'verdict': 'undecided', 'lacked': claiming.NOISE, 'passing': True}
    said = ledgers.judge(new, machine, [ledger(old)])
    assert len(said.red) == red, said.red
    assert ('does not seem to have it' in said.open[-1]) != bool(red)


@pytest.mark.parametrize('lacked', [claiming.NOISE, claiming.DISTURBED])
def test_noise_is_red_on_a_new_kind_of_machine_too(lacked):
    new = many(50, verdict='undecided', lacked=lacked)
    assert ledgers.judge(new, OTHER, []).red


def test_a_verdict_that_was_never_there_is_not_lost_to_noise():
    old = many(20, verdict='undecided', lacked=claiming.NOISE)
    said = ledgers.judge(many(20, verdict='undecided', lacked=claiming.NOISE), HERE, [ledger(old)])
    assert (said.red, said.open) == ([], [])


def stored():
    found = ledgers.all_ledgers()
    if not found:
        pytest.skip('no ledger is stored')
    return found


YOUNGER = {'msr-pt-taken', 'tr-pt-fresh'}      # claims of older pages that wait for a new ledger


def test_the_stored_ledgers_are_of_this_book():
    """Every claim of a page, decided or not; what is younger than a ledger is not in it."""
    pages = {p.name: {c.id for c in prose.claim_calls(p)} for p in prose.pages()}
    pages = {name: ids for name, ids in pages.items() if ids}
    every = [ledgers.load(p, ledgers.book_ids()) for p in sorted(ledgers.FOLDER.glob('*.json'))]
    for led in every:
        assert led.name == ledgers.slug(led.machine)
        younger = [name for name, ids in pages.items() if not ids & set(led.claims)]
        assert not [i for name, ids in pages.items() if name not in younger
                    for i in ids - set(led.claims) - YOUNGER]
        assert len(younger) <= len(pages) / 4, 'time for a new ledger of this machine'
    assert not YOUNGER.intersection(*(led.claims for led in every)), 'known by now: no longer younger'


@pytest.mark.parametrize('name', sorted(n for n, c in conditions.known.items() if not c.passing))
def test_each_condition_removed_is_red(name):
    """With its means gone, every claim that needs it would vanish: a machine of the kind sees red."""
    for led in stored():
        found = [{**c, 'id': i} for i, c in led.claims.items()]
        hit = [c['id'] for c in found if name in c['needs'] and c['verdict'] in ('holds', 'fails')]
        assert not ledgers.judge(found, led.machine, [led]).red
        for c in found:
            if c['id'] in hit:
                c |= {'verdict': 'not testable here', 'lacked': name, 'reason': 'gone', 'passing': False}
        assert len(ledgers.judge(found, led.machine, [led]).red) == len(hit)


def test_the_condition_of_free_cores_removed_is_red():
    for led in stored():
        found = [{**c, 'id': i} for i, c in led.claims.items()]
        hit = [c for c in found if 'two free cores' in c['needs'] and c['verdict'] in ('holds', 'fails')]
        for c in hit:
            c |= {'verdict': 'not testable here', 'lacked': 'two free cores', 'passing': True}
        assert len(hit) < 2 or ledgers.judge(found, led.machine, [led]).red


GOOD = {'version': 2, 'machine': HERE, 'claims': {'a-b': ledgers.entry(claim('a-b'))}}


def broken(**how):
    data = copy.deepcopy(GOOD)
    data.update(how)
    return data


@pytest.mark.parametrize(('text', 'says'), [
    ('', 'not JSON'), (json.dumps(GOOD)[:-30], 'not written to its end'), ('[]', 'three parts'),
    (json.dumps(broken(version=1)), "version 1, and this book writes 2"),
    (json.dumps(broken(machine={**HERE, 'cores': 'two'})), "machine has no proper 'cores'"),
    (json.dumps(broken(machine={**HERE, 'hostname': 'x'})), 'machine has hostname'),
    (json.dumps(broken(claims={'a-b': {}})), "claim a-b has no proper 'sentence'"),
    (json.dumps(broken(claims={'a-b': {**GOOD['claims']['a-b'], 'verdict': 'so so'}})), "'so so'"),
    (json.dumps(broken(claims={'a-b': {**GOOD['claims']['a-b'], 'runs': ['3']}})), 'not numbers'),
    (json.dumps(broken(claims={'a-b': {**GOOD['claims']['a-b'], 'verdicts': ['fails']}})), 'begin with'),
    (json.dumps(broken(claims={'z-z': GOOD['claims']['a-b']})), 'claims that this book has not: z-z')])
def test_a_file_that_is_no_ledger_is_refused_by_name(tmp_path, text, says):
    path = tmp_path / 'mine.json'
    path.write_text(text)
    with pytest.raises(ledgers.Refused, match='mine.json is no ledger of this book') as e:
        ledgers.load(path, ['a-b'])
    assert says in str(e.value) and 'make ledger' in str(e.value)


def test_a_ledger_is_written_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, 'FOLDER', tmp_path / 'ledgers')
    path = ledgers.write({'a-b': claim('a-b')}, {'a-b': [claim('a-b', 'fails', value=3.1)]})
    kept = ledgers.load(path, ['a-b']).claims['a-b']
    assert (kept['runs'], kept['verdicts']) == ([3.0, 3.1], ['holds', 'fails'])
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    import getpass
    import socket
    for word in (socket.gethostname(), str(ROOT)):
        assert len(word) < 4 or word not in path.read_text()
    assert f'"{getpass.getuser()}"' not in path.read_text()


def test_a_repetition_counts_for_the_same_claim_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(ledgers, 'RUNS', tmp_path)
    now = claim('a-b')
    for k, other in enumerate(({}, {'bound': '> 9'}, {'sentence': 'Another sentence.'})):
        (tmp_path / f'{k:03}.json').write_text(json.dumps({'a-b': {**now, **other}, 'gone': now}))
    assert {i: len(c) for i, c in ledgers.repetitions({'a-b': now}).items()} == {'a-b': 1}


def test_a_further_run_lies_in_the_published_interval():
    """Known truth: claims whose runs vary by 1 to 20%, intervals from four runs, one held out."""
    rng, inside, trials = random.Random(0), 0, 2000
    scale = [rng.choice([0.01, 0.05, 0.1, 0.2]) for _ in range(trials)]
    runs = [[math.exp(rng.gauss(0, s)) for _ in range(5)] for s in scale]
    led = ledgers.Ledger('one', HERE, {
        f'c-{i}': {**ledgers.entry(claim(f'c-{i}', value=r[0]),
                                   [claim(f'c-{i}', value=v) for v in r[1:4]]),
                   'low': 0.95 * r[0], 'high': 1.05 * r[0]}
        for i, r in enumerate(runs)})
    new = [claim(f'c-{i}', value=r[4]) for i, r in enumerate(runs)]
    within, inside, n = ledgers.covered(new, led)
    assert n == trials and within < 0.7 * n and 0.95 * n <= inside


def test_one_run_alone_has_the_book_s_spread():
    c = ledgers.entry(claim('a-b'))
    low, high = ledgers.published(c, 0.1)
    assert low < 2.3 and high > 3.9 and ledgers.published({**c, 'low': None}, 0.1) is None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == 'win32', reason='signals')
def test_an_interrupt_keeps_what_was_measured(tmp_path):
    """Ctrl-C in the second notebook of a repetition: the first one's figures are there, whole."""
    code = f'''
import json, pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)    # in the background it is ignored
sys.path.insert(0, {str(ROOT)!r})
from tools import ledgers, prose
ledgers.RUNS = pathlib.Path({str(tmp_path)!r})
calls = []
def execute(path, label):
    calls.append(path)
    if len(calls) == 2:
        print('second', flush=True)
        time.sleep(600)
    return calls
ledgers.notebooks.execute = execute
ledgers.claims_of = lambda nb: [
    dict(id='a-b', sentence='So.', bound='> 2', verdict='holds', value=3.0, low=2.0, high=4.0)]
try:
    ledgers.repeat(1)
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
        'a-b': {'sentence': 'So.', 'bound': '> 2', 'verdict': 'holds', 'value': 3.0, 'low': 2.0,
                'high': 4.0}}
