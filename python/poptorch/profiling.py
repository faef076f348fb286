"""Tracepoints of a program's own, for Graphcore's System Analyser; they do nothing where ``libpvti`` is not installed."""

from __future__ import annotations

import contextlib
import os
from typing import Any, ContextManager, Dict

from ._logging import logger

_pvti: Any = None
if os.environ.get("PVTI_OPTIONS"):
    try:
        import libpvti as _pvti
    except ImportError as e:
        logger.info("Tracepoints disabled (Couldn't import libpvti: %s)", e)

_channels: Dict[str, Any] = {}


class Channel:
    """A named group of tracepoints.

    >>> channel = poptorch.profiling.Channel("MyApp")
    >>> with channel.tracepoint("load"):
    ...     data = load()
    >>> channel.instrument(model, "compile", "save")
    """

    def __init__(self, name: str):
        self._name = name
        if _pvti is not None and name not in _channels:
            _channels[name] = _pvti.createTraceChannel(name)

    def instrument(self, obj: Any, *methods: str) -> Any:
        """Make calls of these methods of an object tracepoints; the object."""
        if _pvti is not None:
            _pvti.instrument(obj, methods, _channels[self._name])
        return obj

    def tracepoint(self, name: str) -> ContextManager[Any]:
        """A context that is one tracepoint."""
        if _pvti is None:
            return contextlib.nullcontext()
        return _pvti.Tracepoint(_channels[self._name], f"{self._name}.{name}")
