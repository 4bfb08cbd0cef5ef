"""The reader's own machine, measured: what the notebooks beside this folder use.

``kernels`` are small loops, each for one part of the machine. ``core``, ``memory`` and ``devices``
make figures of them, ``ladder`` and ``roofline`` put them together, and ``figures`` shows them.
``gpu`` needs PyTorch; all others know no framework. A notebook imports the modules that it uses.
"""

from collections.abc import Callable
from typing import Any

KIB, MIB = 2 ** 10, 2 ** 20


class NotHere(Exception):
    """This machine cannot show the figure; the message says why, and what would help."""


def or_reason(measure: Callable[[], Any]) -> Any:
    """What ``measure`` returns, or, as text, the reason why this machine cannot show it."""
    try:
        return measure()
    except (NotHere, ImportError, MemoryError, RuntimeError, OSError) as e:
        return str(e).split('\n')[0] or type(e).__name__
