"""What packages built on PopTorch reach for beyond its public functions: torch.ops.poptorch and a few private names."""

from __future__ import annotations

import importlib.util

import pytest
import torch

import poptorch
from poptorch import _impl, _utils

OPS = torch.ops.poptorch
X = torch.linspace(-2, 3, 12).reshape(4, 3)


def same(found, expected):
    torch.testing.assert_close(found, expected, check_dtype=False, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("f", [
    lambda x: OPS.nop(x * 2),
    lambda x: OPS.recomputation_checkpoint(x + 1),
    lambda x: OPS.set_available_memory(x @ x.t(), 0.3),
    lambda x: OPS.set_matmul_serialization(x @ x.t(), "output_channels", 2, True),
    lambda x: OPS.internal_cast(x, "FLOAT16"),
    lambda x: OPS.identity_loss(x, 0),
    lambda x: OPS.identity_loss(x, 1),
    lambda x: OPS.identity_loss(x, 2),
    lambda x: OPS.dynamic_slice(x, 0, torch.tensor([1]), 2, 1),
    lambda x: OPS.dynamic_update(x, x[:2] * 2, 0, torch.tensor([1]), 2),
    lambda x: OPS.fps(x, [0, 2, 4], 0.5, False),
    lambda x: OPS.nearest(x, x[1:3], torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0])),
    lambda x: OPS.nearest_batch_list(x, x[1:3], [0, 0, 1, 1], [0, 1]),
])
def test_ops_do_the_same_on_the_host_and_the_ipu(f):
    same(poptorch.inferenceModel(f)(X), f(X))


def test_ops_of_the_ipu_alone(capfd):

    def forward(x):
        x, = OPS.custom_operation([x], "relu", "openipu", 1, 1, [x], "")
        return OPS.ipu_print_tensor(x, "shown", 1, 1000, 3, 80, 4, 1, ", ", "(", ")")

    same(poptorch.inferenceModel(forward)(X), X.relu())
    assert "shown" in capfd.readouterr().err
    time, batch, classes = 4, 1, 3
    probs = torch.randn(time, batch, classes).log_softmax(2)
    lengths = torch.tensor([time])
    ours = poptorch.inferenceModel(lambda p, n: tuple(poptorch.ctc_beam_search_decoder(p, n, 0, 5, 2)))(probs, lengths)
    theirs = poptorch.inferenceModel(lambda p, n: tuple(OPS.ctc_beam_search_decoder(p, n, 0, 5, 2)))(probs, lengths)
    assert len(theirs) == 3
    for a, b in zip(ours, theirs):
        same(a, b)


class Scoped(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        OPS.begin_ipu_block(0, 0, 0)
        OPS.set_attribute("__outline", "layer", "one")
        OPS.push_name_scope("outer")
        x = self.linear(x)
        OPS.pop_name_scope()
        OPS.clear_attribute("__outline", "layer")
        OPS.begin_ipu_block(1, 0, 1)
        x = OPS.nop(x)
        OPS.end_ipu_block()
        return x


def test_names_and_blocks():
    model = Scoped()
    options = poptorch.Options().deviceIterations(2)
    inference = poptorch.inferenceModel(model, options)
    same(inference(X), model(X))
    assert any("outer" in name for name in inference.getTensorNames())
    with pytest.raises(poptorch.Error, match="deviceIterations must be greater than or equal to .* stages \\(2\\)"):
        poptorch.inferenceModel(model)(X)  # stages are there
    with pytest.raises(poptorch.Error, match="No active Block"):
        poptorch.inferenceModel(lambda x: model(x) + 1, options)(X)
    with pytest.raises(poptorch.Error, match="pop_name_scope"):
        poptorch.inferenceModel(lambda x: OPS.pop_name_scope() or x)(X)


@pytest.mark.parametrize("name, call", [
    ("for_loop", lambda x: OPS.start_for_loop([x])), ("for_loop", lambda x: OPS.end_for_loop([x], [x], 2)),
    ("cond", lambda x: OPS.start_if_block(x[0])), ("cond", lambda x: OPS.end_if_block([x], x[0])),
    ("CPU", lambda x: OPS.call_cpu_op([x], "name")), ("CPU", lambda x: OPS.end_cpu_op([x]))])
def test_halves_name_the_whole(name, call):
    with pytest.raises(poptorch.Error, match=f"call poptorch.{name} instead"):
        poptorch.inferenceModel(call)(X)


class Exchange:
    """Exchanges torch.square, as poptorch_geometric exchanges ops of torch_geometric."""
    log = []

    def __init__(self):
        self.name = f"made {len(self.log)}"

    def replace(self):
        self.original, torch.square = torch.square, lambda x: x**3
        self.log.append("replaced")

    def restore(self):
        torch.square = self.original
        self.log.append("restored")


def test_parts_are_exchanged_while_a_model_is_captured(monkeypatch):
    import poptorch._poplar_executor as module
    spec = importlib.util.find_spec("poptorch._poplar_executor")
    loaded = spec.loader.load_module()  # as poptorch_geometric does: what is registered is not of this object
    loaded._OverwriteContextManager.registerSubsitutionManager(Exchange)
    managers = poptorch._poplar_executor._OverwriteContextManager._subsitution_manager_types
    monkeypatch.setattr(module._OverwriteContextManager, "_subsitution_manager_types", managers)
    assert managers.count(Exchange) == 1
    loaded._OverwriteContextManager.registerSubsitutionManager(Exchange)
    assert managers.count(Exchange) == 1
    square = torch.square
    try:
        same(poptorch.inferenceModel(lambda x: torch.square(x))(X), X**3)
        assert Exchange.log == ["replaced", "restored"] and torch.square is square
        with pytest.raises(ZeroDivisionError):
            poptorch.inferenceModel(lambda x: x + 1 / 0)(X)
        assert Exchange.log == ["replaced", "restored"] * 2 and torch.square is square
    finally:
        managers.remove(Exchange)


def test_structures():
    batches = [({"a": X + i, "n": 3}, [X[:1] * i]) for i in range(3)]
    tensors = [_utils.flattenTensorStructure(batch) for batch in batches]
    whole = _utils.reconstructTensorStructure(batches[0], _utils.combine_batch_tensors_gen(tensors))
    same(whole[0]["a"], torch.cat([X, X + 1, X + 2]))
    assert whole[0]["n"] == 3 and tuple(whole[1][0].shape) == (3, 3)
    only = _utils.reconstructTensorStructure([X, X[0]], [X * 2], lambda t: t.dim() == 2)
    same(only[0], X * 2)
    same(only[1], X[0])


def test_unwrapped_models():

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, x):
            return poptorch.identity_loss(self.linear(x), "sum")

    model = Net()
    training = poptorch.trainingModel(model)
    training(X)
    assert _impl.isWrapped(model) and type(model).__name__ == "PoptorchNet"
    assert _impl.unwrapIfWrapped(model) is model and type(model) is Net and not _impl.isWrapped(model)
    assert _impl.unwrapIfWrapped(X) is X
    training.destroy()
    assert type(model.linear.weight) is torch.nn.Parameter
