"""Programs that are not files: notebooks, interactive sessions, ``python3 -c``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import poptorch

PACKAGES = str(Path(poptorch.__file__).resolve().parents[1])

DATASET = """
import torch, poptorch
class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return torch.full((4,), float(i))
"""

LOADER = DATASET + """
dataset = torch.utils.data.Subset(Numbers(), range(6))
loader = poptorch.DataLoader(poptorch.Options(), dataset, batch_size=2, mode=poptorch.DataLoaderMode.Async)
print([batch[:, 0].tolist() for batch in loader])
loader.terminate()
"""

MODEL = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
    def forward(self, x):
        y = self.fc(x)
        return y, poptorch.identity_loss(y * y, "mean")
model = poptorch.trainingModel(Net(), poptorch.Options())
losses = [model(torch.ones(2, 4))[1].item() for _ in range(5)]
print(losses == sorted(losses, reverse=True))
"""

WRONG = """
class Wrong(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return x + 1
try:
    poptorch.inferenceModel(Wrong())(torch.ones(2))
except poptorch.Error as e:
    print(e)
"""


def test_dataset_of_a_command():
    found = subprocess.run([sys.executable, "-c", LOADER], check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout == "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]\n"


def _text(cell, name):
    return "".join("".join(output["text"]) for output in cell["outputs"] if output.get("name") == name)


def test_notebook(tmp_path):
    pytest.importorskip("ipykernel")
    pytest.importorskip("nbconvert")
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None,
              "id": f"cell{i}"} for i, source in enumerate([LOADER, MODEL, WRONG.strip()])]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebook.ipynb").write_text(json.dumps(notebook))
    command = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--output", "done.ipynb",
               "--ExecutePreprocessor.timeout=200", "--ExecutePreprocessor.kernel_name=python3", "notebook.ipynb"]
    environment = dict(os.environ, JUPYTER_CONFIG_DIR=str(tmp_path), PYTHONPATH=PACKAGES)
    found = subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    loader, model, wrong = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    assert _text(loader, "stdout") == "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]\n"
    assert _text(model, "stdout") == "True\n"
    assert "Graph compilation: 100%|" in _text(model, "stderr") and _text(model, "stderr").endswith("]\n")
    assert "needs the value of a tensor on the IPU at" in _text(wrong, "stdout")
    assert ".py:3," in _text(wrong, "stdout")  # the line in its cell
