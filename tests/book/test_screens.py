"""The pages in a browser: light, found, fit for a phone, usable by all."""

import base64
import functools
import gzip
import http.server
import io
import json
import re
import threading
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import axe_core_python
import matplotlib.pyplot as plt
import numpy as np
import pytest

from tests.book.browser import Browser
from tools import exercises, source, terms

pytestmark = pytest.mark.slow

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
SAMPLE = BARRIERS % """{exclude: [['.highlight pre'], ['math'], ['.bd-sidebar-primary'],
    ['.bd-sidebar-secondary'], ['.d2l-ledger tr:nth-child(n + 5)']]}"""
LOADED = """document.fonts.ready.then(() => [location.href,
    ...performance.getEntriesByType('resource').map((e) => e.name)])"""
ON_A_PHONE = ('chapters/start/intro.html', 'chapters/reference/guesses.html',
              'chapters/hybridization/index.html',
              'chapters/reference/refuted.html', 'chapters/measuring/index.html',
              'chapters/measuring/measuring_pytorch.html')
OTHER_KINDS = ('chapters/reference/glossary.html', 'chapters/start/symptoms.html',
               'chapters/reference/ledger.html', 'chapters/hardware/data_sheets.html',
               'chapters/splitting/exercises.html', 'chapters/memory/memory_solutions_pytorch.html',
               'chapters/parameter_servers/index.html')


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
    """At most 1 MB on the first visit, nothing wider than 360 pixels, and no error in the console.

    Barriers are looked for on a page of each kind, and on some of them on a phone as well.
    """
    faults = {}
    assert set(ON_A_PHONE + OTHER_KINDS) < set(pages)
    for name in sorted(set(pages) - {'index.html'}):         # which only leads to chapters/start/intro.html
        browser.resize(1280)
        browser.errors.clear()
        browser.open(served + name)
        found = faults[name] = list(browser.errors)
        loaded = set(browser.run(LOADED))
        assert len(loaded) > 20 and all(u.startswith((served, 'data:')) for u in loaded)
        sent = sum(weight(html / unquote(urlsplit(u).path)[1:]) for u in loaded if u.startswith(served))
        found += [f'{sent:,} bytes'] * (sent > 1_000_000)
        if name in ON_A_PHONE + OTHER_KINDS:
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


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_the_cards_of_a_term_and_a_source_open_by_keyboard_and_have_no_barriers(html, browser, theme):
    browser.resize(1280)
    browser.open(html / 'chapters/automatic_parallelism/index.html')
    browser.run(f"Object.assign(document.documentElement.dataset, {{theme: '{theme}', mode: '{theme}'}})")
    browser.run(f'{AXE}; 0')
    browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.press('Tab')                        # then a focus is one of the keyboard
    card = 'document.querySelector(".d2l-card")'
    for link, said in (('a[href$="#term-bandwidth"]', 'Bytes that a memory or a link moves in a second'),
                       ('a[href$="#cite-1-hadjis2016omnivore"]', 'Omnivore: an optimizer for multi-device')):
        browser.run(f"document.querySelector('article {link}').focus()")
        shown = browser._wait(lambda: browser.run(f'{card}?.innerText') or None)
        assert said in shown
        assert not browser.run(BARRIERS % "'.d2l-card'")
        browser.press('Escape')
        assert browser.run(card) is None


def test_the_contents_follow_the_reader_the_menu_opens_and_a_button_leads_back(html, browser):
    browser.resize(1280)
    browser.open(html / 'chapters/measuring/measuring_pytorch.html')
    marked = '[...document.querySelectorAll(".bd-toc-nav a.active")].map((a) => a.hash).join()'
    assert browser.run(marked) == ''
    for anchor in ('#one-number', '#what-to-remember', '#the-first-call'):
        browser.run(f'document.querySelector("section{anchor}").scrollIntoView()')
        browser._wait(lambda wanted=anchor: browser.run(marked) == wanted or None)
        assert browser.run('document.querySelectorAll(".bd-toc-nav [aria-current]").length') == 1
    # From 1200 pixels on, the theme hides the button; the contents are in sight there.
    browser.resize(1000)
    back = 'document.getElementById("pst-back-to-top")'
    browser.run('scrollBy(0, -50)')
    browser._wait(lambda: browser.run(f'getComputedStyle({back}).display === "block"') or None)
    browser.run(f'{back}.click()')
    browser._wait(lambda: browser.run(f'scrollY === 0 && {back}.style.display === "none"') or None)

    browser.resize(1280)
    button = 'document.querySelector(".dropdown-download-buttons > button")'
    shown = ('getComputedStyle(document.querySelector(".dropdown-download-buttons .dropdown-menu")).display'
             ' === "block"')
    assert not browser.run(shown)
    browser.run(f'{button}.focus()')
    browser.press('Enter')
    browser._wait(lambda: browser.run(shown) or None)
    browser.press('Tab')
    assert '.ipynb' in browser.run('document.activeElement.innerText')
    assert browser.run(f'{button}.getAttribute("aria-expanded")') == 'true'
    browser.press('Escape')
    assert not browser.run(shown) and browser.run(f'document.activeElement === {button}')
    for elsewhere in ('document.querySelector("h1").click()',
                      'document.querySelector("article p a").focus()'):
        browser.run(f'{button}.focus(); {button}.click()')
        assert browser.run(shown)
        browser.run(elsewhere)
        assert not browser.run(shown)


FORMULAS = ('chapters/splitting/index.html', 'chapters/transformer/index.html',
            'chapters/asynchrony/asynchrony_mxnet.html', 'chapters/transformer/serving_pytorch.html',
            'chapters/automatic_parallelism/automatic_parallelism_solutions_pytorch.html')
FIGURES = ('chapters/splitting/index.html', 'chapters/multi_gpu/index.html',
           'chapters/hardware/hardware.html')
# Of each formula: what stands right of the room for it, and cannot be scrolled to.
CUT_OFF = """document.fonts.ready.then(() => [...document.querySelectorAll('.bd-article math')].filter(
    (math) => {
    const room = math.closest('div.math, p, li, td, dd, summary, figcaption');
    const parts = [...math.querySelectorAll('*')];
    const right = Math.max(...parts.map((e) => e.getBoundingClientRect().right));
    return right + room.scrollLeft - room.scrollWidth > room.getBoundingClientRect().left + 1
        || room.scrollWidth > room.clientWidth && !(getComputedStyle(room).overflowX === 'auto'
                                                    && room.tabIndex === 0);
}).map((math) => math.textContent))"""
# Exponents that do not end above the foot of their letter, and indices that do not end below it.
FALLEN = """[...document.querySelectorAll('.bd-article :is(msup, msub)')]
    .filter((e) => { if (!e.checkVisibility()) return false;
        const [base, mark] = [...e.children].map((c) => c.getBoundingClientRect().bottom);
        return !(e.localName === 'msub' ? mark > base + 1 : mark < base - 2); })
    .map((e) => e.textContent)"""


@pytest.mark.parametrize('name', FORMULAS)
def test_formulas_are_set_and_whole_on_a_phone_without_a_script(html, browser, name):
    browser.send('Emulation.setScriptExecutionDisabled', value=True)
    browser.resize(390)
    try:
        browser.open(html / name)
        text = browser.run('document.querySelector(".bd-article").innerText')
        cut_off, fallen = browser.run(CUT_OFF), browser.run(FALLEN)
        fonts = browser.run("[...document.fonts].filter((f) => f.status === 'loaded')"
                            '.map((f) => f.family)')
    finally:
        browser.send('Emulation.setScriptExecutionDisabled', value=False)
    assert '\\(' not in text and '\\[' not in text
    assert any('math' in f for f in fonts)
    assert not cut_off
    assert not fallen


def test_the_font_has_each_letter_of_the_formulas(html):
    ranges = re.findall(r'U\+(\w+)(?:-(\w+))?', (source.ROOT / 'tools/theme/math.txt').read_text())
    has = {chr(k) for first, last in ranges for k in range(int(first, 16), int(last or first, 16) + 1)}
    texts = [p.read_text() for p in html.rglob('*.html')]
    formulas = [m for text in texts for m in re.findall('(?s)<math.*?</math>', text)]
    assert len(formulas) > 200
    wanted = set(unescape(re.sub('<[^>]*>', '', ''.join(formulas))))
    assert not wanted - has


# What one can only click, an empty element that could begin a page, answers and results that have opened, and
# frames that code could leave behind.
PRINTED = """(() => { const seen = (what) => [...document.querySelectorAll(`.bd-article :is(${what})`)]
        .filter((e) => e.checkVisibility()).map((e) => e.outerHTML.slice(0, 80));
    dispatchEvent(new Event('beforeprint'));
    return [...seen('button, input[type="range"], form.d2l-guess, .d2l-question, details.hide'),
        ...seen('.toctree-wrapper, .admonition.toggle:not(.toggle-hidden), details[open]'),
        ...[...document.querySelectorAll('.bd-article :is(div.highlight, div.cell_input)')]
            .filter((e) => e.checkVisibility() && getComputedStyle(e).breakInside !== 'auto')
            .map((e) => e.outerHTML.slice(0, 80))]; })()"""


@pytest.mark.parametrize('name', ['chapters/splitting/exercises.html', 'chapters/hardware/index.html',
                                  'chapters/measuring/regimes_pytorch.html',
                                  'chapters/hybridization/hybridization_pytorch.html'])
def test_printed_there_is_nothing_to_click_and_code_flows_on(html, browser, name):
    browser.resize(1280)
    browser.open(html / name)
    browser.run('new Promise((then) => setTimeout(then, 200))')
    browser.send('Emulation.setEmulatedMedia', media='print')
    try:
        found = browser.run(PRINTED)
        figures = browser.run("""[...document.querySelectorAll('.live-figure-see > svg')]
            .filter((e) => e.checkVisibility()).length""")
        all_figures = browser.run("document.querySelectorAll('.live-figure').length")
    finally:
        browser.send('Emulation.setEmulatedMedia', media='')
    assert not found
    assert figures == all_figures


@pytest.mark.parametrize('name', FIGURES)
def test_figures_are_dark_on_a_dark_page(html, browser, name):
    """Most of each figure is about as dark as the page, and what is drawn stands out."""
    browser.resize(1280)
    browser.open(html / name)
    browser.run("Object.assign(document.documentElement.dataset, {theme: 'dark', mode: 'dark'}); 0")
    places = browser.run("""[...document.querySelectorAll('.bd-article img[src$=".svg"]')].map((e) => {
        const r = e.getBoundingClientRect();
        return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1}; })""")

    def drawn(place):
        shot = browser.send('Page.captureScreenshot', clip=place, captureBeyondViewport=True)['data']
        light = plt.imread(io.BytesIO(base64.b64decode(shot)))[..., :3].mean(axis=2)
        return light if light.max() > 0.8 else None         # a picture is painted when it is decoded

    assert places
    for place in places:
        assert np.median(browser._wait(lambda place=place: drawn(place))) < 0.2


def test_pages_opened_as_files_log_no_error(html, pages, browser):
    browser.errors.clear()
    for name in sorted(set(pages) - {'index.html'})[::5]:
        browser.open(html / name)
        browser.run('new Promise((then) => setTimeout(then, 200))')
    assert not browser.errors


def test_axe_sees_a_barrier(served, browser):
    browser.resize(1280)
    browser.open(f'{served}chapters/reference/refuted.html')
    browser.run(f'{AXE}; document.querySelector("article h1").innerHTML += "<img src=\'x.svg\'>"')
    assert [v[0] for v in browser.run(WHOLE)] == ['image-alt']


@pytest.mark.parametrize('scripts', [True, False])
def test_the_first_screen_says_what_where_and_how(html, browser, scripts):
    """Within 1280 × 800 pixels: a surprise, its card open, whose numbers these are, and the command."""
    browser.resize(1280, 800)
    browser.send('Emulation.setScriptExecutionDisabled', value=not scripts)
    try:
        browser.open(html / 'chapters/start/intro.html')
        bottoms = browser.run("""[...document.querySelectorAll(
            'article :is(h1, a[data-id="msr-pt-all"], .d2l-shown, .d2l-shown + p, pre)')]
            .map((e) => e.getBoundingClientRect().bottom)""")
        sizes = browser.run("""[...document.querySelectorAll('article :is(h1, h2, p, .d2l-shown b)')]
            .map((e) => parseFloat(getComputedStyle(e).fontSize))""")
        first = browser.run('document.querySelector("article").innerText')
        cards = browser.run("""[...document.querySelectorAll('article .sd-card')].map((c) => [
            c.querySelector('a').getAttribute('href'), c.querySelector('img').naturalWidth > 0,
            c.querySelector('p.sd-card-text').innerText.startsWith('You learn ')])""")
        card = browser.run('document.querySelector("article .d2l-shown").innerText')
    finally:
        browser.send('Emulation.setScriptExecutionDisabled', value=False)
    assert len(bottoms) == 5 and max(bottoms) <= 800
    assert sizes[0] == max(sizes) and sizes.count(sizes[0]) == 1
    for words in ('make book', 'a student', 'an engineer', 'a lecturer', 'a maintainer', 'hold', 'fail',
                  'notebooks are yours', 'Continue with', 'On the web'):
        assert words in first
    assert '×' in card and 'holds on ' in card and 'To the cell' in card and 'msr-pt-all' not in card
    assert cards == [[f'../{p.removeprefix("chapters/")}.html', True, True]
                     for p in source.toc() if p.endswith('/index')]


def test_the_first_page_says_where_the_reader_was(html, browser):
    """From what this browser keeps; it can be erased, and what is broken there or refused says nothing."""
    front, line = html / 'chapters/start/intro.html', 'document.querySelector(".d2l-continue").innerText'
    browser.open(front)
    browser.run('localStorage.removeItem("d2l-read")')
    browser.open(front)
    assert browser.run(line) == ''
    for page in ('glossary', 'surprises', 'glossary'):
        browser.open(html / f'chapters/reference/{page}.html')
    browser.open(front)
    assert f'You have opened 2 of {len(source.toc())} pages. You were at Glossary' in browser.run(line)
    browser.run('localStorage.setItem("d2l-solved", JSON.stringify(["a-b"]))')
    browser.open(front)
    assert 'pages, and solved 1 exercise. You were at' in browser.run(line)
    browser.run('document.querySelector(".d2l-continue button").click()')
    kept = '[localStorage.getItem("d2l-read"), localStorage.getItem("d2l-solved")]'
    assert browser.run(line) == '' and browser.run(kept) == [None, None]
    for broken in ('{', '{"pages": 3}', '{"pages": [], "last": "javascript:1", "title": ""}', 'null'):
        browser.run(f'localStorage.setItem("d2l-read", {json.dumps(broken)})')
        browser.open(front)
        assert browser.run(line) == ''
    browser.run('localStorage.removeItem("d2l-read")')


def test_the_ledger_fits_and_its_address_keeps_the_filter(html, browser):
    browser.errors.clear()
    place, rows = html / 'chapters/reference/ledger.html', 'tr[data-verdicts]:not([hidden])'
    for width in 1366, 390:
        browser.resize(width)
        browser.open(place)
        assert browser.run("""(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)
            (document.querySelector('.d2l-one'))"""), width
    browser.resize(1366)
    browser.open(place, '?verdict=fails&topic=nothing')
    failing = browser.run(f'document.querySelectorAll("{rows}").length')
    claims = json.loads((html / 'ledger.json').read_text())['claims']
    assert failing == sum(c['verdict'] == 'fails' and bool(c['bound']) for c in claims) > 0
    assert browser.run('document.querySelectorAll(".d2l-page:not([hidden])").length') <= failing
    browser.run("""(() => { const select = document.querySelector('.d2l-filter select[name="topic"]');
        select.value = 'memory'; select.dispatchEvent(new Event('change', {bubbles: true})) })()""")
    assert browser.run('location.search') == '?verdict=fails&topic=memory'
    assert not browser.errors
    browser.open(html / 'chapters/start/intro.html')
    assert browser.run('document.querySelector("a.d2l-badge.d2l-fails").search') == '?verdict=fails'


def found(browser, queries):
    """For each query the places that the search finds, best first: of each page, its best entries."""
    return browser.run(f"""Object.fromEntries({json.dumps(queries)}.map((q) => [q, d2lFind(q).flatMap(
        ({{name, hits}}) => hits.slice(0, 4).map((e) => `${{name}}.html#${{e.anchor}}`))]))""")


def test_the_search_finds_claims_terms_and_exercises(html, browser):
    claims = json.loads((html / 'ledger.json').read_text())['claims']
    places = {c['id']: f'{c["page"]}.html#{c["id"]}' for c in claims}
    questions = asked(html)
    words = {' '.join(reversed(c['sentence'].split()[-6:])): places[c['id']] for c in claims
             if len(c['sentence'].split()) > 4 and c['id'] not in questions}
    titles = {e.title: f'#{e.label}' for e in exercises.all_exercises()}
    browser.open(html / 'search.html', '?q=nothing')
    assert found(browser, ['constructor', '__proto__']) is not None     # which every object of the script has
    got = found(browser, [*places, *titles, *terms.terms()])
    # Sentences that share these words come first together.
    first = browser.run(f"""Object.fromEntries({json.dumps(list(words))}.map((q) => [q, d2lFind(q)
        .filter(({{hits}}) => hits[0].kind === 'result').flatMap(({{name, hits}}) => hits
        .filter((e) => e.kind === 'result').map((e) => `${{name}}.html#${{e.anchor}}`))]))""")
    assert not [q for q, place in places.items() if got[q][0] != place]
    assert not [q for q, place in words.items() if place not in first[q]]
    assert not [t for t in terms.terms() if not any('glossary.html#term-' in p for p in got[t][:8])]
    assert not [t for t, label in titles.items() if not any(p.endswith(label) for p in got[t][:8])]


@pytest.mark.parametrize(('query', 'page'), [
    ('false sharing', 'hardware/hardware_memory'), ('KV cache', 'transformer/serving_pytorch'),
    ('continuous batching', 'transformer/serving_many_pytorch'),
    ('capacity of an expert', 'splitting/experts_pytorch'),
    ('why is my gpu idle', 'start/symptoms_input'), ('out of memory', 'start/symptoms_memory'),
    ('NCCL watchdog', 'parameter_servers/when_a_member_dies'), ('Exercise 20', 'hybridization/exercises')])
def test_the_page_that_answers_comes_first(html, browser, query, page):
    browser.open(html / 'search.html', '?q=' + query.replace(' ', '+'))
    assert found(browser, [query])[query][0].startswith(f'chapters/{page}.html#')


def test_results_are_sections_with_excerpts_from_a_file_too(html, browser):
    browser.errors.clear()
    browser.open(html / 'search.html', '?q=KV+cache')
    first = '#search-results section:first-of-type'
    assert browser.run(f'document.querySelector("{first} h2").innerText').startswith('PyTorch: ')
    excerpts = browser.run("[...document.querySelectorAll('#search-results .context')].slice(0, 8)"
                           '.map((e) => e.innerText)')
    assert sum('cache' in e.lower() for e in excerpts) >= 6 and all(len(e) < 200 for e in excerpts)
    assert browser.run(f'document.querySelector("{first} mark").innerText')
    assert not browser.errors
    browser.open(html / 'search.html', '?q=<img+src=x+onerror=alert(1)>+zzzz')
    assert browser.run('document.querySelectorAll("#search-results img").length') == 0
    browser.open(html / 'search.html', '?q=qwxyz')
    assert 'No page has these words' in browser.run('document.querySelector("#search-results").innerText')


def test_nothing_covers_the_first_letter_of_a_search(html, browser):
    for page in 'search.html', 'chapters/start/intro.html':
        browser.open(html / page)
        inside, icon = browser.run("""(() => { document.querySelector('.search-button__button').click();
            const form = [...document.querySelectorAll('form.bd-search')].find((f) => f.checkVisibility());
            const input = form.querySelector('input'), r = input.getBoundingClientRect();
            return [r.left + parseFloat(getComputedStyle(input).paddingLeft),
                    form.querySelector('i').getBoundingClientRect().right] })()""")
        assert icon < inside, page


def asked(html):
    """The results that pages ask to guess."""
    texts = [p.read_text() for p in html.glob('chapters/*/*.html')]
    return {id for text in texts for id in re.findall(r'<div class="d2l-predict" id="ask-([\w-]+)"', text)}


def test_the_search_gives_no_asked_number_away(html):
    text = (html / '_static/search-index.js').read_text()
    entries = json.loads(text.removeprefix('d2lSearch(').removesuffix(');\n'))['entries']
    sentences = {anchor: title for _, anchor, kind, title, _ in entries if kind == 'result'}
    questions = asked(html)
    assert len(questions) > 50
    assert not [sentences[id] for id in questions if re.search(r'\d', sentences[id])]


def test_words_of_a_claim_lead_to_it(html, browser):
    claim = json.loads((html / 'ledger.json').read_text())['claims'][0]
    browser.open(html / 'chapters/start/intro.html')
    browser.run(f"""(() => {{ const form = document.querySelector('form.bd-search');
        form.querySelector('input').value = {json.dumps(claim['sentence'])}; form.submit(); }})()""")
    first = '#search-results li a'
    browser._wait(lambda: browser.run(f'document.querySelector("{first}")?.textContent'))
    browser.run(f'document.querySelector("{first}").click()')
    shown = browser._wait(lambda: browser.run(f"document.querySelector('#{claim['id']}:target')"
                                              '?.textContent'))
    assert claim['id'] in shown
