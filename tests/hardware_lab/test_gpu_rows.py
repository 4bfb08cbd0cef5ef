"""The ladder's rows on GPUs: all of them that needs no GPU."""

from types import SimpleNamespace

import nbformat
import numpy as np
import pytest

from hardware_lab import KIB, NotHere, figures, ladder
from tested_results import machine, timing
from tools.source import ROOT

if machine.machine()['torch'] is None:
    pytest.skip('torch is not installed', allow_module_level=True)

import torch  # noqa: E402

from hardware_lab import gpu  # noqa: E402


def test_every_gpu_row_of_the_ladder_is_answered_for():
    on_gpus = {action for action, _, how in ladder.rows() if how == ladder.NO_GPU}
    assert on_gpus and on_gpus <= set(gpu.MEASURES)


def test_without_a_gpu_every_row_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    rows = gpu.rows()
    assert [r.action for r in rows] == list(gpu.MEASURES)
    assert {r.here for r in rows} == {'not measured here: no GPU'}
    assert len(figures.ladder_table(rows).rows) == len(rows)


@pytest.mark.parametrize('error', [NotHere('too small'), RuntimeError('too small\nand more')])
def test_what_a_gpu_cannot_show_is_said(monkeypatch, error):
    def fails():
        raise error
    monkeypatch.setattr(gpu, 'missing', lambda: '')
    assert gpu.measured(fails) == 'not measured here: too small' and gpu.measured(lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):       # a mistake of ours is no property of the machine
        gpu.measured(lambda: 1 / 0)


@pytest.mark.parametrize(('alpha', 'beta'), [(1e-5, 12e9), (3e-6, 50e9), (2e-4, 1e8)])
def test_the_model_of_the_page_finds_what_was_put_in(alpha, beta):
    cells = nbformat.read(ROOT / 'chapters' / 'hardware' / 'hardware_gpu_pytorch.ipynb', 4).cells
    names = {
        'np': np, 'timing': timing, 'KIB': KIB,
        'gpu': SimpleNamespace(copies=lambda n, way: alpha + n / beta),
        'devices': SimpleNamespace(per_call=lambda f, *_, **__: SimpleNamespace(value=f()))}
    code = next(c.source for c in cells if 'def fit(way)' in c.source)
    exec(code[:code.index('rows =')], names)
    shown = names['fit']('pinned')
    assert shown == (timing.show_seconds(alpha), f'{beta / 1e9:.3g} GB/s', '1.00×')
