"""Ledgers: the results of one machine in a file, and what several runs say of a result.

A ledger is JSON: every result with its verdict and interval in one run, and the verdicts and medians of all
runs. It names processor, cores, memory, GPUs and versions, and nothing personal. Needs ``jsonschema``.
"""

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from tested_results import claims as claiming
from tested_results import machine, timing
from tested_results.claims import Claim

VERSION = 4
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
FRAMEWORKS = ('torch', 'mxnet')
VERSIONS = {name: {'type': ['string', 'null']} for name in ('numpy', 'mxnet', 'torch')}


def _exactly(properties: dict, optional: dict | None = None) -> dict:
    return {'type': 'object', 'properties': properties | (optional or {}), 'required': list(properties),
            'additionalProperties': False}


SCHEMA = _exactly({'version': {'const': VERSION}, 'machine': _exactly(MACHINE, VERSIONS),
                   'claims': {'type': 'object', 'additionalProperties': _exactly(CLAIM)}},
                  {'part': {'type': 'string', 'minLength': 1}})
FIELDS = [name for name in CLAIM if name not in ('runs', 'verdicts')]      # of a result
KEPT = ('verdict', 'value', 'low', 'high')       # of each result of a repetition
# Two-sided 95% quantiles of Student's t with 1, 2, … degrees of freedom.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)


class Refused(ValueError):
    """A file that is no ledger of these results; the message says why."""


@dataclass(frozen=True)
class Record:
    """A result as a ledger has it.

    Attributes:
        result: of the run that is shown.
        runs: the medians of all runs, that one first; a run without an interval is not among them.
        verdicts: of all runs, in the same order.
    """

    result: Claim
    runs: list[float]
    verdicts: list[str]

    @classmethod
    def of_runs(cls, result: Claim, further: Iterable[dict] = ()) -> 'Record':
        """A record of the run that is shown and of further ones; of these, what :data:`KEPT` names."""
        every_run = [result.data(), *further]
        return cls(result, runs=[run['value'] for run in every_run if run['low'] is not None],
                   verdicts=[run['verdict'] for run in every_run])

    @classmethod
    def of(cls, id: str, data: dict, machine: dict) -> 'Record':
        """The record that :meth:`data` was made of, on that machine."""
        fields = {name: data[name] for name in FIELDS}
        fields['needs'] = tuple(data['needs'])
        result = Claim(id, **fields, where=machine, machine=kind(machine))
        return cls(result, data['runs'], data['verdicts'])

    def data(self) -> dict:
        """The record for JSON, as :data:`CLAIM` has it."""
        result = self.result.data()
        fields = {name: result[name] for name in FIELDS}
        fields['needs'] = list(fields['needs'])
        return {**fields, 'runs': self.runs, 'verdicts': self.verdicts}


@dataclass(frozen=True)
class Ledger:
    """One machine's results: a record of each, by id.

    ``part`` says what was run where it was not the whole book.
    """

    name: str
    machine: dict
    records: dict[str, Record]
    part: str = ''

    @property
    def kind(self) -> str:
        """What kind of machine it is: processor, cores, GPUs, system."""
        return kind(self.machine)

    @cached_property
    def typical(self) -> float:
        """The typical standard deviation of the logarithms of a result's medians between runs."""
        deviations = []
        for record in self.records.values():
            if len(record.runs) > 1 and min(record.runs) > 0:
                logarithms = [math.log(x) for x in record.runs]
                deviations.append(math.sqrt(_variance(logarithms)))
        if not deviations:
            return math.log(timing.MARGIN)
        return median(deviations)

    def result(self, id: str) -> Claim | None:
        """This machine's result of that id, of the run that is shown."""
        record = self.records.get(id)
        return record.result if record else None


def kind(m: dict) -> str:
    """The kind of a machine: the same for two machines that should give the same results."""
    return ', '.join([m['processor'], f'{m["cores"]} cores', *(m['gpus'] or ['no GPU']), m['system']])


def same_but_for_processor(a: dict, b: dict) -> bool:
    """Whether two machines differ in the processor at most."""
    return all(a[k] == b[k] for k in ('cores', 'gpus', 'system'))


def releases(m: dict) -> dict[str, str]:
    """The frameworks that a machine had, and their releases: ``2.13.0`` for the build ``2.13.0+cpu``."""
    return {name: m[name].split('+')[0] for name in FRAMEWORKS if m.get(name)}


def same_releases(a: dict, b: dict) -> bool:
    """Whether two runs had the same releases of those frameworks that both had."""
    ours, theirs = releases(a), releases(b)
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def slug(m: dict) -> str:
    """A file's name for this kind of machine with these releases of the frameworks."""
    words = [kind(m)]
    for name, release in releases(m).items():
        words += [name, release]
    return re.sub(r'[^a-z0-9]+', '-', ' '.join(words).lower()).strip('-')


def load(path: Path, ids: Iterable[str] | None = None) -> Ledger:
    """Read and check a ledger.

    Args:
        ids: of all results that there are; a ledger that has others is refused.

    Raises:
        Refused: it is not JSON, is of another version or form, or names unknown results.
    """
    def refuse(why: str) -> Refused:
        return Refused(f'{path.name} is no ledger of these results: {why}.')
    try:
        data = json.loads(path.read_text())
    except (ValueError, UnicodeDecodeError) as e:
        raise refuse(f'it is not JSON, or was not written to its end ({e})') from None
    if error := best_match(Draft202012Validator(SCHEMA).iter_errors(data)):
        raise refuse(f'at {error.json_path.removeprefix("$.")}: {error.message}')
    for id, about in data['claims'].items():
        if about['verdicts'][:1] != [about['verdict']]:
            raise refuse(f'the verdicts of {id} do not begin with {about["verdict"]!r}')
        if not all(map(math.isfinite, about['runs'])):
            raise refuse(f'the runs of {id} are not finite')
    if ids is not None and (unknown := set(data['claims']) - set(ids)):
        raise refuse(f'it has results that nothing makes: {", ".join(sorted(unknown)[:5])}')
    records = {id: Record.of(id, about, data['machine']) for id, about in data['claims'].items()}
    return Ledger(path.stem, data['machine'], records, data.get('part', ''))


def comparable(stored: Iterable[Ledger], m: dict) -> list[Ledger]:
    """The ledgers of a machine's kind whose runs had the same releases of the frameworks."""
    return [led for led in stored if led.kind == kind(m) and same_releases(led.machine, m)]


def one_of_each_kind(stored: Iterable[Ledger]) -> list[Ledger]:
    """One ledger of each kind of machine: a whole one if there is one, and of those the first by name."""
    chosen: dict[str, Ledger] = {}
    for led in stored:
        other = chosen.get(led.kind)
        if other is None or other.part and not led.part:
            chosen[led.kind] = led
    return list(chosen.values())


def load_all(folder: Path) -> list[Ledger]:
    """The ledgers in a folder, in the order of their names; none where there is no such folder.

    Raises:
        Refused: one of the files is none.
    """
    return [load(path) for path in sorted(folder.glob('*.json'))]


def with_results_of_other_machines(found: dict[str, Claim], machines: Iterable[Ledger]) -> dict[str, Claim]:
    """These results; in the place of one that its machine could not test, that of a machine that could."""
    ledgers = list(machines)
    full = {}
    for id, c in found.items():
        full[id] = c
        if c.value is not None or c.decided:
            continue
        for ledger in ledgers:
            theirs = ledger.result(id)
            if theirs and theirs.value is not None:
                full[id] = theirs
                break
    return full


def claims_of(nb: Any) -> list[Claim]:
    """The results in the outputs of a notebook."""
    found = []
    for cell in nb.cells:
        if cell.cell_type != 'code':
            continue
        for out in cell.outputs:
            data = out.get('metadata', {}).get(claiming.METADATA_KEY)
            if data is not None:
                plain = json.loads(json.dumps(data))        # dictionaries in the place of nbformat's nodes
                found.append(Claim.of(plain))
    return found


def text(found: dict[str, Claim], further: dict[str, list[dict]], part: str = '') -> str:
    """This machine's results as a ledger, in JSON.

    Args:
        found: the results of the run that is shown, by id.
        further: of further runs, what :data:`KEPT` names of each result, by id.
        part: what was run, where it was not everything.
    """
    here = machine.machine()
    about = {name: here[name] for name in (*MACHINE, *VERSIONS)}
    records = {id: Record.of_runs(claim, further.get(id, [])).data() for id, claim in found.items()}
    data = {'version': VERSION, 'machine': about, 'claims': records}
    if part:
        data['part'] = part
    return json.dumps(data, indent=1, ensure_ascii=False) + '\n'


# The spread between runs -------------------------------------------------------------------------

def spread(runs: list[float], typical: float) -> float:
    """The factor that covers a further run's median in 95 of 100 cases, from the medians of past runs.

    The logarithms of a claim's medians are taken as normal; their variance is moderated by the typical
    one of all results, with the weight of one run more, for two or three runs say little alone.

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


def interval_between_runs(record: Record, typical: float) -> tuple[float, float] | None:
    """The interval to show beside a figure: within a run, and between runs. None without one.

    It is cut off where a value is impossible: a share above one, a factor up or down below one.
    """
    result = record.result
    if result.low is None or result.high is None:
        return None
    low, high = result.low, result.high
    runs = [x for x in record.runs if x > 0]
    if runs and low > 0:
        centre = math.exp(fmean(math.log(x) for x in runs))
        factor = spread(runs, typical)
        low = min(low, centre / factor)
        high = max(high, centre * factor)
    return result.clipped(low), result.clipped(high)


def count_inside_intervals(claims: Iterable[Claim], ledger: Ledger) -> tuple[int, int, int]:
    """Of a new run's medians: how many lie in the intervals within a run, in the published ones; all."""
    within, between, n = 0, 0, 0
    for c in claims:
        record = ledger.records.get(c.id)
        if record is None or not c.timed or c.value is None:
            continue
        ends = interval_between_runs(record, ledger.typical)
        if ends is None:
            continue
        within += record.result.low <= c.value <= record.result.high
        between += ends[0] <= c.value <= ends[1]
        n += 1
    return within, between, n
