"""Exercises that are answered in the page, in a real browser: the rules are those of notebooks."""

import json
import re

import pytest

from answer_checks import definitions
from answer_checks.definitions import Missing, Part
from tools import exercises, questions
from tools.quotations import markdown
from tools.source import ROOT, pages

THEME = ROOT / 'tools' / 'theme'
ALL = {label: one for (label, framework), one in definitions.load().items()
       if framework is None and questions.in_page(one)}
pytestmark = pytest.mark.slow


NUMBERS = {'1,000': 1000, '1/4': 0.25, ' 1 / 4 ': 0.25, '.5': 0.5, '2e9': 2e9, '-3': -3, '1,234.5': 1234.5}


def boxes(labels):
    return ''.join(f'<div class="exercise admonition">{questions.form(label)}</div>' for label in labels)


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    """A page with every exercise that is answered in it, and a folded answer below the first."""
    first, *others = ALL
    folded = ('<div class="solution dropdown admonition toggle toggle-hidden"><button class="toggle-button" '
              'onclick="this.parentNode.classList.remove(`toggle-hidden`)">Show</button><p>So.</p></div>')
    made = {f'made-{k}': definitions.Exercise(lambda: None, '', {}, parts={'x': Part(n, 'x', '', '', 1e-12)})
            for k, n in enumerate(NUMBERS.values())}
    definitions.known.update({(label, None): one for label, one in made.items()})
    article = boxes([first]) + folded + boxes([*others, *made])
    for label in made:
        del definitions.known[label, None]
    return written(tmp_path_factory.mktemp('pages') / 'page.html', article)


def written(path, article):
    """A page with the script and the style of the book."""
    path.write_text(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Page</title>'
                    f'<link rel="stylesheet" href="{(THEME / "d2l.css").as_uri()}">'
                    f'<script src="{(THEME / "questions.js").as_uri()}"></script>'
                    f'<body><main><article class="bd-article">{article}</article></main>')
    return path


@pytest.fixture
def browser(chromium, page):
    chromium.resize(1280)
    chromium.open(page)
    chromium.run('localStorage.clear()')
    chromium.errors.clear()
    chromium.open(page)
    yield chromium
    assert not chromium.errors


def answer(browser, label, values):
    """Fill in an exercise and ask; returns what is said, and how many fields are marked as wrong."""
    return browser.run(f'''(() => {{
        const form = document.querySelector('[data-exercise="{label}"] form');
        const fields = [...form.querySelectorAll('input, select')];
        {json.dumps(values)}.forEach((value, k) => {{ fields[k].value = value; }});
        form.querySelector('button').click();
        return [form.querySelector('[role=status]').textContent,
                fields.filter((f) => f.ariaInvalid === 'true').length];
    }})()''')


def typed(x):
    """A right value as a reader types it."""
    if isinstance(x, bool):
        return 'yes' if x else 'no'
    return x if isinstance(x, str) else repr(x)


def test_most_exercises_with_figures_are_answered_in_the_page():
    asked = {label for path in pages() if path.name == 'exercises.md'
             for _, label, _ in exercises.EXERCISE.findall(markdown(path))}
    assert set(ALL) <= asked and len(ALL) >= 50
    text = markdown(ROOT / 'chapters' / 'transformer' / 'exercises.md')
    shown = questions.with_forms(text)
    assert shown.count('class="d2l-question"') == sum(label.startswith('tr-') for label in ALL)
    assert shown.count('```') == text.count('```')
    for one in ALL.values():        # a word that is right can be chosen
        for name, part in one.parts.items():
            about = questions.described(name, part, one)
            assert set(about.get('choices', about['right'])) >= set(about['right'])


def test_a_word_that_a_list_offers_does_not_stand_before_it_too():
    asked = [questions.described(name, part, one) for one in ALL.values() for name, part in one.parts.items()]
    asked = [about for about in asked if 'choices' in about]
    assert len(asked) > 50
    offered = re.compile("'|True or|^[ ,:]|[ ,:]$|^$")
    assert not [about['asks'] for about in asked if offered.search(about['asks'])]


def test_what_is_right_in_a_notebook_is_right_in_the_page(browser):
    for label, one in ALL.items():
        for others in ({}, *one.also):
            values = [others.get(name, part.expected) for name, part in one.parts.items()]
            one.test(*values)
            assert answer(browser, label, [typed(x) for x in values]) == ['Right.', 0], label
    assert set(browser.run('JSON.parse(localStorage.getItem("d2l-solved"))')) == set(ALL)
    browser.send('Page.reload')
    said = 'document.querySelector(".d2l-question [role=status]")?.textContent || null'
    assert browser._wait(lambda: browser.run(said)) == 'You have solved this one.'


def test_what_is_wrong_in_a_notebook_is_wrong_in_the_page_with_the_same_hints(browser):
    """One part after the other, with all others right."""
    for label, one in ALL.items():
        right = [part.expected for part in one.parts.values()]
        for k, part in enumerate(one.parts.values()):
            wrong = list(right)
            if isinstance(part.expected, bool):
                wrong[k] = not part.expected
            elif isinstance(part.expected, str):
                wrong[k] = next(w for w in definitions.choices_of(part, one.parts) if w != part.expected)
            else:
                wrong[k] = part.expected * 1.5 + 1
            try:
                one.test(*wrong)
            except Missing as e:
                _, hint, second = e.args
            else:
                continue        # another set of values that are right together
            said, marked = answer(browser, label, [typed(x) for x in wrong])
            assert said.startswith('Not yet: ') and marked, (label, said)
            if not one.also:
                assert questions.described('', part, one)['asks'] in said
                assert (hint in said or second in said) and marked == 1
                again, _ = answer(browser, label, [typed(x) for x in wrong])
                assert again != said or hint == second or hint != part.hint


def test_what_is_behind_a_wrong_answer_is_said_in_the_page(browser):
    for label, one in ALL.items():
        right = {name: part.expected for name, part in one.parts.items()}
        for name, part in one.parts.items() if not one.also else ():
            for wrong, said in part.slips.items():
                values = {**right, name: wrong}.values()
                assert said in answer(browser, label, [typed(x) for x in values])[0], (label, name, wrong)


@pytest.mark.parametrize('share', [0.5, 0.98, 1.02, 2])
def test_a_figure_may_be_off_by_the_same_share_in_both(browser, share):
    for label, one in ALL.items():
        values = [part.expected for part in one.parts.values()]
        k = next((k for k, x in enumerate(values) if isinstance(x, float) and x), None)
        if k is None or one.also:
            continue
        part = list(one.parts.values())[k]
        values[k] *= 1 + share * definitions.tolerance(part.expected, part.within)
        try:
            one.test(*values)
            held = True
        except Missing:
            held = False
        assert (answer(browser, label, [typed(x) for x in values])[0] == 'Right.') == held, (label, values)


def test_each_form_has_a_name_of_its_own(browser):
    names = browser.run('[...document.querySelectorAll("form")].map((f) => f.ariaLabel)')
    assert len(set(names)) == len(names) == len(ALL) + len(NUMBERS)
    assert all(name.startswith('Your answer: ') for name in names)


def test_an_answer_in_parts_unfolds_the_solution_when_it_is_whole(browser):
    label, one = next(iter(ALL.items()))
    values = [typed(part.expected) for part in one.parts.values()]
    folded = 'document.querySelector(".solution").matches(".toggle-hidden")'
    assert answer(browser, label, ['' for _ in values]) == ['Fill in an answer.', 0] and browser.run(folded)
    if len(values) > 1:
        first = [values[0], *('' for _ in values[1:])]
        assert answer(browser, label, first) == ['Right so far. Fill in the rest.', 0] and browser.run(folded)
    assert answer(browser, label, values) == ['Right.', 0] and not browser.run(folded)


@pytest.mark.parametrize('text', NUMBERS)
def test_numbers_as_readers_type_them(browser, text):
    assert answer(browser, f'made-{[*NUMBERS].index(text)}', [text]) == ['Right.', 0]


NO_NUMBERS = '1,5', 'many', '3 GB', '٣', '1/2/3', '0x10', 'NaN', '<b>3</b>', '1/0', '1e999'


@pytest.mark.parametrize('text', NO_NUMBERS)
def test_what_is_no_number_is_said_so(browser, text):
    label = next(i for i, e in ALL.items() if isinstance(next(iter(e.parts.values())).expected, float))
    said, marked = answer(browser, label, [text])
    assert 'give a number without a unit, such as 0.25, 1/4 or 2e9.' in said and marked == 1


@pytest.mark.parametrize('stored', ['', '{', '[1, 2]', '{"a": 1}', '["<b>"]'])
def test_a_store_that_is_broken_is_taken_for_empty(browser, page, stored):
    browser.run(f'localStorage.setItem("d2l-solved", {json.dumps(stored)})')
    browser.open(page)
    label, one = next(iter(ALL.items()))
    assert answer(browser, label, [typed(p.expected) for p in one.parts.values()]) == ['Right.', 0]
    assert browser.run('localStorage.getItem("d2l-solved")') == json.dumps([label])


def test_what_was_solved_in_a_notebook_is_known_in_the_page(chromium, monkeypatch, tmp_path):
    monkeypatch.setenv('ANSWER_CHECKS_FOLDER', str(tmp_path))
    (tmp_path / 'progress.json').write_text(json.dumps({'tr-ex-w-six': {'solved': True},
                                                        'tr-ex-w-users': {'missing': 'users'},
                                                        'tr-ex-gone': {'solved': True}}))
    questions.solved.cache_clear()
    try:
        assert questions.solved() == ['tr-ex-w-six']
        path = written(tmp_path / 'page.html', boxes(['tr-ex-w-six', 'tr-ex-w-users']))
    finally:
        questions.solved.cache_clear()
    chromium.open(path)
    said = '[...document.querySelectorAll(".d2l-question [role=status]")].map((e) => e.textContent)'
    assert chromium.run(said) == ['You have solved this one in a notebook.', '']


def test_the_source_of_a_page_does_not_show_what_is_right():
    form = questions.form('tr-ex-w-six')
    assert 'data-parts' in form and not re.search(r'84|510|4608', form.split('data-parts')[0])
    assert 'million' not in form and questions.form('no-such') == ''
