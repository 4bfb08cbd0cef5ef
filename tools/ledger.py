"""Ledgers of machines: files that readers contribute, and what they say of a new run.

    python -m tools.ledger            write this machine's ledger from the last run of the book
    python -m tools.ledger repeat N   run the book N more times in fresh processes, then write it

A ledger is ``ledgers/<kind of machine>.json``: every claim with its verdict and interval in the run that
the pages show, and the verdicts and medians of all runs. It names processor, cores, memory, GPUs and
versions, and nothing personal.
"""

import argparse
import csv
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean, median

import nbformat
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from tested_results import claims as claiming
from tested_results import conditions, machine, timing
from tested_results.claims import Claim
from tools import quotations, runs, source
from tools.source import ROOT

VERSION = 4
FOLDER = Path(os.environ.get('D2L_LEDGERS') or ROOT / 'ledgers')
EXPECTED = 'expected.csv'      # failures that are known, in the same folder: id, kind of machine, reason
RUNS = ROOT / '_build' / 'runs'
DECIDED = 0.9          # of the timed results that a machine can test, so many must be decided
NEAR, FAR = 1.05, 2    # by these factors a count that is not whole may differ from those that are stored
FINDINGS = 0.05        # of them, so many may fail on a kind of machine that nobody has recorded
_number, _limit = {'type': ['number', 'null']}, {'type': ['number', 'null'], 'exclusiveMinimum': 0}
CLAIM = {
    'kind': {'enum': list(claiming.KINDS)}, 'unit': {'type': 'string'},
    'above': _limit, 'below': _limit, 'verdict': {'enum': [*claiming.VERDICTS, claiming.MEASURED]},
    'reason': {'type': 'string'}, 'lacked': {'type': 'string'}, 'transient': {'type': 'boolean'},
    'needs': {'type': 'array', 'items': {'type': 'string'}}, 'value': _number, 'low': _number,
    'high': _number, 'least': _number, 'most': _number,
    'runs': {'type': 'array', 'items': {'type': 'number'}},
    'verdicts': {'type': 'array', 'items': {'enum': [*claiming.VERDICTS, claiming.MEASURED]}}}
MACHINE = {
    'processor': {'type': 'string'}, 'cores': {'type': 'integer'}, 'memory_gib': {'type': 'integer'},
    'gpus': {'type': 'array', 'items': {'type': 'string'}}, 'system': {'type': 'string'},
    'python': {'type': 'string'}}
VERSIONS = {name: {'type': ['string', 'null']} for name in ('numpy', 'mxnet', 'torch')}


def _exactly(properties: dict, optional: dict | None = None) -> dict:
    return {'type': 'object', 'properties': properties | (optional or {}), 'required': list(properties),
            'additionalProperties': False}


SCHEMA = _exactly({'version': {'const': VERSION}, 'machine': _exactly(MACHINE, VERSIONS),
                   'claims': {'type': 'object', 'additionalProperties': _exactly(CLAIM)}},
                  {'part': {'type': 'string', 'minLength': 1}})
KEPT = ('verdict', 'value', 'low', 'high')       # of each result of a repetition
# Two-sided 95% quantiles of Student's t with 1, 2, … degrees of freedom.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


class Refused(ValueError):
    """A file that is no ledger of this book; the message says why and what to do."""


@dataclass(frozen=True)
class Ledger:
    """One machine's results: ``claims`` by id, each a dictionary as :data:`CLAIM` has it.

    ``part`` says what was run where it was not the whole book.
    """

    name: str
    machine: dict
    claims: dict[str, dict]
    part: str = ''

    @property
    def kind(self) -> str:
        """What kind of machine it is: processor, cores, GPUs, system."""
        return kind(self.machine)

    @cached_property
    def typical(self) -> float:
        """The typical standard deviation of the logarithms of a result's medians between runs."""
        found = [math.sqrt(_variance([math.log(x) for x in c['runs']])) for c in self.claims.values()
                 if len(c['runs']) > 1 and min(c['runs']) > 0]
        return median(found) if found else math.log(timing.MARGIN)

    def claim(self, id: str) -> Claim | None:
        """This machine's result of that id, as an object."""
        c = self.claims.get(id)
        return c and Claim(id, **{k: v for k, v in c.items() if k not in ('runs', 'verdicts', 'needs')},
                           needs=tuple(c['needs']), where=self.machine, machine=self.kind)


def kind(m: dict) -> str:
    """The kind of a machine: the same for two machines that should give the same results."""
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
        ids: of the book's results; a ledger that has others is refused.

    Raises:
        Refused: it is not JSON, is of another version or form, or names unknown results.
    """
    def refuse(why: str) -> Refused:
        return Refused(f'{path.name} is no ledger of this book: {why}. Make it anew with: make ledger')
    try:
        data = json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError) as e:
        raise refuse(f'it is not JSON, or was not written to its end ({e})') from None
    if error := best_match(Draft202012Validator(SCHEMA).iter_errors(data)):
        raise refuse(f'at {error.json_path.removeprefix("$.")}: {error.message}')
    for i, c in data['claims'].items():
        if c['verdicts'][:1] != [c['verdict']]:
            raise refuse(f'the verdicts of {i} do not begin with {c["verdict"]!r}')
        if not all(map(math.isfinite, c['runs'])):
            raise refuse(f'the runs of {i} are not finite')
    if ids is not None and (unknown := set(data['claims']) - set(ids)):
        raise refuse(f'it has results that this book has not: {", ".join(sorted(unknown)[:5])}')
    return Ledger(path.stem, data['machine'], data['claims'], data.get('part', ''))


def all_ledgers() -> list[Ledger]:
    """The ledgers of the repository, in the order of their names."""
    return [load(p) for p in sorted(FOLDER.glob('*.json'))]


def completed(found: dict[str, Claim], machines: Iterable[Ledger]) -> dict[str, Claim]:
    """These results; in the place of one that its machine could not test, that of a machine that could."""
    def of_another(c: Claim) -> Claim:
        theirs = (led.claim(c.id) for led in machines if c.value is None and not c.decided)
        return next((o for o in theirs if o and o.value is not None), c)
    machines = list(machines)
    return {id: of_another(c) for id, c in found.items()}


def quotable(paths: Iterable[Path]) -> dict[str, Claim]:
    """What the text may quote of these notebooks: their stored results, :func:`completed` by the ledgers."""
    return completed({c.id: c for p in paths for c in claims_of(source.read(p))}, all_ledgers())


def book_ids() -> list[str]:
    """The ids of all results of the book, in reading order."""
    return [c.id for p in source.pages() for c in quotations.calls(p)]


def entry(claim: Claim, further: Iterable[dict] = ()) -> dict:
    """A result as a ledger holds it, from the run that the pages show and from further ones."""
    data = json.loads(json.dumps(claim.data()))
    runs = [{k: data[k] for k in KEPT}, *further]
    short = {k: data[k] for k in CLAIM if k not in ('runs', 'verdicts')}
    return {**short, 'runs': [c['value'] for c in runs if c['low'] is not None],
            'verdicts': [c['verdict'] for c in runs]}


def write(found: dict[str, Claim], further: dict[str, list[dict]]) -> Path:
    """Write this machine's ledger, whole or not at all."""
    m = {k: machine.machine()[k] for k in (*MACHINE, *VERSIONS)}
    data = {'version': VERSION, 'machine': m,
            'claims': {i: entry(c, further.get(i, [])) for i, c in found.items()}}
    path = FOLDER / f'{slug(m)}.json'
    path.parent.mkdir(exist_ok=True)
    source.put_whole(path, json.dumps(data, indent=1, ensure_ascii=False) + '\n')
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
    """The interval to show beside a figure: within a run, and between runs. None without one.

    It is cut off where a value is impossible: a share above one, a factor up or down below one.
    """
    if claim['low'] is None:
        return None
    low, high, runs = claim['low'], claim['high'], [x for x in claim['runs'] if x > 0]
    if runs and low > 0:
        centre, factor = math.exp(fmean(map(math.log, runs))), spread(runs, typical)
        low, high = min(low, centre / factor), max(high, centre * factor)
    least, most = claim['least'], claim['most']
    return low if least is None else max(least, low), high if most is None else min(most, high)


def covered(claims: Iterable[Claim], ledger: Ledger) -> tuple[int, int, int]:
    """Of a new run's medians: how many lie in the intervals within a run, in the published ones; all."""
    within, between, n = 0, 0, 0
    for c in claims:
        old = ledger.claims.get(c.id)
        if old and c.timed and c.value is not None and old['low'] is not None:
            low, high = published(old, ledger.typical)
            within += old['low'] <= c.value <= old['high']
            between += low <= c.value <= high
            n += 1
    return within, between, n


# What a new run means ----------------------------------------------------------------------------

@dataclass
class Judgement:
    """What a run says beside the ledgers: ``red`` is wrong, ``findings`` are worth a contribution.

    ``again`` names timed results that fail without a line that expects it: whoever runs the book tries
    them once more in a fresh kernel, and hands over what came out.
    """

    red: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)


def expected() -> list[dict[str, str]]:
    """The failures that are known: rows with id, kind of machine (``*`` for all) and reason."""
    path = FOLDER / EXPECTED
    if not path.exists():
        return []
    with path.open(newline='') as f:
        return list(csv.DictReader(f))


def judge(found: list[Claim], m: dict, stored: list[Ledger], reference: dict[str, Claim],
          known: list[dict[str, str]], twice: dict[str, list[str]] | None = None,
          beside: Iterable[str] = ()) -> Judgement:
    """What a run means. The four rules are those of README, "When is make test red?".

    Args:
        found: the run's results.
        m: the machine that made it.
        stored: the ledgers.
        reference: the stored results of the notebooks that ran, by id; each must appear in ``found``.
        known: failures that are expected, see :func:`expected`.
        twice: verdicts of a second run in a fresh kernel, for those that failed in the first.
        beside: results that were measured beside other notebooks: one that was disturbed says nothing
            about the machine, and does not count among the undecided ones.
    """
    said, here = Judgement(), kind(m)
    same = [led for led in stored if led.kind == here]
    like = [led for led in stored if alike(led.machine, m)]
    lines = {row['id']: row['reason'] for row in known if row['machine'] in ('*', here)}
    familiar = any(not led.part for led in same) or any(row['machine'] == here for row in known)

    _the_same_everywhere(said, found, reference, stored, familiar)
    _timed_failures(said, found, lines, familiar, twice or {})
    _still_tested(said, found, same, like, reference)
    able = _decided(said, found, frozenset(beside))
    if len(said.findings) > FINDINGS * able:
        said.red.append(f'{len(said.findings)} of {able} timed results fail on this kind of machine, '
                        f'and one in {1 / FINDINGS:.0f} may')
    said.notes += [f'another bound than the ledger\'s: {c.id}' for led in same for c in found
                   if c.id in led.claims
                   and (c.above, c.below) != (led.claims[c.id]['above'], led.claims[c.id]['below'])]
    return said


def _the_same_everywhere(said: Judgement, found: list[Claim], reference: dict[str, Claim],
                         stored: list[Ledger], familiar: bool) -> None:
    """Rule 1: what no clock made is the same everywhere, and every result appears."""
    ids = {c.id for c in found}
    said.red += [f'{id}: the notebook ran, and this result did not appear' for id in reference
                 if id not in ids]
    for c in found:
        old = reference.get(c.id)
        if c.timed or not c.decided and c.bounded:
            continue
        if c.verdict == 'fails':        # also where it is stored so: it must not stay green
            said.red.append(f'{c.id}: fails, and no clock made it{f" ({c.reading})" * bool(c.reading)}')
        elif old and old.value is not None and c.value != old.value and _whole(c, old):
            said.red.append(f'{c.id}: {c.reading}, and stored is {old.reading}')
        elif old and (ends := _stored_range(c, old, stored)):
            off = max(ends[0] / c.value, c.value / ends[1])        # a factor, above 1 outside of the range
            about = f'{c.id}: {c.reading}, and stored is {" to ".join(f"{x:.4g}" for x in sorted({*ends}))}'
            if off > FAR:
                (said.red if familiar else said.findings).append(about)
            elif off > NEAR:
                said.notes.append(about)


def _timed_failures(said: Judgement, found: list[Claim], lines: dict[str, str], familiar: bool,
                    twice: dict[str, list[str]]) -> None:
    """Rule 2: a timed result may fail where a line expects it; else it is tried again, once."""
    timed = [c for c in found if c.timed and c.bounded]
    for c in (c for c in timed if c.verdict == 'fails' and c.id not in lines):
        about = f'{c.id}: {c.reading}; tested: {c.bound}'
        if not familiar:
            said.findings.append(about)
        elif c.id not in twice:
            said.again.append(c.id)
            said.red.append(f'fails, and no line of {EXPECTED} expects it on this kind of machine: {about}')
        elif 'fails' in twice[c.id]:
            said.red.append(f'fails twice, in two fresh kernels: {about}')
        else:
            said.notes.append(f'failed once and then {twice[c.id][0] if twice[c.id] else "was gone"}: '
                              f'{about}')
    said.notes += [f'failed as expected: {c.id}: {c.reading}; tested: {c.bound} ({lines[c.id]})'
                   for c in timed if c.verdict == 'fails' and c.id in lines]
    said.notes += [f'expected to fail, and holds: {c.id}: {c.reading}' for c in timed
                   if c.verdict == 'holds' and c.id in lines and lines[c.id]]


def _still_tested(said: Judgement, found: list[Claim], same: list[Ledger], like: list[Ledger],
                  reference: dict[str, Claim]) -> None:
    """Rule 3: what this kind of machine can test is not lost for good."""
    out = {'holds', 'fails', claiming.MEASURED}
    for c in (c for c in found if c.verdict not in out and not c.transient):
        condition = conditions.known.get(c.lacked)
        before = [led for led in (like if condition is None or condition.system else same)
                  if (old := led.claims.get(c.id)) and out & set(old['verdicts'])]
        named = reference.get(c.id)
        if before:
            said.red.append(f'{c.id}: has lost its result for want of {c.lacked}: {c.reason}')
        elif named and named.verdict in out and c.lacked not in named.needs:
            said.red.append(f'{c.id}: needs {c.lacked!r} now, which the stored run did not ask for')


def _decided(said: Judgement, found: list[Claim], beside: frozenset[str]) -> int:
    """Rule 3, too: nine in ten timed results are decided. Returns how many the machine can test."""
    timed = [c for c in found if c.timed and c.bounded]
    undecided = [c for c in timed if not c.decided and c.transient]
    said.notes += [f'without a result this time: {c.id}: {c.reason}; tested: {c.bound}' for c in undecided]
    undecided = [c for c in undecided if c.id not in beside]
    able = sum(c.decided for c in timed) + len(undecided)
    if able - len(undecided) < DECIDED * able:
        said.red.append(f'{len(undecided)} of {able} timed results are not decided, so this run is no '
                        'test: run again on a quieter machine')
    return able


def _whole(a: Claim, b: Claim) -> bool:
    """Whether two counts must be equal: whole numbers must, and what is stored as a whole number, but for
    zero, beside which rounding shows. The rest depends on rounding."""
    def whole(x: Claim) -> bool:
        return x.value is not None and math.isfinite(x.value) and x.value == round(x.value)
    return a.kind == 'count' and whole(b) and (whole(a) or b.value != 0)


def _stored_range(c: Claim, old: Claim, stored: list[Ledger]) -> tuple[float, float] | None:
    """The least and the largest stored value of a count. None where there is nothing to compare: what has no
    unit is an error of rounding, and its bound says how large it may be."""
    if c.kind != 'count' or not c.unit or c.value is None:
        return None
    theirs = [led.claims[c.id] for led in stored if c.id in led.claims]
    known = [x for x in (old.value, *(t['value'] for t in theirs if t['unit'] == c.unit)) if x is not None]
    comparable = known and min(known) > 0 and math.isfinite(max(known)) and c.value > 0
    return (min(known), max(known)) if comparable else None


def how_to_contribute() -> str:
    """What a reader does with a finding."""
    return ('To add this machine: make book, then make ledger, and send the file that it names '
            '(README, "Contribute your machine").')


# Commands ----------------------------------------------------------------------------------------

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


def claims_of(nb: nbformat.NotebookNode) -> list[Claim]:
    """The results in the outputs of a notebook."""
    return [Claim.of(json.loads(json.dumps(out.metadata[claiming.METADATA_KEY]))) for cell in nb.cells
            if cell.cell_type == 'code' for out in cell.outputs
            if claiming.METADATA_KEY in out.get('metadata', {})]


def repetitions() -> dict[str, list[dict]]:
    """What the repetitions of the run that the pages show said, by id."""
    further: dict[str, list[dict]] = {}
    for path in sorted(RUNS.glob('*.json')):
        for i, c in json.loads(path.read_text()).items():
            further.setdefault(i, []).append(c)
    return further


def repeat(n: int) -> None:
    """Run the book ``n`` times in fresh processes; a notebook's results are kept as soon as it ends."""
    RUNS.mkdir(parents=True, exist_ok=True)
    first = 1 + max((int(p.stem) for p in RUNS.glob('*.json')), default=0)
    todo = [p for p in source.notebooks() if not source.missing(source.framework(p))
            and quotations.calls(p)]
    for run in range(first, first + n):
        kept: dict[str, dict] = {}
        for i, path in enumerate(todo, 1):
            done = runs.execute(path, f'[run {run}, {i}/{len(todo)}] ')
            kept |= {c.id: {k: c.data()[k] for k in KEPT} for c in claims_of(done)}
            source.put_whole(RUNS / f'{run:03}.json', json.dumps(kept))


def main() -> int:
    parser = argparse.ArgumentParser(prog='tools.ledger', description=__doc__.split('\n')[0])
    parser.add_argument('what', nargs='?', choices=['write', 'repeat'], default='write')
    parser.add_argument('times', nargs='?', type=int, default=1)
    args = parser.parse_args()
    if args.what == 'repeat':
        if args.times < 1:
            parser.error('repeat takes a number of runs, such as: make repeat N=3')
        repeat(args.times)
    found, absent = last_run()
    if absent:
        sys.exit(f'Not run here yet, or changed since: {", ".join(absent)}.\nA ledger comes from a whole '
                 'run: make book, and then make ledger.')
    path = write(found, repetitions())
    load(path, book_ids())
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
    except runs.CellFailed as e:
        sys.exit(f'{e}\n\nWhat was measured before is kept in {RUNS}.')
    except KeyboardInterrupt:
        sys.exit(f'\ninterrupted: what was measured is kept in {RUNS}')
