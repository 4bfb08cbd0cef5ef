"""Notebooks to solve the exercises in: each statement, a stub, and the call that checks the answer.

    python -m tools.stubs

They go to ``exercises/``, one for each topic and framework, and are the reader's from then on: a file
that is there is never touched. An exercise that is in none of the topic's files goes to a new one.
"""

import re
import sys
from itertools import count
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from answer_checks import checking, definitions
from answer_checks.definitions import Exercise
from tools import exercises
from tools.quotations import markdown
from tools.runs import normalise
from tools.source import FRAMEWORKS, ROOT, missing, toc, write

BLOCK = re.compile(r'^## ([^\n]*)$|```\{exercise\} ([^\n]*)\n:label: ([\w-]+)\n(.*?)```\n', re.M | re.S)
NAMES = {'mxnet': ('MXNet', 'Gluon'), 'pytorch': ('PyTorch',)}       # in headings
IMPORTS = {'mxnet': 'from mxnet import autograd, gluon, np, npx\nfrom mxnet.gluon import nn\n\n'
                    'from d2l_local import mxnet as d2l\nfrom answer_checks import check\n\n'
                    'npx.set_np()',
           'pytorch': 'import torch\nfrom torch import nn\n\n'
                      'from d2l_local import torch as d2l\nfrom answer_checks import check'}
HEAD = '''# {title}: exercises with {framework}

Replace the dots, and run the cell: it says *Right*, or what is missing with a hint, and on the next try
a second hint. A whole number below 1,000 has to be exact; other figures are right within 2% where nothing
else is said. What a function prints is shown until its answer is right. Your progress is kept beside this
file; `python -m answer_checks` prints it. This notebook is yours: nothing overwrites it.'''


def plain(text: str) -> str:
    """A statement without links and roles, for a notebook that stands alone."""
    text = re.sub(r'\{ref\}`([^`<]*?) ?(?:<[^`>]*>)?`', r'\1', text)
    text = re.sub(r' ?\{cite(?::\w+)?\}`[^`]*`', '', text)
    return re.sub(r'\[([^\]]+)\]\([^)]*\)', r'\1', text).strip()


def statements(topic: Path, framework: str) -> dict[str, str]:
    """The exercises of a topic that this framework can do: label to title and statement."""
    found, ours = {}, True
    other = [name for f, names in NAMES.items() if f != framework for name in names]
    for heading, title, label, body in BLOCK.findall(markdown(topic / 'exercises.md')):
        if heading:
            ours = (any(name in heading for name in NAMES[framework])
                    or not any(name in heading for name in other))
        elif ours:
            found[label] = f'## {title}\n\n{plain(body)}'
    return found


def notebooks(topic: Path) -> dict[str, list[str]]:
    """For each exercise of a topic that is checked, the notebooks of stubs that have it, by their names."""
    found: dict[str, list[str]] = {}
    for framework in frameworks(topic):
        for label in statements(topic, framework):
            if checker(label, framework):
                found.setdefault(label, []).append(f'{topic.name}_{framework}')
    return found


def frameworks(topic: Path) -> list[str]:
    """Those in which a topic has notebooks."""
    return [f for f in FRAMEWORKS if list(topic.glob(f'*_{f}.ipynb'))]


def checker(label: str, framework: str) -> Exercise | None:
    """What checks the answer to an exercise; None if nothing does."""
    known = definitions.load()
    return known.get((label, framework)) or known.get((label, None))


def cells(topic: Path, framework: str, labels: dict[str, str]) -> list[nbformat.NotebookNode]:
    """A notebook's cells: how it works, the imports, and two for each exercise."""
    title = (topic / 'index.md').read_text().split('\n')[0].removeprefix('# ').split(':')[0]
    title = re.sub(r'^\d+ · ', '', title)
    made = [new_markdown_cell(HEAD.format(title=title, framework=FRAMEWORKS[framework])),
            new_code_cell(IMPORTS[framework])]
    for label, statement in labels.items():
        one = checker(label, framework)
        note = '' if one else '\n\nThis one has no check: compare with its solution.'
        made += [new_markdown_cell(statement + note),
                 new_code_cell(one.stub if one else f'# {label}: room for your own')]
    return made


def with_ways(text: str, topic: Path) -> str:
    """The text of a page, with a place at the end of each exercise, where ``run.js`` leads to its stubs."""
    if not exercises.BLOCK.search(text):
        return text
    known = notebooks(topic)

    def add(m: re.Match) -> str:
        if m[2] not in known:
            return m[0]
        return f'{m[1]}\n<div class="d2l-solve" data-notebooks="{" ".join(known[m[2]])}"></div>\n{m[3]}'
    return exercises.BLOCK.sub(add, text)


def stubs(folder: Path) -> list[str]:
    """Write what is not there yet; a line for each topic and framework says what was done."""
    said = []
    topics = dict.fromkeys(ROOT / Path(p).parent for p in toc() if p.endswith('/exercises'))
    for topic in topics:
        for framework in frameworks(topic):
            name = f'{topic.name}_{framework}'
            reason = missing(framework)
            if reason:
                said.append(f'{name}: not written, {reason}')
                continue
            there = sorted(folder.glob(f'{name}*.ipynb'))
            text = ''.join(path.read_text(errors='replace') for path in there)
            new = {}
            for label, statement in statements(topic, framework).items():
                if not re.search(rf'\b{label}\b(?!-)', text):
                    new[label] = statement
            if not new:
                said.append(f'{name}: left as it is')
                continue
            path = free_name(folder, name)
            write(path, normalise(new_notebook(cells=cells(topic, framework, new))))
            line = f'{path.stem}: {len(new)} exercises'
            if there:
                line += f' that {" and ".join(path.name for path in there)} lacks'
            said.append(line)
    return said


def free_name(folder: Path, name: str) -> Path:
    """A notebook that is not there yet: of this name, or with a number after it, from 2 on."""
    path = folder / f'{name}.ipynb'
    for number in count(2):
        if not path.exists():
            break
        path = folder / f'{name}_{number}.ipynb'
    return path


def main() -> int:
    folder = checking.file().parent
    print(*stubs(folder), f'in {folder}; open them with: make lab', sep='\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
