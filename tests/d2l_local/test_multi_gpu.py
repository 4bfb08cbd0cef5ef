"""Training on several devices: batches, accuracy, ResNet-18, data from the network, progress."""

import copy
import gzip
import hashlib
import http.server
import importlib
import subprocess
import sys
import threading

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

from d2l_local import data, plotting
from tested_results import machine
from tools import refresh, runs, source


@pytest.fixture
def m():
    if machine.machine()['mxnet'] is None:
        pytest.skip('mxnet is not installed')
    from d2l_local import mxnet as half
    return half


def numbers(n):
    from mxnet import np as mnp
    return mnp.arange(2 * n).reshape(n, 2), mnp.arange(n)


@pytest.mark.parametrize('k', [1, 2, 3])
def test_parts_of_a_batch_are_equal_and_in_order(m, k):
    X, y = numbers(6)
    devices = m.devices(k)
    Xs, ys = m.split_batch(X, y, devices)
    assert [part.ctx for part in Xs] == [part.ctx for part in ys] == devices
    assert [len(part) for part in Xs] == [6 // k] * k
    assert sum((part.tolist() for part in ys), []) == y.tolist()
    assert sum((part.tolist() for part in Xs), []) == X.tolist()


@pytest.mark.parametrize(('n', 'k', 'sizes'), [
    (7, 2, [3, 4]), (5, 3, [1, 2, 2]), (1, 3, [1]), (3, 3, [1, 1, 1])])
def test_uneven_parts_leave_out_devices_without_any(m, n, k, sizes):
    X, y = numbers(n)
    Xs, ys = m.split_batch(X, y, m.devices(k), even=False)
    assert [len(part) for part in Xs] == sizes
    assert sum((part.tolist() for part in ys), []) == y.tolist()


@pytest.mark.parametrize(('n', 'labels', 'devices', 'says'), [
    (5, 5, (0, 1), 'a batch of 5 examples cannot be split evenly over 2 devices: make the batch a mult'),
    (1, 1, (0, 1), 'a batch of 1 examples cannot be split evenly'),
    (0, 0, (0, 1), 'a batch of 0 examples'),
    (4, 4, (0, 0), 'a device is listed twice'),
    (4, 4, (), 'at least one device'),
    (4, 3, (0, 1), 'there are 4 examples but 3 labels')])
def test_a_batch_that_cannot_be_split(m, n, labels, devices, says):
    from mxnet import npx
    with pytest.raises(ValueError, match=says):
        m.split_batch(numbers(n)[0], numbers(labels)[1], [npx.cpu(i) for i in devices])


def test_sgd_writes_in_place(m):
    from mxnet import autograd
    from mxnet import np as mnp
    p = mnp.array([1.0, 2.0])
    p.attach_grad()
    with autograd.record():
        total = (p * mnp.array([4.0, 8.0])).sum()
    total.backward()
    same = p
    m.sgd([p], 0.5, 4)
    assert same.tolist() == [0.5, 1.0]


@pytest.mark.parametrize('k', [1, 2, 3])
def test_accuracy_is_the_same_on_any_number_of_devices(m, k):
    """297 examples, which 2 does not divide; and a last batch smaller than the devices."""
    from mxnet import np as mnp
    (_, _), (X, y) = data.digits(8)
    scores = mnp.array(X.reshape(len(X), -1)[:, :10])
    batches = [(mnp.array(X[a:b]), mnp.array(y[a:b])) for a, b in ((0, 200), (200, 296), (296, 297))]

    def net(x):
        return x.reshape(len(x), -1)[:, :10]
    expected = float((scores.asnumpy().argmax(1) == y).mean())
    assert m.evaluate_accuracy_gpus(net, batches, devices=m.devices(k)) == pytest.approx(expected)


def test_accuracy_asks_a_network_where_it_is(m):
    from mxnet.gluon import nn
    devices = m.devices(2)
    net = nn.Dense(10)
    net.initialize(ctx=devices)
    seen = []

    def split(X, y, where):
        seen.append(where)
        return m.split_batch(X, y, where)
    X, y = numbers(4)
    batch = [(X.astype('float32'), y)]
    both = m.evaluate_accuracy_gpus(net, batch, split)
    assert seen == [devices] and both == m.evaluate_accuracy_gpus(net, batch, devices=devices[:1])


def test_resnet18(m):
    from mxnet import np as mnp
    small = m.resnet18(7, width=4)
    small.initialize()
    small.hybridize()
    assert small(mnp.zeros((3, 1, 16, 16))).shape == (3, 7)


def test_resnet18_has_the_parameters_of_d2l(m):
    pytest.importorskip('d2l')
    from d2l import mxnet as theirs
    from mxnet import np as mnp
    counts = []
    for net in (m.resnet18(10), theirs.resnet18(10)):
        net.initialize()
        net(mnp.zeros((1, 1, 28, 28)))
        counts.append(sorted(p.shape for p in net.collect_params().values()))
    assert counts[0] == counts[1]


def test_a_residual_block_adds_its_input(m):
    from mxnet import np as mnp

    from d2l_local.mxnet_training import Residual
    block = Residual(3)
    block.initialize()
    block.body[-1].gamma.initialize(init='zeros', force_reinit=True)     # so the body gives 0
    X = mnp.random.normal(size=(2, 3, 6, 6))
    assert bool((block(X) == mnp.maximum(X, 0)).all())
    wider = Residual(6, use_1x1conv=True, strides=2)
    wider.initialize()
    assert wider(X).shape == (2, 6, 3, 3)


# ---- Fashion-MNIST, from a server of our own

FILES = {'train-images-idx3-ubyte.gz': (6, True), 'train-labels-idx1-ubyte.gz': (6, False),
         't10k-images-idx3-ubyte.gz': (3, True), 't10k-labels-idx1-ubyte.gz': (3, False)}


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server that has small files in place of the real ones, and counts what is asked for."""
    content, asked = {}, []
    for name, (n, image) in FILES.items():
        body = np.arange(n * 784 if image else n, dtype='uint32').astype('uint8')
        content[name] = gzip.compress(bytes(16 if image else 8) + body.tobytes(), mtime=0)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            name = self.path.rsplit('/', 1)[-1]
            asked.append(name)
            self.send_response(200)
            self.send_header('Content-Length', str(len(content[name]) + self.server.lies))
            self.end_headers()
            self.wfile.write(content[name])

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.lies, server.asked, server.content = 0, asked, content
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    monkeypatch.setattr(data, 'FASHION_MNIST', f'http://127.0.0.1:{server.server_port}/some/folder/')
    monkeypatch.setattr(data, 'FASHION_MNIST_SHA1',
                        {name: hashlib.sha1(c).hexdigest() for name, c in content.items()})
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_fashion_mnist_is_downloaded_once(server, tmp_path):
    (x, y), (x_test, y_test) = data.fashion_mnist()
    assert x.shape == (6, 1, 28, 28) and x.dtype == 'uint8' and x_test.shape == (3, 1, 28, 28)
    assert y.tolist() == list(range(6)) and y.dtype == 'int32' and y_test.tolist() == [0, 1, 2]
    assert x.reshape(-1)[:3].tolist() == [0, 1, 2]
    assert sorted(server.asked) == sorted(FILES)
    data.fashion_mnist()
    assert len(server.asked) == 4
    file = tmp_path / 'd2l_local' / 'train-labels-idx1-ubyte.gz'
    file.write_bytes(file.read_bytes()[:-1])          # damaged on the disk: fetched again
    assert data.fashion_mnist()[0][1].tolist() == list(range(6))
    assert len(server.asked) == 5
    assert sorted(f.name for f in (tmp_path / 'd2l_local').iterdir()) == sorted(FILES)


@pytest.mark.parametrize('known', ['FASHION_MNIST_MD5', 'FASHION_MNIST_DEBIAN'])
def test_a_file_as_others_give_it_out_is_taken(server, monkeypatch, tmp_path, known):
    """The project itself, whose labels are compressed in another way than MXNet's, and Debian."""
    folder = tmp_path / 'd2l_local'
    folder.mkdir()
    own = {n: gzip.compress(gzip.decompress(c), mtime=1) for n, c in server.content.items()}
    assert all(own[n] != c for n, c in server.content.items())
    for name, content in own.items():
        (folder / name).write_bytes(content)
    monkeypatch.setattr(data, known,
                        {n: hashlib.md5(c, usedforsecurity=False).hexdigest() for n, c in own.items()})
    assert data.fashion_mnist()[0][1].tolist() == list(range(6))
    assert not server.asked


def test_a_wrong_file_is_refused_and_leaves_nothing(server, tmp_path):
    server.content['train-images-idx3-ubyte.gz'] = b'<html>please log in</html>'
    with pytest.raises(ConnectionError, match='is not the file that was expected: its SHA-1 is'):
        data.fashion_mnist()
    assert not list(tmp_path.rglob('*.*'))


def test_a_download_that_is_cut_off_leaves_nothing(server, tmp_path):
    server.lies = 100                                  # promises more than it sends
    with pytest.raises(ConnectionError, match='could not be downloaded.*use the digits'):
        data.fashion_mnist()
    assert not list(tmp_path.rglob('*.*'))


def test_without_a_network(monkeypatch, tmp_path):
    monkeypatch.setattr(data, 'FASHION_MNIST', 'http://127.0.0.1:9/')     # nobody listens there
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    with pytest.raises(ConnectionError, match=r'train-images-idx3-ubyte.gz could not be downloaded'):
        data.fashion_mnist()
    assert not list(tmp_path.iterdir())


def test_an_interrupted_write_leaves_nothing(server, monkeypatch, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt
    monkeypatch.setattr(data.os, 'replace', interrupted)
    with pytest.raises(KeyboardInterrupt):
        data.fashion_mnist()
    assert not list(tmp_path.rglob('*.*'))


@pytest.mark.parametrize(('half', 'label'), [('mxnet', 'int32'), ('torch', 'torch.int64')])
def test_one_switch_chooses_the_data(half, label, server, monkeypatch, tmp_path):
    pytest.importorskip(half)
    d2l = importlib.import_module(f'd2l_local.{half}')
    monkeypatch.delenv('D2L_DATA', raising=False)
    monkeypatch.delenv('D2L_FULL', raising=False)
    assert [len(part[1]) for part in data.load_arrays()] == [1500, 297] and not server.asked
    X, y = next(iter(d2l.load_data(64, 16)[0]))
    assert X.shape == (64, 1, 16, 16) and str(y.dtype) == label
    monkeypatch.setenv('D2L_DATA', 'fashion_mnist')
    assert [len(part[1]) for part in data.load_arrays()] == [6, 3]
    train, test = d2l.load_data(4, 14)
    assert sorted(int(v) for _, y in train for v in y) == list(range(6))
    X, y = next(iter(test))
    assert X.shape == (3, 1, 14, 14) and 0 < float(X.max()) <= 1 and str(y.dtype) == label
    assert str(X.dtype).endswith('float32') and y.tolist() == [0, 1, 2]
    assert sorted(server.asked) == sorted(FILES)
    monkeypatch.setenv('D2L_DATA', str(tmp_path))
    with pytest.raises(ValueError, match="D2L_DATA is 'digits'.*or 'fashion_mnist', not "):
        d2l.load_data(4)


def test_images_that_stand_in_for_fashion_mnist():
    (x, y), (x_test, y_test) = data.stand_in((300, 200))
    assert x.shape == (300, 1, 28, 28) and x_test.shape == (200, 1, 28, 28)
    assert x.dtype == x_test.dtype == 'uint8' and y.dtype == y_test.dtype == 'int32'
    assert set(y) == set(y_test) == set(range(10)) and 200 < x.max() <= 255
    again, _ = data.stand_in((300, 200))
    assert np.array_equal(again[0], x) and np.array_equal(again[1], y)
    assert not (x[:200] == x_test).all((1, 2, 3)).any()
    assert len(np.unique(x, axis=0)) == 300                     # no image twice


def test_images_that_stand_in_are_made_of_digits_of_their_own_part():
    """Move each image back by the best of the moves: what is left beside a digit of its label is noise."""
    def furthest(part, digits):
        worst = 0
        for image, label in zip(*part, strict=True):
            drawn = 200 * digits[0][digits[1] == label, 0]
            moved = [np.roll(image[0].astype(float), (-a, -b), (0, 1)) for a in range(-2, 3)
                     for b in range(-2, 3)]
            worst = max(worst, min(abs(m - drawn - 27.5).max((1, 2)).min() for m in moved))
        return worst
    made, kept = data.stand_in((5, 5)), data.digits()
    assert furthest(made[0], kept[0]) <= 28.5 and furthest(made[1], kept[1]) <= 28.5
    assert furthest(made[1], kept[0]) > 50


def test_as_many_images_stand_in_as_there_are_in_fashion_mnist(monkeypatch):
    asked = []
    monkeypatch.setattr(data.np, 'roll', lambda image, *_: asked.append(1) or image)
    (x, y), (x_test, y_test) = data.stand_in()
    assert (len(x), len(y), len(x_test), len(y_test)) == (60_000, 60_000, 10_000, 10_000)
    assert len(asked) == 70_000


@pytest.mark.parametrize(('full', 'name', 'chosen'), [
    (None, None, 'digits'), ('', '', 'digits'), ('0', None, 'digits'), (None, 'stand_in', 'stand_in'),
    ('2', None, 'fashion_mnist'), ('2', 'stand_in', 'stand_in'), ('2', 'fashion_mnist', 'fashion_mnist')])
def test_a_run_at_full_size_chooses_fashion_mnist(monkeypatch, full, name, chosen):
    for variable, value in (('D2L_FULL', full), ('D2L_DATA', name)):
        monkeypatch.delenv(variable, raising=False)
        if value is not None:
            monkeypatch.setenv(variable, value)
    assert data.chosen() == chosen and data.full_epochs() == int(full or 0)


def test_images_that_stand_in_are_loaded_as_others_are(monkeypatch):
    made = data.stand_in((6, 3))
    monkeypatch.setattr(data, 'stand_in', lambda: made)
    monkeypatch.setenv('D2L_DATA', 'stand_in')
    (x, y), (x_test, _) = data.load_arrays(14)
    assert x.shape == (6, 1, 14, 14) and len(x_test) == 3 and x.dtype == 'float32' and x.max() <= 1
    assert y.dtype == 'int32'


@pytest.mark.parametrize('text', ['yes', '1.5', '-1', '1 epoch'])
def test_full_epochs_must_be_a_number(monkeypatch, text):
    monkeypatch.setenv('D2L_FULL', text)
    monkeypatch.setenv('D2L_DATA', 'stand_in')
    for ask in (data.full_epochs, data.chosen, data.load_arrays):
        with pytest.raises(ValueError, match=f"D2L_FULL is a number of epochs.*, not '{text}'"):
            ask()


def test_a_run_at_full_size_refuses_the_digits(monkeypatch):
    monkeypatch.setenv('D2L_FULL', '1')
    monkeypatch.setenv('D2L_DATA', 'digits')
    with pytest.raises(ValueError, match='leave D2L_DATA out, or set it to stand_in'):
        data.load_arrays()


def test_a_run_at_full_size_without_a_network_names_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setattr(data, 'FASHION_MNIST', 'http://127.0.0.1:9/')     # nobody listens there
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    monkeypatch.setenv('D2L_FULL', '1')
    monkeypatch.delenv('D2L_DATA', raising=False)
    with pytest.raises(ConnectionError, match=r'could not be downloaded.*D2L_DATA=stand_in'):
        data.load_arrays()


def test_resize():
    images = np.random.default_rng(0).integers(0, 256, (2, 1, 28, 28)).astype('uint8')
    same = data.resize(images, 28)
    assert same.max() <= 1 and same.dtype == 'float32'
    np.testing.assert_allclose(same, images / np.float32(255))
    halves = images.reshape(2, 1, 14, 2, 14, 2).mean((3, 5)) / 255     # a centre lies between 2 × 2
    np.testing.assert_allclose(data.resize(images, 14), halves, rtol=1e-5)
    constant = np.full((1, 1, 28, 28), 51, 'uint8')
    np.testing.assert_allclose(data.resize(constant, 96), 0.2, rtol=1e-5)
    assert data.resize(images, 96).shape == (2, 1, 96, 96)


# ---- progress and live figures

def test_progress_is_silent_outside_a_notebook(capfd):
    assert list(plotting.progress(range(5), 'work')) == list(range(5))
    assert list(plotting.progress(iter('ab'))) == ['a', 'b']
    assert capfd.readouterr() == ('', '')


class Watching(NotebookClient):
    """Runs a notebook and keeps every state of what each cell displays."""

    def process_message(self, msg, cell, cell_index):
        if msg['msg_type'] in ('display_data', 'update_display_data'):
            self.bars[cell_index].append(msg['content']['data'].get('text/html'))
        return super().process_message(msg, cell, cell_index)


CELLS = ["""
import time
from d2l_local.plotting import Animator, progress
for i in progress(range(4), 'a <long> loop', every=0.01):
    time.sleep(0.02)
for i in progress(iter(range(9)), 'left early'):
    if i == 2:
        break
""", """
for i in progress(range(4), 'a <long> loop', every=0):
    if i == 3:
        raise RuntimeError('stop')
""", """
animator = Animator('epoch', 'accuracy')
for epoch in progress(range(3), 'training', every=0):
    animator.add(epoch, epoch ** 2)
print('done')
"""]


@pytest.fixture(scope='module')
def ran():
    """These cells with their outputs, and the states of their bars."""
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c.strip()) for c in CELLS])
    client = Watching(nb, timeout=300, kernel_name='python3', allow_errors=True)
    client.bars = [[] for _ in CELLS]
    client.execute()
    return nb.cells, client.bars


EMPTY = '<div class="d2l-progress"></div>'


@pytest.mark.slow
def test_progress_leaves_no_text_and_an_empty_bar(ran):
    outputs = ran[0][0].outputs
    assert [o.output_type for o in outputs] == ['display_data'] * 2
    assert [dict(o.data) for o in outputs] == 2 * [{'text/html': EMPTY, 'text/plain': ''}]


@pytest.mark.slow
def test_progress_shows_how_far_it_is_and_is_emptied_by_an_error(ran):
    bar, error = ran[0][1].outputs
    assert error.ename == 'RuntimeError' and bar.data['text/html'] == EMPTY
    bars = ran[1][1]
    assert bars[0] == ('<div class="d2l-progress">a &lt;long&gt; loop '
                       '<progress value="0" max="4"></progress> 0 of 4</div>')
    assert [b.split('value="')[1][0] for b in bars[:4]] == ['0', '1', '2', '3'] and len(bars) == 5


@pytest.mark.slow
def test_an_animated_curve_is_one_figure_beside_the_bar(ran):
    kinds = [sorted(o.data) for o in ran[0][2].outputs if o.output_type == 'display_data']
    assert kinds == [['text/html', 'text/plain'], ['image/svg+xml', 'text/plain']]


@pytest.mark.slow
def test_nbval_compares_neither_the_bar_nor_the_figure(ran, tmp_path):
    """nbval sees the beginning of a bar only; what is stored is its end. Of two cells with the same
    bar and the same figure, it finds the one with another text."""
    cells = [nbformat.v4.new_code_cell(c.source, outputs=copy.deepcopy(c.outputs))
             for c in (ran[0][i] for i in (0, 2, 2))]
    text, = (o for o in cells[2].outputs if o.output_type == 'stream')
    text.text = 'something else\n'
    path = tmp_path / 'bar.ipynb'
    nbformat.write(runs.normalise(nbformat.v4.new_notebook(cells=cells)), path)
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'tests.notebook_plugin',
         '-p', 'no:cacheprovider', '--nbval', '--nbval-current-env',
         '--nbval-sanitize-with', str(refresh.SANITISE),
         '--rootdir', str(source.ROOT), str(path)],
        cwd=source.ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1 and '1 failed, 2 passed' in done.stdout, done.stdout
    assert 'something else' in done.stdout and 'Cell 2' in done.stdout
