"""All the checks: style, unit tests, rules for notebooks, and every notebook re-run by nbval.

    python -m tools.check [quick | profile] [arguments of pytest …]

First the tests that measure nothing, on all cores; if they pass, those that measure and the notebooks,
one after another. *quick* leaves out the notebooks and the tests that start clusters, kernels or
builds; *profile* runs nothing and prints what took longest when it last ran.
"""

import json
import subprocess
import sys

from d2l_local import machine
from tools import quoting
from tools.notebooks import ROOT

BESIDE = ['-n', str(machine.cores()), '--dist', 'loadfile', '--no-loadscope-reorder']      # pytest-xdist
DURATIONS = ROOT / '_build' / 'durations.json'
NBVAL = ['--nbval', '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--nbval-cell-timeout', '300', '--nbval-kernel-startup-timeout', '120']


def pytest(*args: str) -> int:
    """Run pytest with what this book adds to it; returns its exit status."""
    return subprocess.run([sys.executable, '-m', 'pytest', '-q', '-p', 'tests.durations',
                           '-p', 'tests.notebook_plugin', *args], cwd=ROOT).returncode


def check(quick: bool, args: list[str]) -> int:
    """Run the checks; returns an exit status. Arguments of pytest choose tests, which run in turn."""
    style = subprocess.run([sys.executable, '-m', 'ruff', 'check', '--quiet', '.'], cwd=ROOT).returncode
    if quick:
        tests = pytest('-m', 'not slow', *(args or BESIDE), 'tests')
        old, n = quoting.waiting()
        print(f'{old} of {n} results are still made by the older call')
    elif args:
        tests = pytest(*NBVAL, *args)
    else:
        tests = pytest('-m', 'not alone', *BESIDE, 'tests') or pytest('-m', 'alone', '--whole-book', *NBVAL)
    if style:
        print('style: ruff found the above')
    return style or tests


def profile(n: int = 20) -> int:
    """Print the notebooks, and the cells and tests, that took longest."""
    if not DURATIONS.exists():
        sys.exit('Nothing has run here yet: make test first.')
    took = json.loads(DURATIONS.read_text())
    files: dict[str, float] = {}
    for name, t in took.items():
        file = name.split('::')[0]
        files[file] = files.get(file, 0) + t['seconds']
    print(f'{sum(files.values()):7.1f} s  all, less the starts of kernels')
    single = [(t['seconds'], name, t['first line']) for name, t in took.items()]
    for title, rows in (('files', [(s, f, '') for f, s in files.items()]), ('cells and tests', single)):
        print(f'\nThe {n} slowest {title}')
        for seconds, name, line in sorted(rows, reverse=True)[:n]:
            print(f'{seconds:7.1f} s  {name}  {line}'[:150].rstrip())
    return 0


def main() -> int:
    what, args = (sys.argv[1:2] or [''])[0], sys.argv[2:]
    if what == 'profile':
        return profile()
    return check(what == 'quick', args if what == 'quick' else sys.argv[1:])


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit('\ninterrupted')
