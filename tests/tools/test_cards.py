"""The card of a result: what it says, and which hints a recorded condition gives."""

import importlib
from dataclasses import replace

import bs4
import pytest

from hardware_lab import devices, memory  # noqa: F401  (their conditions are known then)
from tested_results import claims, conditions
from tested_results.claims import Claim
from tested_results.ledgers import Ledger, Record
from tools import cards

WHERE = {'processor': 'Some Processor', 'cores': 2, 'gpus': [], 'system': 'Linux x86_64',
         'vectors': 'AVX2', 'virtual': False}
OTHER = {**WHERE, 'processor': 'Another Processor', 'memory_gib': 8, 'python': '3.11.7'}


def result(verdict='holds', **more):
    numbers = {} if verdict == 'not testable here' else {'value': 4.0, 'low': 3.5, 'high': 4.5}
    return Claim('a-b', **{'kind': 'ratio', 'verdict': verdict, 'unit': '×', 'above': 3.0,
                           'where': WHERE, 'machine': 'Some Processor, 2 cores',
                           'names': ('eager', 'with_graph'), **numbers, **more})


def there(verdict='holds', **where):
    """The same result on another machine, as its ledger has it."""
    return replace(result(verdict), where={**OTHER, **where})


@pytest.mark.parametrize(('more', 'others', 'hint'), [
    ({}, [there(cores=8), there(cores=64)], 'It holds where there are more cores than 2.'),
    ({'where': {**WHERE, 'vectors': 'none'}}, [], 'This processor names no vector instructions.'),
    ({}, [there()], 'This processor has AVX2; wider vectors may change the outcome.'),
    ({'where': {**WHERE, 'virtual': True}}, [], 'This is a virtual machine'),
    ({'others': 0.8}, [], 'Other processes took 0.8 of 2 cores meanwhile: close them.'),
    ({'set_aside': 4, 'windows': 6}, [], '4 of 10 windows were disturbed and do not count.'),
    ({}, [there()], 'It holds on Another Processor.'),
    ({}, [], 'Next: run the cell again in a fresh kernel.')])
def test_why_a_result_may_fail(more, others, hint):
    said = cards.hints(result('fails', **more), others)
    assert [s for s in said if s.startswith(hint)], said
    assert said[-1].startswith('Next: ') and not cards.hints(result('holds', **more), others)


@pytest.mark.parametrize(('more', 'others', 'hint'), [
    ({}, [there(), there(cores=8)], 'more cores'),          # it holds on as many, too
    ({}, [there('fails', cores=8)], 'more cores'), ({}, [there('undecided')], 'It holds'),
    ({'where': {**WHERE, 'vectors': 'AVX-512'}}, [there()], 'vectors'),
    ({}, [], 'vectors'), ({'where': {**WHERE, 'vectors': None}}, [there()], 'vector'),
    ({'where': {**WHERE, 'virtual': None}}, [], 'virtual'), ({'others': 0.1}, [], 'Other processes'),
    ({}, [there(processor='Some Processor', cores=4)], 'It holds on')])
def test_a_hint_needs_what_was_recorded(more, others, hint):
    assert not [s for s in cards.hints(result('fails', **more), others) if hint in s]


def test_what_to_do_about_an_undecided_result():
    said = cards.hints(result('undecided', lacked=claims.NOISE, transient=True, others=0.5), [])
    assert [s.split(':')[0] for s in said] == [
        'Run the cell again when nothing else runs, or the book several times',
        'Other processes took 0.5 of 2 cores meanwhile', 'Next']
    assert 'close to the bound' in said[-1]


@pytest.mark.parametrize('lacked', [*conditions.known, claims.NOISE, claims.DISTURBED])
def test_what_to_do_about_what_is_missing(lacked):
    said, = cards.hints(result('not testable here', lacked=lacked, reason='no'), [there()])
    assert said == cards.REMEDIES.get(lacked, f'It needs {lacked}.')


def test_every_remedy_is_for_a_condition():
    importlib.import_module('local_cluster.links')      # which registers its own
    assert set(cards.REMEDIES) <= {*conditions.known, claims.NOISE, claims.DISTURBED}


def test_what_has_no_bound_has_no_outcome_and_no_hint():
    shown = result('measured', above=None, others=1.5)
    assert cards.hints(shown, [there()]) == [] and cards.outcome(shown, [there()]) == ''
    assert 'not tested against a bound' in cards.lines(shown, True, [])


def test_what_could_not_be_measured_and_has_no_bound_says_why():
    lost = result('not testable here', above=None, lacked='a GPU', reason='no GPU')
    assert str(lost) == 'eager ÷ with graph = not testable here: no GPU  [a-b]' and not lost.bounded
    said = cards.lines(lost, True, [])
    assert said[:2] == ['eager ÷ with graph = not testable here: no GPU', 'not tested against a bound']
    assert said[-1] == cards.REMEDIES['a GPU'] and '–' in cards.box(lost, True, [], '#said-a-b')


def ledger_of(runs, where=OTHER, **more):
    data = Record.of_runs(result(**more)).data()
    data['runs'] = runs
    data['verdicts'] = [data['verdict']] * len(runs)
    return Ledger('one', where, {'a-b': Record.of('a-b', data, where)})


def test_the_lines_of_a_card():
    c = result('fails', parts={'eager': 120e-6, 'with_graph': 30e-6}, values=310, windows=9, set_aside=1,
               needs=('links', 'two free cores'))
    machines = [ledger_of([4.0]), ledger_of([4.0, 4.2], {**WHERE, 'memory_gib': 8}, verdict='fails')]
    said = cards.lines(c, True, machines)
    assert said[:3] == ['eager ÷ with graph = 4.00× (3.50–4.50)', '✗ above 3×: fails',
                        'times: eager 120 µs, with graph 30 µs']
    assert said[3].startswith('2 runs of such a machine: ')
    assert said[4:8] == ['310 pairs, 1 of 10 windows set aside', 'conditions: links, two free cores',
                         'holds on 1 of 2 kinds of machines', 'a stored run on Some Processor, 2 cores']
    assert said[8:] == cards.hints(c, cards.elsewhere(c, machines)) and 'Another' in ' '.join(said[8:])
    assert 'measured here, on Some Processor, 2 cores' in cards.lines(c, False, machines)


def test_the_interval_between_runs_ends_where_a_value_is_impossible():
    """A share of the time ends at all of it, a factor up or down begins at one."""
    where = {**WHERE, 'memory_gib': 8}
    for unit, ends, value, shown in (('of the time', {'most': 1.0}, 0.95, '–1 of the time'),
                                     ('%', {'most': 1.0}, 0.95, '–100%'),
                                     ('up or down', {'least': 1.0}, 1.05, ': 1 up or down–')):
        c = result(kind='estimate', unit=unit, value=value, low=0.9 * value, high=1.1 * value, **ends)
        led = Ledger('one', where, {'a-b': Record(c, [value, 0.8 * value], [c.verdict])})
        said = cards.between(c, [led])
        assert shown in said and said.startswith('2 runs of such a machine: ')
        assert '1.04' not in c.reading and '(0.945' not in c.reading


@pytest.mark.parametrize('led', [
    ledger_of([4.0]), ledger_of([4.0, 4.1], {**WHERE, 'memory_gib': 8}, verdict='not testable here'),
    Ledger('one', {**WHERE, 'memory_gib': 8}, {}), ledger_of([4.0, 4.2])])
def test_one_run_or_another_machine_has_no_interval_between_runs(led):
    assert cards.between(result(), [led]) == ''


def test_a_card_is_html_and_escapes_what_it_shows():
    c = result(names=('a<b', 'c'), machine='A & B <C>')
    page = bs4.BeautifulSoup(cards.link('<code>x</code> 4.0×', c, 'p.html#a-b', True, [], 'ledger.html',
                                        asked='q.html#ask-a-b'), 'html.parser')
    link, = page('a')
    assert link.code.text == 'x' and link['data-asked'] == 'q.html#ask-a-b' and not link.has_attr('id')
    card = bs4.BeautifulSoup(link['data-card'], 'html.parser')
    assert card.b.text == 'a<b ÷ c = 4.00× (3.50–4.50)' and 'A & B <C>' in card.text
    assert {t.name for t in card()} == {'b', 'span', 'a'}
    assert 'a<b ÷ c' in link['title'] and link['class'] == ['d2l-said', 'd2l-holds']


@pytest.mark.parametrize(('verdict', 'css'), [
    ('holds', 'd2l-holds'), ('fails', 'd2l-fails'), ('undecided', 'd2l-undecided'),
    ('not testable here', 'd2l-not'), ('measured', 'd2l-measured')])
def test_every_verdict_has_its_mark(verdict, css):
    c = result(verdict, above=None if verdict == 'measured' else 3.0)
    for page in (cards.link('so', c, '#a-b', True, [], 'ledger.html'),
                 cards.box(c, True, [], '#said-a-b')):
        tag = bs4.BeautifulSoup(page, 'html.parser').contents[0]
        marks = tag.select('.d2l-mark')
        assert tag['class'][1] == css and len(marks) == (verdict != 'measured')
        assert all((m.text, m['aria-label']) == (claims.MARKS[verdict], verdict) for m in marks)


def test_what_another_machine_has_measured_is_told_where_this_one_cannot():
    there = ledger_of([4.0], {**OTHER, 'gpus': ['Some GPU']})
    said = '; '.join(cards.lines(result('not testable here', lacked='a GPU'), True, [there]))
    assert 'Another Processor, 2 cores, Some GPU, Linux x86_64: 4.00× (3.50–4.50)' in said
    assert 'Some GPU' not in '; '.join(cards.lines(result(), True, [there]))
