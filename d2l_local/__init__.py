"""Helpers of the book, in the style of ``d2l``.

Use one of the two halves::

    from d2l_local import mxnet as d2l
    from d2l_local import torch as d2l

Importing ``d2l_local`` itself imports neither framework.
"""

__version__ = '0.1.0'
