"""A stack of transformer blocks, small enough that Python and the calls of operators are most of its time."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A transformer block: attention and an MLP, normalized before each."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number, length, width = x.shape
        qkv = self.qkv(self.norm1(x))
        qkv = qkv.view(number, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Stack(nn.Module):
    """Equal blocks and a last normalization."""

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def requests(number: int, length: int = 16) -> torch.Tensor:
    """What an embedding would give for so many sequences: numbers of shape (number, length, 64)."""
    return torch.randn(number, length, 64)
