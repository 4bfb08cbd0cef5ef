"""The figures of this topic that a reader can turn."""

from math import ceil

from live_figures import Derived, Figure, Input, Measured, Output, Point, Printed

PAGE = 'chapters/hardware/hardware'


def row(name):
    """A row of the ladder, after the published figure."""
    return Printed(PAGE, rf'{name} +measured: \S+(?: \S+)? · ')


def one_of(number, variant):
    """The time of one of so many, of a comparison that has measured them together."""
    return Derived(lambda seconds: seconds / number, (Measured(variant),))


def budget(time, l1, lock, memory, call, disk):
    """How many of each follow one another in a given time."""
    return {'l1s': time / l1, 'locks': time / lock, 'memories': time / memory, 'calls': time / call,
            'disks': time / disk}


def sharing(steps, own, factor):
    """Seconds for a step of a counter that is written to its line every so many steps."""
    one = own + own * (factor - 1) / steps
    return {'one': one, 'own': own, 'ratio': one / own, 'needed': max(1, ceil((factor - 1) / 0.05))}


def stairs(size, c1, c2, c3, l1, l2, l3, memory):
    """Seconds for a random read in a working set: each cache holds what share of it fits."""
    in1 = min(1, c1 / size)
    in2 = max(in1, min(1, c2 / size))
    in3 = max(in2, min(1, c3 / size))
    time = in1 * l1 + (in2 - in1) * l2 + (in3 - in2) * l3 + (1 - in3) * memory
    return {'time': time, 'in1': in1, 'miss': 1 - in3, 'ratio': time / l1,
            'where': 'the first cache' if in1 == 1 else 'the second cache' if in2 == 1 else
            'the third cache' if in3 == 1 else 'none of the caches'}


def edge(number):
    """The end of a level of the measured staircase, which may lie below a reported size."""
    return Printed(PAGE, rf'caches, measured[^\n]*?(?:edge from [^;\n]*; ){{{number - 1}}}edge from ')


# Steps along a chain of addresses, in half of the first cache and in 64 MiB; the pieces of 1 MiB of a disk.
L1, FAR = one_of(10_000, 'hw-dram-l1.first_cache'), one_of(10_000, 'hw-dram-l1.large_ring')
DISK = one_of(256, 'hw-disk-chunks.in_256_pieces')
L2, L3 = row('L2 cache hit'), row('L3 cache hit, not shared')

LIVE = {
    'budget': Figure(
        'Arithmetic: how many fit, one after the other?', budget,
        (Input('time', 'Time', 'ms', 0.001, 1000, 1),
         Input('l1', 'L1 cache hit', 'ns', 0.1, 100, 1.5, measured=L1),
         Input('lock', 'Lock and unlock', 'ns', 1, 1000, 25, measured=row('mutex lock and unlock')),
         Input('memory', 'Memory reference, 64 MiB', 'ns', 1, 1000, 75, measured=FAR),
         Input('call', 'NumPy addition of one number', 'ns', 10, 100_000, 500,
               measured=row('NumPy addition of one number')),
         Input('disk', 'Read of 4 KiB from the disk', 'µs', 1, 100_000, 120, measured=DISK)),
        (Output('l1s', 'L1 cache hits'), Output('locks', 'locks'),
         Output('memories', 'memory references'), Output('calls', 'NumPy additions of one number'),
         Output('disks', 'reads of 4 KiB from the disk')),
        ('In {time} fit {l1s} hits in the first cache, {memories} reads of memory, or {disks} of the '
         'disk.',),
        log_y=True),
    'stairs': Figure(
        'A random read, by the size of what it reads in', stairs,
        (Input('size', 'Working set', 'KiB', 4, 1_048_576, 16),
         Input('c1', 'First cache', 'KiB', 8, 1024, 32,
               measured=edge(1)),
         Input('c2', 'Second cache', 'KiB', 64, 65_536, 1024,
               measured=edge(2)),
         Input('c3', 'Third cache', 'KiB', 512, 1_048_576, 32_768,
               measured=edge(3)),
         Input('l1', 'A read from the first', 'ns', 0.1, 100, 1.5, measured=L1, more=True),
         Input('l2', 'from the second', 'ns', 0.1, 100, 5, measured=L2, more=True),
         Input('l3', 'from the third', 'ns', 1, 1000, 16, measured=L3, more=True),
         Input('memory', 'from memory', 'ns', 1, 1000, 75, measured=row('256 MB memory reference'),
               more=True)),
        (Output('time', 'time of a read', 's'), Output('in1', 'from the first cache', '%'),
         Output('miss', 'from memory', '%')),
        ('It fits in {where}: a read takes {time}, {ratio}× the time of a hit in the first cache.',),
        over='size', rows=(16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576),
        drawn=('time',), log_y=True,
        points=(Point('64 MiB', 65_536, FAR),)),
    'sharing': Figure(
        'How seldom must a shared line be written?', sharing,
        (Input('steps', 'Steps between two writes', '', 1, 1000, 1, whole=True),
         Input('own', 'A step in a line of its own', 'ns', 0.1, 100, 1.5),
         Input('factor', 'A write to a shared line takes, against that', '×', 1, 100, 3)),
        (Output('one', 'counters in one line', 's'), Output('own', 'a line for each', 's'),
         Output('ratio', 'ratio')),
        ('One write in {steps} steps: a step takes {one} in place of {own}, {ratio} to 1. '
         'From {needed} steps on, less than 5% is lost.',),
        over='steps', rows=(1, 2, 5, 10, 20, 50, 100, 1000), drawn=('one', 'own'))}
