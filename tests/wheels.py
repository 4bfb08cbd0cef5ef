"""Has every pin a wheel for every Python that the README names? Asks the package index; needs no such Python.

    python -m tests.wheels

prints a line for each Python and system, and ends with status 1 if a package would have to be compiled there,
or cannot be had. It takes some minutes, and is no part of "make test", which needs no network.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = '3.11', '3.12', '3.13', '3.14'
# What markers see of a system, and the tags of wheels that it takes.
SYSTEMS = {
    'Linux x86-64': (('linux', 'x86_64'), ('manylinux_2_28_x86_64', 'manylinux_2_17_x86_64',
                                           'manylinux2014_x86_64', 'manylinux2010_x86_64')),
    'Linux aarch64': (('linux', 'aarch64'), ('manylinux_2_28_aarch64', 'manylinux_2_17_aarch64',
                                             'manylinux2014_aarch64')),
    'macOS, Apple silicon': (('darwin', 'arm64'), ('macosx_14_0_arm64', 'macosx_11_0_arm64',
                                                   'macosx_11_0_universal2', 'macosx_10_9_universal2')),
    'Windows': (('win32', 'AMD64'), ('win_amd64',)),
}


def pins(file: Path, python: str, system: str, processor: str) -> list[str]:
    """The packages of a requirements file that apply to this Python on this system, as ``name==version``."""
    here = {'python_version': python, 'python_full_version': f'{python}.0',
            'sys_platform': system, 'platform_machine': processor}
    found = []
    for line in file.read_text().splitlines():
        text = line.split('#')[0].strip()
        if text:
            pin = Requirement(text)
            if pin.marker is None or pin.marker.evaluate(here):
                found.append(f'{pin.name}{pin.specifier}')
    return found


def without_wheels(packages: list[str], python: str, tags: tuple[str, ...]) -> str:
    """What the index says of packages for which it has no wheel; empty if it has one for each."""
    platforms = [part for tag in tags for part in ('--platform', tag)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, '-m', 'pip', 'install', '--quiet', '--dry-run', '--no-deps',
             '--only-binary=:all:', '--target', folder, '--python-version', python, *platforms,
             '--ignore-installed', '--ignore-requires-python',      # pip would ask the Python that runs it
             *packages],
            capture_output=True, text=True)
    errors = [line for line in done.stderr.splitlines() if line.startswith('ERROR')]
    return '' if done.returncode == 0 else '\n'.join(errors or [done.stderr])


def main() -> int:
    failed = 0
    for python in PYTHONS:
        for name, ((system, processor), tags) in SYSTEMS.items():
            said = without_wheels(pins(ROOT / 'requirements.txt', python, system, processor), python, tags)
            failed += bool(said)
            print(f'Python {python}, {name}: {said or "a wheel for every pin"}', flush=True)
    if failed:
        print('Choose versions that have wheels there, in requirements.txt, with a marker for that Python; '
              'the README names the Pythons.')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
