"""In the kernel of a mutated notebook: which claims are measured, and with which fault.

A first cell that ``tools/mutants.py`` puts into the notebook calls one of these.
"""

import math
from collections.abc import Callable

from d2l_local import claims, timing

FAULTS = ('same', 'swap')     # of a pair
_measure = claims.claim


def fault(name: str, slow: Callable, fast: Callable, below: float | None) -> tuple[Callable, Callable]:
    """The pair with a fault planted: the claim must not hold then."""
    if below is not None:
        # "About the same" survives a swap; it must not survive work done three times over.
        times = math.ceil(2 * max(1.0, below))
        return lambda: [slow() for _ in range(times)][-1], fast
    return {'same': (slow, slow), 'swap': (fast, slow)}[name]


def _replace(claim: Callable) -> None:
    timing.SPAN /= 4       # a fault that is there to be seen shows in a second
    claims.claim = claim


def _not_measured(id: str, sentence: str) -> claims.Claim:
    return claims.Claim(id, sentence, 'fact', '', 'not testable here')


def only(wanted: str) -> None:
    """Measure one claim of the notebook; the others cost no time and show nothing."""
    def claim(id, sentence, what, **how):
        return _measure(id, sentence, what, **how) if id == wanted else _not_measured(id, sentence)
    _replace(claim)


def pairs() -> None:
    """Measure each ratio with each fault of a pair in turn, and nothing else."""
    def claim(id, sentence, what, **how):
        if not isinstance(what, tuple):
            return _not_measured(id, sentence)
        for name in FAULTS:
            found = _measure(id, sentence, fault(name, *what, how.get('below')), **how)
        return found
    _replace(claim)
