"""Captures: memory that views share, changes in place, gradients that stop, parameters and buffers, messages."""

from __future__ import annotations

import copy
import inspect
import re

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from support import assert_same, check
from torch import nn

import poptorch
from poptorch._capture.capture import capture

HOST = torch.full((4, ), 2.0)


def _input() -> torch.Tensor:
    return torch.arange(24.0).reshape(2, 3, 4) + 0.5


# ---- views and changes in place: each function is compared with torch


def view_transposed(x):
    y = x.clone()
    v = y.transpose(0, 1)
    v.mul_(2)
    v[0] = 7
    return y, v


def view_permuted(x):
    y = x.clone()
    v = y.permute(2, 0, 1)
    v[1:3] += 1
    return y, v


def view_with_step(x):
    y = x.clone()
    y[:, ::2] = 0
    y[..., 1] *= 3
    return y


def view_diagonal(x):
    y = x[0, :, :3].clone()
    y.diagonal().fill_(9)
    return y


def view_sees_base(x):
    y = x.clone()
    v = y[0]
    y.add_(1)
    w = v * 2
    y.mul_(3)
    return v, w, y


def view_of_view(x):
    y = x.clone()
    v = y.view(6, 4)
    w = v[2:4]
    z = w.t()
    z.sub_(5)
    return y, v, w, z


def view_split(x):
    y = x.clone()
    a, b, c = y.split(1, 1)
    b.zero_()
    c.copy_(a)
    return y, a, b


def view_chunk_unbind(x):
    y = x.clone()
    y.chunk(2, -1)[0].neg_()
    a, b = y.unbind(0)
    b.add_(a)
    return y


def view_reshaped(x):
    y = x.clone()
    y.unsqueeze(1).add_(1)
    y.flatten().sub_(0.5)
    y.reshape(-1)[3] = 100.0
    y.narrow(2, 1, 2).add_(10)
    return y


def view_strided(x):
    y = x.clone()
    y.as_strided((2, 2), (1, 4)).fill_(3)
    return y


def view_expanded(x):
    y = x[:1, :1].clone()
    e = y.expand(2, 3, 4)
    y.add_(1)
    return e


def view_in_place(x):
    y = x[0].clone()
    y.t_()
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.transpose_(0, 1)
    y[0] = 1.0
    return y


def set_masked(x):
    y = x.clone()
    y[y > 10] = 0.0
    return y


def set_indexed(x):
    y = x.clone()
    y[:, torch.tensor([0, 2])] = 1.0
    y[torch.tensor([0, 1]), torch.tensor([2, 0])] = torch.arange(4.0)
    return y


def set_broadcast(x):
    y = x.clone()
    y[0] = torch.arange(4.0)
    y[1, 1:] = x[0, :1]
    return y


def get_indexed(x):
    return x[:, [0, 2]], x[0, ..., None], x[-1, 1], x[:, None, torch.tensor([1, 1])], x[torch.tensor(1)]


def copied_to_int(x):
    y = torch.zeros(2, 3, 4, dtype=torch.int32)
    y.copy_(x)
    return y


def out_arguments(x):
    y = torch.empty(2, 3, 4)
    torch.add(x, 1, out=y)
    torch.mul(y, 2, out=y)
    z = torch.empty(4, 3, 4)
    torch.cat([x, y], out=z)
    return y, z


def factories(x):
    return (torch.zeros(2) + torch.ones(2) * torch.full((2, ), 3.0) + torch.arange(2) + torch.tensor([1.0, 2.0]) +
            x.new_zeros(2) + torch.zeros_like(x[0, 0, :2]) + torch.linspace(0, 1, 2))


def host_tensors(x):
    return x + HOST, HOST.to(x.device) * x, torch.as_tensor([1.0, 2.0]) + x[0, 0, :2]


def aliases(x):
    y = x.clone()
    z = y
    z += 1
    y *= 2
    v = y[0]
    return y, z, v, y


def input_changed(x):
    x.add_(1)
    return x * 2


def in_place_functions(x):
    y = x.clone()
    F.relu(y, inplace=True)
    F.hardtanh_(y, 0, 10)
    F.dropout(y, 0.5, False, True)
    y.lerp_(torch.zeros_like(y), 0.3)
    y.addcmul_(y, y, value=0.1)
    return y


def data_of_a_tensor(x):
    y = x.clone()
    y.data.mul_(2)
    y.data = y * 3
    return y


def python_numbers(x):
    return 3 - x, 2 / x, x // 2, -x, abs(x), x**2, 2**(x * 0.1), x.numel() * x, len(x) * x


def iterated(x):
    return torch.stack([row.sum() for row in x]), sum(x)


CASES = [f for name, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == __name__ and
         not name.startswith("_") and f.__code__.co_varnames[:1] == ("x", )]


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_as_torch(f):
    here, there = _input(), _input()
    expected, found = f(here), poptorch.inferenceModel(f)(there)
    assert_same(found, expected, 1e-5, 1e-5, f.__name__)
    assert_same(there, here, 1e-5, 1e-5, "the argument afterwards")


# ---- training


class _Model(nn.Module):

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.set_up()

    def set_up(self):
        pass

    def forward(self, x):
        return poptorch.identity_loss(self.result(x).square().sum(), "sum")


class NoGrad(_Model):

    def result(self, x):
        with torch.no_grad():
            h = self.a(x)
        return self.b(h)


class PartlyNoGrad(_Model):

    def result(self, x):
        h = self.a(x)
        with torch.no_grad():
            k = h * 2 + 1
        return self.b(h) * k


class Detached(_Model):

    def result(self, x):
        h = self.a(x)
        return self.b(h.detach()) + h * h.data


class HiddenChanges(_Model):

    def result(self, x):
        h = self.a(x)
        v = h[1:]
        with torch.no_grad():
            h[0] = 0.5
            h.mul_(2)
        h.data[0] = 3.0
        v.data.clamp_(-0.1, 0.1)
        h.detach().add_(1)
        return self.b(h) + v[0] * 3


class BuffersChange(_Model):

    def result(self, x):
        h = self.a(x)
        self.mean.mul_(0.9).add_(h.detach().mean(0) * 0.1)
        self.count += 1
        self.mean[0] = 5.0
        return self.b(h) + self.mean


class BufferFromParameter(_Model):

    def result(self, x):
        with torch.no_grad():
            self.mean.copy_(self.a.weight[0])
        return self.a(x) + self.mean


class ParameterChanges(_Model):

    def result(self, x):
        with torch.no_grad():
            self.a.weight.copy_(self.a.weight.clamp(-0.3, 0.3))
            self.b.bias[0] = 2.0
        return self.b(self.a(x))


class Tied(_Model):

    def set_up(self):
        self.b.weight = self.a.weight

    def result(self, x):
        return self.b(torch.tanh(self.a(x)))


class Frozen(_Model):

    def set_up(self):
        self.a.weight.requires_grad_(False)

    def result(self, x):
        return self.b(self.a(x))


class GradientsThroughViews(_Model):

    def result(self, x):
        h = self.a(x)
        y = torch.zeros(3, 4)
        y[1:] = h[:2]
        y[0] = h[2] * 2
        y.t()[0].mul_(2)
        return self.b(y)


class WeightNorm(_Model):

    def set_up(self):
        self.b = nn.utils.weight_norm(self.b)

    def result(self, x):
        return self.b(self.a(x))


class Parametrized(_Model):

    class Symmetric(nn.Module):

        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    def set_up(self):
        nn.utils.parametrize.register_parametrization(self.b, "weight", self.Symmetric())

    def result(self, x):
        return self.b(self.a(x))


class ListsOfParameters(_Model):

    def set_up(self):
        self.p = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(3)])
        self.d = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})
        self.plain = [self.a.weight, self.b.weight]

    def result(self, x):
        h = x @ self.plain[0] @ self.plain[1]
        for p in self.p:
            h = h * p + self.d["a"]
        return h


class Checkpointed(_Model):

    def result(self, x):
        h = torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(self.a(t)), x, use_reentrant=False)
        return self.b(h) + torch.utils.checkpoint.checkpoint(self.b, h)


class Hooked(_Model):

    def set_up(self):
        self.a.register_forward_hook(lambda module, given, result: result * 2)
        self.b.register_forward_pre_hook(lambda module, given: (given[0] + 1, ))

    def result(self, x):
        assert self.a.weight.requires_grad and isinstance(self.a.weight, nn.Parameter)
        assert not self.mean.requires_grad and self.a(x).requires_grad
        return self.b(self.a(x))


class BatchNorm(_Model):

    def set_up(self):
        self.norm = nn.BatchNorm1d(4)

    def result(self, x):
        return self.norm(self.a(x)) * self.b.weight[0]


@pytest.mark.parametrize("kind", [NoGrad, PartlyNoGrad, Detached, HiddenChanges, BuffersChange, BufferFromParameter, ParameterChanges,
                                  Tied, Frozen, GradientsThroughViews, WeightNorm, Parametrized, ListsOfParameters, Checkpointed,
                                  Hooked, BatchNorm], ids=lambda k: k.__name__)
def test_trained_as_torch(kind):
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    model, reference = kind(), kind()

    def optimizer(m):
        return torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=0.05)

    host = optimizer(reference)
    trained = poptorch.trainingModel(model, optimizer=optimizer(model))
    for _ in range(3):
        host.zero_grad()
        loss = reference(x)
        loss.backward()
        host.step()
        assert_same(trained(x), loss, 1e-4, 1e-4, "loss")
    found = model.state_dict()
    for name, value in reference.state_dict().items():
        assert_same(found[name], value, 1e-4, 1e-4, name)


class _Round(torch.autograd.Function):
    """Rounded; the gradient passes as if it were not."""

    @staticmethod
    def forward(ctx, x):
        with torch.no_grad():
            return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class _Product(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, factor, y):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y * factor, x.argmax(1)

    @staticmethod
    def backward(ctx, gradient, _):
        x, y = ctx.saved_tensors
        return gradient.clamp(-1, 1) * y * ctx.factor * 0.5, None, gradient.sin() * x


_round = _Round.apply


class OwnGradients(_Model):

    def result(self, x):
        h = _round(self.a(x) * 3)
        y, best = _Product.apply(h, 2.0, self.b(x))
        return y + best.unsqueeze(1) * 0.1


class HookedGradients(_Model):

    def result(self, x):
        h = self.a(x)
        if h.requires_grad:
            h.register_hook(lambda gradient: gradient.clamp(-1, 1) * 2)
        return self.b(h) + h


@pytest.mark.parametrize("kind", [OwnGradients, HookedGradients], ids=lambda k: k.__name__)
def test_gradients_of_the_users_own(kind):
    test_trained_as_torch(kind)
    x = torch.randn(3, 4)
    model = kind()
    assert_same(poptorch.inferenceModel(model)(x), model(x), 1e-5, 1e-5, "inference")


class Energy(nn.Module):
    """A force field: the force is minus the gradient of an energy, and is trained for."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def force(self, x):
        x = x.clone().requires_grad_(True)
        energy = self.layers(x).sum()
        gradient, = torch.autograd.grad(energy, x, create_graph=True)
        return energy, -gradient

    def forward(self, x, expected):
        energy, force = self.force(x)
        return force, poptorch.identity_loss((force - expected).square().sum() + energy * 0.1, "sum")


def test_gradients_in_forward():
    x, expected = torch.randn(4, 3), torch.randn(4, 3)
    model, reference = Energy(), Energy()
    assert_same(poptorch.inferenceModel(model)(x, expected), reference(x, expected), 1e-4, 1e-5, "inference")
    host = torch.optim.SGD(reference.parameters(), lr=0.05)
    trained = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in range(3):
        host.zero_grad()
        force, loss = reference(x, expected)
        loss.backward()
        host.step()
        assert_same(trained(x, expected), (force, loss), 1e-4, 1e-4, "training")
    for name, value in reference.state_dict().items():
        assert_same(model.state_dict()[name], value, 1e-4, 1e-4, name)


# An argument of torch 2, in which what does not depend on an input has a gradient of zeros.
ZEROS = ({"materialize_grads": True} if "materialize_grads" in inspect.signature(torch.autograd.grad).parameters
         else {"allow_unused": True})


def test_gradients_in_forward_of_several():

    def f(x, y):
        x.requires_grad_()
        y.requires_grad_()
        a, b = (x * y).sin(), (x * x).sum()
        dx, dy = torch.autograd.grad([a, b], [x, y], grad_outputs=[torch.full_like(a, 2.0), None])
        nothing, = torch.autograd.grad(b, [y], allow_unused=True)
        assert nothing is None
        zero, = torch.autograd.grad(b, [y], **ZEROS)
        return dx, dy, (dx * 0 if zero is None else zero)

    x, y = torch.randn(5), torch.randn(5)
    found = poptorch.inferenceModel(f)(x, y)
    assert_same(found, f(x, y), 1e-5, 1e-5, "gradients")
    with pytest.raises(RuntimeError, match="not have been used"):
        capture(lambda x, y: torch.autograd.grad(x.sum(), y), (x, y))


def test_wrong_gradients_of_the_users_own():

    class Wrong(torch.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient[:1]

    class Model(_Model):

        def result(self, x):
            return Wrong.apply(self.a(x))

    with pytest.raises(poptorch.Error, match="gradient of shape"):
        poptorch.trainingModel(Model())(torch.randn(3, 4))


# ---- what a capture leaves behind, and what it says


class _Keeps(nn.Module):

    def __init__(self, fail=False):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.fail = fail

    def forward(self, x):
        self.kept = self.linear(x)
        if self.fail:
            raise KeyError("no")
        return self.kept


@pytest.mark.parametrize("fail", [False, True])
def test_model_is_left_as_it_was(fail):
    model = _Keeps(fail)
    weight = model.linear.weight
    if fail:
        with pytest.raises(KeyError):
            capture(model, (torch.randn(3, 4), ))
    else:
        capture(model, (torch.randn(3, 4), ))
    assert model.linear.weight is weight and not hasattr(model, "kept")
    assert model(torch.ones(3, 4)).device.type == "cpu" if not fail else True
    assert not poptorch.isRunningOnIpu()


def test_tensors_have_no_data():
    seen = []

    def f(x):
        assert poptorch.isRunningOnIpu() and x.device.type == "ipu" and (x + 1).device.type == "ipu"
        seen.append(repr(x + 1))
        return x

    capture(f, (torch.ones(2), ))
    assert "<unavailable>" in seen[0]


@pytest.mark.parametrize("what", [
    lambda x: x.sum().item(), lambda x: int(x[0, 0]), lambda x: x if x.sum() > 0 else -x, lambda x: x.numpy(),
    lambda x: x.tolist(), lambda x: torch.allclose(x, x)
])
def test_values_are_not_known(what):
    with pytest.raises(poptorch.Error, match=r"needs the value of a tensor on the IPU at .*test_capture.py:\d+"):
        capture(what, (torch.ones(2, 3), ))


def test_values_of_constants_are_known():
    seen = []

    def f(x):
        n = torch.tensor(x.shape).prod()
        steps = torch.linspace(0, 1, 3) + 1
        steps[0] = 5.0
        seen.extend([int(n), n.item(), bool(n > 5), steps.tolist(), float(torch.ones(3, 3).triu().sum()), 6 in n.view(1)])
        return x.reshape(n) * steps[0].item() if n == 6 else x

    x = torch.randn(2, 3)
    assert_same(poptorch.inferenceModel(f)(x), x.reshape(6) * 5, 1e-6, 1e-6, "result")
    assert seen == [6, 6, True, [5.0, 1.5, 2.0], 6.0, True]


def test_random_values_are_not_known():
    with pytest.raises(poptorch.Error, match="needs the value"):
        capture(lambda x: x + torch.rand(1).item(), (torch.ones(1), ))


def test_all_unsupported_ops_in_one_error():

    def f(x):
        y = torch.linalg.qr(x)[0]
        z = torch.linalg.eigvalsh(x)
        return y.sum() + z.sum()

    with pytest.raises(poptorch.Error) as e:
        capture(f, (torch.ones(3, 3), ))
    message = str(e.value)
    assert "aten::linalg_qr" in message and "eig" in message
    assert len(re.findall(r"test_capture.py:\d+", message)) >= 2


def test_error_of_an_op_names_the_line():
    with pytest.raises(poptorch.Error, match=r"test_capture.py:\d+"):
        poptorch.inferenceModel(lambda x: x.reshape((1, ) * 9))(torch.ones(1))


def test_errors_of_torch_stay():
    with pytest.raises(RuntimeError, match="cannot be multiplied|same reduction dim"):
        capture(lambda x: x @ x, (torch.ones(2, 3), ))


def test_host_tensors_cannot_be_changed():
    host = torch.zeros(3)

    def f(x):
        host.add_(x)
        return x

    with pytest.raises(poptorch.Error, match="tensor of the host in place"):
        capture(f, (torch.ones(3), ))


@pytest.mark.parametrize("change, message", [("self.linear.weight = nn.Parameter(x)", "reassigned"),
                                             ("del self._buffers['b']", "removed")])
def test_parameters_stay(change, message):

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("b", torch.ones(4))

        def forward(self, x):
            y = self.linear(x)
            if change.startswith("del"):
                del self._buffers["b"]
            else:
                self.linear._parameters["weight"] = x
            return y

    with pytest.raises(poptorch.Error, match=message):
        capture(Model(), (torch.randn(4, 4), ))


def test_unused_parts_are_dropped():

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            self.unused(x)
            return self.used(x)

    graph = capture(Model(), (torch.randn(3, 4), ))
    assert [kept.name for kept in graph.kept] == ["used.weight", "used.bias"]


def test_losses():
    x, t = torch.randn(3, 4), torch.randn(3, 4)
    with pytest.raises(poptorch.Error, match="Couldn't find a loss"):
        capture(lambda x, t: x + t, (x, t), training=True)
    with pytest.raises(poptorch.Error, match="Multiple independent losses"):
        capture(lambda x, t: F.mse_loss(x, t) + F.l1_loss(x, t), (x, t), training=True)
    graph = capture(lambda x, t: poptorch.identity_loss(F.mse_loss(x, t) + F.l1_loss(x, t), "sum"), (x, t), training=True)
    assert len(graph.losses) == 1


def test_distributions():

    def f(x):
        d = torch.distributions.Normal(x, x.abs() + 1)
        return d.log_prob(x * 2)

    check(f, torch.randn(5), train=False)


def test_names_of_modules():

    class Model(nn.Module):

        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x):
            with poptorch.NameScope("Mine"):
                return self.layers(x)

    graph = capture(Model(), (torch.randn(3, 4), ))
    assert [node.scopes for node in graph.nodes] == [("Model", "Mine", "layers", "0"), ("Model", "Mine", "layers", "1")]
    options = poptorch.Options().disableModuleNamescope()
    graph = capture(Model(), (torch.randn(3, 4), ), options=options)
    assert [node.scopes for node in graph.nodes] == [("Mine", ), ("Mine", )]


def test_places_to_leave_out_of_messages():
    assert all(node.location[0].endswith("test_capture.py") for node in capture(view_of_view, (_input(), )).nodes)
    options = poptorch.Options().appendToLocationExcludes("test_capture.py")
    assert not any(node.location[0].endswith("test_capture.py") for node in capture(view_of_view, (_input(), ),
                                                                                      options=options).nodes)


def test_same_tensor_twice():
    x = torch.randn(3)
    assert_same(poptorch.inferenceModel(lambda a, b: a * 2 + b)(x, x), x * 3, 1e-6, 1e-6, "result")


def test_deep_copies_do_not_mix():
    model = nn.Linear(4, 4)
    other = copy.deepcopy(model)
    x = torch.randn(2, 4)
    first, second = poptorch.inferenceModel(model), poptorch.inferenceModel(other)
    assert_same((first(x), second(x)), (model(x), other(x)), 1e-5, 1e-5, "result")
