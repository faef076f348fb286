"""PoplarExecutor: a model that runs, or is trained, on the device."""

from __future__ import annotations

import copy
import datetime
import os
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from openipu import counters, ending, error as ipu_error, interrupt, replicas, reports, tracking
from openipu.arguments import Arguments, Signature, contiguous, n_plain
from openipu.session import Session
from openipu.weights import check_on_host

from .. import enums, optim
from .._capture import blocks, hooks, listing
from .._capture.capture import capture
from .._capture.overwrite import _OverwriteContextManager
from .._capture.printing import module_repr
from .._errors import createPoptorchError, from_library, library_errors
from .._logging import logger
from ..options import Options, PipelinedExecution, ShardedExecution, executor_options
from . import anchors, effects, saving
from .device_optimizer import DeviceOptimizer
from .program import Program
from .strategies import plan_of


class PoplarExecutor:
    """What :py:func:`~poptorch.trainingModel` and :py:func:`~poptorch.inferenceModel` return: not to be made directly.

    It is called like the model. The first call compiles the model for its arguments; later ones must be alike.
    """

    def __init__(self, model: Any, options: Optional[Options], training: bool, poptorch_version: str,
                 optimizer: Optional[torch.optim.Optimizer] = None, user_model: Any = None):
        self._session = Session(to_host=_copying(self))
        self._model = model
        self._user_model = model if user_model is None else user_model
        self._training = training
        self._poptorch_version = poptorch_version
        self._options = _settled(options, training)
        self._signature = Signature(model)
        self._compile_seconds = 0.0
        self._has_warned_of_strides = False
        self._anchors = anchors.Anchors(self._options, training)
        self.per_replica_params: Dict[str, Tuple] = {}
        self._device_optimizer: Optional[DeviceOptimizer] = None
        self._optimizer: Optional[torch.optim.Optimizer] = None
        if training:
            self._device_optimizer = self._session.learner = DeviceOptimizer(self, _named_parameters(self._user_model))
            if optimizer is None:
                optimizer = _default_optimizer(self._user_model)
            self.setOptimizer(optimizer)
            self._wrap()
        else:
            assert optimizer is None, "Optimizer should be None for inference"
        # Read at every call.
        self._is_offline = self._options.connection_type == enums.ConnectionType.Never
        self._recompiles = self._options.recompile_on_new_shapes
        self._logs_cycles = bool(self._options._Popart.options.get("instrumentWithHardwareCycleCounter"))
        self._options._freeze()

    def _wrap(self) -> None:
        """Let the user's model show what is trained, if it does not yet."""
        if isinstance(self._user_model, torch.nn.Module) and not tracking.is_wrapped(self._user_model):
            with library_errors():
                tracking.wrap(self._user_model, self, PoptorchModel, "Poptorch")

    @property
    def _executable(self) -> Optional[Program]:
        return self._session.program

    @property
    def _host_weights_version(self) -> int:
        return self._session.version

    # ---- what it is

    @property
    def model(self) -> torch.nn.Module:
        """The model that was wrapped."""
        return self._user_model

    @property
    def options(self) -> Options:
        """The options it was made with; they cannot be changed."""
        return self._options

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_user_model", "_session"):  # not made yet
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        found = getattr(self._user_model, name)
        return _Grouped(self, name, found) if isinstance(found, torch.nn.Parameter) else found

    def __repr__(self) -> str:
        return module_repr(self._user_model)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles hold the model, options and optimizer: what is compiled, ``save`` writes."""
        return _made_again, (self._user_model, self._options, self._training, self._poptorch_version, self._optimizer)

    def __del__(self) -> None:
        try:
            if self._training:
                self.destroy()
        except Exception:  # the interpreter is ending
            pass

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model, called with the arguments of its forward(). The first call compiles it."""
        ending.stop_if_ending()
        interrupt.watch()
        session = self._session
        with session.lock:
            program = session.program
            tensors = program.match(args) if program is not None and not kwargs and session.is_attached else None
            dense = tensors
            try:
                if tensors is None:
                    program, tensors, dense = self._prepare(args, kwargs)
                outputs = session.run(program, dense, tensors)
                self._anchors.collect(self, program, tensors)
            except ipu_error.Error as error:
                raise from_library(error) from error.__cause__
            if self._logs_cycles:
                logger.info("Total number of IPU cycles: %d", program.cycles())
            return program.result(outputs)

    def _prepare(self, args: Sequence[Any],
                 kwargs: Dict[str, Any]) -> Tuple[Program, List[torch.Tensor], List[torch.Tensor]]:
        """The program for a call, compiled if there is none, and the call's tensors: as they are, and contiguous."""
        assert not self._is_offline, (
            "Trying to run a model on an offline device (ConnectionType.Never): use model.compile(inputs) instead of "
            "model(inputs)")
        arguments = self._signature.resolve(args, kwargs)
        session, n_given = self._session, n_plain(args, kwargs)
        if session.program is None:
            program = self._compile(arguments, n_given)
        else:
            program = session.program_for(arguments, self._recompiles,
                                          lambda: self._compile(arguments, n_given))
        tensors = arguments.tensors(program.arguments)
        dense = [self._contiguous(t) for t in tensors]
        if not session.is_attached:
            session.attach()
        return program, tensors, dense

    def _contiguous(self, tensor: torch.Tensor) -> torch.Tensor:
        dense = contiguous(tensor, "a PopTorch model cannot be called in forward() of another; call the torch model that it "
                           "wraps")
        if dense is not tensor and not self._has_warned_of_strides:
            self._has_warned_of_strides = True
            logger.warning("At least one input tensor is not contiguous: non-contiguous tensors will be converted.")
        return dense

    # ---- compiling

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Capture and compile the model for arguments like these, and run nothing. Done already: a warning."""
        with self._session.lock, library_errors():
            arguments = self._signature.resolve(args, kwargs)
            if self._executable is not None:
                logger.warning("Call to compile() ignored: the executable is already compiled")
                return
            self._compile(arguments, n_plain(args, kwargs))

    def _compile_for(self, remembered: Arguments, n_given: Optional[int]) -> None:
        """Compile for arguments of which types and shapes are known."""
        with self._session.lock, library_errors():
            self._session.release()
            arguments = Arguments()
            arguments.names = list(remembered.names)
            empty = [torch.zeros(t.shape, dtype=t.dtype) for t in remembered.tensors()]
            arguments.args, arguments.kwargs = remembered.with_tensors(empty)
            self._compile(arguments, n_given)

    def _compile(self, arguments: Arguments, n_given: Optional[int]) -> Program:
        began = datetime.datetime.now()
        self._signature.warn_of_dicts(arguments)
        tensors = [self._contiguous(t) for t in arguments.tensors()]
        remembered = arguments.remembered()
        graph = self._capture(arguments, tensors)
        check_on_host(graph.kept)
        self._check_buffers(graph)
        graph.plan = plan_of([node.place for node in graph.nodes], self._options, self._training)
        settings = executor_options(self._options, self._training, graph.plan)
        effects.tell(self._options, graph.plan, self._training)
        listing.check_overlaps(graph, self._options)
        listing.log(graph, self._options)
        training = None
        if self._training:
            training = self._device_optimizer.training([k.name for k in graph.kept if k.trained])
        program = Program(graph, remembered, tensors, settings, training, self._anchors.extra(graph, tensors),
                          all_batches=self._anchors.have_modes, shown=self._options._shown_progress())
        program.is_synthetic = self._options._uses_synthetic_data()
        if n_given is not None:
            program.accept_plain(n_given, tensors)
        self._compile_seconds = (datetime.datetime.now() - began).total_seconds()
        if self._training:
            self._wrap()
        self._session.take(program)
        self._write_reports(program)
        return program

    def _write_reports(self, program: Program) -> None:
        """What options and the environment ask for: Options.enableProfiling and POPTORCH_EXPORT_PROTO_FILE."""
        folder = self._options._profile_folder(self._training)
        if folder is not None:
            reports.write_profile(program.executor, os.path.join(folder, "profile.pop"))
        path = os.environ.get("POPTORCH_EXPORT_PROTO_FILE", "")
        if path:
            shapes = [slot.shape for slot in program.graph.inputs if slot.shape]
            reports.write_network(program.module, path, shapes[0][0] if shapes else 1, "POPTORCH_EXPORT_PROTO_FILE")

    def _capture(self, arguments: Arguments, tensors: Sequence[torch.Tensor]) -> Any:
        """The graph of the model for one batch of these tensors."""
        self.copyWeightsToHostIfNeeded()
        batches = [self._one_batch(t) for t in tensors]
        args, kwargs = arguments.with_tensors(batches)
        with hooks.compiling(), blocks.capture(self._options._execution_strategy), _OverwriteContextManager():
            return self._captured(tuple(args), kwargs)

    def _captured(self, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if not self.per_replica_params:
            return capture(self._model, args, kwargs, self._training, options=self._options)
        n_replicas = self._options.replication_factor
        with replicas.one_group(self._model, self.per_replica_params, n_replicas) as grouped:
            graph = capture(self._model, args, kwargs, self._training, options=self._options)
        for kept in graph.kept:
            if kept.name in grouped:
                kept.tensor, kept.groups = grouped[kept.name]
        return graph

    def _check_buffers(self, graph: Any) -> None:
        """Buffers that are asked for exist; those that replicas change are allowed to differ."""
        names = {name for name, _ in self._model.named_buffers()} if isinstance(self._model, torch.nn.Module) else set()
        for name in self._options._Popart.options.get("updatableNamedBuffers", ()):
            if name not in names:
                raise createPoptorchError(f"Options.updatableNamedBuffers: the model has no buffer {name!r}; it has: "
                                          + (", ".join(sorted(names)) or "none"))
        if self._options.replication_factor == 1 or not self._options.broadcast_buffers:
            return
        changed = [kept.name for kept in graph.kept if kept.updated and not self._is_of_norm(kept.name)]
        if changed:
            raise createPoptorchError(
                "PopTorch does not support broadcasting buffers. If your model is able to tolerate buffers becoming "
                "out of sync between replicas, you can disable buffer broadcasting using "
                f"poptorch.Options.broadcastBuffers(False). Changed by the model: {', '.join(changed)}")

    def _is_of_norm(self, name: str) -> bool:
        """Whether a buffer holds running statistics, which may differ between replicas."""
        module = self._model.get_submodule(name.rpartition(".")[0])
        return isinstance(module, torch.nn.modules.batchnorm._NormBase)

    def _one_batch(self, tensor: torch.Tensor) -> torch.Tensor:
        """What forward() sees of an input: one of the batches that a run takes."""
        o = self._options
        n_batches = (o.device_iterations * (o.replication_factor // o.input_group_size)
                     * o.Training.gradient_accumulation)
        size = tensor.shape[0] if tensor.dim() else 1
        assert size % n_batches == 0, (
            f"Invalid batch dimension: In the input {tensor.shape}, the batch dimension ({size}) must be a multiple of "
            f"Options.deviceIterations({o.device_iterations}) * (Options.replicationFactor({o.replication_factor}) / "
            f"Options.inputReplicaGrouping.input_group_size({o.input_group_size})) * "
            f"Options.Training.gradientAccumulation({o.Training.gradient_accumulation}) = {n_batches} because it is "
            "used to calculate the batch size which will be executed on the device in any given iteration.")
        if tensor.requires_grad:
            tensor = tensor.detach()
            if not self._options.input_gradients:
                logger.warning("Input tensor has requires_grad=True set. This tensor will be detached because backward "
                               "pass via inputs is not supported.")
        return tensor.narrow(0, 0, size // n_batches) if tensor.dim() else tensor.detach()  # never the same object

    # ---- weights

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring weights from the device if the host's are older; whether they were."""
        if not self._session.is_newer:  # as nearly always, when a weight is looked at
            return False
        with library_errors():
            return self._session.fetch_weights()

    _fetch_weights = copyWeightsToHostIfNeeded

    def copyWeightsToHost(self) -> None:
        """Bring the weights of the model from the device into its parameters and buffers."""
        with library_errors():
            self._session.weights_to_host()

    def copyWeightsToDevice(self) -> None:
        """Bring the parameters and buffers of the model to the device. The first call of the model does so itself."""
        with library_errors():
            self._session.weights_to_device()

    def copyNamedBuffersToDevice(self) -> None:
        """Bring those buffers to the device that Options.updatableNamedBuffers names."""
        self._compiled()
        names = self._options._Popart.options.get("updatableNamedBuffers")
        if not names:
            raise createPoptorchError("No named buffers marked as updatable via updatableNamedBuffers option")
        with library_errors():
            self._session.write_weights(names)

    def load_state_dict(self, state_dict: Dict[str, torch.Tensor], strict: bool = True) -> Any:
        """load_state_dict() of the model, whose weights then reach the device; what torch's returns."""
        found = self._user_model.load_state_dict(state_dict, strict)
        if self.isAttachedToDevice():
            logger.debug("load_state_dict: implicit copyWeightsToDevice()")
            self.copyWeightsToDevice()
        return found

    # ---- optimizer

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train with this optimizer from now on; needed also after changing one, as learning rate schedulers do."""
        if self._device_optimizer is None:
            raise createPoptorchError("setOptimizer() is for models made with trainingModel(): this one was made with "
                                      "inferenceModel()")
        with self._session.lock, library_errors():
            self._device_optimizer.set(optimizer)
            self._optimizer = optimizer
            if self.isAttachedToDevice():
                self._device_optimizer.push(self._executable)

    # ---- device

    def isCompiled(self) -> bool:
        """Whether it has been compiled, and not destroyed since."""
        return self._executable is not None

    def isAttachedToDevice(self) -> bool:
        """Whether it has a device."""
        return self.isCompiled() and self._session.is_attached

    def attachToDevice(self) -> None:
        """Take a device again, after detachFromDevice()."""
        with self._session.lock, library_errors():
            self._compiled()
            assert not self._is_offline, (
                "Trying to attach to an offline device (ConnectionType.Never)")
            if self._session.is_attached:
                raise createPoptorchError("Device is already attached")
            self._session.attach()

    def detachFromDevice(self) -> None:
        """Give the device back; weights and states are brought to the host before."""
        with library_errors():
            self._session.detach()

    def destroy(self) -> None:
        """Release the device and what was compiled; the next call compiles again. The model is as it was before."""
        with self._session.lock, library_errors():
            self._session.release()
            if self._training and tracking.owner_of(self._user_model) is self:
                tracking.unwrap(self._user_model)

    def _compiled(self) -> Program:
        with library_errors():
            return self._session.compiled()

    # ---- random numbers

    @property
    def rng_state(self) -> List[int]:
        """The seed of random numbers on the device, and how far each replica has drawn from it."""
        with library_errors():
            return self._session.rng_state

    @rng_state.setter
    def rng_state(self, state: Sequence[int]) -> None:
        with library_errors():
            self._session.rng_state = state

    # ---- files

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write what was compiled to a file (in a folder: to model.poptorch).

        :param export_model: with the model and the optimizer, for :py:func:`poptorch.load`; else for
            :py:meth:`loadExecutable` of an executor of the same model.
        :param save_rng_state: with the state of random numbers.
        """
        self._compiled()
        saving.save(self, filename, export_model, save_rng_state)

    def compileAndExport(self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any) -> None:
        """:py:meth:`compile` and :py:meth:`save`."""
        self.compile(*args, **kwargs)
        self.save(filename, export_model)

    def loadExecutable(self, filename: str) -> None:
        """Take what was compiled from a file that :py:meth:`save` wrote, for the same model and options."""
        saving.load_executable(self, filename)

    # ---- measuring

    def cycleCount(self) -> int:
        """Cycles that one run takes on the chip, as modelled."""
        if not self._options._Popart.options.get("instrumentWithHardwareCycleCounter"):
            raise createPoptorchError("Cycle count logging is disabled. Please set option logCycleCount to True to "
                                      "enable.")
        if self._executable is None or self._executable.times() is None:
            raise createPoptorchError("Please run the model at least once before obtaining cycle count.")
        return self._executable.cycles()

    def compilationTime(self) -> datetime.timedelta:
        """How long compiling took."""
        if self._executable is None:
            raise createPoptorchError("Please compile the model before obtaining compilation time.")
        if not self._options._show_compilation_progress_bar:
            raise createPoptorchError("Please set showCompilationProgressBar option to obtain compilation time.")
        return datetime.timedelta(seconds=self._compile_seconds)

    def getPerfCounters(self) -> Dict[str, List[List[float]]]:
        """When inputs and outputs of the last run were asked for ("input", "output") and complete ("input_complete",
        "output_complete"): for each tensor a list of seconds, one for each batch. Only differences mean something."""
        return counters.of_last_run(self._executable)

    def getHostIpuLatency(self) -> Tuple[float, float, float]:
        """Seconds from the first input asked for to the last one complete: minimum, maximum and mean over batches."""
        return counters.latency(self.getPerfCounters(), "input", min, "input_complete", max)

    def getComputeLatency(self) -> Tuple[float, float, float]:
        """Seconds from the last input complete to the last output asked for."""
        return counters.latency(self.getPerfCounters(), "input_complete", max, "output", max)

    def getIpuHostLatency(self) -> Tuple[float, float, float]:
        """Seconds from the first output asked for to the last one complete."""
        return counters.latency(self.getPerfCounters(), "output", min, "output_complete", max)

    def getLatency(self) -> Tuple[float, float, float]:
        """Seconds from the first input asked for to the last output complete."""
        return counters.latency(self.getPerfCounters(), "input", min, "output_complete", max)

    # ---- looking inside

    def getTensorNames(self) -> List[str]:
        """Names of the tensors of the compiled model, which Options.anchorTensor takes."""
        assert self._executable is not None, "Model must be compiled before calling getTensorNames"
        return self._anchors.names(self, self._executable.graph)

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """The value that a tensor named by Options.anchorTensor had in the last run."""
        return self._anchors.get(short_name)

    def _debugGetPopartIR(self) -> str:
        optimizer = self._device_optimizer.description if self._training else None
        return listing.ir(self._compiled().graph, self._options, optimizer)


class PoptorchModel(tracking.WrappedModel):
    """What models have that are being trained."""

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring weights from the device if the host's are older; whether they were."""
        return self._ipu_sync()

    def destroy(self) -> None:
        """Release the device and what was compiled; the model is again as it was."""
        owner = tracking.owner_of(self)
        if owner is not None:
            owner.destroy()
        if tracking.is_wrapped(self):
            tracking.unwrap(self)

    @property
    def _host_weights_version(self) -> Optional[int]:
        owner = tracking.owner_of(self)
        return None if owner is None else owner._host_weights_version


class _Grouped:
    """A parameter of an executor's model, which can be told that replicas differ in it."""

    def __init__(self, executor: PoplarExecutor, name: str, parameter: torch.nn.Parameter):
        self._executor, self._name, self._parameter = executor, name, parameter

    def replicaGrouping(self, comm_group_type: enums.CommGroupType, shards: int,
                        variable_retrieval_mode: enums.VariableRetrievalMode) -> None:
        """Groups of replicas have a value each of this parameter, along its dimension 0."""
        self._executor.per_replica_params[self._name] = (comm_group_type, shards, variable_retrieval_mode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parameter, name)


def _copying(executor: PoplarExecutor) -> Callable[[], bool]:
    """copyWeightsToHost of an executor, as long as it is there: users exchange it, to see when it is called."""
    owner = weakref.ref(executor)

    def copy_to_host() -> bool:
        found = owner()
        if found is not None:
            found.copyWeightsToHost()
        return found is not None

    return copy_to_host


def _settled(options: Optional[Options], training: bool) -> Options:
    """An executor's own copy of the user's options, which are frozen."""
    if options is None:
        options = Options()
    elif not isinstance(options, Options):
        raise createPoptorchError(f"Invalid type: 'options' is of type {type(options)} (Expected poptorch.Options)")
    else:
        options._freeze()
        options = options.clone()
    if options.defaultOutputMode():
        options.outputMode(enums.OutputMode.Final if training else enums.OutputMode.All)
    if not training and options.Training.gradient_accumulation != 1:
        strategy = options._execution_strategy
        is_pipelined = isinstance(strategy, PipelinedExecution) and not isinstance(strategy, ShardedExecution)
        raise createPoptorchError(
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its default value (1) "
            "when running a poptorch.inferenceModel()."
            + (" Use poptorch.Options().deviceIterations to process a sufficient number of batches each run for "
               "pipelined execution instead." if is_pipelined else ""))
    return options


def _made_again(model: Any, options: Options, training: bool, version: str,
                optimizer: Optional[torch.optim.Optimizer]) -> PoplarExecutor:
    return PoplarExecutor(copy.copy(model), options, training, version, optimizer, model if training else None)


def _default_optimizer(model: Any) -> torch.optim.Optimizer:
    if not isinstance(model, torch.nn.Module):
        raise createPoptorchError("trainingModel() needs a torch.nn.Module, whose parameters it trains, or an "
                                  f"optimizer: found {type(model)}")
    return optim.SGD(model.parameters(), lr=0.01)


def _named_parameters(model: Any) -> List[Tuple[str, torch.Tensor]]:
    return list(model.named_parameters()) if isinstance(model, torch.nn.Module) else []
