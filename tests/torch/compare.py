"""Random networks of build/tests/networks_test, run again by PyTorch in double.

    python3 compare.py FOLDER       ends with "N passed, N failed"

Each line of networks.jsonl is a network: inputs, code in Python, what it gave and its gradients. A network
agrees if every tensor does, to 1e-4 of its largest element.
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

TOLERANCE = 1e-4
TYPES = {"float": np.float32, "double": np.float64, "int32": np.int32, "int64": np.int64, "bool": np.bool_,
         "uint32": np.uint32}


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)))


def load(data, place):
    dtype = np.dtype(TYPES[place["type"]])
    count = int(np.prod(place["shape"], dtype=np.int64))
    array = np.frombuffer(data, dtype, count, place["at"]).reshape(place["shape"])
    if dtype == np.float32:
        array = array.astype(np.float64)
    if dtype == np.uint32:
        array = array.astype(np.int64)
    return torch.from_numpy(array.copy())


def distance(expected, found, least=0.02):
    """None, or what is wrong: differences relative to the largest element, or to `least` if that is more."""
    expected, found = expected.detach().double(), found.double()
    if expected.shape != found.shape:
        return f"is {list(found.shape)}, not {list(expected.shape)}"
    if expected.numel() == 0:
        return None
    if not torch.equal(torch.isfinite(expected), torch.isfinite(found)):
        return "is not finite where PyTorch is, or the other way round"
    difference = torch.nan_to_num(expected - found).abs().max().item()
    largest = max(torch.nan_to_num(expected, posinf=0, neginf=0).abs().max().item(), least)
    return f"differs by {difference / largest:.3g}" if difference > TOLERANCE * largest else None


def check(network, data):
    names = {"torch": torch, "F": F, "gelu_tanh": gelu_tanh}
    for place in network["inputs"]:
        names[place["name"]] = load(data, place).requires_grad_(place["wanted"])
    wanted = [names[p["name"]] for p in network["inputs"] if p["wanted"]]
    exec(network["code"], names)
    wrong = []
    for place in network["outputs"]:
        text = distance(names[place["name"]], load(data, place))
        if text:
            wrong.append(f"{place['name']} {text}")
    loss = names[network["outputs"][-1]["name"]]
    expected = [None] * len(wanted)
    if loss.requires_grad:
        expected = torch.autograd.grad(loss, wanted, allow_unused=True)
    # Sums that cancel, as a bias before a normalisation gets, leave the noise of their terms.
    least = 0.02 * max([1.0] + [g.abs().max().item() for g in expected if g is not None and g.numel()])
    found = {p["name"]: load(data, p) for p in network["gradients"]}
    for place, gradient in zip([p for p in network["inputs"] if p["wanted"]], expected):
        ours = found.get(place["name"])
        if gradient is None:
            gradient = torch.zeros(place["shape"], dtype=torch.float64)
        text = distance(gradient, torch.zeros_like(gradient) if ours is None else ours, least)
        if text:
            wrong.append(f"the gradient of {place['name']} {text}")
    return wrong


def main():
    torch.set_num_threads(1)
    passed = failed = 0
    with open(sys.argv[1] + "/networks.bin", "rb") as file:
        data = file.read()
    with open(sys.argv[1] + "/networks.jsonl") as lines:
        for line in lines:
            network = json.loads(line)
            try:
                wrong = check(network, data)
            except Exception as error:
                wrong = [f"PyTorch: {error}"]
            passed += not wrong
            failed += bool(wrong)
            if wrong:
                print(f"# network {network['seed']}: {'; '.join(wrong)}")
                print("".join(f"#     {text}\n" for text in network["code"].splitlines()), end="")
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
