"""The script with six faults: it trains a small network on handwritten digits."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from d2l_local.data import digits
from tested_results import machine


def load(images, start, size=8):
    """A batch of images, each with mean 0 and deviation 1, without extremes."""
    normalized = []
    for image in images[start:start + size].numpy():
        image = (image - np.mean(image)) / np.std(image)
        normalized.append(torch.tensor(np.clip(image, -1, 3)))
    return torch.stack(normalized).to(torch.float64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(1, 16, 3), nn.Conv2d(16, 16, 3)])
        self.out = nn.Linear(16 * 5 * 5, 10)

    def forward(self, x):
        for conv in self.convs:
            for layer in (conv, F.relu, nn.MaxPool2d(2)):
                x = layer(x)
                x = x.contiguous(memory_format=torch.channels_last)
                x = x.contiguous()
        return self.out(x.flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--without', nargs='*', default=[], metavar='FAULT',
                        choices=['anomaly', 'threads'])
    mended = parser.parse_args().without
    torch.manual_seed(0)
    if 'threads' not in mended:
        torch.set_num_threads(4 * machine.cores())
    if 'anomaly' not in mended:
        torch.autograd.set_detect_anomaly(True)
    (images, labels), _ = digits()
    images, labels = torch.tensor(images[:64]), torch.tensor(labels[:64]).long()
    net = Net().to(torch.float64)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    for epoch in range(100_000):
        for start in range(0, len(images), 8):
            x, y = load(images, start), labels[start:start + 8]
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch % 100 == 0:
                print(loss.item())


if __name__ == '__main__':
    main()
