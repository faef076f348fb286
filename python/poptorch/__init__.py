"""PopTorch on OpenIPU: PyTorch models compiled, trained and run by libipu.

    model = poptorch.trainingModel(module, options, optimizer)     module.forward computes the loss
    output, loss = model(x, labels)
"""

from __future__ import annotations

import unittest.mock  # noqa: F401  (users of the original rely on it being imported)

from . import _poplar_executor, enums, ops, optim, options, poptorch_core, profiling, testing
from ._args import ICustomArgParser, registerCustomArgParser
from ._capture import torch_ops as _torch_ops
from ._capture.attributes import accessAttributes
from ._capture.blocks import BeginBlock, Block, BlockFunction, removeBlocks
from ._capture.hooks import registerPostCompileHook, registerPreCompileHook
from ._capture.printing import module_repr, print  # pylint: disable=redefined-builtin
from ._data.accessor import AsynchronousDataAccessor
from ._data.dataloader import DataLoader
from ._errors import Error, RecoverableError, UnrecoverableError, createPoptorchError
from ._impl import isRunningOnIpu
from ._logging import logger, setLogLevel
from ._run.executor import PoplarExecutor
from ._run.models import (inferenceModel, ipuHardwareIsAvailable, ipuHardwareVersion, load, trainingModel)
from ._run.options_impl import ConfigFileError
from ._run.strategies import (ParallelPhasedExecution, Phase, PipelinedExecution, SerialPhasedExecution,
                              ShardedExecution, Stage)
from ._utils import getIpuTensorId
from ._version import __version__
from .enums import *
from .ops import *
from .options import Options, TensorLocationSettings
