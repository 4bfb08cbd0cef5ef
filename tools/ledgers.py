"""Ledgers of machines: files that readers contribute, and what they say of a new run.

    python -m tools.ledgers            write this machine's ledger from the last run of the book
    python -m tools.ledgers repeat N   run the book N more times in fresh processes, then write it

A ledger is ``ledgers/<kind of machine>.json``: every claim with its verdict and interval in the run that
the pages show, and the verdicts and medians of all runs. It names processor, cores, memory, GPUs and
versions, and nothing personal.
"""

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, median

import nbformat

from d2l_local import claims as claiming
from d2l_local import conditions, machine, timing
from tools import notebooks, prose
from tools.notebooks import ROOT

VERSION = 2
FOLDER = Path(os.environ.get('D2L_LEDGERS') or ROOT / 'ledgers')
RUNS = ROOT / '_build' / 'runs'
# Of the claims that need a passing condition, so many may lose a verdict that they had; one always
# may. A quiet run of the book leaves about 4% undecided, not always the same ones. Where a condition
# was seen not to hold, the allowance is larger.
OPEN_SHARE = {claiming.NOISE: 0.08}
OTHERS_OPEN = 0.33
FINDINGS = 0.02        # of the testable claims, so many may fail on a new kind of machine
MACHINE = {'processor': str, 'cores': int, 'memory_gib': int, 'gpus': list, 'system': str, 'python': str}
CLAIM = {'sentence': str, 'kind': str, 'bound': str, 'verdict': str, 'figure': str, 'reason': str,
         'lacked': str, 'passing': bool, 'needs': list, 'value': (int, float, type(None)),
         'low': (int, float, type(None)), 'high': (int, float, type(None)), 'runs': list,
         'verdicts': list}
SAME = ('sentence', 'bound')                            # a claim that differs in these is another one
KEPT = (*SAME, 'verdict', 'value', 'low', 'high')       # of each claim of a repetition
# Two-sided 95% quantiles of Student's t with 1, 2, … degrees of freedom.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


class Refused(ValueError):
    """A file that is no ledger of this book; the message says why and what to do."""


@dataclass(frozen=True)
class Ledger:
    """One machine's verdicts: ``claims`` by id, each a dictionary as :data:`CLAIM` has it."""

    name: str
    machine: dict
    claims: dict[str, dict]

    @property
    def kind(self) -> str:
        """What kind of machine it is: processor, cores, GPUs, system."""
        return kind(self.machine)

    def same(self, claim: dict) -> dict | None:
        """This machine's entry for a claim of the same id, bound and sentence, if it has one."""
        old = self.claims.get(claim['id'])
        return old if old and same(old, claim) else None

    @cached_property
    def typical(self) -> float:
        """The typical standard deviation of the logarithms of a claim's medians between runs."""
        found = [math.sqrt(_variance([math.log(x) for x in c['runs']])) for c in self.claims.values()
                 if len(c['runs']) > 1 and min(c['runs']) > 0]
        return median(found) if found else math.log(timing.BETWEEN)


def same(a: dict, b: dict) -> bool:
    """Whether two entries of one id are about the same claim."""
    return all(a[k] == b[k] for k in SAME)


def kind(m: dict) -> str:
    """The kind of a machine: the same for two machines that should give the same verdicts."""
    return ', '.join([m['processor'], f'{m["cores"]} cores', *(m['gpus'] or ['no GPU']), m['system']])


def alike(a: dict, b: dict) -> bool:
    """Whether two machines differ in the processor at most."""
    return all(a[k] == b[k] for k in ('cores', 'gpus', 'system'))


def slug(m: dict) -> str:
    """A file's name for this kind of machine."""
    return re.sub(r'[^a-z0-9]+', '-', kind(m).lower()).strip('-')


def load(path: Path, ids: Iterable[str] | None = None) -> Ledger:
    """Read and check a ledger.

    Args:
        ids: of the book's claims; a ledger that has others is refused.

    Raises:
        Refused: it is not JSON, is of another version or form, or names unknown claims.
    """
    def refuse(why: str) -> Refused:
        return Refused(f'{path.name} is no ledger of this book: {why}. Make it anew with: make ledger')
    try:
        data = json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError) as e:
        raise refuse(f'it is not JSON, or was not written to its end ({e})') from None
    if not isinstance(data, dict) or set(data) != {'version', 'machine', 'claims'}:
        raise refuse('it has not the three parts version, machine and claims')
    if data['version'] != VERSION:
        raise refuse(f'it is of version {data["version"]!r}, and this book writes {VERSION}')
    m, claims = data['machine'], data['claims']
    for what, part, form in [('machine', m, MACHINE), *((f'claim {i}', c, CLAIM)
                                                        for i, c in dict(claims).items())]:
        for name, types in form.items():
            if not isinstance(part, dict) or not isinstance(part.get(name, refuse), types):
                raise refuse(f'{what} has no proper {name!r}')
        if extra := set(part) - set(form) - {'numpy', 'mxnet', 'torch'}:
            raise refuse(f'{what} has {", ".join(sorted(extra))}, which a ledger does not hold')
    for i, c in claims.items():
        if c['verdict'] not in claiming.VERDICTS or c['kind'] not in claiming.KINDS:
            raise refuse(f'claim {i} has the verdict {c["verdict"]!r} and the kind {c["kind"]!r}')
        if not all(isinstance(x, int | float) and math.isfinite(x) for x in c['runs']):
            raise refuse(f'the runs of claim {i} are not numbers')
        if c['verdicts'][:1] != [c['verdict']] or set(c['verdicts']) - set(claiming.VERDICTS):
            raise refuse(f'the verdicts of claim {i} do not begin with {c["verdict"]!r}')
    if ids is not None and (unknown := set(claims) - set(ids)):
        raise refuse(f'it has claims that this book has not: {", ".join(sorted(unknown)[:5])}')
    return Ledger(path.stem, m, claims)


def all_ledgers(ids: Iterable[str] | None = None) -> list[Ledger]:
    """The ledgers of the repository, in the order of their names."""
    return [load(p, ids) for p in sorted(FOLDER.glob('*.json'))]


def book_ids() -> list[str]:
    """The ids of all claims of the book, in reading order."""
    return [c.id for p in prose.pages() for c in prose.claim_calls(p)]


def entry(claim: dict, further: Iterable[dict] = ()) -> dict:
    """A claim as a ledger holds it, from the run that the pages show and from further ones."""
    all_runs = [claim, *further]
    short = {k: claim[k] for k in CLAIM if k not in ('runs', 'verdicts')}
    return {**short, 'needs': list(claim['needs']),
            'runs': [c['value'] for c in all_runs if c['low'] is not None],
            'verdicts': [c['verdict'] for c in all_runs]}


def write(found: dict[str, dict], further: dict[str, list[dict]]) -> Path:
    """Write this machine's ledger, whole or not at all."""
    m = {k: machine.machine()[k] for k in (*MACHINE, 'numpy', 'mxnet', 'torch')}
    data = {'version': VERSION, 'machine': m,
            'claims': {i: entry(c, further.get(i, [])) for i, c in found.items()}}
    path = FOLDER / f'{slug(m)}.json'
    path.parent.mkdir(exist_ok=True)
    notebooks.put_whole(path, json.dumps(data, indent=1, ensure_ascii=False) + '\n')
    return path


# The spread between runs -------------------------------------------------------------------------

def spread(runs: list[float], typical: float) -> float:
    """The factor that covers a further run's median in 95 of 100 cases, from the medians of past runs.

    The logarithms of a claim's medians are taken as normal; their variance is moderated by the typical
    one of the book's claims, with the weight of one run more, for two or three runs say little alone.

    Sources: prediction interval, Hahn and Meeker, *Statistical Intervals*, 4.7; moderated variance,
    Smyth (2004), *Linear models and empirical Bayes methods*.
    """
    k = len(runs)
    own = _variance([math.log(x) for x in runs]) if k > 1 else 0.0
    freedom = max(1, k)
    variance = (typical ** 2 + max(0, k - 1) * own) / freedom
    return math.exp(STUDENT[min(freedom, len(STUDENT)) - 1] * math.sqrt(variance * (1 + 1 / max(1, k))))


def _variance(x: list[float]) -> float:
    mean = fmean(x)
    return sum((v - mean) ** 2 for v in x) / (len(x) - 1)


def published(claim: dict, typical: float) -> tuple[float, float] | None:
    """The interval to show beside a claim's figure: within a run, and between runs. None without one."""
    if claim['low'] is None:
        return None
    runs = [x for x in claim['runs'] if x > 0]
    if not runs or claim['low'] <= 0:
        return claim['low'], claim['high']
    centre, factor = math.exp(fmean(map(math.log, runs))), spread(runs, typical)
    return min(claim['low'], centre / factor), max(claim['high'], centre * factor)


def covered(claims: Iterable[dict], ledger: Ledger) -> tuple[int, int, int]:
    """Of a new run's medians: how many lie in the intervals within a run, in the published ones; all."""
    within, between, n = 0, 0, 0
    for c in claims:
        old = ledger.same(c)
        if old and c['value'] is not None and old['low'] is not None:
            low, high = published(old, ledger.typical)
            within += old['low'] <= c['value'] <= old['high']
            between += low <= c['value'] <= high
            n += 1
    return within, between, n


# What a new run means ----------------------------------------------------------------------------

@dataclass
class Judgement:
    """What a run says beside the ledgers: ``red`` is wrong, ``findings`` are worth a contribution."""

    red: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)


def judge(found: list[dict], m: dict, stored: list[Ledger]) -> Judgement:
    """Compare a run's claims with what machines of the same kind, and machines alike, gave before.

    Red are: a failure where this kind of machine did not record one; a verdict lost for a permanent
    reason that this kind, or for a reason of the system any machine alike, did not have; more verdicts
    lost to a passing condition than its allowance; on a new kind of machine, more failures than
    one in fifty. On a new kind, a passing condition that held for no claim, while no other was short, is
    what this machine lacks: two processors that are halves of one core are never two free cores.
    """
    said, testable = Judgement(), 0
    same = [led for led in stored if led.kind == kind(m)]
    like = [led for led in stored if alike(led.machine, m)]
    needing: dict[str, int] = {}
    lost: dict[str, list[str]] = {}
    new_failures = []

    def past(c: dict, ledgers: list[Ledger]) -> set[str]:
        return {v for led in ledgers if (old := led.same(c)) for v in old['verdicts']}
    for c in found:
        decided = c['verdict'] in ('holds', 'fails')
        testable += decided
        for name in {*(n for n in c['needs'] if _passes(n)), claiming.NOISE, claiming.DISTURBED}:
            needing[name] = needing.get(name, 0) + (c['kind'] in ('ratio', 'figure'))
        about = f'{c["id"]}: {c["figure"] or c["reason"]}; bound {c["bound"]}'
        if c['verdict'] == 'fails' and 'fails' not in past(c, same):
            if 'holds' in past(c, same):
                said.red.append(f'fails, and held on this kind of machine: {about}')
            else:
                new_failures.append(about)
        elif not decided and c['passing']:
            if not (before := past(c, same)) or before & {'holds', 'fails'}:
                lost.setdefault(c['lacked'], []).append(about)
        elif not decided:
            known = conditions.known.get(c['lacked'])
            before = past(c, like if known is None or known.system else same)
            if before & {'holds', 'fails'}:
                said.red.append(f'has lost its verdict for want of {c["lacked"]}: {about}')
    said.findings = new_failures
    if len(new_failures) > FINDINGS * testable:
        said.red.append(f'{len(new_failures)} of {testable} testable claims fail on this kind of '
                        f'machine, and one in {1 / FINDINGS:.0f} may')
    too_many = {}
    for name, which in lost.items():
        said.open += [f'{name}: {w}' for w in which]
        of = needing.get(name, 0)
        allowed = max(1, int(OPEN_SHARE.get(name, OTHERS_OPEN) * of))
        if len(which) > allowed:
            too_many[name] = (f'{len(which)} of {of} claims that need {name!r} have no verdict, and at '
                              f'most {allowed} may: run again on a quieter machine')
    for name, text in too_many.items():
        never = _passes(name) and name != claiming.DISTURBED and not any(
            name in c['needs'] and c['verdict'] in ('holds', 'fails') for c in found)
        if never and not same and len(too_many) == 1:
            said.open.append(f'{name} held for no claim, and nothing else disturbed: this machine does '
                             'not seem to have it')
        else:
            said.red.append(text)
    return said


def _passes(name: str) -> bool:
    return name in conditions.known and conditions.known[name].passing


def how_to_contribute() -> str:
    """What a reader does with a finding."""
    return ('To add this machine: make book, then make ledger, and send the file that it names '
            '(README, "Contribute your machine").')


# Commands ----------------------------------------------------------------------------------------

def last_run() -> tuple[dict[str, dict], list[str]]:
    """The claims of the notebooks that `make book` ran here, and the notebooks that it did not run."""
    found, absent = {}, []
    for path in notebooks.notebooks():
        kept = notebooks.EXECUTED / path.relative_to(ROOT)
        if not kept.exists():
            absent.append(path.relative_to(ROOT).as_posix())
            continue
        for c in claims_of(nbformat.read(kept, as_version=4)):
            found[c['id']] = c
    ids = set(book_ids())
    return {i: c for i, c in found.items() if i in ids}, absent


def claims_of(nb: nbformat.NotebookNode) -> list[dict]:
    """The claims in the outputs of a notebook, as plain data."""
    return [json.loads(json.dumps(out.metadata[claiming.METADATA_KEY])) for cell in nb.cells
            if cell.cell_type == 'code' for out in cell.outputs
            if claiming.METADATA_KEY in out.get('metadata', {})]


def repetitions(first: dict[str, dict]) -> dict[str, list[dict]]:
    """What the repetitions of the run that the pages show said, by claim."""
    further: dict[str, list[dict]] = {}
    for path in sorted(RUNS.glob('*.json')):
        for i, c in json.loads(path.read_text()).items():
            if i in first and same(first[i], c):
                further.setdefault(i, []).append(c)
    return further


def repeat(n: int) -> None:
    """Run the book ``n`` times in fresh processes; a notebook's claims are kept as soon as it ends."""
    RUNS.mkdir(parents=True, exist_ok=True)
    first = 1 + max((int(p.stem) for p in RUNS.glob('*.json')), default=0)
    todo = [p for p in notebooks.notebooks() if not notebooks.missing(notebooks.framework(p))
            and prose.claim_calls(p)]
    for run in range(first, first + n):
        kept: dict[str, dict] = {}
        for i, path in enumerate(todo, 1):
            done = notebooks.execute(path, f'[run {run}, {i}/{len(todo)}] ')
            kept |= {c['id']: {k: c[k] for k in KEPT} for c in claims_of(done)}
            notebooks.put_whole(RUNS / f'{run:03}.json', json.dumps(kept))


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.ledgers', description=__doc__.split('\n')[0])
    parser.add_argument('what', nargs='?', choices=['write', 'repeat'], default='write')
    parser.add_argument('times', nargs='?', type=int, default=1)
    args = parser.parse_args()
    if args.what == 'repeat':
        if args.times < 1:
            parser.error('repeat takes a number of runs, such as: make repeat N=3')
        repeat(args.times)
    found, absent = last_run()
    if absent:
        sys.exit(f'Not run here yet: {", ".join(absent)}.\nA ledger comes from a whole run: make book, '
                 'and then make ledger.')
    path = write(found, repetitions(found))
    ledger = load(path, book_ids())
    counts = {v: sum(c['verdict'] == v for c in found.values()) for v in claiming.VERDICTS}
    shown = path.relative_to(ROOT) if ROOT in path.parents else path
    print(f'{shown}: {len(found)} claims: ' + ', '.join(f'{n} {v}' for v, n in counts.items()))
    others = [led for led in all_ledgers() if led.name != ledger.name]
    said = judge(list(found.values()), machine.machine(), others)
    for line in said.findings:
        print(f'finding: fails here: {line}')
    return 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Refused as e:
        sys.exit(str(e))
    except notebooks.CellFailed as e:
        sys.exit(f'{e}\n\nWhat was measured before is kept in {RUNS}.')
    except KeyboardInterrupt:
        sys.exit(f'\ninterrupted: what was measured is kept in {RUNS}')
