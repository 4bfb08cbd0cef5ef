"""Keeps how long each test and each cell took, for ``make profile``; loaded by ``make test``."""

import json

from tools import notebooks
from tools.check import DURATIONS

took: dict[str, dict] = {}


def pytest_runtest_makereport(item, call):
    if item.nodeid.startswith(('tests/', 'chapters/')):
        cell = getattr(item, 'cell', None)
        first = next((ln for ln in cell.source.splitlines() if ln.strip()), '') if cell else ''
        mine = took.setdefault(item.nodeid, {'seconds': 0.0, 'first line': first})
        mine['seconds'] += call.duration


def pytest_sessionfinish():
    """The newest duration of each; a run of a part keeps those of the rest."""
    if took:
        kept = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        notebooks.put_whole(DURATIONS, json.dumps(kept | took, indent=1, ensure_ascii=False))
