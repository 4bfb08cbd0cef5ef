"""Answers to the exercises, right and wrong, a module for each topic.

``ANSWERS`` has, by label (and ``mxnet``, for a checker that differs there), the right answer, which is
that of the stored solution, and at least three plausible wrong ones, each with words of the hint that it
should get. A wrong answer of several parts names only those that are wrong. ``ALSO_RIGHT``, where a module
has it, lists by label answers that differ from the stored solution and have to be accepted too.
"""

import ast
import functools
import re

from tools.source import ROOT, read, tree


@functools.cache
def _definitions(path: str) -> dict[str, str]:
    """The code of a stored notebook by the names that it defines; its imports by the empty name."""
    found = {'': ''}
    for cell in read(ROOT / 'chapters' / path).cells:
        for node in tree(cell.source).body if cell.cell_type == 'code' else ():
            code = ast.unparse(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                found[''] += code + '\n'
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.setdefault(node.name, code)
            elif isinstance(node, ast.Assign):
                for name in re.findall(r'\w+', ast.unparse(node.targets[0])):
                    found.setdefault(name, code)
    return found


@functools.cache
def stored(path: str, *names: str, imports: bool = True) -> dict:
    """What a stored solution defines by these names, among its imports.

    It is also where these definitions look up others: a test may put there what they read.
    """
    code, space = _definitions(path), {}
    for name in ('',) * imports + names:
        exec(compile(code[name], path, 'exec'), space)
    return space
