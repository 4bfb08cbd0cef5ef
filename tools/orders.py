"""Reading orders, with PyTorch, with MXNet and of all pages: *previous* and *next* in each."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from tools import source

ALL = 'all'
AREA = re.compile(r'<div class="prev-next-area">.*?</div>(?=\s*</footer>)', re.DOTALL)
HEADING = re.compile(r'<h1>((?:(?!</h1>).)*?)<a class="headerlink"', re.DOTALL)     # not its copy for print


def orders(toc: list[str]) -> dict[str, list[str]]:
    """The pages in each reading order: those of one framework and of none, and all.

    Args:
        toc: all pages in the order of the book.
    """
    def without(other: str) -> list[str]:
        return [page for page in toc if source.framework(Path(page)) != other]
    return {'pytorch': without('mxnet'), 'mxnet': without('pytorch'), ALL: toc}


def neighbours(page: str, order: Iterable[str], toc: list[str]) -> tuple[str, str]:
    """The pages before and after a page in an order, in which it need not be itself; '' if there is none."""
    here = toc.index(page)
    places = {name: toc.index(name) for name in order}
    before = [name for name, place in places.items() if place < here]
    after = [name for name, place in places.items() if place > here]
    return (before[-1] if before else ''), (after[0] if after else '')


def title(html: str) -> str:
    """The first heading of a page, as HTML without links."""
    return HEADING.search(html)[1].strip()


def footer(page: str, toc: list[str], titles: dict[str, str]) -> str:
    """The links to the previous and the next page.

    Where they differ between the orders, each order has its own, and ``framework.js`` shows those of the
    reader's; without it both frameworks' are there, with their names.

    Args:
        page: its name.
        toc: all pages in the order of the book.
        titles: by the page's name, as HTML.
    """
    found = {name: neighbours(page, order, toc) for name, order in orders(toc).items()}
    if len(set(found.values())) == 1:
        return area(page, *found[ALL], titles)
    names = {**source.FRAMEWORKS, ALL: 'all pages'}
    return '\n'.join(f'<div class="d2l-order" data-order="{name}"><p>With {names[name]}</p>'
                     f'{area(page, *found[name], titles)}</div>' for name in ('pytorch', 'mxnet', ALL))


def area(page: str, before: str, after: str, titles: dict[str, str]) -> str:
    """Two links as the theme has them."""
    def link(to: str, side: str, word: str) -> str:
        if not to:
            return ''
        href = posixpath.relpath(f'{to}.html', posixpath.dirname(page))
        info = (f'<div class="prev-next-info"><p class="prev-next-subtitle">{word}</p>'
                f'<p class="prev-next-title">{titles[to]}</p></div>')
        if side == 'left-prev':
            parts = f'<i class="fa-solid fa-angle-left"></i>{info}'
        else:
            parts = f'{info}<i class="fa-solid fa-angle-right"></i>'
        return f'<a class="{side}" href="{href}" title="{word} page">{parts}</a>'
    previous = link(before, 'left-prev', 'previous')
    following = link(after, 'right-next', 'next')
    return f'<div class="prev-next-area">{previous}{following}</div>'


def put(folder: Path, toc: list[str]) -> None:
    """Write the links of the reading orders into the pages of a build.

    Raises:
        ValueError: a page has no such links, so the theme has changed.
    """
    texts = {page: (folder / f'{page}.html').read_text() for page in toc}
    titles = {page: title(text) for page, text in texts.items()}
    for page, text in texts.items():
        links = footer(page, toc, titles)
        new, times = AREA.subn(lambda m, links=links: links, text)
        if times != 1:
            raise ValueError(f'{page}.html has no links to its neighbours: see what the theme writes now, '
                             'and mend AREA in tools/orders.py')
        (folder / f'{page}.html').write_text(new)
