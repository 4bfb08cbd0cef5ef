"""Run notebooks, store their outputs, and put the new numbers into the text.

    python -m tools.refresh [NOTEBOOK …] [--all-outputs] [--kept]
"""

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import nbformat
from nbval.plugin import get_sanitize_patterns

from tested_results import execution, ledgers, machine
from tested_results.claims import METADATA_KEY, Claim
from tested_results.numbers import Misfit
from tested_results.quoting import rendered
from tools import ledger, quotations, runs, source
from tools.source import put_whole, read, write

SANITISE = source.ROOT / 'tests' / 'sanitize.cfg'


@cache
def sanitiser() -> Callable[[str], str]:
    """The masking of ``tests/sanitize.cfg``, as nbval applies it."""
    patterns = get_sanitize_patterns(SANITISE.read_text())

    def sanitise(text: str) -> str:
        for pattern, replacement in patterns:
            text = re.sub(pattern, replacement, text)
        return text
    return sanitise


def shown(outputs: list, sanitise: Callable[[str], str]) -> list:
    """What of a cell's outputs is compared: all but images, masked; and each claim's verdict."""
    flat = []
    for out in outputs:
        claim = out.get('metadata', {}).get(METADATA_KEY)
        if claim:
            number = claim['value'] if claim['kind'] == 'count' else None
            flat.append(('verdict', claim['verdict'], claim['reason'], number, tuple(claim['needs'])))
        if out.output_type == 'stream':
            flat.append((out.name, sanitise(out.text)))
        elif out.output_type == 'error':
            flat.append((out.ename, sanitise(out.evalue)))
        else:
            for mime, data in sorted(out.data.items()):
                if mime.startswith('image/'):
                    flat.append((mime, ''))
                else:
                    flat.append((mime, sanitise(str(data))))
    return flat


def keep_unchanged(new: nbformat.NotebookNode, old: nbformat.NotebookNode) -> None:
    """Give the new run the stored outputs wherever only masked parts or images differ.

    A verdict that differs, for better or worse, is a difference, and so is what a result needs: the new
    run's is stored.
    """
    sanitise = sanitiser()
    stored = {c.source: c for c in old.cells if c.cell_type == 'code'}
    for cell in new.cells:
        before = stored.get(cell.source) if cell.cell_type == 'code' else None
        if before is not None and before.execution_count is not None and (
                shown(before.outputs, sanitise) == shown(cell.outputs, sanitise)):
            cell.outputs = before.outputs


class Mixed(RuntimeError):
    """Storing these runs would leave a book whose outputs come from two kinds of machines."""


def other_machines(paths: list[Path], here: str) -> dict[str, list[Path]]:
    """Of these notebooks, those whose stored results come from another kind of machine, by that kind."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        kinds = set()
        for cell in read(path).cells:
            for out in cell.get('outputs', []):
                data = out.get('metadata', {}).get(METADATA_KEY)
                if data is not None:
                    kinds.add(ledgers.kind(data['where']))
        for other in kinds - {here}:
            found.setdefault(other, []).append(path)
    return found


def refuse_to_mix(paths: list[Path]) -> None:
    """Raise :class:`Mixed` if notebooks that keep their stored outputs come from another kind of machine."""
    here = ledgers.kind(machine.machine())
    for other, those in other_machines(paths, here).items():
        names = ', '.join(str(p.relative_to(source.ROOT)) for p in those[:3])
        more = f' and {len(those) - 3} more' if len(those) > 3 else ''
        raise Mixed(
            f'The outputs of {names}{more} are stored from another machine ({other}), and this is {here}. '
            'All stored numbers of the book come from one run on one kind of machine, so nothing was stored. '
            'To see the numbers of this machine, run "make book", which stores nothing. To store outputs, '
            'run the whole book here, "make refresh ALL=1", or this notebook on a machine of the other kind.')


def refresh(paths: list[Path], all_outputs: bool = False, kept: bool = False) -> int:
    """Run notebooks, and store the outputs of all of them when all have run.

    Args:
        all_outputs: store every output, also where only times and images differ.
        kept: take runs that were kept and are still valid, and run only the others.

    Returns:
        How many notebooks raised.

    Raises:
        Mixed: what would not be stored anew comes from another kind of machine.
    """
    refuse_to_mix([p for p in source.notebooks() if p not in paths])
    new: dict[Path, nbformat.NotebookNode] = {}
    failed = 0
    for i, path in enumerate(paths, 1):
        label, reason = f'[{i}/{len(paths)}] ', source.missing(source.framework(path))
        if reason:
            print(f'{label}{path.relative_to(source.ROOT)}  left as it is: {reason}')
            continue
        before, valid = runs.latest(path) if kept else (None, False)
        try:
            new[path] = runs.normalise(before) if valid else runs.keep(path, label)
        except execution.CellFailed as e:
            print(e, file=sys.stderr)
            failed += 1
    refuse_to_mix([p for p in source.notebooks() if p not in new])
    for path, run in new.items():
        if not all_outputs:
            keep_unchanged(run, nbformat.read(path, as_version=4))
        write(path, run)
    return failed


def update(results: dict[str, Claim], pages: Iterable[Path] | None = None) -> list[str]:
    """Put the figures of these results into the text of all pages; returns the names of what changed.

    A link that does not fit its result stays as it is; :func:`tools.quotations.problems` says where.
    """
    changed = []

    def put(m: re.Match) -> str:
        if m[2] not in results:
            return m[0]
        with contextlib.suppress(Misfit):
            now = rendered(m[1], results[m[2]], m[3] or '')
            return m[0].replace(f'[{m[1]}]', f'[{now}]', 1)
        return m[0]
    for path in pages or source.pages():
        if path.suffix == '.md':
            before = path.read_text()
            if (after := quotations.LINK.sub(put, before)) != before:
                put_whole(path, after)
                changed.append(source.name(path))
            continue
        nb, any_ = read(path), False
        new = type(nb)(nb)
        new.cells = [type(c)(c) for c in nb.cells]
        for cell in new.cells:
            if cell.cell_type != 'markdown':
                continue
            after = quotations.LINK.sub(put, cell.source)
            if after != cell.source:
                cell.source, any_ = after, True
        if any_:
            write(path, new)
            changed.append(source.name(path))
    return changed


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.refresh', description=__doc__.split('\n')[0])
    parser.add_argument('notebook', nargs='*', type=Path)
    parser.add_argument('--all-outputs', action='store_true',
                        help='store every output anew, also where only times and images differ')
    parser.add_argument('--kept', action='store_true',
                        help='take the runs that are kept and still valid, and run only the others')
    args = parser.parse_intermixed_args()
    paths = [p.resolve() for p in args.notebook] or source.notebooks()
    for p in paths:
        if p.suffix != '.ipynb' or not p.exists() or source.ROOT not in p.parents:
            parser.error(f'{p} is not a notebook of this book; give a path such as '
                         'chapters/hybridization/hybridization_mxnet.ipynb')
    failed = refresh(paths, args.all_outputs, args.kept)
    stored = ledger.quotable(paths)
    for name in update(stored):
        print(f'{name}: the numbers in its text are those of the stored run now')
    for problem in quotations.problems(stored):
        print(problem, file=sys.stderr)
    return 1 if failed else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Mixed as e:
        sys.exit(str(e))
    except KeyboardInterrupt:
        sys.exit('\ninterrupted. What has run is kept: "make refresh KEPT=1" runs the rest, stores all of '
                 'it, and puts its numbers into the text')
