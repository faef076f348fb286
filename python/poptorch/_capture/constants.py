"""Values that do not depend on inputs or weights: they are known while a model is captured.

    n = int(torch.tensor(x.shape).prod())        works in forward(), though int() of other tensors cannot
"""

from __future__ import annotations

from typing import Dict, Optional

import torch

from . import torch_compat as compat
from .graph import Graph, Node, Slot, map_structure, slots_in
from .schema import schema_of

_MOST_NODES = 1000  # that are computed on the host to find one value


def value_of(graph: Graph, slot: Slot) -> Optional[torch.Tensor]:
    """What a Slot holds, computed on the host; None: it depends on what is not known yet."""
    order = _needed(graph, slot)
    if order is None:
        return None
    values: Dict[Slot, torch.Tensor] = {}
    with torch.no_grad(), compat.no_modes():
        for node in order:
            if not _evaluate(graph, node, values):
                return None
    return graph.constants.get(slot, values.get(slot))


def _needed(graph: Graph, slot: Slot) -> Optional[list]:
    """The nodes that a Slot is computed by, in order; None: there is one among them that cannot be computed."""
    order: Dict[Node, None] = {}
    todo = [(slot, False)]
    while todo:
        at, done = todo.pop()
        if done:
            order.setdefault(at.node)
        elif at not in graph.constants and at.node not in order:
            if at.node is None or at.node.blocks or at.node.effects or len(order) > _MOST_NODES:
                return None
            todo.append((at, True))
            todo += [(s, False) for s in slots_in((at.node.args, at.node.kwargs))]
    return list(order)


def _evaluate(graph: Graph, node: Node, values: Dict[Slot, torch.Tensor]) -> bool:
    function = compat.deterministic_overload(node.target)
    if function is None:
        return False

    def known(slot: Slot) -> torch.Tensor:
        value = graph.constants[slot] if slot in graph.constants else values[slot]
        return value.clone() if writes else value

    writes = bool(schema_of(function).writes)

    args = map_structure(node.args, Slot, known)
    kwargs = map_structure(node.kwargs, Slot, known)
    if kwargs.get("device") is not None:
        kwargs["device"] = torch.device("cpu")
    try:
        result = function(*args, **kwargs)
    except Exception:  # pylint: disable=broad-except
        return False  # it stays unknown, which is what the user is told
    found: list = []
    map_structure(result, torch.Tensor, found.append)
    if len(found) < node.n_results:
        return False
    values.update(zip(node.outputs[:node.n_results], found))
    return True
