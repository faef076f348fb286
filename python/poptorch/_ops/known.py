"""What is known of values when a model is compiled."""
from __future__ import annotations

from typing import Optional

import torch

from .._capture.constants import value_of
from .._capture.shapes import data_of
from .._errors import DynamicShapeError

__all__ = ["constant_of", "data_of", "dynamic_shape_error"]


def constant_of(g, value) -> Optional[torch.Tensor]:
    """The data of a value that depends on neither inputs nor weights; None: it does."""
    slot = next((slot for slot, known in g.values.items() if known is value), None)
    return value_of(g.graph, slot) if slot is not None else None


def dynamic_shape_error(what: str, why: str, instead: str) -> DynamicShapeError:
    """What to raise where the shape of a result depends on data."""
    return DynamicShapeError(f"{what}: {why}, so that the shape of the result is unknown when the model is compiled. "
                             f"Shapes must be constant on the IPU. {instead}")
