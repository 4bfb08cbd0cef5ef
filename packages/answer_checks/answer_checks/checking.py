"""Answers to the exercises, checked: right, or what is missing with a hint, and never the solution.

    from answer_checks import check
    check('msr-ex-w-good', rate=7e15)

``python -m answer_checks`` prints the progress. It is kept in ``exercises/progress.json``, or in the
folder that ``ANSWER_CHECKS_FOLDER`` names. No framework.
"""

import contextlib
import difflib
import dis
import importlib
import inspect
import json
import os
import reprlib
import sys
import sysconfig
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from answer_checks import definitions, sandbox
from answer_checks.definitions import ROOT, Exercise
from tested_results import files

PLAIN = bool, int, float, complex, str, bytes, type(None)
NOTHING = {'RESUME', 'NOP', 'LOAD_CONST', 'RETURN_VALUE', 'RETURN_CONST'}     # what a body of dots does
FRAMEWORKS = {'pytorch': 'torch', 'mxnet': 'mxnet'}
NAMES = {'pytorch': 'PyTorch', 'mxnet': 'MXNet'}
THREADS = ('It was waiting there. Threads that the notebook has started before, such as '
           'those of a virtual device or of a pool, are not there in a check: let your answer start its own.')


def check(exercise: str = '', answer: Any = ..., *, framework: str | None = None, **parts: Any) -> None:
    """Check an answer to an exercise, print what comes out, and note it in the progress file.

    Args:
        exercise: the label, as in the stub.
        answer: a function or a text, for an exercise that asks for one; else the ``parts`` by name.
        framework: 'pytorch' or 'mxnet', where it cannot be told from the answer.

    An answer that has code is called in a process of its own, which is ended after some seconds or
    when it wants too much memory. What it changes in memory is not seen here; a file that it writes stays.
    """
    found = definitions.load()
    frameworks = [f for label, f in found if label == exercise]
    if not frameworks:
        print(_no_such_exercise(exercise, [label for label, _ in found]))
        return
    given = dict(parts)
    if answer is not ...:
        given['answer'] = answer
    ways = _ways(exercise, given, framework)
    if len(ways) != 1:
        named = [f for f in frameworks if f is not None]
        checks = ' and one for '.join(NAMES[f] for f in named)
        options = ' or '.join(f'framework={f!r}' for f in named)
        print(f'{exercise} has a check for {checks}. Which one is meant? Add {options}.')
        return
    one = found[exercise, ways[0]]
    odd = sorted(set(given) - set(one.asks))
    if odd:
        print(_not_asked_for(exercise, odd, one, {f: found[exercise, f] for f in frameworks}))
        return
    empty = [f'{name} ({about})' for name, about in one.asks.items() if _empty(given.get(name, ...))]
    if empty:
        print(f'No answer yet. Give {"; ".join(empty)}.')
        return
    if all(map(_plain, given.values())):
        print(_note(exercise, one, _verdict(one, given)))
        return
    modules = list(one.imports)
    if ways[0] in FRAMEWORKS:
        modules.insert(0, FRAMEWORKS[ways[0]])
    try:        # before the fork, whose time and memory are the answer's
        for name in modules:
            importlib.import_module(name)
    except ImportError as e:
        print(f'This check needs what is not installed: {e}.')
        return
    if not sandbox.FORKS:
        print('This system cannot end a call. If nothing comes back, interrupt the kernel.')
        print(_note(exercise, one, _verdict(one, given)))
        return
    how, said, printed = sandbox.call(
        lambda: _verdict(one, given, True), one.seconds, one.memory,
        lambda frame: _where(traceback.walk_stack(frame), one, given, -1))
    if how == 'returned':
        print(_note(exercise, one, said))
    else:
        print(f'Not yet: your code {_ended(how, said, one)}')
    lines = printed.strip().splitlines()[-10:]
    if lines and (how, said) != ('returned', []):
        print('The end of what it printed:', *lines, sep='\n    ')


def _no_such_exercise(exercise: str, labels: list[str]) -> str:
    """What to say of a label that no exercise has."""
    near = difflib.get_close_matches(str(exercise), labels, 1) or ['msr-ex-w-good']
    return f'No exercise {exercise!r} can be checked. Give the label, as in check({near[0]!r}, …).'


def _not_asked_for(exercise: str, odd: list[str], one: Exercise, every: dict[str | None, Exercise]) -> str:
    """What to say of parts that an exercise does not ask for.

    Args:
        every: the exercise for each framework.
    """
    if odd == ['answer']:
        parts = ', '.join(f'{name}=…' for name in one.asks)
        return f'Give the parts by name: check({exercise!r}, {parts}).'
    asked = []
    for framework, exercise_of_it in every.items():
        names = ', '.join(exercise_of_it.asks)
        asked.append(f'{names} with {NAMES[framework]}' if framework else names)
    return f'{", ".join(odd)}: not asked for. {exercise} asks for {", or for ".join(asked)}.'


def _ended(how: str, said: str, one: Exercise) -> str:
    """How a call of a reader's code ended that did not return, after "your code"."""
    at = f' {said}' if said else ''
    late = f'had not come back after {one.seconds:g} s, and was ended{at}.'
    if how == 'late':
        return late
    if how == 'waits':
        return f'{late} {THREADS}'
    if how == 'memory':
        return f'wanted more than {one.memory / 2 ** 30:.2g} GiB, and was ended.'
    return f'ended its process ({said}).'


def _ways(label: str, given: dict[str, Any], framework: str | None) -> list[str | None]:
    """The frameworks of which an answer to an exercise may be: of one, as far as that can be told."""
    asks = {f: one.asks for (name, f), one in definitions.load().items() if name == label}
    ways = list(asks)
    if framework is not None:
        return [f for f in ways if f == framework] or [f for f in ways if f is None] or ways
    # What follows decides only as long as more than one is left, and leaves them all if none fits.
    if len(ways) > 1:
        ways = [f for f in ways if asks[f].keys() == given.keys()] or ways
    if len(ways) > 1:
        named = _packages(list(given.values()))
        ways = [f for f in ways if FRAMEWORKS.get(f) in named] or ways
    imported = [f for f in ways if FRAMEWORKS.get(f) in sys.modules]
    if len(ways) > 1:
        ways = imported or [f for f in ways if f is None] or ways
    return ways if imported else ways[:1]


def _packages(values: list) -> set[str]:
    """The packages that some values belong to, or that the code of functions and classes names."""
    found, seen = set(), []
    while values:
        x = values.pop()
        if any(x is s for s in seen) or len(seen) > 1000:
            continue
        seen.append(x)
        if isinstance(x, types.ModuleType):
            found.add(x.__name__.split('.')[0])
            continue
        kinds = x.__mro__ if isinstance(x, type) else type(x).__mro__
        found |= {str(getattr(k, '__module__', '')).split('.')[0] for k in kinds}
        function = inspect.unwrap(getattr(x, '__func__', x)) if callable(x) else x
        if isinstance(function, types.FunctionType):
            found.add(str(function.__module__).split('.')[0])
            codes = [function.__code__]
            for code in codes:
                codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
                found |= {name.split('.')[0] for name in code.co_names} & {*FRAMEWORKS.values()}
                values += [function.__globals__[n] for n in code.co_names if n in function.__globals__]
            for cell in function.__closure__ or ():
                with contextlib.suppress(ValueError):       # one that is empty
                    values.append(cell.cell_contents)
        if isinstance(x, type) and x.__module__ == '__main__':
            values += vars(x).values()
    return found & {*FRAMEWORKS.values()}


def _verdict(one: Exercise, given: dict[str, Any], forked: bool = False) -> list[str]:
    """Nothing, if the answer is right; a sentence; or what is missing and two hints."""
    try:
        one.test(*[given[name] for name in one.asks])
    except definitions.Missing as e:
        return [*e.args]
    except BaseException as e:
        if sandbox.short(e) or isinstance(e, KeyboardInterrupt) and not forked:
            raise
        what = f'{type(e).__name__}: {e}'.split('\n')[0].rstrip(': .')[:200]
        if where := _where(traceback.walk_tb(e.__traceback__), one, given, 1):
            return [f'Not yet: your code raised {what} {where}.']
        at = traceback.extract_tb(e.__traceback__)[-1]
        return [f'Not yet: what your code gave could not be used: {what} '
                f'(line {at.lineno} of {Path(at.filename).name}).']
    return []


def _where(walk: Iterator, one: Exercise, given: dict[str, Any], way: int) -> str:
    """Where a reader's code was, and what the check had called it with; nothing, if it was not there.

    Args:
        walk: frames and their lines.
        way: 1, if the innermost is the last of them, or -1.
    """
    test = one.test.__code__
    tests = [test]
    for code in tests:          # which grows: functions in functions
        tests += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    not_the_readers = [*(str(ROOT / folder) for folder in ('d2l_local', 'packages', 'chapters')),
                       str(Path(__file__).parent), sysconfig.get_path('purelib'),
                       sysconfig.get_path('stdlib'), '<frozen']
    files_of_answers = [x.__code__.co_filename for x in given.values() if hasattr(x, '__code__')]
    if test.co_filename not in files_of_answers:        # a script may have the test and the answer
        not_the_readers.append(test.co_filename)
    frames = []
    for frame, line in walk:
        code = frame.f_code
        if code not in tests and not code.co_filename.startswith(tuple(not_the_readers)):
            frames.append((frame, line))
    if not frames:
        return ''
    outermost_first = frames[::way]
    called = outermost_first[0][0]
    last, line = outermost_first[-1]
    values = inspect.getargvalues(called)
    names = [*values.args, values.varargs, values.keywords]
    known = [name for name in names if name in called.f_locals]
    case = ', '.join(f'{name} = {_short(called.f_locals[name])}' for name in known)
    with_case = f', for {case}'[:300] if case else ''
    return f'(line {line}, in {last.f_code.co_name}{with_case})'


def _short(x: Any) -> str:
    """A value in a few words."""
    try:
        if getattr(x, 'shape', ()) != ():
            return f'an array of shape {tuple(x.shape)}'
        return 'a function' if callable(x) else reprlib.repr(x)
    except Exception:
        return f'a {type(x).__name__}'


def _note(label: str, one: Exercise, said: list[str]) -> str:
    """Keep what a check said; returns it as sentences for the reader."""
    if len(said) == 1:
        return said[0]
    path = file()
    with contextlib.suppress(OSError):      # saving says why it could not be made
        path.parent.mkdir(parents=True, exist_ok=True)
    with files.alone(path.parent):
        kept = progress()
        mine = kept.setdefault(label, {})
        if said:
            what, hint, second = said
            stop = '' if what.endswith(('?', '!', '.')) else '.'
            sentence = f'Not yet. Missing: {what}{stop} {hint}'
            if mine.get('missing') == what:
                sentence += f' {second}'
            mine['missing'] = what
        elif one.points:
            mine.pop('missing', None)
            mine['written'] = True
            points = '\n- '.join(['Compare your text with these points:', *one.points])
            sentence = f'{points}\nNoted. {summary(kept)}'
        else:
            mine.pop('missing', None)
            mine['solved'] = True
            sentence = f'Right. {summary(kept)}'
        try:
            files.put_whole(path, json.dumps(kept, indent=1))
        except OSError as e:
            sentence += f' (The progress could not be saved in {path}: {e.strerror}.)'
    return sentence


def file() -> Path:
    """The progress file."""
    return Path(os.environ.get('ANSWER_CHECKS_FOLDER') or ROOT / 'exercises') / 'progress.json'


def progress() -> dict[str, dict]:
    """What the progress file holds, by label. If it cannot be read, it gets another name."""
    path = file()
    try:
        kept = json.loads(path.read_text())
        if isinstance(kept, dict) and all(isinstance(v, dict) for v in kept.values()):
            return kept
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError):
        pass
    aside = next(p for i in range(1, 10_000)
                 if not (p := path.with_name(f'progress_broken_{i}.json')).exists())
    os.replace(path, aside)
    print(f'The progress file could not be read. It is kept as {aside}, and a new one begins.')
    return {}


def summary(kept: dict[str, dict], topic: str = '') -> str:
    """How many of the exercises that can be checked are solved, in all or in a topic, and texts written."""
    mine = {label: one for (label, _), one in definitions.load().items() if topic in ('', one.topic)}
    solved, written = [], []
    for label, one in mine.items():
        done = kept.get(label, {})
        if one.points:
            written.append(bool(done.get('written') or done.get('solved')))
        else:
            solved.append(bool(done.get('solved')))
    said = f'{sum(solved)} of {len(solved)} solved'
    if written:
        said += f', {sum(written)} of {len(written)} texts written'
    return f'{said}.'


def _plain(x: Any) -> bool:
    """Whether a value holds no code of the reader's."""
    if type(x) in (list, tuple, set, dict):
        return all(map(_plain, [*x, *x.values()] if type(x) is dict else x))
    return type(x) in PLAIN


def _empty(x: Any) -> bool:
    """Whether an answer is still the stub: dots, or a function whose body is."""
    if type(x) in (list, tuple):
        return any(map(_empty, x))
    code = getattr(x, '__code__', None)
    if not isinstance(code, types.CodeType):
        return x is ... or x is None
    does = {i.opname for i in dis.get_instructions(code)}
    return does <= NOTHING and set(code.co_consts) <= {None, x.__doc__}


def main() -> None:
    """Print the progress."""
    kept = progress()
    for topic in dict.fromkeys(one.topic for one in definitions.load().values()):
        print(f'{topic:22} {summary(kept, topic)}')
    print(f'{"all topics":22} {summary(kept)}')
    known = {label for label, _ in definitions.load()}
    solved = [label for label, state in kept.items() if label not in known and state.get('solved')]
    if solved:
        print(f'Of notebooks and scripts, which define their exercises themselves: {len(solved)} solved.')


if __name__ == '__main__':
    main()
