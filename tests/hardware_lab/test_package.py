"""The package beside the notebooks: what it imports."""

import subprocess
import sys

import pytest

from tools.source import ROOT

FOLDER = ROOT / 'chapters' / 'hardware'


def imported_by(code):
    """The modules that are loaded after this code, in a fresh process in the notebooks' folder."""
    out = subprocess.run([sys.executable, '-c', f'{code}\nimport sys; print(*sys.modules)'], text=True,
                         cwd=FOLDER, capture_output=True, check=True, timeout=300).stdout
    return set(out.split())


def test_the_package_alone_is_light():
    assert not {'numba', 'numpy', 'matplotlib'} & imported_by('import hardware_lab')


@pytest.mark.slow
def test_no_module_imports_a_framework_but_that_of_the_gpu():
    names = {p.stem for p in (FOLDER / 'hardware_lab').glob('*.py')} - {'__init__', 'gpu'}
    found = imported_by(f'from hardware_lab import {", ".join(names)}')
    assert not {'torch', 'mxnet'} & found and {f'hardware_lab.{n}' for n in names} <= found
