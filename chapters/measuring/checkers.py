"""The checkers of the exercises on measuring."""

import itertools
import random
import weakref

import numpy as np

from answer_checks.definitions import Part, clock, exercise, listed, need, number, numbers, timed
from tested_results import traces

MODES = 'torch._dynamo',        # what a TorchDispatchMode imports when it is entered
SHARE = 'Divide the time of the clock that counts work by the time of the wall clock.'
numbers('msr-ex-w-clocks',
        first=Part(7.6 / 2.0, 'cores that the first program kept busy, on average', SHARE,
                   'The clock of the process adds up the work of all cores.'),
        second=Part(0.1 / 2.0, 'cores that the second program kept busy, on average', SHARE,
                    'While it waits, no core works for it.'),
        third=Part(2.0 / 2.0, 'cores that the third program kept busy, on average', SHARE,
                   'Compare its three clocks with those of the first.'),
        slips={
            'first': {
                7.6 / 1.9:
                    'Not quite all four: divide by the wall clock. The clock of the main thread stood still '
                    'while it waited.',
                1.9 / 2.0:
                    'That is the main thread alone, or the share of all four cores. Asked for is a number of '
                    'cores.',
                7.6: 'Those are seconds of work. Divide them by the seconds that passed.',
            },
            'second': {
                1.0: 'The two clocks that agree both count work. Neither of them is the wall clock.',
                0.95: 'That is the share of the time in which it waits.',
            },
            'third': {
                0:
                    'Its clocks count two seconds of work, even if the program only asked whether something '
                    'is ready.',
                2.0:
                    'Divide seconds of work by seconds that passed. The main thread is a part of the '
                    'process.',
            },
        })

SIDE, SECONDS = 4096, 20e-6
numbers('msr-ex-w-good',
        rate=Part(2 * SIDE ** 3 / SECONDS, 'operations per second, additions and multiplications',
                  'How many multiplications does one number of the result need, and how many additions?',
                  'There are as many results as the matrix has numbers. Mind the µs.'),
        longer=Part((2 * SIDE) ** 3 // SIDE ** 3, 'times as long that twice the side should take',
                    'The work does not grow like the number of entries.',
                    'Put the double side into your count of operations.'),
        slips={
            'rate': {
                SIDE ** 3 / SECONDS: 'Each step of a sum is a multiplication and an addition.',
                2 * SIDE ** 2 / SECONDS:
                    'That is one step for each number of the result, which is a sum of 4,096 products.',
            },
            'longer': {
                2: 'The result has four times as many numbers, and each is a longer sum.',
                4: 'The result has four times as many numbers. And how long is the sum behind each?',
                16: 'That counts four sides. The two matrices share one of theirs, the length of the sums.',
            },
        })

BOUND, INTERVALS = 1.5, {'first': (1.62, 1.90), 'second': (1.41, 1.70), 'third': (1.20, 1.40)}
numbers('msr-ex-w-verdict', **{
    name: Part('holds' if low > BOUND else 'fails' if high < BOUND else 'undecided',
               f"'holds', 'fails' or 'undecided', for {low:.2f}–{high:.2f}",
               'Where does the bound lie: below the interval, above it, or within?',
               'A verdict has to be right for every value that the measurements allow.')
    for name, (low, high) in INTERVALS.items()},
        slips={
            'first': {
                'undecided': 'No value of this interval lies below the bound.',
                'fails': 'The interval lies above 1.5, and the statement says more than 1.5.',
            },
            'second': {
                'holds': 'The median lies above the bound, but the interval has values below it as well.',
                'fails': 'The interval has values above the bound as well.',
            },
            'third': {
                'undecided': 'No value of this interval lies above the bound.',
                'holds': 'The interval lies below 1.5, and the statement says more than 1.5.',
            },
        })

LOADING, NETWORK, UPDATE = 0.3, 0.6, 0.1
AFTER = 'Divide the two factors that you have found already.'
AGAIN = 'How long is the step with one fix, and how long with both?'
numbers('msr-ex-w-amdahl',
        a=Part(1 / (max(LOADING, NETWORK) + UPDATE), 'times as fast with fix A',
               'Two things that run at the same time take as long as the longer one.',
               'What is left of the step once loading is hidden?'),
        b=Part(1 / (LOADING + NETWORK / 5 + UPDATE), 'times as fast with fix B',
               'Only the share of the network becomes smaller.', 'Add up the three shares again.'),
        both=Part(1 / (max(LOADING, NETWORK / 5) + UPDATE), 'times as fast with both',
                  'The factors must not be multiplied: a fix changes all shares.',
                  'Which of the two that overlap is the longer one now?'),
        b_after_a=Part((max(LOADING, NETWORK) + UPDATE) / (max(LOADING, NETWORK / 5) + UPDATE),
                       'times as fast with both as with A alone', AFTER, AGAIN),
        a_after_b=Part((LOADING + NETWORK / 5 + UPDATE) / (max(LOADING, NETWORK / 5) + UPDATE),
                       'times as fast with both as with B alone', AFTER, AGAIN),
        slips={
            'a': {
                1 / NETWORK: 'The update is still there.',
                1 / (1 - UPDATE): 'That hides a tenth. How much of the step is loading?',
                1.3: '30% less time is more than 1.3 times as fast. Divide by what is left.',
            },
            'b': {
                5: 'Five times as fast is the part. The rest of the step takes as long as before.',
                1 / (LOADING + UPDATE): 'That is for passes that take no time. A fifth of theirs is left.',
            },
            'both': {
                1 / (max(LOADING, NETWORK) + UPDATE) / (LOADING + NETWORK / 5 + UPDATE):
                    'You have multiplied the two factors. Once the passes are shorter, they no longer hide '
                    'all of the loading.',
                1 / (NETWORK / 5 + UPDATE):
                    'Loading takes longer than the passes now, so they do not hide all of it.',
            },
            'b_after_a': {
                1 / (LOADING + NETWORK / 5 + UPDATE): 'That is what B gains on the step as it was.',
            },
            'a_after_b': {
                1 / (max(LOADING, NETWORK) + UPDATE): 'That is what A gains on the step as it was.',
            },
        })

numbers('msr-ex-w-regime', **{
    name: Part(right, f"what probably limits {name.upper()}: 'overhead', 'memory' or 'compute'", hint,
               'Which of the three grows with the batch, and which shrinks with each further core?')
    for name, right, hint in (
        ('p', 'overhead', 'Twice the work took hardly longer, so the work is not what takes the time.'),
        ('q', 'compute', 'It grows with the batch, and it scales with the number of cores.'),
        ('r', 'memory', 'It grows with the batch, and half of the cores do nearly as well.'))},
        slips={
            'p': {
                'memory': 'Twice the batch is twice the bytes. Limited by them, it would take twice as long.',
                'compute':
                    'Twice the batch is twice the arithmetic. Limited by it, it would take twice as long.',
            },
            'q': {
                'memory':
                    'The cores share one memory, so losing one of them would probably cost such a program '
                    'little.',
                'overhead': 'Overhead is paid for a call, and there are as many calls for twice the batch.',
            },
            'r': {
                'compute': 'Without the second core, arithmetic would take twice as long.',
                'overhead': 'Overhead is paid for a call, and there are as many calls for twice the batch.',
            },
        })

PARAMETERS, RATE, GPUS, PEAK, TOKENS = 8e9, 55_000, 8, 989e12, 200e9
numbers('msr-ex-w-mfu',
        mfu=Part(6 * PARAMETERS * RATE / (GPUS * PEAK), 'share of the peak, between 0 and 1',
                 'Training takes six FLOPs for each parameter and token.',
                 'Whose peak is it? There are eight GPUs.'),
        days=Part(TOKENS / RATE / 86_400, 'days for 200 billion tokens',
                  'Divide the tokens by the tokens of a second.', 'A day has 86,400 seconds.'),
        slips={
            'mfu': {
                6 * PARAMETERS * RATE / PEAK: 'No utilization is above 1. There are eight GPUs.',
                2 * PARAMETERS * RATE / (GPUS * PEAK):
                    'That is the forward pass alone. Training takes six FLOPs for each parameter and token.',
            },
            'days': {
                TOKENS / RATE: 'Those are seconds.',
                TOKENS / RATE / 3600: 'Those are hours.',
                TOKENS / RATE / 86_400 / GPUS:
                    'The 55,000 tokens a second are those of all eight GPUs together.',
            },
        })


def program(milliseconds: float, seed: int):
    """A program of that length, with the noise of a machine: some percent, and now and then a third."""
    draw = random.Random(seed)

    def run() -> None:
        noise = 0.06 * abs(draw.gauss(0, 1)) + 0.3 * (draw.random() < 0.1)
        end = clock() + 1e-3 * milliseconds * (1 + noise)
        while clock() < end:
            pass
    return run


@exercise('msr-ex-winner', '''def differ(first, second):
    """Whether two programs, functions of no argument, differ in time by more than 5%."""''', seconds=60)
def winner(differ) -> None:
    """No winner between a program and itself, and one where the times differ, whichever comes first."""
    alarms = sum(bool(differ(program(0.1, 2 * i), program(0.1, 2 * i + 1))) for i in range(40))
    need(alarms <= 4, 'no winner among equals',
         f'A program was said to differ from itself in {alarms} of 40 comparisons.',
         'One timing is one draw of the noise. Take many, and what outliers do not move.')
    for name, a, b in (('second', 0.1, 0.13), ('first', 0.13, 0.1)):
        found = sum(bool(differ(program(a, i), program(b, i + 50))) for i in range(10))
        need(found >= 9, 'the winner where there is one',
             f'Where the {name} program takes 30% longer, that was found in {found} of 10 comparisons.',
             'Compare what you measured with 5%, in both directions.')


@exercise('msr-ex-knee', '''def knee(one, many, n):
    """The batch whose step takes twice as long as that of one example.

    one, many: the seconds of a step with one example and with n examples.
    """''')
def knee_of(knee) -> None:
    """Right for three machines of the cost model, whatever the unit of time."""
    for first, each, n in ((1e-4, 1e-6, 1000), (2e-3, 1e-5, 8192), (5e-5, 2e-5, 100)):
        one, many = first + each, first + each * n
        right = first / each + 2
        found = number(knee(one, many, n))
        need(abs(found - right) < 1.01, 'the batch at the knee',
             f'You are off where a step costs {1e6 * first:.0f} µs and {1e6 * each:.0f} µs an example.',
             'Two measurements give two unknowns: what a step costs in any case, and what each further '
             'example adds. The first is part of both.')
        need(abs(number(knee(1e3 * one, 1e3 * many, n)) - found) <= 1, 'the same batch in any unit of time',
             'In milliseconds in place of seconds, something else comes out.',
             'A batch is a ratio of two times.')


numbers('msr-ex-five',
        per_byte=Part(2 / 4, 'FLOPs per byte of the weights of the linear layer, in float32',
                      'Each number of the matrix is read once. What is done with it?',
                      'A multiplication and an addition, for how many bytes?'),
        linear=Part('memory', "what limits the linear layer by this count: 'overhead', 'memory' or 'compute'",
                    'How many operations could a core do for each byte that it gets?',
                    'Divide its 16 MB by your bandwidth, and its 8 MFLOP by your peak.'),
        lookup=Part('overhead', 'what limits the lookup of eight rows',
                    'How many bytes does it move, and how long would that take?',
                    'Twice the rows: does it take twice as long?'),
        convolution=Part('compute', 'what limits the convolution',
                         'How often is each number of the image used?',
                         'Nine places, and once for each channel of the result.'),
        tanh=Part('memory', 'what limits the hyperbolic tangent, by a count of one FLOP for each',
                  'It reads four bytes and writes four for each number.',
                  'This is the prediction. What you measure is another matter.'),
        slips={
            'per_byte': {
                1 / 4: 'Each number of the matrix is multiplied, and the product is added.',
                2: 'That is for each number, or the bytes for each FLOP. A float32 has four bytes.',
            },
            'linear': {
                'compute': 'With half a FLOP for each byte, the bytes take longer than the arithmetic.',
                'overhead': 'Its 16 MB take much longer than a call.',
            },
            'lookup': {
                'memory': 'Eight rows are a few kilobytes. How long do they take at your bandwidth?',
                'compute': 'A lookup computes nothing.',
            },
            'convolution': {
                'memory': 'Each number of the image is used many times, once it is there.',
                'overhead': 'There is one call, and much arithmetic in it.',
            },
            'tanh': {
                'compute': 'By this count it does one FLOP for eight bytes.',
                'overhead': 'There is one call, and it moves 16 MB.',
            },
        })


@exercise('msr-ex-suspects', '''def kept(work):
    """Bytes that autograd keeps in saved tensors after work(), while its result is held.

    A tensor that is saved twice counts once.
    """''',
          'pytorch')
def suspects(kept) -> None:
    """The bytes of one graph, of several, of a tensor saved twice, under no_grad, and after backward."""
    import torch
    x = torch.ones(1000, requires_grad=True)
    size = x.nbytes
    found = kept(lambda: torch.sigmoid(x))
    need(found == size, 'the bytes of one saved tensor',
         f'A sigmoid keeps its result, {size} bytes. You counted {found}.',
         'torch.autograd.graph.saved_tensors_hooks shows each tensor; what are its bytes?')
    found = kept(lambda: [torch.sigmoid(x) for _ in range(3)])
    need(found != 4 * size, 'nothing of the call before',
         f'Three sigmoids in a list keep {3 * size} bytes. You counted {found}, with one from the call '
         'before, whose result is gone.',
         'An object that holds a saved result itself keeps its own graph alive. '
         'What does tensor.detach() leave out?')
    need(found == 3 * size, 'the bytes of three graphs',
         f'Three sigmoids in a list keep {3 * size} bytes. You counted {found}.',
         'Add up over all that is alive, not over the last one.')

    def trained():
        loss = torch.sigmoid(x).sum()
        loss.backward()
        return loss
    found = kept(trained)
    need(found == 0, 'nothing after the backward pass',
         f'The backward pass frees what it has used. You counted {found} bytes.',
         'What was saved is not what is kept. A weakref tells what is still alive.')
    found = kept(lambda: torch.exp(x) ** 2)
    need(found == size, 'a tensor that is saved twice, once',
         f'An exponential and the square of it both save the exponential, {size} bytes. You counted {found}.',
         'Two tensors may have the same storage. How do you recognize it?')
    with torch.no_grad():
        need(kept(lambda: torch.sigmoid(x)) == 0, 'nothing under no_grad',
             'Under torch.no_grad() nothing is saved.', 'Do you switch gradients on?')
    result = weakref.ref(torch.sigmoid(x))
    need(kept(lambda: torch.sigmoid(x)) == size and result() is None, 'the same count again',
         'Called again, your function counts something else.', 'What remains of the calls before?')


def standardised(images: np.ndarray) -> np.ndarray:
    """Each image with mean 0 and standard deviation 1, one by one."""
    return np.stack([(p - np.mean(p)) / np.std(p) for p in images])


def operators(function, *args) -> int:
    """How many operators of PyTorch a call issues."""
    from torch.utils._python_dispatch import TorchDispatchMode
    found = []

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            found.append(operator)
            return operator(*args, **(kwargs or {}))
    with Count():
        function(*args)
    return len(found)


@exercise('msr-ex-amdahl', '''def at_once(images):
    """Each image less its mean, divided by its standard deviation, without a loop over images.

    images: a float32 tensor of shape (n, 1, 28, 28). The deviation has correction 0.
    """''', 'pytorch', imports=MODES)
def amdahl(at_once) -> None:
    """The numbers of a loop, on fresh images in each call, in less than half of its time, and no loop."""
    import torch

    def make(i: int) -> list:
        return [torch.from_numpy(draw.random((256, 1, 28, 28), dtype='float32') * (i + 1) + i)]
    draw = np.random.default_rng()
    floor = 2 * 256 * 28 * 28 * 4 / 1e12        # reads and writes, at the rate of a very large cache
    took = timed(at_once, make, standardised, floor, calls=7)
    loops = []
    for i in range(7):      # as often as the answer, which is given the least of its times too
        images, begin = make(i)[0], clock()
        torch.stack([torch.tensor((p - np.mean(p)) / np.std(p)) for p in images.numpy()])
        loops.append(clock() - begin)
    gain = min(loops) / took
    each = 'Which operations work on all images in one call, and along which dimensions?'
    few, many = (operators(at_once, torch.rand(n, 1, 28, 28)) for n in (4, 64))
    need(many <= few, 'no loop over images',
         f'It calls {few} operators for 4 images and {many} operators for 64.', each)
    need(gain > 2, 'less than half of the time of a loop',
         f'A loop over the images takes {gain:.1f} times as long.', each)


def saves(kind: str, events: list) -> float:
    """The share of a step that a perfect fix of its limit can save."""
    begin, end = traces.span(events)
    if kind != 'input':
        return sum(b - a for a, b in traces.gaps(events)) / (end - begin)
    load = sum(e.end - e.start for e in events if e.name == 'load') / (end - begin)
    return min(load, 1 - load)


AT_ONCE = 'What is fetched ahead runs at the same time as the rest, and the longer of the two remains.'
IDLE = 'Add up the time in which no operator runs, and divide it by the time of the step.'
numbers('msr-ex-gap', **{
    part: answer for name, kind in traces.mystery_kinds().items() for part, answer in (
        (name.lower(), Part(kind, f"what limits {name}: 'overhead', 'input' or 'compute'",
                            'How much white is there, and is it in one place or everywhere?',
                            'How long does an operator take, and which phase lies above the longest gap?')),
        (f'{name.lower()}_saves', Part(saves(kind, traces.mystery(name)),
                                       'share of the time that a perfect fix saves, between 0 and 1',
                                       AT_ONCE if kind == 'input' else IDLE,
                                       'Take the numbers from the list of events, not from the picture.',
                                       within=0.1)))})


@exercise('msr-ex-reader', '''def diagnose(events):
    """What limits a step, and the share of its time that a perfect fix saves.

    events: each has a lane, 'phases' or 'operators', a name, a start and an end in seconds.
    Returns 'overhead', 'input' or 'compute', and a number between 0 and 1.
    """''')
def reader_of_traces(diagnose) -> None:
    """Right for five traces of each kind, also on a machine that is ten times as fast or as slow."""
    for scale, seed in itertools.product((1, 0.1, 10), range(5)):
        for kind in traces.KINDS:
            events = [e._replace(start=scale * e.start, end=scale * e.end)
                      for e in traces.made_up(kind, f'reader {seed}')]
            answer = listed(diagnose(list(events)), 'a word and a number')
            need(len(answer) == 2 and isinstance(answer[0], str), 'a word and a number',
                 'Return the limit, as a word, and the share that can be saved.',
                 'Does every path through your function end with a return?')
            found, share = answer[0], number(answer[1], 'a word and a number')
            need(found == kind or scale == 1, 'the limit on any machine',
                 f'A step that is {kind}-bound was called {found!r} where all of it takes {scale:g} times as '
                 'long, although the limit is the same.', 'What do you compare the times with?')
            need(found == kind, 'the limit',
                 f'A step that is {kind}-bound was called {found!r}.',
                 'The busy share finds one of the three kinds. The other two differ in how their idle '
                 'time is divided: compare the longest gap with the step.')
            need(abs(share - saves(kind, events)) <= 0.005, 'the share that a perfect fix saves',
                 f'You are off for a step that is {kind}-bound. ' + (AT_ONCE if kind == 'input' else IDLE),
                 'Print the share for one trace, and add up its phases and its gaps by hand.')
