"""Right and wrong answers to the exercises on hardware."""


def multiply(a, b, n):
    gates = total = 0
    for i in range(n):
        for j in range(n):
            gates += 1
            total += ((a >> i) & (b >> j) & 1) << (i + j)
    return total, gates


ANSWERS = {
    'hw-ex-w-clocks': (dict(cycles=300, multiply_adds=4800), [
        (dict(cycles=30), 'has a second'), (dict(cycles=0.03), 'has a second'),
        (dict(multiply_adds=1600), 'to fill'), (dict(multiply_adds=16), 'to fill')]),
    'hw-ex-w-limit': (dict(sum_bytes=0.12, sum='bytes', product_flops=1.4 * 0.982, product='arithmetic'),
                      [
        (dict(sum_bytes=0.04), 'one is written'), (dict(sum='arithmetic'), 'both times'),
        (dict(product_flops=0.69), 'a sum of products'), (dict(product='bytes'), 'both times')]),
    'hw-ex-w-half': (dict(sum='yes', product='no'), [
        (dict(sum='no'), 'wait for'), (dict(product='yes'), 'wait for'),
        (dict(product='half'), "not the text 'half'")]),
    'hw-ex-w-messages': (dict(once=125e-6, pieces=20.6e-3, half=200e3), [
        (dict(once=105e-6), 'A latency'), (dict(pieces=125e-6), 'Every piece'),
        (dict(pieces=0.02), 'Every'),
        (dict(half=100e3), 'equally long')]),
    'hw-ex-w-lines': (dict(share=1 / 16, more=16), [
        (dict(share=0.25), 'is a line'), (dict(share=0.125), 'is a line'),
        (dict(more=4), 'all of a line')]),
    'hw-ex-rotation': (dict(worst=6, mean=3, reads_5400=180, reads_7200=240, reads_10000=333,
                            reads_15000=500), [
        (dict(worst=3), 'just have passed'), (dict(mean=6), 'anything between'),
        (dict(reads_10000=167), 'average wait'), (dict(reads_7200=120), 'average wait'),
        (dict(reads_15000=250), 'average wait')]),
    'hw-ex-density': (dict(bits=2.24, tracks=2.24, outer=2.07, inner=1.04, rate=249, lost=0.33), [
        (dict(bits=5), 'both directions'), (dict(tracks=2.5), 'both directions'),
        (dict(outer=16.6), 'in inches'),
        (dict(outer=0.93), 'in inches'), (dict(inner=2.07), 'this track'), (dict(rate=124), 'one track'),
        (dict(lost=0.5), 'in proportion')]),
    'hw-ex-alignment': (dict(first=57, count=7), [
        (dict(first=56), 'ends seven bytes'), (dict(first=58), 'ends seven bytes'),
        (dict(count=8), 'Count them')]),
    'hw-ex-stride': (dict(per_line=8, bend=64, page=4096), [
        (dict(per_line=64), '64 bytes'), (dict(bend=8), 'line of its own'),
        (dict(page=64), 'page of its own')]),
    'hw-ex-packets': (dict(udp=28, tcp=52, ethernet=38), [
        (dict(udp=8), 'two headers'), (dict(tcp=40), 'an option'), (dict(ethernet=18), 'Four things'),
        (dict(ethernet=26), 'Four things')]),
    'hw-ex-silicon': (multiply, [
        (lambda a, b, n: (multiply(a, b, n)[0], n), '4 gates'), (lambda a, b, n: a & b, 'not 0'),
        (lambda a, b, n: (a * b, n * n), 'multiplied the factors itself'),
        (lambda a, b, n: [multiply(a, b, n)[0]], 'no pair'),
        (lambda a, b, n: (a & b, n * n), 'times'),
        (lambda a, b, n: (multiply(a, b, n)[0], bin(a).count('1') * bin(b).count('1')), '0 gates')]),
    'hw-ex-dma': (dict(rate=4, cores=3500), [
        (dict(rate=1), 'fit into'), (dict(rate=0.25), 'fit into'), (dict(cores=14000), 'Divide'),
        (dict(cores=4), 'Divide')]),
    'hw-ex-int8': (dict(bits=1040, same=1), [
        (dict(bits=65), 'by the width'), (dict(bits=130), 'by the width'),
        (dict(same=0.5), 'each rate')]),
    'hw-ex-light': (dict(vacuum=66.7, fibre=100, share=2 / 3), [
        (dict(vacuum=33.4), 'There and back'), (dict(fibre=66.7), 'its index'),
        (dict(fibre=44.5), 'its index'),
        (dict(share=0.44), 'figure of the tables')]),
}

ALSO_RIGHT = {
    'hw-ex-w-limit': [dict(sum_bytes=0.16)],
    'hw-ex-silicon': [lambda a, b, n: list(multiply(a, b, n))],
}
