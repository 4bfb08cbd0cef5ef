"""Other editions of the book: without solutions for a class, and as one file for a reader.

    python -m tools.student student | epub | pdf

All are made from the stored outputs, into ``_build``. Nothing is executed.
"""

import csv
import io
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

import bs4
import nbformat
import yaml

from tools import markup, pages, quotations, source
from tools.source import ROOT

COPIED = ('chapters', 'd2l_local', 'packages', 'tools', 'ledgers', 'tests/sanitize.cfg', '_config.yml',
          '_toc.yml', 'Makefile', 'pyproject.toml', 'requirements.txt', 'LICENSE',
          'LICENSE-text', '.gitignore')
BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'chrome', 'microsoft-edge')
COLOURED = 'kcs'         # in the PDF: keywords, comments and strings, as classes of Pygments begin
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


# The edition for a class.

def solutions() -> list[Path]:
    """The notebooks that the edition for a class leaves out."""
    return [p for p in source.notebooks() if 'solutions' in p.stem]


def told(sentence: str) -> bool:
    """Whether a sentence says where solutions are."""
    return bool(BELOW.search(sentence) or re.search(r'\bsolutions?\b', sentence)
                and any('_solutions_' in to for _, to in LINK.findall(sentence)))


def without_solutions(text: str, claims: set[str]) -> str:
    """A page's text without its solutions, and without links to what is left out.

    Args:
        claims: those of the pages that are left out.
    """
    text = WITH.sub(r'\1', SOLUTION.sub('', re.sub(rf'{markup.SOLUTION.pattern}\n*', '', text)))
    # A row of a table goes as a whole: without one of its sentences it would lack a cell.
    text = '\n'.join(line for line in text.split('\n') if not (line.startswith('|') and told(line)))
    parts = [re.split(r'(?<=[.?!])\s+(?=[A-Z`])', p) for p in text.split('\n\n')]
    kept = [p if not any(map(told, p)) else [s for s in p if not told(s)] for p in parts]
    text = '\n\n'.join(' '.join(p) if p != old else raw for p, old, raw in
                       zip(kept, parts, text.split('\n\n'), strict=True) if p)
    def replace(m: re.Match) -> str:
        id = m[2].rpartition('#')[2].partition(':')[0]
        return m[1] if '_solutions_' in m[2] or id in claims else m[0]
    return LINK.sub(replace, text)


def without_pages(node: object) -> object:
    """A table of contents without the pages of solutions."""
    if isinstance(node, dict):
        return {k: without_pages(v) for k, v in node.items()}
    if isinstance(node, list):
        return [without_pages(x) for x in node if not (isinstance(x, dict)
                                                        and 'solutions' in x.get('file', ''))]
    return node


def without_rows(table: str, claims: set[str]) -> str:
    """A table of claims without those of solutions, and without rows that tell what a solution says."""
    head, *rows = csv.reader(table.splitlines())
    out = io.StringIO()
    csv.writer(out, lineterminator='\n').writerows(
        [head, *(r for r in rows
                 if not set(r) & claims and not re.search('solution|-sol-', ' '.join(r)))])
    return out.getvalue()


def of_the_book() -> list[Path]:
    """The files of the book that the edition for a class starts from, and nothing that lies beside them.

    Pages and notebooks are those of ``_toc.yml``.
    """
    listed = {ROOT / page for page in source.toc()}
    found: list[Path] = []
    for path in (ROOT / name for name in COPIED):
        found += path.rglob('*') if path.is_dir() else [path]
    return [p for p in found if p.is_file() and (p.suffix not in ('.md', '.ipynb')
                                                 or p.with_suffix('') in listed)
            and not any(fnmatch(part, pattern) for part in p.relative_to(ROOT).parts
                        for pattern in LEFT_OUT)]


def without_targets(makefile: str) -> str:
    """A Makefile without the targets that need what the edition has not, and without their help."""
    names = '|'.join(ABSENT)
    text = re.sub(rf'(?m)^(?:\t@echo "make (?:{names})\b|(?:{names}):).*\n', '', makefile)
    return re.sub(r'(?m)^[\w. ]+:(?!=).*', lambda rule: re.sub(rf' (?:{names})(?=[ :]|$)', '', rule[0]), text)


def student(to: Path) -> None:
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
        ledger['claims'] = {id: c for id, c in ledger['claims'].items() if id not in claims}
        path.write_text(json.dumps(ledger, indent=1, ensure_ascii=False) + '\n')
    for path in to.glob('ledgers/*.csv'):
        path.write_text(without_rows(path.read_text(), claims))
    done = subprocess.run([sys.executable, '-m', 'tools.book', '--stored', '--to', str(to / 'html')],
                          cwd=to, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    shutil.rmtree(to / '_build')


# The editions for a reader: one file each.

def tidy(page: str, name: str, files: set[str]) -> str:
    """A page as the standard of EPUB wants it: well-formed, no script, all links inside the file."""
    soup = bs4.BeautifulSoup(page, 'html.parser')
    for tag in soup(['script', 'noscript', 'button']):
        tag.decompose()
    folder = posixpath.dirname(name)
    for tag in soup.find_all(href=True):
        if re.match(r'[a-z]+:', tag['href']):
            continue
        tag['href'] = re.sub(r'\.html(?=#|$)', '.xhtml', tag['href'])
        file = tag['href'].partition('#')[0]
        if file and posixpath.normpath(posixpath.join(folder, file)) not in files:
            tag.decompose() if tag.name == 'link' else tag.unwrap()
    seen: set[str] = set()
    for tag in soup.find_all(id=True):
        if tag['id'] in seen:
            del tag['id']
        else:
            seen.add(tag['id'])
    for tag in soup.find_all(role=True):
        del tag['role']
    for tag in soup.select('span p, a p, small p, summary p'):
        tag.name = 'span'
    soup.head.append(soup.new_tag('style', string='pre { white-space: pre-wrap; }'))
    return str(soup)


def epub(to: Path) -> None:
    """Make ``book.epub``, by Sphinx, and tidied up where its extensions know pages in a browser only."""
    copied, paths = to / 'source', source.notebooks()
    pages.prepare({p: nbformat.read(p, as_version=4) for p in paths}, set(paths), copied)
    config = yaml.safe_load((copied / '_config.yml').read_text())
    config['sphinx']['config'] |= {
        'project': config['title'], 'version': date.today().isoformat(), 'language': 'en',
        'epub_basename': 'book', 'epub_show_urls': 'no', 'epub_tocscope': 'includehidden',
        'html_js_files': []}
    (copied / '_config.yml').write_text(yaml.safe_dump(config))
    # Sphinx's EPUB takes the addresses of all pages from the first one's folder, so that one is at the top.
    toc = yaml.safe_load((copied / '_toc.yml').read_text())
    toc['parts'][0]['chapters'].insert(0, {'file': toc['root']})
    (copied / '_toc.yml').write_text(yaml.safe_dump(toc | {'root': 'title'}, sort_keys=False))
    (copied / 'title.md').write_text(f'# {config["title"]}\n')
    pages.jupyter_book(copied, '--builder', 'custom', '--custom-builder', 'epub')
    with (zipfile.ZipFile(copied / '_build' / 'epub' / 'book.epub') as old,
          zipfile.ZipFile(to / 'book.epub', 'w', zipfile.ZIP_DEFLATED) as new):
        parts = {name: old.read(name) for name in old.namelist()}
        for name in [n for n in parts if n.endswith('.xhtml') and n != 'nav.xhtml']:
            parts[name] = tidy(parts[name].decode(), name, set(parts)).encode()
            if b'<math' in parts[name]:         # which the file's list of contents must say
                entry = f'href="{name}" media-type="application/xhtml+xml"'.encode()
                parts['content.opf'] = parts['content.opf'].replace(
                    entry, entry + b' properties="mathml"')
        for name, data in parts.items():
            new.writestr(name, data, zipfile.ZIP_STORED if name == 'mimetype' else None)
    shutil.rmtree(copied)


def one_page(folder: Path) -> str:
    """All pages of an unpacked EPUB as one, in reading order; the name of a page goes before its ids."""
    package = ElementTree.parse(folder / 'content.opf')
    files = {item.get('id'): item.get('href') for item in package.iterfind('.//{*}item')}
    order = [files[ref.get('idref')] for ref in package.iterfind('.//{*}itemref')]
    order = [name for name in order if name not in ('title.xhtml', 'genindex.xhtml', 'nav.xhtml')]
    contents, bodies = [], []
    for name in order:
        soup, here = bs4.BeautifulSoup((folder / name).read_text(), 'html.parser'), name.split('.')[0]
        for tag in soup.find_all(id=True):
            tag['id'] = f'{here}--{tag["id"]}'
        for tag in soup.find_all('a', href=True):
            if not re.match(r'[a-z]+:', tag['href']):
                file, _, anchor = tag['href'].partition('#')
                to = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
                tag['href'] = f'#{to.split(".")[0]}' + (f'--{anchor}' if anchor else '')
        for tag in soup.find_all('img'):
            tag['src'] = posixpath.normpath(posixpath.join(posixpath.dirname(name), tag['src']))
        # Each colour is an element of its own for readers of tags: the file would be twice as large.
        for tag in soup.select('pre span'):
            if (tag.get('class') or ' ')[0][0] not in COLOURED:
                tag.unwrap()
        contents.append(f'<li><a href="#{here}">{soup.h1.get_text()}</a></li>')
        bodies.append(f'<article id="{here}">{soup.find(class_="body")}</article>')
    sheets = [f'<link rel="stylesheet" href="_static/{name}.css"/>' for name in ('pygments', 'd2l', 'live')]
    style = (ROOT / 'tools' / 'theme' / 'print.css').read_text()
    title = package.find('.//{*}title').text
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><title>{title}</title>'
            f'{"".join(sheets)}<style>{style}</style></head><body><h1>{title}</h1>'
            f'<nav><ol>{"".join(contents)}</ol></nav>{"".join(bodies)}</body></html>')


def browser() -> str:
    """The browser that prints.

    Raises:
        SystemExit: there is none.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not found:
        sys.exit('The PDF is printed by Chromium or Chrome, and there is none here: install the package '
                 'chromium, or read the EPUB (make epub).')
    return found


def printed(page: Path, to: Path) -> None:
    """Print a page of HTML: a PDF with an outline of its headings, and tags.

    Raises:
        SystemExit: there is no browser, or it printed nothing.
    """
    # Without tags there is no outline either.
    flags = ['--headless=new', '--disable-gpu', '--no-pdf-header-footer', '--export-tagged-pdf',
             '--generate-pdf-document-outline', f'--user-data-dir={page.parent / "profile"}']
    if hasattr(os, 'geteuid') and os.geteuid() == 0:
        flags.append('--no-sandbox')            # Chromium's sandbox is not for this user
    done = subprocess.run([browser(), *flags, f'--print-to-pdf={to}', page.as_uri()],
                          capture_output=True, text=True)
    if not to.exists():
        sys.exit(f'{done.stderr}\n{browser()} printed nothing; see above.')


def pdf(to: Path) -> None:
    """Make ``book.pdf`` of the pages of the EPUB, by a browser that prints."""
    browser()               # before minutes of work
    epub(to)
    folder = to / 'unpacked'
    with zipfile.ZipFile(to / 'book.epub') as book:
        book.extractall(folder)
    (folder / 'book.html').write_text(one_page(folder))
    printed(folder / 'book.html', to / 'book.pdf')
    (to / 'book.epub').unlink()
    shutil.rmtree(folder)


EDITIONS = {'student': student, 'epub': epub, 'pdf': pdf}


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in EDITIONS:
        sys.exit(f'There are these editions: {", ".join(EDITIONS)}')
    name = sys.argv[1]
    pages.BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=pages.BUILD) as folder:
        made, to = Path(folder) / name, pages.BUILD / name
        EDITIONS[name](made)
        shutil.rmtree(to, ignore_errors=True)
        made.rename(to)
    print(to)


if __name__ == '__main__':
    main()
