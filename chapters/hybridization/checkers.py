"""The checkers of the exercises on hybridization."""

import itertools
import math

from answer_checks.definitions import Missing, Part, exercise, fetch, need, number, numbers

COMPILER = 'torch._dynamo', 'torch.export', 'functorch.compile'
ROUNDS = 3
numbers('hyb-ex-w-loop',
        operations=Part(ROUNDS, 'operations that the record contains',
                        'The loop itself is Python. What did the symbol go through?',
                        'One operation for each round. How many rounds were there?'),
        later=Part(ROUNDS, 'operations that the same record contains after the 3 became a 5',
                   'A record is made once. Who would change it?',
                   'Nobody records again in this question.'),
        slips={
            'operations': {
                1: 'The loop runs three times while the symbol goes through it.',
                0: 'Each addition is done with a symbol, and that is recorded.',
            },
            'later': {5: 'The record was made before, and there is no 3 in it that could be changed.'},
        })

numbers('hyb-ex-w-which', **{
    name: Part(right, f"'yes' or 'no': {what}", hint,
               'Is overhead, memory or arithmetic its limit, and which of these does the tool remove?')
    for name, right, what, hint in (
        ('product', 'no', 'torch.compile on one matmul of large matrices',
         'How many library calls are that, before and after?'),
        ('additions', 'yes', 'torch.compile on forty element-wise operations in a row',
         'How often does memory have to be read?'),
        ('layers', 'yes', 'hybridize() on two hundred tiny layers',
         'How much arithmetic is between two calls?'),
        ('mlp', 'no', 'torch.compile on an MLP with three layers, for one example',
         'What is removed, and what does entering compiled code add?'),
        ('script', 'no', 'torch.compile in a script that calls its model once',
         'When is a compilation paid back?'))},
        slips={
            'product': {'yes': 'It is a single call of a library, and its time is arithmetic.'},
            'additions': {
                'no': 'Each of them reads and writes a million numbers. A compiled loop does so once.',
            },
            'layers': {
                'no': 'Two hundred calls with hardly any arithmetic between them are nearly all overhead.',
            },
            'mlp': {
                'yes': 'The overhead of a few calls goes, and what it takes to enter compiled code is added.',
            },
            'script': {'yes': 'Its only call is the one that compiles.'},
        })

numbers('hyb-ex-w-seen', **{
    name: Part(right, f"'kept', 'frozen', 'dropped' or 'error': {what}", hint,
               'Is it an operation on x, or does Python run it? When, and with what for x?')
    for name, right, what, hint in (
        ('shape', 'error', 'print(x.shape) under hybridize()', 'What does a symbol know?'),
        ('values', 'dropped', 'print(x) under hybridize()', 'Is a print an operation on x?'),
        ('flag', 'frozen', 'if self.flag under hybridize()', 'Whose value is the flag, and when is it read?'),
        ('data', 'error', 'if x.sum() > 0 under hybridize()', 'Is a symbol true or false?'),
        ('traced_shape', 'dropped', 'print(x.shape) under torch.jit.trace',
         'The example has a shape. Is a print an operation on x?'),
        ('traced_data', 'frozen', 'if x.sum() > 0 under torch.jit.trace',
         'The example has a sign, and the trace sees one branch.'),
        ('compiled_values', 'kept', 'print(x) under torch.compile',
         'What happens where bytecode cannot become part of a graph?'),
        ('compiled_data', 'kept', 'if x.sum() > 0 under torch.compile',
         'What happens where bytecode cannot become part of a graph?'))},
        slips={
            'shape': {
                'kept': 'Later calls run the graph. And a symbol has no shape yet.',
                'dropped': 'Python has to find a shape before it can print one.',
                'frozen': 'Python has to find a shape before it can print one.',
            },
            'values': {
                'kept': 'It prints while MXNet records. Later calls run the graph, which has no print.',
                'error': 'A symbol can be printed: it has a name.',
                'frozen': 'Nothing of it is in the graph.',
            },
            'flag': {
                'kept':
                    'Python reads the flag while MXNet records. Later calls run the graph, which has one '
                    'branch.',
                'error': 'The flag is a value of Python, which it can read.',
                'dropped': 'The if is gone, but the branch that it took is in the graph.',
            },
            'data': {
                'frozen': 'To take a branch, Python has to know whether a symbol is true.',
                'kept': 'The graph has no if. And Python has to know whether a symbol is true.',
            },
            'traced_shape': {
                'kept': 'It prints while it is traced. Later calls run the graph, which has no print.',
                'error': 'The example has a shape.',
            },
            'traced_data': {
                'error': 'The example has numbers, so Python can take a branch.',
                'kept': 'The trace has the one branch that the example took.',
            },
            'compiled_values': {
                'dropped': 'Bytecode that cannot go into a graph is left to Python.',
                'error': 'Bytecode that cannot go into a graph is left to Python.',
            },
            'compiled_data': {
                'frozen': 'No example is run here. Where the bytecode depends on data, the graph ends.',
                'error': 'Where the bytecode depends on data, the graph ends, and Python goes on.',
            },
        })

FIRST, DISK, EAGER, COMPILED = 5, 0.1, 230e-6, 50e-6
SAVED = 'What does each later call save?'
numbers('hyb-ex-w-paid',
        calls=Part(FIRST / (EAGER - COMPILED), 'calls until 5 s are won back', SAVED, 'Mind the µs.'),
        disk=Part(DISK / (EAGER - COMPILED), 'calls until 0.1 s are won back', SAVED, 'Mind the µs.'),
        slips={
            'calls': {
                FIRST / COMPILED: 'That divides by what a call takes. Divide by what it saves.',
                FIRST / EAGER: 'That divides by what a call took before. Divide by what it saves.',
            },
            'disk': {
                DISK / COMPILED: 'That divides by what a call takes. Divide by what it saves.',
                DISK / EAGER: 'That divides by what a call took before. Divide by what it saves.',
            },
        })

CALL, WORK, LEFT, LARGE = 100, 10, 5, 1000
numbers('hyb-ex-w-down', **{
    name: Part((CALL - WORK + work) / (left + work), f'times as fast, {what}', hint,
               'What stays is the arithmetic and what is left of the overhead.', within)
    for name, work, left, within, what, hint in (       # the large ones are 1.085 and 1.09
        ('small', WORK, LEFT, 0.02, 'with 10 µs of arithmetic', 'How long is the call afterwards?'),
        ('large', LARGE, LEFT, 0.0045, 'with 1,000 µs of arithmetic',
         'How long is it before, and how long after?'),
        ('small_limit', WORK, 0, 0.02, 'with 10 µs and no overhead left',
         'No call is shorter than its work.'),
        ('large_limit', LARGE, 0, 0.0045, 'with 1,000 µs and no overhead left',
         'No call is shorter than its work.'))},
        slips={
            'small': {
                (CALL - WORK) / LEFT: 'That is the overhead alone. The arithmetic is part of the call.',
                CALL / LEFT: 'The arithmetic is still there after the change.',
                CALL / WORK: 'That is with no overhead left at all.',
            },
            'large': {
                CALL / (WORK + LEFT): 'That is with 10 µs of arithmetic.',
                (CALL - WORK + LARGE) / LARGE:
                    'Before, the overhead is 90 µs and not 100; afterwards, 5 µs of it are left.',
            },
            'small_limit': {CALL / (WORK + LEFT): 'That is with 5 µs of overhead left.'},
            'large_limit': {CALL / WORK: 'That is with 10 µs of arithmetic.'},
        })


def graphs_of(function, *calls, **how) -> list:
    """The graphs that torch.compile captures from calls, whose results it checks."""
    import torch
    found = []

    def keep(module, inputs):
        found.append(module)
        return module.forward
    compiled = torch.compile(function, backend=keep, **how)
    for args in calls:
        need(torch.allclose(compiled(*args), function(*args), atol=1e-5),
             'the same numbers when compiled',
             'Compiled, it gives other numbers than eagerly.', 'What is decided while it is recorded?')
    return found


@exercise('hyb-ex-branches', '''def branches(blocks):
    """A module that sends its input through all blocks and concatenates along the channels."""''',
          'pytorch', seconds=60, imports=COMPILER)
def branches(branches) -> None:
    """The right numbers, the blocks' parameters among its own, and one graph, each operator once."""
    import torch
    from torch import nn
    torch.set_grad_enabled(False)
    blocks = [nn.Conv2d(3, 4, 3, padding=1),
              nn.Sequential(nn.Conv2d(3, 5, 1), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=1))]
    x = torch.randn(2, 3, 8, 8)
    net = branches(blocks)
    need(isinstance(net, nn.Module), 'a module', 'What you return is no torch.nn.Module.',
         'Write a class with a forward method, and return an instance of it.')
    y = net(x)
    right = torch.cat([block(x) for block in blocks], dim=1)
    need(tuple(y.shape) == tuple(right.shape), 'the shape',
         f'For images of shape {tuple(x.shape)} you return {tuple(y.shape)}.',
         'Every block gets the input itself, and the images stay apart.')
    need(torch.allclose(y, right), 'the numbers',
         'The channels are not those of the blocks in their order.',
         'Compare the first channels with what the first block gives.')
    ours = {id(p) for p in nn.ModuleList(blocks).parameters()}
    need({id(p) for p in net.parameters()} == ours, 'the parameters of the blocks',
         'An optimizer that gets net.parameters() would not train the blocks.',
         'A plain list hides modules. Which container of torch.nn registers them?')
    found = graphs_of(net, (x,))
    need(len(found) == 1, 'one graph', f'torch.compile captured {len(found)} graphs.',
         'What in forward is no operation on tensors?')
    count = sum(node.op.startswith('call') for node in found[0].graph.nodes)
    need(count == 5, 'each operator once',
         f'The graph has {count} operators.', 'Three convolutions, a ReLU, and what joins them.')


@exercise('hyb-ex-asnumpy', '''def until(net, name):
    """A module that returns what one node gives, and no more.

    name: that of the node in torch.fx.symbolic_trace(net).
    """''',
          'pytorch', seconds=60)
def until(until) -> None:
    """The intermediate value for any input and node, with shared weights, and no layer beyond it."""
    import torch
    from torch import nn

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.output = nn.Linear(3, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.output(torch.relu(self.hidden(x)))
    torch.set_grad_enabled(False)
    net, x = Inner(), torch.randn(5, 3)
    cut = until(net, 'relu')
    need(callable(cut), 'a module', 'What you return cannot be called.', 'A GraphModule can.')
    for x in (torch.zeros(2, 3), torch.randn(5, 3)):
        y, right = cut(x), torch.relu(net.hidden(x))
        need(getattr(y, 'shape', None) == right.shape and torch.equal(y, right),
             'the intermediate value',
             'The value differs from that of torch.relu(net.hidden(x)).',
             'In a recorded graph, any node can be made the output.')
    need(torch.equal(until(net, 'hidden')(x), net.hidden(x)), 'any node',
         'Asked for the node hidden, it gives something else.', 'Look the node up by its name.')
    with torch.no_grad():
        net.hidden.weight.mul_(2)
    need(torch.equal(cut(x), torch.relu(net.hidden(x))), 'shared weights',
         'When the weights of net change, yours do not.', 'Make a new graph, not a new network.')
    net.output.weight = nn.Parameter(torch.zeros(2, 9))      # no input fits it any more
    try:
        fits = cut(x) is not None
    except RuntimeError:
        fits = False
    need(fits, 'nothing beyond the node', 'The last layer is still computed.',
         'What does not lead to the output can be eliminated from a graph.')


@exercise('hyb-ex-control-flow', '''def decide(x, long):
    """long(x) where the sum of x is positive, else -x: one graph that computes one side."""''',
          'pytorch', seconds=60, imports=COMPILER)
def decide(decide) -> None:
    """Both sides right, for mixed signs and a sum of 0 too; one graph; the long side in a graph within it."""
    import torch

    def long(x):
        return x @ x @ x
    inputs = []
    for first in (0.5, -1, -9):         # then the sums of x are 8, 6.5 and -1.5
        x = torch.full((4, 4), 0.5)
        x[0, 0] = first
        inputs += [x, -x]
    inputs.append(torch.diag(torch.tensor([1.0, -1, 0, 0])))
    for x in inputs:
        if x.sum() > 0:
            right, sign = long(x), 'positive'
        else:
            right, sign = -x, 'negative' if x.sum() < 0 else '0'
        mixed = ' if the signs are mixed' if x.min() < 0 < x.max() else ''
        need(torch.allclose(decide(x, long), right), 'both sides',
             f'Where the sum is {sign}, the result is another{mixed}.',
             'Try a matrix of each sign by hand, and one of both signs.')
    torch.compiler.reset()
    found = graphs_of(lambda x: decide(x, long), *[(x,) for x in inputs], dynamic=False)
    need(len(found) == 1, 'one graph', f'torch.compile needed {len(found)} graphs for the two sides.',
         'An if on data is for Python to decide. Which operation decides in the graph?')
    names = [str(getattr(node.target, '__name__', node.target)) for node in found[0].graph.nodes]
    need(not any('matmul' in name or name == 'mm' for name in names), 'only the side that is needed',
         'The products stand in the graph itself, so they are computed for either sign.',
         'One operation selects among results, another among functions.')


def linear_between(net, first, then, x) -> bool:
    """Whether net has nothing but linear operations between two of its layers.

    Multiples of random numbers take the place of the first layer's output. (Not by -1, 0 and 1, for which
    an odd function such as tanh seems linear.)
    """
    import torch
    found, scales = [], []

    def replace(module, inputs, output):
        return scales[-1] * torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    hooks = (first.register_forward_hook(replace),
             then.register_forward_pre_hook(lambda module, inputs: found.append(inputs[0].flatten())))
    for scale in (-100, 0, 200):
        scales.append(scale)
        net(x)
    for hook in hooks:
        hook.remove()
    low, none, high = found
    return bool((high + 2 * low - 3 * none).abs().max() <= 1e-3 * (high - none).abs().max())


@exercise('hyb-ex-lenet', '''def lenet():
    """LeNet for 28 × 28 digits, with ten outputs, as a torch.nn.Sequential."""''', 'pytorch',
          seconds=60, imports=COMPILER)
def lenet(lenet) -> None:
    """Ten outputs for any number of digits, LeNet's parameters, one graph, and gradients through it."""
    import torch
    from torch import nn
    torch.set_grad_enabled(False)
    net = lenet().eval()
    need(isinstance(net, nn.Sequential), 'a Sequential', 'What you return is no torch.nn.Sequential.',
         'List the layers in their order, the one that flattens among them.')
    for n in (1, 5):
        try:
            y = net(torch.randn(n, 1, 28, 28))
        except RuntimeError as e:
            raise Missing('layers that fit each other', f'With {n} digits of 28 × 28: {e}.',
                          'Print the shape behind each layer.') from None
        need(tuple(y.shape) == (n, 10), 'ten outputs for each digit',
             f'{n} digits give the shape {tuple(y.shape)}.', 'Print the shape behind each layer.')
    layers = ((1, 6, 25), (6, 16, 25), (16 * 25, 120, 1), (120, 84, 1), (84, 10, 1))
    wanted = [out * (into * size + 1) for into, out, size in layers]
    parts = []
    found = []
    for module in net.modules():
        weights = list(module.parameters())
        if weights and not list(module.children()):
            parts.append(module)
            found.append(sum(w.numel() for w in weights))
    need(len(found) == 5, 'five layers with weights', f'Yours has {len(found)}.',
         'Two convolutions and three dense layers.')
    for i, (has, should_have) in enumerate(zip(found, wanted, strict=True), start=1):
        need(has == should_have, 'the sizes of the layers', f'Layer {i} of the five is another.',
             'Kernels of 5 × 5, 6 and 16 channels; the first layer pads the digits to 32 × 32.')
    for i, (first, then) in enumerate(itertools.pairwise(parts), start=1):
        need(not linear_between(net, first, then, torch.randn(5, 1, 28, 28)), 'something that is not linear',
             f'Layers {i} and {i + 1} have only linear operations between them, so they are one layer.',
             'Which function stands behind each layer but the last?')
    need(len(graphs_of(net, (torch.randn(5, 1, 28, 28),))) == 1, 'one graph', 'The graph breaks.',
         'Is each layer one of torch.nn?')


@exercise('hyb-ex-branch', '''def whole(x):
    """2 * x if the sum of x is positive, else x - 10: all of it in one graph."""''', 'pytorch',
          seconds=60, imports=COMPILER)
def whole(whole) -> None:
    """Right for sums of both signs and 0, eagerly, in one graph for all, and in an exported program."""
    import torch
    rows = torch.tensor([[1.0, 1, 1], [-1, 2, 2], [-5, 1, 1]])
    inputs = [*rows, *-rows, torch.zeros(3)]
    right = [2 * x if x.sum() > 0 else x - 10 for x in inputs]
    for x, y in zip(inputs, right, strict=True):
        case = 'a sign' if x.any() else 'a sum of zero'
        need(torch.equal(whole(x), y), 'both signs, and neither', f'Called as it is, it is wrong for {case}.',
             f'It is off for {x.tolist()}.')
    torch.compiler.reset()
    count = len(graphs_of(whole, *[(x,) for x in inputs], dynamic=False))
    need(count == 1, 'one graph', f'torch.compile needed {count} graphs for the two signs.',
         'As long as Python asks whether a tensor is positive, Python has to decide.')

    class Module(torch.nn.Module):
        def forward(self, x):
            return whole(x)
    program = torch.export.export(Module(), (torch.ones(3),)).module()
    need(all(torch.equal(program(x), y) for x, y in zip(inputs, right, strict=True)), 'an exported program',
         'Exported with one sign, it is wrong for the other.', 'What is fixed while it is exported?')


@exercise('hyb-ex-one-graph', '''def refine(layer, x):
    """What the five steps return, and a tensor of their five sizes: all of it in one graph."""''',
          'pytorch', seconds=60, imports=COMPILER)
def one_graph(refine) -> None:
    """The loop's results, sizes and gradients for short and long steps, and a single graph."""
    import torch

    def given(layer, x):
        sizes = []
        for _ in range(5):
            step = layer(x)
            size = step.norm().item()
            sizes.append(size)
            if size > 1:
                step = step / size
            x = x + step
        return x, torch.tensor(sizes)

    def with_gradients(function, x):
        x = x.clone().requires_grad_()
        y, sizes = function(layer, x)
        return y, sizes, torch.autograd.grad(y.sum(), [*layer.parameters(), x])
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.bias.zero_()
        layer.weight.mul_(0.1).add_(0.5 * torch.eye(4))
    inputs = {name: torch.full((2, 4), size)
              for name, size in (('short', 0.1), ('long', 10.0), ('short and then long', 0.3))}
    for name, x in inputs.items():
        answer = refine(layer, x)
        need(isinstance(answer, tuple | list) and len(answer) == 2, 'two results',
             'It should return the result and a tensor of the five sizes.',
             'What was printed has to leave the graph, or nobody can print it.')
        (y, sizes), (right, right_sizes) = answer, given(layer, x)
        need(getattr(y, 'shape', None) == x.shape and torch.allclose(y, right, atol=1e-5), 'the results',
             f'For {name} steps it returns another result than the loop.',
             'No step may be longer than one, and a shorter one stays as it is.')
        need(getattr(sizes, 'shape', None) == (5,) and torch.allclose(sizes, right_sizes, atol=1e-5),
             'the sizes', f'For {name} steps the second result has not the five sizes that were printed.',
             'The loop prints the size of a step as the layer gives it.')
        need(all(torch.allclose(a, b, atol=1e-5) for a, b in zip(
            with_gradients(refine, x)[2], with_gradients(given, x)[2], strict=True)), 'the gradients',
             f'For {name} steps the results agree, and the gradients do not.',
             'The loop divides by a Python number. What does autograd know of where that came from?')
    torch.compiler.reset()
    try:
        found = graphs_of(lambda x: torch.cat([part.flatten() for part in refine(layer, x)]),
                          *[(x,) for x in inputs.values()], fullgraph=True, dynamic=False)
    except RuntimeError as e:
        raise Missing('one graph', f'fullgraph=True refuses it: {str(e).splitlines()[0]}.',
                      'Which lines need the value of a tensor in Python?') from None
    need(len(found) == 1, 'one graph', f'torch.compile needed {len(found)} graphs for the three inputs.',
         'Which Python value changes from call to call?')


ROW, ONCE, EAGER_BYTES = 'A row is 4 KiB, so where is it after the first loop?', 8.0, 28.0
AGAIN = 4.0         # bytes more for each result, where its lines are read before they are written
numbers('hyb-ex-read-loop', framework='pytorch',
        also=[dict(fused=ONCE + AGAIN, eager=EAGER_BYTES + 3 * AGAIN,
                   gain=(EAGER_BYTES + 3 * AGAIN) / (ONCE + AGAIN)) | long
              for long in ({}, dict(long=(EAGER_BYTES + 3 * AGAIN + 4) / (ONCE + AGAIN + 8)))],
        fused=Part(ONCE, 'bytes that the loop reads from and writes to memory for each element', ROW,
                   'The weights are used again for every row.'),
        eager=Part(EAGER_BYTES, 'bytes for each element that eager PyTorch moves',
                   'Go through the operations on whole tensors: what does each read, and what does it write?',
                   'The mean reads and hardly writes, and what has one number a row does not count.'),
        gain=Part(EAGER_BYTES / ONCE, 'eager time ÷ compiled time, by the bytes',
                  'Divide the one by the other.', 'Both are limited by memory, so the time is the bytes.'),
        long=Part((EAGER_BYTES + 4) / (ONCE + 8), 'the same, if a row and the weights fitted into no cache',
                  'Which of the loads would go to memory then?',
                  'The second loop reads the row again. Who reads the weights for each row?'))


@exercise('hyb-ex-break-even', '''def break_even(first, eager, compiled):
    """After how many calls torch.compile has paid for itself; math.inf, if never.

    first, eager, compiled: seconds of the first compiled call, an eager call and a later compiled one.
    """''')
def break_even(break_even) -> None:
    """Right where it pays, and infinite where it does not. The first call's own result may count or not."""
    for first, eager, compiled in ((5, 230e-6, 50e-6), (0.1, 230e-6, 50e-6), (2, 0.1, 0.09)):
        found = number(break_even(first, eager, compiled))
        saved = eager - compiled
        counting_it = (first - compiled) / saved
        not_counting_it = first / saved
        off = 1.01 + 1e-3 * not_counting_it        # up or down to a whole call
        need(counting_it - off <= found <= not_counting_it + off, 'the crossing',
             f'Wrong for a first call of {first} s, {1e6 * eager:.0f} µs eager and '
             f'{1e6 * compiled:.0f} µs compiled.',
             'Draw both totals over the number of calls: two lines.')
    for eager, compiled in ((1e-4, 2e-4), (1e-4, 1e-4)):
        need(number(break_even(1, eager, compiled)) == math.inf, 'never, where nothing is saved',
             'If a compiled call takes as long as an eager one, or longer, the totals never cross.',
             'What does your formula give for a saving of zero, or less?')


@exercise('hyb-ex-recompile', '''def compile_once(function, backend):
    """The function of x and rate, compiled with this backend, once for all sizes of x and all rates."""''',
          'pytorch', seconds=60, imports=COMPILER)
def recompile(compile_once) -> None:
    """The right sums for many sizes, 1 and 0 among them, and many rates, by one graph that all enter."""
    import torch
    found, entered, eager = [], [], []

    def keep(module, inputs):
        found.append(module)

        def run(*args):
            entered.append(module)
            return module.forward(*args)
        return run

    def discount(x, rate):
        return ((1 - rate) * x).sum()
    torch.compiler.reset()
    compiled = compile_once(discount, keep)
    for n, rate in ((8, 0.5), (9, 0.5), (10, 0.25), (11, 0.2), (1, 0.2), (0, 0.2), (12, 0.1), (40, 0.1)):
        x = torch.arange(1.0, n + 1)
        before = len(entered)
        y = fetch(compiled(x, rate))
        if len(entered) == before:
            eager.append(f'{n} numbers and a rate of {rate}')
        need(math.isclose(y, (1 - rate) * n * (n + 1) / 2, rel_tol=1e-5), 'the sums',
             f'Wrong for {n} numbers and a rate of {rate}.',
             'Nothing of the function itself should change.')
    need(len(found) > 0, 'a compilation', 'The backend never got a graph.',
         'torch.compile takes a backend.')
    need(len(found) == 1, 'a single compilation', f'These eight calls took {len(found)} compilations.',
         'TORCH_LOGS=recompiles names the guards that fail. Which quantities are constants, '
         'and which sizes are never variables?')
    need(not eager, 'a graph for all calls', f'The call with {eager[0] if eager else ""} did not enter it.',
         'Where PyTorch may not compile again, it runs a call eagerly.')


TENSORS = 40
numbers('hyb-ex-calls', framework='pytorch', **{
    name: Part(float(each * TENSORS), f'operations in a loop over forty tensors, {what}', hint,
               'Count one tensor, then all of them. Marks for the profiler are no operations.', 0.06)
    for name, each, what, hint in (
        ('sgd', 1, 'plain SGD', 'What is done with a weight and its gradient?'),
        ('momentum', 3, 'SGD with momentum', 'What is done with the state, beside the weight?'),
        ('adam', 9, 'Adam',
         'Two averages, two corrections, a root, a division: write the steps down.'))},
        foreach=Part('no',
                     "'yes' or 'no': does the count of foreach, with momentum, depend on the tensors?",
                     'What does foreach hand over in one call?', 'Count for twenty and for forty.'),
        slips={
            'sgd': {80: 'One operation of PyTorch can scale a tensor and add it.'},
            'foreach': {'yes': 'One call takes all tensors, however many there are.'},
        })
numbers('hyb-ex-rate', framework='pytorch',
        number=Part(2, 'graphs after four steps, with a rate that is a number and changes',
                    'A number is a constant of the first graph. And after its first change?',
                    'What has changed once is treated as a variable.'),
        tensor=Part(1, 'graphs, with a rate that is a tensor', 'Is a tensor a constant of the graph?',
                    'Tensors are inputs.'),
        slips={
            'number': {
                1: 'A number is a constant of the first graph.',
                4: 'After its first change the number becomes a variable of the graph.',
            },
            'tensor': {
                2: 'A tensor is an input, and no constant.',
                4: 'A tensor is an input, and no constant.',
            },
        })


# The same exercises in MXNet.

def same_when_recorded(net, x, what: str) -> None:
    """The same numbers before and after hybridize(), for an input that the record has not seen too."""
    first = fetch(net(x))
    try:
        net.hybridize()
        recorded, second = fetch(net(x)), fetch(net(2 * x))
    except Exception as e:
        raise Missing('a network that can be recorded',
                      f'Hybridized, it raises {type(e).__name__}: {str(e).splitlines()[0]}.',
                      'While MXNet records, x is a symbol: a name without values.') from None
    net.hybridize(False)
    need(abs(recorded - first).max() < 1e-4 and abs(second - fetch(net(2 * x))).max() < 1e-4, what,
         'After hybridize() it gives other numbers.', 'What was decided while it was recorded?')


@exercise('hyb-ex-branches', '''def branches(blocks):
    """A HybridBlock that sends its input through all blocks and concatenates along the channels."""''',
          'mxnet', seconds=60)
def mxnet_branches(branches) -> None:
    """The right numbers, the blocks' parameters among its own, and the same numbers when recorded."""
    from mxnet import np, npx
    from mxnet.gluon import nn
    npx.set_np()
    blocks = [nn.Conv2D(4, 3, padding=1), nn.Conv2D(4, 1)]
    x = np.random.normal(size=(4, 3, 8, 8))
    for block in blocks:
        block.initialize()
    right = np.concatenate([block(x) for block in blocks], axis=1)
    net = branches(blocks)
    need(isinstance(net, nn.HybridBlock), 'a HybridBlock', 'What you return is none.',
         'Write a class with a hybrid_forward method, and return an instance of it.')
    y = net(x)
    need(y.shape == right.shape, 'the shape', f'For images of shape {x.shape} you return {y.shape}.',
         'Every block gets the input itself, and the images stay apart.')
    need(abs(fetch(y) - fetch(right)).max() < 1e-5, 'the numbers',
         'The channels are not those of the blocks in their order.',
         'Compare the first channels with what the first block gives.')
    ours = {name for block in blocks for name in block.collect_params()}
    need(set(net.collect_params()) == ours, 'the parameters of the blocks',
         'A Trainer that gets net.collect_params() would not train the blocks.',
         'A plain list hides children. How is a child registered?')
    same_when_recorded(net, x, 'the same numbers when recorded')


def gluon_linear_between(net, first, then, x) -> bool:
    """Whether net has nothing but linear operations between two of its layers; the first's own is one.

    Multiples of the first layer's parameters make multiples of what it computes before its activation.
    (Not by -1, 0 and 1, for which an odd function such as tanh seems linear.)
    """
    found, given = [], {p: p.data().copy() for p in first._reg_params.values()}
    hook = then.register_forward_pre_hook(lambda block, inputs: found.append(fetch(inputs[0]).ravel()))
    for scale in (-100, 0, 200, 1):
        for p, value in given.items():
            p.set_data(scale * value)
        net(x)
    hook.detach()
    low, none, high, _ = found
    return bool(abs(high + 2 * low - 3 * none).max() <= 1e-3 * abs(high - none).max())


@exercise('hyb-ex-lenet', '''def lenet():
    """LeNet for 28 × 28 digits, with ten outputs, as a HybridSequential, not initialized."""''',
          'mxnet', seconds=60)
def mxnet_lenet(lenet) -> None:
    """Ten outputs, LeNet's five layers with their sizes, and the same numbers when recorded."""
    from mxnet import np, npx
    from mxnet.gluon import nn
    npx.set_np()
    net = lenet()
    need(isinstance(net, nn.HybridSequential), 'a HybridSequential', 'What you return is none.',
         'Make one, and add the layers in their order.')
    net.initialize()
    x = np.random.normal(size=(5, 1, 28, 28))
    y = net(x)
    need(y.shape == (5, 10), 'ten outputs for each digit', f'5 digits give the shape {y.shape}.',
         'Print the shape behind each layer.')
    found = [p.shape for name, p in net.collect_params().items() if name.endswith('weight')]
    wanted = [(6, 1, 5, 5), (16, 6, 5, 5), (120, 400), (84, 120), (10, 84)]
    need(len(found) == 5, 'five layers with weights', f'Yours has {len(found)}.',
         'Two convolutions and three dense layers.')
    wrong = next((i for i in range(5) if tuple(found[i]) != wanted[i]), 0) + 1
    need([*map(tuple, found)] == wanted, 'the sizes of the layers',
         f'Layer {wrong} of the five is another.',
         'Kernels of 5 × 5, 6 and 16 channels; the first layer pads the digits to 32 × 32.')
    net.hybridize(False)
    parts = []      # the blocks with weights, in their order
    net.apply(lambda block: parts.extend([block] * ('weight' in block._reg_params)))
    for i, (first, then) in enumerate(itertools.pairwise(parts), start=1):
        need(not gluon_linear_between(net, first, then, x), 'something that is not linear',
             f'Layers {i} and {i + 1} have only linear operations between them, so they are one layer.',
             'Which function stands behind each layer but the last?')
    same_when_recorded(net, x, 'the same numbers when recorded')


numbers('hyb-ex-asnumpy', framework='mxnet',
        before=Part('works', "x.asnumpy() in hybrid_forward before hybridize(): 'works' or 'error'",
                    'What is x then?', 'An array has values.'),
        after=Part('error', 'and after hybridize()', 'What is x while MXNet records?',
                   'A name has no values.'),
        when=Part('call', "when it shows: at 'hybridize' itself or at the next 'call'",
                  'When does MXNet record?', 'It needs to know what kind of input there is.'),
        slips={
            'before': {'error': 'Nothing is recorded yet, so x is an array.'},
            'after': {'works': 'While MXNet records, x is a symbol.'},
            'when': {'hybridize': 'This method only says what the next call has to do.'},
        })
numbers('hyb-ex-control-flow', framework='mxnet',
        loop=Part(3, 'operations in the graph, of a loop of three rounds with one operation each',
                  'Who runs the loop, and when?', 'The graph has no loop.'),
        flag=Part('frozen', "what becomes of an if on a flag: 'kept', 'frozen' or 'error'",
                  'When is the flag read?', 'The graph has one of the two branches.'),
        data=Part('error', 'what becomes of an if on the data', 'Is a symbol true or false?',
                  'There are no data yet.'),
        later=Part('as before', "the result after the flag was changed: 'as before' or 'differs'",
                   'Who would record again?', 'hybridize() would.'),
        slips={
            'loop': {1: 'Python runs the loop while MXNet records, three times.'},
            'flag': {
                'kept': 'Python reads the flag while MXNet records. The graph has one branch.',
                'error': 'The flag is a value of Python, which it can read.',
            },
            'data': {
                'frozen': 'To take a branch, Python has to know whether a symbol is true.',
                'kept': 'The graph has no if.',
            },
            'later': {'differs': 'The record was made before, with the branch of the old flag.'},
        })
