"""A captured model in the words of PopART: for the log, and for those who look at its intermediate representation."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from openipu.settings import OptimizerKind

from .._errors import Error
from .._logging import TRACE, logger
from .graph import Graph, Node, Slot

# PopART's types of ops where they are not torch's names in other letters.
_TYPES = {
    "_softmax": "Softmax", "_log_softmax": "LogSoftmax", "avg_pool1d": "AveragePool", "avg_pool2d": "AveragePool",
    "avg_pool3d": "AveragePool", "batch_norm": "BatchNormalization", "bmm": "MatMul", "cat": "Concat",
    "clone": "Identity", "constant_pad_nd": "Pad", "conv1d": "Conv", "conv2d": "Conv", "conv3d": "Conv",
    "convolution": "Conv", "cross_entropy": "Nll", "dynamic_slice": "DynamicSlice", "embedding": "Gather",
    "group_norm": "GroupNormalization", "identity_loss": "IdentityLoss", "index_select": "Gather",
    "layer_norm": "GroupNormalization", "log_softmax": "LogSoftmax", "matmul": "MatMul",
    "max_pool1d": "MaxPool", "max_pool2d": "MaxPool", "max_pool3d": "MaxPool",
    "max_pool2d_with_indices": "MaxPool", "max_pool3d_with_indices": "MaxPool", "mean": "ReduceMean", "mm": "MatMul",
    "narrow": "Slice", "nll_loss": "Nll", "permute": "Transpose", "pow": "Pow", "reshape": "Reshape",
    "scatter_reduce": "ScatterReduce", "select": "Slice", "slice": "Slice", "split": "Slice",
    "split_with_sizes": "Slice", "sum": "ReduceSum", "t": "Transpose", "transpose": "Transpose", "view": "Reshape",
    "_unsafe_view": "Reshape",
}

_UPDATES = {OptimizerKind.SGD: ("SGD0VarUpdate", ), OptimizerKind.ADAM: ("AdamUpdater", "AdamVarUpdate"),
            OptimizerKind.ADAMW: ("AdamUpdater", "AdamVarUpdate"), OptimizerKind.ADAMAX: ("AdamUpdater",
                                                                                          "AdamVarUpdate"),
            OptimizerKind.LAMB: ("AdamUpdater", "LambSquare", "AdamVarUpdate"),
            OptimizerKind.RMSPROP: ("RMSPropUpdater", "AdaDeltaVarUpdate"),
            OptimizerKind.ADAGRAD: ("AdaGradUpdater", "AdaDeltaVarUpdate")}


@dataclass
class Entry:
    """An op."""
    type: str
    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    place: Any = None
    attributes: Dict[str, Any] = field(default_factory=dict)


def type_of(target: str) -> str:
    """PopART's type for a target such as "aten::mul.Tensor"."""
    name = target.rpartition("::")[2].partition(".")[0]
    return _TYPES.get(name) or "".join(word.capitalize() for word in name.split("_"))


def _parts(node: Node) -> Iterator[Tuple[str, Sequence[int]]]:
    """Types and shapes of what a node is made of."""
    kind, result = type_of(node.target), node.outputs[0].shape
    inputs = list(node.inputs())
    if kind == "Linear":
        yield "Transpose", inputs[1].shape[::-1]
        kind, result = "MatMul", result if len(result) > 1 else (1, *result)
    elif kind == "L1Loss":
        yield "Sub", inputs[0].shape
        yield "L1", result
        kind = "IdentityLoss"
    for _ in node.outputs[:max(node.n_results, 1)] if kind == "Slice" else (0, ):
        yield kind, result


def entries(graph: Graph, options: Any) -> List[Entry]:
    """The ops of a graph in order."""
    root = {node.scopes[:1] for node in graph.nodes}
    first = 1 if len(root) == 1 else 0  # the model itself
    partials = options._Popart.options.get("partialsTypeMatMuls", "float")
    grouped = {id(node): group for group in graph.multi_convs for node in group}
    seen: Dict[str, int] = {}
    out: List[Entry] = []
    for node in graph.nodes:
        if not node.outputs:
            continue
        group = grouped.get(id(node))
        if group is not None and node is not group[0]:
            continue
        for kind, shape in _parts(node) if group is None else (("MultiConv", node.outputs[0].shape), ):
            base = "/".join((*node.scopes[first:], kind))
            n = seen[base] = seen.get(base, -1) + 1
            name = f"{base}:0/{n}" if n else f"{base}:0"
            out.append(Entry(kind, name, tuple(shape), node.outputs[0].dtype, node.place, _attributes(kind, partials)))
    return out


def _attributes(kind: str, partials: str) -> Dict[str, Any]:
    if kind == "MatMul":
        return {"partialsType": f"MatMulPartialsType::{partials.upper()}"}
    return {"partialsType[0]": partials} if kind in ("Conv", "MultiConv") else {}


def _tensor(shape: Sequence[int], dtype: torch.dtype) -> str:
    return f"{str(dtype)[6:]}({', '.join(map(str, shape))})"


def log(graph: Graph, options: Any) -> None:
    """Say what was captured, and where it runs."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    strategy = options._execution_strategy
    if logger.isEnabledFor(TRACE):
        logger.log(TRACE, "Captured graph:\n%s", graph.text())
    _log_tensors(graph)
    logger.debug("Graph lowered to PopART {")
    for entry in entries(graph, options):
        logger.debug(" %s [%s, %s]", entry.name, _tensor(entry.shape, entry.dtype), strategy.describe(entry.place))
    logger.debug("}")
    logger.log(TRACE, "Popart IR: %s", ir(graph, options))


def _log_tensors(graph: Graph) -> None:
    if not logger.isEnabledFor(TRACE):
        return
    words = {torch.float32: "Float", torch.float16: "Half", torch.int32: "Int", torch.int64: "Long"}
    for number, kept in enumerate(graph.kept):
        strides = list(torch.empty(kept.slot.shape, device="meta").stride())
        dims = "".join(f"{d}, " for d in kept.slot.shape)
        logger.log(TRACE, "%%%d : %s(%sstrides=%s, requires_grad=%d, device=ipu:0) -> %s", number,
                   words.get(kept.slot.dtype, str(kept.slot.dtype)[6:].capitalize()), dims,
                   str(strides).replace(" ", ""), int(kept.trained), kept.name)


def ir(graph: Graph, options: Any, optimizer: Optional[Any] = None) -> str:
    """The ops as JSON: {"maingraph": [{"type", "name", "attributes", "outputs"}, ...]}."""
    ops = [{"type": e.type, "name": e.name.rpartition(":")[0], "attributes": e.attributes,
            "outputs": [{"name": e.name, "type": str(e.dtype)[6:], "shape": list(e.shape)}]}
           for e in entries(graph, options)]
    ops += _updates(optimizer) if optimizer is not None else []
    return json.dumps({"maingraph": ops}, separators=(",", ":"))


def _updates(optimizer: Any) -> Iterator[Dict[str, Any]]:
    for group, names in zip(optimizer.groups, optimizer.parameters):
        kinds = _UPDATES[optimizer.kind.kind]
        if group.get("momentum", (0, True)) != (0, True) and optimizer.kind.kind == OptimizerKind.SGD:
            kinds = ("SGD2PartialAcclUpdate", "SGD2VarUpdate")
        for name in names:
            for kind in kinds:
                yield {"type": kind, "name": f"{kind}/{name}", "attributes": {}, "outputs": [{"name": name}]}


# ---- overlap of transfers ----


def check_overlaps(graph: Graph, options: Any) -> None:
    """Raise where transfers cannot overlap computing as ``poptorch.set_overlap_...`` asks for."""
    for name, slot, mode, where in graph.overlaps:
        if mode.name == "NoOverlap":
            continue
        problem = _problem_of_input(graph, slot) if name.endswith("input") else _problem_of_output(graph, slot)
        problem = problem or _problem_of_options(options)
        if problem:
            raise Error(problem, location=where)


def _users(graph: Graph, slot: Slot) -> List[Node]:
    return [node for node in graph.nodes if any(used is slot for used in node.inputs())]


def _problem_of_input(graph: Graph, slot: Slot) -> str:
    number = next((i for i, known in enumerate(graph.inputs) if known is slot), None)
    if number is None:
        return "poptorch.set_overlap_for_input applied on a node which is not a tensor input to the model."
    if len(_users(graph, slot)) > 1 or any(leaf is slot for leaf in graph.output_leaves):
        return ("poptorch.set_overlap_for_input must be the only op applied to an input. This is not the case for "
                f"input {number} to the model.")
    return ""


def _problem_of_output(graph: Graph, slot: Slot) -> str:
    marked = [node.outputs[0] for node in _users(graph, slot) if node.target.endswith("set_overlap_for_output")]
    returned = [leaf for leaf in graph.output_leaves if leaf is slot or any(leaf is m for m in marked)]
    if len(returned) > 1:
        return ("poptorch.set_overlap_for_output cannot be used with a tensor that is returned twice. Please check all "
                "returned tensors including those nested in tuples/lists.")
    if not returned or returned[0] is slot:
        return "poptorch.set_overlap_for_output applied on a node which is not a tensor output to the model."
    return ""


def _problem_of_options(options: Any) -> str:
    if options._execution_strategy.backendOptions()["execution_mode"] == 0:
        return ("Overlapped IO is not supported with poptorch.PipelinedExecution. If you are using only one IPU, "
                "please switch to poptorch.ShardedExecution.")
    if not options.TensorLocations.exists("numIOTiles"):
        return ("No IO tiles allocated. You must allocate at least 32 IO tiles using "
                "poptorch.Options().TensorLocations.numIOTiles.")
    return ""
