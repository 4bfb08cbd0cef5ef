"""What ``hardware_lab.memory`` says where a system refuses: what to do, and no traceback."""

import mmap
import os

import numpy as np
import pytest

from hardware_lab import KIB, MIB, NotHere, kernels, memory, or_reason


@pytest.fixture
def two_nodes(monkeypatch):
    """A machine of two NUMA nodes, on each of which this process may run."""
    own = os.sched_getaffinity(0) if hasattr(os, 'sched_getaffinity') else {0}
    monkeypatch.setattr(memory, 'nodes', lambda: [own, own])
    return own


def refuse(*_):
    raise PermissionError(1, 'Operation not permitted')


def test_one_numa_node_says_what_it_takes(monkeypatch):
    monkeypatch.setattr(memory, 'nodes', lambda: [{0}])
    assert or_reason(lambda: memory.across(MIB)) == (
        'one NUMA node: it takes a machine with two, or a process that may run on both')


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'), reason='this system binds no process')
def test_cores_that_may_not_be_chosen_say_so(monkeypatch, two_nodes):
    monkeypatch.setattr(os, 'sched_setaffinity', refuse)
    with pytest.raises(NotHere, match='choose its cores: start it without a CPU limit, or with numactl'):
        memory.across(MIB)
    monkeypatch.undo()
    assert os.sched_getaffinity(0) == two_nodes


def test_nodes_that_may_not_be_read_are_one(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, '_nodes', tmp_path)
    monkeypatch.setattr(memory.machine, 'own_cores', lambda: {0, 1, 2, 3})
    for number, cores in enumerate(('0-1', '2,3', '4-7')):
        (tmp_path / f'node{number}').mkdir()
        (tmp_path / f'node{number}' / 'cpulist').write_text(cores)
    assert memory.nodes() == [{0, 1}, {2, 3}]
    monkeypatch.setattr(memory.Path, 'read_text', refuse)
    assert memory.nodes() == [{0, 1, 2, 3}]


class Refusing(mmap.mmap):
    """Memory of a system that takes no advice."""

    def madvise(self, *_):
        raise OSError(22, 'Invalid argument')


def test_huge_pages_that_are_refused_say_so(monkeypatch):
    monkeypatch.setattr(mmap, 'mmap', Refusing)
    with pytest.raises(NotHere, match='grants no huge pages: as administrator, write madvise to'):
        memory.paged_ring(MIB, huge=True)
    assert memory.paged_ring(MIB, huge=False).slots == MIB // 64        # these need no advice


@pytest.mark.parametrize('says', ['always madvise [never]', None])
def test_the_condition_of_huge_pages_says_what_to_do(monkeypatch, tmp_path, says):
    monkeypatch.setattr(memory, '_permits', tmp_path / 'enabled')
    if says:
        (tmp_path / 'enabled').write_text(says)
    assert memory._no_huge_pages() == memory.NO_HUGE


def test_huge_pages_that_are_not_granted_do_not_count(monkeypatch, tmp_path):
    (tmp_path / 'enabled').write_text('always [madvise] never')
    monkeypatch.setattr(memory, '_permits', tmp_path / 'enabled')
    monkeypatch.setattr(memory, '_room', lambda *_, **__: np.zeros(MIB, np.uint8))
    for granted, reason in ((0, memory.NO_HUGE), (2 * MIB, ''), (None, '')):
        monkeypatch.setattr(memory, 'in_huge_pages', lambda _, granted=granted: granted)
        assert memory._no_huge_pages() == reason


def test_what_lies_in_huge_pages_is_read_from_the_mapping(monkeypatch, tmp_path):
    room = kernels.aligned(8 * MIB)
    at = room.ctypes.data
    smaps = tmp_path / 'smaps'
    monkeypatch.setattr(memory, '_mappings', smaps)
    smaps.write_text(f'{at - 8192:x}-{at - 4096:x} rw-p 0 00:00 0\nAnonHugePages: 99 kB\n'
                     f'{at - 4096:x}-{at + room.nbytes:x} rw-p 0 00:00 0\nAnonHugePages: 4096 kB\n')
    assert memory.in_huge_pages(room) == 4096 * KIB
    assert memory.in_huge_pages(np.zeros(8, np.uint8)) is None
    smaps.write_text(smaps.read_text().replace('4096 kB', '409600 kB'))     # of other memory as well
    assert memory.in_huge_pages(room) == room.nbytes
    smaps.unlink()
    assert memory.in_huge_pages(room) is None
