"""Standard output whose reader may go away."""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable


def quietly(main: Callable[[], int]) -> int:
    """The status of `main`; as of a program that SIGPIPE ended if nobody reads what it prints, and no traceback then.

    What `main` has open is closed first, which the signal itself would not wait for.
    """
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
