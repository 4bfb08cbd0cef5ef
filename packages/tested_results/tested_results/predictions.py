"""Guesses before measurements: :func:`predict` asks, the claim's result answers. Knows no framework.

    python -m tested_results.predictions [read FILE | erase [ID …]]

prints how well the reader guesses, after reading guesses from a file or erasing some of them, or all.
They stay in one file on this machine.
"""

import html
import json
import math
import os
import re
import statistics
import sys
from numbers import Real
from pathlib import Path
from typing import Any

from tested_results import numbers
from tested_results.files import alone, put_whole

METADATA_KEY = 'd2l_predict'     # where an output says that it asks for a guess
ASK = 'Put a number, or a pair (low, high), in place of the dots, and run this cell.'


def file() -> Path | None:
    """Where guesses are kept: ``TESTED_RESULTS_GUESSES``, or with the chapters around; ``off``: nowhere.

    The chapters are those around the working directory, which for a notebook is its topic's folder. Where
    there are none, the guesses lie in the working directory.
    """
    named = os.environ.get('TESTED_RESULTS_GUESSES')
    if named == 'off':
        return None
    if named:
        return Path(named)
    here = Path.cwd()
    chapters = (folder / 'chapters' for folder in (here, *here.parents))
    return next((folder for folder in chapters if folder.is_dir()), here) / 'guesses.json'


def elsewhere(path: Path) -> list[Path]:
    """Files with guesses in the folders of topics, where notebooks may have kept them."""
    return sorted(path.parent.glob('*/guesses.json'))


def _number(x: Any) -> bool:
    if not isinstance(x, Real) or isinstance(x, bool):
        return False
    try:
        return 0 < float(x) < math.inf
    except OverflowError:
        return False


def _sound(e: Any) -> bool:
    low, high, measured = e.get('low'), e.get('high'), e.get('measured')
    if not _number(e['guess']):
        return False
    if measured is not None and not _number(measured):
        return False
    if low is None and high is None:
        return True
    return _number(low) and _number(high) and low < high


def read(path: Path) -> tuple[dict[str, dict], bool]:
    """The sound guesses in a file, by claim, and whether there is nothing else in it."""
    try:
        found = json.loads(path.read_bytes())['guesses']
        sound = {id: e for id, e in found.items() if isinstance(e, dict) and 'guess' in e and _sound(e)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}, False
    return sound, len(sound) == len(found)


def load(path: Path) -> tuple[dict[str, dict], str]:
    """The reader's guesses, and what to say. A broken file gets another name; its sound guesses stay."""
    guesses, whole = read(path) if path.exists() else ({}, True)
    if whole:
        return guesses, ''
    names = (path.with_name(f'{path.name}.broken-{n}') for n in range(1, sys.maxsize))
    other = next(p for p in names if not p.exists())
    path.rename(other)
    save(path, guesses)
    return guesses, f'{path.name} was broken and is {other.name} now; {len(guesses)} guesses stay. '


def save(path: Path, guesses: dict[str, dict]) -> None:
    """Write all guesses, whole or not at all."""
    put_whole(path, json.dumps({'guesses': guesses}, indent=1) + '\n')


def _parsed(guess: Any) -> dict:
    """A guess as an entry of the file; the middle of a pair is that of its logarithms."""
    pair = isinstance(guess, tuple | list) and len(guess) == 2
    low, high = guess if pair else (guess, guess)
    if not (_number(low) and _number(high)) or pair and low >= high:
        raise ValueError('A guess is a number above zero, or a pair (low, high) of them with the '
                         f'smaller one first, not {guess!r}.')
    low, high = float(low), float(high)
    middle = math.exp((math.log(low) + math.log(high)) / 2) if pair else low
    return {'guess': middle, 'low': low if pair else None, 'high': high if pair else None,
            'measured': None}


def _unscored(id: str) -> str:
    """Why no result will answer a guess, as far as the notebooks of this folder tell."""
    texts = [p.read_text(errors='replace') for p in Path.cwd().glob('*.ipynb')]
    made = re.compile(rf"""\b(compare|estimate|count|verify)\(\s*(id\s*=\s*)?['"]{re.escape(id)}['"]""")
    if texts and not any(made.search(_code(t)) for t in texts):
        return f'No notebook in this folder claims {id!r}, so nothing was kept: check the id.'
    fact = any(re.search(rf'"id": "{re.escape(id)}",\s*"kind": "fact"', t) for t in texts)
    return f'{id!r} is a fact without a figure, so nothing was kept.' if fact else ''


def _code(notebook: str) -> str:
    """The code of a notebook, given as the text of its file; all of the text where that is no notebook."""
    try:
        cells = json.loads(notebook)['cells']
        return '\n'.join(''.join(cell['source']) for cell in cells if cell['cell_type'] == 'code')
    except (ValueError, LookupError, TypeError):
        return notebook


def _show(e: dict) -> str:
    shown = numbers.guess(e['guess'])
    if e.get('low'):
        shown += f' ({numbers.guess(e["low"])}–{numbers.guess(e["high"])})'
    return shown


def off(e: dict) -> float:
    """The factor by which a guess is off, up or down: what counts is log(guess ÷ measured)."""
    factor = e['guess'] / e['measured']
    return min(1e300, factor if factor >= 1 else e['measured'] / e['guess'])


def predict(id: str, question: str, guess: Any = ...) -> None:
    """Ask for a guess at a claim's figure before it is measured, and keep the first one.

    Args:
        id: of a claim further down in the notebook that has a figure.
        question: which figure, with its unit.
        guess: dots for none; a positive number; or a pair (low, high) that holds the figure, you are 80%
            sure. Anything else is declined in words: a run of all cells never stops here.
    """
    path = file()
    try:
        with alone(path and path.parent):
            said = _ask(str(id), guess)
    except (OSError, ValueError) as e:
        said = f'{str(e).rstrip(".")}. Nothing was kept.'
    if (ipython := sys.modules.get('IPython')) and ipython.get_ipython():
        page = (f'<div class="d2l-predict" data-claim="{html.escape(str(id))}"><b>Guess first.</b> '
                f'{html.escape(str(question))}<br><small>{html.escape(said)}</small></div>')
        ipython.display.display(
            {'text/plain': f'Guess first. {question}\n{said}', 'text/html': page}, raw=True,
            metadata={METADATA_KEY: {'id': str(id), 'question': str(question)}})
    else:
        print(f'{question}\n{said}')


def _ask(id: str, guess: Any) -> str:
    """Keep a guess, if it is one and the first; returns what to say."""
    if (path := file()) is None:
        return ASK
    new = None if guess is ... else _parsed(guess)
    guesses, said = load(path)
    if old := guesses.get(id):
        said += f'Your first guess counts: {_show(old)}.'
        if new and any(new[k] != old.get(k) for k in ('guess', 'low', 'high')):
            said += f' To guess anew, erase it: python -m tested_results.predictions erase {id}'
        return said
    if new is None:
        return said + ASK
    if why := _unscored(id):
        return said + why
    save(path, guesses | {id: new | {'topic': Path.cwd().name}})
    return f'{said}Locked: {_show(new)}.'


def answer(id: str, value: float | None) -> str:
    """What to say beside a claim's result of the guess made before, which it scores; '' without one."""
    path = file()
    try:
        with alone(path and path.parent):
            guesses = load(path)[0] if path else {}
            e = guesses.get(id)
            if not e:
                return ''
            if not _number(value):
                return f'you guessed {_show(e)}; here is no figure to compare it with'
            if e.get('measured') is None:        # the first result counts, as the first guess does
                save(path, guesses | {id: e | {'measured': float(value)}})
    except OSError as error:
        return f'your guesses could not be read or written ({error})'
    factor = numbers.factor(off(e | {'measured': value}))
    said = f'you guessed {_show(e)}: off by a factor of {factor}'
    if e.get('low'):
        side = 'inside' if e['low'] <= value <= e['high'] else 'outside'
        said += f', {side} your interval'
    return said


def table(guesses: dict[str, dict]) -> str:
    """How good these guesses are, by topic and in all: the columns of the page of guesses."""
    done = [e for e in guesses.values() if e.get('measured')]
    rows = [('topic', 'guesses', 'half within', 'within ×2', 'too low', 'intervals')]
    for topic in [*sorted({str(e.get('topic')) for e in done}), 'all']:
        mine = [e for e in done if topic in ('all', str(e.get('topic')))]
        half = '–'
        if mine:
            middle = statistics.median(math.log(off(e)) for e in mine)
            half = f'×{numbers.factor(math.exp(middle))}'
        within_two = sum(off(e) <= 2 for e in mine)
        too_low = sum(e['guess'] < e['measured'] for e in mine)
        sure = [e['low'] <= e['measured'] <= e['high'] for e in mine if e.get('low')]
        rows.append((topic.replace('_', ' '), len(mine), half, within_two, too_low,
                     f'{sum(sure)} of {len(sure)}'))
    lines = []
    for first, *others in rows:
        lines.append(f'{first:24}' + ''.join(f'{cell:>13}' for cell in others))
    waiting = len(guesses) - len(done)
    if waiting:
        lines.append(f'without a result yet: {waiting}')
    return '\n'.join(lines)


def main(what: str = '', *names: str) -> str:
    """Read guesses from a file, where those already here stay, or erase some; returns what to print."""
    path = file() or Path('guesses.json')
    fits = {'': not names, 'read': len(names) == 1, 'erase': True}
    if not fits.get(what, False):
        return str(__doc__)
    with alone(path.parent):
        return _changed(path, what, *names)


def _changed(path: Path, what: str, *names: str) -> str:
    mine, said = load(path)
    if what == 'read':
        new, whole = read(Path(names[0]))
        said += f'guesses are new: {len(new.keys() - mine)}'
        if not whole:
            said += '; what else is in that file is no guess'
        said += '. '
        mine = new | mine
    elif what == 'erase':
        for id in names:
            if id not in mine:
                said += f'There is no guess for {id}. '
        mine = {id: e for id, e in mine.items() if names and id not in names}
    if what:
        save(path, mine)
    for other in elsewhere(path):
        said += f'There are guesses in {other} too: python -m tested_results.predictions read {other}\n'
    return f'{said}{path}\n{table(mine)}'


if __name__ == '__main__':
    try:
        print(main(*sys.argv[1:]))
    except OSError as e:
        sys.exit(f'{e}. Nothing was changed.')
