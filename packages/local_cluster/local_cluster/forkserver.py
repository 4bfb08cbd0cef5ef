"""The process from which members are forked: it imports what they need, once.

A fork of the starter itself would hang: its threads for OpenMP do not survive a fork.
"""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from local_cluster import files, links, member, workers
from local_cluster.system import at_end, readable

START = 120.0       # seconds in which a template must have imported, and a member begun
ORPHANS = 5.0       # and in which what a member has left must have ended
# Of the starter's environment, what members do not get: its role in another cluster, and that one's address.
ROLES = re.compile(
    r'(DMLC|PS|TORCHELASTIC)_.*|(GROUP_|LOCAL_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME|MASTER_(ADDR|PORT)')


class ClusterError(RuntimeError):
    """A member failed. ``member`` is its name; the first line of the message says what happened."""

    def __init__(self, message: str, member: str | None = None) -> None:
        super().__init__(message)
        self.member = member

    @property
    def headline(self) -> str:
        """The first line of the message."""
        return str(self).split('\n')[0]


def environment() -> dict[str, str]:
    """What members inherit of this process's environment: all but its role in another cluster."""
    return {k: v for k, v in os.environ.items() if not ROLES.fullmatch(k)}


class Template:
    """The template as its starter sees it. It ends with this object and with the starter.

    Args:
        prepare: a function, ``'module:name'``, that imports what members need; empty for none.
        user: the file of the namespace of users that it enters before; empty for none.
        variables: of its environment, over what it inherits.

    Raises:
        ClusterError: it does not start, for instance because something cannot be imported.
    """

    def __init__(self, prepare: str, user: str, **variables: str) -> None:
        folder, (self.socket, theirs) = files.new_folder(), socket.socketpair()
        own = {'PYTHONPATH': str(Path(__file__).resolve().parents[1]), 'PYTHONSAFEPATH': '1'}
        with theirs, open(folder / 'log', 'wb') as log:
            self.process = subprocess.Popen(
                [sys.executable, '-m', 'local_cluster.forkserver', str(theirs.fileno()), user,
                 prepare, *sys.path], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, env={**environment(), **variables, **own})
        at_end(self, _end, self.process, self.socket, folder)
        self.socket.settimeout(START)
        try:
            ready = self.socket.recv(1)
        except TimeoutError:
            ready = b''
        if not ready:
            raise ClusterError(f'what members need was not imported within {START:g} s, or cannot be:\n'
                               + files.tail(folder / 'log'))

    def answers(self) -> bool:
        """Whether it lives. One that was killed closes its files before it can be waited for."""
        with contextlib.suppress(OSError):
            self.socket.send(b'?')
            return self.process.poll() is None and self.socket.recv(1) == b'r'
        return False

    def fork(self, namespace: str = '') -> tuple[int, Connection, Connection]:
        """A new member: its process id, a pipe for calls, and one that gives its exit code.

        Args:
            namespace: the file of the network namespace in which it lives, if not in ours.
        """
        (calls, theirs), (status, code) = multiprocessing.Pipe(), multiprocessing.Pipe()
        end = time.monotonic() + START
        with theirs, code, contextlib.suppress(EOFError, OSError), contextlib.ExitStack() as stack:
            host = [stack.enter_context(open(namespace))] if namespace else []
            socket.send_fds(self.socket, [b'f'], [f.fileno() for f in (theirs, code, *host)])
            while self.process.poll() is None and time.monotonic() < end:
                if status.poll(0.1):
                    return status.recv(), calls, status
        raise ClusterError('the process of which members are forks has died, or cannot fork')


def _end(process: subprocess.Popen, ours: socket.socket, folder: Path) -> None:
    ours.close()        # it sees that, and ends its members
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


# with the versions of the workers of which each was made
_templates: dict[tuple[str, str, int], tuple[Template, dict[str, int]]] = {}


def template(prepare: str, user: str, **variables: str) -> Template:
    """The template of this process that has prepared so; a new one if there is none that lives, or if the
    code of a worker has changed since, which the preparation may have imported."""
    if not hasattr(os, 'fork'):
        raise ClusterError('this system cannot fork a process: run groups on Linux or macOS, or in a '
                           'Linux machine inside this one, such as WSL')
    key = prepare, user, os.getpid()
    versions = dict(workers.versions) if prepare else {}
    made, made_of = _templates.get(key, (None, None))
    if made is None or made_of != versions or not made.answers():
        made = Template(prepare, user, **variables)
        _templates[key] = made, versions
    return made


# What follows runs in the template.

def _main(number: str, user: str, prepare: str, *path: str) -> None:
    """Prepare, then fork members on demand and send how they ended, until the starter is gone."""
    parent, starter = os.getppid(), socket.socket(fileno=int(number))
    member.adopt_orphans()
    starter.set_inheritable(False)
    sys.path[:] = path
    if user:
        links.enter(user)
    sys.dont_write_bytecode = True      # a worker that changes twice in a second has one time stamp
    if prepare:
        member.resolve(prepare)()
    wake, ended = os.pipe()
    os.set_blocking(ended, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)      # only with a handler it is written there
    signal.set_wakeup_fd(ended, warn_on_full_buffer=False)
    helpers = _children()       # of what was imported
    starter.send(b'r')
    members: dict[int, Connection] = {}
    while os.getppid() == parent:
        ready = readable(1.0, starter.fileno(), wake)
        if wake in ready:
            os.read(wake, 4096)
        if starter.fileno() in ready:
            asked, sent = socket.recv_fds(starter, 1, 3)[:2]
            if not asked:
                break
            with contextlib.suppress(OSError):      # a member that cannot be says nothing
                starter.send(b'r') if asked == b'?' else _fork(members, sent, starter)
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                code = members.pop(found[0], None)
                _end_orphans(helpers | members.keys())
                _say(code, os.waitstatus_to_exitcode(found[1]))
    for pid in members:
        with contextlib.suppress(OSError):      # and what they have started
            os.killpg(pid, signal.SIGKILL)
    _end_orphans(set())


def _end_orphans(known: set[int]) -> None:
    """End what members that have ended have left: our children that are not known.

    A process that left its member's group of processes is one as well: while the member lived, it was a child
    of the member or of its children, for members adopt orphans, and now it is ours.
    """
    end = time.monotonic() + ORPHANS
    while (left := _children() - known) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def _children() -> set[int]:
    with contextlib.suppress(psutil.Error):
        return {p.pid for p in psutil.Process().children()}
    return set()


def _fork(members: dict[int, Connection], sent: list[int], starter: socket.socket) -> None:
    for file in sent:
        os.set_inheritable(file, False)
    (calls, code), host = map(Connection, sent[:2]), sent[2:]
    if host:        # before the fork: in a fork, libraries may start threads before anybody else acts
        home = os.open('/proc/self/ns/net', os.O_RDONLY)
        links.enter(host[0])
    parent = os.getpid()
    try:
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (starter, code, *members.values()):
                other.close()
            os.setpgid(0, 0)
            member.run(calls, parent)
    finally:
        if host:
            with contextlib.suppress(PermissionError):      # in a namespace of users, it may stay
                links.enter(home)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)        # both do: whoever is first, nobody signals the wrong group
    members[pid] = code
    _say(code, pid)


def _say(code: Connection | None, number: int) -> None:
    with contextlib.suppress(AttributeError, OSError):      # not a member; the starter no longer asks
        code.send(number)


if __name__ == '__main__':
    _main(*sys.argv[1:])
