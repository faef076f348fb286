"""Around a capture: the model's tensors are exchanged, torch is set up, and the graph is finished."""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch

from openipu import structures

from .._errors import createPoptorchError
from .._logging import TRACE, logger
from .._ops import registry
from . import gradients, torch_compat as compat
from .capture import Capture, _Dispatch, _Functions
from .graph import Block, Graph, Node, Slot, slots_in
from .tensor import IpuTensor, current, required, set_current

_one_at_a_time = threading.RLock()  # parts of torch are exchanged meanwhile
_overridden: Set[str] = set()
_n_overridden = 0
_GUARDED = ("aten::copy_", )


def _override_composites() -> None:
    """Ops with a handler that torch would take apart reach the capture as they are; so do those whose part for gradients
    asks for a device that torch knows."""
    global _n_overridden
    if _n_overridden == len(registry.OPS):  # to ask torch takes a while
        return
    _n_overridden = len(registry.OPS)
    for name in registry.composites() + _GUARDED:
        if name in _overridden:
            continue
        _overridden.add(name)
        overload = compat.overload_of(name)
        if name not in _GUARDED and any(a.alias_info is not None for a in overload._schema.arguments):
            continue  # views: what torch makes of them keeps track of memory that is shared

        def called(*args: Any, _overload: Any = overload, **kwargs: Any) -> Any:
            return required(_overload).call(_overload, args, kwargs)

        compat.override_composite(name, called)


# ---- the model's tensors ----


class _Exchange:
    """Parameters and buffers of a module are those of a capture, until `restore`."""

    def __init__(self, capture: Capture, model: torch.nn.Module) -> None:
        self._capture = capture
        self._modules = [(name, module) for name, module in model.named_modules()]
        self._saved: List[Tuple[str, torch.nn.Module, dict, dict, dict]] = []
        self._placed: Dict[Tuple[int, str], torch.Tensor] = {}

    def begin(self) -> None:
        stand_ins: Dict[int, IpuTensor] = {}
        for prefix, module in self._modules:
            plain = {k: (v, copy.copy(v) if type(v) in (list, dict) else v) for k, v in module.__dict__.items()
                     if k not in ("_parameters", "_buffers")}
            self._saved.append((prefix, module, dict(module._parameters), dict(module._buffers), plain))
            for table, is_parameter in ((module._parameters, True), (module._buffers, False)):
                for name, tensor in dict(table).items():
                    if tensor is None:
                        continue
                    if id(tensor) not in stand_ins:
                        full = f"{prefix}.{name}" if prefix else name
                        stand_ins[id(tensor)] = self._capture.add_kept(full, tensor, is_parameter)
                    dict.__setitem__(table, name, stand_ins[id(tensor)])
                    self._placed[(id(module), name)] = stand_ins[id(tensor)]
            _exchange_lists(module, stand_ins)

    def check(self) -> None:
        """Error: forward() gave a parameter or buffer another tensor, or removed it."""
        for prefix, module, parameters, buffers, _ in self._saved:
            for kind, before, now in (("Parameter", parameters, module._parameters), ("Buffer", buffers, module._buffers)):
                for name, tensor in before.items():
                    if tensor is not None:
                        self._check_one(kind, prefix, module, name, now)

    def _check_one(self, kind: str, prefix: str, module: torch.nn.Module, name: str, now: dict) -> None:
        placed = self._placed[(id(module), name)]
        found = now.get(name)
        if found is placed:
            return
        full = f"{prefix}.{name}" if prefix else name
        if found is None:
            raise createPoptorchError(f"{kind} {full} is removed from the model when calling the forward method.")
        if isinstance(module, torch.nn.modules.batchnorm._NormBase):
            torch.ops.aten.copy_(placed, found)
            return
        raise createPoptorchError(
            f"{kind} {full} is reassigned within the model when calling the forward method. This is not supported. "
            f"Consider using self.{full}.copy_(src) to copy data from a source tensor, where src is the name of the source "
            "tensor.")

    def restore(self) -> None:
        for _, module, parameters, buffers, plain in self._saved:
            _put_back(module._parameters, parameters)
            _put_back(module._buffers, buffers)
            for name, value in list(module.__dict__.items()):
                if name in ("_parameters", "_buffers"):
                    continue
                before, contents = plain.get(name, (None, None))
                if value is before and isinstance(value, (list, dict)):
                    _put_contents_back(value, contents)
                elif _holds_ipu(value):
                    if name in plain and not _holds_ipu(before):
                        module.__dict__[name] = before
                    else:
                        module.__dict__.pop(name)
            if "_flat_weights" in plain:
                module.__dict__["_flat_weights"] = plain["_flat_weights"][0]


def _put_contents_back(container: Any, before: Any) -> None:
    """Take tensors of the capture out of a list or dict of the model's; they are of no use afterwards."""
    if not _holds_ipu(container):
        return
    if isinstance(container, list):
        container[:] = before
    else:
        container.clear()
        container.update(before)


def _put_back(table: dict, before: dict) -> None:
    for name in list(table):
        if name not in before:
            dict.pop(table, name)
    for name, tensor in before.items():
        dict.__setitem__(table, name, tensor)


def _holds_ipu(value: Any) -> bool:
    if isinstance(value, IpuTensor):
        return True
    if isinstance(value, (list, tuple)):
        return any(isinstance(element, IpuTensor) for element in value)
    if isinstance(value, dict):
        return any(isinstance(element, IpuTensor) for element in value.values())
    return False


def _exchange_lists(module: torch.nn.Module, stand_ins: Dict[int, IpuTensor]) -> None:
    weights = module.__dict__.get("_flat_weights")
    if weights is not None:
        module.__dict__["_flat_weights"] = [stand_ins.get(id(w), w) for w in weights]


# ---- torch meanwhile ----


@contextlib.contextmanager
def _named_calls(capture: Capture, model: Any) -> Iterator[None]:
    """Ops know the names of the modules they were called in."""
    if not isinstance(model, torch.nn.Module) or not capture.names_modules:
        yield
        return
    names = {id(module): name.rpartition(".")[2] or type(module).__name__ for name, module in model.named_modules()}
    original = torch.nn.Module.__call__

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if current() is not capture:  # another thread's
            return original(self, *args, **kwargs)
        capture.scopes.append(names.get(id(self)) or type(self).__name__)
        try:
            return original(self, *args, **kwargs)
        finally:
            capture.scopes.pop()

    torch.nn.Module.__call__ = call
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original


_CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_CHECKING = (torch.nn.functional, torch.functional, torch._tensor)


@contextlib.contextmanager
def _seen_inside(capture: Capture) -> Iterator[None]:
    """What functions of torch that are written in Python call is seen, too (Capture.enter)."""
    saved = [(module, name, getattr(module, name)) for module in _CHECKING for name in _CHECKS if hasattr(module, name)]

    def checked(original: Callable) -> Callable:

        def check(*args: Any) -> bool:
            entered = capture.entered
            if entered and current() is capture and entered[-1] is sys._getframe(1).f_code:
                entered[-1] = None  # it is the function that was entered, and asks whether it is to be handed over
                return False
            return original(*args)

        return check

    for module, name, original in saved:
        setattr(module, name, checked(original))
    try:
        yield
    finally:
        for module, name, original in saved:
            setattr(module, name, original)


@contextlib.contextmanager
def _grad_mode(capture: Capture) -> Iterator[None]:
    """What the user says about gradients is kept apart from what torch does on its own: the forward() of a
    torch.autograd.Function is run without gradients, but its ops have theirs."""
    original = torch._C._set_grad_enabled

    def set_grad_enabled(mode: bool) -> None:
        if current() is capture and not capture.busy:
            capture.grad_enabled = mode
        original(mode)

    torch._C._set_grad_enabled = set_grad_enabled
    try:
        with torch.enable_grad():
            yield
    finally:
        torch._C._set_grad_enabled = original


@contextlib.contextmanager
def _no_validation() -> Iterator[None]:
    """torch.distributions does not look at the values of its arguments."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


@contextlib.contextmanager
def _active(capture: Capture) -> Iterator[None]:
    before = set_current(capture)
    try:
        yield
    finally:
        set_current(before)


@contextlib.contextmanager
def _set_up(capture: Capture, model: Any) -> Iterator[None]:
    """Torch as a capture needs it."""
    with contextlib.ExitStack() as stack:
        for context in (_active(capture), _no_validation(), _grad_mode(capture), _named_calls(capture, model),
                        _seen_inside(capture), compat.plain_checkpoints(), gradients.functions_seen(capture)):
            stack.enter_context(context)
        yield


# ---- the capture itself ----


def capture(model: Callable, args: Sequence[Any] = (), kwargs: Optional[dict] = None, training: bool = False,
            options: Any = None) -> Graph:
    """Record what a model, or any function, does with these arguments.

    Tensors in the arguments (of one micro-batch) become inputs of the graph, in the order of `structures.flatten` of
    (args, kwargs); everything else is as it is. The model is left as it was, whatever happens. Error: there are ops
    that are not supported; in training, there is no loss, or more than one.
    """
    session = Capture(training)
    if options is not None:
        session.graph.backend = options._Popart.options
        session.location_excludes = options._source_location_excludes
        session.names_modules = options._module_namescope_enabled
    _override_composites()
    exchange = _Exchange(session, model) if isinstance(model, torch.nn.Module) else None
    stand_ins: Dict[int, IpuTensor] = {}

    def stand_in(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in stand_ins:
            stand_ins[id(tensor)] = session.add_input(tensor)
            session.known[id(tensor)] = stand_ins[id(tensor)]
        else:
            session.graph.inputs.append(session.graph.inputs[stand_ins[id(tensor)]._cell.input])
            session.input_cells.append(stand_ins[id(tensor)]._cell)
        return stand_ins[id(tensor)]

    structure = (tuple(args), dict(kwargs or {}))
    _one_at_a_time.acquire()
    try:
        if exchange is not None:
            exchange.begin()
        leaves = [stand_in(t) for t in structures.flatten(structure)]
        args, kwargs = structures.rebuild(structure, iter(leaves))
        with _set_up(session, model):
            with _Dispatch(session), _Functions(session):
                result = model(*args, **kwargs)
                if exchange is not None:
                    exchange.check()
            _finish(session, result, training)
    finally:
        if exchange is not None:
            exchange.restore()
        _one_at_a_time.release()
    return session.graph


def _finish(session: Capture, result: Any, training: bool) -> None:
    session.raise_unsupported()
    graph = session.graph
    graph.outputs = _outputs(session, result)
    graph.input_updates = [(i, cell.slot) for i, cell in enumerate(session.input_cells)
                           if cell.version and cell.slot is not graph.inputs[i] and cell.input == i]
    for cell in session.kept_cells:
        cell.kept.final = cell.slot
    graph.losses = _final_losses(session.losses)
    if training:
        _check_losses(graph)
    _prune(graph)
    if logger.isEnabledFor(TRACE):
        logger.log(TRACE, "Captured graph:\n%s", graph.text())


def _outputs(session: Capture, result: Any) -> Any:
    graph = session.graph
    found: Dict[Slot, None] = {}

    def slot_of(tensor: Any) -> Any:
        tensor = session.known.get(id(tensor), tensor)
        if not isinstance(tensor, IpuTensor):
            logger.warning("forward() returns a tensor of the host (shape %s): it is returned as it is", tuple(tensor.shape))
            return tensor
        slot = session.read(tensor)
        found.setdefault(slot)
        return slot

    graph.output_leaves = [slot_of(t) for t in structures.flatten(result)]
    graph.output_slots = list(found)
    return result


def _final_losses(losses: List[Slot]) -> List[Slot]:
    """Losses that no other loss is computed from."""
    feeding: Set[Slot] = set()
    for loss in losses:
        todo = list(loss.node.inputs())
        seen: Set[Slot] = set()
        while todo:
            slot = todo.pop()
            if slot in seen:
                continue
            seen.add(slot)
            if slot.node is not None:
                todo.extend(slot.node.inputs())
        feeding |= seen
    return [loss for loss in dict.fromkeys(losses) if loss not in feeding]


def _check_losses(graph: Graph) -> None:
    if not graph.losses:
        raise createPoptorchError("Couldn't find a loss in graph! A training model must compute its loss in forward(): by "
                                  "a loss function of torch, or marked with poptorch.identity_loss")
    if len(graph.losses) > 1:
        places = "; ".join(f"{loss.node.target} at {loss.node.where}" for loss in graph.losses)
        raise createPoptorchError("Multiple independent losses found in graph. Graph must have one final loss. Wrap final "
                                  f"graph loss in poptorch.identity_loss. Found: {places}")


def _prune(graph: Graph) -> None:
    """Drop nodes that nothing needs, and parameters and constants with them."""
    needed: Set[Slot] = set(graph.output_slots) | set(graph.losses) | {slot for _, slot in graph.input_updates}
    needed |= {kept.final for kept in graph.kept if kept.updated}
    _prune_block(graph.block, needed)
    graph.kept = [kept for kept in graph.kept if kept.slot in needed or kept.updated]
    graph.constants = {slot: tensor for slot, tensor in graph.constants.items() if slot in needed}
    graph.places = list(dict.fromkeys(node.place for node in graph.nodes))


def _prune_block(block: Block, needed: Set[Slot]) -> None:
    kept: List[Node] = []
    for node in reversed(block.nodes):
        if not node.effects and not any(slot in needed for slot in node.outputs):
            continue
        for inner in node.blocks:
            needed.update(inner.outputs)
            _prune_block(inner, needed)
        needed.update(slots_in(node.args))
        needed.update(slots_in(node.kwargs))
        kept.append(node)
    block.nodes = kept[::-1]
