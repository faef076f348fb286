"""openipu.arrays: memory of any framework as arrays of the library, and back."""

from __future__ import annotations

import array as standard
import ctypes

import numpy as np
import openipu
import pytest
import torch
from openipu.arrays import lend, numpy_of, numpy_over
from openipu.library import TYPE_NAMES


class Interface:
    """Only __array_interface__."""

    def __init__(self, x):
        self.x, self.__array_interface__ = x, x.__array_interface__


class DLPack:
    """Only DLPack's protocol."""

    def __init__(self, x, device=(1, 0)):
        self.x, self.device = x, device

    def __dlpack__(self):
        return self.x.__dlpack__()

    def __dlpack_device__(self):
        return self.device


def elements(array):
    return numpy_over(array).tolist()


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("x", [X, torch.from_numpy(X), Interface(X), DLPack(torch.from_numpy(X)), memoryview(X)],
                         ids=["numpy", "torch", "interface", "dlpack", "buffer"])
def test_contiguous_memory_is_the_same(x):
    array, owner = lend(x)
    assert array.data == X.ctypes.data and owner is not None
    assert array.shape.tuple() == (3, 4) and TYPE_NAMES[array.type] == "float"
    assert np.shares_memory(numpy_of(x), X) and numpy_of(x).shape == (3, 4)


@pytest.mark.parametrize("make", [lambda x: x, torch.from_numpy, Interface, lambda x: DLPack(torch.from_numpy(x))])
def test_strides_are_copied_once(make):
    x = X.T[1:]
    array, owner = lend(make(x))
    assert elements(array) == x.tolist()
    assert array.data not in (X.ctypes.data, x.ctypes.data) and array.data == owner.ctypes.data


def test_negative_strides_and_broadcast_ones():
    for x in (X[::-1, ::2], np.broadcast_to(X[0], (2, 4)), X[:0], X[:, 1:2][:1]):
        array, owner = lend(x)
        assert elements(array) == x.tolist() and owner is not None


def test_axes_of_one_have_any_stride():
    for x in (X[::2][:1], X[:0, ::2], torch.from_numpy(X)[::2][:1]):
        array, owner = lend(x)
        assert owner is x and array.data == (x.ctypes.data if isinstance(x, np.ndarray) else x.data_ptr())


@pytest.mark.parametrize("n", [1, 3])
def test_tensors_that_torch_negates_later(n):
    z = torch.complex(torch.ones(n), torch.arange(1.0, n + 1))
    for x in (z.conj().imag, torch._neg_view(torch.arange(1.0, n + 1))):
        array, owner = lend(x)
        assert elements(array) == numpy_of(x).tolist() == x.tolist() and owner is not None
        assert x.tolist()[0] == -1


def test_types_of_all():
    for name in ("float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"):
        ours, _ = lend(np.ones(3, name))
        theirs, _ = lend(torch.ones(3, dtype=getattr(torch, name)))
        packed, _ = lend(DLPack(torch.ones(3, dtype=getattr(torch, name)))) if name != "bool" else (theirs, None)
        assert ours.type == theirs.type == packed.type, name
    assert TYPE_NAMES[lend(np.ones(3, "uint32"))[0].type] == "uint32"
    assert TYPE_NAMES[lend(standard.array("d", [1, 2]))[0].type] == "double"
    for x in (torch.tensor([1.5, -2]).bfloat16(), DLPack(torch.tensor([1.5, -2]).bfloat16())):
        assert TYPE_NAMES[lend(x)[0].type] == "bfloat16"
        assert numpy_of(x).tolist() == [1.5, -2]


def test_numbers_and_lists():
    assert numpy_of([1, 2]).tolist() == [1, 2] and numpy_of(2.5).shape == ()
    array, owner = lend([[1.5], [2]])
    assert elements(array) == [[1.5], [2]] and owner is not None


@pytest.mark.parametrize("x, message", [
    (np.ones(2, np.complex64), "weights: tensors of complex64 are not supported; expected one of: float32, "),
    (torch.ones(2, dtype=torch.complex64), "torch.complex64 are not supported; expected one of: torch.float32, "),
    (np.ones(2, ">f4"), "tensors of >f4 are not supported"),
    (object(), "weights: object is no array; expected one of numpy or torch"),
    (torch.eye(2).to_sparse(), "a tensor of layout torch.sparse_coo"),
    (torch.ones(2, device="meta"), "a tensor on meta; expected one in the memory of the host"),
    (DLPack(torch.ones(2), (2, 0)), "memory of DLPack device .2, 0.; expected the host's")])
def test_what_is_not_supported_says_so(x, message):
    with pytest.raises(openipu.Error, match=message):
        lend(x, "weights")


def test_memory_of_the_library_lives_as_long_as_its_view():
    memory = (ctypes.c_float * 2)(1, 2)
    array = openipu.library.array_of("float", (2, ), ctypes.addressof(memory))
    view = numpy_over(array, memory)
    view[0] = 5
    assert memory[0] == 5
    del memory
    assert view.tolist() == [5, 2]
