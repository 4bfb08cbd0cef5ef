"""For all tests of this folder."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _threads_as_before():
    """Scripts that are watched in this process set the number of threads."""
    torch = sys.modules.get('torch')
    threads = torch and torch.get_num_threads()
    yield
    if torch:
        torch.set_num_threads(threads)
