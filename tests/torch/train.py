"""The six workloads, trained again by PyTorch from the same initial weights on the same batches.

    python3 train.py FOLDER         ends with "N passed, N failed"

Training amplifies rounding, so the yardstick is PyTorch itself: trained once more from weights that differ in their
last bits, it says how far rounding leads by each step. Ours may be 8 times as far away (other orders of summing),
and always 2e-5 of the loss.
"""
import json
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Seed(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 5, 3), nn.Conv2d(5, 12, 5)
        self.g = nn.GroupNorm(3, 12)
        self.f1, self.f2 = nn.Linear(972, 100), nn.Linear(100, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2, 2)
        x = self.g(F.relu(self.c2(x))).flatten(1)
        return F.log_softmax(self.f2(F.relu(self.f1(x))), 1)


class Mnist(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.f1, self.f2 = nn.Linear(1600, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.c1(x)), 2)
        x = F.max_pool2d(F.relu(self.c2(x)), 2).flatten(1)
        return F.log_softmax(self.f2(F.relu(self.f1(x))), 1)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.f1, self.f2, self.f3 = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)

    def forward(self, x):
        return F.log_softmax(self.f3(F.relu(self.f2(F.relu(self.f1(x))))), 1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.r, self.f = nn.LSTM(28, 128, batch_first=True), nn.Linear(128, 10)

    def forward(self, x):
        y, _ = self.r(x)
        return F.log_softmax(self.f(y[:, -1]), 1)


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.c = nn.ModuleList([nn.Conv2d(channels, out, 3, stride, 1, bias=False),
                                nn.Conv2d(out, out, 3, 1, 1, bias=False)])
        self.b = nn.ModuleList([nn.BatchNorm2d(out), nn.BatchNorm2d(out)])
        self.d = nn.Sequential()
        if stride != 1 or channels != out:
            self.d = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.b[0](self.c[0](x)))
        return F.relu(self.b[1](self.c[1](y)) + self.d(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        shapes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2),
                  (512, 512, 1)]
        self.body = nn.Sequential(*(Block(*shape) for shape in shapes))
        self.f = nn.Linear(512, 10)

    def forward(self, x):
        return F.log_softmax(self.f(self.body(self.stem(x)).mean((2, 3))), 1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, activation="gelu", batch_first=True)
        self.e, self.f = nn.TransformerEncoder(layer, 4), nn.Linear(256, 10)

    def forward(self, x):
        return F.log_softmax(self.f(self.e(x)[:, 0]), 1)


MODULES = {"seed-cnn": Seed, "mnist-cnn": Mnist, "mlp": Mlp, "lstm": Lstm, "resnet18": ResNet18, "bert-mini": Encoder}


def load(data, place, dtype):
    count = int(np.prod(place["shape"], dtype=np.int64))
    return torch.from_numpy(np.frombuffer(data, dtype, count, place["at"]).reshape(place["shape"]).copy())


def train(course, data, change):
    """The losses; initial weights are changed by at most `change`, relatively."""
    module = MODULES[course["name"]]().train()
    torch.manual_seed(1)
    own = dict(module.named_parameters())
    given = {p["name"]: load(data, p, np.float32) for p in course["parameters"]}
    if set(own) != set(given):
        raise ValueError(f"parameters differ: only here {sorted(set(own) - set(given))}, "
                         f"only there {sorted(set(given) - set(own))}")
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(given[name] * (1 + change * (2 * torch.rand(given[name].shape) - 1)))
    x, labels = load(data, course["x"], np.float32), load(data, course["labels"], np.int32).long()
    optimizer = torch.optim.SGD(module.parameters(), lr=course["rate"], momentum=0.9)
    losses = []
    for i in range(len(course["losses"])):
        optimizer.zero_grad(set_to_none=True)
        loss = F.nll_loss(module(x[i % len(x)]), labels[i % len(x)])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def check(course, data):
    theirs, other, ours = train(course, data, 0), train(course, data, 2 ** -23), np.array(course["losses"])
    noise = np.maximum.accumulate(np.abs(other - theirs))
    distance = np.abs(ours - theirs)
    limit = 8 * noise + 2e-5 * np.abs(theirs)
    print(f"# {course['name']}: loss {theirs[0]:.4f} to {theirs[-1]:.4f}; distance from PyTorch's, worst of "
          f"{len(theirs)} steps: ours {distance.max():.2g}, PyTorch from other last bits {noise.max():.2g}")
    wrong = np.flatnonzero(~(distance <= limit))
    if len(wrong) == 0:
        return None
    i = wrong[0]
    return f"step {i}: {ours[i]:.8g}, PyTorch {theirs[i]:.8g}, from other last bits {other[i]:.8g}"


def main():
    torch.set_num_threads(1)  # a team of threads that spin does badly on a busy machine
    passed = failed = 0
    with open(sys.argv[1] + "/training.bin", "rb") as file:
        data = file.read()
    with open(sys.argv[1] + "/training.json") as file:
        courses = json.load(file)
    for course in courses:
        try:
            wrong = check(course, data)
        except Exception as error:
            wrong = f"PyTorch: {error}"
        passed += wrong is None
        failed += wrong is not None
        if wrong:
            print(f"# {course['name']}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
