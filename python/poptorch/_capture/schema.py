"""What an op's schema says: which arguments it changes, whether its result shares memory with them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Optional

from . import torch_compat as compat


class Schema:
    """An overload of an op.

    :ivar name: "aten::add_.Tensor"; :ivar packet: "aten::add_".
    :ivar writes: names of arguments that it changes.
    :ivar has_out: whether those are out= arguments.
    :ivar is_view: whether the result shares memory with the first argument.
    :ivar is_in_place_view: whether it makes the first argument another view of its memory (t_).
    """

    def __init__(self, overload: Any) -> None:
        schema = overload._schema
        self.overload = overload
        self.name = compat.op_name(overload)
        self.packet = schema.name
        self.names = [a.name for a in schema.arguments]
        self.writes = tuple(a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write)
        self.has_out = bool(self.writes) and all(a.kwarg_only for a in schema.arguments if a.name in self.writes)
        first = schema.arguments[0] if schema.arguments else None
        self.is_view = (not self.writes and first is not None and first.alias_info is not None and
                        any(r.alias_info is not None for r in schema.returns))
        self.is_in_place_view = compat.is_in_place_view(overload)
        self._out: Any = None

    def argument(self, args: tuple, kwargs: dict, name: str) -> Any:
        """The argument of that name in a call."""
        at = self.names.index(name)
        return args[at] if at < len(args) else kwargs.get(name)

    @property
    def functional_name(self) -> str:
        """The op that gives as a result what this one does in place."""
        packet = self.packet[:-1] if self.packet.endswith("_") and not self.packet.endswith("__") else self.packet
        overload = self.overload._schema.overload_name
        name = f"{packet}.{overload}" if overload else packet
        if compat.overload_of(name) is None:
            return packet
        return name

    def without_out(self) -> Optional[Any]:
        """The overload with the same arguments but those of out=."""
        if self._out is None:
            wanted = [n for n in self.names if n not in self.writes]
            for name in compat.overloads(self.packet):
                candidate = compat.overload_of(name)
                found = schema_of(candidate)
                if not found.writes and found.names == wanted and self._same_types(candidate):
                    self._out = candidate
                    break
        return self._out

    def _same_types(self, other: Any) -> bool:
        mine = {a.name: str(a.type) for a in self.overload._schema.arguments}
        return all(mine.get(a.name) == str(a.type) for a in other._schema.arguments)


@lru_cache(maxsize=None)
def schema_of(overload: Any) -> Schema:
    """The schema of an overload."""
    return Schema(overload)
