#!/usr/bin/env python
"""Predict the price of a flat from a table, in mixed precision."""
import sys

import torch
from torch import nn, optim

DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'
ROWS, COLUMNS, BATCH = 60_000, 64, 1024


def make_table(rows):
    table = torch.randn(rows, COLUMNS)
    price = table[:, 0] * table[:, 1] + torch.relu(table[:, 2]) + 0.3 * table[:, 3:8].sum(1)
    return table, (price + 0.1 * torch.randn(rows)).unsqueeze(1)


class Tower(nn.Module):
    def __init__(self, width=512, depth=4):
        super().__init__()
        self.inputs = nn.Linear(COLUMNS, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.output = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inputs(x)
        for norm, layer in zip(self.norms, self.hidden, strict=True):
            x = x + torch.nn.functional.silu(layer(norm(x)))
        return self.output(x)


def run(epochs):
    torch.manual_seed(11)
    table, price = make_table(ROWS)
    table, price = table.to(DEVICE), price.to(DEVICE)
    model = Tower().to(DEVICE)
    optimizer = optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    scaler = torch.amp.GradScaler(DEVICE, enabled=DEVICE == 'cuda')
    number = 0
    for epoch in range(epochs):
        order = torch.randperm(ROWS, device=DEVICE)
        for first in range(0, ROWS - BATCH + 1, BATCH):
            rows = order[first:first + BATCH]
            x, y = table[rows], price[rows]
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                guess = model(x)
                loss = nn.functional.mse_loss(guess.float(), y)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            number += 1
            if number % 50 == 0:
                print(f'epoch {epoch} step {number} mse {loss.item():.4f}', flush=True)


if __name__ == '__main__':
    run(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
