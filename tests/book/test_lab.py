"""JupyterLab as *make lab* starts it: notebooks from the first to the last cell, and figures to turn."""

import platform
import re
import shutil
import socket
import subprocess
import sys
import urllib.request

import pytest

from tested_results.claims import MARKS
from tests.book.browser import Browser
from tools import quotations, source
from tools.front import COMMANDS, surroundings
from tools.source import ROOT

pytestmark = pytest.mark.slow
HERE = "(typeof jupyterapp === 'object' ? [...jupyterapp.shell.widgets('main')][0] : null)"
READY = f'{HERE}?.context?.isReady && !!{HERE}.sessionContext.session?.kernel'
TEXTS = "[...document.querySelectorAll('.jp-Notebook {}')].map((e) => e.textContent)"


@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    """JupyterLab on a copy of the chapters; gives its address, and the page where it is open."""
    folder = tmp_path_factory.mktemp('lab')
    shutil.copytree(ROOT / 'chapters', folder / 'chapters')
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    places = {f'JUPYTER{n}': str(folder / n) for n in (
        '_CONFIG_DIR', '_RUNTIME_DIR', 'LAB_SETTINGS_DIR', 'LAB_WORKSPACES_DIR')}
    process = subprocess.Popen(
        [sys.executable, *COMMANDS['lab'], '--no-browser', f'--ServerApp.port={port}', '--allow-root',
         '--IdentityProvider.token=', '--LabApp.expose_app_in_browser=True'], cwd=folder,
        env={**surroundings(), **places, 'TESTED_RESULTS_BUDGET': '1', 'TESTED_RESULTS_SPAN': '1',
             'TESTED_RESULTS_WINDOWS': '7'},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    browser = None
    try:
        address = f'http://127.0.0.1:{port}'
        Browser._wait(lambda: urllib.request.urlopen(f'{address}/api', timeout=5).status)
        browser = Browser(tmp_path_factory.mktemp('profile'))
        browser.socket.settimeout(200)
        browser.resize(1280, 30_000)            # JupyterLab keeps in the page what would be in sight
        yield address, browser
    finally:
        if browser:
            browser.close()
        process.terminate()
        process.wait(20)


def opened(lab, name):
    """The browser, with this notebook open and its kernel started."""
    address, browser = lab
    browser.errors.clear()
    browser.open(f'{address}/lab/tree/{name}?reset')
    browser._wait(lambda: browser.run(READY) or None, 60)
    browser.run(f'jupyterapp.shell.activateById({HERE}.id)')
    return browser


@pytest.mark.parametrize('name', ['memory/memory_solutions_pytorch', 'memory/memory_solutions_mxnet'])
def test_a_notebook_runs_from_the_first_to_the_last_cell(lab, name):
    """Every result is in sight, and the sentence that speaks of it leads to it."""
    path = ROOT / 'chapters' / f'{name}.ipynb'
    if reason := source.missing(source.framework(path)):
        pytest.skip(reason)
    browser = opened(lab, f'chapters/{name}.ipynb')
    browser.run('jupyterapp.commands.execute("notebook:run-all-cells")')
    cells = [c for c in source.read(path).cells if c.cell_type == 'code']
    numbers = browser.run(TEXTS.format('.jp-CodeCell .jp-InputPrompt'))
    assert numbers == [f'[{k}]:' for k in range(1, len(cells) + 1)]
    assert browser.run(TEXTS.format('[data-mime-type="application/vnd.jupyter.error"]')) == []
    results = browser.run(TEXTS.format('.d2l-claim'))
    assert len(results) == len(quotations.calls(path)) > 0
    # a tested result begins with its mark, a plain measurement with its name
    assert all(r.startswith((*(f'{mark} ' for mark in MARKS.values()), f'{c.id} = '))
               for r, c in zip(results, quotations.calls(path), strict=True))
    links = browser.run('''[...document.querySelectorAll('.jp-Notebook .jp-MarkdownOutput a[href*="#"]')]
        .filter((a) => document.getElementById(a.hash.slice(1))?.matches('.d2l-claim')).length''')
    assert links >= len(results)


def test_a_solution_is_shown_as_text_and_leads_to_its_exercise(lab):
    name = 'chapters/hybridization/hybridization_solutions_pytorch.ipynb'
    wanted = sum('**Solution to [' in c.source for c in source.read(ROOT / name).cells)
    browser = opened(lab, name)
    boxes = TEXTS.format('.jp-MarkdownOutput blockquote')
    browser._wait(lambda: len(browser.run(boxes)) == wanted or None)
    assert all(b.strip().startswith('Solution to ') for b in browser.run(boxes))
    link = 'document.querySelector(".jp-MarkdownOutput blockquote a[href*=exercises]")'
    browser._wait(lambda: browser.run(f'{link}.href.includes("/files/")') or None)     # JupyterLab has it
    browser.run(f'{link}.click()')
    browser._wait(lambda: browser.run('!!document.querySelector(".jp-MarkdownViewer")') or None)


@pytest.mark.parametrize('name', ['hybridization/exercises', 'asynchrony/index'])
def test_a_page_is_shown_as_text_with_its_answers_folded(lab, name):
    """What the list of files opens: neither the source nor raw markup."""
    address, browser = lab
    browser.open(f'{address}/lab/tree/chapters/{name}.md?reset')
    page = 'document.querySelector(".jp-MarkdownViewer .jp-RenderedMarkdown")'
    text = browser._wait(lambda: browser.run(f'{page}?.innerText') or None)
    assert not re.search(r'```|~~~|^:\w+:|\{\w+\}`|</|\*\*', text, re.M)
    written = (ROOT / 'chapters' / f'{name}.md').read_text()
    folded = browser.run(f'[...{page}.querySelectorAll("details")].map((e) => [e.open, e.innerText])')
    assert folded == [[False, 'Answer']] * written.count('<details>')
    anchors = f'[...{page}.querySelectorAll("a[data-jupyter-id]")].map((a) => a.dataset.jupyterId)'
    assert browser.run(anchors) == re.findall('<a id="(.*?)">', written) != []
    pictures = browser.run(f'[...{page}.querySelectorAll("img")].map((i) => i.alt)')
    assert pictures == re.findall(r'!\[(.*?)\]\(', written)


def test_to_open_a_notebook_does_not_change_it(lab):
    """With the Python that stored it: JupyterLab writes the version of another into the notebook."""
    name = 'chapters/memory/memory_pytorch.ipynb'
    if platform.python_version() != source.read(ROOT / name).metadata.language_info.version:
        pytest.skip('the notebook was stored with another version of Python')
    browser = opened(lab, name)
    browser.run('new Promise((done) => setTimeout(done, 3000))')         # the kernel has said what it is
    assert browser.run(f'{HERE}.context.model.dirty') is False


def test_what_is_asked_is_hidden_until_its_cell_is_run(lab):
    browser = opened(lab, 'chapters/memory/memory_pytorch.ipynb')
    asked = f'{HERE}.content.widgets.find((w) => w.model.getMetadata("jupyter")?.outputs_hidden)'
    browser._wait(lambda: browser.run(f'{asked} && true'))
    browser.run(f'window.asked = {asked}; 0')
    assert browser.run('asked.outputHidden') is True
    browser.run(f'{HERE}.content.activeCellIndex = {HERE}.content.widgets.indexOf(asked);'
                'jupyterapp.commands.execute("notebook:run-cell"); 0')
    browser._wait(lambda: browser.run('!asked.outputHidden || null'))


def test_a_figure_of_the_pages_turns_in_a_notebook(lab):
    browser = opened(lab, 'chapters/memory/memory_pytorch.ipynb')
    browser.run('jupyterapp.commands.execute("notebook:insert-cell-below")')
    browser.run(f"""{HERE}.content.activeCell.model.sharedModel.setSource(
        "from tools.live import turn; turn('roofline')")""")
    browser.run('jupyterapp.commands.execute("notebook:run-cell")')
    inside = 'document.querySelector(".jp-Notebook iframe")?.contentDocument'
    browser._wait(lambda: browser.run(f'{inside}?.querySelector("form") && true'))
    said = browser.run(f'{inside}.querySelector("[role=status]").textContent')
    assert 'measured' in browser.run(f'{inside}.querySelector(".live-figure-note").textContent')
    browser.run(f'(({{ ownerDocument: d }}) => {{ const s = d.querySelector("input[type=range]");'
                f's.value = s.max; s.dispatchEvent(new Event("input")); }})({inside}.body)')
    assert browser.run(f'{inside}.querySelector("[role=status]").textContent') != said
    assert browser.run(f'{inside}.body.scrollHeight') > 300
    # the frame takes the page's height once the page is complete
    browser._wait(lambda: browser.run(
        f'document.querySelector(".jp-Notebook iframe").clientHeight >= {inside}.body.scrollHeight || null'))
