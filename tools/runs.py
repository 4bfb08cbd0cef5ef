"""Run a notebook, and remember the run as long as another one would give the same."""

import ast
import copy
import hashlib
import json
import os
from functools import cache
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelspec import get_kernel_dict

from tested_results import claims, machine, predictions
from tested_results.execution import execute
from tools import source

EXECUTED = source.ROOT / '_build' / 'executed'
# variables that change what a run gives
SETTINGS = ('TESTED_RESULTS_BUDGET', 'D2L_DATA', 'D2L_FULL', 'TESTED_RESULTS_SPAN', 'TESTED_RESULTS_WINDOWS')
WIDGET = 'application/vnd.jupyter.widget-view+json'
KEPT_METADATA = {'tags', 'mystnb', 'slideshow'}
HIDDEN = {'outputs_hidden': True}     # JupyterLab opens them when the cell is run


def files_a_run_depends_on(path: Path) -> list[Path]:
    """The files beside a notebook that its code may read: modules, and data such as weights.

    They are the modules of the book's packages and of the topic's folder, and the data of ``d2l_local`` and
    of the topic's own packages. Not among them are READMEs and settings of packages, what makes the figures
    of pages, and what checks answers to exercises, which no notebook of the book calls.
    """
    files: set[Path] = set()
    for folder in source.ROOT / 'packages', path.parent:
        files.update(folder.rglob('*.py'))
    with_data = [source.ROOT / 'd2l_local', *(p.parent for p in path.parent.glob('*/__init__.py'))]
    for folder in with_data:
        files.update(folder.rglob('*'))
    left_out = {'figures', 'live_figures', 'answer_checks', 'checkers.py',
                '__pycache__', '.ipynb_checkpoints'}
    return sorted(f for f in files if f.is_file() and not left_out & set(f.relative_to(source.ROOT).parts))


@cache
def _code_alone(module: bytes) -> str:
    code = ast.parse(module)
    for node in ast.walk(code):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(code)


def fingerprint(file: Path, printed: bool = False) -> str:
    """What a module says to Python, without docstrings, comments and line breaks; of other files, every byte.

    Args:
        printed: a notebook prints source, so every byte of a module counts as well.
    """
    data = file.read_bytes()
    return _code_alone(data) if file.suffix == '.py' and not printed else hashlib.sha256(data).hexdigest()


def key(path: Path, nb: nbformat.NotebookNode) -> str:
    """Changes when a run could give something else: code, helpers and their data, settings, machine.

    All helpers count, also those that this notebook does not import: a run too many costs minutes, and
    a stored run that a changed helper would not repeat is a wrong page.
    """
    code = [c.source for c in nb.cells if c.cell_type == 'code']
    other = {'mxnet': 'torch', 'pytorch': 'mxnet'}.get(source.framework(path))
    here = {k: v for k, v in machine.machine().items() if k != other}
    settings = {name: os.environ.get(name, '') for name in SETTINGS}
    printed = any('getsource' in text for text in code)
    files = [f'{f.relative_to(source.ROOT)} {fingerprint(f, printed)}' for f in files_a_run_depends_on(path)]
    parts = [*code, *files, json.dumps([here, settings], sort_keys=True), path.name]
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()


def key_now(path: Path) -> str:
    """The key of a run of this notebook, as it and its helpers are now."""
    return key(path, nbformat.read(path, as_version=4))


def normalise(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Only what a diff should show: counts 1…n, what the kernel says of itself, tags, captions and marks.

    JupyterLab writes into a notebook what the kernel says of itself. Where the same stands there already,
    opening a notebook does not change it. The outputs of a result that a reader is to guess are hidden there
    until the cell is run.
    """
    nb.metadata = nbformat.from_dict({
        'kernelspec': {'display_name': get_kernel_dict()['display_name'], 'language': 'python',
                       'name': 'python3'},
        'language_info': IPythonKernel.language_info})
    nb.nbformat_minor = 5
    asked = named(nb.cells, predictions.METADATA_KEY)
    count = 0
    for i, cell in enumerate(nb.cells):
        cell.id = f'cell-{i:02d}'
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
        if asked & named([cell], claims.METADATA_KEY):
            cell.metadata['jupyter'] = nbformat.from_dict(HIDDEN)
        if cell.cell_type == 'code':
            count += 1
            cell.execution_count = count
            for out in cell.outputs:
                if out.output_type == 'execute_result':
                    out.execution_count = count
                if len(out.get('data', {})) > 1:
                    out.data.pop(WIDGET, None)       # a page has no kernel for it; its text stands there
    return nb


def named(cells: list[nbformat.NotebookNode], key: str) -> set[str]:
    """The ids of the results, or of the questions, in the outputs of cells."""
    outputs = [out for cell in cells for out in cell.get('outputs', [])]
    return {out.metadata[key]['id'] for out in outputs if 'id' in out.get('metadata', {}).get(key, {})}


def keep(path: Path, label: str = '') -> nbformat.NotebookNode:
    """Run a notebook here and keep the run, so that pages and the ledger can be made of it.

    Raises:
        CellFailed: a cell raised; nothing is kept then.
    """
    # Of the helpers that the kernel is about to import: who edits one meanwhile has the notebook run again.
    before = key_now(path)
    nb = normalise(execute(path, label))
    kept = copy.deepcopy(nb)
    kept.metadata['key'] = before
    source.write(EXECUTED / path.relative_to(source.ROOT), kept)
    return nb


def latest(path: Path) -> tuple[nbformat.NotebookNode, bool]:
    """A notebook with the outputs of its last run here, if that is still valid; else as it is stored.

    Returns:
        The notebook, and whether its outputs are from a run here.
    """
    nb = nbformat.read(path, as_version=4)
    kept = EXECUTED / path.relative_to(source.ROOT)
    if not kept.exists() or source.missing(source.framework(path)):
        return nb, False
    done = nbformat.read(kept, as_version=4)
    if done.metadata.get('key') != key(path, nb):
        return nb, False
    # The prose may have changed since; the code is the same, or the key would differ.
    ours = [cell for cell in nb.cells if cell.cell_type == 'code']
    theirs = [cell for cell in done.cells if cell.cell_type == 'code']
    for cell, new in zip(ours, theirs, strict=True):
        cell.outputs = new.outputs
        cell.execution_count = new.execution_count
    return nb, True
