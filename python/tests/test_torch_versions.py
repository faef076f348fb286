"""Which torch this is: all tests run with the one that is installed."""

import re
from pathlib import Path

import pytest
import torch
from torch.overrides import handle_torch_function

import poptorch
from poptorch._capture import torch_compat as compat
from poptorch._ops import registry
from poptorch._capture.tensor import current

MAJOR = int(torch.__version__.split(".")[0])


def test_what_depends_on_torch_is_in_one_file():
    package = Path(compat.__file__).parents[1]
    asking = [path.name for path in package.rglob("*.py")
              if re.search(r"torch\.__version__ *([<>=[]|\.split)|torch\.version\b", path.read_text())]
    assert set(asking) <= {"torch_compat.py"}, asking


@pytest.mark.skipif(MAJOR < 2, reason=f"torch is {torch.__version__} here: 2.x is tested where it is installed")
def test_torch_2_captures():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    x = torch.ones(2, 3)
    assert torch.allclose(poptorch.inferenceModel(model)(x), model(x), atol=1e-6)


# ---- arguments that functions of later versions have ----


def later_mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None, squares=True):
    """As mse_loss of torch 2.6 is written, which has `weight`, and of one to come."""
    if torch.nn.functional.has_torch_function_variadic(input, target, weight):
        return handle_torch_function(later_mse_loss, (input, target, weight), input, target, size_average=size_average,
                                     reduce=reduce, reduction=reduction, weight=weight, squares=squares)
    squared = (input - target)**2 if squares else (input - target).abs()
    return squared.mean() if weight is None else (squared * weight).sum() / weight.sum()


@pytest.fixture
def later(monkeypatch):
    handler = registry.FUNCTIONS[torch.nn.functional.mse_loss]
    monkeypatch.setitem(registry.FUNCTIONS, later_mse_loss, handler)


class Loss(torch.nn.Module):
    def __init__(self, **more):
        super().__init__()
        self.linear, self.more = torch.nn.Linear(3, 2), more

    def forward(self, x, y):
        return later_mse_loss(self.linear(x), y, **self.more)


WEIGHT = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("more", [{}, {"weight": None}, {"squares": True}, {"weight": WEIGHT}, {"squares": False},
                                  {"reduction": "mean", "weight": WEIGHT, "squares": False}])
def test_arguments_of_later_versions(later, more):
    x, y = torch.randn(2, 3), torch.randn(2, 2)
    device, host = Loss(**more), Loss(**more)
    host.load_state_dict(device.state_dict())
    training = poptorch.trainingModel(device, optimizer=torch.optim.SGD(device.parameters(), lr=0.5))
    expected = host(x, y)
    expected.backward()
    torch.testing.assert_close(training(x, y), expected.detach())
    torch.testing.assert_close(device.linear.weight + 0, (host.linear.weight - 0.5 * host.linear.weight.grad).detach())


def test_ops_with_arguments_of_later_versions():
    handler = registry.Handler("aten::later", lambda g, node, x, dim=0: x, lambda x, dim=0: x, (), False)
    assert handler.unknown((1, 2), {"dim": 1}) == [] and handler.unknown((1, ), {"device": "ipu"}) == []

    def forward(x):
        return current().apply("aten::later", handler, None, (x, ), {"rounding": "up"})

    with pytest.raises(poptorch.Error, match="aten::later at .* is not supported with argument rounding"):
        poptorch.inferenceModel(forward)(torch.ones(2))
