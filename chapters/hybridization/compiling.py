"""What the pages on ``torch.compile`` need: a cache of their own, and the code that Inductor generates."""

import contextlib
import logging
import os
import platform
import re
import shutil
import tempfile
import textwrap
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.utils import clear_caches, get_code

# AOTInductor's precompiled headers would stay outside of the cache's folder.
SETTINGS = {'aot_inductor.precompile_headers': False}
if platform.machine() in ('x86_64', 'AMD64'):
    # To find out which vector instructions there are, Inductor would compile and run a program for each
    # kind. Here it trusts what the processor reports.
    SETTINGS['cpp.vec_isa_ok'] = True
# The code that a page prints is the same on every x86 processor: it has vectors of 256 bits, which all have.
SHOWN = {'cpp.simdlen': 256} if 'cpp.vec_isa_ok' in SETTINGS else {}

# With a CUDA toolkit and no GPU, the first compilation says on standard error that there is no CUDA runtime.
logging.getLogger('torch.utils.cpp_extension').setLevel(logging.ERROR)

_open: list['fresh_compile_cache'] = []
_headers: list[tempfile.TemporaryDirectory] = []        # of this process, deleted at its end


class fresh_compile_cache(contextlib.AbstractContextManager):   # noqa: N801, used as a function
    """From now on ``torch.compile`` keeps what it compiles in an empty folder of its own.

    So the first compilation really is the first, whatever ran on this machine before, and nothing
    stays behind. Inductor's settings are its defaults. It precompiles the headers of its C++ once on a
    machine, 150 MB for each set of flags; here it does so once in a process, in a folder of their own, and
    only where ``openssl`` is installed, which PyTorch needs for it.

    ``cache = fresh_compile_cache()`` at the top of a page and ``cache.close()`` at its end, or a ``with``
    statement. Closing deletes the folder and restores every setting; if it is forgotten, the next cache
    or the end of the process does it. What is compiled can be called further on.

    Attributes:
        folder: where the compiled code lies.
    """

    def __init__(self) -> None:
        while _open:            # a cell that ran twice: the older one first, or it would undo this one
            _open.pop().close()
        with contextlib.ExitStack() as stack:
            self.folder = Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix='torch_compile_', ignore_cleanup_errors=True)))
            stack.enter_context(_environment('TORCHINDUCTOR_CACHE_DIR', str(self.folder)))
            stack.enter_context(_environment('TRITON_CACHE_DIR', str(self.folder / 'triton')))
            stack.enter_context(config.patch(SETTINGS))
            if shutil.which('openssl'):
                stack.enter_context(_precompiled_headers())
            else:
                stack.enter_context(config.patch('cpp_cache_precompile_headers', False))
            clear_caches()      # what this process has in memory of the cache before
            stack.callback(clear_caches)
            self._closing = weakref.finalize(self, stack.pop_all().close)
        _open.append(self)

    def close(self) -> None:
        """Delete the folder and restore the settings."""
        self._closing()
        if self in _open:
            _open.remove(self)

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set one environment variable, and set or remove it again."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


@contextlib.contextmanager
def _precompiled_headers() -> Iterator[None]:
    """Let Inductor put the precompiled headers of its C++ into a folder of this process."""
    from torch._inductor import codecache
    remembered = codecache._precompile_header       # where each lies
    if not _headers:
        _headers.append(tempfile.TemporaryDirectory(prefix='torch_headers_', ignore_cleanup_errors=True))
        remembered.cache_clear()
    folder = Path(_headers[0].name)
    with (config.patch('cpp_cache_precompile_headers', True),
          mock.patch.multiple(codecache, _HEADER_DIR=str(folder), _HEADER_LOCK_DIR=str(folder / 'locks'))):
        yield


def generated_code(function: Callable, *inputs: torch.Tensor, triton: bool = False) -> str:
    """The Python module that Inductor writes for a function; nothing is compiled or run.

    On x86 its C++ has vectors of 256 bits, also where the processor has wider ones.

    What was compiled before in this process is forgotten, as by ``torch.compiler.reset``.

    Args:
        function: of tensors, or a module, that makes one graph.
        inputs: what it is called with; the code is for inputs of these shapes.
        triton: write Triton, as for a GPU, in place of C++. It takes neither a GPU nor Triton.

    Raises:
        torch._dynamo.exc.Unsupported: the function makes more than one graph.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(config.patch(SHOWN))
        stack.enter_context(config.patch(fx_graph_cache=False))
        stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        if triton:
            stack.enter_context(config.patch(cpu_backend='triton'))
            # Triton's version, which goes into the code; where Triton is not installed it has none.
            stack.enter_context(mock.patch('torch.utils._triton.triton_hash_with_backend', str))
        code, = filter(None, get_code(torch.compile(function, fullgraph=True), *inputs))
    torch.compiler.reset()      # what get_code compiled cannot be called
    return code


def kernels(code: str) -> list[str]:
    """The loops in C++, or the functions in Triton, of a module that Inductor wrote: one text a kernel.

    Of a C++ kernel only its loops are kept, and some notation is dropped that says nothing to a reader:
    casts of whole numbers to ``int64_t`` and the name space ``at::vec``.
    """
    return [_triton_function(k) if '@triton.jit' in k else _cpp_loops(k)
            for k in re.findall(r"'''\n(.*?)'''", code, re.DOTALL)]


def _triton_function(kernel: str) -> str:
    return kernel[kernel.index('@triton.jit'):].rstrip()


def _cpp_loops(kernel: str) -> str:
    body = kernel.rpartition('}\n')[0].partition('\n{\n')[2]
    lines = [line for line in body.splitlines() if 'inductor_cpu_' not in line]     # its check of divisors
    loops = textwrap.dedent('\n'.join(lines))
    if loops.startswith('{\n') and loops.count('\n}') == 1:     # one block: without its braces
        loops = textwrap.dedent(loops[2:-2])
    return re.sub(r'static_cast<int64_t>\((\w+?)L?\)', r'\1', loops).replace('at::vec::', '')


def wrapper(code: str) -> str:
    """The body of ``call`` in a module that Inductor wrote: what allocates results and runs the kernels."""
    body = code.partition('def call(self, args):\n')[2].partition('\nrunner =')[0]
    return textwrap.dedent(body).rstrip()
