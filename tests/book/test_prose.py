"""Every sentence about performance names what answers for it."""

import re

import pytest
from pybtex.database import parse_file

from tools import prose
from tools.notebooks import ROOT


@pytest.mark.parametrize('path', [*prose.pages(), ROOT / 'README.md'], ids=lambda p: p.name)
def test_no_unclassified_sentence(path):
    assert prose.unclassified(prose.markdown(path)) == []


@pytest.mark.parametrize('path', [*prose.pages(), ROOT / 'README.md'], ids=lambda p: p.name)
def test_sources_are_primary(path):
    """The paper, the standard, the vendor or the project itself."""
    assert prose.WEAK_HOSTS.findall(prose.markdown(path)) == []


def test_a_weak_source_is_caught():
    text = 'It [is so](https://en.wikipedia.org/wiki/X), [says the paper](https://arxiv.org/abs/1).'
    assert prose.WEAK_HOSTS.findall(text) == ['https://en.wikipedia.org/wiki/X']


@pytest.mark.parametrize('planted', [
    'Compiling makes the network faster.',
    'The call takes 3.1× the time.',
    'This saves memory.',
    'Ring all-reduce has a lower latency.',
    'We see a speed-up of five.',
    '- a list item on overhead',
    '| a cell | that is cheap |',
    '```{note}\nPython is slow here.\n```',
    '## Compiled code is faster',
    'Ten × ten: 3.1 × as much.',
])
def test_a_planted_sentence_is_caught(planted):
    page = prose.markdown(ROOT / 'intro.md')
    assert prose.unclassified(page) == []
    found = prose.unclassified(f'{page}\n\n{planted}\n\nThe end.')
    assert len(found) == 1 and found[0].strip('# `') in planted.replace('\n', ' ')


@pytest.mark.parametrize('fine', [
    'It is [faster](#claim-x-y) there.',
    'Why is this job slow?',
    '## When it does not pay',
    'A product of a 16×16 and a 16 × 4 matrix.',
    'The cost model says that half the time is lost.',
    'It was [slow in 2019](https://example.org/report).',
    'Call `faster()` to see.',
    '```python\nfaster = True\n```',
    '```{exercise} Title\nIs it faster? Make it fast.\n```',
    'It is no longer true.',
    '<!-- faster -->',
])
def test_classified_sentences_and_code_pass(fine):
    assert prose.unclassified(fine) == []


def test_sentences_are_split_where_they_end():
    text = 'One [claim](#claim-a) is fast. Two is slow.\nThree\nis fine.\n\n* Four is quick.'
    assert prose.unclassified(text) == ['Two is slow.', '* Four is quick.']


def test_the_bibliography_has_what_pages_cite_and_nothing_else():
    entries = parse_file(ROOT / 'references.bib').entries
    cited = {key for p in prose.pages() for key in re.findall(r'\{cite\}`([^`]+)`', prose.markdown(p))}
    assert cited == set(entries)
    for key, entry in entries.items():
        assert entry.persons.get('author') and entry.fields['title'], key
        assert {'url', 'doi', 'eprint'} & set(entry.fields), key
        assert not prose.WEAK_HOSTS.findall(f"[]({entry.fields.get('url', '')}/)"), key
