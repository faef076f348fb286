"""Datasets of libipu (ipu/dataset.h): samples from files, or from numpy arrays.

    data = Dataset.open("data/mnist", Part.TRAIN, mean=0.1307, std=0.3081)
    data = Dataset.from_arrays({"x": x, "y": y})         # sample i is row i of each
"""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any, List, Mapping, Union

from .abi import Record
from .arrays import lend
from .error import Error
from .library import NamedArray, check, declare, finalizer, lib
from .settings import Part

declare("ipu_dataset_open", c_int, [c_char_p, c_int, c_void_p, POINTER(c_void_p)])
declare("ipu_dataset_from_arrays", c_int, [c_void_p, c_size_t, POINTER(c_void_p)])
declare("ipu_dataset_destroy", None, [c_void_p])
declare("ipu_dataset_kind", c_char_p, [c_void_p])
declare("ipu_dataset_n_samples", c_int64, [c_void_p])
declare("ipu_dataset_n_fields", c_size_t, [c_void_p])
declare("ipu_dataset_n_classes", c_int64, [c_void_p])
declare("ipu_dataset_is_iterable", c_bool, [c_void_p])


class _COptions(Record):
    _name_ = "ipu_dataset_options"


class _Handle:
    """ipu_dataset, destroyed when neither the Dataset nor a trainer needs it: interpreters free in any order."""

    def __init__(self) -> None:
        self.pointer = c_void_p()
        self.memory: List[object] = []  # that the library borrows
        self._n_users = 1

    def use(self) -> None:
        self._n_users += 1

    def drop(self) -> None:
        self._n_users -= 1
        if self._n_users == 0 and self.pointer:
            lib().ipu_dataset_destroy(self.pointer)
            self.pointer = None
            self.memory.clear()


class Dataset:
    """Made by ``open`` and ``from_arrays``."""

    def __init__(self, handle: _Handle):
        self.handle = handle
        self.pointer = handle.pointer

    @classmethod
    def open(cls, path: Union[str, os.PathLike], part: Part = Part.TRAIN, *, mean: float = 0.0, std: float = 0.0, raw: bool = False,
             test_share: float = 0.0, most: int = 0) -> "Dataset":
        """What is at ``path``: MNIST's IDX files, class folders of PNG files, .npz, .npy."""
        handle = _Handle()
        options = _COptions(mean, std, raw, test_share, most)
        check(lib().ipu_dataset_open(os.fsencode(path), part, byref(options), byref(handle.pointer)))
        return cls(handle)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> "Dataset":
        """Fields by their names, arrays of any framework (openipu.arrays). They must not change while it is used; those that are not
        contiguous are copied."""
        handle = _Handle()
        own = (NamedArray * max(1, len(arrays)))()
        for i, (name, array) in enumerate(arrays.items()):
            own[i].name = name.encode()
            own[i].array, owner = lend(array, name)
            handle.memory.append(owner)
        handle.memory.append(own)
        check(lib().ipu_dataset_from_arrays(own, len(arrays), byref(handle.pointer)))
        return cls(handle)

    def _open(self) -> c_void_p:
        if not self.pointer:
            raise Error("this dataset was closed: make another one")
        return self.pointer

    def __len__(self) -> int:
        return lib().ipu_dataset_n_samples(self._open())

    def kind(self) -> str:
        """"IDX files", "arrays", ...: for people."""
        return lib().ipu_dataset_kind(self._open()).decode()

    def n_fields(self) -> int:
        return lib().ipu_dataset_n_fields(self._open())

    def n_classes(self) -> int:
        """0: not known."""
        return lib().ipu_dataset_n_classes(self._open())

    def close(self) -> None:
        """Nothing can be done with it afterwards; trainers that have it keep it."""
        if getattr(self, "pointer", None) is not None:
            self.pointer = None
            self.handle.drop()

    __del__ = finalizer(close)
