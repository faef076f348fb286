"""Containers of the user's own, in arguments and results of models."""

from __future__ import annotations

from typing import Any, Iterator, Optional

import torch

from openipu import structures


class ICustomArgParser:
    """How tensors are found in, and put back into, containers of a type of the user's own.

    Register an instance of a subclass with :py:func:`registerCustomArgParser`.
    """

    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Yield every tensor of ``struct``, always in the same order."""
        raise NotImplementedError("ICustomArgParser.yieldTensors")

    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """Return a container like ``original_structure`` with the tensors that ``tensor_iterator`` gives, which come
        in the order of :py:meth:`yieldTensors`."""
        raise NotImplementedError("ICustomArgParser.reconstruct")


def registerCustomArgParser(custom_arg_type: type, parser: Optional[ICustomArgParser]) -> None:
    """Use ``parser`` for arguments and results of type ``custom_arg_type``; None: use none any more."""
    container = structures.Container(parser.yieldTensors, parser.reconstruct) if parser is not None else None
    structures.register(custom_arg_type, container)
