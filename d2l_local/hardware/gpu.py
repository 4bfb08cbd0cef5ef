"""The rows of the latency ladder that need an NVIDIA GPU, measured through PyTorch.

``d2l_local.hardware`` does not import this module: it is for the PyTorch notebook. Without a GPU it
imports too; its tables then say so in each row.
"""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from d2l_local.conditions import condition
from d2l_local.hardware.devices import NotHere
from d2l_local.hardware.ladder import Row, _rows
from d2l_local.hardware.memory import KIB, MIB
from d2l_local.hardware.sampler import Figure, figure, sample
from d2l_local.hardware.table import Table
from d2l_local.timing import show_seconds

LINE = 128               # bytes of a cache line of NVIDIA's GPUs
LINKS = 4096             # words of the ring in shared memory: 16 KiB
ROOM = 2 ** 30           # bytes of the GPU's memory that must be free
LENGTH = 0.01            # seconds of a sample: long against the launch of the kernel that it contains

# One thread follows a chain of addresses, as on the CPU. The loads are written as assembly, for the
# address space must be known: a load that may go anywhere takes a detour.
SOURCE = '''
extern "C" __global__ void chase_global(unsigned long long *state, int n) {
    unsigned long long at = state[0];
    for (int i = 0; i < n; i++)
        asm volatile("ld.global.u64 %0, [%1];" : "=l"(at) : "l"(at));
    state[0] = at;
}

extern "C" __global__ void chase_shared(const unsigned *links, unsigned *state, int n) {
    __shared__ unsigned next[4096];
    unsigned base = (unsigned)__cvta_generic_to_shared(next);
    for (int i = threadIdx.x; i < 4096; i += blockDim.x)
        next[i] = base + 4 * links[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned at = base + 4 * state[0];
        for (int i = 0; i < n; i++)
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(at) : "r"(at));
        state[0] = (at - base) / 4;
    }
}
'''


def missing(kernel: bool = False, tensor_cores: bool = False) -> str:
    """Why there is nothing to measure here; empty where PyTorch sees an NVIDIA GPU.

    Args:
        kernel: ask for the compiler of our own kernels as well.
        tensor_cores: ask for a GPU that has them: Volta or newer.
    """
    if torch.version.hip or not torch.cuda.is_available():
        return 'no GPU'
    if torch.cuda.mem_get_info()[0] < ROOM:
        return 'less than 1 GiB is free on the GPU'
    if kernel:
        try:
            _kernel('chase_global')
        except NotHere as e:
            return str(e)
    if tensor_cores and torch.cuda.get_device_capability() < (7, 0):
        return f'{torch.cuda.get_device_name()} has no tensor cores'
    return ''


condition('a GPU to measure')(missing)
condition('a compiler for GPU kernels')(functools.partial(missing, kernel=True))
condition('tensor cores')(functools.partial(missing, tensor_cores=True))


# --- memory ---------------------------------------------------------------------------------------

@functools.cache
def _kernel(name: str) -> Callable[..., None]:
    """A kernel of :data:`SOURCE`, compiled by NVRTC, which comes with PyTorch.

    Raises:
        NotHere: this version of PyTorch has no such compiler, or it refused.
    """
    from torch.utils import cpp_extension
    build = getattr(torch.cuda, 'compile_kernel', None) or getattr(torch.cuda, '_compile_kernel', None)
    if build is None:
        raise NotHere(f'PyTorch {torch.__version__} offers no compiler for kernels')
    home = cpp_extension.CUDA_HOME
    cpp_extension.CUDA_HOME = home or '/'       # it wants headers; the kernels include none
    try:
        return build(SOURCE, name)
    except (OSError, RuntimeError) as e:
        raise NotHere(f'the kernel was not compiled: {e}') from None
    finally:
        cpp_extension.CUDA_HOME = home


@functools.cache
def _warm() -> None:
    """Keep the GPU busy until it has left the clock at which it idles."""
    x = torch.rand(2048, 2048, device='cuda')
    sample(lambda n: _finished(lambda: x @ x, n), budget=0.5, first=1, length=LENGTH)


def _finished(work: Callable[[], Any], n: int = 1) -> None:
    for _ in range(n):
        work()
    torch.cuda.synchronize()


def links(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A ring through ``n`` slots in random order: slots, and the slot that follows each, as int64."""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    return order, order.roll(-1)


class Ring:
    """Addresses in random order in the GPU's main memory, one in each line of ``n_bytes``."""

    def __init__(self, n_bytes: int) -> None:
        slots, following = (s.cuda() for s in links(max(2, n_bytes // LINE)))
        self.memory = torch.zeros(len(slots) * LINE // 8, dtype=torch.int64, device='cuda')
        base = self.memory.data_ptr()
        self.memory[slots * (LINE // 8)] = base + following * LINE
        self.state = base + slots[:1] * LINE

    def chase(self, n: int) -> None:
        """``n`` loads by one thread, each of which needs the one before it; then wait."""
        _finished(lambda: _kernel('chase_global')(args=[self.state, n]))


class SharedRing:
    """The same in the 16 KiB of shared memory that one block of threads takes for itself."""

    def __init__(self) -> None:
        slots, following = links(LINKS)
        target = torch.empty(LINKS, dtype=torch.int32)
        target[slots] = following.int()
        self.links, self.state = target.cuda(), torch.zeros(1, dtype=torch.int32, device='cuda')

    def chase(self, n: int) -> None:
        """Fill the ring, ``n`` loads by one thread, then wait."""
        kernel = _kernel('chase_shared')
        _finished(lambda: kernel(block=(128, 1, 1), args=[self.links, self.state, n]))


@functools.lru_cache(4)
def ring(n_bytes: int) -> Ring:
    """A ring in the GPU's memory, kept for the next experiment of the same size.

    Raises:
        NotHere: less than twice as much is free.
    """
    if 2 * n_bytes > torch.cuda.mem_get_info()[0]:
        raise NotHere(f'{n_bytes / MIB:.0f} MiB do not fit into the free memory of the GPU')
    return Ring(n_bytes)


@functools.cache
def shared_ring() -> SharedRing:
    """The ring in shared memory."""
    return SharedRing()


def latency(n_bytes: int | None = None, budget: float = 0.2) -> Figure:
    """Seconds from a load to the next that needs it, in a working set of ``n_bytes``; without it, in
    shared memory."""
    _warm()
    r = ring(n_bytes) if n_bytes else shared_ring()
    r.chase(min(n_bytes // LINE, 100_000) if n_bytes else LINKS)     # brings it into the caches
    return sample(r.chase, 'median', budget=budget, length=LENGTH)


# --- launches -------------------------------------------------------------------------------------

@functools.cache
def _number() -> torch.Tensor:
    return torch.zeros(1, device='cuda')


def launch(n: int = 1) -> None:
    """Issue ``n`` times the smallest operation there is, then wait: Python and PyTorch included."""
    x = _number()
    _finished(lambda: x.add_(1), n)


def launch_and_wait(n: int) -> None:
    """The same with a wait after each."""
    for _ in range(n):
        launch()


@functools.cache
def graph(operations: int = 100) -> torch.cuda.CUDAGraph:
    """A CUDA graph of as many of these operations; ``graph().replay()`` issues them all."""
    x, found = _number(), torch.cuda.CUDAGraph()
    launch(3)
    with torch.cuda.graph(found):
        for _ in range(operations):
            x.add_(1)
    return found


def _issue(n: int = 100, rounds: int = 50) -> Figure:
    """Seconds until the call returns. The queue is emptied between the rounds, outside the clock."""
    x, times = _number(), []
    launch(n)
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(n):
            x.add_(1)
        times.append((time.perf_counter() - begin) / n)
    return figure(times, 'median')


def _divided(f: Figure, by: float) -> Figure:
    return Figure(f.value / by, f.low / by, f.high / by, f.samples)


# --- transfers ------------------------------------------------------------------------------------

WAYS = {'to the GPU, pinned': (True, True), 'to the GPU, pageable': (True, False),
        'from the GPU, pinned': (False, True), 'from the GPU, pageable': (False, False)}
SIZES = tuple(KIB * 4 ** i for i in range(10))      # 1 KiB to 256 MiB


@functools.lru_cache(2)
def _ends(n_bytes: int, pinned: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Room in this machine's memory and on the GPU."""
    try:
        host = torch.ones(n_bytes, dtype=torch.uint8)       # written: the pages are really there
        return host.pin_memory() if pinned else host, host.cuda()
    except RuntimeError as e:
        raise NotHere(f'no room for {n_bytes / MIB:g} MiB ({type(e).__name__})') from None


def copies(n_bytes: int, way: str, n: int = 1, pieces: int = 1) -> None:
    """Copy ``n_bytes`` ``n`` times, in as many pieces, and wait for each copy.

    Args:
        way: a key of :data:`WAYS`. Pinned memory stays where it is, so that the GPU fetches it by
            itself; pageable memory is first copied to such a place by the CPU.
    """
    to_gpu, pinned = WAYS[way]
    host, gpu = _ends(n_bytes, pinned)
    target, source = (gpu, host) if to_gpu else (host, gpu)
    parts = list(zip(target.chunk(pieces), source.chunk(pieces), strict=True))
    for _ in range(n):
        for a, b in parts:
            _finished(lambda a=a, b=b: a.copy_(b, non_blocking=True))


def transfer(n_bytes: int, way: str = 'to the GPU, pinned', budget: float = 0.05) -> Figure:
    """Seconds for one copy of ``n_bytes``, the wait for it included."""
    _warm()
    return sample(lambda n: copies(n_bytes, way, n), 'median', budget=budget, first=1)


def fit(times: Mapping[int, float]) -> tuple[float, float]:
    """The start α in seconds and the rate β in bytes per second of the cost model α + n / β.

    Least squares on the *relative* errors, or else the largest transfer alone would decide.

    Args:
        times: seconds by number of bytes; at least two sizes.

    Raises:
        ValueError: too few sizes, or times that do not grow with the size.
    """
    if len(times) < 2:
        raise ValueError('a line needs two sizes at least')
    n, t = np.array(list(times), float), np.array(list(times.values()), float)
    (alpha, slope), *_ = np.linalg.lstsq(np.stack([1 / t, n / t], 1), np.ones(len(t)), rcond=None)
    if slope <= 0:
        raise ValueError('the times do not grow with the size: there is no rate to find')
    return max(0.0, float(alpha)), 1 / float(slope)


def transfer_table(measure: Callable[[int, str], Figure] | None = None,
                   sizes: Iterable[int] = SIZES) -> Table:
    """Start and rate of each way between this machine's memory and the GPU's, with the worst error
    of the cost model.

    Args:
        measure: seconds by number of bytes and way; by default :func:`transfer`.
    """
    def cells(way: str) -> tuple[str, ...]:
        times = {n: (measure or transfer)(n, way).value for n in sizes}
        alpha, beta = fit(times)
        off = max(max(t / (alpha + n / beta), (alpha + n / beta) / t) for n, t in times.items())
        return show_seconds(alpha), f'{beta / 1e9:.3g} GB/s', f'{off:.2f}×'
    return Table(('copy', 'start α', 'rate β', 'model off by up to'),
                 [(way, *_or_reason(lambda w=way: cells(w), 3, measure)) for way in WAYS])


# --- products -------------------------------------------------------------------------------------

PRECISIONS = {'float64': (torch.float64, 'highest'), 'float32': (torch.float32, 'highest'),
              'float32 by way of TF32': (torch.float32, 'high'),
              'float16': (torch.float16, 'highest'), 'bfloat16': (torch.bfloat16, 'highest'),
              'int8': (torch.int8, 'highest')}


@functools.lru_cache(4)
def _square(dtype: torch.dtype, side: int) -> torch.Tensor:
    return torch.randint(-2, 3, (side, side), device='cuda').to(dtype)


def product(kind: str, side: int = 4096) -> Callable[[], torch.Tensor]:
    """A call that multiplies two square matrices on the GPU in one of :data:`PRECISIONS`."""
    dtype, precision = PRECISIONS[kind]

    def call() -> torch.Tensor:
        a = _square(dtype, side)
        multiply = torch._int_mm if dtype == torch.int8 else torch.mm
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            return multiply(a, a.T)       # the layout that all units can read
        finally:
            torch.set_float32_matmul_precision(before)
    return call


def product_rate(kind: str, side: int = 4096) -> float:
    """Operations per second of such a product."""
    _warm()
    call = product(kind, side)
    return 2 * side ** 3 / sample(lambda n: _finished(call, n), 'median', budget=0.1, first=1,
                                  length=LENGTH).value


def product_table(measure: Callable[[str], float] | None = None) -> Table:
    """Rates of products by precision.

    Args:
        measure: operations per second by precision; by default :func:`product_rate`.
    """
    def cells(kind: str) -> tuple[str, ...]:
        return (f'{(measure or product_rate)(kind) / 1e12:.3g} TFLOP/s',)
    return Table(('numbers', 'matrix product'),
                 [(kind, *_or_reason(lambda k=kind: cells(k), 1, measure)) for kind in PRECISIONS])


# --- rows -----------------------------------------------------------------------------------------

def _measured(f: Callable[[], Any], fake: Any = None) -> Any:
    """What ``f`` returns, or the sentence that says why there is no figure."""
    if not fake and (reason := missing()):
        return f'not measured here: {reason}'
    try:
        return f()
    except (NotHere, MemoryError, RuntimeError, OSError, AttributeError, ValueError) as e:
        return f'not measured here: {str(e).splitlines()[0] if str(e) else type(e).__name__}'


def _or_reason(cells: Callable[[], tuple[str, ...]], width: int, fake: Any) -> tuple[str, ...]:
    found = _measured(cells, fake)
    return (found, *[''] * (width - 1)) if isinstance(found, str) else found


def _nvlink() -> Figure:
    raise NotHere('it takes an NVLink')


MEASURES: dict[str, Callable[[], Figure]] = {
    'GPU shared memory access': latency,
    'GPU global memory access': lambda: latency(256 * MIB),
    'GPU global memory access, 16 KB in all': lambda: latency(16 * KIB),
    'GPU global memory access, 4 MB in all': lambda: latency(4 * MIB),
    'launch of a GPU kernel': lambda: sample(launch_and_wait, 'median'),
    'GPU operation, issued only': _issue,
    'GPU operation, one of 100 in a CUDA graph':
        lambda: _divided(sample(lambda n: _finished(graph().replay, n), 'median'), 100),
    'transfer 1 MB to or from a GPU by PCIe': lambda: transfer(MIB),
    'transfer 1 MB to or from a GPU by NVLink': _nvlink,
}


def rows(measures: Mapping[str, Callable[[], Figure]] | None = None) -> list[Row]:
    """The ladder's rows on GPUs, and some more, each measured or with the reason why not.

    The launch is that of PyTorch's smallest operation with a wait for it, so it holds the cost of
    the call in Python as well.

    Args:
        measures: a figure by the action of a row; by default :data:`MEASURES`.
    """
    textbook = {action: seconds for action, seconds, _ in _rows()}
    found = []
    for action, measure in (measures or MEASURES).items():
        f = _measured(measure, measures)
        found.append(Row(action, textbook.get(action), *((None, f) if isinstance(f, str) else (f,))))
    return found
