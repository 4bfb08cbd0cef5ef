"""``--ci`` compares two reports."""

import json

from why_slow.compare import compare


def written(path, seconds, low, high):
    path.write_text(json.dumps({'step': {'seconds': seconds, 'low': low, 'high': high}}))
    return str(path)


def test_slower_beyond_the_intervals(tmp_path, capsys):
    old = written(tmp_path / 'old.json', 0.010, 0.009, 0.011)
    new = written(tmp_path / 'new.json', 0.013, 0.012, 0.014)
    assert compare(old, new) == 1
    assert 'Slower: 1.30×' in capsys.readouterr().out
    assert compare(new, old) == 0
    assert 'Faster: 1.30×' in capsys.readouterr().out


def test_intervals_that_overlap(tmp_path, capsys):
    old = written(tmp_path / 'old.json', 0.010, 0.009, 0.012)
    new = written(tmp_path / 'new.json', 0.013, 0.011, 0.014)
    assert compare(old, new) == 0
    assert 'No difference' in capsys.readouterr().out


def test_no_report(tmp_path, capsys):
    good = written(tmp_path / 'old.json', 0.010, 0.009, 0.012)
    bad = tmp_path / 'bad.json'
    bad.write_text('{"step": {"seconds": null}}')
    assert compare(good, str(bad)) == 2
    assert compare(str(tmp_path / 'none.json'), good) == 2
    assert 'is no report' in capsys.readouterr().err
