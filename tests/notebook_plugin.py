"""What nbval needs to know of this book; loaded by ``make test``.

Notebooks of a framework that is absent are left out by name. Claims get a longer time budget
than a reader's. A claim that *fails* makes its cell red, because its text differs from the
stored one; claims left open by noise are counted here, and more than one in ten is red.
"""

import os

import pytest

from d2l_local.claims import METADATA_KEY
from tools import notebooks

BUDGET = '45'          # seconds a claim may take here before it stays undecided
OPEN_SHARE = 0.1
claims: list[dict] = []
left_out: dict[str, str] = {}


def pytest_ignore_collect(collection_path, config):
    if collection_path.suffix == '.ipynb':
        reason = notebooks.missing(notebooks.framework(collection_path))
        if reason:
            left_out[str(collection_path.relative_to(notebooks.ROOT))] = reason
            return True
    return None


def pytest_collectstart(collector):
    if hasattr(collector, 'skip_compare'):
        collector.skip_compare += ('image/svg+xml',)     # nbval never compares images


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if hasattr(item, 'cell_num'):
        os.environ['D2L_BUDGET'] = BUDGET       # inherited by the kernel that nbval starts
    else:
        os.environ.pop('D2L_BUDGET', None)


def pytest_runtest_teardown(item):
    for out in getattr(item, 'test_outputs', None) or []:
        claim = out.get('metadata', {}).get(METADATA_KEY)
        if claim:
            claims.append(dict(claim))


def open_claims() -> list[dict]:
    """Claims that this kind of machine can test and that noise has left without a verdict."""
    return [c for c in claims if c['passing']]


def too_many_open() -> bool:
    return len(open_claims()) > OPEN_SHARE * len(claims)


def pytest_sessionfinish(session, exitstatus):
    if exitstatus == 0 and too_many_open():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    write = terminalreporter.write_line
    for path, reason in sorted(left_out.items()):
        write(f'not run: {path}: {reason}')
    if claims:
        counts = {v: sum(c['verdict'] == v for c in claims) for v in
                  ('holds', 'fails', 'undecided', 'not testable here')}
        write(f'claims: {len(claims)}: ' + ', '.join(f'{n} {v}' for v, n in counts.items()))
    for c in open_claims():
        write(f'still open: {c["id"]}: {c["figure"] or c["reason"]}; bound {c["bound"]}')
    if too_many_open():
        write('RED: more than one claim in ten is still open; run again on a quieter machine')
