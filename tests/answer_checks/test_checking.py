"""The engine that checks answers: bad input gets a sentence, cheats a hint; nothing is left running."""

import importlib
import itertools
import json
import math
import os
import queue
import re
import resource
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

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
    monkeypatch.setenv('ANSWER_CHECKS_FOLDER', str(tmp_path / 'exercises'))

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
    assert say('t-ex-sum', sum=2.5, count=2) == 'Right. 1 of 2 solved, 0 of 1 texts written.\n'
    first, second = say('t-ex-sum', sum=3, count=2), say('t-ex-sum', sum=3, count=2)
    assert 'Add.' in first and 'Both' not in first and 'Add. Both of them.' in second
    other = say('t-ex-sum', sum=2.5, count=3)
    assert 'Count.' in other and 'fingers' not in other, 'another property begins with its first hint'
    assert '1 of 2 solved' in say('t-ex-sum', sum=2.5, count=2), 'solved once is solved'


@pytest.mark.parametrize(('answer', 'said'), [
    (0.5, 'That is half.'), (0.505, 'That is half.'), (25, 'in percent'), (4, 'the inverse'),
    (250, 'prefixes'), (2.5e-4, 'prefixes'), (2, 'bits, or bytes'), (0.3, 'Look.')])
def test_an_answer_that_tells_what_went_wrong(say, answer, said):
    definitions.numbers('t-ex-slip', share=Part(0.25, 'share of the bytes', 'Look.', 'Again.'),
                        word=Part('yes', "'yes' or 'no'", 'Why?', 'How?'),
                        slips={'share': {1 / 2: 'That is half.'}, 'word': {'no': 'It is not.'}})
    first, second = say('t-ex-slip', share=answer, word='yes'), say('t-ex-slip', share=answer, word='yes')
    assert said in first and 'Again.' not in first and said in second and 'Again.' in second
    assert 'It is not.' in say('t-ex-slip', share=0.25, word='no')


def test_a_slip_of_a_part_that_is_not_there_is_refused(say):
    with pytest.raises(TypeError, match="t-ex-slip has no part 'b'"):
        definitions.numbers('t-ex-slip', a=Part(1, 'one', 'One?', 'One!'), slips={'b': {2: 'Two.'}})


def test_figures_are_right_within_a_share_and_counts_exactly(say):
    assert 'Right' in say('t-ex-sum', sum=2.53, count=2.0)
    for bad in ({'sum': 2.6}, {'sum': '2.5'}, {'sum': float('nan')}, {'sum': [2.5]}, {'count': 2.01},
                {'count': True}, {'sum': lambda: 2.5}):
        assert 'Not yet. Missing' in say('t-ex-sum', **{'sum': 2.5, 'count': 2, **bad}), bad


@pytest.mark.parametrize(('expected', 'right', 'wrong'), [
    ('holds', ' Holds ', 'fails'), ('holds', np.str_('holds.'), 'fails'), (True, True, False),
    (False, np.bool_(False), True), (False, 'no', 'yes'), ('yes', True, 'no'), (False, 'False', 'True'),
    ({'a', 'b'}, ('b', 'A'), ['a']), ({'a', 'b'}, frozenset('ab'), {'a', 'c'}),
    ({'GPU', 'CPU'}, {'gpu', 'CPU'}, {'GPU'}), ({1 / 3, 0.5}, {0.5, 0.3333}, {0.3333, 0.6}),
    ({5, 6, 7}, [7, 5, 6, 5], [5, 6, 6]),
    ({5, 6, 7}, range(5, 8), {5, 6}), ({5, 6, 7}, {5.0: 1, 6.0: 1, 7.0: 1}.keys(), [5]),
    ([1, 2.0], (1, 2.02), (2.0, 1)), ([1, 2], np.array([1, 2]), np.array([2, 1])),
    ([1, 2], (i + 1 for i in range(2)), [1, 3])])
def test_words_sets_and_lists(expected, right, wrong):
    assert definitions._same(right, expected, 0.02) and not definitions._same(wrong, expected, 0.02)


HALVES = [0.5, 5e-1, np.float32(0.5), np.float64(0.5), np.array(0.5), Fraction(1, 2), Decimal('0.5'),
          0.5 + 0j]
if machine.machine()['torch']:
    torch = importlib.import_module('torch')
    HALVES += [torch.tensor(0.5), torch.tensor(0.5, dtype=torch.bfloat16)]


@pytest.mark.parametrize('half', HALVES, ids=repr)
def test_a_number_in_any_form(say, half):
    definitions.numbers('t-ex-sum', sum=Part(0.5, 'half', 'Add.', 'Both.'), count=Part(2, '2', 'Two', '2?'))
    assert 'Right' in say('t-ex-sum', sum=half, count=2)
    assert definitions.number(half) == 0.5


@pytest.mark.parametrize(('form', 'said'), [
    ('50%', "the text '50%'"), ('0.5', "the text '0.5'"), ('1/2', "the text '1/2'"), ((2.5,), 'a tuple'),
    ([2.5], 'a list'), (True, 'True'), (np.True_, 'True'), (np.ones(3), 'an array of shape (3,)'),
    (1j, 'a complex'), (lambda: 2.5, 'a function')])
def test_a_form_that_cannot_be_used_is_said_as_a_form(say, form, said):
    told = say('t-ex-sum', sum=form, count=2)
    assert f'Missing: sum, the sum. Give a number, such as 0.5, not {said}.' in told, told


@pytest.mark.parametrize('large', [10 ** 400, Fraction(10 ** 400, 3), math.inf, np.float64('nan')],
                         ids=['int', 'fraction', 'infinity', 'nan'])
def test_numbers_beyond_all_bounds_are_wrong_and_no_more(say, large):
    assert 'Missing: sum, the sum. Add.' in say('t-ex-sum', sum=large, count=2)


def test_words_that_were_not_offered_are_said_as_a_form(say):
    definitions.numbers('t-ex-limit',
                        limit=Part('overhead', "the limit: 'overhead' or 'memory'", 'Hm.', 'Hm?'),
                        other=Part('memory', 'that of the other', 'Think.', 'Well?'),
                        surely=Part(False, 'true or false', 'Really?', 'Oh?'),
                        laws=Part({'sum', 'product'}, 'those of sum, mean, product: a set', 'Try.', 'Yes'),
                        row=Part([1, 2], 'a list', 'Count.', 'Again.'))
    right = dict(limit='Overhead.', other='memory', surely=np.False_, laws=['sum', 'product'], row=(1, 2))
    assert 'Right' in say('t-ex-limit', **right)
    for wrong, hint in ((dict(limit='memory'), 'Hm.'), (dict(other='overhead'), 'Think.'),
                        (dict(surely=True), 'Really?'), (dict(laws={'sum', 'mean'}), 'Try.'),
                        (dict(row=[2, 1]), 'Count.')):
        assert hint in say('t-ex-limit', **right | wrong)
    for odd, form in ((dict(limit='overhead-bound'), "'overhead' or 'memory', not the text 'overhead-bound'"),
                      (dict(other='compute'), "Give 'overhead' or 'memory', not the text"),
                      (dict(limit=2), 'not 2'), (dict(surely=0), 'Give True or False, not 0'),
                      (dict(surely='perhaps'), 'Give True or False, not the text'),
                      (dict(laws={'sum', 'prod'}), "'prod' is none of the words"),
                      (dict(laws='sum'), 'Give a set, such as {1, 2}, not the text'),
                      (dict(row={1, 2}), 'Give a list, such as [1, 2], not a set'), (dict(row=5), 'not 5'),
                      (dict(row=[1]), 'Give 2 of them, and not 1'), (dict(row=['1', 2]), "not the text '1'")):
        told = say('t-ex-limit', **right | odd)
        assert form in told and not re.search(r'Hm|Think|Really|Try|Count', told), told


def test_counts_are_exact_and_larger_figures_are_not(say):
    definitions.numbers('t-ex-large', users=Part(999, 'users', 'How many?', 'Well?'),
                        token=Part(327_680, 'bytes', 'Which?', 'Well?'),
                        rate=Part(2.25e15, 'a rate', 'Which?', 'Well?', 0.12))
    assert 'Right' in say('t-ex-large', users=999, token=328e3, rate=2e15)
    assert 'Missing: users' in say('t-ex-large', users=1000, token=327_680, rate=2.25e15)
    assert 'Missing: token' in say('t-ex-large', users=999, token=300e3, rate=2.25e15)


def test_figures_that_are_right_together(say):
    definitions.numbers('t-ex-two', one=Part(8, 'one', 'One?', 'One!'), two=Part(28, 'two', 'Two?', 'Two!'),
                        also=[dict(one=12, two=40)])
    assert 'Right' in say('t-ex-two', one=8, two=28) and 'Right' in say('t-ex-two', one=12, two=40)
    assert 'One?' in say('t-ex-two', one=12, two=28) and 'Two?' in say('t-ex-two', one=8, two=40)


@pytest.mark.parametrize('expected', [(1, 2), None, {None}, np.ones(2)], ids=str)
def test_an_exercise_that_nothing_solves_is_refused(say, expected):
    with pytest.raises(TypeError, match='neither a number nor a word'):
        definitions.numbers('t-ex-never', one=Part(expected, 'one', 'One?', 'One!'))


def test_an_exercise_of_a_topic_is_not_replaced(say, monkeypatch):
    definitions.numbers('t-ex-sum', sum=Part(3, 'the sum', 'Add.', 'Both.'))
    assert 'Right' in say('t-ex-sum', sum=3), 'a cell that defines one is run again'
    monkeypatch.setattr(definitions, 'loading', 'a topic')
    definitions.numbers('t-ex-new', sum=Part(3, 'the sum', 'Add.', 'Both.'))
    for topic in 'a topic', '':
        monkeypatch.setattr(definitions, 'loading', topic)
        with pytest.raises(ValueError, match='already'):
            definitions.numbers('t-ex-new', sum=Part(3, 'the sum', 'Add.', 'Both.'))


def test_a_sentence_has_one_mark_at_its_end(say):
    definitions.numbers('t-ex-ask', both=Part('no', "'yes' or 'no': at once?", 'Look.', 'Again.'))
    assert 'at once? Look.' in say('t-ex-ask', both='yes')


def test_a_text_is_shown_points_to_compare_with(say):
    assert 'At least' not in (said := say('t-ex-why', 'dunno')) and 'Write what' in said
    said = say('t-ex-why', 'It is so because of this and that, as far as I can see here.')
    assert '- Because of this.' in said and '- And of that.' in said
    assert 'Noted. 0 of 2 solved, 1 of 1 texts written.' in said, 'nobody has judged it'


@pytest.mark.parametrize('answer', [
    '因为磁盘在传输数据的时候，处理器可以继续计算，所以两者同时进行。',
    '計算と通信は同時に行えるので、待ち時間が短くなります。',
    ['It is so because of this and that,', 'as far as I can see from here.']])
def test_texts_in_any_script(say, answer):
    assert 'Noted.' in say('t-ex-why', answer)


@pytest.mark.parametrize('answer', ['la ' * 10, 'la ' * 100, '啦' * 40, 'no idea', 3])
def test_what_is_no_text(say, answer):
    assert 'Noted' not in say('t-ex-why', answer)


def test_texts_that_counted_as_solved_count_as_written(say, tmp_path):
    (tmp_path / 'exercises').mkdir()
    (tmp_path / 'exercises' / 'progress.json').write_text('{"t-ex-why": {"solved": true}}')
    assert 'Right. 1 of 2 solved, 1 of 1 texts written.' in say('t-ex-sum', sum=2.5, count=2)


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
    assert say('t-ex-sum', 3) == "Give the parts by name: check('t-ex-sum', sum=…, count=…).\n"
    assert say('t-ex-sum', mean=3) == 'mean: not asked for. t-ex-sum asks for sum, count.\n'
    assert 'sum (the sum); count' in say('t-ex-sum') and 'count (' in say('t-ex-sum', sum=2.5)


theirs: dict = {}
exec(compile("def broken(x):\n    return {}['word']", 'a cell of the reader', 'exec'), theirs)


class Own(BaseException):
    """An exception that nobody should catch."""


def forever(x):
    while True:
        pass


def greedy(x):
    return [0] * (10 ** 9) and np.ones(10 ** 9)


@forks
@pytest.mark.parametrize(('answer', 'sentence'), [
    (lambda x: 2 * x, 'Right. 1 of 2 solved'),
    (lambda x: 4, 'Missing: twice three. And three?'),
    (theirs['broken'], r"your code raised KeyError: 'word' \(line 2, in broken, for x = 2\)."),
    (forever, r'not come back after 1 s, and was ended \(line \d+, in forever, for x = 2\).$'),
    (lambda x: time.sleep(60), r'after 1 s, and was ended \(line \d+, in <lambda>, .*It was waiting there'),
    (lambda: 4, r'could not be used: TypeError: .* \(line \d+ of test_checking.py\)'),
    (lambda x: (_ for _ in ()).throw(KeyboardInterrupt), 'your code raised KeyboardInterrupt'),
    (lambda x: (_ for _ in ()).throw(Own), 'your code raised Own'),
    (lambda x: input('x? '), 'your code raised EOFError: nobody can type'),
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
@pytest.mark.parametrize('session', [False, pytest.param(True, marks=pytest.mark.skipif(
    not sandbox.LINUX, reason='only Linux tells whose descendant a process is'))])
@pytest.mark.parametrize('how', ['late', 'answers', 'dies', 'interrupted'])
def test_nothing_is_left_running(say, tmp_path, how, session):
    note = tmp_path / 'pid'
    if how == 'interrupted':        # not late before, on a busy machine
        (key,) = (key for key in definitions.known if key[0] == 't-ex-double')
        definitions.known[key] = definitions.known[key]._replace(seconds=60)

    def starts_another(x):
        one = subprocess.Popen(['sleep', '600'], start_new_session=session)
        note.write_text(f'{one.pid}')
        if how == 'interrupted':
            os.kill(me, 2)
        while how in ('late', 'interrupted'):
            pass
        return os._exit(3) if how == 'dies' else 2 * x
    me = os.getpid()
    try:
        said = say('t-ex-double', starts_another)
        assert {'late': 'had not come', 'answers': 'Right', 'dies': 'exit status 3'}[how] in said
    except KeyboardInterrupt:
        assert how == 'interrupted'
    pid, deadline = int(note.read_text()), time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    os.kill(pid, 9)
    pytest.fail('a process of the answer still runs')


@forks
def test_the_death_of_the_checking_process_ends_all(tmp_path):
    note, program = tmp_path / 'pid', tmp_path / 'program.py'
    program.write_text(f"""
import os, subprocess, time
from answer_checks import sandbox

def work():
    one = subprocess.Popen(['sleep', '600'], start_new_session=True)
    open({str(note)!r}, 'w').write(f'{{os.getpid()}} {{one.pid}}')
    time.sleep(600)
sandbox.call(work, 60, 1 << 30)
""")
    one = subprocess.Popen([sys.executable, program], env=os.environ | {'PYTHONPATH': ':'.join(sys.path)})
    while not note.exists() or len(note.read_text().split()) < 2:
        time.sleep(0.05)
    one.kill()
    one.wait()
    pids, deadline = [*map(int, note.read_text().split())], time.monotonic() + 5
    while pids and time.monotonic() < deadline:
        pids = [p for p in pids if os.path.exists(f'/proc/{p}')]
        time.sleep(0.02)
    assert not pids


@forks
def test_the_end_of_what_was_printed_is_shown_with_what_is_missing(say):
    def shouts(x):
        print('x is', x)
        return 3 * x
    said = say('t-ex-double', shouts)
    assert said.endswith('The end of what it printed:\n    x is 2\n') and 'twice two' in said
    assert 'printed' not in say('t-ex-double', lambda x: print('x is', x) or 2 * x)


@forks
@pytest.mark.parametrize('stream', ['stdout', 'stderr'])
def test_endless_print_is_late_and_takes_no_memory(say, stream):
    def shouts(x):
        while True:
            print('again ' * 1000, file=getattr(sys, stream))
    assert 'had not come back after 1 s' in say('t-ex-double', shouts)


@forks
def test_what_needs_a_thread_of_the_notebook_is_told_so(say):
    pool, lock = ThreadPoolExecutor(1), threading.Lock()
    assert pool.submit(int).result() == 0

    def pooled(x):
        return pool.submit(lambda: 2 * x).result()

    def locked(x):
        with lock:
            return 2 * x
    with lock:
        for answer in pooled, locked:
            said = say('t-ex-double', answer)
            assert f'in {answer.__name__}' in said and 'let your answer start its own' in said, said
    pool.shutdown()


@forks
def test_more_open_files_than_select_knows(say):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most[1]), most[1]))
    many = [open(os.devnull) for _ in range(1100)]
    try:
        assert 'Right' in say('t-ex-double', lambda x: 2 * x)
    finally:
        for file in many:
            file.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, most)


@forks
def test_a_right_answer_that_sets_the_threads_after_the_notebook_has_computed(say):
    """A pool of OpenMP belongs to the thread that started it, and none of its threads is in a fork."""
    if not machine.machine()['torch']:
        pytest.skip('PyTorch is not installed')
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (torch.ones(600, 600) @ torch.ones(600, 600)).sum()
        torch.ones(5_000_000).sum()

        def sums(x):
            torch.set_num_threads(2)
            assert torch.ones(5_000_000).sum() == 5_000_000
            return 2 * x if (torch.ones(600, 600) @ torch.ones(600, 600)).sum() else 0
        assert 'Right' in say('t-ex-double', sums)
    finally:
        torch.set_num_threads(before)


@forks
def test_what_a_checker_imports_is_no_time_of_the_answer(say, tmp_path, monkeypatch):
    (tmp_path / 'slow_to_import.py').write_text('import time\n\ntime.sleep(1.5)\n')
    monkeypatch.syspath_prepend(tmp_path)

    @definitions.exercise('t-ex-slow', 'def double(x):\n    """Twice x."""', seconds=1,
                          imports=('slow_to_import',))
    def double(double):
        import slow_to_import  # noqa: F401
        need(double(2) == 4, 'twice two', 'Try it.', 'Two and two.')

    @definitions.exercise('t-ex-absent', 'def double(x):\n    """Twice x."""', imports=('absent_module',))
    def absent(double):
        need(double(2) == 4, 'twice two', 'Try it.', 'Two and two.')
    assert 'Right' in say('t-ex-slow', lambda x: 2 * x)
    assert "not installed: No module named 'absent_module'" in say('t-ex-absent', lambda x: 2 * x)


def test_memory_that_a_library_cannot_map_is_memory():
    assert sandbox.short(ImportError('libx.so: failed to map segment from shared object'))


PARALLEL = """
from answer_checks import checking, definitions
from answer_checks.definitions import Part
definitions.load = lambda: definitions.known
for i in range(20):
    definitions.numbers(f't-ex-{i}', sum=Part(i, 'the sum', 'Add.', 'Both of them.'))
for i in range(%d, 20, 4):
    checking.check(f't-ex-{i}', sum=i)
"""


def test_several_kernels_note_at_once(tmp_path):
    path = ':'.join(p for p in sys.path if p)
    env = os.environ | {'PYTHONPATH': path, 'ANSWER_CHECKS_FOLDER': str(tmp_path)}
    for _ in range(3):
        several = [subprocess.Popen([sys.executable, '-c', PARALLEL % k], stdout=subprocess.PIPE, text=True,
                                    env=env)
                   for k in range(4)]
        said = ''.join(one.communicate()[0] for one in several)
        assert said.count('Right.') == 20 and 'could not' not in said
        assert len(json.loads((tmp_path / 'progress.json').read_text())) == 20
        assert [p.name for p in tmp_path.iterdir()] == ['progress.json']
        (tmp_path / 'progress.json').unlink()


@pytest.fixture
def frameworks(say, monkeypatch):
    """A label with a checker for each of two frameworks, which are both there."""
    import types
    for name in 'torch', 'mxnet':
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        sys.modules[name].set_num_threads = print
        stub, value = 'def f(x):\n    """Something."""', {'torch': 1, 'mxnet': 2}[name]

        @definitions.exercise('t-ex-two', stub, 'pytorch' if name == 'torch' else 'mxnet')
        def two(f, value=value, name=name):
            need(f(2) == value, f'what {name} gives', 'Try it.', 'Again.')
    definitions.exercise('t-ex-parts', stub, 'pytorch')(lambda f: None)
    definitions.numbers('t-ex-parts', 'mxnet', when=Part('now', "'now' or 'never'", 'When?', 'Well?'))
    return say


def test_two_frameworks_in_one_kernel(frameworks):
    say, torch, np = frameworks, sys.modules['torch'], sys.modules['mxnet']     # as a notebook names them

    class Net:
        __module__ = '__main__'

        def forward(self):
            return np

    def inside(x):
        import mxnet
        return 2 if mxnet else 0
    assert 'Right' in say('t-ex-two', lambda x: 1 if torch else 0)
    assert 'Right' in say('t-ex-two', lambda x: 2 if np else 0) and 'Right' in say('t-ex-two', inside)
    assert 'Right' in say('t-ex-two', lambda x: 2 if Net else 0), 'a class that it uses says which'
    assert 'Right' in say('t-ex-two', lambda x: 2, framework='mxnet')
    said = say('t-ex-two', lambda x: 2)
    assert 'for PyTorch and one for MXNet' in said and "framework='pytorch' or framework='mxnet'" in said
    assert 'Right' in say('t-ex-parts', when='now') and 'Right' in say('t-ex-parts', lambda f: 3)
    said = say('t-ex-parts', whenever='now', framework='mxnet')
    assert 't-ex-parts asks for answer with PyTorch, or for when with MXNet.' in said


def test_an_exercise_and_its_answer_in_one_script(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('''from answer_checks import check, exercise, need

@exercise('mean', 'def mean(numbers):\\n    """The mean of a list of numbers."""', seconds=5)
def _(mean):
    need(mean([2, 4]) == 3, 'the mean of 2 and 4', 'Add up.', 'It is 3.')
    need(mean([]) is None, 'None for an empty list', 'What do you divide by?', 'Look.')

def mean(numbers):
    return sum(numbers) / len(numbers)

check('mean', mean)
''')
    env = {'PYTHONPATH': ':'.join(p for p in sys.path if p), 'ANSWER_CHECKS_FOLDER': str(tmp_path)}
    said = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path,
                          env=os.environ | env).stdout
    assert ('your code raised ZeroDivisionError: division by zero (line 9, in mean, '
            'for numbers = []).') in said


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
        assert f'progress_broken_{n}.json' in said and 'Right. 1 of 2' in said
        assert (folder / f'progress_broken_{n}.json').read_text(errors='surrogateescape') == text
    assert json.loads((folder / 'progress.json').read_text())['t-ex-sum'] == {'solved': True}


def test_progress_of_exercises_that_are_gone_is_kept(say, tmp_path):
    folder = tmp_path / 'exercises'
    folder.mkdir()
    (folder / 'progress.json').write_text('{"old-ex": {"solved": true, "note": 1}}')
    assert 'Right. 1 of 2' in say('t-ex-sum', sum=2.5, count=2), 'it does not count'
    assert json.loads((folder / 'progress.json').read_text())['old-ex'] == {'solved': True, 'note': 1}


def test_progress_that_cannot_be_saved_is_said(say, tmp_path):
    (tmp_path / 'exercises').write_text('a file where the folder should be')
    said = say('t-ex-sum', sum=2.5, count=2)
    assert 'Right' in said and 'could not be saved' in said


def test_the_progress_as_a_program(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv('ANSWER_CHECKS_FOLDER', str(tmp_path))
    (tmp_path / 'progress.json').write_text('{"msr-ex-w-good": {"solved": true}}')
    checking.main()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('measuring') and ' 1 of 13 solved.' in line for line in lines), lines
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
    (lambda x: x.sum(1) * 1.001, 'the right numbers', 'the same way off'),
    (lambda x: x.sum(1) + 1, 'the right numbers', 'the same way off'),
    (lambda x: x.sum(0), 'the shape', r'\(200,\)'),
    (lambda x: -x.sum(1), 'the right numbers', 'plain loop')])
def test_cheats_with_results(answer, what, hint):
    kept.clear()
    with pytest.raises(definitions.Missing, match=hint) as e:
        measure(answer)
    assert e.value.args[0] == what


def test_interruptions_are_not_a_queue(monkeypatch):
    # as seen on a busy machine: each call is interrupted in another place
    milliseconds = [(9.51, 0.02), (1.21, 0.01), (1.54, 8.04), (13.45, 0.02), (1.53, 0.01)]
    readings = [0.0]
    for called, waited in milliseconds:
        readings += [called / 1000, waited / 1000, 0.0]
    clock = itertools.accumulate(readings)
    monkeypatch.setattr(definitions, 'clock', lambda: next(clock))
    assert measure(honest) == pytest.approx(0.00122)


def test_more_bits_than_asked_for_are_right():
    assert measure(lambda x: x.astype('float64').sum(1)) > 0


def test_a_right_result_that_is_all_zeros():
    # a sine, so that the work takes longer than fetching its result
    assert timed(lambda x: 0 * np.sin(x), rows, lambda x: 0 * x, 1e-9) > 0


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


def test_an_exercise_with_a_check_for_a_framework_and_one_for_all(say):
    one = {'x': Part(1, 'one', 'One?', 'One!')}
    definitions.numbers('t-ex-both', **one)
    definitions.numbers('t-ex-both', framework='pytorch', **one)
    assert 'Right' in say('t-ex-both', x=1, framework='pytorch')
    assert 'Right' in say('t-ex-both', x=1)


def test_a_slip_of_a_set_or_a_list_is_known_again(say):
    definitions.numbers('t-ex-sets', these=Part({1, 2}, 'a set', 'Which?', 'These.'),
                        row=Part([1, 2], 'a list', 'In which order?', 'This.'),
                        slips={'these': {(1, 3): 'Three is none.'}, 'row': {(2, 1): 'Turned round.'}})
    said = say('t-ex-sets', these={1, 3}, row=[2, 1])
    assert 'Three is none.' in said and 'Turned round.' in say('t-ex-sets', these={1, 2}, row=[2, 1])
