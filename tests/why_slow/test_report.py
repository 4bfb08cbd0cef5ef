"""The report as JSON, text and HTML."""

import json
import os
from html.parser import HTMLParser

import pytest

from tests.why_slow.scripts import training, watched
from tools import source

pytestmark = pytest.mark.alone  # two tests at a time would share the cores that they time

STEP = {
    'seconds',
    'low',
    'high',
    'steps',
    'parts',
    'between',
    'operators',
    'flops',
    'memory',
    'examples_per_second',
}
FINDING = {'id', 'title', 'evidence', 'line', 'at_most', 'test', 'page'}
WHAT_IF = {
    'id',
    'title',
    'before',
    'after',
    'ratio',
    'low',
    'high',
    'verdict',
    'losses',
    'predicted',
    'finding',
}
VOID = {'meta', 'rect', 'link', 'br'}


class Balanced(HTMLParser):
    """Fails where tags do not match, and collects addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses = [], []

    def handle_starttag(self, tag, attributes):
        self.addresses += [value for name, value in attributes if name in ('src', 'href')]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.mark.slow
def test_shapes(tmp_path):
    pytest.importorskip('torch')
    from why_slow.html import page
    from why_slow.report import text

    run, found = watched(tmp_path, training(after='time.sleep(0.03)'), 4.0, arguments=['--a', '<b>'])
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {
        'version',
        'script',
        'arguments',
        'frameworks',
        'machine',
        'step',
        'findings',
        'what_ifs',
        'cost',
        'ended',
    } <= set(found)
    assert found['version'] == 1
    assert STEP <= set(found['step'])
    assert {'loader', 'forward', 'backward', 'optimizer', 'rest'} <= set(found['step']['parts'])
    assert found['step']['low'] <= found['step']['seconds'] <= found['step']['high']
    assert all(FINDING <= set(finding) for finding in found['findings'])
    assert all(WHAT_IF <= set(result) for result in found['what_ifs'])
    gains = [finding['at_most'] for finding in found['findings']]
    assert gains == sorted(gains, reverse=True)
    parser = Balanced()
    parser.feed(page(found))
    assert parser.open == []
    assert parser.addresses == []
    assert '<b>' not in page(found).split('<code>')[1].split('</code>')[0]
    assert 'time.sleep(0.03)' in text(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    'change, examples',
    [
        ({}, 64),
        ({'batches': 'DataLoader(data, 64)'}, 64),
        ({'after': 'loss_function(net(x), y).backward()'}, 128),
        ({'after': 'optimizer2.step()', 'before': 'optimizer2 = torch.optim.SGD(net.parameters())'}, None),
        (
            {
                'batches': 'DataLoader(data, 64)',
                'after': 'loss_function(net(x), y).backward(); optimizer2.step()',
                'before': 'optimizer2 = torch.optim.SGD(net.parameters())',
            },
            64,
        ),
    ],
    ids=['plain', 'loader', 'accumulation', 'two optimizers', 'two optimizers with a loader'],
)
def test_examples_a_second(tmp_path, change, examples):
    pytest.importorskip('torch')
    step = watched(tmp_path, training(**change))[1]['step']
    if examples is None:
        assert step['examples_per_second'] is None
    else:
        assert step['examples_per_second'] * step['seconds'] == pytest.approx(examples)


def test_more_backward_passes_are_no_evaluation():
    from collections import Counter

    from why_slow.plan import Session
    from why_slow.report import _between
    from why_slow.watch import Step, Watch

    session = Session(Watch(), 1.0, False)
    ordinary = [Step(1.0, {}, Counter(forward=1, backwards=1)) for _ in range(4)]
    session.usual = {'forward': 1, 'backwards': 1}
    for longer, name in (
        (Counter(forward=5, backwards=5), 'other'),
        (Counter(forward=5, backwards=1), 'evaluation'),
        (Counter(forward=1, backwards=1, evaluation=4), 'evaluation'),
    ):
        session.plain = [*ordinary, Step(6.0, {}, longer)]
        assert _between(session, ordinary) == {name: 1.0}


def test_a_tested_finding_says_what_its_test_found():
    from why_slow.report import gain

    test = {'id': 'threads-2', 'ratio': 1.4, 'low': 1.2, 'high': 1.6, 'verdict': 'faster', 'predicted': False}
    finding = {'test': 'threads-2', 'at_most': 1.4}
    report = {'what_ifs': [test]}
    assert gain(finding, report) == '1.40× faster (1.20 to 1.60), tested'
    test.update(low=0.87, high=1.99, verdict='undecided')
    assert gain(finding, report) == 'undecided (0.87 to 1.99), tested'
    test.update(low=0.5, high=0.8, ratio=0.6, verdict='slower')
    assert gain(finding, report) == '1.67× slower (1.25 to 2.00), tested'
    assert gain({'test': None, 'at_most': 2.0}, report) == 'at most 2.00× faster without it'
    assert gain({'test': None, 'at_most': 1.0}, report) == 'costs hardly any time here'


def test_what_costs_hardly_any_time_stands_apart():
    from why_slow.report import by_weight

    tests = [
        {'id': 'faster', 'verdict': 'faster', 'predicted': False},
        {'id': 'slower', 'verdict': 'slower', 'predicted': False},
        {'id': 'nothing', 'verdict': 'no gain', 'predicted': False},
        {'id': 'open', 'verdict': 'undecided', 'predicted': False},
    ]
    found = [{'test': name, 'at_most': 2.0} for name in ('faster', 'slower', 'nothing', 'open', None)]
    found.append({'test': None, 'at_most': 1.001})
    waits, seen = by_weight({'findings': found, 'what_ifs': tests})
    assert [f['test'] for f in waits] == ['faster', 'open', None]
    assert [f['test'] for f in seen] == ['slower', 'nothing', None]


def test_each_finding_leads_to_a_page_of_the_book():
    from why_slow.findings import PAGES

    pages = {f'{page}.html' for page in source.toc()}
    assert set(PAGES.values()) <= pages


@pytest.mark.parametrize(
    ('finding', 'word'),
    [
        ('anomaly', 'anomaly mode'),
        ('deterministic', 'use_deterministic_algorithms'),
        ('float64', 'double precision'),
        ('threads', 'get_num_threads'),
        ('padding', 'padding'),
        ('python-loop', 'one by one'),
        ('growing', 'grow'),
        ('checkpoints', 'checkpoint'),
        ('kept-graph', 'detach'),
        ('embedding', 'embedding table'),
        ('epochs', 'epoch'),
        ('evaluation', 'evaluation'),
        ('synchronization', '.item()'),
        ('unused-gradients', 'gradients that nobody uses'),
        ('repeated-backward', 'retain_graph=True'),
        ('recomputation', 'checkpoint'),
    ],
)
def test_that_page_speaks_of_it(finding, word):
    from why_slow.findings import PAGES

    name = PAGES[finding].removesuffix('.html')
    page = next(path for path in source.pages() if path.with_suffix('') == source.ROOT / name)
    assert word in page.read_text()


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    from why_slow.report import write

    path = tmp_path / 'report.json'
    write(str(path), 'old')

    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(OSError):
        write(str(path), 'new')
    assert path.read_text() == 'old'
    assert [p.name for p in tmp_path.iterdir()] == ['report.json']
