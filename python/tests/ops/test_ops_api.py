"""poptorch's own ops: control flow, functions of the host, prints, hints, contexts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support import assert_same, check
from torch import nn

import poptorch
from poptorch._capture.show import Format, text_of


def _run(f, *inputs):
    return poptorch.inferenceModel(f)(*inputs)


# ---- loops


def test_loop_carries_several():

    def f(a, b, c):

        def body(a, b):
            return a * c + b, b + 1

        return poptorch.for_loop(5, body, [a, b])

    inputs = [torch.randn(3), torch.randn(3), torch.rand(3)]
    assert_same(_run(f, *inputs), f(*inputs), 1e-5, 1e-5, "result")


def test_loop_is_given_values():

    def f(x):

        def body(y):
            y += 1
            return y

        return poptorch.for_loop(3, body, [x])[0], x

    x = torch.ones(4)
    result, same = _run(f, x)
    assert torch.equal(result, torch.full((4, ), 4.0)) and torch.equal(same, torch.ones(4)) and torch.equal(x, same)


def test_loop_changes_older_memory():

    class Counter(nn.Module):

        def __init__(self):
            super().__init__()
            self.register_buffer("turns", torch.zeros(()))

        def forward(self, x):
            total = torch.zeros_like(x)

            def body(y):
                self.turns += 1
                total.add_(y)
                total[0] = 0.0
                return y * 2

            last = poptorch.for_loop(4, body, [x])[0]
            return last, total

    model = Counter()
    wrapped = poptorch.inferenceModel(model)
    last, total = wrapped(torch.ones(3))
    assert torch.equal(last, torch.full((3, ), 16.0)) and torch.equal(total, torch.tensor([0.0, 15.0, 15.0]))
    wrapped.copyWeightsToHost()
    assert model.turns == 4


def test_loops_nest():

    def f(x):
        return poptorch.for_loop(3, lambda a: poptorch.for_loop(2, lambda b: b + a, [a])[0] * 0.5, [x])[0]

    x = torch.randn(5)
    assert_same(_run(f, x), f(x), 1e-5, 1e-5, "result")


def test_loop_of_no_turns():
    assert torch.equal(_run(lambda x: poptorch.for_loop(0, lambda a: a + 1, [x])[0] * 2, torch.ones(2)), torch.full((2, ), 2.0))


@pytest.mark.parametrize("body, message", [(lambda a: (a, a), "as many as it is given"), (lambda a: a[:1], "cannot change"),
                                           (lambda a: a.half(), "cannot change"), (lambda a: 3, "must return tensors")])
def test_wrong_bodies_of_loops(body, message):
    with pytest.raises(poptorch.Error, match=message):
        _run(lambda x: poptorch.for_loop(2, body, [x])[0], torch.ones(3))


def test_tensors_of_a_body_stay_there():
    inner = []

    def f(x):

        def body(a):
            inner.append(a * 2)
            return a + 1

        y = poptorch.for_loop(2, body, [x])[0]
        return y + inner[0]

    with pytest.raises(poptorch.Error, match="return it from the body"):
        _run(f, torch.ones(2))


def test_loops_are_not_trained():

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            y = poptorch.for_loop(2, self.linear, [x])[0]
            return poptorch.identity_loss(y, "sum")

    with pytest.raises(poptorch.Error, match=r"poptorch.for_loop\(\) is only supported in inference"):
        poptorch.trainingModel(Model())(torch.ones(1, 4))


# ---- branches


@pytest.mark.parametrize("condition", [True, False])
def test_cond(condition):

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, c, x, y):
            z = x + y
            return poptorch.cond(c, lambda a: (self.linear(a), z), [x], lambda b: (b * 2, y), [y])

    model = Model()
    inputs = [torch.tensor([condition]), torch.randn(2, 3), torch.randn(2, 3)]
    assert_same(poptorch.inferenceModel(model)(*inputs), model(*inputs), 1e-5, 1e-5, "result")


def test_cond_passes_values():

    def f(c, x):

        def double(a):
            a *= 2
            x.add_(1)
            return a

        return poptorch.cond(c, double, [x], lambda a: a, [x])[0], x

    x = torch.ones(2)
    result, same = _run(f, torch.tensor([True]), x)
    assert torch.equal(result, torch.full((2, ), 2.0)) and torch.equal(same, torch.ones(2))


def test_wrong_branches():
    with pytest.raises(poptorch.Error, match="equally many"):
        _run(lambda c, x: poptorch.cond(c, lambda: (x, x), [], lambda: x, []), torch.tensor([True]), torch.ones(2))
    with pytest.raises(poptorch.Error, match="differs"):
        _run(lambda c, x: poptorch.cond(c, lambda: x, [], lambda: x[:1], []), torch.tensor([True]), torch.ones(2))


# ---- the host


def test_cpu_op_of_numpy():

    def on_host(x, scale):
        return torch.from_numpy(np.sort(x.numpy(), axis=1)) * scale, x.argmax(1)

    sort = poptorch.CPU(on_host, "sort")

    def f(x):
        values, best = sort(x, 3.0)
        return values + 1, best

    x = torch.randn(4, 5)
    model = poptorch.inferenceModel(f)
    for _ in range(2):
        values, best = model(x)
        assert_same(values, x.sort(1).values * 3 + 1, 1e-5, 1e-5, "values")
        assert torch.equal(best.long(), x.argmax(1))
        x = torch.randn(4, 5)


def test_cpu_op_that_fails():

    def broken(x):
        if x.sum() != 0:
            raise ValueError("the host says no")
        return x

    op = poptorch.CPU(broken, "broken")
    with pytest.raises(poptorch.Error, match="the host says no"):
        _run(lambda x: op(x) + 1, torch.ones(2))


def test_cpu_ops_with_many_batches():
    op = poptorch.CPU(lambda x: x * 10, "ten")
    options = poptorch.Options().deviceIterations(4)
    x = torch.arange(8.0).reshape(8, 1)
    assert torch.equal(poptorch.inferenceModel(lambda x: op(x) + 1, options)(x), x * 10 + 1)


def test_print_tensor(capfd):

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            y = poptorch.ipu_print_tensor(x * self.weight, "mine")
            return poptorch.identity_loss((y * torch.tensor([3.0, 4.0])).sum(), "sum")

    poptorch.trainingModel(Model())(torch.tensor([1.0, 2.0]))
    printed = capfd.readouterr().err
    assert "mine: (1.000, 2.000)" in printed and "mine_gradient: (3.000, 4.000)" in printed


@pytest.mark.parametrize("array, how, text", [
    (np.array(2.5, np.float32), Format(), "t: 2.500"),
    (np.arange(3), Format(), "t: (0, 1, 2)"),
    (np.array([True, False]), Format(), "t: (1, 0)"),
    (np.arange(4).reshape(2, 2), Format(open_bracket="[", close_bracket="]"), "t: [\n [0, 1]\n [2, 3]\n]"),
    (np.arange(10), Format(summarise_threshold=5, edge_items=2), "t: (0, 1, ..., 8, 9)"),
    (np.array([1e8, 1.0]), Format(), "t: (1.000e+08, 1.000e+00)"),
    (np.array([12.5, 1.0]), Format(digits=6), "t: (12.5000, 1.0000)"),
    (np.arange(6), Format(max_line_width=7), "t: (0, 1,\n  2, 3,\n  4, 5)"),
])
def test_text_of_tensors(array, how, text):
    assert text_of("t", array, how) == text


# ---- losses, slices, hints


@pytest.mark.parametrize("reduction", ["sum", "mean", "none"])
def test_identity_loss(reduction):
    x = torch.randn(3, 4)
    assert_same(_run(lambda t: poptorch.identity_loss(t, reduction), x), poptorch.identity_loss(x, reduction), 1e-5, 1e-5,
                "loss")
    with pytest.raises(AssertionError, match="Unsupported reduction"):
        poptorch.identity_loss(x, "max")


def test_dynamic_slices():
    x, start = torch.randn(4, 10), torch.tensor([3])
    check(lambda x, s: poptorch.dynamic_slice(x, 1, s, 5, 1), x, start, train=False)
    check(lambda x, s: x[:, s:s + 5] * 2, x, start, train=False)
    y = torch.randn(4, 2)
    check(lambda x, y, s: poptorch.dynamic_update(x, y, 1, s, 2), x, y, start, train=False)
    with pytest.raises(poptorch.Error, match="same dtype"):
        poptorch.dynamic_update(x, y.half(), 1, start, 2)
    with pytest.raises(poptorch.Error, match="must be an integer"):
        poptorch.dynamic_slice(x, 1, start, 4.0, 1)


def test_hints_change_nothing():

    def f(x):
        x = poptorch.nop(x) * 2
        a, b = poptorch.recomputationCheckpoint(x, x + 1)
        a = poptorch.set_available_memory(a @ b.t(), 0.3)
        c = poptorch.serializedMatMul(a, a, poptorch.MatMulSerializationMode.ReducingDim, 2)
        with poptorch.NameScope("scope"), poptorch.Attribute(__outline={"layer": "x"}):
            return poptorch.recomputationCheckpoint([c, a])

    check(f, torch.randn(4, 4))
    assert isinstance(poptorch.recomputationCheckpoint((torch.ones(1), )), tuple)
    with pytest.raises(ValueError, match="must be tensors"):
        poptorch.recomputationCheckpoint([1])


def test_multi_conv():

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(1, 2, 3), nn.Conv2d(1, 2, 3)

        def forward(self, x):
            with poptorch.MultiConv().planType(poptorch.MultiConvPlanType.Serial).partialsTypes(torch.half):
                return self.a(x) + self.b(x.abs())

    check(Model(), torch.randn(1, 1, 6, 6))
    with pytest.raises(AssertionError, match="Invalid available memory proportion"):
        poptorch.MultiConv().availableMemoryProportions("all")
    with pytest.raises(ValueError, match="partials types"):
        poptorch.MultiConv().partialsTypes(torch.int32)
    with pytest.raises(ValueError, match="bool"):
        poptorch.MultiConv().enableConvDithering([1])
    with pytest.raises(AssertionError, match="plan type"):
        poptorch.MultiConv().planType(3)


# ---- others


def test_custom_op_of_the_library():
    x = torch.randn(3, 4)

    def f(x):
        y, = poptorch.custom_op([x], "leaky_relu", "openipu", 1, [x], {"alpha": 0.2})
        return y + 1

    assert_same(_run(f, x), nn.functional.leaky_relu(x, 0.2) + 1, 1e-5, 1e-5, "result")
    with pytest.raises(poptorch.Error, match="No implementation of the custom op"):
        _run(lambda x: poptorch.custom_op([x], "Cube", "com.acme", 1, [x])[0], x)


@pytest.mark.parametrize("attributes, message", [({1: 2}, "keys must be strings"), ({"a": object()}, "values must be"),
                                                 ({"a": [1, 2.0]}, "all be the same"), ({"a": "ä"}, "non-ASCII")])
def test_wrong_attributes(attributes, message):
    with pytest.raises(ValueError, match=message):
        poptorch.custom_op([torch.ones(1)], "relu", "openipu", 1, [torch.ones(1)], attributes)


def test_nearest():
    x, y = torch.randn(20, 3), torch.randn(6, 3)
    expected = torch.cdist(x, y).argmin(1)
    assert torch.equal(_run(poptorch.nearest, x, y).long(), expected)
    batch_x, batch_y = [0] * 10 + [1] * 10, [0] * 3 + [1] * 3
    found = _run(lambda x, y: poptorch.nearest(x, y, batch_x, batch_y), x, y).long()
    assert torch.equal(found[:10], torch.cdist(x[:10], y[:3]).argmin(1))
    assert torch.equal(found[10:], torch.cdist(x[10:], y[3:]).argmin(1) + 3)


def test_fps():
    src = torch.tensor([[0.0, 0.0], [1.0, 0.0], [10.0, 0.0], [4.0, 0.0], [0.0, 0.0], [5.0, 5.0]])
    found = _run(lambda s: poptorch.fps(s, [0, 4, 6], 0.5), src)
    assert found.tolist() == [0, 2, 4]
    with pytest.raises(poptorch.Error, match="list of integers"):
        poptorch.fps(src, 3)


def test_ctc_beam_search_decoder():
    torch.manual_seed(3)
    log_probs = torch.randn(9, 3, 10).log_softmax(2)
    lengths = torch.tensor([9, 5, 7], dtype=torch.int32)
    scores, n, paths = _run(lambda p, l: poptorch.ctc_beam_search_decoder(p, l, beam_width=8, top_paths=2), log_probs, lengths)
    assert scores.shape == (3, 2) and n.shape == (3, 2) and paths.shape == (3, 2, 9)
    assert (scores[:, 0] >= scores[:, 1]).all() and (n <= lengths.unsqueeze(1)).all()


def test_hooks_of_compilation():
    calls = []
    handles = [poptorch.registerPreCompileHook(lambda: calls.append("before")),
               poptorch.registerPostCompileHook(lambda: calls.append("after"))]
    try:
        _run(lambda x: x + 1, torch.ones(1))
        assert calls == ["before", "after"]
    finally:
        for handle in handles:
            handle.remove()
    _run(lambda x: x + 1, torch.ones(1))
    assert len(calls) == 2
    with pytest.raises(RuntimeError, match="must be callable"):
        poptorch.registerPreCompileHook(2)


def test_numbers_of_tensors():
    numbers = []

    def f(x):
        y = x + 1
        numbers.append((poptorch.getIpuTensorId(x), poptorch.getIpuTensorId(y)))
        return y

    _run(f, torch.ones(1))
    assert numbers[0][0] != numbers[0][1]
    with pytest.raises(poptorch.Error):
        poptorch.getIpuTensorId(torch.ones(1))
