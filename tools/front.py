"""What `make` calls: make the environment if need be, then run the command in it.

Standard library only, and no syntax newer than Python 3.6: it must say what is missing, also to the
``python3`` of an old system. On Windows, such a Python takes a path in a command only as text: ``str(…)``.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / '.venv'
REQUIREMENTS = ROOT / (os.environ.get('REQUIREMENTS') or 'requirements.txt')
# The build of MXNet to install: on an NVIDIA machine with CUDA 11.2 and cuDNN 8, mxnet-cu112.
MXNET = os.environ.get('MXNET') or 'mxnet'
TESTS = ROOT / 'tests' / 'requirements.txt'
CHECKS = 'check', 'test'        # commands that need what only the tests need
STAMP = VENV / 'installed'       # of what the environment was made
PYTHON = VENV / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')      # nt: Windows
NO_PYTHON = '''This book needs Python 3.11 (3.12 or newer runs its PyTorch half). Found: {}.
Install Python 3.11 from python.org or your system's packages, or install uv, which brings it;
or name an interpreter: make {} PYTHON=/path/to/python3.11'''


def version(python):
    """(major, minor) of an interpreter, or None if it does not run.

    It may be a stub that only offers to install Python: on Windows, and on macOS without developer tools.
    """
    try:
        out = subprocess.run([python, '-c', 'import sys; print(*sys.version_info[:2])'],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60)
        return tuple(int(n) for n in out.stdout.split()) if out.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def choose(command):
    """The command that makes a virtual environment, from the best interpreter there is."""
    named = os.environ.get('PYTHON')
    if named:        # where a newer Python, or one outside of PATH, is wanted
        if (version(named) or (0, 0)) < (3, 11):
            sys.exit(NO_PYTHON.format(f'{named} does not run or is older', command))
        return [named, '-m', 'venv']
    for python in ('python3.11', 'python3', sys.executable):
        if version(python) == (3, 11):
            return [python, '-m', 'venv']
    # Where the system has no Python 3.11, uv brings one. It goes on with a folder that an interrupted
    # installation left (--allow-existing), and adds pip (--seed), which the README calls.
    if shutil.which('uv'):
        return ['uv', 'venv', '--quiet', '--seed', '--allow-existing', '--python', '3.11']
    if sys.version_info >= (3, 12):          # a new system without uv
        print('No Python 3.11 here: the PyTorch half of the book is installed with Python '
              '{}.{}; MXNet pages show stored outputs.'.format(*sys.version_info[:2]))
        return [sys.executable, '-m', 'venv']
    sys.exit(NO_PYTHON.format('Python {}.{}'.format(*sys.version_info[:2]), command))


def installer():
    """The command that installs into the environment: uv's where it is there, for it is faster."""
    if shutil.which('uv'):
        return ['uv', 'pip', 'install', '--python', str(PYTHON)]
    # Modules are compiled when they are first imported, not all of them now.
    return [str(PYTHON), '-m', 'pip', '--disable-pip-version-check', 'install', '--no-compile']


def pip(*args):
    """Install quietly into the environment, with a line that shows that it is alive."""
    log = VENV / 'install.log'
    began = time.time()
    with log.open('a') as out:      # several installations follow each other
        child = subprocess.Popen([*installer(), *args], stdout=out, stderr=subprocess.STDOUT,
                                 cwd=str(ROOT))
        try:
            while child.poll() is None:
                time.sleep(0.2)
                if sys.stdout.isatty():          # not in the log of a workflow
                    print(f'\r  {time.time() - began:.0f} s ', end='', flush=True)
        finally:
            if child.poll() is None:         # Ctrl-C: not every terminal sends it to the child too
                child.terminate()
                child.wait()
    if child.returncode:
        tail = ''.join(log.read_text(errors='replace').splitlines(True)[-15:])
        sys.exit(f'\n{tail}\npip failed; all that it said is in {log}.\nIs the network there, and '
                 '6 GB of disk? Then try again: what was installed is kept.')


def packages():
    """The folders of the packages that stand beside d2l_local."""
    return sorted(p.parent for p in ROOT.glob('packages/*/pyproject.toml'))


def editable():
    return [word for p in packages() for word in ('-e', str(p))]


def ensure(command):
    """Make the environment, unless it is there and fits the requirements; for the checks, add theirs."""
    make_environment(command)
    if command not in CHECKS:
        return
    wanted, stamp = hashlib.sha256(TESTS.read_bytes()).hexdigest(), VENV / 'installed-tests'
    if not stamp.is_file() or stamp.read_text() != wanted:
        pip('-r', str(TESTS))
        stamp.write_text(wanted)
        print('\rInstalled what the checks need.', flush=True)


def requirements():
    """The text of the requirements, with the build of MXNet that the variable MXNET names."""
    if not REQUIREMENTS.is_file():
        sys.exit(f'{REQUIREMENTS} does not exist; REQUIREMENTS is requirements.txt or a copy of it.')
    if not re.match(r'mxnet(-\w+)?$', MXNET):
        sys.exit(f'MXNET={MXNET} names no build of MXNet; for an NVIDIA machine it is mxnet-cu112.')
    return re.sub(r'(?m)^mxnet(?===)', MXNET, REQUIREMENTS.read_text(encoding='utf-8'))


def make_environment(command):
    """Make the environment, unless it is there and fits the requirements."""
    text = requirements()
    wanted = hashlib.sha256(text.encode() + (ROOT / 'pyproject.toml').read_bytes()
                            + str(ROOT).encode()).hexdigest()
    # The folder is part of the stamp, for an environment does not survive being moved; and an update of the
    # system may have taken away the interpreter that it leads to.
    if STAMP.is_file() and STAMP.read_text() == wanted and version(str(PYTHON)):
        return
    maker = choose(command)
    print(f'Making the environment in .venv from {REQUIREMENTS.name}: some minutes, 2 to 6 GB.',
          flush=True)
    try:
        for stamp in (STAMP, VENV / 'installed-tests'):
            if stamp.exists():
                stamp.unlink()
        if VENV.exists() and not version(str(PYTHON)):      # venv leaves a link that leads nowhere as it is
            shutil.rmtree(str(VENV))
        subprocess.run([*maker, str(VENV)], check=True)
    except subprocess.CalledProcessError:        # Debian and Ubuntu have venv as a package of its own
        sys.exit('The virtual environment could not be made. On Debian and Ubuntu, install the '
                 'package python3.11-venv; else remove .venv and try again.')
    began = time.time()
    chosen = VENV / 'requirements.txt'
    chosen.write_text(text, encoding='utf-8')
    pip('-r', str(chosen))
    pip('--no-deps', '--no-build-isolation', '-e', str(ROOT), *editable())
    STAMP.write_text(wanted)
    print(f'\rInstalled in {time.time() - began:.0f} s.', flush=True)


def clean(args):
    """Remove what the other commands made."""
    for folder in [ROOT / '_build'] + [VENV] * ('--env' in args):
        shutil.rmtree(str(folder), ignore_errors=True)


def writable():
    """Stop with a clear word if this folder cannot be written to, as one that a course shares."""
    probe = ROOT / '.writable'
    try:
        probe.write_text('')
        probe.unlink()
    except OSError as e:
        sys.exit(f'{ROOT} cannot be written to ({e.strerror}): the environment and the pages go there.\n'
                 'Copy the book to a folder of your own and run make there.')


def surroundings():
    """The environment of a command.

    Text is UTF-8, also on Windows and in containers whose locale is C. Python's bytecode is kept, in .venv,
    also where PYTHONDONTWRITEBYTECODE wants none beside the sources, as in many containers: without it, each
    kernel and each process would compile PyTorch or MXNet for seconds.
    """
    known = {**os.environ, 'PYTHONUTF8': '1'}
    # In tools/lab a setting of JupyterLab: it shows pages of Markdown as text.
    ours = {'PYTHONPATH': [ROOT, *packages()], 'JUPYTER_CONFIG_PATH': [ROOT / 'tools' / 'lab']}
    for name, folders in ours.items():
        known[name] = os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get(name)])])
    if known.pop('PYTHONDONTWRITEBYTECODE', None):
        known.setdefault('PYTHONPYCACHEPREFIX', str(VENV / 'bytecode'))
    return known


COMMANDS = {
    'book': ['-m', 'tools.book'],
    'check': ['-m', 'tools.suite', 'quick'],
    'test': ['-m', 'tools.suite'],
    'lab': ['-m', 'jupyterlab', '--notebook-dir', '.', '--LabApp.default_url=/lab/tree/chapters',
            "--ServerApp.extra_static_paths=['_build']"],      # the pages, under /static/html/
    'exercises': ['-m', 'tools.stubs'],
    'refresh': ['-m', 'tools.refresh'],
    'ledger': ['-m', 'tools.ledger', 'write'],
    'repeat': ['-m', 'tools.ledger', 'repeat'],
    'compare': ['-m', 'tools.ledger', 'compare'],
    'mutants': ['-m', 'tools.mutants'],
    'slides': ['-m', 'tools.slides'],
    **{name: ['-m', 'tools.editions', name] for name in ('student', 'epub', 'pdf')},
}


def options(command):
    """What a command needs on this system before the user's own options."""
    root = hasattr(os, 'geteuid') and os.geteuid() == 0               # Windows has no such function
    # JupyterLab refuses root, which is the user of most containers.
    return ['--allow-root'] if command == 'lab' and root else []


def main():
    command, args = (sys.argv[1:2] or ['help'])[0], sys.argv[2:]
    if command not in ('clean', 'env') and command not in COMMANDS:
        sys.exit(f'{command}: not a command; type: make help')
    writable()
    if command == 'clean':
        return clean(args)
    ensure(command)
    if command == 'env':
        return None
    child = subprocess.Popen([str(PYTHON), *COMMANDS[command], *options(command), *args],
                             cwd=str(ROOT), env=surroundings())
    while True:
        try:
            sys.exit(child.wait())
        except KeyboardInterrupt:
            pass     # the child got it too, and says what it leaves behind


if __name__ == '__main__':
    try:
        main()
    except KeyboardInterrupt:
        sys.exit('\ninterrupted: the environment is not complete; the next make goes on with it')
