"""Attributes of custom ops, by texts that stand for them."""

from __future__ import annotations

import json
from typing import Dict, Optional

ATTR_PREFIX = "attr:"
_attributes: Dict[str, dict] = {}


def keep_attributes(attributes: Optional[dict]) -> str:
    """A text that accessAttributes finds these attributes by."""
    name = f"{ATTR_PREFIX}{len(_attributes):x}"
    _attributes[name] = attributes or {}
    return name


def accessAttributes(attribute_id_str: str) -> dict:
    """The attributes of a custom op, by the text that the op has for them."""
    if not isinstance(attribute_id_str, str):
        raise ValueError(f"Wrong type for attribute_id_str: expected str, found {type(attribute_id_str).__name__}")
    if attribute_id_str.startswith("{"):
        return json.loads(attribute_id_str)
    if attribute_id_str not in _attributes:
        raise ValueError(f"Invalid attribute_id_str: {attribute_id_str!r}")
    return _attributes[attribute_id_str]
