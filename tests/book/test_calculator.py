"""The cost models that readers can turn: script, formulas of the page, tables, and a twin in Python."""

import itertools
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from types import ModuleType

import pytest

from tools import drawing
from tools.notebooks import ROOT

SCRIPT = ROOT / 'tools' / 'theme' / 'calculator.js'
node = pytest.mark.skipif(not shutil.which('node'), reason='needs node')


@dataclass
class Calculator:
    """A page with a calculator: its text and configuration, its twin in Python, devices to try."""

    draw: ModuleType
    page: str
    config: dict
    twin: str
    some: tuple[int, ...]

    def row(self, k, values):
        return getattr(self.draw, self.twin)(k, **values)

    def cases(self):
        """The inputs as they start, and all combinations of choices and presets."""
        start = drawing.inputs(self.config)
        inputs = self.config['inputs']
        units = {i['name']: i.get('scale', 1) for i in inputs}
        choices = [[(i['name'], n) for _, n in i['choices']] for i in inputs if 'choices' in i]
        for chosen in itertools.product(*choices):
            for preset in [{'set': {}}, *self.config['presets']]:
                values = {name: n * units[name] for name, n in preset['set'].items()}
                yield {**start, **values, **dict(chosen)}

    def first_table(self):
        return drawing.first_table(self.page, getattr(self.draw, self.twin))


def calculator(topic, twin, some):
    page = (drawing.CHAPTERS / topic / 'index.md').read_text()
    return Calculator(drawing.load(topic), page, drawing.calculator(page), twin, some)


MULTI_GPU = calculator('multi_gpu', 'scaling', (1, 2, 3, 8, 100))
# With one GPU nothing is added up, and the page's "spread" divides by zero.
SERVERS = calculator('parameter_servers', 'aggregation', (2, 3, 8, 100))
MEMORY = calculator('memory', 'fits', (1, 2, 100, 4096))
each = pytest.mark.parametrize('calc', [MULTI_GPU, SERVERS, MEMORY],
                               ids=['multi_gpu', 'parameter_servers', 'memory'])


def javascript(code, *args):
    """What an expression over the script's functions (``api``) and JSON arguments (``args``) gives."""
    program = (f'const api = require({json.dumps(str(SCRIPT))}), args = {json.dumps(args)};'
               f'console.log(JSON.stringify({code}))')
    done = subprocess.run(['node', '-e', program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def python(config, values, k):
    """The formulas of the page, evaluated by Python."""
    v = {**values, config['over']['name']: k}
    for name, formula in config['formulas']:
        v[name] = eval(formula.replace('^', '**'), {'min': min, 'max': max}, v)
    return v


@each
def test_tables_are_those_that_are_computed(calc):
    assert drawing.with_tables(calc.page, calc.draw.TABLES) == calc.page
    for table in [made(calc.page) for made in calc.draw.TABLES.values()]:
        assert table in calc.page
        digit = re.search(r'\d', table.split('\n')[2])[0]
        wrong = calc.page.replace(table, table.replace(digit, str((int(digit) + 1) % 10)))
        assert wrong != calc.page and drawing.with_tables(wrong, calc.draw.TABLES) == calc.page


@each
def test_formulas_of_the_page_are_those_of_the_twin(calc):
    for values, k in itertools.product(calc.cases(), calc.some):
        page, twin = python(calc.config, values, k), calc.row(k, values)
        assert {n: page[n] for n in twin} == pytest.approx(twin, rel=1e-12)


@node
@each
def test_the_script_computes_what_the_twin_computes(calc):
    some = list(calc.cases())
    found = javascript('args[1].map((v) => args[2].map((k) => api.model(args[0])(v, k)))',
                       calc.config, some, calc.some)
    for values, rows in zip(some, found, strict=True):
        for k, row in zip(calc.some, rows, strict=True):
            twin = calc.row(k, values)
            assert {n: row[n] for n in twin} == pytest.approx(twin, rel=1e-12)


@node
@each
def test_the_script_starts_with_the_table_of_the_page(calc):
    rows = javascript('((v) => api.rows(v.most).map((k) => { const w = api.model(args[0])(v, k);'
                      'return [String(k), ...args[0].columns.map('
                      '(c) => api.number(w[c.value] / (c.scale || 1)))] }))(api.starts(args[0]))',
                      calc.config)
    assert rows == [[c.strip() for c in line.strip('|').split('|')]
                    for line in calc.first_table().split('\n')[2:]]


def answers(calc):
    """What the script says below the table, with the inputs as they start."""
    return javascript('args[0].answers.map((a) => api.answer(args[0], a, [...Array(args[1].most).keys()]'
                      '.map((i) => api.model(args[0])(args[1], i + 1))))',
                      calc.config, drawing.inputs(calc.config))


@node
def test_answers_name_the_right_number_of_devices():
    values = drawing.inputs(MULTI_GPU.config)
    rows = {k: MULTI_GPU.row(k, values) for k in range(1, 65)}
    best = max(rows, key=lambda k: rows[k]['speedup'])
    half = max(k for k in rows if rows[k]['efficiency'] >= 0.5)
    said = answers(MULTI_GPU)
    assert f'with {best} devices' in said[0] and f'Up to {half} devices' in said[1]
    assert answers(SERVERS) == ['16 GPUs: 300 ms on one GPU, 320 ms on the CPU, 18.8 ms in shares, '
                                'which is 17.1 to 1.']


def test_the_model_of_scaling_at_its_borders():
    values = drawing.inputs(MULTI_GPU.config)
    one = MULTI_GPU.row(1, values)
    assert one['speedup'] == 1 and one['wire'] == 0 and one['step'] == one['compute']
    assert MULTI_GPU.row(16, {**values, 'bandwidth': 1e30, 'latency': 0})['speedup'] == pytest.approx(16)
    with_overlap = MULTI_GPU.row(8, {**values, 'overlap': 1})
    last_bucket = with_overlap['wire'] / values['messages']
    best = with_overlap['compute'] + last_bucket
    assert best <= with_overlap['step'] < MULTI_GPU.row(8, values)['step']


def test_the_example_of_parameter_servers():
    times = SERVERS.row(4, SERVERS.draw.EXAMPLE)
    assert times == pytest.approx({'one': 0.060, 'host': 0.080, 'shares': 0.015})
    assert 'four GPUs wait anything from 15 to 80 ms' in SERVERS.page
    assert 2 * 7 / 8 * 160e6 / 75e9 == pytest.approx(3.7e-3, rel=0.02)


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


def test_presets_are_the_networks():
    draw, config = MULTI_GPU.draw, MULTI_GPU.config
    presets = {p['label']: p['set'] for p in config['presets']}
    for name, blocks in draw.NETWORKS.items():
        assert presets[name]['parameters'] == pytest.approx(draw.parameters(blocks) / 1e6, rel=1e-3)
        assert presets[name]['work'] == pytest.approx(draw.work(blocks) / 1e9, rel=1e-3)
    start = {i['name']: i['value'] for i in config['inputs']}
    assert {**start, **presets['ResNet-18']} == start


@pytest.mark.parametrize('framework', ['mxnet', 'torch'])
def test_blocks_have_the_parameters_of_the_real_network(framework):
    pytest.importorskip(framework)
    counted = MULTI_GPU.draw.parameters(MULTI_GPU.draw.resnet18())
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
    for blocks in MULTI_GPU.draw.NETWORKS.values():
        for before, after in itertools.pairwise(blocks[:-1]):
            assert after.inputs >= before.output
