"""What the steps wait for: one function for each finding, which returns it with its evidence, or None.

``at_most`` is Amdahl's bound: by which factor a step would be faster if what the finding speaks of cost
nothing. Where a remedy was tested, what the test found replaces it, for then it is known better.
"""

import itertools
import linecache
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from tested_results.numbers import seconds as ms
from why_slow import looks
from why_slow.hot_spots import SAMPLES, Spent, by_line, line_seconds
from why_slow.plan import Session
from why_slow.repeats import PARTS, largest_factor
from why_slow.watch import is_ordinary, usual_counts

SHARE = 0.05  # of a step: what takes less is no finding
EVALUATION = 0.15  # of the time, for evaluations between the steps
LOADER = 0.10  # the same for the loader, and for lines of the loop that make the model's input
LOOP = 6  # uses of the same parameter, or of rows of one tensor, in a loop for each backward pass
ELEMENTWISE = {
    'mul',
    'rmul',
    'add',
    'radd',
    'sub',
    'rsub',
    'div',
    'truediv',
    'rtruediv',
    'pow',
    'rpow',
    'neg',
    'tanh',
    'exp',
    'sigmoid',
    'sqrt',
    'rsqrt',
    'square',
    'log',
    'erf',
    'abs',
    'where',
    'clamp',
    'maximum',
    'minimum',
    'reciprocal',
}
CALL = 4e-6  # seconds for the call of an operator, about
PAGE_FAULT = 0.5e-6  # seconds for the first touch of 4 KiB of fresh memory, about
GROWING = 1.25  # times as long; less may come from a machine that becomes slower
GROWTH = 20e3  # bytes a step; less comes from caches that fill
SMALL = 15e-6  # seconds; an operator that takes less mostly pays for its call
PAGES = {
    'loader': 'chapters/start/symptoms_input.html',
    'synchronization': 'chapters/asynchrony/asynchrony_pytorch.html',
    'anomaly': 'chapters/start/symptoms_overhead.html',
    'profiler': 'chapters/measuring/traces_pytorch.html',
    'deterministic': 'chapters/start/symptoms_overhead.html',
    'float64': 'chapters/start/symptoms_step.html',
    'threads': 'chapters/start/symptoms_step.html',
    'python-loop': 'chapters/start/symptoms_overhead.html',
    'small-operators': 'chapters/start/symptoms_overhead.html',
    'optimizer-loop': 'chapters/hybridization/training_step_pytorch.html',
    'copies': 'chapters/hardware/hardware_pytorch.html',
    'kept-graph': 'chapters/start/symptoms_memory.html',
    'evaluation-gradients': 'chapters/memory/savings_pytorch.html',
    'evaluation': 'chapters/measuring/around_pytorch.html',
    'checkpoints': 'chapters/start/symptoms_time.html',
    'epochs': 'chapters/measuring/around_pytorch.html',
    'embedding': 'chapters/start/symptoms_overhead.html',
    'padding': 'chapters/start/symptoms_step.html',
    'growing': 'chapters/start/symptoms_time.html',
    'unused-gradients': 'chapters/start/symptoms_step.html',
    'repeated-backward': 'chapters/start/symptoms_step.html',
    'recomputation': 'chapters/memory/savings_pytorch.html',
    'repeated-work': 'chapters/measuring/surprises_pytorch.html',
    'constant-work': 'chapters/start/symptoms_step.html',
    'transform-length': 'chapters/measuring/surprises_pytorch.html',
    'small-batch': 'chapters/measuring/regimes_pytorch.html',
    'recompilation': 'chapters/hybridization/graphs_pytorch.html',
    'graph-breaks': 'chapters/hybridization/graphs_pytorch.html',
    'gaps': 'chapters/start/symptoms_overhead.html',
    'all-reduce': 'chapters/multi_gpu/multi_gpu_concise_pytorch.html',
    'straggler': 'chapters/multi_gpu/multi_gpu_concise_pytorch.html',
}


@dataclass
class Finding:
    """Something that the steps wait for; ``line`` is where in the script, if that is known."""

    id: str
    title: str
    evidence: str
    line: str | None
    at_most: float
    test: str | None = None  # the what-if that took it away
    page: str = ''

    def __post_init__(self) -> None:
        self.page = PAGES.get(self.id, '')

    def to_dict(self) -> dict:
        return asdict(self)


def without(whole: float, part: float) -> float:
    """Amdahl: how many times faster it is if ``part`` of ``whole`` seconds costs nothing; at most 1,000."""
    return min(1000.0, whole / max(whole - part, whole / 1000))


class Evidence:
    """The numbers of a session that several findings use; times are medians of ordinary steps, in seconds."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.usual = usual_counts(session.plain)
        self.steps = [s for s in session.plain if is_ordinary(s, self.usual)] or session.plain
        self.step = statistics.median(s.seconds for s in self.steps)
        self.total = sum(s.seconds for s in session.plain)
        self.mean = statistics.fmean(s.seconds for s in self.steps)
        self.results = {result.id: result for result in session.results}
        self.lines = session.lines.calls if session.lines is not None else {}
        self.by_line = self._by_line()
        self.spent = self._spent()
        self.line_shares = self._line_shares()
        repeats = session.repeats
        self.constant = repeats.constant_functions() if repeats is not None else {}

    def part(self, name: str) -> float:
        """Mean seconds of a part of an ordinary step."""
        return statistics.fmean(s.parts.get(name, 0.0) for s in self.steps)

    @property
    def passes(self) -> float:
        """Mean seconds of the forward and the backward pass of an ordinary step."""
        return self.part('forward') + self.part('backward')

    @property
    def twice_the_batch(self) -> float | None:
        """How many times faster the examples of a step would pass with twice the batch, as a copy of the
        model says; the loader is assumed to take twice as long, and the rest of a step as long as before."""
        doubled = self.session.doubled
        if doubled is None or doubled[2] < 0.9:  # less: other programs disturbed the measurement
            return None
        return 2 * self.mean / (self.mean + self.part('loader') + self.passes * (doubled[2] - 1))

    @property
    def in_float32(self) -> float | None:
        """How many times faster a step would be with the model in float32, as a copy of it says."""
        narrowed = self.session.narrowed
        if narrowed is None:
            return None
        return without(self.mean, self.passes * (1 - 1 / narrowed[2]))

    def tested(self, id: str) -> Any:
        """The result of a what-if, or None."""
        return self.results.get(id)

    def _spent(self) -> dict[tuple, Spent]:
        """Seconds of a mean step by part and line; nothing where there are too few samples."""
        samples = self.session.samples
        if samples is None or samples.number < SAMPLES:
            return {}
        parts = {part for step in self.steps for part in step.parts}
        return by_line(samples, self.lines, {part: self.part(part) for part in parts})

    def _line_shares(self) -> dict[tuple, float]:
        """The share of a step of each line in what a model computes, with what the backward pass does for
        it."""
        of_model = {key: one for key, one in self.spent.items() if key[0] in (*PARTS, 'backward')}
        seconds = line_seconds(of_model, self.session.backward)
        return {line: one / self.mean for line, one in seconds.items() if line is not None}

    def is_constant(self, places: tuple) -> bool:
        """Whether these places lie in a function that gives the same in each step, which has a finding of its
        own."""
        return any((place[0], place[2]) in self.constant for place in places)

    def _by_line(self) -> dict[tuple, list[tuple[str, Any]]]:
        found = defaultdict(list)
        for (line, name, _), calls in self.lines.items():
            found[line].append((name, calls))
        return found

    @property
    def looked(self) -> float:
        """Seconds of the step in which lines were looked at, which takes longer than others."""
        look = self.session.lines
        return look.step.seconds if look is not None else self.step

    def share_of_nodes(self, seconds: Counter) -> float:
        """The share of a mean step that nodes of a backward pass take, as the profiler saw them by line."""
        return min(0.99, sum(seconds.values()) / self.mean)

    def share_of_calls(self, calls: Iterable[Any]) -> float:
        """The share of a step that calls take, each as long as it was seen to take; with their backward
        pass."""
        calls = list(calls)
        own = sum(c.seconds for c in calls)
        model = [c for c in calls if c.part in ('forward', 'rest')]
        forward = sum(c.seconds for c in self.lines.values() if c.part in ('forward', 'rest'))
        share = own / self.looked
        if forward > 0 and model:
            share += sum(c.seconds for c in model) / forward * self.part('backward') / self.step
        return min(share, 0.99)


def times(number: float) -> str:
    """A number of times in words."""
    return f'{number:,.0f} time{"s" * (round(number) != 1)}'


def percent(share: float) -> str:
    return f'{100 * share:.0f}%' if share >= 0.01 else f'{100 * share:.1f}%'


# The findings ------------------------------------------------------------------------------------


def loader(e: Evidence) -> Finding | None:
    waited = e.part('loader')
    share = waited / e.mean
    if share < LOADER:
        return _prepared(e)
    workers = e.session.loader.get('workers')
    line, inner = _sampled(e, lambda part, places: part == 'loader')
    how = '' if workers is None else f' (num_workers={workers})'
    where = f', most of it in {looks.named(inner)}: {looks.text_of(inner)}' if inner and inner != line else ''
    at_most = without(e.mean, waited)
    replayed = e.tested('replay-batch')
    if replayed is not None and replayed.verdict == 'faster':
        at_most = replayed.ratio
    return Finding(
        'loader',
        'The steps wait for the data loader',
        f'{ms(waited)} of {ms(e.mean)} of a step, {percent(share)}, pass in the loader{how}{where}.',
        looks.named(inner or line),
        at_most,
        'replay-batch' if replayed is not None else None,
    )


def _prepared(e: Evidence) -> Finding | None:
    """Data that are made in the loop itself, between the optimizer and the model, without a DataLoader."""
    samples = e.session.samples
    if samples is None or not samples.total:
        return None
    found = _python_in_loop(e, before_model=True)
    if not found:
        return None
    share = sum(found.values()) / samples.total
    if share < LOADER:
        return None
    line = _most_in(e, found)
    return Finding(
        'loader',
        'Each step prepares its data in the training loop',
        f'{percent(share)} of the samples lie in lines that make the input of the model, most of them in '
        f'{looks.named(line)}: {looks.text_of(line)}',
        looks.named(line),
        without(1, share),
    )


def _most_in(e: Evidence, sampled: Counter) -> tuple:
    """The line of the rest of a step that takes most in the functions of the sampled lines."""
    function_of = {}
    for part, places, _ in e.session.samples.found:
        if part == 'rest' and places:
            file, line, function = places[0]
            function_of[file, line] = file, function
    for calls in e.lines.values():
        file, line, function = calls.outer[0]
        function_of[file, line] = file, function
    functions = {function_of[line] for line in sampled}
    seconds = {
        line: spent.seconds
        for (part, line), spent in e.spent.items()
        if part == 'rest' and function_of.get(line) in functions
    }
    return max(seconds or sampled, key=(seconds or sampled).get)


def _sampled(e: Evidence, chosen: Callable[[str, tuple], bool]) -> tuple[tuple | None, tuple | None]:
    """The outermost and the innermost line of the script in most of the samples that are chosen."""
    samples = e.session.samples
    if samples is None:
        return None, None
    outer, inner = Counter(), Counter()
    for (part, places, _), count in samples.found.items():
        if places and chosen(part, places):
            inner[places[0][:2]] += count
            outer[places[-1][:2]] += count
    if not inner:
        return None, None
    return outer.most_common(1)[0][0], inner.most_common(1)[0][0]


def _loop(e: Evidence) -> tuple[str, str, dict[str, int]] | None:
    """The function that has the training loop: its file, its name, and the lines of the parts in it."""
    samples = e.session.samples
    if samples is None:
        return None
    seen: dict[tuple, Counter] = defaultdict(Counter)
    for (part, places, _), count in samples.found.items():
        for place in places:
            seen[place[0], place[2]][part] += count
    # The function in which both the model and the optimizer or the backward pass are called, the innermost
    # one.
    fitting = [
        key
        for key, parts in seen.items()
        if parts['forward'] + parts['evaluation'] and parts['backward'] + parts['optimizer']
    ]
    if not fitting:
        return None
    most = max(sum(seen[key].values()) for key in fitting)
    key = [k for k in fitting if sum(seen[k].values()) >= 0.8 * most][0]
    lines: dict[str, Counter] = defaultdict(Counter)
    for (part, places, _), count in samples.found.items():
        for place in places:
            if (place[0], place[2]) == key:
                lines[part][place[1]] += count
                break
    return *key, {part: counted.most_common(1)[0][0] for part, counted in lines.items()}


def _python_in_loop(e: Evidence, before_model: bool) -> Counter:
    """Samples in the rest of a step by line of the loop's function: before the call of the model, or
    elsewhere."""
    found: Counter = Counter()
    loop = _loop(e)
    samples = e.session.samples
    for (part, places, inner), count in samples.found.items():
        if part != 'rest' or not places or e.is_constant(places):
            continue
        if looks.runs_operators(inner[0]):
            continue
        line = places[0][:2]
        on_the_line = inner == (places[0][0], places[0][2])
        operator = line in e.by_line or samples.names_framework(line)  # F.conv1d(…) is one, though not noted
        if on_the_line and operator and not before_model:
            continue
        early = False
        if loop is not None:
            file, function, lines = loop
            inside = [p for p in places if (p[0], p[2]) == (file, function)]
            model = lines.get('forward') or lines.get('evaluation')
            if inside:
                early = model is not None and inside[0][1] < model
        if early == before_model:
            found[line] += count
    return found


def synchronization(e: Evidence) -> Finding | None:
    points = {
        (line, name): calls
        for (line, name, part), calls in e.lines.items()
        if name in looks.SYNCHRONIZING and part != 'optimizer'
    }
    count = sum(c.count for c in points.values())
    if not count:
        return None
    seconds = sum(c.seconds for c in points.values()) * e.step / e.looked
    if e.session.torch is None:  # where MXNet reads, it waits for all that it was to compute
        seconds = 0.0
    line, name = max(points, key=lambda key: (points[key].count, points[key].seconds))
    # A loop around the reading, which is there only to read, goes with it.
    loop = _loop_around(e, points[line, name])
    if loop is not None and points[line, name].count >= LOOP:
        seconds = max(seconds, _inside(e, loop, ('rest', 'evaluation')) * e.step)
    return Finding(
        'synchronization',
        'Each step reads results back',
        f'{times(count)} a step a result is read by Python ({name}() in {looks.named(line)}, '
        f'{times(points[line, name].count)}: {looks.text_of(line)}). On this CPU that takes {ms(seconds)} '
        f'of a step; '
        'on a GPU each waits until all work that was queued is done.',
        looks.named(line),
        without(e.step, seconds),
    )


def _loop_around(e: Evidence, calls: Any) -> tuple | None:
    """The outermost loop around calls in which no backward pass and no optimizer was sampled."""
    found = None
    for loop in looks.loops_around(calls.outer):
        if _inside(e, loop, ('backward', 'optimizer')) > 0.01:
            break
        found = loop
    return found


def anomaly(e: Evidence) -> Finding | None:
    if not e.session.settings.get('anomaly'):
        return None
    return Finding(
        'anomaly',
        'Anomaly mode is on',
        _evidence_of_test(
            e,
            'anomaly-off',
            'Each operator of the forward pass records where it was called, and the '
            'backward pass looks for NaN.',
        ),
        _line_of(e, 'anomaly'),
        _bound(e, 'anomaly-off', e.passes + e.part('rest')),
        'anomaly-off' if e.tested('anomaly-off') else None,
    )


def profiler(e: Evidence) -> Finding | None:
    settings = e.session.settings
    if not (settings.get('profiler') or settings.get('profile') or settings.get('trace')):
        return None
    what = "PyTorch's profiler" if settings.get('profiler') else 'a profile or trace function of Python'
    return Finding(
        'profiler',
        'A profiler is on',
        _evidence_of_test(e, 'profiler-off', f'{what} records in every step.'),
        _line_of(e, 'profile'),
        _bound(e, 'profiler-off', 0.9 * e.step),
        'profiler-off' if e.tested('profiler-off') else None,
    )


def deterministic(e: Evidence) -> Finding | None:
    if not e.session.settings.get('deterministic'):
        return None
    return Finding(
        'deterministic',
        'Deterministic algorithms are on',
        _evidence_of_test(
            e, 'deterministic-off', 'Some operators run a slower algorithm, and fresh memory is filled.'
        ),
        _line_of(e, 'deterministic'),
        _bound(e, 'deterministic-off', e.passes),
        'deterministic-off' if e.tested('deterministic-off') else None,
    )


def _bound(e: Evidence, id: str, part: float) -> float:
    """The tested ratio where there was a test, else Amdahl's bound for half of a step at most."""
    tested = e.tested(id)
    if tested is None:
        return without(e.step, min(part, 0.5 * e.step))
    return max(1.0, tested.ratio)


def _evidence_of_test(e: Evidence, id: str, text: str) -> str:
    tested = e.tested(id)
    if tested is None:
        return text + ' How much that costs was not tested.'
    return f'{text} Switched off, a step takes {ms(tested.after)} instead of {ms(tested.before)}.'


def _line_of(e: Evidence, word: str) -> str | None:
    """The first line of the script, or else of another file of the reader, that has the word in its code."""
    others = [file for file, own in looks.own_files().items() if own]
    for file in dict.fromkeys(filter(None, (e.session.settings.get('file'), *others))):
        for number, text in enumerate(linecache.getlines(file), 1):
            if word in text.split('#')[0] and not text.strip().startswith(('import', 'from')):
                return looks.named((file, number))
    return None


def float64(e: Evidence) -> Finding | None:
    numbers = e.session.settings.get('float64', 0)
    calls = [c for c in e.lines.values() if c.wide and c.part != 'loader']
    share = e.share_of_calls(calls) if calls else 0.0
    if not numbers and share < SHARE:
        return None
    where = max(calls, key=lambda c: c.seconds).outer[0] if calls else None
    narrowed = e.session.narrowed
    if narrowed is not None:
        evidence = (
            f'{numbers:,} parameters are float64. A copy of the model in float32 takes {ms(narrowed[1])} '
            f'for a forward and '
            f'a backward pass, this one {ms(narrowed[0])}.'
        )
        at_most = max(1.0, e.in_float32)
    else:
        used = 'The optimizer changes parameters in float64'
        if share:
            used = f'{percent(share)} of a step are operators on float64'
        evidence = f'{used}, of which half as many numbers fit into a cache line or a register as of float32.'
        at_most = without(1, max(share, 0.5 if numbers else 0) / 2)
    return Finding('float64', 'The model computes in float64', evidence, looks.named(where), at_most)


def threads(e: Evidence) -> Finding | None:
    own, cores = e.session.settings.get('threads', 1), e.session.cores
    tests = [r for r in e.results.values() if r.id.startswith('threads-')]
    faster = [r for r in tests if r.verdict == 'faster']
    best = max(faster, key=lambda r: r.ratio, default=None)
    if own <= cores and (best is None or best.low < 1.3):
        return None
    tried = best or max(tests, key=lambda r: r.ratio, default=None)
    at_most = max(1.0, tried.ratio) if tried else without(e.step, 0.5 * e.step)
    test = (
        f' With {best.title.split()[0]} a step takes {ms(best.after)} instead of {ms(best.before)}.'
        if best
        else ''
    )
    if own > cores:
        where = f'where {cores} core{"s are" if cores != 1 else " is"} free'
    else:
        where = f'on {cores} cores: other programs use some, or the operations are too small to divide'
    return Finding(
        'threads',
        'The number of threads does not fit',
        f'PyTorch uses {own} thread{"s" * (own != 1)} {where}.{test}',
        _line_of(e, 'set_num_threads') or _line_of(e, 'NUM_THREADS'),
        at_most,
        tried.id if tried else None,
    )


def python_loop(e: Evidence) -> Finding | None:
    """A loop of the script that uses the same parameter, or rows of the same tensor, again and again."""
    backwards = max(1, e.usual.get('backwards', 1))
    loops: dict[tuple, float] = {}
    for (_, name, part), calls in e.lines.items():
        if part not in ('forward', 'rest') or not calls.graph or not calls.arguments or name == 'grad':
            continue
        most = max(calls.arguments.values()) / backwards
        repeated = most if name not in looks.ROWS else calls.count / backwards * (most >= 4)
        around = _loop_around(e, calls)
        if repeated >= LOOP and around is not None:
            loops[around] = max(loops.get(around, 0), repeated)
    if not loops:
        return _example_by_example(e, backwards) or _called_again(e, backwards)
    inside = {loop: _inside(e, loop) for loop in loops}
    loop = max(loops, key=lambda one: inside[one])
    forward = inside[loop]
    if forward <= 0:  # without samples: by the calls
        forward = sum(c.seconds for c in e.lines.values() if _loop_around(e, c) == loop) / e.looked
    before = (e.part('forward') + e.part('rest')) / e.mean
    share = min(0.99, forward + forward / max(before, forward) * e.part('backward') / e.mean)
    if share < SHARE:
        return None
    file, first, _, line = loop
    return Finding(
        'python-loop',
        'A Python loop calls small operators one after the other',
        f'The loop in {looks.named((file, first))} is run {times(loops[loop])} for each backward pass '
        f'({looks.text_of((file, line))}); with its backward pass it takes about {percent(share)} of a step.',
        looks.named((file, first)),
        without(1, share * (1 - 1 / loops[loop])),
    )


def _inside(e: Evidence, loop: tuple, parts: tuple = ('forward', 'rest')) -> float:
    """The share of the sampled time that the script is in a loop and in one of these parts of a step."""
    samples = e.session.samples
    if samples is None or not samples.total:
        return 0.0
    file, first, last, _ = loop
    return (
        sum(
            seconds
            for (part, places, _), seconds in samples.found.items()
            if part in parts and any(p[0] == file and first <= p[1] <= last for p in places)
        )
        / samples.total
    )


def _called_again(e: Evidence, backwards: int) -> Finding | None:
    """The same model is called many times for each backward pass; all that is known where lines are not."""
    number = e.usual.get('calls of one module', 0) / backwards
    if number < LOOP:
        return None
    taken = (e.part('forward') + e.part('rest') + e.part('backward')) * (1 - 1 / number)
    return Finding(
        'python-loop',
        'The model is called in a Python loop',
        f'The model is called {times(number)} for each backward pass.',
        looks.named(_sampled(e, lambda part, places: part == 'forward')[1]),
        without(e.mean, taken),
    )


def _example_by_example(e: Evidence, backwards: int) -> Finding | None:
    if backwards < LOOP or (e.session.batch_size or 99) > 2:
        return None
    return Finding(
        'python-loop',
        'Each example has a forward and a backward pass of its own',
        f'A step has {backwards} backward passes, and the model is called with {e.session.batch_size} '
        f'row(s).',
        _line_of(e, '.backward('),
        without(e.mean, e.passes * (1 - 1 / backwards)),
    )


def small_operators(e: Evidence) -> Finding | None:
    """Operators whose calls cost more than their arithmetic, or lines of element-wise ones that could be
    one."""
    chain = _chain(e)
    if chain is not None:
        return chain
    operators = e.session.operators
    # What an operator calls itself is no call of the script, and costs less.
    if operators is None or operators.outer < 200:
        return None
    mean = operators.seconds / operators.outer
    compiled = e.tested('compile')
    if mean > SMALL or operators.seconds < 0.3 * e.step:
        return None
    if compiled is not None and compiled.low < 1.05:
        return None
    overhead = operators.outer * min(mean, CALL)
    return Finding(
        'small-operators',
        'Many small operators: their calls cost more than their arithmetic',
        f'{operators.outer:,} operator calls a step, {ms(mean)} each. (Calls by operators are not counted.)',
        None,
        without(e.step, min(overhead, 0.9 * e.step)),
    )


def _chain(e: Evidence) -> Finding | None:
    """A line of the script's model that is a chain of element-wise operators, each of which reads and
    writes all its numbers."""
    best, share = None, 0.0
    for line, found in e.by_line.items():
        calls = [
            c for name, c in found if c.part == 'forward' and c.direct and name.strip('_') in ELEMENTWISE
        ]
        if len(calls) < 4:
            continue
        taken = e.share_of_calls(calls)
        if taken > share:
            best, share = (line, sum(c.count for c in calls)), taken
    if best is None or share < 0.1:
        return None
    line, count = best
    return Finding(
        'small-operators',
        'A chain of element-wise operators, where one would do',
        f'{looks.named(line)} calls {count} of them a step ({looks.text_of(line)}), each with a pass over '
        f'memory; with their '
        f'backward pass they take about {percent(share)} of a step.',
        looks.named(line),
        without(1, 0.8 * share),
    )


def optimizer_loop(e: Evidence) -> Finding | None:
    """The optimizer, or the script itself, treats each parameter by itself."""
    parameters = len(e.session.lines.parameters) if e.session.lines is not None else 0
    own = [
        (line, name, c)
        for (line, name, part), c in e.lines.items()
        if c.direct
        and part in ('rest', 'optimizer')
        and c.count >= max(LOOP, 0.5 * parameters)
        and _on_parameters(c, name)
    ]
    flags = e.session.settings
    optimizer = e.part('optimizer')
    tests = [t for t in (e.tested('fused-optimizer'), e.tested('foreach-optimizer')) if t is not None]
    best = max(tests, key=lambda t: t.ratio, default=None)
    gains = best is not None and best.verdict == 'faster' and best.low > 1.03
    if own and parameters >= LOOP:
        lines = {line for line, _, _ in own}
        seconds = sum(c.seconds for (line, _, _), c in e.lines.items() if line in lines)
        loops = looks.loops_around(max(own, key=lambda one: one[2].seconds)[2].outer)
        around = loops[0] if loops else None
        share = _inside(e, around, ('rest', 'optimizer')) if around is not None else 0.0
        seconds = max(seconds * e.step / e.looked, share * e.step)
        if seconds > SHARE * e.step:
            line, name, calls = max(own, key=lambda one: one[2].seconds)
            return Finding(
                'optimizer-loop',
                'A loop over the parameters in Python',
                f'{looks.named(line)} is run {times(calls.count)} a step, once for each parameter '
                f'({looks.text_of(line)}); {ms(seconds)} of {ms(e.step)}.',
                looks.named(line),
                without(e.step, seconds),
            )
    forced = any(f is False for f in flags.get('foreach', []))
    if optimizer < SHARE * e.step or not (gains or forced and (best is None or best.verdict == 'undecided')):
        return None
    test = f' With {best.title} a step takes {ms(best.after)} instead of {ms(best.before)}.' if best else ''
    return Finding(
        'optimizer-loop',
        'The optimizer updates the parameters one by one',
        f'{ms(optimizer)} of {ms(e.step)}, {percent(optimizer / e.step)}, pass in the optimizer.{test}',
        _line_of(e, 'optim.'),
        best.ratio if gains else without(e.mean, optimizer),
        best.id if best else None,
    )


def _on_parameters(calls: Any, name: str) -> bool:
    return calls.parameters >= 0.5 * calls.count or name == 'grad'


def copies(e: Evidence) -> Finding | None:
    found = {
        (line, name): c
        for (line, name, part), c in e.lines.items()
        if name in looks.COPYING and part not in ('optimizer', 'loader') and c.bytes
    }
    if not found:
        return None
    share = e.share_of_calls(found.values())
    if share < SHARE:
        return None
    (line, name) = max(found, key=lambda key: found[key].seconds)
    size = sum(c.bytes for c in found.values())
    return Finding(
        'copies',
        'Tensors are copied to and fro',
        f'{times(sum(c.count for c in found.values()))} a step a tensor is copied to another layout, type '
        f'or place, '
        f'{size / 1e6:.1f} MB together, {percent(share)} of a step; most of it by {name}() in '
        f'{looks.named(line)}: '
        f'{looks.text_of(line)}',
        looks.named(line),
        without(1, share),
    )


def kept_graph(e: Evidence) -> Finding | None:
    graphs = e.session.graphs
    if graphs is None:
        return None
    growth = e.session.memory.get('growth_per_step', 0.0)
    if graphs.grows():
        return Finding(
            'kept-graph',
            'The graph grows from step to step',
            f'The graph behind the loss had {graphs.nodes[0]:,} nodes in one step and {graphs.nodes[-1]:,} '
            f'{len(graphs.nodes) - 1} backward passes later; the memory of the process grew by '
            f'{growth / 1e3:,.0f} KB a step. A tensor is carried from one step into the next with the graph '
            'that made it: carry tensor.detach() instead.',
            _line_of(e, 'retain_graph') or looks.named(graphs.line),
            _growing(e),
        )
    alive, number = sum(graphs.outlived), len(graphs.outlived)
    if number < 3 or alive < 0.8 * number:
        return None
    line = graphs.keeper()
    fresh = growth / 4096 * PAGE_FAULT  # what is kept cannot be used again, so each step takes fresh memory
    return Finding(
        'kept-graph',
        'The graphs of former steps are kept',
        f'{alive} of {number} losses from earlier steps still hold their graph; the memory of the process '
        f'grew by '
        f'{growth / 1e3:,.0f} KB a step. Keep loss.item() or loss.detach() instead ({looks.text_of(line)}).',
        looks.named(line),
        max(_growing(e), without(e.step, min(fresh, 0.5 * e.step))),
    )


def _all_steps(e: Evidence, seen: Callable[[Any], Any], least: int = 1) -> list[Any]:
    """The timed steps; where fewer than ``least`` of these have what is rare, all steps of the run."""
    if sum(bool(seen(step)) for step in e.session.plain) >= least:
        return e.session.plain
    return e.session.watch.history[e.session.warm :]


def _first_and_last(e: Evidence) -> tuple[list[float], list[float]]:
    """The seconds of the first and of the last third of the timed steps.

    The looks at single steps lie somewhere between the two, with many steps that are not timed; so halves of
    the timed steps may both hold steps from before the looks, thirds are far apart.
    """
    seconds = [step.seconds for step in e.steps]
    third = len(seconds) // 3
    return seconds[:third], seconds[len(seconds) - third :]


def _growing(e: Evidence) -> float:
    """By which factor the last third of the timed steps was slower than the first, at least 1."""
    first, last = _first_and_last(e)
    if len(first) < 3:
        return 1.0
    return max(1.0, statistics.median(last) / statistics.median(first))


def evaluation_gradients(e: Evidence) -> Finding | None:
    usual_forward = e.usual.get('forward', 0)
    usual_backward = max(1, e.usual.get('backwards', 0))
    trains = usual_forward > e.usual.get('evaluation with gradients', 0)

    def unused(step: Any) -> float:
        """Forward passes with gradients of which no backward pass comes.

        These are the passes beyond those of a usual step, unless there are more backward passes as well,
        and the passes in evaluation mode beside those that train.
        """
        forward = step.counts['forward']
        used = usual_forward * max(1, step.counts['backwards'] / usual_backward)
        evaluated = step.counts['evaluation with gradients'] if trains else 0
        return max(0, forward - used, evaluated)

    steps = _all_steps(e, unused)
    graphs = sum(map(unused, steps))
    seconds = 0.0
    for step in steps:
        if step.counts['forward']:
            seconds += step.parts['forward'] * unused(step) / step.counts['forward']
    total = sum(step.seconds for step in steps)
    if not graphs or seconds < 0.02 * total:
        return None
    # Half of a forward pass is what the records for a backward pass that never comes may cost.
    return Finding(
        'evaluation-gradients',
        'The evaluation builds graphs that no backward pass uses',
        f'{graphs:,.0f} forward passes in {len(steps)} steps ran with gradients and without a backward pass; '
        f'they took '
        f'{percent(seconds / total)} of the time. Use torch.no_grad() or torch.inference_mode() around them.',
        looks.named(e.session.watch.evaluated_at) or _line_of(e, '.eval()'),
        without(total, 0.5 * seconds),
    )


def evaluation(e: Evidence) -> Finding | None:
    """Evaluations between the steps that take a large part of the time."""

    def evaluates(step: Any) -> bool:
        return step.counts['evaluation'] > e.usual.get('evaluation', 0)

    steps = _all_steps(e, evaluates, least=2)
    longer = list(filter(evaluates, steps))
    extra = sum(max(0.0, step.seconds - e.step - step.parts.get('checkpoint', 0.0)) for step in longer)
    total = sum(step.seconds for step in steps)
    if len(longer) < 2 or extra < EVALUATION * total:
        return None
    passes = sum(step.counts['evaluation'] for step in longer) / len(longer)
    return Finding(
        'evaluation',
        'The evaluation takes a large part of the time',
        f'{len(longer)} of {len(steps)} steps contain an evaluation, with {passes:,.0f} forward passes on '
        f'average. They took {percent(extra / total)} of the time. Evaluate less often, or on fewer '
        'examples.',
        _line_of(e, '.eval()') or _line_of(e, 'no_grad') or _line_of(e, 'inference_mode'),
        without(total, extra),
    )


def checkpoints(e: Evidence) -> Finding | None:
    steps = _all_steps(e, lambda step: step.counts['checkpoints'])
    seconds = sum(step.parts.get('checkpoint', 0.0) for step in steps)
    number = sum(step.counts['checkpoints'] for step in steps)
    total = sum(step.seconds for step in steps)
    if seconds < SHARE * total:
        return None
    return Finding(
        'checkpoints',
        'Checkpoints are written often',
        f'{number} calls of torch.save in {len(steps)} steps took {percent(seconds / total)} of the time.',
        _line_of(e, 'torch.save') or _line_of(e, '.save('),
        without(total, seconds),
    )


def epochs(e: Evidence) -> Finding | None:
    """What the first step of an epoch takes more than others: workers that start and end, an iterator."""

    def begins(step: Any) -> bool:
        return step.counts['epochs'] > e.usual.get('epochs', 0)

    steps = _all_steps(e, begins, least=2)
    first = list(filter(begins, steps))
    number, evaluated = len(first), any(step.counts['evaluation'] for step in first)
    extra = sum(max(0.0, step.seconds - e.step - step.parts.get('checkpoint', 0.0)) for step in first)
    total = sum(step.seconds for step in steps)
    if number < 2 or evaluated or extra < SHARE * total:
        return None
    workers = e.session.loader.get('workers')
    said = (
        f' The loader has {workers} workers; without persistent_workers=True, or where the loader is made '
        f'anew, they are started and ended in each epoch.'
        if workers
        else ''
    )
    return Finding(
        'epochs',
        'The change from one epoch to the next takes long',
        f'In {len(steps)} steps {times(number)} an epoch began, and such a step took {ms(extra / number)} '
        f'more than another: {percent(extra / total)} of the time.{said}',
        _line_of(e, 'DataLoader('),
        without(total, extra),
    )


def embedding(e: Evidence) -> Finding | None:
    """Dense gradients of a large table of which a step looks up few rows."""
    tables = getattr(e.session.lines, 'tables', {})
    parameters = e.session.memory.get('parameters', 0.0)
    if not tables or not parameters:
        return None
    table = max(tables.values(), key=lambda t: t.bytes)
    unused = 1 - len(table.looked_up) / table.rows
    operators = e.session.operators
    dense = operators.by_name.get('aten::embedding_dense_backward', (0, 0.0))[1] if operators else 0.0
    saved = unused * (e.part('optimizer') * min(1.0, table.bytes / parameters) + dense)
    if unused < 0.75 or saved < SHARE * e.step:
        return None
    return Finding(
        'embedding',
        'Few rows of an embedding are used, and all are updated',
        f'A step looks up {len(table.looked_up):,} of {table.rows:,} rows of a table of '
        f'{table.bytes / 1e6:,.1f} MB. Its gradient and the optimizer go over all of them. With '
        f'nn.Embedding(…, sparse=True) and SGD or SparseAdam they go over those that are used; the moments '
        f'of the others then rest.',
        looks.named(table.line),
        without(e.step, saved),
    )


def padding(e: Evidence) -> Finding | None:
    """Positions of a batch that are there only to make its rows equally long."""
    tables = getattr(e.session.lines, 'tables', {})
    packed = any(name == '_pack_padded_sequence' for found in e.by_line.values() for name, _ in found)
    if not tables or packed:  # a recurrent network passes over what is packed
        return None
    table = max(tables.values(), key=lambda t: t.padding)
    share = table.padding / table.positions if table.positions else 0.0
    if share < 0.3:
        return None
    columns = table.padded_columns / table.positions
    cut = (
        f' {percent(columns)} of all positions lie where every row is padded: the batch is padded further '
        f'than to its own longest row.'
        if columns > 0.05
        else ' Batches of rows of similar length need less of it.'
    )
    return Finding(
        'padding',
        'Much of a batch is padding',
        f'{percent(share)} of the positions that {looks.named(table.line)} looks up are padding.{cut} If '
        f'nothing skips them, they take as long as others.',
        looks.named(table.line),
        without(e.mean, share * e.passes),
    )


def growing(e: Evidence) -> Finding | None:
    """Steps that become longer together with the memory of the process."""
    growth = e.session.memory.get('growth_per_step', 0.0)
    if len(e.steps) < 15 or growth < GROWTH:
        return None
    first, last = _first_and_last(e)
    later_is_longer = [before < after for before in first for after in last]
    factor = _growing(e)
    if statistics.fmean(later_is_longer) < 0.9 or factor < GROWING:
        return None
    joined = {
        line: calls.seconds
        for line, found in e.by_line.items()
        for name, calls in found
        if name in ('cat', 'concat', 'stack', 'vstack', 'hstack') and calls.part == 'rest'
    }
    line = max(joined, key=joined.get) if joined else _sampled(e, lambda part, places: part == 'rest')[1]
    return Finding(
        'growing',
        'The steps become longer and longer',
        f'The last third of {len(e.steps)} timed steps took {factor:.2f} times as long as the first, and the '
        f'memory of the process grew by {growth / 1e3:,.0f} KB a step. Something is made larger in each '
        f'step, such as a list, a tensor by torch.cat, or a graph.',
        looks.named(line),
        factor,
    )


def unused_gradients(e: Evidence) -> Finding | None:
    """Parts of a backward pass that lead to nothing but gradients that nobody uses."""
    seen = e.session.not_needed
    if seen is None or not seen.unused:
        return None
    share = e.share_of_nodes(seen.unused)
    if share < SHARE:
        return None
    line = max((line for line in seen.unused if line is not None), key=seen.unused.get, default=None)
    if line is None:
        return None
    return Finding(
        'unused-gradients',
        'Gradients are computed that nobody uses',
        f'The gradients of {seen.parameters:,} parameters, {seen.elements:,} numbers in all, are cleared '
        f'before an optimizer uses them, or no optimizer has these parameters. What serves nothing else '
        f'takes {percent(share)} of a step, most of it for {looks.text_of(line)}. Where a loss needs no '
        f'gradient of what this line gives, pass it as x.detach(); if no loss does, use torch.no_grad().',
        looks.named(line),
        without(1, share),
    )


def repeated_backward(e: Evidence) -> Finding | None:
    """Several backward passes through the same part of a graph."""
    seen = e.session.not_needed
    if seen is None or not seen.repeated:
        return None
    share = e.share_of_nodes(seen.repeated)
    if share < SHARE:
        return None
    line = max(seen.repeated, key=seen.repeated.get)
    return Finding(
        'repeated-backward',
        'The same part of the graph is run backwards several times',
        f'What {looks.named(line)} made ({looks.text_of(line)}) was run {times(seen.runs[line])} in a step. '
        f'What comes after the first time takes {percent(share)} of the step. If the gradients of several '
        f'losses are added anyway, add the losses and call backward() once. If they are there for numbers to '
        f'print, such as norms, make them only when you print.',
        _line_of(e, 'retain_graph') or looks.named(line),
        without(1, share),
    )


def recomputation(e: Evidence) -> Finding | None:
    """Activation checkpoints where there is memory enough without."""
    tested = e.tested('no-activation-checkpoints')
    if tested is None or tested.verdict != 'faster':
        return None
    calls = e.session.not_needed.checkpoints
    text = (
        f'The backward pass computes the forward pass of {sum(calls.values())} checkpointed functions again '
        f'(torch.utils.checkpoint), and what they would keep fits into the memory that is free here.'
    )
    return Finding(
        'recomputation',
        'The forward pass is computed twice',
        _evidence_of_test(e, tested.id, text),
        looks.named(calls.most_common(1)[0][0]),
        tested.ratio,
        tested.id,
    )


def repeated_work(e: Evidence) -> Finding | None:
    """Operators whose inputs have the content of those of an earlier call of the same step."""
    seen = e.session.repeats
    if seen is None:
        return None
    shares = {
        line: e.line_shares[line] * one.again / one.seconds
        for line, one in seen.lines.items()
        if one.seconds and line in e.line_shares
    }
    share = sum(shares.values())
    if share < SHARE:
        return None
    line = max(shares, key=shares.get)
    one = seen.lines[line]
    if one.parametrized:
        remedy = 'They make weights from others: with torch.nn.utils.parametrize.cached() they are kept.'
    elif one.casts_again > 0.5 * one.again:
        remedy = (
            'Most of this time is for casts of weights to 16 bits. Autocast forgets them when its outermost '
            'context is left: enter it once, around all of these calls.'
        )
    else:
        remedy = 'Compute it once and keep the result.'
    return Finding(
        'repeated-work',
        'The same is computed several times in a step',
        f'{one.calls_again:,} of {one.calls:,} calls of operators in {looks.named(line)} '
        f'({looks.text_of(line)}) had the input of an earlier call of the same step. What is computed again '
        f'on this line and on others takes about {percent(share)} of a step, with its backward pass. '
        f'{remedy}',
        looks.named(line),
        without(1, share),
    )


def constant_work(e: Evidence) -> Finding | None:
    """What each step computes anew from numbers that have not changed since the step before."""
    seen, samples = e.session.repeats, e.session.samples
    if seen is None or samples is None or samples.number < SAMPLES:
        return None
    sampled: Counter = Counter()
    of_function: Counter = Counter()
    for (part, places, _), seconds in samples.found.items():
        if part not in PARTS or not places:
            continue
        key = part, places[0][:2]
        sampled[key] += seconds
        around = [place for place in places if e.is_constant((place,))]
        if around:
            file, _, name = around[-1]  # the outermost one
            of_function[(file, name), key] += seconds
    in_functions: Counter = Counter()
    for (function, key), seconds in of_function.items():
        in_functions[function] += e.spent.get(key, Spent()).seconds / e.mean * seconds / sampled[key]
    outside = {}
    for line, one in seen.lines.items():
        if one.same and one.function not in e.constant:  # such work has no backward pass
            seconds = sum(e.spent.get((part, line), Spent()).seconds for part in PARTS)
            outside[line] = seconds / e.mean * one.same / one.seconds
    share = sum(in_functions.values()) + sum(outside.values())
    if share < SHARE:
        return None
    if max(in_functions.values(), default=0) >= max(outside.values(), default=0):
        [(function, _)] = in_functions.most_common(1)
        line = e.constant[function].called_from
        what = f'{function[1]}(), called in {looks.named(line)}'
    else:
        line = max(outside, key=outside.get)
        what = looks.named(line)
    return Finding(
        'constant-work',
        'Each step computes again what has not changed',
        f'In two steps, one after the other, the operators of {what} ({looks.text_of(line)}) had the same '
        f'inputs. What is made anew in that way takes {percent(share)} of a step. Make it once, before the '
        f'loop; a module keeps it with register_buffer().',
        looks.named(line),
        without(1, share),
    )


def transform_length(e: Evidence) -> Finding | None:
    """Fourier transforms of lengths with a large prime factor."""
    found = []
    for one in e.session.transforms:
        share = e.line_shares.get(one.line, 0.0) * one.share * max(0.0, 1 - 1 / one.ratio)
        found.append((share, one))
    share = sum(share for share, _ in found)
    if share < SHARE:
        return None
    one = max(found, key=lambda pair: pair[0])[1]
    return Finding(
        'transform-length',
        'A Fourier transform has an awkward length',
        f'{looks.text_of(one.line)} transforms {one.length:,} numbers at a time. The largest prime factor of '
        f'{one.length:,} is {largest_factor(one.length):,}, and here the transform took '
        f'{one.ratio:.1f} times as long as one of {one.smooth:,} numbers. For a convolution, pad to that '
        f'length, as the argument n does; other frequencies come out.',
        looks.named(one.line),
        without(1, share),
    )


def small_batch(e: Evidence) -> Finding | None:
    """Twice the batch takes so little longer that an example takes a third less time."""
    batch = e.session.loader.get('batch_size') or e.session.batch_size
    gain = e.twice_the_batch
    if not batch or gain is None or gain < 1.5:
        return None
    twice, once, _ = e.session.doubled
    return Finding(
        'small-batch',
        'The batch is so small that twice the batch takes hardly longer',
        f'A forward and a backward pass of {batch} examples take {ms(once)}, of {2 * batch} examples '
        f'{ms(twice)}. The gain assumes that the loader takes twice as long, and the rest of a step as long '
        'as before.',
        _line_of(e, 'batch_size') or _line_of(e, 'batch'),
        gain,
    )


def recompilation(e: Evidence) -> Finding | None:
    compiled = e.session.compiled
    if compiled.get('graphs', 0) < 2 and compiled.get('seconds', 0) < SHARE * e.total:
        return None
    if not compiled.get('graphs'):
        return None
    return Finding(
        'recompilation',
        'torch.compile compiles again and again',
        f'{compiled["graphs"]} graphs were compiled after the first {e.session.warm} steps, in '
        f'{ms(compiled["seconds"])}: '
        'shapes, numbers or settings change between steps.',
        _line_of(e, 'compile('),
        without(e.total, min(compiled['seconds'], e.total)),
    )


def graph_breaks(e: Evidence) -> Finding | None:
    compiled = e.session.compiled
    if not compiled.get('all_breaks'):
        return None
    reason = compiled['reasons'][0].splitlines()[0] if compiled['reasons'] else ''
    operators = e.session.operators
    inside = sum(s for name, (_, s) in operators.by_name.items() if 'Compiled' in name) if operators else 0.0
    outside = max(0.0, e.part('forward') - inside)
    return Finding(
        'graph-breaks',
        'The compiled code is in pieces',
        f'{compiled["all_breaks"]} breaks of the graph, {compiled["all_graphs"]} graphs. The first '
        f'reason: {reason}',
        _line_of(e, 'compile('),
        without(e.step, min(outside, 0.3 * e.step)),
    )


def gaps(e: Evidence) -> Finding | None:
    """Python code of the script in which no operator runs, outside of the preparation of data."""
    samples = e.session.samples
    if samples is None or samples.number < SAMPLES:
        return None
    found = _python_in_loop(e, before_model=False)
    for line in list(found):
        elsewhere = sum(
            n
            for (part, places, _), n in samples.found.items()
            if part != 'rest' and places and places[0][:2] == line
        )
        other = e.spent.get(('rest', line), Spent()).other / e.mean  # operators are no gap
        if found[line] < elsewhere or not other:  # the call of the model, of the backward pass
            del found[line]
        else:
            found[line] = min(found[line] / samples.total, other)
    outside = min(sum(found.values()), e.part('rest') / e.mean)
    in_model = _python_in_model(e)
    share = outside + sum(in_model.values())
    if share < SHARE:
        return None
    found.update(in_model)
    line = found.most_common(1)[0][0]
    caller = _caller_of(e, set(found))
    called = f', called from {looks.named(caller)}: {looks.text_of(caller)}' if caller else ''
    return Finding(
        'gaps',
        'The operators wait for other code of the script',
        f'{percent(share)} of a step passes in Python code that runs no operator, most of it in '
        f'{looks.named(line)}: {looks.text_of(line)}{called}',
        looks.named(line),
        without(1, share),
    )


def _python_in_model(e: Evidence) -> Counter:
    """Shares of a step of the lines that run no operator in the forward pass; nothing if they are few."""
    found: Counter = Counter()
    for (part, places, inner), seconds in e.session.samples.found.items():
        if part != 'forward' or not places or inner != (places[0][0], places[0][2]):
            continue
        if e.is_constant(places):
            continue
        line = places[0][:2]
        if line not in e.by_line and not e.session.samples.names_framework(line):
            found[line] += seconds / e.session.samples.total
    for line in found:  # a signal is handled late, so an operator's time may be seen on the next line
        found[line] = min(found[line], e.spent.get(('forward', line), Spent()).other / e.mean)
    return found if sum(found.values()) >= LOADER else Counter()


def _caller_of(e: Evidence, lines: set[tuple]) -> tuple | None:
    """The innermost line from which nearly all of the time on these lines is called; None if that is a line
    of the training loop."""
    time: Counter = Counter()
    depth: dict[tuple, int] = {}
    whole, loop = 0.0, _loop(e)
    for (part, places, _), seconds in e.session.samples.found.items():
        if part not in PARTS or not places or places[0][:2] not in lines:
            continue
        whole += seconds
        below = list(itertools.takewhile(lambda p: not loop or (p[0], p[2]) != loop[:2], places))
        for number, line in enumerate(dict.fromkeys(place[:2] for place in below)):
            time[line] += seconds
            depth[line] = max(depth.get(line, 0), number)
    around = [line for line in time if line not in lines and time[line] >= 0.9 * whole]
    return min(around, key=depth.get, default=None)


def straggler(e: Evidence) -> Finding | None:
    """A rank whose own work takes longer than that of the others, which wait for it in the backward pass."""
    ranks = e.session.ranks
    if len(ranks) < 2:
        return None
    by_hand = any(r.get('collectives', 0.0) > SHARE * e.mean for r in ranks)
    parts = ('loader', 'forward', 'rest')  # the others are waited for in the backward pass
    if by_hand:
        parts += ('backward', 'optimizer')
    own = [sum(r.get(part, 0.0) for part in parts) for r in ranks]
    slowest = max(range(len(own)), key=own.__getitem__)
    gap = own[slowest] - statistics.median(own[:slowest] + own[slowest + 1 :])
    if gap < SHARE * e.mean:
        return None
    where = 'Outside of the collectives' if by_hand else 'Before its backward pass'
    return Finding(
        'straggler',
        f'The ranks wait for rank {slowest}',
        f'{where} rank {slowest} works {ms(own[slowest])} in each step, the others {ms(own[slowest] - gap)}.',
        None,
        without(e.mean, gap),
    )


def all_reduce(e: Evidence) -> Finding | None:
    """What the ranks' gradients take on their way: DDP's by a test without, the script's own calls by
    their time.

    A rank that waits for another one waits in the collective too. So the least of the ranks counts.
    """
    ranks = e.session.ranks
    if len(ranks) < 2:
        return None
    title = 'The ranks wait for the all-reduce of their gradients'
    tested = e.tested('no-all-reduce')
    if tested is not None and tested.verdict == 'faster':
        megabytes = e.session.memory.get('gradients', 0.0) / 1e6
        said = (
            f'A step with {megabytes:,.1f} MB of gradients takes {ms(tested.before)}, and {ms(tested.after)} '
            'if their all-reduce is left out on all ranks.'
        )
        return Finding('all-reduce', title, said, None, tested.ratio, tested.id)
    own = min(r.get('collectives', 0.0) for r in ranks)
    if own < SHARE * e.mean:
        return None
    said = (
        f'{percent(own / e.mean)} of a step passes in collectives that the script calls itself, or in the '
        'broadcast of the buffers of DistributedDataParallel.'
    )
    return Finding('all-reduce', title, said, None, without(e.mean, own))


ALL = (
    straggler,
    all_reduce,
    anomaly,
    profiler,
    deterministic,
    float64,
    threads,
    loader,
    python_loop,
    optimizer_loop,
    small_operators,
    copies,
    kept_graph,
    evaluation_gradients,
    evaluation,
    checkpoints,
    epochs,
    embedding,
    padding,
    growing,
    unused_gradients,
    repeated_backward,
    recomputation,
    repeated_work,
    constant_work,
    transform_length,
    small_batch,
    recompilation,
    graph_breaks,
    gaps,
    synchronization,
)


def findings(session: Session) -> list[Finding]:
    """All findings, the one that can gain most first."""
    if not session.plain:
        return []
    evidence = Evidence(session)
    found = []
    for one in ALL:
        try:
            finding = one(evidence)
        except Exception as error:  # one that fails must not take the others with it
            session.notes.append(f'The search for "{one.__name__}" failed: {type(error).__name__}: {error}')
            continue
        if finding is not None:
            found.append(finding)
    loops = [f.at_most for f in found if f.id in ('python-loop', 'optimizer-loop')]
    if any(gain > 1.1 for gain in loops):  # the operators are small because of the loop, which is named
        found = [f for f in found if f.id != 'small-operators']
    if any(f.id == 'kept-graph' for f in found):  # that is what makes the steps longer
        found = [f for f in found if f.id != 'growing']
    unused = {f.line for f in found if f.id == 'unused-gradients'}
    found = [f for f in found if f.id != 'evaluation-gradients' or f.line not in unused]
    named = {f.line for f in found if f.id not in ('gaps', 'synchronization')}
    found = [f for f in found if f.id != 'gaps' or f.line not in named]
    gained = {r.finding: r.ratio for r in session.results if r.finding and r.verdict == 'faster'}
    return sorted(found, key=lambda f: (-round(f.at_most, 2), -gained.get(f.id, 0.0)))
