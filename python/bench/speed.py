"""How quick captured models are, beside torch in the same process.

    python3 python/bench/speed.py [seed] [overhead] [first]
    python3 python/bench/speed.py --work ROW

Prints, each with its bar: steps of training of a small convolutional network at batch 16, one a call and 20 a call,
against torch's own (eager) steps; what a call costs beyond its work; and how long first calls take.

With --work it serves bench/turns.py: it makes the first call of ROW, prints its seconds, and for each line "time N" that
it reads the seconds that one of N further calls takes.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple

if "avx512vl" in Path("/proc/cpuinfo").read_text():
    os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")  # it takes newer CPUs for much older ones

import torch
from torch import nn

import poptorch

BATCH = 16


class SmallCnn(nn.Module):
    """A classifier of images of 28 by 28, as courses on the IPU have it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 5, 3)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(5, 12, 5)
        self.norm = nn.GroupNorm(3, 12)
        self.fc1 = nn.Linear(972, 100)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(100, 10)
        self.log_softmax = nn.LogSoftmax(dim=1)
        self.loss = nn.NLLLoss()

    def forward(self, x, labels=None):
        x = self.pool(self.relu(self.conv1(x)))
        x = self.norm(self.relu(self.conv2(x)))
        x = torch.flatten(x, start_dim=1)
        x = self.relu(self.fc1(x))
        x = self.log_softmax(self.fc2(x))
        return (x, self.loss(x, labels)) if self.training else x


class Encoder(nn.Module):
    """An encoder of the size of BERT base, with a classifier."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 12, words: int = 30522) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(512, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, activation="gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, 2)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, tokens, labels):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        y = self.head(self.layers(x)[:, 0])
        return y, self.loss(y, labels)


def microseconds(steps: Sequence[Callable[[], object]], rounds: int = 7, seconds: float = 0.25) -> List[float]:
    """What a call of each takes: the best of the medians of rounds, in which they take turns."""
    best = [float("inf")] * len(steps)
    for _ in range(rounds):
        for i, step in enumerate(steps):
            best[i] = min(best[i], _median(step, seconds))
    return best


def _median(step: Callable[[], object], seconds: float) -> float:
    step()
    times: List[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def report(what: str, value: float, unit: str, bar: float, at_least: bool = False) -> None:
    """A line with the value, its bar and whether it is met."""
    met = value >= bar if at_least else value <= bar
    sign = ">=" if at_least else "<="
    print(f"{what:58} {value:10.2f} {unit:3} {sign} {bar:g} {'' if met else '  MISSED'}", flush=True)


def quiet() -> poptorch.Options:
    """Options without a progress bar."""
    return poptorch.Options().showCompilationProgressBar(False)


def batch_of(n: int) -> tuple:
    return torch.randn(n, 1, 28, 28), torch.randint(0, 10, (n, ))


def torch_step(threads: int) -> Callable[[], None]:
    """A step of training by torch itself."""
    model = SmallCnn().train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    x, labels = batch_of(BATCH)

    def step() -> None:
        torch.set_num_threads(threads)
        optimizer.zero_grad()
        model(x, labels)[1].backward()
        optimizer.step()

    return step


def poptorch_step(iterations: int) -> Callable[[], object]:
    """A call that is so many steps."""
    model = SmallCnn().train()
    options = quiet().deviceIterations(iterations)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    trained = poptorch.trainingModel(model, options, optimizer)
    x, labels = batch_of(BATCH * iterations)
    return lambda: trained(x, labels)


def seed() -> None:
    """Training steps of the small network."""
    steps = [torch_step(1), torch_step(torch.get_num_threads()), poptorch_step(1), poptorch_step(20)]
    alone, eager, one, many = microseconds(steps)
    eager, many = min(alone, eager), many / 20
    print(f"small CNN, batch {BATCH}: torch {eager:.0f} us, poptorch {one:.0f} us, 20 a call {many:.0f} us a step")
    report("times torch's speed, a step a call", eager / one, "x", 4, at_least=True)
    report("times torch's speed, 20 steps a call", eager / many, "x", 6, at_least=True)


def overhead() -> None:
    """A call that has next to no work."""
    model = poptorch.inferenceModel(_AddOne(), quiet())
    x = torch.zeros(1)
    report("a call of x + 1", microseconds([lambda: model(x)])[0], "us", 60)


class _AddOne(nn.Module):

    def forward(self, x):
        return x + 1


def trained_model(model: nn.Module) -> poptorch.PoplarExecutor:
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    return poptorch.trainingModel(model, quiet(), optimizer)


def first_call(what: str, model: nn.Module, inputs: tuple, bar: float) -> None:
    """Capture, compilation, upload of weights and one run."""
    trained = trained_model(model)
    begin = time.perf_counter()
    trained(*inputs)
    report(f"first call of {what}, with one step of training", (time.perf_counter() - begin) * 1e3, "ms", bar)
    trained.destroy()


class _Classified(nn.Module):

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.loss = nn.CrossEntropyLoss()

    def forward(self, x, labels):
        y = self.inner(x)
        return y, self.loss(y, labels)


def small_cnn() -> Tuple[nn.Module, tuple]:
    """A network and a batch for it, as all of these."""
    return SmallCnn().train(), batch_of(BATCH)


def resnet18() -> Tuple[nn.Module, tuple]:
    import torchvision
    return _Classified(torchvision.models.resnet18()), (torch.randn(1, 3, 224, 224), torch.zeros(1, dtype=torch.int64))


def encoder() -> Tuple[nn.Module, tuple]:
    return Encoder(), (torch.randint(0, 30522, (1, 128)), torch.zeros(1, dtype=torch.int64))


def first() -> None:
    """First calls of three networks."""
    first_call("the small CNN", *small_cnn(), 300)
    first_call("ResNet-18", *resnet18(), 1500)
    first_call("an encoder like BERT base", *encoder(), 4000)


def _add_one() -> Callable[[], object]:
    model = poptorch.inferenceModel(_AddOne(), quiet())
    x = torch.zeros(1)
    return lambda: model(x)


def _one_step(network: Callable[[], Tuple[nn.Module, tuple]]) -> Callable[[], object]:
    model, inputs = network()
    trained = trained_model(model)
    return lambda: trained(*inputs)


ROWS: Dict[str, Callable[[], Callable[[], object]]] = {
    "add-one": _add_one,
    "small-cnn": lambda: poptorch_step(1),
    "small-cnn-20": lambda: poptorch_step(20),
    "resnet18": lambda: _one_step(resnet18),
    "encoder": lambda: _one_step(encoder),
}


def work(row: str) -> None:
    """What bench/turns.py asks for."""
    call = ROWS[row]()
    begin = time.perf_counter()
    call()
    print("compiled", time.perf_counter() - begin, flush=True)
    for line in sys.stdin:
        n = int(line.split()[1])
        begin = time.perf_counter()
        for _ in range(n):
            call()
        print((time.perf_counter() - begin) / n, flush=True)


PARTS = {"seed": seed, "overhead": overhead, "first": first}


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--work":
        if sys.argv[2] not in ROWS:
            sys.exit(f"speed.py: no row {sys.argv[2]!r}; there are: {', '.join(ROWS)}")
        work(sys.argv[2])
        return
    chosen = sys.argv[1:] or list(PARTS)
    for name in chosen:
        if name not in PARTS:
            sys.exit(f"speed.py: no part {name!r}; there are: {', '.join(PARTS)}")
        PARTS[name]()


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that goes away ends it without a traceback
    main()
