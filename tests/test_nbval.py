"""nbval, with this book's settings, sees what it must see."""

import ast
import re
import subprocess
import sys

import nbformat
import pytest

from tests import notebook_plugin
from tools import notebooks, prose
from tools.notebooks import ROOT


def nbval(path):
    """Run nbval on one notebook as ``make test`` does; returns (exit status, output)."""
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'tests.notebook_plugin', '-p', 'no:cacheprovider',
         '--nbval', '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--rootdir', str(ROOT), str(path)], cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


class Swap(ast.NodeTransformer):
    """Exchange ``slow`` and ``fast`` in a call of ``claim``: a true sentence becomes false."""

    def visit_keyword(self, node):
        node.arg = {'slow': 'fast', 'fast': 'slow'}.get(node.arg, node.arg)
        return node


def first_timed_claim():
    """A real notebook, cut off after its first claim that compares two times."""
    for path in notebooks.notebooks():
        if notebooks.missing(notebooks.framework(path)):
            continue
        nb = nbformat.read(path, as_version=4)
        for i, cell in enumerate(nb.cells):
            if cell.cell_type == 'code' and 'claim(' in cell.source and 'slow=' in cell.source:
                nb.cells = nb.cells[:i + 1]
                return path, nb
    pytest.fail('no notebook claims anything about time')


@pytest.mark.skipif(not notebooks.notebooks(), reason='no notebooks')
def test_a_planted_false_claim_is_red(tmp_path):
    path, nb = first_timed_claim()
    copy = tmp_path / path.name
    nbformat.write(nb, copy)
    status, said = nbval(copy)
    assert status == 0, said
    cell = nb.cells[-1]
    cell.source = ast.unparse(Swap().visit(ast.parse(cell.source)))
    nbformat.write(nb, copy)
    status, said = nbval(copy)
    assert status == 1 and 'verdict: fails' in said and '1 failed' in said, said


OPEN = '''from d2l_local import claims, timing
timing.ratio = lambda *a, **k: timing.Ratio(2, 1, 3, 30, 2, 1, 0)
c = claims.claim('a-b', 'A takes longer.', slow=int, fast=int, above={bound})'''


@pytest.mark.parametrize(('bound', 'red'), [(0.5, False), (1.5, True)])
def test_claims_left_open_by_noise_are_counted(tmp_path, bound, red):
    copy = tmp_path / 'open.ipynb'
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(OPEN.format(bound=bound))])
    nbformat.write(nb, copy)
    done = notebooks.NotebookClient(nb, kernel_name='python3').execute()
    nbformat.write(notebooks.normalise(done), copy)
    status, said = nbval(copy)
    assert ('still open: a-b' in said) == red and status == int(red), said
    assert '1 passed' in said       # the cell itself is not red: noise is not an error


def test_one_open_claim_in_ten_is_tolerated(monkeypatch):
    claims = [{'passing': False}] * 9 + [{'passing': True}]
    monkeypatch.setattr(notebook_plugin, 'claims', claims)
    assert not notebook_plugin.too_many_open()
    monkeypatch.setattr(notebook_plugin, 'claims', claims + [{'passing': True}])
    assert notebook_plugin.too_many_open()


SANITISED = [
    ('verdict: holds', 'verdict: undecided: too noisy', True),
    ('verdict: holds', 'verdict: not testable here: no GPU', True),
    ('verdict: holds', 'verdict: fails', False),
    ('took 12.3 µs (12.1 µs–12.9 µs)', 'took 9 ms (8 ms–9.5 ms)', True),
    ('gain   3.10× (2.95–3.31)', 'gain 12.1× (9.00–13.11)', True),
    ('643 KB', '1.2 MiB', True),
    ('verdict: holds\nmeasured: 3.1×', 'verdict: not testable here: no GPU', True),
    ('2.00× (0.00–inf)', '3.10× (2.95–3.31)', True),
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
