"""What executors and trainers are told: how to run, and how to train.

Plain data with the fields of the C structures ``ipu_executor_options``, ``ipu_nn_optimizer``, ``ipu_nn_group``,
``ipu_nn_training``, ``ipu_loader_options``, ``ipu_schedule`` and ``ipu_trainer_options`` (ipu/executor.h, ipu/nn.h,
ipu/loader.h, ipu/schedule.h and ipu/trainer.h say what each means). ``openipu.executor`` and ``openipu.trainer`` make C
structures of them, and enumerations are held against C's when the library is loaded.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence

from .abi import expect


#: ``IPU_NN_LOSS_SCALE_PERIOD``: what is usual for ``Training.loss_scale_period``.
LOSS_SCALE_PERIOD = 2000


class OutputMode(enum.IntEnum):
    """``ipu_output_mode``"""
    DEFAULT = 0
    ALL = 1
    EVERY_N = 2
    FINAL = 3
    SUM = 4
    MEAN = 5


class Reduction(enum.IntEnum):
    """``ipu_reduction``"""
    MEAN = 0
    SUM = 1


class Attach(enum.IntEnum):
    """``ipu_attach_when``"""
    ALWAYS = 0
    ON_DEMAND = 1
    NEVER = 2


class Schedule(enum.IntEnum):
    """``ipu_pipeline_schedule``"""
    GROUPED = 0
    INTERLEAVED = 1
    SEQUENTIAL = 2


class Precision(enum.IntEnum):
    """``ipu_precision``"""
    FLOAT = 0
    MIXED = 1
    HALF = 2


class OptimizerKind(enum.IntEnum):
    """``ipu_nn_optimizer_kind``"""
    SGD = 0
    ADAM = 1
    ADAMW = 2
    ADAMAX = 3
    RMSPROP = 4
    ADAGRAD = 5
    LAMB = 6
    ADADELTA = 7


class Decay(enum.IntEnum):
    """``ipu_decay``"""
    USUAL = 0
    L2 = 1
    DECOUPLED = 2


class Part(enum.IntEnum):
    """``ipu_dataset_part``"""
    TRAIN = 0
    TEST = 1


class ScheduleKind(enum.IntEnum):
    """``ipu_schedule_kind``"""
    CONSTANT = 0
    STEP = 1
    EXPONENTIAL = 2
    LINEAR = 3
    COSINE = 4
    MILESTONES = 5


class Begin(enum.IntEnum):
    """``ipu_trainer_begin``"""
    NEW = 0
    RESUME = 1
    RESTART = 2


expect("IPU_OUTPUT_", OutputMode)
expect("IPU_REDUCTION_", Reduction)
expect("IPU_ATTACH_", Attach)
expect("IPU_PIPELINE_", Schedule)
expect("IPU_PRECISION_", Precision)
expect("IPU_NN_", OptimizerKind)
expect("IPU_NN_", {"LOSS_SCALE_PERIOD": LOSS_SCALE_PERIOD})
expect("IPU_DECAY_", Decay)
expect("IPU_", Part)
expect("IPU_SCHEDULE_", ScheduleKind)
expect("IPU_TRAINER_", Begin)


@dataclass
class ExecutorOptions:
    """``ipu_executor_options``; field names and defaults are the C ones.

    ``engine`` holds keys and values for ``ipu_options_set``. ``stage_ipus`` may be empty: one IPU for each stage.
    ``comm`` is an ``openipu.comm.Comm``.
    """
    device_iterations: int = 1
    replicas: int = 1
    input_group_size: int = 1
    orthogonal_inputs: bool = False
    n_own_inputs: int = 0
    gradient_accumulation: int = 1
    reduction: Reduction = Reduction.MEAN
    running_mean: bool = False
    output_mode: OutputMode = OutputMode.DEFAULT
    output_period: int = 0
    seed: int = 0
    target: Optional[str] = None
    device_id: int = 0
    device_alone: bool = False
    attach: Attach = Attach.ALWAYS
    cache_folder: Optional[str] = None
    engine: Dict[str, str] = field(default_factory=dict)

    stages: int = 0
    stage_ipus: Sequence[int] = ()
    schedule: Schedule = Schedule.GROUPED
    recompute: bool = False
    activations_off_chip: bool = False

    no_fold: bool = False
    shard_optimizer: bool = False
    optimizer_off_chip: bool = False
    comm: Optional[object] = None

    precision: Precision = Precision.FLOAT
    stochastic_rounding: bool = False
    half_partials: bool = False
    round_ipus: bool = False
    check_floats: bool = False
    most_executables: int = 0


@dataclass
class Optimizer:
    """``ipu_nn_optimizer``, with the C rules: 0 is the default where there is one, a negative value is exactly 0."""
    kind: OptimizerKind = OptimizerKind.SGD
    rate: float = 0.01
    weight_decay: float = 0.0
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    centered: bool = False
    amsgrad: bool = False
    beta1: float = 0.0
    beta2: float = 0.0
    epsilon: float = 0.0
    alpha: float = 0.0
    rate_decay: float = 0.0
    max_weight_norm: float = 0.0
    no_bias_correction: bool = False
    tensorflow: bool = False
    maximize: bool = False
    decay: Decay = Decay.USUAL


@dataclass
class Group:
    """``ipu_nn_group``: parameters by their names (exact ones: no patterns) with an optimizer of their own, or none."""
    parameters: List[str]
    optimizer: Optimizer = field(default_factory=Optimizer)
    frozen: bool = False


@dataclass
class Training:
    """``ipu_nn_training``: ``groups[i]`` is group i + 1 of the C library; group 0 has what no group names."""
    optimizer: Optimizer = field(default_factory=Optimizer)
    groups: List[Group] = field(default_factory=list)
    max_gradient_norm: float = 0.0
    max_gradient: float = 0.0
    loss_scale: float = 0.0
    loss_scale_period: int = 0


@dataclass
class LoaderOptions:
    """``ipu_loader_options``"""
    batch_size: int = 1
    shuffle: bool = False
    seed: int = 0
    keep_last: bool = False
    n_workers: int = 0
    prefetch: int = 0


@dataclass
class RateSchedule:
    """``ipu_schedule``; of a trainer, 0 is the optimizer's ``rate``, and all of its runs are ``n_steps``."""
    kind: ScheduleKind = ScheduleKind.CONSTANT
    rate: float = 0.0
    last: float = 0.0
    gamma: float = 0.0
    period: int = 0
    n_steps: int = 0
    warmup: int = 0
    milestones: Sequence[float] = ()


@dataclass
class TrainerOptions:
    """``ipu_trainer_options`` without its module, data and events.

    ``rate(run, n_runs)`` is the rate of a run, instead of the schedule. ``metric(outputs, fields, n)`` is a sum over the
    first ``n`` samples, told as accuracy: outputs by their names and the fields of the batch are numpy arrays over memory
    that is lent for the call. ``settings`` is what JSON can hold. What ``rate`` or ``metric`` raises ends the training,
    and ``run`` raises it.
    """
    input: Sequence[int] = ()
    executor: ExecutorOptions = field(default_factory=ExecutorOptions)
    training: Training = field(default_factory=Training)
    loader: LoaderOptions = field(default_factory=LoaderOptions)
    n_epochs: int = 1
    patience: int = 0
    schedule: RateSchedule = field(default_factory=RateSchedule)
    rate: Optional[Callable[[int, int], float]] = None
    metric: Optional[Callable[[Dict[str, Any], List[Any], int], float]] = None
    checkpoint_folder: Optional[str] = None
    checkpoints_kept: int = 0
    checkpoint_every: int = 0
    begin: Begin = Begin.NEW
    model: Optional[str] = None
    settings: Optional[Dict[str, object]] = None
    may_differ: Sequence[str] = ()
    log_folder: Optional[str] = None
    log_every: int = 0
    log_weights: bool = False
    keep_diverged: bool = False
