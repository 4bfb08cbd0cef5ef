"""Plant faults in the experiments: a claim that still holds proves nothing.

    python -m tools.mutants [--only pairs | planted] [NOTEBOOK …]

*same*: each pair of variants becomes the slow one twice; *swap*: the two change places (where a claim
says "about the same", the slow one's work is done several times over instead). *planted*: a fault
written by hand in ``tests/mutants/``, which switches off the mechanism that a sentence names. None of
them may hold, and a swapped or planted one must fail.
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import nbformat

from tested_results import execution, ledgers
from tested_results.claims import Claim
from tools import quotations, runs, source
from tools.mutating import FAULTS
from tools.source import ROOT

PLANTED = ROOT / 'tests' / 'mutants'


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
    found = []
    for path in sorted(PLANTED.glob('*.json')):
        found += [Mutant(**fields) for fields in json.loads(path.read_text())]
    return found


def with_fault(m: Mutant) -> nbformat.NotebookNode:
    """The notebook with the fault, cut off after the cell that makes the claim.

    Raises:
        ValueError: the text to replace does not stand in exactly one cell, or nobody makes the claim.
    """
    nb = nbformat.NotebookNode(source.read(ROOT / m.notebook))
    nb.cells = [nbformat.NotebookNode(c) for c in nb.cells]
    code = [c for c in nb.cells if c.cell_type == 'code']
    hits = [c for c in code if m.old in c.source]
    if len(hits) != 1:
        raise ValueError(f'mutant of {m.claim}: its old text stands in {len(hits)} cells of '
                         f'{m.notebook}, and must in one')
    calls = [c.cell for c in quotations.calls(ROOT / m.notebook) if c.id == m.claim]
    if not calls:
        raise ValueError(f'mutant of {m.claim}: {m.notebook} makes no such claim')
    hits[0].source = hits[0].source.replace(m.old, m.new)
    last = nb.cells.index(code[calls[0] - 1])
    nb.cells = nb.cells[:last + 1]
    return nb


def execute(nb: nbformat.NotebookNode, path: Path, faults: str, label: str) -> list[Claim]:
    """Run a notebook whose claims are measured as ``faults`` of ``tools/mutating.py`` says."""
    nb.cells.insert(0, nbformat.v4.new_code_cell(
        f'import sys\nsys.path.append({str(ROOT)!r})\nfrom tools import mutating\nmutating.{faults}'))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        nbformat.write(nb, copy)
        return ledgers.claims_of(runs.execute(copy, label, path.parent))


def try_planted(m: Mutant, label: str = '') -> str:
    """The verdict on a claim with its fault planted; ``'error: …'`` if a cell raised on the way."""
    try:
        found = execute(with_fault(m), ROOT / m.notebook, f'only({m.claim!r})', f'{label}{m.claim}: ')
    except execution.CellFailed as e:
        return 'error: ' + str(e).split('\n')[0].split(' raised ')[-1]
    return next((c.verdict for c in found if c.id == m.claim), 'gone')


def try_pairs(path: Path, label: str = '') -> dict[str, list[str]]:
    """The verdicts on each of a notebook's ratios with the pair mutated, in the order of ``FAULTS``."""
    found: dict[str, list[str]] = {}
    for c in execute(nbformat.read(path, as_version=4), path, 'pairs()', label):
        found.setdefault(c.id, []).append(c.verdict)
    return found


def report(found: list[tuple[str, str, str, str]]) -> None:
    """Print how many faults of each kind were killed, and those that were not, by name."""
    print('\n| mutants | killed | undecided | not testable here | error | survived |')
    print('|---|---|---|---|---|---|')
    verdicts_by_kind: dict[str, list[str]] = {}
    for kind, _, verdict, _ in found:
        verdicts_by_kind.setdefault(kind, []).append(verdict)
    for kind, verdicts in verdicts_by_kind.items():
        count = Counter('error' if v.startswith('error') or v == 'gone' else v for v in verdicts)
        columns = [count[v] for v in ('fails', 'undecided', 'not testable here', 'error', 'holds')]
        print(f'| {kind}: {len(verdicts)} |', ' | '.join(map(str, columns)), '|')
    for kind, id, verdict, what in found:
        if verdict == 'fails':
            continue
        line = f'{kind} {id}: {verdict}'
        print(f'{line} ({what})' if what else line)


def can_be_tried(path: Path) -> bool:
    """Whether a notebook makes claims, and its framework is there."""
    return bool(quotations.calls(path)) and not source.missing(source.framework(path))


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.mutants', description=__doc__.split('\n')[0])
    parser.add_argument('--only', choices=['pairs', 'planted'])
    parser.add_argument('notebook', nargs='*', type=Path)
    args = parser.parse_args()
    wanted = {p.resolve() for p in args.notebook} or set(source.notebooks())
    if unknown := wanted - set(source.notebooks()):
        parser.error(f'{", ".join(map(str, sorted(unknown)))}: no notebook of this book; give a path such as '
                     'chapters/hybridization/hybridization_mxnet.ipynb')
    paths = [path for path in source.notebooks() if path in wanted and can_be_tried(path)]
    if not paths:
        sys.exit('These notebooks have no results, or need a framework that is not installed.')
    with_pairs = [] if args.only == 'planted' else paths
    by_hand = [] if args.only == 'pairs' else [m for m in planted() if ROOT / m.notebook in paths]
    found: list[tuple[str, str, str, str]] = []
    try:
        for i, path in enumerate(with_pairs, 1):
            verdicts_by_id = try_pairs(path, f'[pairs {i}/{len(with_pairs)}] ')
            for id, verdicts in verdicts_by_id.items():
                for kind, verdict in zip(FAULTS, verdicts, strict=True):
                    found.append((kind, id, verdict, ''))
        for i, mutant in enumerate(by_hand, 1):
            verdict = try_planted(mutant, f'[planted {i}/{len(by_hand)}] ')
            found.append(('planted', mutant.claim, verdict, mutant.what))
    finally:            # an interrupt keeps what was found
        report(found)
    return any(missed(kind, verdict) for kind, _, verdict, _ in found)


def missed(kind: str, verdict: str) -> bool:
    """Whether a fault went by: its result holds, or a planted one was not tested at all."""
    return verdict == 'holds' or kind == 'planted' and (verdict == 'gone' or verdict.startswith('error'))


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (ValueError, execution.CellFailed) as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit('\ninterrupted')
