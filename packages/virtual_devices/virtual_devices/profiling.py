"""What devices did while a program ran, and when."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from virtual_devices.engine import Event, VirtualDevice
from virtual_devices.registry import synchronize


def profile(work: Callable[[], Any], on: Sequence[torch.device | VirtualDevice]) -> list[Event]:
    """What devices, all of one kind, did while ``work`` ran and until they were done.

    The lane ``front end`` is the time that ``work`` itself took: issuing, and waiting if it waits.
    The others are named as the devices.

    Args:
        work: issues the operations; called once, and what it returns is dropped.
        on: at least one device, all virtual or all GPUs.

    Returns:
        Events, their times in seconds of one clock, ``time.perf_counter`` for virtual devices. What ``work``
        raises is raised.
    """
    if not isinstance(on[0], VirtualDevice):
        return _profile_gpus(work, on)
    for device in on:
        device.events, device.recording = [], True
    start = time.perf_counter()
    try:
        work()
        issued = time.perf_counter()
        for device in on:
            device.synchronize()
    finally:
        for device in on:
            device.recording = False
    return [Event('front end', 'issue', start, issued), *(e for d in on for e in d.events)]


def _profile_gpus(work: Callable[[], Any], on: Sequence[torch.device]) -> list[Event]:
    """Kernels and copies as torch.profiler records them; its clock serves for the front end too."""
    os.environ.setdefault('KINETO_LOG_LEVEL', '6')      # its notes on itself are no output of the program
    with torch.profiler.profile() as record:
        with torch.profiler.record_function('issue'):
            work()
        for device in on:
            synchronize(device)
    events = []
    for e in record.events():
        gpu = e.device_type == torch.autograd.DeviceType.CUDA
        if gpu != (e.name == 'issue'):      # "issue" leaves its mark on the GPU's lane as well
            events.append(Event(f'cuda:{e.device_index}' if gpu else 'front end', e.name[:20],
                                e.time_range.start / 1e6, e.time_range.end / 1e6))
    return [e for e in events if e.lane in ('front end', *map(str, on))]
