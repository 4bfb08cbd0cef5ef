"""Whether this PyTorch has oneDNN, which multiplies narrow numbers for it."""

from tested_results.conditions import condition


@condition('oneDNN')
def missing() -> str:
    """Why no matmul can be handed to oneDNN; empty if one can."""
    import torch  # only where it is asked, for the other half of the book runs without it
    return '' if torch.backends.mkldnn.is_available() else 'this PyTorch comes without oneDNN'
