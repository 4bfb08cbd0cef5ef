"""Busy programs beside an experiment."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

BUSY = '''import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
os.write(1, b'up')
while True:
    for _ in range(10**6): pass'''


@contextlib.contextmanager
def neighbours(n: int) -> Iterator[list[subprocess.Popen]]:
    """``n`` processes that do nothing but compute; gone when the block ends, or this process does.

    Each is as busy as one core can be, and reads from a pipe whose other end is here: when that is
    gone, so is the neighbour.
    """
    group: list[subprocess.Popen] = []
    process = os.getpid()
    try:
        for _ in range(n):
            # Ctrl-C reaches only this process, which then ends it. (Not in a session of its own: Linux would
            # then give it as much of a core as all threads of this one together.)
            group.append(subprocess.Popen([sys.executable, '-S', '-c', BUSY], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, process_group=0))
        for p in group:
            p.stdout.read(2)        # it has begun
        yield group
    finally:
        if os.getpid() == process:      # a fork that leaves the block does not end them
            for p in group:
                p.kill()
            for p in group:
                p.communicate()
