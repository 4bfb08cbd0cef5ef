"""One planted fault each, and nothing on scripts without one."""

import sys
from types import SimpleNamespace

import pytest

from tests.why_slow.scripts import HEAD, ids, training, watched
from why_slow import findings, looks, whatifs

torch = pytest.importorskip('torch')
pytestmark = pytest.mark.alone  # two tests at a time would share the cores that they time

SMALL_LAYERS = (
    'nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(20)], nn.Linear(64, 10))'
)
FAULTS = {
    'loader': training(
        before='''
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4096
    def __getitem__(self, i):
        time.sleep(0.002)
        return data[i]
''',
        batches='DataLoader(Slow(), 64)',
    ),
    'synchronization': training(after='[float(one) for one in net(x)[:, 0]]'),
    'anomaly': training(before='torch.autograd.set_detect_anomaly(True)'),
    'deterministic': training(before='torch.use_deterministic_algorithms(True)'),
    'profiler': training(before='import cProfile\nprofile = cProfile.Profile()\nprofile.enable()'),
    'float64': training(before='net.double()', loss='loss_function(net(x.double()), y)'),
    'python-loop': training(
        before='''
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        h = torch.zeros(len(x), 64)
        x = x.view(len(x), 32, 2)
        for t in range(32):
            h = self.cell(x[:, t], h)
        return self.out(h)


net = Recurrent()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
'''
    ),
    'optimizer-loop': training(
        before=f'''
net = {SMALL_LAYERS}
optimizer = torch.optim.SGD(net.parameters(), lr=0.0, fused=True)
momentum = {{p: torch.zeros_like(p) for p in net.parameters()}}


def update():
    with torch.no_grad():
        for p in net.parameters():
            momentum[p].mul_(0.9).add_(p.grad, alpha=0.1)
            p.sub_(1e-3 * momentum[p] / (1 + momentum[p].abs().sqrt()))
''',
        after='update()',
    ),
    'copies': training(
        before='''
class Copying(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        x = x.repeat(20, 16)
        for _ in range(6):
            x = x.t().contiguous().clone().t().contiguous()
        return self.layer(x[:len(x) // 20, :64])


net = Copying()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
'''
    ),
    'kept-graph': training(before='kept = []', after='kept.append(loss)'),
    'evaluation-gradients': training(  # a short epoch: the run must see its end on a machine of any speed
        batches='itertools.islice(Batches(), 4)',
        end='''net.eval()
    for x, y in Batches():
        net(x)
    net.train()''',
        head='import itertools\n' + HEAD,
    ),
    'evaluation': training(
        batches='itertools.islice(Batches(), 4)',
        end='''with torch.no_grad():
        for x, y in Batches():
            net(x)''',
        head='import itertools\n' + HEAD,
    ),
    'epochs': training(  # ten steps an epoch, for which a worker is started and ended
        batches='DataLoader(torch.utils.data.Subset(data, range(640)), 64, num_workers=1)'
    ),
    'embedding': training(
        before='''
class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100_000, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        return self.out(self.table((1e4 * x[:, 0].abs()).long()))


net = Words()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
'''
    ),
    'padding': training(
        before='''
class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 256)
        self.out = nn.Linear(256, 10)

    def forward(self, x):
        words = (100 * x[:, :32].abs()).long() + 1
        words[:, 8:] = 0
        return self.out(self.table(words).relu().mean(1))


net = Padded()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
'''
    ),
    'growing': training(  # with one thread, as two wait for each other where other processes run
        before='torch.set_num_threads(1)\nhistory = torch.zeros(0, 64)',
        after='history = torch.cat([history, torch.ones(2000, 64)])',
    ),
    'checkpoints': training(after='torch.save(net.state_dict(), "net.pt")'),
    'gaps': training(after='time.sleep(0.05)'),
    'graph-breaks': training(
        before='''
class Logging(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 512)
        self.last = nn.Linear(512, 10)

    def forward(self, x):
        h = self.first(x).relu()
        self.seen = h.mean().item()     # a number in Python ends the graph
        return self.last(h)


plain = Logging()
net = torch.compile(plain, backend='eager')
optimizer = torch.optim.Adam(plain.parameters(), fused=True)
'''
    ),
    'recompilation': training(  # each third step has a size of its own, which dynamic=False compiles anew
        before='''
torch._dynamo.config.recompile_limit = 10_000
torch._dynamo.config.accumulated_recompile_limit = 10_000
plain = net
net = torch.compile(plain, backend='eager', dynamic=False)


class Growing:
    step = 0

    def __iter__(self):
        for _ in range(64):
            rows = 8 + Growing.step // 3
            Growing.step += 1
            yield data.tensors[0][:rows], data.tensors[1][:rows]
''',
        batches='Growing()',
    ),
}

SLOWLY = 'epochs', 'growing'        # they are seen in many steps only


@pytest.fixture(autouse=True)
def _as_before(monkeypatch, tmp_path):
    """What the scripts switch on in this process is switched off again."""
    monkeypatch.chdir(tmp_path)
    limits = torch._dynamo.config.recompile_limit, torch._dynamo.config.accumulated_recompile_limit
    yield
    torch.autograd.set_detect_anomaly(False)
    torch.use_deterministic_algorithms(False)
    sys.setprofile(None)
    for tool in whatifs.monitors():     # cProfile, from Python 3.12 on
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    torch._dynamo.config.recompile_limit = limits[0]
    torch._dynamo.config.accumulated_recompile_limit = limits[1]
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize('fault', FAULTS)
def test_planted(tmp_path, fault):
    run, found = watched(tmp_path, FAULTS[fault], seconds=10 if fault in SLOWLY else 2)
    assert run.watch.failure is None
    assert fault in ids(found)[:3], found['findings']
    assert not [note for note in found['notes'] if 'failed' in note]


@pytest.mark.slow
def test_what_grows_is_named_by_the_line_that_joins(tmp_path):
    text = FAULTS['growing']
    line = 1 + next(i for i, words in enumerate(text.splitlines()) if 'history = torch.cat' in words)
    _, found = watched(tmp_path, text, seconds=10)
    assert [f['line'] for f in found['findings'] if f['id'] == 'growing'] == [f'train.py:{line}']


def evidence_of_steps(milliseconds, growth_per_step=500_000.0):
    steps = [SimpleNamespace(seconds=1e-3 * one) for one in milliseconds]
    return SimpleNamespace(
        steps=steps,
        session=SimpleNamespace(memory={'growth_per_step': growth_per_step}),
        by_line={'train.py:9': [('cat', SimpleNamespace(seconds=1.0, part='rest'))]},
    )


EARLY = [2.7, 3.2, 2.4, 3.6, 2.7, 4.2, 2.1, 3.7, 2.9, 3.1]  # ten steps are timed before the looks
LATE = [21.9, 21.7, 22.1, 25.8, 22.4, 22.3]


@pytest.mark.parametrize('late', [4, 5, 6])
def test_steps_that_grow_are_found_though_more_are_timed_before_the_looks(late, monkeypatch):
    monkeypatch.setattr(findings.looks, 'named', str)
    found = findings.growing(evidence_of_steps(EARLY + LATE[:late]))
    assert (found is None) == (late == 4)      # fourteen steps are too few to judge
    if found:
        assert 5 < found.at_most < 10


@pytest.mark.parametrize(
    'milliseconds',
    [
        [2.0, 30.0] * 8,
        [3.0, 30.0, 3.0, 30.0, 3.0] * 2 + [30.0, 3.0, 30.0, 30.0, 3.0, 30.0],
        [12.0, 11.8, 12.1, 11.9, 13.0, 12.2, 12.4, 12.3, 13.1, 12.9, 13.4, 13.3, 13.6, 13.2, 13.5, 13.4],
    ],
    ids=['two kinds', 'two kinds, more of the long ones late', 'a machine that becomes slower'],
)
def test_steps_that_differ_or_drift_do_not_grow(milliseconds, monkeypatch):
    monkeypatch.setattr(findings.looks, 'named', str)
    assert findings.growing(evidence_of_steps(milliseconds)) is None
    assert findings.growing(evidence_of_steps(EARLY + LATE, growth_per_step=0.0)) is None


@pytest.mark.slow
@pytest.mark.parametrize('change', [{}, {'loss': 'loss_function(net(x), y) / 1'}], ids=['plain', 'scaled'])
def test_nothing_certain_is_found_on_a_clean_script(tmp_path, change):
    """Findings that rest on a ratio of times may come on a busy machine; these do not."""
    run, found = watched(tmp_path, training(**change))
    certain = {
        'anomaly',
        'profiler',
        'deterministic',
        'float64',
        'python-loop',
        'copies',
        'kept-graph',
        'evaluation-gradients',
        'evaluation',
        'checkpoints',
        'epochs',
        'embedding',
        'padding',
        'synchronization',
        'recompilation',
        'graph-breaks',
        'loader',
    }
    assert not certain & set(ids(found))
    # What the looks take, such as the profiler's tens of megabytes, is not the script's. In a young process
    # the heap still grows by some hundred kilobytes in the first steps.
    assert found['step']['memory']['growth_per_step'] * len(run.session.plain) < 4e6


@pytest.mark.slow
@pytest.mark.parametrize(
    'text',
    [
        training(before='net.eval()'),
        training(after='net.eval(); loss_function(net(x), y).backward(); net.train()'),
        HEAD
        + """
import itertools
for number in itertools.cycle([1, 1, 1, 6]):
    optimizer.zero_grad()
    for x, y in itertools.islice(Batches(), number):
        loss_function(net(x), y).backward()
    optimizer.step()
""",
    ],
    ids=['evaluation mode', 'both modes', 'more passes in some steps'],
)
def test_forward_passes_that_a_backward_pass_uses_are_no_evaluation(tmp_path, text):
    _, found = watched(tmp_path, text)
    assert 'evaluation-gradients' not in ids(found)
    assert found['step']['parts']['forward'] > 0
    assert 'evaluation' not in found['step']['parts']


@pytest.mark.slow
def test_padding_that_is_packed_is_passed_over(tmp_path):
    before = """
class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 64, batch_first=True)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        words = (100 * x[:, :32].abs()).long() + 1
        words[:, 8:] = 0
        packed = nn.utils.rnn.pack_padded_sequence(
            self.table(words), torch.full((len(words),), 8), batch_first=True)
        return self.out(self.lstm(packed)[1][0][0])


net = Packed()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
"""
    _, found = watched(tmp_path, training(before=before))
    assert 'padding' not in ids(found)


@pytest.mark.slow
def test_many_modules_called_once_are_no_loop(tmp_path):
    """The model's own call is passed over, so that its layers are what is marked."""
    layers = ', '.join(['nn.Linear(64, 64), nn.ReLU()'] * 8)
    before = f"""net = nn.Sequential({layers}, nn.Linear(64, 10))
optimizer = torch.optim.Adam(net.parameters(), fused=True)"""
    run, found = watched(tmp_path, training(before=before, loss='loss_function(net.forward(x), y)'))
    assert run.session.usual['forward'] == 17
    assert 'python-loop' not in ids(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    'backward', ['loss.backward()', '(loss / 2).backward()', 'scaler.scale(loss).backward()']
)
def test_graphs_that_a_list_of_a_function_keeps(tmp_path, backward):
    """The list is gone when the script has been ended; a scaled loss is not what is kept."""
    text = f"""{HEAD}
scaler = torch.amp.GradScaler('cpu')

def train():
    kept = []
    while True:
        for x, y in Batches():
            loss = loss_function(net(x), y)
            optimizer.zero_grad()
            {backward}
            optimizer.step()
            kept.append(loss)

train()
"""
    _, found = watched(tmp_path, text)
    line = 1 + text.splitlines().index('            kept.append(loss)')
    assert [f['line'] for f in found['findings'] if f['id'] == 'kept-graph'] == [f'train.py:{line}']


@pytest.mark.slow
def test_a_sum_that_keeps_the_graphs_of_an_epoch(tmp_path):
    """Each graph lives for many steps, and few of them at the end of an epoch."""
    text = f"""{HEAD}
import itertools

while True:
    total = 0
    for x, y in itertools.islice(Batches(), 30):
        loss = loss_function(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss
"""
    _, found = watched(tmp_path, text)
    line = 1 + text.splitlines().index('        total += loss')
    assert [f['line'] for f in found['findings'] if f['id'] == 'kept-graph'] == [f'train.py:{line}']


@pytest.mark.slow
def test_a_tensor_that_is_carried_along_brings_its_graph(tmp_path):
    """No loss is kept, but the mean of former steps leads back to all of them."""
    text = f"""{HEAD}
mean = torch.zeros(512)
while True:
    for x, y in Batches():
        hidden = net[0](x)
        now = hidden.mean(0)
        loss = loss_function(net[1:](hidden), y) + 0.01 * (now - mean).pow(2).sum()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        mean = 0.9 * mean + 0.1 * now
"""
    _, found = watched(tmp_path, text)
    line = 1 + next(i for i, words in enumerate(text.splitlines()) if 'retain_graph' in words)
    kept = [f for f in found['findings'] if f['id'] == 'kept-graph']
    assert [f['line'] for f in kept] == [f'train.py:{line}']
    assert 'nodes' in kept[0]['evidence']
    assert 'growing' not in ids(found)


def test_nodes_behind_a_result_are_counted_once():
    x = torch.ones(2, requires_grad=True)
    y = 2 * x                   # a product, and the node that collects the gradient of x
    assert looks.nodes_behind(y.grad_fn) == 2
    assert looks.nodes_behind((y + y).grad_fn) == 3


class Doubled:
    """What the finding of a small batch looks at: a step of 10 ms, of which the model takes ``model``."""

    mean = 0.01
    by_line: dict = {}
    twice_the_batch = findings.Evidence.twice_the_batch

    def __init__(self, model, ratio, batch=8, loader=0.0):
        self.passes, self.loader = model, loader
        self.session = SimpleNamespace(
            loader={'batch_size': batch}, batch_size=None, doubled=(ratio, 1.0, ratio), settings={})

    def part(self, name):
        return {'loader': self.loader}[name]


@pytest.mark.parametrize(
    ('model', 'ratio', 'gain'),
    [(0.009, 1.1, 2 / 1.09), (0.003, 1.8, 2 / 1.24), (0.009, 1.8, None), (0.009, 0.5, None)],
    ids=['calls', 'a model that is a small part', 'compute', 'disturbed'])
def test_a_batch_is_small_if_twice_of_it_saves_a_third_of_the_time_of_an_example(model, ratio, gain):
    found = findings.small_batch(Doubled(model, ratio))
    assert (found and found.at_most) == pytest.approx(gain) if gain else found is None


def test_a_bound_is_a_share_of_the_mean_step_for_the_parts_are_means():
    """A step that took seconds, because the machine was taken, is in the parts and not in the median."""
    disturbed = Doubled(0.08, 1.0)
    disturbed.step, disturbed.mean = 0.01, 0.1
    table = looks.Table(('train.py', 1), rows=100, bytes=400, positions=100, padding=50)
    disturbed.session.lines = SimpleNamespace(tables={0: table})
    assert findings.padding(disturbed).at_most == pytest.approx(0.1 / 0.06)


def test_a_loader_takes_twice_as_long_for_twice_the_batch():
    """Twice the batch makes 20 ms, of which the loader takes 8 and not 4."""
    waits = Doubled(0.006, 1.0, loader=0.004)
    assert waits.twice_the_batch == pytest.approx(20 / 14)
    assert findings.small_batch(waits) is None


def test_no_batch_size_no_small_batch():
    assert findings.small_batch(Doubled(0.009, 1.1, batch=None)) is None


@pytest.mark.slow
def test_a_list_of_numbers_keeps_no_graph(tmp_path):
    _, found = watched(
        tmp_path,
        training(before='kept = []', loss='3 * loss_function(net(x), y)', after='kept.append(loss.item())'),
    )
    assert 'kept-graph' not in ids(found)


@pytest.mark.slow
def test_a_compiled_function_is_no_gap(tmp_path):
    """The model is called inside of it, where no mark sees it."""
    before = """
def loss_of(x, y):
    h = x
    for _ in range(4):
        h = net[2](net[0](x).relu()).relu()
    return loss_function(net[4](h), y)

loss_of = torch.compile(loss_of, backend='eager')"""
    _, found = watched(tmp_path, training(before=before, loss='loss_of(x, y)'))
    assert found['step']['parts']['rest'] > found['step']['parts']['forward']
    assert 'gaps' not in ids(found), found['findings']


@pytest.mark.slow
@pytest.mark.parametrize('types', ['torch.zeros(64, 32)', '(torch.arange(32) > 20).expand(64, 32)'],
                         ids=['one', 'two'])
def test_types_of_tokens_are_no_padding(tmp_path, types):
    """As in BERT: beside the words, a table is looked up with the same one or two indices in each row."""
    _, found = watched(tmp_path, training(before=f'''
class Typed(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.types = nn.Embedding(1000, 64), nn.Embedding(2, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        words = (1000 * x[:, :32].sigmoid()).long().clamp(0, 999)
        types = {types}.long()
        return self.out((self.words(words) + self.types(types)).mean(1))


net = Typed()
optimizer = torch.optim.Adam(net.parameters(), fused=True)
'''))
    assert 'padding' not in ids(found)


def test_padding_is_a_run_of_one_index_at_the_end_or_the_beginning_of_most_rows():
    from why_slow.looks import _padding

    rows = torch.tensor([[5, 6, 0, 0, 0], [7, 8, 9, 1, 0], [3, 0, 0, 0, 0], [2, 4, 4, 0, 0]])
    at_the_end = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1], [0, 0, 0, 1, 1]]).bool()
    assert torch.equal(_padding(rows), at_the_end)
    assert torch.equal(_padding(rows.flip(1)), at_the_end.flip(1))
    assert not _padding(torch.arange(20).reshape(4, 5)).any()
    ends = torch.tensor([[5, 6, 7, 0], [7, 8, 9, 0], [3, 1, 2, 0], [2, 4, 4, 0]])
    assert not _padding(ends).any()         # a mark at the end of each text


@pytest.mark.parametrize('layer, shape', [
    ('nn.Conv1d(4, 6, 3, padding=1, stride=2)', (2, 4, 32)),
    ('nn.Conv2d(4, 6, 3, dilation=2)', (2, 4, 16, 12)),
    ('nn.Conv3d(4, 6, (1, 2, 3))', (2, 4, 5, 6, 7)),
    ('nn.ConvTranspose2d(4, 6, 4, stride=2)', (2, 4, 5, 5)),
    ('nn.Linear(4, 6)', (2, 4)),
    ('nn.GRU(4, 6)', (3, 2, 4)),
])
def test_the_arithmetic_of_a_step_is_what_pytorch_counts(layer, shape):
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    from why_slow.looks import OperatorLook

    module, x = eval(layer, {'nn': nn}), torch.randn(shape, requires_grad=True)

    def step():
        y = module(x)
        (y[0] if isinstance(y, tuple) else y).sum().backward()

    with FlopCounterMode(display=False) as counter:
        step()
    look = OperatorLook(torch)
    look.start()
    step()
    look.stop()
    assert look.result.flops == counter.get_total_flops() > 0


def test_attention_that_skips_half_of_the_pairs_counts_half():
    from why_slow.looks import OperatorLook

    q = torch.randn(2, 4, 64, 16, requires_grad=True)
    counted = []
    for causal in (False, True):
        look = OperatorLook(torch)
        look.start()
        torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=causal).sum().backward()
        look.stop()
        counted.append(look.result.flops)
    assert counted == [7 * 2 * 2 * 4 * 64 * 64 * 16, 7 * 2 * 4 * 64 * 64 * 16]     # two products and five


def test_what_an_operator_calls_is_no_call_of_the_script():
    from why_slow.looks import OperatorLook

    gru, x = torch.nn.GRU(4, 6), torch.randn(50, 2, 4)
    look = OperatorLook(torch)
    look.start()
    with torch.no_grad():
        gru(x)
    look.stop()
    assert look.result.count > 500 > 10 > look.result.outer > 0


def test_what_inductor_writes_is_not_the_readers(monkeypatch, tmp_path):
    from why_slow import looks

    monkeypatch.setenv('TORCHINDUCTOR_CACHE_DIR', str(tmp_path / 'cache'))
    assert not looks.is_scripts(str(tmp_path / 'cache' / 'ab' / 'cab.py'))
    assert looks.is_scripts(str(tmp_path / 'train.py'))


@pytest.mark.slow
@pytest.mark.parametrize('call', ['optimizer.step(closure)', 'optimizer.step(closure=closure)'])
def test_what_a_closure_does_is_not_the_optimizers(tmp_path, call):
    text = f"""{HEAD}
optimizer = torch.optim.Adam(net.parameters())

def closure():
    optimizer.zero_grad()
    loss = loss_function(net(x), y)
    loss.backward()
    print(loss.item(), file=log)
    time.sleep(0.1)
    return loss

log = open('log.txt', 'w')
while True:
    for x, y in Batches():
        {call}
"""
    line = 1 + text.splitlines().index('    time.sleep(0.1)')
    _, found = watched(tmp_path, text, seconds=3)
    assert {'gaps', 'synchronization'} <= set(ids(found))
    assert [f['line'] for f in found['findings'] if f['id'] == 'gaps'] == [f'train.py:{line}']


def test_what_is_installed_is_not_the_readers(monkeypatch, tmp_path):
    """Wherever it is: for one user, by the system's packages, or PyTorch in a folder of its own."""
    from why_slow import looks

    for folder in ('.local/lib/python3/site-packages', 'lib/python3/dist-packages'):
        assert not looks.is_scripts(str(tmp_path / folder / 'torch/optim/adam.py'))
    monkeypatch.setattr(torch, '__file__', str(tmp_path / 'built/torch/__init__.py'))
    assert not looks.is_scripts(str(tmp_path / 'built/torch/nn/modules/container.py'))
    assert looks.is_scripts(str(tmp_path / 'built/train.py'))


@pytest.mark.slow
def test_a_running_mean_of_the_parameters(tmp_path):
    before = f"""
net = {SMALL_LAYERS}
optimizer = torch.optim.Adam(net.parameters(), fused=True)
mean = {SMALL_LAYERS}
def update():
    for q, p in zip(mean.parameters(), net.parameters()):
        q.data = 0.99 * q.data + 0.01 * p.data
"""
    text = training(before=before, after='update()')
    line = 1 + text.splitlines().index('        q.data = 0.99 * q.data + 0.01 * p.data')
    _, found = watched(tmp_path, text)
    assert [f['line'] for f in found['findings'] if f['id'] == 'optimizer-loop'] == [f'train.py:{line}']


def test_a_convolution_without_gradients_has_no_backward_pass():
    from why_slow.looks import OperatorLook

    layer, x = torch.nn.Conv2d(3, 8, 3), torch.randn(2, 3, 16, 16)
    flops = {}
    for gradients in (True, False):
        look = OperatorLook(torch)
        look.start()
        with torch.set_grad_enabled(gradients):
            y = layer(x)
        if gradients:
            y.sum().backward()
        look.stop()
        flops[gradients] = look.result.flops
    assert flops[True] == 2 * flops[False] > 0      # the gradient of the weights; the input needs none


def test_a_convolution_of_groups_multiplies_within_them():
    from why_slow.looks import OperatorLook

    flops = {}
    for groups in (1, 2):
        look = OperatorLook(torch)
        look.start()
        with torch.no_grad():
            torch.nn.Conv2d(4, 6, 3, groups=groups)(torch.randn(2, 4, 16, 16))
        look.stop()
        flops[groups] = look.result.flops
    assert flops[1] == 2 * flops[2] == 2 * (2 * 6 * 14 * 14) * (4 * 3 * 3)


@pytest.mark.slow
def test_an_evaluation_with_gradients_in_each_step(tmp_path):
    before = """
def test(x):
    net.eval()
    accuracy = net(x)
    net.train()
"""
    text = training(before=before, after='test(x)')
    line = 1 + text.splitlines().index('    accuracy = net(x)')
    _, found = watched(tmp_path, text)
    assert [f['line'] for f in found['findings'] if f['id'] == 'evaluation-gradients'] == [f'train.py:{line}']


@pytest.mark.slow
def test_the_line_of_a_sleep(tmp_path):
    text = training(after='time.sleep(0.2)')
    line = 1 + text.splitlines().index('        time.sleep(0.2)')
    _, found = watched(tmp_path, text, seconds=4)
    first = found['findings'][0]
    assert (first['id'], first['line']) == ('gaps', f'train.py:{line}')
    assert first['at_most'] > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    'backwards, loop',
    [
        # accumulation: one step of the optimizer is one step
        (
            2,
            '''
for _ in range(100000):
    for x, y in Batches():
        for half in range(2):
            loss_function(net(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
''',
        ),
        # a closure; without tolerances, for a step that has converged calls it only once
        (
            2,
            '''
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.01, max_iter=2, tolerance_grad=0, tolerance_change=0)
def closure():
    optimizer.zero_grad()
    loss = loss_function(net(data.tensors[0][:64]), data.tensors[1][:64])
    loss.backward()
    return loss
while True:
    optimizer.step(closure)
''',
        ),
        # mixed precision, with clipping
        (
            1,
            '''
scaler = torch.amp.GradScaler('cpu')
while True:
    for x, y in Batches():
        optimizer.zero_grad()
        with torch.autocast('cpu', torch.bfloat16):
            loss = loss_function(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
''',
        ),
        # no optimizer at all
        (
            1,
            '''
while True:
    for x, y in Batches():
        loss_function(net(x), y).backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.01 * p.grad
                p.grad = None
''',
        ),
    ],
    ids=['accumulation', 'closure', 'scaler', 'no optimizer'],
)
def test_kinds_of_loops(tmp_path, backwards, loop):
    run, found = watched(
        tmp_path, HEAD.replace('Adam(net.parameters(), fused=True)', 'Adam(net.parameters())') + loop
    )
    assert run.watch.failure is None
    assert found['step']['steps'] >= 2
    assert found['step']['parts']['backward'] > 0
    assert found['step']['parts']['forward'] > 0
    assert run.session.usual['backwards'] == backwards


def test_what_was_compiled_before_the_script_is_not_its_own():
    """As in a notebook, or in a process of tests."""
    from why_slow.plan import _compiled

    at_first = {'frames': 3, 'graphs': 3, 'reasons': {'a print': 1}, 'seconds': 9.0}
    after = {'frames': 5, 'graphs': 5, 'reasons': {'a print': 1, 'an item': 2}, 'seconds': 10.0}
    assert _compiled(at_first, after, at_first) == {
        'graphs': 2,
        'seconds': 1.0,
        'all_graphs': 2,
        'all_breaks': 2,
        'reasons': ['an item'],
    }
    assert _compiled(after, after, after)['all_breaks'] == 0
