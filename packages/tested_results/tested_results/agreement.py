"""Whether variants that are compared compute the same, at each call, and how much they do."""

import contextlib
import copy
import functools
import inspect
import itertools
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

REMEMBERED = 1_000_000  # elements of a result or of a container that are looked at again after the last call
SAME_INPUT = ('A variant must find the same input at each call; one that sorts in place sorts, from its '
              'second call on, what is sorted already.')
MEANT = 'Where results are meant to differ, say how much work a call does: work=….'


class VariantError(RuntimeError):
    """A variant raised, or the two variants computed different numbers."""


def arrays(x: Any) -> list[np.ndarray]:
    """The numbers in ``x`` (arrays or tensors of either framework, nested in lists and dictionaries) as NumPy
    arrays."""
    if x is None:
        return []
    if isinstance(x, dict):
        return list(itertools.chain.from_iterable(arrays(y) for y in x.values()))
    if isinstance(x, list | tuple):
        if len(x) > 1 and all(isinstance(y, int | float) for y in x):
            return [np.asarray(x)]              # a list of numbers is one array
        return list(itertools.chain.from_iterable(arrays(y) for y in x))
    if hasattr(x, 'asnumpy'):
        x = x.asnumpy()
    elif hasattr(x, 'detach'):
        x = x.detach().cpu()
        x = (x.double() if x.is_floating_point() else x).numpy()
    return [np.asarray(x)]


def gap(a: Any, b: Any) -> float:
    """The largest difference between the numbers in ``a`` and ``b``, on whatever devices they are."""
    return max(float(np.max(np.abs(np.subtract(x, y, dtype=np.result_type(x, y, float))), initial=0))
               for x, y in zip(arrays(a), arrays(b), strict=True))


def check_agreement(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-5,
                    of: str = 'the variants') -> None:
    """Raise :class:`VariantError` unless ``a`` and ``b``, the results ``of`` two variants, hold the same."""
    if why := disagreement(a, b, rtol, atol):
        raise VariantError(f'{of} {why}. A faster wrong answer is no speed-up. {MEANT}')


def disagreement(a: Any, b: Any, rtol: float = 1e-4, atol: float = 1e-5) -> str:
    """What differs between two results, as the end of a sentence; empty if they hold the same."""
    for x in (a, b):
        if inspect.isgenerator(x) or inspect.iscoroutine(x) or isinstance(x, map | filter | zip):
            return f'return a {type(x).__name__}, whose work has not been done: let them go through it'
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return 'return dictionaries with different keys'
        b = {key: b[key] for key in a}      # in the same order
    xs, ys = arrays(a), arrays(b)
    if any(z.dtype.kind not in 'biufc' for z in (*xs, *ys)):
        # texts, sets
        try:
            same = type(a) is type(b) and bool(a == b)
        except Exception:
            return f'return what cannot be compared, such as text beside arrays in a {type(a).__name__}'
        return '' if same else (
            f'return different things, of types {type(a).__name__} and {type(b).__name__}')
    shapes = [[z.shape for z in zs] for zs in (xs, ys)]
    if shapes[0] != shapes[1]:
        first, second = (textwrap.shorten(str(z), 200, placeholder=' …') for z in shapes)
        return f'return different shapes: {first} and {second}'
    if not all(np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True)
               for x, y in zip(xs, ys, strict=True)):
        return f'compute different numbers: they differ by up to {gap(xs, ys):.3g}'
    return ''


def copied(result: Any) -> Any:
    """A result that later calls do not change, since a variant may return the same array each time."""
    numbers = arrays(result)
    if all(x.dtype.kind in 'biufc' for x in numbers):
        return [x.copy() for x in numbers]
    with contextlib.suppress(Exception):
        return copy.deepcopy(result)
    return result


def thinned(result: Any) -> Any:
    """Enough of a copied result to know it again: of a long array, evenly spaced elements."""
    if not isinstance(result, list):
        return result
    return [x.reshape(-1)[::x.size // REMEMBERED + 1].copy() if isinstance(x, np.ndarray) else x
            for x in result]


def check_later_calls(first: dict[str, Any], last: dict[str, Any]) -> None:
    """Raise :class:`VariantError` unless the last call of each variant returned what its first one did."""
    for name, before in first.items():
        if why := disagreement(before, last[name]):
            raise VariantError(
                f'the first and the last call of the variant {name!r} {why}. {SAME_INPUT} {MEANT}')


def _containers(f: Callable) -> dict[str, Any]:
    """The lists, dictionaries and sets that a function names or is given, and did not make itself.

    They are its globals and what it closes over, its defaults, the object of a method, and the arguments of a
    ``functools.partial``.
    """
    named: dict[str, Any] = {}
    if isinstance(f, functools.partial):
        named |= _containers(f.func)
        named |= {f'argument {number}': x for number, x in enumerate(f.args, 1)}
        named |= f.keywords
    if getattr(f, '__self__', None) is not None:
        named['the object of the method'] = f.__self__
    if getattr(f, '__code__', None) is not None:
        found = inspect.getclosurevars(f)
        named |= {**found.globals, **found.nonlocals}
        named |= {p.name: p.default for p in inspect.signature(f).parameters.values()}
    kinds = list | dict | set | bytearray
    return {name: x for name, x in named.items() if isinstance(x, kinds) and len(x) <= REMEMBERED}


def _same_elements(a: Any, b: Any) -> bool:
    """Whether two containers hold the same, each element itself or a number or text equal to it."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and _same_elements(list(a.values()), list(b.values()))
    if isinstance(a, set | bytearray):
        return a == b
    plain = int | float | str | bytes
    return len(a) == len(b) and all(x is y or isinstance(x, plain) and isinstance(y, plain) and x == y
                                    for x, y in zip(a, b, strict=True))


def first_call(name: str, f: Callable[[], Any]) -> Any:
    """The first call of a variant, which must leave its input as it found it.

    Raises:
        VariantError: it raised, or changed a list, a dictionary or a set that it did not make.
    """
    before = {key: (x, copy.copy(x)) for key, x in _containers(f).items()}
    result = call(f'the variant {name!r}', f)
    if changed := [key for key, (x, was) in before.items() if not _same_elements(x, was)]:
        raise VariantError(f'the variant {name!r} changes {changed[0]!r}, which was there before. '
                           f'{SAME_INPUT} Copy {changed[0]!r} in each call. {MEANT}')
    return result


def amount(result: Any) -> float:
    """How much a variant did: the number that it returns, or how many elements its arrays have."""
    if isinstance(result, int | float | np.number):
        return float(result)
    return float(sum(x.size for x in arrays(result)))


def check_work(results: dict[str, Any], work: float | tuple[float, ...]) -> None:
    """Raise :class:`VariantError` unless each variant did as much as is said of it."""
    expected = work if isinstance(work, tuple) else (work,) * len(results)
    for (name, result), wanted in zip(results.items(), expected, strict=True):
        if (did := amount(result)) != wanted:
            raise VariantError(
                f'the variant {name!r} did {did:g} and not {wanted:g}, which is its work: with work=…, a '
                'variant returns how much it did (bytes, examples, products) or its results, whose '
                'elements are counted')


def call(what: str, f: Callable[[], Any]) -> Any:
    try:
        return f()
    except Exception as e:
        raise VariantError(f'{what} raised {type(e).__name__}: {e}. '
                           'Call it alone to find out why.') from e
