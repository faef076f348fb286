"""The six workloads, trained again by PyTorch from the same initial weights on the same batches.

    python3 train.py FOLDER         ends with "N passed, N failed"

Training amplifies rounding, so the yardstick is PyTorch itself: trained once more from weights that differ in
their last bits, it says how far rounding leads by each step. Ours may be 8 times as far away (other orders of
summing), and always 2e-5 of the loss. One such training may by chance stay near (no relu changes its mind): before
ours is called wrong, there are eight more, from weights that differ in the last two bits, which is what quick
convolutions lose.
"""
import json
import sys

import numpy as np
import torch
import torch.nn.functional as F

from networks import MODULES


def load(data, place, dtype):
    count = int(np.prod(place["shape"], dtype=np.int64))
    return torch.from_numpy(np.frombuffer(data, dtype, count, place["at"]).reshape(place["shape"]).copy())


def train(course, data, change, seed=1):
    """The losses; initial weights are changed by at most `change`, relatively."""
    module = MODULES[course["name"]]().train()
    torch.manual_seed(seed)
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
    theirs, ours = train(course, data, 0), np.array(course["losses"])
    distance, noise = np.abs(ours - theirs), np.zeros(len(ours))
    for seed in range(1, 10):
        other = train(course, data, 2 ** -23 if seed == 1 else 2 ** -21, seed)
        noise = np.maximum(noise, np.maximum.accumulate(np.abs(other - theirs)))
        limit = 8 * noise + 2e-5 * np.abs(theirs)
        if np.all(distance <= limit):
            break
    print(f"# {course['name']}: loss {theirs[0]:.4f} to {theirs[-1]:.4f}; distance from PyTorch's, worst of "
          f"{len(theirs)} steps: ours {distance.max():.2g}, PyTorch from other last bits {noise.max():.2g}")
    wrong = np.flatnonzero(~(distance <= limit))
    if len(wrong) == 0:
        return None
    i = wrong[0]
    return f"step {i}: {ours[i]:.8g}, PyTorch {theirs[i]:.8g}, from other last bits as far as {noise[i]:.2g} away"


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
