"""What runs at full size leave behind, and what a page shows of it."""

import importlib.util
import json

import pytest

from tools.source import ROOT


@pytest.fixture
def full_runs(monkeypatch, tmp_path):
    """The topic's module, with a record of its own and three epochs on made images asked for."""
    file = ROOT / 'chapters' / 'multi_gpu' / 'full_runs' / '__init__.py'
    spec = importlib.util.spec_from_file_location('full_runs', file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, 'RECORD', tmp_path / 'record.json')
    monkeypatch.setenv('D2L_FULL', '3')
    monkeypatch.setenv('D2L_DATA', 'stand_in')
    monkeypatch.setattr(module.os, 'getloadavg', lambda: (0.5, 0.5, 0.5), raising=False)
    return module


def test_nothing_is_recorded_yet(full_runs, capsys):
    full_runs.show('LeNet, MXNet')
    assert capsys.readouterr().out == 'full size: no run of LeNet, MXNet is recorded yet\n'


def test_a_later_run_takes_the_place_of_an_earlier_one(full_runs, capsys):
    full_runs.note('LeNet, MXNet', '2 device(s)', 30.04, 0.9)
    full_runs.note('LeNet, MXNet', '1 device(s)', 70.0, 0.9)
    full_runs.note('ResNet-18, MXNet', '1 device(s)', 1312.4, 0.98)
    full_runs.note('LeNet, MXNet', '2 device(s)', 40.04, 0.91234)
    kept = json.loads(full_runs.RECORD.read_text())
    assert [(r['name'], r['devices'], r['seconds']) for r in kept] == [
        ('LeNet, MXNet', '1 device(s)', 70.0), ('LeNet, MXNet', '2 device(s)', 40.0),
        ('ResNet-18, MXNet', '1 device(s)', 1312.4)]
    full_runs.show('LeNet, MXNet')
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith('full size: LeNet, MXNet, 2 device(s), 3 epochs on made images')
    assert lines[4] == '  40 s an epoch, test accuracy 91.2%'
    assert lines[5].startswith('  recorded on 20') and len(lines) == 6


def test_beside_other_programs_no_time_is_kept(full_runs, monkeypatch, capsys):
    monkeypatch.setattr(full_runs.machine, 'cores', lambda: 2)
    monkeypatch.setattr(full_runs.os, 'getloadavg', lambda: (9.0, 2.0, 2.0), raising=False)
    full_runs.note('LeNet, MXNet', '1 device(s)', 70.0, 0.9)
    assert json.loads(full_runs.RECORD.read_text())[0]['seconds'] is None
    full_runs.show('LeNet, MXNet')
    said = capsys.readouterr().out
    assert 'not timed, because other programs ran at the same time, test accuracy 90.0%' in said


def test_what_is_stored_can_be_shown(full_runs, monkeypatch, capsys):
    stored = ROOT / 'chapters' / 'multi_gpu' / 'full_runs' / 'record.json'
    monkeypatch.setattr(full_runs, 'RECORD', stored)
    for r in json.loads(stored.read_text()):
        full_runs.show(r['name'])
        said = capsys.readouterr().out
        assert (f'{r["seconds"]:,.0f} s an epoch' if r['seconds'] else 'not timed') in said
