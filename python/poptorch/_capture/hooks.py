"""Functions that are called before and after each capture of a model."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Callable, Dict, Iterator

from torch.utils.hooks import RemovableHandle

_pre_compile: Dict[int, Callable] = OrderedDict()
_post_compile: Dict[int, Callable] = OrderedDict()


def _register(hooks: Dict[int, Callable], hook: Callable) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"A compile hook must be callable; found {type(hook).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def registerPreCompileHook(hook: Callable) -> RemovableHandle:
    """Call a function without arguments before every compilation; the result's remove() ends that."""
    return _register(_pre_compile, hook)


def registerPostCompileHook(hook: Callable) -> RemovableHandle:
    """Call a function without arguments after every compilation; the result's remove() ends that."""
    return _register(_post_compile, hook)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Around a capture."""
    for hook in list(_pre_compile.values()):
        hook()
    try:
        yield
    finally:
        for hook in list(_post_compile.values()):
            hook()
