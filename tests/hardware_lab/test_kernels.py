"""The kernels of ``hardware_lab``: what they count, and what is made of it."""

import errno
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from hardware_lab import KIB, MIB, NotHere, core, kernels, memory
from tests.hardware_lab.stairs import stairs

pytestmark = pytest.mark.alone

# --- rings and sums -------------------------------------------------------------------------------

@pytest.mark.parametrize(('n_bytes', 'offset'), [(4 * KIB, 0), (4 * KIB, 4), (4 * KIB, 60), (1, 0)])
def test_a_ring_visits_every_slot_once(n_bytes, offset):
    r = kernels.Ring(n_bytes, offset)
    base, seen = r.memory.ctypes.data, []
    for _ in range(r.slots):
        seen.append(r.start - base)
        r.chase(1)
    assert base % 4096 == offset and r.slots == max(2, n_bytes // 64)
    assert sorted(seen) == [i * 64 for i in range(r.slots)]
    assert r.start - base == seen[0]                  # back where it began
    assert r.slots < 8 or seen != sorted(seen)        # in no order that a prefetcher knows


def test_a_ring_goes_on_where_it_ended_and_starts_chains_far_apart():
    one, two = kernels.Ring(64 * KIB), kernels.Ring(64 * KIB)
    one.chase(300)
    for _ in range(3):
        two.chase(100)
    assert one.start - one.memory.ctypes.data == two.start - two.memory.ctypes.data
    starts = two.starts(8)
    assert len(set(starts)) == 8
    for i in range(7):
        assert kernels.chase(int(starts[i]), two.slots // 8) == starts[i + 1]


def test_a_ring_beside_another_goes_the_same_way_in_the_same_lines():
    one = kernels.Ring(16 * KIB)
    two = one.beside(20)
    assert two.start - one.start == 20 and two.start % 8 == 4
    for _ in range(3):
        assert two.chase(100) - one.chase(100) == 20
    with pytest.raises(ValueError, match="60 bytes further on, .* another ring's"):
        one.beside(60)


def test_a_ring_follows_the_places_that_it_is_given():
    """Two words of each line, one right after the other; and all of them in any order."""
    lines = np.random.default_rng(0).permutation(64) * 64
    both = np.stack([lines, lines + 8], 1).ravel()
    for places in (lines, both, np.random.default_rng(1).permutation(both)):
        r = kernels.Ring(4 * KIB, places=places)
        base, seen = r.memory.ctypes.data, []
        for _ in places:
            seen.append(r.start - base)
            r.chase(1)
        assert seen == places.tolist() and r.start - base == places[0] and r.slots == len(places)


def test_eight_chains_go_as_far_as_one():
    r = kernels.Ring(64 * KIB)
    starts = r.starts(8)
    expected = [kernels.chase(int(s), 100) for s in starts]
    assert kernels.chains(starts, 800) == expected[0] and list(starts) == expected


def test_a_ring_that_does_not_fit_says_so():
    with pytest.raises(MemoryError, match='does not fit.*close other programs'):
        memory.ring(2 ** 50)


@pytest.fixture
def numbers():
    """4096 words in memory that begins at a page, their address in front."""
    data = kernels.aligned(32 * KIB)
    found = data.view(np.int64)
    found[:] = np.random.default_rng(0).integers(0, 2 ** 60, found.size)
    return data.ctypes.data, found, data


@pytest.mark.parametrize('stride', [8, 64, 512, 4096, 32 * KIB])
def test_the_sum_of_strides(numbers, stride):
    base, x, _ = numbers
    total, at, visited = 0, 0, set()
    for _ in range(2000):
        total += int(x[at % (32 * KIB) // 8])
        visited.add(at % (32 * KIB))
        at += stride
        if at % (32 * KIB) < stride:
            at += 64
    assert kernels.stride_sum(base, 32 * KIB - 1, stride, 2000) % 2 ** 64 == total % 2 ** 64
    assert len(visited) > 500                         # it does not come back to a few lines


@pytest.mark.parametrize('n', [0, 1, 7, 512])
def test_the_sum_of_lines_in_both_directions(numbers, n):
    base, x, _ = numbers
    expected = sum(x[::8][:n].tolist()) % 2 ** 64
    assert kernels.sum_lines(base, 64, n) % 2 ** 64 == expected
    assert kernels.sum_lines(base + 64 * (n - 1), -64, n) % 2 ** 64 == expected


def test_the_sum_of_all_words():
    for n in (8, 64, 4096):
        assert kernels.read_all(np.arange(n)) == n * (n - 1) // 2


def test_the_triad_of_stream():
    a, b, c = np.zeros(10), np.arange(10.0), np.ones(10)
    kernels.stream_triad(a, b, c, 3.0)
    assert (a == np.arange(10) + 3).all()


@pytest.mark.parametrize('offset', [0, 4, 60, 64])
def test_aligned_memory_is_where_it_should_be(offset):
    x = kernels.aligned(1000, offset)
    assert x.ctypes.data % 4096 == offset and x.size == 1000 and not x.any()


# --- the core -------------------------------------------------------------------------------------

def test_chains_compute_what_they_say():
    assert kernels.add_chain(1.0, 0.5, 10) == 6.0
    assert kernels.multiply_chain(1.0, 2.0, 10) == 1024.0
    assert kernels.fma_chain(1.0, 2.0, 3) == 22.0
    x = 1
    for _ in range(5):
        x = x * 6364136223846793005 % 2 ** 64 ^ 1442695040888963407
    assert kernels.clock_chain(1, 5) % 2 ** 64 == x


@pytest.mark.skipif(len(kernels.widths()) == 1, reason='this processor has no fused multiply-add')
def test_a_fused_multiply_add_rounds_once():
    """``(e - 1) (1 + e) + (1 + e)`` is e + e² if nothing is rounded in between, else e."""
    e = 2.0 ** -52
    assert kernels.fma_chain(e - 1, 1 + e, 1) == e + e * e


@pytest.mark.parametrize('width', kernels.widths())
def test_the_peak_kernels_do_the_work_that_they_are_paid_for(width):
    """The right sum comes out, of one run or of many; the code has the vectors and no spills."""
    text = kernels.fma_text(width)
    assert text.count('call ') == kernels.CHAINS
    run = kernels.fma_peak(width)
    assert run(kernels.CHAINS * width * 100) == pytest.approx(2 * kernels.CHAINS)   # x = x / 2 + 1
    start = [i / 2 + 1 for i in range(kernels.CHAINS)]
    assert run(1) == pytest.approx(sum(start))


def test_wider_vectors_are_not_slower():
    rounds = [list(core.peaks(budget=0.02).values()) for _ in range(5)]
    found = np.max(rounds, axis=0)          # whatever else runs, it only makes them slower
    if len(found) == 1:
        pytest.skip('no vector unit is known here')
    assert max(found) == pytest.approx(found[-1], rel=0.5) and found[-1] > 1.5 * found[0]


@pytest.mark.parametrize('name', ['in turn', 'at random'])
def test_branches_go_where_they_are_told(name):
    taken, work = core.patterns()[name], np.zeros(64, np.uint64)
    n = 5000
    end = kernels.branches(taken, work, n)
    yes = int(taken[:n].sum())
    assert work[:32].sum() == 3 * yes and end == yes % 32 + 3 * (n - yes) % 32
    visits = np.bincount(3 * np.arange(n - yes) % 32, minlength=32)
    assert (work[32:] == 5 * (visits % 2)).all()
    again = np.zeros(64, np.uint64)
    kernels.branches(taken, again, 2000)
    kernels.branches(taken, again, n - 2000, 2000)
    assert again[:32].sum() == work[:32].sum()        # goes on where it is told
    assert taken.size & (taken.size - 1) == 0         # the kernel takes the remainder with a mask


def test_patterns_are_what_they_are_called():
    p = core.patterns()
    assert (np.diff(p['in turn'].astype(int)) != 0).all()
    assert 0.49 < p['at random'].mean() < 0.51


def test_counting_alone_and_together():
    room = kernels.aligned(128).view(np.int64)
    base = room.ctypes.data
    assert kernels.count(base, 1000) == 999 and room[0] == 1000
    found = core.at_once(lambda: kernels.count(base, 20_000), lambda: kernels.count(base, 20_000))
    assert room[0] == 41_000 and max(found) == 40_999        # no step was lost


def test_two_players_answer_each_other():
    room = kernels.aligned(64).view(np.int64)
    base, n = room.ctypes.data, 20
    patience = 10 ** 10
    assert core.at_once(lambda: kernels.ping(base, 0, patience, n),
                        lambda: kernels.ping(base, 1, patience, n)) == [n, n]
    assert room[0] == 2 * n


def test_a_player_without_a_partner_gives_up(monkeypatch):
    room = kernels.aligned(64)
    assert kernels.ping(room.ctypes.data, 1, 1000, 5) == 0
    assert kernels.ping(room.ctypes.data, 0, 1000, 5) == 1      # its own first word, then nothing
    monkeypatch.setattr(kernels, 'ping', lambda *_: 0)
    with pytest.raises(RuntimeError, match='no second core'):
        core.line_transfer(budget=0.01)


def test_jobs_at_once():
    barrier = threading.Barrier(3)
    here = os.sched_getaffinity(0) if hasattr(os, 'sched_getaffinity') else None
    assert core.at_once(*(lambda i=i: (barrier.wait(300), i)[1] for i in range(3))) == [0, 1, 2]
    assert here is None or os.sched_getaffinity(0) == here
    ended = []

    def bad():
        raise KeyError('a job')
    with pytest.raises(KeyError, match='a job'):
        core.at_once(bad, lambda: ended.append(1))
    assert ended == [1]


def test_cores_that_share_nothing_come_first(monkeypatch):
    monkeypatch.setattr(core, 'siblings', lambda cpu: f'{cpu // 2 * 2}-{cpu // 2 * 2 + 1}')
    assert core.apart({3, 2, 1, 0}) == [0, 2, 1, 3] and core.apart([4, 5]) == [4, 5]
    monkeypatch.setattr(core, 'siblings', str)
    assert core.apart({3, 1, 2}) == [1, 2, 3]


def test_jobs_where_the_system_binds_no_thread(monkeypatch):
    """In a sandbox that forbids it they run all the same, instead of waiting for each other for ever."""
    def forbidden(*_):
        raise PermissionError(errno.EPERM, 'Operation not permitted')
    monkeypatch.setattr(os, 'sched_setaffinity', forbidden, raising=False)
    found = []
    thread = threading.Thread(daemon=True, target=lambda: found.append(
        core.at_once(lambda: 1, lambda: 2)))
    thread.start()
    thread.join(300)
    assert found == [[1, 2]]


def test_the_clock_and_the_units_stand_in_a_ratio_that_hardware_has():
    """An addition takes 1 to 8 whole cycles; so do the others."""
    hertz = max(core.clock(0.02) for _ in range(3))
    assert 2e8 < hertz < 2e10
    for name, f in core.arithmetic(0.02).items():
        assert 0.7 < f.value * hertz < 9, name


# --- memory ---------------------------------------------------------------------------------------

@pytest.mark.parametrize(('figures', 'found'), [
    (stairs(1, 1, 1, 4, 4, 4), [(16, 32)]),                           # sharp
    (stairs(1, 1, 1.5, 2.5, 4, 4), [(8, 64)]),                        # fuzzy: a wide pair
    (stairs(1, 1, 4, 4, 4, 40, 40), [(8, 16), (64, 128)]),            # two caches
    (stairs(1, 1.1, 1.05, 1.12, 1.0, 1.1), []),                       # flat but for noise
    (stairs(1, 1, 1.2, 1.2, 1.2), []),                                # too low a step
    (stairs(4, 4, 1, 1, 1), []),                                      # down is no edge
    (stairs(1, 1, 9, 1, 4, 4, wide=[2]), [(32, 64)]),                 # an unsteady point is left out
    (stairs(1, 1, 2, 4, 4, wide=[2]), [(8, 32)]),                     # and widens what it lies in
    (stairs(1, 1, 4, wide=[0, 1, 2]), []), (stairs(), []), (stairs(1), [])])
def test_edges(figures, found):
    assert memory.edges(figures) == [(a * KIB, b * KIB) for a, b in found]


def test_the_third_level_lies_between_two_edges():
    shared = stairs(1, 1, 4, 4, 20, 20, 21, 60, 60)
    assert memory.third_level(shared).value == pytest.approx(20e-9)
    # an unsteady point is no figure of it
    assert memory.third_level(stairs(1, 1, 4, 4, 20, 30, 20, 60, 60, wide=[5])).value == pytest.approx(20e-9)
    for steps in ((1, 1, 4, 4, 60, 60), (1, 1, 1), ()):
        with pytest.raises(NotHere, match='no level between the second cache and memory'):
            memory.third_level(stairs(*steps))


def reports(monkeypatch, folder, caches, platform='linux'):
    for i, files in enumerate(caches):
        (folder / f'index{i}').mkdir()
        for name, text in files.items():
            (folder / f'index{i}' / name).write_text(text + '\n')
    place = '/sys/devices/system/cpu/cpu0/cache'
    monkeypatch.setattr(memory, 'Path', lambda p: folder if p == place else Path(p))
    monkeypatch.setattr(memory.sys, 'platform', platform)


def test_reported_caches(monkeypatch, tmp_path):
    reports(monkeypatch, tmp_path, [
        {'type': 'Data', 'level': '1', 'size': '48K'},
        {'type': 'Instruction', 'level': '1', 'size': '32K'},
        {'type': 'Unified', 'level': '2', 'size': '2048K'},
        {'type': 'Unified', 'level': '3', 'size': '32M'},
        {'type': 'Unified', 'level': '4'}])                # no size: some Arm systems
    assert memory.reported_caches() == {'L1': 48 * KIB, 'L2': 2 * MIB, 'L3': 32 * MIB}


def test_no_reported_caches(monkeypatch, tmp_path):
    reports(monkeypatch, tmp_path, [])
    assert memory.reported_caches() == {}


def test_reported_caches_of_macos(monkeypatch, tmp_path):
    reports(monkeypatch, tmp_path, [], 'darwin')
    said = {'hw.l1dcachesize': '65536\n', 'hw.l2cachesize': '4194304\n', 'hw.l3cachesize': ''}
    monkeypatch.setattr(memory.subprocess, 'run', lambda command, **_:
                        subprocess.CompletedProcess(command, 0, stdout=said[command[-1]]))
    assert memory.reported_caches() == {'L1': 64 * KIB, 'L2': 4 * MIB}


def test_sizes_are_whole_lines_and_double():
    s = memory.sizes(64 * KIB)
    assert s[0] == 4 * KIB and s[-1] == 64 * KIB and len(s) == 9 and s[2] == 8 * KIB
    assert all(x % 64 == 0 for x in s) and s == sorted(s)


def test_a_staircase_climbs():
    """The figures come smallest set first; a set beyond the own caches is slower than one inside."""
    found = memory.staircase([64 * MIB, 16 * KIB], budget=0.02)
    assert list(found) == [16 * KIB, 64 * MIB]
    assert found[64 * MIB].value > 3 * found[16 * KIB].value


def test_streams_are_parts_of_arrays():
    parts = memory.streams(2, MIB)
    assert [[x.nbytes for x in part] for part in parts] == [[MIB // 2] * 3] * 2


@pytest.mark.parametrize('threads', [1, 2])
def test_bandwidth(threads):
    assert 1e8 < 1 / memory.bandwidth(threads=threads, n_bytes=MIB, budget=0.01).value < 1e13
