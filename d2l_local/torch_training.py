"""Training in PyTorch under the names of ``d2l``: splitting, evaluating, ResNet-18, data.

Use it through :mod:`d2l_local.torch`.
"""

import functools
from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from d2l_local import data
from d2l_local.timers import Accumulator


def kept(forward: Callable[[], object], there: Iterable[torch.Tensor] = ()) -> int:
    """Bytes that autograd keeps for a backward pass of what ``forward()`` computes.

    Storages are counted, each once: tensors that share their memory do so here as well. It works on
    the device ``meta`` too, where nothing is allocated. What a checkpoint computes again is not kept.

    Args:
        forward: computes with gradients on; what it returns is dropped.
        there: tensors that do not count, such as the weights and the batch.
    """
    known, found = {id(t.untyped_storage()) for t in there}, {}

    def look(t: torch.Tensor) -> torch.Tensor:
        found[id(t.untyped_storage())] = t.untyped_storage()
        return t.detach()       # the tensor itself would hold its graph, and the graph the tensor

    with torch.autograd.graph.saved_tensors_hooks(look, lambda t: t):
        forward()
    return sum(s.nbytes() for key, s in found.items() if key not in known)


class Block(nn.Module):
    """A block of products with a layer norm and GELU that adds what it computes to its input.

    Input and result have the shape ``(n, d)``; inside, ``(n, 4 * d)``.
    """

    def __init__(self, d: int = 128):
        super().__init__()
        self.work = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(),
                                  nn.Linear(4 * d, d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.work(x)


def accuracy(y_hat: torch.Tensor, y: torch.Tensor) -> float:
    """The number of right predictions.

    Args:
        y_hat: scores of shape ``(n, classes)``, or predicted classes of shape ``(n,)``.
        y: true classes of shape ``(n,)``.
    """
    if y_hat.ndim > 1 and y_hat.shape[1] > 1:
        y_hat = y_hat.argmax(dim=1)
    return float((y_hat.to(y.dtype) == y).sum())


def evaluate_accuracy_gpu(net: Callable, data_iter: Iterable,
                          device: torch.device | None = None) -> float:
    """Share of right predictions on one device: by default the one that the network is on.

    Args:
        net: a module, which is evaluated in ``eval`` mode and left in the mode that it had, each of its
            parts too; or any function, if a device is named.
    """
    module = isinstance(net, nn.Module)
    device = device or (next(net.parameters()).device if module else torch.device('cpu'))
    right = Accumulator(2)
    modes = [(part, part.training) for part in net.modules()] if module else []
    if module:
        net.eval()
    try:
        with torch.no_grad():
            for X, y in data_iter:
                right.add(accuracy(net(X.to(device)), y.to(device)), y.numel())
    finally:
        for part, training in modes:
            part.training = training
    return right[0] / right[1]


def load_data(batch_size: int, size: int = 28) -> tuple[DataLoader, DataLoader]:
    """Iterators over the digits for training (shuffled) and testing, or over Fashion-MNIST where the
    environment has ``D2L_DATA=fashion_mnist``.

    Batches are float32 in [0, 1] of shape ``(n, 1, size, size)``, and int64 labels.
    """
    train, test = (TensorDataset(torch.from_numpy(X), torch.from_numpy(y).long())
                   for X, y in data.load_arrays(size))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(test, batch_size)


class Residual(nn.Module):
    """Two 3×3 convolutions beside a shortcut (d2l's ``Residual``).

    Maps ``(n, c, h, w)`` to ``(n, num_channels, h / strides, w / strides)``.

    Args:
        num_channels: of the output.
        use_1x1conv: the shortcut is a 1×1 convolution: needed if channels or strides change.
        strides: of the first convolution and of the shortcut.
        in_channels: of the input; without it, the first input tells.

    Source: K. He et al., Deep residual learning for image recognition, CVPR, 2016.
    """

    def __init__(self, num_channels: int, use_1x1conv: bool = False, strides: int = 1,
                 in_channels: int | None = None) -> None:
        super().__init__()
        conv = nn.LazyConv2d if in_channels is None else functools.partial(nn.Conv2d, in_channels)
        self.main = nn.Sequential(
            conv(num_channels, 3, strides, 1, bias=False), nn.BatchNorm2d(num_channels), nn.ReLU(),
            nn.Conv2d(num_channels, num_channels, 3, 1, 1, bias=False), nn.BatchNorm2d(num_channels))
        self.around = conv(num_channels, 1, strides) if use_1x1conv else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.main(x) + self.around(x))


def resnet18(num_classes: int, in_channels: int = 1, width: int = 64) -> nn.Sequential:
    """A ResNet-18 for small images (d2l's ``resnet18``): no large kernel, no pooling at the start.

    Args:
        width: channels of the first stage; each of the three later ones doubles them.
    """
    blocks, before = [], width
    for stage in range(4):
        channels = width << stage
        blocks += [Residual(channels, stage > 0, 1 + (stage > 0), before),
                   Residual(channels, in_channels=channels)]
        before = channels
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, num_classes))
