"""What PyTorch's schemas say of an operation: which of its arguments it writes, and what it returns."""

from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves

Operation = torch._ops.OpOverload


def _is_written(value: Any) -> bool:
    """Whether an argument is written, or a result is an argument that was."""
    return value.alias_info is not None and value.alias_info.is_write


def _targets(func: Operation, args: tuple, kwargs: dict) -> dict[frozenset, Any]:
    """What is written, tensors or lists of them, by the marks that they have in the schema."""
    return {frozenset(a.alias_info.before_set): kwargs.get(a.name, args[i] if i < len(args) else None)
            for i, a in enumerate(func._schema.arguments) if _is_written(a)}


def written(func: Operation, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """The tensors among the arguments that an operation writes, ``out`` and lists included."""
    if not func._schema.is_mutable:
        return []
    found = tree_leaves(list(_targets(func, args, kwargs).values()))
    return [x for x in found if isinstance(x, torch.Tensor)]


def may_write(func: Operation) -> bool:
    """Whether an operation writes. Batch norm does, its running means, and its schema does not say so."""
    return func._schema.is_mutable or 'batch_norm' in func._schema.name


def makes_new(func: Operation) -> bool:
    """Whether it returns something that is none of the arguments that it has written."""
    return not all(map(_is_written, func._schema.returns))


def returned(func: Operation, args: tuple, kwargs: dict) -> Any:
    """What an operation returns that makes nothing new: arguments that it has written, or None.

    If it has given one of them another shape, so does this.
    """
    if torch.Tag.inplace_view in func.tags:
        with no_dispatch():
            func(*args, **kwargs)
    targets = _targets(func, args, kwargs)
    found = [targets[frozenset(r.alias_info.before_set)] for r in func._schema.returns]
    return found[0] if len(found) == 1 else tuple(found) or None


def as_now(x: Any, written: list[torch.Tensor]) -> Any:
    """A tensor of the host with the numbers of now, which may be others later; itself if it is written."""
    if not isinstance(x, torch.Tensor) or any(x is w for w in written):
        return x
    return x.clone()
