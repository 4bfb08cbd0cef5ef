"""Cells that members of a group can import: ``%%worker NAME`` makes a cell a module.

``%load_ext local_cluster.workers`` teaches a notebook this magic.
"""

import functools
import importlib
import importlib.util
import re
import shutil
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from local_cluster.files import new_folder
from local_cluster.system import at_end

versions: dict[str, int] = {}       # how often each worker has changed


@functools.cache
def _folder() -> Path:
    folder = new_folder()
    at_end(define, shutil.rmtree, folder, True)
    sys.path.insert(0, str(folder))
    return folder


def _is_taken(name: str) -> bool:
    """Whether there is a module of this name. A mere folder is none, and any module goes before it."""
    if name in sys.modules:
        return True
    found = importlib.util.find_spec(name)
    return found is not None and found.origin is not None


def define(name: str, source: str) -> types.ModuleType:
    """Make source a module that this process and its members can import. A later one replaces it.

    Members that run already take over the new source with their next call; what worker modules
    have kept in memory is lost then.

    Raises:
        ValueError: the name is no identifier, or belongs to another module.
    """
    if not name.isidentifier():
        raise ValueError(f'a worker needs a name such as "step", not {name!r}')
    path = _folder() / f'{name}.py'
    if not path.exists() and _is_taken(name):
        raise ValueError(f'there is a module {name!r} already: give the worker another name')
    if not path.exists() or path.read_text(encoding='utf8') != source:
        versions[name] = versions.get(name, 0) + 1
        path.write_text(source, encoding='utf8')
    importlib.invalidate_caches()
    module = types.ModuleType(name)
    module.__file__ = str(path)
    module.__spec__ = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module
    exec(compile(source, str(path), 'exec'), module.__dict__)
    return module


def function_name(function: str | Callable) -> str:
    """A function as ``'module:name'``, by which another process finds it.

    Raises:
        ValueError: another process cannot import it: it belongs to ``__main__`` or to a function.
    """
    if isinstance(function, str):
        if not re.fullmatch(r'[\w.]+:[\w.]+', function):
            raise ValueError(f"a function's name looks like 'module:function', not {function!r}")
        return function
    module, name = getattr(function, '__module__', None), getattr(function, '__qualname__', '<')
    if module in (None, '__main__') or '<' in name:
        raise ValueError(f'other processes cannot import {name!r}: define it in a cell that begins '
                         'with "%%worker NAME", or in a module')
    return f'{module}:{name}'


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext`` calls: a cell that begins with ``%%worker NAME`` becomes a module.

    Its names, but for modules and those that begin with ``_``, become known in the notebook.
    """
    def worker(line: str, cell: str) -> None:
        names = vars(define(line.strip(), cell))
        shell.push({k: v for k, v in names.items()
                    if not k.startswith('_') and not isinstance(v, types.ModuleType)})
    shell.register_magic_function(worker, 'cell', 'worker')
