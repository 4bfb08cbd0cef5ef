"""Exercises that check a reader's answers, and calls of a reader's code that always end.

``exercise``, ``numbers`` and ``text`` define exercises, of properties that answers ``need``; ``check`` is
what a reader calls. ``number`` and ``listed`` take what an answer gives in any usual form. An answer that
has code runs in a process of its own, with a limit of time and memory.
"""

from answer_checks.checking import check
from answer_checks.definitions import (
    Missing,
    Part,
    exercise,
    fetch,
    listed,
    need,
    number,
    numbers,
    text,
    timed,
)

__all__ = ['Missing', 'Part', 'check', 'exercise', 'fetch', 'listed', 'need', 'number', 'numbers', 'text',
           'timed']
