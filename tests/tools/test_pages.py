"""What the pages do to a notebook before it is shown."""

import re
import shutil

import nbformat
import pytest

from d2l_local import claims, predictions
from d2l_local.claims import METADATA_KEY
from tools import exercises, ledger, notebooks, pages, prose, terms
from tools.notebooks import ROOT


def shown(id):
    return nbformat.v4.new_output('display_data', {'text/plain': id},
                                  metadata={METADATA_KEY: {'id': id}})


def cell(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


PRINTED = nbformat.v4.new_output('stream', text='printed')
PICTURE = nbformat.v4.new_output('display_data', {'image/svg+xml': '<svg/>'})


def test_the_claims_at_the_end_of_a_cell_are_folded():
    code, test = pages.folded(cell(
        "x = 1\nprint(x)\n\nd2l.claim('a-b', 'One.',\n    (f, g), above=2)\nclaim('a-c', 'Two.', True)",
        PRINTED, shown('a-b'), shown('a-c'), PICTURE))
    assert code.source == 'x = 1\nprint(x)' and code.outputs == [PRINTED, PICTURE]
    assert test.source.startswith("d2l.claim('a-b'") and test.source.endswith("'Two.', True)")
    assert test.outputs == [shown('a-b'), shown('a-c')] and test.metadata.tags == ['hide-input']
    assert code.id != test.id


def test_the_questions_at_the_end_of_a_cell_are_shown_without_their_calls():
    asked = nbformat.v4.new_output('display_data', {'text/plain': 'How many?'}, metadata={
        predictions.METADATA_KEY: {'id': 'a-b', 'question': 'How many?'}})
    code, question = pages.asking(cell("x = 1\n\nd2l.predict('a-b',\n    'How many?', guess=...)",
                                       PRINTED, asked))
    assert code.source == 'x = 1' and code.outputs == [PRINTED]
    assert question.outputs == [asked] and question.metadata.tags == ['remove-input']
    only, = pages.asking(cell("d2l.predict('a-b', 'How many?')", asked))
    assert only.metadata.tags == ['remove-input'] and pages.folded(only) == [only]


@pytest.mark.parametrize('value', [None, 0, 5.0])
def test_a_question_gets_the_figure_that_answers_it(value):
    asked = nbformat.v4.new_output('display_data', {}, metadata={
        predictions.METADATA_KEY: {'id': 'a-b', 'question': 'How "many" <b>?'}})
    nb = nbformat.v4.new_notebook(cells=[cell('', asked, PRINTED)])
    claim = {'value': value, 'figure': '5 "times"', 'bound': '> 2 times as long'}
    row, = pages.ask(nb, 'chapters/one/page', {'a-b': ledger.Entry(claim, 'chapters/one/page', True)})
    page = asked.data['text/html']
    assert 'How &quot;many&quot; &lt;b&gt;?' in page and 'id="ask-a-b" data-claim="a-b"' in page
    more = ' data-value="5.0" data-figure="5 &quot;times&quot;" data-unit="times as long"'
    assert (more in page and 'data-topic="one" data-up="../../"' in page) == bool(value)
    assert 'chapters/one/page.html#ask-a-b' in row


def test_a_cell_of_claims_alone_becomes_one_folded_cell():
    only, = pages.folded(cell("d2l.claim('a-b', 'One.', True)", shown('a-b')))
    assert only.metadata.tags == ['hide-input'] and only.outputs == [shown('a-b')]


@pytest.mark.parametrize('source', [
    'x = 1', "d2l.claim('a-b', 'One.', True)\nprint(2)", "c = d2l.claim('a-b', 'One.', True)",
    "if x:\n    d2l.claim('a-b', 'One.', True)", "%%worker a\nd2l.claim('a-b', 'One.', True)",
    'f(1)', 'f()'])
def test_other_cells_stay_as_they_are(source):
    before = cell(source, PRINTED)
    assert pages.folded(before) == [before]


def test_a_claim_before_other_code_keeps_its_output_where_it_was():
    code, test = pages.folded(cell("d2l.claim('a-b', '', True)\nx = 1\nd2l.claim('a-c', '', True)",
                                   shown('a-b'), shown('a-c')))
    assert code.outputs == [shown('a-b')] and test.outputs == [shown('a-c')]


def test_a_verdict_has_one_colour_beside_a_sentence_and_in_a_claim():
    css = (notebooks.ROOT / 'tools/theme/d2l.css').read_text()
    plain, own = (dict(re.findall(rf'\.(d2l-{name}) {{[^}}]*?background: (#\w+);', css, re.DOTALL))
                  for name in ('badge', '\\w+'))
    assert {v: own.get(ledger.css(v), plain['d2l-badge']) for v in claims.VERDICTS} == claims.COLOURS


def test_a_claim_leads_back_to_its_sentence():
    c = claims.Claim('a-b', 'One & two.', 'count', '> 2', 'holds', '3', machine='m')
    data, metadata = c._repr_mimebundle_()
    nb = nbformat.v4.new_notebook(cells=[cell('x = 1', nbformat.v4.new_output(
        'display_data', data, metadata=metadata))])
    pages.point_back(nb, 'chapters/a/page', {'a-b': 'chapters/b/other'}, None)
    assert nb.cells[0].outputs[0].data['text/html'] == c.html(
        ' · <a href="../../chapters/b/other.html#said-a-b">where the text says so</a>')


def test_the_first_use_of_a_term_leads_to_the_glossary():
    seen = set()
    assert terms.link('A barrier here, a barrier there.', seen) == (
        'A {term}`barrier <barrier>` here, a barrier there.')
    assert terms.link('Another barrier, and two\nvirtual devices.', seen) == (
        'Another barrier, and two\n{term}`virtual devices <virtual device>`.')
    assert seen == {'barrier', 'virtual device'}


@pytest.mark.parametrize('text', [
    '# A barrier', '| barrier | 1 |', '`barrier`', '[a barrier](x.md)', '**barrier**', '*barrier*',
    '$barrier$', '```{exercise} The barrier\nIs a barrier needed?\n```',
    '```python\nbarrier\n\nbarrier\n```',
    '<a href="x">a <b>barrier</b></a>', '{ref}`barrier <x>`', 'a barrier-free way', 'an interval'])
def test_what_is_no_running_text_is_left_alone(text):
    assert terms.link(text, set()) == text


def test_every_term_is_one_of_the_glossary():
    text = (notebooks.ROOT / 'glossary.md').read_text()
    assert len(terms.terms()) > 40
    assert all(f'\n{t}\n  ' in text for t in [*terms.terms(), *terms.EVERYDAY])


def test_the_index_lists_every_exercise_with_its_solution():
    listed = exercises.all_exercises()
    text = '\n'.join(p.read_text() for p in prose.pages() if p.name == 'exercises.md')
    assert len(listed) == text.count('```{exercise}') and {e.label for e in listed} <= set(text.split())
    assert not [e.label for e in listed if not e.solved or not e.time]
    warm_up = [e for e in listed if e.time == exercises.WARM_UP]
    assert all(e.solved == 'below the question' for e in warm_up)
    topics = {p.parent.name for p in prose.pages() if p.name == 'exercises.md'}
    assert len({e.topic for e in warm_up}) == len(topics) and len(warm_up) >= 3 * len(topics)
    assert exercises.index().count('\n') == len(listed) + 1


def test_without_a_repository_there_are_no_buttons():
    text = (ROOT / '_config.yml').read_text()
    assert pages.published(text) == text and 'repository:' not in text


@pytest.mark.slow
def test_with_a_repository_there_are_buttons_and_never_a_fault_of_the_theme(tmp_path):
    config = (ROOT / '_config.yml').read_text() + '\nrepository: {url: "https://github.com/some/book"}\n'
    (tmp_path / '_config.yml').write_text(pages.published(config))
    (tmp_path / '_toc.yml').write_text('format: jb-book\nroot: one\n')
    shutil.copy(ROOT / 'references.bib', tmp_path)
    shutil.copytree(ROOT / 'tools' / 'theme', tmp_path / 'theme')
    cell = nbformat.v4.new_markdown_cell('# One\n\nA page.')
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / 'one.ipynb')
    pages.jupyter_book(tmp_path)
    page = (tmp_path / '_build' / 'html' / 'one.html').read_text()
    for address in ('mybinder.org/v2/gh/some/book', 'github.com/some/book/issues/new',
                    'github.com/some/book/edit/'):
        assert address in page
    assert 'THEBE_JS_URL' in page and '<div role="complementary"' not in page
    page = pages.mended(page)
    assert 'thebe' not in page.lower() and page.count('<div role="complementary"') == 1
