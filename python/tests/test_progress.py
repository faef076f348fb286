"""The bar that shows how far compiling has come."""

import ctypes

import pytest
import torch
from torch import nn

import poptorch
from openipu.arrays import array_over
from openipu.executor import Executor, Module
from openipu.library import Array

pytest.importorskip("tqdm")


def test_is_shown_once_for_each_compilation(capsys):
    model = poptorch.inferenceModel(nn.Linear(3, 2))
    model(torch.ones(2, 3))
    shown = capsys.readouterr().err
    assert "Graph compilation:   0%|" in shown
    assert shown.count("| 100/100 [") == 1 and shown.endswith("\n")
    model(torch.ones(2, 3))
    assert capsys.readouterr().err == ""


def test_can_be_switched_off(capsys):
    model = poptorch.inferenceModel(nn.Linear(3, 2), poptorch.Options().showCompilationProgressBar(False))
    model(torch.ones(2, 3))
    assert capsys.readouterr().err == ""


def test_is_shown_when_the_cache_has_it(capsys, tmp_path):
    for _ in range(2):
        torch.manual_seed(1)
        model = poptorch.inferenceModel(nn.Linear(3, 2), poptorch.Options().enableExecutableCaching(str(tmp_path)))
        model(torch.ones(2, 3))
        assert capsys.readouterr().err.count("| 100/100 [") == 1


def test_is_closed_when_compiling_fails(capsys):
    options = poptorch.Options()
    with pytest.raises(ZeroDivisionError):
        with options._progress_bar.shown() as report:
            report(1, 2)
            report(1, 0)
    shown = capsys.readouterr().err
    assert " 50%|" in shown and "100%" not in shown and shown.endswith("\n")
    assert options._progress_bar._bar is None


def test_what_it_raises_stops_compiling():
    x = torch.ones(4)
    module = Module(lambda network, inputs: network.output(network.emit("add", [inputs[0], inputs[0]]), "y"), ["x"])
    executor = Executor(module)
    arrays = (Array * 1)(array_over(x, "x"))

    def stop(_done, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        executor.compile(arrays, 1, stop)
    reports = []
    executor.compile(arrays, 1, lambda done, total: reports.append((done, total)))
    assert reports and reports == sorted(reports) and reports[-1] == (100, 100)
    executor.run(arrays, 1)
    found = (ctypes.c_float * 4).from_address(dict(executor.outputs())["y"].data)
    assert list(found) == [2, 2, 2, 2]
