"""Tensors inside of a model that a run gives too: those that Options.anchorTensor names, and gradients of inputs."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch

from openipu.settings import OutputMode

from .. import enums
from .._capture.values import gradients, slots_by_name, trained_slot
from .._errors import createPoptorchError
from .._logging import logger
from ..options import Options

GRADIENT = "Gradient___"
UPDATED = "UpdatedVar___"
FINAL_SCALE = "finalLossScale"

_MODES = {enums.OutputMode.All: OutputMode.ALL, enums.OutputMode.EveryN: OutputMode.EVERY_N,
          enums.OutputMode.Final: OutputMode.FINAL, enums.OutputMode.Sum: OutputMode.SUM}
_WORDS = {enums.OutputMode.All: "ALL", enums.OutputMode.EveryN: "EVERYN", enums.OutputMode.Final: "FINAL",
          enums.OutputMode.Sum: "Sum"}


class _Anchor(NamedTuple):
    short: str
    name: str
    mode: enums.OutputMode
    period: int
    output: str  # name of the network's output; "": it is none


class Anchors:
    """The anchors of one executor."""

    def __init__(self, options: Options, training: bool):
        self._options = options
        self._training = training
        self._values: Dict[str, torch.Tensor] = {}
        self._input_gradients: List[int] = []
        self._anchors = [self._settled(i, short, *anchor)
                         for i, (short, anchor) in enumerate(options.anchored_tensors.items())]

    def _settled(self, i: int, short: str, name: str, as_outputs: bool, mode: Any, period: int) -> _Anchor:
        if as_outputs:
            mode, period = self._options.output_mode, self._options.output_return_period
        is_output = not name.startswith(UPDATED) and name != FINAL_SCALE
        return _Anchor(short, name, enums.OutputMode(mode), period, f"anchor{i}" if is_output else "")

    @property
    def have_modes(self) -> bool:
        """Whether some are of other batches than the model's outputs."""
        o = self._options
        if self._input_gradients and o.output_mode != enums.OutputMode.All:
            return True
        return any((a.mode, a.period if a.mode == enums.OutputMode.EveryN else 1)
                   != (o.output_mode, o.output_return_period if o.output_mode == enums.OutputMode.EveryN else 1)
                   for a in self._anchors if a.output)

    def names(self, executor: Any, graph: Any) -> List[str]:
        """The names that anchors of a compiled model may have."""
        names = list(slots_by_name(graph))
        if self._training:
            names += [prefix + kept.name for prefix in (GRADIENT, UPDATED) for kept in graph.kept if kept.trained]
            names += executor._device_optimizer.attribute_names()
        return names

    # ---- compiling

    def extra(self, graph: Any, tensors: Sequence[torch.Tensor]) -> Optional[Callable[[Any, Any], None]]:
        """What adds their outputs to a network; None: there are none."""
        self._values.clear()
        for anchor in self._anchors:
            period = anchor.period if anchor.mode == enums.OutputMode.EveryN else 1
            logger.debug("Anchoring %s %s/%d", anchor.name, _WORDS[anchor.mode], period)
        self._input_gradients = []
        if self._training and self._options.input_gradients:
            self._input_gradients = [i for i, t in enumerate(tensors) if t.requires_grad]
        if not self._anchors and not self._input_gradients:
            return None
        return lambda emitter, network: self._add(graph, emitter, network)

    def _add(self, graph: Any, emitter: Any, network: Any) -> None:
        slots = slots_by_name(graph)
        for anchor in self._anchors:
            if not anchor.output:
                continue
            if anchor.name.startswith(GRADIENT):
                value = gradients(graph, emitter, network, [trained_slot(graph, anchor.name[len(GRADIENT):])])[0]
            elif anchor.name in slots:
                value = emitter.values[slots[anchor.name]]
            else:
                raise createPoptorchError(f"There is no tensor {anchor.name!r} to anchor. There are: "
                                          + ", ".join(slots))
            network.output(value, anchor.output)
        inputs = [graph.inputs[i] for i in self._input_gradients]
        for i, value in zip(self._input_gradients, gradients(graph, emitter, network, inputs) if inputs else ()):
            network.output(value, f"input_gradient{i}")

    # ---- after runs

    def collect(self, executor: Any, program: Any, tensors: Sequence[torch.Tensor]) -> None:
        """Their values in the last run."""
        for anchor in self._anchors:
            if anchor.output:
                value = program.extra_output(anchor.output, _MODES[anchor.mode], anchor.period)
            elif anchor.name == FINAL_SCALE:
                value = executor._device_optimizer.scale_of_run
            else:
                executor.copyWeightsToHostIfNeeded()
                value = program.weights.value(anchor.name[len(UPDATED):])
            self._values[anchor.short] = value
        for i in self._input_gradients:
            if tensors[i].requires_grad:
                gradient = program.extra_output(f"input_gradient{i}", OutputMode.ALL)
                tensors[i].grad = gradient.reshape(tensors[i].shape).to(tensors[i].dtype)

    def get(self, short_name: str) -> torch.Tensor:
        assert short_name in self._values, f"No tensor with name {short_name} found."
        return self._values[short_name]
