"""Parts of torch and other packages that are exchanged while a model is captured, as packages built on PopTorch ask for."""

from __future__ import annotations

from typing import Any, List


class _OverwriteContextManager:
    """Around a capture: whatever was registered has its parts exchanged, and put back afterwards.

    A registered class is made anew for each capture; its ``replace()`` exchanges, its ``restore()`` puts back.
    """

    _subsitution_manager_types: List[type] = []

    def __init__(self) -> None:
        self.substitution_managers = [made() for made in self._subsitution_manager_types]
        self._replaced: List[Any] = []

    def __enter__(self) -> "_OverwriteContextManager":
        try:
            for manager in self.substitution_managers:
                manager.replace()
                self._replaced.append(manager)
        except BaseException:
            self._restore()
            raise
        return self

    def __exit__(self, *_exception: Any) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._replaced:
            self._replaced.pop().restore()

    @classmethod
    def registerSubsitutionManager(cls, manager: type) -> None:
        """Let a class take part in each capture from now on."""
        if manager not in cls._subsitution_manager_types:
            cls._subsitution_manager_types.append(manager)
