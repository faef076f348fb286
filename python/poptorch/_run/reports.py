"""Files about a compiled model: its profile, and the network itself."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_void_p, string_at
from typing import Any

from openipu import error as ipu_error
from openipu.abi import Record
from openipu.library import check, declare, lib

from .._logging import logger

PROFILE = "profile.pop"

declare("ipu_cost_json", c_int, [c_void_p, c_uint, POINTER(c_void_p)])
declare("ipu_cost_destroy", None, [c_void_p])
declare("ipu_free", None, [c_void_p])
declare("ipu_module_write_onnx", c_int, [c_void_p, c_void_p, c_char_p])


class _WriteOptions(Record):
    _name_ = "ipu_module_write_options"


def write(program: Any, options: Any, training: bool) -> None:
    """What options and the environment ask for: :meth:`Options.enableProfiling` and POPTORCH_EXPORT_PROTO_FILE."""
    folder = options._profile_folder(training)
    if folder is not None:
        _write_text(os.path.join(folder, PROFILE), _profile(program))
    path = os.environ.get("POPTORCH_EXPORT_PROTO_FILE", "")
    if path:
        _write_network(program, path)


def _profile(program: Any) -> str:
    """What one run would take on the chip, as JSON."""
    cost, text = c_void_p(), c_void_p()
    check(lib().ipu_executor_cost(program.executor.pointer, None, byref(cost)))
    try:
        check(lib().ipu_cost_json(cost, 0, byref(text)))
        return string_at(text.value).decode()
    finally:
        lib().ipu_cost_destroy(cost)
        if text.value:
            lib().ipu_free(text)


def _write_text(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    logger.info("Profile written to %s", path)


def _write_network(program: Any, path: str) -> None:
    """As ONNX; a network with ops that ONNX has not is told of, and no error."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    shapes = [slot.shape for slot in program.graph.inputs if slot.shape]
    options = _WriteOptions(batch=shapes[0][0] if shapes else 1)
    try:
        check(lib().ipu_module_write_onnx(program.module.pointer, byref(options), path.encode()))
    except ipu_error.Error as error:
        logger.warning("POPTORCH_EXPORT_PROTO_FILE: the model could not be written to %s: %s", path, error)
