"""Expensive looks at single steps, which are not timed: operators, the lines that call them, where Python
spends its time.

Each look is started and stopped between two steps. A look that could disturb the script is left out: the
profiler where the script profiles itself, and function modes where it compiles, for they would make it
compile again.
"""

import ast
import contextlib
import functools
import itertools
import linecache
import math
import os
import re
import signal
import sys
import sysconfig
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from why_slow.script import OWN

LIBRARIES = tuple(
    {
        os.path.realpath(sysconfig.get_paths()[k]) + os.sep
        for k in ('stdlib', 'platstdlib', 'purelib', 'platlib')
    }
)
SAMPLED_EVERY = 0.002
BACKWARD = 1  # the profiler's number for events that are nodes of a backward pass
_own_file: dict[str, bool] = {}


def own_files() -> dict[str, bool]:
    """The files that were asked for, and whether they are the reader's."""
    return _own_file


def is_scripts(filename: str) -> bool:
    """Whether a file is the reader's: not of a library, not of the tool."""
    known = _own_file.get(filename)
    if known is None:
        path = os.path.realpath(filename)
        known = (
            not (filename.startswith('<') and not filename.startswith('<ipython'))
            and not path.startswith(LIBRARIES)
            and not path.startswith(OWN)
            and not is_installed(path)
            and not is_generated(filename)
        )
        _own_file[filename] = known
    return known


def is_installed(path: str) -> bool:
    """Whether a file is of a package that is installed somewhere, or of the framework."""
    if '/site-packages/' in path or '/dist-packages/' in path:
        return True
    files = [getattr(sys.modules.get(name), '__file__', None) for name in ('torch', 'mxnet')]
    folders = [os.path.dirname(os.path.realpath(file)) + os.sep for file in files if file]
    return path.startswith(tuple(folders))


def is_generated(filename: str) -> bool:
    """Whether torch.compile has written this code."""
    if filename.startswith('<eval_with_key>'):
        return True
    folder = os.environ.get('TORCHINDUCTOR_CACHE_DIR')  # PyTorch sets it when it compiles
    return bool(folder) and filename.startswith(folder + os.sep)


def runs_operators(filename: str) -> bool:
    """Whether a file's code is there to run operators, so that time in it is no gap between them."""
    if is_scripts(filename):  # whatever the reader has called it
        return False
    if filename.endswith(('_tensor.py', 'functional.py', '_ops.py')) or is_generated(filename):
        return True
    if filename == '<string>':  # the guards of a compiled function
        return True
    if filename.endswith(('/torch/utils/_pytree.py', '/torch/_vmap_internals.py')):  # of torch.func
        return True
    parts = 'nn', 'optim', 'autograd', 'func', '_dynamo', '_functorch', '_inductor'
    folders = (*(f'/torch/{part}/' for part in parts), '/mxnet/')
    return any(folder in filename for folder in folders)


def scripts_frames(frame: Any) -> list[tuple[str, int, str]]:
    """The script's places on the stack, the innermost first: file, line, function."""
    places = []
    while frame is not None:
        code = frame.f_code
        if is_scripts(code.co_filename):
            places.append((code.co_filename, frame.f_lineno or 0, code.co_qualname))
        frame = frame.f_back
    return places


def scripts_line(frame: Any) -> tuple[str, int] | None:
    """The innermost line of the script on the stack."""
    while frame is not None:
        if is_scripts(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno or 0
        frame = frame.f_back
    return None


def named(place: tuple | None) -> str | None:
    """``train.py:41``."""
    return f'{os.path.basename(place[0])}:{place[1]}' if place else None


def text_of(place: tuple | None) -> str:
    """What stands on the line."""
    return linecache.getline(place[0], place[1]).strip() if place else ''


@functools.lru_cache(maxsize=32)
def loops_of(filename: str) -> list[tuple[int, int, int]]:
    """First and last line of each loop and comprehension of a file, and 1 if it trains: calls backward or
    an optimizer."""
    try:
        tree = ast.parse(''.join(linecache.getlines(filename)))
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(
            node, ast.For | ast.While | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
        ):
            calls = {
                n.func.attr
                for n in ast.walk(node)
                if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
            }
            found.append(
                (
                    node.lineno,
                    node.end_lineno or node.lineno,
                    int(bool(calls & {'backward', 'step', 'zero_grad'})),
                )
            )
    return found


def loops_around(places: tuple) -> list[tuple[str, int, int, int]]:
    """The loops that the script's places lie in, innermost first, up to the one that trains: file, first,
    last, place's line."""
    for file, line, _ in places:
        around = sorted(
            (last - first, first, last, trains)
            for first, last, trains in loops_of(file)
            if first <= line <= last
        )
        if around:
            found = []
            for _, first, last, trains in around:
                if trains:
                    break
                found.append((file, first, last, line))
            return found
    return []


# Operators ---------------------------------------------------------------------------------------


@dataclass
class Operators:
    """What PyTorch's profiler saw of one step. Seconds; ``own`` excludes the operators that an operator
    calls; ``outer`` counts those that no other operator calls."""

    count: int = 0
    outer: int = 0
    seconds: float = 0.0
    by_name: dict[str, tuple[int, float]] = field(default_factory=dict)
    flops: float = 0.0
    nodes: list['Node'] = field(default_factory=list)  # of backward passes, in the order in which they ran


@dataclass
class Node:
    """One run of a node of autograd's graph."""

    number: int  # the nodes are numbered as they are made
    seconds: float
    records: bool = False  # whether it made a graph itself, for gradients of gradients


class OperatorLook:
    """The profiler around one step."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.result = Operators()

    def start(self) -> None:
        profiler = self.torch.profiler
        self.profile = profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], record_shapes=True, with_flops=True
        )
        with _quiet():
            self.profile.__enter__()

    def stop(self) -> None:
        """End it; again is harmless."""
        if self.profile is None:
            return
        with _quiet():
            self.profile.__exit__(None, None, None)
        result = self.result
        events = self.profile.events()
        loading = [e.time_range for e in events if e.name.startswith('enumerate(DataLoader)')]
        nodes: dict[int, Node] = {}  # by the id of the event
        for event in events:
            if event.scope == BACKWARD and not _within(event, lambda parent: parent.scope == BACKWARD):
                nodes[id(event)] = Node(event.sequence_nr, event.cpu_time_total * 1e-6)
        result.nodes = list(nodes.values())
        for event in events:
            if event.scope != BACKWARD and event.sequence_nr >= 0:
                for parent in _parents(event):
                    if id(parent) in nodes:
                        nodes[id(parent)].records = True
            if '::' not in event.name or event.is_async:
                continue
            start = event.time_range.start
            if any(
                r.start <= start <= r.end for r in loading
            ):  # the loader's own operators are not the step's
                continue
            own = event.self_cpu_time_total * 1e-6
            count, seconds = result.by_name.get(event.name, (0, 0.0))
            result.by_name[event.name] = (count + 1, seconds + own)
            result.count += 1
            result.outer += not _within(event, lambda parent: parent.name.startswith('aten::'))
            result.seconds += own
            result.flops += _flops(event)
        self.profile = None


def _parents(event: Any) -> Generator[Any, None, None]:
    """The events that contain this one, the innermost first."""
    parent = event.cpu_parent
    while parent is not None:
        yield parent
        parent = parent.cpu_parent


def _within(event: Any, chosen: Callable[[Any], bool]) -> bool:
    """Whether an event that is chosen contains this one."""
    return any(map(chosen, _parents(event)))


def _flops(event: Any) -> float:
    """What an operator does in matrix products, convolutions and attention.

    The profiler counts products alone in both passes, of convolutions only one kind and the forward pass.
    """
    name, shapes, values = event.name, event.input_shapes, event.concrete_inputs
    try:
        if name == 'aten::convolution':
            return _convolution(shapes[0], shapes[1], *values[3:7])
        if name == 'aten::convolution_backward':
            wanted = values[10]  # gradients of the input, of the weights, of the bias
            return (wanted[0] + wanted[1]) * _convolution(shapes[1], shapes[2], *values[4:8])
        if name == 'aten::_scaled_dot_product_flash_attention_for_cpu':
            return _attention(shapes[0], shapes[1], products=2, causal=values[4])
        if name == 'aten::_scaled_dot_product_flash_attention_for_cpu_backward':
            return _attention(shapes[1], shapes[2], products=5, causal=values[7])
    except (IndexError, TypeError, ValueError):  # another release has other arguments
        return 0
    return (event.flops or 0) if 'mm' in name else 0


def _convolution(images: list, weights: list, stride: list, padding: list, dilation: list, transposed: bool):
    """Two operations for each weight at each place of the output, or of the input if it is transposed."""
    places = 1
    for i, size in enumerate(images[2:]):
        if not transposed:
            kernel = dilation[i % len(dilation)] * (weights[2 + i] - 1) + 1
            size = (size + 2 * padding[i % len(padding)] - kernel) // stride[i % len(stride)] + 1
        places *= size
    return 2 * images[0] * places * math.prod(weights)


def _attention(queries: list, keys: list, products: int, causal: bool) -> float:
    """Products of two matrices for each head, which skip half of the pairs if it is causal."""
    *heads, length, width = queries
    return 2 * products * math.prod(heads) * length * keys[-2] * width * (0.5 if causal else 1)


@contextlib.contextmanager
def _quiet():
    """The profiler writes notes to stderr by C++."""
    sys.stderr.flush()
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


# Lines -------------------------------------------------------------------------------------------


@dataclass
class Calls:
    """Calls of one function of PyTorch from one line of the script in one step."""

    count: int = 0
    seconds: float = 0.0
    bytes: int = 0
    wide: int = 0  # calls with a float64 tensor
    arguments: Counter = field(
        default_factory=Counter
    )  # how often each parameter, or each tensor of rows, was one
    direct: bool = False  # called by the script itself, not by a library that it calls
    graph: bool = False  # whether gradients were enabled
    parameters: int = 0  # calls on a parameter or a gradient
    part: str = 'rest'
    outer: tuple = ()  # the script's places, the innermost first


@dataclass
class Table:
    """What a step looks up in the table of an embedding."""

    line: tuple
    rows: int
    bytes: int
    looked_up: set[int] = field(default_factory=set)
    positions: int = 0
    padding: int = 0  # positions behind or before the end of their row's text
    padded_columns: int = 0  # positions of columns in which every row is padded


SYNCHRONIZING = {
    'asnumpy',
    'asscalar',
    'wait_to_read',
    'item',
    'tolist',
    'numpy',
    '__bool__',
    '__float__',
    '__int__',
    '__index__',
    'cpu',
    'nonzero',
    '__array__',
}
ROWS = {'__getitem__', 'select', 'narrow', 'index_select', '__setitem__'}
COPYING = {
    'to',
    'contiguous',
    'clone',
    'double',
    'float',
    'half',
    'bfloat16',
    'cpu',
    'numpy',
    'type',
    'type_as',
    'copy_',
    'cuda',
}


class LineLook:
    """Which line of the script calls which function of PyTorch, how often, for how long; what the graph
    saves."""

    def __init__(self, torch: Any, watch: Any) -> None:
        self.calls: dict[tuple, Calls] = {}
        self.saved: dict[int, int] = {}
        self.torch = torch
        self.watch = watch
        self.parameters: set[int] = set()
        self.data: set[int] = set()  # what ``.data`` of a parameter gave
        self.kept: list[Any] = []
        self.tables: dict[int, Table] = {}  # of dense gradients, by the id of the weights

    @staticmethod
    def possible(torch: Any) -> bool:
        """Not where the script uses a function mode of its own."""
        return torch._C._len_torch_function_stack() == 0

    def record(self, name: str, args: tuple, result: Any, seconds: float, frame: Any) -> None:
        """Note one call of a function of PyTorch; ``frame`` is its caller's."""
        watch, Tensor, parameters = self.watch, self.torch.Tensor, self.parameters
        if watch.part == 'loader' or not watch.mine():
            return
        places = scripts_frames(frame)
        if not places:
            return
        key = (places[0][:2], name, watch.part)
        one = self.calls.get(key)
        if one is None:
            direct = is_scripts(frame.f_code.co_filename)
            one = self.calls[key] = Calls(part=watch.part, outer=tuple(places), direct=direct)
        one.count += 1
        one.seconds += seconds
        one.graph = one.graph or self.torch.is_grad_enabled()
        if name in ROWS and args and isinstance(args[0], Tensor) and id(args[0]) not in parameters:
            self.kept.append(args[0])  # so that its id means this tensor for the whole step
            one.arguments[id(args[0])] += 1
        touched = False
        for a in args:
            if isinstance(a, Tensor):
                one.wide += a.dtype == self.torch.float64
                if id(a) in parameters:
                    one.arguments[id(a)] += 1
                touched = touched or id(a) in parameters or id(a) in self.data
        one.parameters += touched
        if isinstance(result, Tensor) and name in COPYING:
            with contextlib.suppress(RuntimeError):  # sparse tensors, and those in torch.func
                if not (args and isinstance(args[0], Tensor) and args[0].data_ptr() == result.data_ptr()):
                    one.bytes += result.numel() * result.element_size()

    def look_up(self, indices: Any, weights: Any, sparse: bool, frame: Any) -> None:
        """Note the rows of an embedding with dense gradients that one call looks up, and their padding."""
        line = scripts_line(frame)
        if line is None or sparse or id(weights) not in self.parameters or indices.device.type != 'cpu':
            return
        indices = indices.detach()
        try:
            rows = indices.unique().tolist()
        except RuntimeError:  # in torch.func
            return
        table = self.tables.get(id(weights))
        if table is None:
            size = weights.numel() * weights.element_size()
            table = self.tables[id(weights)] = Table(line, weights.shape[0], size)
        table.looked_up.update(rows)
        table.positions += indices.numel()
        # A table of types, such as first and second sentence, is looked up with one or two indices.
        if indices.dim() == 2 and indices.shape[0] > 3 and len(rows) > 2:
            padding = _padding(indices)
            table.padding += int(padding.sum())
            table.padded_columns += int(padding.all(0).sum()) * indices.shape[0]

    def _prepare(self) -> None:
        self.parameters = {id(p) for p in self.watch.parameters()}

    def start(self) -> None:
        """Begin to look, between two steps."""
        torch, look = self.torch, self
        self._prepare()

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                began = perf_counter()
                result = function(*args, **(kwargs or {}))
                seconds = perf_counter() - began
                name = getattr(function, '__name__', str(function))
                if name == '__get__':
                    name = getattr(getattr(function, '__self__', None), '__name__', name)
                    if name == 'data' and id(args[0]) in look.parameters:
                        look.data.add(id(result))
                        look.kept.append(result)  # so that its id means this tensor for the whole step
                    if name != 'grad':
                        return result
                look.record(name, args, result, seconds, sys._getframe(1))
                if name == 'embedding' and torch.is_grad_enabled():
                    look.look_up(*args[:2], sparse=(kwargs or {}).get('sparse'), frame=sys._getframe(1))
                return result

        def pack(tensor):
            if id(tensor) not in look.parameters:
                with contextlib.suppress(RuntimeError):  # as above
                    storage = tensor.untyped_storage()
                    look.saved[storage.data_ptr()] = storage.nbytes()
            return tensor.detach()  # the tensor itself would refer to the graph that refers to it

        graph = torch.autograd.graph
        self.disable = disable = graph.disable_saved_tensors_hooks

        @functools.wraps(disable)
        def disable_saved_tensors_hooks(message):
            look.end_hooks()
            look.saved = {}  # it has not seen all of them
            return disable(message)

        self.mode = Mode()
        self.mode.__enter__()
        self.saved_hooks = graph.saved_tensors_hooks(pack, lambda t: t)
        try:
            self.saved_hooks.__enter__()
        except RuntimeError:  # the script does not allow hooks here
            self.saved_hooks = None
        graph.disable_saved_tensors_hooks = disable_saved_tensors_hooks

    def end_hooks(self) -> None:
        """See no more saved tensors: torch.func, which the script may use in the step, works only without
        hooks."""
        if self.saved_hooks is not None:
            self.saved_hooks.__exit__(None, None, None)
            self.saved_hooks = None

    def stop(self) -> None:
        """End it, between two steps."""
        self.torch.autograd.graph.disable_saved_tensors_hooks = self.disable
        self.end_hooks()
        self.kept = []
        self.mode.__exit__(None, None, None)


def _padding(indices: Any) -> Any:
    """Which positions of rows of indices repeat the same one up to the end, or from the beginning, if that
    is one index in at least half of the rows."""
    for turned in (indices.flip(1), indices):
        filler = turned[:, 0].mode().values
        run = (turned == filler).long().cumprod(1).bool()
        if run[:, 1:2].float().mean() >= 0.5:
            return run.flip(1) if turned is not indices else run
    return indices.new_zeros(indices.shape).bool()


class MethodLook(LineLook):
    """The same for a few methods of tensors only, those that read or copy: a function mode would make
    compiled code compile anew."""

    def start(self) -> None:
        """Replace the methods, between two steps."""
        look, Tensor = self, self.torch.Tensor
        compiling = self.torch.compiler.is_compiling
        self._prepare()
        self.replaced: dict[str, Any] = {}

        def recorded(name, method):
            def call(*args, **kwargs):
                if compiling():
                    return method(*args, **kwargs)
                began = perf_counter()
                result = method(*args, **kwargs)
                look.record(name, args, result, perf_counter() - began, sys._getframe(1))
                return result

            return call

        for name in sorted((SYNCHRONIZING | COPYING | ROWS) - {'copy_'}):
            method = getattr(Tensor, name, None)
            if method is not None:
                self.replaced[name] = vars(Tensor).get(name)
                setattr(Tensor, name, recorded(name, method))

    def stop(self) -> None:
        """Put the methods back."""
        Tensor = self.torch.Tensor
        for name, method in self.replaced.items():
            if method is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, method)
        self.kept = []


# Samples -----------------------------------------------------------------------------------------


class Samples:
    """Where the script is: some five hundred times a second a timer's signal asks for the part and the
    script's lines.

    The handler runs in the main thread between two instructions of Python, so each sample weighs as many
    seconds as have passed since the one before: a long operator is one sample, and a heavy one.
    """

    def __init__(self, watch: Any) -> None:
        self.watch = watch
        self.found: Counter = Counter()
        self.total = 0.0
        self.number = 0
        self.before: Any = None
        self.names: dict[str, dict] = {}  # of each file of the script, what its names stand for

    def possible(self) -> bool:
        """Not where the script uses the timer itself, nor where it takes its steps in another thread."""
        return (
            hasattr(signal, 'setitimer')
            and threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGALRM) in (signal.SIG_DFL, signal.SIG_IGN)
        )

    def start(self) -> None:
        self.before = signal.signal(signal.SIGALRM, self._sample)
        self.last = perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SAMPLED_EVERY, SAMPLED_EVERY)

    def _sample(self, number: int, frame: Any) -> None:
        now = perf_counter()
        seconds, self.last = now - self.last, now
        if not self.watch.active or frame is None:  # between two steps
            return
        if frame.f_code.co_filename.startswith(OWN):  # a mark of ours, or the handler before this one
            return
        inner = (frame.f_code.co_filename, frame.f_code.co_qualname)
        self.found[self.watch.part, tuple(scripts_frames(frame)), inner] += seconds
        self._note_names(frame)
        self.total += seconds
        self.number += 1

    def _note_names(self, frame: Any) -> None:
        while frame is not None and not is_scripts(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is not None:
            self.names[frame.f_code.co_filename] = frame.f_globals

    def names_framework(self, line: tuple[str, int]) -> bool:
        """Whether a line uses a module of the framework by its name, as ``F.conv1d(…)`` does."""
        names = self.names.get(line[0], {})
        modules = (names.get(word) for word in re.findall(r'(\w+)\.', text_of(line)))
        return any(getattr(m, '__name__', '').split('.')[0] in ('torch', 'mxnet') for m in modules)

    def stop(self) -> None:
        if self.before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self.before)
            self.before = None


# Graphs that are kept ----------------------------------------------------------------------------


SCALING = ('MulBackward0', 'DivBackward0')
LATER = 4  # steps after which a graph should be gone
NODES = 20_000  # of a graph, not more are counted
COUNTING = 0.3  # seconds at most for counting nodes


def nodes_behind(node: Any) -> int:
    """How many nodes autograd would go through from this one; at most :data:`NODES` are counted."""
    seen, waiting = {node}, [node]
    while waiting and len(seen) < NODES:
        for inner, _ in waiting.pop().next_functions:
            if inner is not None and inner not in seen:
                seen.add(inner)
                waiting.append(inner)
    return len(seen)


class KeptGraphs:
    """Whether the graphs of losses outlive their steps: a mark hangs on each graph and lives as long as
    it. And whether they grow: a tensor that is carried from step to step brings its graph along."""

    class Mark:
        __slots__ = ('__weakref__',)

    def __init__(self, watch: Any) -> None:
        self.watch = watch
        self.waiting: deque[tuple[int, weakref.ref]] = deque()
        self.outlived: list[bool] = []  # of each graph, whether it lived some steps later
        self.nodes: list[int] = []  # of the graphs of the first steps
        self.counting = 0.0  # seconds
        self.line: tuple | None = None

    def start(self) -> None:
        self.watch.on_backward = self._mark

    def _mark(self, tensor: Any) -> None:
        # Asked while the script runs, for its variables go when it is ended, and a list may go with an epoch.
        while self.waiting and self.waiting[0][0] < self.watch.steps - LATER:
            _, mark = self.waiting.popleft()
            self.outlived.append(mark() is not None)
        node = getattr(tensor, 'grad_fn', None)
        if node is None:
            return
        if self.line is None:
            self.line = scripts_line(sys._getframe(2))
        mark = self.Mark()
        node.metadata['why_slow'] = mark
        if node.name() in SCALING:  # what is kept may be the loss before it is scaled
            for inner, _ in node.next_functions:
                if inner is not None and 'AccumulateGrad' not in inner.name():
                    inner.metadata['why_slow'] = mark
        self.waiting.append((self.watch.steps, weakref.ref(mark)))
        if self.counting < COUNTING:
            begin = perf_counter()
            self.nodes.append(nodes_behind(node))
            self.counting += perf_counter() - begin

    def stop(self) -> None:
        self.watch.on_backward = None

    def grows(self) -> bool:
        """Whether each graph that was counted has more nodes than the one before."""
        return len(self.nodes) >= 5 and all(a < b for a, b in itertools.pairwise(self.nodes))

    def keeper(self) -> tuple | None:
        """The line of the script that keeps the loss, as far as its text tells."""
        if self.line is None:
            return None
        call = text_of(self.line)
        name = (
            call.split('.backward')[0].split('(')[-1].split('=')[-1].strip()
            if '.backward' in call
            else 'loss'
        )
        name = re.split(r'\W', name)[0] or 'loss'
        lines = linecache.getlines(self.line[0])
        try:
            tree = ast.parse(''.join(lines))
        except SyntaxError:
            return self.line
        freed = ('item', 'detach', 'tolist')
        for node in ast.walk(tree):
            keeps = isinstance(node, ast.AugAssign) or (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ('append', 'add', 'insert', 'update', 'appendleft')
            )
            plain = keeps and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))
            numbers = plain and any(
                isinstance(n, ast.Attribute)
                and n.attr in freed
                or isinstance(n, ast.Name)
                and n.id == 'float'
                for n in ast.walk(node)
            )
            if plain and not numbers:
                return self.line[0], node.lineno
        return self.line
