"""The figures of this topic, and the table of its first page: python -m tools.figures multi_gpu"""

from dataclasses import dataclass

from matplotlib.patches import Rectangle

from chapters.drawing import BLUE, GREEN, GREY, LIGHT, MINT, ORANGE, WARM, arrow, box, canvas
from d2l_local import plotting
from tested_results.numbers import figure as number
from tested_results.traces import Event

RATIO = 'https://arxiv.org/abs/2001.08361'     # section 2.1


# What the ways of splitting move, from the shapes of the layers.

@dataclass(frozen=True)
class Block:
    """A part of a network, after which it can be cut. Numbers are per example.

    Args:
        parameters: that are learned.
        work: multiplications with an addition, in the forward pass.
        inputs: numbers that go into its layers, each array once; 0 if they are the data.
        output: numbers that leave it.
    """

    parameters: int
    work: int
    inputs: int
    output: int


def lenet() -> list[Block]:
    """The LeNet of the notebooks, by layers; pooling belongs to the layer before it."""
    return [Block(20 * 9 + 20, 20 * 9 * 26 ** 2, 0, 20 * 13 ** 2),
            Block(50 * 20 * 25 + 50, 50 * 20 * 25 * 9 ** 2, 20 * 13 ** 2, 50 * 4 ** 2),
            Block(800 * 128 + 128, 800 * 128, 800, 128),
            Block(128 * 10 + 10, 128 * 10, 128, 10)]


def resnet18(width: int = 64, side: int = 28) -> list[Block]:
    """The ResNet-18 of the notebooks, for images with one channel, by residual blocks."""
    blocks = [Block((9 + 2) * width, 9 * width * side ** 2, 0, width * side ** 2)]
    channels = width
    for stage in range(4):
        for strides in (1 + (stage > 0), 1):
            before, channels, inputs = channels, width << stage, channels * side ** 2
            side = -(-side // strides)
            shortcut = (before + 1) * channels if strides > 1 else 0       # its convolution has a bias
            weights = 9 * (before + channels) * channels
            blocks.append(Block(weights + 4 * channels + shortcut,
                                (weights + (before * channels if shortcut else 0)) * side ** 2,
                                inputs + channels * side ** 2, channels * side ** 2))
    return [*blocks, Block((channels + 1) * 10, channels * 10, channels, 10)]


NETWORKS = {'LeNet': lenet(), 'ResNet-18': resnet18()}


def parameters(blocks: list[Block]) -> int:
    return sum(b.parameters for b in blocks)


def work(blocks: list[Block]) -> int:
    """Floating-point operations of the forward pass, per example."""
    return 2 * sum(b.work for b in blocks)


def best_cut(blocks: list[Block]) -> tuple[int, float]:
    """Numbers that cross the cut which divides the work best, and the larger share of the work."""
    total, cuts = sum(b.work for b in blocks), []
    for i in range(1, len(blocks)):
        first = sum(b.work for b in blocks[:i]) / total
        cuts.append((max(first, 1 - first), blocks[i - 1].output))
    share, numbers = min(cuts)
    return numbers, share


def size(count: float) -> str:
    """Bytes in decimal units, three digits."""
    for unit in ('KB', 'MB', 'GB'):
        count /= 1000
        if count < 1000:
            return f'{number(count)} {unit}'
    raise ValueError('too large')


def traffic(batches: tuple[int, ...] = (128, 256)) -> str:
    """The table of what each of two devices sends in a step of training, in float32."""
    cells = [(n, b) for n in NETWORKS.values() for b in batches]
    rows = {
        'network, batch': [f'{name}, {b}' for name in NETWORKS for b in batches],
        'parameters': [f'{parameters(n):,}' for n, _ in cells],
        f'[operations of a step]({RATIO})': [f'{number(3 * work(n) * b / 1e9)} GFLOP' for n, b in cells],
        '**by layer**: activations at one cut, or their gradients': [
            size(4 * best_cut(n)[0] * b) for n, b in cells],
        'work of the busier device': [f'{best_cut(n)[1]:.0%}' for n, _ in cells],
        '**inside layers**: half of the inputs of all layers, and of their gradients': [
            size(4 * sum(x.inputs for x in n) * b) for n, b in cells],
        '**by data**: gradients of all parameters': [size(4 * parameters(n)) for n, _ in cells]}
    lines = ['| ' + ' | '.join([title, *row]) + ' |' for title, row in rows.items()]
    return '\n'.join([lines[0], '|---' + '|---:' * len(cells) + '|', *lines[1:]])


TABLES = {'traffic': lambda page: traffic()}


# Figures.

def splits():
    """A network of three layers, and below it four examples, split over two devices in three ways."""
    ax = canvas(5.3, 3.9)
    fills, edges = (LIGHT, WARM), (BLUE, ORANGE)
    for x, title, moved in ((0.1, 'by layer', 'activations at\nthe cut, and back\ntheir gradients'),
                            (1.95, 'inside layers', 'activations of\nevery layer, and\ntheir gradients'),
                            (3.8, 'by data', 'gradients of\nall parameters,\nonce a step')):
        ax.text(x + 0.7, 3.7, title, ha='center', va='center', fontsize=10, weight='bold')
        ax.text(x + 0.7, 0.3, moved, ha='center', va='center', fontsize=8.5, linespacing=1.2)
    layers = ((1.08, 'layer 1'), (1.78, 'layer 2'), (2.48, 'layer 3'))
    # By layer: whole layers on one device.
    for (y, name), device in zip(layers, (0, 0, 1), strict=True):
        box(ax, 0.1, y, 1.4, 0.42, name, fills[device], edges[device])
    for y, colour in ((1.5, GREY), (2.2, GREEN)):
        arrow(ax, (0.8, y), (0.8, y + 0.28), '<|-|>' if colour == GREEN else '-|>', colour)
    # Inside layers: half of each layer on each device.
    for i, (y, name) in enumerate(layers):
        for device in (0, 1):
            box(ax, 1.95 + 0.74 * device, y, 0.66, 0.42, f'½ of\n{name}', fills[device], edges[device],
                8.5)
            if i < 2:
                arrow(ax, (2.28 + 0.74 * device, y + 0.42), (2.28 + 0.74 * device, y + 0.7))
        if i < 2:
            arrow(ax, (2.35, y + 0.45), (2.95, y + 0.67), '<|-|>', GREEN)
            arrow(ax, (2.95, y + 0.45), (2.35, y + 0.67), '<|-|>', GREEN)
    # By data: all layers on both devices.
    for device in (0, 1):
        for i, (y, name) in enumerate(layers):
            box(ax, 3.8 + 0.82 * device, y, 0.58, 0.42, name, fills[device], edges[device], 8.5)
            if i < 2:
                arrow(ax, (4.09 + 0.82 * device, y + 0.42), (4.09 + 0.82 * device, y + 0.7))
    for y, _ in layers:
        arrow(ax, (4.38, y + 0.21), (4.62, y + 0.21), '<|-|>', GREEN)
    # The examples, below.
    for x, fill in ((0.1, 'white'), (1.95, 'white'), (3.8, None)):
        for i in range(4):
            left = x + 0.09 + 0.33 * i if fill else x + (0.04, 0.32, 0.86, 1.14)[i]
            ax.add_patch(Rectangle((left, 0.72), 0.22, 0.22, linewidth=1, zorder=2,
                                   facecolor=fill or fills[i // 2], edgecolor=GREY))
    for x, text, fill, edge in ((0.1, 'device 0', LIGHT, BLUE), (1.3, 'device 1', WARM, ORANGE)):
        ax.add_patch(Rectangle((x, 3.12), 0.2, 0.2, facecolor=fill, edgecolor=edge, linewidth=1.2))
        ax.text(x + 0.28, 3.22, text, fontsize=9, va='center')
    arrow(ax, (2.5, 3.22), (2.85, 3.22), '<|-|>', GREEN)
    ax.text(2.95, 3.22, 'what crosses the wire', fontsize=9, va='center')
    return ax


def steps():
    """The five steps of data parallelism on two devices."""
    ax = canvas(5.4, 5.05)
    fills, edges = (LIGHT, WARM), (BLUE, ORANGE)

    def step(y, label, text):
        ax.text(0.12, y, label, fontsize=12, weight='bold', va='center', color=GREY)
        ax.text(0.4, y, text, fontsize=9, va='center', linespacing=1.2)
    box(ax, 2.76, 4.55, 1.9, 0.4, 'batch: 256 examples')
    step(4.28, '1', 'split the batch')
    step(3.38, '2', 'forward and\nbackward, with\nall parameters')
    step(2.35, '3', 'add up all\ngradients')
    step(1.6, '4', 'give the sum\nto every device')
    step(0.6, '5', 'update every copy')
    for d, x in enumerate((2.15, 3.78)):
        arrow(ax, (3.71, 4.55), (x + 0.75, 4.12), colour=edges[d])
        box(ax, x, 3.72, 1.5, 0.4, '128 examples', fills[d], edges[d])
        arrow(ax, (x + 0.75, 3.72), (x + 0.75, 3.5), colour=edges[d])
        box(ax, x, 2.92, 1.5, 0.58, f'device {d}\nits gradients', fills[d], edges[d])
        arrow(ax, (x + 0.75, 2.92), (3.71 + (-0.3, 0.3)[d], 2.3), colour=GREEN)
        arrow(ax, (3.71 + (-0.3, 0.3)[d], 1.9), (x + 0.75, 1.3), colour=GREEN)
        box(ax, x, 0.88, 1.5, 0.42, 'the same sum', MINT, GREEN)
        arrow(ax, (x + 0.75, 0.88), (x + 0.75, 0.7), colour=edges[d])
        box(ax, x, 0.1, 1.5, 0.6, 'the same new\nparameters', fills[d], edges[d])
    box(ax, 3.06, 1.9, 1.3, 0.4, 'sum: all-reduce', MINT, GREEN)
    return ax


def allreduce():
    """Three ways to give four devices the sum of their arrays, and what the busiest device sends."""
    ax = canvas(5.3, 4.0)
    titles = (('naive', 'device 0 adds up\nand hands out', '(k − 1) S'),
              ('all pairs', 'device i adds up\nshare i for all', '2 (k − 1) S / k'),
              ('ring', 'shares go round,\ngrowing, then round\nonce more', '2 (k − 1) S / k'))
    for i, (title, text, sends) in enumerate(titles):
        x = 0.95 + 1.7 * i
        ax.text(x, 3.85, title, ha='center', va='center', fontsize=10, weight='bold')
        ax.text(x, 1.62, text, ha='center', va='center', fontsize=8.5, linespacing=1.2)
        ax.text(x, 0.58, sends, ha='center', va='center', fontsize=10)
        corners = [(x - 0.46, 3.3), (x + 0.46, 3.3), (x + 0.46, 2.3), (x - 0.46, 2.3)]
        for a in range(4):
            for b in range(4):
                wanted = {'naive': a == 0 and b > 0, 'all pairs': a < b,
                          'ring': b == (a + 1) % 4}[title]
                if wanted:
                    arrow(ax, corners[a], corners[b], '-|>' if title == 'ring' else '<|-|>',
                          ORANGE if title == 'naive' else GREEN, near=0.24)
        for d, (cx, cy) in enumerate(corners):
            busy = title == 'naive' and d == 0
            box(ax, cx - 0.21, cy - 0.21, 0.42, 0.42, str(d), WARM if busy else LIGHT,
                ORANGE if busy else BLUE, 10)
    ax.text(2.65, 0.95, 'The busiest of k devices sends, for an array of S bytes:', ha='center',
            va='center', fontsize=9)
    for i, example in enumerate([(3, 15), (1.5, 1.9), (1.5, 1.9)]):
        ax.text(0.95 + 1.7 * i, 0.2, 'k = 4: {} S\nk = 16: {} S'.format(*example), ha='center',
                va='center', fontsize=8.5, color=GREY)
    return ax


def overlap():
    """A step whose all-reduce waits for the end of the backward pass, and one with four buckets."""
    events, layers, wire = [], 1.5, 1.1
    for name in ('at the end', 'in buckets'):
        compute, link = f'{name}: compute', f'{name}: wire'
        events.append(Event(compute, 'forward', 0, 3))
        events += [Event(compute, 'backward', 3 + i * layers, 3 + (i + 1) * layers) for i in range(4)]
        if name == 'at the end':
            done = 9 + 4 * wire
            events.append(Event(link, 'all-reduce', 9, done))
        else:
            ready = 0.0
            for i in range(4):
                start = max(ready, 3 + (i + 1) * layers)
                ready = start + wire
                events.append(Event(link, 'all-reduce', start, ready))
            done = ready
        events.append(Event(compute, 'update', done, done + 0.6))
    lanes = [f'{n}: {what}' for n in ('at the end', 'in buckets') for what in ('compute', 'wire')]
    ax = plotting.timeline(events, lanes, figsize=(5.2, 2.7))
    ax.set(xlabel='time (a drawing, not a measurement)', xticklabels=[])
    return ax


FIGURES = {'splits': splits, 'steps': steps, 'allreduce': allreduce, 'overlap': overlap}
