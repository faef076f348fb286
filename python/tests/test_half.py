"""float16: models, mixed types, options of numbers."""

import copy

import pytest
import torch

import poptorch

F = torch.nn.functional


class Network(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.out = torch.nn.Linear(4 * 6 * 6, 3)

    def forward(self, x, y=None):
        x = torch.relu(self.norm(self.conv(x)))
        x = self.out(x.flatten(1))
        return x if y is None else (x, F.cross_entropy(x, y))


@pytest.fixture(name="network")
def _network():
    torch.manual_seed(5)
    return Network()


def test_inference(network):
    network.eval()
    x = torch.randn(4, 1, 8, 8)
    expected = network(x)
    found = poptorch.inferenceModel(copy.deepcopy(network).half())(x.half())
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("loss_scaling", [1.0, 128.0])
def test_training(network, loss_scaling):
    network.half()
    x, y = torch.randn(8, 1, 8, 8).half(), torch.randint(0, 3, (8, ))
    optimizer = poptorch.optim.AdamW(network.parameters(), lr=0.01, loss_scaling=loss_scaling,
                                     accum_type=torch.float16, first_order_momentum_accum_type=torch.float16)
    model = poptorch.trainingModel(network, optimizer=optimizer)
    losses = [model(x, y)[1] for _ in range(30)]
    assert losses[0].dtype == torch.float16 and losses[-1] < 0.2 < losses[0]
    assert network.conv.weight.dtype == network.norm.running_mean.dtype == torch.float16
    assert network.norm.running_mean.abs().sum() > 0


def test_mixed_operands():

    class Mixed(torch.nn.Module):

        def forward(self, x, y):
            return x + y, (x * 2), torch.cat([x.float(), y])

    x, y = torch.randn(4).half(), torch.randn(4)
    found = poptorch.inferenceModel(Mixed())(x, y)
    for one, other in zip(found, Mixed()(x, y)):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("partials", [torch.half, torch.float])
def test_partials(network, partials):
    options = poptorch.Options()
    options.Precision.setPartialsType(partials)
    x = torch.randn(4, 1, 8, 8).half()
    plain = poptorch.inferenceModel(copy.deepcopy(network).half().eval())(x)
    assert torch.equal(poptorch.inferenceModel(copy.deepcopy(network).half().eval(), options)(x), plain)


def test_stochastic_rounding():

    class Small(torch.nn.Module):

        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4096, dtype=torch.float16))

        def forward(self, x):
            return poptorch.identity_loss((self.w * x).sum(), reduction="sum")

    moved = {}
    for enabled in (False, True):
        network = Small()
        options = poptorch.Options().randomSeed(3)
        options.Precision.enableStochasticRounding(enabled)
        model = poptorch.trainingModel(network, options, torch.optim.SGD(network.parameters(), lr=2**-13))
        for _ in range(16):
            model(torch.ones(4096, dtype=torch.float16))
        moved[enabled] = 1 - network.w.float().mean().item()
    assert moved[False] == 0, "each step is lost to rounding"
    assert abs(moved[True] - 16 * 2**-13) < 2e-4


def test_floating_point_exceptions():

    class Divide(torch.nn.Module):

        def forward(self, x, y):
            return x / y

    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)
    model = poptorch.inferenceModel(Divide(), options)
    assert model(torch.ones(2), torch.full((2, ), 2.0)).tolist() == [0.5, 0.5]
    with pytest.raises(poptorch.Error):
        model(torch.ones(2), torch.zeros(2))
    assert poptorch.inferenceModel(Divide())(torch.ones(1), torch.zeros(1)).isinf().all()
