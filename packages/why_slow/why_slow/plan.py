"""What is done in which step of the script: warm-up, timed steps, looks that are not timed, what-ifs.

:func:`plan` is a generator. Each ``yield`` lets the script take one step and receives what it took. The
script goes on between two yields only; when the generator returns, the script is ended.
"""

import contextlib
import functools
import os
import resource
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, fields
from datetime import timedelta
from time import perf_counter
from typing import Any

from why_slow import looks, whatifs
from why_slow.gradients import GradientLook, NotNeeded
from why_slow.hot_spots import Recorder
from why_slow.mxnet_hooks import ReadLook
from why_slow.repeats import RepeatLook, Repeats, Transform, transforms
from why_slow.torch_hooks import Patches, mark_modules, modules_of
from why_slow.trial import Copy, ratio
from why_slow.watch import Call, Step, Watch, is_ordinary, usual_counts

WARM = 5  # steps that are not timed at the beginning
LOOK_AFTER = 10  # timed steps before the first look
SAMPLED = 1.5  # seconds of steps that are sampled
PLAIN = 0.2  # share of the time for timed steps without anything
PLAIN_STEPS = 30  # and at least so many of them
TOGETHER = 20.0  # seconds that the ranks wait for each other once, to see whether all of them take steps
PHASES = 4  # things that are trained one after the other; later ones are taken for one
LATE = 0.5  # share of the time after which what is trained next has no report
CACHE = 4 * 2**20  # bytes, more than the caches of one core
LONG = 0.05  # share of the time; where a step takes more, two steps are not compared
LOOKS = 0.5  # no look begins after this share of the time


@dataclass
class Session:
    """Everything that is known about the run of a script."""

    watch: Watch
    seconds: float
    what_ifs: bool
    torch: Any = None
    mxnet: Any = None
    patches: Patches = field(default_factory=Patches)
    cores: int = 1  # that this process can keep busy
    roots: list[Any] = field(default_factory=list)
    warm: int = 0
    plain: list[Step] = field(default_factory=list)
    usual: dict[str, int] = field(default_factory=dict)
    operators: looks.Operators | None = None
    backward: Counter = field(default_factory=Counter)  # seconds by the line that made the node
    not_needed: NotNeeded | None = None  # of the backward passes
    lines: looks.LineLook | None = None
    repeats: Repeats | None = None  # what a step computes although it is known
    transforms: list[Transform] = field(default_factory=list)
    samples: looks.Samples | None = None
    graphs: looks.KeptGraphs | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    loader: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    copy: Copy | None = None
    tried: str = 'the model'  # what was copied, where the script calls several modules
    batch_size: int | None = None
    compiles: bool = False
    compiled: dict[str, Any] = field(default_factory=dict)
    compiled_before: dict[str, Any] = field(default_factory=lambda: _compilation())
    compiled_then: dict[str, Any] = field(default_factory=dict)  # before the first timed step
    grown: float = 0.0  # bytes, during the timed steps
    doubled: tuple[float, float, float] | None = None
    narrowed: tuple[float, float, float] | None = None
    results: list[whatifs.Result] = field(default_factory=list)
    switched: Any = None
    changed: bool = False
    cost: float = 0.0
    ranks: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    progress: Any = None

    def say(self, text: str) -> None:
        """A line of progress on stderr."""
        if self.progress is not None:
            self.progress(text)

    def ordinary(self) -> list[Step]:
        """The timed steps that contain what each step contains."""
        usual = usual_counts(self.plain)
        found = [step for step in self.plain if is_ordinary(step, usual)]
        return found or self.plain

    def restore(self) -> None:
        """Switch back what is switched, and take all marks away."""
        if self.watch.plan is not None:
            self._end_plan()
        self._switch_back()
        self.watch.active = False
        self.patches.restore()

    def _switch_back(self) -> None:
        if self.switched is not None and self.changed:
            try:
                self.switched.restore()
            except Exception as error:  # the report must come all the same
                self.notes.append(f'{self.switched.title} could not be switched back: {error}')
            self.changed = False
        for look in (self.samples, self.graphs):
            if look is not None:
                look.stop()

    def forget(self) -> None:
        """Begin anew: what was switched is switched back, and nothing that was seen is left."""
        self._switch_back()
        kept = {'watch', 'seconds', 'what_ifs', 'torch', 'mxnet', 'patches', 'progress', 'compiled_before'}
        fresh = Session(self.watch, self.seconds, self.what_ifs)
        for one in fields(self):
            if one.name not in kept:
                setattr(self, one.name, getattr(fresh, one.name))
        self.watch.forget()

    def _end_plan(self) -> None:
        """End what the plan was doing in the step in which the script has ended, such as a look."""
        try:
            self.watch.plan.close()
        except ValueError:
            pass  # it runs just now, since it is the plan that ends the script
        except Exception as error:  # the report must come all the same
            self.notes.append(f'The last look could not be ended: {type(error).__name__}: {error}')

    def end_profile(self) -> None:
        """End a profile of PyTorch that the script has left open: it was ended before it could."""
        if self.torch is not None and self.torch.autograd._profiler_enabled():
            self.torch.autograd._disable_profiler()


def plan(session: Session) -> Generator[None, Step, None]:
    """The whole run, from the first step on.

    Where the script begins to train something else, as after a teacher has been trained, the run begins
    again, and what was seen before is forgotten.
    """
    before = []  # what to say of the parts that are over
    for number in range(PHASES):
        phase, steps = session.watch.phase, 0
        is_last = number + 1 == PHASES
        began = perf_counter()
        with contextlib.closing(_phase(session)) as run:
            next(run)
            while True:
                step = yield
                if session.watch.phase != phase and not is_last:
                    break
                steps += 1
                try:
                    run.send(step)
                except StopIteration:
                    return
        if session.plain and perf_counter() - began > LATE * session.seconds:
            session.notes.append(
                f'The report is about {steps} steps. Then the script began to train something else.'
            )
            return
        session.say('the script trains something else now')
        before.append(f'Before the steps of this report, the script has trained something else for {steps}.')
        session.forget()
        session.notes += before


def _phase(session: Session) -> Generator[None, Step, None]:
    """The run, as long as the script trains the same."""
    step = yield  # the first step: imports, allocation, compilation
    session.say('the first step is over')
    began = perf_counter()
    until = began + session.seconds
    session.warm = 1
    _find_modules(session, step)
    while session.warm < WARM and _ranks(session) == 1 and perf_counter() - began < 0.1 * session.seconds:
        step = yield
        session.warm += 1
        _find_modules(session, step)
    _settings(session)
    if _ranks(session) > 1:
        yield from _on_ranks(session)
        return
    try:
        yield from _watched(session, began, until)
    finally:  # also where the script ends by itself, or by Ctrl-C
        if session.plain:
            _sum_up(session)
    if session.torch is None:
        return
    if session.what_ifs:
        _try_on_copy(session)
        yield from _what_ifs(session, until)


def _watched(session: Session, began: float, until: float) -> Generator[None, Step, None]:
    """Timed steps, looks at others, and timed steps again."""
    session.compiled_then = _compilation()
    memory = _resident()
    try:
        yield from _timed(session, LOOK_AFTER, began + 0.4 * session.seconds)
    finally:
        session.grown = _resident() - memory
    if perf_counter() - began < LOOKS * session.seconds:
        session.say('looking at single steps')
        yield from _look(session)
    session.say('timing steps')
    memory = _resident()  # what the looks have taken is not the script's
    enough = began + PLAIN * session.seconds
    try:
        while perf_counter() < enough or (
            len(session.plain) < PLAIN_STEPS and perf_counter() < began + 0.3 * session.seconds
        ):
            yield from _timed(session, 1, until)
            if len(session.plain) >= 1000:
                break
    finally:
        session.grown += _resident() - memory


def _sum_up(session: Session) -> None:
    """What follows from all timed steps together."""
    session.usual = usual_counts(session.plain)
    session.memory['growth_per_step'] = max(0.0, session.grown / len(session.plain))
    session.compiled = _compiled(session.compiled_then, _compilation(), session.compiled_before)
    session.cost = _own_cost(session)


def _timed(session: Session, steps: int, until: float) -> Generator[None, Step, None]:
    """So many timed steps; at least two if the time is over."""
    for _ in range(steps):
        if perf_counter() > until and len(session.plain) >= 2:
            return
        session.plain.append((yield))


# Several ranks -----------------------------------------------------------------------------------


def _ranks(session: Session) -> int:
    """How many ranks take their steps together."""
    distributed = sys.modules.get('torch.distributed')
    if (
        session.torch is None
        or distributed is None
        or not distributed.is_available()
        or not distributed.is_initialized()
    ):
        return 1
    return distributed.get_world_size()


def _on_ranks(session: Session) -> Generator[None, Step, None]:
    """Timed steps, as many on each rank, for they wait for each other; then each tells what its steps are
    made of."""
    distributed = session.torch.distributed
    while session.warm < WARM:  # by number, as the clocks of the ranks differ
        yield
        session.warm += 1
    began = perf_counter()
    session.plain.append((yield))
    number = [max(3, min(300, round(0.5 * session.seconds / (perf_counter() - began))))]
    if not _together(session):
        session.notes.append('Not all ranks take steps, so this is the report of rank 0 alone.')
        yield from _timed(session, number[0], began + session.seconds)
        session.usual = usual_counts(session.plain)
        session.cost = _own_cost(session)
        _sizes(session)
        return
    distributed.broadcast_object_list(number, src=0)
    for _ in range(number[0]):
        session.plain.append((yield))
    session.usual = usual_counts(session.plain)
    session.cost = _own_cost(session)
    steps = session.ordinary()
    own = {
        part: statistics.fmean(step.parts.get(part, 0.0) for step in steps)
        for part in ('loader', 'forward', 'backward', 'optimizer', 'collectives', 'rest')
    }
    ranks: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(ranks, own)
    session.ranks = ranks
    _sizes(session)
    if session.what_ifs:
        yield from _without_all_reduce(session)


def _together(session: Session) -> bool:
    """Whether all ranks take steps. They ask by the store, for a collective would meet another one of a rank
    that takes none. Who sees all others, or has waited too long, decides for all."""
    distributed = session.torch.distributed
    store = distributed.distributed_c10d._get_default_store()
    ranks = range(distributed.get_world_size())
    store.set(f'why_slow/steps/{distributed.get_rank()}', 'yes')
    try:
        store.wait([f'why_slow/steps/{rank}' for rank in ranks], timedelta(seconds=TOGETHER))
        seen = 'together'
    except RuntimeError:  # the time is over
        seen = 'apart'
    return store.compare_set('why_slow/decided', '', seen) == b'together'


def _without_all_reduce(session: Session) -> Generator[None, Step, None]:
    """DDP's all-reduce left out, on all ranks in the same steps. The ranks drift apart in these steps, so
    each begins afterwards where it was before."""
    distributed = session.torch.distributed
    remedy = whatifs.NoAllReduce(session)
    step = statistics.median(step.seconds for step in session.ordinary())
    chosen = [whatifs.by_number(step, 0.4 * session.seconds)]
    distributed.broadcast_object_list(chosen, src=0)
    quartets, steps = chosen[0]
    applies, state, lack = remedy.applies(), None, ''
    if not quartets:
        lack = 'the time is too short; use a longer --seconds'
    elif not whatifs.State.fits(session):
        lack = 'there is too little free memory for a copy of the parameters'
    elif applies:
        try:
            state = whatifs.State(session)
        except Exception as error:  # what cannot be copied is not switched
            lack = f'the state of the script cannot be copied ({type(error).__name__})'
    of_ranks: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(of_ranks, (applies, lack))
    if not all(applies for applies, _ in of_ranks):
        return
    lacks = [lack for _, lack in of_ranks if lack]
    if lacks:
        session.notes.append(f'A step without the all-reduce was not tested: {lacks[0]}.')
        return
    session.say(f'what if: {remedy.title}')
    pairs = yield from whatifs.paired_by_number(session, remedy, quartets, steps)
    state.restore()
    distributed.all_gather_object(of_ranks, pairs)
    session.results.append(whatifs.slowest_rank(remedy, of_ranks))


# Before the timed steps --------------------------------------------------------------------------


def _find_modules(session: Session, step: Step) -> None:
    """Mark the root modules; one level deeper if none of those marked has been called."""
    if session.torch is None or step.counts['forward'] or step.counts['evaluation']:
        return
    if not session.roots:
        session.roots = modules_of(session.torch, session.watch)
        found = session.roots
    else:
        found = [child for root in session.roots for child in root.children()]
        if session.warm > 2:
            found = [grandchild for child in found for grandchild in child.children()]
    mark_modules(session.torch, session.watch, session.patches, found)


def _settings(session: Session) -> None:
    """Settings of the framework that a finding may speak of."""
    from tested_results.machine import (
        cores,  # here, for it imports NumPy, which the script may want to set up itself
    )

    session.cores = cores()
    settings = session.settings
    settings['file'] = getattr(sys.modules.get('__main__'), '__file__', None)
    settings['profile'] = sys.getprofile() is not None or bool(whatifs.monitors())
    settings['trace'] = sys.gettrace() is not None
    if session.torch is None:
        parameters = [
            p for trainer in session.watch.optimizers.values() for p in getattr(trainer, '_params', ())
        ]
        settings['float64'] = sum(str(p.dtype) in ('float64', "<class 'numpy.float64'>") for p in parameters)
        return
    torch = session.torch
    settings['anomaly'] = torch.is_anomaly_enabled() or session.watch.anomaly
    settings['profiler'] = torch.autograd._profiler_enabled() or session.watch.profiles > 0
    settings['deterministic'] = torch.are_deterministic_algorithms_enabled()
    settings['threads'] = torch.get_num_threads()
    settings['foreach'] = [g.get('foreach') for g in session.watch.parameter_groups()]
    settings['float64'] = sum(p.numel() for p in session.watch.parameters() if p.dtype == torch.float64)
    frames = _compilation().get('frames', 0)
    session.compiles = frames > session.compiled_before.get('frames', 0)


def _compilation() -> dict[str, Any]:
    """What torch.compile has done in this process so far: graphs, seconds, and breaks by their reasons."""
    dynamo = sys.modules.get('torch._dynamo.utils')
    if dynamo is None:
        return {}
    counters = dynamo.counters
    seconds = dynamo.calculate_time_spent()
    return {
        'frames': sum(counters['frames'].values()),
        'graphs': counters['stats']['unique_graphs'],
        'reasons': dict(counters['graph_break']),
        'seconds': seconds.get('total_wall_time', seconds.get('entire_frame_compile', 0.0)),
    }


def _compiled(before: dict, after: dict, at_first: dict) -> dict[str, Any]:
    """What was compiled during the timed steps, and all that the script has compiled.

    Args:
        before, after: the timed steps.
        at_first: before the script began, since a notebook may have compiled something else.
    """
    if not after:
        return {}
    old = at_first.get('reasons', {})
    breaks = {reason: count - old.get(reason, 0) for reason, count in after['reasons'].items()}
    reasons = [str(reason) for reason, count in breaks.items() if count > 0]
    return {
        'graphs': after['graphs'] - before.get('graphs', 0),
        'seconds': after['seconds'] - before.get('seconds', 0.0),
        'all_graphs': after['graphs'] - at_first.get('graphs', 0),
        'all_breaks': sum(breaks.values()),
        'reasons': reasons,
    }


def _resident() -> float:
    """Bytes of memory that the process has now."""
    try:
        with open('/proc/self/statm') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    except OSError:
        return _peak()


def _peak() -> float:
    """Bytes of memory that the process has had at most; macOS reports bytes, other systems KiB."""
    unit = 1 if sys.platform == 'darwin' else 1024
    return float(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


# Looks -------------------------------------------------------------------------------------------


def _look(session: Session) -> Generator[None, Step, None]:
    """Steps that are not timed: operators, lines, samples."""
    watch, torch = session.watch, session.torch
    watch.keep_input = watch.keep_batch = True
    modes = torch is not None and not session.compiles and looks.LineLook.possible(torch)
    if torch is not None:
        session.graphs = looks.KeptGraphs(watch)
        session.graphs.start()
    if torch is not None and not torch.autograd._profiler_enabled() and not watch.profiles:
        not_needed = []
        for _ in range(2):  # the profiler's first step prepares it
            look = watch.operator_look = looks.OperatorLook(torch)
            gradients = GradientLook(torch, watch)
            recorder = Recorder(torch, gradients.called)
            look.start()
            if modes:
                recorder.start()
                gradients.start()
            try:
                try:
                    gradients.step = yield
                finally:
                    look.stop()
                    watch.operator_look = None
                # optimizer.step is a recorded function that is still open: it must end before another
                # profile. And gradients of the step before may be used or cleared only in this one.
                yield
            finally:
                if modes:
                    gradients.stop()
                    recorder.stop()
            if modes:
                not_needed.append(gradients.summed_up(look.result.nodes, recorder.line_of))
            if watch.profiles:  # the script's own profiler has begun
                break
        session.operators = look.result if look.result.count else None
        if modes:
            for node in look.result.nodes:
                session.backward[recorder.line_of(node.number)] += node.seconds
            session.not_needed = not_needed[-1]
            if not all(one.unused for one in not_needed):  # an optimizer may have left out one step
                session.not_needed.unused.clear()
    if torch is None:
        session.lines = look = ReadLook(session.mxnet, watch)
        look.start()
        try:
            look.step = yield
        finally:
            look.stop()
    else:
        kind = looks.LineLook if modes else looks.MethodLook
        usual = usual_counts(session.plain)
        for _ in range(3):  # until one of them is an ordinary step
            look = kind(torch, watch)
            look.start()
            try:
                step = yield
            finally:
                look.stop()
            look.step = step
            if is_ordinary(step, usual):
                break
        session.lines = look
        if modes:
            yield from _look_at_repeats(session)
    samples = looks.Samples(watch)
    if samples.possible():
        session.samples = samples
        samples.start()
    until = perf_counter() + SAMPLED
    for number in range(200):
        yield
        if perf_counter() > until and number >= 1:
            break
    samples.stop()
    watch.keep_input = watch.keep_batch = False
    if session.graphs is not None:
        session.graphs.stop()
    _sizes(session)


def _look_at_repeats(session: Session) -> Generator[None, Step, None]:
    """Two ordinary steps, one after the other, whose operators are compared."""
    usual, torch = usual_counts(session.plain), session.torch
    step = statistics.median(one.seconds for one in session.plain)
    # Compiled functions give way to a dispatch mode, some of them for good.
    if _compilation().get('frames') or not RepeatLook.possible() or step > LONG * session.seconds:
        return
    look = RepeatLook(torch, session.watch)
    look.start()
    try:
        yield
        for _ in range(3):
            look.next_step()
            if is_ordinary((yield), usual):
                session.repeats = look.found
                break
    finally:
        look.stop()
    if session.repeats is not None:
        session.transforms = transforms(torch, session.repeats)


def _sizes(session: Session) -> None:
    """Bytes of parameters, gradients, optimizer state and saved activations; the loader's settings; the
    batch's size."""
    watch, memory = session.watch, session.memory
    memory['peak'] = _peak()
    if watch.kept is not None:
        session.loader['workers'] = watch.kept.workers
        session.loader['batch_size'] = watch.kept.batch_size
    if session.torch is None:
        return
    Tensor = session.torch.Tensor
    optimizers = [o for o in watch.optimizers.values() if hasattr(o, 'param_groups')]
    parameters = watch.parameters()
    size = lambda tensors: float(sum(t.numel() * t.element_size() for t in tensors))  # noqa: E731
    memory['parameters'] = size(parameters)
    memory['gradients'] = size(p.grad for p in parameters if p.grad is not None and not p.grad.is_sparse)
    memory['optimizer'] = size(
        v
        for o in optimizers
        for s in o.state.values()
        if isinstance(s, dict)
        for v in s.values()
        if isinstance(v, Tensor)
    )
    if session.lines is not None:
        memory['activations'] = float(sum(session.lines.saved.values()))
    if watch.inputs:
        call = _longest(watch)
        tensors = [x for x in (*call.args, *call.kwargs.values()) if isinstance(x, Tensor) and x.dim()]
        session.batch_size = tensors[0].shape[0] if tensors else None


def _longest(watch: Watch) -> Call:
    """The call of the root module that has most of the forward time, if possible of one that trains."""
    return max(watch.inputs.values(), key=lambda call: (call.module.training, call.seconds))


def _own_cost(session: Session) -> float:
    """Seconds that the marks of one step take at least: those of another watch, on which nothing runs.

    Before each mark the caches are filled with other data, as the work of a script does. What a mark takes in
    PyTorch, which calls it, is not in it.
    """
    usual = session.usual
    parts = 1 + sum(  # the optimizer, and
        usual.get(name, 0)
        for name in ('batches', 'epochs', 'backwards', 'forward', 'evaluation', 'checkpoints')
    )
    watch = Watch()
    watch.plan = _endless()
    next(watch.plan)

    def enter() -> None:
        if watch.mine():
            watch.enter('forward')
            watch.counts['forward'] += 1

    stepped = functools.partial(watch.optimizer_stepped, _Optimizer())
    return parts * (_cold(enter) + _cold(watch.leave)) + _cold(stepped)


class _Optimizer:
    """Stands for one, as far as a watch looks at it."""


def _endless() -> Generator[None, Step, None]:
    while True:
        yield


def _cold(call: Callable[[], None], times: int = 25) -> float:
    """Seconds that a call takes whose code and data are in no cache; the median of so many."""
    others = bytes(CACHE)
    found = []
    for _ in range(times):
        bytearray(others)  # a copy, which the caches are full of then
        began = perf_counter()
        call()
        found.append(perf_counter() - began)
    return statistics.median(found)


def _try_on_copy(session: Session) -> None:
    """A larger batch and a narrower type, on a copy of the root module that has most of the forward time."""
    watch, torch = session.watch, session.torch
    if (
        not watch.inputs
        or not whatifs.State.fits(session)
        or 'torch.distributed' in sys.modules
        and torch.distributed.is_available()
        and torch.distributed.is_initialized()
    ):
        return
    call = _longest(watch)
    module = getattr(call.module, '_orig_mod', call.module)  # not what is compiled
    name = type(module).__name__
    if len(watch.inputs) > 1:
        session.tried = name
        session.notes.append(
            f'Of the modules that train, {name} takes most of the forward pass. Twice the batch, another '
            'type, the channels last and torch.compile were tried on it alone.'
        )
    watch.inputs = {}
    try:
        trial = Copy(torch, module, call.args, call.kwargs, call.autocast)
        if 8 * trial.step() > 0.2 * session.seconds:
            return
        session.copy = trial
    except Exception as error:  # a module that cannot be copied or returns no tensor
        session.notes.append(
            'Twice the batch, another type, the channels last and torch.compile were not tried: '
            f'a step of a copy of {name} ends with {type(error).__name__}.'
        )
        return
    seconds = min(1.0, 0.02 * session.seconds)
    if session.batch_size:
        try:
            args2, kwargs2 = trial.doubled(session.batch_size)
            session.doubled = ratio(lambda: trial.step(args=args2, kwargs=kwargs2), trial.step, seconds)
        except Exception:
            session.doubled = None
    if session.settings.get('float64'):
        try:
            module, args1, kwargs1 = trial.cast(torch.float32)
            session.narrowed = ratio(
                trial.step, lambda: trial.step(module=module, args=args1, kwargs=kwargs1), seconds
            )
        except Exception:
            session.narrowed = None


# What-ifs ----------------------------------------------------------------------------------------


def _what_ifs(session: Session, until: float) -> Generator[None, Step, None]:
    """Test each remedy that applies, each for its share of the time that is left."""
    end = until
    if session.copy is not None and not session.compiles:
        until -= min(25.0, 0.35 * (end - perf_counter()))  # left for torch.compile
    chosen = [r for r in whatifs.remedies(session) if _may_be_tested(session, r)]
    step = statistics.median(s.seconds for s in session.ordinary())
    losses: dict[str, str] = {}
    steps = 2 * (len(chosen) + 2)
    if whatifs.State.cheap(session) and steps * step < 0.15 * session.seconds and not session.compiles:
        session.say('comparing losses')
        losses = yield from whatifs.compare_losses(session, chosen)
    for number, remedy in enumerate(chosen):
        left = until - perf_counter()
        if left < 12 * step:
            session.notes.append(
                f'No time was left to test {len(chosen) - number} of the remedies; use a longer --seconds.'
            )
            break
        if not remedy.applies():
            continue
        session.say(f'what if: {remedy.title}')
        result = yield from whatifs.paired(session, remedy, perf_counter() + left / (len(chosen) - number))
        result.losses = losses.get(remedy.id, 'not compared')
        if not remedy.failed:
            session.results.append(result)
    if session.copy is not None and not session.compiles and signal_free():
        yield from _compile(session, end, step)


def _may_be_tested(session: Session, remedy: whatifs.Remedy) -> bool:
    """Whether a remedy applies and is worth a test; one that cannot tell leaves the others to be tested."""
    try:
        return remedy.applies() and remedy.worth_testing()
    except Exception as error:
        session.notes.append(f'{remedy.title} was not tested: {type(error).__name__}: {error}')
        return False


def _compile(session: Session, until: float, step: float) -> Generator[None, Step, None]:
    """``torch.compile`` last, for it takes long: its first call apart, and after how many steps that is
    paid back."""
    left = until - perf_counter()
    if left < max(10, 30 * step):
        session.notes.append('No time was left to test torch.compile; use a longer --seconds.')
        return
    remedy = whatifs.Compiled(session)
    remedy.title = f'torch.compile of {session.tried}'
    session.say(f'what if: {remedy.title}')
    first = remedy.prepare(0.7 * left)
    if first is None:
        return
    result = yield from whatifs.paired(session, remedy, until + 2)
    gain = result.before - result.after
    pays = f'; it pays off after {first / gain:,.0f} steps' if result.verdict == 'faster' and gain > 0 else ''
    result.note = f'its first call took {first:.1f} s{pays}'
    if not remedy.failed:
        session.results.append(result)


def signal_free() -> bool:
    """Whether the timer that ends a compilation may be used."""
    return looks.Samples(None).possible()
