"""The planner: how long a training step takes, and what a GPU keeps, by formulas.

``planner.ipynb`` derives the terms, and ``planner_tested.ipynb`` compares them with published runs. Times are
in seconds and sizes in bytes.
"""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Run:
    """A model, a training step, a cluster, and how they are divided."""

    tokens: int             # of a step
    n: float                # parameters
    layers: int
    width: int
    length: int             # tokens of an example
    hosts: int
    per_host: int = 8       # GPUs of a host
    tensor: int = 1         # GPUs of a tensor group
    context: int = 1        # GPUs that share the tokens of an example
    stages: int = 1         # of a pipeline
    micro: int = 1          # micro-batches, with or without a pipeline
    chunks: int = 1         # chunks of layers of a stage
    active: float = 1       # share of the parameters that a token meets
    keys: float = 1         # heads of keys for each head of queries
    inside: float = 450e9   # bytes/s that a GPU sends inside its host
    adapters: int = 8       # network adapters of a host
    gbit: float = 400       # Gbit/s of each adapter
    peak: float = 989e12    # FLOP/s of a GPU
    kernels: float = 0.4    # the share of the peak that kernels reach
    element: int = 2        # bytes of an element: bfloat16 2, float32 4
    kept: float = 34        # bytes of activations for a token and layer, in units of the width; with 2, all
                            # are computed twice
    memory: float = 80e9    # bytes of a GPU

    @property
    def gpus(self):
        return self.per_host * self.hosts

    @property
    def data(self):
        """Data-parallel ranks, each with examples of its own."""
        return self.gpus / (self.tensor * self.context * self.stages)

    @property
    def between(self):
        """Bytes per second that come into a host."""
        return self.adapters * self.gbit * 1e9 / 8

    @property
    def longest(self):
        """Layers of the longest stage."""
        if self.stages == 1:
            return self.layers
        chunk = math.ceil(self.layers / (self.stages * self.chunks))
        return chunk * self.chunks

    @property
    def again(self):
        """Whether all activations are computed twice."""
        return self.kept <= 2

    @property
    def activation(self):
        """Bytes between two layers, of all tokens that a GPU has in a step."""
        tokens = self.tokens / (self.data * self.context)
        return self.element * tokens * self.width


def flops(r):
    """FLOPs of a step; what is computed twice counts once."""
    attention = 12 * r.layers * r.width * r.length
    return r.tokens * (6 * r.n * r.active + attention)


def compute(r):
    """Seconds of arithmetic in the longest stage."""
    twice = 4 / 3 if r.again else 1
    uneven = r.longest * r.stages / r.layers
    return flops(r) * twice * uneven / (r.gpus * r.peak * r.kernels)


def tensor_sums(r):
    """Seconds of tensor parallelism: all-reduces that nothing hides."""
    sums = (6 if r.again else 4) * r.longest
    share = 2 * (r.tensor - 1) / r.tensor
    return sums * share * r.activation / r.inside


def context_gathers(r):
    """Seconds of context parallelism: keys and values of other GPUs."""
    turns = (4 if r.again else 3) * r.longest
    own = 2 * r.keys * r.activation / r.tensor      # keys and values
    in_a_host = r.tensor * r.context <= r.per_host
    rate = r.inside if in_a_host else r.between / r.per_host
    return turns * own * (r.context - 1) / rate


def shards(r):
    """Seconds of sharding that are exposed, at least one layer's share."""
    passes = r.micro if r.stages == 1 else 1
    gathers = 2 if r.stages == 1 else 1
    gradients = 4                                   # in float32
    traffic = passes * (gathers * r.element + gradients) * r.n / r.stages
    ranks = r.data * r.context
    into_host = traffic * max(1 - r.stages / r.hosts, 0) / r.between
    into_gpu = traffic / r.tensor * (ranks - 1) / ranks / r.inside
    time = max(into_host, into_gpu)
    return max(time - compute(r), time / r.longest)


def bubble(r):
    """Seconds in which a stage waits for the first and the last micro-batch."""
    work = compute(r) + tensor_sums(r) + context_gathers(r)
    return (r.stages - 1) / (r.micro * r.chunks) * work


def cuts(r):
    """Seconds of activations and their gradients between stages."""
    sent = 2 * r.chunks * r.activation / r.tensor
    rate = r.between / r.per_host if r.hosts > 1 else r.inside
    return sent / rate if r.stages > 1 else 0


def in_flight(r):
    """The part of a step's micro-batches that a stage keeps at a time."""
    if r.stages == 1:
        return 1 / r.micro
    more = (r.stages - 1) / r.chunks if r.chunks > 1 else 0
    return min((r.stages + more) / r.micro, 1)


def bytes_kept(r):
    """Bytes of a GPU: state, what is whole for a while, and activations."""
    state = 16 * r.n / r.gpus
    whole = r.n / (r.layers if r.stages == 1 else r.stages) / r.tensor
    weights = r.element * whole * (2 if r.stages == 1 else 1)
    gradients = 4 * whole                           # in float32
    layer = r.activation / r.tensor / 2             # for each unit of `kept`
    activations = r.kept * layer * r.longest * in_flight(r)
    recomputed = (34 - r.kept) * layer / r.micro    # of one layer
    return state + weights + gradients + activations + recomputed


def parts(r):
    """The parts of a step in seconds, their sum, and the bytes that a GPU keeps; for any run."""
    found = {'compute': compute(r), 'tensor': tensor_sums(r), 'context': context_gathers(r),
             'shards': shards(r), 'bubble': bubble(r), 'cuts': cuts(r)}
    step, total = sum(found.values()), bytes_kept(r)
    return {**found, 'step': step, 'mfu': flops(r) / (step * r.gpus * r.peak),
            'rate': r.tokens / step / r.gpus, 'kept': total, 'advice': advice(total, r.memory)}


def plan(**about: Any) -> dict[str, Any]:
    """The parts of a step in seconds, and the bytes that a GPU keeps.

    Args:
        about: the fields of :class:`Run`.

    Raises:
        ValueError: the degrees do not divide what they share; it says what would.
    """
    r = Run(**about)
    check(r)
    return parts(r)


def fit(what: str, value: float, about: dict[str, Any]) -> float:
    """The share of the peak with which the planner gives this value of ``'mfu'`` or ``'rate'``."""
    low, high = 0.01, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if plan(**about, kernels=middle)[what] < value:
            low = middle
        else:
            high = middle
    return middle


def advice(total, memory):
    """About memory. The estimate can be a quarter too low or a third too high."""
    if total <= 3 / 4 * memory:
        return ''
    sure = 'does' if total > 4 / 3 * memory else 'may'
    return (f'It {sure} not fit: {total / 1e9:.1f} of {memory / 1e9:.0f} GB. '
            'Recompute activations, use fewer tokens for each GPU, or split further.')


def check(r):
    """Raise ValueError where the degrees do not divide what they share."""
    if min(r.tensor, r.context, r.stages, r.micro, r.chunks) < 1:
        raise ValueError('A number of GPUs, stages, micro-batches or chunks is at least 1.')
    if r.per_host % r.tensor:
        raise ValueError(
            f'Tensor groups of {r.tensor} do not fill hosts of {r.per_host} GPUs. Choose a number that '
            f'divides {r.per_host}.')
    if r.gpus % (r.tensor * r.context * r.stages):
        raise ValueError(
            f'{r.gpus:,} GPUs cannot be divided into {r.stages} stages, tensor groups of {r.tensor} and '
            f'context groups of {r.context}. Choose degrees whose product divides {r.gpus:,}.')
    # Embedding and output may be chunks of their own, as in Llama 3 405B.
    if r.stages > 1 and r.stages * r.chunks > r.layers + 2:
        raise ValueError(
            f'{r.stages} stages of {r.chunks} chunks are more than {r.layers} layers, an embedding and an '
            'output can fill.')
    if r.tokens < r.data * r.length:
        raise ValueError(
            f'With {r.data:,.0f}-fold data parallelism each rank needs an example of {r.length:,} tokens, '
            f'and a step has {r.tokens:,} tokens. Use more tokens, or fewer ranks: larger groups, or more '
            'stages.')
    examples = r.tokens // (r.data * r.length)
    if examples < r.micro:
        raise ValueError(
            f'With {r.data:,.0f}-fold data parallelism a rank has {examples:,.0f} of the examples of a step, '
            f'too few for {r.micro} micro-batches. Use at most {examples:,.0f}, or more tokens in a step.')
