"""nbval, with this book's settings, sees what it must see."""

import os
import re
import subprocess
import sys

import nbformat
import pytest

from d2l_local import claims, timing
from tools import ledgers, notebooks, prose
from tools.notebooks import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.alone]


def nbval(path, **environment):
    """Run nbval on one notebook as ``make test`` does; returns (exit status, output)."""
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'tests.notebook_plugin', '-p', 'no:cacheprovider',
         '--nbval', '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--rootdir', str(ROOT), str(path)], cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def first_timed_claim():
    """A real notebook, cut off after its first claim that one thing takes longer than another: of those
    that run here, the one with the fewest cells before it."""
    found = []
    for path in notebooks.notebooks():
        if not notebooks.framework(path) or notebooks.missing(notebooks.framework(path)):
            continue
        nb = nbformat.read(path, as_version=4)
        made = ((i, c) for i, cell in enumerate(nb.cells)
                for c in ledgers.claims_of(nbformat.from_dict({'cells': [cell]})))
        for i, c in made:
            if c['kind'] == 'ratio' and c['bound'].startswith('>') and not c['needs']:
                nb.cells = nb.cells[:i + 1]
                found.append((path, nb, c))
                break
    return min(found, key=lambda x: len(x[1].cells))


SWAPPED = """
from d2l_local import claims
real = claims.claim
claims.claim = lambda id, sentence, what, **how: real(
    id, sentence, what[::-1] if isinstance(what, tuple) else what, **how)"""


def test_a_planted_false_claim_is_red(tmp_path, monkeypatch):
    """Where a ledger of this kind of machine says that it held."""
    path, nb, c = first_timed_claim()
    copy, here = tmp_path / path.name, tmp_path / 'ledgers'
    # a fault that is there to be seen shows in less time than a reader's figure takes
    nb.cells.insert(0, nbformat.v4.new_code_cell('from d2l_local import timing\ntiming.SPAN = 0.5'))
    nbformat.write(nb, copy)
    monkeypatch.setattr(ledgers, 'FOLDER', here)
    ledgers.write({c['id']: {**c, 'verdict': 'holds'}}, {})
    status, said = nbval(copy, D2L_LEDGERS=str(here))
    assert status == 0, said
    nb.cells[0].source += SWAPPED
    nbformat.write(nb, copy)
    status, said = nbval(copy, D2L_LEDGERS=str(here))
    assert status == 1 and f'RED: fails, and held on this kind of machine: {c["id"]}' in said, said


FIXED = """from d2l_local import claims, timing
timing.ratio = lambda *a, **k: timing.Ratio(2, 1, 3, 30)"""


@pytest.fixture
def claiming(tmp_path, monkeypatch):
    """A notebook whose claims, one for each bound, all find 2, or something between 1 and 3."""
    def write(*bounds):
        monkeypatch.setattr(timing, 'ratio', lambda *a, **k: timing.Ratio(2, 1, 3, 30))
        cells = [nbformat.v4.new_code_cell(FIXED)]
        for i, bound in enumerate(bounds):
            code = f"c = claims.claim('a-{i}', 'A takes longer.', (int, int), above={bound})"
            monkeypatch.setattr(claims, '_seen', {})
            claim = claims.claim(f'a-{i}', 'A takes longer.', (int, int), above=bound)
            data, metadata = claim._repr_mimebundle_()
            cells.append(nbformat.v4.new_code_cell(code, outputs=[
                nbformat.v4.new_output('display_data', data, metadata=metadata)]))
        path = tmp_path / 'claims.ipynb'
        nbformat.write(notebooks.normalise(nbformat.v4.new_notebook(cells=cells)), path)
        return path
    return write


def test_claims_that_hold_are_green(claiming, tmp_path):
    status, said = nbval(claiming(0.5, 0.6), D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 0 and 'RED' not in said and 'without a verdict' not in said, said
    assert 'no stored ledger is of this kind' in said and 'claims: 2: 2 holds' in said


def test_claims_left_open_by_noise_are_counted_and_failing_ones_are_findings(claiming, tmp_path):
    status, said = nbval(claiming(1.5, 1.5, 4), D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 1 and '4 passed' in said       # no cell is red itself: noise is not an error
    for line in ('without a verdict this time: quiet: a-0', 'without a verdict this time: quiet: a-1',
                 "RED: 2 of 3 claims that need 'quiet' have no verdict",
                 'finding: fails here: a-2', 'RED: 1 of 1 testable claims fail'):
        assert line in said, said


def test_a_ledger_that_is_none_is_red(claiming, tmp_path):
    here = tmp_path / 'ledgers'
    here.mkdir()
    (here / 'half.json').write_text('{"version": 1')
    status, said = nbval(claiming(0.5), D2L_LEDGERS=str(here))
    assert status == 1 and 'RED: half.json is no ledger of this book' in said, said


def test_guesses_of_whoever_runs_it_change_nothing(tmp_path):
    """Neither one that is kept nor one that is typed into the cell."""
    path, kept = tmp_path / 'asks.ipynb', tmp_path / 'guesses.json'
    kept.write_text('{"guesses": {"a-b": {"guess": 3}}}')
    code = ('from d2l_local import claims, predictions\n'
            "predictions.predict('a-b', 'How many?', guess={})\n"
            "c = claims.claim('a-b', 'A sentence.', 6.0, above=2)")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code.format('...'))]), path)
    nb = notebooks.execute(path)
    assert len(nb.cells[0].outputs) == 2
    for guess in '...', '7':
        nb.cells[0].source = code.format(guess)
        nbformat.write(nb, path)
        status, said = nbval(path, D2L_GUESSES=str(kept), D2L_LEDGERS=str(tmp_path / 'none'))
        assert status == 0, said
    assert kept.read_text() == '{"guesses": {"a-b": {"guess": 3}}}'


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
    ('<Figure size 700x600 with 1 Axes>', '<Figure size 700x576 with 1 Axes>', True),
    ('<Figure size 700x600 with 1 Axes>', '<Figure size 700x600 with 2 Axes>', False),
    ('<Figure size 700x600 with 1 Axes>', '<Figure size 500x600 with 1 Axes>', False),
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
    words = 'CLAIM TABLE PROGRESS JUDGED FIGURE MEASURED NAME ADDRESS PATH ROWS'.split()
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
