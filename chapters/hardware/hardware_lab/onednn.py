"""Whether this PyTorch has oneDNN, which multiplies narrow numbers for it."""

import torch

from tested_results.conditions import condition


@condition('oneDNN')
def missing() -> str:
    """Why no matmul can be handed to oneDNN; empty if one can."""
    return '' if torch.backends.mkldnn.is_available() else 'this PyTorch comes without oneDNN'
