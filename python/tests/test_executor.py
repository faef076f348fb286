"""PoplarExecutor: calling, outputs, errors, devices, threads, Ctrl-C, what can be learned of a run."""

from __future__ import annotations

import collections
import copy
import datetime
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import nn

import poptorch


class Loss(nn.Module):
    """A linear layer and its loss."""

    def __init__(self, n_in: int = 3, n_out: int = 2) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        out = self.linear(x)
        return out, nn.functional.mse_loss(out, y)


def function(fn):
    """A module that does what a function does."""

    class Function(nn.Module):
        def forward(self, *args):
            return fn(*args)

    return Function()


# ---- calling


def test_first_and_later_calls_agree_with_torch():
    model = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(model)
    for _ in range(3):
        x = torch.randn(4, 3)
        torch.testing.assert_close(inference(x), model(x).detach())


def test_copies_and_pickles_are_of_the_model():
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    inference = poptorch.inferenceModel(nn.Linear(3, 2))
    training = poptorch.trainingModel(Loss())
    training(x, y)
    for other in (copy.deepcopy(inference), pickle.loads(pickle.dumps(inference))):
        assert not other.isCompiled()
        assert torch.equal(other(x), inference(x))
    again = copy.deepcopy(training)
    assert torch.equal(again.model.linear.weight, training.model.linear.weight)
    again(x, y)
    assert not torch.equal(again.model.linear.weight, training.model.linear.weight)


def test_training_needs_parameters():
    with pytest.raises(poptorch.Error, match="needs a torch.nn.Module"):
        poptorch.trainingModel(lambda x: x)


def test_any_callable_is_a_model():
    inference = poptorch.inferenceModel(lambda x: x + 1)
    assert inference(torch.tensor([1.0])) == 2.0


def test_training_agrees_with_torch():
    torch.manual_seed(0)
    model = Loss()
    reference = copy.deepcopy(model)
    sgd = torch.optim.SGD(reference.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(5):
        x, y = torch.randn(4, 3), torch.randn(4, 2)
        sgd.zero_grad()
        expected = reference(x, y)
        expected[1].backward()
        sgd.step()
        for a, b in zip(training(x, y), expected):
            torch.testing.assert_close(a, b.detach())
    torch.testing.assert_close(model.linear.weight.detach(), reference.linear.weight.detach())


def test_results_are_copies():
    inference = poptorch.inferenceModel(function(lambda x: x * 2))
    first = inference(torch.tensor([1.0]))
    inference(torch.tensor([5.0]))
    assert first == 2.0


def test_same_tensor_twice_then_two():
    inference = poptorch.inferenceModel(function(lambda x, y: x - y))
    for a, b in ((torch.ones(2), torch.ones(2)), (torch.ones(()), torch.ones(()))):
        inference.destroy()
        assert torch.all(inference(a, a) == 0)
        assert torch.all(inference(a + 3, b) == 3)


def test_inputs_changed_in_place_are_copied_back():

    def forward(x, y):
        x += y
        return y * 2

    inference = poptorch.inferenceModel(function(forward))
    x, y = torch.ones(3), torch.full((3, ), 2.0)
    for n in (3.0, 5.0):
        inference(x, y)
        assert torch.all(x == n)


def test_strided_inputs_changed_in_place():

    def forward(x):
        x.mul_(2)

    x = torch.arange(6.0).reshape(2, 3)
    inference = poptorch.inferenceModel(function(forward))
    inference(x.t())
    assert torch.equal(x, 2 * torch.arange(6.0).reshape(2, 3))


def test_inputs_changed_in_place_of_several_batches():

    def forward(x):
        x.add_(1)
        return x.sum()

    options = poptorch.Options().deviceIterations(4).outputMode(poptorch.OutputMode.Final)
    inference = poptorch.inferenceModel(function(forward), options)
    x = torch.arange(8.0)
    total = inference(x)
    assert torch.equal(x, torch.arange(8.0) + 1)
    assert total.shape == () and total == 15


# ---- results

Pair = collections.namedtuple("Pair", "sum product")


def test_structure_of_results():
    constant = torch.tensor([7.0])

    def forward(x, y):
        pair = Pair(x + y, x * y)
        return {"b": pair, "a": [x, (y, None, 3)], "constant": constant}, pair.sum

    inference = poptorch.inferenceModel(function(forward))
    x, y = torch.tensor([2.0]), torch.tensor([5.0])
    for _ in range(2):
        result, total = inference(x, y)
        assert list(result) == ["b", "a", "constant"] and isinstance(result["b"], Pair)
        assert result["b"].sum == 7 and result["b"].product == 10 and total == 7
        assert result["a"][0] == 2 and result["a"][1][0] == 5 and result["a"][1][1:] == (None, 3)
        assert result["constant"] == 7


def test_nothing_is_returned():
    inference = poptorch.inferenceModel(function(lambda x: None))
    assert inference(torch.ones(1)) is None


@pytest.mark.parametrize("given, found", [(torch.int64, torch.int32), (torch.float64, torch.float32),
                                          (torch.int32, torch.int32), (torch.float16, torch.float16),
                                          (torch.bfloat16, torch.float32), (torch.uint8, torch.uint8),
                                          (torch.int8, torch.int8), (torch.int16, torch.int16)])
def test_types_are_narrowed(given, found):
    inference = poptorch.inferenceModel(function(lambda x: x + x))
    result = inference(torch.tensor([1, 2, 3]).to(given))
    assert result.dtype == found and result.tolist() == [2, 4, 6]


def test_tensors_that_torch_negates_later():
    z = torch.complex(torch.zeros(1), torch.tensor([2.0]))  # with one element it is contiguous
    inference = poptorch.inferenceModel(function(lambda x: x + 1))
    for x, expected in ((z.imag, [3.0]), (z.conj().imag, [-1.0]), (torch._neg_view(torch.tensor([4.0])), [-3.0])):
        assert inference(x).tolist() == expected


def test_bool():
    inference = poptorch.inferenceModel(function(torch.logical_not))
    assert inference(torch.tensor([True, False])).tolist() == [False, True]


def test_zeros_keep_their_sign():
    inference = poptorch.inferenceModel(function(lambda x: (x / torch.full_like(x, 0.0), x / torch.full_like(x, -0.0))))
    above, below = inference(torch.ones(1))
    assert above.item() == float("inf") and below.item() == -float("inf")


def test_wide_constants_are_narrowed_as_inputs_and_buffers_are():
    wide = torch.tensor([2**40 + 5, -2**40 - 5, 7])
    constant = wide.clone()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", wide)

        def forward(self, x):
            return x + 0, self.kept + 0, x * 0 + constant

    for found in poptorch.inferenceModel(Model())(wide):
        assert found.tolist() == [5, -5, 7]


def test_empty_result():
    inference = poptorch.inferenceModel(function(lambda x: (x[:0], x + 1)))
    empty, rest = inference(torch.ones(3))
    assert empty.shape == (0, ) and torch.all(rest == 2)


def test_backward_is_refused():
    training = poptorch.trainingModel(Loss())
    _, loss = training(torch.randn(4, 3), torch.randn(4, 2))
    with pytest.raises(poptorch.Error, match="backward"):
        loss.backward()


# ---- errors


def test_options_of_another_type():
    with pytest.raises(poptorch.Error, match="Invalid type"):
        poptorch.inferenceModel(nn.Linear(1, 1), {"deviceIterations": 2})


def test_accumulation_needs_training():
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    with pytest.raises(poptorch.Error, match="gradientAccumulation to 1"):
        poptorch.inferenceModel(nn.Linear(1, 1), options)


def test_not_compiled():
    model = poptorch.inferenceModel(nn.Linear(1, 1))
    for call in (model.copyWeightsToHost, model.copyWeightsToDevice, model.detachFromDevice, model.attachToDevice,
                 lambda: model.save("x"), lambda: model.rng_state):
        with pytest.raises(poptorch.Error, match="Model has not been compiled or has been destroyed."):
            call()
    with pytest.raises(AssertionError):
        model.getTensorNames()


def test_offline_models_do_not_run():
    options = poptorch.Options().useOfflineIpuTarget()
    model = poptorch.inferenceModel(nn.Linear(1, 1), options)
    with pytest.raises(AssertionError, match="offline"):
        model(torch.ones(1, 1))
    model.compile(torch.ones(1, 1))
    assert model.isCompiled() and not model.isAttachedToDevice()


def test_an_error_in_forward_leaves_the_model_as_it_was():

    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.fails = True

        def forward(self, x):
            y = self.linear(x)
            if self.fails:
                raise ValueError("on purpose")
            return y

    model = Broken()
    inference = poptorch.inferenceModel(model)
    with pytest.raises(ValueError, match="on purpose"):
        inference(torch.ones(1, 2))
    assert model.linear.weight.device.type == "cpu" and not inference.isCompiled()
    inference.model.fails = False
    torch.testing.assert_close(inference(torch.ones(1, 2)), model.linear(torch.ones(1, 2)).detach())


def test_set_optimizer_is_for_training():
    model = nn.Linear(1, 1)
    with pytest.raises(poptorch.Error, match="trainingModel"):
        poptorch.inferenceModel(model).setOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))


# ---- other shapes


def test_new_shapes_are_an_error_or_compiled():
    model = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(model)
    inference(torch.ones(4, 3))
    with pytest.raises(poptorch.Error, match="Shape mismatch"):
        inference(torch.ones(5, 3))
    inference = poptorch.inferenceModel(model, poptorch.Options().recompileOnNewShapes())
    for n in (4, 5, 4, 7, *range(1, 12)):
        x = torch.randn(n, 3)
        torch.testing.assert_close(inference(x), model(x).detach())
    assert len(inference._session.programs) == 8
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    inference.copyWeightsToDevice()
    for n in (11, 10, 1):
        assert torch.all(inference(torch.randn(n, 3)) == 0)


def test_buffers_go_on_with_new_shapes():

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.register_buffer("sum", torch.zeros(2))

        def forward(self, x):
            self.calls += 1
            self.sum += x.sum(0)
            return self.sum * 1, self.calls * 1

    model = Counting()
    inference = poptorch.inferenceModel(model, poptorch.Options().recompileOnNewShapes())
    for call, n in enumerate([1, 1, 3, 1, 3, 2], 1):
        totals, calls = inference(torch.ones(n, 2))
        assert calls == call
    assert totals.tolist() == [11, 11] and model.calls == 0
    inference.copyWeightsToHost()
    assert model.calls == 6 and model.sum.tolist() == [11, 11]


def test_replicas_have_buffers_of_their_own_with_new_shapes():

    class Adding(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sum", torch.zeros(1))

        def forward(self, x):
            self.sum += x.sum()
            return self.sum * 1

    options = poptorch.Options().replicationFactor(2).broadcastBuffers(False).recompileOnNewShapes()
    inference = poptorch.inferenceModel(Adding(), options)
    assert inference(torch.tensor([1.0, 5.0])).tolist() == [1, 5]
    assert inference(torch.tensor([1.0, 1.0, 0.0, 0.0])).tolist() == [3, 5]
    assert inference(torch.tensor([0.0, 1.0])).tolist() == [3, 6]


@pytest.mark.parametrize("optimizer", [poptorch.optim.Adam, torch.optim.Adam])
def test_training_goes_on_with_new_shapes(optimizer):
    torch.manual_seed(1)
    model = Loss()
    reference = copy.deepcopy(model)
    adam = torch.optim.Adam(reference.parameters(), lr=0.1)
    own = optimizer(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, poptorch.Options().recompileOnNewShapes(), own)
    for n in (4, 4, 6, 6, 4, 6):
        adam.param_groups[0]["lr"] = own.param_groups[0]["lr"] = 0.1 / n
        training.setOptimizer(own)
        x, y = torch.randn(n, 3), torch.randn(n, 2)
        adam.zero_grad()
        reference(x, y)[1].backward()
        adam.step()
        training(x, y)
    torch.testing.assert_close(model.linear.weight.detach(), reference.linear.weight.detach(), rtol=1e-4, atol=1e-5)


def _n_steps(optimizer):
    return {float(v.reshape(-1)[0]) for k, v in optimizer.state_dict()["ipu_state"].items() if k.startswith("Step")}


def _train(training, *sizes):
    for n in sizes:
        training(torch.ones(n, 3), torch.ones(n, 2))


def test_a_loaded_state_is_for_new_shapes_too():
    model = Loss()
    own = poptorch.optim.Adam(model.parameters(), lr=0.1)
    training = poptorch.trainingModel(model, poptorch.Options().recompileOnNewShapes(), own)
    _train(training, 4, 4, 4, 4, 4)
    state = own.state_dict()
    _train(training, 4)
    own.load_state_dict(state)
    training.setOptimizer(own)
    _train(training, 6)
    assert _n_steps(own) == {6}
    own.load_state_dict(state)
    training.setOptimizer(own)
    _train(training, 4)
    assert _n_steps(own) == {6}


@pytest.mark.parametrize("detaches", [False, True])
def test_new_shapes_on_a_device_that_is_taken_on_demand(detaches):
    model = Loss()
    own = poptorch.optim.Adam(model.parameters(), lr=0.1)
    options = poptorch.Options().recompileOnNewShapes().connectionType(poptorch.ConnectionType.OnDemand)
    training = poptorch.trainingModel(model, options, own)
    training.compile(torch.ones(4, 3), torch.ones(4, 2))
    for n in (6, 4, 5, 6):  # what was compiled for 4 has not run
        _train(training, n)
        if detaches:
            training.detachFromDevice()
    assert _n_steps(own) == {4}


def test_random_numbers_go_on_with_new_shapes():
    options = poptorch.Options().recompileOnNewShapes().randomSeed(7)
    model = poptorch.inferenceModel(function(lambda x, draws: x + torch.rand(3) if draws else x * 1), options)
    x = torch.zeros(3)
    model(x, False)  # which draws nothing
    model.rng_state = [9]
    first, second = model(x, True), model(x, True)
    third = model(torch.zeros(2, 3), True)[0]
    model.rng_state = [9]
    found = [model(torch.zeros(2, 3), True)[0], model(x, True), model(x, True)]
    for a, b in zip((first, second, third), found):
        assert torch.equal(a, b) and not torch.equal(first, third)


# ---- gradients of inputs


def test_gradients_of_inputs_of_several_batches():
    model = Loss()
    options = poptorch.Options().enableInputGradients().deviceIterations(2)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))
    x, y = torch.randn(3, 8).t().requires_grad_(), torch.randn(8, 2)  # strided
    _, loss = training(x, y)
    assert loss.shape == ()
    found, x.grad = x.grad, None
    for part in (slice(0, 4), slice(4, 8)):
        model(x[part], y[part])[1].backward()
    torch.testing.assert_close(found, x.grad)


def test_gradients_of_inputs():
    model = Loss()
    x, y = torch.randn(4, 3, requires_grad=True), torch.randn(4, 2)
    model(x, y)[1].backward()
    expected, x.grad = x.grad, None
    training = poptorch.trainingModel(model, poptorch.Options().enableInputGradients())
    training(x, y)
    torch.testing.assert_close(x.grad, expected)


# ---- devices


def test_attach_and_detach():
    model = poptorch.inferenceModel(nn.Linear(1, 1))
    x = torch.ones(1, 1)
    before = model(x)
    assert model.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="already attached"):
        model.attachToDevice()
    model.detachFromDevice()
    assert not model.isAttachedToDevice()
    with pytest.raises(poptorch.Error, match="not attached"):
        model.detachFromDevice()
    assert model(x) == before
    model.destroy()
    assert not model.isCompiled()
    assert model(x) == before


def test_on_demand():
    options = poptorch.Options().connectionType(poptorch.ConnectionType.OnDemand)
    model = poptorch.inferenceModel(nn.Linear(1, 1), options)
    model.compile(torch.ones(1, 1))
    assert model.isCompiled() and not model.isAttachedToDevice()
    model(torch.ones(1, 1))
    assert model.isAttachedToDevice()


def test_a_device_that_another_has(tmp_path):
    code = ("import sys, torch, poptorch\n"
            "m = poptorch.inferenceModel(torch.nn.Linear(1, 1), poptorch.Options().useIpuId(0))\n"
            "m(torch.ones(1, 1)); print('there', flush=True); sys.stdin.read()")
    os.chmod(tmp_path, 0o700)
    environment = {**os.environ, "IPU_RUNTIME_DIR": str(tmp_path)}
    other = subprocess.Popen([sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "there\n"
        taken = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True,
                               stdin=subprocess.DEVNULL)
        assert "Failed to acquire 1 IPU(s)" in taken.stderr and "is busy" in taken.stderr
    finally:
        other.communicate("")
    assert other.returncode == 0


def test_second_compile_is_ignored(caplog):
    model = poptorch.inferenceModel(nn.Linear(1, 1))
    model.compile(torch.ones(1, 1))
    model.compile(torch.ones(1, 1))
    assert "already compiled" in caplog.text


# ---- measuring and looking inside


def test_cycles_and_times():
    model = poptorch.inferenceModel(nn.Linear(4, 4), poptorch.Options().logCycleCount(True).deviceIterations(2))
    with pytest.raises(poptorch.Error, match="at least once"):
        model.cycleCount()
    assert model.getLatency() == (0.0, 0.0, 0.0)
    model(torch.ones(2, 4))
    assert model.cycleCount() > 0
    assert model.compilationTime() > datetime.timedelta(0)
    counters = model.getPerfCounters()
    assert [len(times) for times in counters["input"]] == [2]
    least, most, mean = model.getLatency()
    assert 0 < least <= mean <= most
    with pytest.raises(poptorch.Error, match="disabled"):
        poptorch.inferenceModel(nn.Linear(1, 1)).cycleCount()


def test_names_and_anchors():
    torch.manual_seed(0)
    model = Loss()
    reference = copy.deepcopy(model)
    options = poptorch.Options()
    options.anchorTensor("grad", "Gradient___linear.weight")
    options.anchorTensor("weight", "UpdatedVar___linear.weight")
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    training(x, y)
    reference(x, y)[1].backward()
    torch.testing.assert_close(training.getAnchoredTensor("grad"), reference.linear.weight.grad)
    torch.testing.assert_close(training.getAnchoredTensor("weight"),
                               (reference.linear.weight - 0.1 * reference.linear.weight.grad).detach())
    names = training.getTensorNames()
    assert "linear.weight" in names and "loss" in names and "Gradient___linear.bias" in names
    with pytest.raises(AssertionError, match="No tensor"):
        training.getAnchoredTensor("nothing")


@pytest.mark.parametrize("mode, expected", [(poptorch.OutputMode.All, [1.0, 2.0, 3.0, 4.0]),
                                            (poptorch.OutputMode.Sum, [10.0]), (poptorch.OutputMode.Final, [4.0]),
                                            (poptorch.OutputMode.EveryN, [2.0, 4.0])])
def test_anchors_have_modes_of_their_own(mode, expected):
    options = poptorch.Options().deviceIterations(4).outputMode(poptorch.OutputMode.Final)
    options.anchorTensor("x", "input/0", mode, 2)
    inference = poptorch.inferenceModel(function(lambda x: x * 10), options)
    assert inference(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [40.0]
    assert inference.getAnchoredTensor("x").tolist() == expected


def test_unknown_anchor():
    options = poptorch.Options()
    options.anchorTensor("x", "nothing of that name")
    with pytest.raises(poptorch.Error, match="There is no tensor 'nothing of that name'"):
        poptorch.inferenceModel(nn.Linear(1, 1), options)(torch.ones(1, 1))


def test_random_state_can_be_set_back():
    model = poptorch.inferenceModel(function(lambda x: x + torch.rand(3)), poptorch.Options().randomSeed(42))
    x = torch.zeros(3)
    first = model(x)
    state = model.rng_state
    second, third = model(x), model(x)
    assert state[0] == 42 and not torch.equal(first, second)
    model.rng_state = state
    assert torch.equal(model(x), second) and torch.equal(model(x), third)


def test_attributes_are_those_of_the_model():
    model = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(model)
    assert inference.in_features == 3 and "Linear(in_features=3" in repr(inference)
    with pytest.raises(AttributeError):
        inference.no_such_attribute


# ---- threads and signals


def test_threads_run_side_by_side():
    models = [nn.Linear(8, 8) for _ in range(3)]
    wrapped = [poptorch.inferenceModel(m) for m in models]
    shared = poptorch.inferenceModel(models[0])
    failures = []

    def work(i):
        for _ in range(50):
            x = torch.randn(4, 8)
            for model, inference in ((models[i], wrapped[i]), (models[0], shared)):
                if not torch.allclose(inference(x), model(x), atol=1e-5):
                    failures.append(i)

    for inference in (*wrapped, shared):
        inference.compile(torch.randn(4, 8))
    threads = [threading.Thread(target=work, args=(i, )) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


class Long(nn.Module):
    """Takes long."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(384, 384) / 20)

    def forward(self, x):
        y = self.w * x
        for _ in range(10):
            y = y @ self.w
        return y.sum()


def test_other_threads_go_on_meanwhile():
    model = poptorch.inferenceModel(Long(), poptorch.Options().deviceIterations(20))
    x = torch.ones(20, 1)
    model.compile(x)
    ticks, done, most = [], threading.Event(), 0

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(20):  # on a busy machine neither thread has a processor all the time
        begin = time.perf_counter()
        model(x)
        end = time.perf_counter()
        most = max(most, sum(begin < t < end for t in list(ticks)))
        if most >= 3:
            break
    done.set()
    thread.join()
    assert most >= 3


def test_interrupt_stops_a_run():
    n = 2000
    model = poptorch.inferenceModel(Long(), poptorch.Options().deviceIterations(n))
    x = torch.ones(n, 1)
    model.compile(x)
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    begin = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model(x)
    assert time.perf_counter() - begin < 10
    small = poptorch.inferenceModel(nn.Linear(1, 1))
    small(torch.ones(1, 1))  # goes on afterwards


def test_large_outputs_are_tensors_of_their_own():
    """The library writes them where they are given; a later run does not change them."""
    model = poptorch.inferenceModel(lambda x: (x * 2, x.sum(), x + 1))
    x = torch.arange(65536, dtype=torch.float32)
    doubled, total, more = model(x)
    again, _, _ = model(x + 1)
    assert torch.equal(doubled, x * 2) and torch.equal(more, x + 1) and torch.equal(again, (x + 1) * 2)
    assert torch.allclose(total, x.sum())
    assert again.data_ptr() != doubled.data_ptr()
