"""The command that makes other editions."""

import sys

import pytest

from tools import editions


def test_an_edition_that_there_is_not(capsys, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['editions', 'large-print'])
    with pytest.raises(SystemExit, match='There are these editions: student, epub, pdf'):
        editions.main()
