"""The checkers of the exercises on hardware: those that a pencil solves."""

import math

from answer_checks.definitions import Part, exercise, listed, need, number, numbers, text

CLOCKS = 3e9 * 100e-9
numbers('hw-ex-w-clocks',
        cycles=Part(CLOCKS, 'clock cycles in a read', 'How many cycles has a second?', 'Mind the ns.'),
        multiply_adds=Part(16 * CLOCKS, 'multiply-adds meanwhile', 'How many cycles are there to fill?',
                           'Each cycle does several.'),
        slips={
            'cycles': {100 / 3: 'At 3 GHz a nanosecond has three cycles.'},
            'multiply_adds': {
                CLOCKS: 'Those are the cycles. Each of them does sixteen.',
                CLOCKS / 16: 'Each cycle does sixteen: multiply.',
            },
        })

BYTES, FLOPS, SIDE = 10e9, 100e9, 4096
TWO = "'bytes' or 'arithmetic'"
LIMIT = 'Compute both times: for the bytes that travel and for the operations.'
numbers('hw-ex-w-limit', also=[dict(sum_bytes=1e8 * 4 * 4 / BYTES)],     # if lines are read before written
        sum_bytes=Part(1e8 * 3 * 4 / BYTES, 's for the bytes of the sum',
                       'Two are read and one is written.',
                       'How many bytes has a float32?'),
        sum=Part('bytes', f'what limits the sum, {TWO}', LIMIT, 'Which of the two takes longer?'),
        product_flops=Part(2 * SIDE ** 3 / FLOPS, 's for the arithmetic of the product',
                           'Each number of the result is a sum of products.',
                           'Count additions and multiplications.'),
        product=Part('arithmetic', f'what limits the product, {TWO}', LIMIT,
                     'Which of the two takes longer?'),
        slips={
            'sum_bytes': {
                1e8 * 4 / BYTES: 'That is one array. Two are read, and a third is written.',
                1e8 * 2 * 4 / BYTES: 'Two arrays are read. The third, the result, is written.',
                1e8 * 3 / BYTES: 'That counts one byte for each number. A float32 has four bytes.',
            },
            'sum': {'arithmetic': 'It does one addition for twelve bytes.'},
            'product_flops': {SIDE ** 3 / FLOPS: 'Each step of a sum is a multiplication and an addition.'},
            'product': {'bytes': 'Each number that arrives is used 4,096 times.'},
        })

numbers('hw-ex-w-half', **{
    name: Part(right, f"'yes' or 'no': does {what} take half the time?", 'What does it wait for?', hint)
    for name, right, what, hint in (('sum', 'yes', 'the sum', 'How many bytes travel now?'),
                                    ('product', 'no', 'the product', 'Is its arithmetic quicker now?'))},
        slips={
            'sum': {'no': 'It waits for bytes, and each number has half as many now.'},
            'product': {'yes': 'It waits for arithmetic, which on this machine is as fast as before.'},
        })

ALPHA, BETA, MIB = 20e-6, 10e9, 2 ** 20
numbers('hw-ex-w-messages',
        once=Part(ALPHA + MIB / BETA, 's for 1 MiB at once', 'A latency, and the bytes.',
                  'Mind the µs.'),
        pieces=Part(1024 * (ALPHA + 1024 / BETA), 's in pieces of 1 KiB', 'Every piece has its latency.',
                    'How many pieces are there?'),
        half=Part(ALPHA * BETA, 'bytes from which the latency is less than half',
                  'There, latency and bytes take equally long.', 'Solve for the bytes.'),
        slips={
            'once': {
                MIB / BETA: 'The latency is missing.',
                ALPHA + 1e6 / BETA: '1 MiB is 2²⁰ bytes, somewhat more than a million.',
            },
            'pieces': {
                ALPHA + MIB / BETA: 'Each of the pieces has a latency of its own.',
                1024 * (1024 / BETA): 'The latencies are missing.',
            },
        })

numbers('hw-ex-w-lines',
        share=Part(4 / 64, 'share of the bytes that is used', 'What travels is a line.',
                   'How many bytes of a line does the program read?'),
        more=Part(64 // 4, 'times as much data from the same traffic', 'Then all of a line is used.',
                  'It is the inverse of the share.'),
        slips={
            'share': {
                8 / 64: 'A float32 has four bytes.',
                1 / 64: 'A float32 has four bytes.',
            },
            'more': {
                8: 'A float32 has four bytes.',
                64: 'Those are bytes of a line. How many numbers are they?',
            },
        })

SPEEDS = 5400, 7200, 10_000, 15_000
TURNS = 'Those are the turns in a second. A read waits for half of one on average.'
numbers('hw-ex-rotation',
        worst=Part(60e3 / 10_000, 'ms in the worst case', 'The sector may just have passed.',
                   'How long is a turn?'),
        mean=Part(60e3 / 10_000 / 2, 'ms on average',
                  'The wait is anything between nothing and the worst.',
                  'All waits are equally likely.'),
        **{f'reads_{rpm}': Part(float(rpm / 60 / 0.5), f'random reads a second at {rpm:,} rpm',
                                'One read after the other, each with the average wait.',
                                'How many turns has a second?') for rpm in SPEEDS},
        slips={
            'worst': {3: 'That is the wait on average.'},
            'mean': {6: 'That is the longest wait.'},
            **{f'reads_{rpm}': {rpm / 60: TURNS} for rpm in SPEEDS},
        })


def track(radius_mm: float, per_square_inch: float) -> float:
    """Bytes on a track of square bits."""
    return 2 * math.pi * radius_mm / 25.4 * math.sqrt(per_square_inch) / 8


TURN = 60 / 7200
numbers('hw-ex-density',
        bits=Part(math.sqrt(5), 'times as many bits on one track',
                  'Square bits shrink in both directions.',
                  'Five is a factor of areas.'),
        tracks=Part(math.sqrt(5), 'times as many tracks', 'Square bits shrink in both directions.',
                    'Five is a factor of areas.'),
        outer=Part(track(30, 5e12) / 1e6, 'MB on the outermost track (30 mm) at 5 Tbit per square inch',
                   'How long is the track in inches?',
                   'How many bits has an inch of it? Mind the byte.'),
        inner=Part(track(15, 5e12) / 1e6, 'MB on the innermost (15 mm)', 'How long is this track?',
                   'Compare it with the outermost.'),
        rate=Part(track(30, 5e12) / 1e6 / TURN, 'MB/s from the outermost at 7,200 rpm',
                  'A turn brings one track.', 'How long is a turn?'),
        lost=Part(1 - 15 / 22.5, 'share lost if all tracks hold as many bits as the innermost',
                  'A track can hold bits in proportion to its radius.',
                  'What is the mean radius, and what would be used of it?', 0.03),
        slips={
            'bits': {5: 'Five is the factor of areas. A track is a line.'},
            'lost': {0.5: 'That is the loss on the outermost track. What is it over all tracks?'},
            'tracks': {5: 'Five is the factor of areas. Tracks lie side by side in one direction.'},
        })


class Factor(int):
    """A factor that keeps count of the multiplications that Python makes with it."""

    made = 0

    def __mul__(self, other: int) -> int:
        Factor.made += 1
        return int(self) * other

    __rmul__ = __mul__


@exercise('hw-ex-silicon', '''def multiply(a, b, n):
    """The product of two n-bit numbers, by an array multiplier, and how many AND gates it took."""''')
def silicon(multiply) -> None:
    """Right products for all small factors and the largest, and one gate for each pair of bits."""
    for n in (4, 8):
        for a in (0, 1, 5, 2 ** n - 1):
            for b in (0, 3, 2 ** n - 1):
                found = listed(multiply(Factor(a), Factor(b), n), 'product and gates')
                need(len(found) == 2, 'product and gates', f'{found!r} is no pair.', 'Return two numbers.')
                found = [number(x, 'product and gates') for x in found]
                need(not Factor.made, 'gates that multiply', 'Python has multiplied the factors itself.',
                     'A gate gets one bit of each: shift, and take the last one.')
                need(found[0] == a * b, 'the product', f'{a} times {b} gives {found[0]}.',
                     'Shift each partial product to its place, and add them all.')
                need(found[1] == n * n, 'the gates', f'For {n} bits there are {found[1]} gates.',
                     'The array is there for any factors: it has a gate for each pair of bits.')


numbers('hw-ex-dma',
        rate=Part(4 / 1e-6 / 1e6, 'MB/s that a core achieves', 'How many reads fit into a second?',
                  'Each brings 4 bytes.'),
        cores=Part(14e9 / (4 / 1e-6), 'cores for a drive of 14 GB/s', 'Divide the rates.',
                   'Both in bytes a second.'),
        slips={
            'rate': {1: 'Those are millions of reads. Each brings four bytes.'},
            'cores': {14000: 'Each read brings four bytes.'},
        })

numbers('hw-ex-int8',
        bits=Part(65 * 16.0, 'TOP/s times bits, in FP16', 'Multiply the rate by the width of a number.',
                  'Which number do you get for INT8?'),
        same=Part(130 * 8.0 / (260 * 4), 'the same for INT8, divided by that for INT4',
                  'Multiply each rate by its width first.',
                  'What does a register hand over in a cycle?'),
        slips={
            'same': {130 / 260: 'Those are the rates alone. Multiply each by its width first.'},
        })

LIGHT, WAY = 299_792_458, 2 * 10_000e3
numbers('hw-ex-light',
        vacuum=Part(1e3 * WAY / LIGHT, 'ms there and back in vacuum', 'There and back.',
                    'How far does light go in a ms?'),
        fibre=Part(1e3 * WAY / LIGHT * 1.5, 'ms there and back in fibre',
                   'Glass is slower by its index.',
                   'Multiply, or divide?'),
        share=Part(WAY / LIGHT * 1.5 / 0.150, 'share of the 150 ms that is physics in fibre',
                   'Compare the figure of the tables with your time in fibre.', 'Which divides which?'),
        slips={
            'vacuum': {1e3 * WAY / LIGHT / 2: 'That is one way.'},
            'fibre': {
                1e3 * WAY / LIGHT / 1.5: 'Light is slower in glass, so it takes longer.',
                1e3 * WAY / LIGHT * 1.5 / 2: 'That is one way.',
                1e3 * WAY / LIGHT: 'That is in vacuum.',
            },
        })

LINE, WORD = 64, 8
TWICE = [k for k in range(LINE) if k % LINE + WORD > LINE]
numbers('hw-ex-alignment',
        first=Part(TWICE[0], 'the smallest k at which a read touches two lines',
                   'A read of 8 bytes ends seven bytes after its beginning.',
                   'Where does the line end?'),
        count=Part(len(TWICE), 'of the 64 offsets, how many touch two lines',
                   'Count them from the first to the end of the line.', 'At k = 0 it is one line.'),
        slips={
            'first': {56: 'At 56 the read ends with the last byte of the line.'},
            'count': {8: 'At 56 the read still ends with the last byte of the line.'},
        })
numbers('hw-ex-stride',
        per_line=Part(LINE // 8, 'numbers from each line at a stride of 8 bytes', 'A line has 64 bytes.',
                      'How many strides fit?'),
        bend=Part(LINE, 'the stride in bytes where the curve should bend',
                  'From where on is every number in a '
                  'line of its own?', 'Compare stride and line.'),
        page=Part(4096, 'the stride in bytes where it may bend again, with pages of 4 KiB',
                  'From where on is every number in a page of its own?', 'Translation works by pages.'),
        slips={
            'per_line': {
                16: 'At this stride one number is read in every eight bytes, whatever its own size.',
                64: 'Those are bytes.',
                1: 'Eight bytes further, the line is not at its end.',
            },
            'bend': {8: 'Those are the numbers in a line. Asked for are bytes.'},
            'page': {512: 'Those are numbers of eight bytes. Asked for are bytes.'},
        })
numbers('hw-ex-packets',
        udp=Part(20 + 8, 'bytes of headers of a UDP packet, from the IP header on', 'Which two headers?',
                 'IPv4 without options, and UDP.'),
        tcp=Part(20 + 20 + 12, 'the same for TCP with time stamps', 'IPv4, TCP and an option.',
                 'Time stamps are two numbers of 4 bytes, with kind and length, filled to a '
                 'multiple of 4.'),
        ethernet=Part(8 + 14 + 4 + 12, 'bytes that Ethernet adds: preamble, header, checksum, gap',
                      'Four things.', 'Two addresses and a type; the gap is as long as two addresses.'),
        slips={
            'udp': {
                8: 'The header of IP is missing.',
                20: 'The header of UDP is missing.',
            },
            'tcp': {
                40: 'The time stamps are missing.',
                32: 'The header of IP is missing.',
                50: 'Options are filled to a multiple of four bytes.',
                48: 'An option also has a kind and a length.',
            },
            'ethernet': {
                18: 'Preamble and gap take their time on the wire too.',
                26: 'The gap is missing.',
                30: 'The preamble is missing.',
            },
        })
text('hw-ex-cache-sizes',
     'The order is random, so that nothing is fetched ahead; each read needs the one before, so '
     'that none '
     'overlaps.',
     'An edge is a range of sizes, found by the program: from the last size of a level to the next '
     'level.',
     'The size lies near the lower end of its edge, for a larger set is still served in part.',
     'A reason for each level that differs from the report: shared with others, huge pages, a '
     'hypervisor.')
text('hw-ex-channels',
     'For one stream, neighbouring lines are on different channels.',
     'For many threads the model is asked with numbers, and there is a point at which the answer '
     'changes.',
     'More chains of reads are quicker than one, up to what a core can keep under way.',
     'The measurement confirms the part on requests under way; it cannot see channels and rows apart.')
text('hw-ex-pci',
     'The tree gives, for a pair, the lowest bus that both have above them.',
     'Pairs below one switch, or a switch of switches, pass no CPU.',
     'GPUs below one port of the CPU share its lanes when all load at once.',
     'A virtual machine may hide the tree.')
text('hw-ex-links',
     'Three wirings, each with longest path, width between the worst halves, and disjoint rings.',
     'Six links cannot reach seven others: in each wiring someone is two steps away, or links are '
     'doubled.',
     'The V100s: doubled links within two groups of four, less width between the groups, three rings.',
     'It is built for jobs of four, and for rings.')
text('hw-ex-backward',
     'Data in L1 show the compiler, data in memory show the memory; both directions for both.',
     'The difference is compared with the spread.',
     'With vector code off, a difference that vanishes was the compiler.',
     'Prefetchers recognise both directions, or not: that is what depends on the vendor.')
text('hw-ex-disk-cache',
     'The system is bypassed, and what was cached is overwritten by reading elsewhere first.',
     'A control reads two different regions one after the other.',
     'The decision is a number, required in several tries.',
     'The method has been tried on simulated drives, and the sizes that it misses are named.',
     'A drive also keeps its map of blocks there; a burst may go to cells with one bit first.')
