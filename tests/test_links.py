"""Shaped links: they have their rate, meet nobody else, and nothing is left of them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from d2l_local import cluster, links
from tests.processes import alive, gone

pytestmark = pytest.mark.slow

RECEIVE = '''
import socket
s = socket.create_server(('0.0.0.0', 5000))
print('listening', flush=True)
while True:
    with s.accept()[0] as c:
        while c.recv(1 << 20):
            pass
'''
SEND = '''
import socket, sys, time
with socket.create_connection((sys.argv[1], 5000), 2) as c:
    start = time.perf_counter()
    c.sendall(bytes(int(sys.argv[2])))
    c.shutdown(socket.SHUT_WR)
    c.recv(1)
    print(time.perf_counter() - start)
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
    return subprocess.run(command, capture_output=True, text=True, timeout=30, **kw)


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


@pytest.mark.parametrize('sender, receiver, mbit', [(0, 1, 100), (1, 0, 100), (2, 0, 20), (0, 2, 20)])
def test_a_link_has_its_rate_in_both_directions(net, receive, sender, receiver, mbit):
    receive(receiver)
    size = 20_000 * mbit
    expected = 8 * size / (mbit * 1e6 * net.goodput)
    times = [float(python(net, sender, SEND, net.addresses[receiver], size).stdout) for _ in range(3)]
    assert min(times) == pytest.approx(expected, rel=0.15)


def test_both_directions_at_once_have_the_whole_rate(net, receive):
    receive(0)
    receive(1)
    size, expected = 1_000_000, 8e6 / (100e6 * net.goodput)

    def at_once():
        both = [subprocess.Popen(net.command(i, [sys.executable, '-c', SEND, net.addresses[1 - i],
                                                 str(size)]), stdout=subprocess.PIPE) for i in (0, 1)]
        return max(float(p.communicate(timeout=30)[0]) for p in both)
    assert min(at_once() for _ in range(5)) == pytest.approx(expected, rel=0.2)


def test_two_senders_share_the_link_of_a_receiver(net, receive):
    receive(1)
    size = 1_000_000
    program = [sys.executable, '-c', SEND, net.addresses[1], str(size)]
    senders = [subprocess.Popen(net.command(i, program), stdout=subprocess.PIPE) for i in (0, 2)]
    times = [float(p.communicate(timeout=30)[0]) for p in senders]
    assert max(times) > 0.8 * 8 * size / (20e6 * net.goodput)


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
        alone = python(net, 0, SEND, net.addresses[1], 1000)
        assert 'Connection refused' in alone.stderr
        receive(1)                      # the same port of the same address
        for network in (net, other):
            assert python(network, 0, SEND, network.addresses[1], 1000).returncode == 0


def test_the_cluster_runs_programs_in_hosts(net):
    code = ('import socket\nc = socket.create_server(("0.0.0.0", 5000)).accept()[0]\n'
            'while c.recv(1000): pass')
    with cluster.Processes() as group:
        server = group.start('server', net.command(2, [sys.executable, '-c', code]))
        while 'LISTEN' not in (seen := python(
                net, 2, "import re; t = open('/proc/self/net/tcp').read();"
                "print('LISTEN' if re.search(r':1388 \\S+ 0A', t) else '')").stdout):
            assert not server.poll(), seen
        group.start('client', net.command(0, [sys.executable, '-c', SEND, net.addresses[2], '10']))
        group.wait(timeout=30)


def test_leaving_ends_programs_and_removes_the_network(possible):
    with pytest.raises(ZeroDivisionError), links.Network(hosts=3) as net:
        script = ('import subprocess, sys; subprocess.Popen(["sleep", "60"]);'
                  'print("up", flush=True); sys.stdin.read()')
        program = subprocess.Popen(net.command(0, [sys.executable, '-c', script]), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert program.stdout.readline() == 'up\n'
        holder = net._holder.pid
        assert len(made := made_by(holder)) == 4
        _ = 1 / 0
    assert program.wait(5) == -signal.SIGKILL
    program.communicate()
    assert gone([holder]) and not made & namespaces()
    with pytest.raises(links.LinkError, match='closed'):
        net.command(0, ['true'])
    net.close()


OWNER = '''
import subprocess, sys, time
sys.path.insert(0, sys.argv[1])
import links
net = links.Network(hosts=3, mbit=100)
def quiet(*command):
    p = subprocess.Popen(net.command(1, command), start_new_session=True)
    while subprocess.run(['readlink', f'/proc/{p.pid}/ns/net'], capture_output=True
                         ).stdout == subprocess.run(['readlink', '/proc/self/ns/net'],
                                                    capture_output=True).stdout:
        time.sleep(0.01)
    return p.pid
print(net._holder.pid, quiet('sleep', '60'), quiet('sleep', '61'), flush=True)
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
        owner.communicate(timeout=10)
        assert gone(pids), 'programs or the holder outlive their owner'
        end = time.monotonic() + 5
        while (left := made & namespaces()) and time.monotonic() < end:
            time.sleep(0.02)
        assert not left
    finally:
        owner.kill()


@pytest.mark.parametrize('number', [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_owner_is_killed(possible, number):
    check_killed_owner([sys.executable], number, str(Path(links.__file__).parent))


@pytest.mark.skipif(not hasattr(os, 'geteuid') or os.geteuid() != 0,
                    reason='the other tests run as a user without privileges already')
def test_a_user_without_privileges_can_do_it_as_well(possible, tmp_path_factory):
    python = shutil.which('python3', path='/usr/bin:/usr/local/bin')
    nobody = {'user': 65534, 'group': 65534, 'extra_groups': [], 'cwd': '/'}
    if not python:
        pytest.skip('no Python that another user may run')
    with tempfile.TemporaryDirectory(dir='/tmp') as folder:      # pytest's own is for us alone
        os.chmod(folder, 0o755)
        shutil.copy(links.__file__, f'{folder}/links.py')
        os.chmod(f'{folder}/links.py', 0o644)
        ask = f'import sys; sys.path.insert(0, {folder!r}); import links; '
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
        source = Path(links.__file__).read_text().replace(
            'def _call(libc: ctypes.CDLL, function: str, *args: int) -> None:\n',
            'def _call(libc: ctypes.CDLL, function: str, *args: int) -> None:\n'
            '    raise PermissionError(1, "Operation not permitted")\n')
        (tmp_path / 'links.py').write_text(source)
        monkeypatch.setattr(links, '__file__', str(tmp_path / 'links.py'))
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
