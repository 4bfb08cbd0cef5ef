"""Conditions of the hardware pages: known once ``d2l_local.hardware`` is imported."""

from d2l_local.conditions import condition
from d2l_local.hardware import devices, memory


@condition('cache sizes', system=True)
def _caches() -> str:
    return '' if 'L1' in memory.reported_caches() else 'the system reports no cache sizes here'


@condition('direct I/O', system=True)
def _disk() -> str:
    try:
        devices.Disk(memory.MIB).close()
    except devices.NotHere as e:
        return str(e)
    return ''
