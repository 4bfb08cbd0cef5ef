"""All the checks: style, unit tests, rules for notebooks, and every notebook re-run by nbval."""

import subprocess
import sys

from tools.notebooks import ROOT


def main() -> int:
    style = subprocess.run([sys.executable, '-m', 'ruff', 'check', '--quiet', '.'], cwd=ROOT).returncode
    tests = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'tests.notebook_plugin', '--nbval',
         '--nbval-current-env', '--nbval-sanitize-with', 'tests/sanitize.cfg',
         '--nbval-cell-timeout', '300', '--nbval-kernel-startup-timeout', '120', *sys.argv[1:]],
        cwd=ROOT).returncode
    if style:
        print('style: ruff found the above')
    return style or tests


if __name__ == '__main__':
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit('\ninterrupted')
