"""All the checks: style, unit tests, rules for notebooks, and every notebook re-run by nbval.

    python -m tools.suite [quick] [arguments of pytest …]

First the tests that measure nothing, on all cores. If they pass, the notebooks: those of solutions, and
those none of whose results needs a free core, two at a time; then, one after another, the tests that
measure and the other notebooks. *quick* leaves out the notebooks and the tests that start clusters,
kernels or builds. At the end stands which tests and cells took longest.
"""

import subprocess
import sys
from pathlib import Path

from tested_results import ledgers, machine
from tools import source
from tools.source import ROOT

BESIDE = ['-n', str(machine.cores()), '--dist', 'loadfile', '--no-loadscope-reorder']      # pytest-xdist
TWO = ['-n', str(min(2, machine.cores())), '--dist', 'loadfile']
RESULTS = ROOT / '_build' / 'results.json'       # of the notebooks that ran beside each other
NBVAL = ['--nbval', '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--nbval-cell-timeout', '300', '--nbval-kernel-startup-timeout', '120']


def pytest(*args: str) -> int:
    """Run pytest with what this book adds to it; returns its exit status."""
    return subprocess.run([sys.executable, '-m', 'pytest', '-q', '--durations=10', '--durations-min=2',
                           '-p', 'tests.notebook_plugin', *args], cwd=ROOT).returncode


def beside() -> list[Path]:
    """The notebooks that are run two at a time.

    What needs a free core is then not tested in the solutions, and no other notebook of these has it.
    """
    found = []
    for path in source.notebooks():
        if source.missing(source.framework(path)):
            continue
        if 'solutions' in path.stem or not needs_cores(path):
            found.append(path)
    return found


def needs_cores(path: Path) -> bool:
    """Whether a result of this notebook needs free cores."""
    for c in ledgers.claims_of(source.read(path)):
        if any('cores' in need for need in c.needs):
            return True
    return False


def whole_book() -> int:
    """Run all notebooks, and the tests that measure; returns an exit status."""
    paths = [str(p.relative_to(ROOT)) for p in beside()]
    rest = [f'--ignore={path}' for path in paths]
    return (pytest(*NBVAL, *TWO, f'--results-to={RESULTS}', *paths)
            or pytest('-m', 'alone', '--whole-book', f'--results-from={RESULTS}', *NBVAL, *rest))


def check(quick: bool, args: list[str]) -> int:
    """Run the checks; returns an exit status. Arguments of pytest choose tests, which run in turn."""
    style = subprocess.run([sys.executable, '-m', 'ruff', 'check', '--quiet', '.'], cwd=ROOT).returncode
    if quick:
        tests = pytest('-m', 'not slow', *(args or [*BESIDE, 'tests']))
    elif args:
        tests = pytest(*NBVAL, *args)
    else:
        tests = pytest('-m', 'not alone', *BESIDE, 'tests') or whole_book()
    if style:
        print('style: ruff found the above')
    return style or tests


def main() -> int:
    quick = sys.argv[1:2] == ['quick']
    return check(quick, sys.argv[1 + quick:])


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit('\ninterrupted')
