"""Keeps how long each test and each cell took, for ``make profile``; loaded by ``make test``."""

import json

import pytest

from tools import notebooks
from tools.suite import DURATIONS

took: dict[str, dict] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A cell is known by its first line; the report carries it from the process that ran it."""
    report = yield
    if hasattr(item, 'cell'):
        first = next((line for line in item.cell.source.splitlines() if line.strip()), '')
        report.user_properties.append(('first line', first))
    return report


def pytest_runtest_logreport(report):
    if report.nodeid.startswith(('tests/', 'chapters/')):
        mine = took.setdefault(report.nodeid, {'seconds': 0.0, 'first line': ''})
        mine['seconds'] += report.duration
        mine |= dict(report.user_properties)


def pytest_sessionfinish(session):
    """The newest duration of each; a run of a part keeps those of the rest."""
    if took and not hasattr(session.config, 'workerinput'):
        kept = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        notebooks.put_whole(DURATIONS, json.dumps(kept | took, indent=1, ensure_ascii=False))
