"""The figures of this topic: python -m tools.figures transformer"""

import math

from matplotlib import pyplot as plt

from chapters.drawing import BLUE, GREEN, GREY, LIGHT, MINT, ORANGE, WARM, arrow, box, canvas, write

ANSWERS = [7, 2, 3, 5, 4, 6, 2, 3, 4, 2, 5, 3]          # tokens of twelve requests, in order
SLOTS = 4


def schedule(continuous):
    """(request, slot, first step) of each answer in four slots."""
    free, found = [0] * SLOTS, []
    for i, length in enumerate(ANSWERS):
        if not continuous and i % SLOTS == 0:
            free = [max(free)] * SLOTS
        slot = free.index(min(free))
        found.append((i, slot, free[slot]))
        free[slot] += length
    return found


def slots():
    """Twelve requests in four slots: a batch that ends together, and one whose slots are given away."""
    _, panels = plt.subplots(2, 1, figsize=(6, 3.6), sharex=True, layout='constrained')
    for ax, title in zip(panels, ('static: a batch waits for its longest answer',
                                  'continuous: a free slot is given away'), strict=True):
        plan = schedule('continuous' in title)
        end = max(start + ANSWERS[i] for i, _, start in plan)
        ax.barh([slot for _, slot, _ in plan], [ANSWERS[i] for i, *_ in plan], 0.75,
                [start for *_, start in plan], color=[f'C{i % 8}' for i, *_ in plan], edgecolor='white')
        for i, slot, start in plan:
            ax.text(start + ANSWERS[i] / 2, slot, str(i + 1), ha='center', va='center', color='white')
        ax.axvline(end, color='0.4', linestyle=':')
        ax.set(title=title, yticks=[], ylabel='slots', ylim=(SLOTS - 0.4, -0.6))
        ax.text(end + 0.15, 1.5, f'{end} steps', va='center')
    panels[-1].set(xlabel='decode steps', xlim=(0, 20), xticks=range(0, 21, 5))
    return panels[-1]


def phases():
    """An answer in time: one pass over the prompt, then a pass for each token."""
    _, ax = plt.subplots(figsize=(6.2, 2.3), layout='constrained')
    prefill, decode, tokens = 3.0, 0.9, 7
    ax.barh(0, prefill - 0.06, 0.7, 0, color='#9ecae1', edgecolor='0.3')
    ax.text(prefill / 2, 0, 'prefill: one pass\nover the whole prompt', ha='center', va='center',
            fontsize=8.5)
    for i in range(tokens):
        ax.barh(0, decode - 0.06, 0.7, prefill + i * decode, color='#fdd0a2', edgecolor='0.3')
        ax.text(prefill + (i + 0.46) * decode, 0, '1 token', ha='center', va='center', fontsize=7.5)
    for start, end, text in ((0, prefill, 'time to first token'),
                             (prefill + decode, prefill + 2 * decode, 'time per output token')):
        ax.annotate('', (end, 0.62), (start, 0.62), arrowprops={'arrowstyle': '<->', 'color': '0.3',
                                                                'shrinkA': 0, 'shrinkB': 0})
        ax.text((start + end) / 2, 0.7, text, ha='center', va='bottom', fontsize=8.5)
    starts = [0, *(prefill + i * decode for i in range(tokens))]
    for x in starts:
        ax.annotate('', (x + 0.1, -0.38), (x + 0.1, -0.85), arrowprops={'arrowstyle': '->', 'color': '0.3'})
    ax.text(starts[3], -0.95, 'all weights are read, once in each pass', ha='center', va='top', fontsize=8.5)
    ax.set(xlim=(-0.1, prefill + tokens * decode + 0.1), ylim=(-1.25, 1.0))
    ax.axis('off')
    return ax


LENGTHS = {'A': 7, 'B': 2, 'C': 10}         # tokens that three requests have by now
LONGEST, PAGE = 16, 4                       # tokens that one may have, and of a page
LOOKS = {'A': (LIGHT, BLUE), 'B': (WARM, ORANGE), 'C': (MINT, GREEN)}


def kv_pages():
    """The cache of three requests: with room for the longest answer each, and in pages."""
    ax = canvas(5.3, 3.3)
    cell, left = 0.215, 0.6

    def token(x, y, request):
        fill, edge = LOOKS.get(request, ('white', '#bbbbbb'))
        ax.add_patch(plt.Rectangle((x, y), cell, cell, facecolor=fill, edgecolor=edge, linewidth=0.9))

    def outline(x, y, length):
        ax.add_patch(plt.Rectangle((x, y), length * cell, cell, facecolor='none', edgecolor='black',
                                   linewidth=1.5, zorder=3))

    write(ax, 0.05, 3.15, f'room for the longest answer: {LONGEST} tokens each', 10, ha='left',
          weight='bold')
    for row, (request, length) in enumerate(LENGTHS.items()):
        y = 2.7 - 0.32 * row
        write(ax, 0.3, y + cell / 2, request, 10)
        for k in range(LONGEST):
            token(left + k * cell, y, request if k < length else None)
        outline(left, y, LONGEST)
    write(ax, 0.05, 1.6, f'pages of {PAGE} tokens, given out when they are needed', 10, ha='left',
          weight='bold')
    order = ['A', 'C', 'B', 'A', 'C', 'C']          # in which the requests needed their pages
    left_over, used = dict(LENGTHS), sum(LENGTHS.values())
    for number in range(len(LENGTHS) * LONGEST // PAGE):
        request = order[number] if number < len(order) else None
        x = left + number % 4 * (PAGE * cell + 0.1)
        y = 1.12 - 0.42 * (number // 4)
        for k in range(PAGE):
            token(x + k * cell, y, request if request and k < left_over[request] else None)
        outline(x, y, PAGE)
        write(ax, x + PAGE * cell / 2, y - 0.1, request or 'free', 8)
        if request:
            left_over[request] -= PAGE
    assert all(rest <= 0 for rest in left_over.values())
    reserved, in_pages = LONGEST * len(LENGTHS), PAGE * len(order)
    write(ax, 5.25, 2.38 + cell / 2, f'{used} of {reserved}\nused', 9, ha='right')
    write(ax, 5.25, 1.0, f'{used} of {in_pages}\nused', 9, ha='right')
    return ax


def online_softmax():
    """A row of scores in three tiles: the largest so far, and the sum, which is corrected when that grows."""
    tiles = [[0.6, 0.6, 2.0, 0.8], [0.8, 3.0, 1.6, 2.6], [1.2, 1.0, 2.4, 0.8]]
    size = len(tiles[0])
    _, ax = plt.subplots(figsize=(5, 3.0), layout='constrained')
    top, total = -math.inf, 0.0
    for number, scores in enumerate(tiles):
        first = number * (size + 1)
        new = max(top, *scores)
        shrink, added = math.exp(top - new), sum(math.exp(score - new) for score in scores)
        ax.bar(range(first, first + size), scores, 0.8, color='#9ecae1')
        ax.plot([first - 0.5, first + size - 0.5], [new, new], '-', color='#c2410c')
        middle = first + (size - 1) / 2
        before = f'{total:.2f} × {shrink:.2f} + ' if number else ''
        total = total * shrink + added
        top = new
        for y, text in ((3.75, f'tile {number + 1}'), (new + 0.2, f'largest {top:g}'),
                        (-0.45, f'{before}{added:.2f}'), (-0.95, f'sum {total:.2f}')):
            ax.text(middle, y, text, ha='center', va='center', fontsize=9,
                    weight='bold' if text.startswith('sum') else 'normal')
    ax.set(xlim=(-0.7, 3 * (size + 1) - 1.3), ylim=(-1.2, 4), xticks=[], yticks=[0, 1, 2, 3], ylabel='score')
    ax.spines[['left', 'bottom']].set_visible(False)
    ax.axhline(0, color='black', linewidth=0.8, linestyle='-')
    ax.grid(visible=False)
    return ax


def speculation():
    """Sixteen tokens by the large model alone, and in five rounds of four guesses and a pass over five."""
    # About what the page measures: times in passes over one token, and 3.2 tokens for each pass of a round.
    guess, five, guesses = 0.4, 1.2, 4
    rounds = [2, 2, 3, 2, 2]                    # right guesses
    tokens = sum(rounds) + len(rounds)
    ax = canvas(5.3, 2.7)
    left, unit, height = 0.55, 0.29, 0.42
    write(ax, 0.05, 2.55, 'the large model alone: a pass for each token', 10, ha='left', weight='bold')
    for k in range(tokens):
        box(ax, left + k * unit, 1.95, unit - 0.02, height, f'{k + 1}', LIGHT, BLUE, 8)
    write(ax, 0.05, 1.55, 'with a draft: five passes', 10, ha='left', weight='bold')
    write(ax, 0.05, 1.95 + height / 2, 'large', 9, ha='left', color=GREY)
    write(ax, 0.05, 1.1, 'draft', 9, ha='left', color=GREY)
    write(ax, 0.05, 0.6, 'large', 9, ha='left', color=GREY)
    now = left
    for right in rounds:
        begin = now
        for k in range(guesses):
            good = k < right
            box(ax, now, 1.1 - height / 2, guess * unit - 0.02, height, '',
                MINT if good else 'white', GREEN if good else GREY)
            now += guess * unit
        box(ax, now, 0.6 - height / 2, five * unit - 0.03, height, f'+{right + 1}', LIGHT, BLUE, 8)
        now += five * unit
        write(ax, (begin + now) / 2, 0.2, f'{right} of {guesses} right', 7.5)
    ax.plot([now, now], [0.35, 1.35], ':', color=GREY, linewidth=1.5)
    end = left + tokens * unit
    arrow(ax, (now + 0.03, 1.1), (end, 1.1), '<->')
    write(ax, (now + end) / 2 + 0.01, 0.85, 'saved', 9)
    return ax


FIGURES = {'kv_pages': kv_pages, 'online_softmax': online_softmax, 'phases': phases, 'slots': slots,
           'speculation': speculation}
