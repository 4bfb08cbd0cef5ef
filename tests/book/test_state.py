"""What the browser keeps of a reader: saved as a file, taken in elsewhere, erased; and nothing is lost."""

import json

import pytest

from tools.source import ROOT

pytestmark = pytest.mark.slow
THEME = ROOT / 'tools' / 'theme'
KEPT = {'d2l-framework': 'mxnet',
        'd2l-read': '{"pages": ["chapters/a/one"], "last": "chapters/a/one", "title": "One"}',
        'd2l-solved': '["a-ex-b"]', 'd2l-shown': '["*"]', 'd2l-guesses': '{"guesses": {"a-b": {"guess": 3}}}'}
SAYS = 'This browser keeps 1 opened page, 1 solved exercise and 1 guess of yours.'
FILE = json.dumps({'version': 1, 'kept': KEPT})
REFUSES = 'Object.defineProperty(window, "localStorage", { get() { throw new Error("no") } })'
FULL = '''(() => { const put = Storage.prototype.setItem; let left = 2;
    Storage.prototype.setItem = function (key, text) {
        if (text === "theirs" && !left--) throw new Error("full");
        put.call(this, key, text); } })()'''


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp('pages') / 'page.html'
    path.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Page</title>'
                    f'<script src="{(THEME / "state.js").as_uri()}"></script>'
                    f'<body><main><div class="d2l-state"></div></main>')
    return path


@pytest.fixture
def browser(chromium, page):
    chromium.open(page)
    chromium.run('localStorage.clear()')
    chromium.errors.clear()
    yield chromium
    assert not chromium.errors


def keep(browser, page, kept):
    browser.run(f'Object.assign(localStorage, {json.dumps(kept)})')
    browser.open(page)


def kept(browser):
    return browser.run('({ ...localStorage })')


def said(browser):
    return browser.run('document.querySelector(".d2l-state [role=status]").textContent')


def press(browser, words):
    browser.run(f'[...document.querySelectorAll("button")].find((b) => b.textContent === "{words}").click()')


def saved(browser):
    browser.run('''(() => { const make = URL.createObjectURL; window.saved = new Promise((done) => {
        URL.createObjectURL = (blob) => { blob.text().then(done); return make(blob) } }) })()''')
    press(browser, 'Save all as a file')
    return browser.run('window.saved')


def take_in(browser, text):
    browser.run(f'''(() => {{ const given = new DataTransfer();
        const input = document.querySelector("input[type=file]");
        given.items.add(new File([{json.dumps(text)}], "reader.json"));
        input.files = given.files; input.dispatchEvent(new Event("change")); }})()''')
    return browser._wait(lambda: said(browser) or None)


def test_what_is_saved_in_one_browser_is_taken_in_by_another(browser, page):
    keep(browser, page, {**KEPT, 'theme': 'dark'})
    counted = 'document.querySelector(".d2l-state p").textContent'
    assert browser.run(counted) == SAYS
    text = saved(browser)
    press(browser, 'Erase all')
    assert said(browser) == 'All is erased.' and kept(browser) == {'theme': 'dark'}
    assert '0 opened pages' in browser.run(counted)
    browser.open(page)
    assert take_in(browser, text) == 'The file was taken in; what was here already stays.'
    assert kept(browser) == {**KEPT, 'theme': 'dark'} and '1 opened page,' in browser.run(counted)


def test_what_is_here_already_stays(browser, page):
    mine = {'d2l-framework': 'all', 'd2l-guesses': '{"guesses":{"a-b":{"guess":5},"a-c":{"guess":1}}}',
            'd2l-read': '{"pages":["chapters/a/two"],"last":"chapters/a/two","title":"Two"}'}
    keep(browser, page, mine)
    take_in(browser, FILE)
    now = kept(browser)
    assert json.loads(now['d2l-guesses']) == json.loads(mine['d2l-guesses'])
    assert json.loads(now['d2l-read']) == {'pages': ['chapters/a/two', 'chapters/a/one'],
                                           'last': 'chapters/a/two', 'title': 'Two'}
    assert now['d2l-framework'] == 'all' and now['d2l-solved'] == KEPT['d2l-solved']


@pytest.mark.parametrize(('text', 'why'), [
    ('', 'That is no file of what this book keeps.'), ('{"guesses": {}}', 'That is no file'),
    (FILE.replace('"version": 1', '"version": 2'), 'another version of the book (2; this one reads 1)'),
    (json.dumps({'version': 1, 'kept': {'d2l-solved': '{}'}}), 'That is no file'),
    (json.dumps({'version': 1, 'kept': {'mode': 'dark'}}), 'That is no file')])
def test_a_file_that_cannot_be_read_changes_nothing(browser, page, text, why):
    keep(browser, page, KEPT)
    answer = take_in(browser, text)
    assert why in answer and answer.endswith('Nothing was changed.') and kept(browser) == KEPT


def test_where_the_storage_is_full_nothing_changes(browser, page):
    keep(browser, page, KEPT)
    browser.run(FULL)
    theirs = {f'd2l-theirs-{k}': 'theirs' for k in range(4)}
    answer = take_in(browser, json.dumps({'version': 1, 'kept': theirs}))
    assert answer == 'This browser has no room for it. Nothing was changed.'
    assert kept(browser) == KEPT


def test_where_the_browser_refuses_it_says_so(browser, page):
    added = browser.send('Page.addScriptToEvaluateOnNewDocument', source=REFUSES)['identifier']
    try:
        browser.open(page)
        assert 'refuses to keep anything' in browser.run('document.querySelector(".d2l-state p").textContent')
        press(browser, 'Save all as a file')
        assert said(browser).endswith('There is nothing to save.')
        press(browser, 'Erase all')
        assert said(browser).endswith('There is nothing to erase.')
        browser.run('document.querySelector(".d2l-state [role=status]").textContent = ""')
        assert take_in(browser, FILE).endswith('Nothing was changed.')
    finally:
        browser.send('Page.removeScriptToEvaluateOnNewDocument', identifier=added)


def test_what_another_version_has_written_is_set_aside_and_saved(browser, page):
    keep(browser, page, {'d2l-read': '{"v2": []}', 'd2l-read-broken-1': 'older', 'd2l-solved': '["a-ex-b"]'})
    wanted = {'d2l-read-broken-1': 'older', 'd2l-read-broken-2': '{"v2": []}', 'd2l-solved': '["a-ex-b"]'}
    assert kept(browser) == wanted and 'It is set aside as d2l-read-broken-2' in said(browser)
    assert json.loads(saved(browser)) == {'version': 1, 'kept': wanted}
