"""Backward passes that do more than they must, and those that do what they must."""

import pytest

from tests.why_slow.scripts import HEAD, ids, line_with, watched
from why_slow.gradients import Graph, _leading_to, graph_of

torch = pytest.importorskip('torch')

GAN = f"""{HEAD}
generator = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 64))
discriminator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
first = torch.optim.Adam(generator.parameters(), fused=True)
second = torch.optim.Adam(discriminator.parameters(), fused=True)


def of_the_generator():
    loss = -discriminator(generator(torch.randn(64, 64))).mean()
    first.zero_grad()
    loss.backward()
    first.step()


def of_the_discriminator():
    made = generator(torch.randn(64, 64)){{detach}}
    loss = discriminator(made).mean() - discriminator(x).mean()
    {{clear}}
    loss.backward()
    second.step()


while True:
    for x, y in Batches():
        {{steps}}
"""
SHARED = """made = generator(x)
        loss = discriminator(made).mean() - discriminator(x).mean()
        second.zero_grad()
        loss.backward(retain_graph=True)
        second.step()
        loss = -discriminator(made).mean()
        first.zero_grad()
        loss.backward()
        first.step()"""
CLEAR = 'second.zero_grad()'
BY_HAND = 'for p in discriminator.parameters(): p.grad = None'
BOTH = 'of_the_discriminator(); of_the_generator()'
TURNED = 'of_the_generator(); of_the_discriminator()'
FROZEN = f"""{HEAD}
frozen = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 64))
while True:
    for x, y in Batches():
        features = {{frozen}}
        loss = loss_function(net(features), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
FAULTY = {
    'through the generator': (GAN.format(detach='', clear=CLEAR, steps=BOTH), 'made ='),
    'cleared by hand': (GAN.format(detach='', clear=BY_HAND, steps=BOTH), 'made ='),
    'cleared in the next step': (GAN.format(detach='', clear=CLEAR, steps=TURNED), 'made ='),
    'the same images for both': (GAN.format(detach='', clear=CLEAR, steps=SHARED), 'made = generator(x)'),
    'a part that no optimizer has': (FROZEN.format(frozen='frozen(x)'), 'features ='),
}
TAIL = """
while True:
    for x, y in Batches():
        {step}
"""
FAULTLESS = {
    'detached': GAN.format(detach='.detach()', clear=CLEAR, steps=BOTH),
    'a frozen part without gradients': FROZEN.format(frozen='frozen.requires_grad_(False)(x)'),
    'a gradient in the middle of a graph': HEAD
    + """
other = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1))
head = nn.Linear(512, 10)
optimizer = torch.optim.Adam(head.parameters(), fused=True)
"""
    + TAIL.format(
        step="""hidden = net[0](x)
        hidden.retain_grad()
        other(hidden).mean().backward()
        loss = loss_function(head(hidden.grad), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()"""
    ),
    'micro-batches': HEAD
    + TAIL.format(
        step="""optimizer.zero_grad()
        for rows in x.split(16):
            net(rows).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()"""
    ),
    'a sharper step': HEAD
    + TAIL.format(
        step="""loss_function(net(x), y).backward()
        with torch.no_grad():
            moves = [0.01 * p.grad for p in net.parameters()]
            for p, move in zip(net.parameters(), moves):
                p.add_(move)
        optimizer.zero_grad()
        loss_function(net(x), y).backward()
        with torch.no_grad():
            for p, move in zip(net.parameters(), moves):
                p.sub_(move)
        optimizer.step()
        optimizer.zero_grad()"""
    ),
    'an optimizer of its own': HEAD
    + TAIL.format(
        step="""loss_function(net(x), y).backward()
        with torch.no_grad():
            for p in net.parameters():
                p.sub_(0.01 * p.grad)
                p.grad = None"""
    ),
    'in a hook': HEAD
    + """
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in net.parameters()}


def update(p):
    optimizers[p].step()
    optimizers[p].zero_grad()


for p in net.parameters():
    p.register_post_accumulate_grad_hook(update)
"""
    + TAIL.format(step='loss_function(net(x), y).backward()'),
    'second derivatives': HEAD
    + """
net = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
optimizer = torch.optim.Adam(net.parameters())
"""
    + TAIL.format(
        step="""x = x.clone().requires_grad_()
        u = net(x)
        [slope] = torch.autograd.grad(u.sum(), x, create_graph=True)
        [bend] = torch.autograd.grad(slope.sum(), x, create_graph=True)
        loss = (bend.sum(1) - u[:, 0]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()"""
    ),
}
TASKS = f"""{HEAD}
trunk = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
heads = nn.ModuleList([nn.Linear(512, 10) for _ in range(4)])
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], fused=True)
while True:
    for x, y in Batches():
        hidden = trunk(x)
        losses = [loss_function(head(hidden), y) for head in heads]
        norms = []
        for loss in losses:
            gradients = torch.autograd.grad(loss, list(trunk.parameters()), retain_graph=True)
            norms.append(sum(g.square().sum() for g in gradients))
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()
"""
CHECKPOINTED = f"""{HEAD}
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
parts = nn.ModuleList([nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512)) for _ in range(4)])
first, last = nn.Linear(64, 512), nn.Linear(512, 10)
optimizer = torch.optim.Adam([*first.parameters(), *parts.parameters(), *last.parameters()], fused=True)
while True:
    for x, y in Batches():
        h = first(x.repeat(4, 1))
        for part in parts:
            h = checkpoint(part, h, use_reentrant={{reentrant}})
        loss = loss_function(last(h[:64]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('fault', FAULTY)
def test_gradients_that_nobody_uses(tmp_path, fault):
    text, words = FAULTY[fault]
    run, found = watched(tmp_path, text)
    assert run.watch.failure is None
    named = {f['id']: f for f in found['findings']}
    assert 'unused-gradients' in named, found['findings']
    assert named['unused-gradients']['line'] == line_with(text, words)
    assert named['unused-gradients']['at_most'] > 1.05


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('kind', FAULTLESS)
def test_gradients_that_are_used(tmp_path, kind):
    run, found = watched(tmp_path, FAULTLESS[kind])
    assert run.watch.failure is None
    assert not {'unused-gradients', 'repeated-backward'} & set(ids(found)), found['findings']
    seen = run.session.not_needed
    # In a GAN the generator's step makes gradients of the discriminator, which nobody uses. The nodes that
    # serve them alone lay out the weights in another order, which takes next to no time.
    assert sum(seen.unused.values()) < 0.03 * found['step']['seconds']


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('text', [FAULTLESS['second derivatives'], TASKS], ids=['twice', 'kept'])
def test_a_trial_of_the_compiler_does_not_break_the_script(tmp_path, text):
    """A compiled function has no gradients of gradients, and frees what another pass would need."""
    run, found = watched(tmp_path, text, seconds=45, what_ifs=True)
    assert run.ended == 'steps', found['notes']
    tried = [r for r in found['what_ifs'] if r['id'] == 'compile']
    if text is TASKS:
        assert tried
    else:
        assert not tried and any('gradients of gradients' in note for note in found['notes'])


@pytest.mark.slow
@pytest.mark.alone
def test_an_error_during_a_trial_is_told_as_such(tmp_path, monkeypatch, capsys):
    from why_slow import whatifs

    monkeypatch.setattr(whatifs.Fused, 'worth_testing', lambda self: True)
    text = HEAD.replace(', fused=True', '') + TAIL.format(
        step="""loss = loss_function(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        assert not optimizer.param_groups[0]['fused'], 'not with this'
        optimizer.step()"""
    )
    run, found = watched(tmp_path, text, seconds=6, what_ifs=True)
    assert run.ended == 'error'
    assert any('the fused optimizer' in note and '--no-what-ifs' in note for note in found['notes'])
    assert 'not with this' in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.alone
def test_passes_through_the_same_graph(tmp_path):
    _, found = watched(tmp_path, TASKS)
    named = {f['id']: f for f in found['findings']}
    assert named['repeated-backward']['line'] == line_with(TASKS, 'retain_graph')
    assert '5 times' in named['repeated-backward']['evidence']
    assert 'unused-gradients' not in named


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize('reentrant', [False, True])
def test_checkpoints_where_memory_is_free(tmp_path, reentrant, monkeypatch):
    from why_slow import whatifs

    module = torch.utils.checkpoint
    before = module._checkpoint_without_reentrant_generator, module.CheckpointFunction
    monkeypatch.setattr(whatifs, 'SPARE', 1)
    text = CHECKPOINTED.format(reentrant=reentrant)
    run, found = watched(tmp_path, text, seconds=12, what_ifs=True)
    assert before == (module._checkpoint_without_reentrant_generator, module.CheckpointFunction)
    assert sum(run.session.not_needed.checkpoints.values()) == 4
    tested = next(r for r in found['what_ifs'] if r['id'] == 'no-activation-checkpoints')
    assert tested['ratio'] > 1.02
    if tested['verdict'] == 'faster':
        finding = next(f for f in found['findings'] if f['id'] == 'recomputation')
        assert finding['line'] == line_with(text, 'h = checkpoint')
        assert '4 checkpointed functions' in finding['evidence']


@pytest.mark.slow
@pytest.mark.alone
def test_checkpoints_stay_where_memory_is_scarce(tmp_path, monkeypatch):
    from why_slow import whatifs

    monkeypatch.setattr(whatifs, 'SPARE', 1e9)
    text = CHECKPOINTED.format(reentrant=False)
    _, found = watched(tmp_path, text, seconds=4, what_ifs=True)
    assert 'no-activation-checkpoints' not in [r['id'] for r in found['what_ifs']]
    assert 'recomputation' not in ids(found)


def test_a_graph_and_what_leads_to_its_ends():
    weight, other = torch.nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    result = (2 * weight + other).sum()
    graph, parameters = graph_of(torch, [result.grad_fn])
    assert len(graph.numbers) == 5 and list(parameters) == [id(weight)]     # sum, +, *, and two ends
    [end] = graph.parameters
    assert len(_leading_to(graph, {end})) == 4
    assert len(_leading_to(graph, graph.others)) == 3


def test_a_node_leads_to_itself():
    assert _leading_to(Graph([7, 8], [[1], []]), {1}) == {0, 1}
    assert _leading_to(Graph([7, 8], [[1], []]), set()) == set()
