"""A captured network, compiled."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import torch

from openipu import program
from openipu.arguments import Arguments
from openipu.settings import ExecutorOptions, Training
from openipu.structures import rebuild

from .._capture.graph import Slot
from .._errors import createPoptorchError
from .._ops import emit
from ..options import waits_for_device


def _raise_backward(*_args: Any, **_kwargs: Any) -> None:
    raise createPoptorchError(
        "backward() cannot be called explicitly on outputs of a PopTorch model. If you're using a trainingModel, the "
        "backwards pass is performed automatically when invoking the model. If you're using an inferenceModel, you "
        "should use a trainingModel instead.")


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Slot, torch.Tensor))


class Program(program.Program):
    """What compiling makes of a model and the arguments of one call.

    ``graph``: of ``capture.capture``. ``tensors``: those of the call, of all batches. ``extra(emitter, network)`` may
    add outputs of its own. Others are those of openipu's.
    """

    def __init__(self, graph: Any, arguments: Arguments, tensors: Sequence[torch.Tensor], options: ExecutorOptions,
                 training: Optional[Training], extra: Optional[Callable[[Any, Any], None]] = None, **others: Any):
        self.graph = graph
        numbers = {slot: i for i, slot in enumerate(graph.output_slots)}
        self._leaves = [numbers[leaf] if isinstance(leaf, Slot) else leaf for leaf in graph.output_leaves]
        self._single = _is_leaf(graph.outputs) and isinstance(self._leaves[0], int)

        def build(network: Any, values: List[Any]) -> None:
            emitter = emit.emit(graph, network, values)
            if extra is not None:
                extra(emitter, network)

        super().__init__(build, len(graph.output_slots), graph.kept, tensors, options, training, arguments=arguments,
                         updates=[index for index, _ in graph.input_updates], waits=waits_for_device, **others)

    def result(self, outputs: List[torch.Tensor]) -> Any:
        """What the model returns, with these outputs."""
        for output in outputs:
            output.backward = _raise_backward
        if self._single:
            return outputs[0]
        leaves = (outputs[leaf] if isinstance(leaf, int) else leaf for leaf in self._leaves)
        return rebuild(self.graph.outputs, leaves, _is_leaf)
