"""Virtual CPU devices for PyTorch. Not GPUs: CPU threads that take orders as a GPU does.

An operation on a :class:`VirtualTensor` infers the shape of its result, is queued for the
device's only thread, and returns at once with a tensor whose numbers come later. The notebook
``chapters/asynchrony/asynchrony_pytorch.ipynb`` builds a smaller one of these step by step.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map


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
        # Python drains the queue when it exits: nothing that was issued is lost.
        self._worker = ThreadPoolExecutor(1, str(self))
        threads = torch.get_num_threads()
        self._worker.submit(_one_thread).result()
        torch.set_num_threads(threads)      # or every later thread would inherit the 1

    def __repr__(self) -> str:
        return f'virtual:{self.index}'

    def submit(self, work: Callable[[], Any], name: str) -> Future:
        """Queue ``work``; the future holds its result, or its error. ``name`` is for the event."""
        return self._worker.submit(self._run, work, name)

    def expect(self, ready: Callable[[], Any]) -> None:
        """Let the queue wait for another device. To wait is no work: it is not recorded."""
        self._worker.submit(ready)

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
        self._worker.submit(int).result()


def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()     # makes this thread keep it: a thread asks once, at first use


class VirtualTensor(torch.Tensor):
    """A tensor whose numbers come later. ``wait`` gives the ordinary tensor.

    ``print``, ``item``, ``bool`` and operations whose result's shape depends on the data wait on
    their own: they are the implicit synchronizations that a GPU has too. An error in queued work is
    raised where something waits for its result.
    """

    @staticmethod
    def __new__(cls, like: torch.Tensor, promise: Future, device: VirtualDevice) -> 'VirtualTensor':
        return torch.Tensor._make_wrapper_subclass(cls, like.shape, strides=like.stride(),
                                                   dtype=like.dtype)

    def __init__(self, like: torch.Tensor, promise: Future, device: VirtualDevice) -> None:
        self.promise, self.place = promise, device

    def wait(self) -> torch.Tensor:
        """The numbers, as an ordinary tensor that shares their memory."""
        return self.promise.result()

    cpu = wait

    def __repr__(self) -> str:
        return repr(self.wait())

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        places = {a.place for a in tree_leaves((args, kwargs)) if isinstance(a, cls)}
        if len(places) > 1:
            raise RuntimeError(f'all tensors must be on one device, and these are on '
                               f"{' and '.join(sorted(map(str, places)))}: use put(x, device)")
        device, name = places.pop(), func._schema.name.split('::')[1]
        # The promises as they are now: an operation in place will exchange its own later.
        held = tree_map(lambda a: a.promise if isinstance(a, cls) else a, (args, kwargs))

        def work():
            real, named = tree_map(lambda a: a.result() if isinstance(a, Future) else a, held)
            return func(*real, **named)

        promise = device.submit(work, name)
        if func._schema.is_mutable and isinstance(args[0], cls):
            args[0].promise = promise
            return args[0]
        try:
            like = func(*tree_map(_shape_only, args), **tree_map(_shape_only, kwargs))
        except (NotImplementedError, RuntimeError):
            like = promise.result()        # the shape depends on the data: an implicit synchronization
        if like is None or not any(isinstance(x, torch.Tensor) for x in tree_leaves(like)):
            return promise.result()        # a Python number, or a check that may raise
        if isinstance(like, torch.Tensor):
            return cls(like, promise, device)
        return type(like)(
            cls(x, device.submit(lambda i=i: promise.result()[i], f'{name}[{i}]'), device)
            if isinstance(x, torch.Tensor) else x for i, x in enumerate(like))


def _shape_only(x: Any) -> Any:
    """A tensor of the same shape and strides that has no numbers; other things as they are."""
    if not isinstance(x, torch.Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device='meta')


def put(x: torch.Tensor, device: torch.device | VirtualDevice | str) -> torch.Tensor:
    """A copy of ``x`` on a device of any kind; on a virtual device or a GPU it is only queued.

    Args:
        x: a tensor of any shape, ordinary or of a virtual device, which this one then waits for.
        device: a virtual device, or what ``Tensor.to`` takes.

    Returns:
        A tensor of the same shape and dtype, on a virtual device a :class:`VirtualTensor`. ``Tensor.to``
        hands back ``x`` itself where that is on the device already.
    """
    if isinstance(device, VirtualDevice):
        source = x.promise.result if isinstance(x, VirtualTensor) else x.detach
        device.expect(source)
        return VirtualTensor(x, device.submit(lambda: source().clone(), 'copy'), device)
    if isinstance(x, VirtualTensor):
        x = x.wait()
    return x.to(device, non_blocking=True)
