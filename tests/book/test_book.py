"""The pages, built from the stored outputs: complete, linked, offline."""

import json
import posixpath
import re
from html import unescape

import bs4
import nbformat
import pytest

from tested_results import machine
from tested_results.ledgers import one_of_each_kind
from tools import figures, ledger, ledger_page, quotations, searching, source
from tools.pages import DIVIDED, GONE, MADE, lead_on, prepare, shared
from tools.source import ROOT
from tools.theme import draw

pytestmark = pytest.mark.slow


def test_every_page_is_there(pages):
    assert {f'{p}.html' for p in source.toc()} <= set(pages)


def test_nothing_is_loaded_from_elsewhere(html, pages):
    loads = {(name, u) for name, page in pages.items() for u in page.loads}
    assert not [x for x in loads if re.match(r'(https?:)?//', x[1])]
    sheets = [p for p in html.rglob('*.css')]
    assert sheets
    elsewhere = re.compile(r'url\([\'"]?(https?:)?//|@import [\'"]http')
    assert not [p for p in sheets if elsewhere.search(p.read_text())]


def test_the_whole_book_has_at_most_300_kb_of_script(html):
    """All scripts of all pages once each, as they lie there; the index of the search is data."""
    files, inline = set(), set()
    for path in html.rglob('*.html'):
        if '_static' in path.parts:
            continue
        for attributes, code in re.findall(r'<script([^>]*)>(.*?)</script>', path.read_text(), re.DOTALL):
            if address := re.search(r'src="([^"?]*)', attributes):
                files.add((path.parent / address[1]).resolve())
            elif 'json' not in attributes:
                inline.add(code)
    files.remove((html / searching.NAME).resolve())
    assert len(files) > 15 and len(inline) > 24          # of which one for each live figure
    assert sum(p.stat().st_size for p in files) + sum(map(len, inline)) <= 300_000


def test_inner_links_lead_somewhere(html, pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            if re.match(r'[a-z]+:', link) or link in ('#', ''):
                continue
            file, _, anchor = link.partition('#')
            file = file.partition('?')[0]
            target = (html / name).parent.joinpath(file).resolve() if file else html / name
            other = pages.get(target.relative_to(html).as_posix()) if target.suffix == '.html' else None
            if not target.exists() or (anchor and other and anchor not in other.ids):
                broken.append((name, link))
    assert not broken


def test_the_text_and_the_results_are_linked_both_ways(html):
    """A link with a card where a page that quotes a result; a folded box at its cell, which leads back."""
    for path in source.pages():
        name = path.relative_to(ROOT).with_suffix('.html')
        page = bs4.BeautifulSoup((html / name).read_text(), 'html.parser').article
        for call in quotations.calls(path):
            box = page.find('details', class_='d2l-claim', id=call.id)
            assert box and box.summary.text.strip() and not box.has_attr('open'), call.where
            assert box.find('a', href=re.compile(f'#said-{call.id}$')), call.where
        shown = page.find_all('a', class_='d2l-said')
        quoted = quotations.links(path)
        # links that a page draws itself, such as its figures', come on top
        assert {ln.id for ln in quoted} <= {a['data-id'] for a in shown}, path.name
        for a in shown:
            card = bs4.BeautifulSoup(a['data-card'], 'html.parser')
            assert card.b.text and card.find('a', href=a['href']) and a['title'], a
            assert a['href'].endswith(f'#{a["data-id"]}')


def test_links_to_terms_and_sources_have_cards(html, pages):
    """The first of a page to each has the text; the links of the cards lead somewhere."""
    kinds = set()
    for name in pages:
        article = bs4.BeautifulSoup((html / name).read_text(), 'html.parser').article
        shown = {}
        links = 'a.internal[href*="glossary.html#term-"], .bibtex-citation a'
        for a in article.select(links) if article else ():
            kinds.add(a['href'].partition('#')[2][:4])
            if a['href'] in shown:
                assert a['data-card'] == '', (name, a)
                continue
            shown[a['href']] = bs4.BeautifulSoup(a['data-card'], 'html.parser')
        for href, card in shown.items():
            *others, last = [a['href'] for a in card('a')]
            assert last == href and len(card.text) > 40, (name, href)
            for other in others:
                target = (html / name).parent / other.partition('#')[0]
                assert '://' in other or target.exists(), (name, href, other)
    assert kinds == {'term', 'cite'}


def test_questions_stand_before_the_results_that_answer_them(html, pages):
    """In the page's source, with the figure; and each has its row on the page of guesses."""
    asked, claims = 0, json.loads((html / 'ledger.json').read_text())['claims']
    figures = {c['id']: c['value'] for c in claims}
    for path in source.notebooks():
        page = (html / path.relative_to(ROOT).with_suffix('.html')).read_text()
        for id, more in re.findall(r'<div class="d2l-predict" id="ask-([\w-]+)"(.*?)>', page):
            asked += 1
            assert page.index(f' id="ask-{id}"') < page.index(f' id="{id}"')
            found = re.search(r'data-value="(.*?)"', more)
            assert (found and float(found[1])) == figures[id], id
        assert '.predict(' not in re.sub('<[^>]*>', '', page)
        assert 'in place of the dots' not in page
    rows = re.findall(r'<tr data-claim="([\w-]+)"', (html / 'chapters/reference/guesses.html').read_text())
    assert len(set(rows)) == len(rows) == asked >= 50


def test_the_ledger_has_every_result(html, pages):
    ids = [c.id for p in source.pages() for c in quotations.calls(p)]
    data = json.loads((html / 'ledger.json').read_text())
    assert [c['id'] for c in data['claims']] == ids and ids
    assert data['machine']['cores'] >= 1 and data['machine']['processor']
    assert all(c['sentence'] for c in data['claims'])
    tested = [c['id'] for c in data['claims'] if c['bound']]
    links = pages['chapters/reference/ledger.html'].links
    assert not [a for a in tested if not any(ln.endswith(f'#{a}') for ln in links)]


def test_the_ledger_names_every_machine_of_a_page(html):
    """A cell that was refreshed alone may be from another machine than the rest of its page."""
    page = unescape((html / 'chapters/reference/ledger.html').read_text())
    said = re.findall(r'stored outputs from ([^<]*?)\.</small>', page)
    claims = json.loads((html / 'ledger.json').read_text())['claims']
    wanted = {}
    for c in claims:
        wanted.setdefault(c['page'], {}).setdefault(c['machine'])
    assert said == [' and '.join(machines) for machines in wanted.values()]


def test_the_ledger_is_a_table_of_claims_and_machines(html):
    """Every tested result a row of one table, each machine in its details, and what filters ask for."""
    page = (html / 'chapters/reference/ledger.html').read_text()
    stored = one_of_each_kind(ledger.all_ledgers())
    rows = re.findall(r'<tr data-topic="([^"]*)" data-needs="([^"]*)" data-verdicts="([^"]*)">', page)
    claims = [c for c in json.loads((html / 'ledger.json').read_text())['claims'] if c['bound']]
    assert page.count('class="d2l-ledger') == 1
    assert len(rows) == len(claims) and all(len(r[2].split('|')) == 1 + len(stored) for r in rows)
    assert [r[2].split('|')[0] for r in rows] == [c['verdict'] for c in claims]
    assert [r[1] for r in rows] == ['|'.join(c['needs']) for c in claims]
    for led in stored:
        assert led.machine['processor'] in unescape(page)
    assert 'how often it is wrong' in page and 'holds on ' in page


def test_what_was_refuted_is_listed(html):
    page = (html / 'chapters/reference/refuted.html').read_text()
    stored = ledger.all_ledgers()
    failing = [i for led in stored for i, record in led.records.items() if 'fails' in record.verdicts]
    assert failing and all(f'#{i}"' in page for i in failing)
    # Of two ledgers of one machine, the one that no other page shows may be where a result fails.
    assert len(stored) > len(one_of_each_kind(stored))
    for led in stored:
        name = f'{ledger_page.called(led, stored)}, PyTorch {led.machine["torch"]}'
        same = [other for other in stored if other.kind == led.kind]
        assert (f'<td><p>{name}</p></td>' in unescape(page)) == (len(same) > 1)


def test_images_have_alternative_text(pages):
    images = [i for page in pages.values() for i in page.images]
    without = {i['src'].split('/')[-1] for i in images if not i.get('alt')}
    assert without == {'logo.svg'}          # the title beside it says the same


def test_pages_are_made_again_only_if_something_changed(tmp_path):
    shown = {p: nbformat.read(p, as_version=4) for p in source.notebooks()[:1]}

    def standing():
        prepare(shown, set(shown), tmp_path)
        found = (tmp_path / MADE).exists()
        (tmp_path / MADE).touch()
        return found
    assert not standing()
    for changed in ('chapters/start/symptoms.md', 'theme/d2l.css', next(iter(shown)).relative_to(ROOT),
                    'extra.md', 'made_by'):
        (tmp_path / changed).write_text('something else')
        assert not standing(), changed
    assert standing()


def test_the_sign_is_drawn_by_its_script(tmp_path):
    drawn = figures.draw_svg(draw.FIGURES, tmp_path)['logo']
    if machine.version('matplotlib') != '3.7.2':
        pytest.skip('another matplotlib draws other bytes')
    assert drawn == (ROOT / 'tools' / 'theme' / 'logo.svg').read_text()


def test_a_published_page_says_what_a_link_to_it_shows(html, tmp_path):
    page = (html / 'chapters/reference/ledger.html').read_text()
    assert 'og:' not in page and not (html / '_static' / 'social.png').exists()
    told = shared(page, 'https://some.org/book', 'A & B', 'About <it>')
    assert '<meta property="og:title" content="The ledger"/>' in told
    assert '<meta property="og:image" content="https://some.org/book/_static/social.png"/>' in told
    assert '<meta property="og:site_name" content="A &amp; B"/>' in told
    draw.social(tmp_path / 'social.png', 'A title that takes more than one line')
    head = (tmp_path / 'social.png').read_bytes()[:24]
    assert head[1:4] == b'PNG' and (head[16:20], head[20:24]) == ((1200).to_bytes(4), (630).to_bytes(4))


def test_the_address_of_a_page_that_is_gone_leads_on(tmp_path):
    lead_on(tmp_path)
    for page, other in GONE.items():
        target = posixpath.normpath(f'{posixpath.dirname(page)}/{other}')
        assert page not in source.toc() and target in source.toc()
        assert f'url={other}.html' in (tmp_path / f'{page}.html').read_text()


@pytest.mark.parametrize('page', DIVIDED)
def test_a_link_to_what_another_page_has_now_leads_there(page, chromium, tmp_path):
    other = f'{posixpath.dirname(page)}/{DIVIDED[page]}'
    assert {page, other} <= set(source.toc())
    (tmp_path / page).parent.mkdir(parents=True)
    for name, anchor in ((page, 'stays'), (other, 'went')):
        text = f'<html><head></head><body><p id="{anchor}">x</p></body></html>'
        (tmp_path / f'{name}.html').write_text(text)
    lead_on(tmp_path)
    for anchor, found in (('#stays', page), ('', page), ('#went', other)):
        chromium.open(tmp_path / f'{page}.html', anchor)
        chromium._wait(lambda name=found: chromium.run(
            f'document.readyState === "complete" && location.pathname.endsWith("/{name}.html")') or None)
        assert chromium.run('location.hash') == anchor
