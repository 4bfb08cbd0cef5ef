"""The page on the house speaks of the house that stands here."""

import ast
import re

from tools.notebooks import HELPERS, ROOT

PAGE = (ROOT / 'ARCHITECTURE.md').read_text()


def test_every_file_that_it_names_is_there():
    names = set(re.findall(r'`?((?:[\w.]+/)*[\w.]+\.(?:py|md|cfg|yml|csv|txt))\b', PAGE))
    names |= set(re.findall(r'`((?:[\w.]+/)+)`', PAGE))
    assert len(names) > 20
    places = (ROOT, ROOT / HELPERS)      # the picture names helper modules by their short names
    assert not [n for n in names if not any((p / n).exists() for p in places)]


def test_every_helper_and_every_tool_is_on_it():
    files = [p for folder in (HELPERS, 'tools') for p in (ROOT / folder).glob('*.py')]
    assert not [p.name for p in files if p.stem != '__init__' and not re.search(rf'\b{p.stem}\b', PAGE)]


def test_helpers_know_nothing_of_what_stands_above_them():
    for path in (ROOT / HELPERS).rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else (
                [node.module or ''] if isinstance(node, ast.ImportFrom) else [])
            assert not {n.split('.')[0] for n in names} & {'tools', 'tests'}, path
