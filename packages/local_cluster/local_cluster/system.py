"""What each process of a group needs of the system. Imports nothing but Python's library."""

import os
import select
import weakref
from collections.abc import Callable
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
