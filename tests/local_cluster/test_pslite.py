"""Clusters of ps-lite: they start, they fail with a clear error, and nothing is left of them."""

import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from local_cluster import cluster, links, pslite, workers
from tests.living import alive, gone
from tools.source import ROOT

LAST_PID = '/proc/sys/kernel/ns_last_pid'
pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(not importlib.util.find_spec('mxnet'), reason='no MXNet here')]

SOURCE = '''
import os
import time
from mxnet import np
from local_cluster import pslite

def add(kv, value):
    out = np.zeros((2,))
    kv.init(0, out)
    kv.push(0, np.full((2,), value * (kv.rank + 1)))
    kv.pull(0, out=out)
    return kv.rank, kv.num_workers, out.tolist(), os.getpid()

def steps(kv, n):
    x = np.ones((2,))       # each sum is the next push: it doubles
    kv.init(0, x)
    for i in range(n):
        kv.push(0, x)
        kv.pull(0, out=x)
        x.wait_to_read()
        pslite.report(i)
        time.sleep(0.01)
    return float(x[0])

def moved(kv, floats):
    x = np.ones((floats,))
    kv.init(0, x)
    kv.push(0, x)
    kv.pull(0, out=x)
    x.wait_to_read()
    return pslite.traffic()

def ask(kv, sign):
    """Pull a key of its own, and once more when the sign is there."""
    x = np.ones((2,))
    kv.init([0, 1], [x, x])
    for _ in range(2):
        kv.pull(kv.rank, out=x)
        x.wait_to_read()
        pslite.report('pulled')
        while not os.path.exists(sign):
            time.sleep(0.01)

def where(kv):
    threads = {os.readlink(f'/proc/self/task/{t}/ns/net') for t in os.listdir('/proc/self/task')}
    return *threads, os.environ['DMLC_NODE_HOST']       # one namespace for all threads

def updates(kv):
    x = np.ones((2,))
    kv.init(0, x)
    kv.push(0, x)
    kv.pull(0, out=x)
    return x.tolist()
'''


@pytest.fixture(autouse=True)
def worker():
    return workers.define('d2l_test_pslite', SOURCE)


def listening(pids):
    """Addresses and ports on which these processes listen."""
    lines = subprocess.run(['ss', '-ltnpH'], capture_output=True, text=True).stdout.split('\n')
    return [line.split()[3] for line in lines if any(f'pid={p},' in line for p in pids)]


needs_ss = pytest.mark.skipif(sys.platform != 'linux' or subprocess.run(
    ['sh', '-c', 'command -v ss'], capture_output=True).returncode != 0, reason='no ss here')


def test_workers_add_up_and_know_who_they_are(worker):
    assert [a[:3] for a in pslite.run(worker.add, 3, 2, 10)] == [(i, 3, [60, 60]) for i in range(3)]


def test_a_role_in_the_environment_does_not_reach_the_members(worker, monkeypatch):
    monkeypatch.setenv('DMLC_ROLE', 'server')
    monkeypatch.setenv('DMLC_USE_KUBERNETES', '1')
    assert pslite.run(worker.add, 1, 1, 2)[0][2] == [2, 2]


@needs_ss
def test_twenty_starts_and_stops_leave_no_process_no_port_and_no_file(worker):
    pids, files = [], len(os.listdir('/proc/self/fd'))
    for _ in range(20):
        with pslite.Cluster(2, 2) as c:
            c.run(worker.add, 1)
            own = [m.pid for m in c.members.values()]
            ports = listening(own)
            assert len(own) == len(ports) == 5
            assert {p.rsplit(':', 1)[0] for p in ports} == {cluster.HOST}
        pids += own
        assert not c.folder.exists()
        for p in ports:
            cluster.check_port(int(p.rsplit(':', 1)[1]))
    assert len(set(pids)) == 100 and gone(pids) and not listening([*pids, os.getpid()])
    assert len(os.listdir('/proc/self/fd')) <= files + 2      # the template's


@pytest.mark.skipif(not os.access(LAST_PID, os.W_OK), reason='takes root, on Linux')
def test_a_member_with_the_number_of_an_earlier_one_is_ended_too():
    """The system counts processes in a circle; after some hundred clusters, numbers come again."""
    for _ in range(10):         # another program may take the number first
        with pslite.Cluster(1, 1) as c:
            old = {m.pid for m in c.members.values()}
        try:
            Path(LAST_PID).write_text(str(min(old) - 1))
        except OSError as e:    # in a container, root may not
            pytest.skip(str(e))
        with pslite.Cluster(1, 1) as c:
            new = {m.pid for m in c.members.values()}
        assert gone(new)
        if old & new:
            return
    pytest.fail('no number came again')


def test_two_clusters_at_once_do_not_meet(worker):
    with pslite.Cluster(2, 1) as a, pslite.Cluster(1, 2, 'dist_sync') as b:
        a.start(worker.add, 1)
        b.start(worker.add, 100)
        assert [x[2] for x in a.wait()] == [[3, 3]] * 2 and [x[2] for x in b.wait()] == [[100, 100]]
        assert a.folder != b.folder


def test_programs_with_clusters_at_once_do_not_meet(tmp_path):
    """As two notebooks that run at the same time."""
    (tmp_path / 'd2l_elsewhere.py').write_text(SOURCE)
    code = textwrap.dedent(f'''
        import sys
        from local_cluster import pslite
        sys.path.append({str(tmp_path)!r})
        value = float(sys.argv[1])
        for _ in range(5):
            sums = [a[2] for a in pslite.run('d2l_elsewhere:add', 2, 1, value)]
            assert sums == [[3 * value] * 2] * 2, sums
        print('fine')
    ''')
    programs = [subprocess.Popen([sys.executable, '-c', code, value], stdout=subprocess.PIPE, text=True,
                                 cwd=ROOT) for value in ('1', '100')]
    assert [p.communicate(timeout=300)[0] for p in programs] == ['fine\n'] * 2


@pytest.mark.parametrize('victim', ['worker 1', 'server 0', 'scheduler'])
def test_a_member_that_dies_is_named_at_once(worker, victim):
    with pslite.Cluster(2, 1) as c:
        pids = [m.pid for m in c.members.values()]
        c.start(worker.steps, 100_000)
        c.wait_reports(6)
        c.kill(victim)
        began = time.monotonic()
        with pytest.raises(cluster.ClusterError) as e:
            c.wait(600)
        assert time.monotonic() - began < 300       # of itself, it would wait for ever
        assert e.value.headline == f'{victim} died: killed by SIGKILL' and e.value.member == victim
        assert gone(pids) and not c.folder.exists()
        with pytest.raises(cluster.ClusterError, match='was stopped'):
            c.run(worker.steps, 1)


def test_servers_have_the_names_of_their_ranks(worker, tmp_path):
    """Even keys are on server 0: they can be had when server 1 is gone, and odd ones cannot."""
    with pslite.Cluster(2, 2) as c:
        assert list(c.members) == ['scheduler', 'server 0', 'server 1', 'worker 0', 'worker 1']
        c.start(worker.ask, str(tmp_path / 'sign'))
        c.wait_reports(2)
        c.kill('server 1')
        assert gone([c.members['server 1'].pid])
        (tmp_path / 'sign').touch()
        end = time.monotonic() + 60
        while c.members['worker 0'].state == 'working' and time.monotonic() < end:
            c.observe(0.1)
        states = c.observe(0.5)
    assert (states['worker 0'], states['worker 1']) == ('returned', 'working')


def test_a_server_that_aborts_is_named(worker):
    """dist_async without an optimizer: the engine's check fails in the server."""
    with pytest.raises(cluster.ClusterError, match='server 0 died: killed by SIGABRT') as e:
        pslite.run(worker.updates, 1, 1, kind='dist_async', timeout=300)
    assert 'Updater needs to be set' in str(e.value)


def test_a_member_that_is_stopped_is_named_after_the_timeout(worker):
    with pslite.Cluster(2, 1) as c:
        c.start(worker.steps, 100_000)
        c.wait_reports(6)
        c.kill('server 0', signal.SIGSTOP)
        with pytest.raises(cluster.ClusterError, match='server 0 was stopped by a signal'):
            c.wait(1)


def test_a_cluster_that_nobody_watches_goes_on(worker):
    with pslite.Cluster(2, 1) as c:
        c.start(worker.steps, 30)
        c.wait_reports(6)
        c.kill('scheduler')
        states = c.observe(300)
        assert states == {'scheduler': 'killed by SIGKILL', 'server 0': 'idle',
                          'worker 0': 'returned', 'worker 1': 'returned'}
        assert c.answers() == {'worker 0': 2 ** 30, 'worker 1': 2 ** 30} and len(c.reports) == 60


@pytest.mark.skipif(sys.platform != 'linux', reason='counters of Linux')
def test_bytes_are_counted(worker):
    for servers in (1, 2):
        peers, = pslite.run(worker.moved, 1, servers, 1_200_000)
        sent = sorted(n for n, _ in peers.values() if n > 1e5)
        # the worker of rank 0 sends the first value, too
        assert len(sent) == servers and all(abs(n - 9.6e6 / servers) < 1e4 for n in sent)
        assert abs(sum(n for _, n in peers.values()) - 4.8e6) < 1e4


@pytest.mark.skipif(sys.platform != 'linux', reason='signals of Linux')
def test_when_the_starter_is_killed_all_members_end(tmp_path):
    (tmp_path / 'd2l_elsewhere.py').write_text(SOURCE)
    code = textwrap.dedent(f'''
        import sys, time
        from local_cluster import pslite
        sys.path.append({str(tmp_path)!r})
        c = pslite.Cluster(2, 2)
        c.start('d2l_elsewhere:steps', 100_000)
        c.wait_reports(4)
        print(*[m.pid for m in c.members.values()], c._template.process.pid, flush=True)
        time.sleep(600)
    ''')
    starter = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    pids = list(map(int, starter.stdout.readline().split()))
    assert len(pids) == 6 and all(map(alive, pids))
    starter.kill()
    starter.wait()
    starter.stdout.close()
    assert gone(pids)


def test_a_cluster_that_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match='workers and servers'):
        pslite.Cluster(0, 1)
    with pytest.raises(ValueError, match="one of .*'dist_async'.*, not 'local'"):
        pslite.Cluster(1, 1, 'local')


@pytest.mark.parametrize('how', [{'steps': 36}, {'server': '2'}, {'DMLC_NUM_SERVER': 2}])
def test_keywords_that_are_no_variables_are_refused_before_anything_starts(worker, how):
    name = next(iter(how))
    with pytest.raises(ValueError, match=f'{name}=.*stands without a name'):
        pslite.run(worker.steps, 1, 1, **how)
    with pytest.raises(ValueError, match=f'{name}=.*stands without a name'):
        cluster.Group(**how)


@pytest.mark.skipif(bool(links.unavailable()), reason=links.unavailable())
def test_members_run_in_hosts_of_their_own(worker):
    with links.Network(hosts=3, mbit=200) as net:
        with pslite.Cluster(2, 1, network=net) as c:
            places = c.run(worker.where)
            pids = [m.pid for m in c.members.values()]
            assert len({space for space, _ in places} | {os.readlink('/proc/self/ns/net')}) == 3
            assert {address for _, address in places} == set(net.addresses[1:])
            with pytest.raises(cluster.ClusterError, match='server 0 died'):
                c.kill('server 0')
                c.run(worker.steps, 10)
        assert pslite.run(worker.add, 1, 1, 5, network=net)[0][2] == [5, 5]
    assert gone(pids)


@pytest.mark.skipif(bool(links.unavailable()) or os.geteuid() or not shutil.which('setpriv'),
                    reason='the test above runs without privileges, or there are no links')
def test_members_run_in_hosts_that_belong_to_a_namespace_of_users(tmp_path):
    """As a user without privileges has them: root that may not make namespaces."""
    (tmp_path / 'd2l_elsewhere.py').write_text(SOURCE)
    code = textwrap.dedent(f'''
        import sys
        from local_cluster import links, pslite
        sys.path.append({str(tmp_path)!r})
        if not links.unavailable():
            with links.Network(hosts=3) as net, pslite.Cluster(2, 1, network=net) as c:
                assert net.user
                print(*(len(place) for place in c.run('d2l_elsewhere:where')))
    ''')
    said = subprocess.run(
        ['setpriv', '--bounding-set=-sys_admin', '--inh-caps=-sys_admin', sys.executable, '-c', code],
        capture_output=True, text=True, cwd=ROOT, timeout=300)
    if not said.stdout and not said.returncode:
        pytest.skip('no namespaces of users here')
    assert said.stdout == '2 2\n', said.stderr


def test_a_run_that_met_the_race_of_the_engine_is_done_once_more(monkeypatch):
    calls = []

    def fails(self, *args, **how):
        calls.append(args)
        raise cluster.ClusterError(f'worker 1 raised MXNetError: {pslite.ENGINE_RACE} 1280')
    monkeypatch.setattr(pslite.Cluster, '__init__', lambda self, *_, **__: None)
    monkeypatch.setattr(pslite.Cluster, '__enter__', lambda self: self)
    monkeypatch.setattr(pslite.Cluster, '__exit__', lambda self, *_: None)
    monkeypatch.setattr(pslite.Cluster, 'run', fails)
    with pytest.raises(cluster.ClusterError, match=pslite.ENGINE_RACE):
        pslite.run('module:function', 2, 1)
    assert len(calls) == 2      # and not a third time


def test_members_are_in_the_order_of_their_ranks():
    """As numbers: worker 10 comes after worker 2. ps-lite has numbered them in another order."""
    c = pslite.Cluster.__new__(pslite.Cluster)      # no processes: they have answered already
    c.wait_for = lambda late, timeout: None
    ranked = [SimpleNamespace(name=f'{kind} {i}', answer=pickle.dumps((i + 5) % 12))
              for kind in ('server', 'worker') for i in range(12)]
    c.members = {m.name: m for m in (SimpleNamespace(name='scheduler'), *ranked)}
    c._name_by_rank()
    assert list(c.members) == ['scheduler', *(f'{kind} {i}' for kind in ('server', 'worker')
                                              for i in range(12))]
    assert c.callers[10].name == 'worker 10' and c.callers[10].answer == pickle.dumps(10)
