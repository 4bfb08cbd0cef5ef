"""How good an instrument ``d2l_local.timing`` is: a benchmark, not a test.

    python tests/instrument.py [--trials 100]

Every figure of the book comes out of :func:`timing.ratio` and :func:`timing.measure`. Here they
measure what is known beforehand: busy loops whose times stand in a known ratio, quiet and beside
two busy processes; two variants that are the same; operations that other tools time as well.
The quick part of it runs as tests in ``test_timing.py``.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
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

from d2l_local import machine, timing

CALL = 50e-6           # seconds of one call of the fast variant, about
LONG = 100             # so many times longer are the calls of section (e)
BUDGET = {'quiet': 0.4, 'beside 2': 0.8}       # seconds for one trial; the book gives a claim 6
# ratio, bound (above), the right verdict, whether the bound leaves room for it
ROWS = ((1.0, 1.1, 'fails', True), (1.1, 1.0, 'holds', True), (1.1, 1.08, 'holds', False),
        (2.0, 1.5, 'holds', True), (10.0, 5.0, 'holds', True))
VERDICTS = {1: 'holds', -1: 'fails', 0: 'undecided'}
SPIN = 'import os\np = os.getppid()\nwhile os.getppid() == p:\n    for _ in range(10**6): pass'


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


@contextlib.contextmanager
def neighbours(n: int) -> Iterator[list[subprocess.Popen]]:
    """``n`` processes that do nothing but compute, ended with the block (or with this process)."""
    group: list[subprocess.Popen] = []
    try:
        for _ in range(n):
            group.append(subprocess.Popen([sys.executable, '-S', '-c', SPIN]))
        time.sleep(0.3 * bool(n))
        yield group
    finally:
        for p in group:
            p.kill()
        for p in group:
            p.wait()


@dataclass
class Row:
    """Trials of one known ratio under one condition."""

    truth: float
    above: float
    right: str
    results: list[timing.Ratio] = field(default_factory=list)
    seconds: float = 0.0

    def trial(self, units: int, **how) -> 'Row':
        """Measure once more."""
        slow, fast = busy(round(units * self.truth)), busy(units)
        start = time.perf_counter()
        self.results.append(timing.ratio(slow, fast, above=self.above, **how))
        self.seconds += time.perf_counter() - start
        return self

    def verdicts(self) -> dict[str, int]:
        """How often each verdict came out."""
        sides = [VERDICTS[timing.bound_side(r.low, r.high, self.above, None)] for r in self.results]
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


def conditions() -> Iterator[tuple[str, str, int, float]]:
    """Clock, name of the condition, busy neighbours, seconds for one trial."""
    for clock, (name, budget) in itertools.product(('thread', 'wall'), BUDGET.items()):
        yield clock, name, 0 if name == 'quiet' else 2, budget


def known_ratios(units: int, trials: int, how: dict) -> bool:
    """Section (a): coverage and verdicts for known ratios."""
    lines, met = [], True
    for clock, condition, n, budget in conditions():
        rows = [Row(*row[:3]) for row in ROWS]
        with neighbours(n):
            for i in range(trials):
                progress(f'(a) known ratios, {clock} clock, {condition}: {i}/{trials}')
                for row in rows:
                    row.trial(units, clock=clock, budget=budget, **how)
        for row, (*_, room) in zip(rows, ROWS, strict=True):
            v = row.verdicts()
            wrong = trials - v[row.right] - v['undecided']
            good = row.covered() >= 0.95 * trials and wrong <= 0.05 * trials
            good = good and (v[row.right] >= 0.95 * trials or not room)
            met = met and good
            lines.append([clock, condition, f'{row.truth:g}', f'> {row.above:g} {row.right}',
                          'yes' if room else 'no', row.covered(), v[row.right], v['undecided'], wrong,
                          f'{row.width():.1%}', round(statistics.median(r.pairs for r in row.results)),
                          f'{row.seconds / trials:.2f}', 'yes' if good else '**no**'])
    table('clock | condition | truth | right verdict | room | covers | right | undecided | wrong | '
          'median width | pairs | s per trial | met', lines)
    return met


def false_positives(units: int, trials: int, how: dict) -> bool:
    """Section (b): the same function twice is never called faster."""
    f, lines, met = busy(units), [], True
    for clock, condition, n, budget in conditions():
        row = Row(1.0, 1.1, 'fails')
        with neighbours(n):
            for i in range(trials):
                progress(f'(b) identical variants, {clock} clock, {condition}: {i}/{trials}')
                row.results.append(timing.ratio(f, f, above=1.1, clock=clock, budget=budget / 2, **how))
        v = row.verdicts()
        met = met and not v['holds']
        lines.append([clock, condition, v['holds'], v['fails'], v['undecided'],
                      f'{max(r.low for r in row.results):.3f}'])
    table('clock | condition | called faster | not faster | undecided | highest lower end', lines)
    return met


def long_calls(units: int, trials: int, how: dict) -> None:
    """Section (e): calls that no sample can keep shorter than a slice of the scheduler's time."""
    lines = []
    for _, condition, n, _ in list(conditions())[2:]:
        row = Row(2.0, 1.5, 'holds')
        with neighbours(n):
            for i in range(trials):
                progress(f'(e) long calls, wall clock, {condition}: {i}/{trials}')
                row.trial(LONG * units, **how)
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
        sample = timing.measure(lambda now=now: timing._round([empty, empty], [1, 1], None, now))
        start = time.perf_counter()
        for _ in range(10):
            timing.ratio(f, f, clock=clock, budget=1e-9)
        fixed = (time.perf_counter() - start) / 10
        lines.append([clock, f'{call.value * 1e9:.0f} ns',
                      f'{(sample.value / 2 - call.value) * 1e6:.2f} µs', f'{fixed * 1e3:.0f} ms'])
    table('clock | an empty call | a sample besides its calls | before the second pair', lines)


def main() -> None:
    """Print the tables; exit with 1 if a requirement is not met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--trials', type=int, default=100)
    parser.add_argument('--sample', type=float, help="seconds of one sample (default: timing's)")
    parser.add_argument('--only', default='abcde', help='sections to run, of abcde')
    args = parser.parse_args()
    how = {'sample': args.sample} if args.sample else {}
    # so that a kill ends the neighbours too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit('terminated'))
    began, load = time.perf_counter(), os.getloadavg()[0]
    units = units_per_call()
    call = least(busy(units))[0]
    empty = timing.measure(busy(0), clock='thread').value
    none, *found = least(*(busy(round(units * r)) for r in (0, 1, 1, 1.1, 2, 10)))
    print(f'{machine.describe()}; load {load:.1f} at the start\n')
    print(json.dumps({'trials': args.trials, 'budget in s': BUDGET, 'level': timing.LEVEL, **how}))
    print(f'Fast variant: {units} pieces of work, {timing.show_seconds(call)} a call. The truth is the '
          f'ratio of the pieces;\na call costs {timing.show_seconds(empty)} besides, which lowers the '
          f'true ratio by {empty / call:.2%} at most.')
    check = ', '.join(f'{(t - none) / (found[0] - none):.3f}' for t in found[1:])
    print(f'Check by the least CPU time of 500 calls, less that of none: {check} for 1, 1.1, 2, 10.\n')
    met = {}
    if 'a' in args.only:
        met['a'] = known_ratios(units, args.trials, how)
    if 'b' in args.only:
        met['b'] = false_positives(units, args.trials, how)
    if 'c' in args.only:
        met['c'] = agreement(7)
    if 'd' in args.only:
        overhead()
    if 'e' in args.only:
        long_calls(units, max(1, args.trials // 20), how)
    print(f'met: {met}; {time.perf_counter() - began:.0f} s; load {os.getloadavg()[0]:.1f} at the end')
    sys.exit(not all(met.values()))


if __name__ == '__main__':
    main()
