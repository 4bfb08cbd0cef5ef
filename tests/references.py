"""Our suite against other people's programs: a benchmark, not a test.

    python tests/references.py [--repeat 5] [--stream stream.c] [--lat-mem-rd PROGRAM]
                               [--lat-ops PROGRAM] [--fio PROGRAM] [--only abcd]

(a) memory bandwidth against STREAM, (b) latency against lat_mem_rd and (c) arithmetic against
lat_ops, both of lmbench, (d) the disk against fio, (e) how far the rows of our own ladder vary
from run to run. The programs are taken from the options or from PATH, STREAM as its source
stream.c or as a program whose arrays have 128 MiB each; what is missing is said and left out.
In each round ours and theirs run one after the other. The quick comparison, with kernels in C,
is part of ``tests/hardware_lab/test_traps.py``.
"""

import argparse
import glob
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from instrument import progress, table  # beside this file

from tested_results import machine
from tested_results.timing import show_seconds

# in front of this file's folder, where a package of tests has the same name
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'chapters' / 'hardware'))
from hardware_lab import KIB, MIB, NotHere, core, devices, ladder, memory  # noqa: E402

ARRAY = 128 * MIB                # bytes of one of STREAM's three arrays
SETS = (16 * KIB, 256 * KIB, 64 * MIB, 256 * MIB)
# lmbench calibrates its clock for seconds at each start unless told that 10 ms a sample are enough
QUICK = {'ENOUGH': '10000', 'TIMING_O': '0', 'LOOP_O': '0'}
PATIENCE = 30                    # seconds to wait for two free cores before a round
Pairs = dict[str, tuple[float, float]]       # by row: ours and theirs


def output(command: list[str], **environment: str) -> str:
    """What a program says, on both channels."""
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, **environment}, timeout=600)
    return done.stdout


def compiled(source: str, folder: str, compiler: str, flags: str) -> str:
    """STREAM as a program, from its source."""
    program = str(Path(folder, 'stream'))
    output([compiler, *flags.split(), f'-DSTREAM_ARRAY_SIZE={ARRAY // 8}', '-DNTIMES=20', source,
            '-o', program])
    return program


def against_stream(program: str) -> Callable[[], Pairs]:
    """Bytes per second of the best pass of the triad, one thread each."""
    def once() -> Pairs:
        best = re.search(r'^Triad: +([\d.]+)', output([program]), re.M)[1]
        return {'triad': (1 / memory.bandwidth(n_bytes=ARRAY, budget=1.0).value, float(best) * 1e6)}
    return once


def against_lat_mem_rd(program: str) -> Callable[[], Pairs]:
    """Seconds from a load to the next, lines in random order, by working set."""
    def once() -> Pairs:
        text = output([program, '-t', '-N', '1', str(SETS[-1] // MIB), '64'], **QUICK)
        theirs = {round(float(size) * MIB, -3): float(ns) * 1e-9
                  for size, ns in re.findall(r'^([\d.]+) ([\d.]+)$', text, re.M)}
        return {f'{s // MIB} MiB' if s >= MIB else f'{s // KIB} KiB':
                (memory.latency(s).value, theirs[round(s, -3)]) for s in SETS}
    return once


def against_lat_ops(program: str) -> Callable[[], Pairs]:
    """Seconds until the result of an operation can be used."""
    def once() -> Pairs:
        text = output([program], **QUICK)
        theirs = dict(re.findall(r'^double (\w+): ([\d.]+) nanoseconds', text, re.M))
        ours = core.arithmetic()
        return {'add': (ours['add'].value, float(theirs['add']) * 1e-9),
                'multiply': (ours['multiply'].value, float(theirs['mul']) * 1e-9)}
    return once


def against_fio(program: str, folder: str) -> Callable[[], Pairs]:
    """Seconds of the middle one of reads and writes that go around the system's cache."""
    def theirs(kind: str, block: str, cached: bool = False) -> float:
        text = output([program, '--name=d2l', f'--directory={folder}', '--size=128M', f'--rw={kind}',
                       f'--bs={block}', f'--direct={int(not cached)}', '--ioengine=psync', '--runtime=2',
                       '--time_based', '--fsync_on_close=1', '--output-format=json'])
        job = json.loads(text[text.index('{'):])['jobs'][0]
        return job['write' if 'write' in kind else 'read']['clat_ns']['percentile']['50.000000'] * 1e-9

    def once() -> Pairs:
        ours = {k: f.value for k, f in devices.disk_figures().items()}
        return {'read 4 KB': (ours['read 4 KB'], theirs('randread', '4k')),
                'write 4 KB': (ours['write 4 KB'], theirs('randwrite', '4k')),
                'read 1 MB': (ours['read 1 MB'], theirs('read', '1m'))}
    return once


def spread(values: list[float]) -> float:
    """From the lowest to the highest, as a share of the middle."""
    return (max(values) - min(values)) / statistics.median(values)


def wait_for_quiet(patience: float) -> bool:
    """Wait until two cores are free, at most so many seconds: most other programs take what a busy
    neighbour costs for the machine's own time. Returns whether they are."""
    end = time.perf_counter() + patience
    while busy := machine.no_free_cores():
        if time.perf_counter() > end:
            break
        time.sleep(2)
    return not busy


def compare(title: str, once: Callable[[], Pairs], repeat: int,
            show: Callable[[float], str] = show_seconds) -> None:
    """Measure in turn and print one row for each figure."""
    rounds, quiet = [], 0
    for i in range(repeat):
        progress(f'{title}: {i}/{repeat}')
        quiet += wait_for_quiet(PATIENCE)
        rounds.append(once())
    rows, best = [], min if show is show_seconds else max
    for name in rounds[0]:
        ours, theirs = ([r[name][k] for r in rounds] for k in (0, 1))
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        rows.append([name, show(statistics.median(ours)), f'{spread(ours):.0%}',
                     show(statistics.median(theirs)), f'{spread(theirs):.0%}',
                     f'{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})',
                     f'{best(ours) / best(theirs):.2f}'])
    table(f'{title}; {quiet} of {repeat} rounds began quiet | ours | spread | theirs | spread | '
          'ours ÷ theirs | best of each', rows)


def own_spread(repeat: int) -> None:
    """How far the rows of the ladder vary from run to run, widest first."""
    found: dict[str, list[float]] = {}
    steady: dict[str, int] = {}
    for i in range(repeat):
        progress(f'ladder: {i}/{repeat}')
        for r in ladder.measure():
            if r.measured:
                found.setdefault(r.action, []).append(r.measured.value)
                steady[r.action] = steady.get(r.action, 0) + r.measured.steady
    table(f'row of the ladder, {repeat} runs | median | spread | lowest | highest | runs called steady',
          [[name, show_seconds(statistics.median(v)), f'{spread(v):.0%}', show_seconds(min(v)),
            show_seconds(max(v)), f'{steady[name]}/{len(v)}']
           for name, v in sorted(found.items(), key=lambda x: -spread(x[1]))])


def main() -> None:
    """Print the tables, and what could not be compared."""
    debian = (glob.glob('/usr/lib/lmbench/bin/*') or [''])[0]
    path = os.pathsep.join([os.environ.get('PATH', ''), debian])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--repeat', type=int, default=5)
    parser.add_argument('--stream', default=shutil.which('stream_c'),
                        help='stream.c, or a program made from it with arrays of 128 MiB')
    parser.add_argument('--compiler', default='gcc')
    parser.add_argument('--flags', default='-O2', help='for compiling stream.c')
    parser.add_argument('--lat-mem-rd', default=shutil.which('lat_mem_rd', path=path))
    parser.add_argument('--lat-ops', default=shutil.which('lat_ops', path=path))
    parser.add_argument('--fio', default=shutil.which('fio'))
    parser.add_argument('--only', default='abcde', help='sections to run, of abcde')
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('terminated'))     # so that no file is left
    began, missing = time.perf_counter(), []
    print(f'{machine.describe()}; load {os.getloadavg()[0]:.1f} at the start; free cores: '
          f'{machine.no_free_cores() or "two"}\n', flush=True)

    def rate(x: float) -> str:
        return f'{x / 1e9:.1f} GB/s'
    with tempfile.TemporaryDirectory(prefix='d2l-references-') as folder:
        if 'a' in args.only and args.stream:
            program = args.stream
            if program.endswith('.c'):
                program = compiled(program, folder, args.compiler, args.flags)
            compare(f'STREAM ({args.flags}), 3 × 128 MiB', against_stream(program), args.repeat, rate)
        for key, name, make in (('b', 'lat_mem_rd', against_lat_mem_rd),
                                ('c', 'lat_ops', against_lat_ops)):
            if key in args.only and (program := getattr(args, name)):
                compare(name, make(program), args.repeat)
        if 'd' in args.only and args.fio:
            try:
                compare('fio', against_fio(args.fio, folder), args.repeat)
            except NotHere as e:
                missing.append(f'disk: {e}')
    for key, name in (('a', 'stream'), ('b', 'lat_mem_rd'), ('c', 'lat_ops'), ('d', 'fio')):
        if key in args.only and not getattr(args, name):
            missing.append(f'{name} is neither on PATH nor given as --{name.replace("_", "-")}')
    if 'e' in args.only:
        own_spread(args.repeat)
    print('not compared: ' + ('; '.join(missing) or 'nothing'))
    print(f'{time.perf_counter() - began:.0f} s; load {os.getloadavg()[0]:.1f} at the end')


if __name__ == '__main__':
    sys.exit(main())
