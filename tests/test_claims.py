"""Claims: what they accept, what they say, and that they never raise because they fail."""

import json
import math

import pytest

from d2l_local import claims, timing
from d2l_local.claims import claim


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(claims, '_seen', {})
    monkeypatch.delenv('D2L_BUDGET', raising=False)


def fixed(low, value, high):
    """A stand-in for a measurement."""
    return lambda *a, **k: timing.Ratio(value, low, high, 30, 2.0, 1.0, 0.1)


@pytest.mark.parametrize(('bound', 'interval', 'verdict'), [
    ({'above': 2}, (2.1, 2.5, 3), 'holds'), ({'above': 2}, (1.5, 1.8, 1.9), 'fails'),
    ({'above': 2}, (1.5, 2.1, 3), 'undecided'), ({'below': 2}, (1.5, 1.8, 1.9), 'holds'),
    ({'below': 2}, (2.1, 2.5, 3), 'fails'), ({'below': 2}, (1.9, 2, 2.1), 'undecided'),
])
def test_the_interval_decides(monkeypatch, capsys, bound, interval, verdict):
    monkeypatch.setattr(timing, 'ratio', fixed(*interval))
    c = claim('a-b', 'A takes longer.', slow=int, fast=int, **bound)
    assert c.verdict == verdict and c.passing == (verdict == 'undecided')
    assert bool(c.reason) == (verdict == 'undecided')
    said = capsys.readouterr().out.splitlines()
    assert said[0] == '[a-b] A takes longer.'
    assert said[1] == f"bound: time ratio {'>' if 'above' in bound else '<'} 2"
    assert said[2].startswith(f'verdict: {verdict}') and said[3].startswith('measured: ')


def test_a_measured_claim_end_to_end(capsys):
    c = claim('a-b', 'Ten take longer.', slow=lambda: sum(range(3000)), agree=False,
              fast=lambda: sum(range(300)), above=2, clock='thread')
    assert c.verdict == 'holds' and '×' in c.figure and c.seconds > 0


@pytest.mark.parametrize(('what', 'verdict', 'figure'), [
    ({'fact': True}, 'holds', ''), ({'fact': False}, 'fails', ''),
    ({'value': 3, 'above': 2, 'unit': 'calls'}, 'holds', '3 calls'),
    ({'value': 3.0, 'below': 2}, 'fails', '3'),
    ({'value': 2.0, 'below': 2}, 'fails', '2'),      # the bound itself is not cleared
])
def test_facts_and_values(what, verdict, figure):
    c = claim('a-b', 'So it is.', **what)
    assert (c.verdict, c.figure) == (verdict, figure)


@pytest.mark.parametrize('id', ['', 'A-b', 'a_b', 'a b', '-a', 'a--b', 'ä'])
def test_a_malformed_id(id):
    with pytest.raises(ValueError, match='small letters'):
        claim(id, 'S.', fact=True)


def test_an_id_used_twice():
    claim('a-b', 'One.', fact=True)
    claim('a-b', 'One.', fact=True)       # a cell that runs again
    with pytest.raises(ValueError, match='used twice.*another id'):
        claim('a-b', 'Two.', fact=True)


@pytest.mark.parametrize('bound', [{'above': 0}, {'above': -1}, {'below': 0}, {'above': math.nan},
                                   {'above': math.inf}, {'above': '2'}])
def test_a_senseless_bound(bound):
    with pytest.raises(ValueError, match='positive number'):
        claim('a-b', 'S.', value=1, **bound)


@pytest.mark.parametrize('what', [
    {}, {'value': 1}, {'value': 1, 'above': 1, 'below': 2}, {'slow': int, 'above': 1},
    {'fast': int, 'above': 1}, {'fact': True, 'value': 1}, {'slow': int, 'fast': int, 'fact': True},
    {'value': math.nan, 'above': 1}, {'fact': True, 'above': 1}])
def test_an_incomplete_claim(what):
    with pytest.raises(ValueError):
        claim('a-b', 'S.', **what)


@pytest.mark.parametrize('text', ['0', '-3', 'soon', 'nan', 'inf'])
def test_a_bad_budget_is_named(monkeypatch, text):
    monkeypatch.setenv('D2L_BUDGET', text)
    with pytest.raises(ValueError, match=f"D2L_BUDGET.*'{text}'"):
        claim('a-b', 'S.', fact=True)


def test_the_budget_is_handed_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(timing, 'ratio', lambda *a, **k: seen.update(k) or fixed(2, 3, 4)())
    monkeypatch.setenv('D2L_BUDGET', '17')
    claim('a-b', 'S.', slow=int, fast=int, above=1)
    assert seen['budget'] == 17
    claim('a-b', 'S.', slow=int, fast=int, above=1, budget=2)
    assert seen['budget'] == 2


def test_what_stands_against_a_test_is_said():
    c = claim('a-b', 'S.', slow=int, fast=int, above=1, unless='no GPU')
    assert (c.verdict, c.reason, c.passing) == ('not testable here', 'no GPU', False)
    assert 'verdict: not testable here: no GPU' in str(c)
    assert claim('a-c', 'S.', fact=True, unless='').verdict == 'holds'
    assert claim('a-d', 'S.', fact=True, unless=None).verdict == 'holds'


def test_a_reason_that_passes_is_waited_for(monkeypatch):
    monkeypatch.setattr(claims.time, 'sleep', lambda s: None)
    answers = iter(['busy', 'busy', ''])
    assert claim('a-b', 'S.', fact=True, unless=lambda: next(answers)).verdict == 'holds'
    c = claim('a-c', 'S.', fact=True, unless=lambda: 'busy', budget=0.01)
    assert (c.verdict, c.passing) == ('not testable here', True)


def test_a_condition_that_ended_while_measuring(monkeypatch):
    monkeypatch.setattr(timing, 'ratio', fixed(0.9, 1, 1.1))
    answers = iter(['', 'busy'])
    c = claim('a-b', 'S.', slow=int, fast=int, above=1.5, unless=lambda: next(answers))
    assert (c.verdict, c.reason, c.passing) == ('not testable here', 'busy', True)


def test_a_variant_that_raises_is_named():
    with pytest.raises(timing.VariantError, match="'slow' raised ZeroDivisionError.*alone"):
        claim('a-b', 'S.', slow=lambda: 1 / 0, fast=int, above=1)


def test_html_and_data(monkeypatch):
    monkeypatch.setattr(timing, 'ratio', fixed(2, 3, 4))
    c = claim('a-b', 'x < y & "z"', slow=int, fast=int, above=1)
    data, metadata = c._repr_mimebundle_()
    assert data['text/plain'] == str(c)
    assert 'id="claim-a-b"' in data['text/html'] and 'x &lt; y &amp;' in data['text/html']
    assert '<y' not in data['text/html']
    again = json.loads(json.dumps(metadata))[claims.METADATA_KEY]
    assert again['verdict'] == 'holds' and again['machine'] and again['id'] == 'a-b'


@pytest.mark.parametrize('verdict', claims.VERDICTS)
def test_every_verdict_as_text_and_as_html(verdict):
    c = claims.Claim('a-b', 'S <i>', '> 2 µ<s>', verdict, '3 <b>', 'because <u> & "so"', machine='m')
    assert str(c) == (f'[a-b] S <i>\nbound: > 2 µ<s>\nverdict: {verdict}: because <u> & "so"\n'
                      'measured: 3 <b>')
    html = c._html()
    assert html.startswith('<div') and html.endswith('</div>')
    assert f'<b>{claims.MARKS[verdict]} {verdict}</b>' in html and claims.COLOURS[verdict] in html
    assert all(f'&lt;{tag}&gt;' in html for tag in 'isbu') and '&amp; &quot;so&quot;' in html
    assert len(set(claims.MARKS.values())) == len(set(claims.COLOURS.values())) == len(claims.VERDICTS)
    bare = claims.Claim('a-b', 'S.', '> 2', verdict, machine='m')
    assert str(bare).endswith(f'verdict: {verdict}') and 'measured' not in bare._html()


def test_it_is_shown_once_in_a_notebook():
    nbformat = pytest.importorskip('nbformat')
    from tools.notebooks import NotebookClient
    source = ("from d2l_local.claims import claim\nc = claim('a-b', 'One.', fact=True)\n"
              "claim('a-c', 'Two.', fact=False)")
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    outputs = NotebookClient(nb, kernel_name='python3').execute().cells[0].outputs
    assert [o.metadata[claims.METADATA_KEY]['id'] for o in outputs] == ['a-b', 'a-c']


@pytest.mark.parametrize('what', [{'value': 1.0, 'above': 2}, {'fact': False}])
def test_a_condition_that_ended_meanwhile_is_no_refutation(what):
    answers = iter(['', '', 'busy'] + [''] * 9)
    c = claims.claim('a-meanwhile', 'A sentence.', unless=lambda: next(answers), **what)
    assert (c.verdict, c.reason, c.passing) == ('not testable here', 'busy', True)


@pytest.mark.parametrize('what', [{'value': 1.0, 'above': 2}, {'fact': False}])
def test_a_refutation_while_the_condition_holds_stands(what):
    assert claims.claim('a-refuted', 'A sentence.', unless=lambda: '', **what).verdict == 'fails'
