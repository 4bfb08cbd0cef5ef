"""The figures of this topic that a reader can turn."""

from math import floor

from live_figures import Derived, Figure, Input, Measured, Output

# Six matmuls one after another, and then as many messages, each of which takes as long as a matmul.
HALF = Derived(lambda seconds: seconds / 2, (Measured('par-mx-bus.compute_then_send'),))


def overlap(i, pieces, compute, copy, latency, t):
    """Piece i on the device and on the bus; each is copied while the next is computed.

    What is done after t of 24 equal steps. A count that should be whole may lie a little below.
    """
    part = compute / pieces
    send = copy / pieces + latency
    ready = (i + 1) * part
    begin = part + i * max(part, send)
    turn = compute + copy + latency
    whole = part + (pieces - 1) * max(part, send) + send
    now = t / 24 * whole
    return {'start': i * part, 'ready': ready, 'begin': begin, 'sent': begin + send,
            'turn': turn, 'whole': whole, 'ratio': turn / whole, 'best': max(compute, copy),
            'pacer': 'the device sets' if part >= send else 'the bus sets', 'now': now,
            'computed': min(pieces, floor(now / part + 1e-9)),
            'copied': max(0, min(pieces, floor((now - part - send) / max(part, send) + 1 + 1e-9)))}


def devices(k, operations, path, one):
    """Seconds for a graph of equal operations on k devices: at best, and if none idles without need."""
    longest = min(path, operations)
    best = max(longest, operations / k) * one
    return {'best': best, 'worst': (operations / k + (1 - 1 / k) * longest) * one,
            'gain': operations * one / best, 'limit': operations / longest,
            'what': 'the longest path' if longest >= operations / k else 'the number of devices'}


LIVE = {
    'overlap': Figure(
        'Copy one piece while the next is computed', overlap,
        (Input('pieces', 'Pieces', '', 1, 40, 6, log=False, whole=True),
         Input('compute', 'Computing everything', 'ms', 0.1, 10_000, 100, measured=HALF),
         Input('copy', 'Copying everything', 'ms', 0.1, 10_000, 100, measured=HALF),
         Input('latency', 'Latency of a message', 'ms', 0.001, 100, 0.1),
         Input('t', 'Time that has passed, in steps', '', 0, 24, 24, log=False, whole=True, play=True)),
        (Output('turn', 'first compute, then copy', 's'), Output('whole', 'piece by piece', 's'),
         Output('best', 'no less than', 's'), Output('ratio', 'the first ÷ the second')),
        ('In {pieces} pieces it takes {whole} in place of {turn}, {ratio} to 1; {pacer} the pace. '
         'No number of pieces gets below {best}.',
         'After {t} of 24 steps, {computed} pieces are computed and {copied} are copied.'),
        count='pieces', clock='now', lanes=(('device', 'start', 'ready'), ('bus', 'begin', 'sent'))),
    'devices': Figure(
        'Devices against the longest path', devices,
        (Input('k', 'Devices', '', 1, 16, 2, log=False, whole=True),
         Input('operations', 'Operations', '', 1, 1000, 10, whole=True),
         Input('path', 'of which on the longest path', '', 1, 1000, 6, whole=True),
         Input('one', 'An operation takes', 'ms', 0.001, 1000, 10, measured=Derived(
             lambda twenty: twenty / 20, (Measured('par-mx-two.in_turn'),)))),
        (Output('best', 'at best', 's'), Output('worst', 'at most, if nobody idles without need', 's'),
         Output('gain', 'speed-up at best')),
        ('On {k} devices it takes {best} at best, a speed-up of {gain}. Here {what} is the limit; '
         'no number of devices reaches more than {limit}.',),
        over='k', rows=(1, 2, 3, 4, 8, 16), drawn=('best', 'worst'))}
