"""A model serves requests: one alone, or many at once in the slots of a batch.

Every answer is the most probable one (greedy), so that two servers can be compared token by token.
"""

from collections import deque
from dataclasses import dataclass, field

import torch

from small_gpt.model import GPT, Cache


class QueueFull(RuntimeError):
    """The queue holds as many requests as the server takes."""


def generate(net: GPT, prompts: torch.Tensor, n: int, cached: bool = True,
             gradients: bool = False) -> torch.Tensor:
    """The ``n`` tokens (B, n) that follow prompts of equal length (B, T), each the most probable one.

    Without the cache the model reads everything again for each new token; with ``gradients``,
    autograd keeps what a backward pass would need.
    """
    tokens, new = prompts, prompts
    cache = Cache(net, len(prompts)) if cached else None
    with torch.set_grad_enabled(gradients):
        for _ in range(n):
            new = net(new if cached else tokens, cache)[:, -1:].argmax(-1)
            tokens = torch.cat([tokens, new], 1)
    return tokens[:, prompts.shape[1]:]


@dataclass(eq=False)
class Request:
    """A prompt (T,), how many tokens are wanted, and what became of it; times are decode steps."""

    prompt: torch.Tensor
    limit: int
    arrived: int = 0
    finished: int | None = None
    error: str = ''
    answer: list[int] = field(default_factory=list)


class Server:
    """Answers requests in the slots of one batch, a token for each of them in a step.

    Args:
        slots: requests that are answered at the same time.
        waiting: requests that may wait for a slot.
        continuous: a free slot is given away in the next step. Otherwise (static batching) new requests
            come in only when all of a batch have been answered.
    """

    def __init__(self, net: GPT, slots: int = 8, waiting: int = 64, continuous: bool = True) -> None:
        self.net, self.waiting, self.continuous = net, waiting, continuous
        self.cache = Cache(net, slots)
        self.last = torch.zeros(slots, 1, dtype=torch.long)     # the token that each slot gave last
        self.active: list[Request | None] = [None] * slots
        self.queue: deque[Request] = deque()
        self.steps = 0

    def submit(self, prompt: torch.Tensor, limit: int) -> Request:
        """Queue a request for ``limit`` tokens after the prompt (T,).

        Raises:
            ValueError: the prompt is empty, or prompt and answer are longer than the model's context.
            QueueFull: too many requests wait already; those are not disturbed.
        """
        if len(prompt) == 0 or limit < 1:
            raise ValueError('a request needs a prompt of at least one token, and asks for at least one')
        if len(prompt) + limit > self.net.context + 1:
            raise ValueError(f'{len(prompt)} tokens and {limit} more do not fit into the context of '
                             f'{self.net.context}: shorten the prompt, or ask for less')
        if len(self.queue) >= self.waiting:
            raise QueueFull(f'{self.waiting} requests wait already: try again later')
        request = Request(prompt, limit, self.steps)
        self.queue.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """Drop a request, whether it waits or is being answered; its slot is free in the next step."""
        if request.finished is None:
            request.error, request.finished = 'cancelled', self.steps
            self.active = [None if r is request else r for r in self.active]
            if request in self.queue:
                self.queue.remove(request)

    def step(self) -> bool:
        """Admit, then compute one token for each request in a slot; whether there was anything to do."""
        if self.continuous or not any(self.active):
            for slot in range(len(self.active)):
                while self.active[slot] is None and self.queue:     # one token is answered at once
                    self._admit(slot, self.queue.popleft())
        if not any(self.active):
            return False
        self.steps += 1
        occupied = torch.tensor([request is not None for request in self.active])
        self.cache.length = torch.where(occupied, self.cache.length, 0)     # free slots start anew
        with torch.no_grad():
            self.last = self.net(self.last, self.cache)[:, -1:].argmax(-1)
        for slot, request in enumerate(self.active):
            if request is not None:
                self._give(slot, request, int(self.last[slot]))
        return True

    def _admit(self, slot: int, request: Request) -> None:
        """Prefill: read the prompt at once, which gives the first token."""
        one = Cache(self.net, 1)
        with torch.no_grad():
            token = int(self.net(request.prompt[None], one)[0, -1].argmax())
        self.cache.kv[:, :, slot] = one.kv[:, :, 0]
        self.cache.length[slot] = one.length[0]
        self.last[slot] = token
        self.active[slot] = request
        self._give(slot, request, token)

    def _give(self, slot: int, request: Request, token: int) -> None:
        request.answer.append(token)
        if len(request.answer) == request.limit:
            request.finished = self.steps
            self.active[slot] = None

    def run(self) -> int:
        """Step until all requests have been answered; returns the number of steps."""
        before = self.steps
        while self.step():
            pass
        return self.steps - before
