"""Busy neighbours come and go with the block, and with the process that began it."""

import subprocess
import sys
import time

import psutil
import pytest

from local_cluster.neighbours import neighbours


@pytest.mark.parametrize('n', [0, 2])
def test_they_are_ended_with_the_block(n):
    with pytest.raises(KeyError), neighbours(n) as group:
        assert len(group) == n and all(p.poll() is None for p in group)
        raise KeyError
    assert all(p.poll() is not None for p in group)


def test_they_are_busy():
    with neighbours(1) as (p,):
        seen, end = psutil.Process(p.pid), time.monotonic() + 30
        before = sum(seen.cpu_times()[:2])
        while sum(seen.cpu_times()[:2]) < before + 0.2:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.slow
def test_they_end_when_their_process_is_killed():
    code = '''import time
from local_cluster.neighbours import neighbours
with neighbours(2) as group:
    print(*(p.pid for p in group), flush=True)
    time.sleep(600)'''
    with subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    _, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], 30)
    assert len(pids) == 2 and not alive
