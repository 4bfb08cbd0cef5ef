"""What nbval needs to know of this book; loaded by ``make test``.

Notebooks of a framework that is absent are left out by name. A result is measured here in seven windows
of a seventh of a second (98.4%), and seven more if these do not decide it; in ``make book`` in ten of
0.4 seconds, and ten more. nbval compares what a result is and what it is tested against; what came out
is judged at the end, beside the stored results and the ledgers of known machines
(``tested_results.judgement``).
"""

import functools
import json
import math
import os
import queue
import time
from collections import Counter
from pathlib import Path

import nbval.plugin
import pytest

from tested_results import judgement, ledgers, machine
from tested_results.claims import METADATA_KEY, Claim
from tools import ledger, runs, source

# Seconds of all windows, and to wait for a condition; the number of windows.
HERE = {'TESTED_RESULTS_SPAN': '1', 'TESTED_RESULTS_BUDGET': '3', 'TESTED_RESULTS_WINDOWS': '7'}
LONGEST = 'test_screens.py', 'test_student.py'      # begun first, or one core would wait at the end
claims: list[Claim] = []
raw: list[dict] = []                 # the same, as outputs have them
beside: set[str] = set()            # ids of those that other processes handed over
ran: dict[Path, bool] = {}           # notebooks, and whether each of their cells ran
left_out: dict[str, str] = {}


def pytest_addoption(parser):
    parser.addoption('--whole-book', action='store_true',
                     help='every notebook that can run on such a system must have run')
    parser.addoption('--handed-over', type=Path, metavar='FOLDER',
                     help='where processes leave what they saw to the run that judges the whole book')


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
            ran.setdefault(item.path, True)


class KernelDied(Exception):
    """The kernel of a notebook ended while a cell ran."""


def pytest_configure():
    nbval.plugin.coalesce_streams = runs.joined        # nbval's joins across what was shown between


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
        here, stored = order(item.test_outputs), order(runs.joined(item.cell.outputs))
        if here != stored:
            item.raise_cell_error(f'Cell outputs come in another order: {", ".join(here)}; '
                                  f'stored are {", ".join(stored)}')
    return done


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if hasattr(item, 'cell_num'):
        os.environ.update(HERE)                 # inherited by the kernel that nbval starts
    else:
        for name in HERE:
            os.environ.pop(name, None)


def pytest_runtest_teardown(item):
    if hasattr(item, 'cell_num'):
        outputs = getattr(item, 'test_outputs', None)
        ran[item.path] = ran.get(item.path, True) and outputs is not None
        for out in outputs or []:
            if data := out.get('metadata', {}).get(METADATA_KEY):
                raw.append(dict(data))
                claims.append(Claim.of(dict(data)))


def again(ids: list[str], reference: dict[str, Path]) -> dict[str, list[str]]:
    """Run the notebooks of these results once more, in fresh kernels; returns what came out."""
    found: dict[str, list[str]] = {id: [] for id in ids}
    for path in dict.fromkeys(reference[id] for id in ids):
        os.environ.update(HERE)
        try:
            for c in ledgers.claims_of(runs.execute(path, 'once more: ')):
                if c.id in found:
                    found[c.id].append(c.verdict)
        except runs.CellFailed:
            pass                        # red already: a cell that fails is a test that fails
        finally:
            for name in HERE:
                os.environ.pop(name, None)
    return found


def absent(left: dict[str, str]) -> list[str]:
    """Why this is no whole run: notebooks left out on a system for which their framework has a wheel."""
    if source.should_have_mxnet():
        return [f'{name} did not run, and could on such a system: {why}' for name, why in left.items()]
    return []


def hand_over(file: Path) -> None:
    """Leave what this process saw to the run that judges the whole book."""
    file.parent.mkdir(parents=True, exist_ok=True)
    source.put_whole(file, json.dumps(
        {'results': raw, 'ran': {str(p): whole for p, whole in ran.items()}, 'left out': left_out}))


def take_over(folder: Path) -> None:
    """What the notebooks that ran beside each other gave."""
    for path in sorted(folder.glob('*.json')):
        found = json.loads(path.read_text())
        claims.extend(map(Claim.of, found['results']))
        beside.update(data['id'] for data in found['results'])
        ran.update({Path(p): whole for p, whole in found['ran'].items()})
        left_out.update(found['left out'])


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    config.judgement = None
    folder = config.getoption('--handed-over')
    if hasattr(config, 'workerinput'):
        return hand_over(folder / f'{config.workerinput["workerid"]}.json') if folder and ran else None
    if config.getoption('--whole-book') and folder and not config.option.collectonly:
        take_over(folder)
    if not ran or config.option.collectonly:
        return None
    try:
        stored, known = ledger.all_ledgers(), judgement.expected(ledger.FOLDER)
    except ledgers.Refused as e:
        config.judgement = judgement.Judgement(red=[str(e)])
    else:
        kept = [(path, c) for path, whole in ran.items() if whole
                for c in ledgers.claims_of(source.read(path))]
        where, reference = {c.id: path for path, c in kept}, {c.id: c for _, c in kept}
        here = machine.machine()
        said = judgement.judge(claims, here, stored, reference, known, beside=beside)
        if said.again:
            twice = again([i for i in said.again if i in where], where)
            said = judgement.judge(claims, here, stored, reference, known, twice, beside)
        if config.getoption('--whole-book'):
            said.red += absent(left_out)
            said.red += [f'{p.relative_to(source.ROOT)} did not run' for p in source.notebooks()
                         if p not in ran and str(p.relative_to(source.ROOT)) not in left_out]
        config.judgement = said
        config.ledger = next((x for x in stored if x.kind == ledgers.kind(here)), None)
    if exitstatus == 0 and config.judgement.red:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    return None


def pytest_terminal_summary(terminalreporter, config):
    write, said = terminalreporter.write_line, getattr(config, 'judgement', None)
    for path, reason in sorted(left_out.items()):
        write(f'not run: {path}: {reason}')
    if said is None:
        return
    counts = Counter(c.verdict for c in claims)
    write(f'results: {len(claims)}: ' + ', '.join(f'{n} {v}' for v, n in counts.items()))
    own = getattr(config, 'ledger', None)
    if own is None:
        write(f'no stored ledger is of this kind of machine ({ledgers.kind(machine.machine())}). '
              + ledger.how_to_contribute())
    else:
        within, between, n = ledgers.covered(claims, own)
        write(f'medians of this run in the stored intervals: {within} of {n} within one run, '
              f'{between} of {n} in the published ones')
    for line in said.notes:
        write(line)
    for line in said.findings:
        write(f'finding: fails here: {line}')
    for line in said.red:
        write(f'RED: {line}')
