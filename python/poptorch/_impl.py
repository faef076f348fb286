"""Whether a model is being captured or run on the IPU."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

from openipu import tracking as _tracking

from ._capture.tensor import current

_state = threading.local()


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Meanwhile isRunningOnIpu() is true in this thread."""
    before = getattr(_state, "running", False)
    _state.running = True
    try:
        yield
    finally:
        _state.running = before


def isRunningOnIpu() -> bool:
    """Whether the code that calls it is part of a model that is being compiled for, or run on, the IPU."""
    return current() is not None or getattr(_state, "running", False)


def isDispatchTracing() -> bool:
    """Whether a model is being captured."""
    return current() is not None


def isCompilingWithDispatcher() -> bool:
    """Whether a model is being captured."""
    return current() is not None


def _restoreWrapperIfNecessary(obj: object) -> object:
    """What files that PopTorch itself wrote call for models that were being trained: the model as it is."""
    return obj


def isWrapped(obj: Any) -> bool:
    """Whether an object is a model, parameter or buffer of a model that is being trained."""
    return _tracking.is_wrapped(obj)


def unwrapIfWrapped(obj: Any) -> Any:
    """The object itself, of its own class again if it was wrapped for training, with the newest weights."""
    return _tracking.unwrap_one(obj)
