"""nbval, with this book's settings, sees what it must see."""

import os
import re
import subprocess
import sys
import time

import nbformat
import pytest

from tested_results import claims, judgement, ledgers, timing
from tools import ledger, quotations, refresh, runs, source
from tools.source import ROOT

pytestmark = pytest.mark.slow        # what they run has its figures given, all but one


def nbval(path, *options, **environment):
    """Run nbval on one notebook as ``make test`` does; returns (exit status, output)."""
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'tests.notebook_plugin', '-p', 'no:cacheprovider',
         '--nbval', '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--rootdir', str(ROOT), *options, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={**os.environ, **environment})
    return done.returncode, done.stdout + done.stderr


def first_timed_result():
    """A real notebook, cut off after its first result that one thing takes longer than another: of those
    that run here, the one with the fewest cells before it."""
    found = []
    for path in source.notebooks():
        if not source.framework(path) or source.missing(source.framework(path)):
            continue
        nb = nbformat.read(path, as_version=4)
        made = ((i, c) for i, cell in enumerate(nb.cells)
                for c in ledgers.claims_of(nbformat.from_dict({'cells': [cell]})))
        for i, c in made:
            if c.kind == 'ratio' and c.above and not c.needs and c.verdict == 'holds':
                nb.cells = nb.cells[:i + 1]
                found.append((path, nb, c))
                break
    return min(found, key=lambda x: len(x[1].cells))


SWAPPED = """
from tested_results import claims
real = claims._result
claims._result = lambda id, kind, what, *more: real(
    id, kind, what[::-1] if kind == 'ratio' else what, *more)"""


@pytest.mark.alone
def test_a_planted_false_result_is_red(tmp_path):
    """On a known kind of machine: it fails in two fresh kernels."""
    path, nb, c = first_timed_result()
    copy, here = tmp_path / path.name, tmp_path / 'ledgers'
    # a fault that is there to be seen shows in less time than a reader's figure takes
    nb.cells.insert(0, nbformat.v4.new_code_cell('from tested_results import timing\ntiming.SPAN = 0.5'))
    nbformat.write(nb, copy)
    here.mkdir()
    # a whole one, also where one of the frameworks is absent
    (here / 'this-machine.json').write_text(ledgers.text({c.id: c}, {}))
    status, said = nbval(copy, D2L_LEDGERS=str(here))
    assert status == 0, said
    nb.cells[0].source += SWAPPED
    nbformat.write(nb, copy)
    status, said = nbval(copy, D2L_LEDGERS=str(here))
    assert status == 1 and f'RED: fails twice, in two fresh kernels: {c.id}' in said, said


FIXED = """from tested_results import claims, timing
found = dict(ratio=(2, 1, 3))
timing.ratio = lambda *a, **k: timing.Ratio(*found['ratio'], 30, slow=2e-5, fast=1e-5)"""


@pytest.fixture
def claiming(tmp_path, monkeypatch):
    """A notebook of results, made by these calls of which each finds 2, or something between 1 and 3."""
    def write(*calls):
        two = timing.Ratio(2, 1, 3, 30, slow=2e-5, fast=1e-5)
        monkeypatch.setattr(timing, 'ratio', lambda *a, **k: two)
        monkeypatch.setattr(claims, '_seen', {})
        cells = [nbformat.v4.new_code_cell(FIXED)]
        for call in calls:
            made = []
            monkeypatch.setattr(claims, '_show', made.append)
            exec(call, {'claims': claims})
            outputs = [nbformat.v4.new_output('display_data', data, metadata=metadata)
                       for data, metadata in (c._repr_mimebundle_() for c in made)]
            cells.append(nbformat.v4.new_code_cell(f'c = {call}', outputs=outputs))
        path = tmp_path / 'claims.ipynb'
        nbformat.write(runs.normalise(nbformat.v4.new_notebook(cells=cells)), path)
        return path
    return write


def call(i, bound):
    return f"claims.compare('a-{i}', slow=int, fast=int, above={bound})"


def test_results_that_hold_are_green(claiming, tmp_path):
    path = claiming(call(0, 0.5), call(1, 0.6))
    status, said = nbval(path, D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 0 and 'RED' not in said and 'without a result' not in said, said
    assert 'no stored ledger is of this kind' in said and 'results: 2: 2 holds' in said


def test_results_left_open_by_noise_are_counted_and_failing_ones_are_findings(claiming, tmp_path):
    path = claiming(call(0, 1.5), call(1, 1.5), call(2, 4))
    status, said = nbval(path, D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 1 and '4 passed' in said       # no cell is red itself: noise is not an error
    for told in ('without a result this time: a-0', 'without a result this time: a-1',
                 'RED: 2 of 3 timed results are not decided', 'finding: fails here: a-2',
                 'RED: 1 of 3 timed results fail on this kind of machine'):
        assert told in said, said


# Another outcome of every kind, with other numbers, and the test is the judge's alone.
OTHER = """
timing.ratio = lambda *a, **k: timing.Ratio(0.3, 0.2, 0.4, 30, slow=3e-5, fast=1e-4)
timing.repeat = lambda *a, **k: timing.Estimate(7, 6, 8, 30)"""


def test_what_comes_out_is_judged_and_what_is_tested_is_compared(claiming, tmp_path, monkeypatch):
    monkeypatch.setattr(timing, 'repeat', lambda *a, **k: timing.Estimate(2e-5, 1e-5, 3e-5, 30))
    path = claiming(call(0, 0.5), "claims.compare('a-1', eager=int, compiled=int)",
                    "claims.estimate('a-2', float, 's', below=1)",
                    "claims.estimate('a-3', float, 'GB/s')",
                    "claims.count('a-4', 2.5e-7, below=1)", "claims.verify('a-5', True)",
                    "claims.count('a-6', 15329, 'graphs')")
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source += OTHER
    for i, (before, after) in {5: ('2.5e-7', '3.1e-7'), 6: ('True', 'False')}.items():
        nb.cells[i].source = nb.cells[i].source.replace(before, after)
    nbformat.write(nb, path)
    status, said = nbval(path, D2L_LEDGERS=str(tmp_path / 'none'))
    assert '8 passed' in said and status == 1 and 'RED: a-5: fails, and no clock made it' in said, said
    assert 'finding: fails here: a-0' in said and 'finding: fails here: a-2' in said
    nb.cells[1].source = nb.cells[1].source.replace('above=0.5', 'above=0.6')
    nb.cells[2].source = nb.cells[2].source.replace('eager', 'other')
    nb.cells[7].source = nb.cells[7].source.replace('15329', '15')
    nbformat.write(nb, path)
    status, said = nbval(path, D2L_LEDGERS=str(tmp_path / 'none'))
    assert '2 failed, 6 passed' in said, said
    assert 'RED: a-6: 15 graphs, and stored is 15,329 graphs' in said


def test_a_failure_that_does_not_come_again_in_a_fresh_kernel_is_a_note(claiming, tmp_path, monkeypatch):
    """And one that does is red; a line of the list that expects it is green at once."""
    path, here, once = claiming(call(0, 0.5)), tmp_path / 'ledgers', tmp_path / 'once'
    monkeypatch.setattr(ledger, 'FOLDER', here)
    monkeypatch.setattr(source, 'missing', lambda framework: False)     # the ledger is of the whole book
    ledger.write({c.id: c for c in ledgers.claims_of(nbformat.read(path, as_version=4))}, {})
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source += f"""
from pathlib import Path
runs = Path({str(once)!r})
runs.write_text((runs.read_text() if runs.exists() else '') + '.')
if len(runs.read_text()) in (1, 3, 4, 5):
    found['ratio'] = (0.3, 0.2, 0.4)"""
    nbformat.write(nb, path)
    status, said = nbval(path, D2L_LEDGERS=str(here))
    assert status == 0 and 'failed once and then holds: a-0: 0.3' in said and 'RED' not in said, said
    status, said = nbval(path, D2L_LEDGERS=str(here))
    assert status == 1 and 'RED: fails twice, in two fresh kernels: a-0: 0.3' in said, said
    (here / judgement.EXPECTED).write_text('id,machine,reason\na-0,*,so it is\n')
    status, said = nbval(path, D2L_LEDGERS=str(here))
    assert status == 0 and 'failed as expected: a-0' in said and len(once.read_text()) == 5, said


def test_a_whole_run_has_every_notebook(claiming, tmp_path):
    """Those that did not run are named, each."""
    status, said = nbval(claiming(call(0, 0.5)), '--whole-book', D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 1
    assert not [p for p in source.notebooks() if f'RED: {p.relative_to(ROOT)} did not run' not in said
                and not source.missing(source.framework(p))], said


def test_a_whole_run_knows_what_ran_beside_it(claiming, tmp_path):
    path, file = claiming(call(0, 0.5), call(1, 1.5)), tmp_path / 'results.json'
    status, said = nbval(path, '-n', '1', '--dist', 'loadfile', f'--results-to={file}',
                         D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 0 and 'results:' not in said, said
    status, said = nbval(path, '--whole-book', f'--results-from={file}', D2L_LEDGERS=str(tmp_path / 'none'))
    assert 'results: 4: 2 holds, 2 undecided' in said, said
    assert 'without a result this time: a-1' in said


def test_a_result_that_vanished_is_red(claiming, tmp_path):
    path = claiming(call(0, 0.5), call(1, 0.5))
    nb = nbformat.read(path, as_version=4)
    nb.cells[2].source = f'if 1 > 2:\n    {nb.cells[2].source}'
    nbformat.write(nb, path)
    status, said = nbval(path, D2L_LEDGERS=str(tmp_path / 'none'))
    assert status == 1 and 'RED: a-1: the notebook ran, and this result did not appear' in said, said


@pytest.fixture
def stored(tmp_path):
    """A notebook of these cells as ``make refresh`` stores it."""
    def store(*cells):
        path = tmp_path / 'page.ipynb'
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells]), path)
        nbformat.write(runs.normalise(runs.execute(path)), path)
        return path
    return store


def test_what_a_child_process_prints_is_compared(stored):
    # a moment, for what a child prints comes by another way than what the kernel prints
    path = stored("import os, time\nos.system('echo from a child')\ntime.sleep(1)")
    assert nbformat.read(path, as_version=4).cells[0].outputs[-1].text == 'from a child\n'
    status, said = nbval(path)
    assert status == 0, said


def test_a_kernel_that_dies_is_told_at_once(stored):
    path = stored('x = 1', 'y = 2')
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source = 'import os\nos._exit(3)'
    nbformat.write(nb, path)
    began = time.monotonic()
    status, said = nbval(path, '--nbval-cell-timeout', '300')
    assert status == 1 and 'the kernel died in this cell' in said, said
    assert time.monotonic() - began < 100       # a third of the timeout, on the busiest machine


BETWEEN = "print('before')\ndisplay(1)\nprint('after')"


def test_outputs_are_stored_in_the_order_in_which_they_come(stored):
    outputs = nbformat.read(stored(BETWEEN), as_version=4).cells[0].outputs
    assert [out.get('text', 'a display') for out in outputs] == ['before\n', 'a display', 'after\n']


@pytest.mark.parametrize('changed', [
    "print('before')\nprint('after')\ndisplay(1)", "display(1)\nprint('before')\nprint('after')"])
def test_another_order_is_red(stored, changed):
    path = stored(BETWEEN)
    assert nbval(path)[0] == 0
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source = changed
    nbformat.write(nb, path)
    assert nbval(path)[0] == 1


def test_what_is_printed_after_a_display_is_not_what_is_printed_before_it(stored):
    path = stored("print('one line')\ndisplay(1)")
    nb = nbformat.read(path, as_version=4)
    nb.cells[0].source = "display(1)\nprint('one line')"
    nbformat.write(nb, path)
    status, said = nbval(path)
    assert status == 1 and 'another order: display, stdout; stored are stdout, display' in said, said


def test_a_widget_leaves_its_text(stored):
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('w')])
    both = {'text/plain': 'IntSlider(value=3)', runs.WIDGET: {'model_id': '1'}}
    nb.cells[0].outputs = [nbformat.v4.new_output('display_data', both)]
    assert runs.normalise(nb).cells[0].outputs[0].data == {'text/plain': 'IntSlider(value=3)'}


def test_a_ledger_that_is_none_is_red(claiming, tmp_path):
    here = tmp_path / 'ledgers'
    here.mkdir()
    (here / 'half.json').write_text('{"version": 1')
    status, said = nbval(claiming(call(0, 0.5)), D2L_LEDGERS=str(here))
    assert status == 1 and 'RED: half.json is no ledger of these results' in said, said


def test_guesses_of_whoever_runs_it_change_nothing(tmp_path):
    """Neither one that is kept nor one that is typed into the cell."""
    path, kept = tmp_path / 'asks.ipynb', tmp_path / 'guesses.json'
    kept.write_text('{"guesses": {"a-b": {"guess": 3}}}')
    code = ('from tested_results import claims, predictions\n'
            "predictions.predict('a-b', 'How many?', guess={})\n"
            "c = claims.count('a-b', 6.0, above=2)")
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code.format('...'))]), path)
    nb = runs.execute(path)
    assert len(nb.cells[0].outputs) == 2
    for guess in '...', '7':
        nb.cells[0].source = code.format(guess)
        nbformat.write(nb, path)
        status, said = nbval(path, TESTED_RESULTS_GUESSES=str(kept), D2L_LEDGERS=str(tmp_path / 'none'))
        assert status == 0, said
    assert kept.read_text() == '{"guesses": {"a-b": {"guess": 3}}}'


SANITISED = [
    ('a ÷ b = 6.02× (5.71–6.33)  [a-b]\ntimes: a 5 µs, b 1 µs\ntested: above 3×: holds',
     'a ÷ b = 1.50× (1.46–1.66)  [a-b]\ntimes: a 5 ms, b 3 ms\ntested: above 3×: fails (so)', True),
    ('a ÷ b = 6.02× (5.71–6.33)  [a-b]\ntimes: a 5 µs, b 1 µs\ntested: above 3×: holds',
     'a ÷ b = not testable here: no GPU  [a-b]\ntested: above 3×: not testable here (no GPU)', True),
    ('a-f = true  [a-f]', 'a-f = false  [a-f]', True), ('a-f = true  [a-f]', 'a-f = true  [a-g]', False),
    ('a-n = 3 graphs  [a-n]', 'a-n = 4 graphs  [a-n]', True),               # the judge's, too
    ('a ÷ b = 2×  [a-b]', 'c ÷ b = 2×  [a-b]', False),
    ('a = 2×  [a-b]\ntested: above 3×: fails', 'a = 2×  [a-b]\ntested: above 2×: fails', False),
    ('a = 2×  [a-b]\ntested: above 3×: fails', 'a = 2×  [a-b]', False),
    ('x = 3', 'x = 4', False),
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
    sanitise = refresh.sanitiser()
    assert (sanitise(a) == sanitise(b)) == same


def test_every_pattern_is_read():
    # nbval drops a pattern whose replacement is empty, without a word
    pairs = refresh.get_sanitize_patterns(refresh.SANITISE.read_text())
    assert len(pairs) == refresh.SANITISE.read_text().count('\nregex: ')


def test_results_are_found_in_code():
    call = re.compile(r'\b(?:d2l|claims)\.(?:compare|estimate|count|verify)\(\s*\\?[\'"\\]')
    for path in source.notebooks():
        code = '\n'.join(c.source for c in source.read(path).cells if c.cell_type == 'code')
        assert len(quotations.calls(path)) == len(call.findall(code)), path


def masked(text):
    """What is left of a text when the masks' own words and all punctuation are gone."""
    words = 'CLAIM TABLE PROGRESS JUDGED FIGURE MEASURED NAME ADDRESS PATH ROWS'.split()
    return re.sub('|'.join(words) + r'|measured:|[^A-Za-z0-9]', '', refresh.sanitiser()(text))


def test_few_cells_are_masked_wholly():
    """A cell of which nothing is compared counts as ignored."""
    with_text, whole = 0, []
    for path in source.notebooks():
        for i, cell in enumerate(nbformat.read(path, as_version=4).cells):
            outputs = [o for o in cell.get('outputs', [])
                       if not any(m.startswith('image/') for m in o.get('data', {}))]
            texts = [o.get('text') or o.get('data', {}).get('text/plain', '') for o in outputs]
            if ''.join(texts).strip():
                with_text += 1
                if not masked('\n'.join(texts)):
                    whole.append((path.name, i))
    assert len(whole) <= 0.05 * with_text, whole
