"""What a capture records: ops in the order of their calls, and the values between them."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch


class Slot:
    """A value of the graph: a result of a node, an input, a parameter or buffer, or a constant.

    :ivar shape: dimensions, a tuple.
    :ivar dtype: torch's type; the device may hold a narrower one.
    :ivar block: the block in which it was made; None: it is there from the start.
    :ivar has_gradient: whether a parameter that is trained, or a tensor that gradients are wanted of, has a part in it.
    """

    __slots__ = ("shape", "dtype", "node", "block", "has_gradient")

    def __init__(self, shape: Tuple[int, ...], dtype: torch.dtype, node: Optional["Node"] = None,
                 block: Optional["Block"] = None) -> None:
        self.shape = shape
        self.dtype = dtype
        self.node = node
        self.block = block
        self.has_gradient = (node is not None and dtype.is_floating_point and node.grad_enabled and
                             node.target != "aten::detach" and any(slot.has_gradient for slot in node.inputs()))

    def __repr__(self) -> str:
        return f"Slot({str(self.dtype)[6:]}{list(self.shape)})"


class Node:
    """A call of an op.

    :ivar target: its name, such as "aten::add.Tensor".
    :ivar handler: what emits it (poptorch._ops.registry.Handler).
    :ivar args: arguments, with Slots in the place of tensors; `kwargs` likewise.
    :ivar outputs: Slots of the results, flat; then those of arguments that it changes.
    :ivar n_results: how many of the outputs are results.
    :ivar mutated: Slots that changed arguments had before, None where such an argument was not given.
    :ivar grad_enabled: whether gradients pass.
    :ivar location: the user's (file, line).
    :ivar scopes: names of the modules it was called in, outermost first.
    :ivar place: the stage and IPU it runs on.
    :ivar blocks: blocks that it runs, of loops and branches.
    """

    __slots__ = ("target", "handler", "args", "kwargs", "outputs", "n_results", "mutated", "grad_enabled", "location",
                 "scopes", "place", "blocks", "effects")

    def __init__(self, target: str, handler: Any, args: tuple, kwargs: dict) -> None:
        self.target = target
        self.handler = handler
        self.args = args
        self.kwargs = kwargs
        self.outputs: List[Slot] = []
        self.n_results = 0
        self.mutated: List[Optional[Slot]] = []
        self.grad_enabled = True
        self.location: Tuple[str, int] = ("", 0)
        self.scopes: Tuple[str, ...] = ()
        self.place: Any = None
        self.blocks: Tuple["Block", ...] = ()
        self.effects = False

    def inputs(self) -> Iterator[Slot]:
        """The Slots among its arguments, and what the blocks it runs use."""
        yield from slots_in(self.args)
        yield from slots_in(self.kwargs)
        for block in self.blocks:
            yield from block.used()

    @property
    def where(self) -> str:
        """ "file:line", or "" if that is not known."""
        return f"{self.location[0]}:{self.location[1]}" if self.location[0] else ""

    def __repr__(self) -> str:
        return f"{', '.join(map(repr, self.outputs))} = {self.target}{self.args} {self.kwargs or ''} at {self.where}"


class Block:
    """Nodes in order: the graph itself, the body of a loop or a branch.

    :ivar inputs: values that the block is given (of a loop: those that it carries).
    :ivar outputs: values that it gives.
    """

    __slots__ = ("nodes", "inputs", "outputs")

    def __init__(self) -> None:
        self.nodes: List[Node] = []
        self.inputs: List[Slot] = []
        self.outputs: List[Slot] = []

    def used(self) -> Iterator[Slot]:
        """Slots that its nodes and results use."""
        for node in self.nodes:
            yield from node.inputs()
        yield from self.outputs


class Kept:
    """A parameter or buffer of the user's model.

    :ivar name: as in state_dict().
    :ivar tensor: the host's tensor.
    :ivar trained: whether gradients are taken and the optimizer changes it.
    :ivar slot: its value when a run begins.
    :ivar final: its value when a run ends.
    :ivar groups: for a parameter that differs between groups of replicas, along dimension 0 of the tensor: the number
        of each replica's group. Empty: it is the same in all.
    """

    __slots__ = ("name", "tensor", "trained", "is_parameter", "slot", "final", "groups")

    def __init__(self, name: str, tensor: torch.Tensor, trained: bool, is_parameter: bool, slot: Slot) -> None:
        self.name = name
        self.tensor = tensor
        self.trained = trained
        self.is_parameter = is_parameter
        self.slot = slot
        self.final = slot
        self.groups: List[int] = []

    @property
    def updated(self) -> bool:
        """Whether the network itself changes it."""
        return self.final is not self.slot


class Graph:
    """A captured model.

    :ivar block: its nodes.
    :ivar inputs: Slots, one for each tensor among the arguments, in order.
    :ivar kept: parameters and buffers that are used, tied ones once.
    :ivar constants: tensors of the host by their Slots.
    :ivar outputs: what forward() returned.
    :ivar output_leaves: the tensors in it, in order: Slots, or tensors of the host.
    :ivar output_slots: the distinct Slots among them, in order.
    :ivar input_updates: (number of the input, Slot) for inputs that were changed in place.
    :ivar losses: scalars, or values to be summed up, that training is for.
    :ivar takes_gradients: whether forward() itself calls torch.autograd.grad.
    :ivar places: where ops run, in the order of their first use.
    :ivar backend: settings of the backend by their names (Options._Popart), for ops that they change.
    :ivar plan: the stages of a network on several IPUs (openipu.stages.Plan), or None.
    :ivar host_functions: functions of the host that it calls; they live as long as it does.
    :ivar multi_convs: convolutions of each poptorch.MultiConv.
    :ivar overlaps: (poptorch.set_overlap_... call, Slot, mode, "file:line") for the executor to check.
    """

    def __init__(self) -> None:
        self.block = Block()
        self.inputs: List[Slot] = []
        self.kept: List[Kept] = []
        self.constants: Dict[Slot, torch.Tensor] = {}
        self.outputs: Any = None
        self.output_leaves: List[Any] = []
        self.output_slots: List[Slot] = []
        self.input_updates: List[Tuple[int, Slot]] = []
        self.losses: List[Slot] = []
        self.takes_gradients = False
        self.places: List[Any] = []
        self.plan: Any = None
        self.backend: Dict[str, Any] = {}
        self.host_functions: List[Any] = []
        self.overlaps: List[tuple] = []
        self.multi_convs: List[List[Node]] = []

    @property
    def nodes(self) -> List[Node]:
        return self.block.nodes

    def text(self) -> str:
        """The nodes, a line each, for people."""
        return "\n".join(map(repr, self.nodes))


def slots_in(structure: Any) -> Iterator[Slot]:
    """The Slots in a structure of tuples, lists and dicts."""
    if isinstance(structure, Slot):
        yield structure
    elif isinstance(structure, (tuple, list)):
        for element in structure:
            yield from slots_in(element)
    elif isinstance(structure, dict):
        for element in structure.values():
            yield from slots_in(element)


def map_structure(structure: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """The structure with `change` of its elements of a kind."""
    if isinstance(structure, kind):
        return change(structure)
    if isinstance(structure, tuple):
        changed = [map_structure(element, kind, change) for element in structure]
        return type(structure)(*changed) if hasattr(structure, "_fields") else _like(structure, changed)
    if isinstance(structure, list):
        return [map_structure(element, kind, change) for element in structure]
    if isinstance(structure, dict):
        return {key: map_structure(element, kind, change) for key, element in structure.items()}
    return structure


def _like(structure: tuple, elements: list) -> tuple:
    if type(structure) is tuple:
        return tuple(elements)
    try:
        return type(structure)(elements)  # torch.return_types.*
    except TypeError:
        return tuple(elements)
