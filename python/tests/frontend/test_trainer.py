"""openipu.trainer: a training from numpy arrays and from files, what it tells, exceptions and Ctrl-C in it, going on, logs."""

from __future__ import annotations

import csv
import gc
import math
import os
import signal
import struct
import threading
import weakref

import numpy as np
import openipu
import pytest
from openipu.arrays import numpy_over
from openipu.dataset import Dataset
from openipu.executor import Executor, Module
from openipu.library import Array, array_of
from openipu.settings import (Begin, ExecutorOptions, LoaderOptions, Optimizer, OptimizerKind, Part, RateSchedule, ScheduleKind, Training,
                              TrainerOptions)
from openipu.trainer import Events, Trainer

N, N_TEST, BATCH, FEATURES, CLASSES = 44, 10, 4, 6, 3
RUNS = N // BATCH


def linear(net, x, n_out, name):
    w = net.parameter(f"{name}.weight", "float", (x.shape[1], n_out), NOISE[name].ctypes.data)
    b = net.parameter(f"{name}.bias", "float", (n_out, ))
    return net.emit("add", [net.emit("matmul", [x, w]), b])


NOISE = {name: np.random.default_rng(seed).normal(size=64).astype(np.float32) * 0.3
         for seed, name in enumerate(("a", "b", "r"))}


def classify(net, inputs):
    x = net.emit("tanh", [linear(net, inputs[0], 8, "a")])
    scores = net.emit("log_softmax", [linear(net, x, CLASSES, "b")], axis=1)
    net.output(scores, "scores")
    if net.training:
        net.loss(net.emit("nll_loss", [scores, inputs[1]]), "loss")


def regress(net, inputs):
    y = linear(net, inputs[0], 2, "r")
    net.output(y, "y")
    if len(inputs) > 1:
        net.loss(net.emit("mse_loss", [y, inputs[1]], reduction="mean"), "loss")


def samples(n, seed):
    labels = np.arange(n, dtype=np.int32) % CLASSES
    x = np.random.default_rng(seed).random((n, FEATURES), np.float32) / 2
    x[np.arange(n), labels] += 0.75
    return {"x": x, "y": labels}


def options(**more):
    more.setdefault("n_epochs", 3)
    return TrainerOptions(executor=ExecutorOptions(engine={"threads": "1"}),
                          training=Training(Optimizer(OptimizerKind.ADAM, rate=0.05)),
                          loader=LoaderOptions(batch_size=BATCH, shuffle=True, seed=5), **more)


def trainer(events=None, forward=classify, **more):
    data, test = (Dataset.from_arrays(samples(n, seed)) for n, seed in ((N, 1), (N_TEST, 2)))
    return Trainer(Module(forward, ["x", "y"]), data, test, options(**more), events)


def weights(found):
    return {name: numpy_over(found.module.weight(name)).copy() for name in found.module.weight_names()}


def same(a, b):
    return a.keys() == b.keys() and all((a[name] == b[name]).all() for name in a)


class Story(Events):
    """Notes what it is told."""

    def __init__(self):
        self.calls, self.steps, self.epochs, self.texts, self.paths = [], [], [], [], []

    def compiled(self):
        self.calls.append("compiled")

    def step(self, step):
        self.steps.append(step)

    def testing(self, test):
        assert 0 <= test.batch < test.n_batches == math.ceil(N_TEST / BATCH)

    def epoch(self, i, epoch):
        self.epochs.append((i, epoch))

    def checkpoint(self, path):
        self.paths.append(path)

    def message(self, level, text):
        self.texts.append(text)


def test_a_whole_training():
    story = Story()
    found = trainer(story, schedule=RateSchedule(ScheduleKind.COSINE))
    results = found.run()
    assert story.calls == ["compiled"] and story.texts == [] and story.paths == []
    assert [(s.epoch, s.batch) for s in story.steps] == [(i // RUNS, i % RUNS) for i in range(3 * RUNS)]
    assert story.steps[0].rate == 0.05 > story.steps[1].rate > story.steps[-1].rate > 0
    assert [i for i, _ in story.epochs] == [0, 1, 2]
    assert len(results.epochs) == 3 and results.runs == 3 * RUNS and results.runs_per_epoch == RUNS
    for (_, told), epoch in zip(story.epochs, results.epochs):
        assert (told.loss, told.test_loss, told.test_accuracy) == (epoch.loss, epoch.test_loss, epoch.test_accuracy)
    assert results.epochs[2].test_loss < results.epochs[0].test_loss and results.epochs[2].test_accuracy > 0.8
    assert results.points == [s.loss for s in story.steps]
    assert (results.resumed_from, results.last_saved, results.has_diverged) == (-1, -1, False)
    assert found.run().runs == 3 * RUNS  # finished


def test_rates_fall_at_milestones():
    story = Story()
    trainer(story, n_epochs=1, schedule=RateSchedule(ScheduleKind.MILESTONES, gamma=0.5, milestones=[0.5, 0.75])).run()
    assert RUNS == 11 and [s.rate for s in story.steps] == [0.05] * 6 + [0.025] * 3 + [0.0125] * 2


def test_what_is_trained_is_in_the_module():
    found = trainer()
    found.run()
    test = samples(N_TEST, 2)
    executor = Executor(found.module)
    x = test["x"]
    executor.run((Array * 1)(array_of("float", x.shape, x.ctypes.data)), 1)
    best = numpy_over(dict(executor.outputs())["scores"]).argmax(1)
    assert (best == test["y"]).mean() == found.results().epochs[-1].test_accuracy


def test_idx_files(tmp_path):
    rng = np.random.default_rng(1)
    for name, n in (("train", 64), ("t10k", 16)):
        labels = np.arange(n, dtype=np.uint8) % 10
        pictures = rng.integers(0, 50, (n, 28, 28), np.uint8)
        pictures[np.arange(n), labels * 2] = 250  # a line, and where it is says the class
        (tmp_path / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, n, 28, 28) + pictures.tobytes())
        (tmp_path / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, n) + labels.tobytes())
    train, test = (Dataset.open(tmp_path, part, mean=0.1307, std=0.3081) for part in Part)
    assert (train.kind(), len(train), len(test), train.n_fields(), train.n_classes()) == ("IDX files", 64, 16, 2, 10)

    def forward(net, inputs):
        flat = net.emit("reshape", [inputs[0]], shape=[-1, 784])
        w = net.parameter("w", "float", (784, 10))
        scores = net.emit("log_softmax", [net.emit("matmul", [flat, w])], axis=1)
        net.output(scores, "scores")
        if net.training:
            net.loss(net.emit("nll_loss", [scores, inputs[1]]), "loss")

    results = Trainer(Module(forward, ["x", "y"]), train, test, options(n_epochs=4)).run()
    assert results.epochs[3].test_accuracy > 0.6 and results.epochs[3].loss < results.epochs[0].loss


def test_regression_and_metrics():
    x = np.random.default_rng(3).random((N, FEATURES), np.float32)
    y = np.stack([x.sum(1), x[:, 0]], 1)
    data, test = Dataset.from_arrays({"x": x, "y": y}), Dataset.from_arrays({"x": x[:N_TEST], "y": y[:N_TEST]})
    results = Trainer(Module(regress, ["x", "target"]), data, test, options()).run()
    assert math.isnan(results.epochs[2].test_accuracy) and results.epochs[2].test_loss < results.epochs[0].test_loss
    seen = []

    def error(outputs, fields, n):
        seen.append(n)
        assert outputs["y"].shape == (n, 2) and fields[0].shape == (n, FEATURES)
        return np.abs(outputs["y"] - fields[1])[:n].sum()

    found = Trainer(Module(regress, ["x", "target"]), data, test, options(metric=error))
    results = found.run()
    assert seen[:RUNS + 3] == [BATCH] * RUNS + [4, 4, 2]
    w = weights(found)
    told = np.abs(x[:N_TEST] @ w["r.weight"] + w["r.bias"] - y[:N_TEST]).sum() / N_TEST
    assert results.epochs[2].test_accuracy == pytest.approx(told, rel=1e-4)


def test_rates_of_ones_own():
    story = Story()
    found = trainer(story, rate=lambda run, n_runs: 0.1 / (1 + len(found.results().epochs)) * (1 - run / n_runs))
    found.run()
    assert [s.rate for s in story.steps] == [0.1 / (1 + i // RUNS) * (1 - i / (3 * RUNS)) for i in range(3 * RUNS)]


# ---- stopped, and gone on with


class Bang(Exception):
    pass


class Raises(Events):
    """Raises in one of its methods."""

    def __init__(self, method, at=1):
        self.left = at
        setattr(self, method, self._raise)

    def _raise(self, *_):
        self.left -= 1
        if self.left == 0:
            raise Bang("from an event")


@pytest.mark.parametrize("method", ["compiled", "step", "testing", "epoch", "checkpoint"])
def test_what_an_event_raises(method, tmp_path):
    whole = trainer()
    whole.run()
    found = trainer(Raises(method), checkpoint_folder=str(tmp_path / "c"))
    with pytest.raises(Bang, match="from an event"):
        found.run()
    assert found.results().runs < 3 * RUNS
    found.run()  # it goes on
    assert found.results().runs == 3 * RUNS and same(weights(found), weights(whole))


def test_what_a_message_raises(tmp_path):

    class Loud(Events):
        def message(self, level, text):
            raise Bang(text)

    with pytest.raises(Bang, match="no checkpoint in .*: from the beginning"):
        trainer(Loud(), checkpoint_folder=str(tmp_path / "c"), begin=Begin.RESUME).run()


@pytest.mark.parametrize("name", ["rate", "metric"])
def test_what_a_function_raises(name):

    def bang(*_):
        raise Bang("from a function")

    found = trainer(**{name: bang})
    with pytest.raises(Bang, match="from a function"):
        found.run()
    assert found.results().runs <= 1


def test_what_forward_raises():

    def forward(net, inputs):
        raise Bang("while it is built")

    with pytest.raises(Bang, match="while it is built"):
        trainer(forward=forward).run()


class CtrlC(Events):
    """As if Ctrl-C had been pressed in the middle of a run."""

    def __init__(self, at):
        self.at = at

    def step(self, step):
        if step.epoch * RUNS + step.batch == self.at:
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    whole = trainer()
    whole.run()
    found = trainer(CtrlC(RUNS + 2), checkpoint_folder=str(tmp_path / "c"))
    with pytest.raises(KeyboardInterrupt):
        found.run()
    assert signal.getsignal(signal.SIGINT) is before
    assert found.results().last_saved == RUNS + 3
    found.close()
    found = trainer(checkpoint_folder=str(tmp_path / "c"), begin=Begin.RESUME)
    results = found.run()
    assert results.resumed_from == RUNS + 3 and len(results.epochs) == 3 and same(weights(found), weights(whole))


def test_ctrl_c_from_outside():
    """It comes at any moment, mostly while the library computes; there are no events."""
    found = trainer(n_epochs=1000000)
    pressed = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        found.run()
    pressed.join()
    assert 0 < found.results().runs < 1000000 * RUNS


def test_interrupt_and_stop():

    class Ends(Events):
        def __init__(self, what, at):
            self.what, self.at = what, at

        def step(self, step):
            if step.epoch * RUNS + step.batch == self.at:
                getattr(found, self.what)()

    found = trainer(Ends("interrupt", 3))
    with pytest.raises(openipu.Error, match="stopped after run 4; nothing is kept") as caught:
        found.run()
    assert caught.value.status == "INTERRUPTED"
    found = trainer(Ends("stop", RUNS + 3))
    assert len(found.run().epochs) == 2


# ---- files, misuse, memory


def test_logs_and_checkpoints(tmp_path):
    story = Story()
    found = trainer(story, log_folder=tmp_path / "log", log_weights=True, checkpoint_folder=str(tmp_path / "c"), model="small",
                    settings={"notes": "none"})
    results = found.run()
    with open(tmp_path / "log" / "steps.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == pytest.approx(results.points)
    assert len(list((tmp_path / "log").glob("events.out.tfevents.*"))) == 1
    assert story.paths[-1].endswith("000033.npz") and os.path.exists(story.paths[-1])
    found.save_checkpoint()
    assert len(story.paths) == 3
    with pytest.raises(openipu.Error, match="another process is writing to it"):
        trainer(log_folder=tmp_path / "log").run()
    found.close()
    with pytest.raises(openipu.Error, match="holds the log of an earlier training"):
        trainer(log_folder=tmp_path / "log").run()
    with pytest.raises(openipu.Error, match="\"notes\" is \"none\" in the checkpoint, and \"some\" now"):
        trainer(checkpoint_folder=str(tmp_path / "c"), begin=Begin.RESUME, settings={"notes": "some"}).run()


def test_misuse():
    data = Dataset.from_arrays(samples(N, 1))
    with pytest.raises(openipu.Error, match="full batches only"):
        Trainer(Module(classify), data, None, TrainerOptions(loader=LoaderOptions(keep_last=True)))
    with pytest.raises(openipu.Error, match="tensors of complex128 are not supported"):
        Dataset.from_arrays({"x": np.zeros(3, complex)})
    with pytest.raises(openipu.Error) as caught:
        Dataset.from_arrays({"x": np.zeros(3, np.float32), "y": np.zeros(4, np.float32)})
    assert caught.value.status == "INVALID"
    with pytest.raises(openipu.Error) as caught:
        Dataset.open("nowhere")
    assert caught.value.status in ("NOT_FOUND", "IO")
    data.close()
    with pytest.raises(openipu.Error, match="this dataset was closed"):
        len(data)
    found = trainer()
    found.close()
    with pytest.raises(openipu.Error, match="this trainer was closed"):
        found.run()
    found.interrupt()
    found.stop()


def test_one_that_cannot_be_made_leaves_its_parts():
    module, data = Module(classify, ["x", "y"]), Dataset.from_arrays(samples(N, 1))
    with pytest.raises(TypeError, match="not JSON serializable"):
        Trainer(module, data, None, options(settings={"notes": object()}))
    gc.collect()
    assert data.handle.pointer and module.handle.pointer and len(data) == N
    assert Trainer(module, data, None, options(n_epochs=1)).run().runs == RUNS


def test_parts_may_be_closed_first():
    """What a trainer uses lives as long as it does, and it is freed without a collector of cycles."""
    x = samples(N, 1)
    module, data = Module(classify, ["x", "y"]), Dataset.from_arrays(x)
    found = Trainer(module, data, None, options(n_epochs=1))
    gone = weakref.ref(x["x"])
    del x
    data.close()
    module.close()
    assert found.run().runs == RUNS and gone() is not None
    gc.disable()
    try:
        freed = weakref.ref(found)
        del found, data
        assert freed() is None and gone() is None
    finally:
        gc.enable()
