"""The marks in PyTorch: the optimizers, the loader, the root modules, the backward pass, checkpoints.

All are attributes of classes or modules, replaced by :func:`attach` and put back by
:meth:`Patches.restore`. Nothing is stored in the script's own objects, so it can pickle and copy them as
before. No mark calls anything inside of compiled code.
"""

import contextlib
import copy
import functools
import gc
import math
import sys
import weakref
from time import perf_counter
from typing import Any

from why_slow.looks import scripts_line
from why_slow.watch import Call, Watch

MISSING = object()
COLLECTIVES = (
    'all_gather',
    'all_gather_into_tensor',
    'all_gather_object',
    'all_reduce',
    'all_to_all',
    'all_to_all_single',
    'barrier',
    'broadcast',
    'broadcast_object_list',
    'gather',
    'gather_object',
    'recv',
    'reduce',
    'reduce_scatter',
    'reduce_scatter_tensor',
    'scatter',
    'scatter_object_list',
    'send',
)


class Patches:
    """Attributes that were replaced, and what they were."""

    def __init__(self) -> None:
        self.replaced: list[tuple[Any, str, Any]] = []
        self.handles: list[Any] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class or module and remember what it was."""
        self.replaced.append((owner, name, vars(owner).get(name, MISSING)))
        setattr(owner, name, value)

    def add(self, others: 'Patches') -> None:
        """Take over what others have replaced."""
        self.replaced += others.replaced
        self.handles += others.handles

    def restore(self) -> None:
        """Put everything back, the last first."""
        while self.handles:
            self.handles.pop().remove()
        while self.replaced:
            owner, name, value = self.replaced.pop()
            if value is MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


def attach(torch: Any, watch: Watch) -> Patches:
    """Mark the steps of all optimizers, the loader, the backward pass and ``torch.save``."""
    patches = Patches()
    watch.torch = torch
    watch.has_optimizer = lambda: _has_optimizer(torch)
    _optimizers(watch, patches)
    _loader(torch, watch, patches)
    _backward(torch, watch, patches)
    _save(torch, watch, patches)
    _profiles(torch, watch, patches)
    _collectives(torch, watch, patches)
    return patches


def _has_optimizer(torch: Any) -> bool:
    """Whether an optimizer is alive; asked once, for it goes through all objects."""
    return any(issubclass(type(thing), torch.optim.Optimizer) for thing in gc.get_objects())


def _optimizers(watch: Watch, patches: Patches) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def before(optimizer, args, kwargs):
        if not watch.active or not watch.mine():
            return None
        watch.enter('optimizer')
        if len(args) > 1 and callable(args[1]):
            return (args[0], _script_code(watch, args[1]), *args[2:]), kwargs
        if callable(kwargs.get('closure')):
            return args, {**kwargs, 'closure': _script_code(watch, kwargs['closure'])}
        return None

    def after(optimizer, args, kwargs):
        if watch.steps == 0 or watch.mine():
            if watch.stack:
                watch.leave()
            watch.optimizer_stepped(optimizer)

    patches.handles.append(register_optimizer_step_pre_hook(before))
    patches.handles.append(register_optimizer_step_post_hook(after))


def _script_code(watch: Watch, closure: Any) -> Any:
    """A closure that an optimizer calls: what it does itself is the script's, not the optimizer's."""
    watch.closures = True

    @functools.wraps(closure)
    def call(*args, **kwargs):
        if not watch.active or not watch.mine():
            return closure(*args, **kwargs)
        with watch.within('rest'):
            return closure(*args, **kwargs)

    return call


def _loader(torch: Any, watch: Watch, patches: Patches) -> None:
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator

    following, starting = Iterator.__next__, DataLoader.__iter__
    replayed = weakref.WeakKeyDictionary()  # how many batches an iterator was spared in this epoch

    @functools.wraps(following)
    def __next__(self):
        if not watch.active or not watch.mine() or watch.part == 'loader':
            return following(self)
        spared = replayed.get(self, 0)
        if spared and self._num_yielded + spared >= _length(self):
            raise StopIteration  # an epoch has as many batches as without us
        if watch.counts['batches'] < watch.replaying and watch.kept.is_from(self):
            watch.counts['batches'] += 1
            replayed[self] = spared + 1
            return copied(torch, watch.kept.batch)
        watch.enter('loader')
        try:
            batch = following(self)
            # Not of an evaluation, and not the last one of an epoch, which may be smaller.
            last = self._num_yielded == _length(self) > 1
            if watch.keep_batch and watch.kept is None and torch.is_grad_enabled() and not last:
                watch.kept = KeptBatch(torch, self, batch)
        finally:
            watch.leave()
        watch.counts['batches'] += 1
        return batch

    @functools.wraps(starting)
    def __iter__(self):
        if not watch.active or not watch.mine():
            return starting(self)
        watch.counts['epochs'] += 1
        with watch.within('start of an epoch'):
            iterator = starting(self)
        replayed.pop(iterator, None)  # persistent workers begin another epoch with the same iterator
        return iterator

    patches.put(Iterator, '__next__', __next__)
    patches.put(Iterator, 'next', __next__) if hasattr(Iterator, 'next') else None
    patches.put(DataLoader, '__iter__', __iter__)


class KeptBatch:
    """A copy of one batch, and which loader it is from; only this loader hands it out again."""

    def __init__(self, torch: Any, iterator: Any, batch: Any) -> None:
        self.batch = None  # stays so where it holds something that cannot be copied
        with contextlib.suppress(Exception):
            self.batch = copied(torch, batch)
        self.workers = iterator._num_workers
        self.batch_size = getattr(iterator._index_sampler, 'batch_size', None)
        self._remember(iterator._dataset)

    def _remember(self, dataset: Any) -> None:
        self.kind = type(dataset)
        try:
            self.dataset = weakref.ref(dataset)
        except TypeError:  # a list has no weak references
            self.dataset = lambda: dataset

    def is_from(self, iterator: Any) -> bool:
        """Whether the iterator reads the same data set, or one like it that a script makes anew for each
        epoch."""
        dataset = self.dataset()
        if dataset is None and type(iterator._dataset) is self.kind:
            self._remember(iterator._dataset)
            return True
        return dataset is iterator._dataset


def copied(torch: Any, batch: Any) -> Any:
    """A batch in containers and tensors of its own, for a script may take a batch to pieces or change it
    in place."""

    def of_its_own(leaf):
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone()
        return copy.deepcopy(leaf)

    return torch.utils._pytree.tree_map(of_its_own, batch)


def _length(iterator: Any) -> float:
    """The batches of an epoch; infinity where the loader does not know them."""
    try:
        return len(iterator._index_sampler)
    except (TypeError, NotImplementedError):
        return math.inf


def _backward(torch: Any, watch: Watch, patches: Patches) -> None:
    """Both ways to a backward pass; ``torch.autograd.grad`` is none, for it may be a part of the model."""

    def marked(original):
        @functools.wraps(original)
        def backward(tensor, *args, **kwargs):
            if not watch.active or not watch.mine() or watch.part == 'backward':
                return original(tensor, *args, **kwargs)
            if watch.on_backward is not None:
                watch.on_backward(tensor)
            if watch.keep_losses and hasattr(tensor, 'detach'):
                watch.losses.append(tensor.detach().clone())
            watch.counts['backwards'] += 1
            if watch.evaluating:  # the pass before is used, so it was no evaluation, in whichever mode
                watch.counts['evaluation with gradients'] -= 1
                watch.evaluating = False
                watch.evaluated_at = None
            watch.anomaly = anomaly = torch.is_anomaly_enabled()
            if anomaly and watch.no_anomaly:
                torch.set_anomaly_enabled(False)
            watch.enter('backward')
            try:
                result = original(tensor, *args, **kwargs)
            finally:
                watch.leave()
                if anomaly and watch.no_anomaly:
                    torch.set_anomaly_enabled(True)
            watch.backward_done()
            return result

        return backward

    patches.put(torch.Tensor, 'backward', marked(torch.Tensor.backward))
    patches.put(torch.autograd, 'backward', marked(torch.autograd.backward))


def _save(torch: Any, watch: Watch, patches: Patches) -> None:
    save = torch.save

    @functools.wraps(save)
    def marked(*args, **kwargs):
        if not watch.active or not watch.mine():
            return save(*args, **kwargs)
        watch.counts['checkpoints'] += 1
        with watch.within('checkpoint'):
            return save(*args, **kwargs)

    patches.put(torch, 'save', marked)


def _profiles(torch: Any, watch: Watch, patches: Patches) -> None:
    """See when the script profiles itself, for two profilers cannot run at a time: ours gives way."""
    from torch.autograd.profiler import profile

    starting = profile._start_trace

    @functools.wraps(starting)
    def _start_trace(self, *args, **kwargs):
        if watch.active and watch.mine():
            watch.profiles += 1
            if watch.operator_look is not None:
                watch.operator_look.stop()
        return starting(self, *args, **kwargs)

    patches.put(profile, '_start_trace', _start_trace)


def _collectives(torch: Any, watch: Watch, patches: Patches) -> None:
    """The collectives that the script calls itself, and where it waits for those that it began.

    Of the collectives of DistributedDataParallel, it broadcasts its buffers before the forward pass; the
    others are called in C++.
    """
    if not torch.distributed.is_available():
        return
    compiling = torch.compiler.is_compiling

    def marked(original):
        @functools.wraps(original)
        def collective(*args, **kwargs):
            if compiling() or not watch.active or not watch.mine() or watch.part == 'collectives':
                return original(*args, **kwargs)
            watch.enter('collectives')
            try:
                return original(*args, **kwargs)
            finally:
                watch.leave()

        return collective

    for name in COLLECTIVES:
        patches.put(torch.distributed, name, marked(getattr(torch.distributed, name)))
    work = torch.distributed.Work
    patches.put(work, 'wait', marked(work.wait))
    parallel = torch.nn.parallel.DistributedDataParallel
    patches.put(parallel, '_sync_buffers', marked(parallel._sync_buffers))


# The root modules --------------------------------------------------------------------------------


def modules_of(torch: Any, watch: Watch) -> list[Any]:
    """The modules which no other module contains and whose parameters the optimizers change."""
    trained = {id(p) for p in watch.parameters()}
    modules = []
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.nn.Module):  # isinstance would ask proxies what they stand for
            modules.append(thing)
    inner = {id(child) for module in modules for child in module.modules() if child is not module}
    roots = [module for module in modules if id(module) not in inner]
    if trained:
        roots = [m for m in roots if any(id(p) in trained for p in m.parameters())]
    return roots


def mark_modules(torch: Any, watch: Watch, patches: Patches, modules: list[Any]) -> None:
    """Mark the calls of these modules, by their classes; calls inside of a marked call are left alone."""
    for cls in {type(module) for module in modules}:
        if '__call__' in vars(cls) and hasattr(vars(cls)['__call__'], 'why_slow'):
            continue
        patches.put(cls, '__call__', _marked_call(torch, watch, cls.__call__))


UNKNOWN = (None, False)


def _marked_call(torch: Any, watch: Watch, original: Any) -> Any:
    compiling = torch.compiler.is_compiling
    enabled = torch.is_grad_enabled

    def __call__(self, *args, **kwargs):
        if (
            compiling()
            or not watch.active
            or watch.part in ('forward', 'evaluation', 'backward')
            or not watch.mine()
        ):
            return original(self, *args, **kwargs)
        with_gradients = enabled()
        part = 'forward' if with_gradients else 'evaluation'
        watch.counts[part] += 1
        if with_gradients:
            watch.evaluating = not self.training
            watch.counts['evaluation with gradients'] += watch.evaluating
            if watch.evaluating and watch.evaluated_at is None:
                watch.evaluated_at = scripts_line(sys._getframe(1))
            module, has_parameters = watch.has_parameters.get(id(self), UNKNOWN)
            if module is None or module() is not self:  # a new one may stand where another stood
                has_parameters = any(True for _ in self.parameters())
                watch.has_parameters[id(self)] = weakref.ref(self), has_parameters
            if has_parameters:
                watch.calls[id(self)] += 1
                watch.counts['calls of one module'] = max(watch.calls.values())
        keep = watch.keep_input and part == 'forward'
        began = perf_counter()
        watch.enter(part)
        try:
            if watch.forward_call is not None and part == 'forward':
                return watch.forward_call(original, self, args, kwargs)
            return original(self, *args, **kwargs)
        finally:
            watch.leave()
            if keep:
                autocast = torch.get_autocast_dtype('cpu') if torch.is_autocast_enabled('cpu') else None
                call = watch.inputs.setdefault(id(self), Call(self))
                call.add(perf_counter() - began, args, kwargs, autocast)

    __call__.why_slow = True
    return __call__
