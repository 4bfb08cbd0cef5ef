"""*Run this page*: a click where make lab serves the pages, a line where they are read from a file."""

import functools
import http.server
import shutil
import threading

import pytest

from tools.source import ROOT

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


def line(chromium):
    return chromium.run('document.querySelector(".d2l-run")?.textContent')


def test_from_a_file_it_says_how(chromium, folder):
    chromium.open(folder / 'one_pytorch.html')
    assert line(chromium) == 'Run this page: make lab, then open chapters/topic/one_pytorch.ipynb'
    chromium.open(folder / 'index.html')
    assert line(chromium) is None and chromium.errors == []


def test_from_the_lab_it_is_a_click(chromium, folder):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder.parents[3])
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f'http://127.0.0.1:{server.server_port}'
        chromium.send('Page.navigate', url=f'{address}/static/html/chapters/topic/one_pytorch.html')
        chromium._wait(lambda: line(chromium))
        link = chromium.run('document.querySelector(".d2l-run a").href')
        server.shutdown()
    assert link == f'{address}/lab/tree/chapters/topic/one_pytorch.ipynb'
