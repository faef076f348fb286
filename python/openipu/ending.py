"""Threads that go on when a program ends: daemons. The interpreter ends them wherever they are, which inside of torch
aborts the process; so those that call models wait, until the process is gone, where nothing can happen to them."""

from __future__ import annotations

import atexit
import threading
import time
from multiprocessing import util
from typing import Set

from . import interrupt

is_ending = False
_callers: Set[int] = set()  # threads that have called a model or asked for a batch, by threading.get_ident()
_waiting: Set[int] = set()

_SECONDS = 1.0  # for runs in progress to end
_MOMENT = 0.5  # for threads to come to their next call, if they do


def _wait_for_callers() -> None:
    global is_ending
    is_ending = True
    began = time.monotonic()
    while True:
        others = {t.ident for t in threading.enumerate() if t is not threading.main_thread()} & _callers - _waiting
        seconds = time.monotonic() - began
        if not others or seconds > (_SECONDS if interrupt.running else _MOMENT):
            return
        time.sleep(0.001)


def stop_if_ending() -> None:
    """Before a call. At the end of the program it never returns but in the main thread."""
    _callers.add(threading.get_ident())
    if is_ending:
        wait_if_ending()


def wait_if_ending() -> None:
    """Never returns where the program ends and this is not the main thread."""
    if (is_ending or util.is_exiting()) and threading.current_thread() is not threading.main_thread():
        _waiting.add(threading.get_ident())
        threading.Event().wait()


atexit.register(_wait_for_callers)
