"""What the pages do to a notebook before it is shown."""

import contextlib
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import bs4
import nbformat
import pytest

from tested_results import predictions
from tested_results.claims import MEASURED, METADATA_KEY, Claim
from tools import cards, exercises, ledger_page, pages, quotations, runs, searching, source, stubs, terms
from tools.source import ROOT
from tools.theme import formulas


def shown(id):
    return nbformat.v4.new_output('display_data', {'text/plain': id},
                                  metadata={METADATA_KEY: {'id': id}})


def cell(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


PRINTED = nbformat.v4.new_output('stream', text='printed')
PICTURE = nbformat.v4.new_output('display_data', {'image/svg+xml': '<svg/>'})


def test_the_questions_at_the_end_of_a_cell_are_shown_without_their_calls():
    asked = nbformat.v4.new_output('display_data', {'text/plain': 'How many?'}, metadata={
        predictions.METADATA_KEY: {'id': 'a-b', 'question': 'How many?'}})
    code, question = pages.asking(cell("x = 1\n\nd2l.predict('a-b',\n    'How many?', guess=...)",
                                       PRINTED, asked))
    assert code.source == 'x = 1' and code.outputs == [PRINTED]
    assert question.outputs == [asked] and question.metadata.tags == ['remove-input']
    only, = pages.asking(cell("d2l.predict('a-b', 'How many?')", asked))
    assert only.metadata.tags == ['remove-input']


@pytest.mark.parametrize('value', [None, 0, 5.0])
def test_a_question_gets_the_figure_that_answers_it(value):
    asked = nbformat.v4.new_output('display_data', {}, metadata={
        predictions.METADATA_KEY: {'id': 'a-b', 'question': 'How "many" <b>?'}})
    nb = nbformat.v4.new_notebook(cells=[cell('', asked, PRINTED)])
    c = Claim('a-b', 'count', 'holds', '"times"', above=2, value=value, where=HERE, machine='m')
    book = pages.Book([], {'a-b': ledger_page.Entry(c, 'chapters/one/page', True)})
    pages.ask(pages.Document(ROOT / 'chapters/one/page.ipynb', nb), book)
    page = asked.data['text/html']
    assert 'How &quot;many&quot; &lt;b&gt;?' in page and 'id="ask-a-b" data-claim="a-b"' in page
    more = (' data-value="5.0" data-figure="5 &quot;times&quot;" data-unit="&quot;times&quot;"')
    assert (more in page and 'data-topic="one" data-up="../../"' in page) == bool(value)


def test_the_page_of_guesses_leads_to_each_question():
    table = pages.guesses([pages.Question('a-b', 'How "many" <b>?', 'chapters/one/page')])
    of_page, row = bs4.BeautifulSoup(table, 'html.parser').tbody.find_all('tr')
    assert of_page.text == 'chapters/one/page'
    assert row['data-claim'] == 'a-b' and row.a.text == 'How "many" <b>?'
    assert row.a['href'] == '../../chapters/one/page.html#ask-a-b'


@pytest.mark.parametrize('source', [
    'x = 1', "d2l.predict('a-b', 'How many?')\nprint(2)", "c = d2l.predict('a-b', 'How many?')",
    "if x:\n    d2l.predict('a-b', 'How many?')", "%%worker a\nd2l.predict('a-b', 'How many?')",
    'f(1)', 'f()'])
def test_other_cells_stay_as_they_are(source):
    before = cell(source, PRINTED)
    assert pages.asking(before) == [before]


def test_a_question_before_other_code_keeps_its_output_where_it_was():
    one, two = (nbformat.v4.new_output('display_data', {'text/plain': id}, metadata={
        predictions.METADATA_KEY: {'id': id}}) for id in ('a-b', 'a-c'))
    code, asked = pages.asking(cell("d2l.predict('a-b', '')\nx = 1\nd2l.predict('a-c', '')", one, two))
    assert code.outputs == [one] and asked.outputs == [two]


HERE = {'processor': 'Some Processor', 'cores': 2, 'gpus': [], 'system': 'Linux x86_64'}
NUMBER = Claim('a-n', 'count', 'holds', 'graphs', above=2.0, value=15329.0, where=HERE, machine='m')
TIMES = Claim('a-b', 'ratio', 'holds', '×', above=3.0, value=6.02, low=5.7, high=6.3,
              names=('slow', 'fast'), parts={'slow': 120.4e-6, 'fast': 20e-6}, where=HERE, machine='m')
FACT = Claim('a-o', 'fact', 'fails', where=HERE, machine='m')
ENTRIES = {c.id: ledger_page.Entry(c, 'chapters/a/page', True) for c in (NUMBER, TIMES, FACT)}


def test_the_first_page_and_the_ledger_count_the_same_statements():
    rate = Claim('a-r', 'estimate', 'not testable here', 'GB/s', where=HERE, machine='m')
    slope = Claim('a-s', 'estimate', 'holds', '×', above=2.0, value=3.0, where=HERE, machine='m')
    more = [ledger_page.Entry(c, 'chapters/a/page', True) for c in (rate, slope)]
    entries = [*ENTRIES.values(), *more]
    text = bs4.BeautifulSoup(pages.counted(entries), 'html.parser').get_text()
    assert text.startswith('✓ 3 hold ✗ 1 fail ? 0 undecided – 0 not testable here')
    assert ledger_page.line(entries, 0).startswith(
        'ledger: 4 tested statements: 3 hold, 1 fail, 0 undecided, 0 not testable here')
    plain = ledger_page.Entry(Claim('a-p', 'count', MEASURED, value=1.0, where=HERE, machine='m'), 'a', True)
    assert ledger_page.line([*entries, plain], 0).endswith('here; 4 of them stored, not run here; m')
    assert ledger_page.line([replace(e, stored=False) for e in entries], 3.2).endswith('here; 3 s; m')
    assert ledger_page.by_kind(entries).startswith(
        'Of the 4 tested statements, 1 compare two times and 1 rest on another repeated measurement')


def quoted(source, page='chapters/b/other', entries=ENTRIES, **book):
    """A text as a page shows it, as a tree; unless ``homes`` says so, it is the home of all results."""
    document = pages.Document.of_markdown(ROOT / f'{page}.md', source)
    book.setdefault('homes', dict.fromkeys(entries, page))
    pages.quote(document, pages.Book([], entries, **book))
    return bs4.BeautifulSoup(document.written(), 'html.parser')


def test_a_link_shows_the_shown_run_s_number_with_a_mark_and_a_card():
    made = quoted('It is [7.0× *faster*](#a-b), [500 µs](#a-b:slow) and [no](#a-gone).')
    assert made.get_text() == 'It is 6.0× *faster*✓, 120 µs✓ and no.'
    first, second = made.find_all('a', class_='d2l-said')
    assert first['href'] == second['href'] == '../../chapters/a/page.html#a-b'
    assert first['id'] == 'said-a-b' and 'id' not in second.attrs
    assert 'data-asked' not in first.attrs and first['data-id'] == 'a-b'
    assert first['class'] == ['d2l-said', 'd2l-holds'] and first.span['aria-label'] == 'holds'
    assert first['title'].startswith(
        'slow ÷ fast = 6.02× (5.70–6.30); ✓ above 3×: holds; times: slow 120 µs')
    card = bs4.BeautifulSoup(first['data-card'], 'html.parser')
    assert card.b.text == 'slow ÷ fast = 6.02× (5.70–6.30)' and 'a stored run on m' in card.text
    assert [a['href'] for a in card('a')] == ['../../chapters/a/page.html#a-b',
                                              '../../chapters/reference/ledger.html']


def test_where_this_machine_has_no_number_the_stored_one_says_whose_it_is():
    nothing = replace(TIMES, verdict='not testable here', value=None, low=None, high=None, parts={},
                      reason='no GPU', machine='this one')
    here = {'a-b': ledger_page.Entry(nothing, 'chapters/a/page', False)}
    link = quoted('It is [6.0×](#a-b).', entries=here, with_numbers={'a-b': TIMES}).a
    assert link.get_text() == '6.0×–'
    assert 'not tested here, on this one' in link['title'] and 'measured here' not in link['title']
    assert 'the number in the text is that of a stored run on m' in link['title']


def test_words_without_a_number_stay():
    link = quoted('It [is `so`](#a-o).', 'chapters/a/page').a
    assert link.get_text() == 'is `so`✗' and link['href'] == '#a-o'
    assert link['class'] == ['d2l-said', 'd2l-fails']
    assert bs4.BeautifulSoup(link['data-card'], 'html.parser').b.text == 'it is not so'


def test_thousands_keep_their_comma_everywhere():
    """In the link, in its card, and in the box at the cell."""
    link = quoted('It makes [15,329 graphs](#a-n).').a
    assert link.find(string=True) == '15,329 graphs' and link['title'].startswith('15,329 graphs;')
    assert bs4.BeautifulSoup(link['data-card'], 'html.parser').b.text == '15,329 graphs'
    box = bs4.BeautifulSoup(cards.box(NUMBER, True, [], '#said-a-n'), 'html.parser')
    assert box.summary.text == '✓ 15,329 graphs' and '15' not in box.ul.text


def test_a_link_whose_unit_does_not_fit_shows_what_the_source_says():
    assert quoted('[6.0 ms](#a-b)').get_text() == '6.0 ms✓'


def test_a_result_is_at_home_where_it_is_measured_or_else_where_it_is_quoted_first():
    """A result that nobody made has no home, nor has one that no page quotes."""
    b, c, own = 'chapters/b/other', 'chapters/c/third', 'chapters/a/page'
    assert pages.homes(ENTRIES, [(b, 'a-n'), (b, 'a-gone'), (c, 'a-n')]) == {'a-n': b}
    for order in ([b, own, c], [own, b], [b, own]):
        assert pages.homes(ENTRIES, [(page, 'a-n') for page in order]) == {'a-n': own}


def test_the_first_link_on_the_home_of_a_result_is_where_the_box_leads_back_to():
    homes = {'a-n': 'chapters/first/page', 'a-b': 'chapters/b/other'}
    made = quoted('[15 graphs](#a-n), [6×](#a-b), [6×](#a-b)', homes=homes)
    assert [a.get('id') for a in made('a')] == [None, 'said-a-b', None]


def test_over_the_cells_of_a_page_one_link_alone_is_the_first():
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell('[6×](#a-b)') for _ in range(2)])
    document = pages.Document(ROOT / 'chapters/a/page.ipynb', nb)
    pages.quote(document, pages.Book([], ENTRIES, homes={'a-b': 'chapters/a/page'}))
    assert [c.source.count('id="said-a-b"') for c in nb.cells] == [1, 0]


def test_a_link_to_a_result_that_is_to_be_guessed_knows_the_question():
    questions = {'a-b': pages.Question('a-b', 'How many?', 'chapters/a/page')}
    made = quoted('[6×](#a-b) and [15](#a-n)', questions=questions)
    assert [a.get('data-asked') for a in made('a')] == ['../../chapters/a/page.html#ask-a-b', None]


def test_the_box_at_the_cell_folds_what_the_card_says():
    out, fact, new = (nbformat.v4.new_output('display_data', {'text/html': '…'}, metadata={
        METADATA_KEY: c.data()}) for c in (NUMBER, FACT, TIMES))
    nb = nbformat.v4.new_notebook(cells=[cell('', PRINTED, out), cell('', fact, new, PICTURE)])
    here = {id: replace(e, stored=False) for id, e in ENTRIES.items()}
    homes = {'a-n': 'chapters/b/other', 'a-b': 'chapters/a/page'}
    document = pages.Document(ROOT / 'chapters/a/page.ipynb', nb)
    pages.point_back(document, pages.Book([], here, homes=homes))
    boxes = [bs4.BeautifulSoup(o.data['text/html'], 'html.parser').details for o in (out, fact, new)]
    assert [b['id'] for b in boxes] == ['a-n', 'a-o', 'a-b']
    assert [b['class'][1] for b in boxes] == ['d2l-holds', 'd2l-fails', 'd2l-holds']
    assert [b.summary.text for b in boxes] == ['✓ 15,329 graphs', '✗ it is not so',
                                               '✓ slow ÷ fast = 6.02× (5.70–6.30)']
    assert [b.a['href'] for b in boxes] == ['../../chapters/b/other.html#said-a-n', '#said-a-o',
                                            '#said-a-b']
    assert all('measured here, on m' in b.ul.text and not b.has_attr('open') for b in boxes)
    assert [o.get('data', {}).get('text/html') for o in (PRINTED, PICTURE)] == [None, None]


@pytest.mark.parametrize('measured', [True, False])
def test_a_page_measured_here_says_when_and_on_what(tmp_path, monkeypatch, measured):
    monkeypatch.setattr(runs, 'EXECUTED', tmp_path)
    path = source.notebooks()[0]
    kept = tmp_path / path.relative_to(ROOT)
    kept.parent.mkdir(parents=True)
    if measured:
        kept.touch()
        os.utime(kept, (1.7e9, 1.7e9))
    def text(results):
        nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell('# One\n\nText.')])
        mine = [replace(e, page=ledger_page.page_name(path)) for e in results]
        pages.say_where_it_ran(pages.Document(path, nb), pages.Book(mine, {}))
        return nb.cells[0].source

    said = ('<p class="d2l-whose">The numbers on this page were measured on this machine, 2023-11-14: m.'
            '</p>\n\n')
    assert text([ENTRIES['a-b']]) == f'# One\n\n{said * measured}Text.'
    assert text([]) == '# One\n\nText.'


def test_the_first_use_of_a_term_leads_to_the_glossary():
    seen = set()
    assert terms.link('A barrier here, a barrier there.', seen) == (
        'A {term}`barrier <barrier>` here, a barrier there.')
    assert terms.link('Another barrier, and two\nvirtual devices.', seen) == (
        'Another barrier, and two\n{term}`virtual devices <virtual device>`.')
    assert terms.link('Barriers, and ZeRO.', set()) == '{term}`Barriers <barrier>`, and {term}`ZeRO <ZeRO>`.'
    assert seen == {'barrier', 'virtual device'}


@pytest.mark.parametrize('text', [
    '# A barrier', '(here)=\n## A barrier', '| barrier | 1 |', '`barrier`', '[a barrier](x.md)',
    '**barrier**', '*barrier*', '$barrier$', '```{exercise} The barrier\nIs a barrier needed?\n```',
    '```python\nbarrier\n\nbarrier\n```',
    '<a href="x">a <b>barrier</b></a>', '{ref}`barrier <x>`', 'a barrier-free way', 'an interval',
    'The sum is zero.'])
def test_what_is_no_running_text_is_left_alone(text):
    assert terms.link(text, set()) == text


def test_every_term_is_one_of_the_glossary():
    text = (terms.GLOSSARY).read_text()
    assert len(terms.terms()) > 40
    assert all(f'\n**{t}.**\n' in text for t in [*terms.terms(), *terms.EVERYDAY])


def test_the_index_lists_every_exercise_with_its_solution():
    listed = exercises.all_exercises()
    asked = '\n'.join(quotations.markdown(p) for p in source.pages() if p.name == 'exercises.md')
    assert len(listed) == asked.count('```{exercise}')
    assert {e.label for e in listed} <= set(asked.split())
    assert not [e.label for e in listed if not e.solved or not e.time]
    warm_up = [e for e in listed if e.time == exercises.WARM_UP]
    assert all(e.solved == 'below the question' for e in warm_up)
    topics = {p.parent.name for p in source.pages() if p.name == 'exercises.md'}
    assert len({e.topic for e in warm_up}) == len(topics) and len(warm_up) >= 3 * len(topics)
    assert exercises.index().count('\n') == len(listed) + 1


def test_a_box_is_titled_by_its_sentence_which_gives_no_other_result_away(monkeypatch):
    said = 'It makes [15,329 graphs](#a-n), and [7×](#a-b) as many later.'
    monkeypatch.setattr(pages.quotations, 'sentence_of', lambda id: said)
    book = pages.Book([], ENTRIES)
    assert pages.statement('a-n', book) == 'It makes 15,329 graphs, and 6× as many later.'
    asks = pages.Book([], ENTRIES, questions={'a-b': pages.Question('a-b', 'How many?', 'chapters/a/page')})
    assert pages.statement('a-n', asks) == 'It makes 15,329 graphs, and …× as many later.'
    monkeypatch.setattr(ledger_page.quotations, 'sentence_of', lambda id: said)
    told = json.loads(ledger_page.as_json(list(ENTRIES.values()), '', asks.questions))['claims']
    sentences = {c['id']: c['sentence'] for c in told}
    assert sentences['a-n'] == 'It makes 15,329 graphs, and …× as many later.'
    results = {id: e.claim for id, e in ENTRIES.items()}
    row = ledger_page.row(ENTRIES['a-n'], results, ['this run'], [], asks.asked)
    assert 'and …× as many later' in row
    box = cards.box(NUMBER, True, [], '#said', pages.statement('a-n', book))
    summary = bs4.BeautifulSoup(box, 'html.parser').summary.text
    assert summary == '✓ It makes 15,329 graphs, and 6× as many later. 15,329 graphs'


def test_what_the_search_looks_in(tmp_path):
    (tmp_path / 'one.html').write_text(
        '<article><section id="top"><h1>One<a class="headerlink">#</a></h1><p>Text, <a class="d2l-said" '
        'data-asked="#">takes 5.3× as long</a>.</p><div class="cell_output">9</div>'
        '<div class="exercise admonition" id="ex"><p class="admonition-title">Exercise 3 (Why)</p><p>How?</p>'
        '</div><section id="in"><h2>Inner</h2><p>more</p></section></section></article>')
    results = [{'id': 'a-b', 'page': 'one', 'sentence': 'It takes 5.3× as long.'},
               {'id': 'a-n', 'page': 'one', 'sentence': 'It makes 7 graphs.'}]
    text = searching.index(searching.read(tmp_path, ['one']), results, {'a-b'})
    found = json.loads(text.removeprefix('d2lSearch(').removesuffix(');\n'))
    assert found == {'pages': [['one', 'One']], 'entries': [
        [0, 'ex', 'exercise', 'Why', 'Exercise 3. How?'],
        [0, 'top', 'section', 'One', 'Text, takes …× as long.'], [0, 'in', 'section', 'Inner', 'more'],
        [0, 'a-b', 'result', 'It takes …× as long.', ''], [0, 'a-n', 'result', 'It makes 7 graphs.', '']]}


@pytest.mark.parametrize(('paragraphs', 'about'), [
    (['Run this page.', 'A GPU that waits for its host computes nothing, and this page shows it.'],
     'A GPU that waits for its host computes nothing, and this page shows it.'),
    (['It takes <a class="d2l-said" data-asked="#">5.3× as long</a> beside one that computes.'],
     'It takes …× as long beside one that computes.'),
    (['word ' * 30 + 'end. ' + 'more ' * 30], ('word ' * 30 + 'end.')),
    (['<div class="note admonition"><p>Not measured here: the numbers are of another machine.</p></div>',
      'What the page itself says stands below that, and is what it is about.'],
     'What the page itself says stands below that, and is what it is about.'),
    (['word ' * 60], 'word ' * 39 + 'word …'),
    (['Short.'], '')])
def test_a_page_says_what_it_is_about(tmp_path, paragraphs, about):
    """In its first paragraph, cut at the end of a sentence or a word; no number that is asked is in it."""
    texts = ''.join(text if text.startswith('<div') else f'<p>{text}</p>' for text in paragraphs)
    (tmp_path / 'one.html').write_text(f'<article><section><h1>One</h1>{texts}</section></article>')
    found = searching.description(searching.read(tmp_path, ['one'])['one'])
    assert found == about
    page = pages.described('<head></head>', 'A "word" & more')
    assert page == '<head><meta name="description" content="A &quot;word&quot; &amp; more"/>\n</head>'


def test_what_is_downloaded_is_the_notebook_itself_and_not_what_sphinx_read(tmp_path):
    path = source.notebooks()[0]
    nb = source.read(path)
    place = tmp_path / '_sources' / path.relative_to(ROOT)
    place.parent.mkdir(parents=True)
    place.write_text('what Sphinx read')
    pages.put_sources(tmp_path, {path: nb})
    assert source.read(place) == nb
    markdown = ROOT / 'chapters' / 'start' / 'intro.md'
    assert (tmp_path / '_sources' / markdown.relative_to(ROOT)).read_text() == markdown.read_text()


def test_each_exercise_leads_to_its_solutions():
    page = quotations.markdown(ROOT / 'chapters' / 'hybridization' / 'exercises.md')
    linked = exercises.with_solutions(page)
    assert ('\n\n*Solved:* {ref}`PyTorch <hyb-sol-pt-lenet>`, {ref}`MXNet <hyb-sol-lenet>`.\n```\n'
            in linked.partition('\n:label: hyb-ex-lenet\n')[2].partition('```{exercise}')[0])
    assert re.sub(r'\n\*Solved:\*.*\n', '', linked) == page
    assert linked.count('*Solved:*') == page.count('```{exercise}') - page.count('```{solution}')
    assert exercises.with_solutions('# No exercise') == '# No exercise'


def test_an_exercise_that_is_checked_leads_to_its_stubs():
    topic = ROOT / 'chapters' / 'asynchrony'
    page = quotations.markdown(topic / 'exercises.md')
    placed = stubs.with_ways(page, topic)
    place = r'<div class="d2l-solve" data-notebooks="(.*)"></div>'
    found = dict(re.findall(rf':label: (\S+)\n(?:(?!```\n).*\n)*{place}', placed))
    assert found['asy-ex-w-wait'] == found['asy-ex-model'] == 'asynchrony_mxnet asynchrony_pytorch'
    assert found['asy-ex-hidden'] == 'asynchrony_pytorch' and len(found) == page.count('```{exercise}')
    assert re.sub(r'\n<div.*></div>\n', '', placed) == page
    assert stubs.with_ways('# No exercise', topic) == '# No exercise'


def test_a_long_formula_of_a_text_may_end_a_line_after_a_relation():
    def shown(tex):
        return [''.join(part.itertext()) for part in formulas.lines(formulas.mathml(tex))]

    assert shown('T = n') == ['T=n']
    tex = r'T(n) = t_1 + t_2 + t_3 + (n - 1)\max(t_1, t_2)'
    first, second = formulas.lines(formulas.mathml(tex))
    assert shown(tex) == ['T(n)=', 't1+t2+t3+(n−1)max(t1,t2)'] and first.tag == second.tag
    assert first[0][-1].get('form') == 'infix' and first.get('display') == 'inline'
    assert len(shown(r'n^{a = b = c = d = e = f} + 1 + 2 + 3 + 4')) == 1        # not in an exponent


def test_the_name_of_a_function_has_narrow_spaces_and_its_index_below_it_on_a_line_of_its_own():
    line, own = formulas.mathml(r'2\max_s t_s'), formulas.mathml(r'2\max_s t_s', 'block')
    assert [m[0][1].tag for m in (line, own)] == [formulas.MSUB, formulas.MUNDER]
    assert own[0][2].tag == formulas.MSUB
    assert all(m[0][1][0].attrib == {'lspace': '0.167em', 'rspace': '0.167em'} for m in (line, own))


def test_without_a_repository_there_are_no_buttons():
    text = (ROOT / '_config.yml').read_text()
    assert pages.published(text) == text and 'repository:' not in text


@pytest.mark.slow
def test_with_a_repository_there_are_buttons_and_never_a_fault_of_the_theme(tmp_path):
    config = (ROOT / '_config.yml').read_text() + '\nrepository: {url: "https://github.com/some/book"}\n'
    (tmp_path / '_config.yml').write_text(pages.published(config))
    (tmp_path / '_toc.yml').write_text('format: jb-book\nroot: one\n')
    bib = tmp_path / 'chapters' / 'reference' / 'references.bib'
    bib.parent.mkdir(parents=True)
    shutil.copy(ROOT / 'chapters' / 'reference' / 'references.bib', bib)
    shutil.copytree(ROOT / 'tools' / 'theme', tmp_path / 'theme')
    cell = nbformat.v4.new_markdown_cell('# One\n\nA page.')
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / 'one.ipynb')
    pages.jupyter_book(tmp_path)
    page = (tmp_path / '_build' / 'html' / 'one.html').read_text()
    for address in ('mybinder.org/v2/gh/some/book', 'github.com/some/book/issues/new',
                    'github.com/some/book/edit/main/'):
        assert address in page
    assert 'THEBE_JS_URL' in page and '<div role="complementary"' not in page
    page = pages.mended(page, set())
    assert 'thebe' not in page.lower() and page.count('<div role="complementary"') == 1


def test_a_repair_that_finds_nothing_to_repair_says_so(tmp_path):
    """The theme has changed then, and nobody would see that its pages are as they were."""
    one, two = tmp_path / 'one.html', tmp_path / 'two.html'
    faults = {
        'the address of a live kernel': '<script>const THEBE_JS_URL = "https://unpkg.com";\n</script>',
        'the files of a live kernel': '<script async src="_static/sphinx-thebe.js?v=1"></script>',
        'the settings of a live kernel': '<script type="text/x-thebe-config">\n{}\n</script>',
        'a script of icons': '<script src="_static/vendor/fontawesome/all.min.js"></script>',
        'Bootstrap': '<link rel="preload" as="script" href="_static/scripts/bootstrap.js?digest=1"/>\n'
                     '<script src="_static/scripts/bootstrap.js?digest=1"></script>',
        'fonts loaded ahead of their use': '<link rel="preload" as="font" href="a.woff2"/>',
        'an id that stands more than once': '<section id="exercise-content">',
        'the role of an entry of the bibliography': '<div class="citation" role="doc-biblioentry">',
        'the role of a list': '<div role="list" class="citation-list">',
        'no mode of colours': 'localStorage.getItem("mode") || "";',
        'a second field with the id of the search': '<input id="search-input">\n<input id="search-input">',
        'the side bar': '<div class="bd-sidebar-primary bd-sidebar">',
        'a search by Sphinx': '<script src="_static/searchtools.js"></script>\n'
                              '  <script src="_static/language_data.js"></script>\n'
                              '  <script src="searchindex.js"></script>'}
    assert set(faults) == set(pages.REPAIRS)
    for left_out in [None, *faults]:
        one.write_text('<html></html>')
        two.write_text('\n'.join(text for name, text in faults.items() if name != left_out))
        if left_out is None:
            pages.repair([one, two])
        else:
            with pytest.raises(ValueError, match=f'no page has {left_out} any more'):
                pages.repair([one, two])
    pages_now = one.read_text() + two.read_text()
    gone = 'thebe', 'font', 'bootstrap', 'exercise-content', 'biblio'
    assert not [word for word in gone if word in pages_now.lower()]
    assert pages_now.count('id="search-input"') == pages_now.count('id="search-again"') == 1


@contextlib.contextmanager
def unlimited():
    """Jupyter Book is a process of its own: a limit of this one is none of its."""
    if os.name == 'nt':
        return (yield)
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def standing(program, monkeypatch, tmp_path):
    """A book of one page without notebooks, built by a stand-in for Jupyter Book; its old page stands.

    Returns:
        A function that builds it from a new source and gives the exit status and what was said; Jupyter
        Book makes ``built`` of it and ends with ``status``.
    """
    def build(text, built=None, status=0, to='html'):
        def prepare(shown, old, source):
            pages.put(source / '_config.yml', 'title: one\nhtml: {}')
            if pages.put(source / 'index.md', text):
                (source / pages.MADE).unlink(missing_ok=True)
            return 'ledger: …', '{"claims": []}', set()

        def jupyter_book(command, **_):
            made = tmp_path / 'src-stored/_build/html'
            if built is not None:
                made.mkdir(parents=True, exist_ok=True)
                with unlimited():
                    (made / 'index.html').write_text(built)
                (made / 'searchindex.js').write_text('')
                (made / '_static').mkdir(exist_ok=True)
            return subprocess.CompletedProcess(command, status, '', '')
        monkeypatch.setattr(pages, 'prepare', prepare)
        monkeypatch.setattr(pages, 'repair', lambda paths: None)       # the stand-in has no theme
        monkeypatch.setattr(pages, 'subprocess', SimpleNamespace(run=jupyter_book))
        return program('book', '--stored', '--to', f'{tmp_path}/{to}')
    monkeypatch.setattr(pages, 'BUILD', tmp_path)
    monkeypatch.setattr(source, 'notebooks', lambda: [])
    build('old', 'old')
    return build


@pytest.mark.skipif(os.name == 'nt', reason='limits of another kind')
@pytest.mark.parametrize('full', ['sources', 'pages'])
def test_a_full_disk_leaves_the_old_pages(standing, tmp_path, full):
    """A limit on the size of files stops a write in its middle, as a full disk does."""
    import resource
    page, text = tmp_path / 'html/index.html', 'new' * 10_000
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        status, said = standing(text if full == 'sources' else 'new', text)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 1 and 'File too large' in said and 'The pages are as they were' in said
    assert page.read_text() == 'old' and (tmp_path / 'src-stored/index.md').read_text() != text
    assert not [p for p in tmp_path.rglob('*') if p.suffix in ('.part', '.new', '.old')]
    assert standing(text, text)[0] is None and page.read_text() == text


def test_pages_of_an_earlier_state_of_the_sources_are_made_anew(standing, tmp_path):
    """Though pages of the present state stand in another folder."""
    standing('new', 'new', to='other')
    assert (tmp_path / 'html/index.html').read_text() == 'old'
    standing('new', 'new')
    assert (tmp_path / 'html/index.html').read_text() == 'new'
    standing('new', 'not made, as nothing changed')
    assert (tmp_path / 'html/index.html').read_text() == 'new'


def test_pages_of_another_source_tree_are_made_anew(standing, tmp_path):
    """Stored outputs and those of this machine may be shown in one folder, one after the other."""
    (tmp_path / 'other').mkdir()
    (tmp_path / 'other' / pages.MADE).write_text('made of another tree')
    (tmp_path / 'other/index.html').write_text('of another tree')
    standing('old', 'old', to='other')
    assert (tmp_path / 'other/index.html').read_text() == 'old'


def test_pages_that_stopped_half_made_are_made_anew(standing, tmp_path):
    """Sphinx would take a half-written page for done, since it is newer than its source."""
    status, said = standing('new', 'ne', status=1)
    assert status == 1 and 'not rebuilt' in said
    assert (tmp_path / 'html/index.html').read_text() == 'old'
    (tmp_path / 'src-stored/_build/html/half.html').write_text('')
    assert standing('new', 'new')[0] is None
    assert [p.name for p in (tmp_path / 'html').glob('*.html')] == ['index.html']


def test_another_run_makes_the_pages_from_the_start(standing, tmp_path, monkeypatch):
    """Within one run Sphinx may keep pages whose sources are the same."""
    left = tmp_path / 'src-stored/_build/html/left.html'
    left.write_text('')
    standing('new', 'new')
    assert left.exists()
    monkeypatch.setattr(pages, 'RUN', 'another')
    standing('newer', 'newer')
    assert not left.exists()


def test_images_that_no_page_shows_are_deleted(tmp_path):
    """Where a notebook was measured again, the images of its outputs have other names."""
    (tmp_path / '_images').mkdir()
    for name in ('old.svg', 'new.svg'):
        (tmp_path / '_images' / name).write_text('')
    page = tmp_path / 'one.html'
    page.write_text('<img src="../_images/new.svg"/>')
    pages.drop_images(tmp_path, [page])
    assert [image.name for image in (tmp_path / '_images').iterdir()] == ['new.svg']
