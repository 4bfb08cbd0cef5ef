"""nbval, with this book's settings, sees what it must see."""

import os
import re
import subprocess
import sys

import nbformat
import pytest

from tools import ledgers, notebooks, prose
from tools.notebooks import ROOT

pytestmark = pytest.mark.slow

def nbval(path, **environment):
    """Run nbval on one notebook as ``make test`` does; returns (exit status, output)."""
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'tests.notebook_plugin', '-p', 'no:cacheprovider',
         '--nbval', '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--rootdir', str(ROOT), str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def first_timed_claim():
    """A real notebook, cut off after its first claim that compares two times."""
    for path in notebooks.notebooks():
        if notebooks.missing(notebooks.framework(path)):
            continue
        nb = nbformat.read(path, as_version=4)
        for i, cell in enumerate(nb.cells):
            for c in ledgers.claims_of(nbformat.from_dict({'cells': [cell]})):
                if c['kind'] == 'ratio' and not c['needs']:
                    nb.cells = nb.cells[:i + 1]
                    return path, nb, c
    pytest.fail('no notebook claims anything about time')


def test_a_planted_false_claim_is_red(tmp_path, monkeypatch):
    """Where a ledger of this kind of machine says that it held; elsewhere it is a finding."""
    path, nb, c = first_timed_claim()
    copy, here = tmp_path / path.name, tmp_path / 'ledgers'
    nbformat.write(nb, copy)
    monkeypatch.setattr(ledgers, 'FOLDER', here)
    ledgers.write({c['id']: {**c, 'verdict': 'holds'}}, {})
    status, said = nbval(copy, D2L_LEDGERS=str(here))
    assert status == 0, said
    status, said = nbval(copy, D2L_LEDGERS=str(here), D2L_MUTANT='swap')
    assert status == 1 and f'RED: fails, and held on this kind of machine: {c["id"]}' in said, said
    status, said = nbval(copy, D2L_LEDGERS=str(tmp_path / 'none'), D2L_MUTANT='swap')
    assert f'finding: fails here: {c["id"]}' in said and 'no stored ledger is of this kind' in said, said


OPEN = '''from d2l_local import claims, timing
timing.ratio = lambda *a, **k: timing.Ratio(2, 1, 3, 30)
c = claims.claim('a-b', 'A takes longer.', (int, int), above={bound})
c = claims.claim('a-c', 'A takes longer still.', (int, int), above={bound})'''


@pytest.mark.parametrize(('bound', 'red'), [(0.5, False), (1.5, True)])
def test_claims_left_open_by_noise_are_counted(tmp_path, bound, red):
    copy = tmp_path / 'open.ipynb'
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(OPEN.format(bound=bound))])
    nbformat.write(nb, copy)
    done = notebooks.NotebookClient(nb, kernel_name='python3').execute()
    nbformat.write(notebooks.normalise(done), copy)
    status, said = nbval(copy, D2L_LEDGERS=str(tmp_path / 'none'))
    assert ('without a verdict this time: quiet: a-b' in said) == red and status == int(red), said
    assert '1 passed' in said       # the cell itself is not red: noise is not an error


def test_a_ledger_that_is_none_is_red(tmp_path):
    here = tmp_path / 'ledgers'
    here.mkdir()
    (here / 'half.json').write_text('{"version": 1')
    copy = tmp_path / 'open.ipynb'
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(OPEN.format(bound=0.5))])
    done = notebooks.NotebookClient(nb, kernel_name='python3').execute()
    nbformat.write(notebooks.normalise(done), copy)
    status, said = nbval(copy, D2L_LEDGERS=str(here))
    assert status == 1 and 'RED: half.json is no ledger of this book' in said, said


SANITISED = [
    ('verdict: holds', 'verdict: undecided: too noisy', True),
    ('verdict: holds', 'verdict: fails', True),         # judged beside the ledgers, not here
    ('verdict: holds\nmeasured: 3.1×', 'verdict: not testable here: no GPU', True),
    ('bound: > 2', 'bound: > 3', False),
    ('took ≈12.3 µs (12.1 µs–12.9 µs)', 'took ≈9 ms (8 ms–9.5 ms)', True),
    ('took 12.3 µs', 'took 9 ms', False),               # measured and not marked: an error
    ('gain   ≈3.10× (2.95–3.31)', 'gain ≈12.1× (9.00–13.11)', True),
    ('≈1,050 MB', '≈3.2 MB', True), ('≈64%', '≈7.5%', True), ('≈2.4e-07 off', '≈0.1 off', True),
    ('saved 231 KB', 'saved 999 MB', False),            # counted, not measured
    ('15.75 GB/s', '1.00 GB/s', False),                 # arithmetic
    ('≈15.75 GB/s', '≈1.00 GB/s', True),
    ('≈3.1 ms for 4 steps', '≈2.9 ms for 5 steps', False),
    ('≈3.1 batches', '≈2.9 batches', True), ('≈3.1 batches', '≈3.1 messages', False),
    ('2.00× (0.00–inf)', '3.10× (2.95–3.31)', False),
    ('643 KB', '1.2 MiB', False),
    ('shape (500x300)', 'shape (500x301)', False),
    ('3 graphs', '4 graphs', False),
    ('at 0x7f00aa11', 'at 0x7fffab12', True),
    ('12 steps', '13 steps', False),
]


@pytest.mark.parametrize(('a', 'b', 'same'), SANITISED)
def test_only_what_differs_from_run_to_run_is_masked(a, b, same):
    sanitise = notebooks.sanitiser()
    assert (sanitise(a) == sanitise(b)) == same


def test_every_pattern_is_read():
    # nbval drops a pattern whose replacement is empty, without a word
    pairs = notebooks.get_sanitize_patterns(notebooks.SANITISE.read_text())
    assert len(pairs) == notebooks.SANITISE.read_text().count('\nregex: ')


def test_claims_are_found_in_code():
    for path in notebooks.notebooks():
        text = path.read_text()
        assert len(prose.claim_calls(path)) == len(re.findall(r'\bclaim\(\\?[\'"\\]', text)), path


def masked(text):
    """What is left of a text when the masks' own words and all punctuation are gone."""
    words = 'CLAIM TABLE PROGRESS JUDGED FIGURE MEASURED NAME ADDRESS PATH'.split()
    return re.sub('|'.join(words) + r'|verdict:|measured:|[^A-Za-z0-9]', '', notebooks.sanitiser()(text))


def test_few_cells_are_masked_wholly():
    """A cell of which nothing is compared counts as ignored."""
    with_text, whole = 0, []
    for path in notebooks.notebooks():
        for i, cell in enumerate(nbformat.read(path, as_version=4).cells):
            outputs = [o for o in cell.get('outputs', [])
                       if not any(m.startswith('image/') for m in o.get('data', {}))]
            texts = [o.get('text') or o.get('data', {}).get('text/plain', '') for o in outputs]
            if ''.join(texts).strip():
                with_text += 1
                if not masked('\n'.join(texts)):
                    whole.append((path.name, i))
    assert len(whole) <= 0.05 * with_text, whole
