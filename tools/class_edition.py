"""The edition for a class: a copy of the book without solutions.

Its pages show the stored outputs, and nothing is executed; ``tools/editions.py`` is the command.
"""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import nbformat
import yaml

from tools import markup, quotations, source
from tools.source import ROOT

COPIED = ('chapters', 'd2l_local', 'packages', 'tools', 'ledgers', 'tests/sanitize.cfg', '_config.yml',
          '_toc.yml', 'Makefile', 'pyproject.toml', 'requirements.txt', 'LICENSE',
          'LICENSE-text', '.gitignore')
LEFT_OUT = ('__pycache__', '.ipynb_checkpoints', '*_solutions_*', 'guesses.json*')
SOLUTION = re.compile(rf'^<details><summary>{markup.ANSWER}</summary>\n.*?^</details>\n+',
                      re.MULTILINE | re.DOTALL)        # in a page
LINK = re.compile(r'\[((?:[^\]`]|`[^`]*`)+)\]\(([^)\s]+)\)')
WITH = re.compile(r'^(\d+\. .*),\s+with\s+\[?solutions\b.*(?:\n[ ]+.*)*', re.MULTILINE)
BELOW = re.compile(r'\banswers? (folded )?below\b|\bfolded (answers|away below)\b|^Their solutions\b')
SAYS = '\n\nThis is the edition for a class: its exercises have no solutions.\n'
ABSENT = ('check', 'test', 'mutants', 'student')     # targets of make that need what is absent
README = '''# Computational Performance of Deep Learning: the edition for a class

The exercises of this edition have no solutions. Open `html/index.html` to read; its outputs are those
of another machine. With `make` and Python 3.11, or [uv](https://docs.astral.sh/uv/), which brings it,
you measure your own:

- `make book` installs into `.venv` (the first time about 2 GB), measures your machine topic by topic,
  and makes pages in `_build/html`. `make book TOPIC=asynchrony` measures one topic.
- `make lab` opens the notebooks in JupyterLab.
- `make exercises` writes notebooks with a stub for each exercise to `exercises/`, with a check of each
  answer. What is there is yours and never overwritten.
- What a reader has opened, solved and guessed in the pages stays in the browser, and nothing is sent
  anywhere; the page "How well do you guess?" saves it as a file, reads such a file, and erases it.
- `make epub` and `make pdf` make one file of the pages (the PDF needs Chromium or Chrome).
- `make clean` removes what was built; `make help` lists the other commands.

How the book is made and how to add to it is in the complete edition. Code: MIT, see [LICENSE](LICENSE).
Text and figures: Creative Commons Attribution 4.0, see [LICENSE-text](LICENSE-text).
'''


def solutions() -> list[Path]:
    """The notebooks that the edition for a class leaves out."""
    return [p for p in source.notebooks() if 'solutions' in p.stem]


def told(sentence: str) -> bool:
    """Whether a sentence says where solutions are."""
    if BELOW.search(sentence):
        return True
    leads_there = any('_solutions_' in to for _, to in LINK.findall(sentence))
    return leads_there and re.search(r'\bsolutions?\b', sentence) is not None


def without_solutions(text: str, claims: set[str]) -> str:
    """A page's text without its solutions, and without links to what is left out.

    Args:
        claims: those of the pages that are left out.
    """
    text = re.sub(rf'{markup.SOLUTION.pattern}\n*', '', text)
    text = SOLUTION.sub('', text)
    text = WITH.sub(r'\1', text)
    # A row of a table goes as a whole: without one of its sentences it would lack a cell.
    lines = [line for line in text.split('\n') if not (line.startswith('|') and told(line))]
    paragraphs = []
    for paragraph in '\n'.join(lines).split('\n\n'):
        sentences = re.split(r'(?<=[.?!])\s+(?=[A-Z`])', paragraph)
        public = [sentence for sentence in sentences if not told(sentence)]
        if public == sentences:
            paragraphs.append(paragraph)         # with its line breaks
        elif public:
            paragraphs.append(' '.join(public))

    def words_alone(link: re.Match) -> str:
        words, to = link.groups()
        id = to.rpartition('#')[2].partition(':')[0]
        leads_to_what_is_gone = '_solutions_' in to or id in claims
        return words if leads_to_what_is_gone else link[0]
    return LINK.sub(words_alone, '\n\n'.join(paragraphs))


def without_pages(node: object) -> object:
    """A table of contents without the pages of solutions."""
    if isinstance(node, dict):
        return {key: without_pages(value) for key, value in node.items()}
    if not isinstance(node, list):
        return node
    kept = []
    for entry in node:
        of_solutions = isinstance(entry, dict) and 'solutions' in entry.get('file', '')
        if not of_solutions:
            kept.append(without_pages(entry))
    return kept


def without_rows(table: str, claims: set[str]) -> str:
    """A table of claims without those of solutions, and without rows that tell what a solution says."""
    head, *rows = csv.reader(table.splitlines())
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(head)
    for row in rows:
        tells = re.search('solution|-sol-', ' '.join(row))
        if not tells and not claims.intersection(row):
            writer.writerow(row)
    return out.getvalue()


def of_the_book() -> list[Path]:
    """The files of the book that the edition for a class starts from, and nothing that lies beside them.

    Pages and notebooks are those of ``_toc.yml``.
    """
    listed = {ROOT / page for page in source.toc()}
    candidates: list[Path] = []
    for name in COPIED:
        path = ROOT / name
        candidates += path.rglob('*') if path.is_dir() else [path]
    found = []
    for path in candidates:
        is_page = path.suffix in ('.md', '.ipynb')
        if not path.is_file() or (is_page and path.with_suffix('') not in listed):
            continue
        if not any(left_out(part) for part in path.relative_to(ROOT).parts):
            found.append(path)
    return found


def left_out(name: str) -> bool:
    """Whether a file or a folder of this name belongs to no edition for a class."""
    return any(fnmatch(name, pattern) for pattern in LEFT_OUT)


def without_targets(makefile: str) -> str:
    """A Makefile without the targets that need what the edition has not, and without their help."""
    names = '|'.join(ABSENT)
    text = re.sub(rf'(?m)^(?:\t@echo "make (?:{names})\b|(?:{names}):).*\n', '', makefile)
    return re.sub(r'(?m)^[\w. ]+:(?!=).*', lambda rule: re.sub(rf' (?:{names})(?=[ :]|$)', '', rule[0]), text)


def make(to: Path) -> None:
    """Make a copy of the book that has no solutions: notebooks that run, and pages in ``html``."""
    claims = {c.id for p in solutions() for c in quotations.calls(p)}
    for path in of_the_book():
        copy = to / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    (to / 'README.md').write_text(README)
    (to / 'Makefile').write_text(without_targets((to / 'Makefile').read_text()))
    toc = to / '_toc.yml'
    toc.write_text(yaml.safe_dump(without_pages(yaml.safe_load(toc.read_text())), sort_keys=False))
    for path in to.rglob('chapters/**/*.md'):
        path.write_text(without_solutions(path.read_text(), claims))
    intro = to / 'chapters' / 'start' / 'intro.md'
    intro.write_text(intro.read_text().replace('\n\n', SAYS + '\n', 1))
    for path in to.rglob('*.ipynb'):
        nb = nbformat.read(path, as_version=4)
        for cell in nb.cells:
            if cell.cell_type == 'markdown':
                cell.source = without_solutions(cell.source, claims)
        nbformat.write(nb, path)
    for path in to.glob('ledgers/*.json'):
        ledger = json.loads(path.read_text())
        public = {id: record for id, record in ledger['claims'].items() if id not in claims}
        ledger['claims'] = public
        path.write_text(json.dumps(ledger, indent=1, ensure_ascii=False) + '\n')
    for path in to.glob('ledgers/*.csv'):
        path.write_text(without_rows(path.read_text(), claims))
    done = subprocess.run([sys.executable, '-m', 'tools.book', '--stored', '--to', str(to / 'html')],
                          cwd=to, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    shutil.rmtree(to / '_build')
