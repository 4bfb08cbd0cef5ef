"""Rules that every notebook of the book keeps."""

import ast
import os
import re

import nbformat
import pytest

from tested_results import conditions, ledgers, predictions, quoting
from tested_results.claims import CLOCKED, METADATA_KEY, Claim
from tools import ledger, quotations, refresh, runs, source
from tools.source import ROOT

BOOKS = {str(p.relative_to(ROOT)): nbformat.read(p, as_version=4) for p in source.notebooks()}
each = pytest.mark.parametrize('name', BOOKS)


def code(name):
    return [c for c in BOOKS[name].cells if c.cell_type == 'code']


def outputs(name):
    return [o for c in code(name) for o in c.outputs]


def is_solution(name):
    return 'solutions' in name


def test_every_page_is_in_the_table_of_contents_and_the_other_way_round():
    pages = source.toc()
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
    assert {k for c in nb.cells for k in c.metadata} <= runs.KEPT_METADATA | {'jupyter'}
    asked = runs.named(nb.cells, predictions.METADATA_KEY)
    for cell in nb.cells:       # JupyterLab shows what is asked when the cell is run
        hidden = cell.metadata.get('jupyter') == runs.HIDDEN
        assert hidden == bool(asked & runs.named([cell], METADATA_KEY)), cell.id
    assert [c.id for c in nb.cells] == [f'cell-{i:02d}' for i in range(len(nb.cells))]


@each
def test_nothing_failed_or_leaked_into_the_stored_outputs(name):
    assert not [o.ename for o in outputs(name) if o.output_type == 'error']
    assert not [o.text for o in outputs(name) if o.get('name') == 'stderr']
    assert not re.findall(r'/(?:home|root|Users|work)/\S*', str(outputs(name)))


@each
def test_shape(name):
    """The page's title, then one cell of imports; code that fits the column of a page."""
    assert BOOKS[name].cells[0].source.startswith('# ')
    workers = [c for c in code(name) if c.source.startswith('%%worker ')]     # modules of their own
    trees = [source.tree(c.source) for c in code(name) if c not in workers]
    own = {c.source.split()[1] for c in workers}         # modules that a cell above has made
    with_imports = [i for i, t in enumerate(trees) if any(
        isinstance(n, ast.Import | ast.ImportFrom) and getattr(n, 'module', '') not in own
        for n in ast.walk(t))]
    assert with_imports == [0], 'one imports cell, the first'
    assert not [c.source for c in code(name) if c.source.rstrip().endswith(';')]
    # ruff, which allows more elsewhere, does not read %%worker cells
    assert not [ln for c in code(name) for ln in c.source.split('\n') if len(ln) > 80]


@pytest.mark.parametrize('path', source.pages(), ids=source.name)
def test_every_editor_shows_the_text(path):
    """Plain Markdown: JupyterLab knows no directives, roles, options or targets."""
    raw = re.compile(r'(?m)^[\s>]*(?:`{3,}|~{3,}|:{3,})\s*\{|\{[\w:-]+\}`|^[\s>]*:[\w-]+: |^\([\w-]+\)=')
    texts = [path.read_text()]
    if path.suffix == '.ipynb':
        texts = [c.source for c in source.read(path).cells if c.cell_type == 'markdown']
    assert not [m[0] for m in map(raw.search, texts) if m]


@each
def test_what_keeps_all_cores_busy_says_that_they_must_be_free(name):
    """Where one core is taken, threads that meet wait for it: two variants are no longer compared."""
    for c in results(name):
        free = {'free cores', 'two free cores'} & set(c.needs)
        assert c.kind != 'ratio' or free or c.cores <= 0.8 * c.where['cores'], c.id


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


def results(name):
    return ledgers.claims_of(BOOKS[name])


@each
def test_results_of_a_notebook_are_shown(name):
    """All of them, whatever their verdict: the stored run is not selected."""
    assert [c.id for c in results(name)] == [c.id for c in quotations.calls(ROOT / name)]


def questions(name):
    """The calls that ask for a guess, with the number of their cell."""
    return [(i, node) for i, c in enumerate(BOOKS[name].cells) if c.cell_type == 'code'
            for node in ast.walk(source.tree(c.source))
            if quotations.claimed(node, ('predict',)) is not None
            and ast.unparse(node.func) in ('d2l.predict', 'predictions.predict')]


@each
def test_a_guess_is_asked_for_shortly_before_the_figure_that_answers(name):
    made = {c.id: (i, c) for i, cell in enumerate(BOOKS[name].cells)
            for c in (Claim.of(o.metadata[METADATA_KEY]) for o in cell.get('outputs', [])
                      if METADATA_KEY in o.get('metadata', {}))}
    ids = [quotations.claimed(node, ('predict',)) for _, node in questions(name)]
    assert len(ids) == len(set(ids))
    for (i, node), id in zip(questions(name), ids, strict=True):
        assert id in made, f'{id!r}: no result of this notebook'
        at, c = made[id]
        assert c.kind != 'fact' and i < at <= i + 8, id
        assert [ast.unparse(k) for k in node.keywords] == ['guess=...'], 'a guess was left there'
    shown = [o.metadata[predictions.METADATA_KEY] for o in outputs(name)
             if predictions.METADATA_KEY in o.get('metadata', {})]
    assert [s['id'] for s in shown] == ids and all(s['question'].endswith(('?', '.', ')')) for s in shown)
    figures = [c for _, c in made.values() if c.timed and c.value]
    assert is_solution(name) or len(ids) >= min(2, len(figures))


@each
def test_what_a_page_opens_with_was_tested(name):
    """A result that the first cell quotes has come out in the stored run; GPU pages aside."""
    first = {m[3] for m in quotations.LINK.finditer(BOOKS[name].cells[0].source)}
    assert not [c.id for c in results(name) if c.id in first and c.bounded and not c.decided
                and 'a GPU' not in c.needs]


def quoted_too_early(nb):
    """Results with a number in a link that stands before the question to guess them."""
    asked = {quotations.claimed(node, ('predict',)): i for i, cell in enumerate(nb.cells)
             if cell.cell_type == 'code' for node in ast.walk(source.tree(cell.source))
             if quotations.claimed(node, ('predict',))}
    return [m[2] for i, cell in enumerate(nb.cells) if cell.cell_type == 'markdown'
            for m in quotations.LINK.finditer(cell.source)
            if i < asked.get(m[2], 0) and quoting.form(m[1])]


@each
def test_no_page_gives_away_what_it_asks_to_guess(name):
    assert quoted_too_early(BOOKS[name]) == []


def test_an_answer_before_its_question_is_seen():
    ask = nbformat.v4.new_code_cell("d2l.predict('a-b', 'How much faster?', guess=...)")
    def said(words, part=''):
        return nbformat.v4.new_markdown_cell(f'It is [{words}](#a-b{part}), and [3](#a-c).')
    for early, found in ((said('6.0× faster'), ['a-b']), (said('5 ms', ':fast'), ['a-b']),
                         (said('much faster'), [])):
        cells = [early, ask, said('6.0× faster')]
        assert quoted_too_early(nbformat.v4.new_notebook(cells=cells)) == found


@each
def test_a_result_about_time_has_an_interval(name):
    for c in results(name):
        assert (c.low is not None) == (c.timed and c.verdict != 'not testable here'), c.id
        assert c.timed or not CLOCKED.search(c.bound) and not CLOCKED.search(c.unit), c.id


@each
def test_no_time_of_another_machine_is_typed_into_a_cell(name):
    """Reference values come from the ledgers; a machine and a year in code are none."""
    assert not [c.source for c in code(name) if re.search(r'Xeon|EPYC|Ryzen|\bon a two-core', c.source)]


def test_the_text_and_the_stored_results_fit_together():
    """Every link quotes a result as the stored run or a ledger has it, and every result is quoted."""
    assert quotations.problems(ledger.quotable(ROOT / name for name in BOOKS)) == []


def test_a_link_to_a_result_names_the_notebook_that_makes_it():
    """JupyterLab opens that notebook; from a link without its name nothing happens."""
    homes = {call.id: page for page in source.pages() for call in quotations.calls(page)}
    wrong = []
    for page in source.pages():
        text = page.read_text() if page.suffix == '.md' else quotations.markdown(page)
        for m in quotations.LINK.finditer(text):
            home = homes[m[2]]
            file = '' if home == page else os.path.relpath(home, page.parent)
            if f']({file}#' not in m[0]:
                wrong.append((source.name(page), m[0], f'{file}#{m[2]}'))
    assert wrong == []


def test_every_condition_is_needed_by_a_result():
    source = '\n'.join(c.source for name in BOOKS for c in code(name))
    assert not [n for n in conditions.known if f"'{n}'" not in source]


def test_each_requirement_has_an_exact_version():
    lines = (ROOT / 'requirements.txt').read_text().splitlines()
    names = [line.split(';')[0] for line in lines if re.match(r'\w', line)]
    assert names and all('==' in name for name in names)


@each
def test_a_stored_text_is_what_its_result_says(name):
    """So a result whose display changes is seen here, before a whole run is."""
    sanitise = refresh.sanitiser()
    for o in outputs(name):
        if data := o.get('metadata', {}).get(METADATA_KEY):
            assert sanitise(str(Claim.of(dict(data)))) == sanitise(o.data['text/plain'])


def test_all_stored_outputs_come_from_one_kind_of_machine():
    kinds = {ledgers.kind(c.where): path.name for path in source.notebooks()
             for c in ledgers.claims_of(source.read(path))}
    assert len(kinds) == 1, (f'stored outputs come from {len(kinds)} kinds of machines ({kinds}): run the '
                             'whole book on one, with "make refresh ALL=1"')
