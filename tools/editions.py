"""Other editions of the book: without solutions for a class, and as one file for a reader.

    python -m tools.editions student | epub | pdf

All are made from the stored outputs, into ``_build``. Nothing is executed.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tools import class_edition, one_file, pages

EDITIONS = {'student': class_edition.make, 'epub': one_file.epub, 'pdf': one_file.pdf}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in EDITIONS:
        sys.exit(f'There are these editions: {", ".join(EDITIONS)}')
    name = sys.argv[1]
    pages.BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=pages.BUILD) as folder:
        made, to = Path(folder) / name, pages.BUILD / name
        EDITIONS[name](made)
        shutil.rmtree(to, ignore_errors=True)
        made.rename(to)
    print(to)


if __name__ == '__main__':
    main()
