"""Cards of quoted results, and the boxes at their cells, in a real browser."""

from html import unescape
from pathlib import Path

import axe_core_python
import pytest

from tested_results.claims import Claim
from tools import cards, entries
from tools.source import ROOT

THEME = ROOT / 'tools' / 'theme'
SCRIPT = THEME / 'card.js'
AXE = (Path(axe_core_python.__file__).parent / 'axe.min.js').read_text()
SEEN = 'document.querySelector(".d2l-card")?.innerText ?? null'
LINK, OTHER = 'document.querySelector("#said-a-new")', 'document.querySelector("#said-a-old")'
TERM, SOURCE, AGAIN = (f'document.querySelector("#{id} a")' for id in ('term', 'source', 'again'))
ENTRIES = {'list.html#term-rank': '<b>rank</b><span>A <code><span>process</span></code> and its number '
                                  '(<a href="more.html">ranks</a>).</span>',
           'list.html#cite-1-amd': '<span>Gene M. Amdahl. <em>Validity</em>. 1967.</span>'}

pytestmark = pytest.mark.slow


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    """A page that quotes two results, one of them a fact, and has their boxes; and another page."""
    new = Claim('a-new', 'ratio', 'fails', '×', above=3, value=2.5, low=2.4, high=2.6, values=900,
                names=('eager', 'compiled'), parts={'eager': 3e-4, 'compiled': 1e-4})
    old = Claim('a-old', 'fact', 'holds')
    folder = tmp_path_factory.mktemp('pages')
    (folder / 'ledger.html').write_text('<title>all</title><p id="all">all results</p>')
    texts = [cards.link(words, c, f'#{c.id}', False, [], 'ledger.html', f'said-{c.id}')
             for words, c in (('2.5× <em>faster</em>', new), ('it is so', old))]
    filler = '<p>text</p>' * 40
    boxes = ''.join(cards.box(c, False, [], f'#said-{c.id}') for c in (new, old))
    to_term = '<a class="reference internal" href="list.html#term-rank">ranks</a>'
    to_source = '<a class="reference internal" href="list.html#cite-1-amd" title="Amdahl">Amd67</a>'
    linked = entries.with_cards(f'<p id="term">Some {to_term}.</p><p id="source">By {to_source}.</p>'
                                f'<p id="again">By {to_source} too.</p>', 'page.html', ENTRIES)
    (folder / 'list.html').write_text('<title>list</title><p id="term-rank">rank</p>')
    path = folder / 'page.html'
    path.write_text(
        '<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>Page</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<style>html[data-theme="dark"] { --pst-color-background: #14181e; --pst-color-text-base: #ced6dd; '
        '--pst-color-text-muted: #9ca4af; background: #14181e; color: #ced6dd }'
        'html[data-theme="dark"] a { color: #9fc3ff }</style>'    # as the theme of the book has it
        f'<link rel="stylesheet" href="{(THEME / "d2l.css").as_uri()}">'
        f'<script src="{SCRIPT.as_uri()}"></script>'
        '<body><main><article class="bd-article"><h1 id="top">Top</h1>'
        f'<p>Compiled, {texts[0]}.</p>{filler}'
        f'<p style="text-align: right">And {texts[1]}.</p>{filler}'
        f'{boxes}{filler}{linked}{filler}</article></main>')
    return path


@pytest.fixture
def browser(chromium, page):
    chromium.resize(1280)
    chromium.errors.clear()
    chromium.open(page)
    yield chromium
    assert not chromium.errors


def middle(browser, element):
    return browser.run(f'(() => {{ const r = {element}.getClientRects()[0]; '
                       'return [r.x + r.width / 2, r.y + r.height / 2] })()')


def mouse(browser, x, y, kind='mouseMoved'):
    pressed = {} if kind == 'mouseMoved' else {'button': 'left', 'clickCount': 1}
    browser.send('Input.dispatchMouseEvent', type=kind, x=x, y=y, **pressed)


def hover(browser, element=LINK):
    mouse(browser, *middle(browser, element))
    return browser._wait(lambda: browser.run(SEEN), 5)


def closed(browser):
    browser._wait(lambda: browser.run(SEEN) is None or None, 5)
    assert browser.run('document.querySelector("[aria-describedby]")') is None


def stays(browser):
    browser.run('new Promise((then) => setTimeout(then, 600))')
    assert browser.run(SEEN)


@pytest.fixture
def tap(browser):
    """Taps elements, as on a phone."""
    browser.send('Emulation.setDeviceMetricsOverride', width=390, height=800, deviceScaleFactor=1,
                 mobile=True)
    browser.send('Emulation.setTouchEmulationEnabled', enabled=True, maxTouchPoints=1)

    def at(element):
        x, y = middle(browser, element)
        browser.send('Input.dispatchTouchEvent', type='touchStart', touchPoints=[{'x': x, 'y': y}])
        browser.send('Input.dispatchTouchEvent', type='touchEnd', touchPoints=[])
        browser.run('new Promise((then) => setTimeout(then, 400))')     # for the click that follows
    yield at
    browser.send('Emulation.setTouchEmulationEnabled', enabled=False)


def test_there_is_one_tooltip(browser, page):
    """The native title stays without JavaScript, and says in plain text what the card says."""
    assert browser.run('document.querySelectorAll("[title]").length') == 0
    said = hover(browser).split('\n')
    browser.send('Emulation.setScriptExecutionDisabled', value=True)
    try:
        browser.open(page)
        titles = browser.run('[...document.querySelectorAll("a.d2l-said")].map((a) => a.title)')
        assert browser.run(SEEN) is None
    finally:
        browser.send('Emulation.setScriptExecutionDisabled', value=False)
    assert titles[0] == '; '.join(said[:-1]) and said[-1] == 'To the cell · all results'
    assert 'It is <so>.' not in titles[1] and '<b>' not in unescape(titles[0])


def test_the_mouse_opens_it_and_may_move_into_it(browser):
    assert 'eager ÷ compiled = 2.50× (2.40–2.60)' in hover(browser)
    described = browser.run(f'document.getElementById({LINK}.getAttribute("aria-describedby")).textContent')
    assert '2.50×' in described and 'To the cell' not in described
    mouse(browser, *middle(browser, 'document.querySelector(".d2l-card b")'))
    stays(browser)
    mouse(browser, 1200, 700)
    closed(browser)
    hover(browser)
    browser.press('Escape')
    closed(browser)
    mouse(browser, browser.run(f'{LINK}.getClientRects()[0].x') + 3, middle(browser, LINK)[1])
    browser.run('new Promise((then) => setTimeout(then, 400))')
    assert browser.run(SEEN) is None            # until the mouse has left
    mouse(browser, 1200, 700)
    hover(browser)


def test_a_click_follows_the_link(browser):
    hover(browser)
    for kind in ('mousePressed', 'mouseReleased'):
        mouse(browser, *middle(browser, LINK), kind)
    assert browser._wait(lambda: browser.run('location.hash') or None) == '#a-new'
    closed(browser)


def test_by_keyboard(browser):
    browser.press('Tab')
    assert '2.50×' in browser.run(SEEN)
    focus = 'document.activeElement.textContent'
    browser.press('Tab')
    assert browser.run(focus) == 'To the cell' and browser.run(SEEN)
    browser.press('Tab')
    assert browser.run(focus) == 'all results' and browser.run(SEEN)
    browser.press('Escape')
    closed(browser)
    assert browser.run(f'document.activeElement === {LINK}')
    browser.press('Tab')
    assert browser.run(f'document.activeElement === {OTHER}') and 'holds' in browser.run(SEEN)
    browser.press('Tab', 3)                     # through the card, and on
    closed(browser)
    browser.run(f'{LINK}.focus()')
    browser._wait(lambda: browser.run(SEEN), 5)
    stays(browser)
    browser.run('document.activeElement.blur()')
    closed(browser)
    browser.run(f'{LINK}.focus()')
    browser.press('Enter')
    assert browser._wait(lambda: browser.run('location.hash') or None) == '#a-new'
    closed(browser)


@pytest.mark.parametrize(('element', 'name', 'said', 'last'), [
    (TERM, 'About ranks', 'rank\nA process and its number (ranks).', 'To the glossary'),
    (SOURCE, 'About Amd67', 'Gene M. Amdahl. Validity. 1967.', 'To the bibliography'),
    (AGAIN, 'About Amd67', 'Gene M. Amdahl. Validity. 1967.', 'To the bibliography')])
def test_a_term_and_a_source_by_keyboard(browser, element, name, said, last):
    browser.press('Tab')                        # then a focus is one of the keyboard
    browser.run(f'{element}.focus()')
    assert browser._wait(lambda: browser.run(SEEN) == f'{said}\n{last}' or None, 5)
    assert browser.run('document.querySelector(".d2l-card").getAttribute("aria-label")') == name
    described = browser.run(f'document.getElementById({element}.getAttribute("aria-describedby")).innerText')
    assert described == said
    browser.press('Escape')
    closed(browser)
    assert browser.run(f'document.activeElement === {element}')


def test_a_term_by_mouse_and_by_tap(browser, tap):
    browser.run(f'{TERM}.scrollIntoView()')
    assert hover(browser, TERM).startswith('rank')
    mouse(browser, 380, 790)
    closed(browser)
    tap(TERM)
    assert browser.run(SEEN).startswith('rank')
    tap(TERM)
    assert browser._wait(lambda: browser.run('location.hash') or None) == '#term-rank'


def test_by_keyboard_while_the_page_still_scrolls(browser):
    """Tab reaches a number before it is in the window; its card waits until it is there."""
    browser.run('document.documentElement.style.scrollBehavior = "smooth"')
    browser.press('Tab', 4)                     # through the first card, to a number far below
    assert browser.run(f'document.activeElement === {OTHER}')
    inside = (f'(() => {{ const r = {OTHER}.getBoundingClientRect(); '
              'return r.top >= 0 && r.bottom <= innerHeight })()')
    assert browser._wait(lambda: browser.run(inside) or None)
    seen = 'getComputedStyle(document.querySelector(".d2l-card")).visibility'
    assert browser._wait(lambda: browser.run(seen) == 'visible' or None)
    assert 'holds' in browser.run(SEEN)


def test_a_link_of_the_card_is_followed(browser):
    browser.press('Tab', 3)
    browser.press('Enter')
    browser._wait(lambda: browser.run('!!document.querySelector("#all")') or None)


def test_the_first_tap_opens_the_second_follows(browser, tap):
    tap(LINK)
    assert '2.50×' in browser.run(SEEN) and browser.run('location.hash') == ''
    stays(browser)
    tap('document.querySelector(".d2l-card b")')
    assert browser.run(SEEN)
    tap('document.querySelector("#top")')
    closed(browser)
    tap(LINK)
    tap(LINK)
    assert browser.run('location.hash') == '#a-new'
    closed(browser)


def test_a_tap_elsewhere_closes_where_taps_move_no_focus(browser, tap):
    browser.run('document.addEventListener("mousedown", (event) => event.preventDefault())')
    tap(LINK)
    assert browser.run(SEEN) and browser.run('document.activeElement === document.body')
    tap('document.querySelector("#top")')
    closed(browser)


def test_a_tap_on_the_link_in_the_card_follows(browser, tap):
    tap(LINK)
    tap('document.querySelector(".d2l-card a")')
    assert browser.run('location.hash') == '#a-new'
    assert browser.run('document.querySelector("#a-new").open')


@pytest.mark.parametrize('anchor', ['a-new', 'a-old'])
def test_a_link_to_a_result_opens_its_box(browser, page, anchor):
    box = f'document.getElementById("{anchor}")'
    inside = (f'{box}.open && (({{ top, bottom }}) => top > -1 && bottom <= innerHeight)'
              f'({box}.getBoundingClientRect())')
    assert not browser.run(f'{box}.open')
    browser.run(f'location.hash = "{anchor}"')
    assert browser._wait(lambda: browser.run(inside) or None)
    assert browser.run('document.querySelectorAll("details[open]").length') == 1
    browser.run(f'{box}.open = false; scrollTo(0, 0)')
    browser.run(f'document.querySelector(`a[href="#{anchor}"]`).click()')       # the same hash again
    assert browser._wait(lambda: browser.run(inside) or None)
    browser.open(page, f'#{anchor}')
    assert browser._wait(lambda: browser.run(inside) or None)
    browser.open(page, '#%E0%A4%A')


@pytest.mark.parametrize('width', [320, 390, 1280])
@pytest.mark.parametrize('element', [LINK, OTHER])
@pytest.mark.parametrize('block', ['start', 'end'])
def test_it_stays_inside_the_window(browser, width, element, block):
    browser.resize(width, 640)
    browser.run(f'{element}.scrollIntoView({{block: "{block}"}})')
    hover(browser, element)
    left, top, right, bottom, full = browser.run('''(() => {
        const r = document.querySelector(".d2l-card").getBoundingClientRect();
        return [r.left, r.top, r.right, r.bottom, document.documentElement.clientWidth] })()''')
    at = browser.run(f'(({{ top, bottom }}) => [top, bottom])({element}.getBoundingClientRect())')
    assert left >= 8 and top >= 0 and right <= full - 7 and bottom <= 640
    assert top >= at[1] or bottom <= at[0]              # beside the number, not on it
    if width < 640:
        assert right - left == pytest.approx(full - 16, abs=1)
    assert browser.run('document.documentElement.scrollWidth') <= full


@pytest.mark.parametrize('element', [LINK, TERM])
@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_an_open_card_has_no_barriers(browser, theme, element):
    browser.run(f'document.documentElement.dataset.theme = "{theme}"; {AXE}; 0')
    browser.run('document.querySelectorAll("details").forEach((d) => { d.open = true; })')
    browser.run(f'{element}.scrollIntoView()')
    hover(browser, element)
    found = browser.run("""axe.run(document, {preload: false, resultTypes: ['violations'],
        runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})
        .then((r) => r.violations.map((v) => [v.id, v.nodes.map((n) => n.html)]))""")
    assert browser.run(SEEN) and not found


def test_printed_there_is_no_card(browser):
    hover(browser)
    browser.send('Emulation.setEmulatedMedia', media='print')
    try:
        assert browser.run('getComputedStyle(document.querySelector(".d2l-card")).display') == 'none'
    finally:
        browser.send('Emulation.setEmulatedMedia', media='')
