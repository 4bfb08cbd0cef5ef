"""In the kernel of a mutated notebook: which claims are measured, and with which fault.

``tools/mutants.py`` puts a first cell into the notebook that calls one of these.
"""

import os

from d2l_local import claims, timing

_measure = claims.claim
timing.SPAN /= 4       # a fault that is there to be seen shows in a second


def only(wanted: str) -> None:
    """Measure one claim of the notebook; the others cost no time and show nothing."""
    def claim(id, sentence, what, **how):
        if id == wanted:
            return _measure(id, sentence, what, **how)
        return claims.Claim(id, sentence, 'fact', '', 'not testable here')
    claims.claim = claim


def pairs() -> None:
    """Measure each ratio with each fault of a pair in turn, and nothing else."""
    def claim(id, sentence, what, **how):
        if not isinstance(what, tuple):
            return claims.Claim(id, sentence, 'fact', '', 'not testable here')
        for os.environ['D2L_MUTANT'] in claims.MUTANTS:
            found = _measure(id, sentence, what, **how)
        return found
    claims.claim = claim
