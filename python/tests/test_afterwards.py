"""What a capture leaves behind, whether it succeeds or not: nothing. And captures in several threads."""
from __future__ import annotations

import threading
from typing import Any, List

import pytest
import torch
from torch import nn

import poptorch


class _Keeps(nn.Module):
    """Keeps what it computes in a list, a dict and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.seen: List[torch.Tensor] = []
        self.named: dict = {"before": 1}
        self.last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        self.seen.append(y)
        self.named["y"] = y
        self.last = y
        return y * len(self.seen)


def test_containers_of_the_model():
    inner = _Keeps()
    model = poptorch.inferenceModel(nn.Sequential(inner))
    for _ in range(2):  # the second time it has all that it needs
        torch.testing.assert_close(model(torch.ones(1, 2)), inner.layer(torch.ones(1, 2)).detach())
        model.destroy()
        assert inner.seen == [] and inner.named == {"before": 1} and inner.last is None


@pytest.mark.parametrize("use", [lambda t: t + 1, lambda t: t @ t, lambda t: t.register_hook(print), lambda t: setattr(t, "data", t)])
def test_tensor_kept_for_later(use):
    kept: List[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        kept.append(x + 1)
        return x * 2

    poptorch.inferenceModel(model)(torch.ones(2))
    with pytest.raises(poptorch.Error, match="not being compiled any more"):
        use(kept[0])


def test_error_in_forward():

    class Bad(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            self.extra = self.layer(x)
            torch.set_grad_enabled(False)
            raise ValueError("of the user")

    def of_torch() -> tuple:
        return (nn.Module.__call__, torch._C._set_grad_enabled, nn.functional.has_torch_function, torch.zeros,
                torch.is_grad_enabled(), torch.distributions.Distribution._validate_args)

    before, bad = of_torch(), Bad()
    weight = bad.layer.weight.detach().clone()
    model = poptorch.trainingModel(bad)
    for _ in range(2):
        with pytest.raises(ValueError, match="of the user"):
            model(torch.ones(1, 2))
        assert of_torch() == before
        assert not hasattr(bad, "extra") and not poptorch.isRunningOnIpu()
        assert torch.equal(bad.layer.weight, weight) and bad.count.tolist() == [0.0, 0.0]


def test_threads_that_compile_models_with_shared_parts():
    shared = nn.Sequential(*[nn.Linear(4, 4) for _ in range(10)])
    expected, wrong = shared(torch.ones(2, 4)).detach().relu(), []

    def work() -> None:
        try:
            model = poptorch.inferenceModel(nn.Sequential(shared, nn.ReLU()))
            for _ in range(2):
                torch.testing.assert_close(model(torch.ones(2, 4)), expected)
                model.destroy()
        except Exception as e:  # pylint: disable=broad-except
            wrong.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_constant_changed_in_inference_mode():

    def model(x: torch.Tensor) -> Any:
        c = torch.zeros(2, device="cpu")
        before = x + c
        c.add_(1)
        return before, x + c

    with torch.inference_mode():
        before, after = poptorch.inferenceModel(model)(torch.zeros(2))
    assert before.tolist() == [0.0, 0.0] and after.tolist() == [1.0, 1.0]


def test_hook_of_a_parameter_with_replicas():

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.weight.register_hook(lambda g: g * 3)
            return poptorch.identity_loss((self.weight * x).sum(), reduction="sum")

    model = Model()
    trained = poptorch.trainingModel(model, poptorch.Options().replicationFactor(2), torch.optim.SGD(model.parameters(), lr=1.0))
    trained(torch.ones(2, 2))
    assert model.weight.tolist() == [-2.0, -2.0]


def test_detaching_one_of_two():
    model = nn.Linear(2, 2)
    executors = [poptorch.inferenceModel(model), poptorch.inferenceModel(model)]
    for executor in executors:
        executor(torch.ones(1, 2))
    for executor in executors:
        executor.detachFromDevice()
    for executor in executors:
        assert not executor.isAttachedToDevice()
        torch.testing.assert_close(executor(torch.ones(1, 2)), model(torch.ones(1, 2)).detach())
