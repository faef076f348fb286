"""Emission: a captured graph is replayed into a network of libipu, each node by its handler.

Handlers are called with the Emitter `g`:

    g.op.relu(x)                        an op of libipu by its name
    g.emit("topk", [x], n_out=2, k=3)   the same with several results
    g.const, g.cast, g.promote, g.reshape, g.broadcast
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np
import openipu
import openipu.emitter
import torch
from openipu import Network, Value
from openipu.emitter import FLOATING
from openipu.tensors import narrowed

from .._capture.graph import Block, Graph, Kept, Node, Slot, map_structure
from .._errors import Error, createPoptorchError
from .types import DTYPES, TYPES, result_dtype, type_of

#: Types that torch has not, and what numpy has for them.
_WITHOUT_TORCH = {"uint32": np.uint32, "uint64": np.uint64, "int64": np.int64, "uint16": np.uint16}


class Emitter(openipu.emitter.Emitter):
    """Replays a graph into a network. `values`: what each Slot has become."""

    types = TYPES

    def __init__(self, graph: Graph, network: Network, training: Optional[bool] = None) -> None:
        super().__init__(network, training, result_dtype)
        self.graph = graph
        #: Whether gradients are taken: of a loss, or in forward() itself.
        self.training = self.trains or graph.takes_gradients

    # ---- torch's types and tensors ----

    type_of = staticmethod(type_of)

    @property
    def default_floating(self) -> torch.dtype:
        return torch.get_default_dtype()

    def constant_of(self, data: Any, type_name: Optional[str], shape: Optional[Sequence[int]]) -> Value:
        """A constant: a list, an array or a tensor."""
        tensor = data if isinstance(data, torch.Tensor) else torch.as_tensor(np.asarray(data))
        if type_name in _WITHOUT_TORCH:
            value = self.model.array(tensor.numpy().astype(_WITHOUT_TORCH[type_name]))
            return value if shape is None else self.reshape(value, shape)
        tensor = narrowed(tensor if type_name is None else tensor.to(DTYPES[type_name]))
        if shape is not None:
            tensor = tensor.expand(tuple(shape)).contiguous() if tensor.numel() == 1 else tensor.reshape(tuple(shape))
        return self.model.data(type_of(tensor.dtype), tuple(tensor.shape), tensor.data_ptr())

    # ---- replaying ----

    def run(self, inputs: Sequence[Value]) -> None:
        """All nodes, given the values of the graph's inputs."""
        graph = self.graph
        self.begin_stages(graph.plan.stages if graph.plan is not None else [])
        for slot, value in zip(graph.inputs, inputs):
            self.values.setdefault(slot, self._as(value, slot))
        replica = inputs[len(graph.inputs)] if len(inputs) > len(graph.inputs) else None
        for kept in graph.kept:
            self.values[kept.slot] = self._keep(kept, replica)
        for slot, tensor in graph.constants.items():
            self.values[slot] = self.const(tensor)
        stages = graph.plan.names if graph.plan is not None else ()
        for i, node in enumerate(graph.nodes):
            if stages:
                self.stage(stages[i])
            self._run_node(node)

    def _as(self, value: Value, slot: Slot) -> Value:
        return self.cast(value, slot.dtype)

    def _keep(self, kept: Kept, replica: Optional[Value]) -> Value:
        """A parameter or state; of one that differs between groups of replicas, what this replica's group has."""
        shape = kept.slot.shape if not kept.groups else tuple(kept.tensor.shape)
        value = self.keep(kept.name, kept.slot.dtype, shape, kept.trained, kept.groups, replica)
        return self.reshape(value, kept.slot.shape)

    def run_block(self, block: Block) -> None:
        """The nodes of a block, in order."""
        for node in block.nodes:
            self._run_node(node)

    def _run_node(self, node: Node) -> None:
        self.at(*node.location)
        args = map_structure(node.args, Slot, self._value)
        kwargs = map_structure(node.kwargs, Slot, self._value)
        try:
            results = node.handler(self, node, args, kwargs)
            self._set_outputs(node, results)
        except openipu.Error as e:
            is_order = "of stage" in e.message and "comes later" in e.message
            hint = self.graph.plan.hint if is_order and self.graph.plan is not None else ""
            raise Error(f"{node.target}: {e.message}{hint}", "poptorch_cpp_error", node.where) from e
        except Error as e:
            if not e.location:
                e.location = node.where
            raise
        except Exception as e:
            e.args = (f"{e} (while {node.target}, called at {node.where}, was compiled)", ) + e.args[1:]
            raise

    def _value(self, slot: Slot) -> Value:
        value = self.values.get(slot)
        if value is None:
            producer = slot.node
            what = f"a result of {producer.target} at {producer.where}" if producer is not None else "a value"
            raise createPoptorchError(f"{what} is used, but cannot be computed on the IPU")
        return value

    def _set_outputs(self, node: Node, results: Any) -> None:
        if not node.outputs:
            return
        if not isinstance(results, (tuple, list)):
            results = (results, )
        results = _flat(results)
        if len(results) < len(node.outputs):
            results = results + [None] * (len(node.outputs) - len(results))
        for i, (slot, value) in enumerate(zip(node.outputs, results)):
            if value is None:
                at = i - node.n_results
                old = node.mutated[at] if 0 <= at < len(node.mutated) else None
                if old is not None:
                    self.values[slot] = self._value(old)
                continue
            self.values[slot] = self._checked(node, slot, value)

    def _checked(self, node: Node, slot: Slot, value: Any) -> Value:
        if not isinstance(value, Value):
            value = self.const(value, slot.dtype, slot.shape)
        if value.shape != slot.shape:
            raise createPoptorchError(f"{node.target} gave shape {list(value.shape)}; torch expects {list(slot.shape)}")
        value = self.cast(value, slot.dtype)
        if not node.grad_enabled and self.training and value.type in FLOATING:
            value = self.model.stop_gradient(value)
        return value


def _flat(results: Any) -> list:
    flat: List[Any] = []
    for r in results:
        if isinstance(r, (tuple, list)):
            flat.extend(_flat(r))
        else:
            flat.append(r)
    return flat


def emit(graph: Graph, network: Network, inputs: Sequence[Value], output_prefix: str = "output",
         training: Optional[bool] = None) -> Emitter:
    """Replay a graph into a network: parameters and states are made under their names, without data; outputs are called
    PREFIX0, ...; inputs that change in place, input_update0, ...; the loss of a training model, "loss"."""
    g = Emitter(graph, network, training)
    g.run(inputs)
    for i, slot in enumerate(graph.output_slots):
        g.output(g.values[slot], f"{output_prefix}{i}")
    for i, (_, slot) in enumerate(graph.input_updates):
        g.output(g.values[slot], f"input_update{i}")
    for kept in graph.kept:
        if kept.updated:
            g.update(kept.name, g.values[kept.final])
    if g.trains:
        for i, slot in enumerate(graph.losses):
            g.loss(g.values[slot], "loss" if i == 0 else f"loss{i}")
    network.check()
    return g
