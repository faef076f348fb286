"""Scripts that just end, whatever they leave behind: soon, with the status that is theirs, and without a word too much."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# weakref registers its function of the exit with the first finalizer: before multiprocessing's, if that comes so early.
EARLY = """
import weakref
class Thing: pass
thing = Thing()
weakref.finalize(thing, int)
"""

LOADER = """
import torch, poptorch
if __name__ == "__main__":
    data = torch.utils.data.TensorDataset(torch.rand(400, 8))
    loader = poptorch.DataLoader(poptorch.Options(), data, {arguments})
    iterator = iter(loader)
    next(iterator)
    {end}
"""

# Kept by a module that outlives those of openipu, which are emptied before.
OUTLIVING = """
import sys
import types

keeper = sys.modules["keeper"] = types.ModuleType("keeper")
keeper.kept = []
sys.excepthook = lambda *what: sys.__excepthook__(*what)
sys.excepthook.alive = [keeper]

def make():
    import numpy
    import openipu
    from openipu.executor import Executor, Module
    from openipu.host import HostFunction
    from openipu.library import TYPE_NUMBERS, Array, Shape
    from openipu.settings import ExecutorOptions
    data = numpy.ones(3, numpy.float32)
    module = Module(lambda network, values: network.output(values[0], "y"))
    executor = Executor(module, ExecutorOptions(engine={"threads": "1"}))
    executor.run((Array * 1)(Array(TYPE_NUMBERS["float"], Shape.of((3, )), data.ctypes.data)), 1)
    keeper.kept += [module, executor, executor.state(), openipu.Network.create(), HostFunction("f", lambda ins: ins)]

make()
sys.excepthook.alive += [module for name, module in sys.modules.items() if name.startswith("openipu")]
"""

ASYNC = "num_workers={workers}, mode=poptorch.DataLoaderMode.{mode}"


def _run(tmp_path, code: str) -> subprocess.CompletedProcess:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize("workers, mode, end", [
    (0, "Async", "pass"),
    (2, "Async", "raise ValueError('of the user')"),
    (2, "AsyncRebatched", "pass"),
])
def test_a_loader_that_is_half_consumed(tmp_path, workers, mode, end):
    arguments = ASYNC.format(workers=workers, mode=mode) + (", batch_size=3" if mode == "AsyncRebatched" else "")
    done = _run(tmp_path, EARLY + LOADER.format(arguments=arguments, end=end))
    if end == "pass":
        assert done.returncode == 0 and done.stderr == ""
    else:
        assert done.returncode == 1 and done.stderr.count("Traceback") == 1
        assert done.stderr.strip().endswith("ValueError: of the user")


def test_objects_that_outlive_their_modules(tmp_path):
    done = _run(tmp_path, OUTLIVING)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.parametrize("path, status", [("bench/dataloader.py", -13), ("conformance/run.py", 141),
                                          ("conformance/scripts.py", 141)])
def test_a_reader_that_goes_away_ends_our_programs_without_a_word(path, status):
    ours, its = os.pipe()
    os.close(ours)
    done = subprocess.run([sys.executable, Path(__file__).parents[1] / path, "--help"], stdout=its, stderr=subprocess.PIPE,
                          timeout=240, check=False)
    os.close(its)
    assert (done.returncode, done.stderr) == (status, b"")


THREADS = """
import sys, threading
import torch, poptorch

def train(model, started):
    while True:
        model(torch.ones(4, 8))
        started.set()

def load(loader, started):
    while True:
        for _ in loader:
            started.set()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        y = self.linear(x)
        return y, poptorch.identity_loss(y.sum(), "sum")

if __name__ == "__main__":
    options = poptorch.Options().showCompilationProgressBar(False)
    data = torch.utils.data.TensorDataset(torch.rand(400, 8))
    loader = poptorch.DataLoader(options, data, mode=poptorch.DataLoaderMode.Async,
                                 async_options={"sharing_strategy": poptorch.SharingStrategy.Fork})
    for work, given in ((load, loader), (train, poptorch.trainingModel(Net(), options))):
        started = threading.Event()
        threading.Thread(target=work, args=(given, started), daemon=True).start()
        assert started.wait(150)
    sys.exit(3)
"""


def test_threads_that_go_on(tmp_path):
    done = _run(tmp_path, THREADS)
    assert done.returncode == 3 and done.stderr == ""
