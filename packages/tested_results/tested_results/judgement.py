"""What a new run means beside the ledgers of machines: what is wrong, what is worth a contribution."""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tested_results import claims as claiming
from tested_results import conditions
from tested_results.claims import Claim
from tested_results.ledgers import Ledger, comparable, kind, same_but_for_processor

EXPECTED = 'expected.csv'      # failures that are known, beside the ledgers: id, kind of machine, reason
DECIDED = 0.9          # of the timed results that a machine can test, so many must be decided
FINDINGS = 0.05        # and so many may fail on a kind of machine that nobody has recorded
NEAR, FAR = 1.05, 2    # by these factors a count that is not whole may differ from those that are stored


@dataclass
class Judgement:
    """What a run says beside the ledgers: ``red`` is wrong, ``findings`` are worth a contribution.

    ``again`` names timed results that fail without a line that expects it: whoever runs the notebooks tries
    them once more in a fresh kernel, and hands over what came out.
    """

    red: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)


def expected(folder: Path) -> list[dict[str, str]]:
    """The failures that are known: rows with id, kind of machine (``*`` for all) and reason."""
    path = folder / EXPECTED
    if not path.exists():
        return []
    with path.open(newline='') as f:
        return list(csv.DictReader(f))


def judge(found: list[Claim], m: dict, stored: list[Ledger], reference: dict[str, Claim],
          known: list[dict[str, str]], twice: dict[str, list[str]] | None = None,
          beside: Iterable[str] = ()) -> Judgement:
    """What a run means, by four rules; each function below is one or part of one.

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
    same = comparable(stored, m)
    like = [led for led in stored if same_but_for_processor(led.machine, m)]
    lines = {row['id']: row['reason'] for row in known if row['machine'] in ('*', here)}
    other_releases_alone = not same and any(led.kind == here for led in stored)
    # Lines beside the ledger of a part are about that part.
    lines_alone = not same and any(row['machine'] == here for row in known)
    familiar = not other_releases_alone and (any(not led.part for led in same) or lines_alone)

    _the_same_everywhere(said, found, reference, stored, familiar)
    _timed_failures(said, found, lines, familiar, twice or {})
    _still_tested(said, found, same, like, reference)
    able = _decided(said, found, frozenset(beside))
    if len(said.findings) > FINDINGS * able:
        said.red.append(f'{len(said.findings)} of {able} timed results fail on this kind of machine, '
                        f'and one in {1 / FINDINGS:.0f} may')
    for led in same:
        for c in found:
            theirs = led.result(c.id)
            if theirs and (c.above, c.below) != (theirs.above, theirs.below):
                said.notes.append(f'another bound than the ledger\'s: {c.id}')
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
            about = f'{c.id}: fails, and no clock made it'
            if c.reading:
                about += f' ({c.reading})'
            said.red.append(about)
        elif old is None:
            continue
        elif old.value is not None and c.value != old.value and _whole(c, old):
            said.red.append(f'{c.id}: {c.reading}, and stored is {old.reading}')
        else:
            _near_the_stored_ones(said, c, old, stored, familiar)


def _near_the_stored_ones(said: Judgement, c: Claim, old: Claim, stored: list[Ledger],
                          familiar: bool) -> None:
    """Rule 1, of a count that is not whole: it is near what is stored."""
    ends = _stored_range(c, old, stored)
    if ends is None:
        return
    low, high = ends
    off = max(low / c.value, c.value / high)        # a factor, above 1 outside of the range
    between = f'{low:.4g}' if low == high else f'{low:.4g} to {high:.4g}'
    about = f'{c.id}: {c.reading}, and stored is {between}'
    if off > FAR and familiar:
        said.red.append(about)
    elif off > FAR:
        said.findings.append(about)
    elif off > NEAR:
        said.notes.append(about)


def _timed_failures(said: Judgement, found: list[Claim], lines: dict[str, str], familiar: bool,
                    twice: dict[str, list[str]]) -> None:
    """Rule 2: a timed result may fail where a line expects it; else it is tried again, once."""
    timed = [c for c in found if c.timed and c.bounded]
    for c in timed:
        if c.verdict != 'fails' or c.id in lines:
            continue
        about = f'{c.id}: {c.reading}; tested: {c.bound}'
        if not familiar:
            said.findings.append(about)
        elif c.id not in twice:
            said.again.append(c.id)
            said.red.append(f'fails, and no line of {EXPECTED} expects it on this kind of machine: {about}')
        elif 'fails' in twice[c.id]:
            said.red.append(f'fails twice, in two fresh kernels: {about}')
        else:
            outcome = twice[c.id][0] if twice[c.id] else 'was gone'
            said.notes.append(f'failed once and then {outcome}: {about}')
    said.notes += [f'failed as expected: {c.id}: {c.reading}; tested: {c.bound} ({lines[c.id]})'
                   for c in timed if c.verdict == 'fails' and c.id in lines]
    said.notes += [f'expected to fail, and holds: {c.id}: {c.reading}' for c in timed
                   if c.verdict == 'holds' and c.id in lines and lines[c.id]]


def _still_tested(said: Judgement, found: list[Claim], same: list[Ledger], like: list[Ledger],
                  reference: dict[str, Claim]) -> None:
    """Rule 3: what this kind of machine can test is not lost for good."""
    out = {'holds', 'fails', claiming.MEASURED}
    for c in found:
        if c.verdict in out or c.transient:
            continue
        condition = conditions.known.get(c.lacked)
        comparable = like if condition is None or condition.system else same
        records = [led.records[c.id] for led in comparable if c.id in led.records]
        named = reference.get(c.id)
        if any(out & set(record.verdicts) for record in records):
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
    theirs = [led.records[c.id].result for led in stored if c.id in led.records]
    values = [old.value, *(other.value for other in theirs if other.unit == c.unit)]
    known = [x for x in values if x is not None]
    comparable = known and min(known) > 0 and math.isfinite(max(known)) and c.value > 0
    return (min(known), max(known)) if comparable else None
