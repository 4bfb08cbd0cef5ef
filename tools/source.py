"""The book as it is stored: its folder, its pages in reading order, and files read and written whole."""

import ast
import platform
import re
import sys
from functools import cache
from pathlib import Path

import nbformat
import yaml

from tested_results import machine
from tested_results.files import put_whole

ROOT = Path(__file__).resolve().parent.parent
FRAMEWORKS = {'mxnet': 'MXNet', 'pytorch': 'PyTorch'}


def toc() -> list[str]:
    """The pages in reading order, as paths without a suffix."""
    def walk(node):
        if 'file' in node:
            yield node['file']
        for key in ('parts', 'chapters', 'sections'):
            for child in node.get(key, []):
                yield from walk(child)
    text = yaml.safe_load((ROOT / '_toc.yml').read_text())
    return [text['root'], *walk(text)]


def notebooks() -> list[Path]:
    """The notebooks of the book in reading order."""
    return [p for page in toc() if (p := ROOT / f'{page}.ipynb').exists()]


def pages() -> list[Path]:
    """The pages of the book in reading order, each a notebook or a Markdown file."""
    files = []
    for page in toc():
        files += [ROOT / f'{page}.ipynb', ROOT / f'{page}.md']
    return [path for path in files if path.exists()]


def name(path: Path) -> str:
    """A page's file as errors name it."""
    return path.relative_to(ROOT).as_posix() if ROOT in path.parents else path.name


def framework(path: Path) -> str | None:
    """Which framework a notebook is about: the last part of its name says so."""
    last = path.stem.rsplit('_', 1)[-1]
    return last if last in FRAMEWORKS else None


@cache
def missing(name: str | None) -> str:
    """Why notebooks of this framework cannot run here; empty if they can."""
    package = {'mxnet': 'mxnet', 'pytorch': 'torch'}.get(name)
    if package is None:
        return ''
    here = f'{sys.platform}, Python {sys.version_info.major}.{sys.version_info.minor}'
    if machine.machine()[package] is None:
        return f'{FRAMEWORKS[name]} is not installed ({here})'
    if name == 'mxnet' and tuple(map(int, machine.version('numpy').split('.')[:2])) >= (1, 24):
        return f'MXNet needs a NumPy older than 1.24, and this is {machine.version("numpy")}'
    return ''


def should_have_mxnet() -> bool:
    """Whether MXNet has a wheel for this system and this Python, so that its notebooks should run."""
    linux = sys.platform.startswith('linux')
    intel_mac = sys.platform == 'darwin' and platform.machine() == 'x86_64'
    return sys.version_info < (3, 12) and (linux or intel_mac)


def tree(code: str) -> ast.Module:
    """What Python reads in a cell; its magics stand as ``pass``."""
    return ast.parse(re.sub(r'(?m)^[%!].*$', 'pass', code))


@cache
def _read(path: Path, changed: int) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def read(path: Path) -> nbformat.NotebookNode:
    """A notebook as it is stored, parsed once: to read, and not to change."""
    return _read(path, path.stat().st_mtime_ns)


def write(path: Path, nb: nbformat.NotebookNode) -> None:
    """Write a notebook whole or not at all."""
    put_whole(path, nbformat.writes(nb) + '\n')
