"""What the parts of this package that a front end is made of have to say: to ``logger``, which a front end may take over."""

from __future__ import annotations

import logging

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
