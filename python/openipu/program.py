"""A network compiled for tensors of certain types and shapes: tensors of torch in, tensors of torch out."""

from __future__ import annotations

import contextlib
import time
import weakref
from typing import Any, Callable, ContextManager, Dict, List, Optional, Sequence, Tuple

import torch

from . import interrupt
from .arguments import Arguments
from .arrays import array_over, tensor_over
from .batching import Batches
from .error import STATUS_NAMES, Error, UsageError
from .executor import Executor, Module
from .library import Array, lib
from .log import logger
from .settings import Attach, ExecutorOptions, OutputMode, Training
from .weights import Weights

WAIT_SECONDS = 1.0  # between attempts to attach
PLACED = 1 << 16  # bytes of an output from which on it pays that the library writes it where it is wanted
NOT_COMPILED = "Model has not been compiled or has been destroyed."
INTERRUPTED = STATUS_NAMES.index("INTERRUPTED")


def _closed(*_args: Any) -> int:
    raise UsageError(NOT_COMPILED)


class Program:
    """What compiling makes of a network.

    ``arguments``: of the call that it is for. ``build(network, values)`` builds it, with outputs "output0" to
    ``n_outputs - 1``, and "input_update0" and so on: what becomes of the inputs with the numbers ``updates``. Other
    outputs ``extra_output`` gives; ``all_batches``: also in other modes than that of ``options``, which are changed.
    ``kept``: its parameters and buffers, as ``Weights`` takes them; with ``groups``, the number of each replica's group,
    where groups of replicas have values of their own: then there is one more input, the number of the replica.
    ``shown`` shows how far compiling has come; ``waits`` says whether to wait for a device where there is none.
    """

    def __init__(self, build: Callable[[Any, List[Any]], None], n_outputs: int, kept: Sequence[Any],
                 tensors: Sequence[torch.Tensor], options: ExecutorOptions, training: Optional[Training] = None, *,
                 arguments: Optional[Arguments] = None, updates: Sequence[int] = (), all_batches: bool = False,
                 shown: Optional[Callable[[], ContextManager[Callable[[int, int], None]]]] = None,
                 waits: Callable[[], bool] = lambda: False):
        self.arguments = arguments
        self.seed = options.seed
        self.n_plain: Optional[int] = None
        self.is_synthetic = False
        self._n_outputs, self._kept, self._inputs_updated = n_outputs, list(kept), list(updates)
        self._waits = waits
        self._shapes = [(t.shape, t.dtype) for t in tensors]
        self._plain: Optional[List[Tuple[torch.Size, torch.dtype]]] = None
        self._defaults: Tuple[torch.Tensor, ...] = ()
        self._synthetic: Optional[List[torch.Tensor]] = None
        self._has_run = False
        if options.output_mode == OutputMode.DEFAULT:
            options.output_mode = OutputMode.ALL if training is None else OutputMode.FINAL
        connection = self._settle(options, all_batches)
        self._make_arrays(tensors)
        self._build_network = build
        own_build = weakref.WeakMethod(self._build)
        self.module = Module(lambda network, values: own_build()(network, values))
        self.executor = Executor(self.module, options, training)
        self.executor.keep_times()
        self.weights = Weights(self.module, self._kept)
        self._function = lib().ipu_executor_run
        self._compile(shown)
        if connection == Attach.ALWAYS:
            self.attach()
        self._bind_outputs()

    def _settle(self, options: ExecutorOptions, all_batches: bool) -> Attach:
        """Keep what is asked for, and tell the library what that needs. When to attach: weights come before."""
        self._mode, self._period, self._replicas = options.output_mode, options.output_period, options.replicas
        self._batches = Batches(options.device_iterations, options.replicas, options.gradient_accumulation)
        if all_batches or (self._inputs_updated and self._batches.n_out > 1):
            options.output_mode = OutputMode.ALL  # what is asked for is made of them here
        connection = options.attach
        if connection == Attach.ALWAYS:
            options.attach = Attach.ON_DEMAND
        options.no_fold |= self._has_groups()
        options.n_own_inputs = int(self._has_groups())
        return connection

    def _has_groups(self) -> bool:
        """Whether replicas differ in parameters."""
        return any(own.groups for own in self._kept)

    def _make_arrays(self, tensors: Sequence[torch.Tensor]) -> None:
        """The library's arrays of a run, over these tensors at first."""
        given = list(tensors)
        if self._has_groups():  # an input that tells a replica which it is
            self._replica_numbers = torch.arange(self._batches.n_out, dtype=torch.int32) % self._replicas
            given.append(self._replica_numbers)
        self._n = len(given)
        self._arrays = (Array * max(1, self._n))(*[array_over(t, f"input {i}") for i, t in enumerate(given)])
        self._slots = [self._arrays[i] for i in range(len(tensors))]

    def _compile(self, shown: Optional[Callable[[], ContextManager[Callable[[int, int], None]]]]) -> None:
        logger.debug("Acquired %d IPU(s): running on device Id %d", self._n_ipus(),
                     max(0, self.executor.options.device_id - 1))
        with contextlib.nullcontext(lambda done, total: None) if shown is None else shown() as report:
            self.executor.compile(self._arrays, self._n, report)
        seconds, was_cached = self.executor.compile_seconds()
        logger.debug("Finished Poplar compilation in %.3f s%s", seconds, " (from the cache)" if was_cached else "")

    def _n_ipus(self) -> int:
        options = self.executor.options
        return options.replicas * (max(options.stage_ipus, default=0) + 1)

    def _acquire(self) -> None:
        """Attach, waiting for a device if ``waits`` says so."""
        while True:
            try:
                return self.executor.attach()
            except Error as e:
                if e.status != "BUSY":
                    raise
                if not self._waits():
                    raise Error(f"Failed to acquire {self._n_ipus()} IPU(s): {e.message}", e.status) from None
                logger.info("No IPU available, sleeping for %g s: %s", WAIT_SECONDS, e.message)
                time.sleep(WAIT_SECONDS)

    def attach(self) -> None:
        """Take a device; it has the host's weights then."""
        was_attached = self.executor.engine() is not None
        if self.executor.options.comm is not None:
            self.weights.share(self.executor.options.comm)
        self.weights.give()
        self._acquire()
        if was_attached:  # else it begins with them
            self.executor.copy_weights_to_device()
        logger.debug("Attached to device %d", self.executor.device_id())

    def _leave_host_alone(self) -> None:
        """Before the library fetches weights that nobody asked for: the host's may have been changed since."""
        if self.module.is_behind():
            self.weights.take_back()

    def take_seed(self, before: "Program") -> None:
        """Begin random numbers as another program of the same model would, if that draws none."""
        self.seed = before.seed
        if self._draws and not before._draws:
            self.executor.set_seed(self.seed)

    def detach(self) -> None:
        """Give the device back."""
        device = self.executor.device_id()
        self._leave_host_alone()
        if self.executor.is_attached():  # else another executor of this process, which shares it, was first
            self.executor.detach()
        logger.debug("Detached from device %d", device)

    def _build(self, network: Any, values: List[Any]) -> None:
        self._build_network(network, values)
        if not self._n_outputs and not self._inputs_updated:
            network.output(network.scalar(0, "int32"), "nothing")  # a network has an output
        self._scalars = {name for name, value in network.outputs() if not value.shape}
        self._draws = network.draws

    # ---- outputs

    def _bind_outputs(self) -> None:
        """Tensors over the library's memory of outputs, which stays where it is until something is compiled anew."""
        self._views = {name: tensor_over(array) for name, array in self.executor.outputs()}
        order = list(self._views)
        self._cycles: Optional[int] = None
        self._has_all = self.executor.options.output_mode == OutputMode.ALL
        self._selects = self._has_all and self._mode != OutputMode.ALL
        self._outputs = [self._views[f"output{i}"] for i in range(self._n_outputs)]
        self._large = [] if self._selects else [(i, order.index(f"output{i}")) for i, view in enumerate(self._outputs)
                                                if view.numel() * view.element_size() >= PLACED]
        self._updates = [(number, self._views[f"input_update{i}"]) for i, number in enumerate(self._inputs_updated)]

    def extra_output(self, name: str, mode: Optional[OutputMode] = None, period: int = 1) -> torch.Tensor:
        """A copy of an output of the last run, by its name; of those batches that ``mode`` says."""
        view = self._views[name]
        if mode is None or not self._has_all:
            return view.clone()
        return self._selected(view, name in self._scalars, mode, period)

    def _selected(self, view: torch.Tensor, is_scalar: bool, mode: OutputMode, period: int) -> torch.Tensor:
        """What a mode gives of an output of which there are all batches."""
        whole = self._batches.selected(view, mode, period)
        return whole.reshape(()).clone() if is_scalar and whole is not view and whole.numel() == 1 else whole.clone()

    # ---- which calls it is for

    def accept_plain(self, n_given: int, tensors: Sequence[torch.Tensor]) -> None:
        """Let ``match`` take calls of ``n_given`` tensors by position; the rest of ``tensors`` are defaults."""
        self.n_plain = n_given
        self._plain = self._shapes[:n_given]
        self._defaults = tuple(tensors[n_given:])

    def match(self, args: Tuple[Any, ...]) -> Optional[Tuple[torch.Tensor, ...]]:
        """The tensors of a plain call, if they are such as it was compiled for; None: they have to be looked at."""
        plain = self._plain
        if plain is None or len(args) != len(plain):
            return None
        for given, (shape, dtype) in zip(args, plain):
            if (not isinstance(given, torch.Tensor) or given.dtype is not dtype or given.shape != shape
                    or not given.is_contiguous() or not given.is_cpu or given.layout is not torch.strided or given.is_neg()):
                return None
        return args + self._defaults if self._defaults else args

    # ---- running

    def run(self, dense: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        """One run on contiguous tensors of the types and shapes it was compiled for: new tensors. What the model changes
        in place is changed in ``tensors``, which are the same or those they were made of."""
        if self.is_synthetic:
            dense = self._made_up()
        for slot, tensor in zip(self._slots, dense):
            slot.data = tensor.data_ptr()
        placed = self._place() if self._large else {}
        status = self._run()
        if placed:
            self._take_back()
        if status:
            self.module.check_built(status)
        for index, view in self._updates:
            self._write_back(tensors[index], view)
        if self._selects:
            return [self._selected(view, f"output{i}" in self._scalars, self._mode, self._period)
                    for i, view in enumerate(self._outputs)]
        return [placed[i] if i in placed else view.clone() for i, view in enumerate(self._outputs)]

    def _place(self) -> Dict[int, torch.Tensor]:
        """New tensors for large outputs, which the next run writes there: by number of the output."""
        placed = {}
        for i, number in self._large:
            placed[i] = torch.empty_like(self._outputs[i])
            lib().ipu_executor_place_output(self.executor.pointer, number, placed[i].data_ptr())
        return placed

    def _take_back(self) -> None:
        for _, number in self._large:
            lib().ipu_executor_place_output(self.executor.pointer, number, None)

    def _run(self) -> int:
        """The library's status of a run on what the arrays point to."""
        executor, n_interruptions = self.executor, interrupt.count
        interrupt.running.add(executor)
        try:
            status = self._function(executor.pointer, self._arrays, self._n)
            if status == INTERRUPTED and interrupt.count == n_interruptions:  # meant for the run before
                status = self._function(executor.pointer, self._arrays, self._n)
            self._has_run = True
        finally:
            interrupt.running.discard(executor)
        return status

    def _made_up(self) -> List[torch.Tensor]:
        """Tensors in place of those of a call, always the same."""
        if self._synthetic is None:
            self._synthetic = [torch.zeros(shape, dtype=dtype) for shape, dtype in self._shapes]
        return self._synthetic

    def _write_back(self, tensor: torch.Tensor, view: torch.Tensor) -> None:
        if tensor.shape == view.shape:
            tensor.detach().copy_(view)

    # ---- the optimizer

    def trained_names(self) -> List[str]:
        """Names of the parameters that are trained."""
        return [own.name for own in self._kept if own.trained]

    def set_training(self, training: Training) -> None:
        """Train so from now on. What is more than other rates is compiled now."""
        self.executor.set_training(training)
        self.compile_again()

    def compile_again(self) -> None:
        """Compile what another optimizer changed; weights and states go on."""
        self.executor.compile(self._arrays, self._n)
        self._bind_outputs()

    # ---- random numbers

    def rng_state(self) -> List[int]:
        """The seed, then for each replica its own seed and the number of runs it has drawn in."""
        logger.debug("Reading random seed")
        if not self._draws:
            return [self.seed]
        logger.debug("Reading RNG state")
        return [self.seed] + [number for pair in self.executor.seeds() for number in pair]

    def set_rng_state(self, state: Sequence[int]) -> None:
        """Go on from what ``rng_state`` gave; from the beginning, if that is the seed alone."""
        self.seed = state[0]
        logger.debug("Setting random seed to: %d", self.seed)
        if not self._draws:
            return
        pairs = list(zip(state[1::2], state[2::2]))[:self.executor.options.replicas]
        if pairs:
            logger.debug("Setting RNG state")
        if len(pairs) < self.executor.options.replicas:
            self.executor.set_seed(self.seed)
        self.executor.set_seeds(pairs)

    # ---- measuring

    def cycles(self) -> int:
        """Of one run on the chip, as modelled."""
        if self._cycles is None:
            self._cycles = self.executor.cycles()
        return self._cycles

    def times(self) -> Optional[Dict[str, List[List[float]]]]:
        """When inputs and outputs of the last run moved, in seconds, for each of them and each batch; None: there was
        no run."""
        if not self._has_run:
            return None
        if self.is_synthetic:
            inputs: List[Any] = [[] for _ in self._slots]
            outputs: List[Any] = [[] for _ in self._outputs]
        else:
            names = [name for name, _ in self.executor.outputs()]
            inputs = [self.executor.input_times(i) for i in range(len(self._slots))]
            outputs = [self._given(self.executor.output_times(names.index(f"output{i}")))
                       for i in range(len(self._outputs))]
        return {"input": [[begin for begin, _ in times] for times in inputs],
                "input_complete": [[end for _, end in times] for times in inputs],
                "output": [[begin for begin, _ in times] for times in outputs],
                "output_complete": [[end for _, end in times] for times in outputs]}

    def _given(self, times: List[Any]) -> List[Any]:
        """Of times of all batches, those of batches that the user is given."""
        if not self._selects:
            return times
        return times[self._period - 1::self._period] if self._mode == OutputMode.EVERY_N else times[-self._replicas:]

    def close(self) -> None:
        """Weights that the device has are lost: take them before."""
        self._views.clear()
        self._outputs, self._updates, self._large = [], [], []
        self._function = _closed
        self._leave_host_alone()
        self.executor.close()
        self.module.close()
