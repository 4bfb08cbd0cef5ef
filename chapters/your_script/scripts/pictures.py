"""Train a small convolutional network. Each picture is prepared by itself when the loader asks for it."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Pictures of 3 × 32 × 32 bytes with one of four labels."""

    def __init__(self, size=4096):
        rng = np.random.default_rng(0)
        self.pixels = rng.integers(0, 256, (size, 3, 32, 32), dtype=np.uint8)
        self.labels = rng.integers(0, 4, size)

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, i):
        picture = self.pixels[i].astype(np.float32) / 255
        for channel in picture:
            channel -= channel.mean()
            channel /= channel.std()
        if torch.rand(()) < 0.5:
            picture = picture[:, :, ::-1].copy()
        return picture, self.labels[i]


def network():
    return nn.Sequential(nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Pictures(), batch_size=64, shuffle=True)
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(1000):
        for pictures, labels in loader:
            loss = F.cross_entropy(net(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == '__main__':
    main()
