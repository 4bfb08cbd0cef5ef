"""The package beside the notebooks: what it imports, and what a run of them depends on."""

import subprocess
import sys

import nbformat
import pytest

from tools import notebooks
from tools.notebooks import ROOT

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


@pytest.fixture
def topic(tmp_path, monkeypatch):
    """A folder of notebooks with a package of its own, and a helper package at the root."""
    monkeypatch.setattr(notebooks, 'ROOT', tmp_path)
    folder = tmp_path / 'chapters' / 'one'
    used = '"""Not d2l_local.b."""\nfrom d2l_local import a\nfrom lab import below'
    for place, modules in ((tmp_path / notebooks.HELPERS, {'a': '', 'b': ''}),
                           (folder / 'lab', {'used': used, 'below': '', 'unused': '', 'started': ''})):
        place.mkdir(parents=True)
        for name, text in {'__init__': '', **modules}.items():
            (place / f'{name}.py').write_text(text)
    notebooks.closure.cache_clear()
    yield folder
    notebooks.closure.cache_clear()


@pytest.mark.parametrize(('code', 'found'), [
    ('import lab', {'lab'}),
    ('from lab import used', {'lab', 'lab.used', 'lab.below', 'd2l_local', 'd2l_local.a'}),
    ('import lab.below as b  # not lab.unused', {'lab', 'lab.below'}), ('import laboratory', set()),
    ('child = """\nfrom lab import started, below\n"""', {'lab', 'lab.started', 'lab.below'}),
    ('command = ["-m", "lab.started"]', {'lab', 'lab.started'})])
def test_a_run_depends_on_the_modules_that_it_uses(topic, code, found):
    """On the topic's own as on the book's, no more and no less."""
    files = frozenset().union(*(notebooks.closure(m) for m in notebooks.imported(code, topic)))

    def name(f):
        base = topic if topic in f.parents else topic.parents[1]
        return '.'.join(f.relative_to(base).with_suffix('').parts).removesuffix('.__init__')
    assert {name(f) for f in files} == found


@pytest.mark.parametrize(('notebook', 'modules'), [
    ('hardware_memory', {'core', 'figures', 'kernels', 'memory'}),
    ('hardware_solutions_reasoned', set())])
def test_the_notebooks_of_this_topic(notebook, modules):
    nb = nbformat.read(FOLDER / f'{notebook}.ipynb', 4)
    files = frozenset().union(*(notebooks.closure(m) for c in nb.cells if c.cell_type == 'code'
                                for m in notebooks.imported(c.source, FOLDER)))
    found = {f.stem for f in files if f.parent.name == 'hardware_lab'} - {'__init__'}
    assert found == modules
