"""The magics, in a shell of IPython: a call and a cell under watch."""

import re
import subprocess
import sys

import pytest

from tests.why_slow.scripts import HEAD, training

pytest.importorskip('torch')
pytest.importorskip('IPython')

pytestmark = pytest.mark.alone  # two tests at a time would share the cores that they time

SHELL = '''
import sys
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in sys.stdin.read().split('# --- next cell'):
    shell.run_cell(cell)
'''
FAULT = training(head='', before='net.double()', loss='loss_function(net(x.double()), y)', after='steps += 1')


def in_shell(*cells):
    """What a shell prints that runs these cells."""
    done = subprocess.run(
        [sys.executable, '-c', SHELL],
        input='# --- next cell'.join(cells),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_found(printed):
    """The report is there and names the fault, with a line of the cell."""
    assert 'A step takes' in printed, printed
    assert re.search(r'The model computes in float64 \[<ipython-input-[-\w]+>:\d+\]', printed), printed


@pytest.mark.slow
def test_a_cell_under_watch_and_what_it_leaves_behind():
    printed = in_shell(
        '%load_ext why_slow\n' + HEAD + '\nplain_step = torch.optim.Adam.step\nsteps = 0',
        '%%why_slow --seconds 3 --no-what-ifs\n' + FAULT,
        'print("the cell took", steps > 20, "its names stay", x.shape[1], '
        '"nothing is patched", torch.optim.Adam.step is plain_step)',
    )
    assert_found(printed)
    assert 'the cell took True its names stay 64 nothing is patched True' in printed


@pytest.mark.slow
def test_a_call_under_watch():
    body = '\n'.join('    ' + line for line in FAULT.splitlines())
    printed = in_shell(
        '%load_ext why_slow\n' + HEAD + '\nsteps = 0\ndef train():\n    global steps\n' + body,
        '%why_slow --seconds 3 --no-what-ifs train()',
        'print("the call took", steps > 20)',
    )
    assert_found(printed)
    assert 'the call took True' in printed


@pytest.mark.parametrize(
    'line, said',
    [
        ('%why_slow', 'needs a statement'),
        ('%why_slow --seconds 3', 'needs a statement'),
        ('%why_slow --seconds many train()', "needs a number above 0 after it, not 'many'"),
        ('%why_slow --seconds 0 train()', "needs a number above 0 after it, not '0'"),
        ('%why_slow --html r.html train()', 'knows --seconds and --no-what-ifs, not --html'),
    ],
)
def test_what_the_line_lacks_is_said(line, said):
    printed = in_shell('%load_ext why_slow\ndef train():\n    print("ran")', line, 'print("still here")')
    assert said in printed
    assert 'ran' not in printed
    assert 'still here' in printed
