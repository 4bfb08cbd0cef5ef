"""Links of a chosen rate between hosts that exist only here. Linux; knows no framework.

A :class:`Network` has hosts with an address each, and a switch that connects them. Each link lets
so many bits a second pass, in each direction. The hosts are network namespaces of the kernel: a
program that is started in one sees its own interfaces (``lo`` and ``eth0``) and nothing of the
computer's real network, which is neither used nor changed. Files and processors are shared.

::

    with links.Network(hosts=4, mbit=100) as net:
        subprocess.run(net.command(0, ['ping', '-c1', net.addresses[1]]))

It needs root, or a system that lets its users make namespaces: :func:`unavailable` says why not.
"""

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from local_cluster.system import at_end, readable

NEWUSER, NEWNET = 0x10000000, 0x40000000    # flags of unshare(2)
QUEUE = 4_000_000      # bytes that wait at a link before packets are lost
BURST = 32_000         # bytes that may pass at once; the rate holds beyond them
START = 30.0           # seconds until a network must be up
WINDOW = 200           # packets that a connection sends before the first answer
WAITING = 32768        # bytes of a connection that wait in its own host's queue
PIECE = 0.2e-3         # seconds of a link that a sender hands over at once, for each piece costs time of the
PIECES = 3_000, 24_000     # computer; in bytes, from two packets to less than BURST
TOOLS = {'ip': 'iproute2', 'tc': 'iproute2', 'nsenter': 'util-linux'}


class LinkError(RuntimeError):
    """The network cannot be made; the message is a sentence that says why."""


class Network:
    """Hosts at a switch, gone with the block, with an error, and with the process that made them.

    Connections start at full speed, and keep the queue of their own host short: else the answers
    to what comes in would wait there behind what goes out, and a link that is used in both
    directions at once would be slow in each.

    One process holds all of it and ends with this one, even if that is killed.

    Args:
        hosts: how many.
        mbit: of each link and direction, in 10⁶ bit/s with the headers of the packets; one number
            per host, or one for all. A sender gets at most 96% of it through. All links are work of
            this computer's processors: from some hundreds of Mbit/s on they, and not the link, may set
            the pace, first where both directions are in use. Measure what yours carry.

    Attributes:
        addresses: of the hosts. Other networks may have the same ones and never meet them.
        interface: its name in every host.
        user: the file of the namespace of users to which the hosts belong; empty if root made them.
        goodput: the share of a link's rate that is left for what TCP carries.

    Raises:
        LinkError: this machine cannot do it, or does not permit it.
    """

    interface = 'eth0'
    goodput = 1448 / 1514       # of an Ethernet frame, which the shaper counts whole

    def __init__(self, hosts: int, mbit: float | Sequence[float] = 100) -> None:
        rates = list(mbit) if isinstance(mbit, Sequence) else [mbit] * hosts
        if not 1 <= hosts <= 250 or len(rates) != hosts or min(rates) <= 0:
            raise ValueError(f'from 1 to 250 hosts with a positive rate each, not {hosts} hosts '
                             f'with the rates {rates}')
        if missing := _missing():
            raise LinkError(missing)
        self.addresses = [f'10.0.0.{i + 1}' for i in range(hosts)]
        command = [sys.executable, '-m', 'local_cluster.links', *map(str, rates)]
        # A session of its own: an interrupt from the keyboard is for us, and then we end it.
        self._holder = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, 'PATH': _path(), 'PYTHONSAFEPATH': '1',
                 'PYTHONPATH': str(Path(__file__).resolve().parents[1])})
        self._stop = at_end(self, _end, self._holder)
        try:
            ready = readable(START, self._holder.stdout.fileno())
            answer = self._holder.stdout.readline().decode() if ready else ''
            if not answer.startswith('ready '):
                raise LinkError(answer.strip() or 'the process that holds the network has died')
            _, user, *self._files = answer.split()
        except BaseException:
            self.close()
            raise
        self.user = f'/proc/{self._holder.pid}/ns/user' if user == 'user' else ''

    def namespace(self, host: int) -> str:
        """The file of the network namespace of a host, for :func:`enter`."""
        if not self._stop.alive:
            raise LinkError('this network was closed')
        return f'/proc/{self._holder.pid}/fd/{self._files[host]}'

    def command(self, host: int, program: Sequence[str]) -> list[str]:
        """The command that runs a program in a host, for ``subprocess`` or a group."""
        user = [f'--user={self.user}', '--preserve-credentials'] if self.user else []
        return ['nsenter', *user, f'--net={self.namespace(host)}', '--', *program]

    def close(self) -> None:
        """End every program in the hosts, and remove the network. May be called again."""
        self._stop()

    def __enter__(self) -> 'Network':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _end(holder: subprocess.Popen) -> None:
    with contextlib.suppress(OSError):
        holder.stdin.close()        # the holder sees it, and ends what runs in the hosts
    try:
        holder.wait(5)
    except subprocess.TimeoutExpired:
        holder.kill()
        holder.wait()
    holder.stdout.close()


def _missing() -> str:
    if sys.platform != 'linux':
        return 'links can be shaped on Linux only'
    for tool, package in TOOLS.items():
        if not shutil.which(tool, path=_path()):
            return (f'links cannot be shaped without the program {tool!r} (package {package} on '
                    'Debian and Ubuntu)')
    return ''


def _path() -> str:
    return os.environ.get('PATH', '') + ':/usr/sbin:/sbin'     # not in every user's PATH


@functools.cache
def unavailable() -> str:
    """Why this machine cannot make such links, as a sentence; empty if it can."""
    try:
        Network(hosts=2, mbit=100).close()
    except LinkError as e:
        return str(e)
    return ''


if __name__ != '__main__':                      # the process that holds a network needs no results
    with contextlib.suppress(ImportError):      # where the other package is, its results may need links
        from tested_results.conditions import condition
        condition('links', system=True)(unavailable)


def enter(file: str | int) -> None:
    """Move this thread into a namespace. Into one of users, a process can before it has others."""
    opened = os.open(file, os.O_RDONLY) if isinstance(file, str) else file
    try:
        _call('setns', opened, 0)
    finally:
        os.close(opened)


# What follows runs in the process that holds the network.

def _hold(rates: list[str]) -> None:
    """Make the network, answer, wait until the parent is gone or closes it, end what runs in it."""
    parent = os.getppid()
    try:
        user = _leave()
        switch, hosts = _current(), []
        for _ in rates:
            _call('unshare', NEWNET)
            hosts.append(_current())
        _connect(switch, hosts, rates)
    except OSError as e:
        text = f'this system does not let this user make network namespaces ({e.strerror})'
    except subprocess.CalledProcessError as e:
        why = (e.stderr.strip().split('\n') or [''])[-1]
        text = f'this system does not let this user shape links ({" ".join(e.cmd[:3])}: {why})'
    else:
        text = ' '.join(['ready', user, *map(str, hosts)])
    print(text, flush=True)
    if text.startswith('ready'):
        while os.getppid() == parent and not readable(0.5, 0):
            pass                        # until the parent closes our input, or dies
        _sweep({os.stat(f'/proc/self/fd/{n}').st_ino for n in (switch, *hosts)})


def _leave() -> str:
    """Enter a new network namespace: as root, or as the root of a new user namespace."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        _call('unshare', NEWNET)
        return 'root'
    except PermissionError:
        _call('unshare', NEWUSER | NEWNET)
    for file, text in (('setgroups', 'deny'), ('uid_map', f'0 {uid} 1'), ('gid_map', f'0 {gid} 1')):
        with open(f'/proc/self/{file}', 'w') as f:
            f.write(text)
    return 'user'


def _connect(switch: int, hosts: list[int], rates: list[str]) -> None:
    def inside(namespace: int, *commands: str) -> None:
        _call('setns', namespace, NEWNET)
        for c in commands:
            subprocess.run(c.split(), check=True, capture_output=True, text=True)

    def shaped(device: str, rate: str) -> str:
        return (f'tc qdisc add dev {device} root tbf rate {float(rate) * 1e6:.0f}bit burst {BURST} '
                f'limit {QUEUE}')
    inside(switch, 'ip link add switch type bridge forward_delay 0 stp_state 0',
           'ip link set switch up')
    for i, (host, rate) in enumerate(zip(hosts, rates, strict=True)):
        piece = round(min(max(PIECES[0], float(rate) * 1e6 / 8 * PIECE), PIECES[1]))
        inside(switch, f'ip link add port{i} type veth peer name {Network.interface} netns '
               f'/proc/{os.getpid()}/fd/{host}',
               f'ip link set port{i} master switch up', shaped(f'port{i}', rate))
        inside(host, 'ip link set lo up', f'ip address add 10.0.0.{i + 1}/24 dev {Network.interface}',
               f'ip link set {Network.interface} up', shaped(Network.interface, rate))
        with contextlib.suppress(OSError, subprocess.CalledProcessError):   # good, yet not vital
            inside(host, f'ip route change 10.0.0.0/24 dev {Network.interface} '
                   f'initcwnd {WINDOW} initrwnd {5 * WINDOW}',
                   f'ip link set {Network.interface} gso_max_size {piece} gso_max_segs {piece // 1448}')
            for name, value in (('limit_output_bytes', WAITING), ('slow_start_after_idle', 0)):
                with open(f'/proc/sys/net/ipv4/tcp_{name}', 'w') as f:      # of this host
                    f.write(str(value))


def _call(function: str, *args: int) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), function)(*args):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _current() -> int:
    """An open file that keeps the present network namespace alive."""
    return os.open('/proc/self/ns/net', os.O_RDONLY)


def _sweep(namespaces: set[int]) -> None:
    """Kill the processes in these namespaces, and those that they start meanwhile."""
    end = time.monotonic() + 3
    while time.monotonic() < end:
        found = False
        for pid in filter(str.isdigit, os.listdir('/proc')):
            with contextlib.suppress(OSError):      # it has ended, or is none of ours
                if int(pid) != os.getpid() and os.stat(f'/proc/{pid}/ns/net').st_ino in namespaces:
                    os.kill(int(pid), signal.SIGKILL)
                    found = True
        if not found:
            return
        time.sleep(0.01)


if __name__ == '__main__':
    _hold(sys.argv[1:])
