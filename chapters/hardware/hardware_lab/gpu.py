"""What asks PyTorch: the ladder's rows that need an NVIDIA GPU.

Without a GPU it imports too, and each of its rows says why there is no figure.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch

from hardware_lab import KIB, MIB, NotHere, ladder, or_reason
from hardware_lab.devices import per_call
from hardware_lab.figures import Row
from tested_results.conditions import condition
from tested_results.kernels import time_kernel
from tested_results.timing import Time

# One thread follows indices in random order, as on the CPU; LINKS of them in what its block shares.
LINE, LINKS = 128, 4096      # bytes of a cache line of NVIDIA's GPUs
SOURCE = '''
extern "C" __global__ void chase(const unsigned *links, unsigned *state,
                                 int n, int shared) {
    __shared__ unsigned next[4096];
    if (shared)                         // all threads of the block copy
        for (int i = threadIdx.x; i < 4096; i += blockDim.x)
            next[i] = links[i];
    __syncthreads();
    if (threadIdx.x != 0)
        return;                         // one thread follows the links
    unsigned at = *state;
    if (shared)
        while (n--)
            at = next[at];              // shared memory
    else
        while (n--)
            at = links[at];             // global memory
    *state = at;
}
'''


@condition('a GPU to measure')
def missing() -> str:
    """Why there is nothing to measure here; empty where PyTorch sees an NVIDIA GPU with 1 GiB free."""
    if torch.version.hip or not torch.cuda.is_available():
        return 'no GPU'
    return '' if torch.cuda.mem_get_info()[0] >= 2 ** 30 else 'less than 1 GiB is free on the GPU'


@condition('tensor cores')
def _no_tensor_cores() -> str:
    return missing() or ('' if torch.cuda.get_device_capability() >= (7, 0) else 'older than Volta')


@condition('a compiler for GPU kernels')
def _no_compiler() -> str:
    found = missing() or or_reason(_kernel)
    return found if isinstance(found, str) else ''


def measured(f: Callable[[], Any]) -> Any:
    """What ``f`` returns, or the sentence that says why this machine has no such figure."""
    found = missing() or or_reason(f)
    return f'not measured here: {found}' if isinstance(found, str) else found


@functools.cache
def _kernel() -> Callable[..., None]:
    """The kernel, compiled by NVRTC, which comes with PyTorch."""
    if not hasattr(torch.cuda, '_compile_kernel'):
        raise NotHere(f'PyTorch {torch.__version__} offers no compiler for kernels')
    return torch.cuda._compile_kernel(SOURCE, 'chase')


class Ring:
    """Indices in random order on the GPU: one in each line of ``n_bytes`` of its main memory, or, for 0,
    LINKS of them in the memory that the threads of one block share."""

    def __init__(self, n_bytes: int = 0) -> None:
        if 2 * n_bytes > torch.cuda.mem_get_info()[0]:
            raise NotHere(f'{n_bytes / MIB:.0f} MiB do not fit into the free memory of the GPU')
        slots = torch.randperm(n_bytes // LINE or LINKS).cuda() * (LINE // 4 if n_bytes else 1)
        self.links = torch.zeros(n_bytes // 4 or LINKS, dtype=torch.int32, device='cuda')
        self.links[slots], self.state = slots.roll(-1).int(), slots[:1].int()
        self.shared = int(not n_bytes)

    def chase(self, n: int) -> None:
        """``n`` loads by one thread, each of which needs the one before it; then wait."""
        _kernel()(block=(128, 1, 1), args=[self.links, self.state, n, self.shared])
        torch.cuda.synchronize()


ring = functools.lru_cache(4)(Ring)      # kept for the next experiment of the same size


def latency(n_bytes: int = 0) -> Time:
    """Time from a load to the next that needs it, in a :class:`Ring` of ``n_bytes``."""
    return time_kernel(ring(n_bytes).chase, 'median', budget=0.2, length=0.01)     # long against a launch


@functools.cache
def add() -> Callable[[], torch.Tensor]:
    """Issue the smallest operation there is: add one to one number."""
    return functools.partial(torch.zeros(1, device='cuda').add_, 1)


def launch(n: int = 1) -> None:
    """Issue ``n`` times the smallest operation, then wait: Python and PyTorch included."""
    for _ in range(n):
        add()()
    torch.cuda.synchronize()


@functools.cache
def graph() -> torch.cuda.CUDAGraph:
    """A CUDA graph of a hundred of these operations; ``graph().replay()`` issues them all."""
    launch(3)
    found = torch.cuda.CUDAGraph()
    with torch.cuda.graph(found):
        for _ in range(100):
            add()()
    return found


WAYS = ('to the GPU, pinned', 'to the GPU, pageable', 'from the GPU, pinned', 'from the GPU, pageable')


@functools.lru_cache(2)
def _ends(n_bytes: int, way: str) -> tuple[torch.Tensor, torch.Tensor]:
    host = torch.ones(n_bytes, dtype=torch.uint8, pin_memory='pinned' in way)  # pages are really there
    return (host.cuda(), host) if way.startswith('to') else (host, host.cuda())


def copies(n_bytes: int, way: str, pieces: int = 1) -> None:
    """Copy ``n_bytes`` in one of :data:`WAYS`, in as many pieces, and wait for each piece."""
    target, source = _ends(n_bytes, way)
    for a, b in zip(target.chunk(pieces), source.chunk(pieces), strict=True):
        a.copy_(b, non_blocking=True)
        torch.cuda.synchronize()


MEASURES: dict[str, Callable[[], Time]] = {
    'GPU shared memory access': latency,
    'GPU global memory access': lambda: latency(256 * MIB),
    'GPU global memory access, 16 KB in all': lambda: latency(16 * KIB),
    'GPU global memory access, 4 MB in all': lambda: latency(4 * MIB),
    'launch of a GPU kernel': lambda: per_call(launch, 'median'),
    'GPU operation, issued only': lambda: per_call(add(), 'median'),
    'GPU operation, one of 100 in a CUDA graph': lambda: per_call(
        lambda: (graph().replay(), torch.cuda.synchronize()), 'median') / 100,
    'transfer 1 MB to or from a GPU by PCIe':
        lambda: per_call(lambda: copies(MIB, 'to the GPU, pinned'), 'median')}


def rows() -> list[Row]:
    """The ladder's rows on GPUs, and some more, each measured or with the reason why not."""
    published = {action: seconds for action, seconds, _ in ladder.rows()}
    return [Row(action, published.get(action), measured(f)) for action, f in MEASURES.items()]
