"""Run a notebook, and remember the run as long as another one would give the same."""

import ast
import copy
import hashlib
import itertools
import json
import logging
import os
import sys
import time
from functools import cache
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelspec import get_kernel_dict
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbval.plugin import coalesce_streams

from tested_results import machine
from tools import source

EXECUTED = source.ROOT / '_build' / 'executed'
# variables that change what a run gives
SETTINGS = ('TESTED_RESULTS_BUDGET', 'D2L_DATA', 'D2L_FULL', 'TESTED_RESULTS_SPAN', 'TESTED_RESULTS_WINDOWS')
CELL_TIMEOUT = 300     # seconds; no cell of the book needs a third of it
WIDGET = 'application/vnd.jupyter.widget-view+json'
KEPT_METADATA = {'tags', 'mystnb'}


def files_a_run_depends_on(path: Path) -> list[Path]:
    """The files beside a notebook that its code may read: modules, and data such as weights.

    They are the modules of the book's packages and of the topic's folder, and the data of ``d2l_local`` and
    of the topic's own packages. Not among them are READMEs and settings of packages, what makes the figures
    of pages, and the checkers of exercises.
    """
    modules = {f for folder in (source.ROOT / 'packages', path.parent) for f in folder.rglob('*.py')}
    with_data = [source.ROOT / 'd2l_local', *(p.parent for p in path.parent.glob('*/__init__.py'))]
    files = modules | {f for folder in with_data for f in folder.rglob('*')}
    left_out = {'figures', 'live_figures', 'checkers.py', '__pycache__', '.ipynb_checkpoints'}
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


def joined(outputs: list) -> list:
    """Outputs in the order in which they came, with the pieces of a stream joined between two displays.

    How much arrives in one piece depends on the moment, and which of the two streams comes first. What was
    printed before a display and what was printed after it stay apart.
    """
    found: list = []
    for is_stream, group in itertools.groupby(outputs, lambda out: out.output_type == 'stream'):
        pieces = list(group)
        if is_stream:       # stdout first
            pieces = sorted(coalesce_streams(pieces), key=lambda out: out.name, reverse=True)
        found += pieces
    return found


class CellFailed(RuntimeError):
    """A cell raised; the message names the notebook, the cell and the error."""


def execute(path: Path, label: str = '', folder: Path | None = None) -> nbformat.NotebookNode:
    """Run a notebook in its folder, or another, in a fresh kernel; one line tells how far it is."""
    nb = nbformat.read(path, as_version=4)
    code = [i for i, c in enumerate(nb.cells) if c.cell_type == 'code']
    shown_path = path.relative_to(source.ROOT) if source.ROOT in path.parents else path.name
    name, began, at = f'{label}{shown_path}', time.perf_counter(), code[0]

    def line(state: str, end: str) -> None:
        if sys.stdout.isatty() or end:
            text = f'{name}  {state}  {time.perf_counter() - began:.0f} s'
            print(f'\r\033[K{text}' if sys.stdout.isatty() else text, end=end, flush=True)

    def starts(cell: nbformat.NotebookNode, cell_index: int) -> None:
        nonlocal at
        if cell_index in code:
            at = cell_index
            line(f'cell {code.index(at) + 1} of {len(code)}', '')

    client = NotebookClient(
        nb, timeout=CELL_TIMEOUT, kernel_name='python3', on_cell_start=starts,
        extra_arguments=['--IPKernelApp.log_level=50'],     # no notes on sockets amid the progress
        resources={'metadata': {'path': str(folder or path.parent)}})
    # What is shown and stored does not depend on a reader's guesses, or on whether a test runs this: a kernel
    # that finds pytest's variable leaves alone what child processes and C code print.
    env = {**os.environ, 'TESTED_RESULTS_GUESSES': 'off'}
    env.pop('PYTEST_CURRENT_TEST', None)
    try:
        client.execute(env=env)
    except Exception as e:
        # nbclient turns Ctrl-C into a kernel that is gone; this is where it notes the signal.
        stopped = getattr(e, 'ename', '') == 'KeyboardInterrupt'
        if stopped or hasattr(client, '_async_cleanup_kernel_future'):
            logging.getLogger('asyncio').disabled = True    # it would tell of the client's loose ends
            raise KeyboardInterrupt from None
        if not isinstance(e, CellExecutionError | DeadKernelError | CellTimeoutError):
            raise
        line('FAILED', '\n')
        what = f'raised {e.ename}: {e.evalue}' if isinstance(e, CellExecutionError) else f'ended it: {e}'
        raise CellFailed(f'{shown_path}: cell {code.index(at) + 1} {what}\n\n'
                         f'{nb.cells[at].source}') from e
    for i in code:
        nb.cells[i].outputs = joined(nb.cells[i].outputs)
    line(f'{len(code)} cells', '\n')
    return nb


def normalise(nb: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Only what a diff should show: counts 1…n, what the kernel says of itself, tags and captions.

    JupyterLab writes into a notebook what the kernel says of itself. Where the same stands there already,
    opening a notebook does not change it.
    """
    nb.metadata = nbformat.from_dict({
        'kernelspec': {'display_name': get_kernel_dict()['display_name'], 'language': 'python',
                       'name': 'python3'},
        'language_info': IPythonKernel.language_info})
    nb.nbformat_minor = 5
    count = 0
    for i, cell in enumerate(nb.cells):
        cell.id = f'cell-{i:02d}'
        cell.metadata = nbformat.from_dict(
            {k: v for k, v in cell.metadata.items() if k in KEPT_METADATA})
        if cell.cell_type == 'code':
            count += 1
            cell.execution_count = count
            for out in cell.outputs:
                if out.output_type == 'execute_result':
                    out.execution_count = count
                if len(out.get('data', {})) > 1:
                    out.data.pop(WIDGET, None)       # a page has no kernel for it; its text stands there
    return nb


def keep(path: Path, label: str = '') -> nbformat.NotebookNode:
    """Run a notebook here and keep the run, so that pages and the ledger can be made of it.

    Raises:
        CellFailed: a cell raised; nothing is kept then.
    """
    nb = normalise(execute(path, label))
    kept = copy.deepcopy(nb)
    kept.metadata['key'] = key(path, nb)
    source.write(EXECUTED / path.relative_to(source.ROOT), kept)
    return nb


def latest(path: Path) -> tuple[nbformat.NotebookNode, bool]:
    """A notebook with the outputs of its last run here, if that is still valid; else as it is stored.

    Returns:
        The notebook, and whether its outputs are from a run here.
    """
    nb, kept = nbformat.read(path, as_version=4), EXECUTED / path.relative_to(source.ROOT)
    if not kept.exists() or source.missing(source.framework(path)):
        return nb, False
    done = nbformat.read(kept, as_version=4)
    if done.metadata.get('key') != key(path, nb):
        return nb, False
    # The prose may have changed since; the code is the same, or the key would differ.
    ours, theirs = ([c for c in n.cells if c.cell_type == 'code'] for n in (nb, done))
    for cell, new in zip(ours, theirs, strict=True):
        cell.outputs, cell.execution_count = new.outputs, new.execution_count
    return nb, True
