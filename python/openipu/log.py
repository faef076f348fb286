"""What the parts of this package that a front end is made of have to say: to ``logger``, which a front end may take over."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("openipu")


class _Forward(logging.Handler):
    def __init__(self, target: logging.Logger) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        record.name = self._target.name
        self._target.handle(record)


def forward_to(target: logging.Logger) -> None:
    """Let another logger have all messages, under its name and at its level."""
    logger.handlers[:] = [_Forward(target)]
    logger.propagate = False
    logger.isEnabledFor = target.isEnabledFor  # type: ignore[method-assign]


class _Stderr(logging.StreamHandler):
    """To what sys.stderr is when the message comes."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> object:
        return sys.stderr


def _handler(place: str) -> logging.Handler:
    if place == "stdout":
        return logging.StreamHandler(sys.stdout)
    if place in ("stderr", ""):
        return _Stderr()
    return logging.FileHandler(place)


class _Formatter(logging.Formatter):
    """Names levels in small letters."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] [%(name)s] [%(level)s] %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        record.level = record.levelname.lower()
        return super().format(record)


def show(own: logging.Logger, place: str) -> None:
    """Write what a front end's logger is told to "stdout", "stderr" or a file, unless that was settled already."""
    if not own.handlers:
        handler = _handler(place)
        handler.setFormatter(_Formatter())
        own.addHandler(handler)
