"""Measured numbers in the text are links to results, and typed ones say where they come from."""

import pytest

from tools import source, typed


def found(sentence, tmp_path):
    page = tmp_path / 'page.md'
    page.write_text(sentence)
    return [(n.number, n.against) for n in typed.find(page)]


def test_the_book_s_typed_numbers_are_accepted_ones():
    found = typed.problems(source.pages(), typed.accepted())
    assert not found, '\n'.join(found) + '\n`python -m tools.typed PAGE` says what to do'


@pytest.mark.parametrize('sentence', [
    'The chain is [6.0× faster](#hyb-pt-chain).', 'It has 16×16 tiles, 3 layers and 80 GB.',
    'The bytes are 28 / 8, so it gains 3.5×.', 'That is 4 ms · 3 = 12 ms.', 'Rates at 5 GB/s are 3 s.',
    'The step takes $3.0 \\cdot 2 = 6$ s, or 6 s.', 'Suppose that a launch costs 10 µs.',
    'Does it take 3 ms?', 'They found 2.3× {cite}`a`. On theirs it was 5%.',
    'An [H100](https://nvidia.com) reads 3.35 TB/s.', '`sleep(3 ms) == 1`',
    'A rank with a delay of 10 ms takes [3×](#a-b) as long.',
    '| card | [sheet](https://a.b) | 3.35 TB/s |', '```\nIt takes 3 ms.\n```'])
def test_what_is_measured_calculated_given_or_cited_is_not_listed(sentence, tmp_path):
    assert found(sentence, tmp_path) == []


@pytest.mark.parametrize(('sentence', 'numbers'), [
    ('With `a = 3` a step takes 3.5 ms.', ['3.5 ms']), ('It is 1,200 times as long.', ['1,200 times as']),
    ('The card does 104 GFLOP/s and 92%.', ['104 GFLOP/s', '92%']), ('It writes 39 tokens a second.', None),
    ('| a launch | 6.67 µs |', ['6.67 µs']), ('> 4 ms of [7 ms](#a-b:slow) are waits.', ['4 ms']),
    ('They found 2.3× {cite}`a`.\n\nHere it is 3.1×.', ['3.1×']),
    ('It takes [6.7 µs](b.ipynb) each.', ['6.7 µs'])])
def test_other_numbers_with_such_a_unit_are_listed(sentence, numbers, tmp_path):
    assert [n for n, _ in found(sentence, tmp_path)] == (numbers or ['39 tokens a second'])


@pytest.mark.parametrize(('words', 'contradicts'), [
    ('more than 2×', True), ('more than 1.5×', False), ('at most 2×', False), ('at most 1.5×', True),
    ('nearly 2×', False), ('about 5×', True), ('5×', False)])
def test_a_number_beside_a_link_must_agree_with_it(words, contradicts, tmp_path):
    against = [a for _, a in found(f'It takes [1.9×](#a-b) as long, {words} in all.', tmp_path)]
    assert against == ['1.9×' if contradicts else '']
    cited = found(f'It takes [1.9×](#a-b) as long, {words} in all {{cite}}`a`.', tmp_path)
    assert cited == ([(words.split()[-1], '1.9×')] if contradicts else [])


def test_a_line_accepts_a_number_among_its_words_and_must_be_needed(tmp_path):
    page, lines = tmp_path / 'page.md', tmp_path / 'lines.txt'
    page.write_text('We set a step of 5 ms. It took 7 ms.\n')
    lines.write_text('# a remark\n\npage.md | setting | a step of 5 ms\n')
    assert typed.problems([page], typed.accepted(lines)) == ['page.md: "7 ms" is typed: It took 7 ms.']
    lines.write_text('page.md | setting | step of 5 ms.\npage.md | hope | took 7 ms\nother.md | bound | 1 s\n'
                     'page.md | setting | 9 ms\n')
    hope, gone = typed.problems([page], typed.accepted(lines))
    assert "'hope' is none of assumption, " in hope and 'delete the line: page.md | setting | 9 ms' in gone


def test_a_line_does_not_accept_a_contradiction(tmp_path):
    page = tmp_path / 'page.md'
    page.write_text('It takes [1.9×](#a-b) as long, more than 2× in all.\n')
    [said] = typed.problems([page], [('page.md', 'bound', 'more than 2×')])
    assert '"2×" contradicts the measured "1.9×"' in said
