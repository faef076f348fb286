"""PyTorch beside our engine: exports a network to ONNX, then runs it as TorchScript when told.

    python3 peer.py THREADS      lines on standard input, one answer each on standard output:
    export NAME BATCH PATH       "exported"; the network, frozen, is what the next lines are about
    time CALLS                   seconds per call
"""
import copy
import os
import sys
import time
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = sys.argv[1]

import torch

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


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(int(sys.argv[1]))
    script = x = None
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "export":
            script, x = export(*rest)
            print("exported", flush=True)
        else:
            begin = time.perf_counter()
            with torch.no_grad():
                for _ in range(int(rest[0])):
                    script(x)
            print((time.perf_counter() - begin) / int(rest[0]), flush=True)


main()
