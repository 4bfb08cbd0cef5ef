"""Cards of terms and of sources: a link to one shows what the glossary or the bibliography says of it.

They are put into the pages that Sphinx has written, from its own glossary and bibliography.
"""

import posixpath
import re
from html import escape
from urllib.parse import urljoin

import bs4

# A link to a term or to a source, as Sphinx writes it, up to the end of its address.
LINK = re.compile(r'<a class="reference internal" href="([^"]*#(term|cite)-[^"]*)"')
ADDRESS = re.compile(r'(?<= href=")[^"]*')
ELSEWHERE = re.compile(r'[a-z]+:')         # the start of a link that leads out of the book
LISTS = {'term': 'glossary', 'cite': 'bibliography'}
TERMS = '<dl class="simple glossary">'
TERM = re.compile(r'<dt id="(term-[^"]+)">\s*([A-Za-z])')


def entries(articles: dict[str, bs4.Tag]) -> dict[str, str]:
    """What is said of each term and of each source, as HTML, by its address from the root of the pages.

    Args:
        articles: the text of each page, by its name.
    """
    found = {}
    for page, article in articles.items():
        for term in article.select('dl.glossary > dt[id]'):
            definition = term.find_next_sibling('dd').p
            found[f'{page}.html#{term["id"]}'] = (
                f'<b>{term.decode_contents()}</b><span>{definition.decode_contents()}</span>')
        for source in article.select('div.citation[id]'):
            found[f'{page}.html#{source["id"]}'] = f'<span>{source.p.decode_contents()}</span>'
    return found


def with_cards(html: str, page: str, known: dict[str, str]) -> str:
    """A page whose links to terms and sources have cards for ``card.js``.

    The first link to an entry has the text of its card, and later ones have an empty one.

    Args:
        page: the file of the page, from the root.
        known: see :func:`entries`.
    """
    shown: set[str] = set()

    def add(m: re.Match) -> str:
        link, href, kind = m[0], m[1], m[2]
        address = urljoin(page, href)
        if address not in known:
            return link
        card = ''
        if address not in shown:
            shown.add(address)
            said = moved(known[address], address, page)
            card = f'{said}<span><a href="{href}">To the {LISTS[kind]}</a></span>'
        return f'{link} data-card="{escape(card)}"'

    return LINK.sub(add, html)


def with_letters(html: str) -> str:
    """A page with a row of letters above its glossary, if it has one: each leads to its first term."""
    if TERMS not in html:
        return html
    first: dict[str, str] = {}
    for address, letter in TERM.findall(html):
        first.setdefault(letter.upper(), address)
    links = ' '.join(f'<a href="#{address}">{letter}</a>' for letter, address in first.items())
    row = f'<nav class="d2l-letters" aria-label="Terms by their first letter">{links}</nav>'
    return html.replace(TERMS, row + TERMS)


def moved(html: str, place: str, page: str) -> str:
    """A part of one page as another one shows it: its links lead to where they led.

    Args:
        place: where it stands, from the root.
        page: the file that shows it, from the root.
    """
    def address(m: re.Match) -> str:
        to = urljoin(place, m[0])
        return to if ELSEWHERE.match(to) else posixpath.relpath(to, posixpath.dirname(page))

    return ADDRESS.sub(address, html)
