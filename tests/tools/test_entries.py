"""Cards of terms and of sources: what is put into a page, and where its links lead."""

import bs4
import pytest

from tools import entries

GLOSSARY = '''<article><dl class="simple glossary">
<dt id="term-rank">rank</dt><dd><p>A process and its <em>number</em>, from 0 &amp; up
(<a class="reference internal" href="../multi_gpu/index.html#ranks"><span>multi-GPU</span></a>).</p></dd>
<dt id="term-ring">ring</dt><dd><p>Members in a circle (<a href="methods.html">methods</a>).</p></dd>
</dl></article>'''
BIBLIOGRAPHY = '''<article><div class="citation" id="cite-1-amdahl1967"><span class="label">[Amd67]</span>
<p>Gene M. Amdahl. <em>Validity</em>. 1967. <a class="reference external"
 href="https://doi.org/10.1145/1?a=b&amp;c=d">doi:10.1145/1</a>.</p></div></article>'''
LINK = '<a class="reference internal" href="{}">words</a>'
TERM, SOURCE = '../reference/glossary.html#term-rank', '../reference/bibliography.html#cite-1-amdahl1967'


@pytest.fixture(scope='module')
def known():
    texts = {'chapters/reference/glossary': GLOSSARY, 'chapters/reference/bibliography': BIBLIOGRAPHY}
    return entries.entries({page: bs4.BeautifulSoup(text, 'html.parser') for page, text in texts.items()})


def links(html, page, known):
    """The links of a page with their cards, ``None`` where there is none."""
    made = bs4.BeautifulSoup(entries.with_cards(html, page, known), 'html.parser')
    cards = [a.get('data-card') for a in made('a')]
    return [card and bs4.BeautifulSoup(card, 'html.parser') for card in cards]


def test_a_term_shows_its_definition_and_leads_to_it(known):
    card, = links(LINK.format(TERM), 'chapters/memory/index.html', known)
    assert card.b.text == 'rank' and card.em.text == 'number'
    assert 'A process and its number, from 0 & up' in card.text
    assert [(a['href'], a.text) for a in card('a')] == [
        ('../multi_gpu/index.html#ranks', 'multi-GPU'), (TERM, 'To the glossary')]


def test_a_source_shows_its_entry_and_leads_to_it(known):
    card, = links(LINK.format(SOURCE), 'chapters/memory/index.html', known)
    assert card.text.startswith('Gene M. Amdahl. Validity. 1967. doi:10.1145/1.')
    assert [(a['href'], a.text) for a in card('a')] == [
        ('https://doi.org/10.1145/1?a=b&c=d', 'doi:10.1145/1'), (SOURCE, 'To the bibliography')]


def test_links_lead_from_the_page_that_shows_the_card(known):
    card, = links(LINK.format('glossary.html#term-ring'), 'chapters/reference/methods.html', known)
    assert [a['href'] for a in card('a')] == ['methods.html', 'glossary.html#term-ring']
    card, = links(LINK.format('../reference/glossary.html#term-ring'), 'chapters/memory/index.html', known)
    assert card.a['href'] == '../reference/methods.html'
    card, = links(LINK.format('#term-ring'), 'chapters/reference/glossary.html', known)
    assert [a['href'] for a in card('a')] == ['methods.html', '#term-ring']


def test_letters_lead_to_their_first_terms():
    other = '<dt id="term-all-to-all">all-to-all</dt><dd/><dt id="term-model">α–β model</dt><dd/></dl>'
    page = bs4.BeautifulSoup(entries.with_letters(GLOSSARY.replace('</dl>', other)), 'html.parser')
    assert [(a['href'], a.text) for a in page.nav('a')] == [('#term-rank', 'R'), ('#term-all-to-all', 'A')]
    assert page.nav.find_next_sibling().name == 'dl'
    assert entries.with_letters(BIBLIOGRAPHY) == BIBLIOGRAPHY


def test_a_page_has_the_text_of_a_card_once(known):
    html = ''.join(LINK.format(href) for href in (TERM, SOURCE, TERM, SOURCE))
    first, second, *later = links(html, 'chapters/memory/index.html', known)
    assert 'process' in first.text and 'Amdahl' in second.text
    assert later == ['', '']
    again, = links(LINK.format(TERM), 'chapters/memory/exercises.html', known)
    assert again.text == first.text


@pytest.mark.parametrize('link', [
    LINK.format('../reference/glossary.html'), LINK.format('../reference/glossary.html#term-absent'),
    LINK.format('../memory/index.html#cite'), '<a class="headerlink" href="#term-rank">#</a>'])
def test_other_links_stay_as_they_are(known, link):
    assert entries.with_cards(link, 'chapters/reference/glossary.html', known) == link
