"""The bibliography in plain Markdown, for every editor; a page has the list that Sphinx makes in its place.

    python -m tools.bibliography      write the lists of the page anew, after a change of references.bib
"""

import re
from functools import cache

from pybtex.backends.markdown import Backend
from pybtex.database import BibliographyData, parse_file
from pybtex.style.formatting.plain import Style

from tools.source import ROOT, put_whole

SOURCES = ROOT / 'chapters' / 'reference' / 'references.bib'
PAGE = ROOT / 'chapters' / 'reference' / 'bibliography.md'
# A list of the entries of some types, from one comment to the next.
LIST = re.compile(r'(<!-- entries: ([\w ]+) -->\n).*?(<!-- end of entries -->)', re.DOTALL)


@cache
def known() -> BibliographyData:
    return parse_file(SOURCES)


def entries(types: list[str]) -> str:
    """The entries of these types, an item each, with the anchor that links from other pages lead to."""
    some = BibliographyData({key: entry for key, entry in known().entries.items() if entry.type in types})
    items = []
    for entry in Style().format_bibliography(some):
        text = entry.text.render(Backend()).replace('\n', ' ')
        text = re.sub(r'\\([.\-])', r'\1', text)         # full stops and hyphens need no escape within a line
        items.append(f'- <a id="{entry.key}"></a>{text}\n')
    return ''.join(items)


def written(page: str) -> str:
    """The text of the page with its lists as the entries are now."""
    return LIST.sub(lambda m: f'{m[1]}\n{entries(m[2].split())}\n{m[3]}', page)


def for_sphinx(page: str) -> str:
    """The text of the page with directives in the place of its lists: Sphinx gives each entry its label."""
    def directive(m: re.Match) -> str:
        types = '|'.join(m[2].split())
        return f'```{{bibliography}}\n:filter: type % "^({types})$"\n```'
    return LIST.sub(directive, page)


if __name__ == '__main__':
    put_whole(PAGE, written(PAGE.read_text()))
