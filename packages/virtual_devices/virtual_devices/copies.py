"""Copies from one device to another, of any kind, which gradients go back."""

from typing import Any

import torch

from virtual_devices.engine import VirtualDevice, VirtualTensor, copied


def put(x: torch.Tensor, device: torch.device | VirtualDevice | str) -> torch.Tensor:
    """A copy of ``x`` on a device of any kind; on a virtual device or a GPU it is only queued.

    Gradients with respect to the copy go back to ``x``. A copy to the host waits for the numbers.

    Args:
        x: a tensor of any shape, ordinary or of a virtual device, which this one then waits for.
        device: a virtual device, or what ``Tensor.to`` takes.

    Returns:
        A tensor of the same shape and dtype, on a virtual device a :class:`VirtualTensor`. ``Tensor.to``
        hands back ``x`` itself where that is on the device already.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f'put takes a tensor, not {type(x).__name__}: make one by torch.as_tensor')
    if isinstance(device, VirtualDevice) or isinstance(x, VirtualTensor):
        return _Copy.apply(x, device)
    # to the host it would return before the numbers are there
    return x.to(device, non_blocking=torch.device(device).type != 'cpu')


class _Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, device: torch.device | VirtualDevice | str) -> torch.Tensor:
        ctx.source = x.place if isinstance(x, VirtualTensor) else x.device
        return _moved(x, device)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _moved(grad, ctx.source), None


def _moved(x: torch.Tensor, device: torch.device | VirtualDevice | str) -> torch.Tensor:
    if isinstance(device, VirtualDevice):
        return copied(x, device)
    return (x.read() if isinstance(x, VirtualTensor) else x).to(device)
