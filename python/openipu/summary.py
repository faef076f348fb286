"""Summaries of libipu (ipu/summary.h): what a training shows as it goes, for TensorBoard.

    with Summary("runs/1") as summary:
        summary.add_scalars(step, {"train/loss": loss, "train/rate": rate})
        summary.add_text(0, "notes", "with *half* the rate")
        summary.add_histogram(step, "weights/a", a)         # a numpy array
"""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any, Mapping, Optional, Union

from .abi import Record
from .arrays import lend
from .error import Error
from .library import Array, check, declare, finalizer, lib

declare("ipu_summary_open", c_int, [c_char_p, c_int64, POINTER(c_void_p)])
declare("ipu_summary_close", None, [c_void_p])
declare("ipu_summary_path", c_char_p, [c_void_p])
declare("ipu_summary_add_scalar", c_int, [c_void_p, c_int64, c_char_p, c_double])
declare("ipu_summary_add_scalars", c_int, [c_void_p, c_int64, c_void_p, c_size_t])
declare("ipu_summary_add_text", c_int, [c_void_p, c_int64, c_char_p, c_char_p])
declare("ipu_summary_add_histogram", c_int, [c_void_p, c_int64, c_char_p, POINTER(Array)])


class _CScalar(Record):
    _name_ = "ipu_summary_scalar"


def _encoded(text: str) -> bytes:
    """What is no text of Unicode, as names of files may be, is for the library to replace."""
    return text.encode(errors="surrogateescape")


class Summary:
    """An event file in `folder`, after those that are there; what they have of step `purge` and later ones is superseded."""

    def __init__(self, folder: Union[str, os.PathLike], purge: Optional[int] = None):
        self.pointer = c_void_p()
        check(lib().ipu_summary_open(os.fsencode(folder), -1 if purge is None else purge, byref(self.pointer)))

    def _open(self) -> c_void_p:
        if not self.pointer:
            raise Error("this summary was closed: make another one")
        return self.pointer

    @property
    def path(self) -> str:
        """Of the file."""
        return os.fsdecode(lib().ipu_summary_path(self._open()))

    def add_scalar(self, step: int, tag: str, value: float) -> None:
        check(lib().ipu_summary_add_scalar(self._open(), step, _encoded(tag), value))

    def add_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Several, by their tags, as one event."""
        own = (_CScalar * max(1, len(values)))()
        for i, (tag, value) in enumerate(values.items()):
            own[i].tag = _encoded(tag)
            own[i].value = value
        check(lib().ipu_summary_add_scalars(self._open(), step, own, len(values)))

    def add_text(self, step: int, tag: str, text: str) -> None:
        """Markdown."""
        check(lib().ipu_summary_add_text(self._open(), step, _encoded(tag), _encoded(text)))

    def add_histogram(self, step: int, tag: str, values: Any) -> None:
        """How the elements of an array of any framework are distributed; those that are not finite are left out."""
        array, _owner = lend(values, tag)
        check(lib().ipu_summary_add_histogram(self._open(), step, _encoded(tag), byref(array)))

    def __enter__(self) -> "Summary":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing can be added afterwards; what was, is in the file already."""
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            lib().ipu_summary_close(pointer)

    __del__ = finalizer(close)
