"""Answers to the exercises, checked: right, or what is missing with a hint, and never the solution.

    from answer_checks import check
    check('msr-ex-w-good', rate=7e15)

``python -m answer_checks`` prints the progress. It is kept in ``exercises/progress.json``, or in the
folder that ``D2L_EXERCISES`` names. No framework.
"""

import difflib
import dis
import json
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any

from answer_checks import definitions, sandbox
from answer_checks.definitions import ROOT, Exercise

PLAIN = bool, int, float, complex, str, bytes, type(None)
NOTHING = {'RESUME', 'NOP', 'LOAD_CONST', 'RETURN_VALUE', 'RETURN_CONST'}     # what a body of dots does
FRAMEWORKS = {'pytorch': 'torch', 'mxnet': 'mxnet'}


def check(exercise: str = '', answer: Any = ..., **parts: Any) -> None:
    """Check an answer to an exercise, print what comes out, and note it in the progress file.

    Args:
        exercise: the label, as in the stub.
        answer: a function or a text, for an exercise that asks for one; else the ``parts`` by name.

    An answer that has code is called in a process of its own, which is ended after some seconds or
    when it wants too much memory. What it changes there is not seen here.
    """
    found = definitions.load()
    here = [f for f, package in FRAMEWORKS.items() if package in sys.modules]
    keys = [(exercise, f) for f in (None, *here, *FRAMEWORKS)]
    one = next((found[key] for key in keys if key in found), None)
    if one is None:
        near = difflib.get_close_matches(str(exercise), [label for label, _ in found], 1)
        return print(f'No exercise {exercise!r} can be checked. Give the label, as in '
                     f"check({(near or ['msr-ex-w-good'])[0]!r}, …).")
    parts |= {} if answer is ... else {'answer': answer}
    if odd := sorted(set(parts) - set(one.asks)):
        return print(f'{", ".join(odd)}: not asked for. {exercise} asks for {", ".join(one.asks)}.')
    if empty := [f'{n} ({a})' for n, a in one.asks.items() if _empty(parts.get(n, ...))]:
        return print(f'No answer yet. Give {"; ".join(empty)}.')
    how, said = 'returned', None
    if not all(map(_plain, parts.values())):
        if sandbox.FORKS:
            how, said = sandbox.call(lambda: _verdict(one, parts), one.seconds, one.memory)
        else:
            print('This system cannot end a call. If nothing comes back, interrupt the kernel.')
    if how == 'returned':
        print(_note(exercise, one, _verdict(one, parts) if said is None else said))
    else:
        print('Not yet: your code', {
            'late': f'had not come back after {one.seconds:g} s, and was ended.',
            'memory': f'wanted more than {one.memory / 2 ** 30:.2g} GiB, and was ended.',
            'died': f'ended its process ({said}).'}[how])


def _verdict(one: Exercise, parts: dict[str, Any]) -> list[str]:
    """Nothing, if the answer is right; a sentence; or what is missing and two hints."""
    try:
        one.test(*[parts[name] for name in one.asks])
    except definitions.Missing as e:
        return [*e.args]
    except (Exception, SystemExit) as e:
        if sandbox.short(e):
            raise
        book = (*(str(ROOT / p) for p in ('d2l_local', 'packages', 'chapters')), str(Path(__file__).parent),
                one.test.__code__.co_filename,
                *(sysconfig.get_path(p) for p in ('purelib', 'stdlib')), '<frozen')
        theirs = [f for f in traceback.extract_tb(e.__traceback__) if not f.filename.startswith(book)]
        what = f'{type(e).__name__}: {e}'.split('\n')[0][:200]
        return [f'Not yet: your code raised {what} (line {theirs[-1].lineno}, in {theirs[-1].name}).'
                if theirs else f'Not yet: what your code gave could not be used: {what}.']
    return []


def _note(label: str, one: Exercise, said: list[str]) -> str:
    """Keep what a check said; returns it as sentences for the reader."""
    if len(said) == 1:
        return said[0]
    kept = progress()
    mine = kept.setdefault(label, {})
    if said:
        what, hint, second = said
        sentence = f'Not yet. Missing: {what}. {hint}'
        sentence += f' {second}' if mine.get('missing') == what else ''
        mine['missing'] = what
    else:
        mine.pop('missing', None)
        mine['solved'] = True
        sentence = '\n- '.join(['Compare your text with these points:', *one.points]) + '\n'
        sentence = (f'{sentence}Noted. ' if one.points else 'Right. ') + summary(kept)
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix('.part')
        part.write_text(json.dumps(kept, indent=1))
        os.replace(part, path)
    except OSError as e:
        sentence += f' (The progress could not be saved in {path}: {e.strerror}.)'
    return sentence


def file() -> Path:
    """The progress file."""
    return Path(os.environ.get('D2L_EXERCISES') or ROOT / 'exercises') / 'progress.json'


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
    """How many of the exercises that can be checked are solved, in all or in a topic."""
    labels = {label for (label, _), one in definitions.load().items() if topic in ('', one.topic)}
    return f'{sum(bool(kept.get(label, {}).get("solved")) for label in labels)} of {len(labels)} solved.'


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
    if code is None:
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
