"""The figures of this topic: python -m tools.figures memory"""

import numpy as np
from matplotlib import pyplot as plt

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


FIGURES = {'mountain': mountain, 'ways': ways}
