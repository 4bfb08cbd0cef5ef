"""What is computed although it is known, what must be computed again, a script that trains two things."""

import pytest

from tests.why_slow.scripts import HEAD as SHARED_HEAD
from tests.why_slow.scripts import ids, line_with, watched
from why_slow.repeats import RepeatLook, Repeats, _transform, largest_factor, next_smooth

torch = pytest.importorskip('torch')

HEAD = SHARED_HEAD + 'torch.set_num_threads(1)\n'  # two would wait for each other beside other programs
STEP = """
while True:
    for x, y in Batches():
        {before}
        loss = loss_function({result}, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
RECURRENT = f"""{HEAD}
from torch.nn.utils import parametrize


class Antisymmetric(nn.Module):
    def forward(self, weight):
        upper = weight.triu(1)
        return upper - upper.T


cell, first, last = nn.Linear(256, 256), nn.Linear(64, 256), nn.Linear(256, 10)
{{parametrized}}
optimizer = torch.optim.Adam([*cell.parameters(), *first.parameters(), *last.parameters()], fused=True)


def run(h):
    for _ in range(8):
        h = {{step}}
    return last(h)
{STEP.format(before='pass', result='run(first(x))')}
"""
MASKED = f"""{HEAD}
def positions():
    numbers = [[(i * j) % 7 / 7 for j in range(64)] for i in range(64)]
    return torch.tensor(numbers)


fixed = positions()
{STEP.format(before='x = x + {table}', result='net(x)')}
"""
FILTERED = f"""{HEAD}
N = {{length}}
filters = nn.Parameter(torch.randn(64, N // 2 + 1))
optimizer = torch.optim.Adam([filters, *net.parameters()], fused=True)
{
    STEP.format(
        before='x = torch.fft.irfft(torch.fft.rfft(x, n=N) * filters, n=N)[:, :64]',
        result='net(x)',
    )
}
"""
KEPT = '\n\n\nrun = parametrize.cached()(run)'
PARAMETRIZED = "parametrize.register_parametrization(cell, 'weight', Antisymmetric())"
CONSTANT = MASKED.format(table='positions()')
FAULTY = {
    'weights made again': (
        RECURRENT.format(parametrized=PARAMETRIZED, step='h + 0.1 * torch.tanh(cell(h))'),
        'repeated-work',
        '',
        'parametrize.cached()',
    ),
    'casts made again': (
        RECURRENT.format(
            parametrized="""
def cast(h):
    with torch.autocast('cpu', torch.bfloat16):
        return cell(h).float()
""",
            step='h + 0.1 * torch.tanh(cast(h))',
        ),
        'repeated-work',
        'return cell(h).float()',
        'casts of weights to 16 bits',
    ),
    'the same input twice': (
        HEAD + STEP.format(before='teacher = net(x).detach()', result='net(x) + 0.1 * teacher'),
        'repeated-work',
        '',
        'Compute it once',
    ),
    'a table made anew': (CONSTANT, 'constant-work', 'x = x + positions()', 'positions()'),
    'a prime length': (FILTERED.format(length=1999), 'transform-length', 'x = torch.fft', '1,999'),
}
FAULTLESS = {
    'a recurrent network': RECURRENT.format(parametrized='', step='h + 0.1 * torch.tanh(cell(h))'),
    'weights that are kept': RECURRENT.format(
        parametrized=PARAMETRIZED, step='h + 0.1 * torch.tanh(cell(h))'
    ).replace('return last(h)', 'return last(h)' + KEPT),
    'a table that is kept': MASKED.format(table='fixed'),
    'a smooth length': FILTERED.format(length=2000),
    'one-hot labels': HEAD
    + STEP.format(before='hot = nn.functional.one_hot(y, 10).float()', result='net(x) + 0 * hot.to(x.dtype)'),
    'sums by index': HEAD
    + """
def gathered(h, y):
    return torch.zeros(10, 512).index_add_(0, y, h)


net = nn.ModuleList([nn.Linear(64, 512), nn.Linear(512, 10)])
optimizer = torch.optim.Adam(net.parameters(), fused=True)
"""
    + STEP.format(before='pass', result='net[1](net[0](x).relu() + gathered(net[0](x + 1), y)[y])'),
    'copies that are changed': HEAD
    + STEP.format(before='same = data.tensors[0].clone(); same[y] = x', result='net(x + same[:64])'),
    'two views of a batch': HEAD
    + STEP.format(
        before='views = [x + 0.1 * torch.randn_like(x) for _ in range(2)]', result='sum(map(net, views))'
    ),
    'noise in the network': HEAD
    + 'net.insert(0, nn.Dropout())\n'
    + STEP.format(before='pass', result='net(x) + net(x)'),
    'a step towards worse weights': HEAD
    + STEP.format(
        before="""loss_function(net(x), y).backward()
        moved = [0.01 * p.grad for p in net.parameters()]
        with torch.no_grad():
            for p, d in zip(net.parameters(), moved):
                p.data.add_(d)""",
        result='net(x)',
    ),
    'micro-batches': HEAD
    + STEP.format(
        before="""for rows in (slice(0, 32), slice(32, 64)):
            loss_function(net(x[rows]), y[rows]).backward()""",
        result='net(x.flip(0))',
    ),
}
OURS = {'repeated-work', 'constant-work', 'transform-length'}
TWO_PARTS = f"""{HEAD}
def train(net, steps, teacher=None):
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    done = 0
    while done < steps:
        for x, y in Batches():
            loss = loss_function(net(x), y)
            if teacher is not None:
                loss = loss + (net(x) - {{of_teacher}}).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1


teacher = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
train(teacher, 128)
train(net, 10**9, teacher)
"""
AGAIN = f"""{HEAD}
while True:
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    for x, y in Batches():
        loss = loss_function(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture(autouse=True)
def _nothing_is_compiled():
    """Where other tests have compiled something, operators are not looked at."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('fault', FAULTY)
def test_what_is_known_already(tmp_path, fault):
    text, kind, words, said = FAULTY[fault]
    run, found = watched(tmp_path, text)
    assert run.watch.failure is None
    named = {f['id']: f for f in found['findings']}
    assert kind in named, (found['findings'], found['lines'])
    assert not words or named[kind]['line'] == line_with(text, words)
    assert said in named[kind]['evidence']
    assert named[kind]['at_most'] > 1.05


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('kind', FAULTLESS)
def test_what_must_be_computed(tmp_path, kind):
    run, found = watched(tmp_path, FAULTLESS[kind], seconds=3)
    assert run.watch.failure is None
    assert run.session.repeats is not None
    assert not OURS & set(ids(found)), found['findings']


@pytest.mark.slow
@pytest.mark.alone
def test_what_is_made_anew_has_one_finding(tmp_path):
    _, found = watched(tmp_path, CONSTANT)
    assert not {'loader', 'gaps'} & set(ids(found, at_least=1.05)), found['findings']


@pytest.mark.slow
@pytest.mark.alone
def test_compiled_functions_stay_compiled(tmp_path):
    """One that was compiled before the script began would give way to the look."""
    double = torch.compile(lambda x: x * 2, backend='eager')
    double(torch.ones(3))
    try:
        run, _ = watched(tmp_path, HEAD + STEP.format(before='pass', result='net(x)'))
        assert run.session.repeats is None
    finally:
        torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.alone
def test_a_script_that_trains_two_things(tmp_path):
    """The second is reported; what belongs to the first is forgotten."""
    text = TWO_PARTS.format(of_teacher='teacher(x)')
    run, found = watched(tmp_path, text, seconds=3)
    assert run.watch.failure is None and run.watch.phase == 1
    assert 'Before the steps of this report, the script has trained something else for 128.' in found['notes']
    named = {f['id']: f for f in found['findings']}
    assert 'unused-gradients' in named, found['findings']
    assert 'evaluation-gradients' not in named
    assert run.session.memory['parameters'] == 4 * (64 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)


@pytest.mark.slow
@pytest.mark.alone
def test_a_first_part_that_takes_most_of_the_time(tmp_path):
    text = TWO_PARTS.format(of_teacher='teacher(x)').replace('train(teacher, 128)', 'train(teacher, 1280)')
    run, found = watched(tmp_path, text, seconds=0.5)
    assert run.ended == 'steps'
    if run.watch.phase == 1:
        assert any('Then the script began to train something else' in note for note in found['notes'])


@pytest.mark.slow
@pytest.mark.alone
def test_a_new_optimizer_for_the_same_parameters(tmp_path):
    run, found = watched(tmp_path, AGAIN)
    assert run.watch.phase == 0 and not any('something else' in note for note in found['notes'])


def looked_at(steps):
    """What the look sees of these functions, each a step."""

    class Watch:
        part = 'forward'

        def mine(self):
            return True

    look = RepeatLook(torch, Watch())
    look.start()
    try:
        for step in steps:
            look.next_step()
            step()
    finally:
        look.stop()
    return look.found


@pytest.mark.parametrize('kind', [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_equal_content_and_other_content(kind):
    numbers = torch.arange(12).reshape(3, 4).to(kind)
    look = RepeatLook(torch, None)
    assert look._of_tensor(numbers) == look._of_tensor(numbers.clone())
    assert look._of_tensor(numbers) != look._of_tensor(numbers.T)
    other = numbers.clone()
    other[0, 0] = ~other[0, 0] if kind == torch.bool else other[0, 0] + 1
    assert look._of_tensor(numbers) != look._of_tensor(other)


@pytest.mark.parametrize('n', [1_000_000, 1_000_001, 65_537])
def test_one_number_among_many_differs(n):
    """Also two tensors of many numbers with the same sum, as one-hot labels have it."""
    many = torch.zeros(n)
    many[3] = 1
    look = RepeatLook(torch, None)
    for place in 4, 1003, n - 1:
        other = torch.zeros(n)
        other[place] = 1
        assert look._of_tensor(many) != look._of_tensor(other)


def test_sparse_tensors_and_other_arguments_are_never_known():
    look = RepeatLook(torch, None)
    assert look.key(torch.ops.aten.add.Tensor, (torch.eye(3).to_sparse(), 1), {}) is None
    assert look.key(torch.ops.aten.bernoulli.default, (torch.full((3,), 0.5),), {}) is None
    assert look.key(torch.ops.prims.add.default, (torch.ones(3), torch.ones(3)), {}) is None
    assert look.key(torch.ops.aten.add.Tensor, (torch.ones(3), 1), {}) is not None


def test_the_look_changes_no_result():
    torch.manual_seed(0)
    alone = torch.dropout(torch.ones(100), 0.5, True).cumsum(0)
    torch.manual_seed(0)
    results = []
    looked_at([lambda: results.append(torch.dropout(torch.ones(100), 0.5, True).cumsum(0))])
    assert torch.equal(alone, results[0])


def test_control_flow_of_pytorch_still_works():
    """An operator that calls functions is none whose input is looked at."""
    results = []
    looked_at(
        [lambda: results.append(torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.ones(3),)))]
    )
    assert torch.equal(results[0], torch.ones(3).sin())


def test_functions_that_are_constant():
    found = Repeats()
    made, step = found.functions['train.py', 'made'], found.functions['train.py', 'step']
    made.operators, made.same = 3, 3
    step.operators, step.same = 9, 3
    assert list(found.constant_functions()) == [('train.py', 'made')]


@pytest.mark.parametrize(
    'number, factor, smooth', [(1, 1, 1), (2, 2, 2), (97, 97, 98), (1999, 1999, 2000), (2048, 2, 2048)]
)
def test_lengths_of_transforms(number, factor, smooth):
    assert largest_factor(number) == factor
    assert next_smooth(number) == smooth


@pytest.mark.parametrize(
    'kind, make',
    [
        ('_fft_r2c', lambda: torch.fft.rfft(torch.ones(3, 1999))),
        ('_fft_c2c', lambda: torch.fft.fft2(torch.ones(1999, 8, dtype=torch.complex64))),
        ('_fft_c2r', lambda: torch.fft.irfft2(torch.ones(1999, 5, dtype=torch.complex64), s=(1999, 8))),
        ('_fft_c2r', lambda: torch.fft.irfft(torch.ones(3, 1000, dtype=torch.complex64), n=1999)),
    ],
)
def test_a_transform_is_tried_as_it_is(kind, make):
    """The same shapes, with the awkward length as it is; and with the smooth one in its place."""
    found = looked_at([make])
    [line] = [one for one in found.lines.values() if one.transforms]
    [(name, shape, dims, last, length)] = line.transforms
    assert name.startswith('_fft') and length == 1999
    for n in length, 2000:
        again = looked_at([_transform(torch, name, shape, dims, last, length, n)])
        seen = [key for one in again.lines.values() for key in one.transforms]
        assert seen == ([(name, shape, dims, last, length)] if n == length else [])
