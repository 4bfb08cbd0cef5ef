"""What each process of a group needs of the system. Imports nothing but Python's library.

Of how many cores there are, ``tested_results`` knows more, where it is installed.
"""

import contextlib
import os
import select
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any


def at_end(owner: object, action: Callable, *args: Any) -> weakref.finalize:
    """Call ``action`` when ``owner`` is gone or this process ends, but not in a fork of this process.

    A fork that ends as programs do runs the finalizers that it has from us.
    """
    return weakref.finalize(owner, _if_ours, os.getpid(), action, *args)


def _if_ours(process: int, action: Callable, *args: Any) -> None:
    if os.getpid() == process:
        action(*args)


def readable(seconds: float, *files: int) -> list[int]:
    """Those of these files that can be read or have ended, after waiting for the first of them.

    ``select`` would do, but not for files whose number is above 1,023.
    """
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(1000 * seconds)]


def cores() -> int:
    """How many logical cores this process can keep busy: those that it may run on, or fewer by its quota."""
    with contextlib.suppress(ImportError):
        from tested_results import machine
        return machine.cores()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1
    return max(1, int(min(allowed, _quota(Path('/sys/fs/cgroup')))))


def _quota(root: Path) -> float:
    """Cores' worth of time that a container grants, by the file of its control group, of version 2 or 1."""
    for file in (root / 'cpu.max', root / 'cpu' / 'cpu.cfs_quota_us'):
        with contextlib.suppress(OSError, ValueError):
            granted, *period = file.read_text().split()
            period = period or (file.with_name('cpu.cfs_period_us').read_text(),)
            if granted not in ('max', '-1'):
                return int(granted) / int(period[0])
    return float('inf')
