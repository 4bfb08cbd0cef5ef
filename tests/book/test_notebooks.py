"""Rules that every notebook of the book keeps."""

import ast
import re
import statistics
from collections import Counter

import nbformat
import pytest

from d2l_local import conditions, predictions
from d2l_local.claims import CLOCKED, METADATA_KEY
from tools import notebooks, prose
from tools.notebooks import ROOT

BOOKS = {str(p.relative_to(ROOT)): nbformat.read(p, as_version=4) for p in notebooks.notebooks()}
each = pytest.mark.parametrize('name', BOOKS)


def code(name):
    return [c for c in BOOKS[name].cells if c.cell_type == 'code']


def outputs(name):
    return [o for c in code(name) for o in c.outputs]


def is_solution(name):
    return 'solutions' in name


def test_every_page_is_in_the_table_of_contents_and_the_other_way_round():
    pages = notebooks.toc()
    assert len(pages) == len(set(pages))
    assert [p for p in pages if not list(ROOT.glob(p + '.*'))] == []
    found = {p.relative_to(ROOT).with_suffix('').as_posix() for kind in ('md', 'ipynb')
             for p in (ROOT / 'chapters').rglob(f'*.{kind}') if '.ipynb_checkpoints' not in p.parts}
    assert found <= set(pages)


@each
def test_stored_outputs_are_normalised(name):
    nb = BOOKS[name]
    assert [c.execution_count for c in code(name)] == list(range(1, len(code(name)) + 1))
    assert set(nb.metadata) == {'kernelspec', 'language_info'}
    assert {k for c in nb.cells for k in c.metadata} <= notebooks.KEPT_METADATA
    assert [c.id for c in nb.cells] == [f'cell-{i:02d}' for i in range(len(nb.cells))]


@each
def test_nothing_failed_or_leaked_into_the_stored_outputs(name):
    assert not [o.ename for o in outputs(name) if o.output_type == 'error']
    assert not [o.text for o in outputs(name) if o.get('name') == 'stderr']
    assert not re.findall(r'/(?:home|root|Users|work)/\S*', str(outputs(name)))


@each
def test_shape(name):
    workers = [c for c in code(name) if c.source.startswith('%%worker ')]     # modules of their own
    cells = [c for c in code(name) if c not in workers]
    sizes = [len(c.source.split('\n')) for c in cells]
    assert max([len(c.source.split('\n')) for c in workers], default=0) <= 50
    assert BOOKS[name].cells[0].source.startswith('# ')
    assert max(sizes) <= (40 if is_solution(name) else 25)
    if not is_solution(name):
        assert 10 <= len(sizes) <= 25
        assert statistics.median(sizes) <= 8
    trees = [notebooks.tree(c.source) for c in cells]
    own = {c.source.split()[1] for c in workers}         # modules that a cell above has made
    with_imports = [i for i, t in enumerate(trees) if any(
        isinstance(n, ast.Import | ast.ImportFrom) and getattr(n, 'module', '') not in own
        for n in ast.walk(t))]
    assert with_imports == [0], 'one imports cell, the first'
    assert not [c.source for c in code(name) if c.source.rstrip().endswith(';')]


@each
def test_what_keeps_all_cores_busy_says_that_they_must_be_free(name):
    """Where one core is taken, threads that meet wait for it: two variants are no longer compared."""
    for o in outputs(name):
        c = o.get('metadata', {}).get(METADATA_KEY, {})
        if c.get('kind') == 'ratio' and c.get('cores'):
            there = int(re.search(r', (\d+) cores,', c['machine'])[1])
            free = {'free cores', 'two free cores'} & set(c['needs'])
            assert free or c['cores'] <= 0.8 * there, c['id']


@each
def test_cells_are_compared(name):
    ignored = [c for c in code(name) if re.search(r'NBVAL_(IGNORE|SKIP)|PYTEST_VALIDATE', c.source)
               or 'nbval' in ' '.join(c.metadata.get('tags', []))]
    assert not [c.source for c in ignored if not re.search(r'NBVAL_IGNORE_OUTPUT: \w+ \w+', c.source)]
    with_text = [c for c in code(name) if c.outputs]
    assert len(ignored) <= 0.05 * len(with_text)


@each
def test_figures_have_alternative_text(name):
    for cell in code(name):
        if any(m.startswith('image/') for o in cell.outputs for m in o.get('data', {})):
            alt = cell.metadata.get('mystnb', {}).get('image', {}).get('alt', '')
            assert len(alt) > 20, cell.source


def shown_claims(name):
    return [o.metadata[METADATA_KEY] for o in outputs(name) if METADATA_KEY in o.get('metadata', {})]


@each
def test_claims_of_a_notebook_are_shown(name):
    """All of them, whatever their verdict: the stored run is not selected."""
    assert [c['id'] for c in shown_claims(name)] == [c.id for c in prose.claim_calls(ROOT / name)]


def questions(name):
    """The calls that ask for a guess, with the number of their cell."""
    return [(i, node) for i, c in enumerate(BOOKS[name].cells) if c.cell_type == 'code'
            for node in ast.walk(notebooks.tree(c.source)) if prose.claimed(node, 'predict') is not None
            and ast.unparse(node.func) in ('d2l.predict', 'predictions.predict')]


@each
def test_a_guess_is_asked_for_shortly_before_the_figure_that_answers(name):
    made = {c['id']: (i, c) for i, cell in enumerate(BOOKS[name].cells)
            for c in (o.metadata[METADATA_KEY] for o in cell.get('outputs', [])
                      if METADATA_KEY in o.get('metadata', {}))}
    ids = [prose.claimed(node, 'predict') for _, node in questions(name)]
    assert len(ids) == len(set(ids))
    for (i, node), id in zip(questions(name), ids, strict=True):
        assert id in made, f'{id!r}: no claim of this notebook'
        at, c = made[id]
        assert c['kind'] != 'fact' and i < at <= i + 8, id
        assert [ast.unparse(k) for k in node.keywords] == ['guess=...'], 'a guess was left there'
    shown = [o.metadata[predictions.METADATA_KEY] for o in outputs(name)
             if predictions.METADATA_KEY in o.get('metadata', {})]
    assert [s['id'] for s in shown] == ids and all(s['question'].endswith(('?', '.')) for s in shown)
    figures = [c for _, c in made.values() if c['kind'] in ('ratio', 'figure') and c['value']]
    assert is_solution(name) or len(ids) >= min(2, len(figures))


@each
def test_what_a_page_opens_with_was_tested(name):
    """A claim that the first cells name has a verdict in the stored run; GPU pages aside."""
    verdicts = {c['id']: c for c in shown_claims(name)}
    first = prose.CLAIM_LINK.findall(BOOKS[name].cells[0].source)
    mine = [verdicts[id] for _, id in first if id in verdicts]
    assert not [c['id'] for c in mine if c['verdict'] not in ('holds', 'fails')
                and 'a GPU' not in c['needs']]


MORE = re.compile(r'\b(sooner|wins?|pays off|ahead)\b', re.IGNORECASE)
LESS = re.compile(r'\b(shrinks?|loses?)\b', re.IGNORECASE)


def disagreement(words, c):
    """Whether a link's words and the ratio that stands beside them lie on different sides of one."""
    if c['kind'] != 'ratio' or c['value'] is None or re.search(r'\bn(o|ot|ever)\b', words):
        return False
    return bool(MORE.search(words) and c['value'] < 1 and c['bound'].startswith('>')
                or LESS.search(words) and c['value'] > 1 and c['bound'].startswith('<'))


def test_words_and_figures_agree():
    claims = {c['id']: c for name in BOOKS for c in shown_claims(name)}
    said = [(p.name, words, id) for p in prose.pages()
            for words, id in prose.CLAIM_LINK.findall(prose.markdown(p))]
    assert not [s for s in said if s[2] in claims and disagreement(s[1], claims[s[2]])]
    planted = {'kind': 'ratio', 'verdict': 'holds', 'bound': '> 0.7', 'value': 0.9}
    assert disagreement('two devices finish sooner', planted)
    assert not disagreement('two devices finish sooner', {**planted, 'value': 1.4})
    assert disagreement('the advantage shrinks', {**planted, 'bound': '< 2', 'value': 1.4})


@each
def test_a_claim_about_time_has_an_interval(name):
    for c in shown_claims(name):
        assert (c['low'] is not None) == (c['kind'] in ('ratio', 'figure')
                                          and c['verdict'] != 'not testable here'), c['id']
        assert c['kind'] in ('ratio', 'figure') or not CLOCKED.search(c['bound']), c['id']


@each
def test_no_time_of_another_machine_is_typed_into_a_cell(name):
    """Reference values come from the ledgers; a machine and a year in code are none."""
    assert not [c.source for c in code(name) if re.search(r'Xeon|EPYC|Ryzen|\bon a two-core', c.source)]


def test_claims_and_sentences_name_each_other():
    calls = [c for p in prose.pages() for c in prose.claim_calls(p)]
    ids = [c.id for c in calls]
    assert not [i for i, n in Counter(ids).items() if n > 1], 'ids are unique in the book'
    assert not [c for c in calls if not c.id], 'ids are literals'
    linked = {(i, p.parent) for p in prose.pages() for i in prose.links(p)}
    assert {i for i, _ in linked} <= set(ids), 'links to claims that nobody makes'
    assert not [c.id for c in calls if (c.id, c.page.parent) not in linked], 'claims no sentence names'


def test_every_condition_is_needed_by_a_claim():
    text = '\n'.join(c.source for name in BOOKS for c in code(name))
    assert not [n for n in conditions.known if f"'{n}'" not in text]


def test_requirements_differ_in_mxnet_alone():
    plain, gpu = ((ROOT / f'requirements{s}.txt').read_text().splitlines() for s in ('', '-gpu'))
    def names(lines):
        return {ln.split(';')[0] for ln in lines if re.match(r'\w', ln)}
    assert {n for n in names(plain) ^ names(gpu)} == {'mxnet==1.9.1', 'mxnet-cu112==1.9.1'}
    assert all('==' in n for n in names(plain))
