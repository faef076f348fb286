"""Optimizers on the device: the same numbers as PyTorch's, groups, states, schedules, steps on the host."""

import copy
import ctypes
import itertools
import logging
import pickle

import pytest
import torch
from openipu.library import declare, lib
from openipu.settings import OptimizerKind

import poptorch
from poptorch._run import optimizers

N_STEPS = 50


class Network(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.second = torch.nn.Linear(8, 3)

    def forward(self, x, y):
        out = self.second(torch.tanh(self.first(x)))
        return out, torch.nn.functional.cross_entropy(out, y)


@pytest.fixture(name="network")
def _network():
    torch.manual_seed(3)
    return Network()


def batches(n=N_STEPS, size=16):
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(size, 6, generator=generator), torch.randint(0, 3, (size, ), generator=generator))
            for _ in range(n)]


def by_torch(network, make, n=N_STEPS, after_step=None, max_norm=None, sign=1):
    """Weights after n steps on the CPU."""
    network = copy.deepcopy(network).double()
    optimizer = make(network)
    for x, y in batches(n):
        optimizer.zero_grad()
        (sign * network(x.double(), y)[1]).backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(network.parameters(), max_norm)
        optimizer.step()
        if after_step is not None:
            after_step(optimizer)
    return network.state_dict()


def on_device(network, make, n=N_STEPS, options=None):
    """Weights after n steps of a training model."""
    network = copy.deepcopy(network)
    model = poptorch.trainingModel(network, options, make(network))
    for x, y in batches(n):
        model(x, y)
    return network.state_dict()


def assert_equal(found, expected, rtol=1e-5):
    for name, value in expected.items():
        error = (found[name].double() - value.double()).norm() / value.double().norm()
        assert error < rtol, f"{name}: relative error {error:.2g}"


def _all(cls, **arguments):
    return lambda network: cls(network.parameters(), **arguments)


SAME = [
    (torch.optim.SGD, dict(lr=0.1)),
    (torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.01)),
    (torch.optim.SGD, dict(lr=0.05, momentum=0.9, dampening=0.1)),
    (torch.optim.SGD, dict(lr=0.05, momentum=0.8, nesterov=True)),
    (torch.optim.SGD, dict(lr=0.05, momentum=0.8, maximize=True)),
    (torch.optim.Adam, dict(lr=0.01)),
    (torch.optim.Adam, dict(lr=0.01, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.1)),
    (torch.optim.Adam, dict(lr=0.01, betas=(0.0, 0.9))),
    (torch.optim.Adam, dict(lr=0.01, amsgrad=True)),
    (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    (torch.optim.AdamW, dict(lr=0.01, amsgrad=True)),
    (torch.optim.RMSprop, dict(lr=0.01, alpha=0.9)),
    (torch.optim.RMSprop, dict(lr=0.01, momentum=0.5, weight_decay=0.01)),
    (torch.optim.RMSprop, dict(lr=0.01, centered=True, eps=1e-4)),
    (torch.optim.Adamax, dict(lr=0.01)),
    (torch.optim.Adagrad, dict(lr=0.05, lr_decay=0.01)),
    (torch.optim.Adadelta, dict(lr=1.0)),
    (torch.optim.Adadelta, dict(lr=0.5, rho=0.5, eps=1e-3, weight_decay=0.1)),
]


@pytest.mark.parametrize("cls, arguments", SAME)
def test_same_as_torch(network, cls, arguments):
    expected = by_torch(network, _all(cls, **arguments))
    assert_equal(on_device(network, _all(cls, **arguments)), expected)
    own = getattr(poptorch.optim, cls.__name__, None)
    if own is not None:
        assert_equal(on_device(network, _all(own, loss_scaling=8.0, **arguments)), expected)


@pytest.mark.parametrize("cls, arguments", [
    (poptorch.optim.LAMB, dict(lr=0.01)),
    (poptorch.optim.LAMB, dict(lr=0.01, bias_correction=False, weight_decay=0.1, betas=(0.8, 0.99))),
    (poptorch.optim.LAMB, dict(lr=0.01, max_weight_norm=0.5)),
    (poptorch.optim.AdamW, dict(lr=0.002, bias_correction=False)),
])
def test_same_on_host_and_device(network, cls, arguments):
    assert_equal(on_device(network, _all(cls, **arguments)), by_torch(network, _all(cls, **arguments)))


def test_decoupled_decay_of_adam(network):
    """As newer versions of torch have it."""
    groups = lambda n: [{"params": n.parameters(), "decoupled_weight_decay": True}]
    found = on_device(network, lambda n: torch.optim.Adam(groups(n), lr=0.01, weight_decay=0.5))
    assert_equal(found, by_torch(network, _all(torch.optim.AdamW, lr=0.01, weight_decay=0.5)))


class KindInfo(ctypes.Structure):
    """ipu_nn_optimizer_info."""
    _fields_ = [("name", ctypes.c_char_p), ("summary", ctypes.c_char_p), ("states", ctypes.c_char_p * 3),
                ("rate", ctypes.c_double), ("momentum", ctypes.c_double)]


def kinds_of_the_library():
    declare("ipu_nn_optimizer_kind_info", ctypes.POINTER(KindInfo), [ctypes.c_int])
    found = map(lib().ipu_nn_optimizer_kind_info, itertools.count())
    return [pointer.contents for pointer in itertools.takewhile(bool, found)]


def test_kinds_are_those_of_the_library():
    infos = kinds_of_the_library()
    assert [info.name.decode() for info in infos] == [kind.name.lower() for kind in sorted(OptimizerKind)]
    own = {number: kind for number, kind in optimizers._KINDS.items() if number is not None}
    assert set(own) == set(OptimizerKind)
    for i, info in enumerate(infos):
        assert {state.decode() for state in info.states if state} == set(own[OptimizerKind(i)].states), info.name


def test_rmsprop_of_tensorflow(network):
    rate, alpha, eps, momentum = 0.01, 0.9, 1e-3, 0.5
    reference = copy.deepcopy(network).double()
    squares = {p: torch.ones_like(p) for p in reference.parameters()}
    momenta = {p: torch.zeros_like(p) for p in reference.parameters()}
    for x, y in batches():
        reference.zero_grad()
        reference(x.double(), y)[1].backward()
        with torch.no_grad():
            for p in reference.parameters():
                squares[p].mul_(alpha).addcmul_(p.grad, p.grad, value=1 - alpha)
                momenta[p].mul_(momentum).add_(rate * p.grad / (squares[p] + eps).sqrt())
                p.sub_(momenta[p])
    make = _all(poptorch.optim.RMSprop, lr=rate, alpha=alpha, eps=eps, momentum=momentum, use_tf_variant=True)
    assert_equal(on_device(network, make), reference.state_dict())


@pytest.mark.parametrize("cls", [poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW])
def test_clipping(network, cls):
    plain = cls.__bases__[1]
    expected = by_torch(network, _all(plain, lr=0.05), max_norm=0.1)
    assert_equal(on_device(network, _all(cls, lr=0.05, max_grad_norm=0.1)), expected)


def test_groups(network):

    def make(cls):
        return lambda n: cls([{"params": n.first.parameters(), "lr": 0.1, "weight_decay": 0.1},
                              {"params": [n.second.weight], "momentum": 0.5}], lr=0.02)

    expected = by_torch(network, make(torch.optim.SGD))
    assert torch.equal(expected["second.bias"].float(), network.second.bias), "of no group"
    for cls in (torch.optim.SGD, poptorch.optim.SGD):
        assert_equal(on_device(network, make(cls)), expected)


def test_frozen_parameters(network):
    network.first.weight.requires_grad_(False)

    def make(n):
        return torch.optim.Adam([p for p in n.parameters() if p.requires_grad], lr=0.01)

    expected = by_torch(network, make)
    found = on_device(network, make)
    assert_equal(found, expected)
    assert torch.equal(found["first.weight"], network.first.weight)


@pytest.mark.parametrize("accumulation, replicas", [(4, 1), (1, 4), (2, 2)])
@pytest.mark.parametrize("accum_type", [torch.float32, torch.float16])
def test_gathered_gradients(network, accumulation, replicas, accum_type):
    options = poptorch.Options().replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    found = on_device(network, _all(poptorch.optim.SGD, lr=0.1, momentum=0.9, accum_type=accum_type), options=options)
    assert_equal(found, by_torch(network, _all(torch.optim.SGD, lr=0.1, momentum=0.9)))


def test_steps_on_the_device(network):
    options = poptorch.Options().deviceIterations(N_STEPS)
    found = copy.deepcopy(network)
    model = poptorch.trainingModel(found, options, poptorch.optim.Adam(found.parameters(), lr=0.01))
    xs, ys = zip(*batches())
    model(torch.cat(xs), torch.cat(ys))
    assert_equal(found.state_dict(), by_torch(network, _all(torch.optim.Adam, lr=0.01)))


@pytest.mark.parametrize("cls", [torch.optim.Adam, poptorch.optim.Adam])
def test_schedules(network, cls):
    plain = copy.deepcopy(network).double()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    trained = copy.deepcopy(network)
    on_ipu = cls(trained.parameters(), lr=0.1)
    model = poptorch.trainingModel(trained, optimizer=on_ipu)
    schedule_on_ipu = torch.optim.lr_scheduler.ExponentialLR(on_ipu, 0.9)
    for x, y in batches(20):
        optimizer.zero_grad()
        plain(x.double(), y)[1].backward()
        optimizer.step()
        schedule.step()
        model(x, y)
        schedule_on_ipu.step()
        model.setOptimizer(on_ipu)
    assert_equal(trained.state_dict(), plain.state_dict())


def test_changes_of_attributes(network):
    """More than rates: compiled again, while states go on."""
    plain = copy.deepcopy(network).double()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    trained = copy.deepcopy(network)
    on_ipu = poptorch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9, loss_scaling=1.0)
    model = poptorch.trainingModel(trained, optimizer=on_ipu)
    for i, (x, y) in enumerate(batches(10)):
        if i == 5:
            optimizer.param_groups[0]["momentum"] = on_ipu.param_groups[0]["momentum"] = 0.5
            on_ipu.loss_scaling = 4.0
            model.setOptimizer(on_ipu)
        optimizer.zero_grad()
        plain(x.double(), y)[1].backward()
        optimizer.step()
        out, _ = model(x, y)
    assert_equal(trained.state_dict(), plain.state_dict())
    assert torch.isfinite(out).all()


def test_another_optimizer(network):
    trained = copy.deepcopy(network)
    model = poptorch.trainingModel(trained, optimizer=torch.optim.SGD(trained.parameters(), lr=0.1))
    plain = copy.deepcopy(network).double()
    first = torch.optim.SGD(plain.parameters(), lr=0.1)
    second = torch.optim.AdamW(plain.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches(10)):
        if i == 5:
            model.setOptimizer(torch.optim.AdamW(trained.parameters(), lr=0.01))
        model(x, y)
        plain.zero_grad()
        plain(x.double(), y)[1].backward()
        (first if i < 5 else second).step()
    assert_equal(trained.state_dict(), plain.state_dict())


@pytest.mark.parametrize("make", [
    _all(poptorch.optim.SGD, lr=0.1, momentum=0.9), _all(poptorch.optim.Adam, lr=0.01),
    _all(poptorch.optim.LAMB, lr=0.01), _all(poptorch.optim.RMSprop, lr=0.01, momentum=0.9, centered=True)])
@pytest.mark.parametrize("by_file", [False, True])
def test_going_on_from_a_state(network, make, by_file, tmp_path):
    expected = on_device(network, make, 10)
    first = copy.deepcopy(network)
    optimizer = make(first)
    model = poptorch.trainingModel(first, optimizer=optimizer)
    for x, y in batches(10)[:4]:
        model(x, y)
    state = {"model": first.state_dict(), "optimizer": optimizer.state_dict()}
    if by_file:
        torch.save(state, tmp_path / "state")
        state = torch.load(tmp_path / "state")
    second = copy.deepcopy(network)
    second.load_state_dict(state["model"])
    optimizer = make(second)
    optimizer.load_state_dict(state["optimizer"])
    model = poptorch.trainingModel(second, optimizer=optimizer)
    for x, y in batches(10)[4:]:
        model(x, y)
    assert_equal(second.state_dict(), expected, 1e-6)


def test_loaded_attributes_are_used(network):
    trained, plain = copy.deepcopy(network), copy.deepcopy(network).double()
    optimizer = poptorch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    model = poptorch.trainingModel(trained, optimizer=optimizer)
    on_host = torch.optim.SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for i, (x, y) in enumerate(batches(6)):
        if i == 3:
            state = optimizer.state_dict()
            state["param_groups"][0]["lr"] = on_host.param_groups[0]["lr"] = 0.02
            optimizer.load_state_dict(state)
        model(x, y)
        on_host.zero_grad()
        plain(x.double(), y)[1].backward()
        on_host.step()
    assert_equal(trained.state_dict(), plain.state_dict())


def test_going_on_after_destroy(network):
    expected = on_device(network, _all(poptorch.optim.Adam, lr=0.01), 8)
    trained = copy.deepcopy(network)
    optimizer = poptorch.optim.Adam(trained.parameters(), lr=0.01)
    model = poptorch.trainingModel(trained, optimizer=optimizer)
    for i, (x, y) in enumerate(batches(8)):
        if i == 4:
            model.destroy()
            model = poptorch.trainingModel(trained, optimizer=optimizer)
        model(x, y)
    assert_equal(trained.state_dict(), expected, 1e-6)


def test_what_states_are_called(network):
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.01)
    assert optimizer.state_dict()["ipu_state"] is None
    model = poptorch.trainingModel(network, optimizer=optimizer)
    model.compile(*batches(1)[0])
    before = optimizer.state_dict()
    assert not before["ipu_state"]["Accl1___first.weight"].any()
    assert before["ipu_param"]["learningRate___specific___second.bias"] == torch.tensor(0.01)
    model(*batches(1)[0])
    after = optimizer.state_dict()
    assert after["ipu_state"]["Accl1___first.weight"].any() and after["ipu_state"]["Step___first.weight"] == 1
    assert after["ipu_state"]["Accl2___second.bias"].shape == (3, )
    with pytest.raises(RuntimeError, match="Only IPU optimizer states"):
        optimizer.load_state_dict(torch.optim.Adam(network.parameters()).state_dict())
    with pytest.raises(RuntimeError, match="empty"):
        optimizer.load_state_dict({})


def test_states_of_another_model(network):
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.01)
    model = poptorch.trainingModel(network, optimizer=optimizer)
    model(*batches(1)[0])
    state = optimizer.state_dict()
    state["ipu_state"]["Accl1___first.weight"] = torch.zeros(3)
    optimizer.load_state_dict(state)
    with pytest.raises(poptorch.Error, match="Accl1___first.weight has the shape"):
        model(*batches(1)[0])


class Sign(torch.optim.Optimizer):
    """One of the user's own."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad.sign(), alpha=group["lr"])


@pytest.mark.parametrize("make", [_all(torch.optim.NAdam, lr=0.01), _all(torch.optim.RAdam, lr=0.01),
                                  _all(torch.optim.Rprop, lr=0.01),
                                  _all(torch.optim.ASGD, lr=0.1)])
def test_steps_on_the_host(network, make, caplog):
    with caplog.at_level(logging.WARNING):
        found = on_device(network, make, 20)
    assert "made on the host" in caplog.text
    assert_equal(found, by_torch(network, make, 20), 1e-4)


def test_optimizers_of_the_user(network):
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    found = on_device(network, lambda n: Sign(n.parameters(), 0.01), 10, options)
    assert_equal(found, by_torch(network, lambda n: Sign(n.parameters(), 0.01), 10))
    with pytest.raises(poptorch.Error, match="deviceIterations"):
        on_device(network, lambda n: Sign(n.parameters(), 0.01), 1, poptorch.Options().deviceIterations(2))
    with pytest.raises(poptorch.Error, match="LBFGS"):
        poptorch.trainingModel(network, optimizer=torch.optim.LBFGS(network.parameters()))
    with pytest.raises(AssertionError, match="Unsupported optimizer type"):
        poptorch.trainingModel(network, optimizer=object())


def test_derived_classes_are_told_of(network, caplog):

    class Derived(torch.optim.SGD):
        pass

    poptorch.trainingModel(network, optimizer=Derived(network.parameters(), lr=0.1))
    assert "does not run Python optimizer code directly" in caplog.text


def test_constants_and_variables(network):
    optimizer = poptorch.optim.AdamW(network.parameters(), lr=0.1, eps=1e-6)
    attributes = optimizer.variable_attrs
    assert not attributes.isConstant("lr") and not attributes.isConstant("eps") and attributes.isConstant("betas")
    attributes.markAsVariable("betas")
    attributes.markAsConstant("eps")
    assert attributes.isConstant("eps") and not attributes.isConstant("betas")
    with pytest.raises(AssertionError, match="Unknown attribute"):
        attributes.markAsVariable("nonsense")
    for other in (copy.copy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert other.variable_attrs.isConstant("eps") and other.loss_scaling == 1.0


def test_arguments(network):
    with pytest.raises(AssertionError, match="Accumulation types"):
        poptorch.optim.Adam(network.parameters(), accum_type=torch.int32)
    with pytest.raises(TypeError):
        poptorch.optim.Adam(network.parameters(), nonsense=1)
    poptorch.optim.AdamW(network.parameters(), 0.1, (0.8, 0.9), differentiable=False, fused=None)
    groups = [{"params": [network.first.weight], "centered": True}, {"params": [network.first.bias]}]
    with pytest.raises(AssertionError, match="'centered'"):
        poptorch.trainingModel(network, optimizer=torch.optim.RMSprop(groups))


def test_running_mean_for_half_accumulators(network):
    options = poptorch.Options()
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.1, accum_type=torch.float16)
    model = poptorch.trainingModel(network, options, optimizer)
    running = poptorch.MeanReductionStrategy.Running
    assert model.options.Training.meanAccumulationAndReplicationReductionStrategy == running
    assert options.Training.meanAccumulationAndReplicationReductionStrategy != running
    model.destroy()
    model = poptorch.trainingModel(network)
    model.compile(*batches(1)[0])
    with pytest.raises(ValueError, match="is already compiled"):
        model.setOptimizer(optimizer)


def test_automatic_loss_scaling():
    torch.manual_seed(1)
    network = Network().half()
    options = poptorch.Options()
    options.Training.setAutomaticLossScaling(True)
    options._Popart.set("automaticLossScalingSettings.updatePeriod", 2)
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.01, loss_scaling=64.0)
    model = poptorch.trainingModel(network, options, optimizer)
    factors = []
    for x, y in batches(5):
        model(x.half(), y)
        factors.append(optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"].item())
    assert factors == [1, 2, 2, 4, 4]
