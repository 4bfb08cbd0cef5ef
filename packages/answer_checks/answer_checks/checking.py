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
    if not any(label == exercise for label, _ in found):
        near = difflib.get_close_matches(str(exercise), [label for label, _ in found], 1)
        return print(f'No exercise {exercise!r} can be checked. Give the label, as in '
                     f"check({(near or ['msr-ex-w-good'])[0]!r}, …).")
    given = parts | ({} if answer is ... else {'answer': answer})
    ways = _ways(exercise, given, framework)
    if len(ways) != 1:
        every = [f for label, f in found if label == exercise]
        return print(f'{exercise} has a check for {" and one for ".join(NAMES[f] for f in every)}. Which one '
                     f'is meant? Add {" or ".join(f"framework={f!r}" for f in every)}.')
    one = found[exercise, ways[0]]
    if odd := sorted(set(given) - set(one.asks)):
        if odd == ['answer']:
            return print(f'Give the parts by name: check({exercise!r}, '
                         f'{", ".join(f"{name}=…" for name in one.asks)}).')
        every = {f: found[exercise, f].asks for label, f in found if label == exercise}
        return print(f'{", ".join(odd)}: not asked for. {exercise} asks for ' + ', or for '.join(
            ', '.join(asks) + (f' with {NAMES[f]}' if f else '') for f, asks in every.items()) + '.')
    if empty := [f'{n} ({a})' for n, a in one.asks.items() if _empty(given.get(n, ...))]:
        return print(f'No answer yet. Give {"; ".join(empty)}.')
    how, said, printed = 'returned', None, ''
    if not all(map(_plain, given.values())):
        try:        # before the fork, whose time and memory are the answer's
            for name in FRAMEWORKS.get(ways[0]), *one.imports:
                name and importlib.import_module(name)
        except ImportError as e:
            return print(f'This check needs what is not installed: {e}.')
        if sandbox.FORKS:
            how, said, printed = sandbox.call(
                lambda: _verdict(one, given, True), one.seconds, one.memory,
                lambda frame: _where(traceback.walk_stack(frame), one, given, -1))
        else:
            print('This system cannot end a call. If nothing comes back, interrupt the kernel.')
    if how == 'returned':
        said = _verdict(one, given) if said is None else said
        print(_note(exercise, one, said))
    else:
        at = f'{said and f" {said}"}'
        print('Not yet: your code', {
            'late': f'had not come back after {one.seconds:g} s, and was ended{at}.',
            'waits': f'had not come back after {one.seconds:g} s, and was ended{at}. {THREADS}',
            'memory': f'wanted more than {one.memory / 2 ** 30:.2g} GiB, and was ended.',
            'died': f'ended its process ({said}).'}[how])
    if (how, said) != ('returned', []) and (lines := printed.strip().splitlines()[-10:]):
        print('The end of what it printed:', *lines, sep='\n    ')


def _ways(label: str, given: dict[str, Any], framework: str | None) -> list[str | None]:
    """The frameworks of which an answer to an exercise may be: of one, as far as that can be told."""
    asks = {f: one.asks for (name, f), one in definitions.load().items() if name == label}
    ways = [*asks]
    if framework is not None:
        return [f for f in ways if f in (None, framework)] or ways
    for fits in (lambda f: {*given} == {*asks[f]}, lambda f: FRAMEWORKS[f] in _packages([*given.values()]),
                 lambda f: FRAMEWORKS[f] in sys.modules):
        if len(ways) > 1:
            ways = [f for f in ways if fits(f)] or ways
    return ways if any(FRAMEWORKS.get(f) in sys.modules for f in ways) else ways[:1]


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
    tests = [one.test.__code__]
    for code in tests:
        tests += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    answers = {getattr(getattr(x, '__code__', None), 'co_filename', None) for x in given.values()}
    book = (*(str(ROOT / p) for p in ('d2l_local', 'packages', 'chapters')), str(Path(__file__).parent),
            *(sysconfig.get_path(p) for p in ('purelib', 'stdlib')), '<frozen',
            *{one.test.__code__.co_filename} - answers)     # a script may have both
    frames = [(f, line) for f, line in walk
              if f.f_code not in tests and not f.f_code.co_filename.startswith(book)][::way]
    if not frames:
        return ''
    first, (last, line) = frames[0][0], frames[-1]
    values = inspect.getargvalues(first)
    names = [*values.args, *filter(None, (values.varargs, values.keywords))]
    case = ', '.join(f'{name} = {_short(first.f_locals[name])}' for name in names if name in first.f_locals)
    return f'(line {line}, in {last.f_code.co_name}{case and f", for {case}"[:300]})'


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
            sentence = f'Not yet. Missing: {what}{"" if what.endswith(("?", "!", ".")) else "."} {hint}'
            sentence += f' {second}' if mine.get('missing') == what else ''
            mine['missing'] = what
        else:
            mine.pop('missing', None)
            mine['written' if one.points else 'solved'] = True
            sentence = '\n- '.join(['Compare your text with these points:', *one.points]) + '\n'
            sentence = (f'{sentence}Noted. ' if one.points else 'Right. ') + summary(kept)
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
    solved, written = ([any(kept.get(label, {}).get(k) for k in keys) for label, one in mine.items()
                        if bool(one.points) == text]
                       for keys, text in ((['solved'], False), (['written', 'solved'], True)))
    return f'{sum(solved)} of {len(solved)} solved' + (
        f', {sum(written)} of {len(written)} texts written' if written else '') + '.'


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


if __name__ == '__main__':
    main()
