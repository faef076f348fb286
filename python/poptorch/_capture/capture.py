"""Capture: forward() is run once with tensors that have no data, and the ops it calls are recorded.

    graph = capture(model, (x, ), {}, training=False)

Parameters, buffers and arguments are IpuTensors meanwhile. Two modes of torch see every call: the function mode before
torch takes functions apart, the dispatch mode when they have become ops. Changes in place become new values: a Cell is
the memory that views share, and holds its value of the moment.
"""

from __future__ import annotations

import contextlib
import os
import sys
from types import FunctionType
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from openipu.emitter import Unsupported

from .._errors import Error, createPoptorchError
from .._logging import logger
from .._ops import registry
from . import torch_compat as compat
from .constants import value_of
from .graph import Block, Graph, Kept, Node, Slot, map_structure
from .schema import Schema, schema_of
from .shapes import results_of
from .tensor import Cell, IpuTensor
from .views import IDENTITIES, View, back, pieces

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_Tensor = torch.Tensor

_FOREACH = "aten::_foreach_"

_blocks: Any = None  # the module blocks, which is imported late: it imports the package


def _place() -> Any:
    global _blocks
    if _blocks is None:
        from . import blocks as module
        _blocks = module
    return _blocks.place()


def user_location(excludes: Sequence[str] = ()) -> Tuple[str, int]:
    """File and line of the innermost frame that is neither torch's nor ours, nor in a file whose path has one of `excludes`
    in it."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not (name.startswith(_HERE) or name.startswith(_TORCH) or name.startswith("<") or
                any(part in name for part in excludes)):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


class Capture:
    """One capture of one model. Use `capture`."""

    def __init__(self, training: bool = False) -> None:
        self.training = training
        self.graph = Graph()
        self.blocks: List[Block] = [self.graph.block]
        self.scopes: List[str] = []
        self.names_modules = True
        self.location_excludes: Sequence[str] = ()
        self.known: Dict[int, IpuTensor] = {}  # tensors of the host that stand for ones here, by identity
        self.constants: Dict[int, Tuple[torch.Tensor, Optional[int], Slot]] = {}
        self.kept_cells: List[Cell] = []
        self.input_cells: List[Cell] = []
        self.losses: List[Slot] = []
        self.unsupported = Unsupported()
        self.written: List[Tuple[Cell, Slot]] = []  # cells and what they held before, for branches and loops
        self.attributes: List[dict] = []
        self.multi_convs: List[Any] = []
        self.busy = False
        self.grad_enabled = True
        self.has_leaves = False  # whether gradients are wanted of other tensors than parameters
        self.active: List[Callable] = []  # functions of torch that run, and
        self.entered: List[Any] = []  # their code, until they have asked who is to handle them

    # ---- what there is from the start ----

    def _new(self, like: torch.Tensor, slot: Slot) -> IpuTensor:
        meta = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device="meta")
        return IpuTensor(meta, Cell(slot), (), slot)

    def add_input(self, tensor: torch.Tensor) -> IpuTensor:
        """The next argument of the graph, of the type and shape of a tensor of the host."""
        slot = Slot(tuple(tensor.shape), tensor.dtype)
        result = self._new(tensor, slot)
        result._cell.input = len(self.graph.inputs)
        self.graph.inputs.append(slot)
        self.input_cells.append(result._cell)
        return result

    def add_kept(self, name: str, tensor: torch.Tensor, is_parameter: bool) -> IpuTensor:
        """A parameter or buffer of the model."""
        slot = Slot(tuple(tensor.shape), tensor.dtype)
        result = self._new(tensor, slot)
        trained = is_parameter and tensor.requires_grad
        kept = Kept(name, tensor, trained, is_parameter, slot)
        slot.has_gradient = trained
        if is_parameter:
            result._is_param = True
        result._cell.kept = kept
        self.graph.kept.append(kept)
        self.kept_cells.append(result._cell)
        self.known[id(tensor)] = result
        return result

    def constant(self, tensor: torch.Tensor) -> Slot:
        """A tensor of the host as a value of the graph."""
        version = tensor._version if not tensor.is_inference() else None  # then nobody knows whether it has changed
        found = self.constants.get(id(tensor))
        if found is not None and found[1] == version and version is not None:
            return found[2]
        slot = Slot(tuple(tensor.shape), tensor.dtype)
        self.graph.constants[slot] = tensor.detach().clone()
        self.constants[id(tensor)] = (tensor, version, slot)
        return slot

    def lift(self, tensor: torch.Tensor) -> IpuTensor:
        """A tensor of the host as one of the IPU, with memory of its own."""
        slot = Slot(tuple(tensor.shape), tensor.dtype)
        self.graph.constants[slot] = tensor.detach().clone()
        return self._new(tensor, slot)

    # ---- calls ----

    def call_function(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """A function of torch's Python interface, before it is taken apart."""
        if self.busy:
            return func(*args, **kwargs)
        special = _FUNCTIONS.get(func)
        if special is not None:
            result = special(self, func, args, kwargs)
            if result is not NotImplemented:
                return result
        handler = registry.FUNCTIONS.get(func)
        if handler is not None and isinstance(kwargs.get("out"), _Tensor):
            return self._function_out(func, args, kwargs)
        if handler is not None and kwargs.get("out") is None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
            args, kwargs = self._stand_ins(args), self._stand_ins(kwargs)
            unknown = handler.unknown(args, kwargs) if self._concerns(args, kwargs) else ()
            kwargs = {k: v for k, v in kwargs.items() if k not in unknown or not registry.says_nothing(func, k, v)}
            if unknown and type(func) is FunctionType and handler.unknown(args, kwargs):
                return self._as_written(func, handler, args, kwargs)
            if self._concerns(args, kwargs):
                result = self.apply(handler.name, handler, func, args, kwargs)
                if handler.in_place(args, kwargs) and args and isinstance(args[0], IpuTensor):
                    self.write(args[0], self.read(result))
                    return args[0]
                return result
        if type(func) is FunctionType and func not in self.active:
            return self.enter(func, args, kwargs)
        try:
            return func(*args, **kwargs)
        except RuntimeError as e:
            if not compat.lacks_device(e):
                raise
        packet = getattr(torch.ops.aten, func.__name__)  # past the part of torch that asks for the device
        return packet(*self._stand_ins(args), **self._stand_ins(kwargs))

    def _as_written(self, func: Callable, handler: Any, args: tuple, kwargs: dict) -> Any:
        """A function of torch with an argument that is newer than its handler: what torch makes of it."""
        result = self.enter(func, args, kwargs)
        if handler.loss and isinstance(result, IpuTensor):
            self.losses.append(self.read(result))
        return result

    def _function_out(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """A function that is to leave its result in a tensor."""
        target = self._stand_ins(kwargs["out"])
        result = self.call_function(func, args, {k: v for k, v in kwargs.items() if k != "out"})
        if not isinstance(target, IpuTensor):
            return func(*args, **kwargs)
        if tuple(target.shape) != tuple(result.shape):
            self._become(target, result)
        else:
            torch.ops.aten.copy_(target, result)
        return target

    def enter(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """A function of torch that is written in Python, whose calls of other functions are to be seen."""
        self.active.append(func)
        self.entered.append(func.__code__)
        try:
            with _Functions(self):
                return func(*args, **kwargs)
        finally:
            self.active.pop()
            self.entered.pop()

    def call(self, overload: Any, args: tuple, kwargs: dict) -> Any:
        """An op, as the dispatcher calls it."""
        if self.busy:
            return overload(*args, **kwargs)
        args, kwargs = self._stand_ins(args), self._stand_ins(kwargs)
        schema = schema_of(overload)
        if not self._concerns(args, kwargs):
            return overload(*args, **kwargs)
        special = _OPS.get(schema.packet)
        if special is not None:
            result = special(self, schema, args, kwargs)
            if result is not NotImplemented:
                return result
        if schema.packet.startswith(_FOREACH):
            return self._call_foreach(schema, args, kwargs)
        if schema.is_in_place_view and isinstance(args[0], IpuTensor):
            return self._call_in_place_view(schema, args, kwargs)
        if schema.writes:
            return self._call_writing(schema, args, kwargs)
        if schema.is_view and isinstance(args[0], IpuTensor):
            return self._call_view(schema, args, kwargs)
        return self._call_plain(schema, args, kwargs)

    def _call_foreach(self, schema: Schema, args: tuple, kwargs: dict) -> Any:
        """An op on lists: for each of their elements the op that it is named after."""
        packet = getattr(torch.ops.aten, schema.packet[len(_FOREACH):])

        def element(structure: Any, i: int) -> Any:
            return structure[i] if isinstance(structure, (list, tuple)) else structure

        results = [packet(*[element(a, i) for a in args], **{k: element(v, i) for k, v in kwargs.items()})
                   for i in range(len(args[0]))]
        return None if schema.writes else results

    def call_named(self, name: str, args: tuple, kwargs: Optional[dict] = None, handler: Any = None) -> Any:
        """An op of ours, "poptorch::...", which must have a handler."""
        handler = handler or registry.find(name)
        if handler is None:
            raise createPoptorchError(f"{name} is not supported")
        args, kwargs = self._stand_ins(args), self._stand_ins(kwargs or {})
        return self.apply(name, handler, None, args, kwargs)

    def _stand_ins(self, structure: Any) -> Any:
        """Tensors of the host that are parameters, buffers or arguments replaced by those of the capture."""
        known = self.known

        def replaced(t: torch.Tensor) -> torch.Tensor:
            return known.get(id(t), t)

        return map_structure(structure, _Tensor, replaced)

    def _concerns(self, args: tuple, kwargs: dict) -> bool:
        if _has_ipu(args) or _has_ipu(kwargs):
            return True
        device = kwargs.get("device")
        return device is not None and torch.device(device).type == "ipu"

    # ---- plain ops ----

    def _call_plain(self, schema: Schema, args: tuple, kwargs: dict) -> Any:
        handler = registry.find(schema.name)
        if handler is not None:
            return self.apply(schema.name, handler, schema.overload, args, kwargs)
        decomposed = compat.decomposition(schema.overload)
        if decomposed is None and compat.is_composite(schema.name):  # within other ops torch has not taken it apart yet
            with _Dispatch(self):
                return schema.overload.decompose(*args, **kwargs)
        if decomposed is None:
            return self._unsupported(schema, args, kwargs)
        with _Dispatch(self), _Functions(self):
            return decomposed(*args, **kwargs)

    def _unsupported(self, schema: Schema, args: tuple, kwargs: dict) -> Any:
        self.unsupported.add(schema.packet, self.where())
        try:
            return self.apply(schema.name, registry.Handler(schema.name, _refuse, None, (), False), schema.overload,
                              args, kwargs)
        except Exception:
            self.raise_unsupported()
            raise

    def apply(self, name: str, handler: Any, function: Optional[Callable], args: tuple, kwargs: dict) -> Any:
        """Record a node; its results as IpuTensors."""
        unknown = handler.unknown(args, kwargs)
        if unknown:
            raise createPoptorchError(f"{name} at {self.where()} is not supported with argument {', '.join(unknown)}, which "
                                      f"torch {torch.__version__} has: leave it out")
        try:
            self.busy = True
            metas = results_of(self, handler, function, args, kwargs)
        except Error as e:
            if not e.location:
                e.location = self.where()
            raise
        finally:
            self.busy = False
        node = self.record(name, handler, args, kwargs)

        def result(meta: torch.Tensor) -> IpuTensor:
            slot = self._output(node, tuple(meta.shape), meta.dtype)
            if meta.device.type != "meta":
                meta = torch.empty_strided(meta.size(), meta.stride(), dtype=meta.dtype, device="meta")
            return IpuTensor(meta, Cell(slot), (), slot)

        results = map_structure(metas, _Tensor, result)
        node.n_results = len(node.outputs)
        if handler.mutates:
            self._mutate(node, handler, args, kwargs)
        if handler.loss and node.n_results:
            self.losses.append(node.outputs[0])
        return results

    def _mutate(self, node: Node, handler: Any, args: tuple, kwargs: dict) -> None:
        """New values for arguments that the op changes though torch does not say so."""
        for tensor in handler.mutated(args, kwargs):
            node.mutated.append(self.read(tensor) if tensor is not None else None)
            slot = self._output(node, tuple(tensor.shape) if tensor is not None else (),
                                tensor.dtype if tensor is not None else torch.float32)
            if isinstance(tensor, IpuTensor):
                self.write(tensor, slot)

    def record(self, name: str, handler: Any, args: tuple, kwargs: dict) -> Node:
        """A new node in the current block, still without outputs."""
        node = Node(name, handler, self._slots(args), self._slots(kwargs))
        node.grad_enabled = self.grad_enabled and not torch.is_inference_mode_enabled()
        node.location = user_location(self.location_excludes)
        node.scopes = tuple(self.scopes)
        node.place = _place()
        self.blocks[-1].nodes.append(node)
        if self.multi_convs and "conv" in name:
            self.multi_convs[-1].append(node)
        return node

    def _output(self, node: Node, shape: Tuple[int, ...], dtype: torch.dtype) -> Slot:
        slot = Slot(shape, dtype, node, self.blocks[-1])
        node.outputs.append(slot)
        return slot

    def _slots(self, structure: Any) -> Any:
        return map_structure(structure, _Tensor, self.read)

    # ---- views ----

    def _call_view(self, schema: Schema, args: tuple, kwargs: dict) -> Any:
        tensor, rest = args[0], args[1:]
        if schema.packet in IDENTITIES:
            return self._alias(tensor, schema)
        if schema.packet == "aten::as_strided" and tensor._views:
            with self.gradients(self.grad_enabled and self.read(tensor).has_gradient):
                return self._view(schema, self._whole(tensor), _in_storage(tensor, *rest, **kwargs), {})
        parts = pieces(schema.name, tensor, rest, kwargs)
        if parts is not None:
            return [self._view(schema_of(compat.overload_of(name)), tensor, arguments, {}) for name, arguments in parts]
        if compat.is_composite(schema.name):  # such as reshape, which may be a view or a copy
            with _Dispatch(self):
                return schema.overload.decompose(tensor, *rest, **kwargs)
        return self._view(schema, tensor, rest, kwargs)

    @staticmethod
    def _whole(tensor: IpuTensor) -> IpuTensor:
        """All the memory that a tensor is a view of."""
        slot = tensor._cell.slot
        detach = [View(v.name, (), {}, slot.shape, slot.shape, slot.dtype) for v in tensor._views if v.name == "aten::detach"]
        whole = IpuTensor(torch.empty(slot.shape, dtype=slot.dtype, device="meta"), tensor._cell, tuple(detach[:1]), slot)
        whole._seen = -1
        return whole

    def _alias(self, tensor: IpuTensor, schema: Schema) -> IpuTensor:
        slot = self.read(tensor)
        views = tensor._views
        if schema.packet == "aten::detach":
            view = View(schema.name, (), {}, slot.shape, slot.shape, slot.dtype)
            slot, views = self._apply_view(view, slot), views + (view, )
        return IpuTensor(tensor._meta, tensor._cell, views, slot)

    def _view(self, schema: Schema, tensor: IpuTensor, args: tuple, kwargs: dict) -> Any:
        if registry.find(schema.name) is None:
            return self._call_plain(schema, (tensor, ) + args, kwargs)
        self.busy = True
        try:
            meta = schema.overload(tensor._meta, *args, **kwargs)
        finally:
            self.busy = False
        if not isinstance(meta, _Tensor):
            return self._call_plain(schema, (tensor, ) + args, kwargs)
        view = View(schema.name, args, kwargs, tuple(tensor.shape), tuple(meta.shape), meta.dtype)
        return IpuTensor(meta, tensor._cell, tensor._views + (view, ), self._apply_view(view, self.read(tensor)))

    def _call_in_place_view(self, schema: Schema, args: tuple, kwargs: dict) -> IpuTensor:
        """t_() and the like: the tensor itself becomes what t() gives."""
        tensor = args[0]
        with self.gradients():  # it is the same tensor still
            result = getattr(torch.ops.aten, schema.packet[len("aten::"):-1])(*args, **kwargs)
        compat.set_shape(tensor, result._meta)
        tensor._meta, tensor._views, tensor._slot, tensor._seen = (result._meta, result._views, result._slot, result._seen)
        return tensor

    def _apply_view(self, view: View, slot: Slot) -> Slot:
        return self._emit(view.name, (slot, ) + view.args, view.kwargs, view.after, view.dtype)

    def _emit(self, name: str, args: tuple, kwargs: dict, shape: Tuple[int, ...], dtype: torch.dtype) -> Slot:
        """A node of one result, whose shape is known."""
        handler = registry.find(name)
        if handler is None:
            raise createPoptorchError(f"{name} is not supported (at {self.where()})")
        node = self.record(name, handler, args, kwargs)
        node.n_results = 1
        return self._output(node, shape, dtype)

    # ---- reading and writing ----

    def read(self, tensor: torch.Tensor) -> Slot:
        """The value that a tensor has now."""
        if not isinstance(tensor, IpuTensor):
            if isinstance(tensor, Slot):
                return tensor
            stand_in = self.known.get(id(tensor))
            if stand_in is None:
                return self.constant(tensor)
            tensor = stand_in
        cell = tensor._cell
        slot = tensor._slot
        if tensor._seen == cell.version and (slot.block is None or slot.block in self.blocks):
            return slot
        slot = cell.slot
        if slot.block is not None and slot.block not in self.blocks:
            raise createPoptorchError(f"A tensor that was made in the body of a loop or branch is used outside of it at "
                                      f"{self.where()}: return it from the body")
        with self.gradients():  # whoever reads it first, and how
            for view in tensor._views:
                slot = self._apply_view(view, slot)
        tensor._slot, tensor._seen = slot, cell.version
        return slot

    @contextlib.contextmanager
    def gradients(self, enabled: bool = True) -> Iterator[None]:
        """What is recorded has gradients, or none, whatever the user has said about the ops that come now."""
        before, self.grad_enabled = self.grad_enabled, enabled
        try:
            yield
        finally:
            self.grad_enabled = before

    def write(self, tensor: IpuTensor, slot: Slot) -> None:
        """Give a tensor, what it is a view of and all other views of that, a new value."""
        cell = tensor._cell
        before = [cell.slot]
        views = [v for v in tensor._views if v.name != "aten::detach"]
        for view in views[:-1]:
            before.append(self._apply_view(view, before[-1]))
        value = slot
        for view, old in zip(reversed(views), reversed(before[:len(views)])):
            name, takes_old, args, kwargs = back(view)
            value = self._emit(name, ((old, ) if takes_old else ()) + (value, ) + args, kwargs, view.before, old.dtype)
        is_detached = len(views) < len(tensor._views)
        if (is_detached or not self.grad_enabled) and self._keeps_gradient(cell):
            value = self._emit("poptorch::with_gradient_of", (value, cell.slot), {}, value.shape, value.dtype)
            value.node.grad_enabled = value.has_gradient = True
            slot = slot if is_detached else value
        self.written.append((cell, cell.slot))
        cell.slot = value
        cell.version += 1
        tensor._slot, tensor._seen = slot, cell.version if not views else -1

    def _keeps_gradient(self, cell: Cell) -> bool:
        """Whether a change that gradients do not see (no_grad, .data) leaves the gradient of what was there before."""
        return self.differentiates and cell.slot.has_gradient

    @property
    def differentiates(self) -> bool:
        """Whether gradients are, or may be, taken."""
        return self.training or self.has_leaves

    def want_gradient(self, tensor: IpuTensor) -> None:
        """tensor.requires_grad_()"""
        self.has_leaves = True
        self.read(tensor).has_gradient = True

    def replace(self, tensor: IpuTensor, value: torch.Tensor) -> None:
        """tensor.data = value"""
        if tuple(value.shape) != tuple(tensor.shape):
            raise createPoptorchError(f"A tensor of shape {tuple(tensor.shape)} was set to one of shape "
                                      f"{tuple(value.shape)}: shapes cannot change on the IPU")
        with torch.no_grad():
            torch.ops.aten.copy_(tensor, value)

    def _call_writing(self, schema: Schema, args: tuple, kwargs: dict) -> Any:
        """An op that changes arguments: recorded as one that gives their new values."""
        targets = [schema.argument(args, kwargs, a) for a in schema.writes]
        for target in targets:
            if isinstance(target, _Tensor) and not isinstance(target, IpuTensor):
                raise createPoptorchError(
                    f"{schema.packet} at {self.where()} changes a tensor of the host in place by values of the IPU. "
                    "Make it a buffer (register_buffer) or a tensor made in forward()")
        if schema.has_out:
            return self._call_out(schema, targets, args, kwargs)
        self._check_in_place(schema, args, kwargs)
        handler, name, call = self._functional(schema)
        target = targets[0]
        if handler is None:
            if compat.is_composite(schema.name):
                with _Dispatch(self):
                    return schema.overload.decompose(*args, **kwargs)
            decomposed = compat.decomposition(call) if call is not None else None
            if decomposed is None:
                self._unsupported(schema, args, kwargs)
                return target
            with _Dispatch(self), _Functions(self):
                result = decomposed(*args, **kwargs)
                torch.ops.aten.copy_(target, result)
            return target
        node = self.record(name, handler, args, kwargs)
        slots = [self._output(node, tuple(t.shape), t.dtype) for t in targets if isinstance(t, IpuTensor)]
        node.n_results = len(node.outputs)
        for t, slot in zip((t for t in targets if isinstance(t, IpuTensor)), slots):
            self.write(t, slot)
        return target if len(targets) == 1 else tuple(targets)

    def _check_in_place(self, schema: Schema, args: tuple, kwargs: dict) -> None:
        """Let torch say whether shapes and types go together, as it would on the host."""
        self.busy = True
        try:
            results_of(self, None, schema.overload, args, kwargs)
        except NotImplementedError:
            pass
        finally:
            self.busy = False

    def _functional(self, schema: Schema) -> Tuple[Any, str, Any]:
        """Handler, name and overload of the op that an in-place op does."""
        own = registry.OPS.get(schema.name) or registry.OPS.get(schema.packet)
        if own is not None:
            return own, schema.name, None
        name = schema.functional_name
        return registry.find(name), name, compat.overload_of(name)

    def _call_out(self, schema: Schema, targets: Sequence[Any], args: tuple, kwargs: dict) -> Any:
        names = schema.writes
        kwargs = {k: v for k, v in kwargs.items() if k not in names}
        if "dtype" in schema.names and schema.argument(args, kwargs, "dtype") is None and len(targets) == 1:
            kwargs["dtype"] = targets[0].dtype  # sums and scans are computed in the type of out=
        functional = schema.without_out()
        if functional is None:
            raise createPoptorchError(f"{schema.name} at {self.where()} is not supported with out=; use its result instead")
        with _Dispatch(self), _Functions(self):
            results = functional(*args, **kwargs)
        results = results if isinstance(results, (tuple, list)) else (results, )
        for target, result in zip(targets, results):
            if tuple(target.shape) == tuple(result.shape):
                torch.ops.aten.copy_(target, result)
            else:
                self._become(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    def _become(self, target: IpuTensor, result: IpuTensor) -> None:
        """out= of another shape: torch gives it the shape that it needs."""
        if target.numel():
            logger.warning("An output with one or more elements was resized since it had shape %s, which does not match "
                           "the required output shape %s.", list(target.shape), list(result.shape))
        if target._views or result.numel() > target.numel():
            raise createPoptorchError(f"out= of shape {tuple(target.shape)} at {self.where()} would have to become "
                                      f"{tuple(result.shape)}, which is not supported: pass one of that shape")
        slot = self.read(result.to(target.dtype))
        meta = torch.empty(tuple(result.shape), dtype=target.dtype, device="meta")
        compat.set_shape(target, meta)
        target._meta = meta
        self.write(target, slot)

    # ---- for messages, slices and questions ----

    def known_value(self, tensor: IpuTensor) -> Optional[torch.Tensor]:
        """What a tensor holds, if that depends on neither inputs nor weights; else None."""
        slot = self.read(tensor)
        busy, self.busy = self.busy, True
        try:
            return value_of(self.graph, slot)
        finally:
            self.busy = busy

    def where(self) -> str:
        """ "file:line" of the user's code that runs now."""
        file, line = user_location(self.location_excludes)
        return f"{file}:{line}" if file else ""

    def distance(self, start: Optional[Slot], stop: Slot) -> Optional[int]:
        """The number n for which stop is start + n, if both were computed from one value by adding numbers."""
        if start is None:
            return None
        first, before = self._origin(start)
        second, after = self._origin(stop)
        return after - before if first is second else None

    def _origin(self, slot: Slot) -> Tuple[Slot, int]:
        """What a value was computed from by adding numbers, and their sum."""
        total = 0
        while True:
            slot = _skip_casts(slot)
            kind = slot.node.target.partition(".")[0].rstrip("_") if slot.node is not None else ""
            if kind not in ("aten::add", "aten::sub"):
                return slot, total
            first, second = slot.node.args[:2]
            factor = slot.node.kwargs.get("alpha", 1) * (1 if kind == "aten::add" else -1)
            number = self._whole_number(second)
            if number is None and factor == 1:
                first, number = second, self._whole_number(first)
            if number is None or not isinstance(first, Slot):
                return slot, total
            slot, total = first, total + factor * number

    def _whole_number(self, argument: Any) -> Optional[int]:
        """An argument that is a number, or a constant of one element."""
        data = self.graph.constants.get(argument) if isinstance(argument, Slot) else None
        if data is not None and data.numel() == 1 and not data.is_floating_point():
            return int(data)
        return argument if isinstance(argument, int) else None

    def raise_unsupported(self) -> None:
        """One error for all ops that have no handler."""
        if self.unsupported:
            raise createPoptorchError(self.unsupported.message())


def _in_storage(tensor: IpuTensor, size: Sequence[int], stride: Sequence[int], storage_offset: Optional[int] = None) -> tuple:
    """Arguments of as_strided for the memory of a view: its offset is where the view begins."""
    return size, stride, tensor._meta.storage_offset() if storage_offset is None else storage_offset


def _skip_casts(slot: Any) -> Any:
    """The value before casts, reshapes and copies of a scalar."""
    while isinstance(slot, Slot) and slot.node is not None and slot.node.target.partition(".")[0] in _TRANSPARENT:
        slot = slot.node.args[0]
    return slot


_TRANSPARENT = frozenset(("aten::_to_copy", "aten::to", "aten::clone", "aten::view", "aten::reshape", "aten::squeeze",
                          "aten::unsqueeze", "aten::alias", "aten::detach"))


def _has_ipu(structure: Any) -> bool:
    if isinstance(structure, IpuTensor):
        return True
    if isinstance(structure, (tuple, list)):
        return any(_has_ipu(element) for element in structure)
    if isinstance(structure, dict):
        return any(_has_ipu(element) for element in structure.values())
    return False


def _refuse(g: Any, node: Node, *args: Any, **kwargs: Any) -> Any:
    raise createPoptorchError(f"{node.target} at {node.where} is not supported")


class _Functions(compat.TorchFunctionMode):
    """Sees functions of torch's Python interface."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self.capture = capture

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        return self.capture.call_function(func, args, kwargs or {})


class _Dispatch(compat.TorchDispatchMode):
    """Sees ops."""

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self.capture = capture

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        return self.capture.call(func, args, kwargs or {})


from .session import capture  # noqa: E402,F401
from .special import FUNCTIONS as _FUNCTIONS, OPS as _OPS  # noqa: E402  (they use Capture)
