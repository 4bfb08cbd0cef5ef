"""*Run this page*: a click where make lab serves the pages, a line where they are read from a file."""

import functools
import http.server
import shutil
import threading

import pytest

from tests.book.browser import Browser
from tools.notebooks import ROOT

pytestmark = pytest.mark.slow
PAGE = '''<!DOCTYPE html><html lang="en"><head><script src="../../run.js"></script></head><body>
<article class="bd-article"><h1>One</h1>{}</article></body></html>'''


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    pages = tmp_path_factory.mktemp('pages') / 'static' / 'html' / 'chapters' / 'topic'
    pages.mkdir(parents=True)
    (pages / 'one_pytorch.html').write_text(PAGE.format('<div class="cell">code</div>'))
    (pages / 'index.html').write_text(PAGE.format('<p>no code</p>'))
    shutil.copy(ROOT / 'tools' / 'theme' / 'run.js', pages.parent.parent)
    return pages


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    b = Browser(tmp_path_factory.mktemp('profile'))
    yield b
    b.close()


def line(browser):
    return browser.run('document.querySelector(".d2l-run")?.textContent')


def test_from_a_file_it_says_how(browser, folder):
    browser.open(folder / 'one_pytorch.html')
    assert line(browser) == 'Run this page: make lab, then open chapters/topic/one_pytorch.ipynb'
    browser.open(folder / 'index.html')
    assert line(browser) is None and browser.errors == []


def test_from_the_lab_it_is_a_click(browser, folder):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder.parents[3])
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f'http://127.0.0.1:{server.server_port}'
        browser.send('Page.navigate', url=f'{address}/static/html/chapters/topic/one_pytorch.html')
        browser._wait(lambda: line(browser))
        link = browser.run('document.querySelector(".d2l-run a").href')
        server.shutdown()
    assert link == f'{address}/lab/tree/chapters/topic/one_pytorch.ipynb'
