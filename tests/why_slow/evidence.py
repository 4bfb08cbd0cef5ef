"""How well ``why_slow`` diagnoses scripts whose faults are known: a table of what it found.

``python -m tests.why_slow.evidence`` runs it on each script of ``suite/``, clean and with each fault planted.

* It asks whether the planted fault is among the first three findings, and what a clean script is accused of.
* It measures what really removing the fault gains: the script with and without it take turns, a block of
  steps each, and the result is the median of the ratios of neighbouring blocks.
* It puts the gain that the tool has tested or predicted beside it.

All rows go to a JSON file as they are measured, and a second run goes on where the first ended. A whole run
takes over an hour. ``--peer`` runs ``traceml-ai`` on the same scripts, by its command in an environment that
has it.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.why_slow.suite import faults

HERE = Path(__file__).parent
CLEAN = 'clean'
FIRST = 3       # a fault counts as found if it is among so many findings
CLOSE = 0.15    # a tested gain is right within this share of the real one
BLOCK = 8       # steps of a block of the real gain
PAIRS = 7       # blocks of each version
SHORT = HERE / 'short.py'
COST_PROCESSES = 7      # for what watching costs
COST_BLOCK = 256        # steps of the short script
COST_PAIRS = 11         # blocks of each
PEER_BLOCKS = 12        # blocks that the peer sees before its summary


class Paced:
    """A script in a process of its own: it runs a block of steps when asked to, and is ended after use."""

    def __init__(self, script: Path, block: int, folder: Path, how: str = 'alone', command: str = ''):
        """``command`` starts ``{script}`` with the arguments ``{args}``; without one, this Python does."""
        path = folder / 'socket'
        self.log = folder / 'log'
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(1)
        words = (command or f'{sys.executable} {{script}} {{args}}').split()
        begin = words.index('{script}')
        words[begin] = str(HERE / 'paced.py')
        at = words.index('{args}')
        words[at:at + 1] = [how, str(block), str(path), str(script)]
        with self.log.open('w') as output:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            cwd=folder, start_new_session=True)
        self.connection = None
        while self.connection is None and self.process.poll() is None:
            try:
                self.connection, _ = listener.accept()
            except TimeoutError:
                pass
        listener.close()
        self.lines = self.connection and self.connection.makefile('r')

    def __enter__(self) -> 'Paced':
        return self

    def __exit__(self, *error) -> None:
        if self.connection is not None:
            self.lines.close()
            self.connection.close()
        self.process.terminate()        # a launcher ends what it has started in sessions of their own
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def result(self) -> tuple[float, float]:
        """Seconds of the block that ends now, by the clock on the wall and of the processor."""
        line = self.lines.readline() if self.lines else ''
        if not line:
            raise RuntimeError(f'the script ended:\n{self.log.read_text()[-2000:]}')
        wall, cpu = map(float, line.split())
        return wall, cpu

    def block(self) -> tuple[float, float]:
        self.connection.sendall(b'g')
        return self.result()


def in_turns(first: Paced, second: Paced, clock: str, pairs: int) -> tuple[list[float], list[float]]:
    """Seconds of neighbouring blocks of both. The first block of each, with imports and data, is not used."""
    number = {'wall': 0, 'cpu': 1}[clock]
    first.result()
    second.result()
    one, two = [], []
    for pair in range(pairs):
        turns = [(first, one), (second, two)]
        for paced, seconds in reversed(turns) if pair % 2 else turns:
            seconds.append(paced.block()[number])
    return one, two


def real_gain(without: Path, fault: Path, clock: str, block: int = BLOCK, pairs: int = PAIRS) -> dict:
    """How many times as long a step with a fault takes as one without: median and range of the pairs.

    The processes take turns. ``clock`` is ``wall``, or ``cpu`` for scripts of one thread on a machine that
    others use.
    """
    with Paced(without, block, without.parent) as a, Paced(fault, block, fault.parent) as b:
        fast, slow = in_turns(a, b, clock, pairs)
    ratios = [y / x for x, y in zip(fast, slow, strict=True)]
    return {'gain': statistics.median(ratios), 'low': min(ratios), 'high': max(ratios),
            'clean_ms': 1e3 * statistics.median(fast) / block}


def cost(how: str, command: str, folder: Path, clock: str) -> dict:
    """Microseconds that watching adds to a step of the short script: the median of so many processes, and
    the least and the most of them."""
    added, alone = [], []
    for number in range(COST_PROCESSES):
        folders = [folder / f'{how}-{number}-alone', folder / f'{how}-{number}']
        for one in folders:
            one.mkdir()
        with (Paced(SHORT, COST_BLOCK, folders[0]) as a,
              Paced(SHORT, COST_BLOCK, folders[1], how, command) as b):
            plain, watched = in_turns(a, b, clock, COST_PAIRS)
        differences = [y - x for x, y in zip(plain, watched, strict=True)]
        added.append(1e6 * statistics.median(differences) / COST_BLOCK)
        alone.append(1e6 * statistics.median(plain) / COST_BLOCK)
    return {'microseconds': statistics.median(added), 'least': min(added), 'most': max(added),
            'alone': statistics.median(alone)}


def diagnosed(script: Path, python: str, seconds: float) -> dict:
    """The report of ``why_slow`` on a script, as it writes it; ``{'error': …}`` if there is none."""
    report = script.with_suffix('.report.json')
    command = [python, '-m', 'why_slow', '--json', str(report), '--seconds', str(seconds), str(script)]
    began = time.monotonic()
    try:
        done = subprocess.run(command, cwd=script.parent, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=10 * seconds)
    except subprocess.TimeoutExpired:
        return {'error': f'no report after {10 * seconds:.0f} s', 'took': time.monotonic() - began}
    if not report.exists():
        return {'error': (done.stderr or done.stdout)[-600:], 'took': time.monotonic() - began}
    return {**json.loads(report.read_text()), 'took': time.monotonic() - began}


def peer_says(script: Path, command: str, folder: Path) -> dict:
    """The summary of ``traceml-ai`` of a script whose steps have been marked for it."""
    folder.mkdir()
    with Paced(script, BLOCK, folder, 'traceml', command) as paced:
        paced.result()
        for _ in range(PEER_BLOCKS):
            paced.block()
        paced.connection.sendall(b'.')
        try:
            paced.process.wait(120)
        except subprocess.TimeoutExpired:
            return {'error': 'no end after 120 s'}
    summaries = list(folder.glob('logs/*/final_summary.txt'))
    if not summaries:
        return {'error': paced.log.read_text()[-2000:]}
    return {'text': summaries[0].read_text()}


def tested(report: dict, ids: tuple[str, ...]) -> dict | None:
    """The what-if with the largest gain that answers one of these findings; tested ones come first."""
    what_ifs = report.get('what_ifs', [])
    answers = [what for what in what_ifs if what.get('finding') in ids and what.get('ratio')]
    if not answers:
        return None
    best = max(answers, key=lambda what: (not what.get('predicted'), what['ratio']))
    return {name: best.get(name) for name in ('id', 'ratio', 'low', 'high', 'verdict', 'predicted')}


def row(script: str, fault: str, args: argparse.Namespace, folder: Path) -> dict:
    """One line of the table: what is known of a script with a fault, or of the clean script."""
    result = {'script': script, 'fault': fault}
    name = f'{script}.py'
    without = folder / 'without' / name
    faulty = folder / 'fault' / name
    for path in (without, faulty):
        path.parent.mkdir(exist_ok=True)
    if fault == CLEAN:
        faulty.write_text((faults.SUITE / name).read_text())
    else:
        planted = faults.FAULTS[script][fault]
        clean_text, faulty_text = faults.versions(script, fault)
        without.write_text(clean_text)
        faulty.write_text(faulty_text)
        result['finding'] = planted.finding
        if not args.no_gain:
            real = real_gain(without, faulty, args.clock)
            for key in ('gain', 'low', 'high'):
                real[key] *= planted.work
            result['real'] = real
    if not args.no_tool:
        report = diagnosed(faulty, args.python, args.seconds)
        result['took'] = report['took']
        if 'error' in report:
            result['error'] = report['error']
        result['step'] = report.get('step')
        found = report.get('findings', [])
        keys = ('id', 'at_most', 'line', 'evidence')
        result['findings'] = [{key: one.get(key) for key in keys} for one in found]
        result['what_ifs'] = report.get('what_ifs', [])
        if fault != CLEAN:
            ids = (planted.finding, *planted.also)
            ranks = [rank for rank, one in enumerate(found, 1) if one['id'] in ids]
            result['rank'] = min(ranks, default=None)
            result['tested'] = tested(report, ids)
    if args.peer:
        result['peer'] = peer_says(faulty, args.peer, folder / 'peer')
    return result


def number(value: float | None) -> str:
    return '–' if value is None else f'{value:.2f}×'


def table(rows: list[dict]) -> str:
    """The rows as Markdown, and below them how often the goals were met."""
    lines = ['| script | fault | finding | rank | really removed | tested | within 15% |',
             '|---|---|---|---:|---:|---:|---|']
    planted = [one for one in rows if one['fault'] != CLEAN]
    clean = [one for one in rows if one['fault'] == CLEAN]
    close = []
    for one in planted:
        real = one.get('real', {}).get('gain')
        what = one.get('tested') or {}
        ratio = what.get('ratio')
        near = ''
        if real and ratio:
            is_close = abs(ratio / real - 1) <= CLOSE
            close.append(is_close)
            near = 'yes' if is_close else 'no'
        shown = number(ratio) + (' (predicted)' if what.get('predicted') else '')
        rank = one.get('rank') or 'not found'
        cells = [one['script'], one['fault'], one['finding'], str(rank), number(real), shown, near]
        lines.append('| ' + ' | '.join(cells) + ' |')
    lines += ['', '| clean script | ms a step | accused of |', '|---|---:|---|']
    for one in clean:
        found = [finding['id'] for finding in one.get('findings', [])]
        accused = ', '.join(found) or one.get('error') or 'nothing'
        seconds = (one.get('step') or {}).get('seconds')
        shown = f'{1e3 * seconds:.1f}' if seconds else '–'
        lines.append(f'| {one["script"]} | {shown} | {accused} |')
    found = sum((one.get('rank') or FIRST + 1) <= FIRST for one in planted)
    accusations = sum(len(one.get('findings', [])) for one in clean)
    lines += ['', f'Found among the first {FIRST}: {found} of {len(planted)}. '
              f'Accusations on clean scripts: {accusations} on {len(clean)}. '
              f'Tested within {CLOSE:.0%} of the real gain: {sum(close)} of {len(close)}.']
    return '\n'.join(lines)


def save(rows: list[dict], path: Path) -> None:
    """Write the file whole or not at all."""
    beside = path.with_suffix('.part')
    beside.write_text(json.dumps(rows, indent=1))
    beside.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--script', action='append', choices=faults.FAULTS,
                        help='only this one; can be repeated')
    parser.add_argument('--fault', help='only faults whose name contains this; "clean" for the clean script')
    parser.add_argument('--rows', type=Path, default=Path('_build/why_slow_evidence.json'),
                        help='where the rows go')
    parser.add_argument('--again', action='store_true', help='measure rows that are already there once more')
    parser.add_argument('--clock', choices=('wall', 'cpu'), default='wall',
                        help='for the real gain; cpu where other programs run, with OMP_NUM_THREADS=1')
    parser.add_argument('--seconds', type=float, default=60, help='how long the tool may watch a script')
    parser.add_argument('--no-gain', action='store_true', help='do not measure what removing a fault gains')
    parser.add_argument('--no-tool', action='store_true', help='do not diagnose')
    parser.add_argument('--python', default=sys.executable, help='the Python that has why_slow')
    parser.add_argument('--cost', action='store_true',
                        help='measure what watching a short step costs, and nothing else')
    parser.add_argument('--peer', help='its command, as "/path/bin/traceml run {script} --args {args}"')
    parser.add_argument('--table', action='store_true', help='print the stored rows and measure nothing')
    args = parser.parse_args()

    rows = json.loads(args.rows.read_text()) if args.rows.exists() else []
    if args.table:
        print(table(rows))
        return
    if args.cost:
        for how, command in (('why_slow', ''), ('traceml', args.peer)):
            if command is not None:
                with tempfile.TemporaryDirectory(prefix='why-slow-') as folder:
                    print(how, cost(how, command, Path(folder), args.clock))
        return
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    for script in args.script or faults.FAULTS:
        for fault in (CLEAN, *faults.FAULTS[script]):
            if args.fault and args.fault not in fault:
                continue
            there = [one for one in rows if (one['script'], one['fault']) == (script, fault)]
            if there and not args.again:
                continue
            print(f'{script}: {fault} …', file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix='why-slow-') as folder:
                try:
                    new = row(script, fault, args, Path(folder))
                except RuntimeError as error:
                    print(f'   {error}', file=sys.stderr, flush=True)
                    continue
            rows = [one for one in rows if one not in there] + [new]
            save(rows, args.rows)
    print(table(rows))


if __name__ == '__main__':
    main()
