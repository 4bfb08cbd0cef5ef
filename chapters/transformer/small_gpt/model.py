"""The model that this topic trains and serves: the small GPT of the book (``d2l.GPT``)."""

from d2l_local.gpt import GPT, Block, Cache, fused, naive

__all__ = ['GPT', 'Block', 'Cache', 'fused', 'naive']
