"""Backward passes that do more than they must: gradients that nobody uses, the same graph run several times,
the forward pass computed again.

Each is seen in one step that is not timed, in which PyTorch's profiler says how long each node of a backward
pass takes.
"""

import functools
import gc
import importlib
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from why_slow import looks
from why_slow.script import OWN
from why_slow.torch_hooks import Patches
from why_slow.watch import Watch, parameters_of

EDGE = 0.5  # share of a node's time for the gradient of its input; about half in a matmul or convolution
PART = 5  # nodes that are a part of a model; fewer may only lay out one of its weights


@dataclass
class NotNeeded:
    """What of the backward passes of a step was not needed, in seconds."""

    unused: Counter = field(default_factory=Counter)  # by the line of the forward pass
    parameters: int = 0  # with gradients that nobody uses
    elements: int = 0  # of these parameters
    repeated: Counter = field(default_factory=Counter)  # by the line, what came after the first time
    runs: Counter = field(default_factory=Counter)  # by the line, how often a node was run at most
    second_derivatives: bool = False  # whether a backward pass made a graph of its own
    checkpoints: Counter = field(default_factory=Counter)  # calls whose forward pass came again, by line


@dataclass
class Graph:
    """The graph of one backward pass. The nodes are numbered from 0, the loss's first."""

    numbers: list[int] = field(default_factory=list)  # of each node, the one by which the profiler names it
    edges: list[list[int]] = field(default_factory=list)  # the nodes to which each hands its gradient
    parameters: dict[int, int] = field(default_factory=dict)  # nodes that end at a parameter, and its id
    others: set[int] = field(default_factory=set)  # nodes that end at another tensor


def graph_of(torch: Any, roots: Iterable[Any]) -> tuple[Graph | None, dict[int, Any]]:
    """The graph behind these nodes, and its parameters by their ids; no graph if it is too large to look
    through."""
    graph, parameters = Graph(), {}
    places: dict[Any, int] = {}
    waiting = list(roots)
    for node in waiting:
        places[node] = len(places)
    # ``waiting`` grows while it is gone through, in the order of the nodes' places.
    for node in waiting:
        if len(places) > looks.NODES:
            return None, {}
        graph.numbers.append(node._sequence_nr())
        following = []
        for inner, _ in node.next_functions:
            if inner is None:
                continue
            if inner not in places:
                places[inner] = len(places)
                waiting.append(inner)
            following.append(places[inner])
        graph.edges.append(following)
        variable = getattr(node, 'variable', None)
        if isinstance(variable, torch.nn.Parameter):
            graph.parameters[places[node]] = id(variable)
            parameters[id(variable)] = variable
        elif not following or 'BackwardHook' in node.name():  # a hook of a module looks at the gradient
            graph.others.add(places[node])
    return graph, parameters


class GradientLook:
    """Which nodes of the backward passes of a step make nothing but gradients that nobody uses.

    A gradient is used when an optimizer steps with it, or when code outside of PyTorch reads it. It is
    thrown away if ``zero_grad`` comes first. If no optimizer has the parameter, nobody will use it.
    """

    def __init__(self, torch: Any, watch: Watch) -> None:
        self.torch = torch
        self.watch = watch
        self.graphs: list[Graph | None] = []
        self.parameters: dict[int, Any] = {}
        # for each parameter, the passes whose gradients it holds
        self.waiting: dict[int, list[int]] = defaultdict(list)
        self.used: set[tuple[int, int]] = set()  # a pass, and a parameter
        self.checkpoints: Counter = Counter()  # calls of torch.utils.checkpoint, by line
        self.second_derivatives = False
        self.asked_for = False  # whether the script asks for gradients of tensors in the middle of a graph
        self.step: Any = None  # the one that was looked at; in the next one, what it left is used or cleared
        library = os.path.dirname(os.path.realpath(torch.__file__)) + os.sep
        self.no_readers = library, OWN

    def start(self) -> None:
        """Begin to look, between two steps."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        Optimizer, Module = self.torch.optim.Optimizer, self.torch.nn.Module
        self.patches = Patches()
        self.patches.handles.append(register_optimizer_step_pre_hook(self._before_step))
        self.patches.put(Optimizer, 'zero_grad', self._clearing(Optimizer.zero_grad, parameters_of))
        self.patches.put(Module, 'zero_grad', self._clearing(Module.zero_grad, Module.parameters))
        self._count_checkpoints()
        self._see_second_derivatives()
        self.also = self.watch.on_backward
        self.watch.on_backward = self._before_backward

    def stop(self) -> None:
        """End it, between two steps."""
        self.watch.on_backward = self.also
        self.patches.restore()

    # What happens in the step --------------------------------------------------------------------

    def _before_backward(self, tensor: Any) -> None:
        if self.also is not None:
            self.also(tensor)
        for key, parameter in self.parameters.items():
            if parameter.grad is None:  # cleared without zero_grad
                self.waiting.pop(key, None)
        if self.step is not None:
            return
        tensors = tensor if isinstance(tensor, list | tuple) else [tensor]
        roots = dict.fromkeys(t.grad_fn for t in tensors if getattr(t, 'grad_fn', None) is not None)
        graph, parameters = graph_of(self.torch, roots)
        if graph is not None:
            self.parameters |= parameters
            for key, parameter in parameters.items():
                if _has_hooks(parameter):
                    self.used.add((len(self.graphs), key))
                self.waiting[key].append(len(self.graphs))
        self.graphs.append(graph)

    def _before_step(self, optimizer: Any, args: tuple, kwargs: dict) -> None:
        for parameter in parameters_of(optimizer):
            if parameter.grad is not None:
                self._use(parameter)

    def called(self, function: Any, arguments: tuple, frame: Any) -> None:
        """A function of PyTorch was called by the code of ``frame``: it may read a gradient, or ask for one.

        PyTorch itself reads gradients to clip or to clear them, which is no use, and so does this tool.
        """
        name = getattr(function, '__name__', '')
        if name in ('retain_grad', 'register_hook'):  # of a tensor that is no parameter, too
            self.asked_for = True
        if name != '__get__' or function.__self__ is not self.torch.Tensor.grad:
            return
        if not os.path.realpath(frame.f_code.co_filename).startswith(self.no_readers):
            self._use(arguments[0])

    def _use(self, parameter: Any) -> None:
        for number in self.waiting.pop(id(parameter), ()):
            self.used.add((number, id(parameter)))

    def _clearing(self, original: Any, parameters_of: Any) -> Any:
        @functools.wraps(original)
        def zero_grad(owner, *args, **kwargs):
            for parameter in parameters_of(owner):
                self.waiting.pop(id(parameter), None)
            return original(owner, *args, **kwargs)

        return zero_grad

    def _count_checkpoints(self) -> None:
        module = importlib.import_module('torch.utils.checkpoint')
        generator = getattr(module, '_checkpoint_without_reentrant_generator', None)
        function = module.CheckpointFunction
        if generator is None:  # a release without it
            return

        def count() -> None:
            if self.step is None:
                self.checkpoints[looks.scripts_line(sys._getframe(2))] += 1

        def counted(*args, **kwargs):
            count()
            return generator(*args, **kwargs)

        class Counted:
            """In the place of the function of reentrant checkpoints."""

            @staticmethod
            def apply(*args):
                count()
                return function.apply(*args)

        self.patches.put(module, '_checkpoint_without_reentrant_generator', counted)
        self.patches.put(module, 'CheckpointFunction', Counted)

    def _see_second_derivatives(self) -> None:
        autograd = self.torch.autograd
        run = getattr(autograd, '_engine_run_backward', None)
        if run is None:  # a release without it
            return

        def marked(tensors, gradients, retain_graph, create_graph, *args, **kwargs):
            self.second_derivatives = self.second_derivatives or bool(create_graph)
            return run(tensors, gradients, retain_graph, create_graph, *args, **kwargs)

        self.patches.put(autograd, '_engine_run_backward', marked)

    # What it has found ---------------------------------------------------------------------------

    def not_used(self) -> list[set[int]]:
        """For each pass, the parameters of which it has made a gradient that nobody uses."""
        Optimizer = self.torch.optim.Optimizer
        optimizers = [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]
        owned = {id(p) for optimizer in optimizers for p in parameters_of(optimizer)}
        found = []
        for number, graph in enumerate(self.graphs):
            keys = set(graph.parameters.values())
            used = {key for key in keys if (number, key) in self.used}
            kept = {key for key in keys if number in self.waiting.get(key, ()) and key in owned}
            found.append(keys - used - kept)
        return found

    def summed_up(self, nodes: list[looks.Node], line_of: Callable[[int], tuple | None]) -> NotNeeded:
        """What was not needed, in seconds.

        Args:
            nodes: what the profiler saw.
            line_of: the line of the script that made a node, from its number.
        """
        found = NotNeeded(second_derivatives=self.second_derivatives, checkpoints=self.checkpoints)
        passes: list[Kinds] = []
        # A closure's gradients are read inside of the optimizer.
        if None not in self.graphs and not self.watch.closures and not self.asked_for:
            not_used = self.not_used()
            passes = [kinds_of(graph, keys) for graph, keys in zip(self.graphs, not_used, strict=True)]
            wasted = set().union(*not_used)
            found.parameters = len(wasted)
            found.elements = sum(self.parameters[key].numel() for key in wasted)
        runs = defaultdict(list)
        for node in nodes:
            runs[node.number].append(node)
        for number, several in runs.items():
            line = line_of(number)
            again = []
            for node, share in zip(several, _shares(number, len(several), passes), strict=True):
                if share:
                    found.unused[line] += share * node.seconds
                elif not node.records:  # what records is run again for second derivatives
                    again.append(node.seconds)
            if len(again) > 1 and line is not None:
                found.repeated[line] += sum(again) - max(again)
                found.runs[line] = max(found.runs[line], len(again))
        return found


def _has_hooks(parameter: Any) -> bool:
    """Whether code of somebody is called with the gradient."""
    return bool(
        getattr(parameter, '_backward_hooks', None) or getattr(parameter, '_post_accumulate_grad_hooks', None)
    )


@dataclass
class Kinds:
    """The nodes of one backward pass by their numbers."""

    all: set[int]
    useless: set[int]  # they serve nothing but gradients that nobody uses
    at_edge: set[int]  # they hand a gradient to a part of the graph in which all nodes are useless


def kinds_of(graph: Graph, not_used: set[int]) -> Kinds:
    """The kinds of the nodes of a pass, of which the gradients of these parameters are not used."""
    wanted = {place for place, key in graph.parameters.items() if key not in not_used}
    leading = _leading_to(graph, wanted | graph.others)
    kinds = Kinds(set(graph.numbers), set(), set())
    for place, number in enumerate(graph.numbers):
        if place not in leading:
            kinds.useless.add(number)
            continue
        inner = [one for one in graph.edges[place] if one not in leading]
        if any(_size_behind(graph, one) >= PART for one in inner):
            kinds.at_edge.add(number)
    # All nodes that end at a parameter have one number, so nothing is known of it.
    ends = {graph.numbers[place] for place in graph.parameters}
    return Kinds(kinds.all - ends, kinds.useless - ends, kinds.at_edge - ends)


def _shares(number: int, runs: int, passes: list[Kinds]) -> list[float]:
    """For each run of a node, the share of its time that nobody needs.

    The runs are in the order of the passes, unless ``torch.autograd.grad`` made some of them.
    """
    through = [kinds for kinds in passes if number in kinds.all]
    shares = [1.0 if number in k.useless else EDGE if number in k.at_edge else 0.0 for k in through]
    if len(shares) == runs:
        return shares
    return [min(shares, default=0.0)] * runs


def _size_behind(graph: Graph, place: int) -> int:
    """The number of nodes that are reached from one, up to :data:`PART`."""
    found, waiting = {place}, [place]
    while waiting and len(found) < PART:
        for inner in graph.edges[waiting.pop()]:
            if inner not in found:
                found.add(inner)
                waiting.append(inner)
    return len(found)


def _leading_to(graph: Graph, wanted: set[int]) -> set[int]:
    """The nodes from which a wanted one is reached, and these."""
    before = defaultdict(list)
    for place, following in enumerate(graph.edges):
        for inner in following:
            before[inner].append(place)
    found, waiting = set(wanted), list(wanted)
    while waiting:
        for place in before[waiting.pop()]:
            if place not in found:
                found.add(place)
                waiting.append(place)
    return found
