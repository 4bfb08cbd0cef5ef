"""Small loops that each exercise one part of the machine, compiled by numba for this processor.

Every kernel takes the number ``n`` of its operations last, runs without Python's lock, and returns
something that depends on all of them, so that no compiler may drop any. It is compiled when it is
first called, so a first call is no sample. Addresses are 64-bit integers. No framework is needed.
"""

import copy
import ctypes
import functools
import platform
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from hardware_lab import NotHere

LINE = 64                # bytes of a cache line on x86 and most Arm processors


# An index costs address arithmetic that hides in no latency; an address is the pure dependent load.

def _place(builder, address):
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


def _reader(read: Callable):
    """A function of compiled code: the word at an address, as ``read(builder, place)`` reads it."""
    @intrinsic
    def access(typing, address):
        def code(context, builder, signature, args):
            return read(builder, _place(builder, args[0]))
        return types.int64(types.int64), code
    return access


def _unaligned(builder, place):
    word = builder.load(place)
    word.align = 1
    return word


#: The word at an address, aligned or not.
load = _reader(_unaligned)

#: The word at an aligned address, which another core may be writing, read by an instruction of its own:
#: with AVX-512, LLVM would collect eight lines by a gather, which takes twice as long.
load_alone = _reader(lambda builder, place: builder.load_atomic(place, 'monotonic', 8))

@intrinsic
def write_shared(typing, address, value):
    """Write a word that another core may be reading."""
    def code(context, builder, signature, args):
        builder.store_atomic(args[1], _place(builder, args[0]), 'release', 8)
        return context.get_dummy_value()
    return types.void(types.int64, types.int64), code


@intrinsic
def add_shared(typing, address, value):
    """Add to a word in one step that no other core can split; returns what stood there."""
    def code(context, builder, signature, args):
        return builder.atomic_rmw('add', _place(builder, args[0]), args[1], 'monotonic')
    return types.int64(types.int64, types.int64), code

def aligned(n_bytes: int, offset: int = 0) -> np.ndarray:
    """A zeroed array of bytes that starts ``offset`` bytes after a page boundary; it owns its memory."""
    raw = np.zeros(n_bytes + offset + 4096, np.uint8)
    start = -raw.ctypes.data % 4096 + offset
    return raw[start:start + n_bytes]


class Ring:
    """Addresses in random order: one in each cache line holds
    the address of the next, and the last that of the first.

    Args:
        n_bytes: size of the working set.
        offset: bytes from the start of a line to its slot; 60 lets the word cross into the next line.
        memory: where it lies, at least a word longer than ``n_bytes``; its own by default.
        places: where its words lie, in the order in which they follow one another, in bytes from the
            start; one in each line, in random order, by default.
    """

    def __init__(self, n_bytes: int, offset: int = 0, memory: np.ndarray | None = None,
                 places: np.ndarray | None = None) -> None:
        n = max(2, n_bytes // LINE)
        self.memory = aligned(n * LINE + 8, offset) if memory is None else memory
        if places is None:
            self.slots = n
            self._lay(0)
        else:
            self.slots, base = len(places), self.memory.ctypes.data
            self.memory[:n * LINE].view(np.int64)[places // 8] = base + np.roll(places, -1)
            self.start = int(base + places[0])

    def _lay(self, offset: int) -> None:
        order, base = np.random.default_rng(0).permutation(self.slots), self.memory.ctypes.data + offset
        _link(np.ndarray((self.slots,), np.int64, self.memory, offset, (LINE,)), order, base)
        self.start = int(base + order[0] * LINE)

    def beside(self, offset: int) -> 'Ring':
        """A second ring in the same lines, in the same order, ``offset`` bytes (8 to 56) further on."""
        if not 8 <= offset <= LINE - 8:
            raise ValueError(f'{offset} bytes further on, a word would lie on another ring\'s')
        other = copy.copy(self)
        other._lay(offset)
        return other

    def chase(self, n: int) -> int:
        """Follow the addresses for ``n`` steps; the next call goes on where this one ended."""
        self.start = chase(self.start, n)
        return self.start

    def starts(self, k: int) -> np.ndarray:
        """``k`` addresses spread around the ring, for chains that go on side by side."""
        found = [self.start]
        for _ in range(k - 1):
            found.append(chase(found[-1], self.slots // k))
        return np.array(found, np.int64)


@njit(nogil=True)
def _link(slots, order, base):
    for i in range(order.size):
        slots[order[i - 1]] = base + order[i] * LINE


@njit(nogil=True)
def chase(address, n):
    """``n`` loads, each of which needs the one before it: latency and nothing else."""
    for _ in range(n):
        address = load(address)
    return address


@njit(nogil=True)
def chains(at, n):
    """``n`` loads (a multiple of their number) in chains side by side, which do not need each other."""
    for _ in range(n // at.size):
        for i in range(at.size):
            at[i] = load(at[i])
    return at[0]


@njit(nogil=True)
def stride_sum(base, mask, stride, n):
    """Sum of ``n`` words, ``stride`` bytes apart, in ``mask + 1`` bytes (a power of two).

    Each pass starts one line later than the last, so that a large stride does not come back
    to the few lines that it has just brought into the cache.
    """
    total = at = 0
    for _ in range(n):
        total += load(base + (at & mask))
        at += stride
        if (at & mask) < stride:
            at += LINE
    return total


@njit(nogil=True)
def sum_lines(base, step, n):
    """Sum of ``n`` words, the first at ``base``, each ``step`` bytes from the last: -64 goes backwards
    from line to line, by the same instructions as 64."""
    total = 0
    for i in range(n):
        total += load_alone(base + i * step)
    return total


@njit(nogil=True)
def read_all(x):
    """Sum of all words, read in eight streams side by side: one stream alone keeps too few requests
    under way for what a core can read at best."""
    total, n = 0, x.size // 8
    for i in range(n):
        total += (x[i] + x[n + i] + x[2 * n + i] + x[3 * n + i] + x[4 * n + i] + x[5 * n + i]
                  + x[6 * n + i] + x[7 * n + i])
    return total


@njit(nogil=True)
def stream_triad(a, b, c, s):
    """STREAM's triad: two numbers are read and one is written."""
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


@njit(nogil=True)
def stream_scale(a, b, s):
    """STREAM's scale: a number is read and one is written. A plain copy would become a call of ``memcpy``,
    which writes large arrays around the caches."""
    for i in range(a.size):
        a[i] = s * b[i]


@njit(nogil=True)
def clock_chain(x, n):
    """``n`` times multiply and exclusive or, each needing the last: 3 + 1 cycles on most cores."""
    for _ in range(n):
        x = (x * 6364136223846793005) ^ 1442695040888963407
    return x


@njit(nogil=True)
def add_chain(x, y, n):
    """``n`` additions, each of which needs the one before it."""
    for _ in range(n):
        x = x + y
    return x


@njit(nogil=True)
def multiply_chain(x, y, n):
    """``n`` multiplications in a row."""
    for _ in range(n):
        x = x * y
    return x


@njit(nogil=True, fastmath={'contract'})
def fma_chain(x, y, n):
    """``n`` fused multiply-adds in a row, rounded once each where the processor has them."""
    for _ in range(n):
        x = x * y + y
    return x


@njit(nogil=True)
def branches(taken, work, n, first=0):
    """``n`` branches as ``taken`` says, from place ``first`` on. The two bodies do different things to
    different places: equal bodies would be merged, and cheap ones turned into instructions without a
    branch. The length of ``taken`` is a power of two: a division would keep the branch waiting."""
    k = j = np.uint64(0)
    mask = np.uint64(taken.size - 1)
    for i in range(first, first + n):
        if taken[np.uint64(i) & mask]:
            work[k] += np.uint64(3)
            k = (k + np.uint64(1)) & np.uint64(31)
        else:
            work[np.uint64(32) + j] ^= np.uint64(5)
            j = (j + np.uint64(3)) & np.uint64(31)
    return k + j


# Enough to hide a latency of four or five cycles, few enough for the registers: on x86 two units and,
# with AVX2, 16 registers; on large Arm cores four units and 32 registers.
CHAINS = 16 if platform.machine().lower() in ('aarch64', 'arm64') else 12


def fma_text(width: int) -> str:
    """A loop of independent FMA chains on vectors of ``width`` float32, in LLVM's language."""
    kind, each = f'<{width} x float>', range(CHAINS)

    def number(x: float) -> str:
        return '<' + ', '.join([f'float {x}'] * width) + '>'
    phis = '\n'.join(f'%a{i} = phi {kind} [{number(float(i))}, %entry], [%b{i}, %loop]' for i in each)
    steps = '\n'.join(f'%b{i} = call {kind} @llvm.fma.v{width}f32({kind} %a{i}, {kind} {number(0.5)}, '
                      f'{kind} {number(1.0)})' for i in each)
    sums = '\n'.join(f'%s{i} = fadd {kind} {f"%s{i - 1}" if i else number(0.0)}, %b{i}' for i in each)
    return f'''declare {kind} @llvm.fma.v{width}f32({kind}, {kind}, {kind})
define float @peak(i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%j, %loop]
  {phis}
  {steps}
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %exit
exit:
  {sums}
  %r = extractelement {kind} %s{CHAINS - 1}, i32 0
  ret float %r
}}'''


@functools.cache
def fma_peak(width: int) -> Callable[[int], float]:
    """A kernel of ``n`` rounded-once multiply-adds (two operations each) on vectors of ``width``."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(fma_text(width)), machine)
    engine.finalize_object()
    peak = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(engine.get_function_address('peak'))

    def kernel(n: int) -> float:
        return peak(max(1, n // (CHAINS * width)))
    kernel.engine = engine       # the code lives as long as it
    return kernel


def widths() -> dict[int, str]:
    """The vector widths of this processor, in float32 numbers, with the names of their instructions."""
    has = llvm.get_host_cpu_features()
    found = {1: 'scalar'}
    if has.get('fma') or has.get('neon') or not has:
        found[4] = '128 bit' if has.get('fma') else '128 bit (NEON)'
    if has.get('fma') and has.get('avx2'):
        found[8] = '256 bit (AVX2)'
    if has.get('avx512f'):
        found[16] = '512 bit (AVX-512)'
    return found

@functools.cache
def mutex_kernel():
    """A kernel of ``n`` times lock and unlock of a POSIX mutex."""
    try:
        library = ctypes.CDLL(None)
        lock, unlock = library.pthread_mutex_lock, library.pthread_mutex_unlock
    except (TypeError, OSError, AttributeError):
        raise NotHere('this system has no POSIX mutex') from None
    for f in (lock, unlock):
        f.argtypes, f.restype = [ctypes.c_ssize_t], ctypes.c_int

    @njit(nogil=True)
    def kernel(address, n):
        failed = 0
        for _ in range(n):
            failed += lock(address) + unlock(address)
        return failed
    return kernel


@njit(nogil=True)
def ping(address, mine, patience, n):
    """One of two players: wait for ``mine`` and answer with one more, ``n`` times.

    Gives up after ``patience`` looks in vain; returns the number of answers.
    """
    for i in range(n):
        looks = 0
        while load_alone(address) != mine:
            looks += 1
            if looks > patience:
                return i
        write_shared(address, mine + 1)
        mine += 2
    return n


@njit(nogil=True)
def count(address, n):
    """Add one to a counter ``n`` times, each time in memory; returns what stood there last."""
    last = 0
    for _ in range(n):
        last = add_shared(address, 1)
    return last
