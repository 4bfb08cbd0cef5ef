"""The passport of this machine: what later topics size their work by. Knows no framework."""

import json
import math
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from d2l_local import machine
from d2l_local.hardware import core, devices, memory
from d2l_local.hardware.devices import NotHere
from d2l_local.hardware.memory import KIB, MIB
from d2l_local.hardware.sampler import Figure
from d2l_local.hardware.table import Table
from d2l_local.timing import show_seconds

VERSION = 1


def _caches(stairs: dict[int, Figure]) -> dict[str, dict[str, Any]]:
    """Reported bytes of each level beside the edge that was measured nearest to it, if one is near."""
    found, reported = memory.edges(stairs), memory.reported_caches()
    levels: dict[str, dict[str, Any]] = {}
    for level, size in reported.items():
        near = sorted((e for e in found if e[0] / 2 <= size <= e[1] * 2),
                      key=lambda e: abs(math.log(e[0] * e[1] / size ** 2)))
        levels[level] = {'reported_bytes': size, 'measured_bytes': list(near[0]) if near else None}
    if not reported:
        levels = {f'edge {i + 1}': {'reported_bytes': None, 'measured_bytes': list(e)}
                  for i, e in enumerate(found)}
    return levels


def _or_reason(measure) -> Any:
    try:
        return measure()
    except (NotHere, MemoryError, RuntimeError, OSError) as e:
        return str(e)


def _disk() -> dict[str, Any]:
    found = devices.disk_figures()
    return {'seconds': {k: f.value for k, f in found.items()}}


class Passport(dict):
    """The machine as plain data, shown as a table. Figures are in seconds, bytes, bytes per second and
    operations per second; what could not be measured is a sentence that says why."""

    def table(self) -> Table:
        """The passport as a table of names and values."""
        m = self['machine']
        rows = [('processor', m['processor']), ('cores', str(m['cores'])),
                ('clock', f"{self['clock_hz'] / 1e9:.2f} GHz (from a chain of instructions)"),
                ('memory', f"{m['memory_gib']} GiB")]
        caches = []
        for level, c in self['caches'].items():
            said = f"{c['reported_bytes'] // KIB} KiB reported" if c['reported_bytes'] else ''
            seen = 'no edge found near it'
            if c['measured_bytes']:
                low, high = (b // KIB for b in c['measured_bytes'])
                seen = f'edge measured between {low} and {high} KiB'
            caches.append(f'{level}: ' + ', '.join(x for x in (said, seen) if x))
        rows.append(('caches', '; '.join(caches)))
        rows.append(('latency', '; '.join(f'{k} {show_seconds(v)}'
                                          for k, v in self['latency_s'].items())))
        rows.append(('memory bandwidth', '; '.join(f'{k} {v / 1e9:.3g} GB/s'
                                                   for k, v in self['bandwidth_bytes_per_s'].items())))
        rows.append(('peak of one core, float32', '; '.join(
            f'{k} {v / 1e9:.3g} GFLOP/s' for k, v in self['peak_flops'].items())))
        rows.append(('dispatch', '; '.join(f'{k} {show_seconds(v)}'
                                           for k, v in self['dispatch_s'].items())))
        disk, loop = self['disk'], self['loopback_s']
        rows.append(('disk', disk if isinstance(disk, str) else '; '.join(
            f'{k} {show_seconds(v)}' for k, v in disk['seconds'].items())))
        rows.append(('loopback round trip', loop if isinstance(loop, str) else show_seconds(loop)))
        rows.append(('GPUs', ', '.join(m['gpus']) or 'none'))
        rows.append(('measured in', f"{self['seconds']:.0f} s"))
        return Table(('', 'this machine'), rows)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __repr__(self) -> str:
        return str(self.table())

    def save(self, path: str | os.PathLike) -> Path:
        """Write the passport as JSON: the whole file or none of it."""
        path = Path(path)
        with tempfile.NamedTemporaryFile('w', dir=path.parent, suffix='.part', delete=False) as f:
            try:
                json.dump(self, f, indent=1)
                f.close()
                os.replace(f.name, path)
            except BaseException:
                os.unlink(f.name)
                raise
        return path

    @classmethod
    def load(cls, path: str | os.PathLike) -> 'Passport':
        """Read a passport.

        Raises:
            ValueError: the file is no passport of this version.
        """
        try:
            found = json.loads(Path(path).read_text())
        except ValueError as e:                 # no JSON, or not even text
            raise ValueError(f'{path} is no passport ({e}): measure a new one with '
                             'hardware.passport()') from None
        if not isinstance(found, dict) or found.get('version') != VERSION:
            raise ValueError(f'{path} is no passport of version {VERSION}: measure a new one with '
                             'hardware.passport()')
        return cls(found)

    @property
    def of_this_machine(self) -> bool:
        """Whether processor, cores and memory are those of the machine that reads it."""
        here = machine.machine()
        return all(self['machine'][k] == here[k] for k in ('processor', 'cores', 'memory_gib'))


def passport(quick: bool = True) -> Passport:
    """Measure this machine: in at most 15 seconds if ``quick``, else with finer steps."""
    began = time.perf_counter()
    stairs = memory.staircase(memory.sizes(64 * MIB if quick else 256 * MIB, 2 if quick else 4),
                              0.03 if quick else 0.1)
    threads = machine.cores()
    bandwidths = {'one core': 1 / memory.bandwidth('triad').value}
    if threads > 1:
        bandwidths['all cores'] = 1 / memory.bandwidth('triad', threads).value
    caches = memory.reported_caches()
    return Passport({
        'version': VERSION, 'machine': machine.machine(), 'quick': quick,
        'clock_hz': core.clock(), 'caches': _caches(stairs),
        'latency_s': {'L1': memory.latency(16 * KIB).value,
                      'L2': memory.latency(min(256 * KIB, caches.get('L2', MIB) // 2)).value,
                      '64 MB': memory.latency(64 * MIB).value},
        'bandwidth_bytes_per_s': bandwidths,
        'peak_flops': {k: 1 / f.value for k, f in core.peaks().items()},
        'dispatch_s': {'Python call': devices.python_call().value,
                       'NumPy addition': devices.numpy_add().value},
        'disk': _or_reason(_disk),
        'loopback_s': _or_reason(lambda: devices.round_trip('TCP').value),
        'seconds': time.perf_counter() - began})
