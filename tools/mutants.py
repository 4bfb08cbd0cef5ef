"""Plant faults in the experiments: a claim that still holds proves nothing.

    python -m tools.mutants [--only same swap planted] [NOTEBOOK …]

*same*: each pair of variants becomes the slow one twice; *swap*: the two change places (where a claim
says "about the same", the slow one's work is done several times over instead). *planted*: a fault
written by hand in ``tests/mutants/``, which switches off the mechanism that a sentence names. None of
them may hold, and a swapped or planted one must fail.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tools import ledgers, notebooks, prose
from tools.notebooks import ROOT

PLANTED = ROOT / 'tests' / 'mutants'
KINDS = ('same', 'swap', 'planted')


@dataclass(frozen=True)
class Mutant:
    """A fault to plant: in a cell of a notebook, ``old`` becomes ``new``, and ``claim`` must fail."""

    claim: str
    notebook: str
    old: str
    new: str
    what: str


def planted() -> list[Mutant]:
    """The faults written by hand, in the order of their files."""
    return [Mutant(**m) for p in sorted(PLANTED.glob('*.json')) for m in json.loads(p.read_text())]


def with_fault(m: Mutant) -> nbformat.NotebookNode:
    """The notebook with the fault, cut off after the cell that makes the claim.

    Raises:
        ValueError: the text to replace does not stand in exactly one cell, or nobody makes the claim.
    """
    nb = nbformat.read(ROOT / m.notebook, as_version=4)
    code = [c for c in nb.cells if c.cell_type == 'code']
    hits = [c for c in code if m.old in c.source]
    if len(hits) != 1:
        raise ValueError(f'mutant of {m.claim}: its old text stands in {len(hits)} cells of '
                         f'{m.notebook}, and must in one')
    calls = [c.cell for c in prose.claim_calls(ROOT / m.notebook) if c.id == m.claim]
    if not calls:
        raise ValueError(f'mutant of {m.claim}: {m.notebook} makes no such claim')
    hits[0].source = hits[0].source.replace(m.old, m.new)
    last = nb.cells.index(code[calls[0] - 1])
    nb.cells = nb.cells[:last + 1]
    return nb


@contextlib.contextmanager
def environment(**values: str):
    """These variables for the kernels started in the block."""
    before = {k: os.environ.get(k) for k in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for k, v in before.items():
            os.environ.pop(k) if v is None else os.environ.update({k: v})


def try_planted(m: Mutant, label: str = '') -> str:
    """The verdict on a claim with its fault planted; ``'error: …'`` if a cell raised on the way."""
    home = (ROOT / m.notebook).parent
    nb = with_fault(m)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, f'{m.claim}.ipynb')
        nbformat.write(nb, copy)
        try:
            done = notebooks.execute(copy, label, home)
        except notebooks.CellFailed as e:
            return 'error: ' + str(e).split('\n')[0].split(' raised ')[-1]
    return next((c['verdict'] for c in ledgers.claims_of(done) if c['id'] == m.claim), 'gone')


def try_pairs(kind: str, path: Path, label: str = '') -> dict[str, str]:
    """The verdicts on a notebook's ratios with every pair mutated."""
    with environment(D2L_MUTANT=kind):
        done = notebooks.execute(path, label)
    return {c['id']: c['verdict'] for c in ledgers.claims_of(done) if c['kind'] == 'ratio'}


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.mutants', description=__doc__.split('\n')[0])
    parser.add_argument('--only', nargs='+', choices=KINDS, default=KINDS)
    parser.add_argument('notebook', nargs='*', type=Path)
    args = parser.parse_args()
    wanted = {p.resolve() for p in args.notebook} or set(notebooks.notebooks())
    paths = [p for p in notebooks.notebooks() if p in wanted and prose.claim_calls(p)
             and not notebooks.missing(notebooks.framework(p))]
    found: list[tuple[str, str, str, str]] = []
    for kind in [k for k in args.only if k != 'planted']:
        for i, path in enumerate(paths, 1):
            found += [(kind, id, verdict, '')
                      for id, verdict in try_pairs(kind, path, f'[{kind} {i}/{len(paths)}] ').items()]
    todo = [m for m in planted() if ROOT / m.notebook in paths] if 'planted' in args.only else []
    found += [('planted', m.claim, try_planted(m, f'[planted {i}/{len(todo)}] '), m.what)
              for i, m in enumerate(todo, 1)]
    survivors = [row for row in found if row[2] == 'holds']
    print('\n| mutants | killed | undecided | not testable here | error | survived |')
    print('|---' * 6 + '|')
    for kind in args.only:
        mine = [v for k, _, v, _ in found if k == kind]
        other = [sum(v == w for v in mine) for w in ('fails', 'undecided', 'not testable here')]
        errors = sum(v.startswith('error') or v == 'gone' for v in mine)
        print(f'| {kind}: {len(mine)} | ' + ' | '.join(map(str, other))
              + f' | {errors} | {sum(v == "holds" for v in mine)} |')
    for kind, id, verdict, what in found:
        if verdict != 'fails':
            print(f'{kind} {id}: {verdict}' + f' ({what})' * bool(what))
    return bool(survivors)


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (ValueError, notebooks.CellFailed) as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit('\ninterrupted')
