"""Train a small GPT to continue the text of this book, letter by letter."""

from pathlib import Path

import torch
from torch.nn import functional as F

from d2l_local.gpt import GPT

BOOK = Path(__file__).resolve().parents[2]
CONTEXT = 64


def text():
    """The Markdown pages of the book, as numbers of bytes."""
    pages = sorted(BOOK.glob('*/*.md'))
    return torch.tensor(list(b''.join(page.read_bytes() for page in pages)))


def batch(tokens, size):
    starts = torch.randint(len(tokens) - CONTEXT - 1, (size, 1))
    found = tokens[starts + torch.arange(CONTEXT + 1)]
    return found[:, :-1], found[:, 1:]


def training(size=8):
    """Steps without an end; each gives its loss."""
    torch.manual_seed(0)
    tokens, model = text(), GPT(256, d=96, layers=3, heads=4, context=CONTEXT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while True:
        x, y = batch(tokens, size)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def main():
    for step, loss in enumerate(training()):
        if step % 1000 == 0:
            print(step, loss.item())


if __name__ == '__main__':
    main()
