"""What a call of a compiled model costs beside the computation: microseconds of the processor, best of several.

    PYTHONPATH=python python3 python/bench/call.py
"""

from __future__ import annotations

import signal
import time
from typing import Callable

import torch
from torch import nn

import poptorch


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        out = self.linear(x)
        return out, nn.functional.mse_loss(out, y)


def best(call: Callable[[], object], n: int = 2000, rounds: int = 7) -> float:
    """Microseconds of a call."""
    call()
    found = []
    for _ in range(rounds):
        begin = time.process_time()
        for _ in range(n):
            call()
        found.append((time.process_time() - begin) / n * 1e6)
    return min(found)


def main() -> None:
    torch.set_num_threads(1)
    x, y = torch.randn(4, 3), torch.randn(4, 2)
    linear = nn.Linear(3, 2)
    inference = poptorch.inferenceModel(linear)
    named = poptorch.inferenceModel(linear)
    nested = poptorch.inferenceModel(lambda pair, scale: {"sum": [pair[0] * scale + pair[1]]})
    training = poptorch.trainingModel(Loss())
    with torch.no_grad():
        rows = [("torch: a linear layer", lambda: linear(x)), ("inference", lambda: inference(x)),
                ("inference, argument by name", lambda: named(input=x)),
                ("inference, nested arguments and results", lambda: nested((x, x), scale=2)),
                ("a step of training", lambda: training(x, y))]
        for name, call in rows:
            print(f"{name:42} {best(call):7.1f} us")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that goes away ends it without a traceback
    main()
