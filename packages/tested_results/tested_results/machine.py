"""What this machine is: processor, cores, memory, GPUs, versions. Knows no framework."""

import functools
import hashlib
import importlib.metadata
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil


def _processor() -> str:
    if platform.system() == 'Linux':
        return _linux_processor(Path('/proc/cpuinfo').read_text()) or platform.machine()
    if platform.system() == 'Darwin':
        return subprocess.run(['sysctl', '-n', 'machdep.cpu.brand_string'], capture_output=True,
                              text=True).stdout.strip()
    return platform.processor() or platform.machine()


def _linux_processor(cpuinfo: str) -> str:
    """The processor's name; with the numbers of its design where a virtual machine's name hides them."""
    said = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(':')
        said.setdefault(name.strip(), value.strip())
    name = said.get('model name') or said.get('Model', '')
    if re.search(r'\d{3}', name.split('@')[0]):      # such as EPYC 9654 or i7-8650U
        return name
    name = name or platform.machine()
    keys = {'family': 'cpu family', 'model': 'model', 'part': 'CPU part'}
    design = [f'{what} {said[key]}' for what, key in keys.items() if key in said]
    if design:
        name += f' ({", ".join(design)})'
    return name


def own_cores() -> set[int]:
    """Numbers of the logical cores on which this process may run; others may run there as well."""
    if hasattr(os, 'sched_getaffinity'):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def quota() -> float:
    """How many cores' worth of time the system grants this process; infinite without a limit.

    Containers are given less than the whole computer in this way: they see all its cores and may
    run on each of them, but the kernel stops what runs when the time of each tenth of a second is
    used up.
    """
    try:
        return _group_quota(Path('/proc/self/cgroup').read_text(), Path('/sys/fs/cgroup'))
    except OSError:             # another system than Linux
        return math.inf


def _group_quota(membership: str, root: Path) -> float:
    """The least of the quotas of a process's control groups and of all groups around them.

    Source: Linux kernel documentation, *Control Group v2*, cpu.max; *CFS Bandwidth Control* for v1.

    Args:
        membership: the text of /proc/<pid>/cgroup. In a container its paths may be those of the
            host, which do not exist here; the container's own group is then the root itself.
        root: where control groups are mounted.
    """
    least = math.inf
    for line in membership.splitlines():
        _, controllers, path = line.split(':', 2)
        if not controllers:                                 # version 2
            tops = [root]
        elif 'cpu' in controllers.split(','):               # version 1
            tops = [root / controllers, root / 'cpu']
        else:
            continue
        inner = Path(path.lstrip('/'))
        for top in tops:
            for group in (inner, *inner.parents):
                least = min(least, _quota_of(top / group))
    return least


def _quota_of(group: Path) -> float:
    """Cores' worth of time that the folder of a control group names; infinite if it names none."""
    for names in (('cpu.max',), ('cpu.cfs_quota_us', 'cpu.cfs_period_us')):
        try:
            granted, period = ' '.join((group / name).read_text() for name in names).split()
            if granted not in ('max', '-1'):
                return int(granted) / int(period)
        except (OSError, ValueError):
            pass                # no such file, or none that the documentation knows
    return math.inf


def cores() -> int:
    """The number of logical cores that this process can keep busy, whole ones; at least 1.

    Not more than it may run on, and not more than its quota of time is good for.
    """
    return max(1, int(min(len(own_cores()), quota())))


def memory() -> int:
    """Physical memory in bytes."""
    return psutil.virtual_memory().total


def free_memory() -> int:
    """Memory in bytes that new work may take now; an estimate."""
    return psutil.virtual_memory().available


def matrix_side(free_bytes: float, kept_results: int) -> int:
    """Side of square float32 matrices such that an experiment on them fits into a quarter of free memory.

    Workspace and other programs get the rest.

    Args:
        free_bytes: free memory of the device; devices that share a memory divide it first.
        kept_results: matrices that are alive at once beside the input.

    Returns:
        A multiple of 256 where there is room for it, of 16 below that; at most 4096, for no matrix need be
        larger to keep a device busy.

    Raises:
        ValueError: not even a side of 16 fits.
    """
    numbers = int(free_bytes / 4 / np.dtype('float32').itemsize / (kept_results + 1))
    room = min(4096, math.isqrt(max(0, numbers)))
    side = room - room % (256 if room >= 256 else 16)
    if not side:
        raise ValueError(f'{kept_results} results do not fit into {free_bytes:,.0f} bytes: keep fewer')
    return side


@functools.cache
def gpus() -> list[str]:
    """Names of the NVIDIA GPUs that the driver lists; empty without a driver."""
    if not shutil.which('nvidia-smi'):
        return []
    out = subprocess.run(['nvidia-smi', '--query-gpu=name', '--format=csv,noheader'],
                         capture_output=True, text=True)
    return out.stdout.split('\n')[:-1] if out.returncode == 0 else []


def compiler() -> str | None:
    """Name of a C++ compiler that torch.compile can use here, or None."""
    if not Path(sysconfig.get_paths()['include'], 'Python.h').exists():
        return None
    usual = ['cl'] if platform.system() == 'Windows' else ['g++', 'clang++']
    return next((n for n in (os.environ.get('CXX'), *usual) if n and shutil.which(n)), None)


def no_free_cores(k: int = 2, enough: float = 0.9) -> str:
    """Why ``k`` cores are not free now; empty if they are. It takes about 0.1 s.

    ``k`` threads hash data without Python's lock, once in turn and once together: with free
    cores, together does ``k`` times as much in the same time. At least ``enough`` of it counts.
    """
    data = bytes(1_000_000)

    def work(_: int = 0) -> None:
        for _ in range(60):
            hashlib.sha256(data).digest()

    if cores() < k:
        return f'no {k} free cores: this program may use {cores()}'
    with ThreadPoolExecutor(k) as pool:
        list(pool.map(work, range(k)))
        begin = time.perf_counter()
        work()
        alone = time.perf_counter() - begin
        list(pool.map(work, range(k)))
        together = time.perf_counter() - begin - alone
    found = k * alone / together
    if found >= enough * k:
        return shared_cores(k)
    return f'no {k} free cores: {k} threads do {found:.1f} times the work of one'


def shared_cores(k: int = 2, too_long: float = 1.5) -> str:
    """Why ``k`` threads compute on fewer than ``k`` cores now; empty if they do not. About 3 ms.

    Two logical processors can be the halves of one core, and those of a virtual machine can become so
    at any time: then both are busy, and nobody else is, but they share the units that compute. Each
    thread evaluates exponentials that stay in its cache, by its own clock of processor time, which
    does not run while it waits for its turn. Alone and together must take about as long; it counts if
    even the least disturbed thread takes ``too_long`` times as long. Hashing, which leaves those units
    idle for much of the time, does not show it.
    """
    if k < 2:
        return ''           # a thread shares no core with itself

    def work(_: int = 0) -> float:
        x, begin = np.linspace(0, 1, 2 ** 14, dtype=np.float32), time.thread_time()
        y = np.empty_like(x)
        for _ in range(120):
            np.exp(x, out=y)
        return time.thread_time() - begin

    with ThreadPoolExecutor(k) as pool:
        longer = min(pool.map(work, range(k))) / max(work(), 1e-9)
    return '' if longer < too_long else (
        f'no {k} cores of their own: arithmetic in {k} threads takes each of them {longer:.1f} times as '
        'long as one alone')


def run_child(code: str, timeout: float = 120, **environment: str) -> str:
    """Run Python source in a fresh process and return what it prints.

    For settings that must stand before an import, and for the memory of one experiment alone.

    Raises:
        RuntimeError: the child failed or took longer than ``timeout`` seconds (it is killed
            then); the message has the end of what it said.
    """
    try:
        child = subprocess.run([sys.executable, '-c', textwrap.dedent(code)], text=True, timeout=timeout,
                               capture_output=True, env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        raise RuntimeError(f'the child process took more than {timeout:g} s and was stopped') from None
    if child.returncode:
        raise RuntimeError(f'the child process failed:\n{child.stderr[-2000:]}')
    return child.stdout


def version(package: str) -> str | None:
    """Installed version of a package, or None; nothing is imported."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def machine() -> dict:
    """The machine as plain data, fit for JSON."""
    return {'processor': _processor(), 'cores': cores(), 'memory_gib': round(memory() / 2 ** 30),
            'gpus': gpus(), 'system': f'{platform.system()} {platform.machine()}',
            'python': platform.python_version(),
            'numpy': version('numpy'), 'mxnet': version('mxnet') or version('mxnet-cu112'),
            'torch': version('torch')}


def describe() -> str:
    """The machine in one line."""
    m = machine()
    gpu = ', '.join(m['gpus']) or 'no GPU'
    return f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {gpu}, {m['system']}"


def flags() -> set[str]:
    """What the processor says it can do; empty where the system does not tell."""
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return set()
    found: set[str] = set()
    for line in lines:
        if line.startswith(('flags', 'Features')):
            found.update(line.split())
    return found


@functools.cache
def kind() -> dict:
    """What kind of machine this is, as far as results may depend on it.

    ``vectors`` names the widest vector instructions that the system admits to, ``virtual`` whether a
    hypervisor runs below it; None where the system does not tell.
    """
    m, has = machine(), flags()
    known = (('avx512f', 'AVX-512'), ('avx2', 'AVX2'), ('asimd', 'NEON'))
    vectors = next((name for flag, name in known if flag in has), 'none' if has else None)
    return {**{k: m[k] for k in ('processor', 'cores', 'gpus', 'system')}, 'vectors': vectors,
            'virtual': 'hypervisor' in has if has and 'asimd' not in has else None}
