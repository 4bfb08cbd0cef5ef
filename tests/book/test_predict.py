"""Guesses in the pages: the form in front of a result, and the page of guesses, in a real browser."""

import json
import math
import random
import re
import shutil
import subprocess

import nbformat
import pytest

from tested_results import numbers, predictions
from tested_results.claims import Claim
from tools import cards, ledger_page, pages
from tools.source import ROOT

THEME = ROOT / 'tools' / 'theme'
SCRIPT = THEME / 'predict.js'
# The words that quote the first have no figure.
RESULTS = {c.id: c for c in (
    Claim('a-b', 'ratio', 'holds', '×', above=2, value=5, names=('a', 'b')),
    Claim('a-c', 'ratio', 'fails', '×', above=2, value=0.02, names=('eager', 'compiled')))}
FORM = '#ask-a-b form'
REFUSES = 'Storage.prototype.setItem = () => { throw new Error("full") }'
NO_STORAGE = 'Object.defineProperty(window, "localStorage", { get() { throw new Error("no") } })'

pytestmark = pytest.mark.slow
node = pytest.mark.skipif(not shutil.which('node'), reason='needs node')


def asked():
    """The questions as ``tools/pages.py`` writes them, and those of the page of guesses."""
    entries = {id: ledger_page.Entry(c, 'chapters/one/page', True) for id, c in RESULTS.items()}
    outs = [nbformat.v4.new_output('display_data', {}, metadata={
        predictions.METADATA_KEY: {'id': id, 'question': f'How many "{id}" & <more>?'}})
        for id in [*entries, 'a-none']]
    cell = nbformat.v4.new_code_cell('', outputs=outs)
    document = pages.Document(ROOT / 'chapters/one/page.ipynb', nbformat.v4.new_notebook(cells=[cell]))
    pages.ask(document, pages.Book([], entries))
    questions = [pages.Question(asked['id'], asked['question'], document.name)
                 for _, asked in pages.outputs(document.notebook, predictions.METADATA_KEY)]
    return [o.data['text/html'] for o in outs], questions


@pytest.fixture(scope='module')
def places(tmp_path_factory):
    """A page with two experiments, and the page of guesses."""
    (one, two, nothing), questions = asked()
    folder = tmp_path_factory.mktemp('pages')
    head = ('<!doctype html><meta charset="utf-8">'
            f'<link rel="stylesheet" href="{(THEME / "d2l.css").as_uri()}">'
            f'<script src="{SCRIPT.as_uri()}"></script>'
            '<body><article class="bd-article"><section id="top"><h1>Top</h1>')
    boxes = {id: f'<div class="cell" id="end-{id}"><div class="cell_input" id="call-{id}">call</div>'
                 '<div class="cell_output"><div class="output">'
                 f'{cards.box(c, True, [], "#said")}</div></div></div>'
             for id, c in RESULTS.items()}
    drawn = '<div class="output" id="frame"><img id="figure" alt="" src="data:image/svg+xml,<svg/>"></div>'
    below = folder / 'chapters' / 'reference'
    below.mkdir(parents=True)
    page, guesses, other = folder / 'page.html', below / 'guesses.html', below / 'other.html'

    def said(id, words, name, page=''):
        return cards.link(words, RESULTS[id], f'{page}#{id}', True, [], 'ledger.html', name,
                          f'{folder}/page.html#ask-{id}')
    page.write_text(
        f'{head}<p id="before">{said("a-b", "it is so", "said-a-b")} and '
        f'{said("a-c", "0.020× faster", "said-a-c")}</p>'
        f'<div class="cell"><div class="cell_output"><div class="output">{one}</div></div></div>'
        '<p id="between">text</p><section id="inner"><h2 id="heading">Inner</h2>'
        '<div class="cell"><div class="cell_input" id="code">5</div>'
        f'<div class="cell_output"><div class="output" id="printed">6</div>{drawn}</div></div>{boxes["a-b"]}'
        '<p id="after">after</p><p id="next">next</p></section>'
        f'<section id="second"><div class="cell"><div class="cell_output">{two}{nothing}</div></div>'
        f'{boxes["a-c"]}<div class="cell" id="a-none">result</div><h2>On</h2><p id="last">last</p>'
        '<div class="cell"><div class="cell_output"><div class="output" id="again">so ≈0.0200× (7)</div>'
        '<div class="output" id="other">0.02003</div></div></div>'
        '</section>')
    row = ledger_page.table(
        [ledger_page.Entry(c, 'chapters/reference/guesses', True) for c in RESULTS.values()], RESULTS,
        ['this run'], [], {id: f'page.html#ask-{id}' for id in RESULTS})
    for sentence in 'It takes longer.', '20 of 3 take 0.020× as long':       # the book has no such sentences
        row = row.replace('></a></th>', f'>{sentence}</a></th>', 1)
    other.write_text(f'{head}<ul><li>{said("a-c", "<b>0.020×</b> as 3", "here", "../../page.html")}</li></ul>'
                     f'<section>{row}</section>')
    text = (ROOT / 'chapters' / 'reference' / 'guesses.md').read_text()
    own = re.search(r'<div class="d2l-guesses-own">.*?</div>', text, re.S)[0]
    guesses.write_text(f'{head}{own}{pages.guesses(questions)}')
    return page, guesses, other


@pytest.fixture
def browser(chromium, places):
    """A browser that remembers nothing of the test before."""
    chromium.open(places[0])
    chromium.run('localStorage.clear()')
    chromium.errors.clear()
    yield chromium
    assert not chromium.errors


def test_a_share_is_asked_for_as_it_is_compared(browser, places):
    page = places[0].with_name('share.html')
    page.write_text(places[0].read_text().replace('data-unit="×"', 'data-unit="%"'))
    browser.open(page)
    said = browser.run(f'document.querySelector("{FORM} div").textContent')
    assert 'as a share: 0.5 is half' in said and '%' not in said


def visible(browser, *ids):
    seen = 'document.getElementById("{}").checkVisibility({{visibilityProperty: true}})'
    return {id: browser.run(seen.format(id)) for id in ids}


FOLDED = {'printed', 'figure', 'a-b', 'said-a-b'}
STANDING = {'before', 'between', 'heading', 'code', 'frame', 'call-a-b', 'after', 'next', 'ask-a-b', 'last'}


def hidden(browser):
    """What of the first experiment is not seen; its neighbours, code, text and a frame always are."""
    found = visible(browser, *FOLDED, *STANDING)
    return {id for id, seen in found.items() if not seen}


def fill(browser, guess='', low='', high=''):
    values = json.dumps([guess, low, high])
    browser.run(f'(() => {{ const f = document.querySelector("{FORM}"); {values}.forEach((v, i) => '
                '{ f.querySelectorAll("input")[i].value = v }); f.requestSubmit() })()')
    return browser.run('document.querySelector("#ask-a-b [role=status]").textContent')


def stored(browser, key='d2l-guesses'):
    text = browser.run(f'localStorage.getItem("{key}")')
    return json.loads(text) if text else None


def put(browser, guesses):
    text = json.dumps(json.dumps({'guesses': guesses}))
    browser.run(f'localStorage.setItem("d2l-guesses", {text})')


@pytest.fixture
def before_scripts(browser):
    """Runs code in each page before its own scripts."""
    made = []
    yield lambda code: made.append(
        browser.send('Page.addScriptToEvaluateOnNewDocument', source=code)['identifier'])
    for identifier in made:
        browser.send('Page.removeScriptToEvaluateOnNewDocument', identifier=identifier)


def test_a_guess_by_keyboard_alone(browser, places):
    browser.open(places[0])
    assert hidden(browser) == FOLDED
    browser.press('Tab', 3)      # past the two links of the text
    label = 'document.querySelector(`label[for="${document.activeElement.id}"]`)'
    assert browser.run(f'{label}.textContent') == 'Your guess'
    browser.type('10')
    browser.press('Enter')
    said = browser.run('document.activeElement.textContent')
    assert said == 'You guessed 10. Measured: 5×. That is off by a factor of 2.00.'
    assert browser.run('document.activeElement.getAttribute("role")') == 'status'
    assert not hidden(browser) and not visible(browser, 'a-c')['a-c']
    assert stored(browser) == {'guesses': {'a-b': {
        'guess': 10, 'low': None, 'high': None, 'measured': 5, 'topic': 'one'}}}
    browser.open(places[0])      # and another time
    assert not hidden(browser) and said in browser.run('document.querySelector("#ask-a-b").textContent')


def test_what_is_folded_says_so_and_leads_to_its_question(browser, places):
    browser.open(places[0])
    held = ('[...document.querySelectorAll("#inner .d2l-held")].map((e) => [e.innerText, '
            'e.querySelector("a").getAttribute("href")])')
    assert browser.run(held) == [['The figure is shown after your guess.', '#ask-a-b'],
                                 ['The result is shown after your guess.', '#ask-a-b']]
    fill(browser, '10')
    assert browser.run(held) == []


def test_just_show_me_by_keyboard(browser, places):
    browser.open(places[0])
    browser.press('Tab', 6)      # links, guess, interval, lock, show
    assert browser.run('document.activeElement.textContent') == 'Just show me'
    browser.press('Enter')
    assert not hidden(browser) and stored(browser) is None
    browser.open(places[0])
    assert not hidden(browser)


def test_without_javascript_everything_is_there(browser, places):
    browser.send('Emulation.setScriptExecutionDisabled', value=True)
    try:
        browser.open(places[0])
        assert not hidden(browser) and browser.run('document.forms.length') == 0
        assert 'Guess first. How many "a-b" & <more>?' in browser.run('document.body.innerText')
        browser.open(places[1])
        assert 'Without JavaScript' in browser.run('document.body.innerText')
        assert browser.run('document.querySelectorAll("tr[data-claim] a").length') == 3
    finally:
        browser.send('Emulation.setScriptExecutionDisabled', value=False)


@pytest.mark.parametrize('guess', [
    '', 'three', '0', '-1', '1,000', '1,5', 'NaN', 'Infinity', '1e999', '0x10', '3 times', '1e-999',
    '<b>3</b>', '٣', '50%'])
def test_what_is_no_guess_is_declined(browser, places, guess):
    browser.open(places[0])
    assert 'A guess is a number above zero' in fill(browser, guess)
    assert browser.run(f'document.querySelector("{FORM} input").getAttribute("aria-invalid")') == 'true'
    assert hidden(browser) == FOLDED and stored(browser) is None
    assert 'You guessed 4' in fill(browser, '4') and not hidden(browser)


@pytest.mark.parametrize(('numbers', 'words'), [
    (('3', '2', ''), 'two ends'), (('', '', '4'), 'two ends'), (('3', '4', '2'), 'smaller one first'),
    (('3', '0', '5'), 'above zero'), (('3', '2', '2'), 'smaller one first'),
    (('9', '2', '4'), 'outside your own interval')])
def test_what_is_no_interval_is_declined(browser, places, numbers, words):
    browser.open(places[0])
    assert words in fill(browser, *numbers) and stored(browser) is None and hidden(browser) == FOLDED


@pytest.mark.parametrize(('numbers', 'words', 'kept'), [
    (('', '2', '8'), 'You guessed 4 (2–8). Measured: 5×. That is off by a factor of 1.25, '
     'inside', 4), (('3', '2', '4'), 'off by a factor of 1.67, outside your interval', 3),
    ((' 1e-30 ', '', ''), 'factor of 5e30', 1e-30), (('1e300', '', ''), 'factor of 2e299', 1e300),
    (('4x', '2×', '8 ×'), 'off by a factor of 1.25, inside', 4),
    (('.5', '', ''), 'factor of 10.', 0.5), (('5.', '', ''), 'factor of 1.00', 5),
    (('5e-324', '', ''), 'factor of 1e300', 5e-324), (('+7', '', ''), 'factor of 1.40', 7)])
def test_numbers_of_any_size_are_guesses(browser, places, numbers, words, kept):
    browser.open(places[0])
    assert words in fill(browser, *numbers)
    assert stored(browser)['guesses']['a-b']['guess'] == pytest.approx(kept)
    browser.open(places[1])
    text = browser.run('document.body.innerText')
    assert 'NaN' not in text and 'Infinity' not in text and 'undefined' not in text


@pytest.mark.parametrize('how', [REFUSES, NO_STORAGE])
def test_a_browser_that_keeps_nothing(browser, places, before_scripts, how):
    before_scripts(how)
    browser.open(places[0])
    assert 'counts on this page until you leave it' in fill(browser, '10')
    assert not hidden(browser)
    browser.open(places[1])
    assert 'No guess of yours' in browser.run('document.body.innerText')


def test_a_full_storage_loses_nothing(browser, places):
    browser.run('''(() => {
        localStorage.setItem('d2l-guesses', '{"guesses": {"a-x": {"guess": 2, "measured": 3}}}');
        for (let size = 2 ** 22, n = 0; size >= 1; n += 1) {
          try { localStorage.setItem(`filler-${n}`, 'x'.repeat(size)) }
          catch { size = Math.floor(size / 2) } } })()''')
    browser.open(places[0])
    assert 'counts on this page until you leave it' in fill(browser, '10')
    assert list(stored(browser)['guesses']) == ['a-x'] and not hidden(browser)


@pytest.mark.parametrize(('text', 'sound'), [
    ('{"guesses": {"a-x"', []), ('null', []), ('[1]', []), ('{"guesses": [1]}', []),
    ('{"guesses": {"a-x": {"guess": 2}, "a-b": {"guess": "2"}, "__proto__": {"guess": 2}}}', ['a-x']),
    ('{"guesses": {"a-x": {"guess": 2, "measured": -1}, "<b>": {"guess": 1}, "a-y": null}}', [])])
def test_broken_guesses_are_set_aside(browser, places, text, sound):
    browser.run(f'localStorage.setItem("d2l-guesses", {json.dumps(text)})')
    browser.open(places[0])
    assert hidden(browser) == FOLDED
    assert 'set aside as d2l-guesses-broken-1' in fill(browser, '10')
    assert browser.run('localStorage.getItem("d2l-guesses-broken-1")') == text
    assert sorted(stored(browser)['guesses']) == ['a-b', *sound]


def test_broken_guesses_that_cannot_be_set_aside_stay(browser, places, before_scripts):
    browser.run('localStorage.setItem("d2l-guesses", "{")')
    before_scripts(REFUSES)
    browser.open(places[0])
    assert 'counts on this page until you leave it' in fill(browser, '10') and not hidden(browser)
    assert browser.run('localStorage.getItem("d2l-guesses")') == '{'


@pytest.mark.parametrize('hash', ['#a-b', '#printed', '#frame'])
def test_a_link_to_what_is_folded_opens_it(browser, places, hash):
    browser.open(places[0], hash)
    assert not hidden(browser)
    browser.open(places[0])
    assert hidden(browser) == FOLDED
    browser.run(f'location.hash = "{hash}"')
    browser._wait(lambda: not hidden(browser) or None)
    assert stored(browser) is None


def test_an_output_further_down_does_not_repeat_the_figure(browser, places):
    browser.open(places[0])
    assert visible(browser, 'again', 'other') == {'again': False, 'other': True}
    put(browser, {'a-c': {'guess': 2}})
    browser.open(places[0])
    assert visible(browser, 'again', 'other') == {'again': True, 'other': True}


@pytest.mark.parametrize('hash', ['#inner', '#code', '#end-a-b'])
def test_a_link_to_what_stands_opens_nothing(browser, places, hash):
    browser.open(places[0], hash)
    assert hidden(browser) == FOLDED


def test_two_questions_of_one_cell(browser, places, tmp_path):
    """An answered one shows its own result; what lies between stays folded for the other."""
    text = places[0].read_text()
    one, two = re.findall(r'<div class="d2l-predict" id="ask-a-[bc]".*?</p></div>', text, re.S)
    page = tmp_path / 'both.html'
    page.write_text(text.replace(two, '').replace(one, one + two))
    browser.open(page)
    assert hidden(browser) == FOLDED
    fill(browser, '10')
    assert hidden(browser) == {'printed', 'figure'}
    assert visible(browser, 'ask-a-c', 'a-c') == {'ask-a-c': True, 'a-c': False}
    browser.open(page)
    assert hidden(browser) == {'printed', 'figure'}


def test_other_links_and_claims_without_a_figure_fold_nothing(browser, places):
    browser.open(places[0], '#top')
    assert hidden(browser) == FOLDED
    assert visible(browser, 'a-none') == {'a-none': True}
    assert not browser.run('!!document.querySelector("#ask-a-none form")')
    browser.open(places[0], '#%E0%A4%A')
    assert hidden(browser) == FOLDED


def test_the_first_guess_counts_in_two_windows_too(browser, places):
    browser.open(places[0])
    put(browser, {'a-b': {'guess': 2}})
    assert 'You guessed 2.' in fill(browser, '10') and stored(browser)['guesses']['a-b']['guess'] == 2


def test_a_guess_from_jupyterlab_gets_its_result(browser, places):
    put(browser, {'a-b': {'guess': 2, 'measured': None}})
    browser.open(places[0])
    assert not hidden(browser) and stored(browser)['guesses']['a-b']['measured'] == 5


SOME = {'a-b': {'guess': 10, 'low': 4, 'high': 20, 'measured': 5, 'topic': 'one'},
        'a-c': {'guess': 0.01, 'low': None, 'high': None, 'measured': 0.02, 'topic': 'one'},
        'a-x': {'guess': 3, 'measured': 30, 'topic': 'another_one'},
        'a-y': {'guess': 3, 'topic': 'another_one'}}


def with_guesses(browser, places, guesses):
    put(browser, guesses)
    browser.open(places[1])


def click(browser, start):
    browser.run('[...document.querySelectorAll("button")].find((b) => '
                f'b.textContent.startsWith("{start}")).click()')


def cells(browser, table):
    return browser.run(f'[...document.querySelectorAll("{table} tbody tr:has(td)")].map((r) => '
                       '[...r.children].map((c) => c.textContent))')


def test_the_page_of_guesses(browser, places):
    with_guesses(browser, places, SOME)
    assert cells(browser, '.d2l-guesses-own') == [
        ['another one', '1', '×10', '0 of 1', '1 of 1', '–'],
        ['one', '2', '×2.00', '2 of 2', '1 of 2', '1 of 1'],
        ['all', '3', '×2.00', '2 of 3', '2 of 3', '1 of 1']]
    assert [r[1:] for r in cells(browser, '.d2l-guesses')] == [
        ['10 (4–20) erase', '5', '×2.00'], ['0.01 erase', '0.02', '×2.00'], ['', '', '']]
    assert browser.run('document.querySelectorAll(".d2l-guess svg circle").length') == 3


def test_files_are_read_by_both_sides(browser, places, tmp_path, monkeypatch):
    with_guesses(browser, places, SOME)
    browser.run('''(() => { const make = URL.createObjectURL; window.saved = new Promise((done) => {
        URL.createObjectURL = (blob) => { blob.text().then(done); return make(blob) } }) })()''')
    click(browser, 'Save')
    file = tmp_path / 'guesses.json'
    file.write_text(browser.run('window.saved'))
    assert predictions.read(file) == (SOME, True)
    assert predictions.table(SOME).count('\n') == 4
    monkeypatch.setenv('TESTED_RESULTS_GUESSES', str(tmp_path / 'lab.json'))
    lab = {'a-b': {**SOME['a-b'], 'guess': 1e9}, 'a-new': SOME['a-c']}
    predictions.save(tmp_path / 'lab.json', lab)
    assert 'No guess' not in read(browser, (tmp_path / 'lab.json').read_text())
    assert stored(browser)['guesses'] == {**SOME, 'a-new': SOME['a-c']}


def read(browser, text):
    """Choose a file with this text; returns what the page says."""
    browser.run(f'''(() => {{ const given = new DataTransfer();
        given.items.add(new File([{json.dumps(text)}], "x.json"));
        const input = document.querySelector("input[type=file]"); input.files = given.files;
        input.dispatchEvent(new Event("change")) }})()''')
    said = 'document.querySelector(".d2l-guess [role=status]").textContent'
    return browser._wait(lambda: browser.run(said) or None)


@pytest.mark.parametrize('text', ['', 'no', '{}', '[]', '{"guesses": 3}',
                                  '{"guesses": {"a-b": {"guess": 0}}}'])
def test_a_file_of_something_else_changes_nothing(browser, places, text):
    with_guesses(browser, places, SOME)
    assert read(browser, text) == 'That is no file of guesses. Nothing was changed. '
    assert stored(browser)['guesses'] == SOME


def test_what_is_in_a_file_is_never_run(browser, places):
    with_guesses(browser, places, {})
    topic = '<img src=x onerror="window.run = 1">'
    read(browser, json.dumps({'guesses': {'a-b': {'guess': 1, 'measured': 2, 'topic': topic}}}))
    assert topic in cells(browser, '.d2l-guesses-own')[0][0] and browser.run('window.run') is None


def test_erase_all(browser, places):
    browser.run('localStorage.setItem("d2l-guesses-broken-1", "x"); localStorage.setItem("other", "x")')
    with_guesses(browser, places, SOME)
    click(browser, 'Erase')
    assert browser.run('Object.keys(localStorage)') == ['other']
    assert 'No guess of yours' in browser.run('document.body.innerText')


def test_who_does_not_want_to_be_asked_is_not(browser, places):
    browser.open(places[1])
    browser.run('document.querySelector("input[type=checkbox]").click()')
    browser.open(places[0])
    assert not hidden(browser) and not browser.run('document.forms.length')
    browser.open(places[1])
    browser.run('document.querySelector("input[type=checkbox]").click()')
    browser.open(places[0])
    assert hidden(browser) == FOLDED


def seen(browser, id):
    """What a reader sees in place of a quotation, and where its link leads."""
    return browser.run(f'''(() => {{ const a = document.getElementById("{id}");
        const e = a.offsetParent ? a : a.nextElementSibling;
        return [e.innerText, e.getAttribute("href").split("/").pop()] }})()''')


ROWS = ('[...document.querySelectorAll(".d2l-ledger tbody tr[data-verdicts]")].map((r) => '
        '[r.children[0].innerText, r.children[1].innerText.split(/\\s/).pop()])')
TOLD = [['It takes longer.', '5×'], ['20 of 3 take 0.020× as long', '0.0200×']]
UNTOLD = [['It takes longer.', '…'], ['… of … take …× as long guess', '…']]


def test_no_quotation_gives_a_result_away(browser, places):
    """Neither on the page that asks nor on another, until it is guessed."""
    browser.open(places[0])
    assert seen(browser, 'said-a-b') == ['it is so', 'page.html#ask-a-b']
    assert seen(browser, 'said-a-c') == ['…× faster guess', 'page.html#ask-a-c']
    assert '0.020' not in browser.run('document.body.innerText').replace('0.02003', '')
    browser.open(places[2])
    assert seen(browser, 'here') == ['…× as 3 guess', 'page.html#ask-a-c']
    assert browser.run(ROWS) == UNTOLD
    put(browser, {'a-c': {'guess': 2}})
    browser.open(places[2])
    assert seen(browser, 'here') == ['0.020× as 3✗', 'page.html#a-c']
    assert browser.run(ROWS) == [UNTOLD[0], TOLD[1]]
    browser.run('localStorage.clear(); dispatchEvent(new Event("storage"))')       # in another window
    assert seen(browser, 'here')[0] == '…× as 3 guess'


def test_a_guess_shows_the_quotations(browser, places):
    browser.open(places[0])
    fill(browser, '10')
    assert seen(browser, 'said-a-b') == ['it is so✓', '#a-b']
    assert seen(browser, 'said-a-c')[0] == '…× faster guess'
    browser.run('document.querySelector("#ask-a-c form button[type=button]").click()')     # just show me
    assert seen(browser, 'said-a-c')[0] == '0.020× faster✗'
    browser.open(places[2])
    assert browser.run(ROWS) == TOLD


@pytest.mark.parametrize('keeps', [True, False])
def test_each_page_offers_to_show_all(browser, places, before_scripts, keeps):
    if not keeps:
        before_scripts(NO_STORAGE)
    for page, other in ((places[2], places[0]), (places[0], places[2])):
        browser.open(page)
        offers = browser.run('[...document.querySelectorAll("button")].filter((b) => '
                             'b.textContent.startsWith("Do not ask")).length')
        assert offers == browser.run('document.forms.length || 1')
        click(browser, 'Do not ask')
        assert '0.020' in seen(browser, 'here' if page == places[2] else 'said-a-c')[0]
        assert not browser.run('document.forms.length + document.querySelectorAll(".d2l-asks").length')
        assert browser.run('document.activeElement.getAttribute("role")') == 'status'
        assert 'Ask me again' in browser.run('document.activeElement.textContent')
        browser.open(other)
        assert browser.run('!document.querySelector(".d2l-asks")') == keeps
        if keeps:
            browser.run('localStorage.clear()')


def test_a_single_guess_is_erased(browser, places):
    with_guesses(browser, places, SOME)
    browser.run('document.querySelector("tr[data-claim=a-c] button").click()')
    assert stored(browser)['guesses'] == {k: e for k, e in SOME.items() if k != 'a-c'}
    assert browser.run('document.activeElement.textContent').startswith('The guess is erased')
    assert [r[1] for r in cells(browser, '.d2l-guesses')] == ['10 (4–20) erase', '', '']
    browser.open(places[0])
    assert visible(browser, 'a-c', 'a-b') == {'a-c': False, 'a-b': True}


def test_a_guess_after_a_link_opened_the_result(browser, places):
    browser.open(places[0], '#a-b')
    assert 'You guessed 10' in fill(browser, '10') and not hidden(browser)


def test_printed_everything_is_there(browser, places):
    browser.open(places[0])
    browser.send('Emulation.setEmulatedMedia', media='print')
    try:
        assert not hidden(browser) and not browser.run('document.querySelector(".d2l-asks").offsetParent')
        assert browser.run(f'getComputedStyle(document.querySelector("{FORM}")).display') == 'none'
    finally:
        browser.send('Emulation.setEmulatedMedia', media='')


@node
def test_the_page_scores_as_python_does():
    rng = random.Random(1)
    some = {}
    for i in range(200):
        guess, factor = 10 ** rng.uniform(-9, 9), 10 ** rng.uniform(-3, 3)
        some[f'a-{i}'] = {'guess': guess, 'measured': guess * factor, 'topic': 'one',
                          **({'low': guess / 5, 'high': guess * 5} if i % 3 else {})}
    entries = json.dumps(list(some.values()))
    program = (f'const api = require({json.dumps(str(SCRIPT))}), list = {entries};'
               'console.log(JSON.stringify([api.summary(list), list.map(api.off)]))')
    found, factors = json.loads(subprocess.run(['node', '-e', program], capture_output=True, text=True,
                                               timeout=60, check=True).stdout)
    assert factors == pytest.approx([predictions.off(e) for e in some.values()], rel=1e-9)
    row = predictions.table(some).split('\n')[1].split()
    assert row == ['one', '200', f'×{numbers.factor(found["half"])}', str(found['near']), str(found['low']),
                   str(found['held']), 'of', str(found['sure'])]
    assert math.isfinite(found['half']) and 0 < found['near'] < 200


def test_the_script_sends_nothing_and_runs_no_text():
    assert not re.search(r'\beval\b|\bFunction\(|innerHTML|fetch\(|XMLHttp|sendBeacon|WebSocket|'
                         r'import\(|https?://(?!www\.w3\.org/2000/svg)', SCRIPT.read_text())
