"""Shaped links: they have their rate, meet nobody else, and nothing is left of them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from local_cluster import cluster, links, system
from tests.living import alive, gone
from tools.source import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.alone]

RECEIVE = '''
import socket, threading
def take(c):
    with c:
        while c.recv(1 << 20):
            pass
s = socket.create_server(('0.0.0.0', 5000))
print('listening', flush=True)
while True:
    threading.Thread(target=take, args=s.accept()[:1], daemon=True).start()
'''
SEND = '''
import socket, sys, time
for line in sys.stdin:      # so many bytes; prints begin and end on the clock of all processes
    with socket.create_connection((sys.argv[1], 5000), 60) as c:
        start = time.monotonic()
        c.sendall(bytes(int(line)))
        c.shutdown(socket.SHUT_WR)
        c.recv(1)
        print(start, time.monotonic(), flush=True)
'''
CONNECT = '''
import socket, sys
with socket.create_connection((sys.argv[1], 5000), 60) as c:
    c.sendall(bytes(10))
    c.shutdown(socket.SHUT_WR)
    c.recv(1)
'''


@pytest.fixture
def possible():
    if why := links.unavailable():
        pytest.skip(why)


@pytest.fixture
def net(possible):
    with links.Network(hosts=3, mbit=[100, 100, 20]) as net:
        yield net


def run(command, **kw):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **kw)


def python(net, host, code, *args):
    return run(net.command(host, [sys.executable, '-c', code, *map(str, args)]))


@pytest.fixture
def receive(net):
    started = []

    def start(host, network=net):
        p = subprocess.Popen(network.command(host, [sys.executable, '-c', RECEIVE]),
                             stdout=subprocess.PIPE, text=True)
        assert p.stdout.readline() == 'listening\n'
        started.append(p)
    yield start
    for p in started:
        p.kill()
        p.communicate()


def interfaces():
    return run(['ip', '-o', 'link']).stdout


def namespaces(pids='[0-9]*'):
    """Network namespaces that processes are in or hold open, of those that we may look at."""
    found = set()
    for p in Path('/proc').glob(pids):
        try:
            found.add(os.stat(p / 'ns/net').st_ino)
            found.update(f.stat().st_ino for f in (p / 'fd').iterdir() if 'net:' in os.readlink(f))
        except OSError:
            pass
    return found


def made_by(holder):
    """The namespaces of one network; those of others may come and go meanwhile."""
    return namespaces(str(holder)) - namespaces('self')


@pytest.fixture
def senders_in():
    """Start senders, one for each pair of hosts; what it returns lets them send once, all at the same
    time, and gives the seconds from the first start to the last end."""
    started = []

    def start(net, *pairs):
        mine = [subprocess.Popen(net.command(a, [sys.executable, '-c', SEND, net.addresses[b]]),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for a, b in pairs]
        started.extend(mine)

        def send(size):
            for p in mine:
                p.stdin.write(f'{size}\n')
                p.stdin.flush()
            begins, ends = zip(*(map(float, p.stdout.readline().split()) for p in mine), strict=True)
            return max(ends) - min(begins)
        return send
    yield start
    for p in started:
        p.kill()
        p.communicate()


@pytest.fixture
def senders(net, senders_in):
    return lambda *pairs: senders_in(net, *pairs)


def check_rate(send, size, through, mbit, tolerance):
    """One of the transfers takes as long as ``through`` bytes take at this rate, and none takes less.

    What else goes on in the computer can only lengthen a transfer.
    """
    expected, times = 8 * through / (mbit * 1e6 * links.Network.goodput), []
    end = time.monotonic() + 30
    while not times or (times[-1] > (1 + tolerance) * expected and time.monotonic() < end):
        times.append(send(size))
    said = f'{expected:.3f} s expected, {", ".join(f"{t:.3f}" for t in times)}'
    assert (1 - tolerance) * expected <= min(times) <= (1 + tolerance) * expected, said


@pytest.mark.parametrize('sender, receiver, mbit', [(0, 1, 100), (1, 0, 100), (2, 0, 20), (0, 2, 20)])
def test_a_link_has_its_rate_in_both_directions(receive, senders, sender, receiver, mbit):
    receive(receiver)
    size = 20_000 * mbit
    check_rate(senders((sender, receiver)), size, size, mbit, 0.15)


def test_both_directions_at_once_have_the_whole_rate(receive, senders):
    receive(0)
    receive(1)
    check_rate(senders((0, 1), (1, 0)), 1_000_000, 1_000_000, 100, 0.2)


def waiting(net, host):
    """Bytes that wait in the queue of a host's own link."""
    tc = shutil.which('tc', path=links._path())
    shown = run(net.command(host, [tc, '-s', 'qdisc', 'show', 'dev', net.interface])).stdout
    number, unit = re.search(r'backlog (\d+)(K?)b', shown).groups()
    return int(number) * (1024 if unit else 1)


def test_answers_do_not_wait_long_behind_what_goes_out(net, receive, senders):
    """Else a link that is used in both directions at once would be slow in each."""
    receive(0)
    receive(1)
    sending = threading.Thread(target=senders((0, 1), (1, 0)), args=(10_000_000,))
    sending.start()
    seen = []
    while sending.is_alive():
        seen += [waiting(net, host) for host in (0, 1)]
    assert 0 < max(seen) < 2 * links.WAITING, seen


def test_a_fast_link_has_more_than_half_its_rate_in_both_directions_at_once(possible, receive, senders_in):
    """Beside pieces of two packets each, on the same computer at the same time: those take its time."""
    with links.Network(hosts=2, mbit=1000) as net, links.Network(hosts=2, mbit=1000) as slow:
        for network in (net, slow):
            receive(0, network), receive(1, network)
        for host in (0, 1):
            ip = shutil.which('ip', path=links._path())
            assert not run(slow.command(host, [ip, 'link', 'set', slow.interface, 'gso_max_size', '3000',
                                               'gso_max_segs', '2'])).returncode
        ours, theirs = (senders_in(n, (0, 1), (1, 0)) for n in (net, slow))
        times = [(ours(12_000_000), theirs(12_000_000)) for _ in range(9)]
    fast, plain = (sorted(side)[4] for side in zip(*times, strict=True))
    assert fast < plain, times


def test_two_senders_share_the_link_of_a_receiver(receive, senders):
    receive(2)
    check_rate(senders((0, 2), (1, 2)), 500_000, 1_000_000, 20, 0.2)


def test_a_host_sees_its_own_address_and_no_way_out(net):
    shown = run(net.command(1, ['ip', '-o', '-4', 'address'])).stdout
    assert net.addresses[1] in shown and net.interface in shown and '127.0.0.1' in shown
    assert net.addresses[0] not in shown
    out = python(net, 0, "import socket; socket.create_connection(('192.0.2.1', 80), 2)")
    assert 'Network is unreachable' in out.stderr
    assert python(net, 0, "import socket; socket.create_connection(('10.0.0.2', 5000), 2)").returncode


def test_the_computers_own_interfaces_are_left_alone(possible):
    before = interfaces()
    with links.Network(hosts=2) as net:
        during = interfaces()
        inside = run(net.command(0, ['ip', '-o', 'link'])).stdout
    assert before == during == interfaces()
    assert inside.count('\n') == 2


def test_two_networks_have_the_same_addresses_and_never_meet(net, receive):
    with links.Network(hosts=3) as other:
        assert other.addresses == net.addresses
        receive(1, other)
        alone = python(net, 0, CONNECT, net.addresses[1])
        assert 'Connection refused' in alone.stderr
        receive(1)                      # the same port of the same address
        for network in (net, other):
            assert python(network, 0, CONNECT, network.addresses[1]).returncode == 0


def test_the_cluster_runs_programs_in_hosts(net):
    code = ('import socket\nc = socket.create_server(("0.0.0.0", 5000)).accept()[0]\n'
            'while c.recv(1000): pass')
    with cluster.Group() as group:
        server = group.program('server', net.command(2, [sys.executable, '-c', code]))
        while 'LISTEN' not in (seen := python(
                net, 2, "import re; t = open('/proc/self/net/tcp').read();"
                "print('LISTEN' if re.search(r':1388 \\S+ 0A', t) else '')").stdout):
            assert not server.poll(), seen
        group.program('client', net.command(0, [sys.executable, '-c', CONNECT, net.addresses[2]]))
        group.wait(timeout=300)


def test_leaving_ends_programs_and_removes_the_network(possible):
    with pytest.raises(ZeroDivisionError), links.Network(hosts=3) as net:
        script = ('import subprocess, sys; subprocess.Popen(["sleep", "600"]);'
                  'print("up", flush=True); sys.stdin.read()')
        program = subprocess.Popen(net.command(0, [sys.executable, '-c', script]), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert program.stdout.readline() == 'up\n'
        holder = net._holder.pid
        assert len(made := made_by(holder)) == 4
        _ = 1 / 0
    assert program.wait(300) == -signal.SIGKILL
    program.communicate()
    assert gone([holder]) and not made & namespaces()
    with pytest.raises(links.LinkError, match='closed'):
        net.command(0, ['true'])
    net.close()


OWNER = '''
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from local_cluster import links
net = links.Network(hosts=3, mbit=100)
def quiet(*command):
    p = subprocess.Popen(net.command(1, command), start_new_session=True)
    while subprocess.run(['readlink', f'/proc/{p.pid}/ns/net'], capture_output=True
                         ).stdout == subprocess.run(['readlink', '/proc/self/ns/net'],
                                                    capture_output=True).stdout:
        time.sleep(0.01)
    return p.pid
print(net._holder.pid, quiet('sleep', '600'), quiet('sleep', '601'), flush=True)
sys.stdin.read()
'''


def check_killed_owner(command, signal_number, folder, **kw):
    owner = subprocess.Popen([*command, '-c', OWNER, folder], stdin=subprocess.PIPE, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    try:
        pids = [int(p) for p in owner.stdout.readline().split()]
        assert len(pids) == 3, owner.communicate()[1]
        assert all(map(alive, pids)) and len(made := made_by(pids[0])) == 4
        owner.send_signal(signal_number)
        owner.communicate(timeout=300)
        assert gone(pids), 'programs or the holder outlive their owner'
        end = time.monotonic() + 60
        while (left := made & namespaces()) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left
    finally:
        owner.kill()


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_owner_is_killed(possible, number):
    check_killed_owner([sys.executable], number, str(ROOT))


def copy_of_links(folder, change=str):
    """The module, with what it imports of the project, which another user may not be able to read."""
    package = Path(folder, 'local_cluster')
    package.mkdir()
    for name, text in (('__init__', ''), ('system', Path(system.__file__).read_text()),
                       ('links', change(Path(links.__file__).read_text()))):
        file = package / f'{name}.py'
        file.write_text(text)
        file.chmod(0o644)
    package.chmod(0o755)
    return str(package / 'links.py')


@pytest.mark.skipif(not hasattr(os, 'geteuid') or os.geteuid() != 0,
                    reason='the other tests run as a user without privileges already')
def test_a_user_without_privileges_can_do_it_as_well(possible, tmp_path_factory):
    python = shutil.which('python3', path='/usr/bin:/usr/local/bin')
    nobody = {'user': 65534, 'group': 65534, 'extra_groups': [], 'cwd': '/'}
    if not python:
        pytest.skip('no Python that another user may run')
    with tempfile.TemporaryDirectory(dir='/tmp') as folder:      # pytest's own is for us alone
        os.chmod(folder, 0o755)
        copy_of_links(folder)
        ask = f'import sys; sys.path.insert(0, {folder!r}); from local_cluster import links; '
        asked = run([python, '-B', '-c', ask + 'print(links.unavailable())'], **nobody)
        if asked.returncode or asked.stdout.strip():
            pytest.skip(f'not as another user here: {asked.stdout}{asked.stderr}')
        code = ask + textwrap.dedent('''
            import os, subprocess
            with links.Network(hosts=2) as net:
                assert os.geteuid() != 0 and '--user' in str(net.command(0, []))
                print(subprocess.run(net.command(1, ['ip', '-o', '-4', 'address']), text=True,
                                     capture_output=True).stdout)
            ''')
        assert '10.0.0.2' in run([python, '-B', '-c', code], **nobody).stdout
        check_killed_owner([python, '-B'], signal.SIGKILL, folder, **nobody)


def test_without_linux_or_a_tool_a_sentence_says_so(monkeypatch):
    ask = links.unavailable.__wrapped__
    with monkeypatch.context() as m:
        m.setattr(sys, 'platform', 'darwin')
        assert ask() == 'links can be shaped on Linux only'
    if sys.platform != 'linux':
        return
    for tool, package in links.TOOLS.items():
        with monkeypatch.context() as m:
            m.setattr(shutil, 'which', lambda name, path=None, tool=tool: None if name == tool else name)
            assert f"without the program '{tool}' (package {package} " in ask()
            with pytest.raises(links.LinkError, match=tool):
                links.Network(hosts=2)


@pytest.mark.parametrize('which, why', [('unshare', 'Operation not permitted'),
                                        ('ip', 'No such device')])
def test_where_it_is_not_permitted_a_sentence_says_so(monkeypatch, tmp_path, which, why):
    """The real holder, with a system call or a program that refuses."""
    if links._missing():
        pytest.skip(links._missing())
    if which == 'unshare':
        own = copy_of_links(tmp_path, lambda source: source.replace(
            'def _call(function: str, *args: int) -> None:\n',
            'def _call(function: str, *args: int) -> None:\n'
            '    raise PermissionError(1, "Operation not permitted")\n'))
        monkeypatch.setattr(links, '__file__', own)
    else:
        if links.unavailable():
            pytest.skip(links.unavailable())
        (tmp_path / 'ip').write_text('#!/bin/sh\necho first >&2\necho "No such device" >&2\nexit 2\n')
        (tmp_path / 'ip').chmod(0o755)
        monkeypatch.setenv('PATH', f"{tmp_path}:{os.environ['PATH']}")
    said = links.unavailable.__wrapped__()
    assert said.startswith('this system does not let this user') and why in said
    assert '\n' not in said and len(said) < 160


@pytest.mark.parametrize('hosts, mbit', [(0, 100), (2, 0), (2, [100]), (300, 100), (1, [-1])])
def test_a_network_that_makes_no_sense_is_refused(hosts, mbit):
    with pytest.raises(ValueError, match='positive rate'):
        links.Network(hosts, mbit)
