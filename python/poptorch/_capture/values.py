"""The values of a captured graph by names, and gradients of its loss."""

from __future__ import annotations

from ctypes import byref
from typing import Any, Dict, List, Sequence

from openipu.library import GradientOptions, RawValue, lib

from .._errors import createPoptorchError


def _results(graph: Any) -> Dict[str, Any]:
    """Results of ops by name: the modules they were called in, the op, and which of its kind it is there."""
    found: Dict[str, Any] = {}
    counts: Dict[str, int] = {}
    for node in graph.nodes:
        base = "/".join((*node.scopes, node.target.split("::")[-1].split(".")[0] + ":0"))
        for slot in node.outputs[:node.n_results]:
            n = counts.get(base, 0)
            counts[base] = n + 1
            found[f"{base}/{n}" if n else base] = slot
    return found


def slots_by_name(graph: Any) -> Dict[str, Any]:
    """All values of a graph that have names."""
    slots = {f"input/{i}": slot for i, slot in enumerate(graph.inputs)}
    slots.update((kept.name, kept.slot) for kept in graph.kept)
    if graph.losses:
        slots["loss"] = graph.losses[0]
    slots.update(_results(graph))
    return slots


def gradients(graph: Any, emitter: Any, network: Any, slots: Sequence[Any]) -> List[Any]:
    """Of the loss by values of the graph: zeros for those that it does not depend on."""
    loss = emitter.values[graph.losses[0]]
    if loss.shape:
        loss = emitter.op.reduce_sum(loss)
    values = [emitter.values[slot] for slot in slots]
    found = (RawValue * len(values))()
    options = GradientOptions(allow_unused=True)
    lib().ipu_model_gradients(network.pointer, loss.raw, network.raws(values), len(values), byref(options), found)
    network.check()
    return [network.value(raw) if raw.id else network.scalar(0, value.type, value.shape)
            for raw, value in zip(found, values)]


def trained_slot(graph: Any, name: str) -> Any:
    for kept in graph.kept:
        if kept.name == name and kept.trained:
            return kept.slot
    raise createPoptorchError(f"There is no gradient of {name!r}: expected one of "
                              + ", ".join(kept.name for kept in graph.kept if kept.trained))
