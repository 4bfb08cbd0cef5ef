"""The book as one file: an EPUB, made by Sphinx, and a PDF, which a browser prints of it.

Both show the stored outputs, and nothing is executed; ``tools/editions.py`` is the command.
"""

import os
import posixpath
import re
import shutil
import subprocess
import sys
import zipfile
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import bs4
import nbformat
import yaml

from tools import pages, source
from tools.entries import ELSEWHERE
from tools.source import ROOT

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome', 'chrome', 'microsoft-edge')
COLOURED = ('k', 'c', 's')         # how Pygments' classes of keywords, comments and strings begin


def place(link: str, page: str) -> str:
    """The name of the file that a link of a page leads to, from the root; empty for the same page."""
    file = link.partition('#')[0]
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), file)) if file else ''


def tidy(page: str, name: str, files: set[str]) -> str:
    """A page as the standard of EPUB wants it: well-formed, no script, all links inside the file.

    Answers that a script folds away in a browser are folded without it.

    Args:
        name: of the page, from the root.
        files: the names of all files of the EPUB.
    """
    soup = bs4.BeautifulSoup(page, 'html.parser')
    for tag in soup(['script', 'noscript', 'button']):
        tag.decompose()
    for tag in soup.find_all(href=True):
        if ELSEWHERE.match(tag['href']):
            continue
        tag['href'] = re.sub(r'\.html(?=#|$)', '.xhtml', tag['href'])
        target = place(tag['href'], name)
        if not target or target in files:
            continue
        if tag.name == 'link':
            tag.decompose()
        else:
            tag.unwrap()
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
    for answer in soup.select('.solution.dropdown'):
        answer.name = 'details'
        answer.select_one('.admonition-title').name = 'summary'
    soup.head.append(soup.new_tag('style', string='pre { white-space: pre-wrap; }'))
    return str(soup)


def epub(to: Path) -> None:
    """Make ``book.epub``, by Sphinx, and tidied up where its extensions know pages in a browser only."""
    copied = to / 'source'
    paths = source.notebooks()
    pages.prepare({path: nbformat.read(path, as_version=4) for path in paths}, set(paths), copied)
    configure_for_epub(copied)
    pages.jupyter_book(copied, '--builder', 'custom', '--custom-builder', 'epub')
    with zipfile.ZipFile(copied / '_build' / 'epub' / 'book.epub') as book:
        parts = {name: book.read(name) for name in book.namelist()}
    for name in list(parts):
        if name.endswith('.xhtml') and name != 'nav.xhtml':
            parts[name] = tidy(parts[name].decode(), name, set(parts)).encode()
            if b'<math' in parts[name]:         # which the file's list of contents must say
                entry = f'href="{name}" media-type="application/xhtml+xml"'.encode()
                with_math = entry + b' properties="mathml"'
                parts['content.opf'] = parts['content.opf'].replace(entry, with_math)
    with zipfile.ZipFile(to / 'book.epub', 'w', zipfile.ZIP_DEFLATED) as book:
        for name, data in parts.items():
            # The standard wants the type of the file as plain bytes at its start.
            stored_as_it_is = zipfile.ZIP_STORED if name == 'mimetype' else None
            book.writestr(name, data, stored_as_it_is)
    shutil.rmtree(copied)


def configure_for_epub(copied: Path) -> None:
    """Change a source tree of the pages into one of an EPUB."""
    config_file = copied / '_config.yml'
    config = yaml.safe_load(config_file.read_text())
    config['sphinx']['config'] |= {
        'project': config['title'], 'version': date.today().isoformat(), 'language': 'en',
        'epub_basename': 'book', 'epub_show_urls': 'no', 'epub_tocscope': 'includehidden',
        'html_js_files': []}
    config_file.write_text(yaml.safe_dump(config))
    # Sphinx's EPUB takes the addresses of all pages from the first one's folder, so that one is at the top.
    toc_file = copied / '_toc.yml'
    toc = yaml.safe_load(toc_file.read_text())
    toc['parts'][0]['chapters'].insert(0, {'file': toc['root']})
    toc['root'] = 'title'
    toc_file.write_text(yaml.safe_dump(toc, sort_keys=False))
    (copied / 'title.md').write_text(f'# {config["title"]}\n')


def one_page(folder: Path) -> str:
    """All pages of an unpacked EPUB as one, in reading order; the name of a page goes before its ids."""
    package = ElementTree.parse(folder / 'content.opf')
    files = {item.get('id'): item.get('href') for item in package.iterfind('.//{*}item')}
    contents = []
    bodies = []
    for reference in package.iterfind('.//{*}itemref'):
        name = files[reference.get('idref')]
        if name in ('title.xhtml', 'genindex.xhtml', 'nav.xhtml'):
            continue
        soup = bs4.BeautifulSoup((folder / name).read_text(), 'html.parser')
        address_in_one_page(soup, name)
        without_most_colours(soup)
        here = name.split('.')[0]
        contents.append(f'<li><a href="#{here}">{soup.h1.get_text()}</a></li>')
        bodies.append(f'<article id="{here}">{soup.find(class_="body")}</article>')
    sheets = [f'<link rel="stylesheet" href="_static/{name}.css"/>' for name in ('pygments', 'd2l', 'live')]
    style = (ROOT / 'tools' / 'theme' / 'print.css').read_text()
    title = package.find('.//{*}title').text
    return (f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><title>{title}</title>'
            f'{"".join(sheets)}<style>{style}</style></head><body><h1>{title}</h1>'
            f'<nav><ol>{"".join(contents)}</ol></nav>{"".join(bodies)}</body></html>')


def address_in_one_page(soup: bs4.BeautifulSoup, name: str) -> None:
    """Give the ids, links and images of a page addresses that hold where all pages are one."""
    here = name.split('.')[0]
    for tag in soup.find_all(id=True):
        tag['id'] = f'{here}--{tag["id"]}'
    for tag in soup.find_all('a', href=True):
        if ELSEWHERE.match(tag['href']):
            continue
        page = (place(tag['href'], name) or name).split('.')[0]
        anchor = tag['href'].partition('#')[2]
        tag['href'] = f'#{page}--{anchor}' if anchor else f'#{page}'
    for tag in soup.find_all('img'):
        tag['src'] = place(tag['src'], name)


def without_most_colours(soup: bs4.BeautifulSoup) -> None:
    """Keep, in code, the colours of keywords, comments and strings.

    Each colour is an element of its own for readers of tags: with all, the PDF would be twice as large.
    """
    for tag in soup.select('pre span'):
        kind = ' '.join(tag.get('class', []))
        if not kind.startswith(COLOURED):
            tag.unwrap()


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
    program = browser()
    # Without tags there is no outline either.
    flags = ['--headless=new', '--disable-gpu', '--no-pdf-header-footer', '--export-tagged-pdf',
             '--generate-pdf-document-outline', f'--user-data-dir={page.parent / "profile"}']
    if hasattr(os, 'geteuid') and os.geteuid() == 0:
        flags.append('--no-sandbox')            # Chromium's sandbox is not for this user
    done = subprocess.run([program, *flags, f'--print-to-pdf={to}', page.as_uri()],
                          capture_output=True, text=True)
    if not to.exists():
        sys.exit(f'{done.stderr}\n{program} printed nothing; see above.')


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
