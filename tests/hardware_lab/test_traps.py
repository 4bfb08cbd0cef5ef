"""Traps of measuring hardware, each of which a kernel could fall into, and twins in C."""

import contextlib
import ctypes
import math
import os
import re
import shutil
import subprocess
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from hardware_lab import KIB, MIB, NotHere, core, kernels, memory
from tested_results import machine
from tested_results.kernels import summarize
from tests.hardware_lab.stairs import exact, least

pytestmark = [pytest.mark.slow, pytest.mark.alone]

# --- the traps ------------------------------------------------------------------------------------

INTEL_OR_AMD = machine.platform.machine() in ('x86_64', 'AMD64')


@njit(nogil=True)
def chase_indices(following, n):
    """``n`` steps by indices into an array: the address arithmetic comes on top of a load."""
    j = following[0]
    for _ in range(n):
        j = following[j]
    return j


def indices(n):
    """An array whose entries form one random cycle."""
    order = np.random.default_rng(0).permutation(n)
    following = np.empty(n, np.int64)
    following[order] = np.roll(order, -1)
    return following


def test_trap_an_index_is_dearer_than_an_address():
    r, following = kernels.Ring(8 * KIB), indices(128)
    address, index = least(r.chase, lambda n: chase_indices(following, n))
    assert address < 1.1 * index                       # a kernel that fell into it would be the dearer
    if INTEL_OR_AMD:
        assert address < 0.95 * index
        body = next(iter(kernels.chase.inspect_asm().values())).split('retq')[0]
        loads = re.findall(r'mov\w*\s+\S*\((.*)\), %r', body)
        assert loads and not [x for x in loads if ',' in x]      # no index, nothing to add


def test_the_indices_visit_every_place():
    following, seen, j = indices(128), set(), 0
    for _ in range(128):
        j = following[j]
        seen.add(j)
    assert len(seen) == 128 and chase_indices(following, 128) == following[0]


@njit('int64(int32[::1])', nogil=True)
def naive_forward(a):
    """What a student writes first."""
    total = 0
    for i in range(a.size):
        total += a[i]
    return total


@njit('int64(int32[::1])', nogil=True)
def naive_backward(a):
    """And for the other direction."""
    total, n = 0, a.size
    for i in range(n):
        total += a[n - 1 - i]
    return total


def passes(kernel, arguments, n_each, n):
    """Call a kernel of ``n_each`` operations until ``n`` are done."""
    return [kernel(*arguments, n_each) for _ in range(max(1, n // n_each))][-1]


def vectors(function):
    """How often compiled code reads several numbers at once."""
    code = next(iter(function.inspect_llvm().values()))
    return len(re.findall(r'= load <\d+ x|llvm\.masked\.gather', code))


def test_trap_both_directions_run_the_same_instructions():
    """One compiled function for both, which reads one number at a time, and one stream of them.

    A time is not asserted: on two threads of one core that other work shares it says who the
    neighbour was.
    """
    numbers = kernels.aligned(16 * KIB).view(np.int64)
    numbers[:] = 1
    base, n = numbers.ctypes.data, numbers.nbytes // 64
    assert kernels.sum_lines(base, 64, n) == kernels.sum_lines(base + 64 * (n - 1), -64, n) == n
    assert len(kernels.sum_lines.signatures) == 1 and vectors(kernels.sum_lines) == 0


def test_trap_the_obvious_loops_do_not():
    """So a comparison of them would say what the compiler did, not what the memory does."""
    if vectors(naive_forward) == vectors(naive_backward):
        pytest.skip('this compiler vectorises both directions, or neither')
    x = np.ones(4096, np.int32)
    forward, backward = least(lambda n: [naive_forward(x) for _ in range(n)],
                              lambda n: [naive_backward(x) for _ in range(n)], first=1)
    assert backward > 1.25 * forward


def test_trap_the_bodies_of_a_branch_are_not_merged():
    """Nor is it an instruction that chooses: the guess is wrong half of the time, and it shows."""
    p = core.patterns()
    turn, random = least(*(core.going_on(kernels.branches, p[k]) for k in ('in turn', 'at random')))
    assert random > 1.5 * turn
    if INTEL_OR_AMD:
        code = next(iter(kernels.branches.inspect_asm().values()))
        assert re.search(r'\sj(n?e|n?z|[abgl]e?)\s', code)


def test_trap_a_predictor_learns_branches_that_come_again():
    """In short calls, as after a disturbed search for their length, a random branch takes what it does
    in one long call."""
    taken = core.patterns()['at random']
    short, whole = (core.going_on(kernels.branches, taken) for _ in range(2))
    short_calls, long_call = least(lambda n: [short(4096) for _ in range(256 * n)],
                                   lambda n: [whole(taken.size) for _ in range(n)], first=1)
    assert 1 / 1.5 < short_calls / long_call < 1.5


def test_trap_the_mutex_waits_for_a_first_thread(monkeypatch):
    order = []
    monkeypatch.setattr(core, 'time_kernel', lambda *_, **__: order.append('timed'))
    monkeypatch.setattr(threading.Thread, 'start', lambda self: order.append('started'))
    monkeypatch.setattr(threading.Thread, 'join', lambda self: order.append('ended'))
    try:
        core.mutex()
    except NotHere as e:
        pytest.skip(str(e))
    assert order == ['started', 'ended', 'timed']


def test_trap_a_ring_across_lines_has_memory_of_its_own():
    """Words that cross their lines would overwrite those of a ring in the same lines."""
    plain, shifted = kernels.Ring(16 * KIB), kernels.Ring(16 * KIB, offset=60)
    a, b = ((r.memory.ctypes.data, r.memory.ctypes.data + r.memory.size) for r in (plain, shifted))
    assert a[1] <= b[0] or b[1] <= a[0]
    assert shifted.start % 64 > 56 and plain.start % 64 == 0


def picks(monkeypatch, module):
    """The way in which figures are chosen from the samples, recorded instead of measured."""
    found = []
    monkeypatch.setattr(module, 'time_kernel',
                        lambda kernel, pick='least', **_: found.append(pick) or exact(1.0))
    return found


def test_trap_the_least_hides_false_sharing(monkeypatch):
    found = picks(monkeypatch, core)
    core.line_transfer()
    assert found == ['median']
    lucky = [5e-9] * 3 + [1.5e-8] * 20                 # the other thread had not begun
    assert summarize(lucky, 'median').value == 1.5e-8 > 2 * summarize(lucky, 'least').value


def test_trap_the_least_of_memory_is_a_line_that_was_cached(monkeypatch):
    found = picks(monkeypatch, memory)
    small = kernels.Ring(4 * KIB)
    monkeypatch.setattr(memory, 'ring', lambda n_bytes: small)
    monkeypatch.setattr(memory, 'reported_caches', lambda: {'L2': 2 * MIB})
    for size in (16 * KIB, MIB, 2 * MIB, 64 * MIB):
        memory.latency(size)
    assert found == ['least', 'least', 'median', 'median']


# --- in a process of its own: denormal numbers, and the C library's knowledge of threads ----------

FLAGS = ['-O2', '-shared', '-fPIC', '-pthread']        # never -ffast-math
COMPILERS = list({os.path.realpath(path): name for name in ('clang', 'gcc', 'cc')
                  if (path := shutil.which(name))}.values())
NO_COMPILER = 'no C compiler here (cc, gcc or clang): install one to compare the kernels with C'


def compile_c(name, source, target, flags):
    """Compile a file; returns where the result is."""
    command = [name, *flags, str(source), '-o', str(target), '-lm']
    subprocess.run(command, check=True, capture_output=True)
    return target


LAB = str(Path(kernels.__file__).parents[1])
DENORMAL = 'tiny = 2.2250738585072014e-308\nintact = lambda: tiny / 4 != 0.0\n'


def test_no_kernel_switches_denormal_numbers_off():
    """All kernels run in a process that has started no thread before; then it still knows the
    smallest numbers, and the mutex was measured after a first thread."""
    out = machine.run_child(DENORMAL + textwrap.dedent('''
        import ctypes
        def alone():
            try:
                return ctypes.c_char.in_dll(ctypes.CDLL(None), '__libc_single_threaded').value[0]
            except (ValueError, TypeError, OSError):
                return None
        assert intact()
        import numpy as np
        from hardware_lab import core, kernels, memory
        before, seen = alone(), []
        real = core.time_kernel
        core.time_kernel = lambda *a, **k: seen.append(alone()) or real(*a, **k)
        core.mutex(0.01)
        core.time_kernel = real
        print('mutex', before, *seen)
        for measure in core.clock, core.arithmetic, core.peaks, core.mispredict:
            measure(0.01)
        r = kernels.Ring(4096)
        r.chase(100), kernels.chains(r.starts(8), 64), kernels.sum_lines(r.memory.ctypes.data, 64, 8)
        kernels.read_all(np.ones(64, np.int64)), kernels.count(kernels.aligned(64).ctypes.data, 10)
        memory.bandwidth(n_bytes=2 ** 16, budget=0.01)
        small = np.full(4, np.float32(1e-38))
        assert intact() and (small / 8 > 0).all()
        print('denormals', intact())
    '''), OPENBLAS_NUM_THREADS='1', OMP_NUM_THREADS='1', PYTHONPATH=LAB)
    mutex, denormals = out.split('\n')[:2]
    assert denormals == 'denormals True'
    assert mutex.split()[2:] in (['0'], ['None'], [])          # 0: the library knows of threads


@pytest.mark.skipif(not COMPILERS, reason=NO_COMPILER)
@pytest.mark.parametrize('name', COMPILERS)
def test_trap_a_library_of_fast_math_switches_them_off(tmp_path, name):
    """Loading it is enough, for the whole process: no figure of ours may depend on such a library."""
    (tmp_path / 'empty.c').write_text('int nothing(void) { return 0; }\n')
    says = []
    for flags in (FLAGS, [*FLAGS, '-ffast-math']):
        library = compile_c(name, tmp_path / 'empty.c', tmp_path / f'{len(says)}.so', flags)
        says.append(machine.run_child(
            DENORMAL + f'import ctypes\nctypes.CDLL({str(library)!r})\nprint(intact())').strip())
    assert says[0] == 'True'
    if says[1] == 'True':
        pytest.skip(f'{name} no longer puts the start-up code of -ffast-math into libraries '
                    '(gcc from 13 on, clang from 19 on)')
    assert says[1] == 'False'


# --- twins in C -----------------------------------------------------------------------------------

@pytest.fixture(scope='module', params=COMPILERS or [None])
def twins(request, tmp_path_factory):
    """The library of ``twins.c``, compiled by each compiler that there is."""
    if request.param is None:
        pytest.skip(NO_COMPILER)
    source = Path(__file__).with_name('twins.c')
    lib = ctypes.CDLL(str(compile_c(request.param, source, tmp_path_factory.mktemp('twins') / 'twins.so',
                                    FLAGS)))
    word = n = ctypes.c_int64
    real = ctypes.c_double
    for name, result, arguments in (
            ('chase', word, [word, n]), ('chains', word, [word, n, n]),
            ('stride_sum', word, [word, word, word, n]), ('sum_lines', word, [word, word, n]),
            ('add_chain', real, [real, real, n]), ('multiply_chain', real, [real, real, n]),
            ('fma_chain', real, [real, real, n]), ('branches', word, [word, word, word, n, n]),
            ('mutex', n, [word, n]), ('ping', n, [word, word, n, n]), ('count', word, [word, n])):
        f = getattr(lib, name)
        f.restype, f.argtypes = result, arguments
    lib.compiler = request.param
    return lib


@pytest.fixture
def pairs(twins):
    """By name: our kernel of ``n`` operations and its twin, on the same memory, which lives as long
    as the test."""
    c = twins
    k, ring, far = kernels, kernels.Ring(16 * KIB), kernels.Ring(32 * MIB)
    data = kernels.aligned(256 * KIB)
    base, mask, lines = data.ctypes.data, data.size - 1, data.size // kernels.LINE
    data.view(np.int64)[:] = np.random.default_rng(0).integers(0, 2 ** 60, data.size // 8)
    starts = far.starts(8)      # in a first cache it would show how compilers keep the chains' places
    room = kernels.aligned(256)

    chains = starts.copy(), starts.copy()

    def both(name, *arguments, c_arguments=None):
        """Kernel and twin of this name, with these arguments before the number of operations."""
        f, g = getattr(k, name), getattr(c, name)
        g_arguments = arguments if c_arguments is None else c_arguments
        return lambda n: f(*arguments, n), lambda n: g(*g_arguments, n)

    found = {'chase': both('chase', ring.start),
             'chains': both('chains', chains[0], c_arguments=[chains[1].ctypes.data, 8])}
    for name, at, step in (('forward', base, 64), ('backward', base + 64 * (lines - 1), -64)):
        found[f'sum_lines {name}'] = tuple(
            lambda n, f=f, at=at, step=step: passes(f, (at, step), lines, n)
            for f in (k.sum_lines, c.sum_lines))
    for stride in (8, 64, 4096):
        found[f'stride_sum {stride}'] = both('stride_sum', base, mask, stride)
    for name in ('add_chain', 'multiply_chain', 'fma_chain'):
        found[name] = both(name, 1.0, 1.0)

    def branches_in_c(taken, work, n, first):
        return c.branches(taken.ctypes.data, taken.size, work.ctypes.data, n, first)

    for name in ('in turn', 'at random'):
        taken = core.patterns()[name]
        found[f'branches {name}'] = tuple(
            core.going_on(f, taken) for f in (k.branches, branches_in_c))
    counters, locks = room.ctypes.data, room.ctypes.data + 128
    # each counts in a counter of its own, so that both come to the same number
    found['count'] = both('count', counters, c_arguments=[counters + 64])
    with contextlib.suppress(NotHere):
        lock = kernels.mutex_kernel()
        core.at_once(lambda: None)      # until then, the C library knows of one thread alone
        found['mutex'] = (lambda n: lock(locks, n)), (lambda n: c.mutex(locks, n))
    yield found
    del ring, far, data, chains, room              # only their addresses were in use


def test_each_kernel_computes_what_its_twin_does(pairs):
    for name, (ours, theirs) in pairs.items():
        assert ours(8192) == theirs(8192), name


def test_each_kernel_takes_as_long_as_its_twin(twins, pairs):
    """On one core, the least of samples taken in turn: within a factor of 1.5. -s shows the table."""
    found, wrong = {}, []
    for name, (ours, theirs) in pairs.items():
        best = [math.inf] * 2
        for _ in range(9):                             # in a busy minute, the least takes longer to come
            best = [min(x) for x in zip(best, least(ours, theirs, rounds=4, first=4096), strict=True)]
            a, b = best
            found[name] = a, b, a / b
            if 1 / 1.5 < a / b < 1.5:
                break
        else:
            wrong.append(name)
    print(f'\n{twins.compiler}: ns per operation, ours, C, ratio')
    for name, (a, b, ratio) in found.items():
        print(f'{name:20} {a * 1e9:8.3f} {b * 1e9:8.3f} {ratio:6.2f}')
    assert not wrong, {name: found[name] for name in wrong}


def test_two_cores_as_the_twins_see_them(twins):
    """The results agree; the times differ by several times from minute to minute in a virtual machine,
    for the twins too."""
    room = kernels.aligned(64)
    word, base, patience = room.view(np.int64), room.ctypes.data, 10 ** 10

    def rally(f):
        def once(n):
            word[0] = 0
            ended = core.at_once(lambda: f(base, 0, patience, n), lambda: f(base, 1, patience, n))
            assert ended == [n, n] and word[0] == 2 * n
        return once

    def together(f):
        def once(n):
            word[0] = 0
            core.at_once(lambda: f(base, n), lambda: f(base, n))
            assert word[0] == 2 * n
        return once
    for library in (kernels, twins):
        rally(library.ping)(10)
        together(library.count)(10_000)
