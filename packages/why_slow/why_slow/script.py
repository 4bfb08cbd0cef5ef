"""Run a script or a module as Python would run it alone, and show its errors as Python would."""

import builtins
import os
import runpy
import sys
import traceback
import types
from pathlib import Path

OWN = str(Path(__file__).resolve().parent) + os.sep
RUNPY = ('<frozen runpy>', runpy.__file__)


def run_file(path: str, arguments: list[str]) -> None:
    """Run the file as ``__main__`` with these arguments; the module stays importable as ``__main__``
    afterwards."""
    sys.argv[:] = [path, *arguments]
    sys.path[0] = os.path.dirname(os.path.realpath(path))
    with open(path, 'rb') as file:
        source = file.read()
    main = types.ModuleType('__main__')
    full = os.path.abspath(path)  # as Python has it, so that the script may change the folder
    main.__file__ = full
    main.__builtins__ = builtins
    main.__loader__ = None
    main.__spec__ = None
    main.__annotations__ = {}
    sys.modules['__main__'] = main
    code = compile(source, full, 'exec', dont_inherit=True)
    exec(code, main.__dict__)


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module as ``python -m`` does."""
    sys.argv[:] = [name, *arguments]
    sys.path[0] = os.getcwd()
    runpy.run_module(name, run_name='__main__', alter_sys=True)


def without_us(error: BaseException) -> BaseException:
    """The error, with the tool's own frames taken out of its traceback and out of those that led to it."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = _cleaned(one.__traceback__)
        waiting += [one.__cause__, one.__context__]
        waiting += getattr(one, 'exceptions', ())
    return error


def _cleaned(tb: types.TracebackType | None) -> types.TracebackType | None:
    frames = []
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not name.startswith(OWN) and name not in RUNPY:
            frames.append(tb)
        tb = tb.tb_next
    for one, following in zip(frames, [*frames[1:], None], strict=False):
        one.tb_next = following
    return frames[0] if frames else None


def show(error: BaseException) -> None:
    """Print the script's error as Python does, with the script's own hook if it has set one."""
    without_us(error)
    if sys.excepthook is sys.__excepthook__:
        traceback.print_exception(error)
    else:
        sys.excepthook(type(error), error, error.__traceback__)
