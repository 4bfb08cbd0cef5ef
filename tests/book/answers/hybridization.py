"""Right and wrong answers to the exercises on hybridization."""

import math

import numpy as np

from tests.book.answers import stored

SOLUTIONS = 'hybridization/hybridization_solutions_pytorch.ipynb'


def solution(*names):
    return stored(SOLUTIONS, *names)


def branches(blocks):
    return solution('Branches')['Branches'](*blocks)


def module(forward, kind='ModuleList'):
    """An answer whose module has this forward, with its blocks in a container."""
    def answer(blocks):
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = getattr(nn, kind)(blocks) if kind else list(blocks)

            def forward(self, x):
                return forward(self.blocks, x)
        return Net()
    return answer


def cat(blocks, x, dim=1):
    import torch
    return torch.cat([block(x) for block in blocks], dim=dim)


def told(blocks, x):
    y = cat(blocks, x)
    print(y.shape)
    return y.contiguous() * 1


def until(net, name):
    return solution('until')['until'](net, name)


def not_eliminated(net, name):
    import torch
    cut = torch.fx.symbolic_trace(net)
    nodes = {node.name: node for node in cut.graph.nodes}
    nodes['output_1'].args = (nodes[name],)
    cut.recompile()
    return cut


def copied(net, name):
    import copy
    return until(copy.deepcopy(net), name)


def decide(x, long):
    space = solution('with_cond')
    space['chain'] = long
    return space['with_cond'](x)


def where(x, long):
    space = solution('with_where')
    space['chain'] = long
    return space['with_where'](x)


def cond_of(condition):
    """An answer that decides in the graph, by a condition of its own."""
    def answer(x, long):
        import torch
        return torch.cond(condition(x), lambda x: long(x), lambda x: -x, (x,))
    return answer


def python_decides(x, long):
    return long(x) if x.sum() > 0 else -x


def lenet():
    return solution('lenet')['lenet']()


def lenet_with(change):
    def answer():
        from torch import nn
        return nn.Sequential(*change(list(lenet()), nn))
    return answer


def nested():
    """The layers of the stored network, in three parts."""
    from torch import nn
    m = list(lenet())
    return nn.Sequential(nn.Sequential(*m[:3]), nn.Sequential(*m[3:6]), nn.Sequential(*m[6:]))


def without_most(keep):
    """LeNet whose functions between the layers are gone, but for those that keep makes."""
    return lenet_with(lambda m, nn: keep([x for x in m if not isinstance(x, nn.ReLU)], nn))


def with_another(name):
    return lenet_with(lambda m, nn: [getattr(nn, name)() if isinstance(x, nn.ReLU) else x for x in m])


def by_where(condition):
    """An answer that computes both sides and selects."""
    def answer(x):
        import torch
        return torch.where(condition(x), 2 * x, x - 10)
    return answer


def whole(x):
    return solution('Whole')['Whole']()(x)


def frozen(x):
    import torch
    return 2 * x if torch.compiler.is_compiling() or x.sum() > 0 else x - 10


def break_even(first, eager, compiled):
    return solution('break_even')['break_even'](first, eager, compiled)


def exact(first, eager, compiled):
    """The first call computes a result too."""
    return math.inf if eager <= compiled else (first - compiled) / (eager - compiled)


def compile_once(function, backend):
    return solution('compile_once')['compile_once'](function, backend)


FOUND = {}


class Module:
    """All that the forward method of the solution needs of its module."""

    def __init__(self, layer):
        self.layer = layer


def refine(layer, x):
    if not FOUND:       # in the first call, which is eager: a compiled one must not open a notebook
        FOUND['forward'] = solution('Refine', 'RefineInOneGraph')['RefineInOneGraph'].forward
    return FOUND['forward'](Module(layer), x)


def steps(limit, stop=True):
    """An answer that limits a step in another way."""
    def answer(layer, x):
        import torch
        sizes = []
        for _ in range(5):
            step = layer(x)
            size = step.detach().norm() if stop else step.norm()
            sizes.append(size)
            x = x + limit(torch, step, size)
        return x, torch.stack(sizes)
    return answer


def in_python(torch, step, size):
    return step / size if size.item() > 1 else step


def smallest_first(torch, step, size):
    return step / size.clamp(max=1)


def compiled(**how):
    def answer(function, backend):
        import torch
        return torch.compile(function, backend=backend, **how)
    return answer


def one_and_then_eager(function, backend):
    import torch
    torch._dynamo.config.recompile_limit = 1
    return torch.compile(function, backend=backend)


def with_two_zeros(function, backend):
    import torch
    once = torch.compile(function, backend=backend, dynamic=True)
    return lambda x, rate: once(torch.cat([x, torch.zeros(2)]), torch.tensor(rate))


def padded_to_16(function, backend):
    import torch
    once = torch.compile(function, backend=backend)
    return lambda x, rate: once(torch.cat([x, torch.zeros(16)])[:16], torch.tensor(rate))


def with_a_rate_of_one_half(function, backend):
    import torch
    once = torch.compile(lambda x: function(x, 0.5), backend=backend, dynamic=True)
    return lambda x, rate: once(x)


ANSWERS = {
    'hyb-ex-w-loop': (dict(operations=3, later=3), [
        (dict(operations=1), 'loop itself is Python'), (dict(operations=4), 'loop itself'),
        (dict(later=5), 'made once')]),
    'hyb-ex-w-which': (dict(product='no', additions='yes', layers='yes', mlp='no', script='no'), [
        (dict(product='yes'), 'library calls'), (dict(additions='no'), 'memory'),
        (dict(layers='no'), 'between two calls'), (dict(mlp='yes'), 'compiled code add'),
        (dict(script='yes'), 'paid back')]),
    'hyb-ex-w-seen': (dict(shape='error', values='dropped', flag='frozen', data='error',
                           traced_shape='dropped', traced_data='frozen', compiled_values='kept',
                           compiled_data='kept'), [
        (dict(values='kept'), 'Is a print'), (dict(shape='dropped'), 'symbol know'),
        (dict(flag='kept'), 'Whose value'), (dict(data='frozen'), 'true or false'),
        (dict(traced_shape='error'), 'has a shape'), (dict(traced_data='error'), 'has a sign'),
        (dict(compiled_values='dropped'), 'bytecode'), (dict(compiled_data='frozen'), 'bytecode')]),
    'hyb-ex-w-paid': (dict(calls=27_800, disk=560), [
        (dict(calls=100_000), 'later call save'), (dict(calls=21_739), 'later call save'),
        (dict(calls=0.0278), 'later call save'), (dict(disk=2000), 'later call save')]),
    'hyb-ex-w-down': (dict(small=6.67, large=1.08, small_limit=10, large_limit=1.09), [
        (dict(small=18), 'afterwards'), (dict(large=6.7), 'how long after'),
        (dict(large=1.09), 'how long after'),
        (dict(small_limit=math.inf), 'shorter than its work'),
        (dict(large_limit=10), 'shorter than its')]),
    'hyb-ex-branches': (branches, [
        (module(cat, None), 'would not train'),
        (module(lambda b, x: cat(b, x, 0)), 'For images of shape'),
        (module(lambda b, x: cat(list(b)[::-1], x)), 'in their order'),
        (module(told), 'captured 2 graphs'),
        (module(lambda b, x: cat(b, x) + 0), 'has 6 operators'),
        (lambda blocks: blocks, 'no torch.nn.Module')]),
    'hyb-ex-asnumpy': (until, [
        (lambda net, name: net, 'differs from'), (copied, 'yours do not'),
        (lambda net, name: until(net, 'relu'), 'node hidden'), (not_eliminated, 'still computed'),
        (lambda net, name: 3, 'cannot be called')]),
    'hyb-ex-control-flow': (decide, [
        (where, 'computed for either sign'), (python_decides, 'needed 3 graphs'),
        (lambda x, long: long(x), 'negative'), (lambda x, long: -x, 'positive'),
        (cond_of(lambda x: x[0, 0] > 0), 'positive'), (cond_of(lambda x: (x > 0).any()), 'negative'),
        (cond_of(lambda x: x.median() > 0), 'negative'),
        (cond_of(lambda x: x.sum() >= 0), 'Where the sum is 0')]),
    'hyb-ex-lenet': (lenet, [
        (lenet_with(lambda m, nn: [nn.Conv2d(1, 6, 5), *m[1:]]), 'behind each layer|28'),
        (without_most(lambda m, nn: m), 'are one layer'),
        (without_most(lambda m, nn: [m[0], nn.Identity(), *m[1:]]), 'are one layer'),
        (without_most(lambda m, nn: [m[0], nn.ReLU(), *m[1:]]), 'Layers 2 and 3'),
        (lenet_with(lambda m, nn: [*m[:10], *m[11:]]), 'Layers 4 and 5'),
        (lenet_with(lambda m, nn: [*m[:9], nn.Linear(120, 10)]), 'Yours has 4'),
        (lenet_with(lambda m, nn: [*m[:7], nn.Linear(400, 128), nn.ReLU(), nn.Linear(128, 84), *m[10:]]),
         'Layer 3'),
        (lenet_with(lambda m, nn: [*m[:-1], nn.Linear(84, 11)]), 'give the shape')]),
    'hyb-ex-branch': (whole, [
        (lambda x: 2 * x if x.sum() > 0 else x - 10, 'needed 3 graphs'),
        (lambda x: 2 * x, 'wrong for a sign'),
        (lambda x: x - 10, 'wrong for a sign'), (by_where(lambda x: x > 0), 'wrong for a sign'),
        (by_where(lambda x: x[0] > 0), 'wrong for a sign'),
        (by_where(lambda x: x.median() > 0), 'wrong for a sign'),
        (by_where(lambda x: x.sum() >= 0), 'wrong for a sum of zero'),
        (frozen, 'Compiled, it gives other numbers')]),
    'hyb-ex-break-even': (break_even, [
        (lambda first, eager, compiled: first / eager if eager > compiled else math.inf, 'Wrong for'),
        (lambda first, eager, compiled: first / compiled, 'Wrong for'),
        (lambda first, eager, compiled: first / abs(eager - compiled + 1e-12), 'never cross'),
        (lambda first, eager, compiled: max(0, first / (eager - compiled or 1)), 'never cross')]),
    'hyb-ex-one-graph': (refine, [
        (steps(in_python), 'fullgraph=True refuses'),
        (steps(lambda torch, step, size: step / size.clamp(min=1), stop=False), 'gradients do not'),
        (steps(lambda torch, step, size: step / size), 'For short steps'),
        (steps(smallest_first), 'another result'),
        (lambda layer, x: refine(layer, x)[0], 'the result and a tensor'),
        (lambda layer, x: (refine(layer, x)[0], refine(layer, x)[1].clamp(max=1)), 'the five sizes')]),
    'hyb-ex-read-loop': (dict(fused=8, eager=28, gain=3.5, long=2), [
        (dict(fused=16), 'after the first loop'), (dict(fused=12), 'after the first loop'),
        (dict(eager=24), 'what does it write'), (dict(gain=28 / 12), 'by the other'),
        (dict(long=3.5), 'go to memory'), (dict(long=28 / 12), 'go to memory')]),
    'hyb-ex-recompile': (compile_once, [
        (compiled(), 'took [2-8] compilations'), (compiled(dynamic=False), 'took [78] compilations'),
        (compiled(dynamic=True), 'took 3 compilations'),
        (lambda function, backend: function, 'never got a graph'),
        (compiled(recompile_limit=1), 'did not enter'), (one_and_then_eager, 'did not enter'),
        (with_a_rate_of_one_half, 'Wrong for 10 numbers'), (padded_to_16, 'Wrong for 40 numbers')]),
}
ANSWERS |= {
    'hyb-ex-calls': (dict(sgd=40, momentum=120, adam=360, foreach='no'), [
        (dict(sgd=1), 'and its gradient'), (dict(momentum=82), 'with the state'),
        (dict(adam=122), 'averages'),
        (dict(foreach='yes'), 'in one call')]),
    'hyb-ex-rate': (dict(number=2, tensor=1), [
        (dict(number=4), 'first change'), (dict(number=1), 'first change'),
        (dict(tensor=2), 'a constant')]),
}

ALSO_RIGHT = {
    'hyb-ex-w-down': [dict(small=6.7)],
    'hyb-ex-read-loop': [dict(fused=12, eager=40, gain=3.3), dict(fused=12, eager=40, gain=3.3, long=2.2)],
    'hyb-ex-lenet': [nested, with_another('Tanh'), with_another('Sigmoid'), with_another('GELU'),
                     lenet_with(lambda m, nn: [nn.MaxPool2d(2) if isinstance(x, nn.AvgPool2d) else x
                                               for x in m])],
    'hyb-ex-branch': [by_where(lambda x: x.sum() > 0)],
    'hyb-ex-break-even': [exact, lambda *times: np.float32(break_even(*times)),
                          lambda *times: np.float32(exact(*times))],
    'hyb-ex-recompile': [with_two_zeros],
}

# In MXNet.

GLUON = 'hybridization/hybridization_solutions_mxnet.ipynb'


def gluon_branches(blocks):
    return stored(GLUON, 'Branches')['Branches'](*blocks)


def gluon_module(forward, register=True):
    """An answer whose block has this hybrid_forward."""
    def answer(blocks):
        from mxnet.gluon import nn

        class Net(nn.HybridBlock):
            def __init__(self):
                super().__init__()
                self.blocks = [*blocks]
                for block in blocks if register else ():
                    self.register_child(block)

            def hybrid_forward(self, F, x):
                return forward(F, self.blocks, x)
        return Net()
    return answer


def joined(F, blocks, x, axis=1):
    return F.np.concatenate([block(x) for block in blocks], axis=axis)


def gluon_lenet(change=lambda layers, nn: layers, name='relu'):
    """The layers of the stored network, perhaps with another activation function."""
    from mxnet.gluon import nn
    net = nn.HybridSequential()
    net.add(*change([nn.Conv2D(6, kernel_size=5, padding=2, activation=name),
                     nn.AvgPool2D(pool_size=2, strides=2),
                     nn.Conv2D(16, kernel_size=5, activation=name),
                     nn.AvgPool2D(pool_size=2, strides=2), nn.Dense(120, activation=name),
                     nn.Dense(84, activation=name), nn.Dense(10)], nn))
    return net


def linear(layers, nn):
    return [nn.Conv2D(6, 5, padding=2), layers[1], nn.Conv2D(16, 5), layers[3], nn.Dense(120),
            nn.Dense(84),
            layers[-1]]


def only_pools(layers, nn):
    m = linear(layers, nn)
    return [m[0], nn.MaxPool2D(2, 2), m[2], nn.MaxPool2D(2, 2), *m[4:]]


ANSWERS |= {
    'hyb-ex-branches mxnet': (gluon_branches, [
        (gluon_module(joined, register=False), 'would not train'),
        (gluon_module(lambda F, b, x: joined(F, b, x, 0)), 'For images of shape'),
        (gluon_module(lambda F, b, x: joined(F, b[::-1], x)), 'in their order'),
        (gluon_module(lambda F, b, x: joined(F, b, x) + 0 * x.asnumpy().max()),
         'NotImplementedForSymbol'),
        (lambda blocks: blocks, 'is none')]),
    'hyb-ex-lenet mxnet': (gluon_lenet, [
        (lambda: gluon_lenet(linear), 'are one layer'), (lambda: gluon_lenet(only_pools), 'Layers 3 and 4'),
        (lambda: gluon_lenet(lambda m, nn: [nn.Conv2D(6, 5, activation='relu'), *m[1:]]), 'Layer 3'),
        (lambda: gluon_lenet(lambda m, nn: [*m[:5], m[-1]]), 'Yours has 4'),
        (lambda: gluon_lenet(lambda m, nn: m[:-1]), 'give the shape'), (lambda: [], 'is none')]),
    'hyb-ex-asnumpy mxnet': (dict(before='works', after='error', when='call'), [
        (dict(before='error'), 'What is x'), (dict(after='works'), 'What is x'),
        (dict(when='hybridize'), 'When does')]),
    'hyb-ex-control-flow mxnet': (dict(loop=3, flag='frozen', data='error', later='as before'), [
        (dict(loop=1), 'Who runs'), (dict(flag='kept'), 'read'), (dict(data='frozen'), 'true or false'),
        (dict(later='differs'), 'record again')]),
}
ALSO_RIGHT['hyb-ex-lenet mxnet'] = [lambda: gluon_lenet(name='tanh'), lambda: gluon_lenet(name='sigmoid')]
