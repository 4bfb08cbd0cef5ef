"""Training in MXNet under the names of ``d2l``: splitting, evaluating, ResNet-18, data.

Use it through :mod:`d2l_local.mxnet`, which sets MXNet up before this module imports it.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mxnet as mx
from mxnet.gluon import nn
from mxnet.gluon.data import ArrayDataset, DataLoader

from d2l_local import data
from d2l_local.timers import Accumulator


def split_batch(X: Any, y: Any, devices: Sequence[mx.Context], even: bool = True) -> tuple[list, list]:
    """Split examples and labels over devices: :func:`d2l_local.data.shares` says how.

    Returns:
        Two lists of arrays, the parts of ``X`` and of ``y``.

    Raises:
        ValueError: see there, or a device is listed twice: Gluon gives no gradient to one of its copies.
    """
    if len(set(devices)) < len(devices):
        raise ValueError(f'a device is listed twice: {[str(d) for d in devices]}')
    shares = data.shares(len(X), len(y), devices, even)
    return tuple([z[part].as_in_ctx(d) for part, d in shares] for z in (X, y))


def sgd(params: Iterable, lr: float, batch_size: int) -> None:
    """One step of gradient descent, in place; gradients are sums over ``batch_size`` examples."""
    for p in params:
        p[:] = p - lr / batch_size * p.grad


def accuracy(y_hat: Any, y: Any) -> float:
    """The number of right predictions.

    Args:
        y_hat: scores of shape ``(n, classes)``, or predicted classes of shape ``(n,)``.
        y: true classes of shape ``(n,)``.
    """
    if y_hat.ndim > 1 and y_hat.shape[1] > 1:
        y_hat = y_hat.argmax(axis=1)
    return float((y_hat.astype('int32') == y.astype('int32')).sum())


_split_unevenly = functools.partial(split_batch, even=False)


def evaluate_accuracy_gpus(net: Callable, data_iter: Iterable,
                           split_f: Callable = _split_unevenly,
                           devices: Sequence[mx.Context] | None = None) -> float:
    """Share of right predictions; each device predicts its part of every batch.

    Args:
        net: a Gluon network, or any function if ``devices`` are named.
        data_iter: yields ``(X, y)`` with ``y`` of shape ``(n,)``.
        split_f: as :func:`split_batch`; by default uneven parts are allowed.
        devices: by default those on which the network is.
    """
    if devices is None:
        devices = next(iter(net.collect_params().values())).list_ctx()
    right = Accumulator(2)
    for X, y in data_iter:
        Xs, ys = split_f(X, y, devices)
        scores = [net(part) for part in Xs]      # all devices are at work before one is waited for
        right.add(sum(accuracy(s, part) for s, part in zip(scores, ys, strict=True)), y.size)
    return right[0] / right[1]


def load_data(batch_size: int, size: int = 28) -> tuple[DataLoader, DataLoader]:
    """Iterators over the digits for training (shuffled) and testing, or over Fashion-MNIST where the
    environment has ``D2L_DATA=fashion_mnist``.

    Batches are float32 in [0, 1] of shape ``(n, 1, size, size)``, and int32 labels.
    """
    train, test = (ArrayDataset(*part) for part in data.load_arrays(size))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(test, batch_size)


class Residual(nn.HybridBlock):
    """Two 3×3 convolutions beside a shortcut (d2l's ``Residual``).

    Maps ``(n, c, h, w)`` to ``(n, num_channels, h / strides, w / strides)``.

    Args:
        num_channels: of the output.
        use_1x1conv: the shortcut is a 1×1 convolution: needed if channels or strides change.
        strides: of the first convolution and of the shortcut.

    Source: K. He et al., Deep residual learning for image recognition, CVPR, 2016.
    """

    def __init__(self, num_channels: int, use_1x1conv: bool = False, strides: int = 1,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.body = nn.HybridSequential()
        self.body.add(nn.Conv2D(num_channels, 3, strides, padding=1), nn.BatchNorm(),
                      nn.Activation('relu'),
                      nn.Conv2D(num_channels, 3, padding=1), nn.BatchNorm())
        self.shortcut = nn.Conv2D(num_channels, 1, strides) if use_1x1conv else None

    def hybrid_forward(self, F: Any, X: Any) -> Any:
        return F.npx.relu(self.body(X) + (self.shortcut(X) if self.shortcut else X))


def resnet18(num_classes: int, width: int = 64) -> nn.HybridSequential:
    """A ResNet-18 for small images (d2l's ``resnet18``): no large kernel, no pooling at the start.

    Args:
        width: channels of the first stage; each of the three later ones doubles them.
    """
    net = nn.HybridSequential()
    net.add(nn.Conv2D(width, 3, padding=1), nn.BatchNorm(), nn.Activation('relu'))
    for stage in range(4):
        net.add(Residual(width << stage, stage > 0, 1 + (stage > 0)), Residual(width << stage))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(num_classes))
    return net
