"""Groups of processes: they start, they fail with a clear error, and nothing is left of them."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from local_cluster import cluster, files, workers
from local_cluster.ranks import Ranks
from tested_results import machine
from tests.living import alive, gone
from tools.source import ROOT

pytestmark = pytest.mark.slow

SOURCE = '''
import os
import signal
import subprocess
import sys
import threading
import time

kept = []

def who(*args):
    names = 'RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT'
    return (*(os.environ[n] for n in names), os.getpid(), *args)

def count():
    kept.append(1)
    return len(kept)

def talk():
    print('one'), os.system('echo two'), print('three', file=sys.stderr)

def fail(how):
    sign = __file__ + os.environ['MASTER_PORT']
    if os.environ['RANK'] == '1':
        print('the last words', file=sys.stderr, flush=True)
        if how == 'dies':
            os.kill(os.getpid(), signal.SIGKILL)
        if how == 'leaves':
            os._exit(3)
        if how == 'raises':
            raise ValueError('a bad number')
        if how == 'hangs':
            open(sign, 'w').close()
            time.sleep(600)
    if how == 'hangs':
        while not os.path.exists(sign):
            time.sleep(0.01)
        raise RuntimeError('Timed out waiting 300ms for recv operation')

def sleep():
    time.sleep(600)

def slow(value, seconds=0.0):
    time.sleep(seconds)
    return value

def tell(how):
    print('debug: x is', 42)
    print('an error text', file=sys.stderr)
    if how == 'raises':
        raise ValueError('a bad number')
    if how == 'leaves':
        os._exit(1)
    time.sleep(600)

def leave_threads():
    for _ in range(2):
        threading.Thread(target=time.sleep, args=[600], daemon=True).start()

def leave(how):
    """A process that has left the group of processes of this one, and may outlive its parent."""
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    if how == 'fork':
        code = "import os; os.fork() and os._exit(0); os.setsid(); " + code
    p = subprocess.Popen([sys.executable, '-c', code], stdout=-1, text=True, start_new_session=True)
    return int(p.stdout.readline())

def early(how):
    """Rank 1 returns, or halts; the others time out."""
    if os.environ['RANK'] == '1':
        if how == 'stopped':
            os.kill(os.getpid(), signal.SIGSTOP)
        return
    time.sleep(0.5)
    raise RuntimeError('Timed out waiting 300ms for recv operation')

def environment():
    return dict(os.environ)

def late():
    raise RuntimeError('wait timeout after 3000ms')
'''


@pytest.fixture(autouse=True)
def worker():
    return workers.define('d2l_test_worker', SOURCE)


def run(function, k, *args, **how):
    with Ranks(k, **how) as group:
        return group.run(function, *args)


def pids_of(group):
    return [m.pid for m in group.members.values()]


def failing(*args, ranks=2, timeout=500.0, **how):
    """The error of a run that must fail long before those who sleep wake up, with nothing left of it."""
    with Ranks(ranks, **how) as group:
        pids, folder, port = pids_of(group), group.folder, group.port
        began = time.monotonic()
        with pytest.raises(cluster.ClusterError) as e:
            group.run(*args, timeout=timeout)
        assert time.monotonic() - began < 300
        assert gone(pids) and not folder.exists()
        cluster.check_port(port)
        with pytest.raises(cluster.ClusterError, match='was stopped'):
            group.run(*args)
    return e.value


def test_results_come_in_rank_order_and_ranks_know_who_they_are(worker):
    answers = run(worker.who, 3, 'x', [1])
    assert [a[:3] for a in answers] == [('0', '3', '0'), ('1', '3', '1'), ('2', '3', '2')]
    assert {a[3] for a in answers} == {'127.0.0.1'} and len({a[4] for a in answers}) == 1
    assert all(a[6:] == ('x', [1]) for a in answers)
    assert gone([a[5] for a in answers])
    assert run('d2l_test_worker:who', 1, WORLD_SIZE='7')[0][1] == '7'


def test_ranks_keep_what_they_have_and_take_over_a_changed_worker(worker):
    with Ranks(2) as group:
        assert [group.run(worker.count) for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]
        workers.define('d2l_test_worker', SOURCE)      # the same source: nothing changes
        assert group.run('d2l_test_worker:count') == [4, 4]
        changed = workers.define('d2l_test_worker', SOURCE.replace('len(kept)', '-len(kept)'))
        assert group.run(changed.count) == [-1, -1]


def test_output_of_ranks_is_shown_in_rank_order(worker, capfd):
    with Ranks(2) as group:
        for _ in range(2):
            group.run(worker.talk)
            assert capfd.readouterr().out == ''.join(
                f'[rank {r}] {word}\n' for r in (0, 1) for word in ('one', 'two'))


@pytest.mark.parametrize('how, says', [
    ('dies', 'rank 1 died: killed by SIGKILL'), ('leaves', 'rank 1 died: exit code 3'),
    ('raises', 'rank 1 raised ValueError: a bad number'),
    ('hangs', 'rank 1 hangs: others have waited for it too long')])
@pytest.mark.skipif(os.name != 'posix', reason='signals of POSIX')
def test_a_rank_that_fails_is_named_with_the_end_of_its_log(worker, how, says):
    error = failing(worker.fail, how, ranks=3)
    assert error.headline == says and error.member == 'rank 1'
    assert 'end of the log of rank 1:\nthe last words' in str(error)
    if how == 'hangs':
        assert 'rank 1 was at: d2l_test_worker.py:' in str(error) and 'in fail' in str(error)


def test_a_run_that_takes_too_long_is_stopped_and_says_where_it_was(worker):
    error = failing(worker.sleep, timeout=0.5)
    assert error.headline == 'rank 0 and rank 1 did not return within 0.5 s'
    assert 'in sleep' in str(error)


def test_a_wrong_world_size_is_named(worker):
    error = failing(worker.late, WORLD_SIZE='3')
    assert error.headline.endswith('there are 2 ranks, and WORLD_SIZE is 3')


def test_a_port_in_use_is_named_before_anything_starts():
    with socket.create_server((cluster.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(cluster.ClusterError, match=f'port {port} of 127.0.0.1 is in use'):
            Ranks(2, port=port)
    cluster.check_port(port)


def test_what_cannot_be_imported_or_makes_no_sense_is_refused(worker):
    def local():
        pass
    with Ranks(1) as group:
        with pytest.raises(ValueError, match='%%worker'):
            group.run(local)
    with pytest.raises(ValueError, match='at least one'):
        Ranks(0)


def test_ten_starts_and_stops_leave_no_process_no_port_and_no_file(worker):
    pids, before = [], len(os.listdir('/proc/self/fd')) if sys.platform == 'linux' else 0
    run(worker.who, 1)
    for _ in range(10):
        with Ranks(2) as group:
            pids += [a[5] for a in group.run(worker.who)]
        assert not group.folder.exists()
        cluster.check_port(group.port)
    assert len(set(pids)) == 20 and gone(pids)
    if before:
        assert len(os.listdir('/proc/self/fd')) <= before + 2       # the template's


def test_an_interrupt_and_an_exception_in_the_block_end_all(worker, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)   # it may be ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        with Ranks(2) as group:
            pids = pids_of(group)
            timer.start()
            group.run(worker.sleep)
    assert gone(pids)
    with pytest.raises(ZeroDivisionError):
        with Ranks(2) as group:
            pids = pids_of(group)
            1 / 0       # noqa: B018
    assert gone(pids)


PARENT = """
import sys, time
from local_cluster import cluster, ranks, workers

SOURCE = 'import os\\ndef start(): return os.getpid()\\ndef stuck():\\n  while True: pass'
worker = workers.define('orphan', SOURCE)
if __name__ == '__main__':
    both = ranks.Ranks(2)
    pids = both.run(worker.start)
    pids += [both.program(n, [sys.executable, '-c', 'import time; time.sleep(600)']).pid
             for n in ('a', 'b')]
    print(*pids, both._template.process.pid, flush=True)
    {then}
"""


def parent(then, tmp_path):
    script = tmp_path / 'parent.py'
    script.write_text(PARENT.format(then=then))
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, 'PYTHONPATH': str(ROOT)})


@pytest.mark.skipif(os.name != 'posix', reason='signals of POSIX')
@pytest.mark.parametrize('then', ['both.run(worker.stuck)', 'time.sleep(600)'])
def test_a_parent_killed_without_warning_takes_all_with_it(then, tmp_path):
    with parent(then, tmp_path) as p:
        pids = [int(x) for x in p.stdout.readline().split()]
        assert len(pids) == 5 and all(map(alive, pids))
        p.kill()
        assert gone(pids)


def test_a_parent_that_just_ends_leaves_nothing(tmp_path):
    with parent('pass', tmp_path) as p:
        pids = [int(x) for x in p.stdout.readline().split()]
        assert p.wait(300) == 0 and gone(pids)


def test_folders_of_killed_processes_are_removed_by_the_next_one():
    dead = subprocess.Popen([sys.executable, '-c', ''])
    dead.wait()
    here = files.numbering()        # elsewhere that id may be a process that lives
    old, ours, other = (
        Path(tempfile.gettempdir(), f'd2l-cluster-{where}-{pid}-test') for where, pid in
        ((here, dead.pid), (here, os.getpid()), ('elsewhere', dead.pid)))
    for folder in (old, ours, other):
        folder.mkdir()
    made = files.new_folder()
    assert [f.exists() for f in (old, ours, other, made)] == [False, True, True, True]
    for folder in (ours, other, made):
        folder.rmdir()


def python(code):
    return [sys.executable, '-c', textwrap.dedent(code)]


def test_programs_run_with_their_environment_and_are_waited_for():
    with cluster.Group() as group:
        group.program('a', python('import os; print(os.environ["PART"])'), PART='first')
        group.program('b', python('import time; time.sleep(600)'))
        group.members['a'].wait(300)
        assert group.members['a'].log.read_text() == 'first\n'
        group.check()
        pids, folder = pids_of(group), group.folder
    assert gone(pids) and not folder.exists()


def test_a_program_that_fails_is_named_and_takes_the_others_with_it():
    group = cluster.Group()
    group.program('server', python('import time; time.sleep(600)'))
    group.program('worker', python('import sys; sys.exit("no data")'))
    pids = pids_of(group)
    with pytest.raises(cluster.ClusterError, match='(?s)worker failed: exit code 1.*no data') as e:
        group.wait(timeout=300)
    assert e.value.member == 'worker' and gone(pids)


def test_a_program_that_hangs_or_does_not_exist_is_named():
    with cluster.Group() as group:
        with pytest.raises(cluster.ClusterError, match="nothing does not start: .*'no-such-program'"):
            group.program('nothing', ['no-such-program'])
        # its children end with it
        p = group.program('slow', python('import subprocess as s; s.run(["sleep", "600"])'))
        with pytest.raises(cluster.ClusterError, match='slow did not end within 0.3 s'):
            group.wait(timeout=0.3)
        assert gone([p.pid])
        with pytest.raises(ValueError, match='stopped'):
            group.program('late', python('pass'))


def test_members_inherit_everything_but_a_role_in_another_cluster(worker, monkeypatch):
    foreign = {'DMLC_ROLE': 'server', 'PS_VERBOSE': '2', 'WORLD_SIZE': '9', 'TORCHELASTIC_RUN_ID': 'x',
               'GROUP_RANK': '3', 'LOCAL_WORLD_SIZE': '7', 'MASTER_ADDR': 'elsewhere'}
    own = {'D2L_TEST': 'kept', 'OMP_WAIT_POLICY': 'passive', 'DATA_DIR': '/data', 'HF_HOME': '/models',
           'WANDB_MODE': 'offline', 'NAME': 'anybody'}
    for name, value in {**foreign, **own}.items():
        monkeypatch.setenv(name, value)
    seen = run(worker.environment, 1, PS_PORT='own')[0]
    assert own.items() <= seen.items() and seen['PATH'] == os.environ['PATH']
    assert (seen['WORLD_SIZE'], seen['LOCAL_WORLD_SIZE'], seen['MASTER_ADDR'], seen['PS_PORT']) == (
        '1', '1', '127.0.0.1', 'own')
    assert not {'DMLC_ROLE', 'PS_VERBOSE', 'TORCHELASTIC_RUN_ID', 'GROUP_RANK'} & set(seen)


def test_what_cannot_be_imported_is_said_and_a_dead_template_is_replaced(worker):
    with pytest.raises(cluster.ClusterError, match='(?s)cannot be:.*no_such_module'):
        cluster.Group('no_such_module:prepare')
    with Ranks(2) as group:
        group._template.process.kill()
        with pytest.raises(cluster.ClusterError, match='rank [01] died'):
            group.run(worker.sleep)
    assert run(worker.who, 1, 'again')[0][-1] == 'again'


def test_that_all_members_were_dead_before_the_call_is_said(worker):
    """Their template may have ended them before anything was called."""
    with Ranks(2) as group:
        for member in group.callers:
            os.kill(member.pid, signal.SIGKILL)
            member.wait(30)
        with pytest.raises(cluster.ClusterError, match='rank [01] died'):
            group.run(worker.sleep)


def test_a_template_that_was_killed_is_replaced_before_it_can_be_waited_for(worker, monkeypatch):
    with Ranks(1) as group:
        dead = group._template
    dead.process.kill()
    monkeypatch.setattr(dead.process, 'poll', lambda: None)
    assert run(worker.who, 1, 'again')[0][-1] == 'again'
    with Ranks(1) as group:
        assert group._template is not dead


def test_a_member_that_is_stopped_is_named(worker):
    with Ranks(2) as group:
        os.kill(pids_of(group)[1], signal.SIGSTOP)
        with pytest.raises(cluster.ClusterError, match='rank 1 was stopped by a signal, and rank 0 and'):
            group.run(worker.sleep, timeout=0.3)


def test_a_group_that_works_takes_no_second_call(worker):
    """Its answers would be those of the call before, from then on."""
    with Ranks(2) as group:
        group.start(worker.slow, 'first', 1.0)
        for again in (group.start, group.run):
            with pytest.raises(ValueError, match='rank 0 and rank 1 still work on an earlier call'):
                again(worker.slow, 'second')
        assert group.wait(300) == ['first'] * 2 and group.run(worker.slow, 'third') == ['third'] * 2


def test_calls_of_two_threads_do_not_mix(worker):
    found = []

    def call(i):
        for _ in range(20):
            try:
                found.append((i, group.run(worker.slow, i, 0.01)))
            except ValueError as e:
                assert 'still work' in str(e)
    with Ranks(2) as group:
        threads = [threading.Thread(target=call, args=[i]) for i in range(2)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert found and all(answers == [i, i] for i, answers in found)
        assert group.run(worker.slow, 7) == [7, 7]


def test_an_answer_to_an_earlier_call_is_dropped(worker):
    with Ranks(1) as group:
        member, = group.callers
        group.start(worker.slow, 'first')
        member.status.poll(1)
        member.state, member.call = 'working', member.call + 1      # as if it had been asked again
        with pytest.raises(cluster.ClusterError, match='did not return within 0.5 s'):
            group.wait(0.5)


@pytest.mark.parametrize('how', ['raises', 'leaves', 'hangs'])
def test_what_a_member_has_printed_is_in_the_error(worker, how):
    error = str(failing(worker.tell, how, ranks=1, timeout=5))
    assert 'end of what rank 0 has printed:\ndebug: x is 42' in error and 'an error text' in error


def number_in(log):
    """The line that a program writes, when it has."""
    while not log.exists() or not log.read_text().endswith('\n'):
        time.sleep(0.01)
    return int(log.read_text())


@pytest.mark.skipif(sys.platform != 'linux', reason='orphans are adopted on Linux')
@pytest.mark.parametrize('how', ['session', 'fork'])
@pytest.mark.parametrize('ends', ['leaves the block', 'dies', 'program'])
def test_what_has_left_its_group_of_processes_ends_with_it(worker, how, ends):
    with Ranks(1) as other, Ranks(1) as group:
        kept, left = other.run(worker.leave, how)[0], group.run(worker.leave, how)[0]
        assert alive(left) and os.getpgid(left) != group.callers[0].pid
        if ends == 'dies':
            os.kill(group.callers[0].pid, signal.SIGKILL)
            assert gone([left])
        if ends == 'program':
            code = f'import {worker.__name__} as w; print(w.leave({how!r}), flush=True); w.sleep()'
            m = group.program('launcher', [sys.executable, '-c', code], PYTHONPATH=sys.path[0])
            left = number_in(m.log)
        if ends != 'dies':
            group.stop()
        assert not alive(left) and alive(kept)      # at once; and what belongs to another group lives
    assert gone([kept])


@pytest.mark.skipif(sys.platform != 'linux', reason='orphans are adopted on Linux')
def test_what_has_left_ends_with_a_starter_that_is_killed(tmp_path):
    code = ('import subprocess, time; print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, '
            'flush=True); time.sleep(600)')
    with parent(f"print(both.program('x', [sys.executable, '-c', {code!r}]).log, flush=True); time.sleep(99)",
                tmp_path) as p:
        p.stdout.readline()
        left = number_in(Path(p.stdout.readline().strip()))
        assert alive(left)
        p.kill()
        assert gone([left])


@pytest.mark.parametrize('how, says', [
    ('returns', 'rank 1 had returned, and rank 0 waited too long'),
    ('stopped', 'rank 1 was stopped by a signal: others have waited for it too long')])
def test_who_is_missing_is_named(worker, how, says):
    error = failing(worker.early, how)
    assert error.headline == says and error.member == 'rank 1' and 'rank 0 raised RuntimeError' in str(error)


def test_a_slip_in_a_call_costs_no_group(worker):
    with Ranks(2) as group:
        assert group.run(worker.count) == [1, 1]
        for slip in (lambda: 0, 'no colon', 'd2l_test_worker:'):
            with pytest.raises(ValueError, match='other processes cannot import|looks like'):
                group.run(slip)
        with pytest.raises(ValueError, match="a command is a list of words, such as .'echo', 'hi'., not a"):
            group.program('p', 'echo hi')
        assert group.run(worker.count, timeout=None) == [2, 2]
    with Ranks(2) as group, pytest.raises(ValueError, match='nothing was started in rank 0 and rank 1'):
        group.wait()


def test_a_preparation_that_leaves_threads_is_named_where_members_hang(worker):
    for prepare, says in (('count', False), ('leave_threads', True)):
        error = failing(worker.sleep, timeout=0.5, prepare=f'd2l_test_worker:{prepare}')
        assert error.headline == 'rank 0 and rank 1 did not return within 0.5 s'
        assert says == ('in which d2l_test_worker:leave_threads has left 2 threads' in str(error))


FILES = """import os, resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
many = [open(os.devnull) for _ in range(1100)]
from local_cluster import links, ranks
with ranks.Ranks(2) as group:
    print(len(group.run('os:getpid')))
if not links.unavailable():
    with links.Network(hosts=2) as net, ranks.Ranks(2, network=net) as group:
        assert len(group.run('os:getpid')) == 2"""


def test_a_process_with_a_thousand_open_files_has_groups_and_networks():
    resource = pytest.importorskip('resource')
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2000:
        pytest.skip('this user may not have that many open')
    assert machine.run_child(FILES, timeout=300) == '2\n'


EXITS = """import os, sys
from local_cluster import links, ranks, workers
from local_cluster.neighbours import neighbours
worker = workers.define('forked', 'def one(): return 1')
net = None if links.unavailable() else links.Network(hosts=2)
with neighbours(1) as (p,), ranks.Ranks(2, network=net) as group:
    if not (pid := os.fork()):
        sys.exit(0)
    os.waitpid(pid, 0)
    print(group.run(worker.one), p.poll(), group.folder.exists())"""


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system does not fork')
def test_a_fork_of_the_starter_that_ends_takes_nothing_with_it():
    assert machine.run_child(EXITS, timeout=300) == '[1, 1] None True\n'


def test_without_fork_there_are_no_groups(worker, monkeypatch):
    monkeypatch.delattr(os, 'fork')
    with pytest.raises(cluster.ClusterError, match='this system cannot fork a process'):
        Ranks(2)
