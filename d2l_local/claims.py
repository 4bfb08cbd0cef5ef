"""Claims: sentences about performance that this machine tests. Knows no framework.

A claim has an id, the sentence that the reader reads, and a bound. Calling :func:`claim`
measures it, displays the verdict and returns it. It never raises because a claim fails.
"""

import html
import math
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from d2l_local import machine, timing

METADATA_KEY = 'd2l_claim'     # where an output carries its claim as data
VERDICTS = ('holds', 'fails', 'undecided', 'not testable here')
MARKS = {'holds': '✓', 'fails': '✗', 'undecided': '?', 'not testable here': '–'}
COLOURS = {'holds': '#2e7d32', 'fails': '#c62828', 'undecided': '#b26a00',
           'not testable here': '#616161'}
ASK_AGAIN = 6         # times to ask whether a condition still holds before a claim may fail
_seen: dict[str, str] = {}


@dataclass(frozen=True)
class Claim:
    """A tested claim. ``figure`` is what was measured, as text; ``reason`` says why no verdict."""

    id: str
    sentence: str
    bound: str
    verdict: str
    figure: str = ''
    reason: str = ''
    passing: bool = False      # the reason may pass: this machine can test the claim when quiet
    seconds: float = 0.0
    machine: str = field(default_factory=machine.describe)

    def __str__(self) -> str:
        verdict = f'{self.verdict}: {self.reason}' if self.reason else self.verdict
        lines = [f'[{self.id}] {self.sentence}', f'bound: {self.bound}', f'verdict: {verdict}']
        return '\n'.join(lines + [f'measured: {self.figure}'] * bool(self.figure))

    def _html(self) -> str:
        text = {k: html.escape(str(v)) for k, v in asdict(self).items()}
        why = f': {text["reason"]}' if self.reason else ''
        figure = f'measured {text["figure"]} · ' if self.figure else ''
        return (f'<div class="d2l-claim" id="claim-{self.id}" style="border-left:.3rem solid '
                f'{COLOURS[self.verdict]};padding:.3rem .8rem;margin:.3rem 0">'
                f'<b>{MARKS[self.verdict]} {self.verdict}</b>{why} — {text["sentence"]}<br>'
                f'<small>{figure}bound: {text["bound"]} · claim <code>{self.id}</code>'
                '</small></div>')

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        return ({'text/plain': str(self), 'text/html': self._html()}, {METADATA_KEY: asdict(self)})

    def _ipython_display_(self) -> None:
        """Shown when it was made; a cell that ends with it does not show it twice."""


def _show(c: Claim) -> Claim:
    try:
        from IPython import get_ipython
        from IPython.display import display
        in_notebook = get_ipython() is not None
    except ImportError:
        in_notebook = False
    if in_notebook:
        data, metadata = c._repr_mimebundle_()
        display(data, metadata=metadata, raw=True)
    else:
        print(c)
    return c


def budget(default: float = 6.0) -> float:
    """Seconds that one claim may take: ``D2L_BUDGET`` where it is set (tests wait longer)."""
    text = os.environ.get('D2L_BUDGET', '')
    try:
        seconds = float(text or default)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ValueError(f'D2L_BUDGET must be a positive number of seconds, not {text!r}')
    return seconds


def _bound(above: float | None, below: float | None) -> str:
    if (above is None) == (below is None):
        raise ValueError('a claim needs one bound: above=… or below=…')
    limit = above if above is not None else below
    if not (isinstance(limit, int | float) and 0 < limit < math.inf):
        raise ValueError(f'a bound must be a positive number, not {limit!r}')
    return f'{">" if above is not None else "<"} {limit:g}'


def claim(id: str, sentence: str, *, slow: Callable[[], Any] | None = None,
          fast: Callable[[], Any] | None = None, value: float | None = None, unit: str = '',
          fact: bool | None = None, above: float | None = None, below: float | None = None,
          unless: str | Callable[[], str | None] | None = None, **how: Any) -> Claim:
    """Test a claim, display the verdict, and return it.

    What is measured is one of three: ``slow`` and ``fast``, compared by :func:`timing.ratio`
    (its other arguments may follow); ``value``, a number that you measured, in ``unit``;
    or ``fact``, something that is either so or not.

    Args:
        id: letters, digits and dashes; unique in the book; links name it.
        sentence: what the claim says, in words.
        above, below: the bound on the ratio or on the value: exactly one, positive.
        unless: why this machine cannot test the claim, if it cannot; empty or None if it can.
            A callable is asked again until the budget ends: for conditions that pass.

    Raises:
        ValueError: a malformed claim, or an id that another sentence already has.
        timing.VariantError: a variant raised, or the variants compute different numbers.
    """
    if not re.fullmatch(r'[a-z0-9]+(-[a-z0-9]+)*', id):
        raise ValueError(f'a claim id is made of small letters, digits and dashes, not {id!r}')
    if _seen.setdefault(id, sentence) != sentence:
        raise ValueError(f'the claim id {id!r} is used twice, for "{_seen[id]}" and for '
                         f'"{sentence}": give one of them another id (after a change of the '
                         'sentence, restart the kernel)')
    kinds = [slow is not None and fast is not None, value is not None, fact is not None]
    if sum(kinds) != 1 or (slow is None) != (fast is None):
        raise ValueError('a claim measures either slow=… and fast=…, or value=…, or fact=…')
    how.setdefault('budget', budget())
    if fact is not None:
        if above is not None or below is not None:
            raise ValueError('a fact is so or not and takes no bound; value=… takes one')
        bound = 'exactly so'
    else:
        bound = ('time ratio ' if slow else '') + _bound(above, below) + (f' {unit}' if unit else '')
    began = time.perf_counter()
    reason = _wait_for(unless, how['budget'])
    if reason:
        return _show(Claim(id, sentence, bound, 'not testable here', reason=reason,
                           passing=callable(unless)))
    figure = ''
    if fact is not None:
        verdict = 'holds' if fact else 'fails'
    elif value is not None:
        value = float(value)
        side = timing.bound_side(value, value, above, below)
        verdict, figure = 'holds' if side > 0 else 'fails', f'{value:.3g} {unit}'.strip()
        if math.isnan(value):
            raise ValueError(f'the value of claim {id!r} is not a number')
    else:
        r = timing.ratio(slow, fast, above=above, below=below, **how)
        side = timing.bound_side(r.low, r.high, above, below)
        verdict, figure = {1: 'holds', -1: 'fails', 0: 'undecided'}[side], f'{r}, {r.pairs} pairs'
        if not side:
            reason = ('the machine is too noisy, or the calls take too long, '
                      f"for a verdict within {how['budget']:g} s")
    if verdict in ('fails', 'undecided') and callable(unless):
        # What disturbs may come and go: ask more than once, over some seconds.
        for _ in range(ASK_AGAIN):
            if now := unless():
                verdict, reason = 'not testable here', now
                break
            time.sleep(how['budget'] / 12)
    passing = verdict == 'undecided' or (callable(unless) and bool(reason))
    return _show(Claim(id, sentence, bound, verdict, figure, reason, passing,
                       round(time.perf_counter() - began, 2)))


def _wait_for(unless: str | Callable[[], str | None] | None, seconds: float) -> str:
    """The reason that stands against a test now, or an empty string."""
    if not callable(unless):
        return unless or ''
    end = time.perf_counter() + seconds
    while (reason := unless()) and time.perf_counter() < end:
        time.sleep(0.5)
    return reason or ''
