"""trainingModel, inferenceModel and load: how executors are made."""

from __future__ import annotations

import copy
from typing import Any, Callable, Optional, Union

import torch

from openipu import tracking

from .._version import __version__
from ..options import Options
from . import saving
from .executor import PoplarExecutor
from .strategies import MOST_IPUS


def trainingModel(model: Union[torch.nn.Module, PoplarExecutor], options: Optional[Options] = None,
                  optimizer: Optional[torch.optim.Optimizer] = None) -> PoplarExecutor:
    """The model, to be trained on the device: each call makes ``Options.deviceIterations`` steps of the optimizer.

    >>> optimizer = poptorch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    >>> training_model = poptorch.trainingModel(model, options, optimizer)
    >>> for data, labels in poptorch.DataLoader(options, dataset, batch_size=16):
    ...     output, loss = training_model(data, labels)  # what forward() returns; the weights have changed

    The loss is computed in forward(). A shallow copy of the model is what runs: parameters are shared, but calling
    ``model.train()`` afterwards on the original changes nothing. The original shows newly trained weights whenever it
    is looked at; :py:meth:`PoplarExecutor.destroy` ends that, and is needed before it is wrapped again.

    :param model: the model; or one that is wrapped already, to take the model of.
    :param options: how to compile and run. Cannot be changed afterwards.
    :param optimizer: one of ``poptorch.optim``, or torch's SGD, Adam, AdamW or RMSprop. SGD with lr=0.01 unless given.
    """
    if isinstance(model, PoplarExecutor):
        model = model._user_model
    if tracking.is_wrapped(model):
        if tracking.owner_of(model) is not None:
            raise RuntimeError("Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on "
                               "the model to unwrap before wrapping again.")
        tracking.unwrap(model)
    return PoplarExecutor(model=copy.copy(model), options=options, training=True, optimizer=optimizer,
                          user_model=model, poptorch_version=__version__)


def inferenceModel(model: Union[torch.nn.Module, PoplarExecutor],
                   options: Optional[Options] = None) -> PoplarExecutor:
    """The model, to be run on the device.

    >>> inference_model = poptorch.inferenceModel(model.eval(), options)
    >>> output = inference_model(data)

    A shallow copy of the model is what runs: parameters are shared, but calling ``model.eval()`` afterwards on the
    original changes nothing. Weights that are trained by a :py:func:`trainingModel` of the same model are used as they
    are when this is called.

    :param model: the model; or one that is wrapped already, to take the model of.
    :param options: how to compile and run. Cannot be changed afterwards.
    """
    if isinstance(model, PoplarExecutor):
        model = model._user_model
    return PoplarExecutor(model=copy.copy(model), options=options, training=False, poptorch_version=__version__)


def load(filename: str, edit_opts_fn: Optional[Callable[[Options], Any]] = None) -> PoplarExecutor:
    """The executor that :py:meth:`PoplarExecutor.compileAndExport` or ``save`` wrote to a file, with its model.

    :param edit_opts_fn: may change the options before they are used.
    """
    return saving.load(filename, __version__, edit_opts_fn, trainingModel, inferenceModel)


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether there are so many IPUs. The virtual ones of this host count: up to 64."""
    return 1 <= num_ipus <= MOST_IPUS


def ipuHardwareVersion() -> int:
    """The architecture of the IPUs there are: 2 for the GC200 that is modelled."""
    return 2
