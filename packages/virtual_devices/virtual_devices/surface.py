"""What Python asks of a tensor of a virtual device beside operations, and calls that mix devices."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

# Calls that may have tensors of the host beside those of a device, as on a GPU: copies, indices, shapes.
MIXED = {torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.copy_, torch.Tensor.index_put_,
         torch.Tensor.expand_as, torch.Tensor.view_as, torch.Tensor.reshape_as, torch.Tensor.is_same_size,
         torch.autograd.grad}
# nn.RNN, nn.GRU, nn.LSTM and their cells make a first state of zeros where the input says that it is.
RECURRENT = {f'{kind}{cell}' for kind in ('gru', 'lstm', 'rnn_tanh', 'rnn_relu') for cell in ('', '_cell')}
NOTHING = contextlib.nullcontext()


class Surface(torch.Tensor):
    """The base class of tensors of virtual devices: all of them but for the queue."""

    def wait(self) -> torch.Tensor:
        """The numbers, as an ordinary tensor of its own, as soon as they are there.

        What was queued after them is not waited for, as :meth:`cpu` does; nor is what was written through
        another name, such as a view (``x[0] = 5``).
        """
        self.place.check()
        return self.promise.result().clone()

    def read(self) -> torch.Tensor:
        """A copy on the host that is taken in the order of the queue; this waits for it."""
        promise = self.promise
        return self.place.expect(lambda: promise.result().clone()).result()

    def cpu(self) -> torch.Tensor:
        """As :meth:`read`, and gradients come back the same way."""
        return _put(self, 'cpu')

    def tolist(self) -> Any:
        return self.read().tolist()

    def __repr__(self) -> str:
        return repr(self.read())

    def __format__(self, form: str) -> str:
        return format(self.read(), form)

    def __deepcopy__(self, memo: dict) -> 'Surface':
        if not self.is_leaf:
            raise RuntimeError('only tensors that no operation with gradients has made can be copied deeply')
        with torch.no_grad():
            memo[id(self)] = new = self.clone().requires_grad_(self.requires_grad)
        new.grad = copy.deepcopy(self.grad, memo)
        if hasattr(self, '_is_param'):
            new._is_param = True
        return new

    def __reduce_ex__(self, protocol: int) -> tuple:
        """What is saved, or sent to another process, is an ordinary tensor."""
        x = self.read()
        x = (torch.nn.Parameter(x, self.requires_grad) if hasattr(self, '_is_param')
             else x.requires_grad_(self.requires_grad))
        return x.__reduce_ex__(protocol)

    def to(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """As for every tensor; ``'cpu'`` and tensors of the host stand for the host."""
        target = args[0] if args else kwargs.get('device', kwargs.get('other'))
        host = isinstance(target, torch.Tensor) and not isinstance(target, Surface)
        if host or isinstance(target, str) and torch.device(target).type == 'cpu':
            return self.cpu().to(*args, **kwargs)
        return super().to(*args, **kwargs)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None):
        """Every call with such a tensor, as the program has written it, comes by here."""
        kwargs = kwargs or {}
        if func is torch._has_compatible_shallow_copy_type:     # nn.Module asks, before it moves itself
            return isinstance(args[0], cls) == isinstance(args[1], cls)
        name = getattr(func, '__name__', '')
        if name in RECURRENT:
            args = _with_first_state(args)
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        _refuse_mixed(func, given)
        with torch._C.DisableTorchFunctionSubclass(), _in_parts() if name == 'lstm' else NOTHING:
            result = func(*args, **kwargs)
        if func == torch.Tensor.data.__set__:       # a new object at each access
            args[0].promise, args[0].place = args[1].promise, args[1].place
        if isinstance(result, cls):
            return result
        # what an operation has made on the way is on the host, and so may be what it returns
        return tree_map(lambda x: x if any(x is y for y in given) else _placed(x, given), result)


def _refuse_mixed(func: Callable, given: list[torch.Tensor]) -> None:
    """Raise for tensors of the host beside those of a device, unless they are scalars, as on a GPU."""
    host = [x for x in given if not isinstance(x, Surface) and x.dim()]
    indexed = func is torch.Tensor.__getitem__ and host and host[0] is given[0]     # by what is on a device
    if host and (indexed or func not in MIXED) and (place := _place(given)):
        raise RuntimeError(f'all tensors must be on one device, and these are on {place} and on the host: '
                           'use put(x, device). (What is made with device=x.device is on the host too: for '
                           'PyTorch, x is a tensor of the CPU)')


def _place(given: list[torch.Tensor]) -> Any:
    return next((x.place for x in given if isinstance(x, Surface)), None)


@contextlib.contextmanager
def _in_parts() -> Iterator[None]:
    """Without oneDNN: its LSTM is one operation, and hands to its backward pass what is no tensor."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _put(x: torch.Tensor, device: Any) -> torch.Tensor:
    from virtual_devices import copies  # which needs what is here
    return copies.put(x, device)


def _placed(x: Any, given: list[torch.Tensor]) -> Any:
    """A tensor of the host on the device of those that were given; anything else as it is."""
    place = _place(given)
    return _put(x, place) if place and isinstance(x, torch.Tensor) and not isinstance(x, Surface) else x


def _with_first_state(args: tuple) -> tuple:
    """Arguments with a state of zeros on the device of the others."""
    given = [x for x in tree_leaves(args) if isinstance(x, torch.Tensor)]
    return tree_map(lambda x: _placed(x, given) if isinstance(x, torch.Tensor) and not isinstance(x, Surface)
                    and not x.any() else x, args)
