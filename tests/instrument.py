"""How good an instrument ``tested_results.timing`` is: a benchmark, not a test.

    python -m tests.instrument [--trials 100] [--only abg] [--quiet]

Every figure of the book comes out of :func:`timing.ratio` and :func:`timing.measure`. Here they
measure what is known beforehand: busy loops whose times stand in a known ratio, quiet and beside
two busy processes; two variants that are the same; operations that other tools time as well; and,
on a clock of our own that runs as fast as it can, samples that depend on each other and machines
that change their speed. The sections with real work measure for a tenth of the book's span, but for
(g), which asks how often the book's own span is enough.
The quick part of it runs as tests in ``test_timing.py``.
"""

import argparse
import functools
import hashlib
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from local_cluster.neighbours import neighbours
from tested_results import machine, timing

CALL = 50e-6           # seconds of one call of the fast variant, about
LONG = 100             # so many times longer are the calls of section (e)
SPAN = timing.SPAN / 10
NEIGHBOURS = {'quiet': 0, 'beside 2': 2}       # busy processes beside what is measured
# ratio, bound (above), the right verdict, whether the bound leaves room for it
ROWS = ((1.0, 1.3, 'fails', True), (1.3, 1.0, 'holds', True), (1.1, 1.08, 'holds', False),
        (2.0, 1.5, 'holds', True), (10.0, 5.0, 'holds', True))
VERDICTS = {1: 'holds', -1: 'fails', 0: 'undecided'}


def busy(units: int) -> Callable[[], None]:
    """A function that does ``units`` equal pieces of work of one or two microseconds each.

    The piece is a hash of 2,000 bytes: it lives in registers. (Of an empty Python loop the time
    per turn depends by up to 5% on where its objects happen to lie in memory.)
    """
    data, repeat, sha256 = bytes(2000), itertools.repeat, hashlib.sha256

    def f() -> None:
        for _ in repeat(None, units):
            sha256(data)
    return f


def least(*functions: Callable[[], None], n: int = 500) -> list[float]:
    """The least CPU time of ``n`` calls of each function, taken in turn, in seconds."""
    best = [float('inf')] * len(functions)
    for _ in range(n):
        for i, f in enumerate(functions):
            start = time.thread_time()
            f()
            best[i] = min(best[i], time.thread_time() - start)
    return best


def units_per_call(seconds: float = CALL) -> int:
    """Pieces of work that take about ``seconds``; a multiple of ten, so that 1.1 is exact."""
    return max(10, 10 * round(seconds / (least(busy(100), n=300)[0] / 100) / 10))


@dataclass
class Row:
    """Trials of one known ratio under one condition."""

    truth: float
    above: float
    right: str
    results: list[timing.Ratio] = field(default_factory=list)
    seconds: float = 0.0

    def trial(self, units: int, clock: str = 'wall') -> 'Row':
        """Measure once more."""
        slow, fast = busy(round(units * self.truth)), busy(units)
        start = time.perf_counter()
        self.results.append(timing.ratio(slow, fast, above=self.above, clock=clock))
        self.seconds += time.perf_counter() - start
        return self

    def verdicts(self) -> dict[str, int]:
        """How often each verdict came out."""
        sides = [VERDICTS[timing.decided(r.low, r.high, self.above, None)] for r in self.results]
        return {v: sides.count(v) for v in VERDICTS.values()}

    def covered(self) -> int:
        """How often the interval held the truth."""
        return sum(r.low <= self.truth <= r.high for r in self.results)

    def width(self) -> float:
        """Median width of the interval, as a share of the truth."""
        return statistics.median((r.high - r.low) / self.truth for r in self.results)


def progress(text: str) -> None:
    """One line on stderr that the next one replaces."""
    print(f'\r{text:<78}', end='', file=sys.stderr, flush=True)


def table(head: str, rows: list[list]) -> None:
    """Print a Markdown table."""
    progress('')
    print('\r| ' + head + ' |')
    print('|---' * (head.count('|') + 1) + '|')
    for row in rows:
        print('| ' + ' | '.join(str(x) for x in row) + ' |')
    print(flush=True)


def conditions() -> Iterator[tuple[str, str, int]]:
    """Clock, name of the condition, busy neighbours."""
    for clock, (name, n) in itertools.product(('thread', 'wall'), NEIGHBOURS.items()):
        yield clock, name, n


def known_ratios(units: int, trials: int) -> bool:
    """Section (a): coverage and verdicts for known ratios."""
    lines, met = [], True
    for clock, condition, n in conditions():
        rows = [Row(*row[:3]) for row in ROWS]
        with neighbours(n):
            for i in range(trials):
                progress(f'(a) known ratios, {clock} clock, {condition}: {i}/{trials}')
                for row in rows:
                    row.trial(units, clock=clock)
        for row, (*_, room) in zip(rows, ROWS, strict=True):
            v = row.verdicts()
            wrong = trials - v[row.right] - v['undecided']
            good = row.covered() >= 0.95 * trials and wrong <= 0.05 * trials
            good = good and (v[row.right] >= 0.95 * trials or not room)
            met = met and good
            lines.append([clock, condition, f'{row.truth:g}', f'> {row.above:g} {row.right}',
                          'yes' if room else 'no', row.covered(), v[row.right], v['undecided'], wrong,
                          f'{row.width():.1%}', round(statistics.median(r.values for r in row.results)),
                          f'{row.seconds / trials:.2f}', 'yes' if good else '**no**'])
    table('clock | condition | truth | right verdict | room | covers | right | undecided | wrong | '
          'median width | pairs | s per trial | met', lines)
    return met


def false_positives(units: int, trials: int) -> bool:
    """Section (b): the same function twice is never called faster."""
    f, lines, met = busy(units), [], True
    for clock, condition, n in conditions():
        row = Row(1.0, 1.1, 'fails')
        with neighbours(n):
            for i in range(trials):
                progress(f'(b) identical variants, {clock} clock, {condition}: {i}/{trials}')
                row.results.append(timing.ratio(f, f, above=1.1, clock=clock))
        v = row.verdicts()
        met = met and not v['holds']
        lines.append([clock, condition, v['holds'], v['fails'], v['undecided'],
                      f'{max(r.low for r in row.results):.3f}'])
    table('clock | condition | called faster | not faster | undecided | highest lower end', lines)
    return met


# --- samples that depend on each other, on a clock of our own -------------------------------------

def correlated(rng: np.random.Generator, n: int, rho: float) -> np.ndarray:
    """Logarithms of ratios around 0: each depends on the one before with correlation ``rho``."""
    x = rng.normal(size=n)
    for i in range(1, n):
        x[i] = rho * x[i - 1] + math.sqrt(1 - rho ** 2) * x[i]
    return 0.1 * x


def two_speeds(rng: np.random.Generator, n: int, step: float, stay: float, share: float) -> np.ndarray:
    """Logarithms of ratios: 1.6 for ``share`` of the time, in stays of ``stay`` seconds, else 1."""
    high, at, out = rng.random() < share, 0, np.empty(n)
    while at < n:
        steps = 1 + int(rng.exponential(stay if high else stay * (1 - share) / share) / step)
        out[at:at + steps] = math.log(1.6) if high else 0.0
        at, high = at + steps, not high
    return out + 0.05 * rng.normal(size=n)


def disturbances(rng: np.random.Generator, n: int, step: float) -> np.ndarray:
    """Logarithms of ratios around 0, but for disturbances that last half a second to five seconds each.

    One begins eight seconds after the last one's end, on average, and multiplies or divides the ratio by
    1.1 to 1.6.
    """
    out = np.zeros(n)
    # what came before the first of these ratios may still go on
    at = -5.0
    while at < n * step:
        at += rng.exponential(8)
        lasts = 0.5 * 10 ** rng.random()
        factor = rng.uniform(1.1, 1.6) ** rng.choice([-1, 1])
        out[max(0, round(at / step)):max(0, round((at + lasts) / step))] = math.log(factor)
        at += lasts
    return out + 0.05 * rng.normal(size=n)


def simulate(values: Iterator[float], step: float, above: float | None = None,
             below: float | None = None, budget: float = 6.0,
             watch: Callable = timing._no_watch, early: float = timing.EARLY) -> timing.Estimate:
    """Let the measuring core take these values, one after each ``step`` seconds of a clock of ours.

    Args:
        early: when the first look comes, as a share of the windows; 0 for no such look.
    """
    now, real = [0.0], (timing.time, timing.EARLY)

    def take() -> float:
        now[0] += step
        return next(values)
    timing.time, timing.EARLY = SimpleNamespace(perf_counter=lambda: now[0]), early
    try:
        return timing._until_decided(take, lambda x: x, above, below, budget, watch)[1]
    finally:
        timing.time, timing.EARLY = real


# The two rules that are compared: that of timing.py, and the same without its first look.
RULES = {'with first look': timing.EARLY, 'without': 0.0}


@functools.cache
def middle(share: float) -> float:
    """The median of ratios that are 1.6 for a share of the time and else 1, and scatter by 5%."""
    rng = np.random.default_rng(0)
    slow = math.log(1.6) * (np.arange(300_000) < 300_000 * share)
    return float(np.median(np.exp(slow + 0.05 * rng.normal(size=300_000))))


def simulated(kind: str, parameter: float, step: float, trials: int,
              early: float = timing.EARLY) -> dict[str, float]:
    """What is found in such samples: shares of trials that held, that failed, whose interval covered the
    truth, and whose interval covered the value of a later run (of the whole time); the interval's median
    width as a share of the truth; and the mean of the seconds measured.

    Args:
        kind: ``'correlated'``: the bound is exactly the truth, both verdicts are wrong;
            ``'third'`` and ``'two thirds'``: two speeds, where "holds", or "fails", is wrong;
            ``'third at the bound'``: two speeds, and the bound is the truth;
            ``'disturbed'``: see :func:`disturbances`; the bound is the truth.
        parameter: the correlation of neighbours, or the mean stay at the higher ratio in seconds.
        step: seconds that a pair takes.
        early: see :func:`simulate`. The samples are the same for each.
    """
    rng, n = np.random.default_rng(0), math.ceil(2.2 * timing.SPAN / step) + 2 * timing.WINDOWS
    share = {'third': 1 / 3, 'third at the bound': 1 / 3, 'two thirds': 2 / 3}.get(kind)
    truth, above = 1.0, 1.0
    if kind == 'correlated':
        draw = functools.partial(correlated, rng, n, parameter)
    elif kind == 'disturbed':
        draw = functools.partial(disturbances, rng, n, step)
    else:
        draw = functools.partial(two_speeds, rng, n, step, parameter, share)
        truth = middle(share)
        above = truth if kind == 'third at the bound' else 1.2
    found, later = [], []
    for _ in range(trials):
        found.append(simulate(iter(np.exp(draw())), step, above, early=early))
        later.append(float(np.median(np.exp(draw()[:round(timing.SPAN / step)]))))
    sides = [timing.decided(f.low, f.high, above, None) for f in found]
    return {'holds': sides.count(1) / trials, 'fails': sides.count(-1) / trials,
            'covers': sum(f.low <= truth <= f.high for f in found) / trials,
            'later': sum(f.low <= x <= f.high for f, x in zip(found, later, strict=True)) / trials,
            'width': statistics.median((f.high - f.low) / truth for f in found),
            'seconds': statistics.mean(f.seconds for f in found)}


def dependent(trials: int) -> bool:
    """Section (f): wrong verdicts and coverage where samples depend on each other."""
    lines, met = [], True
    rows = [('correlated', rho, step) for rho in (0, 0.2, 0.5, 0.8) for step in (0.002, 0.02, 0.2)]
    rows += [('correlated', 0.8, 0.4)]
    kinds = ('third', 'third at the bound', 'two thirds')
    rows += [(kind, stay, 0.01) for kind in kinds for stay in (0.05, 0.2, 0.5, 1, 2, 5)]
    rows += [('disturbed', 0, 0.01)]
    for kind, parameter, step in rows:
        wrong = {'third': ['holds'], 'third at the bound': ['holds'],
                 'two thirds': ['fails']}.get(kind, ['holds', 'fails'])
        # what lasts for seconds, no run of a few seconds sees
        asked = kind != 'disturbed' and parameter < 2 and step < 0.4
        for rule, early in RULES.items():
            progress(f'(f) {kind} {parameter}, a pair in {step} s, {rule}')
            found = simulated(kind, parameter, step, trials, early)
            good = all(found[w] <= 0.02 for w in wrong) and found['covers'] >= 0.97
            met = met and (good or not asked)
            shares = [f'{100 * found[x]:.1f}%' for x in ('holds', 'fails', 'covers', 'later', 'width')]
            lines.append([kind, parameter, f'{step:g}', rule, ' and '.join(wrong), *shares,
                          f'{found["seconds"]:.1f}', 'yes' if good else '**no**' if asked else 'not asked'])
    table('samples | correlation, or mean stay in s | s per pair | rule | wrong would be | holds | fails | '
          'covers | covers a later run | width | s | met', lines)
    return met


# --- the rule, over the results that the book has -------------------------------------------------

RUN = 0.03             # so much the medians of two runs scatter besides, on a logarithmic scale
PARTS = 8              # of a window, at most, of which each takes one ratio in this simulation


def stored() -> list[dict]:
    """The results of the book that were measured in watched windows, as data."""
    found = []
    for file in sorted((Path(__file__).parent.parent / 'chapters').rglob('*.ipynb')):
        for cell in json.loads(file.read_text())['cells']:
            for output in cell.get('outputs', []):
                result = output.get('metadata', {}).get('d2l_claim')
                # a list that an experiment measured itself takes no time after that
                if result and result['windows'] and result['seconds'] >= timing.SPAN / 4:
                    found.append(result)
    return found


def noise(rng: np.random.Generator, kind: str, n: int, step: float, sd: float) -> np.ndarray:
    """Logarithms of ratios around 0 whose medians of windows scatter by about ``sd``."""
    white = sd * math.sqrt(PARTS) * rng.normal(size=n)
    if kind == 'independent':
        return white
    if kind == 'disturbed':
        return white + disturbances(rng, n, step)
    name, parameter = kind.rsplit(' ', 1)
    if name == 'correlated over':
        return 0.7 * white + 9 * sd * correlated(rng, n, math.exp(-step / float(parameter)))
    return white + two_speeds(rng, n, step, float(parameter), 1 / 3)


def over_the_book(trials: int) -> bool:
    """Section (h): seconds, verdicts and coverage over the stored results, by both rules.

    What is simulated has the value, the width of the interval and the bound of a stored result; its truth
    is the stored value.
    """
    lines, met, results = [], True, stored()
    step = timing.SPAN / timing.WINDOWS / PARTS
    n = math.ceil(2.2 * timing.SPAN / step) + 2 * timing.WINDOWS
    kinds = ['independent', 'correlated over 1', 'correlated over 3', 'disturbed', 'two speeds, stays of 0.5',
             'two speeds, stays of 1', 'two speeds, stays of 5']
    for kind in kinds:
        rng = np.random.default_rng(0)
        progress(f'(h) {len(results)} results of the book, {kind}')
        middle_of_noise = float(np.median(noise(rng, kind, 300_000, step, 0.02))) if 'two' in kind else 0.0
        sums = {rule: np.zeros(7) for rule in RULES}
        for result in results:
            # the range of ten normal values is 3.1 of their standard deviations, on average
            width = (result['high'] - result['low']) / result['value']
            sd = min(width, 1.0) / 3.1
            above, below, value = result['above'], result['below'], result['value']
            for _ in range(trials):
                truth = value * math.exp(RUN * rng.normal())
                later = value * math.exp(RUN * rng.normal())
                ratios = truth * np.exp(noise(rng, kind, n, step, sd) - middle_of_noise)
                another = later * np.exp(noise(rng, kind, n, step, sd) - middle_of_noise)
                later = float(np.median(another[:timing.WINDOWS * PARTS]))
                for rule, early in RULES.items():
                    f = simulate(iter(ratios), step, above, below, early=early)
                    side = timing.decided(f.low, f.high, above, below)
                    right = 0
                    if above is not None or below is not None:
                        right = 1 if (value > above if below is None else value < below) else -1
                    sums[rule] += [f.seconds, side == 1 and right == -1, side == -1 and right == 1,
                                   right != 0 and side == 0, f.low <= truth <= f.high,
                                   f.low <= later <= f.high, abs(f.value / truth - 1) > 0.1]
        for rule, total in sums.items():
            seconds, *shares = total / len(results) / trials
            lines.append([kind, rule, f'{seconds:.2f}', f'{seconds * len(results):.0f}',
                          *(f'{100 * share:.2f}%' for share in shares)])
        both = [total / len(results) / trials for total in sums.values()]
        met = met and both[0][1] <= both[1][1] and both[0][2] <= both[1][2]
    table('noise | rule | s per result | s in all | held wrongly | failed wrongly | undecided | '
          "covers this run's median | covers a later run's value | value off by > 10%", lines)
    return met


def power(units: int, trials: int) -> bool:
    """Section (g): a true ratio of 1.3 times the bound, by the book's own span."""
    lines, met = [], True
    for clock, condition, n in conditions():
        row = Row(1.3, 1.0, 'holds')
        with neighbours(n):
            for i in range(trials):
                progress(f'(g) power, {clock} clock, {condition}: {i}/{trials}')
                row.trial(units, clock=clock)
        v = row.verdicts()
        good = v['holds'] >= 0.95 * trials or n > 0
        met = met and good and not v['fails']
        lines.append([clock, condition, trials, v['holds'], v['undecided'], v['fails'], row.covered(),
                      f'{row.width():.1%}', f'{row.seconds / trials:.1f}', 'yes' if good else '**no**'])
    table('clock | condition | trials | holds | undecided | fails | covers | median width | '
          's per trial | met', lines)
    return met


def long_calls(units: int, trials: int) -> None:
    """Section (e): calls that no sample can keep shorter than a slice of the scheduler's time."""
    lines = []
    for condition, n in NEIGHBOURS.items():
        row = Row(2.0, 1.5, 'holds')
        with neighbours(n):
            for i in range(trials):
                progress(f'(e) long calls, wall clock, {condition}: {i}/{trials}')
                row.trial(LONG * units)
        v = row.verdicts()
        lines.append([condition, trials, row.covered(), v['holds'], v['undecided'], v['fails'],
                      f'{row.width():.1%}', f'{row.seconds / trials:.1f}'])
    table('condition | trials | covers | right | undecided | wrong | median width | s per trial', lines)


OPERATIONS = {
    'numpy add, 1e5': ('import numpy as np; a = np.ones(100_000); b = np.ones(100_000)', 'np.add(a, b)'),
    'torch matmul, 128': ('import torch; torch.set_num_threads(1); a = torch.ones(128, 128); '
                          'b = torch.ones(128, 128)', 'torch.mm(a, b)'),
    'sorted, 1000': ('import random; a = random.Random(0).sample(range(1000), 1000)', 'sorted(a)'),
}


def pyperf_median(setup: str, statement: str) -> float:
    """Seconds per run of ``statement`` according to pyperf, which starts processes of its own."""
    import pyperf
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, 'out.json'))
        subprocess.run([sys.executable, '-m', 'pyperf', 'timeit', '-q', '-p', '3', '-o', file,
                        '-s', setup, statement], check=True, capture_output=True)
        return pyperf.Benchmark.load(file).median()


def agreement(rounds: int) -> bool:
    """Section (c): the same operation timed by other tools, in turn."""
    from torch.utils.benchmark import Timer
    lines, met = [], True
    for name, (setup, statement) in OPERATIONS.items():
        space: dict = {}
        exec(setup, space)
        f = eval(f'lambda: {statement}', space)
        other = Timer(statement, globals=space)
        ours, torchs, pyperfs = [], [], []
        for i in range(rounds):
            progress(f'(c) other tools, {name}: {i}/{rounds}')
            ours.append(timing.measure(f, budget=0.2).value)
            torchs.append(other.blocked_autorange(min_run_time=0.2).median)
            if i % 3 == 0:
                pyperfs.append(pyperf_median(setup, statement) / ours[-1])
        ratio = statistics.median(a / b for a, b in zip(ours, torchs, strict=True))
        good = abs(ratio - 1) <= 0.1
        met = met and good
        lines.append([name, timing.show_seconds(statistics.median(ours)),
                      timing.show_seconds(statistics.median(torchs)), f'{ratio:.3f}',
                      f'{1 / statistics.median(pyperfs):.3f}', 'yes' if good else '**no**'])
    table('operation | measure | torch Timer | ÷ torch | ÷ pyperf | within 10% of torch', lines)
    return met


def overhead() -> None:
    """Section (d): what the instrument itself costs."""
    def empty() -> None:
        pass

    lines = []
    f = busy(units_per_call())
    for clock, now in timing.CLOCKS.items():
        call = timing.measure(empty, clock=clock)
        sample = timing.measure(lambda now=now: timing.one_round([empty, empty], [1, 1], None, now))
        start = time.perf_counter()
        for _ in range(10):
            timing.ratio(f, f, clock=clock, budget=1e-9)
        fixed = (time.perf_counter() - start) / 10
        lines.append([clock, f'{call.value * 1e9:.0f} ns',
                      f'{(sample.value / 2 - call.value) * 1e6:.2f} µs', f'{fixed * 1e3:.0f} ms'])
    table('clock | an empty call | a sample besides its calls | a ratio of ten pairs', lines)


def main() -> None:
    """Print the tables; exit with 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--trials', type=int, default=100)
    parser.add_argument('--only', default='abcdefgh', help='sections to run, of abcdefgh')
    parser.add_argument('--quiet', action='store_true', help='nothing beside busy processes')
    args = parser.parse_args()
    if args.quiet:
        NEIGHBOURS.pop('beside 2')
    # so that a kill ends the neighbours too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('terminated'))
    began, load = time.perf_counter(), os.getloadavg()[0]
    units = units_per_call()
    call = least(busy(units))[0]
    empty = timing.measure(busy(0), clock='thread').value
    none, *found = least(*(busy(round(units * r)) for r in (0, 1, 1, 1.1, 2, 10)))
    print(f'{machine.describe()}; load {load:.1f} at the start\n')
    print(json.dumps({'trials': args.trials, 'span in s': SPAN}))
    print(f'Fast variant: {units} pieces of work, {timing.show_seconds(call)} a call. The truth is the '
          f'ratio of the pieces;\na call costs {timing.show_seconds(empty)} besides, which lowers the '
          f'true ratio by {empty / call:.2%} at most.')
    check = ', '.join(f'{(t - none) / (found[0] - none):.3f}' for t in found[1:])
    print(f'Check by the least CPU time of 500 calls, less that of none: {check} for 1, 1.1, 2, 10.\n')
    met = {}
    timing.SPAN = SPAN
    if 'a' in args.only:
        met['a'] = known_ratios(units, args.trials)
    if 'b' in args.only:
        met['b'] = false_positives(units, args.trials)
    if 'c' in args.only:
        met['c'] = agreement(7)
    if 'd' in args.only:
        overhead()
    if 'e' in args.only:
        long_calls(units, max(1, args.trials // 20))
    timing.SPAN = 10 * SPAN
    if 'f' in args.only:
        met['f'] = dependent(10 * args.trials)
    if 'g' in args.only:
        met['g'] = power(units, max(1, args.trials // 5))
    if 'h' in args.only:
        met['h'] = over_the_book(max(1, args.trials // 20))
    print(f'met: {met}; {time.perf_counter() - began:.0f} s; load {os.getloadavg()[0]:.1f} at the end')
    sys.exit(not all(met.values()))


if __name__ == '__main__':
    main()
