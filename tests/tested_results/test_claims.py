"""Results: what they accept, what they say, and that they never raise because a bound is missed."""

import itertools
import json
import math
import time
import types
from dataclasses import replace

import numpy as np
import pytest

from tested_results import claims, conditions, machine, timing
from tested_results.claims import Claim, compare, count, estimate, verify


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(claims, '_seen', {})
    monkeypatch.setattr(timing, 'SPAN', 0.1)
    monkeypatch.delenv('TESTED_RESULTS_BUDGET', raising=False)


def fixed(low, value, high):
    """A stand-in for a measurement."""
    return lambda *a, **k: timing.Ratio(value, low, high, 30, 0.1, windows=10, slow=6e-6, fast=2e-6)


@pytest.fixture
def weather(monkeypatch):
    """A transient condition whose answers a test chooses: before, and in each stretch."""
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
    ({'above': 2}, (2.2, 2.5, 3), 'holds'), ({'above': 2}, (1.5, 1.8, 1.9), 'fails'),
    ({'above': 2}, (1.5, 2.1, 3), 'undecided'), ({'below': 2}, (1.5, 1.8, 1.9), 'holds'),
    ({'below': 2}, (2.2, 2.5, 3), 'fails'), ({'below': 2}, (1.9, 2, 2.1), 'undecided'),
    ({'above': 2}, (2.05, 2.5, 3), 'undecided'), ({'below': 2}, (1.5, 1.8, 1.95), 'undecided'),
])
def test_the_interval_decides(monkeypatch, capsys, bound, interval, verdict):
    monkeypatch.setattr(timing, 'ratio', fixed(*interval))
    c = compare('a-b', a=int, b=int, **bound)
    assert c.verdict == verdict and c.transient == (verdict == 'undecided')
    assert bool(c.reason) == bool(c.lacked) == (verdict == 'undecided')
    assert (c.low, c.value, c.high) == interval and c.kind == 'ratio' and c.windows == 10
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith('a ÷ b = ') and said[1] == 'times: a 6 µs, b 2 µs'
    assert said[2].startswith(f"tested: {'above' if 'above' in bound else 'below'} 2×: {verdict}")


@pytest.mark.parametrize('make', [lambda id, **how: compare(id, a=int, b=int, **how),
                                  lambda id, **how: estimate(id, [1.0, 3.0] * 5, **how)])
@pytest.mark.parametrize(('cores', 'lacked'), [(0.0, claims.NOISE), (0.9, claims.DISTURBED)])
def test_an_undecided_claim_says_whether_others_were_seen(monkeypatch, make, cores, lacked):
    """What others took is counted whatever the claim shows; it changes no verdict."""
    monkeypatch.setattr(timing, 'ratio', fixed(1.5, 2.1, 3))
    monkeypatch.setattr(conditions, 'taken', lambda: lambda: cores * machine.cores())
    monkeypatch.setattr(claims, '_since', [conditions.taken()])
    c = make('a-b', above=2)
    assert (c.verdict, c.lacked, c.transient) == ('undecided', lacked, True)
    assert ('other work took' in c.reason) == bool(cores)
    assert make('b-c', above=0.5).verdict == 'holds'


@pytest.mark.parametrize(('what', 'how', 'verdict'), [
    ([3.0] * 10, {'above': 2, 'unit': 's'}, 'holds'), ([2.05] * 10, {'above': 2}, 'undecided'),
    (np.ones(10), {'above': 2}, 'fails'), ([1.0, 3.0] * 5, {'above': 2}, 'undecided'),
    (lambda: 3.0, {'above': 2, 'unit': 'ms'}, 'holds'), (lambda: 1.0, {'above': 2}, 'fails')])
def test_an_estimate_has_an_interval_that_decides(what, how, verdict):
    c = estimate('a-b', what, **how)
    assert (c.kind, c.verdict, c.timed) == ('estimate', verdict, True) and c.low <= c.value <= c.high


@pytest.mark.parametrize(('number', 'unit', 'text'), [
    (3, 'calls', '3 calls'), (15329, '', '15,329'), (15329, 'parameters', '15,329 parameters'),
    (np.int64(2 ** 40), 'bytes', '1,099,511,627,776 bytes'), (0, 'graphs', '0 graphs'),
    (3.5, 'MB', '3.50 MB'), (2, '×', '2×'), (2.5, '×', '2.50×'),
    (0.25, '%', '25.0%'), (1, '%', '100%'), (2.4e-7, '', '2.4e-7')])
def test_counts_read_as_they_are_said(number, unit, text):
    """Whole numbers whole, with commas; and none has an interval."""
    c = count('a-b', number, unit)
    assert c.reading == text and c.low is None and c.kind == 'count' and c.value == number
    assert str(count('a-b', number, unit)) == f'a-b = {text}  [a-b]'


@pytest.mark.parametrize(('values', 'unit', 'text'), [
    ([14.8] * 5 + [15.0] * 5, 'times faster', '14.9 times faster (14.8–15.0)'),
    ([0.5] * 10, '', '0.500 (0.500–0.500)'), ([2e-3] * 10, 's', '2 ms (2 ms–2 ms)'),
    ([39.2] * 10, 'GB/s', '39.2 GB/s (39.2–39.2)'), ([3.0] * 10, '×', '3.00× (3.00–3.00)'),
    ([0.9, 1.1] * 5, '%', '100% (90.0%–100%)')])          # a share above one cannot be
def test_figures_read_as_they_are_said(values, unit, text):
    assert estimate('a-b', values, unit).reading == text


def test_what_is_shown_is_clipped_and_what_is_tested_is_not():
    c = estimate('a-b', [0.9, 1.2] * 5, 'times', least=1, above=0.85)
    assert c.reading == '1.05 times (1.00–1.20)' and (c.low, c.high) == (0.9, 1.2)
    assert c.verdict == 'holds'
    assert estimate('a-c', [0.9, 1.1] * 5, '%', above=0.5).reading == '100% (90.0%–100%)'


@pytest.mark.parametrize('shares', [[45.0] * 10, [1.2] * 10, [-0.5] * 10])
def test_a_share_that_cannot_be(shares):
    with pytest.raises(ValueError, match='a share lies between 0 and 1'):
        estimate('a-b', shares, '%')


def test_an_interval_that_is_clear_by_less_than_the_margin():
    c = estimate('a-b', [1.01, 1.02, 1.03] * 10, '×', above=1)
    assert c.tested.startswith('above 1×: undecided (the interval is clear of the bound, but not by the 5%')


def test_an_option_as_the_name_of_a_variant():
    with pytest.raises(ValueError, match='got 1: other.*sync and clock are options'):
        compare('a-b', sync=int, other=int)


@pytest.mark.parametrize('bound', [np.float32(2), np.int64(2)])
def test_a_bound_from_numpy(bound):
    assert count('a-b', 3, above=bound).verdict == 'holds'


@pytest.mark.parametrize('id', ['', 'A-b', 'a_b', 'a b', '-a', 'a--b', 'ä'])
def test_a_malformed_id(id):
    with pytest.raises(ValueError, match='small letters'):
        verify(id, True)


@pytest.mark.parametrize('bound', [{'above': 0}, {'above': -1}, {'below': 0}, {'above': math.nan},
                                   {'above': math.inf}, {'above': '2'}, {'above': True}])
def test_a_senseless_bound(bound):
    with pytest.raises(ValueError, match='positive number'):
        count('a-b', 1, **bound)


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match="the count 'a-b' is not a number"):
        count('a-b', math.nan)
    with pytest.raises(ValueError, match='not a finite number'):
        estimate('a-c', [math.inf] * 10)


def never():
    pytest.fail('this must not be measured')


@pytest.mark.parametrize('make', [lambda **how: verify('a-b', True, **how),
                                  lambda **how: count('a-b', 3, **how),
                                  lambda **how: estimate('a-b', [3.0] * 10, **how)])
def test_what_was_measured_beforehand_cannot_need_what_passes(weather, make):
    with pytest.raises(ValueError, match='must be measured while that holds'):
        make(needs='weather')


def test_a_condition_that_passes_is_waited_for(weather, monkeypatch):
    weather[0][:] = ['rain', 'rain']
    assert estimate('a-b', lambda: 3.0, above=2, needs='weather').verdict == 'holds'
    weather[0][:] = ['rain'] * 10 ** 6
    monkeypatch.setenv('TESTED_RESULTS_BUDGET', '0.01')
    c = estimate('a-c', never, above=2, needs='weather')
    assert (c.verdict, c.reason, c.lacked, c.transient) == ('not testable here', 'rain', 'weather', True)


@pytest.mark.parametrize('truth', [1.0, 3.0])
def test_a_condition_is_never_asked_because_a_claim_did_not_hold(weather, truth):
    """As often for a claim that holds as for one that fails."""
    asked = {'before': 0, 'during': 0}

    def count(what):
        asked[what] += 1
        return ''
    conditions.known['weather'] = conditions.Condition(
        'weather', lambda: count('before'), watch=lambda: lambda: count('during'))
    c = estimate('a-b', lambda: time.sleep(0.001) or truth, above=2, needs='weather')
    assert c.verdict == ('holds' if truth > 2 else 'fails')
    assert asked == {'before': 1, 'during': timing.WINDOWS}


@pytest.mark.parametrize('bound', [{'above': 2}, {}])
def test_a_window_without_the_condition_does_not_count(weather, bound, monkeypatch):
    # Each look at the clock takes a millisecond: a busy machine would put fewer calls into a window.
    ticks = itertools.count()
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks) / 1000)
    monkeypatch.setattr(timing, 'time', clock)
    weather[1][:] = ['', 'rain', 'rain']
    c = estimate('a-b', lambda: 3.0, needs='weather', **bound)
    # a figure that is always the same and has no bound is enough at the first look
    assert (c.verdict, c.set_aside, c.windows) == (('holds', 2, 10) if bound else ('measured', 2, 5))
    assert c.evidence == f'{c.values} measurements, 2 of {c.windows + 2} windows set aside'
    weather[1][:] = ['rain'] * 10 ** 6
    c = estimate('a-c', lambda: 3.0, needs='weather', **bound)
    assert (c.verdict, c.lacked, c.transient) == ('not testable here', 'weather', True)
    assert c.reason == 'more than half of the time was disturbed: rain' and c.value is None
    assert str(c).startswith(f'a-c = not testable here: {c.reason}  [a-c]')


@pytest.mark.parametrize('verdict', claims.VERDICTS)
def test_every_verdict_as_text_and_as_html(verdict):
    c = Claim('a-b', 'count', verdict, 'µ<s>', above=2, value=3, reason='because <u> & "so"', machine='m')
    assert str(c) == f'a-b = 3 µ<s>  [a-b]\ntested: above 2 µ<s>: {verdict} (because <u> & "so")'
    html = c.html()
    assert html.startswith('<div') and html.endswith('</div>') and ' id="a-b"' in html
    assert f'<b>{claims.MARKS[verdict]} 3 µ&lt;s&gt;</b>' in html and claims.COLOURS[verdict] in html
    assert all(f'&lt;{tag}&gt;' in html for tag in 'us') and '&amp; &quot;so&quot;' in html
    assert len(set(claims.MARKS.values())) == len(claims.VERDICTS) == len(set(claims.COLOURS.values())) - 1
    data, metadata = c._repr_mimebundle_()
    assert data == {'text/plain': str(c), 'text/html': html}
    assert Claim.of(json.loads(json.dumps(metadata))[claims.METADATA_KEY]) == c


# --- the four calls -------------------------------------------------------------------------------

def test_a_comparison_shows_the_two_times(monkeypatch, capsys):
    monkeypatch.setattr(timing, 'ratio', fixed(2.2, 3, 4))
    c = compare('a-b', eager=int, torch_compiled=int)
    assert str(c) == ('eager ÷ torch compiled = 3.00× (2.20–4.00)  [a-b]\n'
                      'times: eager 6 µs, torch compiled 2 µs')
    assert (c.verdict, c.bounded, c.tested, c.bound) == (claims.MEASURED, False, '', '')
    assert c.parts == {'eager': 6e-6, 'torch_compiled': 2e-6} and c.unit == '×'
    assert 'tested' not in c.html() and 'id="a-b"' in c.html() and claims.COLOURS['measured'] in c.html()
    for mark in claims.MARKS.values():
        assert f'<b>{mark} ' not in c.html()
    c = compare('a-c', eager=int, compiled=int, above=2)
    assert str(c).split('\n')[2] == 'tested: above 2×: holds'
    assert compare('a-d', a=int, b=int, below=3).tested.startswith(
        'below 3×: undecided (the interval is not clear of the bound after 30 measurements')
    assert capsys.readouterr().out.startswith('eager ÷ torch compiled = ')


def test_what_is_handed_on_to_the_measurement(monkeypatch):
    seen = {}
    monkeypatch.setattr(timing, 'ratio', lambda *a, **k: seen.update(k) or fixed(2, 3, 4)())
    monkeypatch.setenv('TESTED_RESULTS_BUDGET', '17')
    compare('a-b', slow=int, fast=float, work=(1, 2), sync=max, clock='thread', above=1)
    assert {k: seen[k] for k in ('work', 'sync', 'clock', 'names', 'above', 'below', 'budget')} == {
        'work': (1, 2), 'sync': max, 'clock': 'thread', 'names': ('slow', 'fast'), 'above': 1,
        'below': None, 'budget': 17}


def test_a_comparison_end_to_end():
    c = compare('a-b', ten=lambda: sum(range(3000)) and 10, one=lambda: sum(range(300)) and 1,
                work=(10, 1), above=2, clock='thread')
    assert c.verdict == 'holds' and c.windows in (5, 10, 20) and c.values >= c.windows
    assert c.parts['ten'] > 2 * c.parts['one'] > 0 and c.seconds > 0
    with pytest.raises(timing.VariantError, match="'one' did 0 and not 1"):
        compare('a-c', ten=lambda: 10, one=lambda: 0, work=(10, 1))
    with pytest.raises(timing.VariantError, match='compute different numbers'):
        compare('a-d', ten=lambda: 10, one=lambda: 1)
    with pytest.raises(timing.VariantError, match="'ten' raised ZeroDivisionError.*alone"):
        compare('a-e', ten=lambda: 1 / 0, one=int)


@pytest.mark.parametrize(('variants', 'got'), [
    ({}, 'such as eager=f.*got 0: none'), ({'a': int}, 'such as eager=f.*got 1: a'),
    ({'a': int, 'b': int, 'c': int}, 'such as eager=f.*got 3: a, b, c'),
    ({'a': int, 'b': 3}, 'b is 3, and must be a function'),
    ({'a': None, 'b': int}, 'a is None, and must be a function')])
def test_a_comparison_takes_two_functions(variants, got):
    with pytest.raises(ValueError, match=got):
        compare('a-b', **variants)


@pytest.mark.parametrize('call', [
    lambda id, **how: compare(id, a=int, b=int, **how), lambda id, **how: estimate(id, [1.0] * 10, **how),
    lambda id, **how: count(id, 3, **how)])
def test_errors_of_all_calls_say_what_to_do(call):
    with pytest.raises(ValueError, match="'a-b' has two bounds, and takes one: above=… or below=…"):
        call('a-b', above=1, below=2)
    with pytest.raises(ValueError, match="small letters, digits and dashes, not 'A b'"):
        call('A b')
    with pytest.raises(ValueError, match='positive number, not 0'):
        call('a-b', above=0)
    verify('a-c', True)
    with pytest.raises(ValueError, match="'a-c' is used twice.*give one of them another id"):
        call('a-c')
    with pytest.raises(ValueError, match="called 'luck'; there are"):
        call('a-d', needs='luck')


def test_a_cell_that_runs_again_with_other_variants(monkeypatch):
    monkeypatch.setattr(timing, 'ratio', fixed(2, 3, 4))
    compare('a-b', a=int, b=int), compare('a-b', a=int, b=int, above=1)
    with pytest.raises(ValueError, match='used twice'):
        compare('a-b', a=int, c=int)


@pytest.mark.parametrize('n', [0, 1, 7, 9])
def test_fewer_than_ten_measurements_are_refused(n):
    with pytest.raises(ValueError, match=f"'a-b' got {n} measurements: an interval needs 10"):
        estimate('a-b', [1.0] * n)
    assert estimate('a-b', [1.0] * 10).windows == 10


@pytest.mark.parametrize('unit', ['s', 'ms', 'GB/s', 'of the time', 'times faster', 'GFLOP/s'])
def test_a_count_in_a_unit_of_time_is_refused(unit):
    with pytest.raises(ValueError, match='has no interval; let estimate repeat it'):
        count('a-b', 3, unit)


@pytest.mark.parametrize(('number', 'bound', 'verdict'), [
    (3, {}, 'measured'), (3, {'above': 2}, 'holds'), (3, {'above': 3}, 'fails'), (3, {'below': 3}, 'fails'),
    (2.01, {'above': 2}, 'holds'), (math.inf, {'above': 2}, 'holds')])
def test_a_count_is_compared_exactly(number, bound, verdict):
    assert count('a-b', number, **bound).verdict == verdict


def test_facts_are_true_or_false():
    assert str(verify('a-b', True)) == 'a-b = true  [a-b]'
    assert str(verify('a-c', lambda: np.False_)) == 'a-c = false  [a-c]'
    assert (verify('a-b', True).verdict, verify('a-c', False).verdict) == ('holds', 'fails')
    assert verify('a-b', True).bounded and verify('a-b', True).bound == 'exactly so'
    answers = iter([True, False])
    with pytest.raises(ValueError, match='said True, and then False'):
        verify('a-d', lambda: next(answers))


@pytest.mark.parametrize('bound', [{}, {'above': 1}])
def test_what_cannot_be_tested_is_displayed_with_or_without_a_bound(lacking, bound):
    for c in (compare('a-b', one=never, two=never, needs='a moon', **bound),
              estimate('a-c', never, 's', needs='a moon', **bound),
              count('a-d', 3, needs='a moon', **bound), verify('a-e', never, needs='a moon')):
        assert (c.verdict, c.lacked, c.value) == ('not testable here', 'a moon', None)
        first, *more = str(c).split('\n')
        assert first == f'{c.label} = not testable here: no moon  [{c.id}]'
        tested = bool(bound) and c.kind != 'fact'
        assert [m.startswith('tested: above 1') and m.endswith(': not testable here (no moon)')
                for m in more] == [True] * tested
        assert claims.COLOURS['not testable here'] in c.html()


@pytest.mark.parametrize('make', [
    lambda: compare('a-b', eager=int, compiled=int, above=2), lambda: compare('a-b', eager=int, compiled=int),
    lambda: estimate('a-b', [0.9, 1.1] * 5, '%', below=2), lambda: count('a-b', 15329, 'parameters'),
    lambda: verify('a-b', True), lambda: verify('a-b', True, needs='a moon')])
def test_a_result_is_the_same_after_its_way_through_json(monkeypatch, lacking, make):
    monkeypatch.setattr(timing, 'ratio', fixed(2, 3, 4))
    c = make()
    again = Claim.of(json.loads(json.dumps(c.data())))
    assert again == c and str(again) == str(c) and again.html() == c.html()
    assert c.where and c.machine and isinstance(again.names, tuple) and isinstance(again.needs, tuple)


@pytest.mark.parametrize('make', [
    lambda how: compare('a-b', eager=int, compiled=int, **how), lambda how: compare('a-b', a_b=int, c=int),
    lambda how: estimate('a-b', [0.9, 1.1] * 5, '%', **how), lambda how: count('a-b', 7, 'graphs', **how)])
def test_the_text_is_the_one_that_checks_mask(monkeypatch, lacking, make):
    """What was measured, and the verdict on it, are masked; the names, the bound and the id are not."""
    from tools.refresh import sanitiser
    left = []
    for interval in ((2.2, 3, 4), (0.1, 0.2, 30)):
        for bound in ({}, {'above': 2}):
            monkeypatch.setattr(timing, 'ratio', fixed(*interval))
            for how in (bound, bound | {'needs': 'a moon'}):
                left.append((bool(bound), sanitiser()(str(make(how)))))
    for _, text in left:
        assert left.count((_, text)) == 4 and 'a-b' in text
        assert not any(v in text for v in (*claims.VERDICTS, 'no moon', '3.00', ' µs', '7'))


@pytest.mark.slow
def test_it_is_shown_once_in_a_notebook():
    nbformat = pytest.importorskip('nbformat')
    from nbclient import NotebookClient
    source = ("from tested_results.claims import verify\nc = verify('a-b', True)\n"
              "verify('a-c', False)")
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    outputs = NotebookClient(nb, kernel_name='python3').execute().cells[0].outputs
    assert [o.metadata[claims.METADATA_KEY]['id'] for o in outputs] == ['a-b', 'a-c']


def test_results_of_programs_in_turn(weather):
    """They have the interval of the windows, and say what was watched."""
    times = claims.in_turn(a=lambda: None, b=lambda: time.sleep(0.001), c=lambda: time.sleep(0.002),
                           needs='weather')
    assert times.needs == ('weather',)
    c = estimate('a-b', times.ratio('c', 'b'), '×', above=1.05)
    assert (c.kind, c.needs, c.windows, c.values) == ('estimate', ('weather',), 10, len(times.rounds))
    found = times.ratio('c', 'b')
    assert (c.value, c.low, c.high) == (found.value, found.low, found.high)
    weather[0][:] = ['rain'] * 10 ** 6      # what was measured stands, whatever the weather is now
    assert estimate('a-d', times.ratio('c', 'b'), '×', above=1.05).verdict == c.verdict == 'holds'
    weather[0][:] = []
    with pytest.raises(ValueError, match='must be measured while that'):
        estimate('a-c', replace(found, needs=()), '×', needs='weather')


def test_programs_in_turn_without_what_they_need(weather, monkeypatch):
    monkeypatch.setenv('TESTED_RESULTS_BUDGET', '0.01')
    weather[0][:] = ['rain'] * 10 ** 6
    times = claims.in_turn(a=lambda: None, b=lambda: None, needs='weather')
    assert str(times) == 'no times: rain'
    c = estimate('a-b', times.ratio('a', 'b'), '×')
    assert (c.verdict, c.lacked) == ('not testable here', 'weather')
    weather[0][:] = []
    # it was not measured then, and is not now
    c = estimate('a-c', times.ratio('a', 'b'), '×')
    assert (c.verdict, c.lacked) == ('not testable here', 'weather')


def test_a_program_in_turn_that_is_none():
    with pytest.raises(ValueError, match='in_turn: b is 3'):
        claims.in_turn(a=int, b=3)
