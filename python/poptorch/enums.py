"""The values that options, blocks and ops take."""

from __future__ import annotations

import enum


class DataLoaderMode(enum.IntEnum):
    """Where a :class:`poptorch.DataLoader` loads its data.

    * ``Sync``: in the calling process, when a batch is asked for.
    * ``Async``: in a process of its own, ahead of the time.
    * ``AsyncRebatched``: as ``Async``; workers load small batches, and that process joins them.
    """
    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(enum.IntEnum):
    """How tensors reach this process from that of an :class:`poptorch.AsynchronousDataAccessor`.

    * ``SharedMemory``: shared memory, the process is spawned.
    * ``FileSystem``: files, the process is spawned.
    * ``Fork``: shared memory, the process is forked from this one.
    * ``ForkServer``: shared memory, the process is forked from a clean one.
    """
    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class OutputMode(enum.IntEnum):
    """Of which micro-batches of a run a model gives results.

    * ``All``: of every one, in order.
    * ``EveryN``: of every n-th one.
    * ``Final``: of the last one of each replica.
    * ``Sum``: the sum over all of them, for each replica.
    * ``Default``: ``All`` for inference, ``Final`` for training.
    """
    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class ConnectionType(enum.IntEnum):
    """When a model attaches to a device: when it compiles, at its first run, or never (compiling only)."""
    Always = 0
    OnDemand = 1
    Never = 2


class HalfFloatCastingBehavior(enum.IntEnum):
    """Deprecated: operands of float16 and float32 are always cast to float32, as in PyTorch."""
    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class ReductionType(enum.IntEnum):
    """How gradients of several micro-batches and replicas become one."""
    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(enum.IntEnum):
    """When a mean of gradients is divided.

    * ``Running``: what is accumulated is the mean so far. It cannot grow beyond the largest gradient.
    * ``Post``: once, after all are added up.
    * ``PostAndLoss``: deprecated; by the number of replicas before, by that of micro-batches after.
    """
    Running = 0
    Post = 1
    PostAndLoss = 2


class SyncPattern(enum.IntEnum):
    """Which IPUs wait for each other when one of them talks to the host."""
    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class MatMulSerializationMode(enum.Enum):
    """Along which dimension of a product of ``[m, n]`` and ``[n, p]`` it is cut in parts that are computed in turn."""
    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class Liveness(enum.IntEnum):
    """How long the tensors of a phase stay on the chip when a model is executed in phases."""
    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class AutoStage(enum.IntEnum):
    """How blocks that no stage names are made into stages.

    * ``SameAsIpu``: the stage of a block is the number of its IPU.
    * ``AutoIncrement``: each new block is a new stage.
    """
    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(enum.IntEnum):
    """Whether the convolutions of a :class:`poptorch.MultiConv` run at the same time."""
    Parallel = 0
    Serial = 1


class OverlapMode(enum.Enum):
    """With which loop on the device a transfer to or from the host overlaps."""
    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class CommGroupType(enum.IntEnum):
    """How replicas are put into groups.

    * ``All``: all of them are one group.
    * ``Consecutive``: with two groups of four replicas, 0 and 1, 2 and 3.
    * ``Orthogonal``: with two groups of four replicas, 0 and 2, 1 and 3.
    * ``NoGrouping``: each is on its own.
    """
    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(enum.IntEnum):
    """From which replicas a weight is read that differs between groups of them."""
    OnePerGroup = 0
    AllReplicas = 2
