"""Disk and loopback of ``hardware_lab``: figures, refusals, and nothing left behind."""

import errno
import os
import shutil
import socket
import subprocess

import pytest

from hardware_lab import MIB, NotHere, devices
from tests.hardware_lab.stairs import LINUX, needs_processes

# --- disk -----------------------------------------------------------------------------------------

@pytest.fixture
def folder(tmp_path):
    """A folder on a disk that a program can go around the cache of."""
    try:
        with devices.Disk(2 * MIB, str(tmp_path)):
            pass
    except NotHere as e:
        pytest.skip(f'no disk here: {e}')
    return tmp_path


def descriptors():
    """Open files of this process, where the system lists them."""
    return len(os.listdir('/proc/self/fd')) if LINUX else 0


@pytest.mark.parametrize('fails', [False, True])
def test_the_disk_leaves_no_file(folder, fails):
    before = descriptors()
    try:
        with devices.Disk(2 * MIB, str(folder)) as disk:
            assert not list(folder.iterdir())          # the file has lost its name already
            assert os.fstat(disk._file).st_size == 2 * MIB
            for how in ({}, {'write': True}, {'cached': True}, {'random_order': False}):
                times = disk.times(4096, 5, **how)
                assert len(times) == 5 and min(times) > 0
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert not list(folder.iterdir()) and descriptors() == before


def test_places_on_the_disk(folder):
    with devices.Disk(2 * MIB, str(folder)) as disk:
        there = disk.places(4096, 2000)
        assert all(p % 4096 == 0 and 0 <= p <= 2 * MIB - 4096 for p in there) and len(set(there)) > 300
        there = disk.places(MIB, 3, random_order=False)
    assert there in ([0, MIB, 0], [MIB, 0, MIB])


def test_the_disk_test_writes_at_most_256_megabytes(folder, monkeypatch):
    """Counted on a small file, beside which the whole one is written once."""
    written, real = [], os.pwritev
    monkeypatch.setattr(os, 'pwritev', lambda file, buffers, place: written.append(
        sum(map(len, buffers))) or real(file, buffers, place))
    monkeypatch.setattr(devices.Disk.__init__, '__defaults__', (8 * MIB, str(folder)))
    found = devices.disk_figures()
    assert 0 < devices.DISK_BYTES + sum(written) <= 256 * MIB
    assert all(f.value > 0 for f in found.values()) and not list(folder.iterdir())


def test_a_folder_in_memory_is_no_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, '_file_system', lambda folder: 'tmpfs')
    with pytest.raises(NotHere, match='lives in memory.*TMPDIR'):
        devices.Disk(folder=str(tmp_path))


def test_a_full_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, '_file_system', lambda folder: 'ext4')
    full = shutil.disk_usage(tmp_path)._replace(free=4 * devices.DISK_BYTES - 1)
    monkeypatch.setattr(devices.shutil, 'disk_usage', lambda folder: full)
    with pytest.raises(NotHere, match='less than 512 MiB are free.*TMPDIR'):
        devices.Disk(folder=str(tmp_path))


def test_a_system_that_cannot_go_around_its_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, '_file_system', lambda folder: 'ext4')
    monkeypatch.setattr(devices.sys, 'platform', 'sunos5')
    monkeypatch.delattr(os, 'O_DIRECT', raising=False)
    with pytest.raises(NotHere, match='no way around'):
        devices.Disk(2 * MIB, str(tmp_path))


@pytest.mark.skipif(not hasattr(os, 'O_DIRECT'), reason='no O_DIRECT on this system')
def test_a_file_system_that_refuses(monkeypatch, tmp_path):
    before, real = descriptors(), os.open

    def refuse(path, flags, *args, **how):
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, 'Invalid argument')
        return real(path, flags, *args, **how)
    monkeypatch.setattr(devices, '_file_system', lambda folder: 'ext4')
    monkeypatch.setattr(os, 'open', refuse)
    with pytest.raises(NotHere, match='Invalid argument'):
        devices.Disk(2 * MIB, str(tmp_path))
    assert not list(tmp_path.iterdir()) and descriptors() == before


@pytest.mark.skipif(not LINUX, reason='/proc is Linux')
def test_the_file_system_of_a_folder():
    assert devices._file_system('/proc/self') == 'proc'


# --- loopback -------------------------------------------------------------------------------------

@needs_processes
@pytest.mark.parametrize('protocol', ['TCP', 'UDP'])
@pytest.mark.parametrize('fails', [False, True])
def test_the_echo_leaves_no_process_and_no_port(monkeypatch, protocol, fails):
    children, real = [], subprocess.Popen
    monkeypatch.setattr(devices.subprocess, 'Popen',
                        lambda *a, **k: children.append(real(*a, **k)) or children[-1])
    before = descriptors()
    try:
        with devices.echo(protocol) as s:
            there = s.getpeername()
            s.send(b'once')
            assert s.recv(100) == b'once' and children[0].poll() is None
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert children[0].poll() is not None and descriptors() == before
    with socket.socket(socket.AF_INET, s.type) as s, pytest.raises(OSError):    # nobody listens any more
        s.settimeout(5)
        s.connect(there)
        s.send(b'?')
        s.recv(1)


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'), reason='this system binds no process')
def test_the_echo_binds_both_ends_and_lets_go():
    before = os.sched_getaffinity(0)
    f = devices.round_trip(same_core=True, budget=0.02)
    with pytest.raises(KeyError), devices.echo(core=min(before)):
        assert os.sched_getaffinity(0) == {min(before)}
        raise KeyError
    assert 0 < f.low <= f.value <= f.high < 0.1 and os.sched_getaffinity(0) == before


@pytest.mark.parametrize('protocol', ['TCP', 'UDP'])
def test_a_round_trip(protocol):
    assert 1e-7 < devices.round_trip(protocol, 1000, budget=0.02).value < 0.1


def test_a_round_trip_on_a_system_that_binds_nothing(monkeypatch):
    monkeypatch.delattr(os, 'sched_setaffinity', raising=False)
    with pytest.raises(NotHere, match='cannot bind'):
        devices.round_trip(same_core=True)


def test_an_echo_that_does_not_start(monkeypatch):
    monkeypatch.setattr(devices, '_ECHO', 'raise SystemExit(1)')
    with pytest.raises(NotHere, match='did not start'), devices.echo():
        pass
