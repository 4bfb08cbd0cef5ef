"""Run the notebooks, remember what ran, and keep the stored outputs tidy.

    python -m tools.notebooks refresh [NOTEBOOK …] [--all-outputs]
"""

import argparse
import ast
import copy
import hashlib
import itertools
import json
import logging
import os
import platform
import re
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
import yaml
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelspec import get_kernel_dict
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbval.plugin import coalesce_streams, get_sanitize_patterns

from tested_results import machine
from tested_results.claims import METADATA_KEY

ROOT = Path(__file__).resolve().parent.parent
EXECUTED = ROOT / '_build' / 'executed'
SANITISE = ROOT / 'tests' / 'sanitize.cfg'
# variables that change what a run gives
SETTINGS = ('D2L_BUDGET', 'D2L_DATA', 'D2L_FULL', 'D2L_SPAN', 'D2L_WINDOWS')
FRAMEWORKS = {'mxnet': 'MXNet', 'pytorch': 'PyTorch'}
CELL_TIMEOUT = 300     # seconds; no cell of the book needs a third of it
WIDGET = 'application/vnd.jupyter.widget-view+json'
KEPT_METADATA = {'tags', 'mystnb'}


def toc() -> list[str]:
    """The pages in reading order, as paths without a suffix."""
    def walk(node):
        if 'file' in node:
            yield node['file']
        for key in ('parts', 'chapters', 'sections'):
            for child in node.get(key, []):
                yield from walk(child)
    text = yaml.safe_load((ROOT / '_toc.yml').read_text())
    return [text['root'], *walk(text)]


def notebooks() -> list[Path]:
    """The notebooks of the book in reading order."""
    return [p for page in toc() if (p := ROOT / f'{page}.ipynb').exists()]


def framework(path: Path) -> str | None:
    """Which framework a notebook is about: the last part of its name says so."""
    last = path.stem.rsplit('_', 1)[-1]
    return last if last in FRAMEWORKS else None


@cache
def missing(name: str | None) -> str:
    """Why notebooks of this framework cannot run here; empty if they can."""
    package = {'mxnet': 'mxnet', 'pytorch': 'torch'}.get(name)
    if package is None:
        return ''
    here = f'{sys.platform}, Python {sys.version_info.major}.{sys.version_info.minor}'
    if machine.machine()[package] is None:
        return f'{FRAMEWORKS[name]} is not installed ({here})'
    if name == 'mxnet' and tuple(map(int, machine.version('numpy').split('.')[:2])) >= (1, 24):
        return f'MXNet needs a NumPy older than 1.24, and this is {machine.version("numpy")}'
    return ''


def should_have_mxnet() -> bool:
    """Whether MXNet has a wheel for this system and this Python, so that its notebooks should run."""
    linux = sys.platform.startswith('linux')
    intel_mac = sys.platform == 'darwin' and platform.machine() == 'x86_64'
    return sys.version_info < (3, 12) and (linux or intel_mac)


def tree(code: str) -> ast.Module:
    """What Python reads in a cell; its magics stand as ``pass``."""
    return ast.parse(re.sub(r'(?m)^[%!].*$', 'pass', code))


def helpers(path: Path) -> list[Path]:
    """The files beside a notebook that its code may read: modules, and data such as weights.

    They are the modules of the book's packages and of the topic's folder, and the data of ``d2l_local`` and
    of the topic's own packages. Not among them are READMEs and settings of packages, what makes the figures
    of pages, and the checkers of exercises.
    """
    modules = {f for folder in (ROOT / 'packages', path.parent) for f in folder.rglob('*.py')}
    with_data = [ROOT / 'd2l_local', *(p.parent for p in path.parent.glob('*/__init__.py'))]
    files = modules | {f for folder in with_data for f in folder.rglob('*')}
    left_out = {'figures', 'live_figures', 'checkers.py', '__pycache__', '.ipynb_checkpoints'}
    return sorted(f for f in files if f.is_file() and not left_out & set(f.relative_to(ROOT).parts))


@cache
def _meaning(module: bytes) -> str:
    code = ast.parse(module)
    for node in ast.walk(code):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
    return ast.dump(code)


def meaning(file: Path, printed: bool = False) -> str:
    """What a module says to Python, without docstrings, comments and line breaks; of other files, every byte.

    Args:
        printed: a notebook prints source, so every byte of a module counts as well.
    """
    data = file.read_bytes()
    return _meaning(data) if file.suffix == '.py' and not printed else hashlib.sha256(data).hexdigest()


def key(path: Path, nb: nbformat.NotebookNode) -> str:
    """Changes when a run could give something else: code, helpers and their data, settings, machine.

    All helpers count, also those that this notebook does not import: a run too many costs minutes, and
    a stored run that a changed helper would not repeat is a wrong page.
    """
    code = [c.source for c in nb.cells if c.cell_type == 'code']
    other = {'mxnet': 'torch', 'pytorch': 'mxnet'}.get(framework(path))
    here = {k: v for k, v in machine.machine().items() if k != other}
    settings = {name: os.environ.get(name, '') for name in SETTINGS}
    printed = any('getsource' in source for source in code)
    files = [f'{f.relative_to(ROOT)} {meaning(f, printed)}' for f in helpers(path)]
    parts = [*code, *files, json.dumps([here, settings], sort_keys=True), path.name]
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()


@cache
def _read(path: Path, changed: int) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook as it is stored, parsed once: to read, and not to change."""
    return _read(path, path.stat().st_mtime_ns)


def put_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix('.part')
    try:
        part.write_text(text)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def write(path: Path, nb: nbformat.NotebookNode) -> None:
    """Write a notebook whole or not at all."""
    put_whole(path, nbformat.writes(nb) + '\n')


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
    shown_path = path.relative_to(ROOT) if ROOT in path.parents else path.name
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
    env = {**os.environ, 'D2L_GUESSES': 'off'}
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


@cache
def sanitiser() -> Callable[[str], str]:
    """The masking of ``tests/sanitize.cfg``, as nbval applies it."""
    patterns = get_sanitize_patterns(SANITISE.read_text())

    def sanitise(text: str) -> str:
        for pattern, replacement in patterns:
            text = re.sub(pattern, replacement, text)
        return text
    return sanitise


def shown(outputs: list, sanitise: Callable[[str], str]) -> list:
    """What of a cell's outputs is compared: all but images, masked; and each claim's verdict."""
    flat = []
    for out in outputs:
        if claim := out.get('metadata', {}).get(METADATA_KEY):
            number = claim['value'] if claim['kind'] == 'count' else None
            flat.append(('verdict', claim['verdict'], claim['reason'], number, tuple(claim['needs'])))
        if out.output_type == 'stream':
            flat.append((out.name, sanitise(out.text)))
        elif out.output_type == 'error':
            flat.append((out.ename, sanitise(out.evalue)))
        else:
            flat += [(mime, '' if mime.startswith('image/') else sanitise(str(data)))
                     for mime, data in sorted(out.data.items())]
    return flat


def keep_unchanged(new: nbformat.NotebookNode, old: nbformat.NotebookNode) -> None:
    """Give the new run the stored outputs wherever only masked parts or images differ.

    A verdict that differs, for better or worse, is a difference, and so is what a result needs: the new
    run's is stored.
    """
    sanitise = sanitiser()
    stored = {c.source: c for c in old.cells if c.cell_type == 'code'}
    for cell in new.cells:
        before = stored.get(cell.source) if cell.cell_type == 'code' else None
        if before is not None and before.execution_count is not None and (
                shown(before.outputs, sanitise) == shown(cell.outputs, sanitise)):
            cell.outputs = before.outputs


def keep(path: Path, label: str = '') -> nbformat.NotebookNode:
    """Run a notebook here and keep the run, so that pages and the ledger can be made of it.

    Raises:
        CellFailed: a cell raised; nothing is kept then.
    """
    nb = normalise(execute(path, label))
    kept = copy.deepcopy(nb)
    kept.metadata['key'] = key(path, nb)
    write(EXECUTED / path.relative_to(ROOT), kept)
    return nb


def latest(path: Path) -> tuple[nbformat.NotebookNode, bool]:
    """A notebook with the outputs of its last run here, if that is still valid; else as it is stored.

    Returns:
        The notebook, and whether its outputs are from a run here.
    """
    nb, kept = nbformat.read(path, as_version=4), EXECUTED / path.relative_to(ROOT)
    if not kept.exists() or missing(framework(path)):
        return nb, False
    done = nbformat.read(kept, as_version=4)
    if done.metadata.get('key') != key(path, nb):
        return nb, False
    # The prose may have changed since; the code is the same, or the key would differ.
    ours, theirs = ([c for c in n.cells if c.cell_type == 'code'] for n in (nb, done))
    for cell, new in zip(ours, theirs, strict=True):
        cell.outputs, cell.execution_count = new.outputs, new.execution_count
    return nb, True


class Mixed(RuntimeError):
    """Storing these runs would leave a book whose outputs come from two kinds of machines."""


def other_machines(paths: list[Path], here: str, kind: Callable[[dict], str]) -> dict[str, list[Path]]:
    """Of these notebooks, those whose stored results come from another kind of machine, by that kind."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        outputs = (out for cell in read(path).cells for out in cell.get('outputs', []))
        claims = (out.metadata[METADATA_KEY] for out in outputs if METADATA_KEY in out.get('metadata', {}))
        for other in {kind(claim['where']) for claim in claims} - {here}:
            found.setdefault(other, []).append(path)
    return found


def refuse_to_mix(paths: list[Path], kind: Callable[[dict], str]) -> None:
    """Raise :class:`Mixed` if notebooks that keep their stored outputs come from another kind of machine."""
    here = kind(machine.machine())
    for other, those in other_machines(paths, here, kind).items():
        names = ', '.join(str(p.relative_to(ROOT)) for p in those[:3])
        more = f' and {len(those) - 3} more' if len(those) > 3 else ''
        raise Mixed(
            f'The outputs of {names}{more} are stored from another machine ({other}), and this is {here}. '
            'All stored numbers of the book come from one run on one kind of machine, so nothing was stored. '
            'To see the numbers of this machine, run "make book", which stores nothing. To store outputs, '
            'run the whole book here, "make refresh ALL=1", or this notebook on a machine of the other kind.')


def refresh(paths: list[Path], kind: Callable[[dict], str], all_outputs: bool = False,
            kept: bool = False) -> int:
    """Run notebooks, and store the outputs of all of them when all have run.

    Args:
        kind: of a machine: runs on two kinds are not mixed.
        all_outputs: store every output, also where only times and images differ.
        kept: take runs that were kept and are still valid, and run only the others.

    Returns:
        How many notebooks raised.

    Raises:
        Mixed: what would not be stored anew comes from another kind of machine.
    """
    refuse_to_mix([p for p in notebooks() if p not in paths], kind)
    runs: dict[Path, nbformat.NotebookNode] = {}
    failed = 0
    for i, path in enumerate(paths, 1):
        label, reason = f'[{i}/{len(paths)}] ', missing(framework(path))
        if reason:
            print(f'{label}{path.relative_to(ROOT)}  left as it is: {reason}')
            continue
        before, valid = latest(path) if kept else (None, False)
        try:
            runs[path] = normalise(before) if valid else keep(path, label)
        except CellFailed as e:
            print(e, file=sys.stderr)
            failed += 1
    refuse_to_mix([p for p in notebooks() if p not in runs], kind)
    for path, new in runs.items():
        if not all_outputs:
            keep_unchanged(new, nbformat.read(path, as_version=4))
        write(path, new)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.notebooks', description=__doc__.split('\n')[0])
    parser.add_argument('what', choices=['refresh'])
    parser.add_argument('notebook', nargs='*', type=Path)
    parser.add_argument('--all-outputs', action='store_true',
                        help='store every output anew, also where only times and images differ')
    parser.add_argument('--kept', action='store_true',
                        help='take the runs that are kept and still valid, and run only the others')
    args = parser.parse_intermixed_args()
    paths = [p.resolve() for p in args.notebook] or notebooks()
    for p in paths:
        if p.suffix != '.ipynb' or not p.exists() or ROOT not in p.parents:
            parser.error(f'{p} is not a notebook of this book; give a path such as '
                         'chapters/hybridization/hybridization_mxnet.ipynb')
    # they import this module
    from tools import ledger, quoting
    failed = refresh(paths, ledger.kind, args.all_outputs, args.kept)
    stored = ledger.quotable(paths)
    for name in quoting.update(stored):
        print(f'{name}: the numbers in its text are those of the stored run now')
    for problem in quoting.problems(stored):
        print(problem, file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Mixed as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit('\ninterrupted: nothing was stored. What has run is kept: "make refresh KEPT=1" runs '
                 'the rest and stores all of it')
