"""The reader's framework: one choice for the whole book, and two reading orders without scripts."""

import bs4
import pytest

from tests.book.browser import Browser
from tools import orders, source

INDEX = 'chapters/hybridization/index.html'
NO_STORAGE = 'Object.defineProperty(window, "localStorage", { get() { throw new Error("no") } })'
NEXT = """[...document.querySelectorAll('footer .right-next')].filter((a) => a.checkVisibility())
    .map((a) => a.getAttribute('href'))"""
CONTENTS = """[...document.querySelectorAll('.bd-links li')].filter((li) => li.checkVisibility({}))
    .map((li) => li.querySelector('a').getAttribute('href'))"""
ROWS = """[...document.querySelectorAll('.bd-article table tbody tr')].filter((r) => r.checkVisibility())
    .map((r) => r.innerText)"""
CHOICE = 'document.querySelector(".d2l-framework select")'

slow = pytest.mark.slow


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    b = Browser(tmp_path_factory.mktemp('profile'))
    yield b
    b.close()


@pytest.fixture
def fresh(browser, html):
    """A browser that remembers nothing."""
    browser.resize(1366)
    browser.open(html / INDEX)
    browser.run('localStorage.clear()')
    browser.errors.clear()
    yield browser
    assert not browser.errors


def choose(browser, name):
    browser.run(f'{CHOICE}.value = "{name}"; {CHOICE}.dispatchEvent(new Event("change"))')


TOC = ['start', 'a/index', 'a/one_pytorch', 'a/one_mxnet', 'a/both', 'a/two_mxnet', 'b/index']


def test_an_order_has_the_pages_of_one_framework_and_of_none():
    found = orders.orders(TOC)
    assert found['pytorch'] == ['start', 'a/index', 'a/one_pytorch', 'a/both', 'b/index']
    assert found['mxnet'] == ['start', 'a/index', 'a/one_mxnet', 'a/both', 'a/two_mxnet', 'b/index']
    assert found['all'] == TOC


@pytest.mark.parametrize(('page', 'pytorch', 'mxnet'), [
    ('start', ('', 'a/index'), ('', 'a/index')),
    ('a/index', ('start', 'a/one_pytorch'), ('start', 'a/one_mxnet')),
    ('a/two_mxnet', ('a/both', 'b/index'), ('a/both', 'b/index')),      # of another order
    ('b/index', ('a/both', ''), ('a/two_mxnet', ''))])
def test_neighbours(page, pytorch, mxnet):
    found = orders.orders(TOC)
    assert orders.neighbours(page, found['pytorch'], TOC) == pytorch
    assert orders.neighbours(page, found['mxnet'], TOC) == mxnet


def test_where_the_orders_agree_there_is_one_pair_of_links():
    titles = {page: page.upper() for page in TOC}
    assert orders.footer('start', TOC, titles).count('prev-next-area') == 1
    text = orders.footer('a/index', TOC, titles)
    assert text.count('prev-next-area') == 3
    assert 'href="one_mxnet.html"' in text and 'href="../start.html"' in text and 'A/ONE_PYTORCH' in text


def test_a_page_without_links_to_its_neighbours_is_an_error(tmp_path):
    (tmp_path / 'start.html').write_text('<h1>Start<a class="headerlink"></a></h1>')
    with pytest.raises(ValueError, match='start.html has no links to its neighbours'):
        orders.put(tmp_path, ['start'])


@slow
@pytest.mark.parametrize('framework', ['pytorch', 'mxnet'])
def test_next_leads_through_the_pages_of_one_framework(html, framework):
    """From the first page to the last, each once, in the order of the book, by the links without a script."""
    toc = source.toc()
    at, seen = toc[0], []
    while at:
        seen.append(at)
        page = bs4.BeautifulSoup((html / f'{at}.html').read_text(), 'html.parser')
        area = page.select_one(f'footer [data-order="{framework}"]') or page.select_one('footer')
        link = area.select_one('.right-next')
        at = (html / f'{at}.html').parent.joinpath(link['href']).resolve() if link else None
        at = at and at.relative_to(html.resolve()).with_suffix('').as_posix()
    assert seen == orders.orders(toc)[framework]


@slow
def test_without_scripts_there_are_two_orders_and_everything_is_shown(fresh, html):
    fresh.send('Emulation.setScriptExecutionDisabled', value=True)
    try:
        fresh.open(html / INDEX)
        assert fresh.run(NEXT) == ['hybridization_pytorch.html', 'hybridization_mxnet.html']
        assert {'hybridization_pytorch.html', 'hybridization_mxnet.html'} <= set(fresh.run(CONTENTS))
        text = fresh.run('document.querySelector("footer").innerText')
        assert 'With PyTorch' in text and 'With MXNet' in text
    finally:
        fresh.send('Emulation.setScriptExecutionDisabled', value=False)


@slow
def test_one_choice_is_kept_and_obeyed(fresh, html):
    fresh.open(html / INDEX)
    assert fresh.run(f'{CHOICE}.value') == 'pytorch' and fresh.run(NEXT) == ['hybridization_pytorch.html']
    assert 'hybridization_mxnet.html' not in fresh.run(CONTENTS)
    assert not [row for row in fresh.run(ROWS) if 'MXNet: ' in row]
    assert '1 row about MXNet alone is not shown.' in fresh.run('document.querySelector("article").innerText')
    choose(fresh, 'mxnet')
    assert fresh.run(NEXT) == ['hybridization_mxnet.html']
    fresh.open(html / 'chapters/start/paths.html')
    assert fresh.run(f'{CHOICE}.value') == 'mxnet'
    text = fresh.run('document.querySelector("article").innerText')
    assert 'one call for many' in text and 'The path with PyTorch is not shown' in text
    choose(fresh, 'all')
    text = fresh.run('document.querySelector("article").innerText')
    assert 'one call for many' in text and 'About 22 hours' in text and 'not shown' not in text
    fresh.open(html / INDEX)
    assert {'hybridization_pytorch.html', 'hybridization_mxnet.html'} <= set(fresh.run(CONTENTS))


@slow
def test_an_address_reaches_the_other_framework(fresh, html):
    """The page says so and leads back into the reader's order; a path that is linked to is shown."""
    fresh.open(html / 'chapters/hybridization/hybridization_mxnet.html')
    assert 'This page uses MXNet' in fresh.run('document.querySelector(".d2l-other").innerText')
    assert fresh.run(NEXT) == ['exercises.html']
    fresh.run('document.querySelector(".d2l-other button").click()')
    assert fresh.run('document.querySelector(".d2l-other")') is None
    assert fresh.run('document.activeElement.value') == 'mxnet'
    choose(fresh, 'pytorch')
    fresh.open(html / 'chapters/start/paths.html', '#with-mxnet')
    assert 'one call for many' in fresh.run('document.querySelector("article").innerText')


@slow
def test_a_solution_in_the_readers_framework_comes_first(fresh, html):
    fresh.open(html / 'chapters/hybridization/exercises.html')
    solved = """[...document.querySelectorAll('#hyb-ex-branches a[href*=_solutions_]')]
        .map((a) => a.innerText)"""
    for name, first in ('pytorch', 'PyTorch'), ('mxnet', 'MXNet'), ('pytorch', 'PyTorch'):
        choose(fresh, name)
        assert fresh.run(solved)[0] == first and len(fresh.run(solved)) == 2
    choose(fresh, 'mxnet')
    assert 'in PyTorch alone' in fresh.run('document.querySelector("#hyb-ex-break-even").innerText')


@slow
def test_where_nothing_is_kept_the_links_carry_the_choice(fresh, html):
    made = fresh.send('Page.addScriptToEvaluateOnNewDocument', source=NO_STORAGE)['identifier']
    try:
        fresh.open(html / INDEX)
        choose(fresh, 'mxnet')
        fresh.run('[...document.querySelectorAll("footer .right-next")]'
                  '.find((a) => a.checkVisibility()).click()')
        arrived = ('location.pathname.endsWith("hybridization_mxnet.html") '
                   '&& document.readyState === "complete"')
        fresh._wait(lambda: fresh.run(arrived) or None)
        assert fresh.run(f'{CHOICE}.value') == 'mxnet'
    finally:
        fresh.send('Page.removeScriptToEvaluateOnNewDocument', identifier=made)
        fresh.errors.clear()         # the theme reports the missing storage itself


@slow
def test_the_choice_is_in_sight_on_a_phone(fresh, html):
    fresh.resize(360, 640)
    fresh.open(html / INDEX)
    left, right = fresh.run(f'(({{ left, right }}) => [left, right])({CHOICE}.getBoundingClientRect())')
    assert 0 <= left < right <= 360
    fresh.run('scrollTo(0, 5000)')
    fresh._wait(lambda: fresh.run(f'scrollY > 1000 && {CHOICE}.getBoundingClientRect().top >= 0') or None)
