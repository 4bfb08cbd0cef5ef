"""What a step computes although it is known already: from an earlier call of the same step, or from the step
before.

Two steps run under a dispatch mode, which sees each operator of PyTorch with its inputs. An operator whose
inputs have the same content as those of an earlier call gives the same result again, unless it draws random
numbers. The mode also times the operators, so that a line's time can be divided among them.
"""

import contextlib
import hashlib
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from why_slow import looks
from why_slow.trial import ratio
from why_slow.watch import Watch

SMALL = 65_536  # numbers; of more, sums are compared
LARGE = 4_000_000  # numbers
# What has to be made each time, for it is filled or changed afterwards.
FRESH = {
    'clone',
    'empty',
    'empty_like',
    'empty_strided',
    'full',
    'full_like',
    'new_empty',
    'new_full',
    'new_ones',
    'new_zeros',
    'ones',
    'ones_like',
    'zeros',
    'zeros_like',
}
PARTS = ('forward', 'evaluation', 'rest')  # of a step; a backward pass has other gradients each time
AUTOGRAD = 'torch/autograd/graph.py'
PARAMETRIZED = 'torch/nn/utils/parametrize.py'
SMOOTH = 7  # the largest prime factor of lengths that Fourier transforms handle well
TRANSFORMS = ('_fft_r2c', '_fft_c2c', '_fft_c2r')
TRIED = 0.1  # seconds that two transforms take turns


@dataclass
class Line:
    """The operators that one line of the script called in a step, in seconds."""

    function: tuple = ()  # of the script, its file and name
    seconds: float = 0.0
    again: float = 0.0  # what an earlier call of the step had computed already
    same: float = 0.0  # what the step before had computed already
    calls: int = 0
    calls_again: int = 0
    casts_again: float = 0.0  # of ``again``, casts to 16 bits
    parametrized: bool = False  # called by torch.nn.utils.parametrize
    transforms: Counter = field(default_factory=Counter)  # seconds by the kind of Fourier transform


@dataclass
class Function:
    """A function of the script that was on the stack when operators were called."""

    operators: int = 0
    same: int = 0  # operators that computed what the step before had computed already
    called_from: tuple | None = None  # line of the script


@dataclass
class Repeats:
    """What was seen in a step, by the lines and the functions of the script."""

    lines: dict[tuple, Line] = field(default_factory=lambda: defaultdict(Line))
    functions: dict[tuple, Function] = field(default_factory=lambda: defaultdict(Function))

    def constant_functions(self) -> dict[tuple, Function]:
        """The functions all of whose operators computed what the step before had computed already."""
        return {key: f for key, f in self.functions.items() if f.operators and f.same == f.operators}


class RepeatLook:
    """The operators of two steps, one after the other; the second one is compared with the first."""

    def __init__(self, torch: Any, watch: Watch) -> None:
        self.torch = torch
        self.watch = watch
        self.before: set[Hashable] = set()  # operators with their inputs, of the step before
        self.seen: set[Hashable] = set()  # of this step
        self.found = Repeats()

    @staticmethod
    def possible() -> bool:
        """Not where the script uses a dispatch mode of its own."""
        from torch.utils._python_dispatch import _get_current_dispatch_mode

        return _get_current_dispatch_mode() is None

    def start(self) -> None:
        """Begin to look, between two steps."""
        from torch.utils._python_dispatch import TorchDispatchMode

        look, Operator = self, self.torch._ops.OpOverload

        class Mode(TorchDispatchMode):
            supports_higher_order_operators = True  # such as torch.cond

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                is_operator = isinstance(function, Operator)
                if not is_operator or look.watch.part not in PARTS or not look.watch.mine():
                    return function(*args, **kwargs)
                key = look.key(function, args, kwargs)
                began = perf_counter()
                result = function(*args, **kwargs)
                seconds = perf_counter() - began
                with contextlib.suppress(Exception):  # a look must not end the script
                    look.record(function, args, result, key, seconds, sys._getframe(1))
                return result

        self.mode = Mode()
        self.mode.__enter__()

    def stop(self) -> None:
        """End it, between two steps."""
        self.mode.__exit__(None, None, None)

    def next_step(self) -> None:
        """A step is over: what follows is compared with it."""
        self.before, self.seen = self.seen, set()
        self.found = Repeats()

    def key(self, function: Any, args: tuple, kwargs: dict) -> Hashable | None:
        """The same for calls that give the same result; None if that cannot be known."""
        if function.namespace != 'aten' or self.torch.Tag.nondeterministic_seeded in function.tags:
            return None
        try:
            return function, self._content(args), self._content(kwargs)
        except Exception:  # a sparse tensor, one in torch.func, an argument that has no hash
            return None

    def _content(self, thing: Any) -> Hashable:
        if isinstance(thing, self.torch.Tensor):
            return self._of_tensor(thing)
        if isinstance(thing, list | tuple):
            return tuple(self._content(one) for one in thing)
        if isinstance(thing, dict):
            return tuple((name, self._content(one)) for name, one in thing.items())
        hash(thing)
        return type(thing), thing

    def _of_tensor(self, tensor: Any) -> Hashable:
        """Type, shape, and a digest of the content."""
        torch, layout = self.torch, (tensor.dtype, tuple(tensor.shape), tensor.stride())
        if tensor.device.type != 'cpu' or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            raise TypeError('its content is not looked at')
        if not tensor.is_contiguous() and tensor.numel() > LARGE:
            raise TypeError('it would have to be copied')
        numbers = tensor.detach().reshape(-1)
        if numbers.is_complex():
            numbers = torch.view_as_real(numbers).reshape(-1)
        size = numbers.element_size()
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
        bits = numbers.view(whole)
        if bits.numel() > SMALL:  # in a square, the sums of rows and of columns say where numbers differ
            side = math.isqrt(bits.numel())
            square = bits[: side * side].view(side, side)
            rest = bits[side * side :].long()
            bits = torch.cat([square.sum(0), square.sum(1), rest])
        return *layout, hashlib.blake2b(bits.contiguous().numpy(), digest_size=16).digest()

    def record(
        self, function: Any, args: tuple, result: Any, key: Hashable, seconds: float, frame: Any
    ) -> None:
        """Note one call of an operator; ``frame`` is its caller's."""
        places = looks.scripts_frames(frame)
        if not places or _is_below(frame, AUTOGRAD):  # its gradients may be ones, which is no fault
            return
        again, same = key in self.seen, key in self.before
        if function.namespace == 'profiler':  # marks of PyTorch's own
            return
        name = function._schema.name.split('::')[-1]
        if key is not None:
            self.seen.add(key)
        self._note_functions(places, same)
        aliases = [one.alias_info for one in function._schema.returns if one.alias_info is not None]
        if aliases and not any(alias.is_write for alias in aliases):
            return  # a view takes no time
        line = self.found.lines[places[0][:2]]
        line.function = places[0][0], places[0][2]
        line.seconds += seconds
        line.calls += 1
        if aliases or name in FRESH:
            return
        if again:
            line.again += seconds
            line.calls_again += 1
            if name == '_to_copy' and self._autocast_keeps(args[0], result):
                line.casts_again += seconds
            line.parametrized = line.parametrized or _is_below(frame, PARAMETRIZED)
        elif same:
            line.same += seconds
        if name in TRANSFORMS:
            lengths = _lengths_of(name, args)
            length = max(lengths, key=largest_factor)
            if largest_factor(length) > SMOOTH:
                kind = name, tuple(args[0].shape), tuple(args[1]), lengths[-1], length
                line.transforms[kind] += seconds

    def _autocast_keeps(self, tensor: Any, result: Any) -> bool:
        """Whether autocast makes this cast once in a context: it keeps those of weights that are trained."""
        narrow = result.dtype in (self.torch.bfloat16, self.torch.float16)
        return narrow and tensor.is_leaf and tensor.requires_grad

    def _note_functions(self, places: list[tuple], same: bool) -> None:
        for place, outer in zip(places, [*places[1:], None], strict=True):
            function = self.found.functions[place[0], place[2]]
            function.operators += 1
            function.same += same
            function.called_from = outer[:2] if outer else None


def _is_below(frame: Any, filename: str) -> bool:
    """Whether this code is called by a library's file, by way of the script or not."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(filename):
            return True
        frame = frame.f_back
    return False


# Fourier transforms ------------------------------------------------------------------------------


def _lengths_of(name: str, args: tuple) -> list[int]:
    """The lengths of a transform, of each of its dimensions."""
    sizes = [args[0].shape[dim] for dim in args[1]]
    if name == '_fft_c2r':
        sizes[-1] = args[3]
    return sizes


def largest_factor(number: int) -> int:
    """The largest prime factor; 1 of 1.

    >>> largest_factor(1999), largest_factor(2000)
    (1999, 5)
    """
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return max(largest, number)


def next_smooth(number: int) -> int:
    """The next length without a prime factor above 7.

    >>> next_smooth(1999)
    2000
    """
    while largest_factor(number) > SMOOTH:
        number += 1
    return number


@dataclass
class Transform:
    """A Fourier transform of an awkward length, beside one of the next smooth length."""

    line: tuple
    length: int
    smooth: int
    ratio: float  # how many times as long it takes as the smooth one
    share: float  # of the operators of its line


def transforms(torch: Any, found: Repeats) -> list[Transform]:
    """The awkward transforms of a step, the most expensive one of each line, tried beside smooth ones."""
    result = []
    for line, one in found.lines.items():
        if not one.transforms:
            continue
        (name, shape, dims, last, length), _ = one.transforms.most_common(1)[0]
        smooth = next_smooth(length)
        awkward, better = (_transform(torch, name, shape, dims, last, length, n) for n in (length, smooth))
        share = sum(one.transforms.values()) / one.seconds
        result.append(Transform(line, length, smooth, ratio(awkward, better, TRIED)[2], share))
    return result


def _transform(
    torch: Any, name: str, shape: tuple, dims: tuple, last: int, length: int, n: int
) -> Callable[[], float]:
    """A function that carries out a transform like this one, of ``n`` in place of ``length``, and returns its
    seconds.

    Args:
        last: the length of the result's last dimension of ``dims``, which is real with ``_fft_c2r``.
    """
    lengths = [shape[dim] for dim in dims[:-1]] + [last]
    lengths = [n if one == length else one for one in lengths]
    kind = torch.float32 if name == '_fft_r2c' else torch.complex64
    transformed = {
        '_fft_r2c': torch.fft.rfftn,
        '_fft_c2c': torch.fft.fftn,
        '_fft_c2r': torch.fft.irfftn,
    }[name]
    sizes = list(shape)
    for dim, size in zip(dims, lengths, strict=True):
        sizes[dim] = size
    if name == '_fft_c2r':
        sizes[dims[-1]] = lengths[-1] // 2 + 1
    numbers = torch.ones(sizes, dtype=kind)

    def timed() -> float:
        began = perf_counter()
        transformed(numbers, s=lengths, dim=dims)
        return perf_counter() - began

    return timed
