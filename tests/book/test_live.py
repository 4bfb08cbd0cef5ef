"""The figures that a reader can turn: models, translation, tables, and the page in a real browser."""

import ast
import importlib
import itertools
import json
import math
import random
import re
from dataclasses import replace

import nbformat
import pytest

import live_figures
from live_figures import Derived, Measured, Printed, numbers, translate
from local_cluster import links
from planning import plan
from tested_results import predictions
from tools import figures, ledger_page, live, pages, source
from tools.source import ROOT

THEME = ROOT / 'tools' / 'theme'
TOPICS = sorted(p.parts[-3] for p in figures.CHAPTERS.glob('*/figures/live.py'))
MODULES = {topic: importlib.import_module(f'chapters.{topic}.figures.live') for topic in TOPICS}
FIGURES = {name: f for m in MODULES.values() for name, f in m.LIVE.items()}
MULTI_GPU, SERVERS = figures.load('multi_gpu'), MODULES['parameter_servers']


@pytest.fixture(scope='module')
def runs():
    """What the stored notebooks have measured."""
    shown = {ledger_page.page_name(p): nbformat.read(p, as_version=4) for p in source.notebooks()}
    return live.measured(shown, shown)


def document(path, runs):
    """A page with all figures, and nothing else of the book."""
    parts = '\n'.join(live.render(name, figure, runs) for name, figure in FIGURES.items())
    path.write_text('<!doctype html><meta charset="utf-8">'
                    '<meta name="viewport" content="width=device-width">'
                    f'<link rel="stylesheet" href="{(THEME / "d2l.css").as_uri()}">'
                    f'<link rel="stylesheet" href="{live_figures.STYLE.as_uri()}">'
                    f'<script src="{live_figures.SCRIPT.as_uri()}"></script>'
                    f'<body class="bd-article">{parts}')
    return path


@pytest.fixture(scope='module')
def page(tmp_path_factory, runs):
    return document(tmp_path_factory.mktemp('live') / 'page.html', runs)


@pytest.fixture
def browser(chromium, page):
    chromium.open(page)
    yield chromium
    assert not chromium.errors


def cases(figure, n=40):
    """Inputs at their borders, at their start, and drawn at random; without prefixes."""
    rng = random.Random(figure.title)
    choose = {i.name: [x for _, x in i.choices] or [i.low, i.start, i.high] for i in figure.inputs}
    for k in range(n):
        values = {}
        for i in figure.inputs:
            x = rng.choice(choose[i.name])
            if k % 2 and not i.choices:
                x = i.low * (i.high / i.low) ** rng.random() if i.log else rng.uniform(i.low, i.high)
                x = round(x) if i.whole else x
            values[i.name] = x * i.factor
        yield values


# Models.

def test_the_browser_computes_what_python_computes(browser):
    for name, figure in FIGURES.items():
        values = list(cases(figure))
        if figure.count:
            values += [{**v, 'i': 0} for v in values]
        there = browser.run(f'((f) => {json.dumps(values)}.map((v) => liveFiguresTwin.run(f, v)))'
                            f'(liveFigures.find((f) => f.name === {json.dumps(name)}))')
        for v, other in zip(values, there, strict=True):
            here = figure.run(v)
            assert set(here) == set(other)
            for key, x in here.items():
                wanted = x if isinstance(x, str) else pytest.approx(x, rel=1e-9)
                assert other[key] == wanted, (name, key)


def test_numbers_are_shown_alike(browser):
    rng = random.Random(0)
    some = [0, 0.125, 1, 2.5, 9.995, 99.95, 100.5, 999.5, 1234567, 0.1, 0.0999, 1e-9,
            *(10 ** rng.uniform(-9, 9) for _ in range(300))]
    for unit in ('', 's', 'B', '%', 'GB/s', '×'):
        kind = {'unit': unit, 'factor': live_figures.UNITS.get(unit, 1),
                'scales': numbers.SCALES.get(unit)}
        there = browser.run(f'{json.dumps(some)}.map((x) => liveFiguresTwin.show(x, {json.dumps(kind)}))')
        assert there == [numbers.show(x, unit) for x in some]


def rounds(first, second, n):
    """When n rounds of two stages end, each stage one round after the other."""
    one = two = 0.0
    for _ in range(n):
        one += first
        two = max(two, one) + second
    return two


@pytest.mark.parametrize('n', [1, 2, 7])
@pytest.mark.parametrize(('a', 'b'), [(1, 3), (3, 1), (2, 2), (0.25, 4)])
def test_timelines_are_those_of_two_stages_that_wait_for_each_other(a, b, n):
    asy = MODULES['asynchrony'].pipeline(i=n - 1, n=n, t1=a, t2=b, t3=0.5, t=32)
    assert asy['free'] == asy['out_end'] == pytest.approx(rounds(a, b, n) + 0.5)
    assert asy['barriers'] == asy['end'] == pytest.approx(n * (a + b + 0.5))
    par = MODULES['automatic_parallelism'].overlap(i=n - 1, pieces=n, compute=n * a, copy=n * b,
                                                   latency=0.1, t=24)
    assert par['whole'] == par['sent'] == pytest.approx(rounds(a, b + 0.1, n))
    assert par['turn'] == pytest.approx(n * (a + b) + 0.1)
    assert asy['now'] == asy['barriers'] and par['now'] == par['whole']
    assert (asy['done'], asy['issued'], asy['queued']) == (n, n, 0)
    assert (par['computed'], par['copied']) == (n, n)


def done(ends, now):
    """How many have ended by now, give or take a rounding."""
    return sum(end <= now * (1 + 1e-9) + 1e-12 for end in ends)


@pytest.mark.parametrize(('a', 'b'), [(1, 3), (3, 1), (2, 2), (0.25, 4)])
def test_a_step_of_time_counts_what_has_ended_by_then(a, b):
    pipeline, overlap = MODULES['asynchrony'].pipeline, MODULES['automatic_parallelism'].overlap
    for t in range(33):
        all_rounds = [pipeline(i=i, n=7, t1=a, t2=b, t3=0.5, t=t) for i in range(7)]
        asy = all_rounds[0]
        issued = done([r['ahead_end'] for r in all_rounds], asy['now'])
        assert asy['done'] == done([r['end'] for r in all_rounds], asy['now'])
        assert asy['issued'] == issued
        assert asy['queued'] == issued - done([r['ready'] for r in all_rounds], asy['now'])
    for t in range(25):
        pieces = [overlap(i=i, pieces=6, compute=6 * a, copy=6 * b, latency=0.1, t=t) for i in range(6)]
        now = pieces[0]['now']
        assert pieces[0]['computed'] == done([p['ready'] for p in pieces], now)
        assert pieces[0]['copied'] == done([p['sent'] for p in pieces], now)


@pytest.mark.parametrize('m', [1, 3, 8])
def test_the_schedule_is_that_of_the_notebook(m):
    """Each pass as soon as its stage and its neighbour have ended theirs, in the order of the notebook."""
    code, = (c.source for c in source.read(ROOT / 'chapters/splitting/pipeline_pytorch.ipynb').cells
             if c.source.startswith('%%worker schedules'))
    space = {}
    exec(code.partition('\n')[2], space)
    forward = 0.08 / m
    ends, free = {}, [0] * 4
    left = [space['gpipe'](stage, 4, m) for stage in range(4)]
    while any(left):
        for stage in range(4):
            if not left[stage]:
                continue
            kind, i = left[stage][0]
            before = {'F': ('F', i, stage - 1), 'B': ('B', i, stage + 1)}[kind]
            first = kind == 'F' and stage == 0 or kind == 'B' and stage == 3
            if first or before in ends:
                begin = max(free[stage], 0 if first else ends[before])
                free[stage] = ends[kind, i, stage] = begin + (forward if kind == 'F' else 2 * forward)
                del left[stage][0]
    for t in range(34):
        for i in range(m):
            drawn = MODULES['splitting'].schedule(i=i, m=m, t=t)
            for stage, names in enumerate((('f1', 'end'), ('f2', 'b0'), ('f3', 'b1'), ('f4', 'b2'))):
                there = [ends['F', i, stage], ends['B', i, stage]]
                assert [drawn[name] for name in names] == pytest.approx(there)
        assert drawn['whole'] == pytest.approx(max(ends.values()))
        assert drawn['there'] == done([ends['F', i, 0] for i in range(m)], drawn['now'])
        assert drawn['back'] == done([ends['B', i, 0] for i in range(m)], drawn['now'])
        assert drawn['idle'] == pytest.approx(1 - m * 3 * forward / drawn['whole'])


def test_the_model_of_scaling_at_its_borders():
    scaling, values = MODULES['multi_gpu'].scaling, FIGURES['scaling'].starts()
    one = scaling(**{**values, 'k': 1})
    assert one['speedup'] == 1 and one['wire'] == 0 and one['step'] == one['compute']
    ideal = scaling(**{**values, 'k': 16, 'bandwidth': 1e30, 'latency': 0})
    assert ideal['speedup'] == pytest.approx(16)
    hidden = scaling(**{**values, 'overlap': 1})
    best = hidden['compute'] + hidden['wire'] / values['messages']
    assert best <= hidden['step'] < scaling(**values)['step']
    kept = scaling(**{**values, 'shared': 0})
    assert kept['compute'] == one['compute'] and kept['wire'] == scaling(**values)['wire']


def test_the_largest_batch_that_fits_is_the_largest():
    fits = MODULES['memory'].fits
    for values in cases(FIGURES['fits'], 200):
        most = fits(**values)['most']
        assert not most or fits(**{**values, 'k': most})['peak'] <= values['card'] * (1 + 1e-9)
        assert fits(**{**values, 'k': most + 1})['peak'] > values['card'] * (1 - 1e-9)


def test_foreach_takes_four_bytes_for_each_parameter_whatever_the_weights_have():
    """The square roots have the format of Adam's averages, which is float32."""
    values = FIGURES['fits'].starts() | {'k': 1, 'kept': 1, 'largest': 0}
    for number, state in (4, 8), (2, 12):
        foreach, fused = (MODULES['memory'].fits(**{**values, 'number': number, 'state': state, 'update': u})
                          for u in (1, 2))
        assert foreach['peak'] - fused['peak'] == pytest.approx(4 * values['parameters'])


def test_break_even_is_where_the_curves_meet():
    model = MODULES['hybridization'].break_even
    for values in cases(FIGURES['break_even'], 100):
        v = model(**values)
        if v['pays'] and 1 < v['needed'] < 1e12:
            after, before = (model(**{**values, 'calls': v['needed'] + d}) for d in (1, -1))
            # the curves may meet in a whole number of calls, and rounding decides on which side
            assert after['plain'] > after['graph'] and before['plain'] <= before['graph'] * (1 + 1e-12)


def test_the_examples_of_parameter_servers():
    text = (figures.CHAPTERS / 'parameter_servers' / 'index.md').read_text()
    times = SERVERS.aggregation(4, size=160e6, gpu=16e9, cpu=16e9)
    assert times == pytest.approx({'one': 0.060, 'host': 0.080, 'shares': 0.015, 'spread': 80 / 15})
    assert 'four GPUs wait anything from 15 to 80 ms' in text
    assert 2 * 7 / 8 * 160e6 / 75e9 == pytest.approx(3.7e-3, rel=0.02)
    for m, overhead in itertools.product((3, 8, 20), (0, 1e-3, 2e-2)):
        link = {'m': m, 'latency': 1e-3, 'overhead': overhead, 'rate': 1e7}
        crossing = SERVERS.ways(size=1, **link)['crossing']
        there = SERVERS.ways(size=crossing, **link)
        assert there['star'] == pytest.approx(there['ring'])
    messages = SERVERS.ways(size=0, m=8, latency=0, overhead=1, rate=1)     # of busy senders alone
    assert (messages['star'], messages['ring'], messages['tree']) == (8, 14, 6)


def test_presets_are_the_networks(runs):
    figure = FIGURES['scaling']
    for name, blocks in MULTI_GPU.NETWORKS.items():
        preset = figure.presets[name]
        assert preset['parameters'] == pytest.approx(MULTI_GPU.parameters(blocks) / 1e6, rel=1e-3)
        assert preset['work'] == pytest.approx(MULTI_GPU.work(blocks) / 1e9, rel=1e-3)
    for one in FIGURES.values():
        one = live_figures.start(one, runs.found).figure
        names = {i.name: i for i in one.inputs}
        for preset in one.presets.values():
            assert all(names[n].low <= x <= names[n].high for n, x in preset.items())


@pytest.mark.parametrize('framework', ['mxnet', 'torch'])
def test_blocks_have_the_parameters_of_the_real_network(framework):
    pytest.importorskip(framework)
    counted = MULTI_GPU.parameters(MULTI_GPU.resnet18())
    if framework == 'torch':
        from d2l_local import torch as d2l
        assert sum(p.numel() for p in d2l.resnet18(10).parameters()) == counted
    else:      # its convolutions have biases
        from mxnet import np

        from d2l_local import mxnet as d2l
        net = d2l.resnet18(10)
        net.initialize()
        net(np.zeros((1, 1, 28, 28)))
        learned = [p for p in net.collect_params().values() if p.grad_req != 'null']
        assert sum(p.data().size for p in learned) == pytest.approx(counted, rel=1e-3)


def test_inputs_cross_a_cut_where_the_next_block_begins():
    for blocks in MULTI_GPU.NETWORKS.values():
        for before, after in itertools.pairwise(blocks[:-1]):
            assert after.inputs >= before.output


def test_the_table_of_traffic_is_the_one_that_is_computed():
    text = (figures.CHAPTERS / 'multi_gpu' / 'index.md').read_text()
    assert figures.with_tables(text, MULTI_GPU.TABLES) == text
    wrong = text.replace('44.7 MB', '44.8 MB')
    assert wrong != text and figures.with_tables(wrong, MULTI_GPU.TABLES) == text


# Descriptions.

def loop(x):
    while x:
        x = x - 1
    return {'x': x}


def foreign(x):
    return {'x': math.pi * x}


def call(x):
    return {'x': print(x)}


def unknown(x):
    return {'x': FIGURES}


def chained(x):
    return {'x': 1 if 0 < x < 2 else 0}


def early(x):
    if x > 1:
        return {'x': 1}


def other_error(x):
    try:
        y = plain(x)
    except TypeError:
        y = 0
    return {'x': y}


def plain(x, more=1):
    return x + more


def default(x):
    return {'x': plain(x)}


@pytest.mark.parametrize('model', [loop, foreign, call, unknown, chained, early, other_error, default],
                         ids=lambda m: m.__name__)
def test_what_cannot_be_translated_is_refused(model):
    with pytest.raises(ValueError, match=f'the model {model.__name__} may not say'):
        live_figures.javascript(model)


def test_every_description_is_whole():
    for name, f in FIGURES.items():
        names = {i.name for i in f.inputs}
        v = f.run(f.starts())
        assert {o.name for o in f.outputs} | set(f.drawn) <= set(v), name
        assert {n for lane in f.lanes for n in lane[1:]} <= set(v), name
        said = ' '.join(s if isinstance(s, str) else ' '.join(s.values()) for s in f.say)
        assert set(re.findall(r'\{(\w+)\}', said)) <= set(v), name
        arguments = translate.tree(f.model).args
        if not arguments.kwarg:
            assert {a.arg for a in arguments.args} == names | ({'i'} if f.count else set()), name
        assert all(i.low <= i.start <= i.high for i in f.inputs if not i.choices), name


def test_every_measured_start_is_found_in_the_stored_outputs(runs):
    absent = {name: live_figures.start(f, runs.found).absent for name, f in FIGURES.items()}
    assert not {n: a for n, a in absent.items() if a}


def texts(path):
    """The text of a page, in the pieces that stand without code between them."""
    if path.suffix == '.md':
        return [path.read_text()]
    return [c.source for c in source.read(path).cells if c.cell_type == 'markdown']


def shown_on(path):
    """The names of the figures of a page."""
    return [name for text in texts(path) for name in live.MARK.findall(text)]


@pytest.mark.parametrize('topic', TOPICS)
def test_every_topic_asks_above_each_figure_and_says_below_what_to_see(topic, runs):
    paths = [p for p in source.pages() if p.parent.name == topic]
    assert sorted(name for p in paths for name in shown_on(p)) == sorted(MODULES[topic].LIVE)
    for text in (t for p in paths for t in texts(p) if live.MARK.search(t)):
        blocks = text.split('\n\n')
        marks = [k for k, b in enumerate(blocks) if live.MARK.search(b)]
        for k in marks:
            assert live.MARK.fullmatch(blocks[k])
            assert blocks[k - 1].endswith('?') and re.match(r'[A-Z]', blocks[k + 1]), blocks[k]
        made = live.insert(text, MODULES[topic].LIVE, runs)
        assert not live.MARK.search(made) and made.count('<form') == 0
        assert made.count('window.liveFigures = window.liveFigures || []') == len(marks)


def test_a_page_says_how_a_cell_shows_its_figure(runs):
    """In JupyterLab the mark is no picture; on the page the figure takes the place of the whole line."""
    some = 0
    for path in source.pages():
        for m in (m for text in texts(path) for m in live.MARK.finditer(text)):
            assert f"`from tools.live import turn; turn('{m[1]}')`" in m[0], path.name
            assert 'In a cell' not in live.insert(m[0], FIGURES, runs).partition('<script>')[0]
            some += 1
    assert some >= 20


def test_figures_start_from_what_their_pages_say():
    """Where a start is no result, it is a setting of the page, or a number that it prints."""
    start = {name: {i.name: i.start for i in f.inputs} for name, f in FIGURES.items()}

    def all_of(page):
        cells = source.read(ROOT / f'chapters/{page}.ipynb').cells
        return '\n'.join(c.source + ''.join(o.get('text', '') for o in c.get('outputs', [])) for c in cells)

    v = start['context']
    weights = 12 * v['layers'] * v['d'] ** 2 + v['vocabulary'] * v['d']
    assert f'{weights:,} of them in matrix' in all_of('transformer/transformer_pytorch')
    v = start['segments']
    assert f'{v["blocks"] * v["inside"]:.1f} MB kept' in all_of('memory/savings_pytorch')
    assert 'work = [0.08] * 4' in all_of('splitting/pipeline_pytorch')
    v, page = start['ways'], all_of('parameter_servers/parameter_servers_pytorch')
    assert f'links.Network(hosts={v["m"]}, mbit=100)' in page
    assert v['rate'] == pytest.approx(100 * links.Network.goodput, abs=0.05)
    assert '117 KB for our eight ranks' in page
    assert FIGURES['ways'].run(FIGURES['ways'].starts())['crossing'] == pytest.approx(117e3, abs=500)
    assert f'travel={v["latency"] / 1000}' in page
    assert f'{start["fits"]["card"]} GB' in all_of('memory/memory_pytorch')
    v = start['queue']
    assert f'lengths_of(requests, {v["tokens"]}, 120, draw)' in all_of('transformer/serving_many_pytorch')


def named(one):
    """The names of the results from which a number follows."""
    if isinstance(one, Derived):
        return {name for part in one.sources for name in named(part)}
    return {one.name} if isinstance(one, Measured) else set()


def test_no_figure_starts_from_what_a_page_asks_to_guess():
    """Neither from the result, nor from both of the times whose ratio it is."""
    asked = {data['id'] for path in source.notebooks()
             for _, data in pages.outputs(source.read(path), predictions.METADATA_KEY)}
    some = 0
    for path in source.pages():
        for figure in (FIGURES[name] for name in shown_on(path)):
            used = {name for part in (*figure.inputs, *figure.points) if part.measured
                    for name in named(part.measured)}
            times = [name.partition('.')[0] for name in used if '.' in name]
            assert not asked & used, (path.name, figure.title, asked & used)
            assert not [id for id in asked if times.count(id) > 1], (path.name, figure.title)
            some += 1
    assert some > 20


def test_no_figure_shows_more_than_six_controls_at_once():
    assert not [name for name, f in FIGURES.items() if sum(not i.more for i in f.inputs) > 6]
    assert not [name for name, f in FIGURES.items() if f.over in {i.name for i in f.inputs if i.more}]


def test_every_topic_has_figures_and_no_two_have_one_name():
    measured = {p.parent.name for p in figures.CHAPTERS.glob('*/index.md') if [*p.parent.glob('*.ipynb')]}
    # what one turns on one's own script is the script
    assert set(TOPICS) == measured - {'your_script'}
    assert len(FIGURES) == sum(len(m.LIVE) for m in MODULES.values())


def test_a_mark_without_a_figure_is_an_error(runs):
    with pytest.raises(ValueError, match='asks for the live figure .nothing.'):
        live.insert('<!-- live: nothing -->', FIGURES, runs)


def printed(page, text):
    """What a notebook has measured that prints a text."""
    outputs = [nbformat.v4.new_output('stream', text=text)]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell('', outputs=outputs)])
    return live.measured({page: nb}).found


def test_a_figure_that_was_printed_or_claimed_is_found():
    page = 'chapters/a/b'
    some = printed(page, 'speed: ≈1,234 µs\nrate: ≈2.5e+03 GB/s\nnone: ≈nan ms')
    assert some.find(Printed('chapters/a/b', 'speed: ')) == (pytest.approx(1234e-6), page)
    assert some.find(Printed('chapters/a/b', 'rate: ')) == (pytest.approx(2.5e12), page)
    for nothing in (Printed('chapters/a/b', 'none: '), Printed('chapters/a/c', 'speed: '), Measured('x')):
        assert some.find(nothing) is None
        assert some.find(Derived(max, (nothing, Printed('chapters/a/b', 'speed: ')))) is None
    assert some.find(Derived(lambda x: 1 / (x - x), (Printed('chapters/a/b', 'speed: '),))) is None
    assert some.find(Derived(lambda x: -x, (Printed('chapters/a/b', 'speed: '),))) is None
    twice = Derived(lambda x: 2 * x, (Printed('chapters/a/b', 'speed: '),))
    assert some.find(twice) == (pytest.approx(2468e-6), page)


@pytest.mark.parametrize(('text', 'value'), [
    ('≈64%.', 0.64), ('≈64 %, and more', 0.64), ('3.5.', 3.5), ('3.5.\nms', 3.5), ('≈3.5 ms.', 3.5e-3),
    ('≈3.5ms:', 3.5e-3), ('7, 8', 7), ('1,234,567.', 1234567), ('≈1,234.5 GB/s, then 2', 1234.5e9),
    ('2.5e+03 GB/s.', 2.5e12), ('1e-3 s', 1e-3), ('12 (3 ms)', 12), ('12; ms', 12),
    ('2.5–3.5 ms', None), ('1,2345', None), ('1.2.3', None), ('12,34 ms', None), ('.', None)])
def test_a_figure_ends_where_the_sentence_goes_on(text, value):
    found = printed('chapters/a/b', f'it takes {text}').find(Printed('chapters/a/b', 'it takes '))
    assert found == (value and (pytest.approx(value), 'chapters/a/b'))


def test_a_measured_start_beyond_the_slider_widens_it():
    inputs = tuple(replace(i, measured=Printed('chapters/a/b', 'memory: ')) if i.name == 'bandwidth' else i
                   for i in FIGURES['roofline'].inputs)
    some = printed('chapters/a/b', 'memory: ≈50,000 GB/s')
    figure = live_figures.start(replace(FIGURES['roofline'], inputs=inputs), some).figure
    bandwidth = next(i for i in figure.inputs if i.name == 'bandwidth')
    assert bandwidth.start == bandwidth.high == 50_000


def test_the_scripts_of_the_book_are_small_and_run_no_text(runs):
    inline = [live.render(name, f, runs) for name, f in FIGURES.items()]
    scripts = [p.read_text() for p in (*THEME.glob('*.js'), live_figures.SCRIPT)]
    total = sum(len(s.encode()) for s in [*inline, *scripts])
    assert total <= 300_000
    code = live_figures.SCRIPT.read_text()
    banned = r'\beval\b|\bFunction\(|innerHTML|fetch\(|import\(|https?://(?!www\.w3\.org/2000/svg)'
    assert not re.search(banned, code)


# The page in a browser.

def text_of(browser, selector):
    return browser.run(f'[...document.querySelectorAll({json.dumps(selector)})]'
                       '.map((e) => e.textContent)')


def test_the_script_starts_with_the_table_of_the_page(browser, runs):
    for name, figure in FIGURES.items():
        head, rows = live_figures.table(live_figures.start(figure, runs.found).figure)
        assert text_of(browser, f'#live-{name} thead th') == head
        assert text_of(browser, f'#live-{name} tbody :is(th, td)') == [c for row in rows for c in row]


def test_sentences_say_what_the_model_says(browser):
    rows = [FIGURES['scaling'].run({**FIGURES['scaling'].starts(), 'k': k}) for k in range(1, 65)]
    best = max(rows, key=lambda v: v['speedup'])
    half = max(v['k'] for v in rows if v['efficiency'] >= 0.5)
    assert text_of(browser, '#live-scaling [role=status]') == [
        f'The largest speed-up is {numbers.plain(best["speedup"])}, with {best["k"]} devices. '
        f'Up to {half} devices, each computes for at least half of its time.']
    assert text_of(browser, '#live-aggregation [role=status]') == [
        '4 GPUs: 60 ms on one GPU, 80 ms on the CPU, 15 ms in shares, which is 5.33 to 1.']
    browser.run('((field) => { field.value = "0.5"; field.dispatchEvent(new Event("change")); })'
                '(document.getElementById("live-break_even-gain").nextSibling)')
    assert 'never repaid' in text_of(browser, '#live-break_even [role=status]')[0]
    assert ' and 1 server: ' in text_of(browser, '#live-servers [role=status]')[0]


def test_every_input_answers_to_the_keyboard(browser, runs):
    """A key moves it, its number says so, and the table is that of Python for this number."""
    browser.run('document.querySelectorAll(".live-figure-turn details").forEach((d) => { d.open = true; })')
    for name, described in FIGURES.items():
        figure = live_figures.start(described, runs.found).figure
        for i in figure.inputs:
            field = f'document.getElementById("live-{name}-{i.name}")'
            browser.run(f'{field}.focus()')
            at = browser.run(f'{field}.value')
            last = at == browser.run(f'{field}.max || {field}.options[{field}.length - 1].value')
            browser.press(('ArrowUp' if last else 'ArrowDown') if i.choices else
                          'ArrowLeft' if last else 'ArrowRight')
            assert browser.run(f'{field}.value') != at, (name, i.name)
            if i.choices:
                x = float(browser.run(f'{field}.value'))
            else:
                typed = browser.run(f'{field}.nextSibling.value')
                said = browser.run(f'{field}.getAttribute("aria-valuetext")')
                assert said == numbers.with_unit(typed, i.unit)
                x = float(typed.replace(',', ''))
                assert x != i.start and i.low <= x <= i.high
            there = text_of(browser, f'#live-{name} tbody :is(th, td)')
            moved = replace(figure, inputs=tuple(
                replace(j, start=x) if j is i else j for j in figure.inputs))
            assert there == [c for row in live_figures.table(moved)[1] for c in row], (name, i.name)
            browser.run(f'[...document.querySelectorAll("#live-{name} button")].at(-1).click()')
            assert browser.run(f'{field}.value') == at


def test_more_can_be_set_in_a_fold(browser):
    field = 'document.getElementById("live-plan-n")'
    assert not browser.run(f'{field}.checkVisibility()')
    assert browser.run('document.getElementById("live-plan-hosts").checkVisibility()')
    for name, figure in FIGURES.items():
        every = f'#live-{name} form :is(input[type=range], select)'
        shown = browser.run(f'[...document.querySelectorAll("{every}")]'
                            '.filter((e) => e.checkVisibility()).length')
        assert shown == sum(not i.more for i in figure.inputs) <= 6, name
    browser.run('document.querySelector("#live-plan form summary").focus()')
    browser.press('Enter')
    assert browser.run(f'{field}.checkVisibility()')


STEPS = '[...document.querySelectorAll("#live-schedule .live-figure-play button")]'
AT = 'Number(document.getElementById("live-schedule-t").value)'
SAID = 'document.querySelector("#live-schedule [role=status]")'
BARS = 'document.querySelectorAll("#live-schedule .live-figure-see > svg .lane").length'


def test_a_timeline_goes_on_step_by_step_and_by_itself(browser):
    assert sum(any(i.play for i in f.inputs) for f in FIGURES.values()) == 3
    assert (browser.run(AT), browser.run(BARS)) == (33, 64)
    browser.run(f'{STEPS}[0].focus()')
    browser.press('Enter')
    assert (browser.run(AT), browser.run(BARS)) == (0, 0)
    browser.press('Enter', 2)
    assert (browser.run(AT), browser.run(BARS)) == (2, 3)
    assert 'done 2 forward' in browser.run(f'{SAID}.textContent')
    browser.press('Tab')
    browser.press('Enter')
    assert browser.run(f'{STEPS}[1].textContent') == 'Pause' and browser.run(f'{SAID}.ariaLive') == 'off'
    browser._wait(lambda: browser.run(f'{AT} > 4') or None)
    browser.press('Enter')
    at = browser.run(AT)
    assert browser.run(f'{STEPS}[1].textContent') == 'Play' and browser.run(f'{SAID}.ariaLive') != 'off'
    assert browser.run(f'new Promise((then) => setTimeout(() => then({AT}), 500))') == at
    browser.run(f'document.getElementById("live-schedule-t").focus(); {STEPS}[1].click()')
    browser.press('ArrowLeft')          # a hand on the slider stops it
    assert browser.run(f'{STEPS}[1].textContent') == 'Play'


def test_a_timeline_that_plays_stops_at_its_end(browser):
    browser.run('((e) => { e.value = 31; e.dispatchEvent(new Event("input")); })'
                '(document.getElementById("live-schedule-t"))')
    browser.run(f'{STEPS}[1].click()')
    browser._wait(lambda: browser.run(f'{STEPS}[1].textContent === "Play"') or None)
    assert (browser.run(AT), browser.run(BARS)) == (33, 64)


def test_nothing_moves_by_itself_for_those_who_asked_for_less_motion(browser):
    browser.send('Emulation.setEmulatedMedia', features=[
        {'name': 'prefers-reduced-motion', 'value': 'reduce'}])
    try:
        seen = browser.run(f'{STEPS}.map((b) => b.checkVisibility())')
    finally:
        browser.send('Emulation.setEmulatedMedia', features=[])
    assert seen == [True, False] and browser.run(f'{STEPS}.every((b) => b.checkVisibility())')


@pytest.mark.parametrize('width', [720, 520])
def test_on_a_laptop_the_picture_stays_in_view_at_every_control(browser, width):
    browser.resize(1366, 768)
    try:
        hidden = browser.run(f'''(() => {{
            document.body.style.width = '{width}px';
            document.querySelectorAll('.live-figure-turn details').forEach((d) => {{ d.open = true; }});
            return [...document.querySelectorAll('.live-figure form :is(input, select)')].filter((e) => {{
                e.scrollIntoView({{block: 'center'}});
                const picture = e.closest('form').querySelector('.live-figure-see > svg');
                const seen = picture.getBoundingClientRect();
                return seen.top < 0 || seen.bottom > innerHeight;
            }}).map((e) => e.id || e.ariaLabel); }})()''')
    finally:
        browser.send('Emulation.clearDeviceMetricsOverride')
    assert hidden == []


def test_on_paper_there_are_values_in_place_of_sliders(browser):
    browser.run('((e) => { e.value = "12"; e.dispatchEvent(new Event("change")); })'
                '(document.getElementById("live-plan-hosts").nextSibling)')
    browser.send('Emulation.setEmulatedMedia', media='print')
    try:
        left = browser.run('[...document.querySelectorAll(".live-figure :is(input, select, button)")]'
                           '.filter((e) => e.checkVisibility()).length')
        seen = browser.run('document.querySelector("#live-plan").innerText')
        drawn = browser.run('[...document.querySelectorAll(".live-figure-see > svg")]'
                            '.every((e) => e.getBoundingClientRect().height > 100)')
    finally:
        browser.send('Emulation.setEmulatedMedia', media='')
    assert left == 0 and drawn
    assert 'Hosts: 12' in seen and 'Parameters: 8,030 million' in seen
    assert not browser.run('document.querySelector("#live-plan .live-figure-used").checkVisibility()')


def test_the_tab_key_reaches_every_control(browser):
    every = '#live-roofline :is(input, select, button)'
    controls = browser.run(f'document.querySelectorAll("{every}").length')
    browser.run('document.querySelector("#live-roofline input").focus()')
    seen = set()
    for _ in range(controls):
        seen.add(browser.run('(document.activeElement.id || document.activeElement.ariaLabel '
                             '|| document.activeElement.textContent)'))
        assert browser.run('!!document.activeElement.closest("#live-roofline")')
        browser.press('Tab')
    assert len(seen) == controls == 7


def test_a_screen_reader_finds_names_values_and_what_changed(browser):
    assert browser.run('[...document.querySelectorAll(".live-figure form")].every((f) => f.ariaLabel)')
    assert browser.run('[...document.querySelectorAll(".live-figure :is(input, select)")]'
                       '.every((f) => f.labels.length || f.ariaLabel)')
    assert browser.run('[...document.querySelectorAll(".live-figure input[type=range]")]'
                       '.every((f) => f.getAttribute("aria-valuetext"))')
    pictures = browser.run('[...document.querySelectorAll(".live-figure-see > svg")]'
                           '.map((s) => s.ariaLabel)')
    assert len(pictures) == len(FIGURES)
    assert all(re.search(r'(Curves|Bars|timeline)', p) for p in pictures)
    assert len(text_of(browser, '.live-figure [role=status]')) == len(FIGURES)
    assert not browser.run('/NaN|undefined|Infinity/.test(document.body.innerHTML)')


@pytest.mark.parametrize(('typed', 'good'), [
    ('12.5', True), ('1,000', True), ('30 GB/s', True), ('1e2', True), ('', False), ('0', False),
    ('fast', False), ('1e99', False), ('30 MB/s', False), ('2,50', False), ('1,5', False),
    ('1.234,5', False)])
def test_a_number_that_makes_no_sense_is_answered(browser, typed, good):
    field = 'document.getElementById("live-roofline-bandwidth").nextSibling'
    browser.run(f'{field}.value = ""; {field}.focus()')
    browser.type(typed)
    browser.press('Tab')
    browser.run(f'{field}.dispatchEvent(new Event("change"))')       # an empty field was empty before
    said = ''.join(text_of(browser, '#live-roofline [role=alert]'))
    assert text_of(browser, '#live-roofline [role=status]')[0], 'the result still stands'
    bad = browser.run(f'{field}.ariaInvalid') == 'true'
    answer = 'Memory: please give a number from 1 to 10,000 GB/s.'
    if ',' in typed:
        answer += ' A fraction is written with a point, as in 1.5.'
    assert bad != good and said == (answer if bad else '')


def test_a_preset_sets_its_inputs(browser):
    browser.run('[...document.querySelectorAll("#live-scaling button")]'
                '.find((b) => b.textContent === "LeNet").click()')
    values = browser.run('["parameters", "work", "messages"].map((n) => '
                         'document.getElementById(`live-scaling-${n}`).nextSibling.value)')
    assert [float(v) for v in values] == pytest.approx([0.12907, 0.0045007, 1], rel=0.01)


def test_without_a_script_there_is_the_table(chromium, page, runs):
    chromium.send('Emulation.setScriptExecutionDisabled', value=True)
    try:
        chromium.open(page)
        assert chromium.run('document.querySelectorAll(".live-figure form").length') == 0
        for name, figure in FIGURES.items():
            start = live_figures.start(figure, runs.found).figure
            seen = chromium.run(f'document.querySelector("#live-{name}").innerText')
            assert all(c in seen for row in live_figures.table(start)[1] for c in row)
            assert all(i.label in seen for i in figure.inputs), name
    finally:
        chromium.send('Emulation.setScriptExecutionDisabled', value=False)


def test_a_figure_that_breaks_leaves_its_table(chromium, tmp_path, runs):
    path = document(tmp_path / 'page.html', runs)
    path.write_text(path.read_text().replace(' part = (compute', ' part = nowhere + (compute'))
    chromium.open(path)
    assert chromium.run('document.querySelectorAll("#live-overlap form").length') == 0
    assert chromium.run('document.querySelector("#live-overlap .live-figure-table").offsetHeight > 50')
    assert chromium.run('document.querySelectorAll(".live-figure form").length') == len(FIGURES) - 1
    assert len(chromium.errors) == 1
    chromium.errors.clear()


def test_what_was_not_measured_says_so(chromium, tmp_path):
    chromium.open(document(tmp_path / 'page.html', live.measured({})))
    notes = text_of(chromium, '.live-figure-note')
    assert all(n.startswith('It starts from an example.') for n in notes) and len(notes) == len(FIGURES)
    assert notes[list(FIGURES).index('roofline')].endswith(
        'Not measured: Memory; Arithmetic; small layers; addition; matmul.')
    assert not [t for t in text_of(chromium, '.live-figure button') if '≈' in t]
    assert chromium.run('document.querySelectorAll(".live-figure-how, .live-figure svg .point").length') == 0
    start = {i.name: i.start for i in FIGURES['roofline'].inputs}
    peak = chromium.run('document.getElementById("live-roofline-peak").nextSibling.value')
    assert float(peak) == start['peak']
    assert not chromium.errors


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_a_phone_shows_it_all_without_scrolling_sideways(chromium, page, theme):
    chromium.send('Emulation.setDeviceMetricsOverride', width=360, height=740, deviceScaleFactor=1,
                  mobile=True)
    try:
        chromium.open(page)
        chromium.run(f'document.documentElement.dataset.theme = "{theme}"')
        assert chromium.run('document.documentElement.scrollWidth') <= 360
        assert chromium.run('''[...document.querySelectorAll(
            '.live-figure > :not(details), .live-figure form *')].every(
            (e) => e.closest('svg') || e.getBoundingClientRect().right <= 360)''')
        cut = chromium.run('''[...document.querySelectorAll('.live-figure-see > svg text')].filter((t) => {
            const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
            return a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1; })
            .map((t) => t.textContent)''')
        assert cut == []
    finally:
        chromium.send('Emulation.clearDeviceMetricsOverride')


def test_models_are_shown_as_they_are(browser):
    for name, figure in FIGURES.items():
        shown = text_of(browser, f'#live-{name} pre')[0].replace('\n', '\n ')
        lines = [ast.dump(n) for n in ast.parse(f'def f():\n {shown}').body[0].body]
        own = [ast.dump(n) for n in translate.tree(figure.model).body]
        assert lines[-len(own):] == own and (len(lines) > len(own)) == (name == 'plan')


@pytest.mark.parametrize('slots', [1, 2, 8, 64])
@pytest.mark.parametrize('load', [0.1, 0.5, 0.75, 0.95])
def test_waiting_is_erlangs(slots, load):
    a = load * slots
    head = sum(a ** k / math.factorial(k) for k in range(slots))
    last = a ** slots / math.factorial(slots) / (1 - load)
    assert live_figures.erlang_c(slots, load) == pytest.approx(last / (head + last))
    found = FIGURES['queue'].model(load=load, slots=slots, tokens=1, step=1, more=0, spread=1)
    assert found['mean'] == pytest.approx(last / (head + last) / (slots * (1 - load)))


PLANNER = source.read(ROOT / 'chapters/splitting/planner.ipynb').cells
TESTED = source.read(ROOT / 'chapters/splitting/planner_tested.ipynb').cells


def test_the_plan_has_the_words_of_the_planner():
    figure = FIGURES['plan']
    seen = set()
    changes = ({}, {'tensor': 3}, {'stages': 5}, {'stages': 32, 'chunks': 9}, {'tokens': 2 ** 12},
               {'stages': 4, 'micro': 512}, {'tokens': 2 ** 18})
    for change in changes:
        values = figure.starts() | change
        drawn = figure.model(**values)
        seen.add(drawn['outcome'])
        if drawn['problem']:
            with pytest.raises(ValueError, match='^' + re.escape(drawn['problem']) + '$'):
                plan(**values)
        else:
            assert drawn['step'] == plan(**values)['step'] and drawn['advice'] == plan(**values)['advice']
    assert seen == {'not possible', 'it fits', 'it may not fit'}


def test_stages_of_one_host_send_over_its_own_links():
    one = {'tokens': 2 ** 17, 'n': 8e9, 'layers': 32, 'width': 4096, 'length': 8192, 'hosts': 1,
           'stages': 2, 'micro': 4}
    assert plan(**one)['cuts'] == plan(**one, gbit=1)['cuts'] > 0
    assert plan(**one)['cuts'] == pytest.approx(2 * plan(**one, inside=900e9)['cuts'])
    two = {**one, 'hosts': 2, 'micro': 2}
    assert plan(**two, gbit=200)['cuts'] == pytest.approx(2 * plan(**two)['cuts'])


ONE_STAGE = {'tokens': 2 ** 22, 'n': 8e9, 'layers': 32, 'width': 4096, 'length': 4096, 'hosts': 16}


def test_the_longest_stage_sets_the_time():
    few = {**ONE_STAGE, 'stages': 16}
    even, uneven = (plan(**{**few, 'layers': k})['compute'] for k in (64, 61))
    assert uneven == pytest.approx(even * (6 * 8e9 + 12 * 61 * 4096 ** 2) / (6 * 8e9 + 12 * 64 * 4096 ** 2)
                                   * 64 / 61)
    with pytest.raises(ValueError, match='at least 1'):
        plan(**ONE_STAGE, micro=0)


def test_gradients_that_are_accumulated_gather_again_and_keep_less():
    one, four = plan(**ONE_STAGE, gbit=2), plan(**ONE_STAGE, gbit=2, micro=4)
    hidden = one['compute']
    assert four['shards'] + hidden == pytest.approx(4 * (one['shards'] + hidden))
    state = 16 * 8e9 / 128 + (2 * 2 + 4) * 8e9 / 32
    assert four['kept'] - state == pytest.approx((one['kept'] - state) / 4)


def test_a_gpu_keeps_what_is_whole_for_a_while():
    cut = {**ONE_STAGE, 'stages': 4, 'micro': 8}
    kept = plan(**cut)['kept']
    layer = 2 * 2 ** 22 / 32 * 4096 * 8         # in bfloat16, of the eight layers of a stage
    whole = 8e9 / 4 * (2 + 4)                   # weights, and gradients in float32
    assert kept == pytest.approx(16 * 8e9 / 128 + whole + 17 * layer * 4 / 8)
    assert plan(**cut, chunks=2)['kept'] - kept == pytest.approx(17 * layer * 1.5 / 8)
    again = plan(**cut, kept=2)['kept']
    assert again == pytest.approx(16 * 8e9 / 128 + whole + layer * 4 / 8 + 16 * layer / 8 / 8)


def test_an_example_that_is_shared_gathers_keys_and_values():
    inside, two_hosts = (plan(**ONE_STAGE, context=k)['context'] for k in (8, 16))
    assert inside == pytest.approx(3 * 32 * 2 * 2 * 2 ** 22 / 128 * 4096 * 7 / 450e9)
    assert two_hosts == pytest.approx(inside * 15 / 7 * 450 / 50)
    assert plan(**ONE_STAGE, context=8, keys=1 / 8)['context'] == pytest.approx(inside / 8)


def test_presets_of_the_plan_are_possible_and_those_of_its_notebook():
    figure = FIGURES['plan']
    names = {i.name: i for i in figure.inputs}
    drawn = {}
    for text, preset in figure.presets.items():
        assert all(names[n].choices or x == round(x) for n, x in preset.items() if names[n].whole), text
        drawn[text] = figure.run({**figure.starts(), **{n: x * names[n].factor for n, x in preset.items()}})
        assert drawn[text]['outcome'] in ('it fits', 'it may not fit'), text
    printed = '\n'.join(o.text for c in PLANNER for o in c.get('outputs', []) if 'text' in o)
    printed = printed[printed.index('16,384 tokens for each GPU'):]
    for text, way in (('', 'sharded everywhere'),
                      ('tensor groups inside the hosts', 'tensor inside, sharded between'),
                      ('tensor groups, and each host a stage', 'tensor inside, pipeline between'),
                      ('sharded inside, and each host a stage', 'sharded inside, pipeline between')):
        there = float(re.search(way + r'\s+([\d.]+) s', printed)[1])
        here = drawn[text]['step'] if text else figure.run(figure.starts())['step']
        assert here == pytest.approx(there, rel=0.01), text
    node, = (n for c in TESTED if c.source.startswith('llama_8b = ') for n in ast.parse(c.source).body
             if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == 'llama_405b')
    preset = {i.name: i.start for i in figure.inputs} | figure.presets['Llama 3 405B on 8,192 GPUs']
    for name, value in eval(ast.unparse(node.value)).items():
        assert preset[name] * names[name].factor == value, name


def test_the_solution_chooses_among_the_plans_of_the_notebook():
    """Its lists are what the planner's page prints, to the digits shown."""
    printed = '\n'.join(o.text for c in PLANNER for o in c.get('outputs', []) if 'text' in o)
    cells = source.read(ROOT / 'chapters/splitting/splitting_solutions_pytorch.ipynb').cells
    code = next(c.source for c in cells if c.source.startswith('def best('))
    lists = {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in ast.parse(code).body
             if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)}
    few, many = printed.split('16,384 tokens for each GPU')
    for name, part in (('few', few), ('many', many)):
        rows = re.findall(r'^  (\w[\w, ]*\w)\s+([\d.]+) s\s+MFU\s+\d+%\s+(\d+) GB', part, re.MULTILINE)
        assert lists[name] == {way: (1e9 * int(kept), float(s)) for way, s, kept in rows} and len(rows) == 4
