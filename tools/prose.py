"""The text of the book: which sentences speak of performance, and which claim answers for them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.notebooks import ROOT, read, toc, tree

# Words that make a sentence a statement about performance.
PERFORMANCE = re.compile(r'''(?ix)
    \b( fast(er|est)? | slow(s|ed|er|est|ly)? | quick(er|est|ly)? | speed(s|ed|ups?|-ups?)?
      | accelerat\w+ | overheads? | bottlenecks? | latenc(y|ies) | throughput
      | cheap(er|est|ly)? | expensive | efficien\w+ | pays? | paid | costs? | costly | gains?
      | saves?\ (time|memory|work) | (?<!no\ )longer | (less|more|fewer)\ (time|memory)
      | (twice|half)\ (as|the\ time) )\b
    | \d(\.\d+)?\ ?( ×(?!\ ?\d) | x\b | times\b )''')
CLAIM_LINK = re.compile(r'\[((?:[^\]`]|`[^`]*`)+)\]\(#claim-([a-z0-9-]+)\)')
SOURCE = re.compile(r'\]\(https?://|\{cite\}|\]\(#claim-|cost model', re.IGNORECASE)
# Kinds of hosts that are no source: encyclopaedias that anyone edits, magazines, shops, forums, mirrors.
WEAK_HOSTS = re.compile(r'\]\((https?://(?:[\w-]+\.)*(?:wikipedia|anandtech|tomshardware|techpowerup|tweaktown|'
                        r'csdn|pcper|pcguide|eweek|storagereview|geektopia|sysrqmts|easymanua|manualspro|ques10|'
                        r'inkl|vdocuments|scribd|medium|reddit|stackoverflow|stackexchange|quora|euno|arxivlens|'
                        r'kingston|chipsandcheese|numberworld)'
                        r'\.[a-z.]+/[^)]*)\)')
QUESTION = re.compile(r'\?[*_)"”]*$|^#+ (When|What|Why|How|Where|Does|Is)\b')
# Directives whose body is not a statement of ours: code, formulas, definitions, tasks for the reader.
NOT_PROSE = {'code', 'code-block', 'math', 'exercise', 'figure', 'glossary', 'toctree', 'mermaid'}


def pages() -> list[Path]:
    """The pages of the book in reading order, each a notebook or a Markdown file."""
    return [p for page in toc() for p in (ROOT / f'{page}.ipynb', ROOT / f'{page}.md') if p.exists()]


def markdown(path: Path) -> str:
    """The prose of a page."""
    if path.suffix != '.ipynb':
        return path.read_text()
    return '\n\n'.join(c.source for c in read(path).cells if c.cell_type == 'markdown')


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs, headings, list items and table rows, without code and options."""
    text = re.sub(r'<!--.*?-->', '', text, flags=re.DOTALL)
    block: list[str] = []
    hidden: list[tuple[str, bool]] = []      # open fences: their marks, and whether they hide
    for raw in [*text.split('\n'), '']:
        line = raw.strip()
        fence = re.match(r'(`{3,}|~{3,}|:{3,})\s*(\{([\w-]+)\})?', line)
        ends = not line or fence or re.match(r'(#+ |[-*+] |\d+\. |\||>|:\w+:)', line)
        if ends and block:
            yield ' '.join(block)
            block = []
        if fence:
            if hidden and fence[1] == hidden[-1][0] and not fence[2]:
                hidden.pop()
            else:
                code = not fence[2] and fence[1][0] != ':'
                hidden.append((fence[1], code or fence[3] in NOT_PROSE))
        elif line and not any(h for _, h in hidden) and not re.match(r':[\w-]+:|\|[-:| ]+\|$|%', line):
            block.append(line)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page's prose."""
    for p in paragraphs(text):
        yield from re.split(r'(?<=[.!?])\s+(?=[A-Z`\[*(“"])', p)


def unclassified(text: str) -> list[str]:
    """Sentences about performance without a claim, a source, a question mark or "cost model"."""
    found = []
    for s in sentences(text):
        words = re.sub(r'`[^`]*`|\]\([^)]*\)', ' ', s)
        if PERFORMANCE.search(words) and not SOURCE.search(s) and not QUESTION.search(s):
            found.append(s)
    return found


@dataclass(frozen=True)
class Call:
    """A ``claim(…)`` call in a notebook."""

    id: str
    page: Path
    cell: int


def claimed(node: ast.AST, name: str = 'claim') -> str | None:
    """The id of the claim that a call makes, or asks for a guess at if ``name`` is ``'predict'``.

    Empty if it is no literal; None if the call is another one.
    """
    if not isinstance(node, ast.Call) or getattr(
            node.func, 'attr', getattr(node.func, 'id', '')) != name:
        return None
    return str(getattr(node.args[0], 'value', '')) if node.args else ''


def claim_calls(path: Path) -> list[Call]:
    """The claims that a notebook makes; an id that is not a literal counts as empty."""
    if path.suffix != '.ipynb':
        return []
    code = [c.source for c in read(path).cells if c.cell_type == 'code']
    return [Call(id, path, i) for i, source in enumerate(code, 1) for id in _claimed_in(source)]


@cache
def _claimed_in(source: str) -> list[str]:
    return [id for node in ast.walk(tree(source)) if (id := claimed(node)) is not None]


def links(path: Path) -> list[str]:
    """Ids of the claims that a page's sentences name."""
    return [m[2] for m in CLAIM_LINK.finditer(markdown(path))]
