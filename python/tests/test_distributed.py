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


@pytest.mark.skipif(not shutil.which("mpirun") or plugin_folder() is None, reason="needs Open MPI")
def test_two_processes_train_as_two_replicas():
    with tempfile.TemporaryDirectory() as folder:
        here = str(Path(__file__).resolve().parent)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, str(Path(here).parent)]),
                       "IPU_COMM_PATH": plugin_folder(), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        code = f"import test_distributed; test_distributed.child({folder!r})"
        command = ["mpirun", "--mca", "plm", "isolated", "--mca", "mpi_yield_when_idle", "1", "--oversubscribe",
                   "-n", "2", sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
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
