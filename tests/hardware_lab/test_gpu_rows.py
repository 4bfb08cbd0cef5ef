"""The ladder's rows on GPUs: all of them that needs no GPU."""

import ctypes

import nbformat
import numpy as np
import pytest

from d2l_local import hardware, machine
from d2l_local.hardware.ladder import NO_GPU, _rows
from tools.notebooks import notebooks

if machine.machine()['torch'] is None:
    pytest.skip('torch is not installed', allow_module_level=True)

import torch  # noqa: E402

from d2l_local.hardware import gpu  # noqa: E402


def a_figure(value):
    return hardware.Figure(value, 0.9 * value, 1.1 * value, 20)


def no_gpu():
    if not gpu.missing():
        pytest.skip('there is a GPU')


def test_only_the_pytorch_notebook_uses_the_gpu_rows():
    users = [p.name for p in notebooks() if 'hardware import gpu' in
             '\n'.join(c.source for c in nbformat.read(p, 4).cells if c.cell_type == 'code')]
    assert set(users) <= {'hardware_pytorch.ipynb'}


def test_every_gpu_row_of_the_ladder_is_answered_for():
    on_gpus = {action for action, _, how in _rows() if how == NO_GPU}
    assert on_gpus and on_gpus <= set(gpu.MEASURES)


def test_rows_from_figures():
    fake = {'launch of a GPU kernel': lambda: a_figure(5e-6), 'something new': lambda: a_figure(1e-9)}
    old, new = gpu.rows(fake)
    assert old.action == 'launch of a GPU kernel' and old.textbook == pytest.approx(1e-5)
    assert old.measured == a_figure(5e-6) and old.ratio == pytest.approx(0.5) and old.reason == ''
    assert new.textbook is None and new.measured == a_figure(1e-9)


def test_a_row_that_cannot_be_measured_says_why():
    def raises(error):
        def measure():
            raise error
        return measure
    rows = gpu.rows({'a': raises(hardware.NotHere('it takes an NVLink')),
                     'b': raises(RuntimeError('out of memory\nmany more lines')),
                     'c': raises(RuntimeError())})
    assert [r.reason for r in rows] == [f'not measured here: {why}' for why in
                                        ('it takes an NVLink', 'out of memory', 'RuntimeError')]
    assert not any(r.measured for r in rows)
    with pytest.raises(ZeroDivisionError):       # a mistake of ours is no property of the machine
        gpu.rows({'a': lambda: 1 / 0})


def test_without_a_gpu_every_table_says_so():
    no_gpu()
    rows = gpu.rows()
    assert [r.action for r in rows] == list(gpu.MEASURES)
    assert {r.reason for r in rows} == {'not measured here: no GPU'}
    for table, n in ((hardware.ladder_table(rows), len(gpu.MEASURES)),
                     (gpu.transfer_table(), len(gpu.WAYS)), (gpu.product_table(), len(gpu.PRECISIONS))):
        lines = str(table).split('\n')
        assert len(lines) == n and all('not measured here: no GPU' in line for line in lines)


@pytest.mark.parametrize(('alpha', 'beta'), [(1e-5, 12e9), (3e-6, 50e9), (0.0, 5e9), (2e-4, 1e8)])
def test_the_fit_finds_what_was_put_in(alpha, beta):
    exact = {n: alpha + n / beta for n in gpu.SIZES}
    assert gpu.fit(exact) == (pytest.approx(alpha, abs=1e-12), pytest.approx(beta))
    rng = np.random.default_rng(0)
    for _ in range(20):
        noisy = {n: t * rng.uniform(0.9, 1.1) for n, t in exact.items()}
        found = gpu.fit(noisy)
        assert found[0] == pytest.approx(alpha, rel=0.15, abs=2e-7)
        assert found[1] == pytest.approx(beta, rel=0.15)


def test_the_fit_says_when_there_is_nothing_to_fit():
    with pytest.raises(ValueError, match='two sizes'):
        gpu.fit({1024: 1e-5})
    with pytest.raises(ValueError, match='do not grow'):
        gpu.fit({1024: 2e-5, 4096: 1e-5, 16384: 0.5e-5})
    assert gpu.fit({1000: 1e-6, 2000: 2.2e-6})[0] == 0       # no start takes less than no time


def test_tables_from_figures():
    def copy(n_bytes, way):
        alpha, beta = {'to the GPU, pinned': (1e-5, 25e9)}.get(way, (2e-5, 5e9))
        return a_figure(alpha + n_bytes / beta)
    first, second = gpu.transfer_table(copy).rows[:2]
    assert first == ('to the GPU, pinned', '10 µs', '25 GB/s', '1.00×')
    assert second == ('to the GPU, pageable', '20 µs', '5 GB/s', '1.00×')

    def no_int8(kind):
        if kind == 'int8':
            raise RuntimeError('no such product')
        return 5e13
    rows = dict(gpu.product_table(no_int8).rows)
    assert rows['float16'] == '50 TFLOP/s' and rows['int8'] == 'not measured here: no such product'


def test_a_ring_on_the_gpu_is_one_ring():
    for n in (2, 7, 4096):
        slots, following = gpu.links(n)
        after = dict(zip(slots.tolist(), following.tolist(), strict=True))
        at, seen = 0, set()
        while at not in seen:
            seen.add(at)
            at = after[at]
        assert at == 0 and len(seen) == n
    assert f'next[{gpu.LINKS}]' in gpu.SOURCE and f'i < {gpu.LINKS};' in gpu.SOURCE


class Stand(torch.overrides.TorchFunctionMode):
    """What is meant for a GPU stays here."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if 'device' in kwargs:
            kwargs['device'] = 'cpu'
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0].clone()
        return func(*args, **kwargs)


@pytest.fixture
def stand_in(monkeypatch):
    """No GPU, but everything around it: the kernels in Python, on this machine's memory."""
    def chase_global(args):
        state, n = args
        at = int(state[0])
        for _ in range(n):
            at = ctypes.c_uint64.from_address(at).value
        state[0] = at

    def chase_shared(block, args):
        following, state, n = args
        for _ in range(n):
            state[0] = following[state[0]]

    caches = (gpu.ring, gpu.shared_ring, gpu._number, gpu._ends, gpu._square, gpu.graph, gpu._warm)
    monkeypatch.setattr(gpu, '_kernel', {'chase_global': chase_global,
                                         'chase_shared': chase_shared}.get)
    monkeypatch.setattr(gpu, 'LENGTH', 0.0002)
    monkeypatch.setattr(torch.version, 'hip', None)
    for name, value in (('is_available', True), ('synchronize', None), ('mem_get_info', (2 ** 34, 0)),
                        ('get_device_capability', (6, 1)), ('get_device_name', 'GTX 1080')):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    for f in caches:
        f.cache_clear()
    with Stand():
        yield
    for f in caches:
        f.cache_clear()


def test_the_rings_are_walked_to_their_end(stand_in):
    ring = gpu.ring(64 * gpu.LINE)
    start, seen = int(ring.state[0]), set()
    for _ in range(64):
        ring.chase(1)
        seen.add(int(ring.state[0]))
    assert int(ring.state[0]) == start and len(seen) == 64
    assert {(at - ring.memory.data_ptr()) % gpu.LINE for at in seen} == {0}
    shared = gpu.shared_ring()
    shared.chase(gpu.LINKS - 1)
    assert int(shared.state[0]) != 0
    shared.chase(1)
    assert int(shared.state[0]) == 0


def test_copies_copy_all_pieces(stand_in):
    for way, (to_gpu, _) in gpu.WAYS.items():
        gpu._ends.cache_clear()
        host, device = gpu._ends(1024, gpu.WAYS[way][1])
        target, source = (device, host) if to_gpu else (host, device)
        target.zero_()
        source.copy_(torch.arange(1024) % 251)
        gpu.copies(1024, way, n=2, pieces=8)
        assert torch.equal(target, source) and target.sum() > 0


def test_everything_around_the_gpu_runs(stand_in, monkeypatch):
    monkeypatch.setitem(gpu.MEASURES, 'GPU global memory access', lambda: gpu.latency(2 ** 20, 0.01))
    monkeypatch.setattr(gpu, '_warm', lambda: None)
    found = {r.action: r for r in gpu.rows()}
    here = {action for action, r in found.items() if r.measured}
    assert set(found) - here == {'GPU operation, one of 100 in a CUDA graph',
                                 'transfer 1 MB to or from a GPU by NVLink'}
    assert all(found[a].measured.value > 0 for a in here)
    assert found['transfer 1 MB to or from a GPU by NVLink'].reason == (
        'not measured here: it takes an NVLink')
    assert all('GB/s' in row[2] or 'do not grow' in row[1]
               for row in gpu.transfer_table(sizes=[1024, 2 ** 16, 2 ** 22]).rows)
    assert gpu.product_rate('float32', 64) > 0 and gpu.product_rate('int8', 64) > 0
    before = torch.get_float32_matmul_precision()
    x = torch.randint(-2, 3, (8, 8)).float()
    monkeypatch.setattr(gpu, '_square', lambda dtype, side: x.to(dtype))
    assert all(torch.equal(gpu.product(kind, 8)().double(), (x @ x.T).double())
               for kind in gpu.PRECISIONS if kind != 'int8')
    assert torch.get_float32_matmul_precision() == before


def test_what_a_gpu_lacks_is_said(stand_in, monkeypatch):
    assert gpu.missing() == gpu.missing(kernel=True) == ''
    assert gpu.missing(tensor_cores=True) == 'GTX 1080 has no tensor cores'
    monkeypatch.setattr(torch.cuda, 'mem_get_info', lambda: (2 ** 20, 0))
    assert gpu.missing() == 'less than 1 GiB is free on the GPU'
    with pytest.raises(hardware.NotHere, match='do not fit'):
        gpu.ring(2 ** 20)


def test_a_kernel_that_does_not_compile_is_no_crash(monkeypatch):
    def refuses(source, name):
        raise OSError('no compiler')
    gpu._kernel.cache_clear()
    monkeypatch.setattr(torch.cuda, 'compile_kernel', refuses, raising=False)
    with pytest.raises(hardware.NotHere, match='not compiled: no compiler'):
        gpu._kernel('chase_global')
    gpu._kernel.cache_clear()


def test_the_figures_of_a_real_gpu():
    """Where there is one: each row has a figure that no GPU of the last ten years contradicts."""
    if gpu.missing():
        pytest.skip('no GPU')
    found = {r.action: r.measured.value for r in gpu.rows() if r.measured}
    assert 5e-9 < found['GPU shared memory access'] < found['GPU global memory access'] < 3e-6
    assert 1e-6 < found['launch of a GPU kernel'] < 1e-3
    assert found['GPU operation, issued only'] < found['launch of a GPU kernel']
    alpha, beta = gpu.fit({n: gpu.transfer(n).value for n in gpu.SIZES})
    assert alpha < 1e-3 and 1e8 < beta < 1e12
    assert gpu.product_rate('float32') > 1e11
