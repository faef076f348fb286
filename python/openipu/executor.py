"""Modules and executors of libipu (ipu/module.h, ipu/executor.h): a network compiled, trained and run.

    module   = Module(lambda network, inputs: network.output(inputs[0], "y"), ["x"])
    executor = Executor(module, ExecutorOptions(device_iterations=2))
    executor.call([x])["y"]                  # x: an array of any framework; a copy of an output
    executor.run(arrays, n)                  # arrays: (Array * n) over the caller's memory
    dict(executor.outputs())["y"]            # an Array borrowed until the next run

Calls release the interpreter's lock. A module is used by one thread at a time, together with its executors.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from ctypes import POINTER, byref, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint32, c_void_p
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .abi import Record
from .arrays import lend, numpy_over
from .error import Error
from .library import Array, ForwardFn, NamedArray, Npz, ProgressFn, RawValue, check, declare, finalizer, lib
from .network import Network, Value
from .settings import ExecutorOptions, Optimizer, Training

Forward = Callable[[Network, List[Value]], None]
Progress = Callable[[int, int], None]

declare("ipu_module_lend_weight", c_int, [c_void_p, c_char_p, POINTER(Array)])
declare("ipu_module_is_behind", c_bool, [c_void_p])
declare("ipu_module_version", c_int64, [c_void_p])
declare("ipu_executor_update_state", c_int, [c_void_p, POINTER(Npz)])
declare("ipu_executor_pool_create", c_int, [c_int64, POINTER(c_void_p)])
declare("ipu_executor_pool_destroy", None, [c_void_p])
declare("ipu_executor_pool_use", c_int, [c_void_p, c_void_p])
declare("ipu_executor_pool_take_excess", c_void_p, [c_void_p])
declare("ipu_executor_set_seed", c_int, [c_void_p, c_uint32])
declare("ipu_options_create", c_int, [POINTER(c_void_p)])
declare("ipu_options_set", c_int, [c_void_p, c_char_p, c_char_p])
declare("ipu_options_destroy", None, [c_void_p])
declare("ipu_executor_fold_reason", c_char_p, [c_void_p])
declare("ipu_cost_program_at", c_bool, [c_void_p, c_int64, c_void_p])
declare("ipu_cost_destroy", None, [c_void_p])
declare("ipu_executor_keep_times", None, [c_void_p, c_bool])
declare("ipu_executor_input_times", c_void_p, [c_void_p, c_size_t, POINTER(c_size_t)])
declare("ipu_executor_output_times", c_void_p, [c_void_p, c_size_t, POINTER(c_size_t)])
declare("ipu_engine_device", c_void_p, [c_void_p])
declare("ipu_engine_read_replica", c_int, [c_void_p, c_char_p, c_int64, c_void_p, c_size_t])
declare("ipu_engine_write_replica", c_int, [c_void_p, c_char_p, c_int64, c_void_p, c_size_t])
declare("ipu_device_id", c_int, [c_void_p])
declare("ipu_device_n_ipus", c_int64, [c_void_p])


class _CExecutorOptions(Record):
    _name_ = "ipu_executor_options"


class _COptimizer(Record):
    _name_ = "ipu_nn_optimizer"


class _CGroup(Record):
    _name_ = "ipu_nn_group"


class _CTraining(Record):
    _name_ = "ipu_nn_training"


class _CTime(Record):
    _name_ = "ipu_executor_time"


class _CCycles(Record):
    _name_ = "ipu_cost_cycles"


class _CWriteOptions(Record):
    _name_ = "ipu_module_write_options"


def fill(structure: Any, source: object) -> Any:
    """Plain fields of the same names."""
    for name, kind in structure._fields_:
        if kind in (c_int64, c_int, c_bool, c_double, c_uint32, c_size_t) and hasattr(source, name):
            setattr(structure, name, getattr(source, name))
    return structure


def _optimizer_of(optimizer: Optimizer) -> _COptimizer:
    return fill(_COptimizer(), optimizer)


def _pattern_of(name: str) -> str:
    """The fnmatch pattern that a name alone matches."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", name)


def training_of(training: Training) -> _CTraining:
    c = fill(_CTraining(), training)
    c.optimizer = _optimizer_of(training.optimizer)
    groups = (_CGroup * max(1, len(training.groups)))()
    for own, group in zip(groups, training.groups):
        own.parameters = " ".join(map(_pattern_of, group.parameters)).encode()
        own.optimizer = _optimizer_of(group.optimizer)
        own.frozen = group.frozen
    c.groups = groups  # the pointer keeps them alive
    c.n_groups = len(training.groups)
    return c


class _EngineOptions:
    """ipu_options, alive as long as the executor that borrows them."""

    def __init__(self, settings: Dict[str, str]):
        self.pointer = c_void_p()
        check(lib().ipu_options_create(byref(self.pointer)))
        for key, value in settings.items():
            check(lib().ipu_options_set(self.pointer, key.encode(), str(value).encode()))

    def close(self) -> None:
        pointer, self.pointer = self.pointer, None
        if pointer:
            lib().ipu_options_destroy(pointer)

    __del__ = finalizer(close)


def executor_options_of(options: ExecutorOptions, keep: List[object]) -> _CExecutorOptions:
    """The C structure; what it points to is in `keep`."""
    c = fill(_CExecutorOptions(), options)
    c.target = options.target.encode() if options.target else None
    c.cache_folder = None if options.cache_folder is None else options.cache_folder.encode()
    if options.stage_ipus:
        c.stage_ipus = (c_int64 * len(options.stage_ipus))(*options.stage_ipus)
        c.n_stage_ipus = len(options.stage_ipus)
    if options.comm is not None:
        c.comm = options.comm.pointer
    if options.engine:
        engine = _EngineOptions(options.engine)
        c.engine = engine.pointer
        keep.append(engine)
    keep.append(c)  # and with it what its pointers keep alive
    return c


class _Watch:
    """Calls a function while this thread compiles. What it raises, Ctrl-C too, stops the compilation."""

    def __init__(self, function: Progress):
        self._function = function
        self._callback = ProgressFn(self._call)
        self._raised: Optional[BaseException] = None

    def _call(self, _user: Optional[int], done: int, total: int) -> bool:
        try:
            self._function(done, total)
        except BaseException as e:  # pylint: disable=broad-except
            self._raised = e  # C cannot pass it on
        return self._raised is None

    def __enter__(self) -> None:
        lib().ipu_set_compile_progress(self._callback, None)

    def __exit__(self, _kind: object, error: Optional[BaseException], _traceback: object) -> None:
        lib().ipu_set_compile_progress(ProgressFn(), None)
        if isinstance(error, Error) and error.status == "INTERRUPTED":
            raise self._raised or KeyboardInterrupt() from None  # none: it came while the call returned


class _ModuleHandle:
    """ipu_module, destroyed when neither the Module nor an Executor of it needs it: interpreters free in any order."""

    def __init__(self) -> None:
        self.pointer = c_void_p()
        self.lent: Dict[str, object] = {}  # owners of memory that the library uses
        self._n_users = 1

    def use(self) -> None:
        self._n_users += 1

    def take_back(self) -> None:
        """What was lent is the caller's alone again, with what it holds now."""
        for name in self.lent:
            check(lib().ipu_module_lend_weight(self.pointer, name.encode(), None))
        self.lent.clear()

    def drop(self) -> None:
        self._n_users -= 1
        if self._n_users == 0 and self.pointer:
            lib().ipu_module_destroy(self.pointer)
            self.pointer = None
            self.lent.clear()


class Module:
    """A network as a function that builds it, and its weights on the host.

    ``forward(network, inputs)`` is called whenever an executor compiles; what it raises, compiling raises.
    """

    def __init__(self, forward: Forward, input_names: Sequence[str] = ()):
        self._forward = forward
        self._raised: Optional[BaseException] = None
        self._network: Optional[Network] = None  # while it is compiled: gradients may call back
        build = weakref.WeakMethod(self._build)  # no cycle: it is freed when it is no longer used
        self._callback = ForwardFn(lambda *args: build()(*args))
        self.handle = _ModuleHandle()
        check(lib().ipu_module_create(self._callback, None, byref(self.handle.pointer)))
        self.pointer = self.handle.pointer
        self._is_behind, self._version = lib().ipu_module_is_behind, lib().ipu_module_version  # asked in every call
        if input_names:
            names = (c_char_p * len(input_names))(*[name.encode() for name in input_names])
            check(lib().ipu_module_name_inputs(self.pointer, names, len(input_names)))

    def _build(self, model: int, raw: object, n: int, _user: Optional[int]) -> None:
        try:
            self._network = network = Network(model)
            self._forward(network, [network.value(RawValue(raw[i].builder, raw[i].id)) for i in range(n)])
        except BaseException as e:  # pylint: disable=broad-except
            self._raised = e  # C cannot pass it on: see check_built

    def check_built(self, status: int) -> None:
        """Raise what ``forward`` raised while the library built the network, or else the library's own error."""
        raised, self._raised = self._raised, None
        network, self._network = self._network, None
        if raised is None and network is not None:
            raised = network.raised
        if raised is not None:
            raise raised
        check(status)

    def weight_names(self) -> List[str]:
        """Of parameters and states; none before an executor has compiled."""
        names = []
        name, array = c_char_p(), POINTER(Array)()
        for i in range(lib().ipu_module_n_weights(self.pointer)):
            check(lib().ipu_module_weight_at(self.pointer, i, byref(name), byref(array)))
            names.append(name.value.decode())
        return names

    def weight(self, name: str) -> Array:
        """The newest value, fetched from the device if need be; borrowed until the next run."""
        array = POINTER(Array)()
        check(lib().ipu_module_weight(self.pointer, name.encode(), byref(array)))
        return array.contents

    def is_behind(self) -> bool:
        """Whether a device has newer weights than the host's copies, which ``weight`` would fetch."""
        pointer = self.pointer
        return pointer is not None and self._is_behind(pointer)

    def version(self) -> int:
        """Of the host's copies: another number whenever they have changed, and never that of another module."""
        pointer = self.pointer
        return 0 if pointer is None else self._version(pointer)

    def set_weight(self, name: str, array: Array) -> None:
        """Copied; executors have it at their next run."""
        check(lib().ipu_module_set_weight(self.pointer, name.encode(), byref(array)))

    def lend_weight(self, name: str, array: Array, owner: object) -> bool:
        """Make `array`, memory of `owner`, the host's copy of a weight. False: the library cannot do so."""
        function = getattr(lib(), "ipu_module_lend_weight", None)
        if function is None:
            return False
        check(function(self.pointer, name.encode(), byref(array)))
        self.handle.lent[name] = owner
        return True

    def write_onnx(self, path: str, batch: int = 1) -> None:
        """The network as it is for inference of batches of that size, with the weights there are, as an ONNX file."""
        self.check_built(lib().ipu_module_write_onnx(self.pointer, byref(_CWriteOptions(batch=batch)), path.encode()))

    def take_back_weight(self, name: str) -> None:
        """Undo ``lend_weight``: the library's copy is its own again, with the value it has."""
        check(lib().ipu_module_lend_weight(self.pointer, name.encode(), None))
        self.handle.lent.pop(name, None)

    def close(self) -> None:
        """Nothing can be done with it afterwards."""
        if getattr(self, "pointer", None) is not None:
            self.pointer = None
            self.handle.drop()

    __del__ = finalizer(close)


class Executor:
    """A module compiled for a device: to train with ``training``, else for inference."""

    def __init__(self, module: Module, options: Optional[ExecutorOptions] = None,
                 training: Optional[Training] = None):
        self.module = module
        self.options = options or ExecutorOptions()
        self._shows = training is not None  # memory lent to the module is to hold what runs change, also unless asked
        self._kept: List[object] = []
        self._c_options = executor_options_of(self.options, self._kept)
        self.pointer = c_void_p()
        if training is None:
            status = lib().ipu_inference_model(module.pointer, byref(self._c_options), byref(self.pointer))
        else:
            status = lib().ipu_training_model(module.pointer, byref(self._c_options), byref(training_of(training)),
                                              byref(self.pointer))
        check(status)
        self._module_handle = module.handle
        self._module_handle.use()

    def _open(self) -> c_void_p:
        if not self.pointer:
            raise Error("this executor was closed: make another one")
        return self.pointer

    # ---- compiling and running

    def compile(self, arrays: object, n: int, progress: Progress = lambda done, total: None) -> None:
        """For arrays of these types and shapes; their data are not looked at. ``progress(done, total)`` is called
        meanwhile; what it raises stops compiling, and is raised."""
        with _Watch(progress):
            self.module.check_built(lib().ipu_executor_compile(self._open(), arrays, n))

    def is_compiled(self) -> bool:
        return lib().ipu_executor_is_compiled(self._open())

    def run(self, arrays: object, n: int) -> None:
        """One run over the arrays; compiles and attaches if need be."""
        self.module.check_built(lib().ipu_executor_run(self._open(), arrays, n))

    def call(self, inputs: Sequence[Any]) -> Dict[str, np.ndarray]:
        """One run on inputs of any framework (openipu.arrays.lend): copies of the outputs by their names."""
        lent = [lend(x, f"input {i}") for i, x in enumerate(inputs)]  # until the run has ended
        self.run((Array * max(1, len(lent)))(*[array for array, _ in lent]), len(lent))
        return {name: numpy_over(array).copy() for name, array in self.outputs()}

    def interrupt(self) -> None:
        """From any thread: stops the run in progress, or the next."""
        pointer = self.pointer
        if pointer:
            lib().ipu_executor_interrupt(pointer)

    def compile_seconds(self) -> Tuple[float, bool]:
        """How long compiling took, and whether the cache had it."""
        cached = c_bool()
        return lib().ipu_executor_compile_seconds(self._open(), byref(cached)), cached.value

    def fold_reason(self) -> str:
        """Why replicas do not run as one larger batch; "": they do, or it is not compiled."""
        return (lib().ipu_executor_fold_reason(self._open()) or b"").decode()

    def cycles(self) -> int:
        """What one run would take on the target, in cycles, as modelled."""
        cost, cycles = c_void_p(), _CCycles()
        self.module.check_built(lib().ipu_executor_cost(self._open(), None, byref(cost)))
        lib().ipu_cost_program_at(cost, 0, byref(cycles))
        lib().ipu_cost_destroy(cost)
        return cycles.total

    def keep_times(self, keep: bool = True) -> None:
        """Whether to measure, from the next run on, when inputs and outputs move."""
        lib().ipu_executor_keep_times(self._open(), keep)

    def input_times(self, i: int) -> List[Tuple[float, float]]:
        """Of input i in the last run: for each batch, in the order of the array, when it was asked for and complete."""
        return self._times(lib().ipu_executor_input_times, i)

    def output_times(self, i: int) -> List[Tuple[float, float]]:
        """Of output i likewise."""
        return self._times(lib().ipu_executor_output_times, i)

    def _times(self, function: Callable, i: int) -> List[Tuple[float, float]]:
        n = c_size_t()
        pointer = function(self._open(), i, byref(n))
        if not pointer:
            return []
        return [(time.begin, time.end) for time in (_CTime * n.value).from_address(pointer)]

    # ---- outputs

    def outputs(self) -> Iterator[Tuple[str, Array]]:
        """Names and arrays, in the order of their making. The memory is the same for all runs of what is compiled."""
        name = c_char_p()
        for i in range(lib().ipu_executor_n_outputs(self._open())):
            array = lib().ipu_executor_output_at(self._open(), i, byref(name))
            yield name.value.decode(), array.contents

    # ---- optimizer

    def set_rate(self, group: int, rate: float) -> None:
        check(lib().ipu_executor_set_rate(self._open(), group, rate))

    def set_training(self, training: Training) -> None:
        """Rates are set at once; if more has changed it is compiled again at the next run."""
        check(lib().ipu_executor_set_optimizer(self._open(), byref(training_of(training))))

    def n_steps(self) -> int:
        return lib().ipu_executor_n_steps(self._open())

    # ---- weights and states

    def copy_weights_to_host(self) -> None:
        check(lib().ipu_executor_copy_weights_to_host(self._open()))

    def copy_weights_to_device(self) -> None:
        check(lib().ipu_executor_copy_weights_to_device(self._open()))

    def write_weight(self, name: str, address: int, n_bytes: int) -> None:
        """One weight to the device alone, which it is attached to; of the device's type."""
        check(lib().ipu_engine_write(self.engine(), name.encode(), address, n_bytes))

    def state(self) -> "State":
        """A copy of all that a run changes."""
        state = State()
        check(lib().ipu_executor_get_state(self._open(), byref(state.npz)))
        return state

    def update_state(self, arrays: Dict[str, Array]) -> None:
        """Some of it, by the names that ``state`` gives; the rest stays as it is."""
        own = (NamedArray * max(1, len(arrays)))()
        for i, (name, array) in enumerate(arrays.items()):
            own[i].name = name.encode()
            own[i].array = array
        check(lib().ipu_executor_update_state(self._open(), byref(Npz(own, len(arrays)))))

    def set_seed(self, seed: int) -> None:
        """Let random ops begin anew, with this seed."""
        check(lib().ipu_executor_set_seed(self._open(), seed & 0xffffffff))

    def seeds(self) -> List[Tuple[int, int]]:
        """Of the random ops of each replica: the seed, and the runs that have drawn from it. The network has such ops,
        and it is attached."""
        found = []
        for replica in range(self.options.replicas):
            pair = (c_uint32 * 2)()
            check(lib().ipu_engine_read_replica(self.engine(), b"seed", replica, pair, ctypes.sizeof(pair)))
            found.append((pair[0], pair[1]))
        return found

    def set_seeds(self, seeds: Sequence[Tuple[int, int]]) -> None:
        """What ``seeds`` gave."""
        for replica, (seed, step) in enumerate(seeds):
            pair = (c_uint32 * 2)(seed & 0xffffffff, step & 0xffffffff)
            check(lib().ipu_engine_write_replica(self.engine(), b"seed", replica, pair, ctypes.sizeof(pair)))

    # ---- device

    def attach(self) -> None:
        check(lib().ipu_executor_attach(self._open()))

    def detach(self) -> None:
        check(lib().ipu_executor_detach(self._open()))

    def is_attached(self) -> bool:
        return lib().ipu_executor_is_attached(self._open())

    def device_id(self) -> int:
        """Of the device it is attached to; -1: none, or IPUs beyond those that are shown."""
        engine = self.engine()
        device = lib().ipu_engine_device(engine) if engine else None
        return lib().ipu_device_id(device) if device else -1

    def engine(self) -> Optional[int]:
        """ipu_engine, borrowed; None before it is compiled and attached."""
        return lib().ipu_executor_engine(self._open())

    def executable(self) -> Optional[int]:
        """ipu_executable, borrowed; None before it is compiled."""
        return lib().ipu_executor_executable(self._open())

    def close(self) -> None:
        """Weights reach the module first, but memory that it was lent only if it trains: what inference changes is shown to
        those who ask. Nothing can be done with it afterwards."""
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            if not self._shows and lib().ipu_module_is_behind(self._module_handle.pointer):
                self._module_handle.take_back()
            lib().ipu_executor_destroy(pointer)
            self._module_handle.drop()

    __del__ = finalizer(close)


class ExecutorPool:
    """Executors of one model, each of a module of its own. Whichever runs goes on where the one before was: with its states,
    and with weights that its runs have changed and its module has not been given."""

    def __init__(self, most: int):
        self.pointer = c_void_p()
        check(lib().ipu_executor_pool_create(most, byref(self.pointer)))

    def use(self, executor: Executor) -> List[int]:
        """It runs next; it is attached, if it is not the first. Those to be closed, by the values of their pointers."""
        check(lib().ipu_executor_pool_use(self.pointer, executor._open()))
        return list(iter(lambda: lib().ipu_executor_pool_take_excess(self.pointer), None))

    def close(self) -> None:
        """Executors are left as they are."""
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer:
            lib().ipu_executor_pool_destroy(pointer)

    __del__ = finalizer(close)


class State:
    """The arrays of ipu_executor_get_state, freed with it."""

    def __init__(self) -> None:
        self.npz = Npz()

    def __iter__(self) -> Iterator[Tuple[str, Array]]:
        for i in range(self.npz.n):
            entry = self.npz.arrays[i]
            yield entry.name.decode(), entry.array

    def close(self) -> None:
        lib().ipu_npz_free(byref(self.npz))

    __del__ = finalizer(close)


__all__ = ["Module", "Executor", "ExecutorPool", "State", "Error"]
