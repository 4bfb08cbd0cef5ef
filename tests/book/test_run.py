"""Ways to notebooks: a click where make lab serves the pages, a line where they are read from a file."""

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
    (pages / 'exercises.html').write_text(PAGE.format(
        '<div class="d2l-solve" data-notebooks="topic_pytorch topic_mxnet"></div>'))
    stub = pages.parents[3] / 'api' / 'contents' / 'exercises' / 'topic_pytorch.ipynb'
    stub.parent.mkdir(parents=True)
    stub.write_text('{}')
    shutil.copy(ROOT / 'tools' / 'theme' / 'run.js', pages.parent.parent)
    return pages


def line(chromium):
    return chromium.run('document.querySelector(".d2l-run")?.textContent')


def test_from_a_file_it_says_how(chromium, folder):
    chromium.open(folder / 'one_pytorch.html')
    assert line(chromium) == 'Run this page: make lab, then open chapters/topic/one_pytorch.ipynb'
    chromium.open(folder / 'index.html')
    assert line(chromium) is None and chromium.errors == []


@pytest.fixture
def lab(folder):
    """The address of the pages as make lab serves them."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder.parents[3])
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}'
        server.shutdown()


def test_from_the_lab_it_is_a_click(chromium, lab):
    chromium.open(f'{lab}/static/html/chapters/topic/one_pytorch.html')
    link = chromium.run('document.querySelector(".d2l-run a").href')
    assert link == f'{lab}/lab/tree/chapters/topic/one_pytorch.ipynb'


def ways(chromium):
    """What an exercise says of its stubs."""
    look = '[...document.querySelectorAll(".d2l-solve p")].map((p) => p.textContent)'
    return chromium._wait(lambda: chromium.run(look) or None)


def test_an_exercise_leads_to_its_stub_or_says_how_to_get_it(chromium, folder, lab):
    chromium.open(folder / 'exercises.html')
    assert ways(chromium) == [f'Solve it in a notebook: make exercises and make lab, then open {file}'
                              for file in ('exercises/topic_pytorch.ipynb', 'exercises/topic_mxnet.ipynb')]
    chromium.open(f'{lab}/static/html/chapters/topic/exercises.html')
    assert ways(chromium) == ['Solve it: open the notebook with PyTorch',
                              'Solve it in a notebook: make exercises writes exercises/topic_mxnet.ipynb']
    link = chromium.run('document.querySelector(".d2l-solve a").href')
    assert link == f'{lab}/lab/tree/exercises/topic_pytorch.ipynb'
