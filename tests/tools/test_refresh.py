"""What a run stores, and what it puts into the text."""

import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from tested_results import execution
from tests.living import gone
from tests.tools.small import GOOD, RESULTS, counted, ratio
from tools import quotations, refresh, runs, source
from tools.source import ROOT

THIS, OTHER = ({'processor': name, 'cores': 2, 'gpus': [], 'system': 'Linux'} for name in ('this', 'other'))


@pytest.fixture
def book(tmp_path, monkeypatch):
    """Two notebooks whose stored results come from another machine; those of a run come from this one."""
    def notebook(where):
        cell = nbformat.v4.new_code_cell('1', execution_count=1)
        result = {'where': where, 'verdict': 'holds', 'reason': '', 'kind': 'ratio', 'needs': []}
        metadata = {refresh.METADATA_KEY: result}
        cell.outputs = [nbformat.v4.new_output('display_data', {'text/plain': '1'}, metadata=metadata)]
        return nbformat.v4.new_notebook(cells=[cell])

    def run(path, label):
        ran.append(path.stem)
        if path.stem in raising:
            raise execution.CellFailed(f'{path.stem} raised')
        return notebook(THIS)

    paths, ran, raising = [tmp_path / 'one.ipynb', tmp_path / 'two.ipynb'], [], set()
    for path in paths:
        nbformat.write(notebook(OTHER), path)
    monkeypatch.setattr(source, 'ROOT', tmp_path)
    monkeypatch.setattr(runs, 'EXECUTED', tmp_path / 'executed')
    monkeypatch.setattr(source, 'notebooks', lambda: paths)
    monkeypatch.setattr(runs, 'keep', run)
    monkeypatch.setattr(runs.machine, 'machine', lambda: THIS)
    return paths, ran, raising


def stored(path):
    return nbformat.read(path, as_version=4).cells[0].outputs[0].metadata[refresh.METADATA_KEY]['where']


def test_one_notebook_is_not_stored_beside_those_of_another_machine(book):
    paths, ran, _ = book
    with pytest.raises(refresh.Mixed, match='two.ipynb are stored from another .*refresh ALL=1'):
        refresh.refresh(paths[:1])
    assert not ran and stored(paths[0]) == OTHER


def test_the_whole_book_is_stored(book):
    paths, ran, _ = book
    assert refresh.refresh(paths, all_outputs=True) == 0
    assert ran == ['one', 'two'] and [stored(p) for p in paths] == [THIS, THIS]
    assert refresh.refresh(paths[:1]) == 0


def test_a_whole_run_of_which_a_notebook_raised_is_not_stored(book):
    paths, _, raising = book
    raising.add('two')
    with pytest.raises(refresh.Mixed, match='two.ipynb'):
        refresh.refresh(paths, all_outputs=True)
    assert [stored(p) for p in paths] == [OTHER, OTHER]


def test_runs_that_were_kept_are_stored_with_those_that_were_missing(book, monkeypatch):
    paths, ran, _ = book
    first = runs.keep(paths[0], '')
    monkeypatch.setattr(runs, 'latest', lambda path: (first, path == paths[0]))
    assert refresh.refresh(paths, all_outputs=True, kept=True) == 0
    assert ran == ['one', 'two'] and [stored(p) for p in paths] == [THIS, THIS]


@pytest.mark.slow
def test_a_cell_that_raises_is_named_and_nothing_is_stored(planted, capsys):
    path = planted('x.nothing')
    before = path.read_text()
    assert refresh.refresh([path]) == 1
    said = capsys.readouterr().err
    assert 'one.ipynb: cell 2 raised AttributeError' in said and 'x.nothing' in said
    assert path.read_text() == before and [p.name for p in path.parent.iterdir()] == ['one.ipynb']


@pytest.mark.slow
def test_a_kernel_that_dies_is_named(planted, capsys):
    path = planted('import os; os._exit(3)')
    before = path.read_text()
    assert refresh.refresh([path]) == 1
    said = capsys.readouterr().err
    assert 'one.ipynb: cell 2 ended it: Kernel died' in said and 'os._exit' in said
    assert path.read_text() == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == 'nt', reason='signals of another kind')
def test_ctrl_c_ends_the_kernel_and_says_so(planted, tmp_path):
    inside = tmp_path / 'inside'
    path = planted(f'import os, time; print(os.getpid(), file=open({str(inside)!r}, "w"), flush=True)\n'
                   'time.sleep(600)')
    code = (f'import sys; sys.argv = ["x", {str(path)!r}]; from pathlib import Path; '
            f'from tools import refresh, source; source.ROOT = Path({str(tmp_path)!r}); '
            'source.notebooks = lambda: [Path(sys.argv[-1])]; '
            'import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n'
            'try: refresh.main()\nexcept KeyboardInterrupt: print("interrupted")')
    child = subprocess.Popen([sys.executable, '-c', code], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.STDOUT, start_new_session=True)
    try:
        end = time.monotonic() + 300
        while time.monotonic() < end and not (inside.exists() and inside.read_text().endswith('\n')):
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGINT)
        said, _ = child.communicate(timeout=300)
    finally:
        child.kill()
    assert said.strip().endswith('interrupted') and 'Traceback' not in said
    assert gone([int(inside.read_text())])


@pytest.mark.slow
def test_an_interrupt_stores_nothing(planted, monkeypatch):
    path = planted('x + 1')
    before = path.read_text()

    def interrupted(*_, **how):
        raise KeyboardInterrupt
    monkeypatch.setattr(execution.NotebookClient, 'execute', interrupted)
    with pytest.raises(KeyboardInterrupt):
        refresh.refresh([path])
    assert path.read_text() == before and [p.name for p in path.parent.iterdir()] == ['one.ipynb']


@pytest.mark.slow
def test_a_refresh_changes_only_what_changed(planted):
    path = planted('import time; print(f"≈{time.perf_counter():.4f} s", 7)')
    assert refresh.refresh([path]) == 0
    first = path.read_text()
    assert '"execution_count": 2' in first
    assert refresh.refresh([path]) == 0 and path.read_text() == first
    path.write_text(first.replace(', 7)', ', 8)'))
    assert refresh.refresh([path]) == 0 and ' 8' in path.read_text().split('outputs')[-1]


CLAIM = """from pathlib import Path
from tested_results.claims import estimate
c = estimate('a-b', [float(Path('truth').read_text())] * 10, above=2)"""


@pytest.mark.slow
def test_a_refresh_stores_the_verdict_that_came_out(planted):
    """Never a better one that was there before: nothing is selected."""
    path = planted(CLAIM)
    for truth in (3.0, 1.0, 3.0):
        (path.parent / 'truth').write_text(str(truth))
        assert refresh.refresh([path]) == 0
        verdicts = [o.metadata['d2l_claim']['verdict']
                    for o in nbformat.read(path, as_version=4).cells[-1].outputs]
        assert verdicts == ['holds' if truth > 2 else 'fails']


def test_refresh_of_something_else_is_refused(program):
    status, said = program('refresh', 'README.md')
    assert status == 2 and 'not a notebook of this book' in said


def test_update_writes_the_numbers_and_nothing_else(two_pages):
    said = '# Two\n\nAs [6.0× faster](#a-b) \n\n* and  [so](#a-so), `[6.0×]`, [6×](b.html#a-b).'
    one, two = two_pages(said=said)
    before, stamp = nbformat.read(two, as_version=4), one.stat().st_mtime_ns
    assert refresh.update(RESULTS, [one, two]) == [] and one.stat().st_mtime_ns == stamp
    now = {**RESULTS, 'a-b': ratio(2.5), 'a-n': counted(16, 'graphs')}
    assert refresh.update(now, [one, two]) == ['one.md', 'two.ipynb']
    assert one.read_text() == GOOD.replace('6.0×', '2.5×').replace('15,329', '16')
    before.cells[0].source = said.replace('[6.0× faster]', '[2.5× faster]')
    assert two.read_text() == nbformat.writes(before) + '\n'
    assert quotations.problems(now, [one, two]) == [] and refresh.update(now, [one, two]) == []
    assert refresh.update({}, [one, two]) == []
    assert sorted(p.name for p in one.parent.iterdir()) == ['one.md', 'two.ipynb']


def test_update_leaves_what_does_not_fit_and_goes_on(two_pages):
    one, two = two_pages(GOOD.replace('20 ms', '20 GB'), said='# Two\n\n[6.0×](#a-b)')
    assert refresh.update({'a-b': ratio(2.5)}, [one, two]) == ['one.md', 'two.ipynb']
    assert '[20 GB](#a-b:fast)' in one.read_text() and '[2.5× faster]' in one.read_text()
    assert 'one.md, line 3' in quotations.problems({'a-b': ratio(2.5)}, [one, two])[0]


def test_update_leaves_the_outputs_alone(two_pages):
    one, two = two_pages(said='# Two\n\n[6.0×](#a-b)')
    nb = nbformat.read(two, as_version=4)
    nb.cells[1].outputs = [nbformat.v4.new_output('stream', text='[6.0×](#a-b)\n')]
    nb.cells[1].source += '\n# [6.0×](#a-b)'
    source.write(two, nb)
    refresh.update({'a-b': ratio(2.5)}, [two])
    after = nbformat.read(two, as_version=4)
    assert after.cells[0].source == '# Two\n\n[2.5×](#a-b)' and after.cells[1] == nb.cells[1]
