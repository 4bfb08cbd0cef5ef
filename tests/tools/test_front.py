"""The front door says what is wrong and what to do, and leaves nothing half-made."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tools import front
from tools.source import ROOT


def run(*command, **env):
    # Variables of a `make test PYTHON=…` that runs us would win over those of a test.
    outer = {k: v for k, v in os.environ.items()
             if not k.startswith('MAKE') and k not in ('PYTHON', 'REQUIREMENTS', 'MXNET')}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300,
                          env={**outer, **env})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which('make'), reason='no make')
def test_make_explains_itself():
    status, said = run('make', '-s', 'help')
    assert status == 0
    for target in ('book', 'test', 'lab', 'refresh', 'clean'):
        assert f'make {target}' in said


@pytest.mark.parametrize(('command', 'env', 'says'), [
    ('book', {'REQUIREMENTS': 'nope.txt'}, 'a copy of it'),
    ('book', {'MXNET': 'torch'}, 'mxnet-cu112'),
    ('book', {'PYTHON': '/no/such/python', 'MXNET': 'mxnet-cu112'}, 'does not run'),
    ('read', {}, 'make help'),
])
def test_bad_settings_are_named(command, env, says):
    status, said = run(sys.executable, 'tools/front.py', command, **env)
    assert status != 0 and says in said and 'Traceback' not in said


def test_another_build_of_mxnet_changes_one_requirement(monkeypatch):
    usual = front.requirements().splitlines()
    monkeypatch.setattr(front, 'MXNET', 'mxnet-cu112')
    other = front.requirements().splitlines()
    assert len(other) == len(usual)
    old, = set(usual) - set(other)
    new, = set(other) - set(usual)
    assert old.startswith('mxnet==') and new == old.replace('mxnet', 'mxnet-cu112', 1)


@pytest.mark.parametrize(('have', 'named', 'chosen'), [
    ({'python3.11': (3, 11), 'python3': (3, 9)}, '', ['python3.11', '-m', 'venv']),
    ({'python3': (3, 11)}, '', ['python3', '-m', 'venv']),
    ({'python3': (3, 9), 'p': (3, 13)}, 'p', ['p', '-m', 'venv']),
    ({'python3': (3, 9), 'uv': None}, '', 'uv'),
    ({'python3': (3, 9)}, 'p', SystemExit),
])
def test_the_interpreter(monkeypatch, have, named, chosen):
    monkeypatch.setattr(front, 'version', have.get)
    monkeypatch.setattr(front.shutil, 'which', lambda name: name if name in have else None)
    monkeypatch.setenv('PYTHON', named)
    if chosen is SystemExit:
        with pytest.raises(SystemExit, match='Python 3.11'):
            front.choose('book')
    elif chosen == 'uv':
        assert front.choose('book')[0] == 'uv'
    else:
        assert front.choose('book') == chosen


@pytest.mark.parametrize(('python', 'ends'), [((3, 9), True), ((3, 12), False)])
def test_other_pythons(monkeypatch, capsys, python, ends):
    monkeypatch.delenv('PYTHON', raising=False)
    monkeypatch.setattr(front, 'version', lambda name: None)
    monkeypatch.setattr(front.shutil, 'which', lambda name: None)
    monkeypatch.setattr(front.sys, 'version_info', python)
    if ends:
        with pytest.raises(SystemExit, match='Install Python 3.11'):
            front.choose('book')
    else:
        assert front.choose('book') == [sys.executable, '-m', 'venv']
        assert 'PyTorch half' in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which('make'), reason='no make')
def test_make_lab_passes_options_on():
    status, said = run('make', '-n', 'lab', 'ARGS=--port 9999 --no-browser')
    assert status == 0 and said.strip().endswith('tools/front.py lab --port 9999 --no-browser')


@pytest.mark.parametrize(('command', 'user', 'needed'), [
    ('lab', 0, ['--allow-root']), ('lab', 1000, []), ('book', 0, [])])
def test_the_lab_starts_for_root_too(monkeypatch, command, user, needed):
    """JupyterLab refuses root, whom containers run as; a user's own options come last and win."""
    monkeypatch.setattr(front.os, 'geteuid', lambda: user, raising=False)
    monkeypatch.setattr(front, 'ensure', lambda command: None)
    monkeypatch.setattr(sys, 'argv', ['front', command, '--port', '9999'])
    started = []
    monkeypatch.setattr(front.subprocess, 'Popen', lambda command, **how: started.append(command)
                        or SimpleNamespace(wait=lambda: 0))
    with pytest.raises(SystemExit):
        front.main()
    assert started == [[str(front.PYTHON), *front.COMMANDS[command], *needed, '--port', '9999']]


def test_a_read_only_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(front, 'ROOT', tmp_path / 'gone')     # cannot be written to, for any user
    with pytest.raises(SystemExit, match='cannot be written to.*\n.*Copy the book'):
        front.writable()


def test_uv_installs_where_it_is_there(monkeypatch):
    for have, first in ((True, 'uv'), (False, str(front.PYTHON))):
        monkeypatch.setattr(front.shutil, 'which', lambda name, have=have: '/uv' if have else None)
        assert front.installer()[0] == first


def test_bytecode_is_kept_in_the_environment_where_it_is_not_wanted_beside_sources(monkeypatch):
    """Without bytecode, each import of PyTorch or MXNet takes several times as long."""
    monkeypatch.delenv('PYTHONPYCACHEPREFIX', raising=False)
    code = 'import sys; print(sys.dont_write_bytecode, sys.pycache_prefix)'
    for asked, prefix in (('1', str(front.VENV / 'bytecode')), ('', 'None')):
        monkeypatch.setenv('PYTHONDONTWRITEBYTECODE', asked)
        out = subprocess.run([sys.executable, '-c', code], env=front.surroundings(), capture_output=True,
                             text=True)
        assert out.stdout.split() == ['False', prefix]


@pytest.mark.slow
def test_a_failed_install_says_so_and_is_not_marked_done(monkeypatch, tmp_path):
    monkeypatch.setattr(front, 'VENV', tmp_path)
    monkeypatch.setattr(front, 'PYTHON', sys.executable)
    with pytest.raises(SystemExit, match='pip failed'):
        front.pip('--no-index', 'no-such-package-for-this-book')
    assert not (tmp_path / 'installed').exists()


@pytest.mark.skipif(not shutil.which('make') or os.name == 'nt', reason='no make, or no sh')
def test_make_takes_the_interpreter_that_is_named(tmp_path):
    """Also where the system has none of the usual names."""
    for program in ('make', 'sh'):
        (tmp_path / program).symlink_to(shutil.which(program))
    status, said = run('make', '-n', 'book', f'PYTHON={sys.executable}', PATH=str(tmp_path))
    assert status == 0 and f'{sys.executable} tools/front.py book' in said, said
    status, said = run('make', '-n', 'book', PATH=str(tmp_path))
    assert status != 0 and 'No Python here' in said


@pytest.mark.slow
@pytest.mark.skipif(os.name == 'nt', reason='links')
def test_an_environment_whose_interpreter_is_gone_is_made_anew(monkeypatch, tmp_path):
    """As after an update of the system; venv would leave the link that leads nowhere."""
    venv = tmp_path / '.venv'
    (venv / 'bin').mkdir(parents=True)
    (venv / 'bin' / 'python').symlink_to('/gone/python3.10')
    for name, value in (('VENV', venv), ('STAMP', venv / 'installed'), ('PYTHON', venv / 'bin' / 'python')):
        monkeypatch.setattr(front, name, value)
    monkeypatch.setattr(front, 'choose', lambda command: [sys.executable, '-m', 'venv', '--without-pip'])
    monkeypatch.setattr(front, 'pip', lambda *arguments: None)
    front.make_environment('book')
    assert front.version(str(venv / 'bin' / 'python')) and (venv / 'installed').exists()
