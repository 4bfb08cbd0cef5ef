r"""What pages say in plain Markdown, which every editor shows, in the words that Sphinx needs.

A solution, in a notebook, is a block quote that begins with its anchor and with the title of its exercise:

    > <a id="hyb-sol-lenet"></a>**Solution to [A model you know](exercises.md#hyb-ex-lenet)**
    >
    > Its text, up to the end of the block quote.

An exercise is a heading of the third level with an anchor. It ends where the next heading begins, or an
answer that is folded away. What else is folded away has another summary, and becomes a box. Code in both
stands between lines of ``~~~``:

    <a id="mem-ex-w-root"></a>
    ### How long it pays

    Its text.

    <details><summary>Answer</summary>

    The text of the answer.

    </details>

A figure with a caption, another heading with an anchor, and a list of terms are

    <a id="fig-hw-core"></a>
    ![What a reader who does not see it is told](figures/core.svg)

    **Figure.** Its caption, one paragraph.

    <a id="notation"></a>
    ## Notation

    <!-- glossary -->
    **all-reduce.**
    Every member ends with the sum.

    <!-- end of glossary -->

A link to an anchor names its file, also on the same page. Where it leads to a source, or where its words are
"figure" or "the figure", a page replaces them by the label of the source, or the number of the figure:

    Then see [how long it pays](../memory/exercises.md#mem-ex-w-root).
    Few laptops hold it [\[Touvron et al. 2023\]](../reference/bibliography.md#touvron2023llama).
    A core does more at once ([figure](data_sheets.md#fig-hw-core)).
"""

import posixpath
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tools.source import ROOT

NUMBER = re.compile(r'\d[\d,.]*')
SOURCES = 'chapters/reference/bibliography.md'
ENTRY = re.compile(r'(?m)^@\w+\{([^,\s]+),')
LEADS = re.compile(r'<a id="([\w-]+)"></a>')
ANCHOR = re.compile(rf'(?m)^{LEADS.pattern}(?:\n### (.+))?$')           # in a Markdown file
ANSWER = 'Answer'
BOX = re.compile(
    r'(?m)^<a id="(?P<label>[\w-]+)"></a>\n### (?P<title>.+)\n\n'
    r'(?P<asks>(?:~~~(?:.*\n)+?~~~\n|(?!#+ |<a id="|<details>).*\n)*)'
    r'|^<details><summary>(?P<summary>.+)</summary>\n\n(?P<folded>(?:(?!</?details>).*\n)*?)\n</details>\n')
FIGURE = re.compile(rf'(?m)^{LEADS.pattern}\n'
                    r'!\[(.*)\]\((\S+)\)\n\n\*\*Figure\.\*\* ((?:.+\n)+)')
TO_HEADING = re.compile(rf'(?m)^{LEADS.pattern}(?=\n#+ )')
TERMS = re.compile(r'<!-- glossary -->\n(.*?)<!-- end of glossary -->', re.DOTALL)
TERM = re.compile(r'(?m)^\*\*(.+)\.\*\*\n((?:.+\n)+)')
LINK = re.compile(r'\[((?:\\.|[^\[\]\\])*)\]\(((?:[^()\s#:]*/)?[\w-]+\.md)#([^()\s]+)\)')
SOLUTION = re.compile(r'(?m)^> <a id="([\w-]+)"></a>\*\*Solution to ' + LINK.pattern
                      + r'\*\*[^\S\n]*((?:\n>.*)*)(?=\n[^\S\n]*(?:\n|\Z)|\Z)')
Fault = Callable[[str], ValueError]


def names(file: str) -> dict[str, str]:
    """The anchors of a file, named from the root of the book, or its sources; each with its title, or ''."""
    path = ROOT / file
    if file == SOURCES:
        path = path.with_name('references.bib')
    return _names(path, path.stat().st_mtime_ns) if path.exists() else {}


@cache
def _names(path: Path, changed: int) -> dict[str, str]:
    if path.suffix == '.bib':
        return dict.fromkeys(ENTRY.findall(path.read_text()), '')
    return dict(ANCHOR.findall(path.read_text()))


def for_sphinx(source: str, page: str, cell: str = '') -> str:
    """A Markdown cell, or a Markdown page, with directives and roles in the place of what is plain.

    Args:
        source: the text; directives and roles that are already there stay as they are.
        page: the page's name from the root of the book, without its ending.
        cell: the id of a notebook's cell, for errors.

    Raises:
        ValueError: there is no such exercise, source or anchor, the exercise has another title, a block quote
            looks like a solution and is none, or something is folded away and does not end. It names the page
            and the cell.
    """
    def fault(what: str) -> ValueError:
        return ValueError(f'{page}.ipynb, {cell}: {what}' if cell else f'{page}.md: {what}')

    def named(target: str, id: str) -> tuple[str, str]:
        file = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        known = names(file)
        if id not in known:
            kinds = {'bibliography.md': 'source', 'exercises.md': 'exercise'}
            kind = kinds.get(posixpath.basename(file), 'anchor')
            raise fault(f'there is no {kind} {id!r} in {file}')
        return file, known[id]

    def box(m: re.Match) -> str:
        own, title, target, exercise, rest = m.groups()
        _, true_title = named(target, exercise)
        if title != true_title:
            raise fault(f'the exercise {exercise!r} is called {true_title!r}, not {title!r}')
        body = re.sub(r'(?m)^> ?', '', rest).strip('\n')
        fence = '```'
        while re.search(rf'(?m)^\s*{fence}', body):         # a fence is longer than those in it
            fence += '`'
        return f'{fence}{{solution}} {exercise}\n:label: {own}\n{body}\n{fence}'

    def role(m: re.Match) -> str:
        words, target, id = m.groups()
        if named(target, id)[0] == SOURCES:
            return f'{{cite}}`{id}`'
        if words.lower() in ('figure', 'the figure'):
            return f'{{numref}}`{id}`'
        return f'[{words}](project:#{id})'

    text = SOLUTION.sub(box, source)
    wrong = re.search(r'(?m)^>.*\bSolution to\b.*', text)
    if wrong:
        raise fault(f'this begins no solution, or no blank line ends it: {wrong[0]}')
    text = TERMS.sub(glossary, FIGURE.sub(figure, exercises_and_answers(text, fault)))
    return LINK.sub(role, TO_HEADING.sub(r'(\1)=', text))


def exercises_and_answers(text: str, fault: Fault) -> str:
    """The text with directives for its exercises, and for what is folded away."""
    label = ''              # of the exercise that comes last

    def directive(m: re.Match) -> str:
        nonlocal label
        label = m['label'] or label
        if m['label']:
            head, body = f'{{exercise}} {m["title"]}\n:label: {label}', m['asks']
        elif m['summary'] != ANSWER:
            head, body = f'{{admonition}} {m["summary"]}\n:class: dropdown', m['folded']
        elif label:
            head, body = f'{{solution}} {label}\n:class: dropdown', m['folded']
        else:
            raise fault('an answer stands before the first exercise')
        if code := re.search('(?m)^ *```.*', body):
            raise fault(f'code of an exercise or an answer stands between ~~~ and ~~~: {code[0]}')
        return f'```{head}\n{body.rstrip()}\n```\n'

    made = BOX.sub(directive, text)
    if wrong := re.search('(?m)^</?details>.*', made):
        raise fault(f'what is folded away has no blank line around it, or does not end: {wrong[0]}')
    return made


def figure(m: re.Match) -> str:
    """A directive for a figure with its caption."""
    name, alt, file, caption = m.groups()
    return f'```{{figure}} {file}\n:alt: {alt}\n:name: {name}\n{caption}```\n'


def glossary(m: re.Match) -> str:
    """A directive for a list of terms, each with its definition."""
    body = TERM.sub(lambda term: f'{term[1]}\n' + re.sub('(?m)^(?=.)', '  ', term[2]), m[1])
    return f'```{{glossary}}\n{body.rstrip()}\n```'
