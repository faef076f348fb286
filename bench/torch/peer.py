"""PyTorch beside our engine: exports a network to ONNX and runs it as TorchScript, or trains it, when told.

    python3 peer.py THREADS           lines on standard input, one answer each on standard output:
    export NAME BATCH PATH            "exported"; a call is then one of the network, frozen
    train NAME BATCH FOLDER gather    "ready"; a call is then a step with the next images of MNIST's files there,
    train NAME BATCH FOLDER loader    shuffled: gathered by one index, or by a DataLoader
    time CALLS                        seconds per call
"""
import copy
import functools
import os
import sys
import time
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = sys.argv[1]

import numpy
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "torch"))
from networks import MODULES, SHAPES


def without_fast_path(module):
    """A copy whose encoder layers are the ops they consist of: the one they are at inference has no ONNX form."""
    module = copy.deepcopy(module)
    for layer in module.modules():
        if isinstance(layer, torch.nn.TransformerEncoderLayer):
            layer.activation_relu_or_gelu = 0
            layer.self_attn.train()  # without dropout that changes nothing else
    return module


def export(name, batch, path):
    torch.manual_seed(0)
    module, x = MODULES[name]().eval(), torch.randn(int(batch), *SHAPES[name])
    with torch.no_grad():
        torch.onnx.export(without_fast_path(module), x, path, opset_version=13,
                          training=torch.onnx.TrainingMode.PRESERVE)
        script = torch.jit.freeze(torch.jit.trace(module, x))
        for _ in range(3):  # TorchScript optimises in its first calls
            script(x)
    return script, x


def infer(script, x, calls):
    with torch.no_grad():
        for _ in range(calls):
            script(x)


def repeat(step, calls):
    for _ in range(calls):
        step()


@functools.lru_cache(maxsize=1)
def images(folder):
    def array(name, header):
        return torch.from_numpy(numpy.fromfile(os.path.join(folder, name), numpy.uint8)[header:].copy())
    x = array("train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    return x.float().div_(255), array("train-labels-idx1-ubyte", 8).long()


def gathered(x, y, batch):
    while True:
        for rows in torch.randperm(len(x))[:len(x) // batch * batch].split(batch):
            yield x[rows], y[rows]


def loaded(x, y, batch):
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch, shuffle=True, drop_last=True)
    while True:
        yield from loader


@functools.lru_cache(maxsize=None)
def training(name, batch, folder, how):
    torch.manual_seed(0)
    module, x = MODULES[name]().train(), {"gather": gathered, "loader": loaded}[how](*images(folder), int(batch))
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)

    def step():
        image, label = next(x)
        optimizer.zero_grad(set_to_none=True)
        F.nll_loss(module(image), label).backward()
        optimizer.step()
    for _ in range(10):
        step()
    return step


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(sys.argv[1]))
    run = None
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "export":
            run = functools.partial(infer, *export(*rest))
            print("exported", flush=True)
        elif command == "train":
            run = functools.partial(repeat, training(*rest))
            print("ready", flush=True)
        else:
            begin = time.perf_counter()
            run(int(rest[0]))
            print((time.perf_counter() - begin) / int(rest[0]), flush=True)


main()
