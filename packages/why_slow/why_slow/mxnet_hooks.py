"""The marks in MXNet: ``gluon.Trainer.step`` ends a step; blocks, the loader, the backward pass and
reading are its parts.

MXNet computes asynchronously, so a part is the time until the calls return; the work itself is waited for
where a result is read.
"""

import functools
import sys
from time import perf_counter
from typing import Any

from why_slow.looks import Calls, is_scripts, scripts_frames
from why_slow.torch_hooks import Patches
from why_slow.watch import Watch


def attach(mxnet: Any, watch: Watch) -> Patches:
    """Mark the trainer, the root blocks, the backward pass, the loader and ``save_parameters``."""
    from mxnet import autograd, gluon

    patches = Patches()
    for name in ('step', 'update'):  # neither calls the other; update follows allreduce_grads and clipping
        patches.put(gluon.Trainer, name, _ends_a_step(watch, getattr(gluon.Trainer, name)))
    called = gluon.Block.__call__

    def __call__(self, *args, **kwargs):
        if (
            not watch.active
            or watch.part in ('forward', 'evaluation', 'backward', 'loader')
            or not watch.mine()
            or isinstance(self, gluon.loss.Loss)
        ):
            return called(self, *args, **kwargs)
        part = 'forward' if autograd.is_recording() else 'evaluation'
        watch.counts[part] += 1
        with watch.within(part):
            return called(self, *args, **kwargs)

    patches.put(gluon.Block, '__call__', __call__)
    for owner, name in ((mxnet.nd.NDArray, 'backward'), (autograd, 'backward')):
        patches.put(owner, name, _within(watch, 'backward', 'backwards', getattr(owner, name)))
    patches.put(
        gluon.Block,
        'save_parameters',
        _within(watch, 'checkpoint', 'checkpoints', gluon.Block.save_parameters),
    )
    patches.put(
        gluon.Trainer, 'save_states', _within(watch, 'checkpoint', 'checkpoints', gluon.Trainer.save_states)
    )
    following = mxnet.io.DataIter.__next__
    patches.put(mxnet.io.DataIter, '__next__', _within(watch, 'loader', 'batches', following))
    _loader(gluon, watch, patches)
    return patches


def _ends_a_step(watch: Watch, original: Any) -> Any:
    @functools.wraps(original)
    def marked(self, *args, **kwargs):
        if not watch.active or not watch.mine():
            return original(self, *args, **kwargs)
        watch.enter('optimizer')
        try:
            result = original(self, *args, **kwargs)
        finally:
            watch.leave()
        watch.optimizer_stepped(self)
        return result

    return marked


def _within(watch: Watch, part: str, count: str, original: Any) -> Any:
    @functools.wraps(original)
    def marked(*args, **kwargs):
        if not watch.active or not watch.mine() or watch.part == part:
            return original(*args, **kwargs)
        watch.counts[count] += 1
        with watch.within(part):
            return original(*args, **kwargs)

    return marked


def _loader(gluon: Any, watch: Watch, patches: Patches) -> None:
    DataLoader = gluon.data.DataLoader
    starting = DataLoader.__iter__

    def __iter__(self):
        if not watch.active or not watch.mine():
            yield from starting(self)
            return
        watch.counts['epochs'] += 1
        with watch.within('start of an epoch'):
            batches = iter(starting(self))
        while True:
            watch.enter('loader')
            try:
                batch = next(batches)
            except StopIteration:
                return
            finally:
                watch.leave()
            watch.counts['batches'] += 1
            yield batch

    patches.put(DataLoader, '__iter__', __iter__)


class ReadLook:
    """Which lines of the script read results, in one step that is not timed."""

    def __init__(self, mxnet: Any, watch: Watch) -> None:
        self.mxnet = mxnet
        self.watch = watch
        self.calls: dict[tuple, Calls] = {}
        self.parameters: set[int] = set()
        self.saved: dict[int, int] = {}
        self.patches = Patches()

    def start(self) -> None:
        """Replace the methods that wait for a result."""
        NDArray = self.mxnet.nd.NDArray
        for name in ('asnumpy', 'asscalar', 'wait_to_read'):
            self.patches.put(NDArray, name, self._recorded(name, getattr(NDArray, name)))

    def _recorded(self, name: str, method: Any) -> Any:
        def call(*args, **kwargs):
            began = perf_counter()
            result = method(*args, **kwargs)
            frame = sys._getframe(1)
            places = scripts_frames(frame)
            if places and is_scripts(frame.f_code.co_filename) and self.watch.part != 'loader':
                key = (places[0][:2], name, self.watch.part)
                one = self.calls.setdefault(
                    key, Calls(part=self.watch.part, outer=tuple(places), direct=True)
                )
                one.count += 1
                one.seconds += perf_counter() - began
            return result

        return call

    def stop(self) -> None:
        """Put them back."""
        self.patches.restore()
