"""The figures of this topic: python -m tools.figures splitting"""

from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from chapters.drawing import BLUE, GREEN, GREY, LIGHT, ORANGE, WARM, arrow, box, canvas, write
from chapters.splitting import planning

STAGES, MICRO = 4, 8
FIRST, SECOND = '#9ecae1', '#fdd0a2'        # the colours of two ranks


def cuts():
    """The weights of four layers on two ranks, in three ways; dashed is what a rank has to fetch."""
    _, panels = plt.subplots(1, 3, figsize=(6.2, 3), layout='constrained')
    titles = ('tensor', 'pipeline', 'sharded data')
    sent = ('sent: activations,\nin every layer', 'sent: activations,\nat the cut',
            'sent: weights before use,\ngradients after')
    for ax, title, text in zip(panels, titles, sent, strict=True):
        ax.set_title(title, fontsize=10)
        ax.text(1, -0.75, text, ha='center', va='top', fontsize=8.5)
        ax.set(xlim=(-0.1, 2.1), ylim=(-1.6, 4.1))
        ax.axis('off')

    def box(ax, x, y, width, colour, line='-'):
        ax.add_patch(Rectangle((x, y), width, 0.8, facecolor=colour, edgecolor='0.3', linestyle=line))

    tensor, pipeline, sharded = panels
    for layer in range(4):
        box(tensor, 0.1, layer, 0.9, FIRST)
        box(tensor, 1.0, layer, 0.9, SECOND)
        box(pipeline, 0.1, layer, 1.8, FIRST if layer < 2 else SECOND)
        box(sharded, 0, layer, 0.45, FIRST)
        box(sharded, 0.45, layer, 0.45, 'white', '--')
        box(sharded, 1.1, layer, 0.45, 'white', '--')
        box(sharded, 1.55, layer, 0.45, SECOND)
    for ax, places in ((tensor, (0.55, 1.45)), (sharded, (0.45, 1.55))):
        for rank, x in enumerate(places):
            ax.text(x, -0.15, f'rank {rank}', ha='center', va='top', fontsize=8.5)
    for layer in range(4):
        pipeline.text(1, layer + 0.4, f'rank {layer // 2}', ha='center', va='center', fontsize=8.5)
    return tensor


def halves():
    """An MLP on two ranks: the first matrix cut by columns, the second by rows."""
    _, ax = plt.subplots(figsize=(6, 3), layout='constrained')

    def box(x, y, width, height, colour, text):
        ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor='0.3'))
        ax.text(x + width / 2, y + height / 2, text, ha='center', va='center')
    for rank, (y, colour) in enumerate(((2.1, '#9ecae1'), (0.1, '#fdd0a2'))):
        ax.text(-0.15, y + 0.7, f'rank {rank}', ha='right', va='center')
        box(0, y + 0.2, 1.2, 1, '0.9', 'X\nwhole')
        box(1.9, y, 0.7, 1.4, colour, f'A{"₀₁"[rank]}')
        box(3.3, y + 0.2, 0.7, 1, colour, f'H{"₀₁"[rank]}')
        box(4.7, y + 0.35, 1.4, 0.7, colour, f'B{"₀₁"[rank]}')
        box(6.8, y + 0.2, 1.2, 1, '0.9', f'H{"₀₁"[rank]} B{"₀₁"[rank]}')
        for x, sign in ((1.55, '·'), (2.95, '='), (4.35, '·'), (6.45, '=')):
            ax.text(x, y + 0.7, sign, ha='center', va='center')
        ax.annotate('', (8.6, 1.8), (8.02, y + 0.7), arrowprops={'arrowstyle': '->'})
    box(8.6, 1.3, 1.2, 1, '0.9', 'Y\nsum')
    ax.text(9.2, 1.1, 'all-reduce', ha='center', va='top')
    for x, text in ((2.25, 'cut by\ncolumns'), (3.65, 'nothing\nis sent'), (5.4, 'cut by\nrows')):
        ax.text(x, 3.65, text, ha='center', va='bottom', color='0.35')
    ax.set(xlim=(-1, 9.9), ylim=(0, 4.4))
    ax.axis('off')
    return ax


def gpipe(rank, micro):
    """All forward passes, then all backward passes: entries (what, micro-batch, chunk of the rank)."""
    return [('F', i, 0) for i in range(micro)] + [('B', i, 0) for i in range(micro)]


def one_forward_one_backward(rank, micro):
    """As many forward passes as there are stages from here on, then one of each in turn."""
    ahead = min(STAGES - rank, micro)
    found = [('F', i, 0) for i in range(ahead)]
    for i in range(micro):
        found += [('B', i, 0)] + [('F', i + ahead, 0)] * (i + ahead < micro)
    return found


def interleaved(rank, micro, chunks=2):
    """1F1B with several chunks of layers on each rank, which take turns."""
    def entry(what, number):
        turn, place = divmod(number, STAGES * chunks)
        chunk = place // STAGES
        return what, turn * STAGES + place % STAGES, chunk if what == 'F' else chunks - 1 - chunk

    passes = micro * chunks
    ahead = min(passes, (chunks - 1) * STAGES + 2 * (STAGES - rank - 1) + 1)
    found = [entry('F', number) for number in range(ahead)]
    for number in range(passes):
        found.append(entry('B', number))
        if number + ahead < passes:
            found.append(entry('F', number + ahead))
    return found


def times(schedule, micro, chunks=1):
    """(rank, what, micro-batch, chunk, start, length) of each pass.

    A backward pass through all layers of a rank takes two steps, and a forward pass one.
    """
    plans = [schedule(rank, micro) for rank in range(STAGES)]
    last = STAGES * chunks - 1
    done, clock, found = {}, [0] * STAGES, []
    while any(plans):
        for rank, plan in enumerate(plans):
            while plan:
                what, i, chunk = plan[0]
                stage = chunk * STAGES + rank
                if what == 'F':
                    before = ('F', i, stage - 1) if stage else None
                else:
                    before = ('B', i, stage + 1) if stage < last else ('F', i, last)
                if before and before not in done:
                    break
                start = max(clock[rank], done.get(before, 0))
                length = (2 if what == 'B' else 1) / chunks
                clock[rank] = done[what, i, stage] = start + length
                found.append((rank, what, i, chunk, start, length))
                plan.pop(0)
    return found


# Of the passes through the first and the second chunk of a rank.
PASSES = {'F': ('#9ecae1', '#4292c6'), 'B': ('#fdae6b', '#e6741d')}


def draw_schedule(ax, passes, size):
    """Draw the passes of all ranks as bars with the numbers of their micro-batches."""
    for rank, what, i, chunk, start, length in passes:
        ax.barh(rank, length, 0.85, start, color=PASSES[what][chunk], edgecolor='white')
        ax.text(start + length / 2, rank, str(i + 1), ha='center', va='center', fontsize=size)


def schedules():
    """Two orders of the same work on four stages, and what the first stage keeps meanwhile."""
    _, panels = plt.subplots(2, 1, figsize=(6, 3.8), sharex=True, layout='constrained')
    for ax, schedule, title in zip(
            panels, (gpipe, one_forward_one_backward),
            ('GPipe: the first stage keeps 8 micro-batches', '1F1B: the first stage keeps 4'),
            strict=True):
        draw_schedule(ax, times(schedule, MICRO), 7)
        ax.set(title=title, yticks=range(STAGES), yticklabels=[f'stage {s}' for s in range(STAGES)],
               ylim=(STAGES - 0.5, -0.5), xlim=(0, 3 * (MICRO + STAGES - 1)))
    panels[-1].set(xlabel='steps; forward in blue, backward in orange and twice as long')
    return panels[-1]


def interleaving():
    """The same work on four ranks, with a stage each, and with two chunks of half as many layers each."""
    micro = 4
    _, panels = plt.subplots(2, 1, figsize=(5, 3.8), sharex=True, layout='constrained')
    for ax, passes, title in zip(
            panels, (times(one_forward_one_backward, micro), times(interleaved, micro, 2)),
            ('1F1B, one stage on each rank', 'interleaved, two chunks on each rank: the second is darker'),
            strict=True):
        end = max(start + length for *_, start, length in passes)
        draw_schedule(ax, passes, 7.5)
        ax.axvline(end, color=GREY, linestyle=':')
        ax.set(yticks=range(STAGES), yticklabels=[f'rank {rank}' for rank in range(STAGES)],
               ylim=(STAGES - 0.5, -0.5), xlim=(0, 3 * (micro + STAGES - 1) + 0.2), xticks=[])
        ax.set_title(title, loc='left', fontsize=10)
        ax.grid(visible=False)
    panels[-1].set(xlabel='time; forward in blue, backward in orange')
    return panels[-1]


def shares():
    """Bytes that a rank keeps for each parameter at ZeRO stages 0 to 3, on four ranks."""
    _, ax = plt.subplots(figsize=(6, 2.8), layout='constrained')
    parts = (('weights', 4, 3, '#9ecae1'), ('gradients', 4, 2, '#fdd0a2'),
             ("Adam's moments", 8, 1, '#c7e9c0'))     # bytes, and the stage from which they are cut
    for stage in range(4):
        at = 0.0
        for name, size, from_stage, colour in parts:
            kept = size / 4 if stage >= from_stage else size
            ax.barh(stage, kept, 0.7, at, color=colour, edgecolor='0.3',
                    label=name if stage == 0 else None)
            ax.text(at + kept / 2, stage, f'{kept:g}', ha='center', va='center', fontsize=8)
            at += kept
    ax.set(yticks=range(4), yticklabels=['data parallel', 'ZeRO 1', 'ZeRO 2', 'ZeRO 3'],
           ylim=(3.5, -0.5), xlabel='bytes for a parameter on each of four ranks')
    ax.legend(loc='lower right')
    return ax


def alexnet():
    """AlexNet's layers on two GPUs, and the layers before which these communicate."""
    _, ax = plt.subplots(figsize=(6.4, 2.6), layout='constrained')
    layers = (('conv 1', 48, False), ('conv 2', 128, False), ('conv 3', 192, True), ('conv 4', 192, False),
              ('conv 5', 128, False), ('full 6', 2048, True), ('full 7', 2048, True))
    rows = ((1.5, '#9ecae1'), (0, '#fdd0a2'))
    ax.add_patch(Rectangle((-1.6, 0.55), 1, 1.4, facecolor='0.9', edgecolor='0.3'))
    ax.text(-1.1, 1.25, 'image', ha='center', va='center', fontsize=8)
    ends = [(-0.6, 1.25)] * 2
    for k, (name, kernels, crossing) in enumerate(layers):
        x = 1.5 * k
        for gpu, (y, colour) in enumerate(rows):
            ax.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor='0.3'))
            ax.text(x + 0.5, y + 0.5, f'{name}\n{kernels}', ha='center', va='center', fontsize=8)
            for start in ends if crossing else ends[gpu:gpu + 1]:
                ax.annotate('', (x, y + 0.5), start, arrowprops={'arrowstyle': '->', 'shrinkA': 0,
                                                                 'shrinkB': 0})
        ends = [(x + 1, y + 0.5) for y, _ in rows]
    x = 1.5 * len(layers)
    ax.add_patch(Rectangle((x, 0.55), 1, 1.4, facecolor='0.9', edgecolor='0.3'))
    ax.text(x + 0.5, 1.25, 'full 8\n1,000', ha='center', va='center', fontsize=8)
    for start in ends:
        ax.annotate('', (x, 1.25), start, arrowprops={'arrowstyle': '->', 'shrinkA': 0, 'shrinkB': 0})
    for gpu, (y, _) in enumerate(rows):
        ax.text(-0.1, y + (1.15 if gpu == 0 else -0.2), f'GPU {gpu}', ha='left',
                va='bottom' if gpu == 0 else 'top', fontsize=8)
    ax.set(xlim=(-1.8, x + 1.2), ylim=(-0.6, 3))
    ax.axis('off')
    return ax


def fsdp_times(layers):
    """A step of sharded training in which the weights of the next layer are gathered while one is computed.

    A gather and a reduce-scatter take a unit of time, a forward pass 1.5 and a backward pass 3. The network
    does one thing at a time. Every layer is dropped after its forward pass, the last one as well.

    Returns:
        (what, layer, start, end) of all that is done.
    """
    lengths = {'gather': 1, 'forward': 1.5, 'backward': 3, 'reduce': 1}
    found = []

    def do(what, layer, start):
        found.append((what, layer, start, start + lengths[what]))
        return start + lengths[what]

    last = layers - 1
    turns = [('forward', layer) for layer in range(layers)]
    turns += [('backward', layer) for layer in reversed(range(layers))]
    network = arithmetic = 0.0          # when they are free
    began = 0.0                         # the pass before; from then on, the next layer may be gathered
    for what, layer in turns:
        again_at_once = (what, layer) == ('backward', last)         # it was dropped a moment ago
        network = do('gather', layer, max(network, arithmetic if again_at_once else began))
        began = max(network, arithmetic)
        if what == 'backward' and layer < last:
            network = do('reduce', layer + 1, max(network, arithmetic))
        arithmetic = do(what, layer, began)
    do('reduce', 0, max(network, arithmetic))
    return found


def fsdp():
    """A step of FSDP for three layers: arithmetic, network, and when a whole layer has its room in memory."""
    layers = 3
    looks = {'gather': ('G', 1, '#c7e9c0'), 'forward': ('F', 0, '#9ecae1'), 'backward': ('B', 0, '#fdae6b'),
             'reduce': ('R', 1, '#dadaeb')}
    done = fsdp_times(layers)
    _, ax = plt.subplots(figsize=(5.2, 2.7), layout='constrained')
    for what, layer, start, end in done:
        letter, row, colour = looks[what]
        ax.barh(row, end - start, 0.8, start, color=colour, edgecolor='0.3')
        ax.text((start + end) / 2, row, f'{letter}{layer + 1}', ha='center', va='center', fontsize=9)
    gathered = {}                       # when the latest gather of a layer began
    for what, layer, start, end in done:
        if what == 'gather':
            gathered[layer] = start
        elif what in ('forward', 'backward'):
            ax.barh(2.2 + 0.7 * layer, end - gathered[layer], 0.5, gathered[layer], color='0.75',
                    edgecolor='white')
    ax.set(ylim=(4.1, -0.6), xlim=(-0.1, max(end for *_, end in done) + 0.1), xticks=[], xlabel='time',
           yticks=[0, 1, 2.2, 2.9, 3.6],
           yticklabels=['arithmetic', 'network', *(f'layer {k + 1} in memory' for k in range(layers))])
    ax.tick_params('y', length=0)
    ax.grid(visible=False)
    return ax


def levels():
    """Two hosts of two ranks: tensor groups inside the hosts, data-parallel groups between them."""
    ax = canvas(5.3, 3.1)
    host, rank_width, rank_height, middle = 1.75, 1.45, 0.78, 1.5
    switch, switch_width = 2.35, 0.6
    hosts = (0.05, 5.25 - host)         # their left edges
    rows = (1.95, 0.27)                 # the lower edges of the two ranks of a host
    for number, left in enumerate(hosts):
        box(ax, left, 0.15, host, 2.7, '', 'white', GREY)
        write(ax, left + host / 2, 2.98, f'host {number}', 10)
        x = left + host / 2
        arrow(ax, (x, rows[1] + rank_height), (x, rows[0]), '<|-|>', GREEN, 5, near=0.05, zorder=3)
    box(ax, switch, middle - 0.24, switch_width, 0.48, 'switch', 'white', GREY)
    for side, left in enumerate(hosts):             # the link of each host, and on it a lane for each group
        at_host = left + host if side == 0 else left
        at_switch = switch if side == 0 else switch + switch_width
        ax.plot([at_host, at_switch], [middle, middle], '-', color='#cccccc', linewidth=11, zorder=0)
        for row, (y, colour) in enumerate(zip(rows, (BLUE, ORANGE), strict=True)):
            at_rank = left + 0.15 + (rank_width if side == 0 else 0)
            lane = middle + 0.05 - 0.1 * row
            ax.plot([at_rank, at_host, at_switch], [y + rank_height / 2, lane, lane], '-', color=colour,
                    linewidth=1.8, zorder=5)
            box(ax, left + 0.15, y, rank_width, rank_height,
                f'rank {2 * side + row}\neach layer: half {row + 1}\nbatch: half {side + 1}',
                (LIGHT, WARM)[row], colour)
    write(ax, 2.65, 2.45, 'same half of\neach layer:\nadd gradients', 9)
    write(ax, 2.65, 0.55, 'same half of\nthe batch (green):\nadd activations', 9)
    return ax


def overlap():
    """The planner's steps on three networks: what of the network's time the arithmetic hides."""
    about = {'tokens': 32 * 8192, 'n': 8.03e9, 'layers': 32, 'width': 4096, 'length': 8192, 'hosts': 4,
             'adapters': 1}
    rates = (1600, 400, 200)            # Gbit/s of a host
    _, ax = plt.subplots(figsize=(5, 2.9), layout='constrained')
    for number, gbit in enumerate(rates):
        run = planning.Run(**about, gbit=gbit)
        compute, exposed = planning.compute(run), planning.shards(run)
        # two bytes for each weight, twice, and four for its gradient come into a host, but for its own part
        network = 8 * run.n * (1 - 1 / run.hosts) / run.between
        first = network / run.layers    # the layer for which the arithmetic has to wait
        hidden = min(network - first, compute)
        assert abs(network - hidden - exposed) < 1e-9
        y = 3 * number
        bars = [(y, first, compute, '#9ecae1', 'arithmetic'),
                (y + 1, first, hidden, '#74c476', 'network, hidden'),
                (y + 1, 0, first, '#e6550d', 'network, exposed'),
                (y + 1, first + hidden, network - first - hidden, '#e6550d', None)]
        for row, start, length, colour, label in bars:
            ax.barh(row, length, 1, start, color=colour, label=label if number == 0 else None)
        title = f'{gbit:,} Gbit/s into each host: a step of {compute + exposed:.2f} s'
        ax.text(0, y - 0.6, title, va='bottom', fontsize=9)
    ax.set(ylim=(3 * len(rates) - 1.3, -1.6), yticks=[], xlabel='seconds')
    ax.grid(visible=False)
    ax.spines['left'].set_visible(False)
    ax.legend(loc='upper center', bbox_to_anchor=(0.5, 1.16), ncols=3, fontsize=9, handlelength=1,
              columnspacing=1)
    return ax


def busiest(counts):
    """The most tokens that a link carries in one direction; counts[i][j] go from rank i to rank j."""
    ranks = range(len(counts))
    out = [sum(counts[i][j] for j in ranks if j != i) for i in ranks]
    into = [sum(counts[i][j] for i in ranks if i != j) for j in ranks]
    return max(out + into)


def hot_expert():
    """An all-to-all of four ranks with an even router, and with one that sends all tokens to one expert."""
    ax = canvas(5.3, 2.75)
    ranks, tokens, height, width = 4, 1024, 0.4, 0.72
    routers = {'an even router': [[tokens // ranks] * ranks] * ranks,
               'all to expert 0': [[tokens] + [0] * (ranks - 1)] * ranks}
    for panel, (name, counts) in enumerate(routers.items()):
        left = 0.05 + 2.75 * panel
        right = left + 2.4 - width
        write(ax, left + 1.2, 2.65, name, 10, weight='bold')
        tops = [2.0 - 0.5 * rank for rank in range(ranks)]
        for i, sent in enumerate(counts):
            box(ax, left, tops[i], width, height, f'rank {i}', LIGHT, BLUE)
            arrived = sum(row[i] for row in counts)
            colours = (WARM, ORANGE) if arrived else ('white', GREY)
            box(ax, right, tops[i], width, height, f'expert {i}', *colours)
            for j, count in enumerate(sent):
                if count:
                    ends = (left + width, tops[i] + height / 2), (right, tops[j] + height / 2)
                    local = i == j
                    arrow(ax, *ends, colour='#bbbbbb' if local else GREY, width=3.4 * count / tokens,
                          style='-')
        write(ax, left + 1.2, 0.2, f'busiest link: {busiest(counts):,} tokens', 9)
    return ax


FIGURES = {'alexnet': alexnet, 'cuts': cuts, 'fsdp': fsdp, 'halves': halves, 'hot_expert': hot_expert,
           'interleaving': interleaving, 'levels': levels, 'overlap': overlap, 'schedules': schedules,
           'shares': shares}
