"""Names that the published d2l 1.0.3 has too give the same results, or the test says who is wrong."""

import functools
import importlib
import inspect
import sys
import types

import matplotlib
import numpy as np
import pytest

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402

from d2l_local import timers  # noqa: E402


def load(name):
    """Our half and d2l's; d2l.torch imports torchvision, which d2l does not declare and we stub."""
    pytest.importorskip(name)
    pytest.importorskip('d2l')
    if name == 'torch' and 'torchvision' not in sys.modules:
        stub = types.ModuleType('torchvision')
        stub.transforms = types.ModuleType('torchvision.transforms')
        sys.modules |= {'torchvision': stub, 'torchvision.transforms': stub.transforms}
    return importlib.import_module(f'd2l_local.{name}'), importlib.import_module(f'd2l.{name}')


@pytest.fixture(params=['mxnet', 'torch'])
def halves(request):
    return load(request.param)


def parameters(f):
    """Names of what a function, or a class when it is called, takes; ``self`` left out."""
    found = inspect.signature(f).parameters.values()
    return [p.name for p in found if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]


def test_signatures_are_those_of_d2l(halves):
    """All names that both have: what d2l takes comes first here, under the same names."""
    ours, theirs = halves
    shared = [n for n in ours.__all__ if hasattr(theirs, n)]
    assert len(shared) >= 9, shared
    for name in shared:
        mine, wanted = getattr(ours, name), getattr(theirs, name)
        assert parameters(mine)[:len(parameters(wanted))] == parameters(wanted), name
        if inspect.isclass(wanted):
            kind = mine.func if isinstance(mine, functools.partial) else mine
            for method in [m for m in vars(wanted) if not m.startswith('_') and m != 'forward']:
                assert hasattr(kind, method) or hasattr(kind(1), method), (name, method)


def array(module, values):
    if module.__name__.endswith('mxnet'):
        from mxnet import np as mnp
        return mnp.array(values)
    import torch
    return torch.tensor(values)


def test_timer(halves, monkeypatch):
    ours, theirs = halves
    a, b = ours.Timer(), theirs.Timer()
    for t in (a, b):
        t.stop()
        t.times = [1.0, 2.0, 4.5]
    assert (a.avg(), a.sum(), a.cumsum()) == (b.avg(), b.sum(), b.cumsum())
    # d2l reads the wall clock, which somebody may set back: its times can be negative.
    import time
    monkeypatch.setattr(time, 'time', lambda now=[100.0]: now.append(now[-1] - 10) or now[-1])
    a.start(), b.start()
    assert a.stop() >= 0 and b.stop() < 0


def test_accumulator(halves):
    a, b = timers.Accumulator(2), halves[1].Accumulator(2)
    for s in (a, b):
        s.add(1, 2.5)
        s.add(3, 4)
    assert a.data == b.data == [4.0, 6.5] and a[1] == b[1]
    b.add(1)                        # d2l drops a sum without a word
    assert len(b.data) == 1
    with pytest.raises(ValueError, match='2 sums need 2 numbers'):
        a.add(1)
    a.reset()
    assert a.data == [0.0, 0.0]


@pytest.mark.parametrize('args', [([1, 2, 3],), ([1, 2], [3, 4]), ([1, 2], [[3, 4], [5, 6]]),
                                  ([[1, 2], [7, 8]], [[3, 4], [5, 6]]), ([[1, 2]], [[3, 4], [5, 6]]),
                                  ([[3, 4], [5, 6]],),
                                  (np.arange(3.0),), (np.arange(2.0), [[3, 4], [5, 6]])])
def test_plot(halves, args):
    def lines(module):
        _, axes = plt.subplots()
        module.plot(*args, xlabel='x', ylabel='y', legend=['c'], xlim=[0, 9], xscale='linear', axes=axes)
        drawn = [np.array(ln.get_xydata()).tolist() for ln in axes.get_lines()]
        names = [t.get_text() for t in axes.get_legend().get_texts()]
        plt.close('all')
        return drawn, axes.get_xlabel(), axes.get_ylabel(), axes.get_xlim(), names
    assert lines(halves[0]) == lines(halves[1])


def test_animator(halves):
    def data(module):
        a = module.Animator(xlabel='epoch', xlim=[1, 3], legend=['a', 'b'])
        a.add(1, (0.5, None))
        a.add(2, (0.25, 0.75))
        plt.close('all')
        return a.X, a.Y
    assert data(halves[0]) == data(halves[1])


@pytest.mark.parametrize(('scores', 'labels'), [
    ([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]], [1, 1, 1]), ([1.0, 0.0, 2.0], [1, 0, 1])])
def test_accuracy(halves, scores, labels):
    ours, theirs = halves
    y_hat, y = array(ours, scores), array(ours, labels)
    count = ours.accuracy(y_hat, y)
    assert count == 2
    if hasattr(theirs, 'accuracy'):             # a function in some editions, a method in others
        assert count == theirs.accuracy(y_hat, y)
    else:
        method = theirs.Classifier.accuracy
        mean = method(types.SimpleNamespace(), y_hat.reshape(len(labels), -1), y)
        if np.ndim(scores) > 1:
            assert count == pytest.approx(float(mean) * len(labels))


def test_benchmark_prints_one_line(capsys):
    with timers.Benchmark('work'):
        pass
    assert capsys.readouterr().out.startswith('work: ')


def test_a_benchmark_that_raises_prints_nothing(capsys):
    with pytest.raises(KeyError), timers.Benchmark('work'):
        raise KeyError
    assert capsys.readouterr().out == ''


def test_a_timer_waits_before_it_stops():
    calls = []
    timer = timers.Timer(sync=lambda: calls.append('stop'))
    timer.stop()
    assert calls == ['stop']
