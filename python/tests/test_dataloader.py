"""poptorch.DataLoader and AsynchronousDataAccessor: what they yield, in which processes, and how they end."""

import collections
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from torch.utils.data import BatchSampler, Dataset, IterableDataset, SequentialSampler, Subset, TensorDataset

import poptorch
from poptorch import AsynchronousDataAccessor, DataLoaderMode, SharingStrategy

MODES = list(DataLoaderMode)
ASYNC = [DataLoaderMode.Async, DataLoaderMode.AsyncRebatched]


class Counting(Dataset):
    """Element i is full of i."""
    def __init__(self, length, shape=(2, 3), dtype=torch.float32):
        self.length, self.shape, self.dtype = length, shape, dtype

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError(index)
        return torch.full(self.shape, index, dtype=self.dtype)


class Labelled(Counting):
    def __getitem__(self, index):
        return super().__getitem__(index), index


class Named(Counting):
    def __getitem__(self, index):
        return {"data": super().__getitem__(index), "pair": (torch.tensor(index), torch.tensor([index, -index]))}


class Stream(IterableDataset):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return (torch.full((2, ), float(i)) for i in range(first, self.length, step))


class FailsAt(Counting):
    def __getitem__(self, index):
        if index == 7:
            raise KeyError("element seven")
        return super().__getitem__(index)


class DiesAt(Counting):
    def __getitem__(self, index):
        if index == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class Growing(Counting):
    def __getitem__(self, index):
        return torch.zeros(index + 1)


class Random(Counting):
    def __getitem__(self, index):
        return torch.rand(4)


Pair = collections.namedtuple("Pair", "data label")


class Pairs(Counting):
    def __getitem__(self, index):
        return Pair(super().__getitem__(index), torch.tensor(index))


def options(device_iterations=1, **_):
    return poptorch.Options().deviceIterations(device_iterations)


def firsts(batches):
    """The first value of each row, batch by batch."""
    return [(batch[0] if isinstance(batch, (list, tuple)) else batch).flatten(1)[:, 0].int().tolist()
            for batch in batches]


def expected(length, rows, drop_last=True):
    batches = [list(range(first, min(first + rows, length))) for first in range(0, length, rows)]
    return batches[:-1] if drop_last and length % rows else batches


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("drop_last", [True, False])
def test_batches(mode, workers, drop_last):
    loader = poptorch.DataLoader(options(2), Labelled(31), batch_size=3, num_workers=workers, mode=mode,
                                 drop_last=drop_last)
    assert loader.combinedBatchSize == 6
    want = expected(31, 6, drop_last)
    for _ in range(3):
        assert firsts(loader) == want
    assert len(loader) == len(want)
    loader.terminate()


@pytest.mark.parametrize("strategy", list(SharingStrategy))
@pytest.mark.parametrize("workers", [0, 2])
def test_strategies(strategy, workers):
    loader = poptorch.DataLoader(options(), Counting(9), batch_size=2, num_workers=workers, mode=DataLoaderMode.Async,
                                 async_options={"sharing_strategy": strategy})
    assert firsts(loader) == expected(9, 2)
    assert firsts(loader) == expected(9, 2)
    loader.terminate()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("persistent", [True, False])
def test_broken_off_iterations(workers, persistent):
    loader = poptorch.DataLoader(options(), Counting(40), batch_size=2, num_workers=workers,
                                 persistent_workers=persistent and workers > 0, mode=DataLoaderMode.Async)
    for n_taken in (1, 5, 2, 19):
        iterator = iter(loader)
        assert firsts(next(iterator) for _ in range(n_taken)) == expected(40, 2)[:n_taken]
    assert firsts(loader) == expected(40, 2)
    loader.terminate()


@pytest.mark.parametrize("mode", ASYNC)
def test_structures(mode):
    loader = poptorch.DataLoader(options(), Named(12), batch_size=4, num_workers=1, mode=mode)
    for n, batch in enumerate(loader):
        rows = torch.arange(4 * n, 4 * n + 4)
        assert set(batch) == {"data", "pair"} and batch["data"].shape == (4, 2, 3)
        assert torch.equal(batch["pair"][0], rows) and torch.equal(batch["pair"][1], torch.stack([rows, -rows], 1))
    loader.terminate()
    pairs = poptorch.DataLoader(options(), Pairs(8), batch_size=4, mode=mode)
    assert [type(batch).__name__ for batch in pairs] == ["Pair", "Pair"]
    assert [batch.label.tolist() for batch in pairs] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    pairs.terminate()


@pytest.mark.parametrize("workers", [0, 2])
def test_tensors_in_memory(workers):
    data = TensorDataset(torch.arange(60).view(20, 3), torch.arange(20).half(), torch.arange(20) % 2 == 0)
    subset = Subset(data, list(range(19, 0, -2)))
    for dataset, want in ((data, range(20)), (subset, range(19, 0, -2))):
        loader = poptorch.DataLoader(options(), dataset, batch_size=5, num_workers=workers, mode=DataLoaderMode.Async)
        rows = [[tensor.clone() for tensor in batch] for batch in loader]
        want = torch.tensor(list(want))
        assert torch.equal(torch.cat([row[0] for row in rows]), data.tensors[0][want])
        assert torch.equal(torch.cat([row[1] for row in rows]), want.half())
        assert torch.equal(torch.cat([row[2] for row in rows]), want % 2 == 0)
        loader.terminate()


@pytest.mark.parametrize("mode", ASYNC)
def test_shuffle_follows_the_seed(mode):
    def orders():
        torch.manual_seed(5)
        loader = poptorch.DataLoader(options(), Counting(32), batch_size=4, shuffle=True, mode=mode)
        found = [sum(firsts(loader), []) for _ in range(2)]
        loader.terminate()
        return found

    first, second = orders()
    assert sorted(first) == sorted(second) == list(range(32)) and first != second
    assert orders() == [first, second]


def test_workers_are_not_random_alike():
    loader = poptorch.DataLoader(options(), Random(8), batch_size=1, num_workers=2, mode=DataLoaderMode.Async)
    rows = [tuple(batch[0].tolist()) for batch in loader]
    assert len(set(rows)) == 8
    loader.terminate()


@pytest.mark.parametrize("mode", MODES)
def test_iterable(mode):
    loader = poptorch.DataLoader(options(), Stream(21), batch_size=4, num_workers=2, mode=mode, drop_last=True,
                                 worker_init_fn=_nothing)
    values = sorted(sum(firsts(loader), []))
    # Each of two workers drops what does not fill its last batch, unless batches are joined.
    assert len(values) == (20 if mode == DataLoaderMode.AsyncRebatched else 16) and len(set(values)) == len(values)
    loader.terminate()


def _nothing(_):
    pass


@pytest.mark.parametrize("worker_rows", [1, 3, 5, None])
@pytest.mark.parametrize("drop_last", [True, False])
def test_rebatched_rows(worker_rows, drop_last):
    loader = poptorch.DataLoader(options(), Labelled(23), batch_size=5, num_workers=2,
                                 mode=DataLoaderMode.AsyncRebatched, drop_last=drop_last,
                                 rebatched_worker_size=worker_rows)
    for _ in range(2):
        assert firsts(loader) == expected(23, 5, drop_last)
    assert len(loader) == (4 if drop_last else 5)
    loader.terminate()


def test_rebatched_accessor_of_a_dataset():
    accessor = AsynchronousDataAccessor(Counting(10, (1, 2)), rebatched_size=4)
    assert firsts(accessor) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    accessor.terminate()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("drop_last", [True, False])
def test_batch_sampler(mode, drop_last):
    dataset = Labelled(30)
    sampler = BatchSampler(SequentialSampler(dataset), 3, drop_last)
    loader = poptorch.DataLoader(options(4), dataset, batch_sampler=sampler, drop_last=drop_last, mode=mode)
    want = expected(30, 12, drop_last)
    assert firsts(loader) == want and len(loader) == len(want) and loader.combinedBatchSize == 12
    loader.terminate()


def test_parts_of_processes():
    seen = []
    for process in range(3):
        opts = options(2)
        opts.Distributed.configureProcessId(process, 3)
        loader = poptorch.DataLoader(opts, Counting(100), batch_size=4, mode=DataLoaderMode.Async)
        assert len(loader) == 4
        seen += sum(firsts(loader), [])
        loader.terminate()
    assert seen == list(range(96))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", [DataLoaderMode.Sync, DataLoaderMode.Async])
def test_shuffled_parts_use_what_is_left_over(workers, mode):
    epochs = [[], []]
    for process in range(2):
        opts = options().randomSeed(3)
        opts.Distributed.configureProcessId(process, 2)
        loader = poptorch.DataLoader(opts, Counting(11), batch_size=4, shuffle=True, num_workers=workers, mode=mode)
        for seen in epochs:
            seen += sum(firsts(loader), [])
        loader.terminate()
    assert all(len(set(seen)) == len(seen) == 8 for seen in epochs) and epochs[0] != epochs[1]


def test_arguments_that_exclude_each_other():
    sampler = BatchSampler(SequentialSampler(range(8)), 2, True)
    with pytest.raises(poptorch.Error, match="mutually exclusive"):
        poptorch.DataLoader(options(), Counting(8), batch_size=2, batch_sampler=sampler)
    with pytest.raises(poptorch.Error, match="mutually exclusive"):
        poptorch.DataLoader(options(), Counting(8), shuffle=True, batch_sampler=sampler)
    with pytest.raises(AssertionError, match="rebatched_worker_size"):
        poptorch.DataLoader(options(), Counting(8), batch_size=2, rebatched_worker_size=3,
                            mode=DataLoaderMode.AsyncRebatched)
    with pytest.raises(AssertionError, match="rebatched_size"):
        poptorch.DataLoader(options(), Counting(8), mode=DataLoaderMode.Async, async_options={"rebatched_size": 2})
    loader = poptorch.DataLoader(options(), Counting(8), mode=DataLoaderMode.Async)
    with pytest.raises(poptorch.Error, match="already uses an AsynchronousDataAccessor"):
        AsynchronousDataAccessor(loader)
    loader.terminate()
    opts = options()
    opts.Distributed.configureProcessId(0, 2)
    with pytest.raises(AssertionError, match="not supported for IterableDataset"):
        poptorch.DataLoader(opts, Stream(8))
    with pytest.raises(AssertionError, match="randomSeed"):
        poptorch.DataLoader(opts, Counting(8), shuffle=True)


def test_options_are_frozen():
    opts = options()
    poptorch.DataLoader(opts, Counting(4))
    with pytest.raises(AttributeError, match="frozen"):
        opts.deviceIterations(2)


def test_early_preload():
    accessor = AsynchronousDataAccessor(Counting(10), buffer_size=4, early_preload=True)
    lazy = AsynchronousDataAccessor(Counting(10), buffer_size=4)
    deadline = time.monotonic() + 60
    while sum(accessor._worker.indices_mem) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert sum(accessor._worker.indices_mem) == 4 and sum(lazy._worker.indices_mem) == 1
    accessor.terminate()
    lazy.terminate()


@pytest.mark.parametrize("indefinitely", [True, False])
@pytest.mark.parametrize("preload", [True, False])
def test_short_datasets_and_many_epochs(indefinitely, preload):
    accessor = AsynchronousDataAccessor(Counting(2), buffer_size=5, load_indefinitely=indefinitely,
                                        early_preload=preload)
    assert len(accessor) == 2
    for _ in range(20):
        assert [int(element[0, 0]) for element in accessor] == [0, 1]
    with pytest.raises(StopIteration):
        next(accessor)
    accessor.terminate()


def test_an_iterator_ends_once():
    accessor = AsynchronousDataAccessor([torch.zeros(2), torch.ones(2)])
    iterator = iter(accessor)
    assert len(list(iterator)) == 2
    accessor.terminate()
    with pytest.raises(AssertionError, match="terminated"):
        next(accessor)


@pytest.mark.parametrize("mode", ASYNC)
@pytest.mark.parametrize("workers", [0, 2])
def test_errors_of_the_dataset(mode, workers):
    loader = poptorch.DataLoader(options(), FailsAt(20), batch_size=2, num_workers=workers, mode=mode)
    with pytest.raises(KeyError, match="element seven"):
        for _ in loader:
            pass


def test_a_dataset_that_cannot_start():
    with pytest.raises(poptorch.Error, match="worker thread failed to start(.|\n)*Dataset is empty"):
        AsynchronousDataAccessor([])
    with pytest.raises(poptorch.Error, match="cannot be sent(.|\n)*SharingStrategy.Fork"):
        poptorch.DataLoader(options(), Counting(4), collate_fn=lambda batch: batch[0], mode=DataLoaderMode.Async)
    with pytest.raises(poptorch.Error, match="worker thread failed to start(.|\n)*element 0 is of type str"):
        AsynchronousDataAccessor(["text"])


def test_a_process_that_dies():
    loader = poptorch.DataLoader(options(), DiesAt(20), mode=DataLoaderMode.Async)
    with pytest.raises(poptorch.Error, match="died: exit code -9"):
        for _ in loader:
            pass


def test_batches_that_do_not_fit():
    loader = poptorch.DataLoader(options(), Growing(5), mode=DataLoaderMode.Async)
    with pytest.raises(poptorch.Error, match="batches like the first one"):
        for _ in loader:
            pass


def _children():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="latin-1") as file: # a process may have any bytes as its name
                    state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid():
                found.append((int(name), state == "Z"))
    return found


def test_nothing_is_left_behind():
    before, open_before = set(_children()), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        loader = poptorch.DataLoader(options(), Counting(50), num_workers=2, mode=DataLoaderMode.Async,
                                     async_options={"sharing_strategy": SharingStrategy.Fork})
        next(iter(loader))
        del loader
    assert set(_children()) == before
    assert len(os.listdir("/proc/self/fd")) <= open_before + 2


SCRIPT = """
import os, signal, sys, time, torch, poptorch
def main():
    data = torch.utils.data.TensorDataset(torch.rand(4000, 8))
    loader = poptorch.DataLoader(poptorch.Options(), data, num_workers=2, mode=poptorch.DataLoaderMode.Async)
    print("pid", loader._accessor._worker._process._process.pid, flush=True)
    {body}
if __name__ == "__main__":
    main()
"""


def _gone(pid, seconds=60.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_host_is_the_end_of_its_loader(tmp_path, number):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).format(body="while True:\n        for batch in loader: pass"))
    with subprocess.Popen([sys.executable, "-u", str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, start_new_session=True) as host:
        pid = int(host.stdout.readline().split()[1])
        time.sleep(0.3)
        if number == signal.SIGINT:
            os.killpg(host.pid, number)  # as a terminal does
        else:
            os.kill(host.pid, number)
        try:
            errors = host.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            os.killpg(host.pid, signal.SIGKILL)
            raise
    assert _gone(pid)
    if number == signal.SIGINT:
        assert errors.strip().endswith("KeyboardInterrupt") and errors.count("Traceback") == 1


def test_a_script_ends_without_a_word(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).format(body="next(iter(loader))"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0 and done.stderr == "" and _gone(int(done.stdout.split()[1]))


def test_batches_feed_a_model():
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    opts = options(3)
    loader = poptorch.DataLoader(opts, Counting(24), batch_size=2, mode=DataLoaderMode.Async)
    model = poptorch.inferenceModel(Double(), opts)
    assert firsts(model(batch) for batch in loader) == [[2 * value for value in batch] for batch in expected(24, 6)]
    loader.terminate()
