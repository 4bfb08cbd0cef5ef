"""The small GPT of the book, with what training and serving need of it.

Shapes: B requests or examples, T tokens, d numbers for each token, h heads of d / h numbers.
Source: A. Vaswani et al., Attention is all you need, NeurIPS, 2017; the order of the layers and the
activation function: A. Radford et al., Language models are unsupervised multitask learners, 2019.
"""

import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask=None) -> torch.Tensor:
    """Attention as the formula says it, with all scores at once.

    ``q`` has the shape (B, h, T, d/h), ``k`` and ``v`` (B, h, S, d/h), ``mask`` is true where a token
    may look; without one, each token looks at itself and at what stands before it.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is None:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask=None) -> torch.Tensor:
    """The same by PyTorch's kernel, which never keeps all scores."""
    return F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)


class Cache:
    """Keys and values of what a model has read, for ``slots`` requests of their own lengths."""

    def __init__(self, net: 'GPT', slots: int) -> None:
        w = net.token.weight
        self.kv = torch.zeros(len(net.blocks), 2, slots, net.heads, net.context, w.shape[1] // net.heads,
                              dtype=w.dtype, device=w.device)
        self.length = torch.zeros(slots, dtype=torch.long, device=w.device)

    def extend(self, layer: int, k: torch.Tensor, v: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        """Write keys and values of new tokens at positions ``at`` (B, T); return all, up to the last."""
        slot = torch.arange(len(at), device=at.device)[:, None]
        self.kv[layer, 0, slot, :, at] = k.transpose(1, 2)
        self.kv[layer, 1, slot, :, at] = v.transpose(1, 2)
        return self.kv[layer, :, :, :, :int(at.max()) + 1]


class Block(nn.Module):
    """Tokens look at each other (attention), then each passes a feed-forward network. (B, T, d) stays."""

    def __init__(self, d: int, heads: int, attend: Callable) -> None:
        super().__init__()
        self.heads = heads
        self.attend = attend
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)

    def forward(self, x, layer, cache=None, at=None, mask=None):
        b, t, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.extend(layer, k, v, at)
        mixed = self.attend(q, k, v, mask).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Scores (B, T, vocabulary) of what comes after each of the tokens (B, T)."""

    def __init__(self, vocabulary: int, d: int = 96, layers: int = 3, heads: int = 4, context: int = 128,
                 attend: Callable = fused) -> None:
        super().__init__()
        self.heads = heads
        self.context = context
        self.token = nn.Embedding(vocabulary, d)
        self.place = nn.Embedding(context, d)
        self.blocks = nn.ModuleList(Block(d, heads, attend) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocabulary, bias=False)
        self.head.weight = self.token.weight        # one table reads tokens and scores them
        for table in (self.token, self.place):      # small: a model that knows nothing rates all alike
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        at = torch.arange(tokens.shape[1], device=tokens.device)    # the tokens' places
        mask = None
        if cache is not None:
            at = cache.length[:, None] + at
            seen = torch.arange(int(at.max()) + 1, device=at.device)
            mask = (seen <= at[..., None])[:, None]
            cache.length = at[:, -1] + 1
        x = self.token(tokens) + self.place(at)
        for i, block in enumerate(self.blocks):
            x = block(x, i, cache, at, mask)
        return self.head(self.norm(x))
