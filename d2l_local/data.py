"""Datasets, offline by default. Knows no framework."""

import gzip
import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tested_results import conditions

DIGITS = Path(__file__).with_name('digits.npz')
FASHION_MNIST = 'https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/fashion-mnist/'
FASHION_MNIST_SHA1 = {     # as MXNet 1.9.1 lists them in gluon/data/vision/datasets.py
    'train-images-idx3-ubyte.gz': '0cf37b0d40ed5169c6b3aba31069a9770ac9043d',
    'train-labels-idx1-ubyte.gz': '236021d52f1e40852b06a4c3008d8de8aef1e40b',
    't10k-images-idx3-ubyte.gz': '626ed6a7c06dd17c0eec72fa3be1740f146a2863',
    't10k-labels-idx1-ubyte.gz': '17f9ab60e7257a1620f4ad76bbbaf857c3920701'}
FASHION_MNIST_MD5 = {      # as https://github.com/zalandoresearch/fashion-mnist lists its own files
    'train-images-idx3-ubyte.gz': '8d4fb7e6c68d591d4c3dfef9ec88bf0d',
    'train-labels-idx1-ubyte.gz': '25c81989df183df01b3e8a0aad5dffbe',
    't10k-images-idx3-ubyte.gz': 'bef4ecab320f06d8554ea6380940ec79',
    't10k-labels-idx1-ubyte.gz': 'bb300cfdad3c16e7a12a480ee83cd310'}
FASHION_MNIST_DEBIAN = {   # as its package has them, in /usr/share/datasets/fashion-mnist
    'train-images-idx3-ubyte.gz': 'cf8536b0aa1a6ac5fa3f23001093305c',
    'train-labels-idx1-ubyte.gz': '10bea18fdb374794d4bb42e356e600c9',
    't10k-images-idx3-ubyte.gz': 'f78720b4224f21cce2f2ccf2d7a94c9a',
    't10k-labels-idx1-ubyte.gz': '0d30e22e447f3c33dab9ed536400ac01'}


def digits(size: int = 28) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Handwritten digits that come with this package: real, small, offline.

    Args:
        size: side of the square images in pixels, at least 8. The 8×8 images are enlarged
            by a whole factor and padded with zeros.

    Returns:
        ``(images, labels)`` for training (1,500 examples) and for testing (297): images
        float32 of shape ``(n, 1, size, size)`` in [0, 1], labels int32 of shape ``(n,)``.

    Source: the test set of E. Alpaydin and C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI
    Machine Learning Repository, 1998, doi:10.24432/C50P49, licence CC BY 4.0.
    """
    if size < 8:
        raise ValueError(f'the images have 8×8 pixels and are only enlarged: size {size} is too small')
    with np.load(DIGITS) as kept:
        images, labels = kept['images'], kept['labels']      # 1,797 of 8×8, with values from 0 to 16
    factor = size // 8
    images = np.kron(images / 16, np.ones((1, factor, factor)))
    gap = size - 8 * factor
    images = np.pad(images, ((0, 0), (gap // 2, gap - gap // 2), (gap // 2, gap - gap // 2)))
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order, None].astype('float32'), labels[order].astype('int32')
    return (images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _known(name: str, content: bytes) -> bool:
    """Whether this is the file as MXNet, the project itself or Debian distributes it."""
    return (_sha1(content) == FASHION_MNIST_SHA1[name]
            or hashlib.md5(content, usedforsecurity=False).hexdigest()
            in (FASHION_MNIST_MD5[name], FASHION_MNIST_DEBIAN[name]))


def _downloaded(name: str, folder: Path) -> bytes:
    """A file of Fashion-MNIST, downloaded once and checked each time.

    It appears in the folder only when it is whole.
    """
    file, url = folder / name, FASHION_MNIST + name
    if file.exists() and _known(name, content := file.read_bytes()):
        return content
    instead = 'made images (D2L_DATA=stand_in)' if full_epochs() else 'the digits (D2L_DATA=digits)'
    advice = (f'Without a network, use {instead}, or copy the file to {file}. '
              'Debian has it in its package dataset-fashion-mnist.')
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            content = answer.read()
    except (OSError, http.client.HTTPException) as e:
        raise ConnectionError(f'{name} could not be downloaded from {url}: {e}. {advice}') from e
    if not _known(name, content):
        raise ConnectionError(f'{name} from {url} is not the file that was expected: its SHA-1 is '
                              f'{_sha1(content)} instead of {FASHION_MNIST_SHA1[name]}. {advice}')
    folder.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=folder, prefix=name, suffix='.part')
    try:
        with open(handle, 'wb') as f:
            f.write(content)
        os.replace(part, file)
    finally:
        Path(part).unlink(missing_ok=True)
    return content


def fashion_mnist() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Fashion-MNIST, downloaded once (31 MB) into the folder ``d2l_local`` of the user's cache.

    Returns:
        ``(images, labels)`` for training (60,000 examples) and for testing (10,000): images
        uint8 of shape ``(n, 1, 28, 28)``, labels int32 of shape ``(n,)``.

    Raises:
        ConnectionError: it is neither in the folder nor to be had from the network.

    Source: https://github.com/zalandoresearch/fashion-mnist
    """
    folder = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache', 'd2l_local')

    def numbers(name: str, header: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress(_downloaded(name, folder)), np.uint8, offset=header)
    return tuple((numbers(f'{part}-images-idx3-ubyte.gz', 16).reshape(-1, 1, 28, 28),
                  numbers(f'{part}-labels-idx1-ubyte.gz', 8).astype('int32'))
                 for part in ('train', 't10k'))


def resize(images: np.ndarray, size: int) -> np.ndarray:
    """Images as float32 in [0, 1], scaled to ``size`` pixels a side by linear interpolation.

    Args:
        images: uint8, of shape ``(n, 1, side, side)``.
    """
    side, pixels = images.shape[-1], images.astype('float32')
    pixels /= 255       # in place: Fashion-MNIST is large
    if size == side:
        return pixels
    centres = (np.arange(size) + 0.5) * side / size - 0.5     # in pixels of the original
    weights = np.stack([np.interp(centres, np.arange(side), row) for row in np.eye(side)], axis=1)
    weights = weights.astype('float32')                       # (size, side), used on both axes
    return weights @ pixels @ weights.T


def stand_in(sizes: tuple[int, int] = (60_000, 10_000)) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Images as many and as large as Fashion-MNIST's, made of the digits: for times, without a network.

    Each is a digit, moved by up to two pixels each way, with noise. Training and test images come from
    different digits. They are easier than Fashion-MNIST, so accuracies do not compare.

    Args:
        sizes: how many images for training and for testing.

    Returns:
        As :func:`fashion_mnist`.
    """
    rng, made = np.random.default_rng(0), []
    for (images, labels), n in zip(digits(), sizes, strict=True):
        which = rng.integers(len(labels), size=n)
        moves = rng.integers(-2, 3, (n, 2))
        drawn = np.empty((n, 1, 28, 28), np.uint8)
        for i, (down, right) in enumerate(moves):
            drawn[i, 0] = 200 * np.roll(images[which[i], 0], (down, right), (0, 1))
        drawn += rng.integers(0, 56, drawn.shape, dtype=np.uint8)       # at most 255 in all
        made.append((drawn, labels[which]))
    return tuple(made)


def full_epochs() -> int:
    """Epochs at full size that ``D2L_FULL`` asks for; 0 where it is not set.

    Raises:
        ValueError: it is set, and not to a whole number.
    """
    text = os.environ.get('D2L_FULL') or '0'
    if not text.isdecimal():
        raise ValueError(f'D2L_FULL is a number of epochs at full size, such as 1 or 10, not {text!r}')
    return int(text)


def chosen() -> str:
    """What the book trains on: ``D2L_DATA``, else the digits, or Fashion-MNIST at full size.

    Raises:
        ValueError: ``D2L_DATA`` names something else, or the digits for a run at full size.
    """
    full = full_epochs()
    name = os.environ.get('D2L_DATA') or ('fashion_mnist' if full else 'digits')
    if name not in ('digits', 'stand_in', 'fashion_mnist'):
        raise ValueError("D2L_DATA is 'digits' (the default, offline), 'stand_in' (offline, as large as "
                         f"Fashion-MNIST) or 'fashion_mnist', not {name!r}")
    if full and name == 'digits':
        raise ValueError('D2L_FULL asks for a run at full size, on 60,000 images, and the digits are '
                         '1,500: leave D2L_DATA out, or set it to stand_in')
    return name


@conditions.condition('the digits')
def _digits() -> str:
    return '' if chosen() == 'digits' else f'D2L_DATA={chosen()} asks for other data'


def load_arrays(size: int = 28) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The chosen data, as :func:`digits` returns them: float32 images of ``size`` pixels a side."""
    if (name := chosen()) == 'digits':
        return digits(size)
    parts = stand_in() if name == 'stand_in' else fashion_mnist()
    return tuple((resize(images, size), labels) for images, labels in parts)


def shares(n: int, labels: int, devices: Sequence, even: bool = True) -> list[tuple[slice, Any]]:
    """Which of ``n`` examples each device gets: device ``i`` the ``i``-th part, in order.

    Args:
        labels: their number must be ``n`` too.
        even: require parts of equal size. Without it they differ by at most one example, and
            devices for which there is none are left out.

    Raises:
        ValueError: the batch cannot be split so.
    """
    k = len(devices)
    if not k:
        raise ValueError('name at least one device')
    if labels != n:
        raise ValueError(f'there are {n} examples but {labels} labels')
    if even and (n < k or n % k):
        raise ValueError(f'a batch of {n} examples cannot be split evenly over {k} devices: make the '
                         f'batch a multiple of {k} (and leave out a smaller last one: drop_last=True in '
                         "PyTorch, last_batch='discard' in MXNet)")
    cuts = [n * i // k for i in range(k + 1)]
    return [(slice(a, b), d) for a, b, d in zip(cuts, cuts[1:], devices, strict=False) if a < b]
