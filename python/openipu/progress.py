"""A bar that shows how far compiling has come."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any, Callable, Dict, Iterator, Optional

_PERCENT = 100  # the length of the bar


class ProgressBar:
    """Shows how far compiling has come, and times it."""

    def __init__(self) -> None:
        self.compilation_time: Optional[datetime.timedelta] = None
        self._began: Optional[datetime.datetime] = None
        self._bar: Any = None

    def __call__(self, progress: int, total: int) -> None:
        """``progress`` of ``total`` is done; the bar is closed when all is."""
        if self._began is None:
            self._began = datetime.datetime.now()
            self._bar = _tqdm_bar(total)
        if self._bar is not None:
            self._bar.update(max(0, progress - self._bar.n))
        self.compilation_time = datetime.datetime.now() - self._began
        if progress >= total:
            self.close()

    def close(self) -> None:
        """Leave the bar as it is; the next call begins another."""
        if self._bar is not None:
            self._bar.close()
        self._bar = self._began = None

    @contextlib.contextmanager
    def shown(self) -> Iterator[Callable[[int, int], None]]:
        """Shows the bar, and gives the function that moves it; full when all went well, and closed in any case."""
        self(0, _PERCENT)
        try:
            yield lambda done, total: self(min(_PERCENT - 1, done * _PERCENT // total), _PERCENT)
            self(_PERCENT, _PERCENT)
        finally:
            self.close()

    def __getstate__(self) -> Dict[str, Any]:
        return {"compilation_time": self.compilation_time, "_began": None, "_bar": None}


def _tqdm_bar(total: int) -> Any:
    try:
        import tqdm
    except ImportError:
        return None
    return tqdm.tqdm(desc="Graph compilation", total=total,
                     bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]")
