"""Several processes that train one model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from torch import nn

import openipu
import poptorch

PLUGIN = "libipu-mpi.so"


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.norm = nn.LayerNorm(2)

    def forward(self, x, y):
        out = self.norm(self.linear(x))
        return out, nn.functional.mse_loss(out, y)


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 8, 3, generator=generator), torch.randn(3, 8, 2, generator=generator)


def train(options, part, seed):
    torch.manual_seed(seed)
    model = Loss()
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    losses = [training(x[part], y[part])[1] for x, y in zip(*data())]
    return model.state_dict(), torch.stack(losses)


def child(folder):
    """What each process does: half of the data, and another seed but for the first."""
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    rank = options.Distributed.processId
    assert options.Distributed.numProcesses == 2
    torch.save(train(options, slice(4 * rank, 4 * rank + 4), seed=10 * rank), os.path.join(folder, f"{rank}.pt"))


def plugin_folder():
    """Where the part of the library is that speaks MPI; None: it is not there."""
    own = Path(openipu.lib()._name).resolve().parent
    build = Path(__file__).resolve().parents[2] / "build" / "src"
    return next((str(folder) for folder in (own, build) if (folder / PLUGIN).exists()), None)


def run_two(call):
    """Two processes that each call a function of this file."""
    here = str(Path(__file__).resolve().parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, str(Path(here).parent)]),
                   "IPU_COMM_PATH": plugin_folder(), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["mpirun", "--mca", "plm", "isolated", "--mca", "mpi_yield_when_idle", "1", "--oversubscribe",
               "-n", "2", sys.executable, "-c", f"import test_distributed; test_distributed.{call}"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)


def misled(what):
    """What process 1 does otherwise."""
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    own = what if options.Distributed.processId == 1 else ""
    model = Loss()
    if own == "model":
        model.linear = nn.Linear(3, 2, bias=False)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    for x, y in list(zip(*data()))[:1 if own == "fewer" else None]:
        training(x, y)


@pytest.mark.skipif(not shutil.which("mpirun") or plugin_folder() is None, reason="needs Open MPI")
@pytest.mark.parametrize("what, expected", [
    ("model", "rank 1 was started with a number of weights of 3, rank 0 with 4"),
    ("fewer", "rank 1 has left the group while rank 0 waits for it"),
])
def test_processes_that_differ_are_told(what, expected):
    done = run_two(f"misled({what!r})")
    assert done.returncode != 0
    assert expected in done.stderr, done.stderr[-3000:]


@pytest.mark.skipif(not shutil.which("mpirun") or plugin_folder() is None, reason="needs Open MPI")
def test_two_processes_train_as_two_replicas():
    with tempfile.TemporaryDirectory() as folder:
        done = run_two(f"child({folder!r})")
        assert done.returncode == 0, done.stderr[-3000:]
        found = [torch.load(os.path.join(folder, f"{rank}.pt")) for rank in (0, 1)]
    options = poptorch.Options().replicationFactor(2).outputMode(poptorch.OutputMode.All)
    expected, losses = train(options, slice(0, 8), seed=0)
    for state, _ in found:
        for name, value in expected.items():
            torch.testing.assert_close(state[name], value, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(torch.stack([own for _, own in found], 1), losses, rtol=1e-4, atol=1e-6)


def test_processes_that_no_launcher_started():
    options = poptorch.Options()
    options.Distributed.configureProcessId(1, 4)
    model = Loss()
    training = poptorch.trainingModel(model, options)
    x, y = data()
    assert training(x[0], y[0])[1].shape == ()
