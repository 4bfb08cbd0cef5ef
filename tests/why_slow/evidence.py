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
import json
import os
import re
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


class Paced:
    """A script in a process of its own: it runs a block of steps when asked to, and is ended after use."""

    def __init__(self, script: Path, block: int, log: Path):
        seconds, write = os.pipe()
        read, leave = os.pipe()
        command = [sys.executable, str(HERE / 'paced.py'), str(block), str(write), str(read), str(script)]
        with log.open('w') as output:
            self.process = subprocess.Popen(command, pass_fds=(write, read), stdout=output, stderr=output,
                                            cwd=script.parent)
        os.close(write)
        os.close(read)
        self.seconds = os.fdopen(seconds)
        self.leave = leave
        self.log = log

    def __enter__(self) -> 'Paced':
        return self

    def __exit__(self, *error) -> None:
        os.close(self.leave)
        self.process.kill()
        self.process.wait()
        self.seconds.close()

    def result(self) -> tuple[float, float]:
        """Seconds of the block that ends now, by the clock on the wall and of the processor."""
        line = self.seconds.readline()
        if not line:
            raise RuntimeError(f'the script ended:\n{self.log.read_text()[-2000:]}')
        wall, cpu = map(float, line.split())
        return wall, cpu

    def block(self) -> tuple[float, float]:
        os.write(self.leave, b'g')
        return self.result()


def real_gain(without: Path, fault: Path, clock: str, block: int = BLOCK, pairs: int = PAIRS) -> dict:
    """How many times as long a step with a fault takes as one without: median and range of the pairs.

    The processes take turns. The first block, with imports and data, is not used. ``clock`` is ``wall``, or
    ``cpu`` for scripts of one thread on a machine that others use.
    """
    number = {'wall': 0, 'cpu': 1}[clock]
    with (Paced(without, block, without.with_suffix('.log')) as a,
          Paced(fault, block, fault.with_suffix('.log')) as b):
        a.result()
        b.result()
        ratios = []
        seconds = []
        for pair in range(pairs):
            if pair % 2:
                slow = b.block()[number]
                fast = a.block()[number]
            else:
                fast = a.block()[number]
                slow = b.block()[number]
            ratios.append(slow / fast)
            seconds.append(fast / block)
    return {'gain': statistics.median(ratios), 'low': min(ratios), 'high': max(ratios),
            'clean_ms': 1e3 * statistics.median(seconds)}


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


def peer_says(script: Path, command: str) -> dict:
    """What ``traceml-ai`` prints at its end, as text: it has no findings in a file to compare."""
    words = [word.replace('{script}', str(script)) for word in command.split()]
    try:
        done = subprocess.run(words, cwd=script.parent, capture_output=True, text=True, timeout=300,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {'error': 'no end after 300 s'}
    return {'text': re.sub(r'\x1b\[[0-9;]*m', '', done.stdout + done.stderr)[-4000:]}


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
        result['peer'] = peer_says(faulty, args.peer)
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
    parser.add_argument('--peer', help='its command with {script} in it, as "/path/bin/traceml run {script}"')
    parser.add_argument('--table', action='store_true', help='print the stored rows and measure nothing')
    args = parser.parse_args()

    rows = json.loads(args.rows.read_text()) if args.rows.exists() else []
    if args.table:
        print(table(rows))
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
