"""The text of the book: its sources, and the results that it quotes."""

import re

import pytest
from pybtex.database import parse_file

from tested_results.quoting import rendered
from tools import bibliography, ledger, quotations, source
from tools.source import ROOT

# Kinds of hosts that are no source: encyclopaedias that anyone edits, magazines, shops, forums, mirrors.
WEAK_HOSTS = re.compile(r'\]\((https?://(?:[\w-]+\.)*(?:wikipedia|anandtech|tomshardware|techpowerup|tweaktown|'
                        r'csdn|pcper|pcguide|eweek|storagereview|geektopia|sysrqmts|easymanua|manualspro|ques10|'
                        r'inkl|vdocuments|scribd|medium|reddit|stackoverflow|stackexchange|quora|euno|arxivlens|'
                        r'kingston|chipsandcheese|numberworld)'
                        r'\.[a-z.]+/[^)]*)\)')


@pytest.mark.parametrize('path', [*source.pages(), ROOT / 'README.md'], ids=lambda p: p.name)
def test_sources_are_primary(path):
    """The paper, the standard, the vendor or the project itself."""
    assert WEAK_HOSTS.findall(quotations.markdown(path)) == []


def test_a_weak_source_is_caught():
    said = 'It [is so](https://en.wikipedia.org/wiki/X), [says the paper](https://arxiv.org/abs/1).'
    assert WEAK_HOSTS.findall(said) == ['https://en.wikipedia.org/wiki/X']


def test_the_list_of_sources_is_what_the_entries_say():
    """Whoever changes an entry runs ``python -m tools.bibliography``."""
    text = bibliography.PAGE.read_text()
    assert text == bibliography.written(text)
    anchors = re.findall(r'<a id="([^"]+)">', text)
    assert len(anchors) == len(set(anchors)) and set(anchors) == set(bibliography.known().entries)
    page = bibliography.for_sphinx(text)
    assert '<a id=' not in page and page.count('```{bibliography}\n:filter: type % "^(') == 2


def test_the_bibliography_has_what_pages_cite_and_nothing_else():
    entries = parse_file(ROOT / 'chapters' / 'reference' / 'references.bib').entries
    cited = {key for p in source.pages() for key in re.findall(r'\{cite\}`([^`]+)`', quotations.markdown(p))}
    assert cited == set(entries)
    for key, entry in entries.items():
        assert entry.persons.get('author') and entry.fields['title'], key
        assert {'url', 'doi', 'eprint'} & set(entry.fields), key
        assert not WEAK_HOSTS.findall(f"[]({entry.fields.get('url', '')}/)"), key


def test_every_result_of_the_book_has_a_sentence():
    assert not [c.id for p in source.pages() for c in quotations.calls(p) if not quotations.sentence_of(c.id)]


def test_the_stored_results_stand_in_the_text():
    """Nothing would change if the numbers of the stored run were put in again."""
    stored = ledger.quotable(source.notebooks())
    assert quotations.problems(stored) == []
    for link in (ln for p in source.pages() for ln in quotations.links(p)):
        once = rendered(link.words, stored[link.id], link.part)
        assert rendered(once, stored[link.id], link.part) == once == link.words
