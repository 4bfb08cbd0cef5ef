"""Small loops that each exercise one part of the machine, compiled by numba for this processor.

Every kernel takes the number ``n`` of its operations last, runs without Python's lock, and returns
something that depends on all of them, so that no compiler may drop any. No framework is needed.
"""

import ctypes
import functools
import warnings

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.errors import NumbaPerformanceWarning
from numba.extending import intrinsic

warnings.filterwarnings('ignore', category=NumbaPerformanceWarning)
LINE = 64                # bytes of a cache line on x86 and most Arm processors
WORD = ir.IntType(64)


# --- addresses ------------------------------------------------------------------------------------
# An index costs address arithmetic that hides in no latency; an address is the pure dependent load.

def _pointer(builder, address):
    return builder.inttoptr(address, WORD.as_pointer())


@intrinsic
def load(typing, address):
    """The 64-bit word at an address, aligned or not."""
    def code(context, builder, signature, args):
        word = builder.load(_pointer(builder, args[0]))
        word.align = 1
        return word
    return types.uint64(types.uint64), code


@intrinsic
def load_alone(typing, address):
    """The word at an aligned address, read by an instruction of its own: with AVX-512, LLVM would
    collect eight lines by a gather, which takes twice as long."""
    def code(context, builder, signature, args):
        return builder.load_atomic(_pointer(builder, args[0]), 'monotonic', 8)
    return types.uint64(types.uint64), code


@intrinsic
def read_shared(typing, address):
    """The word at an address that another core may be writing."""
    def code(context, builder, signature, args):
        return builder.load_atomic(_pointer(builder, args[0]), 'acquire', 8)
    return types.uint64(types.uint64), code


@intrinsic
def write_shared(typing, address, value):
    """Write a word that another core may be reading."""
    def code(context, builder, signature, args):
        builder.store_atomic(args[1], _pointer(builder, args[0]), 'release', 8)
        return context.get_dummy_value()
    return types.void(types.uint64, types.uint64), code


@intrinsic
def add_shared(typing, address, value):
    """Add to a word in one step that no other core can split; returns what stood there."""
    def code(context, builder, signature, args):
        return builder.atomic_rmw('add', _pointer(builder, args[0]), args[1], 'monotonic')
    return types.uint64(types.uint64, types.uint64), code


@intrinsic
def fma(typing, a, b, c):
    """``a * b + c``, rounded once."""
    def code(context, builder, signature, args):
        return builder.fma(*args)
    return types.float64(types.float64, types.float64, types.float64), code


# --- memory ---------------------------------------------------------------------------------------

def aligned(n_bytes: int, offset: int = 0) -> np.ndarray:
    """A zeroed array of bytes that starts ``offset`` bytes after a page boundary; it owns its memory."""
    raw = np.zeros(n_bytes + offset + 4096, np.uint8)
    start = -raw.ctypes.data % 4096 + offset
    return raw[start:start + n_bytes]


class Ring:
    """Addresses in random order: each slot holds the address of the next, and the last of the first.

    Args:
        n_bytes: size of the working set.
        stride: bytes from slot to slot; by default one slot in each cache line.
        offset: bytes from the start of a line to its slot; 60 lets the word cross into the next line.
    """

    def __init__(self, n_bytes: int, stride: int = LINE, offset: int = 0) -> None:
        n = max(2, n_bytes // stride)
        self.memory = aligned(n * stride + 8, offset)
        order = np.random.default_rng(0).permutation(n).astype(np.uint64)
        slots = np.ndarray((n,), np.uint64, self.memory, 0, (stride,))
        base = np.uint64(self.memory.ctypes.data)
        _link(slots, order, base, np.uint64(stride))
        self.start, self.slots = int(base + order[0] * np.uint64(stride)), n

    def chase(self, n: int) -> int:
        """Follow the addresses for ``n`` steps; the next call goes on where this one ended."""
        self.start = chase(self.start, n)
        return self.start

    def starts(self, k: int) -> np.ndarray:
        """``k`` addresses spread around the ring, for chains that go on side by side."""
        found, step = [self.start], self.slots // k
        for _ in range(k - 1):
            found.append(chase(found[-1], step))
        return np.array(found, np.uint64)


@njit(nogil=True)
def _link(slots, order, base, stride):
    for i in range(order.size - 1):
        slots[order[i]] = base + order[i + 1] * stride
    slots[order[order.size - 1]] = base + order[0] * stride


@njit('uint64(uint64, int64)', nogil=True)
def chase(address, n):
    """``n`` loads, each of which needs the one before it: latency and nothing else."""
    for _ in range(n):
        address = load(address)
    return address


@njit(nogil=True)
def chase_indices(following, n):
    """The same with indices into an array: the address arithmetic comes on top."""
    j = following[0]
    for _ in range(n):
        j = following[j]
    return j


@njit('uint64(uint64[:], int64)', nogil=True)
def chase_8(starts, n):
    """``n`` loads (a multiple of eight) in eight chains that do not need each other."""
    a, b, c, d, e, f, g, h = (starts[0], starts[1], starts[2], starts[3], starts[4], starts[5],
                              starts[6], starts[7])
    for _ in range(n // 8):
        a, b, c, d = load(a), load(b), load(c), load(d)
        e, f, g, h = load(e), load(f), load(g), load(h)
    starts[0], starts[1], starts[2], starts[3] = a, b, c, d
    starts[4], starts[5], starts[6], starts[7] = e, f, g, h
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h


@njit('uint64(uint64, uint64, uint64, int64)', nogil=True)
def stride_sum(base, mask, stride, n):
    """Sum of ``n`` words, ``stride`` bytes apart, in ``mask + 1`` bytes (a power of two).

    Each pass starts one line later than the last, so that a large stride does not come back
    to the few lines that it has just brought into the cache.
    """
    total, at = np.uint64(0), np.uint64(0)
    for _ in range(n):
        total += load(base + (at & mask))
        at += stride
        if (at & mask) < stride:
            at += np.uint64(LINE)
    return total


@njit('uint64(uint64, int64)', nogil=True)
def lines_forward(base, n):
    """Sum of the first word of ``n`` lines, lowest address first."""
    total = np.uint64(0)
    for i in range(n):
        total += load_alone(base + np.uint64(i * LINE))
    return total


@njit('uint64(uint64, int64)', nogil=True)
def lines_backward(base, n):
    """The same from the highest address down: the same instructions, so only the order differs."""
    total = np.uint64(0)
    for i in range(n - 1, -1, -1):
        total += load_alone(base + np.uint64(i * LINE))
    return total


@njit('uint64(uint64, int64)', nogil=True)
def words(base, n):
    """Sum of ``n`` words (a multiple of four) of eight bytes in a row, in four chains."""
    a = b = c = d = np.uint64(0)
    for i in range(n // 4):
        at = base + np.uint64(i * 32)
        a += load(at)
        b += load(at + np.uint64(8))
        c += load(at + np.uint64(16))
        d += load(at + np.uint64(24))
    return a + b + c + d


@njit('int64(int64[::1])', nogil=True)
def read_all(x):
    """Sum of all words, read in eight streams side by side: one stream alone keeps too few requests
    under way for what a core can read at best."""
    total, n = 0, x.size // 8
    for i in range(n):
        total += (x[i] + x[n + i] + x[2 * n + i] + x[3 * n + i] + x[4 * n + i] + x[5 * n + i]
                  + x[6 * n + i] + x[7 * n + i])
    return total


@njit(nogil=True)
def stream_copy(a, b, c, s):
    """STREAM's copy: 16 bytes for each number."""
    for i in range(a.size):
        c[i] = a[i]


@njit(nogil=True)
def stream_scale(a, b, c, s):
    """STREAM's scale: 16 bytes for each number."""
    for i in range(a.size):
        b[i] = s * c[i]


@njit(nogil=True)
def stream_add(a, b, c, s):
    """STREAM's add: 24 bytes for each number."""
    for i in range(a.size):
        c[i] = a[i] + b[i]


@njit(nogil=True)
def stream_triad(a, b, c, s):
    """STREAM's triad: 24 bytes for each number."""
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


@njit(nogil=True)
def passes_over(x, passes, block):
    """``x = 0.5 * x + 1``, ``passes`` times on each block of ``block`` numbers before the next block."""
    for begin in range(0, x.size, block):
        part = x[begin:begin + block]
        for _ in range(passes):
            for i in range(part.size):
                part[i] = np.float32(0.5) * part[i] + np.float32(1)


# --- the core -------------------------------------------------------------------------------------

@njit('uint64(uint64, int64)', nogil=True)
def clock_chain(x, n):
    """``n`` times multiply and exclusive or, each needing the last: 3 + 1 cycles on most cores."""
    for _ in range(n):
        x = (x * np.uint64(6364136223846793005)) ^ np.uint64(1442695040888963407)
    return x


@njit('float64(float64, float64, int64)', nogil=True)
def add_chain(x, y, n):
    """``n`` additions, each of which needs the one before it."""
    for _ in range(n):
        x = x + y
    return x


@njit('float64(float64, float64, int64)', nogil=True)
def multiply_chain(x, y, n):
    """``n`` multiplications in a row."""
    for _ in range(n):
        x = x * y
    return x


@njit('float64(float64, float64, int64)', nogil=True)
def fma_chain(x, y, n):
    """``n`` fused multiply-adds in a row."""
    for _ in range(n):
        x = fma(x, y, y)
    return x


@njit('float32(float32[::1], int64)', nogil=True)
def sum_in_order(x, n):
    """Sum of ``n`` numbers of ``x`` (it starts again at its end), strictly from left to right."""
    total = np.float32(0)
    for begin in range(0, n, x.size):
        for i in range(min(x.size, n - begin)):
            total += x[i]
    return total


@njit('float32(float32[::1], int64)', nogil=True, fastmath={'reassoc', 'nsz', 'contract'})
def sum_any_order(x, n):
    """The same when the compiler may change the order: then it uses the vector unit."""
    total = np.float32(0)
    for begin in range(0, n, x.size):
        for i in range(min(x.size, n - begin)):
            total += x[i]
    return total


@njit('uint64(uint8[::1], uint64[::1], int64)', nogil=True)
def branches(taken, work, n):
    """``n`` branches as ``taken`` says. The two bodies do different things to different places:
    equal bodies would be merged, and cheap ones turned into instructions without a branch.
    The length of ``taken`` is a power of two: a division would keep the branch waiting."""
    k = j = np.uint64(0)
    mask = np.uint64(taken.size - 1)
    for i in range(n):
        if taken[np.uint64(i) & mask]:
            work[k] += np.uint64(3)
            k = (k + np.uint64(1)) & np.uint64(31)
        else:
            work[np.uint64(32) + j] ^= np.uint64(5)
            j = (j + np.uint64(3)) & np.uint64(31)
    return k + j


@functools.cache
def _module(text: str):
    """Compile LLVM's own language for this processor; the engine must be kept alive."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    return engine


CHAINS = 12              # enough to hide the latency on two units, few enough for 16 registers


def fma_text(width: int) -> str:
    """A loop of twelve independent FMA chains on vectors of ``width`` float32, in LLVM's language."""
    kind = f'<{width} x float>' if width > 1 else 'float'
    name = f'llvm.fma.v{width}f32' if width > 1 else 'llvm.fma.f32'

    def number(x: float) -> str:
        return '<' + ', '.join([f'float {x}'] * width) + '>' if width > 1 else f'{x}'
    phis = '\n'.join(f'%a{i} = phi {kind} [{number(float(i))}, %entry], [%b{i}, %loop]'
                     for i in range(CHAINS))
    steps = '\n'.join(f'%b{i} = call {kind} @{name}({kind} %a{i}, {kind} {number(0.5)}, '
                      f'{kind} {number(1.0)})' for i in range(CHAINS))
    sums = '\n'.join(f'%s{i} = fadd {kind} {"%b0" if i == 1 else f"%s{i - 1}"}, %b{i}'
                     for i in range(1, CHAINS))
    last = f'%s{CHAINS - 1}'
    end = (f'%r = extractelement {kind} {last}, i32 0\nret float %r' if width > 1
           else f'ret float {last}')
    return f'''declare {kind} @{name}({kind}, {kind}, {kind})
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
  {end}
}}'''


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


def fma_peak(width: int):
    """A kernel of ``n`` rounded-once multiply-adds (two operations each) on vectors of ``width``."""
    engine = _module(fma_text(width))
    f = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(engine.get_function_address('peak'))
    return lambda n: f(max(1, n // (CHAINS * width)))


# --- cores together -------------------------------------------------------------------------------

@functools.cache
def mutex_kernel():
    """A kernel of ``n`` times lock and unlock of a POSIX mutex; None where there is none."""
    try:
        library = ctypes.CDLL(None)
        lock, unlock = library.pthread_mutex_lock, library.pthread_mutex_unlock
    except (TypeError, OSError, AttributeError):
        return None
    for f in (lock, unlock):
        f.argtypes, f.restype = [ctypes.c_size_t], ctypes.c_int

    @njit('int64(uint64, int64)', nogil=True)
    def kernel(address, n):
        failed = 0
        for _ in range(n):
            failed += lock(address) + unlock(address)
        return failed
    return kernel


@njit('int64(uint64, uint64, int64, int64)', nogil=True)
def ping(address, mine, patience, n):
    """One of two players: wait for ``mine`` and answer with one more, ``n`` times.

    Gives up after ``patience`` looks in vain; returns the number of answers.
    """
    for i in range(n):
        looks = 0
        while read_shared(address) != mine:
            looks += 1
            if looks > patience:
                return i
        write_shared(address, mine + np.uint64(1))
        mine += np.uint64(2)
    return n


@njit('uint64(uint64, int64)', nogil=True)
def count(address, n):
    """Add one to a counter ``n`` times, each time in memory."""
    last = np.uint64(0)
    for _ in range(n):
        last = add_shared(address, np.uint64(1))
    return last
