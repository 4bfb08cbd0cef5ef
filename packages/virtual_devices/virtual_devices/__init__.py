"""Virtual CPU devices for PyTorch: they queue work and are waited for as a GPU is, and are none.

:func:`devices` gives some, GPUs if there are as many; :func:`put` copies a tensor to one, whose operations
are then queued there; :func:`synchronize` waits, and :func:`profile` says what ran when. The module
``engine`` has the devices and their tensors, ``schemas`` what an operation writes, ``surface`` what a
tensor is asked beside operations, ``copies`` the way from one device to another, ``registry`` which devices
there are, and ``profiling`` the events.
"""

from virtual_devices.copies import put
from virtual_devices.engine import Event, VirtualDevice, VirtualTensor
from virtual_devices.profiling import profile
from virtual_devices.registry import devices, given, synchronize

__all__ = ['Event', 'VirtualDevice', 'VirtualTensor', 'devices', 'given', 'profile', 'put', 'synchronize']
