"""The text on which the small GPT is trained, its characters as tokens, and the training.

``python -m small_gpt.training``, in this topic's folder, writes the text anew from the pages of the
book, trains the model and its draft for some ten minutes, and stores both.
"""

import functools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.nn import functional as F

from small_gpt.model import GPT

HERE = Path(__file__).parent
TEXT = HERE / 'pages.txt'
SIZES = {'gpt': {}, 'draft': {'d': 32, 'layers': 1, 'heads': 2}}


def text() -> str:
    """The pages of the book, as they were when the model was trained."""
    return TEXT.read_text()


@functools.cache        # once the text has been written, it stays
def vocabulary() -> str:
    """The characters that the model knows, in order: a character's place is its token."""
    return ''.join(sorted(set(text())))


def encode(characters: str) -> torch.Tensor:
    """The tokens of a text, int64 of shape (T,).

    Raises:
        ValueError: a character does not occur in the pages.
    """
    place = {character: i for i, character in enumerate(vocabulary())}
    if unknown := sorted(set(characters) - set(place)):
        raise ValueError(f'the model knows no {unknown[0]!r}: its {len(place)} characters are '
                         f'{"".join(place)!r}')
    return torch.tensor([place[character] for character in characters])


def decode(tokens: torch.Tensor) -> str:
    """The characters of tokens (T,)."""
    characters = vocabulary()
    return ''.join(characters[i] for i in tokens.tolist())


def batches(tokens: torch.Tensor, examples: int = 8, length: int = 128, seed: int = 0) -> Iterator:
    """Endless pairs of (examples, length) tokens at random places, and of what follows each of them."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(tokens) - length, (examples, 1), generator=generator)
        places = starts + torch.arange(length + 1)
        yield tokens[places[:, :-1]], tokens[places[:, 1:]]


def loss_of(net: Callable, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean of -log of the probability of each right token; log(vocabulary) if the model guesses."""
    return F.cross_entropy(net(x).flatten(0, 1), y.flatten())


def train(net: torch.nn.Module, pairs: Iterator, optimizer: torch.optim.Optimizer, steps: int,
          look: Callable[[int, float], None] = lambda step, loss: None) -> None:
    """Train for so many steps; ``look`` is told each step and its loss."""
    for step in range(steps):
        loss = loss_of(net, *next(pairs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        look(step, loss.item())


def load(name: str = 'gpt', **how) -> GPT:
    """The trained model, or ``'draft'``, which is an eighteenth of its size."""
    net = GPT(len(vocabulary()), **SIZES[name], **how)
    net.load_state_dict(torch.load(HERE / f'{name}.pt', weights_only=True))
    return net.eval()


def prose(pages: Iterator[Path]) -> str:
    """The sentences of pages and notebooks: no code, tables, formulas, links' targets."""
    found = []
    for page in pages:
        source = page.read_text()
        if page.suffix == '.ipynb':
            cells = [c for c in json.loads(source)['cells'] if c['cell_type'] == 'markdown']
            source = '\n\n'.join(''.join(c['source']) for c in cells)
        source = re.sub(r'(?s)```.*?```|\$\$.*?\$\$|<!--.*?-->', '', source)
        source = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', source)
        source = re.sub(r'\{\w+\}|[`*|$\\]', '', source)
        found += [re.sub(r'\s+', ' ', part).strip() for part in source.split('\n\n')
                  if re.search(r'[.?!:]\s*$', part) and not re.match(r'\s*\|', part)]
    written = ''.join(part + '\n' for part in found if len(part) > 40)
    return re.sub(r'[^ -~\n]', '', written.replace('–', '-').replace('’', "'").replace('×', 'x'))


def main() -> None:
    book = HERE.parents[2]
    pages = sorted(p for p in [*book.glob('*.md'), *book.glob('chapters/*/*.md'),
                               *book.glob('chapters/*/*.ipynb')]
                   if HERE.parent not in p.parents and 'solutions' not in p.name)
    TEXT.write_text(prose(iter(pages)))
    tokens, log = encode(text()), {}
    for name, steps in (('gpt', 6000), ('draft', 3000)):
        torch.manual_seed(0)
        net = GPT(len(vocabulary()), **SIZES[name])
        optimizer = torch.optim.AdamW(net.parameters(), 3e-3, fused=True)
        slower = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.02)
        losses, start = [], time.perf_counter()

        def look(step, loss, slower=slower, losses=losses, start=start, name=name):
            slower.step()
            losses.append(loss)
            if step % 100 == 99:
                print(f'{name}: step {step + 1}, loss {sum(losses[-100:]) / 100:.3f}, '
                      f'{time.perf_counter() - start:.0f} s', flush=True)
        train(net, batches(tokens), optimizer, steps, look)
        torch.save(net.state_dict(), HERE / f'{name}.pt')
        log[name] = [round(sum(losses[i:i + 100]) / 100, 3) for i in range(0, steps, 100)]
    (HERE / 'losses.json').write_text(json.dumps(log) + '\n')


if __name__ == '__main__':
    main()
