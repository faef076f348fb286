"""The usual first program: a small network for Fashion-MNIST is trained, saved, and evaluated."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import poptorch

torchvision = pytest.importorskip("torchvision")
metrics = pytest.importorskip("sklearn.metrics")
tqdm = pytest.importorskip("tqdm").tqdm

CLASSES = 10


class ClassificationModel(nn.Module):

    def __init__(self):
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
        if self.training:
            return x, self.loss(x, labels)
        return x


def _write_idx(path: Path, values: torch.Tensor) -> None:
    """An array of bytes in the format of MNIST's files."""
    header = struct.pack(f">HBB{values.dim()}I", 0, 8, values.dim(), *values.shape)
    path.write_bytes(header + values.to(torch.uint8).numpy().tobytes())


def _write_images(folder: Path, prefix: str, n: int, generator: torch.Generator) -> None:
    """Images with a bright bar, which stands where the class says, in noise."""
    labels = torch.randint(0, CLASSES, (n,), generator=generator)
    images = torch.rand(n, 28, 28, generator=generator) * 100
    for image, label in zip(images, labels):
        row, column = divmod(int(label), 5)
        image[3 + 12 * row:13 + 12 * row, 1 + 5 * column:6 + 5 * column] += 150
    _write_idx(folder / f"{prefix}-images-idx3-ubyte", images)
    _write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)


@pytest.fixture(name="root", scope="module")
def _root(tmp_path_factory):
    root = tmp_path_factory.mktemp("datasets")
    raw = root / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    _write_images(raw, "train", 960, generator)
    _write_images(raw, "t10k", 200, generator)  # its last batch of 32 is not full: left out, as always on an IPU
    return root


def _dataset(root, train):
    transform = torchvision.transforms.Compose([
        torchvision.transforms.ToTensor(),
        torchvision.transforms.Normalize((0.5,), (0.5,)),
    ])
    return torchvision.datasets.FashionMNIST(str(root), transform=transform, download=True, train=train)


def _train(model, opts, root, epochs):
    """Returns the sum of the losses of each epoch."""
    train_dataloader = poptorch.DataLoader(opts, _dataset(root, True), batch_size=16, shuffle=True, num_workers=20)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    poptorch_model = poptorch.trainingModel(model, options=opts, optimizer=optimizer)
    losses = []
    for _ in tqdm(range(epochs), desc="epochs"):
        total_loss = 0.0
        for data, labels in tqdm(train_dataloader, desc="batches", leave=False):
            output, loss = poptorch_model(data, labels)
            total_loss += loss
        assert output.shape == (16, CLASSES) and loss.shape == ()
        losses.append(float(total_loss))
    poptorch_model.detachFromDevice()
    return losses


def _evaluate(model, opts, root):
    """Returns the labels, and the classes that the model finds."""
    model = model.eval()
    poptorch_model_inf = poptorch.inferenceModel(model, options=opts)
    test_dataloader = poptorch.DataLoader(opts, _dataset(root, False), batch_size=32, num_workers=10)
    predictions, labels = [], []
    for data, label in test_dataloader:
        predictions += poptorch_model_inf(data).data.max(dim=1).indices
        labels += label
    poptorch_model_inf.detachFromDevice()
    return labels, predictions


STOCK = """
import sys
import torch
data = torch.load(sys.argv[1])
assert "poptorch" not in sys.modules
for name, tensor in data.items():
    assert type(tensor) is torch.Tensor and tensor.device.type == "cpu", (name, type(tensor))
print(" ".join(data))
"""


def _saved_names(path):
    """What torch finds in a file of weights, in a process in which there is no poptorch."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    found = subprocess.run([sys.executable, "-c", STOCK, path.name], cwd=path.parent, env=environment, check=False,
                           capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout.split()


def test_train_save_evaluate(root, tmp_path, capsys):
    model = ClassificationModel()
    model.train()
    opts = poptorch.Options()
    losses = _train(model, opts, root, epochs=4)
    assert losses[-1] < 0.5 * losses[0], losses
    path = tmp_path / "classifier.pth"
    torch.save(model.state_dict(), path)
    labels, predictions = _evaluate(model, opts, root)
    assert len(labels) == len(predictions) == 192
    accuracy = metrics.accuracy_score(labels, predictions)
    assert accuracy > 0.8, accuracy
    shown = capsys.readouterr().err
    assert "Graph compilation: 100%" in shown and "epochs: 100%" in shown

    assert _saved_names(path) == list(model.state_dict())
    plain = ClassificationModel()
    plain.load_state_dict(torch.load(path))
    plain.eval()
    images = torch.stack([image for image, _ in _dataset(root, False)])[:192]
    found = plain(images).max(dim=1).indices
    assert int((found != torch.stack(predictions)).sum()) <= 1  # a tie may fall either way
