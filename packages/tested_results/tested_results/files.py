"""Files that several programs write: one at a time, and each whole or not at all."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone(folder: Path | None) -> Iterator[None]:
    """Be the only program on this system that reads and writes certain files in a folder.

    All that take turns call this with the same folder. Where the system or the disk has no locks, or there is
    no such folder, it goes on without.
    """
    number = None
    try:
        with contextlib.suppress(OSError, ImportError):
            import fcntl
            if folder:
                number = os.open(folder, os.O_RDONLY)
                fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        if number is not None:
            os.close(number)


def put_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; its folder is made where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f'{path.name}.{os.getpid()}-{threading.get_ident()}.part')
    try:
        part.write_text(text)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
