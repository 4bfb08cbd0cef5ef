"""Which devices there are, and how to wait for all of them."""

import os

import torch

from virtual_devices.engine import VirtualDevice

_virtual: list[VirtualDevice] = []
if hasattr(os, 'register_at_fork'):     # a fork has none of their threads, and would wait for ever
    os.register_at_fork(after_in_child=_virtual.clear)


def devices(k: int) -> list[torch.device | VirtualDevice]:
    """``k`` devices: GPUs if there are as many, else virtual CPU devices (never called GPUs).

    Each call gives the same virtual devices, the first ``k``.

    Raises:
        ValueError: ``k`` is less than 1.
    """
    if k < 1:
        raise ValueError(f'ask for at least one device, not {k}')
    if torch.cuda.device_count() >= k:
        return [torch.device('cuda', i) for i in range(k)]
    while len(_virtual) < k:
        _virtual.append(VirtualDevice(len(_virtual)))
    return list(_virtual[:k])


def given() -> list[VirtualDevice]:
    """The virtual devices that :func:`devices` has given in this process, in order; a fork has none yet."""
    return list(_virtual)


def _gpus_in_use() -> list[torch.device]:
    """The GPUs on which this process has memory: no other GPU can have work of it.

    To wait for the others would set CUDA up on them, which takes memory there, and which a fork of a process
    that has set it up cannot do at all.
    """
    if not torch.cuda.is_initialized():
        return []
    used = filter(torch.cuda.memory_reserved, range(torch.cuda.device_count()))
    return [torch.device('cuda', i) for i in used]


def synchronize(device: torch.device | VirtualDevice | None = None) -> None:
    """Wait until a device has finished what was queued on it; without one, until all have.

    All are the GPUs that this process uses, and the virtual devices that :func:`devices` has given.
    ``torch.cuda.synchronize()`` waits for the current GPU alone. On the CPU nothing is queued.
    An error in the work of a virtual device is not raised here, but where its result is asked for.
    """
    if device is None:
        devices = [*_virtual, *_gpus_in_use()]
        devices += [torch.device('mps')] * torch.backends.mps.is_available()
        for each in devices:
            synchronize(each)
    elif isinstance(device, VirtualDevice):
        device.synchronize()
    elif torch.device(device).type == 'cuda':
        torch.cuda.synchronize(device)
    elif torch.device(device).type == 'mps':
        torch.mps.synchronize()
