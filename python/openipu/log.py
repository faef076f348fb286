"""What the parts of this package that a front end is made of have to say: to ``logger``, which passes it on to the front end
that they work for."""

from __future__ import annotations

import logging
import sys
from typing import Dict, Iterator, Optional

_own = logging.getLogger("openipu")
_front_ends: Dict[str, logging.Logger] = {}  # by the package that is one


def _package(module: Optional[str]) -> str:
    return (module or "").partition(".")[0]


def _packages_around() -> Iterator[str]:
    """Of the code that runs, the innermost first; methods of this package are also those of the classes that inherit them."""
    frame = sys._getframe(1)
    while frame is not None:
        package = _package(frame.f_globals.get("__name__"))
        yield package
        if package == _package(__name__) and "self" in frame.f_code.co_varnames:
            for cls in type(frame.f_locals.get("self")).__mro__:
                yield _package(cls.__module__)
        frame = frame.f_back


def _target() -> logging.Logger:
    """The logger of the front end that is at work. With one in the process, all messages are its own."""
    if len(_front_ends) < 2:
        return next(iter(_front_ends.values()), _own)
    return next((_front_ends[package] for package in _packages_around() if package in _front_ends), _own)


class _PassedOn(logging.Logger):
    """A logger whose messages have the name, the level and the handlers of another."""

    def isEnabledFor(self, level: int) -> bool:
        return _target().isEnabledFor(level)

    def handle(self, record: logging.LogRecord) -> None:
        target = _target()
        record.name = target.name
        target.handle(record)


logger: logging.Logger = _PassedOn("openipu")


def forward_to(target: logging.Logger, package: str = "") -> None:
    """Let another logger have the messages of what a front end does, under its name and at its level. ``package``: the front
    end's; that of the caller if it is left out."""
    _front_ends[package or _package(sys._getframe(1).f_globals.get("__name__"))] = target


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
