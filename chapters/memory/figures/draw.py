"""The figures of this topic: python -m tools.figures memory"""

import numpy as np
from matplotlib import pyplot as plt

from chapters.drawing import BLUE, GREEN, GREY, LIGHT, MINT, ORANGE, WARM, canvas, write

PARTS = {'weights': '#4c72b0', 'gradients': '#8172b3', "optimizer's state": '#937860',
         'activations': '#dd8452'}


def mountain():
    """Two steps: flat layers of the network, and on them what the backward pass needs."""
    once = np.array([0, 0.36, 0.9, 1 - 1e-9])        # straight lines between these
    t = np.concatenate([once, 1 + once])
    phase = t % 1
    rising, falling = phase < 0.36, (phase >= 0.36) & (phase < 0.9)
    activations = np.where(rising, phase / 0.36, np.where(falling, (0.9 - phase) / 0.54, 0)) * 5
    gradients = np.where(falling, (phase - 0.36) / 0.54, np.where(phase >= 0.9, 1, 0))
    _, ax = plt.subplots(figsize=(6, 2.9))
    ax.stackplot(t, np.full_like(t, 1), gradients, np.full_like(t, 2), activations,
                 colors=PARTS.values(), labels=PARTS, linewidth=0)
    for start, text in ((0.18, 'forward'), (0.63, 'backward'), (1.18, 'forward'), (1.63, 'backward')):
        ax.text(start, -0.75, text, ha='center')
    ax.set(xlim=(0, 2), ylim=(0, 9.4), xticks=[], yticks=[], ylabel='memory')
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc='lower center', bbox_to_anchor=(0.5, 1.0), ncols=2,
              frameon=False)
    return ax


def ways():
    """The baseline and four ways out, in MB, from the shapes of the second notebook."""
    d, blocks, examples = 128, 8, 512
    weights = blocks * (2 * 4 * d * d + 4 * d + d + 2 * d) * 4 / 1e6
    # a block keeps its input, mean and deviation, the normalized input, and GELU's input and result
    inside = examples * (2 * d + 2 + 2 * 4 * d) * 4 / 1e6
    inputs = blocks * examples * d * 4 / 1e6
    kept = blocks * inside
    bars = {'baseline': (weights, weights, 2 * weights, kept),
            '8 micro-\nbatches': (weights, weights, 2 * weights, kept / 8),
            'checkpoints': (weights, weights, 2 * weights, inputs + inside),
            'bfloat16': (weights / 2, weights / 2, weights, kept / 2),
            # the float32 copy and Adam's averages: what Adam keeps beside 16-bit weights
            'bfloat16\nand copy': (weights / 2, weights / 2, 3 * weights, kept / 2),
            'Adafactor': (weights, weights, 0.01 * weights, kept)}
    _, ax = plt.subplots(figsize=(6.8, 2.9))
    bottom = np.zeros(len(bars))
    for (name, colour), sizes in zip(PARTS.items(), zip(*bars.values(), strict=True), strict=True):
        ax.bar(list(bars), sizes, 0.6, bottom, color=colour, label=name)
        bottom += sizes
    ax.set(ylabel='MB')
    ax.tick_params('x', labelsize=8)
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(handles[::-1], labels[::-1], loc='upper left', bbox_to_anchor=(1.0, 1.0), frameon=False)
    return ax


def step_in_blocks(recompute, blocks=4):
    """The phases of a training step of equal blocks, in order.

    A block keeps 9 units, its input of 1 unit included, as in the second notebook. Its forward pass takes
    a unit of time, and its backward pass two.

    Args:
        recompute: whether the step keeps only the inputs, and computes each block again.

    Returns:
        Three lists: the name and the block of each phase, such as ``('forward', 2)``; how long it lasts; and
        how much is kept when it ends.
    """
    given, inside = 1, 9
    phases, lengths, kept = [], [], [0]
    for block in range(1, blocks + 1):
        phases.append(('forward', block))
        lengths.append(1)
        kept.append(kept[-1] + (given if recompute else inside))
    for block in range(blocks, 0, -1):
        if recompute:
            phases.append(('forward again', block))
            lengths.append(1)
            kept.append(kept[-1] + inside - given)
        phases.append(('backward', block))
        lengths.append(2)
        kept.append(kept[-1] - inside)
    return phases, lengths, kept[1:]


def recomputation():
    """What is kept for the backward pass over a step, without and with a checkpoint for each block."""
    colours = {'forward': '#4c72b0', 'forward again': '#8172b3', 'backward': '#937860'}
    titles = {False: 'everything is kept', True: 'only the input of each block is kept'}
    _, axes = plt.subplots(2, 1, figsize=(6.4, 4.2), sharex=True, sharey=True)
    for ax, recompute in zip(axes, titles, strict=True):
        phases, lengths, kept = step_in_blocks(recompute)
        ends = np.cumsum(lengths)
        ax.fill_between([0, *ends], [0, *kept], color=PARTS['activations'], linewidth=0, label='activations')
        for (name, block), length, end in zip(phases, lengths, ends, strict=True):
            ax.broken_barh([(end - length, length)], (-8, 6), facecolor=colours[name], edgecolor='white',
                           linewidth=1, label=name)
            ax.text(end - length / 2, -5, block, ha='center', va='center', color='white')
        ax.set(ylim=(-9, 40), yticks=[], xticks=[], ylabel='kept')
        ax.set_title(titles[recompute], loc='left', fontsize=10)
    axes[1].set(xlabel='time', xlim=(0, 16.1))
    handles, labels = axes[1].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes[0].legend(once.values(), once, loc='upper right', frameon=False)
    plt.tight_layout()
    return axes


# Bits of the exponent and of the fraction, beside one for the sign; an integer has neither.
FORMATS = {'float32': (8, 23), 'bfloat16': (8, 7), 'float16': (5, 10), 'float8_e5m2': (5, 2),
           'float8_e4m3fn': (4, 3), 'int8': None}


def bits():
    """What the bits of a number mean, in five formats of floating point and in int8."""
    ax = canvas(5.3, 2.8)
    left, bit, height, row = 1.1, 0.13, 0.26, 0.42
    kinds = {'sign': ('#eeeeee', GREY), 'exponent': (WARM, ORANGE), 'fraction': (LIGHT, BLUE),
             'integer': (MINT, GREEN)}
    x = left
    for kind, (fill, edge) in kinds.items():
        ax.add_patch(plt.Rectangle((x, 2.6), bit, bit, facecolor=fill, edgecolor=edge))
        write(ax, x + bit + 0.06, 2.6 + bit / 2, kind, 9, ha='left')
        x += 0.75 if kind == 'sign' else 1.1
    for number, (name, lengths) in enumerate(FORMATS.items()):
        y = 2.15 - row * number
        write(ax, left - 0.1, y + height / 2, name, 9, ha='right')
        exponent, fraction = lengths or (0, 0)
        parts = {'sign': 1, 'exponent': exponent, 'fraction': fraction} if lengths else {'integer': 8}
        x = left
        for kind, length in parts.items():
            fill, edge = kinds[kind]
            for k in range(length):
                ax.add_patch(plt.Rectangle((x + k * bit, y), bit, height, facecolor=fill, edgecolor=edge,
                                           linewidth=0.8))
            if length > 1:
                write(ax, x + length * bit / 2, y + height / 2, length, 8,
                      bbox={'facecolor': fill, 'edgecolor': 'none', 'pad': 0.5})
            x += length * bit
    return ax


FIGURES = {'mountain': mountain, 'ways': ways, 'recomputation': recomputation, 'bits': bits}
