"""Ctrl-C while the device runs: a run stops at once, although Python's own handler waits for the call to return.

The interpreter writes the numbers of signals to a pipe as they come; a thread reads them and stops the runs in
progress. Where a program uses that pipe itself (signal.set_wakeup_fd), or handles SIGINT in its own way, it is left
alone: then Ctrl-C counts when the run ends.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Set

from .executor import Executor

running: Set[Executor] = set()  # who is in a run
count = 0  # of interruptions

_reader = -1
_has_tried = False


def _stop_runs() -> None:
    global count
    count += 1
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        for executor in list(running):
            executor.interrupt()


def _watch(pipe: int) -> None:
    while True:
        try:
            numbers = os.read(pipe, 64)
        except OSError:
            return
        if not numbers:
            return
        if signal.SIGINT in numbers:
            _stop_runs()


def _forget_in_child() -> None:
    global _has_tried
    if _reader >= 0 and threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
    running.clear()
    _has_tried = False


def watch() -> None:
    """Begin to watch, if that can be: called from the main thread, and nobody else uses the pipe."""
    global _has_tried, _reader
    if _has_tried or threading.current_thread() is not threading.main_thread():
        return
    _has_tried = True
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)
        return
    _reader = reader
    threading.Thread(target=_watch, args=(reader,), name="openipu-interrupt", daemon=True).start()


os.register_at_fork(after_in_child=_forget_in_child)
