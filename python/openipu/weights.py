"""Weights on the host and on the device: which tensors they are, and how they get from one to the other.

Where types and layouts allow it the memory of a torch parameter is itself the library's host copy: then a copy to or
from the device is all there is. Other tensors (int64 and float64, which devices have not, or strided ones) go through
the library's copy.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Iterable, List, Sequence

import torch

from .arrays import NARROW, array_over, tensor_over
from .comm import Comm
from .error import UsageError
from .executor import Executor, Module
from .log import logger
from .tensors import narrowed


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the library can work on a tensor's own memory."""
    return tensor.dtype not in NARROW and tensor.is_contiguous() and not tensor.is_neg() and tensor.numel() > 0


def check_on_host(kept: Iterable[Any]) -> None:
    """UsageError unless all tensors that have something ``kept`` are on the host."""
    with torch._C.DisableTorchFunction():
        away = [f"{own.name} on {own.tensor.device}" for own in kept if own.tensor.device.type != "cpu"]
    if away:
        raise UsageError("Parameters and buffers of a model must be on the host: expected them on device cpu, found "
                         f"{', '.join(away)}. Use model.cpu() before wrapping it, or make it without a device")


class Weights:
    """The parameters and buffers of a compiled network.

    ``kept``: for each of them an object with ``name``, ``tensor`` (the host's), ``trained`` and ``updated`` (whether a
    run changes it).
    """

    def __init__(self, module: Module, kept: Sequence[object]):
        self._module = module
        self._kept = list(kept)
        self._lent: dict = {}

    @property
    def tensors(self) -> List[torch.Tensor]:
        return [k.tensor for k in self._kept]

    def value(self, name: str) -> torch.Tensor:
        """A copy of the host's value of one of them."""
        with torch._C.DisableTorchFunction():
            return next(kept.tensor.detach().clone() for kept in self._kept if kept.name == name)

    def give(self) -> None:
        """Tell the library the host's values: executors have them at their next run."""
        logger.debug("Writing weights from host to IPU memory")
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if self._module.is_behind():  # what the device has is not to reach the host's memory on the way
                self.take_back()
            for kept in self._kept:
                self._give(kept)

    def share(self, world: Comm) -> None:
        """Let all processes that train together have the values of the first; all of them call this."""
        shapes = "\n".join(f"{kept.name} {tuple(kept.tensor.shape)} {kept.tensor.dtype}" for kept in self._kept)
        world.agree({"torch": torch.__version__, "a number of weights of": len(self._kept),
                     "weights whose names, shapes and types have the hash": sha256(shapes.encode()).hexdigest()[:16]})
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for kept in self._kept:
                plain = kept.tensor.detach().contiguous()
                if plain.numel() > 0:
                    world.broadcast(plain.data_ptr(), plain.numel() * plain.element_size())
                    if plain.data_ptr() != kept.tensor.data_ptr():
                        kept.tensor.detach().copy_(plain)

    def write(self, executor: Executor, names: Iterable[str]) -> None:
        """Bring the host's values of some of them to the device, and leave the others there as they are."""
        wanted = set(names)
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for kept in self._kept:
                if kept.name in wanted and kept.tensor.numel() > 0:
                    narrow = narrowed(kept.tensor)
                    executor.write_weight(kept.name, narrow.data_ptr(), narrow.numel() * narrow.element_size())

    def _give(self, kept: object) -> None:
        tensor = kept.tensor
        if tensor.numel() == 0:
            return
        if _is_plain(tensor) and self._module.lend_weight(kept.name, array_over(tensor), tensor.detach()):
            self._lent[kept.name] = tensor.data_ptr()
            return
        if self._lent.pop(kept.name, None):
            self._module.take_back_weight(kept.name)
        narrow = narrowed(tensor)  # lives until it is copied
        self._module.set_weight(kept.name, array_over(narrow))

    def take_back(self) -> None:
        """Let the library have memory of its own, until ``give``."""
        for name in self._lent:
            self._module.take_back_weight(name)
        self._lent.clear()

    def take(self, executor: Executor) -> None:
        """Bring what runs have changed from the device into the host's tensors."""
        logger.debug("Writing weights from IPU to host")
        executor.copy_weights_to_host()
        with torch._C.DisableTorchFunction(), torch.no_grad():
            for kept in self._kept:
                if kept.trained or kept.updated:
                    self._take(kept)

    def _take(self, kept: object) -> None:
        tensor = kept.tensor
        if tensor.numel() == 0:
            return
        if self._lent.get(kept.name) == tensor.data_ptr() and tensor.is_contiguous():
            return  # it is the library's own copy
        tensor.detach().copy_(tensor_over(self._module.weight(kept.name)))
