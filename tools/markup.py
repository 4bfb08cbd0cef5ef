r"""What notebooks say in plain Markdown, which every editor shows, in the words that Sphinx needs.

A solution is a block quote that begins with its anchor and with the title of its exercise; a link leads to
any exercise, or to a source, whose words a page replaces by the label of its entry:

    > <a id="hyb-sol-lenet"></a>**Solution to [A model you know](exercises.md#hyb-ex-lenet)**
    >
    > Its text, up to the end of the block quote.

    Then see [how long it pays](../memory/exercises.md#mem-ex-w-root).
    Few laptops hold it [\[Touvron et al. 2023\]](../reference/bibliography.md#touvron2023llama).
"""

import posixpath
import re

from tools.source import ROOT

SOURCES = 'chapters/reference/bibliography.md'
EXERCISE = re.compile(r'```\{exercise\} ([^\n]*)\n:label: ([\w-]+)\n')
ENTRY = re.compile(r'(?m)^@\w+\{([^,\s]+),')
LINK = re.compile(r'\[((?:\\.|[^\[\]\\])*)\]\(((?:[^()\s#]*/)?(?:exercises|bibliography)\.md)#([^()\s]+)\)')
SOLUTION = re.compile(r'(?m)^> <a id="([\w-]+)"></a>\*\*Solution to ' + LINK.pattern
                      + r'\*\*[^\S\n]*((?:\n>.*)*)(?=\n[^\S\n]*(?:\n|\Z)|\Z)')


def names(file: str) -> dict[str, str]:
    """What a link into this file, named from the root of the book, may lead to: label to title."""
    path = ROOT / file
    if file == SOURCES:
        return dict.fromkeys(ENTRY.findall((path.parent / 'references.bib').read_text()), '')
    return {label: title for title, label in EXERCISE.findall(path.read_text() if path.exists() else '')}


def for_sphinx(source: str, page: str, cell: str) -> str:
    """A Markdown cell with a directive for each solution, and roles for links to exercises and sources.

    Args:
        source: the cell's text; directives and roles that are already there stay as they are.
        page: the notebook's name from the root of the book, without its ending.
        cell: the cell's id, for errors.

    Raises:
        ValueError: there is no such exercise or source, the exercise has another title, or a block quote
            looks like a solution and is none. It names the page and the cell.
    """
    def fault(what: str) -> ValueError:
        return ValueError(f'{page}.ipynb, {cell}: {what}')

    def named(target: str, id: str) -> tuple[str, str]:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        if id not in (known := names(file)):
            kind = 'source' if file == SOURCES else 'exercise'
            raise fault(f'there is no {kind} {id!r} in {file}')
        return file, known[id]

    def box(m: re.Match) -> str:
        own, title, target, exercise, rest = m.groups()
        if title != (true := named(target, exercise)[1]):
            raise fault(f'the exercise {exercise!r} is called {true!r}, not {title!r}')
        body = re.sub(r'(?m)^> ?', '', rest).strip('\n')
        fence = '`' * max([3, *(len(f) + 1 for f in re.findall(r'(?m)^\s*(`{3,})', body))])
        return f'{fence}{{solution}} {exercise}\n:label: {own}\n{body}\n{fence}'

    def role(m: re.Match) -> str:
        words, target, id = m.groups()
        if named(target, id)[0] == SOURCES:
            return f'{{cite}}`{id}`'
        return f'[{words}](project:#{id})'

    text = SOLUTION.sub(box, source)
    if wrong := re.search(r'(?m)^>.*\bSolution to\b.*', text):
        raise fault(f'this begins no solution, or no blank line ends it: {wrong[0]}')
    return LINK.sub(role, text)
