"""The clock of a running script: when its steps end, and in which part of a step the time goes.

Hooks (:mod:`why_slow.torch_hooks`, :mod:`why_slow.mxnet_hooks`) call :meth:`Watch.enter` and
:meth:`Watch.leave` around the loader, the forward pass and so on, and :meth:`Watch.optimizer_stepped` at
the end of each optimizer step. Time within a part belongs to the innermost part alone, so the parts of a
step add up to it.
"""

import contextlib
import os
import statistics
import threading
import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

process = os.getpid()  # asked once for each process, since asking in each mark takes too long


def _forked() -> None:
    global process
    process = os.getpid()


os.register_at_fork(after_in_child=_forked)

LEARNED = 8  # optimizer steps after which it is settled which optimizer ends a round
FORGOTTEN = 100  # optimizer steps without an end of a round, after which this is learned again
# Backward passes without an optimizer step, after which a backward pass ends a step: of a script without any
# optimizer, and of one that has an optimizer and may accumulate gradients.
WITHOUT_OPTIMIZER = 4
UNUSED_OPTIMIZER = 200


class Ended(BaseException):
    """Raised in the script by its hook when the time is over; not an Exception, so that few scripts catch
    it."""


@dataclass
class Step:
    """One step of the script: from the end of one round of its optimizers to the end of the next. Seconds."""

    seconds: float
    parts: dict[str, float]
    counts: dict[str, int]  # of events; 0 for those that it does not name
    losses: list[Any] = field(default_factory=list)


@dataclass
class Call:
    """The forward passes of a root module: their seconds, and the input of the one that took longest."""

    module: Any
    seconds: float = 0.0
    longest: float = 0.0
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    autocast: Any = None  # the type to which autocast was switched on

    def add(self, seconds: float, args: tuple, kwargs: dict, autocast: Any) -> None:
        """Note one forward pass."""
        self.seconds += seconds
        if seconds > self.longest:
            self.longest = seconds
            self.args, self.kwargs, self.autocast = args, kwargs, autocast


def usual_counts(steps: list[Step]) -> dict[str, int]:
    """How often each event comes in most steps."""
    names = {name for step in steps for name in step.counts}
    return {name: statistics.mode(step.counts[name] for step in steps) for name in names}


def is_ordinary(step: Step, usual: dict[str, int]) -> bool:
    """Whether a step contains nothing that other steps do not contain: no evaluation, no checkpoint, no
    new epoch."""
    return all(count <= usual.get(name, 0) for name, count in step.counts.items())


def parameters_of(optimizer: Any) -> list[Any]:
    """The tensors that an optimizer changes; none of a trainer of MXNet."""
    return [p for group in getattr(optimizer, 'param_groups', ()) for p in group['params']]


class Watch:
    """Where the time of the current step has gone so far.

    ``plan`` is a generator that is sent each finished :class:`Step`; when it ends, the script is ended too.
    Only the thread that takes the steps is watched, and only in the process that was started.
    """

    def __init__(self) -> None:
        self.pid = process
        self.thread = threading.get_ident()  # that takes the steps
        self.runner = self.thread  # that runs the script
        self.active = False  # whether the cheap marks are made
        self.plan: Generator[None, Step, None] | None = None
        self.steps = 0
        self.history: list[Step] = []  # all steps, also those that are not timed
        self.failure: BaseException | None = None
        self.swallowed = 0
        self.given_up: Callable[[str], None] | None = None  # called with the reason
        self.over = False
        self.keep_batch = False
        self.kept: Any = None  # a batch that its loader can hand out again
        self.replaying = 0  # how many times in a step it does so at most
        self.keep_losses = False
        self.order: list[int] = []
        self.closer: int | None = None
        self.since_closed = 0
        self.postponed = False  # whether a step ends with the backward pass that runs
        self.optimizers: Any = weakref.WeakValueDictionary()  # by id, as long as the script has them
        self.phase = 0  # goes up when the script begins to train something else
        self.trained: dict[int, weakref.ref] = {}  # parameters that an optimizer has changed, by id
        # the line of a pass in evaluation mode, with gradients
        self.evaluated_at: tuple[str, int] | None = None
        self.closures = False  # whether an optimizer was given a closure
        self.backwards_alone = 0
        self.by_backward = False
        self.has_optimizer: Callable[[], bool] = lambda: False  # whether the script has made one
        self.forward_call: Callable | None = None  # replaces the root module's call while a what-if is tried
        self.keep_input = False
        self.inputs: dict[int, Call] = {}  # of each root module, by its id
        # whether each has parameters, by its id, which another module may have when it is gone
        self.has_parameters: dict[int, tuple[weakref.ref | None, bool]] = {}
        self.on_backward: Callable[[Any], None] | None = None
        self.anomaly = False  # whether the last backward pass ran in anomaly mode
        self.no_anomaly = False
        self.profiles = 0  # profiles that the script has started
        self.operator_look: Any = None
        self.stack: list[str] = []  # the parts around the present one
        # forward passes with gradients of each module in this step, by its id
        self.calls: dict[int, int] = defaultdict(int)
        self.losses: list[Any] = []
        self.started = perf_counter()
        self.first_step: float | None = None
        self.fresh()

    # Marks ---------------------------------------------------------------------------------------

    def fresh(self) -> None:
        """Begin a step now."""
        self.part = 'rest'
        self.stack.clear()
        self.parts: dict[str, float] = defaultdict(float)
        self.counts: dict[str, int] = defaultdict(int)
        self.calls.clear()
        self.evaluating = False  # whether the last forward pass was in evaluation mode, with gradients
        if self.losses:
            self.losses = []
        self.began = self.last = perf_counter()

    def forget(self) -> None:
        """What was seen of the steps so far."""
        self.history = []
        self.kept, self.keep_batch, self.keep_input = None, False, False
        self.replaying, self.keep_losses, self.forward_call = 0, False, None
        self.inputs = {}
        self.evaluated_at = None
        self.no_anomaly = False
        self.profiles, self.closures = 0, False

    def mine(self) -> bool:
        """Whether the caller runs in the thread and the process that are watched."""
        return threading.get_ident() == self.thread and process == self.pid

    def enter(self, part: str) -> None:
        """From now on the time belongs to ``part``."""
        now = perf_counter()
        self.parts[self.part] += now - self.last
        self.stack.append(self.part)
        self.part = part
        self.last = now

    def leave(self) -> None:
        """The innermost part is over."""
        if not self.stack:  # a step ended inside the part
            return
        now = perf_counter()
        self.parts[self.part] += now - self.last
        self.part = self.stack.pop()
        self.last = now

    @contextlib.contextmanager
    def within(self, part: str):
        """``part`` as a context."""
        self.enter(part)
        try:
            yield
        finally:
            self.leave()

    # The ends of steps ---------------------------------------------------------------------------

    def optimizer_stepped(self, optimizer: Any) -> None:
        """One optimizer has made its step; where there are several, a round of all is one step."""
        self.by_backward = False
        self.backwards_alone = 0
        key = id(optimizer)
        if key not in self.order:
            self._take_place(key)
        if self.optimizers.get(key) is not optimizer:
            self.optimizers[key] = optimizer
            self._note_parameters(optimizer)
        if self.steps == 0 and not self.order:
            self.thread = threading.get_ident()
        self.since_closed += 1
        if self.since_closed > FORGOTTEN:  # the one that ended the rounds is not used any more
            self.order = []
        if len(self.order) < LEARNED or key not in self.order:
            self.order.append(key)
            self.closer = self._rarest()
        if key == self.closer:
            self.since_closed = 0
            if self.part == 'backward':  # a hook of a gradient has made the step
                self.postponed = True
            else:
                self.end_step()

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Of the optimizers that have stepped. A trainer of MXNet has none."""
        return [g for o in self.optimizers.values() for g in getattr(o, 'param_groups', ())]

    def parameters(self) -> list[Any]:
        """The tensors that these optimizers change."""
        return [p for optimizer in self.optimizers.values() for p in parameters_of(optimizer)]

    def _note_parameters(self, optimizer: Any) -> None:
        """A new optimizer whose parameters nobody has trained, while the others are gone, begins a phase."""
        parameters = parameters_of(optimizer)
        others = [o for o in self.optimizers.values() if o is not optimizer]
        known = any(self.trained.get(id(p), lambda: None)() is p for p in parameters)
        if self.trained and parameters and not others and not known:
            self.phase += 1
        self.trained |= {id(p): weakref.ref(p) for p in parameters}

    def _take_place(self, key: int) -> None:
        """Some scripts make an optimizer anew for each task: it takes the place of one that is gone."""
        gone = [other for other in self.order if other not in self.optimizers]
        if gone:
            self.order = [key if other == gone[0] else other for other in self.order]
            if self.closer == gone[0]:
                self.closer = key

    def _rarest(self) -> int:
        """The optimizer that ends a round: the rarest, and of equally rare ones the last of the first round.

        In the middle of a round others are one step ahead, which is no difference once a round has been seen.
        """
        seen = Counter(self.order)
        least = min(seen.values())
        allowed = least if least == 1 else least + 1
        return [key for key in dict.fromkeys(self.order) if seen[key] <= allowed][-1]

    def backward_done(self) -> None:
        """A backward pass is over. Without any optimizer it ends a step."""
        if self.postponed:
            self.postponed = False
            self.end_step()
            return
        if self.order:
            return
        self.backwards_alone += 1
        if self.backwards_alone == WITHOUT_OPTIMIZER and not self.has_optimizer():
            self.by_backward = True
        if self.backwards_alone == UNUSED_OPTIMIZER:
            self.by_backward = True
        if self.by_backward:
            self.end_step()

    def end_step(self) -> None:
        """Hand the finished step to the plan, outside of all clocks; raise :class:`Ended` when the plan is
        done."""
        if self.over:
            self.end_again()
            return
        now = perf_counter()
        self.parts[self.part] += now - self.last
        step = Step(now - self.began, self.parts, self.counts, self.losses)
        self.steps += 1
        self.history.append(step)
        if self.first_step is None:
            self.first_step = now
        if self.plan is not None:
            self.active = False  # what the plan does itself is not marked
            try:
                self.plan.send(step)
            except StopIteration:
                self.end_script('time is over')
                return
            except Exception as error:  # ours, not the script's: it must not be blamed for it
                self.failure = error
                self.end_script('the tool failed')
                return
            self.active = True
        self.fresh()

    def end_script(self, reason: str) -> None:
        """Raise :class:`Ended`. In a thread that the script has started this would end the thread alone, and
        leave the script waiting for it; there the script goes on unwatched."""
        self.over = True
        if threading.get_ident() == self.runner:
            raise Ended(reason) from None
        self.swallowed = 3
        self.give_up('The script trains in a thread of its own, and goes on by itself, unwatched.')

    def end_again(self) -> None:
        """The script caught the exception that ends it, and goes on: ask it three times, then leave it
        alone."""
        self.swallowed += 1
        if self.swallowed <= 3:
            raise Ended('time is over')
        self.give_up('The script caught the exception that was to end it, and goes on by itself, unwatched.')

    def give_up(self, why: str) -> None:
        """Report now, once."""
        if self.given_up is not None:
            given_up, self.given_up = self.given_up, None
            given_up(why)
