"""Arguments of calls: how they are resolved, and what is said of calls that differ."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import poptorch
from openipu import structures


class Model(nn.Module):
    def forward(self, x, y=None, scale=2, *rest, offset=None, **named):
        out = x * scale
        for value in (y, offset, *rest, *named.values()):
            if value is not None:
                out = out + value
        return out


class Fixed(nn.Module):
    def forward(self, x, y=None):
        return x if y is None else x + y


def one(n):
    return torch.tensor([float(n)])


@pytest.mark.parametrize("args, kwargs", [
    ((one(1), ), {}),
    ((one(1), one(2)), {}),
    ((one(1), ), {"y": one(5)}),
    ((one(1), None, 3), {}),
    ((one(1), ), {"scale": 7, "offset": one(3)}),
    ((one(1), one(2), 3, one(4), one(5)), {"offset": one(6), "more": one(7)}),
    ((), {"x": one(1)}),
])
def test_resolved_as_python_does(args, kwargs):
    model = Model()
    inference = poptorch.inferenceModel(model)
    for _ in range(2):
        assert inference(*args, **kwargs) == model(*args, **kwargs)


def test_defaults_may_be_tensors():

    class Default(nn.Module):
        def forward(self, x, y=torch.tensor([10.0])):
            return x + y

    inference = poptorch.inferenceModel(Default())
    for n in (1, 2):
        assert inference(one(n)) == 10 + n
    assert inference(one(1), one(1)) == 2


def test_missing_and_too_many():
    inference = poptorch.inferenceModel(Fixed())
    with pytest.raises(poptorch.Error, match="Mandatory parameter x missing"):
        inference()
    with pytest.raises(AssertionError, match="Too many arguments"):
        inference(one(1), one(2), one(3))
    with pytest.raises(AssertionError, match="more than once"):
        inference(one(1), x=one(1))
    with pytest.raises(AssertionError, match="z is not a valid parameter"):
        inference(one(1), z=one(1))


def tensors(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


@pytest.mark.parametrize("other, message", [
    ((tensors(3), {"a": tensors(2)}, (tensors(1), 5)), r"Shape mismatch for x: expected torch.Size\(\[2\]\)"),
    ((tensors(2, dtype=torch.int32), {"a": tensors(2)}, (tensors(1), 5)),
     "Data type mismatch for x: expected torch.float32 but got torch.int32"),
    ((3, {"a": tensors(2)}, (tensors(1), 5)), "Type mismatch for x"),
    ((tensors(2), {"b": tensors(2)}, (tensors(1), 5)), "Keys mismatch for d: Unexpected arguments: b. Missing .*: a"),
    ((tensors(2), {"a": tensors(3)}, (tensors(1), 5)), r"Shape mismatch for d\[a\]"),
    ((tensors(2), {"a": tensors(2)}, (tensors(1), 6)), r"Value mismatch for t\[1\]: expected 5 but got 6"),
    ((tensors(2), {"a": tensors(2)}, (tensors(1), )), "Length mismatch for t: expected 2 elements but got 1"),
    ((tensors(2), {"a": tensors(2)}, [tensors(1), 5]), "Type mismatch for t"),
])
def test_mismatches(other, message):

    class Nested(nn.Module):
        def forward(self, x, d, t):
            return x + d["a"] + t[0] * t[1]

    inference = poptorch.inferenceModel(Nested())
    call = (tensors(2), {"a": tensors(2)}, (tensors(1), 5))
    inference(*call)
    with pytest.raises(poptorch.Error, match=message) as e:
        inference(*other)
    assert "destroy()" in str(e.value)
    assert torch.all(inference(*call) == 7)


def test_number_of_arguments():
    inference = poptorch.inferenceModel(Model())
    inference(one(1), one(2), 3, one(4))
    with pytest.raises(poptorch.Error, match="Number of positional arguments mismatch: expected 4 arguments but got 5"):
        inference(one(1), one(2), 3, one(4), one(5))


def test_order_of_keys_does_not_matter():
    inference = poptorch.inferenceModel(lambda d: d["a"] - d["b"])
    assert inference({"a": one(5), "b": one(2)}) == 3
    assert inference({"b": one(1), "a": one(7)}) == 6


def test_dicts_are_warned_of_once(caplog):
    inference = poptorch.inferenceModel(lambda d: d["a"] + 1)
    inference({"a": one(1)})
    inference({"a": one(1)})
    assert caplog.text.count("partial support") == 1


def test_strided_tensors_are_made_contiguous(caplog):
    inference = poptorch.inferenceModel(lambda x: x * 1.0)
    x = torch.arange(6.0).reshape(2, 3)
    inference(x.t().contiguous())
    for _ in range(2):
        assert torch.equal(inference(x.t()), x.t())
    assert caplog.text.count("not contiguous") == 1


def test_inputs_that_require_gradients_are_detached(caplog):
    inference = poptorch.inferenceModel(lambda x: x * 2)
    assert inference(torch.ones(1, requires_grad=True)) == 2
    assert "requires_grad=True" in caplog.text


class Container:
    def __init__(self, first, second):
        self.first, self.second = first, second


class Parser(poptorch.ICustomArgParser):
    def yieldTensors(self, struct):
        yield struct.first
        yield struct.second

    def reconstruct(self, original_structure, tensor_iterator):
        return Container(next(tensor_iterator), next(tensor_iterator))


def test_containers_of_ones_own():
    poptorch.registerCustomArgParser(Container, Parser())
    try:
        inference = poptorch.inferenceModel(lambda c: Container(c.first + c.second, c.first))
        for n in (1, 2):
            result = inference(Container(one(n), one(10)))
            assert isinstance(result, Container) and result.first == 10 + n and result.second == n
        with pytest.raises(poptorch.Error, match="Shape mismatch"):
            inference(Container(torch.ones(2), one(1)))
    finally:
        poptorch.registerCustomArgParser(Container, None)
    assert structures.flatten(Container(one(1), one(2))) == []


def test_flatten_and_rebuild():
    structure = ([one(1), (one(2), "text")], {"b": one(3), "a": None})
    leaves = structures.flatten(structure)
    assert [int(t) for t in leaves] == [1, 2, 3]
    again = structures.rebuild(structure, iter("xyz"))
    assert again == (["x", ("y", "text")], {"b": "z", "a": None})


def test_types_that_devices_have_not():
    with pytest.raises(poptorch.Error, match="complex64"):
        poptorch.inferenceModel(lambda x: x)(torch.ones(1, dtype=torch.complex64))
