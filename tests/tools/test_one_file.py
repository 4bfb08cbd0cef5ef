"""The book as one file: the EPUB keeps the standard, and its pages fit together."""

import posixpath
import re
import shutil
import zipfile
from html import unescape
from xml.etree import ElementTree

import bs4
import pytest

from tools import one_file, source
from tools.source import ROOT


@pytest.fixture(scope='module')
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp('epub')
    one_file.epub(folder)
    with zipfile.ZipFile(folder / 'book.epub') as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.slow
def test_the_epub_has_every_page_well_formed_and_linked(book):
    assert next(iter(book)) == 'mimetype'
    assert {f'{p}.xhtml' for p in source.toc()} <= set(book)
    found = {n: ElementTree.fromstring(data) for n, data in book.items() if n.endswith('.xhtml')}
    ids = {n: {e.get('id') for e in page.iter()} for n, page in found.items()}
    for name, page in found.items():
        assert not list(page.iterfind('.//{*}script')), name
        for link in page.iterfind('.//{*}a[@href]'):
            if not re.match(r'[a-z]+:', link.get('href')):
                file, _, anchor = link.get('href').partition('#')
                to = posixpath.normpath(posixpath.join(posixpath.dirname(name), file)) if file else name
                assert to in book and (not anchor or anchor in ids[to]), (name, link.get('href'))
        assert all(image.get('alt') for image in page.iterfind('.//{*}img')), name
    assert sum(len(list(page.iterfind('.//{*}math'))) for page in found.values()) > 200


def test_answers_are_folded_without_a_script():
    page = ('<html><head></head><body><div class="solution dropdown admonition" id="s">'
            '<p class="admonition-title">Solution to<a href="#e"> Exercise 1</a></p><p>Secret</p></div>'
            '<div class="solution admonition"><p class="admonition-title">Solution</p></div></body></html>')
    made = bs4.BeautifulSoup(one_file.tidy(page, 'page.xhtml', {'page.xhtml'}), 'html.parser')
    folded, = made('details')
    assert folded['id'] == 's' and folded.summary.text == 'Solution to Exercise 1'
    assert folded.find(recursive=False) is folded.summary and folded.p.text == 'Secret'
    assert not folded.has_attr('open') and made.div['class'] == ['solution', 'admonition']


@pytest.mark.slow
def test_one_page_for_the_printer(book, tmp_path):
    for name, data in book.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    page = one_file.one_page(tmp_path)          # of several megabytes, for which a parser needs a minute
    ids = re.findall(r'<[^<>]*\sid="([^"]*)"', page)
    assert len(ids) == len(set(ids)) > 2000
    contents = re.findall(r'<li><a href="#[^"]*">([^<]*)</a></li>', page.partition('</nav>')[0])
    assert len(contents) == len(source.toc())
    title = re.search('<title>(.*?)</title>', page)[1]
    assert contents.count(title) == 1 and '<details open' not in page
    answers = re.findall(r'<(\w+) class="solution dropdown', page)
    assert set(answers) == {'details'} and len(answers) > 40
    links = re.findall(r'<a [^<>]*href="#([^"]*)"', page)
    assert len(links) > 1000 and set(map(unescape, links)) <= set(map(unescape, ids))
    images = re.findall(r'<img [^<>]*src="([^"]*)"', page)
    assert len(images) > 50 and all((tmp_path / image).exists() for image in images)


@pytest.mark.slow
def test_what_is_printed_has_an_outline_and_tags(tmp_path):
    if not any(map(shutil.which, one_file.BROWSERS)):
        pytest.skip('needs Chromium')
    style = (ROOT / 'tools' / 'theme' / 'print.css').read_text()
    lines = '\n'.join(f'line {i}' for i in range(100))
    (tmp_path / 'page.html').write_text(
        f'<html lang="en"><title>T</title><style>{style}</style><h1>One</h1><p>Text</p><h2>Two</h2>'
        f'<details><summary>folded</summary><p>Secret</p></details><pre>{lines}</pre></html>')
    one_file.printed(tmp_path / 'page.html', tmp_path / 'page.pdf')
    data = (tmp_path / 'page.pdf').read_bytes()
    assert b'/Outlines' in data and b'/Title (Two)' in data
    assert re.search(rb'/MarkInfo\s*<<[^>]*/Marked true\b', data)
    # Each page is more than half full: code of 100 lines does not begin on a new one.
    assert len(re.findall(rb'/Type\s*/Page\b', data)) == 2


def test_a_pdf_needs_a_browser(monkeypatch, tmp_path):
    monkeypatch.setattr(one_file.shutil, 'which', lambda name: None)
    with pytest.raises(SystemExit, match='install the package chromium'):
        one_file.pdf(tmp_path)
    assert not list(tmp_path.iterdir())
