"""Contexts for parts of forward(): names, attributes, groups of convolutions. They are hints; numbers do not change."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

import torch

from .. import enums
from .._errors import createPoptorchError
from .tensor import current


class NameScope:
    """Ops called inside have names that begin with this one.

    >>> with poptorch.NameScope("Encoder"):
    ...     y = self.bmm(a, b)
    """

    def __init__(self, name: str) -> None:
        assert isinstance(name, str), "Parameter to NameScope must be a string"
        self.name = name

    def __enter__(self) -> None:
        capture = current()
        if capture is not None:
            capture.scopes.append(self.name)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        capture = current()
        if capture is not None:
            capture.scopes.pop()


class Attribute:
    """Attributes for the compiler of the ops called inside.

    >>> with poptorch.Attribute(__outline={"layer": "embedding"}):
    ...     ...
    """

    def __init__(self, **kwargs: Dict[str, Any]) -> None:
        self._attributes = kwargs

    def __enter__(self) -> None:
        capture = current()
        if capture is not None:
            capture.attributes.append(self._attributes)

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        capture = current()
        if capture is not None:
            capture.attributes.pop()


class MultiConv:
    """Convolutions inside that do not depend on each other may be computed together.

    >>> with poptorch.MultiConv():
    ...     y = self.convA(x)
    ...     v = self.convB(u)
    """

    def __init__(self) -> None:
        self._available_memory_proportions: Optional[Sequence[float]] = None
        self._partials_types: Optional[Sequence[torch.dtype]] = None
        self._plan_type: Optional[enums.MultiConvPlanType] = None
        self._per_conv_reserved_tiles: Optional[int] = None
        self._cycle_back_off: Optional[float] = None
        self._enable_conv_ditherings: Optional[Sequence[bool]] = None

    def availableMemoryProportions(self, value: Union[float, List[float]]) -> "MultiConv":
        """Proportion of a tile's memory for temporary values: one for all convolutions, or a list."""
        if value is not None:
            value = (value, ) if isinstance(value, float) else value
            if not (isinstance(value, (list, tuple)) and value and all(isinstance(v, float) for v in value)):
                raise AssertionError("Invalid available memory proportion!")
        self._available_memory_proportions = value
        return self

    def partialsTypes(self, value: Union[torch.dtype, List[torch.dtype]]) -> "MultiConv":
        """Type of sums in between, torch.float or torch.half: one for all convolutions, or a list."""
        values = value if isinstance(value, (list, tuple)) else (value, )
        if any(v not in (torch.float32, torch.float16) for v in values):
            raise ValueError("Invalid partials types. Expecting torch.float or torch.half")
        self._partials_types = values
        return self

    def enableConvDithering(self, value: Union[bool, List[bool]]) -> "MultiConv":
        """Whether convolutions are spread over tiles at random: one for all convolutions, or a list."""
        values = value if value is None or isinstance(value, (list, tuple)) else (value, )
        if values is not None and any(not isinstance(v, bool) for v in values):
            raise ValueError("value must be bool or list of bools")
        self._enable_conv_ditherings = values
        return self

    def planType(self, value: enums.MultiConvPlanType) -> "MultiConv":
        """Side by side, or one after the other."""
        if value is not None and not isinstance(value, enums.MultiConvPlanType):
            raise AssertionError("Invalid plan type!")
        self._plan_type = value
        return self

    def perConvReservedTiles(self, value: int) -> "MultiConv":
        """Tiles reserved for each convolution."""
        assert isinstance(value, int)
        self._per_conv_reserved_tiles = value
        return self

    def cycleBackOff(self, value: float) -> "MultiConv":
        """How much slower than the fastest a plan may be: 0 to 1."""
        assert isinstance(value, float)
        self._cycle_back_off = value
        return self

    def __enter__(self) -> None:
        capture = current()
        if capture is None:
            return
        if capture.multi_convs:
            raise createPoptorchError("Nested poptorch.MultiConv is not supported: leave the outer one first")
        capture.multi_convs.append([])

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        capture = current()
        if capture is None or not capture.multi_convs:
            return
        convolutions = capture.multi_convs.pop()
        if convolutions:
            capture.graph.multi_convs.append(convolutions)
        elif type is None:
            raise createPoptorchError("Unexpected end_multi_conv: there is no convolution in this poptorch.MultiConv")
