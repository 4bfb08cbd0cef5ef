"""The engine that checks answers: bad input gets a sentence, cheats a hint; nothing is left running."""

import json
import os
import queue
import re
import sys
import threading
import time

import numpy as np
import pytest

from answer_checks import checking, definitions, sandbox
from answer_checks.definitions import Part, need, timed
from tested_results import machine

forks = pytest.mark.skipif(not sandbox.FORKS, reason='this system cannot fork')


@pytest.fixture
def say(monkeypatch, tmp_path, capfd):
    """Check an answer with exercises of our own; what is printed."""
    monkeypatch.setattr(definitions, 'known', {})
    monkeypatch.setattr(definitions, 'load', lambda: definitions.known)
    monkeypatch.setenv('D2L_EXERCISES', str(tmp_path / 'exercises'))

    @definitions.exercise('t-ex-double', 'def double(x):\n    """Twice x."""', seconds=1)
    def double(double):
        need(double(2) == 4, 'twice two', 'Try it by hand.', 'Two and two.')
        need(double(3) == 6, 'twice three', 'And three?', 'Three and three.')

    definitions.numbers('t-ex-sum', sum=Part(2.5, 'the sum', 'Add.', 'Both of them.'),
                     count=Part(2, 'how many', 'Count.', 'On fingers.'))
    definitions.text('t-ex-why', 'Because of this.', 'And of that.')

    def check(*args, **parts):
        checking.check(*args, **parts)
        return capfd.readouterr().out
    return check


def test_right_wrong_and_the_second_hint_on_the_next_try(say):
    assert say('t-ex-sum', sum=2.5, count=2) == 'Right. 1 of 3 solved.\n'
    first, second = say('t-ex-sum', sum=3, count=2), say('t-ex-sum', sum=3, count=2)
    assert 'Add.' in first and 'Both' not in first and 'Add. Both of them.' in second
    other = say('t-ex-sum', sum=2.5, count=3)
    assert 'Count.' in other and 'fingers' not in other, 'another property begins with its first hint'
    assert '1 of 3 solved' in say('t-ex-sum', sum=2.5, count=2), 'solved once is solved'


def test_figures_are_right_within_a_share_and_counts_exactly(say):
    assert 'Right' in say('t-ex-sum', sum=2.53, count=2.0)
    for bad in ({'sum': 2.6}, {'sum': '2.5'}, {'sum': float('nan')}, {'sum': [2.5]}, {'count': 2.01},
                {'count': True}, {'sum': lambda: 2.5}):
        assert 'Not yet. Missing' in say('t-ex-sum', **{'sum': 2.5, 'count': 2, **bad}), bad


@pytest.mark.parametrize(('expected', 'right', 'wrong'), [
    ('holds', ' Holds ', 'fails'), (True, True, 1), (False, False, 'False'),
    ({'a', 'b'}, ('b', 'A'), ['a']), ({'a', 'b'}, {'a', 'b'}, 'ab'),
    ([1, 2.0], (1, 2.02), (2.0, 1)), ([1, 2], [1, 2], [1, 2, 3])])
def test_words_sets_and_lists(expected, right, wrong):
    assert definitions._same(right, expected, 0.02) and not definitions._same(wrong, expected, 0.02)


def test_a_text_is_shown_points_to_compare_with(say):
    assert 'At least' not in (said := say('t-ex-why', 'dunno')) and 'Write what' in said
    said = say('t-ex-why', 'It is so because of this and that, as far as I can see here.')
    assert '- Because of this.' in said and '- And of that.' in said and 'Noted. 1 of 3' in said


def stub(x):
    """Twice x."""
    ...


@pytest.mark.parametrize('answer', [..., None, stub, lambda: None])
def test_no_answer_yet(say, answer, tmp_path):
    assert say('t-ex-double', answer) == 'No answer yet. Give answer (the function double).\n'
    assert not (tmp_path / 'exercises').exists()


def test_called_with_nothing_or_with_what_is_not_asked_for(say):
    assert 'Give the label' in say()
    assert 't-ex-double' in say('t-ex-dubble', 1) and 'Give the label' in say(None)
    assert say('t-ex-sum', 3) == 'answer: not asked for. t-ex-sum asks for sum, count.\n'
    assert 'sum (the sum); count' in say('t-ex-sum') and 'count (' in say('t-ex-sum', sum=2.5)


theirs: dict = {}
exec(compile("def broken(x):\n    return {}['word']", 'a cell of the reader', 'exec'), theirs)


def forever(x):
    while True:
        pass


def greedy(x):
    return [0] * (10 ** 9) and np.ones(10 ** 9)


@forks
@pytest.mark.parametrize(('answer', 'sentence'), [
    (lambda x: 2 * x, 'Right. 1 of 3 solved.'),
    (lambda x: 4, 'Missing: twice three. And three?'),
    (theirs['broken'], r"your code raised KeyError: 'word' \(line 2, in broken\)."),
    (forever, 'your code had not come back after 1 s, and was ended.'),
    (lambda x: time.sleep(60), 'had not come back after 1 s'),
    (lambda: 4, 'could not be used: TypeError'),
    ('a text', "could not be used: TypeError: 'str' object is not callable"),
    (lambda x: sys.exit('bye'), 'SystemExit: bye'),
    (lambda x: os._exit(3), r'ended its process \(exit status 3\)'),
    (lambda x: os.kill(os.getpid(), 9), r'ended its process \(signal 9\)'),
    (lambda x: print(x) or os.write(1, b'noise') and 2 * x, '^Right')])
def test_functions_that_do_what_they_like(say, answer, sentence):
    began, said = time.monotonic(), say('t-ex-double', answer)
    assert re.search(sentence, said), said
    assert time.monotonic() - began < 4 and len(said.splitlines()) == 1


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='only Linux keeps the limit')
def test_a_function_that_wants_all_memory(say):
    assert 'wanted more than 2 GiB, and was ended' in say('t-ex-double', greedy)
    if machine.machine()['torch']:
        import torch
        assert 'wanted more than 2 GiB' in say('t-ex-double', lambda x: torch.ones(10 ** 9) and 2 * x)


@forks
@pytest.mark.parametrize('how', ['late', 'answers'])
def test_nothing_is_left_running(say, tmp_path, how):
    note = tmp_path / 'pid'

    def starts_another(x):
        if not os.fork():
            time.sleep(600)
        note.write_text(f'{os.getpid()}')
        while how == 'late':
            pass
        return 2 * x
    say('t-ex-double', starts_another)
    group = int(note.read_text())
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail('a process of the answer still runs')


@forks
def test_what_an_answer_changes_is_not_seen_here(say):
    before = time.perf_counter

    def patch(x):
        time.perf_counter = lambda: 0
        return 2 * x
    assert 'Right' in say('t-ex-double', patch) and time.perf_counter is before


def test_without_fork_it_says_so_and_checks_all_the_same(say, monkeypatch):
    monkeypatch.setattr(sandbox, 'FORKS', False)
    said = say('t-ex-double', lambda x: 2 * x)
    assert 'interrupt the kernel' in said and 'Right' in said
    assert 'Right' in say('t-ex-sum', sum=2.5, count=2)
    with pytest.raises(OSError, match='cannot fork'):
        sandbox.call(int, 1, 1)


@pytest.mark.parametrize('text', ['{', '[1]', '{"t-ex-sum": 3}', '\udcff'])
def test_a_broken_progress_file_is_set_aside(say, tmp_path, text):
    folder = tmp_path / 'exercises'
    folder.mkdir()
    for n in (1, 2):
        (folder / 'progress.json').write_text(text, errors='surrogateescape')
        said = say('t-ex-sum', sum=2.5, count=2)
        assert f'progress_broken_{n}.json' in said and 'Right. 1 of 3' in said
        assert (folder / f'progress_broken_{n}.json').read_text(errors='surrogateescape') == text
    assert json.loads((folder / 'progress.json').read_text())['t-ex-sum'] == {'solved': True}


def test_progress_of_exercises_that_are_gone_is_kept(say, tmp_path):
    folder = tmp_path / 'exercises'
    folder.mkdir()
    (folder / 'progress.json').write_text('{"old-ex": {"solved": true, "note": 1}}')
    assert 'Right. 1 of 3' in say('t-ex-sum', sum=2.5, count=2), 'it does not count'
    assert json.loads((folder / 'progress.json').read_text())['old-ex'] == {'solved': True, 'note': 1}


def test_progress_that_cannot_be_saved_is_said(say, tmp_path):
    (tmp_path / 'exercises').write_text('a file where the folder should be')
    said = say('t-ex-sum', sum=2.5, count=2)
    assert 'Right' in said and 'could not be saved' in said


def test_the_progress_as_a_program(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv('D2L_EXERCISES', str(tmp_path))
    (tmp_path / 'progress.json').write_text('{"msr-ex-w-good": {"solved": true}}')
    checking.main()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('measuring') and ' 1 of 13 solved.' in line for line in lines)
    assert lines[-1].startswith('all topics') and ' 1 of ' in lines[-1]


# Timed answers: the sum of each row of a matrix, on fresh matrices.

def rows(i):
    return [np.random.default_rng().random((200, 5000)).astype('float32') + i]


def honest(x):
    return x.sum(1)


def measure(answer, floor=1e-7):
    return timed(answer, rows, lambda x: x.sum(1), floor)


kept = []


def cached(x):
    kept.append(x.sum(1))
    return kept[0]


def mutates(x):
    x += 1
    return x.sum(1) - x.shape[1]


class Later:
    """A result that a thread computes, as a queue would."""
    dtype = np.dtype('float32')

    def __init__(self, x):
        self.box = queue.Queue()
        threading.Thread(target=lambda: (time.sleep(0.05), self.box.put(x.sum(1)))).start()

    def cpu(self):
        return self.box.get()


def half(x):
    return x.astype('float16').sum(1, dtype='float16').astype('float32')


def test_an_honest_answer_gets_its_time():
    assert 1e-6 < measure(honest) < 1


@pytest.mark.parametrize(('answer', 'what', 'hint'), [
    (cached, 'a fresh result in each call', 'the call before'),
    (mutates, 'inputs that stay as they were', 'writes into the arrays'),
    (Later, 'work that is done on return', 'long before'),
    (half, 'the precision', 'as exact as float32'),
    (lambda x: x.sum(1).astype('float16'), 'the precision', 'as exact as float32'),
    (lambda x: x.sum(0), 'the shape', r'\(200,\)'),
    (lambda x: -x.sum(1), 'the right numbers', 'plain loop')])
def test_cheats_with_results(answer, what, hint):
    kept.clear()
    with pytest.raises(definitions.Missing, match=hint) as e:
        measure(answer)
    assert e.value.args[0] == what


@pytest.mark.parametrize('name', ['perf_counter', 'time', 'process_time'])
def test_a_clock_that_is_not_the_systems(monkeypatch, name):
    def patched(x):
        monkeypatch.setattr(time, name, lambda: 0.0)
        return x.sum(1)
    with pytest.raises(definitions.Missing, match='module time'):
        measure(patched)


def test_a_time_that_physics_does_not_allow(monkeypatch):
    def stops_the_checkers_own_clock(x):
        monkeypatch.setattr(definitions, 'clock', lambda: 0.0)
        return x.sum(1)
    with pytest.raises(definitions.Missing, match='than moving the bytes takes'):
        measure(stops_the_checkers_own_clock, floor=1e-9)
