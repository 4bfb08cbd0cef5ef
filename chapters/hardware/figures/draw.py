"""The figures of this topic: python -m tools.figures hardware"""

from matplotlib.patches import Rectangle

from chapters.drawing import BLUE, GREY, LIGHT, ORANGE, WARM, arrow, box, canvas, write


def link(ax, start, end, text='', style='<|-|>', side='left', size=8.5, colour=GREY):
    """An arrow, with a label to its right ('left'-aligned), above it ('center') or to its left."""
    arrow(ax, start, end, style, colour, 1.4)
    x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    shift = {'left': 0.08, 'center': 0, 'right': -0.08}[side]
    write(ax, x + shift, y + 0.07 * (side == 'center'), text, size, ha=side,
          va='bottom' if side == 'center' else 'center')


def cells(ax, x, y, labels, size, fills=None, text=8.5, edge=BLUE, **patch):
    """A row of square cells from (x, y)."""
    for i, label in enumerate(labels):
        ax.add_patch(Rectangle((x + i * size, y), size, size, edgecolor=edge, linewidth=0.9, zorder=2,
                               facecolor=fills[i] if fills else LIGHT, **patch))
        write(ax, x + (i + 0.5) * size, y + size / 2, label, text)


def computer():
    """The parts of a computer and how they are joined."""
    ax = canvas(5.3, 4.5)
    box(ax, 1.2, 3.95, 2.9, 0.42, 'memory modules (DRAM)', LIGHT)
    link(ax, (2.65, 3.95), (2.65, 3.3), 'channels: 50–600')
    box(ax, 0.1, 2.78, 5.1, 0.5, 'CPU: cores, caches, memory controllers', LIGHT)
    devices = [(0.1, 1.75, 'GPU', 'PCIe ×16:\n16–63'), (2.25, 1.0, 'network\ncard', 'PCIe:\n4–63'),
               (3.45, 0.8, 'SSD', 'PCIe ×4:\n4–16'), (4.45, 0.75, 'hard\ndisk', 'SATA:\n0.6')]
    for x, width, name, label in devices:
        box(ax, x, 1.62, width, 0.5, name)
        middle = x + 0.3 if width < 1.5 else x + width / 2
        link(ax, (middle, 2.78), (middle, 2.12), label)
    box(ax, 0.1, 0.3, 0.85, 0.5, 'GPU\nmemory', LIGHT)
    box(ax, 1.1, 0.3, 0.75, 0.5, 'other\nGPUs')
    box(ax, 2.25, 0.3, 1.0, 0.5, 'switch')
    link(ax, (0.26, 1.62), (0.26, 0.8), 'GDDR,\nHBM:\n320–8000')
    link(ax, (1.29, 1.62), (1.29, 0.8), 'NVLink:\n150–900')
    link(ax, (2.55, 1.62), (2.55, 0.8), 'Ethernet:\n0.1–100')
    link(ax, (3.25, 0.55), (3.75, 0.55))
    ax.text(3.82, 0.55, 'other\ncomputers', fontsize=9, va='center')
    ax.text(0.1, 0.06, 'Numbers: GB/s, each way where a link has two ways.', fontsize=8.5)
    return ax


def core():
    """What a core does with instructions, and where its data come from (numbers: AMD Zen 5)."""
    ax = canvas(5.2, 4.75)
    ax.text(0.08, 4.52, 'front end: up to 8 instructions per cycle', fontsize=9, color=GREY)
    for x, width, text in ((0.08, 1.62, 'L1 code: 32 KB\npredict, fetch'),
                           (1.95, 1.3, 'decode to\nmicro-ops'),
                           (3.5, 1.62, 'rename registers,\nkeep the order')):
        box(ax, x, 3.88, width, 0.55, text, LIGHT)
    link(ax, (1.7, 4.15), (1.95, 4.15), style='-|>')
    link(ax, (3.25, 4.15), (3.5, 4.15), style='-|>')
    box(ax, 0.08, 3.1, 5.04, 0.42, 'schedulers: each micro-op goes when its inputs are there', WARM,
        ORANGE)
    link(ax, (4.31, 3.88), (4.31, 3.52), style='-|>')
    for x, text in ((0.08, 'integer, branch\n6 per cycle'), (1.81, 'vector, float\n4 per cycle'),
                    (3.54, 'load, store\n4 per cycle')):
        box(ax, x, 2.2, 1.58, 0.52, text)
        link(ax, (x + 0.79, 3.1), (x + 0.79, 2.72), style='-|>')
    box(ax, 3.0, 1.44, 2.12, 0.42, 'L1 data: 48 KB', LIGHT)
    box(ax, 1.8, 0.77, 3.32, 0.42, 'L2: 1 MB', LIGHT)
    box(ax, 0.08, 0.1, 5.04, 0.42, 'L3: 32 MB for eight cores; then memory', LIGHT)
    for high, low in ((2.2, 1.86), (1.44, 1.19), (0.77, 0.52)):
        link(ax, (4.33, high), (4.33, low))
    return ax


def simd():
    """One instruction, several lanes; and how many lanes there are."""
    ax = canvas(5.2, 4.0)
    ax.text(0.08, 3.8, 'scalar: one sum per instruction', fontsize=9)
    for x, text in ((0.6, 'a₀'), (1.4, 'b₀'), (2.2, 'c₀')):
        cells(ax, x, 3.38, [text], 0.32)
    for x, text in ((1.16, '+'), (1.96, '=')):
        ax.text(x, 3.54, text, ha='center', va='center', fontsize=11)
    ax.text(0.08, 3.08, 'vector: eight sums per instruction', fontsize=9)
    for y, name, sign in ((2.66, 'a', ''), (2.26, 'b', '+'), (1.86, 'c', '=')):
        cells(ax, 0.6, y, [name + digit for digit in '₀₁₂₃₄₅₆₇'], 0.34)
        ax.text(0.4, y + 0.17, sign, ha='center', va='center', fontsize=11)
    ax.text(3.62, 2.2, 'each column\nis a lane', fontsize=8.5, va='center', color=GREY)
    ax.text(0.08, 1.55, 'float32 numbers in one register', fontsize=9)
    names = [('scalar', 1), ('NEON, SSE', 4), ('AVX2', 8), ('AVX-512', 16)]
    for i, (name, lanes) in enumerate(names):
        y = 1.23 - i * 0.36
        ax.text(0.08, y + 0.11, name, fontsize=8.5, va='center')
        cells(ax, 1.0, y, [''] * lanes, 0.22)
        ax.text(1.08 + lanes * 0.22, y + 0.11, f'{lanes}', fontsize=8.5, va='center')
    for row in range(16):
        cells(ax, 3.3, 0.5 + row * 0.055, [''] * 16, 0.055)
    ax.text(4.26, 0.94, 'AMX tile:\n16 × 16', fontsize=8.5, va='center')
    return ax


def false_sharing():
    """Two counters in one cache line, and in two."""
    ax = canvas(5.2, 3.9)
    for y, title, own in ((2.2, 'Two counters in one line', False),
                          (0.15, 'A line for each counter', True)):
        ax.text(0.08, y + 1.5, title, fontsize=10, weight='bold')
        for k, x in enumerate((0.08, 3.0)):
            name, colour = 'AB'[k], (LIGHT, WARM)[k]
            box(ax, x, y + 0.92, 2.1, 0.42, f'core {k} writes {name}', colour, (BLUE, ORANGE)[k])
            link(ax, (x + (0.13 if own else 0.13 + 0.26 * k), y + 0.92),
                 (x + (0.13 if own else 0.13 + 0.26 * k), y + 0.6), style='-|>')
            labels, fills = [''] * 8, ['white'] * 8
            if own:
                labels[0], fills[0] = name, colour
            else:
                labels[:2], fills[:2] = 'AB', [LIGHT, WARM]
            cells(ax, x, y + 0.32, labels, 0.26, fills)
            ax.text(x, y + 0.12, 'line in its cache', fontsize=8.5, color=GREY)
        if not own:
            link(ax, (2.2, y + 0.45), (2.98, y + 0.45), colour=ORANGE)
            ax.text(2.59, y + 0.6, 'moves at\na write', fontsize=8.5, ha='center', va='bottom',
                    color=ORANGE)
        else:
            ax.text(2.59, y + 0.45, 'stays', fontsize=8.5, ha='center', va='center', color=GREY)
    return ax


def chip():
    """A whole GPU: clusters of multiprocessors that share one cache (numbers: NVIDIA H100 SXM)."""
    ax = canvas(5.3, 4.55)
    box(ax, 0.08, 4.1, 5.14, 0.36, 'PCIe, and a scheduler that hands out thread blocks', WARM, ORANGE)
    for row, y in enumerate((2.88, 1.66)):
        for column in range(4):
            x = 0.08 + 1.3 * column
            box(ax, x, y, 1.24, 1.14, '', '#f7f7f7', GREY)
            write(ax, x + 0.62, y + 1.0, f'cluster {4 * row + column + 1}', 8.5)
            for line in range(3):
                cells(ax, x + 0.08, y + 0.66 - 0.27 * line, [''] * 6, 0.18)
    box(ax, 0.08, 1.2, 5.14, 0.34, '50 MB: L2 cache, shared by all multiprocessors', LIGHT)
    for i in range(5):
        box(ax, 0.08 + 1.04 * i, 0.52, 0.98, 0.34, 'HBM3', LIGHT, size=8.5)
        link(ax, (0.57 + 1.04 * i, 1.2), (0.57 + 1.04 * i, 0.86))
    ax.text(0.08, 0.16, 'A square is a multiprocessor: 144 on the die, 132 of them switched on.',
            fontsize=8.5)
    return ax


def gpu():
    """A streaming multiprocessor and the levels of memory around it (numbers: NVIDIA H100 SXM)."""
    ax = canvas(5.3, 5.1)
    box(ax, 0.08, 2.0, 5.14, 3.02, '', '#f7f7f7', GREY)
    ax.text(0.2, 4.79, 'streaming multiprocessor (1 of 132)', fontsize=9, weight='bold')
    for x in (0.2, 1.44, 2.68, 3.92):
        box(ax, x, 2.72, 1.16, 1.98, '', 'white')
        ax.text(x + 0.58, 4.57, 'block', ha='center', va='center', fontsize=8.5)
        box(ax, x + 0.06, 4.16, 1.04, 0.28, 'scheduler', WARM, ORANGE, 8.5)
        box(ax, x + 0.06, 3.82, 1.04, 0.28, 'registers', LIGHT, size=8.5)
        for row in range(4):
            cells(ax, x + 0.1, 3.64 - row * 0.12, [''] * 8, 0.12)
        ax.text(x + 0.58, 3.18, '32 lanes', ha='center', va='center', fontsize=8.5)
        box(ax, x + 0.06, 2.78, 1.04, 0.28, 'tensor core', WARM, ORANGE, 8.5)
        link(ax, (x + 0.58, 2.72), (x + 0.58, 2.48))
    box(ax, 0.2, 2.08, 4.88, 0.4, '256 KB: L1 cache and shared memory', LIGHT)
    link(ax, (2.65, 2.0), (2.65, 1.68))
    box(ax, 0.08, 1.24, 5.14, 0.44, '50 MB: L2 cache, shared by all multiprocessors', LIGHT)
    link(ax, (1.2, 1.24), (1.2, 0.6), '3.35 TB/s')
    link(ax, (3.5, 1.24), (3.5, 0.6), '0.45 TB/s each way')
    box(ax, 0.08, 0.12, 2.6, 0.48, '80 GB: HBM3 memory', LIGHT)
    box(ax, 2.9, 0.12, 2.32, 0.48, 'NVLink to other GPUs')
    return ax


# NVLinks between the eight GPUs of a DGX-1 with V100: pairs with one and with two links.
SINGLE = ((0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7))
DOUBLE = ((0, 3), (1, 2), (2, 3), (0, 4), (1, 5), (4, 7), (5, 6), (6, 7))


def links():
    """Eight GPUs: wired to each other, and through switches."""
    ax = canvas(5.3, 4.55)
    ax.text(0.08, 4.35, 'Hybrid cube-mesh: 6 links per GPU', fontsize=10, weight='bold')
    corners = ((0.45, 3.9), (1.75, 3.9), (0.95, 2.6), (2.25, 2.6))
    place = {k: corners[k % 4] if k < 4 else (corners[k % 4][0] + 2.6, corners[k % 4][1])
             for k in range(8)}
    arcs = {(0, 4): -0.18, (1, 5): -0.18, (2, 6): 0.18, (3, 7): 0.18}
    for pairs, width, colour in ((SINGLE, 1.2, GREY), (DOUBLE, 3, BLUE)):
        for a, b in pairs:
            arrow(ax, place[a], place[b], '-', colour, width, arcs.get((a, b), 0))
    for k, (x, y) in place.items():
        box(ax, x - 0.17, y - 0.17, 0.34, 0.34, str(k), LIGHT)
    ax.text(0.08, 1.98, 'thick: two links, thin: one', fontsize=8.5, color=GREY)
    ax.text(0.08, 1.62, 'Switched: all links of each GPU go to switches', fontsize=10, weight='bold')
    for k in range(8):
        x = 0.3 + k * 0.66
        link(ax, (x + 0.04, 1.1), (x + 0.04, 0.65), style='-', colour=BLUE)
        box(ax, x - 0.13, 1.1, 0.34, 0.34, str(k), LIGHT)
    box(ax, 0.17, 0.25, 4.96, 0.4, 'switches: any GPU reaches any other in one hop', WARM, ORANGE)
    return ax


def die():
    """A processor for laptops: cores and other parts on one ring, each with a slice of L3."""
    ax = canvas(5.3, 3.3)
    ax.add_patch(Rectangle((0.35, 1.2), 4.6, 0.9, fill=False, edgecolor=ORANGE, linewidth=3, zorder=1))
    for i in range(4):
        x = 0.75 + 0.95 * i
        for y, low in ((2.45, 1.88), (0.1, 0.98)):
            box(ax, x, y, 0.75, 0.75, f'core {i + 4 * (y < 1)}\nL1, L2', LIGHT)
            link(ax, (x + 0.37, y + 0.75 * (y < 1)), (x + 0.37, low + 0.44 * (y > 1 or 0)), style='-')
            box(ax, x, low, 0.75, 0.44, 'L3 slice', WARM, ORANGE, 8)
    box(ax, 0.05, 1.35, 0.6, 0.6, 'GPU')
    box(ax, 4.5, 1.35, 0.75, 0.6, 'memory,\nPCIe', size=8)
    write(ax, 2.65, 1.65, 'ring', 9, color=GREY)
    return ax


def tensor():
    """One step of a tensor core: a product of small matrices, added to a third."""
    ax = canvas(5.3, 1.9)
    for x, name, fill, sign in ((0.1, 'D: float32', LIGHT, '='), (1.5, 'A: 16 bits', WARM, '×'),
                                (2.9, 'B: 16 bits', WARM, '+'), (4.3, 'C: float32', LIGHT, '')):
        for row in range(4):
            hot = {'D': (1, (2,)), 'A': (1, range(4)), 'B': (row, (2,)), 'C': (1, (2,))}[name[0]]
            cells(ax, x, 1.2 - 0.22 * row, [''] * 4, 0.22, [
                BLUE if row == hot[0] and i in hot[1] else fill for i in range(4)])
        write(ax, x + 0.44, 0.32, name, 9)
        write(ax, x + 1.14, 0.98, sign, 13)
    write(ax, 2.65, 1.68, 'all 16 sums of four products in one step', 9, color=GREY)
    return ax


FIGURES = {'computer': computer, 'core': core, 'simd': simd, 'die': die, 'false_sharing': false_sharing,
           'chip': chip, 'gpu': gpu, 'tensor': tensor, 'links': links}
