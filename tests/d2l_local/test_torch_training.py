"""The training helpers of the PyTorch half: d2l's names and meaning."""

import pytest

torch = pytest.importorskip('torch')

from d2l_local import torch as d2l  # noqa: E402
from d2l_local.torch_training import Block, Residual, kept  # noqa: E402


def test_what_autograd_keeps_is_counted_once_and_on_meta_as_well():
    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    x = torch.ones(16, 8)
    assert kept(lambda: net(x), net.parameters()) == x.nbytes + 16 * 4 * 4
    assert kept(lambda: net(x), [x, *net.parameters()]) == 16 * 4 * 4
    assert kept(lambda: x.reshape(8, 16) @ net[0].weight.reshape(16, 2), net.parameters()) == x.nbytes
    far = net.to('meta')
    assert kept(lambda: far(x.to('meta')), far.parameters()) == x.nbytes + 16 * 4 * 4
    with torch.no_grad():
        assert kept(lambda: net(x.to('meta'))) == 0


def test_the_block_adds_its_work_to_its_input():
    block = Block(8)
    torch.nn.init.zeros_(block.work[-1].weight)
    torch.nn.init.zeros_(block.work[-1].bias)
    x = torch.rand(3, 8)
    assert torch.equal(block(x), x)


def test_accuracy_leaves_the_mode_of_the_network():
    net = torch.nn.Sequential(torch.nn.Dropout(0.9), torch.nn.Identity())
    batches = [(torch.eye(4), torch.tensor([0, 1, 2, 0])), (torch.eye(4)[:1], torch.tensor([0]))]
    assert d2l.evaluate_accuracy_gpu(net, batches, torch.device('cpu')) == pytest.approx(4 / 5)
    assert net.training
    assert d2l.evaluate_accuracy_gpu(lambda x: x, batches) == pytest.approx(4 / 5)
    net[1].eval()
    d2l.evaluate_accuracy_gpu(net, batches, torch.device('cpu'))
    assert [part.training for part in net.modules()] == [True, True, False]
    net.eval()[0].train()
    d2l.evaluate_accuracy_gpu(net, batches, torch.device('cpu'))
    assert [part.training for part in net.modules()] == [False, True, False]


@pytest.mark.parametrize(('how', 'shape'), [({}, (2, 3, 8, 8)), ({'use_1x1conv': True}, (2, 3, 8, 8)),
                                            ({'use_1x1conv': True, 'strides': 2}, (2, 3, 4, 4))])
def test_a_residual_block_has_the_signature_of_d2l(how, shape):
    block = Residual(3, **how)       # the channels of the input are found at the first call
    x = torch.randn(2, 3, 8, 8)
    assert block(x).shape == shape
    torch.nn.init.zeros_(block.main[4].weight)
    block.eval()
    torch.testing.assert_close(block(x), torch.relu(block.around(x)))


def test_resnet18():
    net = d2l.resnet18(10, in_channels=3)
    assert net[0].in_channels == 3 and sum(isinstance(m, Residual) for m in net.modules()) == 8
    assert d2l.resnet18(7, width=4)(torch.rand(2, 1, 28, 28)).shape == (2, 7)
