"""What nbval needs to know of this book; loaded by ``make test``.

Notebooks of a framework that is absent are left out by name. A claim is decided here after a second
and a half of measurements, not after four as in ``make book``. nbval compares what a claim says and what
it is bound by; the verdicts are judged at the end, beside what machines of this kind, and machines
alike, gave before (``tools/ledgers.py``).
"""

import os

import pytest

from d2l_local import machine
from d2l_local.claims import METADATA_KEY, VERDICTS
from tools import ledgers, notebooks

HERE = {'D2L_SPAN': '1.5', 'D2L_BUDGET': '6'}      # seconds: before a first verdict, and before none
LONGEST = 'test_screens.py', 'test_editions.py'      # begun first, or one core would wait at the end
claims: list[dict] = []
left_out: dict[str, str] = {}


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix == '.ipynb':
        reason = notebooks.missing(notebooks.framework(collection_path))
        if reason:
            left_out[str(collection_path.relative_to(notebooks.ROOT))] = reason
            return True
    return None


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
    for item in items:
        if hasattr(item, 'cell_num'):
            item.add_marker('alone')


def pytest_collectstart(collector):
    if hasattr(collector, 'skip_compare'):
        collector.skip_compare += ('image/svg+xml',)     # nbval never compares images


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if hasattr(item, 'cell_num'):
        os.environ.update(HERE)                 # inherited by the kernel that nbval starts
    else:
        for name in HERE:
            os.environ.pop(name, None)


def pytest_runtest_teardown(item):
    for out in getattr(item, 'test_outputs', None) or []:
        claim = out.get('metadata', {}).get(METADATA_KEY)
        if claim:
            claims.append(dict(claim))


def pytest_sessionfinish(session, exitstatus):
    session.config.judgement = None
    if claims:
        try:
            stored = ledgers.all_ledgers()
        except ledgers.Refused as e:
            session.config.judgement = ledgers.Judgement(red=[str(e)])
        else:
            here = machine.machine()
            session.config.judgement = ledgers.judge(claims, here, stored)
            session.config.ledger = next((x for x in stored if x.kind == ledgers.kind(here)), None)
        if exitstatus == 0 and session.config.judgement.red:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    write, said = terminalreporter.write_line, getattr(config, 'judgement', None)
    for path, reason in sorted(left_out.items()):
        write(f'not run: {path}: {reason}')
    if said is None:
        return
    counts = {v: sum(c['verdict'] == v for c in claims) for v in VERDICTS}
    write(f'claims: {len(claims)}: ' + ', '.join(f'{n} {v}' for v, n in counts.items()))
    ledger = getattr(config, 'ledger', None)
    if ledger is None:
        write(f'no stored ledger is of this kind of machine ({ledgers.kind(machine.machine())}). '
              + ledgers.how_to_contribute())
    else:
        within, between, n = ledgers.covered(claims, ledger)
        write(f'medians of this run in the stored intervals: {within} of {n} within one run, '
              f'{between} of {n} in the published ones')
    for line in said.open:
        write(f'without a verdict this time: {line}')
    for line in said.findings:
        write(f'finding: fails here: {line}')
    for line in said.red:
        write(f'RED: {line}')
