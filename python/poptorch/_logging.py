"""Messages to the user: `poptorch.logger`, whose level POPTORCH_LOG_LEVEL and setLogLevel set."""

from __future__ import annotations

import logging
import os
from typing import Union

from openipu.log import forward_to, show

TRACE = 5

_LEVELS = {"TRACE_ALL": TRACE, "TRACE": TRACE, "DEBUG_IR": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO,
           "WARN": logging.WARNING, "WARNING": logging.WARNING, "ERR": logging.ERROR, "ERROR": logging.ERROR,
           "OFF": logging.CRITICAL + 1}
_NUMBERS = {0: "TRACE", 1: "DEBUG", 2: "INFO", 3: "WARN", 4: "ERR", 6: "OFF"}

logging.addLevelName(TRACE, "TRACE")
logger = logging.getLogger("poptorch::python")


def _level_of(level: Union[int, str]) -> int:
    if isinstance(level, int):
        if level not in _NUMBERS:
            raise ValueError(f"Invalid log level integer: {level}. Valid values are {', '.join(map(str, _NUMBERS))}")
        level = _NUMBERS[level]
    if str(level).upper() not in _LEVELS:
        raise ValueError(f"Unknown log level: {level}. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN")
    return _LEVELS[str(level).upper()]


def setLogLevel(level: Union[int, str]) -> None:
    """How much is told: TRACE, DEBUG, INFO, WARN, ERR or OFF (or 0 to 4, and 6)."""
    logger.setLevel(_level_of(level))


def setPopartLogLevel(level: Union[int, str]) -> None:
    """How much the compiler tells, in the same words as setLogLevel."""
    if not isinstance(level, str) or level.upper() not in _LEVELS:
        raise ValueError(f"Level must be one of {', '.join(_NUMBERS.values())}, found {level!r}")


def _set_up() -> None:
    forward_to(logger)
    show(logger, os.environ.get("POPTORCH_LOG_DEST", "stderr"))
    try:
        logger.setLevel(_level_of(os.environ.get("POPTORCH_LOG_LEVEL", "WARN")))
    except Exception:
        logger.setLevel(logging.WARNING)


_set_up()
