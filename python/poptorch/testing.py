"""Comparing results."""

from __future__ import annotations

from typing import Any

import torch

from openipu.structures import is_tensor


def allclose(reference_data: Any, other_data: Any, **kwargs: Any) -> bool:
    """Whether two structures of tuples, lists, dicts and tensors are alike: torch.allclose, to which ``kwargs`` go, of
    their tensors, equality of all else."""
    if is_tensor(reference_data):
        return is_tensor(other_data) and torch.allclose(reference_data, other_data, **kwargs)
    if isinstance(reference_data, dict):
        return (isinstance(other_data, dict) and reference_data.keys() == other_data.keys()
                and all(allclose(value, other_data[key], **kwargs) for key, value in reference_data.items()))
    if isinstance(reference_data, (list, tuple)):
        return (isinstance(other_data, (list, tuple)) and len(reference_data) == len(other_data)
                and all(allclose(a, b, **kwargs) for a, b in zip(reference_data, other_data)))
    return reference_data == other_data
