"""The named networks as PyTorch modules, with the names of parameters that ours have."""
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
    """Convolutions of (channels, kernel, stride) with their norms, and a shortcut."""

    def __init__(self, channels, convolutions):
        super().__init__()
        self.c, self.b, self.d = nn.ModuleList(), nn.ModuleList(), nn.Sequential()
        out, stride = channels, 1
        for wide, kernel, step in convolutions:
            self.c.append(nn.Conv2d(out, wide, kernel, step, kernel // 2, bias=False))
            self.b.append(nn.BatchNorm2d(wide))
            out, stride = wide, stride * step
        if stride != 1 or channels != out:
            self.d = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i, (convolution, norm) in enumerate(zip(self.c, self.b)):
            y = norm(convolution(y))
            if i + 1 < len(self.c):
                y = F.relu(y)
        return F.relu(y + self.d(x))


def body(channels, depths, bottleneck):
    blocks = []
    for i, depth in enumerate(depths):
        wide = 64 << i
        for j in range(depth):
            stride = 2 if i and not j else 1
            if bottleneck:
                blocks.append(Block(channels, [(wide, 1, 1), (wide, 3, stride), (4 * wide, 1, 1)]))
            else:
                blocks.append(Block(channels, [(wide, 3, stride), (wide, 3, 1)]))
            channels = 4 * wide if bottleneck else wide
    return nn.Sequential(*blocks)


class ResNet18(nn.Module):
    """For images of 32 x 32."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        self.body, self.f = body(64, (2, 2, 2, 2), False), nn.Linear(512, 10)

    def forward(self, x):
        return F.log_softmax(self.f(self.body(self.stem(x)).mean((2, 3))), 1)


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        self.body, self.f = body(64, (3, 4, 6, 3), True), nn.Linear(2048, 1000)

    def forward(self, x):
        return F.log_softmax(self.f(self.body(self.stem(x)).mean((2, 3))), 1)


class Encoder(nn.Module):
    def __init__(self, layers=4, wide=256, heads=4):
        super().__init__()
        layer = nn.TransformerEncoderLayer(wide, heads, 4 * wide, dropout=0.0, activation="gelu",
                                           batch_first=True)
        self.e, self.f = nn.TransformerEncoder(layer, layers), nn.Linear(wide, 10)

    def forward(self, x):
        return F.log_softmax(self.f(self.e(x)[:, 0]), 1)


def bert_base():
    return Encoder(12, 768, 12)


MODULES = {"seed-cnn": Seed, "mnist-cnn": Mnist, "mlp": Mlp, "lstm": Lstm, "resnet18": ResNet18,
           "resnet50": ResNet50, "bert-mini": Encoder, "bert-base": bert_base}

# Of one sample.
SHAPES = {"seed-cnn": (1, 28, 28), "mnist-cnn": (1, 28, 28), "mlp": (784,), "lstm": (28, 28),
          "resnet18": (3, 32, 32), "resnet50": (3, 224, 224), "bert-mini": (128, 256), "bert-base": (128, 768)}
