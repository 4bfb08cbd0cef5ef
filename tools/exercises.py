"""The index of exercises: by topic, how long each takes, and where its solution is."""

import re
from typing import NamedTuple

from tools.quotations import markdown
from tools.source import FRAMEWORKS, ROOT, framework, pages, toc

EXERCISE = re.compile(r'```\{exercise\} ([^\n]*)\n:label: ([\w-]+)\n(?:\*([^*\n]+)\.\*\n)?')
BLOCK = re.compile(r'(?s)(```\{exercise\} [^\n]*\n:label: ([\w-]+)\n.*?\n)(```\n)')
SOLUTION = re.compile(r'```\{solution\} ([\w-]+)\n(?::label: ([\w-]+)\n)?')
WARM_UP = 'five minutes'


class Exercise(NamedTuple):
    """An exercise: the title of its topic, its own, its label, its time, and links to its solutions."""

    topic: str
    title: str
    label: str
    time: str
    solved: str


def solutions() -> dict[str, list[str]]:
    """For each exercise, by its label, where it is solved, with a link unless that is the same page."""
    solved: dict[str, list[str]] = {}
    for page in pages():
        where = FRAMEWORKS.get(framework(page), 'without a framework')
        for exercise, label in SOLUTION.findall(markdown(page)):
            solved.setdefault(exercise, []).append(
                f'{{ref}}`{where} <{label}>`' if label else 'below the question')
    return solved


def with_solutions(text: str) -> str:
    """The text of a page, with links to its solutions at the end of each exercise."""
    if not BLOCK.search(text):
        return text
    solved = solutions()

    def add(m: re.Match) -> str:
        found = [where for where in solved.get(m[2], []) if where.startswith('{ref}')]
        return m[1] + (f'\n*Solved:* {", ".join(found)}.\n' if found else '') + m[3]
    return BLOCK.sub(add, text)


def all_exercises() -> list[Exercise]:
    """The exercises of the book in reading order."""
    solved, found = solutions(), []
    for page in toc():
        path = ROOT / f'{page}.md'
        if path.name == 'exercises.md':
            title = (path.parent / 'index.md').read_text().split('\n')[0]
            topic = title.removeprefix('# ').split(':')[0]
            found += [Exercise(topic, re.sub(r'^\d+ · ', '', title), label, time.lower() or WARM_UP,
                               ', '.join(dict.fromkeys(solved.get(label, []))))
                      for title, label, time in EXERCISE.findall(markdown(path))]
    return found


def index() -> str:
    """A table of all exercises, for a page; where none is solved, it does not speak of solutions."""
    found = all_exercises()
    with_solutions = any(exercise.solved for exercise in found)
    lines = ['| topic | exercise | time |', '|---|---|---|']
    lines += [f'| {e.topic} | {{ref}}`{e.title} <{e.label}>` | {e.time} |' for e in found]
    if with_solutions:
        column = [' solution |', '---|', *(f' {exercise.solved} |' for exercise in found)]
        lines = [line + cell for line, cell in zip(lines, column, strict=True)]
    return '\n'.join(lines)
