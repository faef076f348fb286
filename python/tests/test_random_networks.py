"""Networks of layers made at random, trained with random optimizers and options, against torch.

What the options mean is done here with torch alone, batch by batch: gradients are gathered over the batches of an
accumulation and of all replicas, an optimizer's step follows, and outputs are chosen by the mode.

    POPTORCH_RANDOM_NETWORKS=500 pytest test_random_networks.py        more of them
    POPTORCH_RANDOM_FIRST=5000   ...                                   others
"""
from __future__ import annotations

import copy
import os
import random
from typing import Any, Callable, Dict, List, Tuple

import pytest
import torch
from torch import nn

import poptorch

N_NETWORKS = int(os.environ.get("POPTORCH_RANDOM_NETWORKS", "8"))
FIRST = int(os.environ.get("POPTORCH_RANDOM_FIRST", "0"))
N_STEPS = 3
N_CLASSES = 3


class _First(nn.Module):
    """The first result of a layer that gives several."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


class _Attention(nn.Module):
    def __init__(self, layer: nn.Module, masked: bool) -> None:
        super().__init__()
        self.layer, self.masked = layer, masked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1] if self.layer.batch_first else x.shape[0]
        mask = torch.ones(length, length).triu(1).bool() if self.masked else None
        return x + self.layer(x, x, x, attn_mask=mask, need_weights=False)[0]


class _Call(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def _activation(r: random.Random) -> nn.Module:
    return r.choice([nn.Tanh, nn.GELU, nn.ELU, nn.SiLU, nn.Softplus, nn.PReLU, nn.LeakyReLU, nn.Sigmoid, nn.Hardswish, nn.Mish, nn.ReLU,
                     nn.SELU, nn.LogSigmoid, nn.Softsign, nn.CELU])()


def _vector_layer(r: random.Random, shape: Tuple[int, ...], norms: bool) -> nn.Module:
    n = shape[1]
    wide = r.choice([2, 4, 6])
    return r.choice([
        lambda: nn.Linear(n, wide, bias=r.random() < 0.8), lambda: nn.LayerNorm(n), lambda: nn.Dropout(0.0),
        lambda: nn.BatchNorm1d(n, momentum=r.choice([0.1, 0.3]), affine=r.random() < 0.7) if norms else nn.Identity(),
        lambda: nn.utils.weight_norm(nn.Linear(n, wide)), lambda: nn.GroupNorm(1, n), lambda: _activation(r),
        lambda: nn.Softmax(-1), lambda: _Call(lambda x: nn.functional.normalize(x + 0.5, dim=1)),
        lambda: _Call(lambda x: torch.cat([x, x.flip(1)], 1)),
    ])()


def _sequence_layer(r: random.Random, shape: Tuple[int, ...], norms: bool) -> nn.Module:
    """Of (batch, length, features)."""
    n = shape[2]
    wide = r.choice([2, 4])
    both, bias, layers = r.random() < 0.4, r.random() < 0.8, r.choice([1, 1, 2])
    heads = r.choice([h for h in (1, 2) if n % h == 0])
    return r.choice([
        lambda: _First(nn.LSTM(n, wide, layers, bias, batch_first=True, bidirectional=both)),
        lambda: _First(nn.GRU(n, wide, layers, bias, batch_first=True, bidirectional=both)),
        lambda: _First(nn.RNN(n, wide, layers, nonlinearity=r.choice(["tanh", "relu"]), bias=bias, batch_first=True, bidirectional=both)),
        lambda: _First(nn.LSTM(n, wide, proj_size=1, batch_first=True)),
        lambda: _First(nn.LSTM(n, wide)),
        lambda: _Attention(nn.MultiheadAttention(n, heads, bias=bias, batch_first=r.random() < 0.7, add_bias_kv=r.random() < 0.2), r.random() < 0.3),
        lambda: nn.TransformerEncoderLayer(n, heads, 4, dropout=0.0, batch_first=True, norm_first=both),
        lambda: nn.Linear(n, wide), lambda: nn.LayerNorm(shape[1:]), lambda: nn.LayerNorm(n, elementwise_affine=bias) if n > 1 else nn.Identity(),
        lambda: _Call(lambda x: x.transpose(1, 2)), lambda: nn.Conv1d(shape[1], wide, r.choice([1, min(2, n)]), padding=r.choice([0, 1])),
        lambda: _activation(r), lambda: nn.BatchNorm1d(shape[1]) if norms else nn.Identity(), lambda: nn.InstanceNorm1d(shape[1], affine=both) if n > 1 else nn.Identity(),
        lambda: nn.ConvTranspose1d(shape[1], wide, 2, stride=r.choice([1, 2])), lambda: nn.AvgPool1d(2, 1, padding=1),
    ])()


def _image_layer(r: random.Random, shape: Tuple[int, ...], norms: bool) -> nn.Module:
    """Of (batch, channels, height, width)."""
    c, small = shape[1], min(shape[2:])
    out = r.choice([2, 4])
    groups = r.choice([g for g in (1, 2, 4) if c % g == 0 and out % g == 0])
    kernel = r.choice([k for k in (1, 2, 3) if k <= small] or [1])
    stride, padding, bias = r.choice([1, 1, 2]), r.choice([0, 1]) if kernel > 1 else 0, r.random() < 0.8
    return r.choice([
        lambda: nn.Conv2d(c, out, kernel, stride, padding, groups=groups, bias=bias),
        lambda: nn.Conv2d(c, out, kernel, stride, padding, padding_mode=r.choice(["zeros", "reflect", "replicate", "circular"]) if small > 1 else "zeros"),
        lambda: nn.Conv2d(c, out, (kernel, 1), dilation=r.choice([1, 2]), padding="same"),
        lambda: nn.ConvTranspose2d(c, out, kernel, stride, groups=groups, bias=bias, output_padding=r.choice([0, stride - 1])),
        lambda: nn.BatchNorm2d(c, affine=bias, track_running_stats=r.random() < 0.8) if norms else nn.Identity(),
        lambda: nn.GroupNorm(r.choice([g for g in (1, 2, c) if c % g == 0]), c), lambda: nn.InstanceNorm2d(c, affine=bias) if small > 1 else nn.Identity(),
        lambda: nn.MaxPool2d(kernel, stride, padding if 2 * padding <= kernel else 0, ceil_mode=r.random() < 0.3),
        lambda: nn.AvgPool2d(kernel, stride, padding if 2 * padding <= kernel else 0, ceil_mode=r.random() < 0.3, count_include_pad=bias),
        lambda: nn.AdaptiveAvgPool2d(r.choice([1, 2, (2, 1)])), lambda: nn.Upsample(scale_factor=2, mode=r.choice(["nearest", "bilinear"])),
        lambda: _activation(r), lambda: nn.PReLU(c), lambda: nn.Dropout2d(0.0), lambda: nn.ZeroPad2d(1), lambda: nn.LocalResponseNorm(2),
        lambda: nn.PixelShuffle(2) if c % 4 == 0 else nn.Identity(), lambda: _Call(lambda x: x + x.mean((2, 3), keepdim=True)), lambda: nn.Softmax2d(),
    ])()


class Network(nn.Module):
    """Layers for an input of one kind, a last one that gives classes, and a loss."""

    def __init__(self, r: random.Random, norms: bool) -> None:
        super().__init__()
        self.kind = r.choice(["vector", "sequence", "image", "tokens"])
        shape = {"vector": (5, ), "sequence": (4, 2), "image": (r.choice([1, 2, 4]), 5, 6), "tokens": (4, )}[self.kind]
        self.shape = shape
        layers: List[nn.Module] = []
        if self.kind == "tokens":
            layers.append(nn.Embedding(7, 4, padding_idx=r.choice([None, 0]), scale_grad_by_freq=False))
        makers = {2: _vector_layer, 3: _sequence_layer, 4: _image_layer}
        x = self.example(2)
        for layer in layers:
            x = layer(x)
        for _ in range(r.randrange(2, 6)):
            layer = makers[x.dim()](r, tuple(x.shape), norms)
            try:
                y = copy.deepcopy(layer)(x)
            except (RuntimeError, ValueError):
                continue
            if y.numel() > 1000 or 0 in y.shape:
                continue
            x = y.detach()
            layers.append(layer)
        self.layers = nn.Sequential(*layers)
        self.last = nn.Linear(x.flatten(1).shape[1], N_CLASSES)
        self.loss = r.choice([nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum", label_smoothing=0.1), "mse", "nll"])

    def example(self, n: int) -> torch.Tensor:
        return torch.randint(7, (n, *self.shape)) if self.kind == "tokens" else torch.randn(n, *self.shape)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        y = self.last(self.layers(x).flatten(1))
        if self.loss == "mse":
            return y, nn.functional.mse_loss(y, nn.functional.one_hot(target.long(), N_CLASSES).to(y.dtype))
        if self.loss == "nll":
            return y, nn.functional.nll_loss(y.log_softmax(1), target)
        return y, self.loss(y, target)


def _optimizer(r: random.Random) -> Tuple[str, Dict[str, Any], List[Dict[str, Any]]]:
    """Class, its arguments, and what one or two groups of parameters have of their own."""
    decay = r.choice([0.0, 0.1])
    name, arguments = r.choice([
        ("SGD", lambda: dict(momentum=r.choice([0.0, 0.9]), weight_decay=decay, dampening=0.0)),
        ("SGD", lambda: dict(momentum=0.8, nesterov=True, weight_decay=decay)),
        ("SGD", lambda: dict(momentum=0.5, dampening=0.2, weight_decay=decay)),
        ("Adam", lambda: dict(betas=(0.8, 0.95), eps=1e-2, weight_decay=decay)),
        ("AdamW", lambda: dict(eps=1e-2, weight_decay=decay)),
        ("RMSprop", lambda: dict(alpha=0.9, eps=1e-2, weight_decay=decay, momentum=r.choice([0.0, 0.5]), centered=r.random() < 0.5)),
    ])
    groups: List[Dict[str, Any]] = [{}]
    if r.random() < 0.6:
        groups.append(r.choice([{"lr": 0.002}, {"lr": 0.03, "weight_decay": 0.05}, {"weight_decay": 0.2}]))
    return name, {"lr": r.choice([0.01, 0.05]), **arguments()}, groups


def _made(module: Any, model: nn.Module, settings: Tuple) -> torch.optim.Optimizer:
    name, arguments, groups = settings
    parameters = list(model.parameters())
    parts = [parameters] if len(groups) == 1 else [parameters[:len(parameters) // 2], parameters[len(parameters) // 2:]]
    return getattr(module, name)([{"params": part, **own} for part, own in zip(parts, groups)], **arguments)


class Setting:
    """Options at random, and what they mean."""

    def __init__(self, r: random.Random) -> None:
        self.iterations, self.accumulation, self.replicas = r.choice([1, 1, 2, 3]), r.choice([1, 1, 2, 3]), r.choice([1, 1, 2, 4])
        self.mean = r.random() < 0.7
        self.n = self.iterations * self.accumulation * self.replicas
        self.mode = r.choice(["All", "Final", "Sum", "EveryN", "Default"])
        self.period = r.choice([p for p in range(1, self.n + 1) if self.n % p == 0])
        self.running = r.random() < 0.3

    def options(self) -> poptorch.Options:
        options = poptorch.Options().deviceIterations(self.iterations).replicationFactor(self.replicas)
        options.Training.gradientAccumulation(self.accumulation)
        kind = poptorch.ReductionType.Mean if self.mean else poptorch.ReductionType.Sum
        options.Training.accumulationAndReplicationReductionType(kind)
        if self.running and self.mean:
            options.Training.setMeanAccumulationAndReplicationReductionStrategy(poptorch.MeanReductionStrategy.Running)
        if self.mode == "EveryN":
            options.outputMode(poptorch.OutputMode.EveryN, self.period)
        elif self.mode != "Default":
            options.outputMode(getattr(poptorch.OutputMode, self.mode))
        return options

    def chosen(self, batches: List[torch.Tensor]) -> torch.Tensor:
        """What the caller is given of the outputs of all batches."""
        if self.mode == "All":
            kept = batches
        elif self.mode == "EveryN":
            kept = batches[self.period - 1::self.period]
        elif self.mode == "Sum":
            kept = [sum(batches[i::self.replicas]) for i in range(self.replicas)]
        else:
            kept = batches[-self.replicas:]
        if batches[0].dim() == 0:
            return kept[0] if len(kept) == 1 else torch.stack(kept)
        return torch.cat(kept)

    def train(self, model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, target: torch.Tensor) -> List[torch.Tensor]:
        """One call of a training model."""
        found: List[Tuple[torch.Tensor, torch.Tensor]] = []
        xs, targets = x.chunk(self.n), target.chunk(self.n)
        for _ in range(self.iterations):
            optimizer.zero_grad()
            for _ in range(self.accumulation * self.replicas):
                y, loss = model(xs[len(found)], targets[len(found)])
                (loss / (self.accumulation * self.replicas) if self.mean else loss).backward()
                found.append((y.detach(), loss.detach()))
            optimizer.step()
        return [self.chosen([y for y, _ in found]), self.chosen([loss for _, loss in found])]


def _assert_close(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    assert tuple(found.shape) == tuple(expected.shape), f"{what}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    torch.testing.assert_close(found.detach().double(), expected.detach().double(), rtol=2e-3, atol=2e-4,
                               msg=lambda m: f"{what}: {m}")


def check(seed: int) -> None:
    """Three calls of a training model, then one of an inference model on what it has learned."""
    r = random.Random(seed)
    torch.manual_seed(seed)
    setting = Setting(r)
    host = Network(r, norms=setting.replicas == 1)
    device = copy.deepcopy(host)
    settings = _optimizer(r)
    optimizer = _made(torch.optim, host, settings)
    theirs = _made(r.choice([torch.optim, poptorch.optim]), device, settings)
    model = poptorch.trainingModel(device, setting.options(), theirs)
    size = r.choice([2, 3])
    for step in range(N_STEPS):
        x, target = host.example(size * setting.n), torch.randint(N_CLASSES, (size * setting.n, ))
        found = model(x, target)
        for what, a, b in zip(("output", "loss"), found, setting.train(host, optimizer, x, target)):
            _assert_close(a, b, f"{what} of step {step}")
    state = device.state_dict()
    for name, value in host.state_dict().items():
        _assert_close(state[name], value, name)
    host.eval()
    tested = poptorch.inferenceModel(device.eval(), poptorch.Options().deviceIterations(2))
    x, target = host.example(2 * size), torch.randint(N_CLASSES, (2 * size, ))
    expected = [host(*batch)[0] for batch in zip(x.chunk(2), target.chunk(2))]
    _assert_close(tested(x, target)[0], torch.cat(expected), "output of inference")
    model.destroy()
    tested.destroy()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + N_NETWORKS))
def test_training(seed):
    check(seed)


class _Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        self.register_buffer("scale", torch.tensor([1.5, 0.5]))

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        y = self.layers(x) * self.scale
        return y, nn.functional.mse_loss(y, x[:, :2])


class _Calls:
    """Calls of executors in any order, each done to a model of torch's as well."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        torch.manual_seed(seed)
        self.host, self.momentum = _Small(), self.r.choice([0.0, 0.9])
        self.device = copy.deepcopy(self.host)
        self.optimizer = torch.optim.SGD(self.host.parameters(), lr=0.1, momentum=self.momentum)
        module = self.r.choice([torch.optim, poptorch.optim])
        self.theirs = module.SGD(self.device.parameters(), lr=0.1, momentum=self.momentum)
        self.trained = poptorch.trainingModel(self.device, optimizer=self.theirs)
        self.tested = [poptorch.inferenceModel(self.device), poptorch.inferenceModel(self.trained)]

    def train(self) -> None:
        for _ in range(self.r.choice([1, 3])):
            x = torch.randn(4, 3)
            self.optimizer.zero_grad()
            y, loss = self.host(x)
            loss.backward()
            _assert_close(self.trained(x)[0], y, "output")
            self.optimizer.step()

    def test(self) -> None:
        x = torch.randn(2, 3)
        _assert_close(self.r.choice(self.tested)(x)[0], self.host(x)[0], "output of inference")

    def read(self) -> None:
        state = self.r.choice([self.device.state_dict, self.trained.state_dict, copy.deepcopy(self.device).state_dict,
                               lambda: dict(self.device.named_parameters())])()
        for name, value in self.host.named_parameters():
            _assert_close(state[name], value, name)
        _assert_close(self.device.layers[0].weight * 2, self.host.layers[0].weight * 2, "weight")

    def change(self) -> None:
        for model in (self.host, self.device):
            with torch.no_grad():
                model.layers[0].weight.mul_(0.5)
                model.layers[2].bias.data = torch.full((2, ), 0.25)
                model.scale.add_(0.125)
        if self.trained.isCompiled():
            self.trained.copyWeightsToDevice()
        for tested in self.tested:
            if tested.isCompiled():
                tested.copyWeightsToDevice()

    def load(self) -> None:
        state = {name: value.clone() * 0.9 for name, value in self.host.state_dict().items()}
        self.host.load_state_dict(state)
        self.trained.load_state_dict(state)
        for tested in self.tested:
            if tested.isCompiled():
                tested.copyWeightsToDevice()

    def detach(self) -> None:
        for executor in (self.trained, *self.tested):
            if executor.isAttachedToDevice() and self.r.random() < 0.5:
                executor.detachFromDevice()
                if self.r.random() < 0.5:
                    executor.attachToDevice()

    def rate(self) -> None:
        rate = self.r.choice([0.05, 0.2])
        for optimizer in (self.optimizer, self.theirs):
            optimizer.param_groups[0]["lr"] = rate
        self.trained.setOptimizer(self.theirs)

    def destroy(self) -> None:
        if self.momentum == 0.0:
            self.r.choice([self.trained, *self.tested]).destroy()

    def run(self) -> None:
        for _ in range(14):
            self.r.choice([self.train, self.train, self.test, self.test, self.read, self.change, self.load, self.detach, self.rate,
                           self.destroy])()
        self.read()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + N_NETWORKS))
def test_calls_in_any_order(seed):
    calls = _Calls(seed)
    calls.run()
    calls.trained.destroy()
