"""Results, machines and ledgers, made up for tests."""

from dataclasses import replace

from tested_results import claims, conditions, judgement, ledgers
from tested_results.claims import Claim
from tested_results.ledgers import Ledger, Record

HERE = {'processor': 'Some Processor', 'cores': 2, 'memory_gib': 8, 'gpus': [], 'system': 'Linux x86_64',
        'python': '3.11.7', 'numpy': '1.23.5', 'mxnet': '1.9.1', 'torch': '2.13.0'}
OTHER = {**HERE, 'processor': 'Another Processor'}
BIG = {**OTHER, 'cores': 64}
NEW = {**BIG, 'processor': 'A Processor that nobody has recorded'}


def passes(lacked):
    """Whether the want of it may pass."""
    known = conditions.known.get(lacked)
    return known is not None and known.transient or lacked in (claims.NOISE, claims.DISTURBED)


def result(id, verdict='holds', kind='ratio', lacked='', needs=(), value=3.0, **more):
    """A result as a run finds it."""
    timed = kind in ('ratio', 'estimate')
    numbers = {'value': None if kind == 'fact' else value}
    if timed and verdict in ('holds', 'fails', 'measured'):
        numbers |= {'low': 0.9 * value, 'high': 1.1 * value}
    elif timed:
        numbers = {}
    bound = {} if kind == 'fact' or verdict == 'measured' else {'above': 2.0}
    unit = '×' if kind == 'ratio' else ''
    return Claim(id, kind, verdict, **{'unit': unit, **bound, **numbers, **more}, lacked=lacked,
                 transient=passes(lacked), reason=f'no {lacked}' * bool(lacked), needs=tuple(needs),
                 where=HERE, machine='m')


def ledger_of(found, machine=HERE):
    """A ledger of one run of a machine."""
    records = {c.id: Record.of(c.id, Record.of_runs(c).data(), machine) for c in found}
    return Ledger('one', machine, records)


def without(c, lacked, verdict='not testable here'):
    """A result that has lost its outcome for want of this."""
    return replace(c, verdict=verdict, lacked=lacked, reason='gone', transient=passes(lacked), value=None,
                   low=None, high=None)


def many(n=100, **how):
    return [result(f'c-{i}', **how) for i in range(n)]


def line(id, machine=HERE, reason='known'):
    """A row of ``expected.csv``."""
    return {'id': id, 'machine': machine if machine == '*' else ledgers.kind(machine), 'reason': reason}


def judge(found, old, machine=HERE, known=(), twice=None, stored=None):
    """What a run means where ``old`` is stored, in the notebooks and in a ledger of this machine."""
    reference = {c.id: c for c in old}
    return judgement.judge(found, machine, [ledger_of(old)] if stored is None else stored, reference,
                         list(known), twice)
