"""Functions of a notebook, for a figure that shows what the notebook computes."""

import ast
import hashlib
import json
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any


def definitions(notebook: Path, known: dict[str, Any], skip: Iterable[str] = ()) -> ModuleType:
    """The functions and classes of a notebook, as a module. Only cells that do nothing else count, and no
    other cell runs.

    Args:
        notebook: the file.
        known: what the functions use besides each other, by name, such as ``math``.
        skip: names of functions; lines that only call one of them are left out. A check that raises has no
            place in a figure, which shows its message.
    """
    skip = set(skip)
    taken: list[ast.stmt] = []
    for cell in json.loads(notebook.read_text(encoding='utf-8'))['cells']:
        if cell['cell_type'] != 'code':
            continue
        try:
            lines = ast.parse(''.join(cell['source'])).body
        except SyntaxError:         # a magic
            continue
        if all(isinstance(line, ast.FunctionDef | ast.ClassDef) for line in lines):
            taken += lines
    for node in [n for line in taken for n in ast.walk(line) if isinstance(n, ast.FunctionDef)]:
        node.body = [line for line in node.body if not _only_calls(line, skip)]
    source = ast.unparse(ast.Module(taken, []))
    path = str(notebook.resolve())
    # not by the name alone, which a notebook in another folder may have, too
    digest = hashlib.sha256(path.encode()).hexdigest()[:16]
    module = ModuleType(f'live_figures_of_{notebook.stem}_{digest}')
    module.__file__ = f'<definitions of {path}>'
    vars(module).update(known)
    sys.modules[module.__name__] = module       # here inspect looks for the source of a class
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(True), module.__file__)
    exec(compile(source, module.__file__, 'exec'), vars(module))
    return module


def _only_calls(line: ast.stmt, names: set[str]) -> bool:
    match line:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name in names
    return False
