"""Two ledgers side by side: what changed from one release, or one machine, to another."""

import math
from dataclasses import dataclass

from tested_results.claims import Claim
from tested_results.judgement import NEAR
from tested_results.ledgers import Ledger, Record, interval_between_runs

SIDES, NUMBERS, COUNTS = 'on the other side of its bound', 'outside of its interval', 'another count'


@dataclass(frozen=True)
class Change:
    """A result that two ledgers do not have in common: how it changed, one of the three words above."""

    how: str
    old: Claim
    new: Claim

    @property
    def factor(self) -> float:
        """How many times the old value the new one is; 1 where there is no such number."""
        if not self.old.value or self.new.value is None or self.new.value / self.old.value <= 0:
            return 1.0
        return self.new.value / self.old.value

    def row(self, title: str) -> str:
        """The change as a row of a table in Markdown: a title, bound, both outcomes, and how it changed."""
        cells = [title, self.old.bound or 'nothing', f'{self.old.reading} {self.old.verdict}',
                 f'{self.new.reading} {self.new.verdict}', self.how]
        return '| ' + ' | '.join(cell.strip() for cell in cells) + ' |'


def changes(old: Ledger, new: Ledger) -> list[Change]:
    """The results of both ledgers that differ by more than chance would explain, the largest changes first.

    A result has changed if its verdict did, or if its intervals have no value in common, or if it is a
    count and another one. Of a ledger with several runs the interval between runs counts; with one run,
    only that of the run is known, which is narrower than what a second run of the same release would show:
    try those results once more before you believe them.
    """
    found = []
    for id, before in old.records.items():
        after = new.records.get(id)
        how = _how(before, old, after, new) if after else ''
        if how:
            found.append(Change(how, before.result, after.result))
    order = [SIDES, COUNTS, NUMBERS]
    return sorted(found, key=lambda change: (order.index(change.how), -abs(math.log(change.factor))))


def _how(before: Record, old: Ledger, after: Record, new: Ledger) -> str:
    """How a result changed; empty if it did not."""
    one, two = before.result, after.result
    if one.decided and two.decided and one.verdict != two.verdict:
        return SIDES
    if one.value is None or two.value is None or one.unit != two.unit:
        return ''
    if one.kind == 'count':
        whole = one.value == round(one.value) and two.value == round(two.value)
        return COUNTS if one.value != two.value and (whole or not _near(one.value, two.value)) else ''
    first, second = _interval(before, old), _interval(after, new)
    if first is None or second is None:
        return ''
    return NUMBERS if first[1] < second[0] or second[1] < first[0] else ''


def _near(a: float, b: float) -> bool:
    return a * b > 0 and max(a / b, b / a) <= NEAR


def _interval(record: Record, ledger: Ledger) -> tuple[float, float] | None:
    if len(record.runs) > 1:
        return interval_between_runs(record, ledger.typical)
    if record.result.low is None or record.result.high is None:
        return None
    return record.result.low, record.result.high


def table(old: Ledger, new: Ledger) -> str:
    """The changes as Markdown, below a line that says how many results were compared."""
    both = old.records.keys() & new.records.keys()
    found = changes(old, new)
    lines = [f'{len(both)} results are in both ledgers; {len(found)} changed.', '', *head(old, new),
             *(change.row(f'`{change.old.id}`') for change in found)]
    return '\n'.join(lines) + '\n'


def head(old: Ledger, new: Ledger) -> list[str]:
    """The first two lines of a table whose rows are those of :meth:`Change.row`."""
    return [f'| result | tested | {_name(old, new)} | {_name(new, old)} | it is |', '|---|---|---|---|---|']


def _name(ledger: Ledger, other: Ledger) -> str:
    """What tells a ledger from the other one: its releases, or its machine."""
    words = [] if ledger.kind == other.kind else [ledger.kind]
    for what in ('torch', 'mxnet', 'numpy', 'python'):
        if ledger.machine[what] != other.machine[what]:
            words.append(f'{what} {ledger.machine[what] or "absent"}')
    return ', '.join(words) or ledger.name
