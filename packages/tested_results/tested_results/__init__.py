"""Results of measurements, each with its interval and, where there is a bound, with the outcome of the test.

:func:`compare` times two variants in turn and :func:`in_turn` several, :func:`estimate` repeats a
measurement, :func:`count` takes a number that no clock gave, and :func:`verify` something that is so or
not. The module ``timing`` has clocks, ratios and intervals, ``agreement`` asks whether variants compute the
same, ``kernels`` times single operations of the hardware, ``numbers`` writes numbers, ``quoting`` puts them
into a text, ``conditions`` says what a result needs of a machine, ``machine`` what this one is,
``predictions`` has guesses made before, and ``traces`` what ran when. ``ledgers`` keeps the results of
machines in files, ``judgement`` says what a new run means beside them, ``pytest_plugin`` tells pytest, and
``execution`` runs a notebook.
"""

from tested_results.claims import Claim, compare, count, estimate, in_turn, verify
from tested_results.numbers import measured
from tested_results.predictions import predict
from tested_results.timing import ratio

__all__ = ['Claim', 'compare', 'count', 'estimate', 'in_turn', 'measured', 'predict', 'ratio', 'verify']
