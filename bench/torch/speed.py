"""PyTorch's side of bench/speed.c: one network, trained or run, by eager code or as TorchScript.

    python3 speed.py NETWORK BATCH MODE HOW THREADS      MODE: train, infer; HOW: eager, script

Lines on standard output, the first unasked, the others each for a line on standard input:
    ready SECONDS           what making it took, until its first calls were done; or "failed WHY"
    time CALLS              seconds per call
    sum                     weights, FLOPs of a call, resident bytes more than before the network was made, in all
"""
import os
import sys
import time
import warnings

NETWORK, BATCH, MODE, HOW, THREADS = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[variable] = str(THREADS)

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    print("failed python3-torch is not installed", flush=True)
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "torch"))
from networks import MODULES, SHAPES


def status(key):
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(key))


def forget_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as f:
        f.write("5")


def count_flops(module, x):
    """Of multiplications and additions in convolutions and products, forward: a list in order of layers."""
    found = []

    def note(layer, given, out):
        if isinstance(layer, nn.Conv2d):
            found.append(2 * out.numel() * layer.in_channels * layer.kernel_size[0] * layer.kernel_size[1])
        elif isinstance(layer, nn.Linear):
            found.append(2 * out.numel() * layer.in_features)
        elif isinstance(layer, nn.LSTM):
            cells = given[0].shape[0] * given[0].shape[1]
            found.extend([8 * cells * layer.hidden_size * n for n in (layer.input_size, layer.hidden_size)])
        elif isinstance(layer, nn.MultiheadAttention):
            n, times, wide = given[0].shape
            rows = n * times * wide
            found.extend([6 * rows * wide, 4 * rows * times, 2 * rows * wide])
    hooks = [layer.register_forward_hook(note) for layer in module.modules()]
    with torch.no_grad():
        module(x)
    for hook in hooks:
        hook.remove()
    return found


def make():
    torch.manual_seed(0)
    module, x = MODULES[NETWORK]().train(MODE == "train"), torch.randn(BATCH, *SHAPES[NETWORK])
    labels, net = torch.randint(0, 10, (BATCH,)), module
    if MODE == "infer":
        if HOW == "script":
            with torch.no_grad():
                net = torch.jit.optimize_for_inference(torch.jit.trace(module, x))

        def infer():
            with torch.inference_mode():
                net(x)
        return infer
    if HOW == "script":
        net = torch.jit.trace(module, x, check_trace=False)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)

    def train():
        optimizer.zero_grad(set_to_none=True)
        F.nll_loss(net(x), labels).backward()
        optimizer.step()
    return train


def describe():
    """Weights and FLOPs of a call: training is three times forward, but no gradient for the images."""
    module = MODULES[NETWORK]()
    flops = count_flops(module, torch.randn(BATCH, *SHAPES[NETWORK]))
    weights = sum(t.numel() for t in module.state_dict().values() if t.is_floating_point())
    return weights, 3 * sum(flops) - flops[0] if MODE == "train" else sum(flops)


def seconds(step, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - begin) / calls


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(THREADS)
    before, begin = status("VmRSS:"), time.perf_counter()
    try:
        step = make()
        seconds(step, 3)  # TorchScript optimises in its first calls
    except RuntimeError as error:
        print("failed", str(error).strip().split("\n", maxsplit=1)[0], flush=True)
        return
    print("ready", time.perf_counter() - begin, flush=True)
    forget_peak()
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "time":
            seconds(step, 1)
            print(seconds(step, int(rest[0])), flush=True)
        else:
            peak = status("VmHWM:")
            print(*describe(), peak - before, peak, flush=True)


main()
