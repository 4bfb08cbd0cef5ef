"""Guesses before measurements: what is kept, what is declined, and how results answer."""

import json
import math
import os
import subprocess
import sys

import IPython
import nbformat
import numpy as np
import pytest

from tested_results import claims, predictions
from tested_results.predictions import ASK, predict
from tools import runs


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A file for guesses, in a folder whose notebook makes two claims."""
    source = ["d2l.compare('a-b', f=f, g=g, above=2)\\n", "d2l.verify('a-fact', True)"]
    stored = {'metadata': {'d2l_claim': {'id': 'a-fact', 'kind': 'fact'}}}
    folder = tmp_path / 'topic_one'
    folder.mkdir()
    (folder / 'page.ipynb').write_text(json.dumps(
        {'cells': [{'source': source, 'outputs': [stored]}]}, indent=1))
    monkeypatch.chdir(folder)
    monkeypatch.setenv('TESTED_RESULTS_GUESSES', str(tmp_path / 'guesses.json'))
    monkeypatch.setattr(claims, '_seen', {})
    monkeypatch.setattr(IPython, 'get_ipython', lambda: None)      # d2l's figures start a shell
    return tmp_path / 'guesses.json'


@pytest.fixture
def said(capsys):
    """What a call prints."""
    def say(f, *args, **how):
        f(*args, **how)
        return capsys.readouterr().out.strip()
    return say


def kept(file):
    return json.loads(file.read_text())['guesses'] if file.exists() else {}


def claim(value, id='a-b'):
    return claims.count(id, value, 'times')


def test_dots_ask_and_keep_nothing(file, said):
    assert said(predict, 'a-b', 'How many?') == said(predict, 'a-b', 'How many?', guess=...)
    assert said(predict, 'a-b', 'How many?', ...) == f'How many?\n{ASK}' and not file.exists()
    assert 'guessed' not in said(claim, 6.0)


def test_guesses_of_all_topics_lie_in_one_file(tmp_path, monkeypatch):
    topic = tmp_path / 'chapters' / 'measuring'
    topic.mkdir(parents=True)
    monkeypatch.delenv('TESTED_RESULTS_GUESSES', raising=False)
    for place in (topic, tmp_path):
        monkeypatch.chdir(place)
        assert predictions.file() == tmp_path / 'chapters' / 'guesses.json'


def test_without_chapters_guesses_lie_here(tmp_path, monkeypatch):
    monkeypatch.delenv('TESTED_RESULTS_GUESSES', raising=False)
    monkeypatch.chdir(tmp_path)
    assert predictions.file() == tmp_path / 'guesses.json'


def test_guesses_in_the_folder_of_a_topic_are_named(file):
    beside = file.parent / 'topic_one' / 'guesses.json'
    predictions.save(beside, {'a-b': {'guess': 3.0}})
    assert f'There are guesses in {beside} too' in predictions.main()
    predictions.main('read', str(beside))
    assert kept(file)['a-b']['guess'] == 3.0


def test_a_guess_is_kept_and_the_result_answers(file, said):
    assert said(predict, 'a-b', 'How many?', 3).endswith('Locked: 3.')
    assert kept(file)['a-b'] == {'guess': 3.0, 'low': None, 'high': None, 'measured': None,
                                 'topic': 'topic_one'}
    assert said(claim, 6.0).endswith('you guessed 3: off by a factor of 2.00')
    assert kept(file)['a-b']['measured'] == 6.0


@pytest.mark.parametrize(('measured', 'words'), [
    (8, 'off by a factor of 2.00, inside your interval'), (2, 'off by a factor of 2.00, inside'),
    (9, 'off by a factor of 2.25, outside your interval')])
def test_an_interval_is_scored_by_the_middle_of_its_logarithms(file, said, measured, words):
    assert said(predict, 'a-b', 'How many?', (2, 8)).endswith('Locked: 4 (2–8).')
    assert words in said(claim, float(measured))


def test_the_first_guess_and_the_first_result_count(file, said):
    predict('a-b', 'How many?', 3)
    assert 'Your first guess counts: 3.' in said(predict, 'a-b', 'How many?', 3)
    again = said(predict, 'a-b', 'How many?', (2, 4))
    assert 'Your first guess counts: 3.' in again and 'erase a-b' in again
    assert 'erase' not in said(predict, 'a-b', 'How many?', ...)
    claim(6.0), claim(7.0)
    assert (kept(file)['a-b']['guess'], kept(file)['a-b']['measured']) == (3.0, 6.0)
    predictions.main('erase', 'a-b')
    assert 'Locked: 4' in said(predict, 'a-b', 'How many?', 4)


@pytest.mark.parametrize('guess', [0, -1, math.nan, math.inf, True, None, '3', 'three', (4, 2), (2, 2),
                                   (0, 2), (1, 2, 3), [], {}, 1j, (1, '2'), object(), 10 ** 400])
def test_what_is_no_guess_is_declined_in_words(file, said, guess):
    assert 'A guess is a number above zero' in said(predict, 'a-b', 'How many?', guess)
    assert not file.exists()


@pytest.mark.parametrize('guess', [1, 0.25, np.float32(2), np.int64(3), 1e-300, 1e300, 5e-324,
                                   [1e-9, 1e9]])
def test_any_positive_number_is_a_guess(file, said, guess):
    assert 'Locked' in said(predict, 'a-b', 'How many?', guess)
    assert 'off by a factor of ' in said(claim, 5.0)
    assert math.isfinite(predictions.off(predictions.read(file)[0]['a-b']))
    assert predictions.read(file)[1]


@pytest.mark.parametrize(('id', 'words'), [('a-c', 'No notebook in this folder claims'),
                                           ('a-fact', 'is a fact'), (7, 'No notebook'),
                                           (['a-b'], 'No notebook'), ('.*', 'No notebook')])
def test_ids_without_a_figure_are_declined(file, said, id, words):
    assert words in said(predict, id, 'How many?', 3) and not file.exists()


@pytest.mark.parametrize('call', ['compare', 'estimate', 'count'])
def test_guesses_at_results_of_all_calls_are_kept(file, said, call):
    page = file.parent / 'topic_one' / 'page.ipynb'
    page.write_text(page.read_text().replace("d2l.compare('a-b'", f"d2l.{call}('a-b'"))
    assert said(predict, 'a-b', 'How many?', 3).endswith('Locked: 3.') and 'a-b' in kept(file)
    assert said(claims.count, 'a-b', 6.0).endswith(
        'a-b = 6  [a-b]\nyou guessed 3: off by a factor of 2.00')


@pytest.mark.parametrize('call', [
    'compare("a-b", a=f)', "compare(\n    'a-b',\n    a=f)", "count(id='a-b', what=3)"])
def test_a_call_is_found_however_it_is_written(file, said, call):
    page = file.parent / 'topic_one' / 'page.ipynb'
    cells = [nbformat.v4.new_code_cell(call)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), page)
    assert said(predict, 'a-b', 'How many?', 3).endswith('Locked: 3.')


def test_a_claim_without_a_figure_answers_too(file, said):
    file.write_text('{"guesses": {"a-b": {"guess": 3}}}')
    assert 'you guessed 3; here is no figure' in said(
        claims.verify, 'a-b', True)
    assert kept(file)['a-b'] == {'guess': 3}


def test_runs_that_store_and_compare_outputs_know_no_guesses(file, said, monkeypatch):
    said(predict, 'a-b', 'How many?', 3)
    asked, before = said(predict, 'a-c', 'How many?'), kept(file)
    monkeypatch.setenv('TESTED_RESULTS_GUESSES', 'off')
    assert said(predict, 'a-b', 'How many?', 3) == said(predict, 'a-b', 'How many?', 'x') == asked
    assert 'guessed' not in said(claim, 6.0) and kept(file) == before


@pytest.mark.slow
def test_a_run_that_stores_outputs_does_not_see_the_guess_in_its_cell(file):
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in (
        'from tested_results import claims, predictions',
        "predictions.predict('a-b', 'How many?', 3)",
        "claims.count('a-b', 6.0, above=2)")])
    nbformat.write(nb, file.parent / 'asks.ipynb')
    _, asked, claimed = runs.execute(file.parent / 'asks.ipynb').cells
    out, = asked.outputs
    assert ASK in out.data['text/plain']
    assert 'class="d2l-predict" data-claim="a-b"' in out.data['text/html']
    assert out.metadata[predictions.METADATA_KEY] == {'id': 'a-b', 'question': 'How many?'}
    assert 'guessed' not in str(claimed.outputs) and not file.exists()


@pytest.mark.parametrize(('text', 'sound'), [
    ('{"guesses": {"a-x": {"guess": 2, "measured"', 0), ('', 0), ('[]', 0), ('{"guesses": []}', 0),
    ('\x00\xff', 0), ('{"guesses": {"a-x": {"guess": 2}, "a-y": {"guess": -2}}}', 1),
    ('{"guesses": {"a-x": {"guess": 2, "low": 3}, "a-y": 7, "a-z": {}}}', 0)])
def test_a_broken_file_is_set_aside_whole(file, said, text, sound):
    file.write_text(text, encoding='latin-1')
    before = file.read_bytes()
    out = said(predict, 'a-b', 'How many?', 3)
    assert 'guesses.json was broken' in out and 'Locked: 3.' in out
    assert (file.parent / 'guesses.json.broken-1').read_bytes() == before
    assert len(kept(file)) == sound + 1
    file.write_text(text, encoding='latin-1')
    predict('a-b', 'How many?', 3)
    assert (file.parent / 'guesses.json.broken-2').read_bytes() == before


def test_a_result_does_not_overwrite_a_broken_file(file, said):
    text = '{"guesses": {"a-b": {"guess": 3, "topic": ["odd"]}, "a-x": {"guess": "2"}}}'
    file.write_text(text)
    assert 'you guessed 3: off by a factor of 2.00' in said(claim, 6.0)
    assert (file.parent / 'guesses.json.broken-1').read_text() == text and list(kept(file)) == ['a-b']
    assert 'odd' in predictions.main()


def test_a_disk_that_refuses_loses_nothing(file, said, monkeypatch):
    predict('a-b', 'How many?', 3)
    before = file.read_bytes()

    def refuse(*_, **__):
        raise OSError(28, 'No space left on device')
    monkeypatch.setattr(predictions.os, 'replace', refuse)
    assert 'No space left on device' in said(claim, 6.0)
    predictions.os.environ['TESTED_RESULTS_GUESSES'] = str(file.parent / 'new.json')
    out = said(predict, 'a-b', 'How many?', 3)
    assert 'No space left on device. Nothing was kept.' in out
    assert file.read_bytes() == before


def test_the_table(file):
    e = {'low': None, 'high': None}
    predictions.save(file, {
        'a-a': {**e, 'guess': 2, 'measured': 4, 'topic': 'one'},
        'a-b': {**e, 'guess': 9, 'measured': 1, 'topic': 'one'},
        'a-c': {'guess': 3, 'low': 2, 'high': 4, 'measured': 3, 'topic': 'two_words'},
        'a-d': {**e, 'guess': 3, 'measured': None, 'topic': 'two_words'}})
    rows = [line.split() for line in predictions.main().split('\n')[1:]]
    assert rows[1:] == [['one', '2', '×4.24', '1', '1', '0', 'of', '0'],
                        ['two', 'words', '1', '×1.00', '1', '0', '1', 'of', '1'],
                        ['all', '3', '×2.00', '2', '1', '1', 'of', '1'],
                        ['without', 'a', 'result', 'yet:', '1']]


def test_reading_keeps_the_guesses_that_are_here(file, tmp_path):
    predictions.save(file, {'a-a': {'guess': 1}})
    other = tmp_path / 'page.json'
    other.write_text(json.dumps({'guesses': {'a-a': {'guess': 9}, 'a-b': {'guess': 2}, 'a-c': 0}}))
    out = predictions.main('read', str(other))
    assert 'guesses are new: 1; what else' in out
    assert kept(file) == {'a-a': {'guess': 1}, 'a-b': {'guess': 2}}
    with pytest.raises(OSError):
        predictions.main('read', str(tmp_path / 'none.json'))
    assert 'There is no guess for a-z.' in predictions.main('erase', 'a-z', 'a-b')
    assert kept(file) == {'a-a': {'guess': 1}}
    predictions.main('erase')
    assert kept(file) == {}
    assert 'read FILE' in predictions.main('help') and 'read FILE' in predictions.main('read')


def test_several_kernels_guess_at_once(file):
    """No guess is lost, and no part of a file stays."""
    claims = ', '.join(f"d2l.compare('p-{i}', f=f)" for i in range(40))
    (file.parent / 'topic_one' / 'page.ipynb').write_text(json.dumps({'cells': [{'source': [claims]}]}))
    program = ('from tested_results.predictions import predict\n'
               'for i in range({}, 40, 4): predict(f"p-{{i}}", "?", i + 1)')
    several = [subprocess.Popen([sys.executable, '-c', program.format(k)], stdout=subprocess.PIPE, text=True,
                                env=os.environ | {'PYTHONPATH': ':'.join(p for p in sys.path if p)})
               for k in range(4)]
    said = ''.join(one.communicate()[0] for one in several)
    assert said.count('Locked') == 40, said
    kept = {id: e['guess'] for id, e in predictions.read(file)[0].items()}
    assert kept == {f'p-{i}': i + 1 for i in range(40)}
    assert sorted(p.name for p in file.parent.iterdir()) == ['guesses.json', 'topic_one']
