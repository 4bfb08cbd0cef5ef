"""Training on several devices in MXNet: splitting, evaluating, ResNet-18, data.

Use it through :mod:`d2l_local.mxnet`, which sets MXNet up before this module imports it.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import mxnet as mx
import numpy
from mxnet import np
from mxnet.gluon import nn

from d2l_local import data
from d2l_local.data import digits
from d2l_local.timing import Accumulator

Device = mx.Context
Loaders = tuple[mx.gluon.data.DataLoader, mx.gluon.data.DataLoader]


def split_batch(X: Any, y: Any, devices: Sequence[Device], even: bool = True) -> tuple[list, list]:
    """Split a batch over devices: device ``i`` gets the ``i``-th part, in order.

    Args:
        X: examples of shape ``(n, …)``.
        y: labels of shape ``(n, …)``.
        devices: each at most once.
        even: require parts of equal size. Without it they differ by at most one example, and
            devices for which there is none get no part: the lists are shorter then.

    Returns:
        Two lists of arrays, the parts of ``X`` and of ``y``.

    Raises:
        ValueError: the batch cannot be split so.
    """
    n, k = len(X), len(devices)
    if not k:
        raise ValueError('name at least one device')
    if len(set(devices)) < k:
        raise ValueError(f'a device is listed twice: {[str(d) for d in devices]}')
    if len(y) != n:
        raise ValueError(f'there are {n} examples but {len(y)} labels')
    if even and (n < k or n % k):
        raise ValueError(f'a batch of {n} examples cannot be split evenly over {k} devices: make the '
                         f"batch a multiple of {k} (and leave out a smaller last one: "
                         "last_batch='discard')")
    cuts = [n * i // k for i in range(k + 1)]
    parts = [(slice(a, b), d) for a, b, d in zip(cuts, cuts[1:], devices, strict=False) if a < b]
    return tuple([z[part].as_in_ctx(d) for part, d in parts] for z in (X, y))


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
                           devices: Sequence[Device] | None = None) -> float:
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


def evaluate_accuracy_gpu(net: Callable, data_iter: Iterable, device: Device | None = None) -> float:
    """Share of right predictions on one device: by default the first that the network is on."""
    device = device or next(iter(net.collect_params().values())).list_ctx()[0]
    return evaluate_accuracy_gpus(net, data_iter, devices=[device])


class Residual(nn.HybridBlock):
    """Two 3×3 convolutions beside a shortcut; shape ``(n, c, h, w)`` to ``(n, num_channels, …)``.

    Args:
        num_channels: of the output.
        use_1x1conv: the shortcut is a 1×1 convolution: needed if channels or strides change.
        strides: of the first convolution and of the shortcut.

    Source: He et al., Deep Residual Learning for Image Recognition, 2016.
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
    """ResNet-18 for small images: a 3×3 convolution in front and no pooling after it.

    Args:
        num_classes: the number of scores.
        width: channels of the first stage; 64 in the paper, less for a laptop. Each of the
            three later stages has twice as many as the one before.
    """
    net = nn.HybridSequential()
    net.add(nn.Conv2D(width, 3, padding=1), nn.BatchNorm(), nn.Activation('relu'))
    for stage in range(4):
        net.add(Residual(width << stage, use_1x1conv=stage > 0, strides=1 + (stage > 0)),
                Residual(width << stage))
    net.add(nn.GlobalAvgPool2D(), nn.Dense(num_classes))
    return net


def load_data_digits(batch_size: int, size: int = 28) -> Loaders:
    """Iterators over the digits, for training (shuffled) and testing; see :func:`digits`."""
    train, test = (mx.gluon.data.ArrayDataset(*part) for part in digits(size))
    return (mx.gluon.data.DataLoader(train, batch_size, shuffle=True),
            mx.gluon.data.DataLoader(test, batch_size))


def load_data_fashion_mnist(batch_size: int, resize: int | None = None) -> Loaders:
    """Iterators over Fashion-MNIST, for training (shuffled) and testing.

    Batches are float32 in [0, 1] of shape ``(n, 1, 28, 28)``, or of side ``resize``, and int32
    labels. See :func:`d2l_local.data.fashion_mnist`, also for what it raises without a network.
    """
    def batch(examples: list) -> tuple:
        images, labels = zip(*examples, strict=True)
        return np.array(data.resize(numpy.stack(images), resize)), np.array(labels, dtype='int32')
    train, test = (mx.gluon.data.ArrayDataset(*part) for part in data.fashion_mnist())
    return (mx.gluon.data.DataLoader(train, batch_size, shuffle=True, batchify_fn=batch),
            mx.gluon.data.DataLoader(test, batch_size, batchify_fn=batch))
