"""The script runs as Python would run it alone: arguments, path, errors, exit status, and Ctrl-C."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.why_slow.scripts import training, watched

pytestmark = pytest.mark.alone  # two tests at a time would share the cores that they time

COMMAND = [sys.executable, '-m', 'why_slow', '--seconds', '3', '--no-what-ifs']


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def alone(*arguments):
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def test_a_script_that_does_not_exist():
    done = run('nowhere.py')
    assert done.returncode == 2
    assert 'nowhere.py does not exist' in done.stderr


def test_a_folder_without_room_is_said_before_the_script_runs(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text('print("ran")')
    done = run('--json', tmp_path / 'missing' / 'report.json', script)
    assert done.returncode == 2
    assert 'there is no folder' in done.stderr
    assert 'ran' not in done.stdout


def test_no_script():
    done = run()
    assert done.returncode == 2
    assert 'name the script' in done.stderr


def test_arguments_like_ours_are_the_scripts(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text(
        'import sys, os\nprint(sys.argv[1:], sys.path[0] == '
        'os.path.dirname(os.path.abspath(__file__)), __name__)'
    )
    arguments = ['--json', 'x', '--seconds', '5', '-m', '--', '--help']
    assert run(script, *arguments).stdout.splitlines()[0] == f'{arguments} True __main__'


@pytest.mark.parametrize(
    'text, status',
    [
        ('import sys\nsys.exit(3)', 3),
        ('import sys\nsys.exit("no data")', 1),
        ('raise SystemExit', 0),
        ('def f():\n    g()\ndef g():\n    raise ValueError("broken")\nf()', 1),
        ('try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError("k") from e', 1),
        ('print(1\n', 1),
    ],
)
def test_errors_and_exit_status_are_the_scripts(tmp_path, text, status):
    script = tmp_path / 'train.py'
    script.write_text(text)
    expected = alone(script)
    done = run(script)
    assert done.returncode == expected.returncode == status
    said = [line for line in done.stderr.splitlines() if not line.startswith('why_slow: ')]
    assert said == expected.stderr.splitlines()


def test_a_script_without_a_framework(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text('print("done")')
    done = run(script)
    assert done.returncode == 0
    assert 'took no step: it imported neither PyTorch nor MXNet' in done.stderr


def test_the_terminal_is_the_scripts(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text('print("read", input())')
    assert 'read hello' in run(script, input='hello\n').stdout


def test_a_module(tmp_path):
    package = tmp_path / 'thing'
    package.mkdir()
    (package / '__init__.py').write_text('')
    (package / 'train.py').write_text('import sys\nprint(__name__, sys.argv[1:])')
    done = run('-m', 'thing.train', '--json', 'x', cwd=tmp_path)
    assert "__main__ ['--json', 'x']" in done.stdout


@pytest.mark.slow
def test_an_error_in_a_hooked_call_has_the_scripts_own_traceback(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text('import torch\nx = torch.ones(2)\nx.sum().backward()\n')
    expected = alone(script)
    done = run(script)
    assert done.returncode == expected.returncode == 1
    said = [line for line in done.stderr.splitlines() if not line.startswith('why_slow: ')]
    assert said == expected.stderr.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    'statement',
    [
        'torch.sparse.mm(sparse, net[0].weight.t()).sum().backward()',
        'sparse.double(), sparse.to(torch.float64)',
        'torch.func.grad(lambda weight: (weight * weight).sum())(net[0].weight)',
        'torch.func.vmap(lambda row: row.clone() + 1)(x)',
        'torch.vmap(lambda row: words(row).sum())(y[:8, None]).sum().backward()',
    ],
)
def test_a_look_leaves_special_tensors_alone(tmp_path, statement):
    pytest.importorskip('torch')
    before = '''sparse = torch.eye(64).to_sparse()
words = nn.Embedding(10, 4)
optimizer.add_param_group({"params": words.parameters()})'''
    text = training(before=before, after=statement)
    run, _ = watched(tmp_path, text, seconds=3)
    assert run.watch.failure is None
    assert run.ended == 'steps'
    assert run.session.lines.calls


@pytest.mark.parametrize('name', ['train.py', 'below/train.py'])
def test_a_script_may_change_its_folder_and_read_beside_itself(tmp_path, name):
    script = tmp_path / name
    script.parent.mkdir(exist_ok=True)
    (script.parent / 'settings.txt').write_text('found')
    script.write_text(
        'import os, pathlib, tempfile\n'
        'here = pathlib.Path(__file__).parent\nos.chdir(tempfile.gettempdir())\n'
        'print((here / "settings.txt").read_text(), __file__, type(__builtins__).__name__)\n'
    )
    said = []
    for command in ([sys.executable, name], [sys.executable, '-m', 'why_slow', name]):
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        said.append(done.stdout)
    assert said == 2 * [f'found {script} module\n'], done.stderr


@pytest.mark.slow
@pytest.mark.parametrize('steps', range(15, 28, 2))
def test_nothing_is_left_on_by_a_script_that_ends_during_a_look(tmp_path, steps):
    torch = pytest.importorskip('torch')
    text = training(
        before='taken = 0', after=f'taken += 1\n        if taken == {steps}: break', epochs=1
    )
    run, found = watched(tmp_path, text, seconds=60)
    assert run.ended == 'script' and len(run.session.plain) >= 10
    assert not torch.autograd._profiler_enabled()
    assert not torch.overrides._get_current_function_mode_stack()
    assert run.session.cost > 0 and run.session.usual['backwards'] == 1
    assert 'growth_per_step' in run.session.memory and not found['notes']


@pytest.mark.slow
def test_a_failure_before_the_first_timed_step_is_told(tmp_path, monkeypatch, capsys):
    pytest.importorskip('torch')
    import why_slow.plan

    def fail(session):
        raise AttributeError('no such attribute')
    monkeypatch.setattr(why_slow.plan, '_settings', fail)
    with contextlib.suppress(Exception):        # there is no report
        watched(tmp_path, training(), seconds=2)
    said = capsys.readouterr().err
    assert 'The watching failed with AttributeError: no such attribute, and the script was ended.' in said
    assert 'train for some more' not in said


@pytest.mark.slow
@pytest.mark.parametrize('update', ['trainer.step(8)', 'trainer.allreduce_grads(); trainer.update(8)'])
def test_a_script_of_mxnet_that_imports_pytorch_too(tmp_path, update):
    pytest.importorskip('torch')
    pytest.importorskip('mxnet')
    script = tmp_path / 'train.py'
    script.write_text(f'''
import torch
from mxnet import autograd, gluon, np, npx
npx.set_np()
net = gluon.nn.Dense(4)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "sgd", {{"learning_rate": 0.01}})
for _ in range(100_000):
    with autograd.record():
        loss = (net(np.ones((8, 16))) ** 2).mean()
    loss.backward()
    {update}
    loss.item()
''')
    done = run('--seconds', '3', '--no-what-ifs', script)
    assert done.returncode == 0 and 'A step takes' in done.stdout, done.stdout + done.stderr
    assert 'failed' not in done.stdout + done.stderr


@pytest.mark.slow
def test_the_report_and_what_the_script_does_at_its_end(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text(
        'import atexit\natexit.register(lambda: print("at exit"))\ntry:\n'
        + '\n'.join('    ' + line for line in training().splitlines())
        + '\nfinally:\n    print("finally")\n'
    )
    done = run('--json', tmp_path / 'r.json', '--html', tmp_path / 'r.html', script)
    assert done.returncode == 0, done.stderr
    assert 'A step takes' in done.stdout
    assert 'finally' in done.stdout and 'at exit' in done.stdout
    assert 'was ended when the measuring was over' in done.stdout
    report = json.loads((tmp_path / 'r.json').read_text())
    assert report['ended'] == 'steps'
    assert sorted(p.name for p in tmp_path.iterdir()) == ['r.html', 'r.json', 'train.py']


def interrupted(script):
    """A process that watches a script, which says "step" in each of its steps; Ctrl-C came after sixty."""
    command = [sys.executable, '-m', 'why_slow', '--seconds', '600', '--no-what-ifs', str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    steps = 0
    while steps < 60:
        steps += process.stdout.readline() == 'step\n'
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    return process


@pytest.mark.slow
def test_ctrl_c_once_reports(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text(training(after='print("step", flush=True)'))
    process = interrupted(script)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert 'A step takes' in out
    assert 'Ctrl-C ended the script' in out


@pytest.mark.slow
def test_ctrl_c_twice_ends_a_script_that_cleans_up_for_long(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text(
        'import time\ntry:\n'
        + '\n'.join('    ' + line for line in training(after='print("step", flush=True)').splitlines())
        + '\nfinally:\n    print("cleaning up", flush=True)\n    time.sleep(600)\n'
    )
    process = interrupted(script)
    assert 'cleaning up\n' in iter(process.stdout.readline, '')
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert 'KeyboardInterrupt' in said
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.slow
def test_processes_of_the_loader_end(tmp_path):
    script = tmp_path / 'train.py'
    script.write_text(
        training(
            batches='DataLoader(data, 64, num_workers=1)',
            before='import os; print("pid", os.getpid(), flush=True)',
        )
    )
    done = run(script)
    assert 'A step takes' in done.stdout, done.stderr
    pid = int(done.stdout.split('pid ')[1].split()[0])
    time.sleep(0.5)
    children = [entry for entry in os.listdir('/proc') if entry.isdigit() and _group(entry) == pid]
    assert not children


def _group(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return int(file.read().rsplit(')', 1)[1].split()[1])  # the parent
    except OSError:
        return None
