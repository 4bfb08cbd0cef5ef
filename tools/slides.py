"""Slides for the lectures that the book names: a file for each, of what their notebooks mark.

    python -m tools.slides

They show the outputs that the pages show, and are written to ``_build/slides``. Nothing is executed, and
nothing in a file needs the network or another file. A mark is Jupyter's own, in a cell's metadata:

    {"slideshow": {"slide_type": "slide", "parts": ["## The roofline", "The two meet at"]}}

``slide`` begins a slide, ``fragment`` appears on it at the next key, and ``notes`` are for the lecturer.
Cells without a mark are left out. A cell of a page is often longer than a slide, so ``parts`` can name the
pieces of it that are shown, each by its beginning: of a text a sentence, a formula, a list, a table, or a
heading, which begins a slide of its own, as ``---`` does with the same one; of code what stands up to the
next empty line. With no part, only the outputs of code are shown.
"""

import base64
import mimetypes
import posixpath
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import bs4
import nbformat
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from tested_results import claims
from tested_results.files import put_whole
from tools import exercises, ledger_page, pages, quotations, runs, source, stubs
from tools.pages import BUILD, Book, Document
from tools.source import ROOT
from tools.theme import formulas

THEME = ROOT / 'tools' / 'theme'
LECTURES = ROOT / 'chapters' / 'start' / 'paths.md'
ROWS = re.compile(r'<a id="twelve-lectures"></a>\n.*?\n\|[-|]+\|\n((?:\|[^\n]*\n)+)', re.DOTALL)
LINK = re.compile(r'\[([^\]]+)\]\(([^)\s]+)\)')
HEADING = re.compile(r'(?m)^#+ .*')
FORMULA = re.compile(r'(`+).*?\1|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^$\n]+?)\$', re.DOTALL)
BLOCK = re.compile(r'[#|$!>-]|\d+\. |```')       # begins what is shown whole
SENTENCE_ENDS = re.compile(r'(?<=[.?!])\s+(?=[A-Z\[*`($-])|\n[ ]*- ')
NEXT = '---'                                     # a part that begins a slide below the same heading
CODE = re.compile(r'`([^`<>]+)`')
KINDS = ('slide', 'fragment', 'notes')
# Shown without their code, unless a mark names parts of it.
HIDDEN = {'hide-input', 'remove-input'}
FILE = '''<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>@font-face {{ font-family: "d2l math"; src: url("data:font/woff2;base64,{font}") format("woff2"); }}
{style}</style></head>
<body><main>
{slides}
</main><script>{script}</script></body></html>
'''


@dataclass(frozen=True)
class Lecture:
    """A lecture of the page that names them: a row of its table."""

    number: int
    ideas: str
    notebooks: list[Path]       # that run in front of the class
    exercise: str               # its label


@dataclass
class Slide:
    """What is shown at a time: a heading in Markdown, and cells with the kinds of their marks."""

    heading: str
    pieces: list[tuple[str, nbformat.NotebookNode]] = field(default_factory=list)


def lectures() -> list[Lecture]:
    """The lectures in their order."""
    found = []
    for row in ROWS.search(LECTURES.read_text())[1].splitlines():
        number, ideas, front, exercise = (cell.strip() for cell in row.strip('|').split('|'))
        files = [posixpath.normpath(f'chapters/start/{to}') for _, to in LINK.findall(front)]
        notebooks = [ROOT / file for file in files if file.endswith('.ipynb')]
        found.append(Lecture(int(re.match(r'\d+', number)[0]), LINK.sub(r'\1', ideas), notebooks,
                             LINK.search(exercise)[2].rpartition('#')[2]))
    return found


@cache
def all_exercises() -> dict[str, str]:
    """The exercises of all topics, as directives, by their labels."""
    found = {}
    for path in ROOT.glob('chapters/*/exercises.md'):
        for m in exercises.BLOCK.finditer(quotations.markdown(path)):
            found[m[2]] = m[1]
    return found


def exercise(label: str) -> str:
    """The text of an exercise, below its title."""
    first, _, text = all_exercises()[label].split('\n', 2)
    return f'## Exercise: {first.removeprefix("```{exercise} ")}\n\n{stubs.plain(text)}'


def mark(cell: nbformat.NotebookNode) -> dict:
    """A cell's mark; empty if it is on no slide.

    Raises:
        ValueError: the mark is of a kind that slides do not know.
    """
    found = cell.metadata.get('slideshow', {})
    kind = found.get('slide_type', 'skip')
    if kind == 'skip':
        return {}
    if kind not in KINDS:
        raise ValueError(f'the mark {kind!r} is none of {", ".join(KINDS)}, skip')
    return found


def part(text: str, beginning: str) -> str:
    """The piece of a cell's text that begins so.

    Raises:
        ValueError: no piece begins so, or several do.
    """
    if text.count(beginning) != 1:
        raise ValueError(f'{beginning!r} stands {text.count(beginning)} times in the cell; a part is named '
                         'by words with which it alone begins')
    rest = text[text.index(beginning):].split('\n\n')[0]
    if beginning.startswith('#'):
        return rest.split('\n')[0]
    return rest if BLOCK.match(rest) else SENTENCE_ENDS.split(rest)[0]


def code_part(code: str, beginning: str) -> str:
    """The lines of code from one that begins so to the next empty one.

    Raises:
        ValueError: no line begins so, or several do.
    """
    lines = code.split('\n')
    found = [i for i, line in enumerate(lines) if line.startswith(beginning)]
    if len(found) != 1:
        raise ValueError(f'{len(found)} lines of the cell begin with {beginning!r}; a part is named by the '
                         'words with which one line begins')
    return '\n'.join(lines[found[0]:]).split('\n\n')[0]


def shown(cell: nbformat.NotebookNode) -> list[tuple[str, nbformat.NotebookNode]]:
    """What slides show of a marked cell: code with its parts, or a cell for each slide that a text begins.

    Returns:
        Each with the heading of the slide that it begins, ``---`` for the one that is there, or nothing.

    Raises:
        ValueError: a part is not there.
    """
    parts = mark(cell).get('parts')
    if cell.cell_type == 'code':
        wanted = nbformat.from_dict(cell)
        if parts is not None:
            wanted.source = '\n\n'.join(code_part(cell.source, p) for p in parts)
            wanted.metadata['tags'] = [] if parts else ['remove-input']
        return [('', wanted)]
    if parts is None:
        return [('', nbformat.v4.new_markdown_cell(cell.source))]
    texts: list[tuple[str, list[str]]] = [('', [])]
    for beginning in parts:
        if beginning == NEXT:
            texts.append((NEXT, []))
        elif beginning.startswith('#'):
            texts.append((part(cell.source, beginning), []))
        else:
            texts[-1][1].append(part(cell.source, beginning))
    return [(heading, nbformat.v4.new_markdown_cell('\n\n'.join(pieces)))
            for heading, pieces in texts if heading or pieces]


def slides(path: Path, nb: nbformat.NotebookNode) -> list[Slide]:
    """The slides of a notebook.

    Raises:
        ValueError: a mark is wrong; it names the notebook and the cell.
    """
    made: list[Slide] = []
    heading = ''            # of the section
    for cell in nb.cells:
        headings = HEADING.findall(cell.source) if cell.cell_type == 'markdown' else []
        try:
            marked = mark(cell)
            pieces = shown(cell) if marked else []
        except ValueError as e:
            raise ValueError(f'{source.name(path)}, {cell.id}: {e}') from None
        if not heading and headings:
            heading = headings[0]
        kind = marked.get('slide_type')
        for begins, piece in pieces:
            heading = begins if begins.startswith('#') else heading
            if begins or kind == 'slide' or not made:
                made.append(Slide(heading))
                kind = 'notes' if kind == 'notes' else 'here'
            made[-1].pieces.append((kind, piece))
        heading = headings[-1] if headings else heading
    return made


def with_formulas(text: str) -> str:
    """Markdown with MathML in the place of its formulas."""
    def replace(m: re.Match) -> str:
        tex = m['block'] or m['inline']
        if tex is None:                 # code
            return m[0]
        math = formulas.mathml(tex.strip(), 'block' if m['block'] else 'inline')
        made = ElementTree.tostring(math, 'unicode')
        return made.replace('*', '&#42;').replace('_', '&#95;')         # or Markdown reads them
    return FORMULA.sub(replace, text)


def html(piece: nbformat.NotebookNode, path: Path, book: Book, exporter: HTMLExporter) -> str:
    """A cell as HTML, with the results that the pages show, and without links to other pages."""
    document = Document(path, nbformat.v4.new_notebook(cells=[piece]))
    for process in (pages.quote, pages.ask, pages.point_back, pages.split_off_questions):
        process(document, book)
    for cell in document.notebook.cells:
        if cell.cell_type == 'markdown':
            cell.source = with_formulas(cell.source)
        elif HIDDEN & set(cell.metadata.get('tags', [])):
            cell.source = ''
    for output, _ in pages.outputs(document.notebook, claims.METADATA_KEY):
        said = with_formulas(output.data['text/html'])
        output.data['text/html'] = CODE.sub(r'<code>\1</code>', said)
    body, _ = exporter.from_notebook_node(document.notebook)
    soup = bs4.BeautifulSoup(body, 'html.parser')
    for tag in soup.find_all('a'):
        tag.unwrap()
    # The exporter could do this as well, but it cuts MathML to pieces then.
    for tag in soup.select('img:not([src^="data:"])'):
        drawing = base64.b64encode((path.parent / tag['src']).read_bytes()).decode()
        tag['src'] = f'data:{mimetypes.guess_type(tag["src"])[0]};base64,{drawing}'
    for tag in soup.select('img[alt^="No description"]'):
        tag['alt'] = piece.metadata.get('mystnb', {}).get('image', {}).get('alt', '')
    for tag in soup.select('details.d2l-claim'):        # the line alone, without the card
        tag.ul.decompose()
        tag.summary.unwrap()
        tag.name = 'p'
    for tag in soup.select('.jp-Cell-inputWrapper, .input'):
        if not tag.get_text(strip=True) and not tag.find(['img', 'math']):
            tag.decompose()
    return str(soup)


def frames(lecture: Lecture, found: dict[Path, list[Slide]], book: Book) -> Iterator[str]:
    """The slides of a lecture as HTML: its title, those of its notebooks, and its exercise."""
    exporter = HTMLExporter(config=Config({'HTMLExporter': {
        'template_name': 'basic', 'exclude_anchor_links': True,
        'exclude_input_prompt': True, 'exclude_output_prompt': True}}))
    marked = [path for path in lecture.notebooks if found[path]]
    names = [ledger_page.page_name(path) for path in marked]
    titles = ', '.join(ledger_page.title(name) for name in names)
    heading = html(nbformat.v4.new_markdown_cell(f'# {titles}'), marked[0], book, exporter)
    yield (f'{heading}<p>Lecture {lecture.number}: {escape(lecture.ideas)}</p>'
           f'<p class="whose">{whose(names, book)}</p>')
    for path in marked:
        for slide in found[path]:
            frame = html(nbformat.v4.new_markdown_cell(slide.heading), path, book, exporter)
            for kind, piece in slide.pieces:
                tag = 'aside' if kind == 'notes' else 'div'
                made = html(piece, path, book, exporter)
                frame += f'<{tag} class="{kind}">{made}</{tag}>'
            yield frame
    yield html(nbformat.v4.new_markdown_cell(exercise(lecture.exercise)), marked[-1], book, exporter)


def whose(names: list[str], book: Book) -> str:
    """Which machine the numbers are from."""
    entries = [e for e in book.entries if e.page in names]
    where = escape(ledger_page.machines(entries))
    return (f'The numbers are those of a stored run on {where}.' if any(e.stored for e in entries) else
            f'The numbers were measured on this machine: {where}.')


def file(lecture: Lecture, found: dict[Path, list[Slide]], book: Book) -> str:
    """A lecture as one file of HTML."""
    style = (THEME / 'slides.css').read_text() + HtmlFormatter().get_style_defs('.highlight')
    made = '\n'.join(f'<section tabindex="-1">{frame}</section>' for frame in frames(lecture, found, book))
    return FILE.format(title=f'Lecture {lecture.number}', slides=made, style=style,
                       font=base64.b64encode((THEME / 'math.woff2').read_bytes()).decode(),
                       script=(THEME / 'slides.js').read_text())


def write(chosen: list[Lecture], to: Path) -> None:
    """Write the files of lectures into a folder."""
    notebooks = {path: runs.latest(path) for lecture in chosen for path in lecture.notebooks}
    shown = {path: nb for path, (nb, _) in notebooks.items()}
    book = Book.of(shown, {path for path, (_, here) in notebooks.items() if not here})
    found = {path: slides(path, nb) for path, nb in shown.items()}
    to.mkdir(parents=True, exist_ok=True)
    for lecture in chosen:
        put_whole(to / f'lecture-{lecture.number:02}.html', file(lecture, found, book))


def main() -> None:
    began = time.perf_counter()
    write(lectures(), BUILD / 'slides')
    print(f'{BUILD / "slides"}  {time.perf_counter() - began:.0f} s')


if __name__ == '__main__':
    main()
