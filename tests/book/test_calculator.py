"""The cost models that readers can turn: script, formulas of the page, tables, and a twin in Python."""

import itertools
import json
import re
import shutil
import subprocess

import pytest

from d2l_local import pages
from tests.book.test_figures import load
from tools.notebooks import ROOT

SCRIPT = ROOT / 'tools' / 'theme' / 'calculator.js'
CHAPTER = ROOT / 'chapters' / 'multi_gpu'
PAGE = (CHAPTER / 'index.md').read_text()
node = pytest.mark.skipif(not shutil.which('node'), reason='needs node')


@pytest.fixture(scope='module')
def draw():
    return load(CHAPTER / 'figures' / 'draw.py')


@pytest.fixture(scope='module')
def config(draw):
    return pages.calculator(PAGE)


def javascript(code, *args):
    """What an expression over the script's functions (``api``) and JSON arguments (``args``) gives."""
    program = (f'const api = require({json.dumps(str(SCRIPT))}), args = {json.dumps(args)};'
               f'console.log(JSON.stringify({code}))')
    done = subprocess.run(['node', '-e', program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def cases(draw, config):
    """The inputs as they start, and all combinations of choices and presets."""
    start = pages.inputs(config)
    units = {i['name']: i.get('scale', 1) for i in config['inputs']}
    choices = [[(i['name'], n) for _, n in i['choices']] for i in config['inputs'] if 'choices' in i]
    for chosen in itertools.product(*choices):
        for preset in config['presets']:
            values = {name: n * units[name] for name, n in preset['set'].items()}
            yield {**start, **values, **dict(chosen)}


def python(config, values, k):
    """The formulas of the page, evaluated by Python."""
    v = {**values, config['over']['name']: k}
    for name, formula in config['formulas']:
        v[name] = eval(formula.replace('^', '**'), {'min': min, 'max': max}, v)
    return v


def test_tables_are_those_that_are_computed(draw):
    assert pages.with_tables(PAGE, draw.TABLES) == PAGE
    assert draw.traffic() in PAGE and pages.first_table(PAGE, draw.scaling) in PAGE


def test_a_planted_number_is_noticed(draw):
    for table in (draw.traffic(), pages.first_table(PAGE, draw.scaling)):
        digit = re.search(r'\d', table.split('\n')[2])[0]
        wrong = PAGE.replace(table, table.replace(digit, str((int(digit) + 1) % 10)))
        assert pages.with_tables(wrong, draw.TABLES) != wrong


def test_formulas_of_the_page_are_those_of_the_twin(draw, config):
    for values in cases(draw, config):
        for k in (1, 2, 3, 8, 100):
            page, twin = python(config, values, k), draw.scaling(k, **values)
            assert {n: page[n] for n in twin} == pytest.approx(twin, rel=1e-12)


def test_the_model_at_its_borders(draw, config):
    values = pages.inputs(config)
    one = draw.scaling(1, **values)
    assert one['speedup'] == 1 and one['wire'] == 0 and one['step'] == one['compute']
    free = {**values, 'bandwidth': 1e30, 'latency': 0}
    assert draw.scaling(16, **free)['speedup'] == pytest.approx(16)
    with_overlap = draw.scaling(8, **{**values, 'overlap': 1})
    last_bucket = with_overlap['wire'] / values['messages']
    best = with_overlap['compute'] + last_bucket
    assert best <= with_overlap['step'] < draw.scaling(8, **values)['step']


@node
def test_the_script_computes_what_the_twin_computes(draw, config):
    some = list(cases(draw, config))
    found = javascript('args[1].map((v) => [1, 2, 3, 8, 100].map((k) => api.model(args[0])(v, k)))',
                       config, some)
    for values, rows in zip(some, found, strict=True):
        for k, row in zip((1, 2, 3, 8, 100), rows, strict=True):
            twin = draw.scaling(k, **values)
            assert {n: row[n] for n in twin} == pytest.approx(twin, rel=1e-12)


@node
def test_the_script_starts_with_the_table_of_the_page(draw, config):
    rows = javascript('api.rows(64).map((k) => { const v = api.model(args[0])(api.starts(args[0]), k);'
                      'return [String(k), ...args[0].columns.map('
                      '(c) => api.number(v[c.value] / (c.scale || 1)))] })',
                      config)
    assert rows == [[c.strip() for c in line.strip('|').split('|')]
                    for line in pages.first_table(PAGE, draw.scaling).split('\n')[2:]]


@node
def test_answers_name_the_right_number_of_devices(draw, config):
    values = pages.inputs(config)
    said = javascript('args[0].answers.map((a) => api.answer(args[0], a, [...Array(64).keys()].map('
                      '(i) => api.model(args[0])(args[1], i + 1))))', config, values)
    best = max(range(1, 65), key=lambda k: draw.scaling(k, **values)['speedup'])
    half = max(k for k in range(1, 65) if draw.scaling(k, **values)['efficiency'] >= 0.5)
    assert f'with {best} devices' in said[0] and f'Up to {half} devices' in said[1]


@node
@pytest.mark.parametrize(('formula', 'value'), [
    ('1 + 2 * 3', 7), ('(1 + 2) * 3', 9), ('8 / 2 / 2', 2), ('2 ^ 3 ^ 2', 512), ('-2 ^ 2', -4),
    ('5 - 1 - 1', 3), ('min(3, x, 2e0)', 2), ('max(x, 1) * 1e-3', 0.005), ('2 * -x', -10)])
def test_formulas_are_read_as_in_mathematics(formula, value):
    assert javascript('api.compile(args[0])({x: 5})', formula) == pytest.approx(value)


@node
@pytest.mark.parametrize('formula', [
    '1 +', '(1', '1 2', 'y', 'alert(1)', 'x.constructor', 'constructor', 'toString(1)', '__proto__',
    'x[0]', ''])
def test_anything_else_is_refused(formula):
    said = javascript('(() => { try { return api.compile(args[0])({x: 5}) } '
                      'catch (e) { return e.message } })()', formula)
    assert isinstance(said, str)


def test_the_script_runs_no_text_of_a_page():
    assert not re.search(r'\beval\b|\bFunction\(|innerHTML|fetch\(|import\(|https?://(?!www\.w3\.org/2000/svg)',
                         SCRIPT.read_text())


def test_presets_are_the_networks(draw, config):
    presets = {p['label']: p['set'] for p in config['presets']}
    for name, blocks in draw.NETWORKS.items():
        assert presets[name]['parameters'] == pytest.approx(draw.parameters(blocks) / 1e6, rel=1e-3)
        assert presets[name]['work'] == pytest.approx(draw.work(blocks) / 1e9, rel=1e-3)
    start = {i['name']: i['value'] for i in config['inputs']}
    assert {**start, **presets['ResNet-18']} == start


@pytest.mark.parametrize('framework', ['mxnet', 'torch'])
def test_blocks_have_the_parameters_of_the_real_network(draw, framework):
    pytest.importorskip(framework)
    counted = draw.parameters(draw.resnet18())
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


def test_inputs_cross_a_cut_where_the_next_block_begins(draw):
    for blocks in draw.NETWORKS.values():
        for before, after in itertools.pairwise(blocks[:-1]):
            assert after.inputs >= before.output
