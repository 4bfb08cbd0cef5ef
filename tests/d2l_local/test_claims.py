"""Claims: what they accept, what they say, and that they never raise because they fail."""

import json
import math
import time

import numpy as np
import pytest

from d2l_local import claims, conditions, machine, timing
from d2l_local.claims import claim


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(claims, '_seen', {})
    monkeypatch.setattr(timing, 'SPAN', 0.1)
    monkeypatch.delenv('D2L_BUDGET', raising=False)


def fixed(low, value, high):
    """A stand-in for a measurement."""
    return lambda *a, **k: timing.Ratio(value, low, high, 30, 0.1)


@pytest.fixture
def passing(monkeypatch):
    """A passing condition whose answers a test chooses: before, and in each stretch."""
    before, during = [], []

    def answer(answers):
        return answers.pop(0) if answers else ''
    monkeypatch.setattr(conditions, 'known', dict(conditions.known))
    monkeypatch.setattr(conditions, 'WAIT', 0)
    conditions.condition('weather', watch=lambda: lambda: answer(during))(lambda: answer(before))
    return before, during


@pytest.fixture
def lacking(monkeypatch):
    """A permanent condition that does not hold."""
    monkeypatch.setattr(conditions, 'known', dict(conditions.known))
    conditions.condition('a moon')(lambda: 'no moon')


@pytest.mark.parametrize(('bound', 'interval', 'verdict'), [
    ({'above': 2}, (2.1, 2.5, 3), 'holds'), ({'above': 2}, (1.5, 1.8, 1.9), 'fails'),
    ({'above': 2}, (1.5, 2.1, 3), 'undecided'), ({'below': 2}, (1.5, 1.8, 1.9), 'holds'),
    ({'below': 2}, (2.1, 2.5, 3), 'fails'), ({'below': 2}, (1.9, 2, 2.1), 'undecided'),
])
def test_the_interval_decides(monkeypatch, capsys, bound, interval, verdict):
    monkeypatch.setattr(timing, 'ratio', fixed(*interval))
    c = claim('a-b', 'A takes longer.', (int, int), **bound)
    assert c.verdict == verdict and c.passing == (verdict == 'undecided')
    assert bool(c.reason) == bool(c.lacked) == (verdict == 'undecided')
    assert (c.low, c.value, c.high) == interval and c.kind == 'ratio'
    said = capsys.readouterr().out.splitlines()
    assert said[0] == '[a-b] A takes longer.'
    assert said[1] == f"ratio, bound: {'>' if 'above' in bound else '<'} 2 times as long"
    assert said[2].startswith(f'verdict: {verdict}') and said[3].startswith('measured: ')


@pytest.mark.parametrize('what', [(int, int), [1.0, 3.0] * 5])
@pytest.mark.parametrize(('cores', 'lacked'), [(0.0, claims.NOISE), (0.9, claims.DISTURBED)])
def test_an_undecided_claim_says_whether_others_were_seen(monkeypatch, what, cores, lacked):
    """What others took is counted whatever the claim shows; it changes no verdict."""
    monkeypatch.setattr(timing, 'ratio', fixed(1.5, 2.1, 3))
    monkeypatch.setattr(conditions, 'taken', lambda: lambda: cores * machine.cores())
    monkeypatch.setattr(claims, '_since', [conditions.taken()])
    c = claim('a-b', 'A takes longer.', what, above=2)
    assert (c.verdict, c.lacked, c.passing) == ('undecided', lacked, True)
    assert ('other work took' in c.reason) == bool(cores)
    assert claim('b-c', 'A takes longer.', what, above=0.5).verdict == 'holds'


def test_a_measured_claim_end_to_end(capsys):
    c = claim('a-b', 'Ten take longer.', (lambda: sum(range(3000)), lambda: sum(range(300))),
              agree=False, above=2, clock='thread')
    assert c.verdict == 'holds' and 'times as long (' in c.figure and c.seconds > 0 and c.values > 7


@pytest.mark.parametrize(('what', 'how', 'kind', 'verdict'), [
    (True, {}, 'fact', 'holds'), (np.False_, {}, 'fact', 'fails'), (lambda: True, {}, 'fact', 'holds'),
    (3, {'above': 2, 'unit': 'calls'}, 'count', 'holds'), (3.0, {'below': 2}, 'count', 'fails'),
    (2.0, {'below': 2}, 'count', 'fails'),      # the bound itself is not cleared
    ([3.0] * 7, {'above': 2, 'unit': 's'}, 'figure', 'holds'),
    (np.ones(9), {'above': 2}, 'figure', 'fails'), ([1.0, 3.0] * 5, {'above': 2}, 'figure', 'undecided'),
    (lambda: 3.0, {'above': 2, 'unit': 'ms'}, 'figure', 'holds'),
    (lambda: 1.0, {'above': 2}, 'figure', 'fails')])
def test_the_kinds(what, how, kind, verdict):
    c = claim('a-b', 'So it is.', what, **how)
    assert (c.kind, c.verdict) == (kind, verdict)
    assert (c.low is not None) == (kind == 'figure')       # only figures and ratios have an interval
    assert str(c).split('\n')[1].startswith(f'{kind}, bound: ')


def test_figures_read_as_they_are_said():
    assert claim('a-b', 'S.', 3, above=2, unit='calls').figure == '3.00 calls'
    assert claim('a-c', 'S.', [14.8] * 7, above=2, unit='times faster').figure == (
        '14.8 times faster (14.1–15.5)')
    assert claim('a-d', 'S.', [0.5] * 7, below=2).figure == '0.500 (0.475–0.525)'


@pytest.mark.parametrize('unit', ['s', 'ms', 'seconds', 'times as long', 'times faster', 'of the time',
                                  'of the peak', 'GB/s'])
def test_one_figure_of_a_clock_is_refused(unit):
    with pytest.raises(ValueError, match='has no interval: pass a callable'):
        claim('a-b', 'S.', 3.0, above=2, unit=unit)


def test_few_measurements_are_refused():
    with pytest.raises(ValueError, match='6 measurements make no interval.*at least 7'):
        claim('a-b', 'S.', [1.0] * 6, above=2)


@pytest.mark.parametrize('id', ['', 'A-b', 'a_b', 'a b', '-a', 'a--b', 'ä'])
def test_a_malformed_id(id):
    with pytest.raises(ValueError, match='small letters'):
        claim(id, 'S.', True)


def test_an_id_used_twice():
    claim('a-b', 'One.', True)
    claim('a-b', 'One.', True)       # a cell that runs again
    with pytest.raises(ValueError, match='used twice.*another id'):
        claim('a-b', 'Two.', True)


@pytest.mark.parametrize('bound', [{'above': 0}, {'above': -1}, {'below': 0}, {'above': math.nan},
                                   {'above': math.inf}, {'above': '2'}])
def test_a_senseless_bound(bound):
    with pytest.raises(ValueError, match='positive number'):
        claim('a-b', 'S.', 1, **bound)


@pytest.mark.parametrize(('what', 'bound'), [
    (None, {}), (1, {}), (1, {'above': 1, 'below': 2}), ((int,), {'above': 1}), ((int, 3), {'above': 1}),
    ((int, int, int), {'above': 1}), ((int, int), {}), ('1', {'above': 1}), (math.nan, {'above': 1}),
    (True, {'above': 1}), ([1.0] * 9, {})])
def test_an_incomplete_claim(what, bound):
    with pytest.raises(ValueError):
        claim('a-b', 'S.', what, **bound)


def test_a_fact_that_changes_its_mind():
    answers = iter([True, False])
    with pytest.raises(ValueError, match='said True, and then False'):
        claim('a-b', 'S.', lambda: next(answers))


@pytest.mark.parametrize('text', ['0', '-3', 'soon', 'nan', 'inf'])
def test_a_bad_budget_is_named(monkeypatch, text):
    monkeypatch.setenv('D2L_BUDGET', text)
    with pytest.raises(ValueError, match=f"D2L_BUDGET.*'{text}'"):
        claim('a-b', 'S.', True)


def test_the_budget_is_handed_on(monkeypatch):
    seen = {}
    monkeypatch.setattr(timing, 'ratio', lambda *a, **k: seen.update(k) or fixed(2, 3, 4)())
    monkeypatch.setenv('D2L_BUDGET', '17')
    claim('a-b', 'S.', (int, int), above=1)
    assert seen['budget'] == 17
    claim('a-b', 'S.', (int, int), above=1, budget=2)
    assert seen['budget'] == 2


def never():
    pytest.fail('this must not be measured')


def test_what_stands_against_a_test_is_said_and_nothing_is_measured(lacking):
    for what, how in (((never, never), {'above': 1}), (never, {'above': 1}), (never, {})):
        c = claim('a-b', 'S.', what, needs='a moon', **how)
        assert (c.verdict, c.reason, c.lacked) == ('not testable here', 'no moon', 'a moon')
        assert not c.passing and 'verdict: not testable here: no moon' in str(c)


def test_an_unknown_condition():
    with pytest.raises(ValueError, match="called 'luck'; there are: .*two free cores"):
        claim('a-b', 'S.', True, needs=('a GPU', 'luck'))


@pytest.mark.parametrize(('what', 'how'), [(True, {}), (3, {'above': 1}), ([3.0] * 7, {'above': 1})])
def test_what_was_measured_beforehand_cannot_need_what_passes(passing, what, how):
    with pytest.raises(ValueError, match='must be measured while that holds'):
        claim('a-b', 'S.', what, needs='weather', **how)


def test_a_condition_that_passes_is_waited_for(passing):
    passing[0][:] = ['rain', 'rain']
    assert claim('a-b', 'S.', lambda: 3.0, above=2, needs='weather').verdict == 'holds'
    passing[0][:] = ['rain'] * 10 ** 6
    c = claim('a-c', 'S.', never, above=2, needs='weather', budget=0.01)
    assert (c.verdict, c.reason, c.lacked, c.passing) == ('not testable here', 'rain', 'weather', True)


@pytest.mark.parametrize('truth', [1.0, 3.0])
def test_a_condition_is_never_asked_because_a_claim_did_not_hold(passing, truth):
    """As often for a claim that holds as for one that fails."""
    asked = {'before': 0, 'during': 0}

    def count(what):
        asked[what] += 1
        return ''
    conditions.known['weather'] = conditions.Condition(
        'weather', lambda: count('before'), watch=lambda: lambda: count('during'))
    c = claim('a-b', 'S.', lambda: time.sleep(0.001) or truth, above=2, needs='weather')
    assert c.verdict == ('holds' if truth > 2 else 'fails')
    assert asked['before'] == 1 and 1 <= asked['during'] <= 13


def test_a_stretch_without_the_condition_does_not_count(passing):
    passing[1][:] = ['', 'rain', 'rain']
    c = claim('a-b', 'S.', lambda: time.sleep(0.001) or 3.0, above=2, needs='weather', budget=3)
    assert (c.verdict, c.set_aside) == ('holds', 2)
    passing[1][:] = ['rain'] * 10 ** 6
    c = claim('a-c', 'S.', lambda: time.sleep(0.001) or 3.0, above=2, needs='weather', budget=0.3)
    assert (c.verdict, c.lacked, c.passing) == ('not testable here', 'weather', True)
    assert c.reason == 'too few undisturbed measurements: rain'


def test_a_variant_that_raises_is_named():
    with pytest.raises(timing.VariantError, match="'slow' raised ZeroDivisionError.*alone"):
        claim('a-b', 'S.', (lambda: 1 / 0, int), above=1)


def test_html_and_data(monkeypatch):
    monkeypatch.setattr(timing, 'ratio', fixed(2, 3, 4))
    c = claim('a-b', 'x < y & "z"', (int, int), above=1)
    data, metadata = c._repr_mimebundle_()
    assert data['text/plain'] == str(c)
    assert 'id="claim-a-b"' in data['text/html'] and 'x &lt; y &amp;' in data['text/html']
    assert '<y' not in data['text/html']
    again = json.loads(json.dumps(metadata))[claims.METADATA_KEY]
    assert again['verdict'] == 'holds' and again['machine'] and again['id'] == 'a-b'


@pytest.mark.parametrize('verdict', claims.VERDICTS)
def test_every_verdict_as_text_and_as_html(verdict):
    c = claims.Claim('a-b', 'S <i>', 'count', '> 2 µ<s>', verdict, '3 <b>', 'because <u> & "so"',
                     machine='m')
    assert str(c) == (f'[a-b] S <i>\ncount, bound: > 2 µ<s>\nverdict: {verdict}: because <u> & "so"\n'
                      'measured: 3 <b>')
    html = c.html()
    assert html.startswith('<div') and html.endswith('</div>')
    assert f'<b>{claims.MARKS[verdict]} {verdict}</b>' in html and claims.COLOURS[verdict] in html
    assert all(f'&lt;{tag}&gt;' in html for tag in 'isbu') and '&amp; &quot;so&quot;' in html
    assert len(set(claims.MARKS.values())) == len(set(claims.COLOURS.values())) == len(claims.VERDICTS)
    bare = claims.Claim('a-b', 'S.', 'count', '> 2', verdict, machine='m')
    assert str(bare).endswith(f'verdict: {verdict}') and 'measured' not in bare.html()


@pytest.mark.slow
def test_it_is_shown_once_in_a_notebook():
    nbformat = pytest.importorskip('nbformat')
    from tools.notebooks import NotebookClient
    source = ("from d2l_local.claims import claim\nc = claim('a-b', 'One.', True)\n"
              "claim('a-c', 'Two.', False)")
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    outputs = NotebookClient(nb, kernel_name='python3').execute().cells[0].outputs
    assert [o.metadata[claims.METADATA_KEY]['id'] for o in outputs] == ['a-b', 'a-c']
