"""openipu.batching: batches of frameworks that arrange them in their own ways reach the batches of the library, and come back."""

from __future__ import annotations

import numpy as np
import openipu
import pytest
import torch
from openipu.batching import Batches
from openipu.executor import Executor, Module
from openipu.settings import ExecutorOptions, OutputMode

B = Batches(iterations=2, replicas=2, accumulation=3)


def numbered(order, micro=(4, 5)):
    """Every element says of which iteration, accumulation and replica it is."""
    i, a, r = np.meshgrid(range(2), range(3), range(2), indexing="ij")
    x = (100 * i + 10 * a + r)[..., None, None] + np.zeros(micro, int)
    return x.transpose(*["iar".index(c) for c in order], 3, 4)


LIBRARY = numbered("iar").reshape(12 * 4, 5)


def test_numbers():
    assert B.n == B.n_out == 12
    grouped = Batches(2, 4, 3, group_size=2)
    assert (grouped.n, grouped.n_out) == (12, 24)
    for wrong in ((0, 1, 1, 1), (1, 3, 1, 2)):
        with pytest.raises(openipu.Error, match="expected numbers from 1 on, and groups that divide"):
            Batches(*wrong)


@pytest.mark.parametrize("order", ["iar", "ria", "rai", "air"])
@pytest.mark.parametrize("make", [lambda x: x, torch.from_numpy], ids=["numpy", "torch"])
def test_an_axis_for_each(order, make):
    x = make(np.ascontiguousarray(numbered(order)))
    assert B.from_axes(x, order).tolist() == LIBRARY.tolist()
    assert B.to_axes(make(LIBRARY), order).tolist() == numbered(order).tolist()


def test_the_librarys_order_is_not_copied():
    x = np.ascontiguousarray(numbered("iar"))
    assert np.shares_memory(B.from_axes(x), x) and np.shares_memory(B.to_axes(LIBRARY), LIBRARY)
    assert B.joined(LIBRARY) is LIBRARY and B.split(LIBRARY) is LIBRARY


def test_axes_of_one_can_be_left_out():
    one = Batches(iterations=3, replicas=2)
    x = np.arange(3 * 2 * 4).reshape(3, 2, 4)
    assert one.from_axes(x, dropped=True).tolist() == x.reshape(-1).tolist()
    assert one.to_axes(np.arange(24), dropped=True).tolist() == x.tolist()
    assert one.to_axes(np.arange(24)).shape == (3, 1, 2, 4)
    assert one.to_axes(np.arange(6), dropped=True, is_scalar=True).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert one.from_axes(np.arange(6).reshape(3, 1, 2)).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("make", [lambda x: x, torch.from_numpy], ids=["numpy", "torch"])
def test_batches_along_any_axis(axis, make):
    one = (3, 4, 5)
    parts = [np.random.default_rng(k).integers(0, 99, one) for k in range(12)]
    x = make(np.concatenate(parts, axis))
    assert B.shape_of_one(x.shape, axis) == one
    assert B.joined(x, axis).tolist() == np.concatenate(parts, 0).tolist()
    assert B.split(make(np.concatenate(parts, 0)), axis).tolist() == x.tolist()
    assert B.split(make(np.concatenate(parts[:2], 0)), axis, n=2).tolist() == np.concatenate(parts[:2], axis).tolist()


@pytest.mark.parametrize("call, message", [
    (lambda: B.shape_of_one((13, 2)), r"shape \[13, 2\]: axis 0 holds the batches of 2 iterations x 2 .* multiple of 12, found 13"),
    (lambda: B.shape_of_one((12, 2), 2), "has no axis 2"),
    (lambda: B.shape_of_one(()), "has no axis, and a run takes 12 batches"),
    (lambda: B.from_axes(np.zeros((2, 2, 3, 4))), r"expected it to begin with \[2, 3, 2\], the iterations, accumulation, replicas"),
    (lambda: B.to_axes(LIBRARY, "ira?"), "order 'ira.': expected the letters i")])
def test_errors(call, message):
    with pytest.raises(openipu.Error, match=message):
        call()


@pytest.mark.parametrize("make", [lambda x: x, torch.from_numpy], ids=["numpy", "torch"])
def test_output_modes(make):
    y = make(LIBRARY.astype(np.int32))

    def rows(mode, period=1):
        return B.selected(y, mode, period)[::4, 0].tolist()

    assert B.selected(y, OutputMode.ALL) is y
    assert rows(OutputMode.FINAL) == [120, 121]
    assert rows(OutputMode.EVERY_N, 3) == [10, 21, 110, 121]
    assert rows(OutputMode.SUM) == [360, 366]
    assert B.selected(y, OutputMode.SUM).dtype == y.dtype
    assert Batches().selected(y, OutputMode.FINAL) is y


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize("make", [lambda x: x, torch.from_numpy], ids=["numpy", "torch"])
def test_means_are_the_librarys(make, dtype):
    """Of half they are added up in float, of whole numbers they are rounded towards 0."""
    low, high = (-9, 8) if dtype.startswith("int") else (-60000, 60000)
    x = np.random.default_rng(5).integers(low, high, (24, 3)).astype(dtype)

    def found(mode):
        module = Module(lambda network, inputs: network.output(network.emit("neg", inputs), "y"), ["x"])
        return Executor(module, ExecutorOptions(device_iterations=6, replicas=2, output_mode=mode)).call([x])["y"]

    mean, all_batches = found(OutputMode.MEAN), make(found(OutputMode.ALL))
    ours = Batches(iterations=6, replicas=2).selected(all_batches, OutputMode.MEAN)
    assert ours.dtype == all_batches.dtype and tuple(ours.shape) == (4, 3)
    np.testing.assert_allclose(np.asarray(ours), mean, rtol=1e-6 if dtype == "float32" else 0)


@pytest.mark.parametrize("mode, name", [(OutputMode.DEFAULT, "DEFAULT"), (17, "17")])
def test_other_output_modes_are_errors(mode, name):
    with pytest.raises(openipu.Error, match=f"output mode {name}: expected one of ALL, EVERY_N, FINAL, SUM, MEAN"):
        B.selected(LIBRARY, mode)


@pytest.mark.parametrize("mode", [OutputMode.SUM, OutputMode.MEAN])
def test_truths_have_no_sum(mode):
    with pytest.raises(openipu.Error, match="bool: there is no sum of it"):
        B.selected(LIBRARY > 0, mode)


def test_of_a_run():
    """Time comes first: batches along axis 1, as in recurrent networks."""

    def forward(network, inputs):
        network.output(network.emit("cumsum", [inputs[0]], axis=0), "sums")
        network.output(network.emit("reduce_sum", [inputs[0]]), "total")

    batches = Batches(iterations=2, replicas=2)
    x = np.random.default_rng(1).random((3, 4 * 5), np.float32)
    module = Module(forward, ["x"])
    executor = Executor(module, ExecutorOptions(device_iterations=2, replicas=2, output_mode=OutputMode.ALL))
    found = executor.call([batches.joined(x, 1)])
    np.testing.assert_allclose(batches.split(found["sums"], 1), x.cumsum(0), rtol=1e-6)
    totals = batches.to_axes(found["total"], "ria", is_scalar=True)
    np.testing.assert_allclose(totals, x.reshape(3, 2, 2, 5).sum((0, 3)).T[:, :, None], rtol=1e-5)
