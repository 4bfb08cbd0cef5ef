"""What this machine is: processor, cores, memory, GPUs, versions. Knows no framework."""

import functools
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sysconfig
from pathlib import Path


def _processor() -> str:
    if platform.system() == 'Linux':
        for line in Path('/proc/cpuinfo').read_text().splitlines():
            if line.startswith(('model name', 'Model')):
                return line.split(':', 1)[1].strip()
    if platform.system() == 'Darwin':
        return subprocess.run(['sysctl', '-n', 'machdep.cpu.brand_string'], capture_output=True,
                              text=True).stdout.strip()
    return platform.processor() or platform.machine()


def cores() -> int:
    """The number of logical cores that this process may use."""
    if hasattr(os, 'sched_getaffinity'):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """Physical memory in bytes; 0 where it cannot be read."""
    try:
        return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    except (AttributeError, ValueError, OSError):
        return 0


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
    if platform.system() == 'Windows':
        names = [os.environ.get('CXX'), 'cl']
    else:
        names = [os.environ.get('CXX'), 'g++', 'clang++']
    if not Path(sysconfig.get_paths()['include'], 'Python.h').exists():
        return None
    return next((n for n in names if n and shutil.which(n)), None)


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
