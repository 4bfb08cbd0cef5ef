"""The ledgers of this book: what they have, and that they are written from a whole run."""

import json
import signal
import subprocess
import sys

import nbformat
import pytest

from hardware_lab import devices, memory  # noqa: F401  (their conditions are known then)
from tested_results import claims as claiming
from tested_results import conditions, judgement, ledgers
from tested_results.claims import METADATA_KEY
from tests import notebook_plugin
from tests.tested_results.made import HERE, judge, ledger_of, result, without
from tools import ledger, ledger_page, quotations, runs, source
from tools.source import ROOT


def stored():
    found = ledger.all_ledgers()
    if not found:
        pytest.skip('no ledger is stored')
    return found


def all_of(led):
    """The results of a ledger, as a run on that machine would find them."""
    return [record.result for record in led.records.values()]


def test_the_stored_ledgers_are_of_this_book():
    """Every result of a page, decided or not; what is younger than a ledger is not in it."""
    ids = {p.name: {c.id for c in quotations.calls(p)} for p in source.pages()}
    ids = {name: found for name, found in ids.items() if found}
    for led in (ledgers.load(p, ledger.book_ids()) for p in sorted(ledger.FOLDER.glob('*.json'))):
        assert led.name == ledgers.slug(led.machine)
        younger = [name for name, mine in ids.items() if not mine & set(led.records)]
        assert led.part or len(younger) <= len(ids) / 4, 'time for a new ledger of this machine'


def test_the_failures_that_are_expected_are_known_ones():
    rows, every, ids = judgement.expected(ledger.FOLDER), stored(), ledger.book_ids()
    kinds = {led.kind for led in every}
    assert not [r for r in rows if r['id'] not in ids]
    assert not [r for r in rows if r['machine'] not in {'*'} | kinds or not r['reason'].strip()]
    assert not [r for r in rows if set(r) != {'id', 'machine', 'reason'}]
    lines = [(r['id'], r['machine']) for r in rows]
    assert len(set(lines)) == len(lines)
    for led in every:
        failing = [i for i, record in led.records.items() if record.result.verdict == 'fails']
        assert not [i for i in failing if not {(i, '*'), (i, led.kind)} & set(lines)]
    # and each of them is seen to fail there
    seen = {(i, kind) for led in every for i, record in led.records.items() if 'fails' in record.verdicts
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


def test_a_ledger_is_written_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, 'FOLDER', tmp_path / 'ledgers')
    found = {'a-b': result('a-b', needs=['links'], names=('f', 'g'), parts={'f': 3.0, 'g': 1.0}),
             'a-n': result('a-n', 'measured', 'count'),
             'a-o': result('a-o', kind='fact'),
             'a-x': result('a-x', 'not testable here', lacked='a GPU', above=None)}
    path = ledger.write(found, {'a-b': [{'verdict': 'fails', 'value': 3.1, 'low': 2.9, 'high': 3.3}]})
    led = ledgers.load(path, found)
    kept = led.records['a-b']
    assert (kept.runs, kept.verdicts) == ([3.0, 3.1], ['holds', 'fails'])
    again = led.result('a-b')
    assert (again.needs, again.reading, again.bound) == (('links',), '3.00× (2.70–3.30)', 'above 2×')
    assert led.result('a-z') is None and led.result('a-n').verdict == 'measured'
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


def test_a_ledger_comes_from_a_whole_run(book, monkeypatch, capsys):
    (one, two), run = book
    run(one)
    assert list(ledger.last_run()[0]) == ['a-pt']
    with pytest.raises(SystemExit, match='Not run here yet, or changed since: .*one_mxnet.ipynb') as e:
        ledger.main()
    assert 'one_pytorch' not in str(e.value) and not ledger.FOLDER.exists()
    # A repetition takes hours, so it is refused before it begins.
    repeated = []
    monkeypatch.setattr(ledger, 'repeat', repeated.append)
    monkeypatch.setattr(sys, 'argv', ['ledger', 'repeat', '3'])
    with pytest.raises(SystemExit, match='make book, and then make repeat'):
        ledger.main()
    assert repeated == []
    run(two)
    assert ledger.main() == 0 and repeated == [3]
    monkeypatch.setattr(sys, 'argv', ['ledger', 'write'])
    capsys.readouterr()
    assert ledger.main() == 0 and '2 results: 2 holds' in capsys.readouterr().out
    led, = ledger.all_ledgers()
    assert set(led.records) == {'a-pt', 'a-mx'}


def test_a_ledger_can_be_made_where_mxnet_cannot_be_installed(book, monkeypatch, capsys):
    (one, two), run = book
    monkeypatch.setattr(source, 'missing', lambda name: 'no MXNet' if name == 'mxnet' else '')
    run(one)
    assert ledger.main() == 0 and '1 results: 1 holds' in capsys.readouterr().out
    led, = ledger.all_ledgers()
    assert set(led.records) == {'a-pt'} and led.part == 'the notebooks that run without MXNet'
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


def test_machines_with_one_processor_have_names_of_their_own():
    one, other = ledger_of([result('a-b')]), ledger_of([result('a-b')], {**HERE, 'cores': 96})
    assert ledger_page.called(one, [one]) == HERE['processor']
    assert ledger_page.called(one, [one, other]) == one.kind
    assert ledger_page.called(other, [one, other]) == other.kind != one.kind


def test_repetitions_add_up(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, 'RUNS', tmp_path)
    folder = ledger.folder_of_repetitions()
    folder.mkdir()
    for k in range(3):
        now = {'verdict': 'holds', 'value': float(k), 'low': 0.1, 'high': 4.0, 'key': 'as it is'}
        before = {**now, 'key': 'as it was'}
        (folder / f'{k:03}.json').write_text(json.dumps({'a-b': now, f'a-{k}': now, 'a-c': before}))
    keys = dict.fromkeys(('a-b', 'a-0', 'a-1', 'a-2', 'a-c'), 'as it is')
    assert {i: len(c) for i, c in ledger.repetitions(keys).items()} == {
        'a-b': 3, 'a-0': 1, 'a-1': 1, 'a-2': 1}
    assert [c['value'] for c in ledger.repetitions(keys)['a-b']] == [0.0, 1.0, 2.0]
    here = ledger.machine.machine()
    monkeypatch.setattr(ledger.machine, 'machine', lambda: {**here, 'torch': '3.0.0'})
    assert ledger.repetitions(keys) == {}           # those of another release are another ledger's


def test_a_page_says_what_changed_from_one_release_to_the_next(monkeypatch):
    call = next(c for path in source.pages() for c in quotations.calls(path) if c.id == 'msr-pt-all')
    old = ledger_of([result(call.id, value=3.0)])
    new = ledger_of([result(call.id, 'fails', value=1.0)], {**HERE, 'torch': '2.14.1'})
    same = ledger_of([result(call.id, value=9.0)], {**HERE, 'mxnet': None})
    said = ledger_page.of_releases([old, same, new])
    assert said.count('1 of 1 results changed') == 1     # of one release and the next, not of one and itself
    assert '| torch 2.13.0, mxnet absent | torch 2.14.1, mxnet 1.9.1 |' in said
    assert f'#{call.id}"' in said and '1.00× (0.900–1.10) fails | on the other side of its bound |' in said
    assert 'No machine has ledgers of two releases' in ledger_page.of_releases([old])


def test_what_changed_from_one_ledger_to_another(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(ledger, 'FOLDER', tmp_path)
    path = ledger.write({'a-b': result('a-b')}, {})
    monkeypatch.setattr(sys, 'argv', ['ledger', 'compare', str(path), str(path)])
    assert ledger.main() == 0 and '1 results are in both ledgers; 0 changed.' in capsys.readouterr().out
    monkeypatch.setattr(sys, 'argv', ['ledger', 'compare', str(path), 'none.json'])
    with pytest.raises(ledgers.Refused, match='There is no ledger none.json. .*make ledger'):
        ledger.main()


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
ledger.runs.key_now = lambda path: 'as it is'
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
    kept, = tmp_path.glob('*/*')
    assert kept.name == '001.json' and kept.parent.name == ledger.folder_of_repetitions().name
    assert json.loads(kept.read_text()) == {
        'a-b': {'verdict': 'holds', 'value': 3.0, 'low': 2.0, 'high': 4.0, 'key': 'as it is'}}
