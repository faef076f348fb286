"""Errors of the library, as exceptions."""

from __future__ import annotations

STATUS_NAMES = ("OK", "INVALID", "UNSUPPORTED", "OUT_OF_MEMORY", "NOT_FOUND", "IO", "INTERRUPTED", "ABORTED",
                "TILE_OVERFLOW", "FORKED", "BUSY", "DEVICE_ERROR")


class Error(RuntimeError):
    """A call of libipu failed.

    Attributes:
        message: the library's sentence: what was expected, found, where, what to do.
        status: its code, as a name such as "INVALID".
    """

    def __init__(self, message: str, status: str = "INVALID"):
        super().__init__(message)
        self.message = message
        self.status = status


def status_name(code: int) -> str:
    """The name of an ipu_status, or its number as text."""
    return STATUS_NAMES[code] if 0 <= code < len(STATUS_NAMES) else str(code)


class UsageError(Error):
    """Something was asked for in Python that cannot be: no function of the library was called."""
