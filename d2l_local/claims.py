"""Claims: sentences about performance that this machine tests. Knows no framework.

A claim has an id, the sentence that the reader reads, what is measured, and a bound. Calling
:func:`claim` measures it, displays the verdict and returns it. It never raises because a claim fails.
"""

import html
import math
import re
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from d2l_local import conditions, machine, predictions, timing

METADATA_KEY = 'd2l_claim'     # where an output carries its claim as data
VERDICTS = ('holds', 'fails', 'undecided', 'not testable here')
MARKS = {'holds': '✓', 'fails': '✗', 'undecided': '?', 'not testable here': '–'}
COLOURS = {'holds': '#2e7d32', 'fails': '#c62828', 'undecided': '#9a5b00',
           'not testable here': '#616161'}
# What a claim measures: two times in pairs; a figure, repeatedly; a number that no clock gave; a fact.
KINDS = ('ratio', 'figure', 'count', 'fact')
CLOCKED = re.compile(r'\b(ns|µs|us|ms|s|seconds?|minutes?|faster|slower|sooner|longer|as (long|fast)|'
                     r'of (the|its) (time|peak)|bytes/s|GB/s|[GT]FLOP/s|per second)\b', re.IGNORECASE)
# What an undecided claim lacked: a machine that others leave alone, where others were seen to take
# part of it meanwhile; else quiet, which nobody measures.
NOISE, DISTURBED = 'quiet', 'free cores'
_seen: dict[str, str] = {}
_since = [conditions.taken()]  # what others took since the last claim; here, since this was imported


@dataclass(frozen=True)
class Claim:
    """A tested claim, as data.

    ``figure`` is what was measured, as text, and ``value``, ``low`` and ``high`` as numbers;
    ``reason`` says why there is no verdict, and ``lacked`` which condition did not hold.
    """

    id: str
    sentence: str
    kind: str
    bound: str
    verdict: str
    figure: str = ''
    reason: str = ''
    lacked: str = ''
    passing: bool = False      # the reason may pass: this machine can test the claim when quiet
    needs: tuple[str, ...] = ()
    value: float | None = None
    low: float | None = None
    high: float | None = None
    values: int = 0
    set_aside: int = 0
    cores: float = 0.0         # how many the program kept busy while a pair or a callable was measured
    seconds: float = 0.0
    machine: str = field(default_factory=machine.describe)

    def __str__(self) -> str:
        why = f': {self.reason}' if self.reason else ''
        lines = [f'[{self.id}] {self.sentence}', f'{self.kind}, bound: {self.bound}',
                 f'verdict: {self.verdict}{why}']
        return '\n'.join(lines + [f'measured: {self.figure}'] * bool(self.figure))

    def html(self, more: str = '') -> str:
        """The claim as HTML, with ``more`` of it (HTML too) at the end of the small print."""
        text = {k: html.escape(str(v)) for k, v in asdict(self).items()}
        why = f': {text["reason"]}' if self.reason else ''
        figure = f'measured {text["figure"]} · ' if self.figure else ''
        return (f'<div class="d2l-claim" id="claim-{self.id}" style="border-left:.3rem solid '
                f'{COLOURS[self.verdict]};padding:.3rem .8rem;margin:.3rem 0">'
                f'<b>{MARKS[self.verdict]} {self.verdict}</b>{why} — {text["sentence"]}<br>'
                f'<small>{figure}{self.kind}, bound: {text["bound"]} · claim <code>{self.id}</code>'
                f'{more}</small></div>')

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        return ({'text/plain': str(self), 'text/html': self.html()}, {METADATA_KEY: asdict(self)})

    def _ipython_display_(self) -> None:
        """Shown when it was made; a cell that ends with it does not show it twice."""


def _show(c: Claim) -> Claim:
    """Display a claim, and how a guess made before compares, in a notebook; print it elsewhere."""
    guessed = predictions.answer(c.id, c.value)
    text = f'{c}\n{guessed}' if guessed else str(c)
    if (ipython := sys.modules.get('IPython')) and ipython.get_ipython():
        data, metadata = c._repr_mimebundle_()
        if guessed:
            data = {'text/plain': text, 'text/html': c.html(f'<br><b>{html.escape(guessed)}</b>')}
        ipython.display.display(data, metadata=metadata, raw=True)
    else:
        print(text)
    return c


def budget(default: float = 6.0) -> float:
    """Seconds that one claim may take: ``D2L_BUDGET`` where it is set (tests wait longer)."""
    return timing.seconds_of('D2L_BUDGET', default)


def _bound(above: float | None, below: float | None) -> str:
    if (above is None) == (below is None):
        raise ValueError('a claim needs one bound: above=… or below=…')
    limit = above if above is not None else below
    if not (isinstance(limit, int | float) and 0 < limit < math.inf):
        raise ValueError(f'a bound must be a positive number, not {limit!r}')
    return f'{">" if above is not None else "<"} {limit:g}'


def _kind(what: Any, unit: str) -> str:
    """Which of the four kinds ``what`` is; ``'call'`` for a callable, which shows when it is called."""
    if isinstance(what, bool | np.bool_):
        return 'fact'
    if callable(what):
        return 'call'
    if isinstance(what, tuple) and len(what) == 2 and all(map(callable, what)):
        return 'ratio'
    if isinstance(what, Sequence | np.ndarray) and not isinstance(what, str):
        if len(what) < timing.FEWEST:
            raise ValueError(f'{len(what)} measurements make no interval: a figure needs at least '
                             f'{timing.FEWEST}, in the order in which they were taken')
        return 'figure'
    if isinstance(what, int | float | np.number):
        if CLOCKED.search(unit):
            raise ValueError(f'one figure in {unit!r} has no interval: pass a callable that measures it '
                             'anew, or a list of measurements, so that the claim can repeat it')
        return 'count'
    raise ValueError('a claim measures a pair of variants (slow, fast), a callable or a list for a '
                     f'figure, a number for a count, or True or False for a fact; not {what!r}')


def claim(id: str, sentence: str, what: Any, *, above: float | None = None, below: float | None = None,
          unit: str = '', needs: str | Iterable[str] = (), **how: Any) -> Claim:
    """Test a claim, display the verdict, and return it.

    Args:
        id: letters, digits and dashes; unique in the book; links name it.
        sentence: what the claim says, in words, with sizes; "emulated" and "pause" where that is so.
        what: a pair ``(slow, fast)`` of callables, compared by :func:`timing.ratio`, to which further
            arguments go; a callable that measures a figure anew at each call, or a list of at least
            seven such measurements; a number that no clock gave (a count, bytes, a gap between two
            results); or True or False, or a callable that returns it.
        above, below: the bound on the ratio, the figure or the count: exactly one, positive.
        unit: of the figure or the count, as it reads behind the number.
        needs: names of conditions (:mod:`d2l_local.conditions`). Passing ones are waited for, and
            watched while a pair or a callable is measured.

    Raises:
        ValueError: a malformed claim, an id that another sentence already has, one number where a
            time is claimed, a passing condition for something measured beforehand, a name in ``needs``
            that no condition has, or a callable that said that something is so, and then that it is not.
        timing.VariantError: a variant raised, or the variants compute different numbers.
    """
    if not re.fullmatch(r'[a-z0-9]+(-[a-z0-9]+)*', id):
        raise ValueError(f'a claim id is made of small letters, digits and dashes, not {id!r}')
    if _seen.setdefault(id, sentence) != sentence:
        raise ValueError(f'the claim id {id!r} is used twice, for "{_seen[id]}" and for '
                         f'"{sentence}": give one of them another id (after a change of the '
                         'sentence, restart the kernel)')
    kind, needed = _kind(what, unit), conditions.named(needs)
    if kind in ('figure', 'count', 'fact') and any(c.passing for c in needed):
        raise ValueError(f'claim {id!r} needs something that passes, so it must be measured while that '
                         'holds: pass a pair, or a callable that measures it')
    bounded = above is not None or below is not None
    if kind == 'call':
        kind = 'figure' if bounded else 'fact'
    if kind == 'fact' and bounded:
        raise ValueError('a fact is so or not and takes no bound; a figure takes one')
    unit = unit or ('times as long' if kind == 'ratio' else '')
    bound = 'exactly so' if kind == 'fact' else f'{_bound(above, below)} {unit}'.strip()
    how.setdefault('budget', budget())
    began, needs = time.perf_counter(), tuple(c.name for c in needed)

    def done(verdict: str, **more: Any) -> Claim:
        _since[0] = conditions.taken()
        more = {'seconds': round(time.perf_counter() - began, 2), **more}
        return _show(Claim(id, sentence, kind, bound, verdict, needs=needs, **more))

    if found := conditions.wait_for(needed, how['budget']):
        c, reason = found
        return done('not testable here', reason=reason, lacked=c.name, passing=c.passing, seconds=0.0)
    if kind == 'fact':
        so = bool(what() if callable(what) else what)
        if callable(what) and bool(what()) != so:
            raise ValueError(f'what establishes the fact said {so}, and then {not so}: it is no fact. '
                             'Make it repeatable, or claim a figure.')
        return done('holds' if so else 'fails')
    if kind == 'count':
        value = float(what)
        if math.isnan(value):
            raise ValueError(f'the count of claim {id!r} is not a number')
        side = timing.bound_side(value, value, above, below)
        return done('holds' if side > 0 else 'fails', value=value,
                    figure=f'{timing.show_figure(value)} {unit}'.strip())
    return done(**_measured(kind, what, unit, needed, above, below, how))


def _measured(kind: str, what: Any, unit: str, needed: list[conditions.Condition], above: float | None,
              below: float | None, how: dict) -> dict:
    """The verdict on a ratio or a figure, with its numbers, as fields of a claim."""
    how |= {'above': above, 'below': below, 'watch': lambda: conditions.watch(needed)}
    # what comes as a list was measured before, after the last claim
    repeated = kind == 'ratio' or callable(what)
    others = conditions.taken() if repeated else _since[0]
    began, own = time.perf_counter(), conditions.own_busy()
    if kind == 'ratio':
        f = timing.ratio(*what, **how)
    elif callable(what):
        f = timing.repeat(what, **how)
    else:
        f = timing.Figure(*timing.interval(list(map(float, what))), len(what))
    disturbed = conditions.too_few_left(others(), machine.cores())
    cores = (conditions.own_busy() - own) / (time.perf_counter() - began) if repeated else 0.0
    passing = [c.name for c in needed if c.passing]
    more = {'values': f.values, 'set_aside': f.set_aside, 'cores': round(cores, 2)}
    if f.values < timing.FEWEST:
        return {**more, 'verdict': 'not testable here', 'lacked': passing[0] if passing else NOISE,
                'passing': True, 'reason': f'too few undisturbed measurements: {f.reason}'}
    side = timing.bound_side(f.low, f.high, above, below)
    show = timing.show_figure
    more |= {'value': f.value, 'low': f.low, 'high': f.high,
             'figure': f'{show(f.value)} {unit} ({show(f.low)}–{show(f.high)})'.replace('  ', ' ')}
    if side:
        return {**more, 'verdict': 'holds' if side > 0 else 'fails'}
    return {**more, 'verdict': 'undecided', 'lacked': DISTURBED if disturbed else NOISE, 'passing': True,
            'reason': f'the interval still contains the bound after {f.values} measurements'
                      + f' ({disturbed})' * bool(disturbed)}
