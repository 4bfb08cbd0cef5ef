"""Training in PyTorch under the names of ``d2l``: splitting, evaluating, ResNet-18, data.

Use it through :mod:`d2l_local.torch`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from d2l_local import data
from d2l_local.data import digits
from d2l_local.timing import Accumulator
from d2l_local.virtual import VirtualDevice, put


def split_batch(X: torch.Tensor, y: torch.Tensor,
                devices: Sequence[torch.device | VirtualDevice]) -> tuple[list, list]:
    """Split a batch over devices: device ``i`` gets the ``i``-th part, in order.

    Args:
        X, y: examples and labels, of shapes ``(n, …)``; ``n`` a multiple of the number of devices.

    Returns:
        Two lists of tensors, the parts of ``X`` and of ``y``.

    Raises:
        ValueError: the batch cannot be split evenly.
    """
    n, k = len(X), len(devices)
    if not k or len(y) != n or n < k or n % k:
        raise ValueError(f'{n} examples and {len(y)} labels cannot be split evenly over {k} devices: '
                         'make the batch a multiple of their number (drop_last=True)')
    return tuple([put(part, d) for part, d in zip(z.chunk(k), devices, strict=True)] for z in (X, y))


def sgd(params: Iterable[torch.Tensor], lr: float, batch_size: int) -> None:
    """One step of gradient descent, in place; gradients are sums over ``batch_size`` examples, and
    are zero afterwards."""
    with torch.no_grad():
        for p in params:
            p -= lr / batch_size * p.grad
            p.grad.zero_()


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
        net: a module, which is evaluated in ``eval`` mode and left in the mode that it had; or any
            function, if a device is named.
    """
    module = isinstance(net, nn.Module)
    device = device or (next(net.parameters()).device if module else torch.device('cpu'))
    right, training = Accumulator(2), module and net.training
    if module:
        net.eval()
    try:
        with torch.no_grad():
            for X, y in data_iter:
                right.add(accuracy(net(X.to(device)), y.to(device)), y.numel())
    finally:
        if training:
            net.train()
    return right[0] / right[1]


def load_data_digits(batch_size: int, size: int = 28) -> tuple[DataLoader, DataLoader]:
    """Iterators over the digits, for training (shuffled) and testing; see :func:`digits`.

    Labels are int64, as ``cross_entropy`` wants them.
    """
    train, test = (TensorDataset(torch.from_numpy(x), torch.from_numpy(y).long())
                   for x, y in digits(size))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(test, batch_size)


def load_data_fashion_mnist(batch_size: int, resize: int | None = None) -> tuple[DataLoader, DataLoader]:
    """Iterators over Fashion-MNIST, for training (shuffled) and testing.

    Batches are float32 in [0, 1] of shape ``(n, 1, 28, 28)``, or of side ``resize``, and int64
    labels. See :func:`d2l_local.data.fashion_mnist`, also for what it raises without a network.
    """
    def batch(examples: list) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = zip(*examples, strict=True)
        return (torch.from_numpy(data.resize(numpy.stack(images), resize)),
                torch.tensor([int(y) for y in labels]))
    train, test = (list(zip(*part, strict=True)) for part in data.fashion_mnist())
    return (DataLoader(train, batch_size, shuffle=True, collate_fn=batch),
            DataLoader(test, batch_size, collate_fn=batch))


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

        def conv(size: int, padding: int, **how: Any) -> nn.Module:
            if in_channels is None:
                return nn.LazyConv2d(num_channels, size, strides, padding, **how)
            return nn.Conv2d(in_channels, num_channels, size, strides, padding, **how)
        self.main = nn.Sequential(
            conv(3, 1, bias=False), nn.BatchNorm2d(num_channels), nn.ReLU(),
            nn.Conv2d(num_channels, num_channels, 3, 1, 1, bias=False), nn.BatchNorm2d(num_channels))
        self.around = conv(1, 0) if use_1x1conv else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.main(x) + self.around(x))


def resnet18(num_classes: int, in_channels: int = 1, width: int = 64) -> nn.Sequential:
    """A ResNet-18 for small images (d2l's ``resnet18``): no large kernel, no pooling at the start.

    Args:
        width: channels of the first stage; each of the three later ones doubles them.
    """
    layers = []
    for stage in range(4):
        inputs, outputs = width * 2 ** max(0, stage - 1), width * 2 ** stage
        first = stage == 0
        layers += [Residual(outputs, not first, 1 if first else 2, inputs),
                   Residual(outputs, in_channels=outputs)]
    return nn.Sequential(
        nn.Conv2d(in_channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), *layers,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, num_classes))
