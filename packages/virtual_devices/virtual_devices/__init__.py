"""Virtual CPU devices for PyTorch: they queue work and are waited for as a GPU is, and are none.

:func:`devices` gives some, GPUs if there are as many; :func:`put` copies a tensor to one, whose operations
are then queued there; :func:`synchronize` waits, and :func:`profile` says what ran when. The module
``engine`` has the devices and their tensors, ``registry`` which devices there are, ``profiling`` the events.
"""

from virtual_devices.engine import Event, VirtualDevice, VirtualTensor, put
from virtual_devices.profiling import profile
from virtual_devices.registry import devices, given, synchronize

__all__ = ['Event', 'VirtualDevice', 'VirtualTensor', 'devices', 'given', 'profile', 'put', 'synchronize']
