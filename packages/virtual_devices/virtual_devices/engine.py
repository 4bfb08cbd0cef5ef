"""Virtual CPU devices for PyTorch. Not GPUs: CPU threads that take orders as a GPU does.

An operation on a :class:`VirtualTensor` infers the shape of its result, is queued for the
device's only thread, and returns at once with a tensor whose numbers come later. The notebook
``chapters/asynchrony/asynchrony_pytorch.ipynb`` builds a smaller one of these step by step.
"""

import collections
import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from virtual_devices import schemas
from virtual_devices.surface import Surface


class Event(NamedTuple):
    """Something that a lane (a thread or a device) did from ``start`` to ``end``, in seconds.

    What takes events of ``tested_results.traces`` takes these: the fields are the same.
    """

    lane: str
    name: str
    start: float
    end: float


class VirtualDevice:
    """One worker thread with an in-order queue, which computes with one core."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.events: list[Event] = []      # what it did while `recording`
        self.recording = False
        self.lent: collections.deque[Future] = collections.deque()      # copies for other devices
        self.process = os.getpid()
        # Python drains the queue when it exits: nothing that was issued is lost.
        self._worker = ThreadPoolExecutor(1, str(self))
        threads = torch.get_num_threads()
        self._worker.submit(_one_thread).result()
        torch.set_num_threads(threads)      # or every later thread would inherit the 1

    def __repr__(self) -> str:
        return f'virtual:{self.index}'

    def submit(self, work: Callable[[], Any], name: str) -> Future:
        """Queue ``work``; the future holds its result, or its error. ``name`` is for the event."""
        self.check()
        return self._worker.submit(self._run, work, name)

    def expect(self, ready: Callable[[], Any]) -> Future:
        """Queue what is no work, and is not recorded: to wait for another device, or to be read."""
        self.check()
        return self._worker.submit(ready)

    def lend(self, copy: Future) -> None:
        """Another device will copy from this one's memory: what overwrites something waits for that."""
        while self.lent and self.lent[0].done():
            self.lent.popleft()
        self.lent.append(copy)

    def check(self) -> None:
        """Raise where the device's thread is not: in a fork of the process that made it."""
        if os.getpid() != self.process:
            raise RuntimeError(f'{self} was made by the process of which this one is a fork, and its thread '
                               'is not here: start this process by "spawn", or use devices that it has '
                               'made itself')

    def _run(self, work: Callable[[], Any], name: str) -> Any:
        start = time.perf_counter()
        try:
            with torch.no_grad():
                return work()
        finally:
            if self.recording:
                self.events.append(Event(str(self), name, start, time.perf_counter()))

    def synchronize(self) -> None:
        """Wait until everything queued so far is done."""
        self.check()
        self._worker.submit(int).result()


def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()     # makes this thread keep it: a thread asks once, at first use


class Promise:
    """One of the tensors that queued work will return, counted from 0."""

    def __init__(self, future: Future, number: int = 0) -> None:
        self.future, self.number = future, number

    def done(self) -> bool:
        """Whether it is there, or the error of the work."""
        return self.future.done()

    def result(self) -> torch.Tensor:
        """Wait for it: the tensor itself, in the memory of the device."""
        return tree_leaves(self.future.result())[self.number]


class VirtualTensor(Surface):
    """A tensor whose numbers come later. ``wait`` and ``cpu`` give an ordinary one.

    ``print``, ``item``, ``bool`` and operations whose result's shape depends on the data wait on
    their own: they are the implicit synchronizations that a GPU has too. An error in queued work is
    raised where something waits for its result. What Python asks of a tensor beside operations, its
    base class :class:`Surface` answers.
    """

    @staticmethod
    def __new__(cls, like: torch.Tensor, promise: Promise, device: VirtualDevice) -> 'VirtualTensor':
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, strides=like.stride(),
                                                   dtype=like.dtype)

    def __init__(self, like: torch.Tensor, promise: Promise, device: VirtualDevice) -> None:
        self.promise, self.place = promise, device

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten.copy_.default:        # the one operation that may be of two devices
            if not isinstance(args[0], cls):
                return args[0].copy_(args[1].read())
            args = args[0], copied(args[1], args[0].place)
        places = {a.place for a in tree_leaves((args, kwargs)) if isinstance(a, cls)}
        if len(places) > 1:
            raise RuntimeError(f'all tensors must be on one device, and these are on '
                               f"{' and '.join(sorted(map(str, places)))}: use put(x, device)")
        device, name = places.pop(), func._schema.name.split('::')[1]
        written = schemas.written(func, args, kwargs)
        # The promises as they are now: an operation in place will exchange its own later.
        held = tree_map(lambda a: a.promise if isinstance(a, cls) else schemas.as_now(a, written),
                        (args, kwargs))

        def work():
            real, named = tree_map(lambda a: a.result() if isinstance(a, Promise) else a, held)
            result = func(*real, **named)
            return [*schemas.written(func, real, named), result]

        if schemas.may_write(func) and device.lent:
            lent = list(device.lent)
            device.expect(lambda: wait(lent))       # before it is overwritten, others have copied it
        future = device.submit(work, name)
        for i, a in enumerate(written):
            if isinstance(a, cls):
                a.promise = Promise(future, i)
            else:
                future.result()     # the host reads its own memory without asking: it has to wait
        if written and not schemas.makes_new(func):
            return schemas.returned(func, args, kwargs)
        try:
            like = func(*tree_map(_shape_only, args), **tree_map(_shape_only, kwargs))
        except (NotImplementedError, RuntimeError):
            like = future.result()[-1]      # the shape depends on the data: an implicit synchronization
        leaves, form = tree_flatten(like)
        if not any(isinstance(x, torch.Tensor) for x in leaves):
            return future.result()[-1]      # a Python number, or a check that may raise
        return tree_unflatten((cls(x, Promise(future, i), device) if isinstance(x, torch.Tensor) else x
                               for i, x in enumerate(leaves, len(written))), form)


def _shape_only(x: Any) -> Any:
    """A tensor of the same shape and strides that has no numbers; other things as they are."""
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device='meta')


def copied(x: torch.Tensor, device: VirtualDevice) -> VirtualTensor:
    """A copy on a virtual device, queued there; it has the numbers that ``x`` has now.

    The copy of another device's tensor waits for that device. That of a host's tensor is taken twice, once
    at once, as a GPU does with memory that is not pinned.
    """
    if not isinstance(x, VirtualTensor):
        now = x.detach().to('cpu', copy=True)
        return VirtualTensor(now, Promise(device.submit(now.clone, 'copy')), device)
    promise = x.promise
    device.expect(promise.result)
    future = device.submit(lambda: promise.result().clone(), 'copy')
    if device is not x.place:
        x.place.lend(future)
    return VirtualTensor(_shape_only(x).clone(), Promise(future), device)
