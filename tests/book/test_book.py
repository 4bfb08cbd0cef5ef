"""The pages, built from the stored outputs: complete, linked, light, found, usable by all, offline."""

import functools
import gzip
import http.server
import json
import re
import subprocess
import sys
import threading
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import axe_core_python
import pytest

from d2l_local import machine
from tests.book.browser import Browser
from tools import drawing, exercises, ledger, ledgers, notebooks, prose, terms
from tools.notebooks import ROOT
from tools.pages import MADE, disagreements, link_claims, prepare, shared
from tools.theme import draw

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """Ids, links, and the addresses that a browser would load on its own."""

    def __init__(self, path: Path):
        super().__init__()
        self.ids, self.links, self.loads, self.images = set(), [], [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.ids.add(a.get('id'))
        if tag == 'a' and a.get('href'):
            self.links.append(a['href'])
        if tag == 'img':
            self.images.append(a)
        if tag == 'link' and a.get('rel') not in ('canonical', 'next', 'prev', 'search', 'author'):
            self.loads.append(a.get('href') or '')
        if tag in ('script', 'img', 'iframe', 'video', 'audio', 'source', 'object', 'embed'):
            self.loads.append(a.get('src') or a.get('data') or '')


@pytest.fixture(scope='module')
def html(tmp_path_factory):
    folder = tmp_path_factory.mktemp('book') / 'html'
    done = subprocess.run([sys.executable, '-m', 'tools.book', '--stored', '--to', str(folder)],
                          cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'ledger: ' in done.stdout and '0 unclassified' in done.stdout
    return folder


@pytest.fixture(scope='module')
def pages(html):
    return {p.relative_to(html).as_posix(): Page(p) for p in html.rglob('*.html')
            if '_static' not in p.parts}


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


# The pages in a browser.

AXE = (Path(axe_core_python.__file__).parent / 'axe.min.js').read_text()
# No style sheet is looked up again, which takes ten seconds a page.
BARRIERS = """new Promise((then) => {
        const still = document.createElement('style');          // what fades in would be too pale
        still.textContent = '* { animation: none !important; transition: none !important; }';
        document.head.append(still);
        document.querySelectorAll('details').forEach((d) => { d.open = true; });
        setTimeout(then, 50); })
    .then(() => axe.run(%s, {preload: false, resultTypes: ['violations'],
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}))
    .then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 120))]))"""
WHOLE = BARRIERS % 'document'
# What takes long and is alike everywhere is judged on some: colours of code, formulas, side bars, rows.
SAMPLE = BARRIERS % """{exclude: [['.highlight pre'], ['.katex'], ['.bd-sidebar-primary'],
    ['.bd-sidebar-secondary'], ['.d2l-ledger tr:nth-child(n + 5)']]}"""
LOADED = """document.fonts.ready.then(() => [location.href,
    ...performance.getEntriesByType('resource').map((e) => e.name)])"""
ON_A_PHONE = ('intro.html', 'guesses.html', 'refuted.html', 'chapters/measuring/index.html',
              'chapters/measuring/measuring_pytorch.html')


@pytest.fixture(scope='module')
def served(html):
    """The address of the pages, as a server on the web would have them."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(('127.0.0.1', 0),
                                         functools.partial(Quiet, directory=html)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}/'
        server.shutdown()


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    b = Browser(tmp_path_factory.mktemp('profile'))
    b.socket.settimeout(120)
    yield b
    b.close()


@functools.cache
def weight(path):
    """What a server sends of a file, in bytes: texts are compressed."""
    data = path.read_bytes()
    return min(len(data), len(gzip.compress(data)))


def test_every_page_is_light_fits_a_phone_and_has_no_barriers(html, pages, served, browser):
    """At most 1 MB on the first visit, nothing wider than 360 pixels, and no error in the console."""
    faults = {}
    for name in sorted(set(pages) - {'index.html'}):         # which only leads to intro.html
        browser.resize(1280)
        browser.errors.clear()
        browser.open(served + name)
        found = faults[name] = list(browser.errors)
        loaded = set(browser.run(LOADED))
        assert len(loaded) > 20 and all(u.startswith((served, 'data:')) for u in loaded)
        sent = sum(weight(html / unquote(urlsplit(u).path)[1:]) for u in loaded if u.startswith(served))
        found += [f'{sent:,} bytes'] * (sent > 1_000_000)
        browser.run(f'{AXE}; 0')
        found += browser.run(WHOLE if name in ON_A_PHONE else SAMPLE)
        browser.resize(360)
        wide = browser.run('document.documentElement.scrollWidth')
        found += [f'{wide} pixels'] * (wide > 360)
        if name in ON_A_PHONE:
            browser.open(served + name)
            browser.run(f'{AXE}; 0')
            found += browser.run(WHOLE)
    assert not {name: found for name, found in faults.items() if found}


def test_axe_sees_a_barrier(served, browser):
    browser.resize(1280)
    browser.open(f'{served}refuted.html')
    browser.run(f'{AXE}; document.querySelector("article h1").innerHTML += "<img src=\'x.svg\'>"')
    assert [v[0] for v in browser.run(WHOLE)] == ['image-alt']


@pytest.mark.parametrize('scripts', [True, False])
def test_the_first_screen_says_what_where_and_how(html, browser, scripts):
    """Within 1280 × 800 pixels: a surprise, the ledger's line, the command, and four ways to go on."""
    browser.resize(1280, 800)
    browser.send('Emulation.setScriptExecutionDisabled', value=not scripts)
    try:
        browser.open(html / 'intro.html')
        bottoms = browser.run("""[...document.querySelectorAll(
            'article h1, article a[href$="#claim-msr-pt-all"], article .d2l-badge.d2l-not, article pre, '
            + 'article tbody tr')].slice(0, 8).map((e) => e.getBoundingClientRect().bottom)""")
        first = browser.run('document.querySelector("article").innerText')
        cards = browser.run("""[...document.querySelectorAll('article .sd-card')].map((c) => [
            c.querySelector('a').getAttribute('href'), c.querySelector('img').naturalWidth > 0])""")
    finally:
        browser.send('Emulation.setScriptExecutionDisabled', value=False)
    assert len(bottoms) == 8 and max(bottoms) <= 800
    for words in ('make book', 'a student', 'an engineer', 'a lecturer', 'a maintainer', 'hold', 'fail'):
        assert words in first
    assert cards == [[f'{p}.html', True] for p in notebooks.toc() if p.endswith('/index')]


def test_the_search_finds_claims_terms_and_exercises(html, browser):
    claims = json.loads((html / 'ledger.json').read_text())['claims']
    asked = {c['id']: f'{c["page"]}.html#claim-{c["id"]}' for c in claims}
    words = {' '.join(reversed(c['sentence'].split()[-6:])): asked[c['id']] for c in claims}
    titles = {e.title: f'#{e.label}' for e in exercises.all_exercises()}
    browser.open(html / 'search.html', '?q=nothing')
    found = browser.run(f"""Object.fromEntries({json.dumps([*asked, *words, *titles, *terms.terms()])}
        .map((q) => [q, Search._performSearch(...Search._parseQuery(q)).reverse()
            .map((r) => `${{r[0]}}.html${{r[2]}}`)]))""")
    assert not [q for q, place in asked.items() if found[q][0] != place]
    for q, place in words.items():
        others = [k for k, p in enumerate(found[q]) if '#claim-' not in p]
        assert place in found[q][:others[0] if others else None], q         # claims stand first
    assert not [t for t in terms.terms() if not any('glossary.html#term-' in p for p in found[t][:3])]
    assert not [t for t, label in titles.items()
                if not any(p.endswith((label, 'exercises.html')) for p in found[t][:8])]


def test_words_of_a_claim_lead_to_it(html, browser):
    claim = json.loads((html / 'ledger.json').read_text())['claims'][0]
    browser.open(html / 'intro.html')
    browser.run(f"""(() => {{ const form = document.querySelector('form.bd-search');
        form.querySelector('input').value = {json.dumps(claim['sentence'])}; form.submit(); }})()""")
    first = '#search-results li a'
    browser._wait(lambda: browser.run(f'document.querySelector("{first}")?.textContent'))
    browser.run(f'document.querySelector("{first}").click()')
    shown = browser._wait(lambda: browser.run(f"document.querySelector('#claim-{claim['id']}:target')"
                                              '?.textContent'))
    assert claim['sentence'] in shown


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
