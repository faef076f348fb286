"""What PopTorch has in a compiled module of that name: errors, and a few questions that programs ask of it."""

from __future__ import annotations

import enum
from typing import Any, Dict

from ._capture import tensor as _tensor
from ._errors import Error, RecoverableError, UnrecoverableError

__all__ = ["Error", "RecoverableError", "UnrecoverableError", "TestErrorType", "ipuHardwareVersion",
           "isCompilingWithDispatcher"]


def isCompilingWithDispatcher() -> bool:
    """Whether a model is being captured in this thread."""
    return _tensor.current() is not None


def ipuHardwareVersion(numIpus: int = 1) -> int:
    """The architecture of the devices there are: 2 for the GC200; 0: there are not so many."""
    return 2 if numIpus <= 64 else 0


def _validateOptions(options: Dict[str, Any]) -> None:
    """Raise unless the library takes these options (``Options.toDict()``)."""
    from ._run import options_impl
    options_impl.check(options)


def propagateInputShapes(graph: Any, inputs: Any) -> None:
    """Models are captured with their shapes: there is nothing to do."""


class TestErrorType(enum.IntEnum):
    """Errors that ``_throwTestError`` raises, so that programs can test how they handle them."""
    __test__ = False
    Poptorch = 0
    Popart = 1
    PopartInternal = 2
    Poplibs = 3
    PoplarUnrecoverable = 4
    PoplarUnknown = 5
    PoplarRecoverableFullReset = 6
    PoplarLinkError = 7


_WHERE = "throwTestError::bottomLevel\nthrowTestError::topLevel"


def _throwTestError(error: TestErrorType) -> None:
    """Raise an error as one from the device would be."""
    kinds = {
        TestErrorType.Poptorch: ("poptorch_cpp_error", "test error"),
        TestErrorType.Popart: ("popart_exception", "test error"),
        TestErrorType.PopartInternal: ("popart_internal_exception", "test error"),
        TestErrorType.Poplibs: ("poplibs_exception", "test error"),
        TestErrorType.PoplarUnknown: ("poplar_unknown_runtime_error", "test error"),
        TestErrorType.PoplarLinkError: ("poplar_link_error", "test error: -lfoo not found"),
    }
    if error == TestErrorType.PoplarUnrecoverable:
        raised: Error = UnrecoverableError("test error", location=_WHERE)
    elif error == TestErrorType.PoplarRecoverableFullReset:
        raised = RecoverableError("test error", location=_WHERE, recovery_action="FULL_RESET")
    else:
        kind, message = kinds[error]
        raised = Error(message, kind, _WHERE)
    raised.args = (str(raised), )
    raise raised
