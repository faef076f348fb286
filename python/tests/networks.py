"""Networks of openipu run once, without any framework: for tests of what front ends share."""

from __future__ import annotations

import ctypes
import re
from typing import Dict, List

import numpy as np
from openipu import Network
from openipu.emitter import Emitter
from openipu.library import Target, check, lib
from openipu.network import NUMPY_TYPES


def emitter(training: bool = False, **options) -> Emitter:
    """An Emitter of a new network."""
    network = Network.create()
    network.training = training
    return Emitter(network, **options)


def run(network: Network, inputs: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    """Compile a network, run it once, and read all its outputs. What is kept is written like an input."""
    network.check()
    target, exe, engine = Target(), ctypes.c_void_p(), ctypes.c_void_p()
    check(lib().ipu_target_find(b"gc200", 1, ctypes.byref(target)))
    check(lib().ipu_model_compile(network.pointer, ctypes.byref(target), None, ctypes.byref(exe)))
    try:
        check(lib().ipu_engine_create(exe, None, ctypes.byref(engine)))
        for name, array in inputs.items():
            array = np.ascontiguousarray(array)
            check(lib().ipu_engine_write(engine, name.encode(), array.ctypes.data, array.nbytes))
        check(lib().ipu_engine_run(engine, 0))
        results = {}
        for name, value in network.outputs():
            results[name] = np.empty(value.shape, NUMPY_TYPES[value.type])
            check(lib().ipu_engine_read(engine, name.encode(), results[name].ctypes.data, results[name].nbytes))
        return results
    finally:
        if engine:
            lib().ipu_engine_destroy(engine)
        lib().ipu_executable_release(exe)


def ops(network: Network) -> List[str]:
    """Names of the ops of a network, in order."""
    return re.findall(r"^ *~.* = (\w+)\(", network.text(), re.MULTILINE)
