"""The reader's own machine, measured: kernels, their sampler, and what is made of them.

``passport()`` says what the machine is, ``ladder()`` puts its latencies beside the textbook's,
``staircase()`` finds its caches. The kernels need numba; no framework is needed.
"""

from d2l_local.hardware import needs  # noqa: F401  (conditions of these pages)
from d2l_local.hardware.core import (  # noqa: F401
    arithmetic,
    at_once,
    branch_times,
    clock,
    count_apart,
    line_transfer,
    mispredict,
    mutex,
    patterns,
    peaks,
    sharing,
)
from d2l_local.hardware.devices import (  # noqa: F401
    Disk,
    NotHere,
    disk_figures,
    numpy_add,
    python_call,
    round_trip,
    send_in_pieces,
    snappy,
)
from d2l_local.hardware.figures import draw_staircase, roofline  # noqa: F401
from d2l_local.hardware.ladder import Row, ladder  # noqa: F401
from d2l_local.hardware.ladder import draw as draw_ladder  # noqa: F401
from d2l_local.hardware.ladder import table as ladder_table  # noqa: F401
from d2l_local.hardware.memory import (  # noqa: F401
    KIB,
    MIB,
    STREAM_BYTES,
    bandwidth,
    edges,
    latency,
    misaligned,
    reported_caches,
    ring,
    sizes,
    staircase,
    stride_times,
)
from d2l_local.hardware.passport import Passport, passport  # noqa: F401
from d2l_local.hardware.roof import Roof, beyond_caches, in_turn, roof  # noqa: F401
from d2l_local.hardware.sampler import Figure, figure, sample  # noqa: F401
from d2l_local.hardware.table import Table  # noqa: F401
