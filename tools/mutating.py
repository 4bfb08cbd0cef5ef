"""In the kernel of a mutated notebook: which results are measured, and with which fault.

A first cell that ``tools/mutants.py`` puts into the notebook calls one of these.
"""

from collections.abc import Callable
from typing import Any

from tested_results import claims, timing

FAULTS = ('same', 'swap')     # of a pair
TIMES = 2                     # so much more work, where a bound says "no more than": whatever the bound is
_measure = claims._result


def fault(name: str, slow: Callable, fast: Callable, below: float | None) -> tuple[Callable, Callable]:
    """The pair with a fault planted: the statement must not hold then."""
    if below is not None:
        # "About the same" survives a swap; it must not survive work done twice over.
        return lambda: [slow() for _ in range(TIMES)][-1], fast
    return {'same': (slow, slow), 'swap': (fast, slow)}[name]


def _replace(result: Callable) -> None:
    timing.SPAN /= 4       # a fault that is there to be seen shows in a second
    claims._result = result


def _not_measured(id: str) -> claims.Claim:
    return claims.Claim(id, 'fact', 'not testable here')


def only(wanted: str) -> None:
    """Measure one result of the notebook; the others cost no time and show nothing."""
    def result(id: str, *args: Any, **how: Any) -> claims.Claim:
        return _measure(id, *args, **how) if id == wanted else _not_measured(id)
    _replace(result)


def pairs() -> None:
    """Measure each ratio that has a bound with each fault of a pair in turn, and nothing else."""
    def result(id: str, kind: str, what: Any, unit: str, above: float | None, below: float | None,
               needs: Any, how: dict, *more: Any, **rest: Any) -> claims.Claim:
        if kind != 'ratio' or (above is None and below is None):
            return _not_measured(id)
        for name in FAULTS:
            kept = {k: v for k, v in how.items() if k != 'work'} | {'agree': False}    # of the fault
            found = _measure(id, kind, fault(name, *what, below), unit, above, below, needs, kept, *more,
                             **rest)
        return found
    _replace(result)
