"""Build the book: first all pages, with stored outputs; then measure here, one topic after another.

    python -m tools.book [TOPIC …] [--stored]

A topic's pages are replaced as soon as its notebooks have run. What ran is kept, and runs again
only if its code, the helpers, the settings or the machine changed.
"""

import argparse
import contextlib
import hashlib
import itertools
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path

import filelock
import nbformat

from tested_results import execution, ledgers
from tested_results.claims import MEASURED, Claim
from tools import pages, runs, source
from tools.pages import BUILD
from tools.source import FRAMEWORKS, ROOT


def left(began: float, done: int, all: int) -> str:
    """How much longer it will take, judged by what is done."""
    minutes = (time.perf_counter() - began) / max(1, done) * (all - done) / 60
    return f', about {minutes:.0f} min left' if done and minutes >= 1 else ''


def topic(path: Path) -> str:
    """The topic of a notebook: its folder."""
    return path.parent.name


def without(found: Iterable[Claim]) -> list[str]:
    """The lines on a run's results that fail, and on those without a verdict: what was measured, or why.

    Failures come first. Results whose reasons are the same, but for numbers in them, share a line.
    """
    lines: list[str] = []
    groups: dict[tuple[str, str], list[Claim]] = {}
    for c in found:
        if c.verdict == 'fails':
            lines.append(f'fails: {c.id}: {c.reading or "not so"}; tested: {c.bound}')
        elif c.verdict not in ('holds', MEASURED):
            reason = re.sub(r'(?<![\w.])\d[\d.,]*(?!\w)', '…', c.reason)
            groups.setdefault((c.verdict, reason), []).append(c)
    for (verdict, reason), group in groups.items():
        if len(group) == 1:
            lines.append(f'{verdict}: {group[0].id}: {group[0].reason}')
            continue
        same = len({c.reason for c in group}) == 1
        lines.append(f'{len(group)} {verdict}: {group[0].reason if same else reason}')
        lines += textwrap.wrap(', '.join(c.id for c in group), 100, initial_indent='    ',
                               subsequent_indent='    ', break_on_hyphens=False)
    return lines


def build(paths: list[Path], topics: list[str], stored: bool, html: Path) -> tuple[str, list[str]]:
    """Make the pages, measure what is not measured yet, and make the pages of each topic anew.

    Returns:
        The ledger's line, and lines on what was measured here and does not hold.
    """
    sphinx_source = BUILD / ('src-stored' if stored else 'src')
    shown = {}
    old = set()           # what was not run here
    for path in paths:
        if stored:
            nb, here = nbformat.read(path, as_version=4), False
        else:
            nb, here = runs.latest(path)
        shown[path] = nb
        if not here:
            old.add(path)
    todo = [] if stored else [path for path in paths if path in old and to_measure(path, topics)]
    began = time.perf_counter()
    print(f'making the pages: {len(paths) - len(old)} of {len(paths)} notebooks measured here, '
          f'{len(old)} with stored outputs', flush=True)
    summary = pages.make(shown, old, sphinx_source, html)
    print(f'{html / "index.html"}  {time.perf_counter() - began:.0f} s', flush=True)
    if todo:
        print(f'Read on: {len(todo)} notebooks are measured now, and the pages of each topic are '
              'replaced when it is done.\nCtrl-C keeps what was measured; make book goes on from there.',
              flush=True)
    began = time.perf_counter()
    failures = {}
    for i, path in enumerate(todo):
        try:
            shown[path] = runs.keep(path, f'[{i + 1}/{len(todo)}{left(began, i, len(todo))}] ')
            old.remove(path)
        except execution.CellFailed as e:
            failures[path] = str(e)
        last_of_its_topic = i + 1 == len(todo) or topic(todo[i + 1]) != topic(path)
        if last_of_its_topic:
            summary = pages.make(shown, old, sphinx_source, html)
            print(f'{html / topic_index(path)}  {became(path, todo, failures)}', flush=True)
    new = [path for path in paths if path not in old]
    lines = without(itertools.chain.from_iterable(ledgers.claims_of(shown[path]) for path in new))
    if failures:
        print('\n'.join(lines))
        sys.exit('\n\n'.join(failures.values()) + '\n\nThe pages of these notebooks show stored '
                 'outputs: mend the cells above.')
    return summary, lines


def to_measure(path: Path, topics: list[str]) -> bool:
    """Whether a notebook is to be run: its topic was asked for, or none was, and its framework is there."""
    asked_for = not topics or topic(path) in topics
    return asked_for and not source.missing(source.framework(path))


def became(path: Path, todo: list[Path], failed: Iterable[Path]) -> str:
    """What became of the notebooks of this one's topic."""
    mine = [p for p in todo if topic(p) == topic(path)]
    bad = [p.stem for p in mine if p in failed]
    if not bad:
        return 'measured here'
    failed_ones = f'FAILED: {", ".join(bad)}'
    if len(bad) == len(mine):
        return failed_ones
    return f'{len(mine) - len(bad)} of {len(mine)} notebooks measured here, {failed_ones}'


def topic_index(path: Path) -> Path:
    """The first page of a notebook's topic, from the root of the pages."""
    return path.relative_to(ROOT).with_name('index.html')


def locks(stored: bool, html: Path) -> list[Path]:
    """The locks of one build: of the tree that Sphinx reads, and of the folder that the pages go to."""
    folder = hashlib.sha256(bytes(html)).hexdigest()[:16]
    return [BUILD / ('stored.lock' if stored else 'book.lock'), BUILD / f'pages-{folder}.lock']


def main() -> None:
    paths = source.notebooks()
    known = list(dict.fromkeys(map(topic, paths)))
    parser = argparse.ArgumentParser(prog='tools.book', description=__doc__.split('\n')[0])
    parser.add_argument('topic', nargs='*', help='measure these alone: ' + ', '.join(known))
    parser.add_argument('--stored', action='store_true', help='run nothing, show the stored outputs')
    parser.add_argument('--to', type=Path, default=BUILD / 'html', help='folder for the pages')
    args = parser.parse_args()
    if unknown := sorted(set(args.topic) - set(known)):
        parser.error(f'there is no topic {", ".join(unknown)}; there are {", ".join(known)}')
    BUILD.mkdir(exist_ok=True)
    with contextlib.ExitStack() as held:
        for lock in locks(args.stored, args.to.resolve()):
            held.enter_context(filelock.FileLock(lock, timeout=0))
        began = time.perf_counter()
        summary, lines = build(paths, args.topic, args.stored, args.to.resolve())
    print(f'{args.to.resolve() / "index.html"}\n{time.perf_counter() - began:.0f} s')
    print(*lines, summary, sep='\n')
    if not args.stored:
        for name in FRAMEWORKS:
            if reason := source.missing(name):
                print(f'{FRAMEWORKS[name]} pages show stored outputs: {reason}')


if __name__ == '__main__':
    try:
        main()
    except ledgers.Refused as e:
        sys.exit(f'{e}\nThe pages are as they were.')
    except filelock.Timeout:
        sys.exit('Another make book makes these pages: wait for its end, or stop it with Ctrl-C.')
    except OSError as e:
        # a shutil.Error lists all files that could not be copied, each with the reason
        copied = isinstance(e, shutil.Error)
        why = e.args[0][0][2] if copied else f'{e.filename or "a file"}: {e.strerror}'
        sys.exit(f'{why}. The pages are as they were; what was measured is kept. Mend that, and make '
                 'book goes on.')
    except KeyboardInterrupt:
        sys.exit('\ninterrupted: what ran to its end is kept, the pages are whole; make book goes on')
