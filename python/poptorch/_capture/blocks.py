"""Blocks: the parts of a model that execution strategies put on IPUs.

``capture(strategy)`` is around a capture of a model; ``place()`` tells where the op that is being recorded runs.
Outside of a capture blocks do nothing.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Iterator, Optional

import torch

from openipu.stages import FIRST_PLACE, Place, Placement, Strategy

from .._errors import Error

_active = threading.local()


def _placement() -> Optional[Placement]:
    return getattr(_active, "placement", None)


@contextlib.contextmanager
def capture(strategy: Strategy) -> Iterator[Placement]:
    """Blocks that begin meanwhile are those of a model that is captured with this strategy."""
    before, _active.placement = _placement(), Placement(strategy)
    try:
        yield _active.placement
    finally:
        _active.placement = before


def place() -> Place:
    """Where the op that is recorded now runs. Error: it is in no block, though it has to be."""
    placement = _placement()
    where = placement.place() if placement is not None else FIRST_PLACE
    if where is None:
        raise Error("No active Block: this op comes after the end of a poptorch.Block and is in none. All ops after the "
                    "first block must be in one: use poptorch.Block.start or poptorch.BeginBlock for blocks that go on "
                    "until the next one begins.")
    return where


def _begin(user_id: Any, ipu_id: Optional[int], hook: Any = None) -> None:
    placement = _placement()
    if placement is not None:
        placement.begin(user_id, ipu_id, hook)


def begin_at(where: Optional[Place]) -> None:
    """Ops that come now run there; None: they are in no block."""
    placement = _placement()
    if placement is not None:
        placement.begin_at(where)


class Block(torch.nn.Module):
    """What is called inside of it runs on one IPU, and can be named in an execution strategy.

    >>> with poptorch.Block("Encoder", ipu_id=0):
    ...     x = self.encoder(x)

    Blocks of one name are one block.

    :param user_id: name of the block; without one it is its number among those without.
    :param ipu_id: number of the IPU within a replica.
    """

    def __init__(self, user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        super().__init__()
        self._user_id = user_id
        self._ipu_id = ipu_id

    @staticmethod
    def useAutoId() -> None:
        """At the beginning of ``forward``: number blocks without a name from 0 again."""
        placement = _placement()
        if placement is not None:
            placement.restart_auto_ids()

    @staticmethod
    def start(user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> None:
        """Begin a block that goes on until the next one begins."""
        _begin(user_id, ipu_id)

    def __enter__(self) -> None:
        placement = _placement()
        if placement is not None:
            placement.enter(self._user_id, self._ipu_id)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        placement = _placement()
        if placement is not None:
            placement.leave()


class _BlockHook:
    """A forward-pre-hook that begins a block."""

    def __init__(self, user_id: Optional[str], ipu_id: Optional[int]) -> None:
        self._user_id = user_id
        self._ipu_id = ipu_id

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        _begin(self._user_id, self._ipu_id, self)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self._user_id}, ipu_id={self._ipu_id})"


class _BlockCallable(torch.nn.Module):
    """A function that begins a block when it is called."""

    def __init__(self, function: Callable, user_id: Optional[str], ipu_id: Optional[int]) -> None:
        super().__init__()
        self._function = function
        self._user_id = user_id
        self._ipu_id = ipu_id

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        _begin(self._user_id, self._ipu_id, self)
        return self._function(*args, **kwargs)


def BeginBlock(layer_to_call: torch.nn.Module, user_id: Optional[str] = None,
               ipu_id: Optional[int] = None) -> torch.nn.Module:
    """Let a block begin where a module is called; it goes on until the next block begins.

    >>> poptorch.BeginBlock(model.layer2, ipu_id=1)

    The module is changed, and returned. Of another callable a module is returned that calls it.

    :param layer_to_call: the module.
    :param user_id: name of the block; without one it is its number among those without.
    :param ipu_id: number of the IPU within a replica.
    """
    if not isinstance(layer_to_call, torch.nn.Module):
        if not callable(layer_to_call):
            raise Error("module is not an instance of torch.nn.Module or a function: BeginBlock was given a "
                        f"{type(layer_to_call).__name__}.")
        return _BlockCallable(layer_to_call, user_id, ipu_id)
    if any(isinstance(hook, _BlockHook) for hook in layer_to_call._forward_pre_hooks.values()):
        raise Error("module has already been assigned to a block. Call poptorch.removeBlocks(module) first to assign "
                    "it to another.")
    layer_to_call.register_forward_pre_hook(_BlockHook(user_id, ipu_id))
    return layer_to_call


def BlockFunction(user_id: Optional[str] = None, ipu_id: Optional[int] = None) -> Callable[[Callable], Callable]:
    """A decorator: the function begins a block when it is called, which goes on until the next block begins.

    >>> @poptorch.BlockFunction("Encoder", ipu_id=0)
    ... def encode(self, x):
    ...     return self.encoder(x)
    """

    def decorate(function: Callable) -> Callable:

        @functools.wraps(function)
        def begin_and_call(*args: Any, **kwargs: Any) -> Any:
            _begin(user_id, ipu_id, begin_and_call)
            return function(*args, **kwargs)

        return begin_and_call

    return decorate


def removeBlocks(module: torch.nn.Module) -> None:
    """Undo :func:`BeginBlock` on a module and all modules in it."""
    assert isinstance(module, torch.nn.Module), f"Expected a torch.nn.Module, not a {type(module).__name__}"
    for part in module.modules():
        hooks = part._forward_pre_hooks
        for key in [k for k, hook in hooks.items() if isinstance(hook, _BlockHook)]:
            del hooks[key]
