"""A copy of the root module with its last input: what must not be tried on the script itself is tried
there."""

import copy
import random
import sys
from time import perf_counter
from typing import Any


class Copy:
    """The root module of the script, copied, and the input of its longest forward pass that was seen.

    Args:
        autocast: the type to which autocast was switched on in that pass, or None.
    """

    def __init__(self, torch: Any, module: Any, args: tuple, kwargs: dict, autocast: Any = None) -> None:
        self.torch = torch
        self.original = module
        self.args = self._detached(args)
        self.kwargs = self._detached(kwargs)
        self.autocast = autocast
        self.module = self._copied()
        self.call = type(module).__call__

    def _detached(self, tree):
        """The same without what came before, whose graph is gone after the script's own backward pass."""

        def detached(leaf):
            if isinstance(leaf, self.torch.Tensor):
                return leaf.detach().requires_grad_(leaf.requires_grad)
            return leaf

        return self.torch.utils._pytree.tree_map(detached, tree)

    def _copied(self):
        """Without the hooks, for what they write to is the script's own."""
        copied = copy.deepcopy(self.original)
        for module in copied.modules():
            hooks = (
                module._forward_pre_hooks,
                module._forward_hooks,
                module._backward_pre_hooks,
                module._backward_hooks,
            )
            for of_a_kind in hooks:
                of_a_kind.clear()
        return copied

    def step(self, call: Any = None, module: Any = None, args: Any = None, kwargs: Any = None) -> float:
        """Seconds of a forward and a backward pass of the copy; random numbers and gradients stay as they
        were."""
        torch = self.torch
        module = self.module if module is None else module
        args = self.args if args is None else args
        kwargs = self.kwargs if kwargs is None else kwargs
        states = random_states(torch)
        try:
            with torch.enable_grad():
                began = perf_counter()
                with torch.autocast('cpu', self.autocast, enabled=self.autocast is not None):
                    if call is None:
                        result = module(*args, **kwargs)
                    else:
                        result = call(type(module).__call__, module, args, kwargs)
                loss = total(torch, result)
                loss.backward()
                return perf_counter() - began
        finally:
            set_random_states(torch, states)
            for p in module.parameters():
                p.grad = None

    def doubled(self, batch: int) -> tuple[tuple, dict]:
        """The input with each tensor of ``batch`` rows twice."""
        torch = self.torch

        def twice(x):
            if isinstance(x, torch.Tensor) and x.dim() and x.shape[0] == batch:
                return torch.cat([x.detach(), x.detach()])
            if isinstance(x, list | tuple) and not hasattr(x, '_fields'):
                return type(x)(map(twice, x))
            if type(x) is dict:
                return {k: twice(v) for k, v in x.items()}
            return x

        return twice(self.args), twice(self.kwargs)

    def cast(self, dtype: Any) -> tuple[Any, tuple, dict]:
        """Another copy with its input, of another floating type."""
        torch = self.torch

        def other(x):
            if isinstance(x, torch.Tensor) and x.is_floating_point():
                return x.detach().to(dtype)
            if isinstance(x, list | tuple) and not hasattr(x, '_fields'):
                return type(x)(map(other, x))
            if type(x) is dict:
                return {k: other(v) for k, v in x.items()}
            return x

        return self._copied().to(dtype), other(self.args), other(self.kwargs)


def ratio(one: Any, other: Any, seconds: float) -> tuple[float, float, float]:
    """The least of two calls that return seconds, taken in turn, and their ratio: other programs only add to
    both."""
    one(), other()
    ones, others = [], []
    until = perf_counter() + seconds
    while len(ones) < 3 or (len(ones) < 7 and min(ones) < 1.4 * min(others)) or perf_counter() < until:
        if len(ones) >= 25:
            break
        ones.append(one())
        others.append(other())
    a, b = min(ones), min(others)
    return a, b, a / b


def random_states(torch: Any) -> tuple:
    """The states of PyTorch's and Python's random numbers, and NumPy's or None if nothing imported it."""
    numpy = sys.modules.get('numpy')
    return torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()


def set_random_states(torch: Any, states: tuple) -> None:
    """Begin there again."""
    torchs, pythons, numpys = states
    torch.set_rng_state(torchs)
    random.setstate(pythons)
    if numpys is not None:
        sys.modules['numpy'].random.set_state(numpys)


def total(torch: Any, result: Any) -> Any:
    """A scalar made of all results that need a gradient."""
    found = []

    def collect(x):
        if isinstance(x, torch.Tensor):
            if x.requires_grad:
                found.append(x.float().sum() if x.dtype != torch.float64 else x.sum())
        elif isinstance(x, dict):
            for v in x.values():
                collect(v)
        elif isinstance(x, list | tuple):
            for v in x:
                collect(v)
        elif hasattr(x, '__dict__'):
            for v in vars(x).values():
                collect(v)

    collect(result)
    if not found:
        raise ValueError('the module returns nothing that needs a gradient')
    return sum(found)
