"""Train a small convolutional network on drawn shapes."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    """Noisy pictures of discs, squares, bars and rings, 3 x 32 x 32, in bytes."""

    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        y, x = np.mgrid[0:32, 0:32]
        self.labels = rng.integers(0, 4, size)
        centers = rng.integers(10, 22, (size, 2))
        radii = rng.integers(4, 9, size)
        images = rng.integers(0, 90, (size, 3, 32, 32), dtype=np.uint8)
        for i in range(size):
            dx, dy = np.abs(x - centers[i, 0]), np.abs(y - centers[i, 1])
            distance = np.hypot(dx, dy)
            drawn = [distance < radii[i], np.maximum(dx, dy) < radii[i], dx < radii[i] / 3,
                     np.abs(distance - radii[i]) < 1.5][self.labels[i]]
            images[i, :, drawn] += 100
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        if np.random.rand() < 0.5:
            image = image[:, :, ::-1]
        return image, self.labels[i]


def collate(samples):
    images = np.stack([image for image, _ in samples])
    labels = np.array([label for _, label in samples])
    return torch.from_numpy(images).float().div_(255), torch.from_numpy(labels)


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        x = self.conv(x)
        return F.relu(self.norm(x), inplace=True)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            Block(3, width), Block(width, width), nn.MaxPool2d(2),
            Block(width, 2 * width), Block(2 * width, 2 * width), nn.MaxPool2d(2),
            Block(2 * width, 4 * width))
        self.head = nn.Linear(4 * width, 4)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def train(args, model, loader, optimizer, epoch):
    model.train()
    for batch, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        if batch % args.log_interval == 0:
            print(f'epoch {epoch} batch {batch}/{len(loader)} loss {loss.item():.4f}', flush=True)


@torch.no_grad()
def test(model, loader):
    model.eval()
    correct = 0
    for images, labels in loader:
        correct += (model(images).argmax(1) == labels).sum().item()
    print(f'test accuracy {correct / len(loader.dataset):.3f}', flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--batch-size', type=int, default=32)
    parser.add_argument('--epochs', type=int, default=40)
    parser.add_argument('--lr', type=float, default=0.05)
    parser.add_argument('--width', type=int, default=16)
    parser.add_argument('--log-interval', type=int, default=20)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train_loader = DataLoader(Shapes(6000, 1), args.batch_size, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(Shapes(480, 2), 96, collate_fn=collate)
    model = Net(args.width)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4, foreach=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    for epoch in range(args.epochs):
        train(args, model, train_loader, optimizer, epoch)
        test(model, test_loader)
        scheduler.step()


if __name__ == '__main__':
    main()
