"""The book's ledgers of machines: files that readers contribute.

    python -m tools.ledger            write this machine's ledger from the last run of the book
    python -m tools.ledger repeat N   run the book N more times in fresh processes, then write it
    python -m tools.ledger compare A B   print what changed from one ledger to another

A ledger is ``ledgers/<kind of machine and frameworks' releases>.json``; ``tested_results.ledgers`` says
what it has, ``tested_results.judgement`` what a new run means beside it, and ``tested_results.comparing``
what changed from one to another.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tested_results import comparing, execution, ledgers, machine
from tested_results.claims import Claim
from tested_results.ledgers import KEPT, Ledger, Refused, claims_of, with_results_of_other_machines
from tools import quotations, runs, source
from tools.source import ROOT

FOLDER = Path(os.environ.get('D2L_LEDGERS') or ROOT / 'ledgers')
RUNS = ROOT / '_build' / 'runs'


def all_ledgers() -> list[Ledger]:
    """The ledgers of the repository, in the order of their names.

    Raises:
        Refused: one of the files is none; the message says what to do.
    """
    try:
        return ledgers.load_all(FOLDER)
    except Refused as e:
        raise Refused(f'{e} Make it anew with: make ledger') from None


def load(path: Path) -> Ledger:
    """A ledger that somebody names.

    Raises:
        Refused: there is no such file, or it is no ledger; the message says what to do.
    """
    if not path.is_file():
        there = ', '.join(p.name for p in sorted(FOLDER.glob('*.json'))) or 'none'
        raise Refused(f'There is no ledger {path}. Ledgers in {FOLDER}: {there}. A new one: make book, '
                      'then make ledger.')
    return ledgers.load(path)


def quotable(paths: Iterable[Path]) -> dict[str, Claim]:
    """What the text may quote of these notebooks: their stored results.

    In the place of one that could not be tested there stands that of a ledger, where one has it.
    """
    stored = {}
    for path in paths:
        for c in claims_of(source.read(path)):
            stored[c.id] = c
    return with_results_of_other_machines(stored, all_ledgers())


def book_ids() -> list[str]:
    """The ids of all results of the book, in reading order."""
    ids = []
    for path in source.pages():
        ids += [call.id for call in quotations.calls(path)]
    return ids


def write(found: dict[str, Claim], further: dict[str, list[dict]]) -> Path:
    """Write this machine's ledger, whole or not at all."""
    path = FOLDER / f'{ledgers.slug(machine.machine())}.json'
    path.parent.mkdir(exist_ok=True)
    without = [name for framework, name in source.FRAMEWORKS.items() if source.missing(framework)]
    part = f'the notebooks that run without {" and ".join(without)}' if without else ''
    source.put_whole(path, ledgers.text(found, further, part))
    return path


def how_to_contribute() -> str:
    """What a reader does with a finding."""
    return ('To add this machine: make book, then make ledger, and send the file that it names '
            '(README, "Contribute your machine").')


def last_run() -> tuple[dict[str, Claim], list[str]]:
    """The results of the last run here, and the notebooks that should have been run and were not.

    Notebooks that cannot run here, for want of their framework, are not missed; nor does a run count
    whose notebook, helpers or machine have changed since.
    """
    found, absent = {}, []
    for path in source.notebooks():
        if source.missing(source.framework(path)):
            continue
        nb, here = runs.latest(path)
        if not here:
            absent.append(path.relative_to(ROOT).as_posix())
            continue
        found |= {c.id: c for c in claims_of(nb)}
    return found, absent


def folder_of_repetitions() -> Path:
    """Where repetitions on this kind of machine, with these releases of the frameworks, are kept."""
    return RUNS / ledgers.slug(machine.machine())


def keys_now() -> dict[str, str]:
    """For each result, the key that a run of its notebook has now (:func:`tools.runs.key`)."""
    keys = {}
    for path in source.notebooks():
        here = runs.key_now(path)
        keys |= {call.id: here for call in quotations.calls(path)}
    return keys


def repetitions(keys: Mapping[str, str]) -> dict[str, list[dict]]:
    """What the repetitions of the run that the pages show said, by id.

    Args:
        keys: for each result, the key of its notebook now; a repetition with another one was of an
            experiment that has changed since, and says nothing of this one.
    """
    further: dict[str, list[dict]] = {}
    for path in sorted(folder_of_repetitions().glob('*.json')):
        for id, run in json.loads(path.read_text()).items():
            if run.get('key') == keys.get(id):
                further.setdefault(id, []).append(run)
    return further


def repeat(n: int) -> None:
    """Run the book ``n`` times in fresh processes; a notebook's results are kept as soon as it ends."""
    folder = folder_of_repetitions()
    folder.mkdir(parents=True, exist_ok=True)
    runs_before = [int(path.stem) for path in folder.glob('*.json')]
    first = 1 + max(runs_before, default=0)
    todo = []
    for path in source.notebooks():
        if quotations.calls(path) and not source.missing(source.framework(path)):
            todo.append(path)
    for run in range(first, first + n):
        kept: dict[str, dict] = {}
        for i, path in enumerate(todo, 1):
            before = runs.key_now(path)
            done = runs.execute(path, f'[run {run}, {i}/{len(todo)}] ')
            for claim in claims_of(done):
                data = claim.data()
                kept[claim.id] = {name: data[name] for name in KEPT} | {'key': before}
            source.put_whole(folder / f'{run:03}.json', json.dumps(kept))


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.ledger', description=__doc__.split('\n')[0])
    commands = parser.add_subparsers(dest='what', metavar='what')
    commands.add_parser('write')
    commands.add_parser('repeat').add_argument('times', nargs='?', type=int, default=1)
    two = commands.add_parser('compare')
    two.add_argument('old', type=Path)
    two.add_argument('new', type=Path)
    args = parser.parse_args()
    if args.what == 'compare':
        print(comparing.table(load(args.old), load(args.new)), end='')
        return 0
    if args.what == 'repeat' and args.times < 1:
        parser.error('repeat takes a number of runs, such as: make repeat N=3')
    found, absent = last_run()
    if absent:                      # said before a repetition, which takes hours
        then = 'repeat' if args.what == 'repeat' else 'ledger'
        sys.exit(f'Not run here yet, or changed since: {", ".join(absent)}.\nA ledger comes from a whole '
                 f'run: make book, and then make {then}.')
    if args.what == 'repeat':
        repeat(args.times)
    path = write(found, repetitions(keys_now()))
    ledgers.load(path, book_ids())
    counts = Counter(c.verdict for c in found.values())
    shown = path.relative_to(ROOT) if ROOT in path.parents else path
    print(f'{shown}: {len(found)} results: ' + ', '.join(f'{n} {v}' for v, n in counts.items()))
    for c in found.values():
        if c.verdict == 'fails':
            print(f'finding: fails here: {c.id}: {c.reading}; tested: {c.bound}')
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Refused as e:
        sys.exit(str(e))
    except execution.CellFailed as e:
        sys.exit(f'{e}\n\nWhat was measured before is kept in {RUNS}.')
    except KeyboardInterrupt:
        sys.exit(f'\ninterrupted: what was measured is kept in {RUNS}')
