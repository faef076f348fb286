"""The optimizer of a training model, kept equal on the host and on the device."""

from __future__ import annotations

import weakref
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Tuple

import torch

from openipu import optimizers, settings
from openipu.session import Learner

from .. import enums, optim
from .._errors import Error
from .._logging import logger
from .anchors import FINAL_SCALE
from .optimizers import (ON_HOST, SGD, AttributeTracker, Description, describe, finds_scale, has_variable_momentum,
                         training_of)

_STEP = "optimizer_step"
_SCALE = "loss_scale"
_GOOD_STEPS = "loss_scale_good_steps"


class DeviceOptimizer(Learner):
    """What the device has of the optimizer of ``owner``, a PoplarExecutor.

    After a run the device has learned what the host's copy does not know (``_is_stale``); after load_state_dict() the
    host has a state that the device does not (``optimizer._is_loaded``).
    """

    def __init__(self, owner: Any, named_parameters: Iterable[Tuple[str, torch.Tensor]]) -> None:
        self._owner = weakref.ref(owner)
        self._options = owner._options
        self._model_parameters = dict(named_parameters)
        self._parameters: Dict[str, torch.Tensor] = dict(self._model_parameters)
        self._optimizer: Optional[torch.optim.Optimizer] = None
        self.description: Optional[Description] = None
        self._tracker = AttributeTracker(self._options._relax_optimizer_checks)
        self._told: Optional[settings.Training] = None  # what the library was told last
        self._is_new = False  # the device has not been told of the description
        self._is_stale = False
        self._warned_of: set = set()
        self._keeps_scale = any(a[0] == FINAL_SCALE for a in self._options.anchored_tensors.values())
        self.scale_of_run = torch.ones(())  # what the loss of the last run was multiplied by, where it is asked for

    # ---- which optimizer

    def set(self, optimizer: torch.optim.Optimizer) -> None:
        """Train with this optimizer, as it is now, from the next run on."""
        is_compiled = self._owner()._executable is not None
        if isinstance(optimizer, torch.optim.Optimizer):  # others are refused below
            self._warn_of_class(optimizer)
            self._warn_of_strangers(optimizer)
        self._settle_reduction(optimizer, is_compiled)
        if finds_scale(self._options) and hasattr(optimizer, "variable_attrs"):
            optimizer.variable_attrs.markAsVariable("loss_scaling")
        description = self._describe(optimizer)
        self._check_on_host(description)
        self._tracker.look(optimizer, description.kind.name)
        if optimizer is not self._optimizer:
            self._replace(optimizer, is_compiled)
        if description != self.description:
            self.description, self._is_new = description, True

    def _describe(self, optimizer: torch.optim.Optimizer) -> Description:
        names = {id(p): name for name, p in self._parameters.items()}
        return describe(optimizer, lambda p: names.get(id(p)), finds_scale(self._options))

    def _replace(self, optimizer: torch.optim.Optimizer, is_compiled: bool) -> None:
        """The optimizer before keeps the state that it has now; the new one has its own, or goes on from there."""
        old = self._optimizer
        if isinstance(old, optim.Optimizer):
            self.fetch(old)
            old._link = None
        if isinstance(optimizer, optim.Optimizer):
            optimizer._is_loaded = optimizer._has_state()
            optimizer._link = weakref.ref(self)
        self._is_stale = is_compiled
        self._optimizer = optimizer

    def _warn_of_class(self, optimizer: Any) -> None:
        cls = type(optimizer)
        if cls in self._warned_of or torch.optim.Optimizer in cls.__bases__ or optim.Optimizer in cls.__bases__:
            return
        self._warned_of.add(cls)
        logger.warning("Optimizer `%s` is derived from a class of torch.optim or poptorch.optim: Poptorch does not run "
                       "Python optimizer code directly, but the step of the class it is derived from, on the device. "
                       "Derive it from torch.optim.Optimizer to have its own step run, on the host.", cls.__name__)

    def _warn_of_strangers(self, optimizer: torch.optim.Optimizer) -> None:
        """Of an optimizer that has nothing to do with the model."""
        own = {id(p) for p in self._model_parameters.values()}
        if own and not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            logger.warning("None of the optimizer's parameters is one of the model's: nothing will be trained. Make it "
                           "with model.parameters() of the model that is wrapped.")

    def _check_on_host(self, description: Description) -> None:
        if description.kind is not ON_HOST or (self.description and self.description.kind is ON_HOST):
            return
        if self._options.device_iterations != 1:
            raise Error("The device has no optimizer of this type, and makes several steps in one run: set "
                        "poptorch.Options().deviceIterations(1) for steps on the host, or use one of poptorch.optim.")
        logger.warning("The device has no optimizer of this type: its steps are made on the host, which takes longer.")

    def _settle_reduction(self, optimizer: Any, is_compiled: bool) -> None:
        """Gradients that are gathered in float16 are averaged as they come: their sum could overflow."""
        if getattr(optimizer, "accum_type", None) != torch.float16 or getattr(optimizer, "use_combined_accum", False):
            return
        running = enums.MeanReductionStrategy.Running
        training = self._options.Training
        if not is_compiled:
            was_frozen = self._options._is_frozen
            self._options._unfreeze()
            training.setMeanAccumulationAndReplicationReductionStrategy(running)
            if was_frozen:
                self._options._freeze()
        elif training.meanAccumulationAndReplicationReductionStrategy != running:
            raise ValueError("Invalid optimizer: with an accum_type of torch.float16 the option "
                             "Training.meanAccumulationAndReplicationReductionStrategy would have to be "
                             "poptorch.MeanReductionStrategy.Running, but the executable is already compiled. Give it "
                             "to poptorch.trainingModel, or set the option before.")

    # ---- around compiling and running

    def training(self, names: Collection[str]) -> settings.Training:
        """What the library is told, for a network whose trained parameters are ``names``."""
        used = set(names)
        self._parameters = {name: p for name, p in self._model_parameters.items() if name in used}
        self.description = self._describe(self._optimizer)
        self._told = training_of(self._optimizer, self._parameters.items(), self._options)
        return self._told

    def compiled(self, program: Any) -> None:
        """The network was compiled with ``training()``."""
        self.description.log()
        self._is_new = False
        self._is_stale = True
        self._write_loaded(program)

    def push(self, program: Any) -> None:
        """Tell the device what ``set`` changed. What is more than other rates is compiled."""
        if self._is_new:
            self._is_new = False
            self.description.log()
            before, self._told = self._told, training_of(self._optimizer, self._parameters.items(), self._options)
            optimizers.change(program, before, self._told)

    def before_run(self, program: Any) -> None:
        """Tell the device what it does not know yet."""
        if self._is_new:
            self.push(program)
        self._write_loaded(program)
        if self._keeps_scale:
            states = optimizers.States(program)
            self.scale_of_run = states.get(_SCALE, torch.tensor(self._scale)).clone()

    def after_run(self, program: Any) -> None:
        """A run has changed what the device knows."""
        self._is_stale = True
        if self.description.kind is ON_HOST:
            optimizers.step_on_host(program, self._optimizer, self._parameters)
            self._owner().copyWeightsToDevice()

    def before_attach(self, program: Any) -> None:
        """Its state may have been changed on the host since the device was left."""
        if isinstance(self._optimizer, optim.Optimizer) and program.executor.engine() is not None:
            self._optimizer._is_loaded = self._optimizer._has_state()

    def on_detach(self, program: Any) -> None:
        """Before the device is left: fetch what it knows."""
        self._read_stale(program)

    def on_attach(self, program: Any) -> None:
        """The device is there again: it gets what it does not know."""
        self.before_run(program)

    def close(self) -> None:
        """The model is destroyed: the optimizer keeps what it knows, for the next one."""
        if isinstance(self._optimizer, optim.Optimizer):
            self._optimizer._is_loaded = self._optimizer._has_state()

    # ---- what it has learned

    def fetch(self, optimizer: optim.Optimizer) -> None:
        """Let ``optimizer`` have what the device has learned, if it is the device's."""
        owner = self._owner()
        if owner is not None and optimizer is self._optimizer and owner.isCompiled():
            if owner.isAttachedToDevice() or optimizer._is_loaded or not self._is_stale:
                self._read_stale(owner._executable)

    def _read_stale(self, program: Any) -> None:
        """Bring the optimizer's state to the host, if that there is older."""
        optimizer = self._optimizer
        if not isinstance(optimizer, optim.Optimizer) or not program.executor.pointer:
            return
        if self._options.connection_type == enums.ConnectionType.Never:
            return
        if optimizer._is_loaded or not self._is_stale:
            logger.debug("Using cached optimiser state dict")
            return
        logger.debug("Writing optimiser state tensors from IPU to host.")
        optimizer._keep(self.read(program), {**self._attributes(), **(optimizer._loaded_param or {})})
        self._is_stale = False

    def read(self, program: Any) -> Dict[str, torch.Tensor]:
        """What the device has learned, by PopART's names."""
        states = optimizers.States(program)
        out: Dict[str, torch.Tensor] = {}
        grouped = {f"Step___{kept.name}": len(kept.tensor) for kept in program.graph.kept if kept.groups}
        for theirs, ours in self._state_names(states):
            tensor = states[ours].to(torch.float32, copy=True)
            if theirs in grouped:  # groups of replicas with values of their own count the same steps
                tensor = tensor.repeat(grouped[theirs])
            out[theirs] = tensor / self._scale if ours == _SCALE else tensor
        return out

    def write(self, program: Any, learned: Mapping[str, torch.Tensor]) -> None:
        """Let the device go on from what ``read`` gave. What is missing there stays as it is."""
        changed: Dict[str, torch.Tensor] = {}
        states, words = optimizers.States(program), {}
        for theirs, ours in self._state_names(states):
            if theirs in learned:
                words[ours] = theirs
                tensor = learned[theirs] * self._scale if ours == _SCALE else learned[theirs]
                changed[ours] = tensor.reshape(-1)[:1] if ours == _STEP else tensor
        states.give(program, changed, words)

    def _write_loaded(self, program: Any) -> None:
        """Let the device have the state that was loaded, if one was."""
        if not getattr(self._optimizer, "_is_loaded", False):
            return
        if self._options.connection_type == enums.ConnectionType.Never:
            return
        self.set(self._optimizer)  # attributes were loaded too
        self.push(program)
        self._owner().copyWeightsToHostIfNeeded()
        logger.debug("Writing optimiser state tensors from host to IPU memory")
        self.write(program, self._optimizer._ipu_state)
        self._optimizer._is_loaded = False
        self._is_stale = True

    def _state_names(self, arrays: Collection[str]) -> List[Tuple[str, str]]:
        """Names of PopART, and the library's."""
        kind = self.description.kind
        out = []
        for name in self._parameters:
            out += [(f"{theirs}___{name}", f"{name}.{ours}") for ours, theirs in kind.states.items()]
            if kind is not SGD:
                out.append((f"Step___{name}", _STEP))
        out += [("lossScaleUpdateFactor", _SCALE), ("lossScaleGoodSteps", _GOOD_STEPS)]
        return [(theirs, ours) for theirs, ours in out if ours in arrays]

    @property
    def _scale(self) -> float:
        """What the loss is scaled by at the beginning."""
        return self.description.graph["lossScaling"][0]

    def attribute_names(self) -> List[str]:
        """PopART's names of the optimizer's attributes."""
        return list(self._attributes())

    def _attributes(self) -> Dict[str, torch.Tensor]:
        """Attributes as tensors, by PopART's names."""
        out: Dict[str, float] = {"lossScaling_FLOAT": self._scale}
        for group, names in zip(self.description.groups, self.description.parameters):
            values = {name: float(value) for name, (value, _) in group.items()}
            if self.description.kind is SGD:
                values = _sgd_attributes(values, self._scale, has_variable_momentum(self._optimizer))
            for name in names:
                out.update({f"{key}___specific___{name}": value for key, value in values.items()})
        return {name: torch.tensor(value, dtype=torch.float32) for name, value in out.items()}


def _sgd_attributes(values: Mapping[str, float], scale: float, has_momentum: bool) -> Dict[str, float]:
    """As PopART folds them into each other."""
    rate, momentum, damped = values["learningRate"], values["momentum"], 1 - values["dampening"]
    if momentum == 0 and not has_momentum:
        return {"scaledLearningRate0": rate * damped / scale,
                "weightDecayScaleFactor0": 1 - rate * damped * values["weightDecay"]}
    return {"scaledLearningRate2": rate / scale, "scaledMomentum2": momentum,
            "dampeningScaleFactor2": damped, "scaledWeightDecay1": damped * values["weightDecay"] * scale}
