"""Optimizers: PyTorch's, with what a device needs to know beside.

They take the arguments of PyTorch's optimizers of the same names, and can be used on the CPU like these. PyTorch's own
can be given to a training model as well.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import torch

from openipu.optimizers import Lamb, adam_update, evaluated

from ._logging import logger

__all__ = ["Adam", "AdamW", "LAMB", "Optimizer", "RMSprop", "SGD", "VariableAttributes"]

_ACCUMULATORS = ("accum_type", "first_order_momentum_accum_type", "second_order_momentum_accum_type")
# What newer versions of PyTorch have and older ones do not; without effect here.
_NEWER = ("maximize", "foreach", "capturable", "differentiable", "fused")


class VariableAttributes:
    """Which attributes of an optimizer may change once a model is compiled: ``optimizer.variable_attrs``.

    Those that were given to the constructor are variable, the others constant. Changing a constant makes the model
    compile again.

    >>> optimizer = poptorch.optim.SGD(model.parameters(), lr=0.01)
    >>> optimizer.variable_attrs.isConstant("lr")
    False
    """

    def __init__(self, variable_attributes: Sequence[str], allowed_attributes: Sequence[str]) -> None:
        self._variable_attributes = list(variable_attributes)
        self._allowed_attributes = list(allowed_attributes)

    def isConstant(self, attr: str) -> bool:
        """Whether the attribute is constant."""
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Make the attribute constant."""
        self._check(attr)
        self._variable_attributes = [a for a in self._variable_attributes if a != attr]

    def markAsVariable(self, attr: str) -> None:
        """Make the attribute variable."""
        self._check(attr)
        self._variable_attributes.append(attr)

    def _check(self, attr: str) -> None:
        assert attr in self._allowed_attributes, (
            f"Unknown attribute {attr}, allowed values: {self._allowed_attributes}")


class Optimizer:
    """What all optimizers of this module have, beside PyTorch's.

    ``state_dict()`` has two more entries, both dictionaries of tensors by their names, or None before a model is
    compiled: ``"ipu_state"``, what the optimizer has learned on the device, and ``"ipu_param"``, its attributes as the
    device has them. A state that is loaded reaches the device before the next run; attributes follow ``param_groups``.
    """

    # Attributes that PyTorch's class does not have, and their values unless they are given.
    _own: Mapping[str, Any] = {}
    # Those of all attributes that parameter groups have, as far as the device needs them.
    _group_vars: Tuple[str, ...] = ()

    _link: Any = None  # to a compiled model: a weak reference to its Trainer
    _ipu_state: Optional[Dict[str, torch.Tensor]] = None
    _ipu_param: Optional[Dict[str, torch.Tensor]] = None
    _loaded_param: Optional[Dict[str, torch.Tensor]] = None  # as load_state_dict had it
    _is_loaded = False  # a state was loaded that the device does not have yet

    def _set_own(self, given: Mapping[str, Any]) -> None:
        """Attributes of one's own: those given, else the defaults."""
        for name, otherwise in self._own.items():
            value = given.get(name, otherwise)
            if name.endswith("accum_type"):
                assert value in (torch.float16, torch.float32), (
                    f"Accumulation types must be either torch.float32 or torch.float16, but {name} is {value}")
            setattr(self, name, value)
        variable = [name for name in given if name != "params"]
        self.variable_attrs = VariableAttributes(variable, [*self.defaults, "loss_scaling"])

    def state_dict(self) -> Dict[str, Any]:
        """What the optimizer has learned, fetched from the device if need be, with its attributes."""
        link = self._link() if self._link is not None else None
        if link is not None:
            link.fetch(self)
        return {"ipu_state": _copied(self._ipu_state), "ipu_param": _copied(self._ipu_param),
                **torch.optim.Optimizer.state_dict(self)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Go on from what ``state_dict()`` gave."""
        if not state_dict:
            raise RuntimeError("Cannot load optimizer state dictionary because it is empty.")
        if "ipu_state" not in state_dict or "ipu_param" not in state_dict:
            raise RuntimeError("Only IPU optimizer states can be loaded onto the IPU. This one has no \"ipu_state\" "
                               "and \"ipu_param\".")
        torch.optim.Optimizer.load_state_dict(self, state_dict)
        self._keep(state_dict["ipu_state"], state_dict["ipu_param"])
        self._loaded_param = self._ipu_param
        self._is_loaded = self._has_state()

    def _keep(self, state: Optional[Dict[str, torch.Tensor]], param: Optional[Dict[str, torch.Tensor]]) -> None:
        self._ipu_state, self._ipu_param = _copied(state), _copied(param)

    def _has_state(self) -> bool:
        return self._ipu_state is not None and self._ipu_param is not None

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(torch.optim.Optimizer.__getstate__(self))
        state.update({name: self.__dict__[name] for name in (*self._own, "variable_attrs") if name in self.__dict__})
        state.update(_ipu_state=self._ipu_state, _ipu_param=self._ipu_param, _is_loaded=self._has_state())
        return state


def _copied(tensors: Optional[Dict[str, torch.Tensor]]) -> Optional[Dict[str, torch.Tensor]]:
    return None if tensors is None else dict(tensors)


def _with_own_arguments(cls: type) -> type:
    """Give a class a constructor with the arguments of PyTorch's class and its own."""
    parent = cls.__bases__[1]
    theirs = [p.replace(default=None) if p.default is not p.empty else p
              for p in list(inspect.signature(parent.__init__).parameters.values())[1:]]
    names = {p.name for p in theirs}
    only_newer = [name for name in _NEWER if name not in names]
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
            for name in (*only_newer, *cls._own)]
    signature = inspect.Signature([*theirs, *more])

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs).arguments
        given = {name: value for name, value in bound.items() if value is not None}
        for name in only_newer:
            if given.pop(name, False):
                raise TypeError(f"{name}: PyTorch {torch.__version__} has no such argument of {parent.__name__}")
        parent.__init__(self, **{k: v for k, v in given.items() if k not in cls._own})
        self._set_own(given)

    __init__.__doc__ = f"Arguments are those of torch.optim.{parent.__name__}, and: {', '.join(cls._own)}."
    __init__.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                    *signature.parameters.values()])
    cls.__init__ = __init__  # type: ignore[misc]
    return cls


@_with_own_arguments
class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent: ``torch.optim.SGD``, and:

    :param loss_scaling: the loss is multiplied by this before it is differentiated, gradients are divided by it.
    :param use_combined_accum: gradients are gathered in the momentum itself: a matter of memory.
    :param velocity_scaling: of the momentum, with ``use_combined_accum``: a matter of range.
    :param accum_type: type of gathered gradients, float32 or float16.
    :param velocity_accum_type: type of the momentum, float32 or float16.
    :param max_grad_norm: all gradients together are scaled such that their norm is at most this.
    """

    _own = {"loss_scaling": 1.0, "velocity_scaling": None, "use_combined_accum": False, "accum_type": torch.float32,
            "velocity_accum_type": torch.float32, "max_grad_norm": float("inf")}
    _group_vars = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "velocity_scaling")

    def _set_own(self, given: Mapping[str, Any]) -> None:
        super()._set_own(given)
        scaling = self.__dict__.pop("velocity_scaling")
        if self.use_combined_accum:
            # It can differ between groups, so it is kept with their attributes.
            self.defaults["velocity_scaling"] = 1.0 if scaling is None else scaling
            for group in self.param_groups:
                group.setdefault("velocity_scaling", self.defaults["velocity_scaling"])
            self.variable_attrs._allowed_attributes.append("velocity_scaling")
        elif scaling is not None:
            logger.warning("velocity_scaling value ignored when using the separate variant "
                           "(use_combined_accum=False). Leave it out, or set use_combined_accum=True.")


@_with_own_arguments
class Adam(Optimizer, torch.optim.Adam):
    """Adam: ``torch.optim.Adam``, and:

    :param loss_scaling: the loss is multiplied by this before it is differentiated, gradients are divided by it.
    :param accum_type: type of gathered gradients, float32 or float16.
    :param first_order_momentum_accum_type: type of their mean, float32 or float16.
    :param second_order_momentum_accum_type: type of the mean of their squares, float32 or float16.
    :param max_grad_norm: all gradients together are scaled such that their norm is at most this.
    """

    _own = {"loss_scaling": 1.0, **dict.fromkeys(_ACCUMULATORS, torch.float32), "max_grad_norm": float("inf")}
    _group_vars = ("lr", "betas", "eps", "weight_decay", "amsgrad")


@_with_own_arguments
class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with weight decay of its own: ``torch.optim.AdamW``, and:

    :param loss_scaling: the loss is multiplied by this before it is differentiated, gradients are divided by it.
    :param bias_correction: whether the means are corrected for their beginning with zeros.
    :param accum_type: type of gathered gradients, float32 or float16.
    :param first_order_momentum_accum_type: type of their mean, float32 or float16.
    :param second_order_momentum_accum_type: type of the mean of their squares, float32 or float16.
    :param max_grad_norm: all gradients together are scaled such that their norm is at most this.
    """

    _own = {"loss_scaling": 1.0, "bias_correction": True, **dict.fromkeys(_ACCUMULATORS, torch.float32),
            "max_grad_norm": float("inf")}
    _group_vars = ("lr", "betas", "weight_decay", "eps", "amsgrad")

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], float]] = None) -> Optional[float]:
        """One step on the CPU."""
        if self.bias_correction:
            return torch.optim.AdamW.step(self, closure)
        loss = evaluated(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    update = adam_update(self.state[parameter], parameter.grad, group, False)
                    parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])
        return loss


@_with_own_arguments
class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop: ``torch.optim.RMSprop``, and:

    :param loss_scaling: the loss is multiplied by this before it is differentiated, gradients are divided by it.
    :param accum_type: type of gathered gradients, float32 or float16.
    :param first_order_momentum_accum_type: type of their mean, float32 or float16.
    :param second_order_momentum_accum_type: type of the mean of their squares, float32 or float16.
    :param use_tf_variant: TensorFlow's: the mean of squares begins as ones, ``eps`` is inside of the root, and the
        learning rate is in the momentum.
    """

    _own = {"loss_scaling": 1.0, **dict.fromkeys(_ACCUMULATORS, torch.float32), "use_tf_variant": False}
    _group_vars = ("lr", "momentum", "weight_decay", "alpha", "eps", "centered")


_OF_LAMB = ("lr", "betas", "eps", "weight_decay", "max_weight_norm", "bias_correction")


class LAMB(Optimizer, Lamb):
    """LAMB (You et al., 2019): Adam, with a step for each parameter in proportion to its norm.

    :param params: parameters, or groups of them.
    :param lr: learning rate.
    :param betas: how slowly the means of gradients and of their squares change.
    :param eps: added to the denominator.
    :param weight_decay: acts on the parameter, before the norm.
    :param bias_correction: whether the means are corrected for their beginning with zeros.
    :param loss_scaling: the loss is multiplied by this before it is differentiated, gradients are divided by it.
    :param max_weight_norm: norms of parameters count up to this.
    :param accum_type: type of gathered gradients, float32 or float16.
    :param first_order_momentum_accum_type: type of their mean, float32 or float16.
    :param second_order_momentum_accum_type: type of the mean of their squares, float32 or float16.
    """

    _own = {"bias_correction": True, "loss_scaling": 1.0, "max_weight_norm": 65500.0,
            **dict.fromkeys(_ACCUMULATORS, torch.float32)}
    _group_vars = ("lr", "weight_decay", "betas", "eps", "max_weight_norm")

    def __init__(self, params: Any, lr: Optional[float] = None, betas: Optional[Tuple[float, float]] = None,
                 eps: Optional[float] = None, weight_decay: Optional[float] = None,
                 bias_correction: Optional[bool] = None, loss_scaling: Optional[float] = None,
                 max_weight_norm: Optional[float] = None, accum_type: Optional[torch.dtype] = None,
                 first_order_momentum_accum_type: Optional[torch.dtype] = None,
                 second_order_momentum_accum_type: Optional[torch.dtype] = None) -> None:
        given = {name: value for name, value in dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, bias_correction=bias_correction,
            loss_scaling=loss_scaling, max_weight_norm=max_weight_norm, accum_type=accum_type,
            first_order_momentum_accum_type=first_order_momentum_accum_type,
            second_order_momentum_accum_type=second_order_momentum_accum_type).items() if value is not None}
        Lamb.__init__(self, params, **{name: given[name] for name in _OF_LAMB if name in given})
        self._set_own(given)
