"""Optimizers of torch as the library takes them: ``settings.Training``, and what becomes of them on the device.

Those that the device does not have make their steps on the host, from gradients that the device computes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

import torch

from .arrays import array_over, tensor_over
from .error import UsageError
from .program import Program
from .settings import Decay, Group, Optimizer, OptimizerKind, Training

NO_MOMENTUM = 1e-30  # adds nothing to a gradient in float32, so that the state of the momentum is the gradient


def evaluated(closure: Optional[Callable[[], float]]) -> Optional[float]:
    """What the closure of a step gives."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def adam_update(state: Dict[str, Any], gradient: torch.Tensor, group: Mapping[str, Any],
                bias_correction: bool) -> torch.Tensor:
    """The mean of gradients by the root of that of their squares, both of which go on in ``state``."""
    if not state:
        state.update(step=0, exp_avg=torch.zeros_like(gradient), exp_avg_sq=torch.zeros_like(gradient))
    state["step"] += 1
    beta1, beta2 = group["betas"]
    mean = state["exp_avg"].lerp_(gradient, 1 - beta1)
    square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    correct1, correct2 = 1.0, 1.0
    if bias_correction:
        correct1, correct2 = 1 - beta1**state["step"], 1 - beta2**state["step"]
    return (mean / correct1) / (square.sqrt() / math.sqrt(correct2) + group["eps"])


class Lamb(torch.optim.Optimizer):
    """LAMB (You et al., 2019), which torch does not have: Adam, with a step for each parameter in proportion to its norm,
    which counts up to ``max_weight_norm``."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: Tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, max_weight_norm: float = 65500.0, bias_correction: bool = True) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
                                  "max_weight_norm": max_weight_norm})
        self.bias_correction = bias_correction

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], float]] = None) -> Optional[float]:
        """One step on the CPU."""
        loss = evaluated(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_one(parameter, group)
        return loss

    def _step_one(self, parameter: torch.Tensor, group: Mapping[str, Any]) -> None:
        update = adam_update(self.state[parameter], parameter.grad, group, self.bias_correction)
        update.add_(parameter, alpha=group["weight_decay"])
        size, of_update = parameter.norm().clamp(max=group["max_weight_norm"]), update.norm()
        trust = 1.0 if size == 0 or of_update == 0 else float(size / of_update)
        parameter.add_(update, alpha=-group["lr"] * trust)


#: In the order in which they are looked for: torch's AdamW may be an Adam.
KINDS: List[Tuple[type, OptimizerKind]] = [
    (torch.optim.SGD, OptimizerKind.SGD), (torch.optim.AdamW, OptimizerKind.ADAMW),
    (torch.optim.Adam, OptimizerKind.ADAM), (torch.optim.RMSprop, OptimizerKind.RMSPROP), (Lamb, OptimizerKind.LAMB),
    (torch.optim.Adamax, OptimizerKind.ADAMAX), (torch.optim.Adagrad, OptimizerKind.ADAGRAD),
    (torch.optim.Adadelta, OptimizerKind.ADADELTA),
]


def kind_of(optimizer: Any) -> Optional[OptimizerKind]:
    """The library's kind of an optimizer; None: it makes its steps on the host."""
    assert isinstance(optimizer, torch.optim.Optimizer), (
        f"Unsupported optimizer type: expected a torch.optim.Optimizer, found {type(optimizer).__name__}. Optimizers "
        f"of the device are {', '.join(kind.name for _, kind in KINDS)}")
    for cls, kind in KINDS:
        if isinstance(optimizer, cls) and not _only_on_host(optimizer, kind):
            return kind
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UsageError("Unsupported optimizer type: torch.optim.LBFGS evaluates the model several times in one step.")
    return None


def _only_on_host(optimizer: torch.optim.Optimizer, kind: OptimizerKind) -> bool:
    """Whether it begins with a state that the device's does not begin with."""
    if kind != OptimizerKind.ADAGRAD:
        return False
    return any(g.get("initial_accumulator_value", 0) != 0 for g in optimizer.param_groups)


def _exactly(value: float) -> float:
    """Zero is the library's default; a negative number is zero."""
    return value if value != 0 else -1.0


def settings_of(optimizer: torch.optim.Optimizer, group: Dict[str, Any], keeps_momentum: bool = False) -> Optimizer:
    """What the library is told of a group of parameters. ``keeps_momentum``: there may be a momentum later, so that its
    state is kept from the beginning."""
    kind = kind_of(optimizer)
    if kind is None:
        return Optimizer(OptimizerKind.SGD, rate=0.0, momentum=NO_MOMENTUM)
    out = Optimizer(kind, rate=float(group["lr"]), weight_decay=float(group["weight_decay"]))
    if kind in (OptimizerKind.SGD, OptimizerKind.RMSPROP):
        out.momentum = float(group["momentum"])
    if kind == OptimizerKind.SGD:
        if out.momentum == 0 and keeps_momentum:
            out.momentum = NO_MOMENTUM
        out.dampening, out.nesterov = float(group["dampening"]), bool(group["nesterov"])
    if kind == OptimizerKind.RMSPROP:
        out.alpha, out.centered = _exactly(group["alpha"]), bool(group["centered"])
        out.tensorflow = bool(getattr(optimizer, "use_tf_variant", False))
    if kind == OptimizerKind.ADADELTA:
        out.alpha = _exactly(group["rho"])
    if group.get("decoupled_weight_decay", False):  # of Adam, since torch 2.6
        out.decay = Decay.DECOUPLED
    if "betas" in group:
        out.beta1, out.beta2 = _exactly(group["betas"][0]), _exactly(group["betas"][1])
    if "eps" in group:
        out.epsilon = _exactly(group["eps"])
    if kind == OptimizerKind.LAMB:
        out.max_weight_norm = float(group["max_weight_norm"])
    if kind == OptimizerKind.ADAGRAD:
        out.rate_decay = float(group["lr_decay"])
    out.no_bias_correction = not getattr(optimizer, "bias_correction", True)
    out.amsgrad, out.maximize = bool(group.get("amsgrad", False)), bool(group.get("maximize", False))
    return out


def training_of(optimizer: torch.optim.Optimizer, named_parameters: Iterable[Tuple[str, torch.Tensor]],
                keeps_momentum: bool = False, **of_all: Any) -> Training:
    """What the library is told of an optimizer, for a network with these parameters; ``of_all``: members of Training.

    Group i of the library is parameter group i, as long as each has a parameter of the network.
    """
    names = {id(p): name for name, p in named_parameters}
    members = [[names.pop(id(p)) for p in g["params"] if id(p) in names] for g in optimizer.param_groups]
    parts = [(settings_of(optimizer, g, keeps_momentum), m) for g, m in zip(optimizer.param_groups, members) if m]
    first = parts[0][0] if parts else settings_of(optimizer, optimizer.param_groups[0], keeps_momentum)
    groups = [Group(m, o) for o, m in parts[1:]]
    if names:
        groups.append(Group(list(names.values()), frozen=True))
    return Training(first, groups, **of_all)


# ---- on the device ----


def _rates(training: Training) -> List[float]:
    """By the numbers of groups."""
    return [training.optimizer.rate, *(group.optimizer.rate for group in training.groups)]


def _without_rates(training: Training) -> Training:
    """What has to be compiled again where it differs."""
    groups = [replace(group, optimizer=replace(group.optimizer, rate=0.0)) for group in training.groups]
    return replace(training, optimizer=replace(training.optimizer, rate=0.0), groups=groups)


def change(program: Program, before: Optional[Training], now: Training) -> None:
    """Train otherwise than before. What is more than other rates is compiled."""
    if before is None or _without_rates(before) != _without_rates(now):
        program.set_training(now)
        return
    for i, (old, new) in enumerate(zip(_rates(before), _rates(now))):
        if old != new:
            program.executor.set_rate(i, new)


class States(Dict[str, torch.Tensor]):
    """A copy of all that runs of a program change, as tensors by the library's names."""

    def __init__(self, program: Program) -> None:
        state = program.executor.state()
        super().__init__({name: tensor_over(array, state) for name, array in state})

    def give(self, program: Program, changed: Mapping[str, torch.Tensor], words: Mapping[str, str]) -> None:
        """Let the device go on from here, but with other values of some, of as many elements. UsageError: one has another
        number of them; ``words``: what it is called then."""
        kept: List[torch.Tensor] = []
        arrays = {}
        for name, tensor in changed.items():
            there = self[name]
            if tensor.numel() != there.numel():
                raise UsageError(f"The optimizer's state {words.get(name, name)} has the shape {tuple(tensor.shape)}, but "
                                 f"the model's is {tuple(there.shape)}: load a state of the same model and optimizer.")
            kept.append(tensor.reshape(there.shape).to(there.dtype).contiguous())
            arrays[name] = array_over(kept[-1])
        program.executor.update_state(arrays)


def step_on_host(program: Program, optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor]) -> None:
    """One step with the gradients that the device's optimizer without a kind has computed."""
    states = States(program)
    for name, parameter in parameters.items():
        gradient = states.get(f"{name}.momentum")
        if gradient is not None:
            parameter.grad = gradient.to(parameter.dtype, copy=True)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
