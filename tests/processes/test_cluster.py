"""Groups of processes: they start, they fail with a clear error, and nothing is left of them."""

import importlib.util
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

from d2l_local import cluster
from tests.living import alive, gone
from tools.notebooks import ROOT

pytestmark = pytest.mark.slow

SOURCE = '''
import os
import signal
import sys
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

def late():
    raise RuntimeError('wait timeout after 3000ms')
'''


@pytest.fixture(scope='module', autouse=True)
def fork_server():
    """The one that the tests with PyTorch want: what it preloads is settled when it starts."""
    if importlib.util.find_spec('torch'):
        from d2l_local import ranks
        cluster.Ranks(1, ranks.PRELOAD).stop()


@pytest.fixture(autouse=True)
def workers():
    return cluster.define_worker('d2l_test_worker', SOURCE)


def failing(*args, ranks=2, timeout=500.0, **how):
    """The error of a run that must fail long before those who sleep wake up, with nothing left of it."""
    with cluster.Ranks(ranks, **how) as group:
        pids, folder, port = [m.process.pid for m in group.members], group.folder, group.port
        began = time.monotonic()
        with pytest.raises(cluster.ClusterError) as e:
            group.run(*args, timeout=timeout)
        assert time.monotonic() - began < 300
        assert gone(pids) and not folder.exists()
        cluster.check_port(port)
        with pytest.raises(cluster.ClusterError, match='was stopped'):
            group.run(*args)
    return e.value


def test_results_come_in_rank_order_and_ranks_know_who_they_are(workers):
    answers = cluster.run(workers.who, 3, 'x', [1])
    assert [a[:3] for a in answers] == [('0', '3', '0'), ('1', '3', '1'), ('2', '3', '2')]
    assert {a[3] for a in answers} == {'127.0.0.1'} and len({a[4] for a in answers}) == 1
    assert all(a[6:] == ('x', [1]) for a in answers)
    assert gone([a[5] for a in answers])
    assert cluster.run('d2l_test_worker:who', 1, WORLD_SIZE='7')[0][1] == '7'


def test_ranks_keep_what_they_have_and_take_over_a_changed_worker(workers):
    with cluster.Ranks(2) as group:
        assert [group.run(workers.count) for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]
        cluster.define_worker('d2l_test_worker', SOURCE)      # the same source: nothing changes
        assert group.run('d2l_test_worker:count') == [4, 4]
        changed = cluster.define_worker('d2l_test_worker', SOURCE.replace('len(kept)', '-len(kept)'))
        assert group.run(changed.count) == [-1, -1]


def test_output_of_ranks_is_shown_in_rank_order(workers, capfd):
    with cluster.Ranks(2) as group:
        for _ in range(2):
            group.run(workers.talk)
            assert capfd.readouterr().out == ''.join(
                f'[rank {r}] {word}\n' for r in (0, 1) for word in ('one', 'two'))


@pytest.mark.parametrize('how, says', [
    ('dies', 'rank 1 died: killed by SIGKILL'), ('leaves', 'rank 1 died: exit code 3'),
    ('raises', 'rank 1 raised ValueError: a bad number'),
    ('hangs', 'rank 1 hangs: others have waited for it too long')])
@pytest.mark.skipif(os.name != 'posix', reason='signals of POSIX')
def test_a_rank_that_fails_is_named_with_the_end_of_its_log(workers, how, says):
    error = failing(workers.fail, how, ranks=3)
    assert error.headline == says and error.member == 'rank 1'
    assert 'end of the log of rank 1:\nthe last words' in str(error)
    if how == 'hangs':
        assert 'rank 1 was at: d2l_test_worker.py:' in str(error) and 'in fail' in str(error)


def test_a_run_that_takes_too_long_is_stopped_and_says_where_it_was(workers):
    error = failing(workers.sleep, timeout=0.5)
    assert error.headline == 'rank 0 and rank 1 did not return within 0.5 s'
    assert 'in sleep' in str(error)


def test_a_wrong_world_size_is_named(workers):
    error = failing(workers.late, WORLD_SIZE='3')
    assert error.headline.endswith('there are 2 ranks, and WORLD_SIZE is 3')


def test_a_port_in_use_is_named_before_anything_starts():
    with socket.create_server((cluster.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(cluster.ClusterError, match=f'port {port} of 127.0.0.1 is in use'):
            cluster.Ranks(2, port=port)
    cluster.check_port(port)


def test_what_cannot_be_imported_or_makes_no_sense_is_refused(workers):
    def local():
        pass
    with cluster.Ranks(1) as group:
        with pytest.raises(ValueError, match='%%worker'):
            group.run(local)
    with pytest.raises(ValueError, match='%%worker'):
        cluster.function_name(lambda: 0)
    with pytest.raises(ValueError, match='module:function'):
        cluster.function_name('who')
    with pytest.raises(ValueError, match='at least one'):
        cluster.Ranks(0)
    with pytest.raises(ValueError, match='a name such as'):
        cluster.define_worker('two words', '')
    with pytest.raises(ValueError, match='already'):
        cluster.define_worker('json', '')


def test_ten_starts_and_stops_leave_no_process_no_port_and_no_file(workers):
    pids, before = [], len(os.listdir('/proc/self/fd')) if sys.platform == 'linux' else 0
    cluster.run(workers.who, 1)
    for _ in range(10):
        with cluster.Ranks(2) as group:
            pids += [a[5] for a in group.run(workers.who)]
        assert not group.folder.exists()
        cluster.check_port(group.port)
    assert len(set(pids)) == 20 and gone(pids)
    if before:
        assert len(os.listdir('/proc/self/fd')) <= before + 4       # the fork server's


def test_an_interrupt_and_an_exception_in_the_block_end_all(workers, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)   # it may be ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    with pytest.raises(KeyboardInterrupt):
        with cluster.Ranks(2) as group:
            pids = [m.process.pid for m in group.members]
            timer.start()
            group.run(workers.sleep)
    assert gone(pids)
    with pytest.raises(ZeroDivisionError):
        with cluster.Ranks(2) as group:
            pids = [m.process.pid for m in group.members]
            1 / 0       # noqa: B018
    assert gone(pids)


PARENT = """
import sys, time
from d2l_local import cluster

SOURCE = 'import os\\ndef start(): return os.getpid()\\ndef stuck():\\n  while True: pass'
worker = cluster.define_worker('orphan', SOURCE)
if __name__ == '__main__':
    ranks = cluster.Ranks(2)
    programs = cluster.Processes()
    pids = ranks.run(worker.start)
    pids += [programs.start(n, [sys.executable, '-c', 'import time; time.sleep(600)']).pid
             for n in ('a', 'b')]
    print(*pids, flush=True)
    {then}
"""


def parent(then, tmp_path):
    script = tmp_path / 'parent.py'
    script.write_text(PARENT.format(then=then))
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, 'PYTHONPATH': str(ROOT)})


@pytest.mark.skipif(os.name != 'posix', reason='signals of POSIX')
@pytest.mark.parametrize('then', ['ranks.run(worker.stuck)', 'time.sleep(600)'])
def test_a_parent_killed_without_warning_takes_all_with_it(then, tmp_path):
    with parent(then, tmp_path) as p:
        pids = [int(x) for x in p.stdout.readline().split()]
        assert len(pids) == 4 and all(map(alive, pids))
        p.kill()
        assert gone(pids)


def test_a_parent_that_just_ends_leaves_nothing(tmp_path):
    with parent('pass', tmp_path) as p:
        pids = [int(x) for x in p.stdout.readline().split()]
        assert p.wait(300) == 0 and gone(pids)


def test_folders_of_killed_processes_are_removed_later():
    dead = subprocess.Popen([sys.executable, '-c', ''])
    dead.wait()
    here = cluster.numbering()      # elsewhere that id may be a process that lives
    old, new, ours, other = (
        Path(tempfile.gettempdir(), f'd2l-cluster-{where}-{pid}-{name}') for where, pid, name in
        ((here, dead.pid, 'old'), (here, dead.pid, 'new'), (here, os.getpid(), 'old'),
         ('elsewhere', dead.pid, 'old')))
    for folder in (old, new, ours, other):
        folder.mkdir()
        os.utime(folder, (0, 0) if folder is not new else None)
    made = cluster.new_folder()
    assert [f.exists() for f in (old, new, ours, other, made)] == [False, True, True, True, True]
    for folder in (new, ours, other, made):
        folder.rmdir()


def python(code):
    return [sys.executable, '-c', textwrap.dedent(code)]


def test_programs_run_with_their_environment_and_are_waited_for():
    with cluster.Processes() as group:
        group.start('a', python('import os; print(os.environ["PART"])'), PART='first')
        group.start('b', python('import time; time.sleep(600)'))
        group.wait('a', timeout=300)
        assert group.log('a').read_text() == 'first\n'
        group.check()
        pids, folder = [p.pid for p in group.members.values()], group.folder
    assert gone(pids) and not folder.exists()


def test_a_program_that_fails_is_named_and_takes_the_others_with_it():
    group = cluster.Processes()
    group.start('server', python('import time; time.sleep(600)'))
    group.start('worker', python('import sys; sys.exit("no data")'))
    pids = [p.pid for p in group.members.values()]
    with pytest.raises(cluster.ClusterError, match='(?s)worker failed: exit code 1.*no data') as e:
        group.wait(timeout=300)
    assert e.value.member == 'worker' and gone(pids)


def test_a_program_that_hangs_or_does_not_exist_is_named():
    with cluster.Processes() as group:
        with pytest.raises(cluster.ClusterError, match="nothing does not start: .*'no-such-program'"):
            group.start('nothing', ['no-such-program'])
        # its children end with it
        p = group.start('slow', python('import subprocess as s; s.run(["sleep", "600"])'))
        with pytest.raises(cluster.ClusterError, match='slow did not end within 0.3 s'):
            group.wait(timeout=0.3)
        assert gone([p.pid])
        with pytest.raises(ValueError, match='stopped'):
            group.start('late', python('pass'))


def test_the_module_imports_no_framework_and_the_magic_makes_names_known():
    code = '''
        from IPython.testing.globalipapp import start_ipython
        shell = start_ipython()
        import sys
        from d2l_local import cluster
        assert not {'torch', 'mxnet'} & set(sys.modules)
        shell.run_cell_magic('worker', 'adding',
                             'import os\\nN = 2\\ndef double(x): return N * x')
        assert shell.user_ns['double'](4) == 8 and 'os' not in shell.user_ns
        assert cluster.run(shell.user_ns['double'], 2, 21) == [42, 42]
        print('fine')
    '''
    out = subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True,
                         env={**os.environ, 'PYTHONPATH': str(ROOT)}, timeout=300)
    assert out.stdout.strip().endswith('fine'), out.stderr


# With PyTorch.

GROUP = '''
import datetime, os, time
import torch
import torch.distributed as dist
from d2l_local import torch as d2l

def total():
    x = torch.tensor([1.0 + dist.get_rank()], device=d2l.rank_device())
    dist.all_reduce(x)
    return x.item(), torch.get_num_threads()

def patience():
    return dist.group.WORLD._get_backend(torch.device('cpu')).options._timeout.total_seconds()

def missing(how):
    if dist.get_rank() == 1:
        os.kill(os.getpid(), 9) if how == 'dies' else time.sleep(600)
    late = datetime.timedelta(seconds=0.5)
    dist.all_reduce(torch.ones(1), async_op=True).wait(late)
'''


@pytest.fixture
def d2l():
    pytest.importorskip('torch')
    from d2l_local import torch as d2l
    return d2l


def test_ranks_of_torch_are_in_a_group_and_share_the_cores(d2l):
    worker = cluster.define_worker('d2l_test_group', GROUP)
    cores = max(1, d2l.machine()['cores'])
    with d2l.ranks(2, patience=60) as group:
        assert group.run(worker.total) == [(3.0, max(1, cores // 2))] * 2
        assert group.run(worker.patience) == [60.0] * 2
    assert d2l.run_ranks(worker.total, 1) == [(1.0, cores)]
    assert d2l.rank_device().type == 'cpu'


def test_missing_in_a_collective(d2l):
    worker = cluster.define_worker('d2l_test_group', GROUP)
    for how, says in (('dies', 'rank 1 died: killed by SIGKILL'),
                      ('hangs', 'rank 1 hangs: others have waited for it too long')):
        with pytest.raises(cluster.ClusterError) as e:
            d2l.run_ranks(worker.missing, 2, how, patience=60)
        assert e.value.headline == says
    with pytest.raises(cluster.ClusterError, match='there are 2 ranks, and WORLD_SIZE is 3'):
        d2l.ranks(2, patience=1, WORLD_SIZE='3')


def test_resnet18_has_the_parameters_of_the_published_one(d2l):
    import torch
    net = d2l.resnet18(10)
    assert net(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    counts = {w: sum(p.numel() for p in d2l.resnet18(10, width=w).parameters()) for w in (8, 64)}
    assert 11.1e6 < counts[64] < 11.3e6 and 50 < counts[64] / counts[8] < 70
