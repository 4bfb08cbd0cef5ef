"""Datasets, offline by default. Knows no framework."""

import time

import numpy as np


def digits(size: int = 28, seed: int = 0) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Handwritten digits that come with scikit-learn: real, small, offline.

    Args:
        size: side of the square images in pixels, at least 8. The 8×8 images are enlarged
            by a whole factor and padded with zeros.
        seed: of the shuffle before the split.

    Returns:
        ``(images, labels)`` for training (1,500 examples) and for testing (297): images
        float32 of shape ``(n, 1, size, size)`` in [0, 1], labels int32 of shape ``(n,)``.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.
    """
    if size < 8:
        raise ValueError(f'the images have 8×8 pixels and are only enlarged: size {size} is too small')
    from sklearn.datasets import load_digits
    images, labels = load_digits(return_X_y=True)
    factor = size // 8
    images = np.kron(images.reshape(-1, 8, 8) / 16, np.ones((1, factor, factor)))
    gap = size - 8 * factor
    images = np.pad(images, ((0, 0), (gap // 2, gap - gap // 2), (gap // 2, gap - gap // 2)))
    order = np.random.default_rng(seed).permutation(len(labels))
    images, labels = images[order, None].astype('float32'), labels[order].astype('int32')
    return (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


class SlowDisk:
    """A dataset whose items arrive after a wait, as from a disk or a network.

    It stands in a module because the worker processes of a ``DataLoader`` import it, however they
    are started; a class that a notebook defines is known to forked processes only.

    Args:
        n: the number of items.
        wait: seconds that each item takes to arrive; no processor is busy meanwhile.
        side: item ``i`` is a float32 array of shape ``(side, side)`` that holds ``i`` everywhere.
    """

    def __init__(self, n: int, wait: float, side: int) -> None:
        self.n, self.wait, self.side = n, wait, side

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> np.ndarray:
        if not 0 <= i < self.n:
            raise IndexError(f'item {i} of {self.n}')       # ends a plain `for` loop as well
        time.sleep(self.wait)
        return np.full((self.side, self.side), i, 'float32')
