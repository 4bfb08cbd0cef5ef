"""Each checker takes the stored solution and rejects plausible wrong answers with the hint that fits."""

import importlib
import re

import nbformat
import pytest

from answer_checks import checking, definitions, sandbox
from tested_results import machine
from tests.book.answers import measuring
from tests.book.answers.folded import FOLDED
from tools import stubs
from tools.exercises import all_exercises
from tools.quotations import markdown
from tools.runs import execute
from tools.source import FRAMEWORKS, ROOT, missing

if machine.machine()['torch']:      # here, and so in each fork of this process
    import torch

    importlib.import_module('d2l_local.torch')

    class Loads(torch.nn.Module):       # what compiling, exporting and breaking a graph import at first
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: 2 * x, lambda x: -x, (x,))

    torch.export.export(Loads(), (torch.ones(3),))
    virtual = importlib.import_module('virtual_devices')
    (virtual.put(torch.ones(3), virtual.VirtualDevice(0)) + 1).wait()
    torch.compile(lambda x: print(end='') or x + 1, backend='eager', dynamic=True)(torch.ones(3))

TOPICS = [p.parent.name for p in sorted(ROOT.glob('chapters/*/checkers.py'))]
MODULES = [importlib.import_module(f'tests.book.answers.{topic}') for topic in TOPICS]
ANSWERS = {label: pair for module in MODULES for label, pair in module.ANSWERS.items()}
ALSO_RIGHT = {label: answers for module in MODULES
              for label, answers in getattr(module, 'ALSO_RIGHT', {}).items()}
# What fails in a framework takes a second each; the right answers are quick enough for make check.
CHECKERS = {label if framework != 'mxnet' else f'{label} mxnet': one
            for (label, framework), one in definitions.load().items()}
SLOW = {key for key, one in CHECKERS.items() if (key, 'pytorch') in definitions.load() or 'mxnet' in key}
TIMED = {'msr-ex-winner', 'msr-ex-amdahl'}      # their checkers watch a clock, and so nothing may run beside
CASES = [pytest.param(label, answer, hint, id=f'{label}-{i}',
                      marks=[pytest.mark.slow] * (label in TIMED or i > 0 and label in SLOW)
                      + [pytest.mark.alone] * (label in TIMED))
         for label, (right, wrong) in ANSWERS.items()
         for i, (answer, hint) in enumerate(
             [(right, None), *wrong, *[(also, None) for also in ALSO_RIGHT.get(label, ())]])]


def test_every_checker_has_its_answers_here():
    assert set(ANSWERS) == {key for key, one in CHECKERS.items() if not one.points}
    assert set(ALSO_RIGHT) <= set(ANSWERS)
    assert all(len(wrong) >= 3 for _, wrong in ANSWERS.values())
    labels = {e.label for e in all_exercises()}
    assert {label for label, _ in definitions.load()} <= labels, 'checkers of exercises that are gone'


@pytest.fixture
def say(monkeypatch, tmp_path, capfd):
    """Check an answer with a progress of its own; what is printed."""
    monkeypatch.setenv('ANSWER_CHECKS_FOLDER', str(tmp_path))

    def check(key, answer):
        label, framework = [*key.split(), 'pytorch'][:2]
        if missing(framework) and (label, framework) in definitions.load():
            pytest.skip(missing(framework))
        if key.endswith('mxnet'):
            importlib.import_module('d2l_local.mxnet')      # here, and so in each fork
        if not sandbox.FORKS and callable(answer):
            pytest.skip('this system cannot end a call')
        parts = answer if isinstance(answer, dict) else {'answer': answer}
        right = ANSWERS[key][0] if isinstance(answer, dict) else {}
        checking.check(label, **{**right, **parts}, framework=framework)
        return capfd.readouterr().out
    return check


@pytest.mark.parametrize(('label', 'answer', 'hint'), CASES)
def test_an_answer(say, label, answer, hint):
    said = say(label, answer)
    if hint is None:
        assert re.match('Right. 1 of', said), said
    else:
        parts = CHECKERS[label].parts
        # of a part that was answered, and is the one that is named
        named = [parts[name] for name in (answer if parts else ()) if f'{name}, {parts[name].asks}' in said]
        behind = [words for part in named for words, _ in definitions.slips_of(part)]
        fits = re.search(hint, said) or any(words in said for words in behind)
        assert 'Not yet. Missing' in said and fits, said
        again = say(label, answer)
        assert again.startswith('Not yet') and len(again) > len(said), again


@pytest.mark.slow
def test_an_answer_that_was_compiled_before(say):
    """Its recompilation does not wait for the processes that compile for the notebook."""
    if reason := missing('pytorch'):
        pytest.skip(reason)
    # The setting's own patch: monkeypatch deletes it at the end, and then nothing compiles any more.
    with torch.compiler.config.patch(force_disable_caches=True):
        compiled = torch.compile(measuring.of_each)
        compiled(torch.rand(8, 1, 28, 28))
        assert re.match('Right', said := say('msr-ex-amdahl', compiled)), said


def test_points_are_shown_only_after_a_text(say):
    for (label, _), one in definitions.load().items():
        if one.points:
            assert one.points[0] not in say(label, 'no idea')
            assert one.points[0] in say(label, 'a text of at least ten words, for what it is worth')


def test_no_hint_is_the_solution():
    """No figure or word that an exercise asks for stands in the hints for it."""
    for label, (right, _) in ANSWERS.items():
        for name, value in right.items() if isinstance(right, dict) else ():
            if isinstance(value, float) or (isinstance(value, int) and value > 9):
                parts = CHECKERS[label].parts
                hints = ' '.join([parts[name].hint, parts[name].second, *parts[name].slips.values()])
                told = re.search(rf'(?<![\d.]){re.escape(f"{value:g}")}(?![\d.])', hints)
                assert not told, (label, name)


def test_what_is_behind_a_wrong_answer_is_said():
    seen = 0
    for label, one in CHECKERS.items():
        right = {name: part.expected for name, part in one.parts.items()}
        for name, part in one.parts.items():
            for wrong, said in part.slips.items():
                with pytest.raises(definitions.Missing) as caught:
                    one.test(*{**right, name: wrong}.values())
                assert caught.value.args[1] == said, (label, name, wrong)
                seen += 1
    assert seen > 200


WORDS = {'zero': 0, 'half': 0.5, 'one': 1, 'two': 2, 'three': 3, 'four': 4, 'six': 6, 'eight': 8, 'nine': 9,
         'sixteen': 16}


def figure(text):
    """The number that a folded answer says."""
    text = text.lower().replace('{,}', '').replace(',', '')
    text = re.sub(r'\\?\bs$', '', text).strip() or '1'
    if times := re.fullmatch(r'(\S+)(?: messages of | \\cdot )(\S+)', text):
        return figure(times[1]) * figure(times[2])
    if power := re.fullmatch(r'10\^\{(\d+)\}', text):
        return 10.0 ** int(power[1])
    if quotient := re.fullmatch(r'(\d+)(?: of | ?/ ?)(\d+)', text):
        return int(quotient[1]) / int(quotient[2])
    if percent := re.fullmatch(r'([\d.]+)\\?%', text):
        return float(percent[1]) / 100
    return WORDS[text] if text in WORDS else float(text)


SOLUTION = re.compile(r'```\{solution\} (\S+)\n:class: dropdown\n(.*?)```\n', re.S)
FOLDS = {label: ' '.join(body.split()) for path in ROOT.glob('chapters/*/exercises.md')
         for label, body in SOLUTION.findall(markdown(path))}


@pytest.mark.parametrize('label', FOLDS)
def test_the_figures_of_a_folded_answer_are_right(label):
    """What the book prints as the answer is what the checker takes."""
    right, one = ANSWERS[label][0], CHECKERS[label]
    figures = {name for name, value in right.items() if not isinstance(value, str | bool)}
    assert figures == set(FOLDED.get(label, {}))
    for name, pieces in FOLDED.get(label, {}).items():
        found = []
        for piece in pieces if isinstance(pieces, list) else [pieces] if pieces else []:
            words, unit = piece if isinstance(piece, tuple) else (piece, 1)
            assert words.replace('⟨', '').replace('⟩', '') in FOLDS[label], words
            found.append(figure(re.search('⟨(.*)⟩', words)[1]) * unit)
        for value in [found] if found and isinstance(right[name], list) else found:
            one.test(*[{**right, name: value}[part] for part in one.asks])


def test_every_word_that_is_expected_is_offered():
    for label, one in CHECKERS.items():
        for name, part in (parts := one.parts).items():
            if isinstance(part.expected, str):
                assert part.expected in definitions.choices_of(part, parts), (label, name)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv('ANSWER_CHECKS_FOLDER', str(tmp_path))
    return tmp_path


def test_every_exercise_has_a_stub_and_none_is_written_twice(folder):
    said = stubs.stubs(folder)
    written = {p: p.read_bytes() for p in folder.glob('*.ipynb')}
    assert len(written) == sum(not line.split(': ')[1].startswith('not written') for line in said)
    text = '\n'.join(c.source for p in written for c in nbformat.read(p, as_version=4).cells)
    if not any(map(missing, FRAMEWORKS)):
        assert {e.label for e in all_exercises()} == set(re.findall(r'\b\w+-ex-[\w-]+', text))
    assert not re.search(r'\{\w+\}`|\]\(', text), 'links lead nowhere in a notebook that stands alone'
    again = stubs.stubs(folder)
    assert all('left as it is' in line or 'not written' in line for line in again)
    assert {p: p.read_bytes() for p in folder.glob('*.ipynb')} == written


def test_a_new_exercise_goes_to_a_new_file(folder):
    stubs.stubs(folder)
    mine = next(folder.glob('measuring_pytorch.ipynb'), None)
    if mine is None:
        pytest.skip('PyTorch is not installed')
    mine.write_text('no notebook at all, but msr-ex-knee stands in it')
    said = [line for line in stubs.stubs(folder) if line.startswith('measuring_pytorch')]
    assert said == ['measuring_pytorch_2: 12 exercises that measuring_pytorch.ipynb lacks']
    assert mine.read_text().startswith('no notebook') and (folder / 'measuring_pytorch_2.ipynb').exists()
    assert any(line == 'measuring_pytorch: left as it is' for line in stubs.stubs(folder))


def outputs(path, folder):
    """What the checks of a notebook of stubs print, by label."""
    nb = execute(path, folder=folder)
    return {re.search(r"'(\w+-ex-[\w-]+)'", c.source)[1]: ''.join(o.get('text', '') for o in c.outputs)
            for c in nb.cells if c.cell_type == 'code' and 'check(' in c.source}


@pytest.mark.slow
@pytest.mark.parametrize('name', ['measuring_pytorch', 'measuring_mxnet'])
def test_stubs_run_as_they_are(folder, name):
    if reason := missing(name.split('_')[-1]):
        pytest.skip(reason)
    stubs.stubs(folder)
    said = outputs(folder / f'{name}.ipynb', folder)
    assert len(said) >= 5 and all(s.startswith('No answer yet. Give ') for s in said.values()), said
    assert not checking.file().exists()


@pytest.mark.slow
def test_with_the_solutions_in_all_are_right(folder):
    """In a kernel, which has threads and prints through a queue: not as in the tests above."""
    if reason := missing('pytorch'):
        pytest.skip(reason)
    stubs.stubs(folder)
    path = folder / 'measuring_pytorch.ipynb'
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == 'code' and 'check(' in cell.source:
            label = re.search(r"'(msr-ex-[\w-]+)'", cell.source)[1]
            right = f'ANSWERS[{label!r}][0]'
            stars = '**' * isinstance(ANSWERS[label][0], dict)
            cell.source = f'check({label!r}, {stars}{right})'
        elif cell.cell_type == 'code':
            cell.source += (f'\nimport sys\n\nsys.path.insert(0, {str(ROOT)!r})\n'
                            'from tests.book.answers.measuring import ANSWERS')
    nbformat.write(nb, path)
    said = outputs(path, folder)
    assert len(said) == 13 and all(s.startswith('Right. ') for s in said.values()), said
    assert checking.summary(checking.progress(), 'measuring') == '13 of 13 solved.'
