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
    """A file that is no ledger of these results; the message says why."""


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
    for i, c in data['claims'].items():
        if c['verdicts'][:1] != [c['verdict']]:
            raise refuse(f'the verdicts of {i} do not begin with {c["verdict"]!r}')
        if not all(map(math.isfinite, c['runs'])):
            raise refuse(f'the runs of {i} are not finite')
    if ids is not None and (unknown := set(data['claims']) - set(ids)):
        raise refuse(f'it has results that nothing makes: {", ".join(sorted(unknown)[:5])}')
    return Ledger(path.stem, data['machine'], data['claims'], data.get('part', ''))


def completed(found: dict[str, Claim], machines: Iterable[Ledger]) -> dict[str, Claim]:
    """These results; in the place of one that its machine could not test, that of a machine that could."""
    def of_another(c: Claim) -> Claim:
        theirs = (led.claim(c.id) for led in machines if c.value is None and not c.decided)
        return next((o for o in theirs if o and o.value is not None), c)
    machines = list(machines)
    return {id: of_another(c) for id, c in found.items()}


def claims_of(nb: Any) -> list[Claim]:
    """The results in the outputs of a notebook."""
    return [Claim.of(json.loads(json.dumps(out.metadata[claiming.METADATA_KEY]))) for cell in nb.cells
            if cell.cell_type == 'code' for out in cell.outputs
            if claiming.METADATA_KEY in out.get('metadata', {})]


def entry(claim: Claim, further: Iterable[dict] = ()) -> dict:
    """A result as a ledger holds it, from the run that is shown and from further ones."""
    data = json.loads(json.dumps(claim.data()))
    runs = [{k: data[k] for k in KEPT}, *further]
    short = {k: data[k] for k in CLAIM if k not in ('runs', 'verdicts')}
    return {**short, 'runs': [c['value'] for c in runs if c['low'] is not None],
            'verdicts': [c['verdict'] for c in runs]}


def text(found: dict[str, Claim], further: dict[str, list[dict]]) -> str:
    """This machine's results as a ledger, in JSON.

    Args:
        found: the results of the run that is shown, by id.
        further: of further runs, what :data:`KEPT` names of each result, by id.
    """
    here = machine.machine()
    about = {name: here[name] for name in (*MACHINE, *VERSIONS)}
    entries = {id: entry(claim, further.get(id, [])) for id, claim in found.items()}
    data = {'version': VERSION, 'machine': about, 'claims': entries}
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
