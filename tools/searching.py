"""What the search looks in: the sections, terms, exercises and results of the pages, each with its text.

It is written as a script that calls a function of ``search.js``, so that a browser loads it from a file too.
"""

import copy
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import bs4

from tools.markup import NUMBER

NAME = '_static/search-index.js'
ARTICLE = re.compile(r'<article\b.*</article>', re.DOTALL)     # what is a page's own; menus stand around it
# Most of an article are the marks of colours in its code, which would be parsed only to be taken out.
CODE = re.compile(r'<(pre|script|style)\b.*?</\1>', re.DOTALL)
# Of a page: what it draws around text, what a program reads or prints, and what stands in another entry.
NOT_TEXT = ('.headerlink, .cell_input, .cell_output, pre, script, style, img, .d2l-ledger, .d2l-predict, '
            '.d2l-mark, .d2l-run, .d2l-whose, .toggle-button, .live-figure')
Entry = tuple[int, str, str, str, str]      # page by number, anchor, kind, title, text


def read(html: Path, toc: list[str]) -> dict[str, bs4.Tag]:
    """The text of each page by its name, in the order of the book, without what is asked (:func:`hide`)."""
    return {name: parsed(ARTICLE.search((html / f'{name}.html').read_text())[0]) for name in toc}


@lru_cache(maxsize=500)
def parsed(article: str) -> bs4.Tag:
    """The text of one page. While the book is measured, most pages are the same when they are made again."""
    tag = bs4.BeautifulSoup(CODE.sub('', article), 'html.parser').article
    hide(tag)
    return tag


def description(article: bs4.Tag, most: int = 200) -> str:
    """What a page is about, for a list of results or beside a link: its first paragraph, ``most`` characters.

    It ends with a whole word, and with a whole sentence where one ends beyond the middle.
    """
    first = ''
    for paragraph in article.select('h1 ~ p, h1 ~ * p'):
        text = said(paragraph)
        if len(text) > 40 and not paragraph.find_parent(class_='admonition'):
            first = text
            break
    if len(first) <= most:
        return first
    part = first[:most]
    sentence = part.rfind('. ') + 1
    return part[:sentence] if sentence > most / 2 else part[:part.rfind(' ')] + ' …'


def index(articles: dict[str, bs4.Tag], results: list[dict], asked: set[str]) -> str:
    """The script: all pages with their titles, and their entries.

    Args:
        articles: the pages, see :func:`read`.
        results: of the ledger, each with its id, page and sentence.
        asked: ids of results that the book asks to guess; the search gives no number of them away.
    """
    pages, entries = [], []
    for number, (name, article) in enumerate(articles.items()):
        pages.append([name, said(article.h1)])
        entries += of_page(article, number)
    place = {name: number for number, name in enumerate(articles)}
    for result in results:
        sentence = NUMBER.sub('…', result['sentence']) if result['id'] in asked else result['sentence']
        entries.append((place[result['page']], result['id'], 'result', sentence, ''))
    data = json.dumps({'pages': pages, 'entries': entries}, ensure_ascii=False, separators=(',', ':'))
    return f'd2lSearch({data});\n'


def hide(article: bs4.Tag) -> None:
    """Take out what is no text of an article, and the numbers of results that are asked for."""
    for part in article.select(NOT_TEXT):
        part.decompose()
    for link in article.select('a.d2l-said[data-asked]'):
        link.string = NUMBER.sub('…', link.get_text())


def said(part: bs4.Tag) -> str:
    """The text of a part of a page, in one line."""
    words = re.sub(r'\s+', ' ', part.get_text(' '))
    return re.sub(r' (?=[,.;:)])|(?<=\() ', '', words).strip()


def of_page(article: bs4.Tag, page: int) -> Iterator[Entry]:
    """The entries of a page: terms, exercises, and then sections without those and without inner sections."""
    for term in article.select('dl.glossary > dt[id]'):
        yield page, term['id'], 'term', said(term), said(term.find_next_sibling('dd'))
    for exercise in article.select('.exercise.admonition[id]'):
        title = exercise.select_one('.admonition-title')
        words = re.sub(r'^Exercise \d+ \((?:\d+ · )?(.*)\)$', r'\1', said(title))
        text = f'{said(title).partition(" (")[0]}. {said(exercise).removeprefix(said(title)).strip()}'
        yield page, exercise['id'], 'exercise', words, text
    for section in article.select('section[id]'):
        heading = section.find(re.compile(r'^h[1-6]$'), recursive=False)
        if heading:
            own = copy.copy(section)
            for part in own.select('section, h1, h2, h3, h4, dl.glossary, .exercise.admonition'):
                part.extract()
            yield page, section['id'], 'section', said(heading), said(own)
