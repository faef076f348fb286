"""Tensors as text, for poptorch.ipu_print_tensor."""

from __future__ import annotations

import math
import sys
from typing import Any, Callable, List, NamedTuple

import numpy as np


class Format(NamedTuple):
    """How a tensor is written."""
    summarise_threshold: int = 1000
    edge_items: int = 3
    max_line_width: int = 80
    digits: int = 4
    float_format: str = "auto"
    separator: str = ", "
    open_bracket: str = "("
    close_bracket: str = ")"


def _number_format(array: np.ndarray, how: Format) -> Callable[[Any], str]:
    if array.dtype == np.bool_:
        return lambda v: "1" if v else "0"
    if array.dtype.kind in "iu":
        return lambda v: str(int(v))
    if how.float_format == "none":
        return lambda v: f"{float(v):g}"
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    largest = float(finite.max()) if finite.size else 0.0
    smallest = float(finite[finite > 0].min()) if (finite > 0).any() else 1.0
    scientific = how.float_format == "scientific" or (
        how.float_format == "auto" and (largest >= 10**how.digits or smallest < 10.0**-how.digits))
    if scientific:
        return lambda v: f"{float(v):.{max(how.digits - 1, 0)}e}"
    whole = max(1, math.floor(math.log10(largest)) + 1) if largest >= 1 else 1
    return lambda v: f"{float(v):.{max(how.digits - whole, 1)}f}"


def _kept(n: int, edge: int, summarised: bool) -> List[int]:
    """Which elements of a dimension are written; -1: those left out."""
    if not summarised or n <= 2 * edge:
        return list(range(n))
    return list(range(edge)) + [-1] + list(range(n - edge, n))


def _row(array: np.ndarray, depth: int, how: Format, text: Callable, summarised: bool) -> str:
    line = " " * depth + how.open_bracket
    lines, first = [], True
    for i in _kept(len(array), how.edge_items, summarised):
        word = "..." if i < 0 else text(array[i])
        if not first:
            line += how.separator
            if len(line) + len(word) > how.max_line_width:
                lines.append(line.rstrip(" "))
                line = " " * (depth + 2)
        line += word
        first = False
    return "\n".join(lines + [line + how.close_bracket])


def _nested(array: np.ndarray, depth: int, how: Format, text: Callable, summarised: bool) -> str:
    if array.ndim == 1:
        return _row(array, depth, how, text, summarised)
    inner = [" " * (depth + 1) + "..." if i < 0 else _nested(array[i], depth + 1, how, text, summarised)
             for i in _kept(len(array), how.edge_items, summarised)]
    return "\n".join([" " * depth + how.open_bracket] + inner + [" " * depth + how.close_bracket])


def text_of(title: str, array: np.ndarray, how: Format) -> str:
    """An array as text, with a title before it."""
    text = _number_format(array, how)
    body = text(array[()]) if array.ndim == 0 else _nested(array, 0, how, text, array.size > how.summarise_threshold)
    return f"{title}: {body}"


def show(title: str, array: np.ndarray, how: Format) -> None:
    """Write an array to stderr."""
    sys.stderr.write(text_of(title, array, how) + "\n")
    sys.stderr.flush()
