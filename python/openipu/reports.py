"""Files about what was compiled: its profile, and the network itself."""

from __future__ import annotations

import os
from ctypes import POINTER, byref, c_int, c_uint, c_void_p, string_at

from .error import Error
from .executor import Executor, Module
from .library import check, declare, lib
from .log import logger

declare("ipu_cost_json", c_int, [c_void_p, c_uint, POINTER(c_void_p)])


def profile(executor: Executor) -> str:
    """What one run would take on the chip, as JSON."""
    cost, text = c_void_p(), c_void_p()
    check(lib().ipu_executor_cost(executor.pointer, None, byref(cost)))
    try:
        check(lib().ipu_cost_json(cost, 0, byref(text)))
        return string_at(text.value).decode()
    finally:
        lib().ipu_cost_destroy(cost)
        if text.value:
            lib().ipu_free(text)


def write_profile(executor: Executor, path: str) -> None:
    """``profile`` to a file, in a folder that is made."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(profile(executor))
    logger.info("Profile written to %s", path)


def write_network(module: Module, path: str, batch: int, what: str) -> None:
    """As ONNX, for batches of that size. One that cannot be written is a warning, which begins with ``what`` asked for it, and
    no error."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        module.write_onnx(path, batch)
    except Error as error:
        logger.warning("%s: the model could not be written to %s: %s", what, path, error)
