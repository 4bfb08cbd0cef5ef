"""Datasets, offline by default. Knows no framework."""

import gzip
import hashlib
import http.client
import os
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

FASHION_MNIST = 'https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/gluon/dataset/fashion-mnist/'
FASHION_MNIST_SHA1 = {     # as MXNet 1.9.1 lists them in gluon/data/vision/datasets.py
    'train-images-idx3-ubyte.gz': '0cf37b0d40ed5169c6b3aba31069a9770ac9043d',
    'train-labels-idx1-ubyte.gz': '236021d52f1e40852b06a4c3008d8de8aef1e40b',
    't10k-images-idx3-ubyte.gz': '626ed6a7c06dd17c0eec72fa3be1740f146a2863',
    't10k-labels-idx1-ubyte.gz': '17f9ab60e7257a1620f4ad76bbbaf857c3920701'}


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


def cache_folder() -> Path:
    """Where downloads are kept: ``D2L_DATA``, or ``d2l_local`` in the user's cache folder."""
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    return Path(os.environ.get('D2L_DATA') or cache / 'd2l_local')


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def download(url: str, sha1: str, folder: Path | None = None, timeout: float = 30) -> Path:
    """The local copy of a file, downloaded once and checked each time.

    It appears under its name only when it is whole: a download that is cut off or damaged leaves
    nothing behind.

    Args:
        url: its last part names the file.
        sha1: checksum of the whole file, in hexadecimal.
        folder: default :func:`cache_folder`.
        timeout: seconds without an answer after which the network counts as absent.

    Raises:
        ConnectionError: there is no network, or the server has something else.
    """
    folder = folder or cache_folder()
    file = folder / url.rsplit('/', 1)[-1]
    if file.exists() and _sha1(file.read_bytes()) == sha1:
        return file
    advice = (f'Without a network, use the digits (load_data_digits), or copy the file to {file} '
              'from a machine that has it.')
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            content = answer.read()
    except (OSError, http.client.HTTPException) as e:
        raise ConnectionError(f'{file.name} could not be downloaded from {url}: {e}. {advice}') from e
    if _sha1(content) != sha1:
        raise ConnectionError(f'{file.name} from {url} is not the file that was expected: its SHA-1 is '
                              f'{_sha1(content)} instead of {sha1}. {advice}')
    folder.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=folder, prefix=file.name, suffix='.part')
    try:
        with open(handle, 'wb') as f:
            f.write(content)
        os.replace(part, file)
    finally:
        Path(part).unlink(missing_ok=True)
    return file


def fashion_mnist(folder: Path | None = None) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Fashion-MNIST, downloaded once (31 MB) into :func:`cache_folder`.

    Returns:
        ``(images, labels)`` for training (60,000 examples) and for testing (10,000): images
        uint8 of shape ``(n, 1, 28, 28)``, labels int32 of shape ``(n,)``.

    Raises:
        ConnectionError: it is neither in the folder nor to be had from the network.

    Source: https://github.com/zalandoresearch/fashion-mnist
    """
    def numbers(name: str, header: int) -> np.ndarray:
        file = download(FASHION_MNIST + name, FASHION_MNIST_SHA1[name], folder)
        return np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8, offset=header)
    return tuple((numbers(f'{part}-images-idx3-ubyte.gz', 16).reshape(-1, 1, 28, 28),
                  numbers(f'{part}-labels-idx1-ubyte.gz', 8).astype('int32'))
                 for part in ('train', 't10k'))


def resize(images: np.ndarray, size: int | None = None) -> np.ndarray:
    """Images as float32 in [0, 1], scaled to ``size`` pixels a side by linear interpolation.

    Args:
        images: uint8 of shape ``(n, 1, side, side)``.
        size: None leaves them as large as they are.
    """
    side = images.shape[-1]
    if size in (None, side):
        return images.astype('float32') / 255
    centres = (np.arange(size) + 0.5) * side / size - 0.5     # in pixels of the original
    weights = np.stack([np.interp(centres, np.arange(side), row) for row in np.eye(side)], axis=1)
    weights = weights.astype('float32') / 255 ** 0.5          # (size, side), used on both axes
    return weights @ images.astype('float32') @ weights.T


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
