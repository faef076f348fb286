"""Optimizers in PopART's words: for the log, and for the states that programs save."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Tuple

import torch

from openipu import optimizers
from openipu.settings import LOSS_SCALE_PERIOD, OptimizerKind, Training

from .. import optim
from .._logging import logger

Attribute = Tuple[float, bool]  # value, and whether it is constant


@dataclass
class _Kind:
    """What PopART calls a kind of optimizer, its attributes and states."""
    name: str
    kind: OptimizerKind
    # Names of attributes: PyTorch's for a group, and PopART's, which the log has.
    attributes: Dict[str, str]
    # Values of attributes that count as constant where PyTorch's optimizer does not say; None: all do.
    constant: Dict[str, Optional[float]]
    # Suffixes of the library's states, and PopART's names for them.
    states: Dict[str, str] = field(default_factory=dict)


_ADAM_STATES = {"mean": "Accl1", "square": "Accl2", "max_square": "Accl3"}
_COMMON = {"lr": "learningRate", "weight_decay": "weightDecay"}
_BETAS = {"beta1": "beta1", "beta2": "beta2", "eps": "eps"}

SGD = _Kind("SGD", OptimizerKind.SGD,
             {**_COMMON, "momentum": "momentum", "dampening": "dampening", "velocity_scaling": "velocityScaling",
              "nesterov": "nesterov"},
             {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "velocity_scaling": 1.0, "nesterov": None},
             {"momentum": "Accl1"})
_ADAM = _Kind("ADAM", OptimizerKind.ADAM, {**_COMMON, **_BETAS},
              {"weight_decay": 0.0, "eps": 1e-8, "beta1": None, "beta2": None}, _ADAM_STATES)
_ADAMW = _Kind("ADAMW", OptimizerKind.ADAMW, {**_COMMON, **_BETAS},
               {"weight_decay": 0.01, "eps": 1e-8, "beta1": None, "beta2": None}, _ADAM_STATES)
_LAMB = _Kind("LAMB", OptimizerKind.LAMB, {**_COMMON, **_BETAS, "max_weight_norm": "maxWeightNorm"},
              {"weight_decay": 0.0, "eps": 1e-8, "beta1": None, "beta2": None, "max_weight_norm": 65500.0},
              {"mean": "Accl1", "square": "Accl2"})
_RMSPROP = _Kind("RMSPROP", OptimizerKind.RMSPROP,
                 {**_COMMON, "alpha": "alpha", "momentum": "momentum", "eps": "eps"},
                 {"weight_decay": 0.0, "momentum": 0.0, "eps": 1e-8, "alpha": None},
                 {"square": "Accl1", "momentum": "Accl2", "mean": "Accl3"})
_ADAMAX = _Kind("ADAMAX", OptimizerKind.ADAMAX, {**_COMMON, **_BETAS},
                {"weight_decay": 0.0, "eps": 1e-8, "beta1": None, "beta2": None}, {"mean": "Accl1", "largest": "Accl2"})
_ADAGRAD = _Kind("ADAGRAD", OptimizerKind.ADAGRAD, {**_COMMON, "lr_decay": "learningRateDecay", "eps": "eps"},
                 {"weight_decay": 0.0, "lr_decay": 0.0, "eps": 1e-10}, {"sum": "Accl1"})
_ADADELTA = _Kind("ADADELTA", OptimizerKind.ADADELTA, {**_COMMON, "rho": "alpha", "eps": "eps"},
                  {"weight_decay": 0.0, "eps": 1e-6, "rho": None}, {"square": "Accl1", "delta": "Accl2"})
ON_HOST = _Kind("HOST", OptimizerKind.SGD, {"lr": "learningRate"}, {}, {})

_KINDS = {None: ON_HOST, **{kind.kind: kind for kind in (SGD, _ADAM, _ADAMW, _LAMB, _RMSPROP, _ADAMAX, _ADAGRAD,
                                                         _ADADELTA)}}


# ---- what it is, in numbers ----


@dataclass
class Description:
    """An optimizer in numbers: two that are equal are the same to the device."""
    kind: _Kind
    graph: Dict[str, Attribute]
    groups: List[Dict[str, Attribute]]
    parameters: List[List[str]]
    more: Dict[str, Any]  # of the whole optimizer, constant

    def text(self, attributes: Dict[str, Attribute]) -> str:
        """Kind and attributes as the log has them."""
        parts = [f"{name}={float(value):g}{' (const)' if constant else ''}"
                 for name, (value, constant) in sorted(attributes.items())]
        parts += [f"{name}={_word(value)}" for name, value in self.more.items()]
        return ", ".join([self.kind.name, *parts])

    def log(self) -> None:
        """Say what the device is told."""
        logger.debug("Updating graph optimizer with %s", self.text(self.graph))
        for i, (group, names) in enumerate(zip(self.groups, self.parameters)):
            logger.debug("Updating group %d optimizer with %s for (tensors affected %s)", i, self.text(group), names)


def _word(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return str(value).split(".")[1]
    return int(value) if isinstance(value, bool) else f"{value:g}"


def _number(value: Any, name: str) -> float:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    assert isinstance(value, numbers.Number), f"Expected a number for {name} but got {value!r} instead"
    return value  # type: ignore[return-value]


def _value(attributes: Dict[str, Any], name: str) -> Any:
    """An attribute of a group, by our name for it."""
    if name in ("beta1", "beta2"):
        betas = attributes["betas"]
        assert isinstance(betas, (tuple, list)) and len(betas) == 2, (
            f"Expected a pair for betas but got {betas!r} instead")
        return betas[0 if name == "beta1" else 1]
    if name == "velocity_scaling":
        return attributes.get(name, 1.0)
    assert name in attributes, f"Mandatory attribute {name} not found in optimizer group"
    return attributes[name]


def _describe_group(kind: _Kind, attributes: Dict[str, Any], variable: Optional[optim.VariableAttributes],
                    scaling: Attribute, combined: bool) -> Dict[str, Attribute]:
    out: Dict[str, Attribute] = {}
    for name, backend in kind.attributes.items():
        if name == "velocity_scaling" and not combined:
            out[backend] = scaling
            continue
        value = _number(_value(attributes, name), name)
        if variable is not None:
            constant = variable.isConstant("betas" if name in ("beta1", "beta2") else name)
        else:
            constant = name in kind.constant and kind.constant[name] in (None, value)
        out[backend] = (value, constant)
    return out


def describe(optimizer: torch.optim.Optimizer, name_of: Callable[[Any], Optional[str]],
             finds_scale: bool = False) -> Description:
    """An optimizer in numbers. ``name_of``: of a parameter; None: it is none of the model's."""
    kind = _KINDS[optimizers.kind_of(optimizer)]
    if kind is _RMSPROP:
        _check_centered(optimizer)
    variable = getattr(optimizer, "variable_attrs", None)
    scale = _number(getattr(optimizer, "loss_scaling", 1.0), "loss_scaling")
    is_constant = variable.isConstant("loss_scaling") if variable is not None else scale == 1.0
    scaling = (scale, is_constant and not finds_scale)
    combined = getattr(optimizer, "use_combined_accum", False)

    def of(attributes: Dict[str, Any]) -> Dict[str, Attribute]:
        return _describe_group(kind, attributes, variable, scaling, combined)

    graph = {_default_name(n): v for n, v in of(optimizer.defaults).items()} if kind is not ON_HOST else {}
    graph["lossScaling"] = scaling
    parameters = [[n for n in map(name_of, g["params"]) if n is not None] for g in optimizer.param_groups]
    return Description(kind, graph, [of(g) for g in optimizer.param_groups], parameters, _rest(optimizer, kind))


def _default_name(name: str) -> str:
    return name if name == "nesterov" else "default" + name[0].upper() + name[1:]


def _rest(optimizer: torch.optim.Optimizer, kind: _Kind) -> Dict[str, Any]:
    first = "velocity_accum_type" if kind is SGD else "first_order_momentum_accum_type"
    more = {"accumType": getattr(optimizer, "accum_type", torch.float32),
            "firstOrderMomentumAccumType": getattr(optimizer, first, torch.float32),
            "secondOrderMomentumAccumType": getattr(optimizer, "second_order_momentum_accum_type", torch.float32),
            "useTfVariant": getattr(optimizer, "use_tf_variant", False), "maxGradNorm": _max_norm(optimizer)}
    for name in ("centered", "amsgrad", "maximize"):
        if any(g.get(name, False) for g in optimizer.param_groups):
            more[name] = True
    if not getattr(optimizer, "bias_correction", True):
        more["biasCorrection"] = False
    return more


def _max_norm(optimizer: torch.optim.Optimizer) -> float:
    norm = getattr(optimizer, "max_grad_norm", float("inf"))
    if norm != norm:
        raise ValueError("max_grad_norm must not be NaN")
    return norm


def _check_centered(optimizer: torch.optim.Optimizer) -> None:
    first = optimizer.param_groups[0]["centered"]
    for i, group in enumerate(optimizer.param_groups):
        assert group["centered"] == first, (
            "All parameter groups must have the same value for the 'centered' attribute (Group 0: "
            f"{first} / Group {i}: {group['centered']})")


# ---- as the library takes it ----


def has_variable_momentum(optimizer: torch.optim.Optimizer) -> bool:
    """Whether there may be a momentum later, so that its state is kept from the beginning."""
    variable = getattr(optimizer, "variable_attrs", None)
    return variable is not None and not variable.isConstant("momentum")


def training_of(optimizer: torch.optim.Optimizer, named_parameters: Iterable[Tuple[str, torch.Tensor]],
                options: Any) -> Training:
    """What the library is told of an optimizer, for a network with these parameters."""
    norm = _max_norm(optimizer)
    return optimizers.training_of(optimizer, named_parameters, has_variable_momentum(optimizer),
                                  max_gradient_norm=0.0 if norm == float("inf") else norm,
                                  loss_scale=float(getattr(optimizer, "loss_scaling", 1.0)),
                                  loss_scale_period=_loss_scale_period(options))


def finds_scale(options: Any) -> bool:
    return bool(options._Popart.options.get("automaticLossScalingSettings.enabled", False))


def _loss_scale_period(options: Any) -> int:
    if not finds_scale(options):
        return 0
    return int(options._Popart.options.get("automaticLossScalingSettings.updatePeriod", LOSS_SCALE_PERIOD))


# ---- unknown attributes ----


class AttributeTracker:
    """Warns of attributes that came after the first look, once of each: they reach no device."""

    def __init__(self, relaxed: bool) -> None:
        self._say = logger.debug if relaxed else logger.warning
        self._known: Optional[Tuple[set, set]] = None
        self._said: set = set()

    def look(self, optimizer: torch.optim.Optimizer, kind: str) -> None:
        """At the optimizer's attributes and at those of its groups."""
        own = {k for k, v in vars(optimizer).items() if not k.startswith("_") and not callable(v)}
        groups = [set(g) - {"params"} for g in optimizer.param_groups]
        if self._known is None:
            self._known = own | {"defaults", "state"}, set(optimizer.defaults).union(*groups)
            return
        known_own, known_group = self._known
        self._tell(set(optimizer.defaults) - known_group, "default group variable", kind)
        self._tell(own - known_own, "optimizer attribute", kind)
        for i, group in enumerate(groups):
            self._tell(group - known_group, f"group {i} attribute", kind)

    def _tell(self, names: Collection[str], what: str, kind: str) -> None:
        text = f"Ignoring unexpected {what} in {kind} optimizer: {sorted(names)}"
        if names and text not in self._said:
            self._said.add(text)
            self._say(text)
