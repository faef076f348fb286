"""Emission: a captured graph is replayed into a network of libipu, each node by its handler.

Handlers are called with the Emitter `g`:

    g.op.relu(x)                        an op of libipu by its name
    g.emit("topk", [x], n_out=2, k=3)   the same with several results
    g.const, g.cast, g.promote, g.reshape, g.broadcast
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import openipu
import torch
from openipu import Network, Value

from .._capture.graph import Block, Graph, Kept, Node, Slot, map_structure
from .._errors import Error, createPoptorchError

#: The device's type for each of torch's.
TYPES = {torch.float32: "float", torch.float16: "half", torch.float64: "float", torch.bfloat16: "float",
         torch.int32: "int32", torch.int64: "int32", torch.int16: "int16", torch.int8: "int8", torch.uint8: "uint8",
         torch.bool: "bool"}
#: torch's type for each of the device's.
DTYPES = {"float": torch.float32, "half": torch.float16, "int32": torch.int32, "uint32": torch.int64,
          "int16": torch.int16, "uint16": torch.int32, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
          "int64": torch.int64, "uint64": torch.int64, "double": torch.float64, "bfloat16": torch.bfloat16}
FLOATING = ("float", "half", "bfloat16", "double")

_Number = (int, float, bool)


def type_of(dtype: Union[torch.dtype, str]) -> str:
    """The device's type for one of torch's. Error: there is none."""
    if isinstance(dtype, str):
        return dtype
    found = TYPES.get(dtype)
    if found is None:
        raise createPoptorchError(f"Tensors of type {dtype} are not supported; use one of "
                                  f"{', '.join(str(t) for t in TYPES)}")
    return found


def narrowed(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the host as the device holds it: contiguous, and of one of its types."""
    wanted = DTYPES[type_of(tensor.dtype)]
    tensor = tensor.detach()
    if tensor.dtype is torch.int64:
        tensor = tensor.clamp(-2**31, 2**31 - 1)
    return tensor.to(wanted).contiguous()


class _Ops:
    """g.op: every op of libipu as a method."""

    __slots__ = ("_g", )

    def __init__(self, g: "Emitter") -> None:
        self._g = g

    def __getattr__(self, name: str) -> Callable:
        g = self._g

        def emit(*values: Any, n_out: int = 1, **attributes: Any) -> Any:
            return g.emit(name, values, n_out=n_out, **attributes)

        return emit


class Emitter:
    """Replays a graph into a network. `values`: what each Slot has become."""

    def __init__(self, graph: Graph, network: Network, training: Optional[bool] = None) -> None:
        self.graph = graph
        self.model = network
        self.trains = network.training if training is None else training
        #: Whether gradients are taken: of a loss, or in forward() itself.
        self.training = self.trains or graph.takes_gradients
        self.values: Dict[Slot, Value] = {}
        self.kept: Dict[str, Value] = {}
        self.op = _Ops(self)
        self.turns: List[Value] = []  # numbers of the turns of the loops that are being emitted
        self._stage: Any = None

    # ---- for handlers ----

    def emit(self, name: str, values: Sequence[Any], n_out: int = 1, **attributes: Any) -> Any:
        """An op of libipu. Numbers among the values become constants of the type of the first Value."""
        if any(isinstance(v, _Number) for v in values):
            like = next((v.type for v in values if isinstance(v, Value)), "float")
            values = [self.model.scalar(v, like) if isinstance(v, _Number) else v for v in values]
        return self.model.emit(name, values, n_out=n_out, **attributes)

    def type_of(self, dtype: Union[torch.dtype, str]) -> str:
        """The device's type for one of torch's."""
        return type_of(dtype)

    @staticmethod
    def is_floating(value: Value) -> bool:
        return value.type in FLOATING

    def const(self, data: Any, dtype: Union[torch.dtype, str, None] = None, shape: Optional[Sequence[int]] = None) -> Value:
        """A constant: a number (of a shape, if given), a list, an array or a tensor."""
        if isinstance(data, Value):
            return data if dtype is None else self.cast(data, dtype)
        if isinstance(data, _Number):
            if dtype is None:
                dtype = "bool" if isinstance(data, bool) else "int32" if isinstance(data, int) else "float"
            return self._number(data, type_of(dtype), tuple(shape or ()))
        tensor = data if isinstance(data, torch.Tensor) else torch.as_tensor(np.asarray(data))
        if dtype is not None:
            name = type_of(dtype)
            if name in ("uint32", "uint64", "int64", "uint16"):
                value = self.model.array(tensor.numpy().astype({"uint32": np.uint32, "uint64": np.uint64, "int64": np.int64,
                                                                "uint16": np.uint16}[name]))
                return value if shape is None else self.reshape(value, shape)
            tensor = tensor.to(DTYPES[name])
        tensor = narrowed(tensor)
        if shape is not None:
            tensor = tensor.expand(tuple(shape)).contiguous() if tensor.numel() == 1 else tensor.reshape(tuple(shape))
        return self.model.data(type_of(tensor.dtype), tuple(tensor.shape), tensor.data_ptr())

    def _number(self, number: Any, name: str, shape: tuple) -> Value:
        if name in ("int32", "int64"):
            number = max(-2**31, min(2**31 - 1, int(number)))
        elif name == "bool":
            number = int(bool(number))
        return self.model.scalar(number, name, shape)

    def cast(self, value: Any, dtype: Union[torch.dtype, str]) -> Value:
        """A value in another type; a number becomes a constant."""
        name = type_of(dtype)
        if not isinstance(value, Value):
            return self.const(value, name)
        return value if value.type == name else self.model.emit("cast", [value], to=name)

    def promote(self, a: Any, b: Any, dtype: Union[torch.dtype, str, None] = None) -> Tuple[Value, Value]:
        """Two values, or numbers, cast to the type that torch would compute with (or to the one given)."""
        if dtype is None:
            dtype = self._result_type(a, b)
        return self.cast(a, dtype), self.cast(b, dtype)

    @staticmethod
    def _result_type(a: Any, b: Any) -> torch.dtype:

        def stand_in(v: Any) -> Any:
            return torch.empty((0, ) if v.shape else (), dtype=DTYPES[v.type]) if isinstance(v, Value) else v

        return torch.result_type(stand_in(a), stand_in(b))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        shape = tuple(int(d) for d in shape)
        return value if value.shape == shape else self.model.emit("reshape", [value], shape=shape)

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """Repeated to a shape by the rule of broadcasting."""
        shape = tuple(int(d) for d in shape)
        return value if value.shape == shape else self.model.emit("expand", [value], shape=shape)

    def seed(self) -> Value:
        """What random ops draw from; in a loop it is another one in each turn."""
        seed = self.model.seed()
        for depth, turn in enumerate(self.turns):
            seed = self.emit("seed_of_turn", [seed, turn], depth=depth)
        return seed

    # ---- replaying ----

    def run(self, inputs: Sequence[Value]) -> None:
        """All nodes, given the values of the graph's inputs."""
        graph = self.graph
        self._begin_stages()
        for slot, value in zip(graph.inputs, inputs):
            self.values.setdefault(slot, self._as(value, slot))
        replica = inputs[len(graph.inputs)] if len(inputs) > len(graph.inputs) else None
        for kept in graph.kept:
            self.values[kept.slot] = self._keep(kept, replica)
        for slot, tensor in graph.constants.items():
            self.values[slot] = self.const(tensor)
        stages = graph.plan.names if graph.plan is not None else ()
        for i, node in enumerate(graph.nodes):
            if stages and stages[i] != self._stage:
                self._stage = stages[i]
                self.model.stage(self._stage)
            self._run_node(node)

    def _begin_stages(self) -> None:
        """Number the stages of a pipeline in their order; the first is where it begins."""
        stages = self.graph.plan.stages if self.graph.plan is not None else []
        for name in [*stages, *stages[:1]]:
            self._stage = name
            self.model.stage(name)

    def _as(self, value: Value, slot: Slot) -> Value:
        return self.cast(value, slot.dtype)

    def _keep(self, kept: Kept, replica: Optional[Value]) -> Value:
        """A parameter or state; of one that differs between groups of replicas, what this replica's group has."""
        make = self.model.parameter if kept.trained else self.model.state
        shape = kept.slot.shape if not kept.groups else tuple(kept.tensor.shape)
        value = make(kept.name, type_of(kept.slot.dtype), shape, None)
        self.kept[kept.name] = value
        if not kept.groups:
            return value
        group = self.op.gather(self.const(kept.groups, "int32"), replica)
        return self.reshape(self.op.gather(value, group), kept.slot.shape)

    def run_block(self, block: Block) -> None:
        """The nodes of a block, in order."""
        for node in block.nodes:
            self._run_node(node)

    def _run_node(self, node: Node) -> None:
        self.model.at(*node.location)
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
        network.output(g.values[slot], f"{output_prefix}{i}")
    for i, (_, slot) in enumerate(graph.input_updates):
        network.output(g.values[slot], f"input_update{i}")
    for kept in graph.kept:
        if kept.updated and g.values[kept.final].id != g.kept[kept.name].id:
            network.update(g.kept[kept.name], g.values[kept.final])
    if g.trains:
        for i, slot in enumerate(graph.losses):
            network.loss(_scalar_loss(g, g.values[slot]), "loss" if i == 0 else f"loss{i}")
    network.check()
    return g


def _scalar_loss(g: Emitter, value: Value) -> Value:
    """What is differentiated has one element: of others the sum, whose gradient is one everywhere."""
    if value.shape:
        value = g.op.reduce_sum(value)
    return value


def run(graph: Graph, inputs: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Compile a graph for inference and run it once: its output_slots as tensors. For tests of handlers; an executor
    is what keeps state and runs again."""
    network = Network.create()
    network.training = False
    lib = openipu.lib()
    arrays = [narrowed(t) for t in inputs]
    values = [network.input(f"input{i}", type_of(t.dtype), tuple(t.shape)) for i, t in enumerate(arrays)]
    g = emit(graph, network, values, training=False)
    check = openipu.library.check
    target, exe, engine = openipu.library.Target(), ctypes.c_void_p(), ctypes.c_void_p()
    check(lib.ipu_target_find(b"gc200", 1, ctypes.byref(target)))
    check(lib.ipu_model_compile(network.pointer, ctypes.byref(target), None, ctypes.byref(exe)))
    try:
        check(lib.ipu_engine_create(exe, None, ctypes.byref(engine)))
        for i, t in enumerate(arrays):
            lib.ipu_engine_write(engine, f"input{i}".encode(), t.data_ptr(), t.numel() * t.element_size())
        for kept in graph.kept:
            t = narrowed(kept.tensor)
            check(lib.ipu_engine_write(engine, kept.name.encode(), t.data_ptr(), t.numel() * t.element_size()))
        check(lib.ipu_engine_run(engine, 0))
        results = []
        for i, slot in enumerate(graph.output_slots):
            out = torch.empty(slot.shape, dtype=DTYPES[g.values[slot].type])
            check(lib.ipu_engine_read(engine, f"output{i}".encode(), out.data_ptr(), out.numel() * out.element_size()))
            results.append(out)
        return results
    finally:
        if engine:
            lib.ipu_engine_destroy(engine)
        lib.ipu_executable_release(exe)
