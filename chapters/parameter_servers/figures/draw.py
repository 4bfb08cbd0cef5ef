"""The figures of this topic: python -m tools.figures parameter_servers"""

import math
from collections import Counter

from matplotlib.patches import FancyBboxPatch, Rectangle

from chapters import drawing
from chapters.drawing import BLUE, GREEN, GREY, LIGHT, MINT, ORANGE, WARM, canvas, write
from chapters.parameter_servers.figures import live
from d2l_local import plotting
from tested_results.traces import Event

EXAMPLE = {'size': 160e6, 'gpu': 16e9, 'cpu': 16e9}     # bytes, bytes per second


# The algorithms, played through. What the figures show comes from here.

def ring_trace(n: int) -> tuple[list[list[list[str]]], list[list[tuple[int, int, int]]]]:
    """All-reduce in a ring of ``n`` nodes, with an array in ``n`` parts.

    Returns:
        The states, from the start to the end: for each node and part, the letters of the nodes whose
        numbers are in the sum. And the messages of each step: (from, to, part).
    """
    state = [[chr(97 + i)] * n for i in range(n)]
    states, steps = [state], []
    for step in range(2 * (n - 1)):
        # Node i begins with part i. After half of the steps it has just completed part i + 1.
        messages = [(i, (i + 1) % n, (i - step) % n) for i in range(n)]
        new = [list(parts) for parts in state]
        for a, b, part in messages:
            full = step >= n - 1
            new[b][part] = state[a][part] if full else ''.join(sorted(state[a][part] + state[b][part]))
        state = new
        states.append(state)
        steps.append(messages)
    return states, steps


def tree_trace(n: int) -> list[list[tuple[int, int]]]:
    """Messages (from, to) of each round in which ``n`` nodes, a power of 2, add up towards node 0."""
    return [[(i + (1 << r), i) for i in range(0, n, 2 << r)] for r in range(int(math.log2(n)))]


# NVLinks between the eight V100 of a hybrid cube-mesh, as `nvidia-smi topo -m` counts them.
MESH = ('0 1 1 2 2 0 0 0', '1 0 2 1 0 2 0 0', '1 2 0 2 0 0 1 0', '2 1 2 0 0 0 0 1',
        '2 0 0 0 0 1 1 2', '0 2 0 0 1 0 2 1', '0 0 1 0 1 2 0 2', '0 0 0 1 2 1 2 0')


def mesh_links() -> Counter:
    """How many links join each pair of GPUs."""
    return Counter({(a, b): int(k) for a, row in enumerate(MESH)
                    for b, k in enumerate(row.split()) if a < b and k != '0'})


def find_ring(pairs: set[tuple[int, int]], path: tuple[int, ...] = (0,)) -> tuple[int, ...] | None:
    """A way through all GPUs and back along given pairs, each GPU once; None if there is none."""
    if len(path) == len(MESH):
        return path if tuple(sorted((path[-1], path[0]))) in pairs else None
    for b in range(len(MESH)):
        if b not in path and tuple(sorted((path[-1], b))) in pairs:
            if found := find_ring(pairs, (*path, b)):
                return found
    return None


def hops(ring: tuple[int, ...]) -> list[tuple[int, int]]:
    """The pairs of neighbours in a ring."""
    return [tuple(sorted(pair)) for pair in zip(ring, ring[1:] + ring[:1], strict=True)]


def two_rings() -> dict[int, tuple[int, ...]]:
    """Rings that use every link of the mesh once: on the pairs with two links, and on the others."""
    links = mesh_links()
    rings = {k: find_ring({pair for pair, n in links.items() if n == k}) for k in (2, 1)}
    used = Counter()
    for k, ring in rings.items():
        for pair in hops(ring):
            used[pair] += k
    assert used == links
    return rings


def work(durations: list[float], steps: int, bound: float) -> list[list[tuple[float, float]]]:
    """When workers start and end their steps if nobody may be more than ``bound`` steps ahead.

    0 is synchronous, infinity asynchronous. Sending takes no time here.
    """
    done: list[list[tuple[float, float]]] = [[] for _ in durations]
    for c in range(steps):
        needed = c - 1 - bound      # the step that all must have finished
        start = max((d[int(needed)][1] for d in done), default=0.0) if needed >= 0 else 0.0
        for d, duration in zip(done, durations, strict=True):
            begin = max(start, d[-1][1] if d else 0.0)
            d.append((begin, begin + duration))
    return done


# Figures.

def box(ax, x, y, text='', fill=LIGHT, edge=BLUE, width=0.42, height=0.36, size=9):
    """A rounded box around (x, y)."""
    drawing.box(ax, x - width / 2, y - height / 2, width, height, text, fill, edge, size)


def line(ax, start, end, colour=GREY, width=1.5, style='-|>', near=0.0, where=1):
    """A line with arrow heads; it leaves ``near`` free at both ends."""
    drawing.arrow(ax, start, end, style, colour, width, near=near, zorder=where)


def strategies():
    """Four GPUs at a switch, three places to add up; the busiest link in another colour."""
    ax = canvas(5.4, 3.0)
    times = live.aggregation(4, **EXAMPLE)
    labels = (('on one GPU', 'one', '3 arrays in,\n3 arrays out'),
              ('on the CPU', 'host', '4 arrays in,\n4 arrays out'),
              ('in shares', 'shares', '3 quarters in,\n3 quarters out'))
    for i, (title, name, text) in enumerate(labels):
        x = 0.9 + 1.8 * i
        write(ax, x, 2.87, title, 10, weight='bold')
        busy = {'one': [0], 'host': ['cpu'], 'shares': range(4)}[name]
        cpu, switch = (x, 2.5), (x, 1.98)
        line(ax, cpu, switch, ORANGE if 'cpu' in busy else GREY, 4 if 'cpu' in busy else 1.2, '-')
        box(ax, *cpu, 'CPU', MINT if name == 'host' else 'white', GREEN if name == 'host' else GREY, 0.6,
            0.28)
        for g in range(4):
            gx = x - 0.66 + 0.44 * g
            adds = g in busy
            width = 4 if name == 'one' and adds else 2 if name == 'shares' else 1.2
            line(ax, (gx, 1.4), (gx, 1.98), ORANGE if adds else GREY, width, '-')
            box(ax, gx, 1.32, str(g), MINT if adds else LIGHT, GREEN if adds else BLUE, 0.34, 0.3)
        box(ax, *switch, 'switch', 'white', GREY, 1.66, 0.24, 8.5)
        write(ax, x, 0.84, text, 9)
        half = times[name] / 2 * 1e3
        write(ax, x, 0.3, f'{half:g} + {half:g} ms', 10, weight='bold', color=ORANGE)
    return ax


def ring():
    """Every state of an all-reduce in a ring of four, from its trace."""
    states, steps = ring_trace(4)
    ax = canvas(5.55, 5.3)
    fills = ('white', '#eaf1f9', '#cfdff1', '#a9c6e6', MINT)
    for k, state in enumerate(states):
        x, y = 0.4 + 1.74 * (k % 3), 4.85 - 1.78 * (k // 3)
        title = 'start' if not k else f'step {k}: ' + ('grow' if k <= 3 else 'hand on')
        write(ax, x + 0.76, y + 0.3, title, 9, weight='bold')
        got = {(b, part) for _, b, part in steps[k - 1]} if k else set()
        for node in range(4):
            write(ax, x + 0.19 + 0.38 * node, y + 0.09, 'abcd'[node], 9, color=BLUE)
            for part in range(4):
                left, low = x + 0.38 * node, y - 0.3 - 0.3 * part
                text, new = state[node][part], (node, part) in got
                ax.add_patch(Rectangle((left, low), 0.38, 0.3, facecolor=fills[len(text)], zorder=3,
                                       edgecolor='#999999', linewidth=0.6))
                if new:
                    ax.add_patch(Rectangle((left + 0.02, low + 0.02), 0.34, 0.26, facecolor='none',
                                           edgecolor=ORANGE, linewidth=1.8, zorder=4))
                write(ax, left + 0.19, low + 0.15, text, 8.5)
        if k % 3 == 0:
            for part in range(4):
                write(ax, x - 0.2, y - 0.15 - 0.3 * part, str(part), 9, color=GREY)
    write(ax, 2.3, 1.15, 'Columns: ranks.  Rows: parts of the array.\n'
          'bc: the sum of what b and c began with', 8.5, ha='left')
    ax.add_patch(Rectangle((2.3, 0.62), 0.34, 0.26, facecolor='none', edgecolor=ORANGE, linewidth=1.8))
    write(ax, 2.75, 0.75, 'just received from the left neighbour', 8.5, ha='left')
    ax.add_patch(Rectangle((2.3, 0.25), 0.34, 0.26, facecolor=MINT, edgecolor='#999999', linewidth=0.6))
    write(ax, 2.75, 0.38, 'complete', 8.5, ha='left')
    return ax


def tree():
    """Eight nodes add up in a tree, and in a hierarchy of two machines."""
    ax = canvas(5.4, 4.0)
    write(ax, 0.05, 3.85, 'tree', 10, weight='bold', ha='left')
    place = {i: (0.85 + 0.6 * i, 2.1) for i in range(8)}
    for r, messages in enumerate(tree_trace(8)):
        y = 2.1 + 0.52 * (r + 1)
        write(ax, 0.05, y - 0.26, f'round {r + 1}', 8.5, ha='left', color=GREY)
        for a, b in messages:
            x = (place[a][0] + place[b][0]) / 2
            for end, colour in ((a, ORANGE), (b, GREY)):
                line(ax, place[end], (x, y), colour, 1.8, '-|>' if end == a else '-', near=0.16)
            place[b] = (x, y)
        for _, b in messages:
            box(ax, *place[b], str(b), MINT, GREEN, 0.32, 0.28)
    for i in range(8):
        box(ax, 0.85 + 0.6 * i, 2.1, str(i), width=0.36, height=0.3)
    write(ax, 0.05, 1.62, 'hierarchy', 10, weight='bold', ha='left')
    for m, x in enumerate((1.5, 3.9)):
        ax.add_patch(FancyBboxPatch((x - 1.12, 0.12), 2.24, 1.3, facecolor='#f6f6f6', edgecolor=GREY,
                                    boxstyle='round,pad=0,rounding_size=0.08', linewidth=1))
        write(ax, x, 0.27, f'machine {m}', 8.5, color=GREY)
        for g in range(4):
            gx = x - 0.78 + 0.52 * g
            line(ax, (gx, 0.62), (x, 1.14), BLUE, 1.5, near=0.14)
            box(ax, gx, 0.58, str(4 * m + g), width=0.36, height=0.3)
        box(ax, x, 1.18, 'sum', MINT, GREEN, 0.5, 0.28)
    line(ax, (1.75, 1.18), (3.65, 1.18), ORANGE, 2.5, '<|-|>', where=4)
    write(ax, 2.7, 1.57, 'network', 8.5, color=ORANGE)
    return ax


def cube_rings():
    """The hybrid cube-mesh, and the two rings that a search finds in it."""
    ax = canvas(5.4, 3.1)
    rings = two_rings()
    # The upper four and the lower four as squares, shifted, so that no link hides another.
    left = {0: (0.3, 2.4), 1: (1.3, 2.4), 2: (1.3, 1.65), 3: (0.3, 1.65),
            4: (0.75, 1.05), 5: (1.75, 1.05), 6: (1.75, 0.3), 7: (0.75, 0.3)}
    around = {g: (3.98 + 1.12 * math.sin(i * math.pi / 4), 1.36 + 1.05 * math.cos(i * math.pi / 4))
              for i, g in enumerate(rings[2])}
    colours = {2: BLUE, 1: ORANGE}
    for place, title, x in ((left, 'the links', 1.05), (around, 'two rings', 3.98)):
        write(ax, x, 2.95, title, 10, weight='bold')
        for k, members in rings.items():
            for a, b in hops(members):
                (xa, ya), (xb, yb) = place[a], place[b]
                length = math.hypot(xb - xa, yb - ya)
                for side in ((-1, 1) if k == 2 else (0,)):
                    dx, dy = -0.035 * side * (yb - ya) / length, 0.035 * side * (xb - xa) / length
                    ax.plot((xa + dx, xb + dx), (ya + dy, yb + dy), linewidth=1.6, linestyle='-',
                            color=colours[k] if place is around else GREY)
        for g, (gx, gy) in place.items():
            box(ax, gx, gy, str(g), width=0.32, height=0.3)
    write(ax, 2.15, 2.35, 'two links', 8.5, color=BLUE)
    write(ax, 2.15, 2.1, 'one link', 8.5, color=ORANGE)
    return ax


def servers():
    """Four workers with one server, and with four."""
    ax = canvas(5.4, 2.75)
    for x, n, title, text in ((1.3, 1, 'one server', 'its link carries 4 S\nin each direction'),
                              (4.05, 4, 'four servers', 'each link carries S\nin each direction')):
        write(ax, x, 2.6, title, 10, weight='bold')
        workers = [(x - 0.96 + 0.64 * i, 0.95) for i in range(4)]
        places = [(x + 0.64 * (i - (n - 1) / 2), 2.05) for i in range(n)]
        for w in workers:
            for s in places:
                line(ax, w, s, ORANGE if n == 1 else GREY, 3.2 if n == 1 else 1, '-')
        for s in places:
            box(ax, *s, 'all' if n == 1 else '¼', MINT, GREEN, 0.5, 0.36, 10)
        for i, w in enumerate(workers):
            box(ax, *w, f'w{i}', width=0.46)
        write(ax, x, 0.4, text, 9)
    return ax


def push_pull():
    """From the GPUs of two machines to two servers, key by key, and back."""
    ax = canvas(5.4, 3.9)
    homes = ((1.45, 3.2), (3.95, 3.2))
    for i, ((x, y), keys) in enumerate(zip(homes, ('keys 0, 2', 'key 1'), strict=True)):
        box(ax, x, y, f'server {i}: {keys}\ng = Σ g of the workers\nw ← w − η g', MINT, GREEN, 1.95,
            0.86, 8.5)
    for m, x in enumerate((1.45, 3.95)):
        ax.add_patch(FancyBboxPatch((x - 1.2, 0.1), 2.4, 1.5, facecolor='#f6f6f6', edgecolor=GREY,
                                    boxstyle='round,pad=0,rounding_size=0.08', linewidth=1))
        write(ax, x, 0.24, f'machine {m}', 8.5, color=GREY)
        for g in range(2):
            line(ax, (x - 0.5 + g, 0.6), (x, 1.24), BLUE, 1.5, '<|-|>', near=0.17)
            box(ax, x - 0.5 + g, 0.56, f'GPU {g}', width=0.72, height=0.3, size=8.5)
        box(ax, x, 1.28, f'worker {m}: sum', WARM, ORANGE, 1.3, 0.32, 8.5)
        for s in homes:
            line(ax, (x - 0.16, 1.44), (s[0] - 0.16, 2.77), ORANGE, 1.6, where=3)
            line(ax, (s[0] + 0.16, 2.77), (x + 0.16, 1.44), GREEN, 1.6, where=3)
    write(ax, 0.55, 2.1, 'push: g', 9, color=ORANGE)
    write(ax, 4.85, 2.1, 'pull: w', 9, color=GREEN)
    return ax


SPEEDS, UNTIL = [1.0, 1.25, 2.5], 10.0
RULES = {'synchronous': 0, 'at most 2 ahead': 2, 'asynchronous': math.inf}


def sync_async():
    """Three workers, the last one slow, under three rules."""
    events, lanes = [], []
    for rule, bound in RULES.items():
        done = work(SPEEDS, 12, bound)
        for i, steps in enumerate(done):
            lanes.append(f'{rule}: {i}')
            for c, (start, end) in enumerate(steps):
                if start < UNTIL:
                    events.append(Event(lanes[-1], ('a step', 'the next step')[c % 2], start,
                                        min(end, UNTIL)))
    ax = plotting.timeline(events, lanes, figsize=(5.2, 3.6))
    ax.set(xlabel='time (computed, not measured)', xticklabels=[])
    for y in (2.5, 5.5):
        ax.axhline(y, color=GREY, linewidth=0.8, linestyle='-')
    return ax


FIGURES = {'strategies': strategies, 'ring': ring, 'tree': tree, 'cube_rings': cube_rings,
           'servers': servers, 'push_pull': push_pull, 'sync_async': sync_async}
