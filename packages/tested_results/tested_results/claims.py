"""Results: what a page's text quotes, measured on this machine, with or without a bound to test.

Four calls make one: :func:`compare` (two variants), :func:`estimate` (a repeated measurement),
:func:`count` (a number that no clock gave) and :func:`verify` (something that is so, or not). Each
displays the result and returns it; none raises because a bound is missed. A fifth, :func:`in_turn`, times
several programs, of whose times estimates are made. The text links to a result
by its id, and the ledger takes the sentence from there. Knows no framework.
"""

import html
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from typing import Any

from tested_results import conditions, machine, numbers, predictions, timing

METADATA_KEY = 'd2l_claim'     # where an output carries its result as data
VERDICTS = ('holds', 'fails', 'undecided', 'not testable here')
MEASURED = 'measured'          # in the place of a verdict: a result without a bound
MARKS = {'holds': '✓', 'fails': '✗', 'undecided': '?', 'not testable here': '–'}
COLOURS = {'holds': '#2e7d32', 'fails': '#c62828', 'undecided': '#9a5b00',
           'not testable here': '#616161', MEASURED: '#1f5fa8'}
# What a result is: two times in pairs; a number measured repeatedly; one that no clock gave; a fact.
KINDS = ('ratio', 'estimate', 'count', 'fact')
CLOCKED = re.compile(r'\b(ns|µs|us|ms|s|seconds?|minutes?|faster|slower|sooner|longer|as (long|fast)|'
                     r'of (the|its) (time|peak)|bytes/s|GB/s|[GT]FLOP/s|per second)\b', re.IGNORECASE)
# What an undecided result lacked: a machine that others leave alone, where others were seen to take
# part of it meanwhile; else quiet, which nobody measures.
NOISE, DISTURBED = 'quiet', 'free cores'
LIST = 10                      # measurements, at least, that `estimate` takes as a list
_seen: dict[str, tuple] = {}
_since = [conditions.taken()]  # what others took since the last result; here, since this was imported


@dataclass(frozen=True)
class Claim:
    """A result, as data: what was measured, what was tested, and where.

    Attributes:
        kind: one of :data:`KINDS`.
        verdict: one of :data:`VERDICTS`, or :data:`MEASURED` where there is no bound.
        unit: of ``value``, ``low``, ``high`` and the bound; ``'×'`` for a ratio, ``'s'`` for seconds,
            ``'%'`` for a share between 0 and 1.
        above, below: the bound; at most one of them.
        least, most: values that are possible at all.
        names, parts: of a comparison, the two variants, and the seconds that a call of each takes.
        reason: why there is no verdict, and ``lacked`` which condition did not hold.
        transient: the reason may pass: this machine can test it when quiet.
        values, windows, set_aside: measurements that count, the windows of time they were taken in,
            and the windows that did not count.
        cores: how many this program kept busy meanwhile; ``others``: how many others took.
        where: what kind of machine it is, see :func:`tested_results.machine.kind`.
    """

    id: str
    kind: str
    verdict: str
    unit: str = ''
    above: float | None = None
    below: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    least: float | None = None
    most: float | None = None
    names: tuple[str, ...] = ()
    parts: dict[str, float] = field(default_factory=dict)
    reason: str = ''
    lacked: str = ''
    transient: bool = False
    needs: tuple[str, ...] = ()
    values: int = 0
    windows: int = 0
    set_aside: int = 0
    cores: float = 0.0
    others: float = 0.0
    seconds: float = 0.0
    where: dict[str, Any] = field(default_factory=machine.kind)
    machine: str = field(default_factory=machine.describe)

    @classmethod
    def of(cls, data: dict) -> 'Claim':
        """The result that :meth:`data` was made of."""
        return cls(**{**data, 'names': tuple(data['names']), 'needs': tuple(data['needs'])})

    def data(self) -> dict:
        """All fields, for a notebook's metadata and for JSON."""
        return asdict(self)

    @property
    def bounded(self) -> bool:
        """Whether something is tested."""
        return self.kind == 'fact' or self.above is not None or self.below is not None

    @property
    def timed(self) -> bool:
        """Whether a clock or repeated measurements decide it, so that it has an interval."""
        return self.kind in ('ratio', 'estimate')

    @property
    def decided(self) -> bool:
        return self.verdict in ('holds', 'fails')

    @property
    def bound(self) -> str:
        """What was tested, as text: ``above 3×``."""
        if self.kind == 'fact':
            return 'exactly so'
        if self.above is not None:
            word, limit = 'above', self.above
        elif self.below is not None:
            word, limit = 'below', self.below
        else:
            return ''
        if self.unit == '%':
            return f'{word} {100 * limit:g}%'
        space = '' if self.unit in ('×', '') else ' '
        return f'{word} {limit:g}{space}{self.unit}'

    def clipped(self, x: float) -> float:
        """A value as it can be: an interval of shares ends at 1."""
        x = x if self.least is None else max(self.least, x)
        return x if self.most is None else min(self.most, x)

    @property
    def reading(self) -> str:
        """What was measured, with its interval, as text: ``6.02× (5.71–6.33)``."""
        if self.value is None:
            return ''
        unit = self.unit
        if self.low is None or self.high is None:
            return numbers.counted(self.value, unit)
        ends = [self.clipped(x) for x in (self.low, self.high)]
        if unit in ('s', '%'):
            low, high = [numbers.show(x, unit) for x in ends]
        else:
            low, high = [numbers.figure(x) for x in ends]
        return f'{numbers.show(self.value, unit)} ({low}–{high})'

    @property
    def label(self) -> str:
        """What is measured, in the words of the call: ``eager ÷ compiled``."""
        names = [n.replace('_', ' ') for n in self.names]
        return ' ÷ '.join(names) if names else self.id

    @property
    def times(self) -> str:
        """The two times of a comparison."""
        return ', '.join(f'{n.replace("_", " ")} {numbers.seconds(t)}' for n, t in self.parts.items())

    @property
    def outcome(self) -> str:
        """What came out: ``6.02× (5.71–6.33)``, ``true``, or why there is nothing."""
        if self.kind == 'fact' and self.decided:
            return 'true' if self.verdict == 'holds' else 'false'
        return self.reading or f'{self.verdict}: {self.reason}'

    @property
    def readout(self) -> str:
        """The first line of the display: ``eager ÷ compiled = 6.02× (5.71–6.33)``."""
        return f'{self.label} = {self.outcome}'

    @property
    def tested(self) -> str:
        """The outcome of the test in words: ``above 3×: holds``."""
        if not self.bounded:
            return ''
        text = self.verdict if self.kind == 'fact' else f'{self.bound}: {self.verdict}'
        if self.reason:
            text += f' ({self.reason})'
        return text

    def __str__(self) -> str:
        lines = [f'{self.readout}  [{self.id}]']
        if self.times:
            lines.append(f'times: {self.times}')
        if self.bounded and self.kind != 'fact':
            lines.append(f'tested: {self.tested}')
        return '\n'.join(lines)

    def html(self, more: str = '') -> str:
        """The result as HTML, with ``more`` of it (HTML too) at the end of the small print."""
        mark = f'{MARKS[self.verdict]} ' if self.verdict in MARKS else ''
        parts = [self.times, self.tested, self.evidence]
        said = ' · '.join(html.escape(part) for part in parts if part)
        title = self.readout if self.names else self.outcome        # the id stands in the small print
        return (f'<div class="d2l-claim" id="{self.id}" style="border-left:.3rem solid '
                f'{COLOURS[self.verdict]};padding:.3rem .8rem;margin:.3rem 0">'
                f'<b>{mark}{html.escape(title)}</b><br>'
                f'<small>{said} · <code>{self.id}</code>{more}</small></div>')

    @property
    def evidence(self) -> str:
        """What the figure rests on: how many measurements, and how many windows did not count."""
        if not self.values:
            return ''
        what = 'pairs' if self.kind == 'ratio' else 'measurements'
        text = f'{self.values} {what}'
        if self.set_aside:
            text += f', {self.set_aside} of {self.windows + self.set_aside} windows set aside'
        return text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict, dict]:
        return ({'text/plain': str(self), 'text/html': self.html()}, {METADATA_KEY: self.data()})

    def _ipython_display_(self) -> None:
        """Shown when it was made; a cell that ends with it does not show it twice."""


def _show(c: Claim) -> Claim:
    """Display a result, and how a guess made before compares, in a notebook; print it elsewhere."""
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


# The four calls ----------------------------------------------------------------------------------

def compare(id: str, *, above: float | None = None, below: float | None = None,
            work: float | tuple[float, float] | None = None, needs: str | Iterable[str] = (),
            sync: Callable[[], Any] | None = None, clock: str = 'wall', **variants: Callable) -> Claim:
    """Compare the times of two variants, which are named by keyword, and display their ratio.

    ``compare('hyb-chain', eager=f, compiled=g, above=3)`` shows ``eager ÷ compiled = 6.0× (5.7–6.3)``
    and the time of a call of each. They run in turn, see :func:`tested_results.timing.ratio`.

    Args:
        id: letters, digits and dashes; unique in the book; the text links to it.
        above, below: a bound on the ratio to be tested; none is needed.
        work: where the variants return different things: how much each does (bytes, examples,
            products), a number for both or a pair. They return it, or arrays of so many elements.
        needs: names of conditions (:mod:`tested_results.conditions`).
        sync: called before each clock stops.
        clock: ``'wall'``, or ``'thread'`` for the processor time of this thread.
        variants: two functions without arguments; the first is divided by the second.

    Raises:
        ValueError: not two variants, a malformed id or bound, an unknown condition.
        timing.VariantError: a variant raised, or they do not return the same, or not their work.
    """
    if len(variants) != 2:
        raise ValueError(f'compare {id!r} takes two variants by name, such as eager=f, compiled=g, and '
                         f'got {len(variants)}: {", ".join(variants) or "none"} (above, below, work, needs, '
                         'sync and clock are options, and no names for variants)')
    for name, f in variants.items():
        if not callable(f):
            raise ValueError(f'compare {id!r}: {name} is {f!r}, and must be a function without arguments')
    how = {'sync': sync, 'clock': clock, 'work': work, 'names': tuple(variants)}
    return _result(id, 'ratio', tuple(variants.values()), '×', above, below, needs, how)


def in_turn(*, needs: str | Iterable[str] = (), work: float | tuple[float, ...] | None = None,
            agree: bool = True, sync: Callable[[], Any] | None = None, clock: str = 'wall',
            **programs: Callable) -> timing.Turns:
    """Time several programs in turn, for results that compare more than two.

    ``times = in_turn(eager=f, compiled=g, combined=h)`` measures them as :func:`compare` measures two, in
    random order and in watched windows. ``print(times)`` shows the time of each and its ratio to the first,
    and results are made of them: ``estimate('hyb-combined', times.ratio('compiled', 'combined'), '×')``.

    Args:
        needs: names of conditions. If one does not hold, nothing is measured, and each result that is
            made of the times says so.
        work: as for :func:`compare`, a number for all or a tuple with one for each.
        agree: require that all return the same numbers; where they should not and do not say how
            much they do, give False.
        sync, clock: as for :func:`compare`.
        programs: functions without arguments; two at least.

    Raises:
        ValueError: fewer than two programs, or one that is no function; an unknown condition.
        timing.VariantError: as for :func:`compare`.
    """
    for name, f in programs.items():
        if not callable(f):
            raise ValueError(f'in_turn: {name} is {f!r}, and must be a function without arguments')
    needed = conditions.named(needs)
    names = tuple(c.name for c in needed)
    budget = timing.seconds_of('TESTED_RESULTS_BUDGET', 6.0)
    if found := conditions.wait_for(needed, budget):
        return timing.Turns(tuple(programs), [], reason=found[1], needs=names)
    turns = timing.in_turn(programs, sync=sync, clock=clock, agree=agree, budget=budget, work=work,
                           watch=lambda: conditions.watch(needed))
    return replace(turns, needs=names)


def estimate(id: str, what: Callable[[], float] | Sequence[float] | timing.Estimate, unit: str = '', *,
             above: float | None = None, below: float | None = None, least: float | None = None,
             needs: str | Iterable[str] = ()) -> Claim:
    """Measure something again and again, and display the median with an interval.

    Args:
        id: as for :func:`compare`.
        what: called for each measurement; or a list of at least ten measurements, in their order; or
            what :func:`in_turn` found, such as ``times.ratio('a', 'b')``, with the conditions that were
            watched meanwhile.
        unit: of what it returns: ``'s'``, ``'GB/s'``, ``'×'``, ``'%'`` for a share between 0 and 1.
        above, below, needs: as for :func:`compare`.
        least: no such figure can be smaller, such as 1 for the factor by which a prediction is off.

    Raises:
        ValueError: fewer than ten measurements, a malformed id or bound, an unknown condition.
    """
    if isinstance(what, timing.Estimate):
        needs = dict.fromkeys([*what.needs, *([needs] if isinstance(needs, str) else needs)])
    elif not callable(what) and len(what) < LIST:
        raise ValueError(f'estimate {id!r} got {len(what)} measurements: an interval needs {LIST}')
    return _result(id, 'estimate', what, unit, above, below, needs, {}, least=least)


def count(id: str, number: float, unit: str = '', *, above: float | None = None,
          below: float | None = None, needs: str | Iterable[str] = ()) -> Claim:
    """Display a number that no clock gave: graphs, bytes, the difference between two results.

    Args:
        id: as for :func:`compare`.
        number: a whole number is the same on every machine, and a check compares it.
        unit: what is counted.
        above, below, needs: as for :func:`compare`.

    Raises:
        ValueError: the unit is one of time, so it needs an interval: see :func:`estimate`.
    """
    if CLOCKED.search(unit):
        raise ValueError(f'count {id!r}: one figure in {unit!r} has no interval; let estimate repeat it')
    return _result(id, 'count', number, unit, above, below, needs, {})


def verify(id: str, so: Any, *, needs: str | Iterable[str] = ()) -> Claim:
    """Display whether something is so.

    Args:
        id: as for :func:`compare`.
        so: True or False, or a function that returns it; it is called twice and must say the same.
        needs: as for :func:`compare`.
    """
    return _result(id, 'fact', so, '', None, None, needs, {})


# What they share ---------------------------------------------------------------------------------

def _check(id: str, about: tuple, above: float | None, below: float | None) -> None:
    """Raise ValueError for a malformed id, one that is taken, or a bound that is none."""
    if not re.fullmatch(r'[a-z0-9]+(-[a-z0-9]+)*', id):
        raise ValueError(f'an id is made of small letters, digits and dashes, not {id!r}')
    if _seen.setdefault(id, about) != about:
        raise ValueError(f'the id {id!r} is used twice, for {_seen[id]} and for {about}: give one of '
                         'them another id (after a change of the cell, restart the kernel)')
    if above is not None and below is not None:
        raise ValueError(f'{id!r} has two bounds, and takes one: above=… or below=…')
    for limit in (above, below):
        number = isinstance(limit, Real) and not isinstance(limit, bool)
        if limit is not None and not (number and 0 < limit < math.inf):
            raise ValueError(f'a bound must be a positive number, not {limit!r}')


def _result(id: str, kind: str, what: Any, unit: str, above: float | None, below: float | None,
            needs: str | Iterable[str], how: dict, least: float | None = None) -> Claim:
    """Measure, test, display and return a result of any kind."""
    _check(id, (kind, unit, *how.get('names', ())), above, below)
    needed = conditions.named(needs)
    # what ran in turn was watched then, but for what it needs only from now on
    watched = what.needs if isinstance(what, timing.Estimate) else ()
    unwatched = [c for c in needed if c.transient and c.name not in watched]
    if unwatched and not (kind == 'ratio' or callable(what)):
        raise ValueError(f'{id!r} needs something that passes, so it must be measured while that '
                         'holds: pass variants, or a callable that measures it')
    # seconds to wait for what it needs; tests wait longer
    began = time.perf_counter()
    wait = how.setdefault('budget', timing.seconds_of('TESTED_RESULTS_BUDGET', 6.0))
    base = {'id': id, 'kind': kind, 'unit': unit, 'above': above, 'below': below,
            'needs': tuple(c.name for c in needed), 'names': how.get('names', ()),
            'least': least, 'most': 1.0 if unit == '%' else None}

    def done(verdict: str, **more: Any) -> Claim:
        _since[0] = conditions.taken()
        return _show(Claim(**{**base, 'seconds': round(time.perf_counter() - began, 2), **more,
                              'verdict': verdict}))

    # A figure that has been measured stands, whatever the machine does now.
    measured = isinstance(what, timing.Estimate) and what.values > 0
    still = [c for c in needed if not (measured and c.transient and c.name in watched)]
    if found := conditions.wait_for(still, wait):
        c, reason = found
        return done('not testable here', reason=reason, lacked=c.name, transient=c.transient, seconds=0.0)
    if kind == 'fact':
        so = bool(what() if callable(what) else what)
        if callable(what) and bool(what()) != so:
            raise ValueError(f'what establishes the fact said {so}, and then {not so}: it is no fact. '
                             'Make it repeatable, or estimate a figure.')
        return done('holds' if so else 'fails')
    if kind == 'count':
        value = float(what)
        if math.isnan(value):
            raise ValueError(f'the count {id!r} is not a number')
        if above is not None:
            verdict = 'holds' if value > above else 'fails'
        elif below is not None:
            verdict = 'holds' if value < below else 'fails'
        else:
            verdict = MEASURED
        return done(verdict, value=value)
    return done(**_measured(kind, what, unit, needed, above, below, how))


def _measured(kind: str, what: Any, unit: str, needed: list[conditions.Condition], above: float | None,
              below: float | None, how: dict) -> dict:
    """The verdict on a ratio or an estimate, with its numbers, as fields of a result."""
    watched = {'above': above, 'below': below, 'watch': lambda: conditions.watch(needed)}
    # what comes as a list was measured before, after the last result
    repeated = kind == 'ratio' or callable(what)
    others = conditions.taken() if repeated else _since[0]
    began, own = time.perf_counter(), conditions.own_busy()
    parts: dict[str, float] = {}
    if kind == 'ratio':
        f = timing.ratio(*what, **how, **watched)
        parts = dict(zip(how['names'], (f.slow, f.fast), strict=True))
    elif callable(what):
        f = timing.repeat(what, **how, **watched)
    elif isinstance(what, timing.Estimate):
        f = what
    else:
        values = list(map(float, what))
        if not all(map(math.isfinite, values)):
            raise ValueError('one of the measurements is not a finite number')
        f = timing.Estimate(*timing.interval(values), len(values), windows=min(timing.WINDOWS, len(values)))
    took = others()
    disturbed = conditions.too_few_left(took, machine.cores())
    cores = (conditions.own_busy() - own) / (time.perf_counter() - began) if repeated else 0.0
    transient = [c.name for c in needed if c.transient]
    more = {'values': f.values, 'windows': f.windows, 'set_aside': f.set_aside, 'cores': round(cores, 2),
            'others': round(took, 2)}
    if unit == '%' and not (math.isnan(f.value) or 0 <= f.value <= timing.MARGIN):
        raise ValueError(f'a share lies between 0 and 1, and is shown in percent; this one is {f.value:g}')
    if not math.isfinite(f.low):
        return {**more, 'verdict': 'not testable here', 'lacked': transient[0] if transient else NOISE,
                'transient': True, 'reason': f'more than half of the time was disturbed: {f.reason}'}
    more |= {'value': f.value, 'low': f.low, 'high': f.high, 'parts': parts}
    if above is None and below is None:
        return {**more, 'verdict': MEASURED}
    side = timing.decided(f.low, f.high, above, below)
    if side > 0:
        return {**more, 'verdict': 'holds'}
    if side < 0:
        return {**more, 'verdict': 'fails'}
    bound = above if below is None else below
    if f.low <= bound <= f.high:
        reason = f'the interval is not clear of the bound after {f.values} measurements'
    else:
        share = f'{100 * (timing.MARGIN - 1):.0f}%'
        reason = f'the interval is clear of the bound, but not by the {share} that a decision takes'
    if disturbed:
        reason += f' ({disturbed})'
    return {**more, 'verdict': 'undecided', 'lacked': DISTURBED if disturbed else NOISE, 'transient': True,
            'reason': reason}
