"""The pages, built from the stored outputs: complete, linked, offline."""

import json
import re
from html import unescape

import pytest

from d2l_local import machine
from tools import drawing, ledger, ledgers, notebooks, prose
from tools.notebooks import ROOT
from tools.pages import MADE, disagreements, link_claims, prepare, shared
from tools.theme import draw

pytestmark = pytest.mark.slow


def test_every_page_is_there(pages):
    assert {f'{p}.html' for p in notebooks.toc()} <= set(pages)


def test_nothing_is_loaded_from_elsewhere(html, pages):
    loads = {(name, u) for name, page in pages.items() for u in page.loads}
    assert not [x for x in loads if re.match(r'(https?:)?//', x[1])]
    sheets = [p for p in html.rglob('*.css')]
    assert sheets
    elsewhere = re.compile(r'url\([\'"]?(https?:)?//|@import [\'"]http')
    assert not [p for p in sheets if elsewhere.search(p.read_text())]


def test_inner_links_lead_somewhere(html, pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            if re.match(r'[a-z]+:', link) or link in ('#', ''):
                continue
            file, _, anchor = link.partition('#')
            target = (html / name).parent.joinpath(file).resolve() if file else html / name
            other = pages.get(target.relative_to(html).as_posix()) if target.suffix == '.html' else None
            if not target.exists() or (anchor and other and anchor not in other.ids):
                broken.append((name, link))
    assert not broken


def test_sentences_and_claims_are_linked_both_ways(pages):
    for path in prose.pages():
        page = pages[f'{path.relative_to(ROOT).with_suffix("").as_posix()}.html']
        for call in prose.claim_calls(path):
            assert f'claim-{call.id}' in page.ids
            assert [ln for ln in page.links if ln.endswith(f'#said-{call.id}')]
        for id in prose.links(path):
            assert [ln for ln in page.links if ln.endswith(f'#claim-{id}')], (path.name, id)


def test_questions_stand_before_the_results_that_answer_them(html, pages):
    """In the page's source, with the figure; and each has its row on the page of guesses."""
    asked, claims = 0, json.loads((html / 'ledger.json').read_text())['claims']
    figures = {c['id']: c['value'] for c in claims}
    for path in notebooks.notebooks():
        text = (html / path.relative_to(ROOT).with_suffix('.html')).read_text()
        for id, more in re.findall(r'<div class="d2l-predict" id="ask-([\w-]+)"(.*?)>', text):
            asked += 1
            assert text.index(f'id="ask-{id}"') < text.index(f'id="claim-{id}"')
            found = re.search(r'data-value="(.*?)"', more)
            assert (found and float(found[1])) == figures[id], id
        assert '.predict(' not in re.sub('<[^>]*>', '', text)
        assert 'in place of the dots' not in text
    rows = re.findall(r'<tr data-claim="([\w-]+)"', (html / 'guesses.html').read_text())
    assert len(set(rows)) == len(rows) == asked >= 50


def test_the_ledger_has_every_claim(html, pages):
    ids = [c.id for p in prose.pages() for c in prose.claim_calls(p)]
    data = json.loads((html / 'ledger.json').read_text())
    assert [c['id'] for c in data['claims']] == ids and ids
    assert data['machine']['cores'] >= 1 and data['machine']['processor']
    for id in ids:
        assert [ln for ln in pages['ledger.html'].links if ln.endswith(f'#claim-{id}')]


def test_the_ledger_names_every_machine_of_a_page(html):
    """A cell that was refreshed alone may be from another machine than the rest of its page."""
    text = unescape((html / 'ledger.html').read_text())
    said = re.findall(r'stored outputs from ([^<]*?)\.</p>', text)
    claims = json.loads((html / 'ledger.json').read_text())['claims']
    wanted = {}
    for c in claims:
        wanted.setdefault(c['page'], {}).setdefault(c['machine'])
    assert said == [' and '.join(machines) for machines in wanted.values()]


def test_the_ledger_is_a_table_of_claims_and_machines(html):
    """Every claim a row, every stored machine a column, and what the filters ask for in the row."""
    text = (html / 'ledger.html').read_text()
    stored = ledgers.all_ledgers()
    rows = re.findall(r'<tr data-topic="([^"]*)" data-needs="([^"]*)" data-verdicts="([^"]*)">', text)
    claims = json.loads((html / 'ledger.json').read_text())['claims']
    assert len(rows) == len(claims) and all(len(r[2].split('|')) == 1 + len(stored) for r in rows)
    assert [r[2].split('|')[0] for r in rows] == [c['verdict'] for c in claims]
    assert [r[1] for r in rows] == ['|'.join(c['needs']) for c in claims]
    for led in stored:
        assert led.machine['processor'] in unescape(text)
    assert 'The chance of a wrong verdict' in text and 'holds on ' in text


def test_what_was_refuted_is_listed(html):
    text = (html / 'refuted.html').read_text()
    failing = [i for led in ledgers.all_ledgers() for i, c in led.claims.items()
               if 'fails' in c['verdicts']]
    assert all(f'#claim-{i}"' in text for i in failing)


def test_machines_that_disagree_say_so():
    """The sentence carries a second badge, and the ledger counts."""
    def entry(verdict):
        claim = {'id': 'a-b', 'verdict': verdict, 'sentence': 'So.', 'bound': '> 2', 'figure': '3',
                 'machine': 'Two, 2 cores, 24 GiB, no GPU, Linux x86_64'}
        return ledger.Entry(claim, 'page', False)

    def of(processor):
        known = {'processor': processor, 'cores': 2, 'gpus': [], 'system': 'Linux x86_64'}
        claim = {'verdict': 'fails', 'sentence': 'So.', 'bound': '> 2'}
        return ledgers.Ledger(processor, known, {'a-b': claim})
    machine = of('One')
    assert disagreements({'a-b': entry('holds')}, [of('Two')]) == {}      # another run of the same kind
    assert disagreements({'a-b': entry('fails')}, [machine]) == {}
    differs = disagreements({'a-b': entry('holds')}, [machine])
    assert differs == {'a-b': 'holds on 1 of 2'}
    said = link_claims('It is [faster](#claim-a-b).', 'page', {'a-b': entry('holds')}, {}, differs)
    assert 'd2l-differs" href="ledger.html">holds on 1 of 2</a>' in said


def test_images_have_alternative_text(pages):
    images = [i for page in pages.values() for i in page.images]
    without = {i['src'].split('/')[-1] for i in images if not i.get('alt')}
    assert without == {'logo.svg'}          # the title beside it says the same


def test_pages_are_made_again_only_if_something_changed(tmp_path):
    shown = {p: notebooks.nbformat.read(p, as_version=4) for p in notebooks.notebooks()[:1]}

    def standing():
        prepare({p: notebooks.copy.deepcopy(nb) for p, nb in shown.items()}, set(shown), tmp_path)
        found = (tmp_path / MADE).exists()
        (tmp_path / MADE).touch()
        return found
    assert not standing()
    for changed in ('symptoms.md', 'theme/d2l.css', next(iter(shown)).relative_to(ROOT), 'extra.md'):
        (tmp_path / changed).write_text('something else')
        assert not standing(), changed
    assert standing()


def test_the_sign_is_drawn_by_its_script(tmp_path):
    drawn = drawing.draw_svg(draw.FIGURES, tmp_path)['logo']
    if machine.version('matplotlib') != '3.7.2':
        pytest.skip('another matplotlib draws other bytes')
    assert drawn == (ROOT / 'tools' / 'theme' / 'logo.svg').read_text()


def test_a_published_page_says_what_a_link_to_it_shows(html, tmp_path):
    page = (html / 'ledger.html').read_text()
    assert 'og:' not in page and not (html / '_static' / 'social.png').exists()
    told = shared(page, 'https://some.org/book', 'A & B')
    assert '<meta property="og:title" content="The ledger"/>' in told
    assert '<meta property="og:image" content="https://some.org/book/_static/social.png"/>' in told
    assert '<meta property="og:site_name" content="A &amp; B"/>' in told
    draw.social(tmp_path / 'social.png', 'A title that takes more than one line')
    head = (tmp_path / 'social.png').read_bytes()[:24]
    assert head[1:4] == b'PNG' and (head[16:20], head[20:24]) == ((1200).to_bytes(4), (630).to_bytes(4))
