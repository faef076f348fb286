"""Batches a second of poptorch's loaders beside torch's, on the same dataset.

    python3 bench/dataloader.py [--seconds 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
import torch.utils.data

import poptorch
from poptorch import DataLoaderMode


class Images(torch.utils.data.Dataset):
    """Images of a shape, made when asked for, with a label."""
    def __init__(self, shape: Tuple[int, ...], length: int) -> None:
        self._image = torch.rand(shape)
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Tuple[torch.Tensor, int]:
        return self._image + index, index % 10


def rate(loader: Any, seconds: float) -> float:
    """Batches a second once it runs: the best of three, so that others on the machine count less."""
    for _ in loader:
        pass
    best = 0.0
    for _ in range(3):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds / 3:
            for _ in loader:
                count += 1
        best = max(best, count / (time.perf_counter() - start))
    return best


CASES: List[Tuple[str, Callable[[], Any], int, int]] = [
    ("tensors 1x28x28, batch 1",
     lambda: torch.utils.data.TensorDataset(torch.rand(2000, 1, 28, 28), torch.zeros(2000, dtype=torch.long)), 1, 0),
    ("tensors 1x28x28, batch 64",
     lambda: torch.utils.data.TensorDataset(torch.rand(12800, 1, 28, 28), torch.zeros(12800, dtype=torch.long)), 64, 0),
    ("tensors 1x28x28, batch 64",
     lambda: torch.utils.data.TensorDataset(torch.rand(12800, 1, 28, 28), torch.zeros(12800, dtype=torch.long)), 64, 2),
    ("images 3x64x64, batch 32", lambda: Images((3, 64, 64), 3200), 32, 0),
    ("images 3x64x64, batch 32", lambda: Images((3, 64, 64), 3200), 32, 2),
    ("images 3x224x224, batch 16", lambda: Images((3, 224, 224), 640), 16, 2),
]


def loaders(dataset: Any, batch_size: int, workers: int) -> Iterator[Tuple[str, Any]]:
    """The loaders to compare, by name; the first one is torch's."""
    keep = workers > 0
    yield "torch", torch.utils.data.DataLoader(dataset, batch_size, num_workers=workers, drop_last=True,
                                               persistent_workers=keep)
    for mode in (DataLoaderMode.Sync, DataLoaderMode.Async, DataLoaderMode.AsyncRebatched):
        yield mode.name, poptorch.DataLoader(poptorch.Options(), dataset, batch_size, num_workers=workers, mode=mode)


def measure(seconds: float) -> Iterator[Dict[str, Any]]:
    for name, make, batch_size, workers in CASES:
        row: Dict[str, Any] = {"case": f"{name}, {workers} workers"}
        dataset = make()
        for kind, loader in loaders(dataset, batch_size, workers):
            row[kind] = rate(loader, seconds)
            if kind != "torch":
                loader.terminate()
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long to measure each loader")
    parser.add_argument("--json", action="store_true", help="one JSON object for each case")
    arguments = parser.parse_args()
    if not arguments.json:
        print(f"{'batches a second (times torch)':<42}{'torch':>9}{'Sync':>17}{'Async':>17}{'AsyncRebatched':>17}")
    for row in measure(arguments.seconds):
        if arguments.json:
            print(json.dumps(row), flush=True)
            continue
        cells = "".join(f"{row[mode.name]:>10.0f} ({row[mode.name] / row['torch']:.2f})" for mode in DataLoaderMode)
        print(f"{row['case']:<42}{row['torch']:>9.0f}{cells}", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that goes away ends it without a traceback
    main()
