"""The pages of the book with their stored outputs, made once for all the tests that look at them."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import filelock
import pytest

from tests.book.browser import Browser
from tools.pages import MOVED
from tools.source import ROOT


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


@pytest.fixture(scope='session')
def html(tmp_path_factory):
    """Their folder. With several workers of pytest-xdist, the first to ask makes it for all."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base) / 'html'
    said = folder.with_suffix('.txt')
    with filelock.FileLock(folder.with_suffix('.lock')):
        if not said.exists():
            done = subprocess.run([sys.executable, '-m', 'tools.book', '--stored', '--to', str(folder)],
                                  cwd=ROOT, capture_output=True, text=True, timeout=900)
            said.write_text(f'{done.returncode}\n{done.stdout}{done.stderr}')
    told = said.read_text()
    assert told.startswith('0\n') and 'ledger: ' in told, told
    return folder


@pytest.fixture(scope='session')
def pages(html):
    """Each page as :class:`Page` reads it, by its name in the folder."""
    return {p.relative_to(html).as_posix(): Page(p) for p in html.rglob('*.html')
            if '_static' not in p.parts and MOVED.split('<script>')[0] not in p.read_text()}


@pytest.fixture(scope='module')
def chromium(tmp_path_factory):
    """A browser of its own for the tests of a module."""
    browser = Browser(tmp_path_factory.mktemp('profile'))
    yield browser
    browser.close()
