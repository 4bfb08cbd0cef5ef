"""Run a notebook in a fresh kernel. Needs ``nbclient``, ``nbformat`` and ``nbval``."""

import itertools
import logging
import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbval.plugin import coalesce_streams

CELL_TIMEOUT = 300      # seconds


class CellFailed(RuntimeError):
    """A cell raised; the message names the notebook, the cell and the error."""


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


class Progress:
    """One line of a terminal, written again and again; elsewhere only the last state is printed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.began = time.perf_counter()

    def _text(self, state: str) -> str:
        return f'{self.name}  {state}  {time.perf_counter() - self.began:.0f} s'

    def show(self, state: str) -> None:
        """Show a state that another one will follow."""
        if sys.stdout.isatty():
            print(f'\r\033[K{self._text(state)}', end='', flush=True)

    def end(self, state: str) -> None:
        """Show the last state."""
        if sys.stdout.isatty():
            print('\r\033[K', end='')
        print(self._text(state), flush=True)


def execute(path: Path, label: str = '', folder: Path | None = None,
            kernel: str = 'python3') -> nbformat.NotebookNode:
    """Run a notebook in its folder, or another, in a fresh kernel; one line tells how far it is.

    Args:
        label: what stands before the notebook's path in that line.
        kernel: name of the kernel's specification.

    Raises:
        CellFailed: a cell raised, took longer than :data:`CELL_TIMEOUT`, or ended the kernel.
    """
    nb = nbformat.read(path, as_version=4)
    code = [i for i, c in enumerate(nb.cells) if c.cell_type == 'code']
    here = Path.cwd()
    shown_path = path.relative_to(here) if here in path.parents else path.name
    progress = Progress(f'{label}{shown_path}')
    at = code[0] if code else 0

    def starts(cell: nbformat.NotebookNode, cell_index: int) -> None:
        nonlocal at
        if cell_index in code:
            at = cell_index
            progress.show(f'cell {code.index(at) + 1} of {len(code)}')

    client = NotebookClient(
        nb, timeout=CELL_TIMEOUT, kernel_name=kernel, on_cell_start=starts,
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
        progress.end('FAILED')
        if isinstance(e, CellExecutionError):
            what = f'raised {e.ename}: {e.evalue}'
        else:
            what = f'ended it: {e}'
        raise CellFailed(f'{shown_path}: cell {code.index(at) + 1} {what}\n\n'
                         f'{nb.cells[at].source}') from e
    for i in code:
        nb.cells[i].outputs = joined(nb.cells[i].outputs)
    progress.end(f'{len(code)} cells')
    return nb
