"""PopTorch on OpenIPU: PyTorch models compiled, trained and run by libipu.

    model = poptorch.trainingModel(module, options, optimizer)     module.forward computes the loss
    output, loss = model(x, labels)
"""

from __future__ import annotations

import unittest.mock  # noqa: F401  (users of the original rely on it being imported)

from . import _poplar_executor, _torch_ops, enums, ops, optim, options, poptorch_core, profiling, testing
from ._args import ICustomArgParser, registerCustomArgParser
from ._async import AsynchronousDataAccessor
from ._blocks import BeginBlock, Block, BlockFunction, removeBlocks
from ._dataloader import DataLoader
from ._errors import Error, RecoverableError, UnrecoverableError, createPoptorchError
from ._executor import PoplarExecutor
from ._impl import isRunningOnIpu
from ._logging import logger, setLogLevel
from ._models import (inferenceModel, ipuHardwareIsAvailable, ipuHardwareVersion, load, trainingModel)
from ._options_impl import ConfigFileError
from ._printing import module_repr, print  # pylint: disable=redefined-builtin
from ._strategies import (ParallelPhasedExecution, Phase, PipelinedExecution, SerialPhasedExecution, ShardedExecution,
                          Stage)
from ._utils import accessAttributes, getIpuTensorId, registerPostCompileHook, registerPreCompileHook
from ._version import __version__
from .enums import *
from .ops import *
from .options import Options, TensorLocationSettings
