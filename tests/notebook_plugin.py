"""What pytest and nbval need to know of this book; loaded by ``make test``.

Notebooks of a framework that is absent are left out by name. nbval compares what a result is and what it is
tested against (``tests/sanitize.cfg`` masks the rest). ``tested_results.pytest_plugin`` judges what came out,
and here it is told which notebooks the book has. The rest mends nbval.
"""

import functools
import math
import os
import queue
import time

import nbval.plugin
import pytest

from tested_results import ledgers, machine
from tested_results.execution import joined
from tools import ledger, source

pytest_plugins = ['tested_results.pytest_plugin']
# Begun first, or one core would wait at the end.
LONGEST = 'test_screens.py', 'test_class_edition.py', 'test_one_file.py'
left_out: dict[str, str] = {}


def pytest_addoption(parser):
    parser.addoption('--whole-book', action='store_true',
                     help='every notebook that can run on such a system must have run')


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix == '.ipynb':
        reason = source.missing(source.framework(collection_path))
        if reason:
            left_out[str(collection_path.relative_to(source.ROOT))] = reason
            return True
    return None


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        if hasattr(item, 'cell_num'):
            item.add_marker('alone')


# The results ---------------------------------------------------------------------------------------

def absent(left: dict[str, str]) -> list[str]:
    """Why this is no whole run: notebooks left out on a system for which their framework has a wheel."""
    if source.should_have_mxnet():
        return [f'{name} did not run, and could on such a system: {why}' for name, why in left.items()]
    return []


def pytest_results_judged(config, said, ran, stored):
    if ledgers.kind(machine.machine()) not in {led.kind for led in stored}:
        said.notes.insert(0, ledger.how_to_contribute())
    if config.getoption('--whole-book'):
        said.red += absent(left_out)
        for path in source.notebooks():
            name = str(path.relative_to(source.ROOT))
            if path not in ran and name not in left_out:
                said.red.append(f'{name} did not run')


def pytest_terminal_summary(terminalreporter):
    for path, reason in sorted(left_out.items()):
        terminalreporter.write_line(f'not run: {path}: {reason}')


# nbval ---------------------------------------------------------------------------------------------

class KernelDied(Exception):
    """The kernel of a notebook ended while a cell ran."""


def pytest_configure(config):
    nbval.plugin.coalesce_streams = joined        # nbval's joins across what was shown between
    if config.option.results_ledgers is None:
        config.option.results_ledgers = ledger.FOLDER


def pytest_collectstart(collector):
    if hasattr(collector, 'skip_compare'):
        collector.skip_compare += ('image/svg+xml',)     # nbval never compares images
        collector.setup = functools.partial(start_kernel, collector, collector.setup)


def start_kernel(notebook, start):
    """Start the kernel of a notebook as ``make book`` does, and notice at once when it dies.

    A kernel that finds pytest's variable leaves alone what child processes and C code print.
    """
    marker = os.environ.pop('PYTEST_CURRENT_TEST', None)
    try:
        start()
    finally:
        if marker is not None:
            os.environ['PYTEST_CURRENT_TEST'] = marker
    kernel = notebook.kernel
    kernel.await_reply = functools.partial(await_reply, kernel, kernel.await_reply)


def await_reply(kernel, wait, msg_id, timeout=None):
    """Wait for a cell to end, and look every second whether its kernel is still there."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return wait(msg_id, timeout=max(0, min(1, end - time.monotonic())))
        except queue.Empty:
            if not kernel.is_alive():
                raise KernelDied('the kernel died in this cell: something ended its process, such as a '
                                 'crash of a library or the system when memory ran out') from None
            if time.monotonic() >= end:
                raise


def order(outputs: list) -> list[str]:
    """In which order a cell printed and displayed."""
    return [out.get('name', 'display') for out in outputs if out.get('name') != 'stderr']


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    done = yield
    if hasattr(item, 'cell_num') and item.options['check'] and item.cell.execution_count is not None:
        here, stored = order(item.test_outputs), order(joined(item.cell.outputs))
        if here != stored:
            item.raise_cell_error(f'Cell outputs come in another order: {", ".join(here)}; '
                                  f'stored are {", ".join(stored)}')
    return done
