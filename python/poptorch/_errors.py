"""The errors that poptorch raises."""

from __future__ import annotations

import contextlib
import re
from typing import Iterator, Optional

from openipu import error as ipu_error

from ._capture.torch_compat import DynamicOutputShapeException


class Error(Exception):
    """What went wrong while a model was captured, compiled or run.

    :ivar message: what was expected, found, where, what to do.
    :ivar type: where it comes from: "poptorch_py_error", "poptorch_cpp_error", "popart_exception", ...
    :ivar location: the user's "file:line", or "".
    """

    def __init__(self, message: str = "", type: str = "poptorch_py_error", location: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.type = type
        self.location = location

    def __str__(self) -> str:
        text = f"'{self.type}': {self.message}" if self.type else self.message
        return f"{text}\nLocation: {self.location}" if self.location else text

    def __reduce__(self) -> tuple:
        return (self.__class__, (self.message, self.type, self.location))


class RecoverableError(Error):
    """An error after which the device can be used again once it was reset.

    :ivar recovery_action: "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET".
    """

    def __init__(self, message: str = "", type: str = "poplar_recoverable_runtime_error", location: str = "",
                 recovery_action: str = "IPU_RESET") -> None:
        super().__init__(message, type, location)
        self.recovery_action = recovery_action


class UnrecoverableError(Error):
    """An error after which the device cannot be used any more."""

    def __init__(self, message: str = "", type: str = "poplar_unrecoverable_runtime_error", location: str = "") -> None:
        super().__init__(message, type, location)


class DynamicShapeError(Error, DynamicOutputShapeException):
    """The shape of a result would depend on values that are known at run time only."""

    def __init__(self, message: str = "", type: str = "poptorch_py_error", location: str = "") -> None:
        Error.__init__(self, message, type, location)


def createPoptorchError(msg: str) -> Error:
    """An error of poptorch's own, to be raised."""
    return Error(msg, "poptorch_py_error")


#: Options of the library that come from poptorch.Options, by the names that they have there.
_OPTIONS = {
    "attach": "Options.connectionType",
    "device_iterations": "Options.deviceIterations",
    "gradient_accumulation": "Options.Training.gradientAccumulation",
    "input_group_size": "Options.inputReplicaGrouping",
    "output_mode": "Options.outputMode",
    "output_period": "Options.outputMode(..., output_return_period)",
    "replicas": "Options.replicationFactor",
    "shard_optimizer": "TensorLocationSettings.useReplicatedTensorSharding",
    "stage_ipus": "ipu_id of blocks",
}


def _in_our_terms(message: str) -> str:
    """Options that a message of the library begins with, by the names that the user knows."""

    def named(found: "re.Match[str]") -> str:
        return " and ".join(_OPTIONS.get(name, f"option {name}") for name in found.group(1).split("/")) + ":"

    return re.sub(r"^option ([a-z_/]+):", named, message)


def from_library(error: Exception, location: Optional[str] = None) -> Error:
    """An error of libipu, or of openipu, as one of poptorch."""
    kind = "poptorch_py_error" if isinstance(error, ipu_error.UsageError) else "poptorch_cpp_error"
    return Error(_in_our_terms(getattr(error, "message", str(error))), kind, location or "")


@contextlib.contextmanager
def library_errors() -> Iterator[None]:
    """Errors of libipu and of openipu are raised as errors of poptorch."""
    try:
        yield
    except ipu_error.Error as e:
        raise from_library(e) from e.__cause__
