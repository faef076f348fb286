"""libipu through ctypes: where it is, its structures and prototypes, its statuses as exceptions.

    from openipu.library import lib, check
    check(lib().ipu_model_create(ctypes.byref(pointer)))

The library is loaded at the first call of lib(). It is looked for at IPU_LIBRARY, beside this package, in
the build folder of the source tree and where the loader looks, in this order.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import CFUNCTYPE, POINTER, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from . import abi
from .abi import Record
from .error import STATUS_NAMES, Error, status_name

MAX_RANK = 8
LOG_WARN = 3

#: Element types in the order of ipu_type.
TYPE_NAMES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "half", "bfloat16",
              "float", "double")
TYPE_NUMBERS = {name: i for i, name in enumerate(TYPE_NAMES)}
TYPE_SIZES = dict(zip(TYPE_NAMES, (1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8)))


class Shape(Record):
    _name_ = "ipu_shape"

    @classmethod
    def of(cls, dims: Sequence[int]) -> "Shape":
        """The shape with these dimensions, at most MAX_RANK of them."""
        n = len(dims)
        if n > MAX_RANK:
            raise Error(f"a shape of rank {n}, {list(dims)}: at most {MAX_RANK} dimensions are supported", "UNSUPPORTED")
        shape = cls()
        shape.rank = n
        shape.dim[:n] = dims
        return shape

    def tuple(self) -> tuple:
        return tuple(self.dim[:self.rank])


class RawValue(Record):
    _name_ = "ipu_value"


class RawAttribute(Record):
    _name_ = "ipu_attribute"


class Array(Record):
    """ipu_array: `data` is a pointer to elements in row-major order."""
    _name_ = "ipu_array"


class Target(Record):
    _name_ = "ipu_target"


class NamedArray(Record):
    _name_ = "ipu_named_array"


class Npz(Record):
    _name_ = "ipu_npz"


class OpAttribute(Record):
    _name_ = "ipu_op_attribute"


class OpInfo(Record):
    _name_ = "ipu_op_info"


class GradientOptions(Record):
    _name_ = "ipu_gradient_options"


INT, FLOAT, TEXT, INTS = range(4)  # ipu_attribute_kind

abi.expect("IPU_", STATUS_NAMES)
abi.expect("IPU_", TYPE_NAMES)
abi.expect("IPU_ATTRIBUTE_", ("INT", "FLOAT", "TEXT", "INTS"))
abi.expect("IPU_", {"MAX_RANK": MAX_RANK, "LOG_WARN": LOG_WARN})

#: ipu_forward_fn: builds a network, called whenever an executor compiles.
ForwardFn = CFUNCTYPE(None, c_void_p, POINTER(RawValue), c_size_t, c_void_p)
#: ipu_custom_gradient_fn
GradientFn = CFUNCTYPE(None, c_void_p, POINTER(RawValue), c_size_t, POINTER(RawValue), c_size_t, c_void_p)
#: ipu_progress_fn
ProgressFn = CFUNCTYPE(c_bool, c_void_p, c_int, c_int)

_S = c_int  # ipu_status
_P = c_void_p  # any handle
_PP = POINTER(c_void_p)
_V = RawValue
_VS = POINTER(RawValue)
_T = c_char_p
_N = c_size_t
_A = POINTER(Array)

#: name: (result, arguments). What other modules call must be here, or declared with `declare`.
PROTOTYPES = {
    # status, version, location
    "ipu_message": (_T, []),
    "ipu_version": (_T, []),
    "ipu_here": (None, [_T, c_int]),
    "ipu_free": (None, [_P]),
    "ipu_log_set_default": (None, [c_int, _P, _P]),
    # builder
    "ipu_builder_status": (_S, [_P]),
    "ipu_builder_message": (_T, [_P]),
    "ipu_builder_push_scope": (None, [_P, _T]),
    "ipu_builder_pop_scope": (None, [_P]),
    "ipu_named": (_V, [_P, _V, _T]),
    "ipu_value_type": (c_int, [_V]),
    "ipu_value_shape": (Shape, [_V]),
    "ipu_value_name": (_T, [_V]),
    "ipu_constant_data": (_V, [_P, c_int, Shape, _P]),
    "ipu_constant_value": (_V, [_P, c_int, Shape, c_double]),
    "ipu_emit": (None, [_P, _T, POINTER(RawAttribute), _N, _VS, _N, _VS, _N]),
    "ipu_n_ops": (_N, []),
    "ipu_op_info_at": (_S, [_N, POINTER(OpInfo)]),
    "ipu_op_info_find": (_S, [_T, POINTER(OpInfo)]),
    # model
    "ipu_model_create": (_S, [_PP]),
    "ipu_model_destroy": (None, [_P]),
    "ipu_model_builder": (_P, [_P]),
    "ipu_model_input": (_V, [_P, c_int, Shape, _T]),
    "ipu_model_parameter": (_V, [_P, c_int, Shape, _P, _T]),
    "ipu_model_state": (_V, [_P, c_int, Shape, _P, _T]),
    "ipu_model_output": (None, [_P, _V, _T]),
    "ipu_model_n_outputs": (_N, [_P]),
    "ipu_model_output_at": (_V, [_P, _N, POINTER(_T)]),
    "ipu_model_value_named": (_V, [_P, _T]),
    "ipu_model_update": (None, [_P, _V, _V]),
    "ipu_model_seed": (_V, [_P]),
    "ipu_model_set_seed": (None, [_P, c_uint32]),
    "ipu_model_n_ops": (_N, [_P]),
    "ipu_model_stage": (None, [_P, _T]),
    "ipu_model_n_stages": (_N, [_P]),
    "ipu_model_if": (None, [_P, _V]),
    "ipu_model_else": (None, [_P]),
    "ipu_model_loop": (None, [_P, c_int64, _V, _VS, _N, _VS, _VS]),
    "ipu_model_yield": (None, [_P, _VS, _N]),
    "ipu_model_yield_while": (None, [_P, _V, _VS, _N]),
    "ipu_model_end": (None, [_P, _VS, _N]),
    "ipu_model_gradients": (None, [_P, _V, _VS, _N, _P, _VS]),
    "ipu_model_custom_gradient": (None, [_P, _VS, _N, _VS, _N, GradientFn, _P, _VS]),
    "ipu_model_compile": (_S, [_P, _P, _P, _PP]),
    "ipu_model_print": (_S, [_P, c_uint32, _T, _PP]),
    "ipu_nn_set_training": (None, [_P, c_bool]),
    "ipu_nn_is_training": (c_bool, [_P]),
    "ipu_nn_loss": (None, [_P, _V, _T]),
    "ipu_nn_train_with": (None, [_P, _P]),
    # engines
    "ipu_target_find": (_S, [_T, c_int64, POINTER(Target)]),
    "ipu_executable_release": (None, [_P]),
    "ipu_engine_create": (_S, [_P, _P, _PP]),
    "ipu_engine_destroy": (None, [_P]),
    "ipu_engine_write": (_S, [_P, _T, _P, _N]),
    "ipu_engine_read": (_S, [_P, _T, _P, _N]),
    "ipu_engine_run": (_S, [_P, _N]),
    # arrays
    "ipu_npz_free": (None, [POINTER(Npz)]),
    # modules
    "ipu_module_create": (_S, [ForwardFn, _P, _PP]),
    "ipu_module_destroy": (None, [_P]),
    "ipu_module_name_inputs": (_S, [_P, POINTER(_T), _N]),
    "ipu_module_set_seed": (None, [_P, c_uint32]),
    "ipu_module_n_weights": (_N, [_P]),
    "ipu_module_weight_at": (_S, [_P, _N, POINTER(_T), POINTER(_A)]),
    "ipu_module_weight": (_S, [_P, _T, POINTER(_A)]),
    "ipu_module_set_weight": (_S, [_P, _T, _A]),
    "ipu_module_write_onnx": (_S, [_P, _P, _T]),
    # executors
    "ipu_executor_options_n_batches": (c_int64, [_P]),
    "ipu_training_model": (_S, [_P, _P, _P, _PP]),
    "ipu_inference_model": (_S, [_P, _P, _PP]),
    "ipu_executor_destroy": (None, [_P]),
    "ipu_executor_compile": (_S, [_P, _A, _N]),
    "ipu_executor_is_compiled": (c_bool, [_P]),
    "ipu_executor_run": (_S, [_P, _A, _N]),
    "ipu_executor_interrupt": (None, [_P]),
    "ipu_executor_n_outputs": (_N, [_P]),
    "ipu_executor_output_at": (_A, [_P, _N, POINTER(_T)]),
    "ipu_executor_output": (_A, [_P, _T]),
    "ipu_executor_set_rate": (_S, [_P, _N, c_double]),
    "ipu_executor_rate": (c_double, [_P, _N]),
    "ipu_executor_set_optimizer": (_S, [_P, _P]),
    "ipu_executor_n_steps": (c_int64, [_P]),
    "ipu_executor_copy_weights_to_host": (_S, [_P]),
    "ipu_executor_copy_weights_to_device": (_S, [_P]),
    "ipu_executor_get_state": (_S, [_P, POINTER(Npz)]),
    "ipu_executor_set_state": (_S, [_P, POINTER(Npz)]),
    "ipu_executor_attach": (_S, [_P]),
    "ipu_executor_detach": (_S, [_P]),
    "ipu_executor_is_attached": (c_bool, [_P]),
    "ipu_executor_place_output": (_S, [_P, c_size_t, _P]),
    "ipu_executor_executable": (_P, [_P]),
    "ipu_executor_engine": (_P, [_P]),
    "ipu_executor_cost": (_S, [_P, _P, _PP]),
    "ipu_executor_compile_seconds": (c_double, [_P, POINTER(c_bool)]),
    "ipu_set_compile_progress": (None, [ProgressFn, _P]),
}

_loaded: Optional[ctypes.CDLL] = None


def _candidates() -> list:
    here = Path(__file__).resolve().parent
    named = os.environ.get("IPU_LIBRARY")
    places = [named] if named else []
    places += [str(here / "libipu.so"), str(here.parent.parent / "build" / "src" / "libipu.so")]
    return [place for place in places if os.path.exists(place)] + ["libipu.so.0", "libipu.so"]


#: Debian's packages of what libipu.so itself needs.
PACKAGES = {"libdnnl": "libdnnl2", "libjansson": "libjansson4", "libzip": "libzip4", "libpng16": "libpng16-16",
            "libz": "zlib1g", "libprotobuf-c": "libprotobuf-c1", "libgomp": "libgomp1"}


def _why_not(place: str, reason: str) -> str:
    """What to do about a library that is there and cannot be loaded."""
    missing = reason.split(":")[0].split(".so")[0]
    if os.path.basename(place).startswith(missing):
        return f"{place}: {reason}"
    package = PACKAGES.get(missing)
    advice = f"install Debian's package {package} (apt-get install {package})" if package else "install it"
    return f"{place} needs {reason.split(':')[0]}, which is not on this machine: {advice}"


def _open() -> ctypes.CDLL:
    named = os.environ.get("IPU_LIBRARY")
    if named and not os.path.exists(named):
        raise Error(f"IPU_LIBRARY is {named!r}, where there is no file: set it to the path of libipu.so", "NOT_FOUND")
    failures = []
    for place in _candidates():
        try:
            library = ctypes.CDLL(place)
        except OSError as e:
            if os.path.exists(place):
                raise Error(f"libipu.so cannot be loaded: {_why_not(place, str(e))}", "NOT_FOUND") from None
            failures.append(str(e))
        else:
            abi.read(library, place)
            return library
    raise Error("libipu.so was not found; build it, or set IPU_LIBRARY to its path. Tried: " + "; ".join(failures),
                "NOT_FOUND")


def declare(name: str, result: object, arguments: Sequence[object]) -> None:
    """Add a prototype; those in PROTOTYPES need it not."""
    with abi.loading:
        PROTOTYPES[name] = (result, list(arguments))
        if _loaded is not None:
            _apply(_loaded, name)


def _apply(library: ctypes.CDLL, name: str) -> None:
    result, arguments = PROTOTYPES[name]
    try:
        function = getattr(library, name)
    except AttributeError:
        return  # an older library: only who calls it fails
    function.restype = result
    function.argtypes = arguments


def lib() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    return _loaded if _loaded is not None else _load()


def _load() -> ctypes.CDLL:
    global _loaded
    with abi.loading:
        if _loaded is None:
            library = _open()
            for name in PROTOTYPES:
                _apply(library, name)
            if hasattr(library, "ipu_log_set_default"):  # an older library has none
                library.ipu_log_set_default(LOG_WARN, None, None)
            _loaded = library
        return _loaded


abi.on_demand(lib)


def message() -> str:
    """The sentence of this thread's last failed call."""
    return lib().ipu_message().decode(errors="replace")


def check(status: int) -> None:
    """Raise openipu.Error unless the status is 0."""
    if status:
        raise Error(message(), status_name(status))


def finalizer(close: Callable[[Any], None]) -> Callable[[Any], None]:
    """A __del__ that calls `close`. While the interpreter ends it is quiet: modules that `close` needs may be gone by
    then, and the memory is freed with the process."""
    is_ending = sys.is_finalizing  # of this function: globals are among what may be gone

    def __del__(self: Any) -> None:
        try:
            close(self)
        except Exception:  # pylint: disable=broad-except
            if not is_ending():
                raise

    return __del__


def array_of(type_name: str, shape: Sequence[int], data: Optional[int]) -> Array:
    """An Array over memory at address `data`, which the caller keeps alive."""
    return Array(TYPE_NUMBERS[type_name], Shape.of(tuple(shape)), data)
