"""Where good guesses are wrong: each entry leads to what shows it."""

import re
import subprocess
import sys

import pytest

from tools import quotations, source
from tools.source import ROOT, missing

PAGE = ROOT / 'chapters' / 'reference' / 'surprises.md'
TEST = re.compile(r'the test \*([\w: ]+)\* in (tests/\w+)')        # a name in words, and a folder
FINDING = re.compile(r'`(findings/[\w/]+\.(?:py|sh))`')
NOTEBOOK = re.compile(r'\]\(\.\./([\w/]+\.ipynb)\)')
COLUMNS = 5


def paragraphs(text):
    """The entries that open the page: each begins with a bold sentence."""
    return [p for p in text.split('\n\n') if p.startswith('**')]


def rows(text):
    """The rows of all tables, each as its cells, without the tables' heads."""
    lines = [line for line in text.split('\n') if line.startswith('|')]
    cells = [[c.strip() for c in quotations.CELLS.split(line.strip('|'))] for line in lines]
    return [c for c in cells if c[0] != 'most would guess' and not re.fullmatch('-+', c[0])]


def faults(entry, shown, homes):
    """What is missing for an entry.

    Args:
        entry: its text.
        shown: the part of it that says where it is shown.
        homes: of each result, the notebook that measures it, relative to ``chapters``.
    """
    found = []
    results = [m[2] for m in quotations.LINK.finditer(entry)]
    found += [f'there is no result {id}' for id in results if id not in homes]
    pages = NOTEBOOK.findall(shown)
    found += [f'{id} is not measured on {" or ".join(pages)}'
              for id in results if id in homes and pages and homes[id] not in pages]
    if pages and not results:
        found.append('a page is named, and no result')
    tests = TEST.findall(shown)
    for words, folder in tests:
        name = 'test_' + words.replace(':', '').replace(' ', '_')
        defined = re.compile(rf'^def {name}\(', re.MULTILINE)
        if not any(defined.search(path.read_text()) for path in (ROOT / folder).glob('test_*.py')):
            found.append(f'{folder} has no {name}')
    findings = FINDING.findall(shown)
    found += [f'there is no {file}' for file in findings if not (ROOT / file).exists()]
    if not (pages or tests or findings):
        found.append('nothing is named that shows it')
    return found


@pytest.fixture(scope='module')
def homes():
    chapters = ROOT / 'chapters'
    return {c.id: p.relative_to(chapters).as_posix() for p in source.notebooks() for c in quotations.calls(p)}


def test_ten_entries_open_the_page_and_each_is_shown(homes):
    entries = paragraphs(PAGE.read_text())
    assert len(entries) == 10
    assert {e[:60]: found for e in entries if (found := faults(e, e, homes))} == {}


def test_each_row_names_what_shows_it(homes):
    entries = rows(PAGE.read_text())
    assert len(entries) >= 30 and all(len(e) == COLUMNS and all(e) for e in entries)
    assert {e[0]: found for e in entries if (found := faults(' '.join(e), e[-1], homes))} == {}


def test_no_guess_is_answered_twice():
    guesses = [e[0] for e in rows(PAGE.read_text())]
    assert len(set(guesses)) == len(guesses)


@pytest.mark.parametrize(('entry', 'fault'), [
    ('It takes [2×](#a-b), [there](../x/y.ipynb).', None),
    ('It takes [2×](#a-c), [there](../x/y.ipynb).', 'there is no result a-c'),
    ('It takes [2×](#a-b), [there](../x/z.ipynb).', 'a-b is not measured on x/z.ipynb'),
    ('It is so: [there](../x/y.ipynb).', 'a page is named, and no result'),
    ('It takes [2×](#a-b).', 'nothing is named that shows it'),
    ('the test *no guess is answered twice* in tests/book', None),
    ('the test *what is: not* in tests/book', 'tests/book has no test_what_is_not'),
    ('`findings/what_is_not.sh`', 'there is no findings/what_is_not.sh')])
def test_an_entry_that_leads_nowhere_is_found(entry, fault):
    assert faults(entry, entry, {'a-b': 'x/y.ipynb'}) == ([fault] if fault else [])


THREADS = '''
import threading
import torch

torch.set_num_threads(2)
computed, changed, found = threading.Event(), threading.Event(), []

def serve():
    torch.ones(10 ** 6) + 1             # large enough for several threads
    computed.set()
    changed.wait()
    found.append(torch.get_num_threads())

def late():
    torch.ones(10 ** 6) + 1             # large enough for several threads
    found.append(torch.get_num_threads())

server = threading.Thread(target=serve)
server.start()
computed.wait()
torch.set_num_threads(1)
changed.set()
server.join()
another = threading.Thread(target=late)
another.start()
another.join()
print(*found)
'''


@pytest.mark.slow
def test_threads_that_have_computed_keep_their_number():
    if reason := missing('pytorch'):
        pytest.skip(reason)
    run = subprocess.run([sys.executable, '-c', THREADS], capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == ['2', '1'], run.stderr


SCATTERED = '''
import torch
import torch.distributed as dist

dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
with torch.profiler.profile() as profile:
    dist.reduce_scatter_tensor(torch.empty(8), torch.ones(8))
print(*(event.name for event in profile.events() if event.name.startswith('gloo:')))
dist.destroy_process_group()
'''


@pytest.mark.slow
def test_gloo_scatters_a_sum_by_an_all_reduce():
    if reason := missing('pytorch'):
        pytest.skip(reason)
    run = subprocess.run([sys.executable, '-c', SCATTERED], capture_output=True, text=True, timeout=120)
    assert run.stdout.split() == ['gloo:all_reduce'], run.stderr
