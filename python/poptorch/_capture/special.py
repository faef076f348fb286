"""Calls that a capture treats in a way of its own: factories, indexing, moves between host and IPU."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

from .._errors import createPoptorchError
from .._logging import logger
from .indexing import getitem, select_at, setitem, slice_at
from .tensor import IpuTensor, _no_data

FUNCTIONS: Dict[Callable, Callable] = {}
OPS: Dict[str, Callable] = {}

#: Functions that make tensors on the IPU unless told where.
FACTORIES = tuple(getattr(torch, name) for name in (
    "arange", "empty", "eye", "full", "full_like", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn",
    "randperm", "range", "tensor", "zeros", "zeros_like"))


def _function(*functions: Callable) -> Callable:

    def register(f: Callable) -> Callable:
        for each in functions:
            FUNCTIONS[each] = f
        return f

    return register


def _op(*names: str) -> Callable:

    def register(f: Callable) -> Callable:
        for name in names:
            OPS[name] = f
        return f

    return register


def _has_tensor(args: tuple) -> bool:
    return any(isinstance(a, torch.Tensor) for a in args)


@_function(*(f for f in FACTORIES if f is not torch.tensor))
def _factory(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    if kwargs.get("device") is not None:
        return NotImplemented
    if func is torch.normal and (_has_tensor(args) or _has_tensor(tuple(kwargs.values()))):
        return NotImplemented
    if func in (torch.full_like, torch.zeros_like) and not isinstance(args[0] if args else None, IpuTensor):
        args = tuple(capture._stand_ins(args))
    return func(*args, **dict(kwargs, device=torch.device("ipu:0")))


@_function(torch.tensor)
def _tensor(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    device = kwargs.pop("device", None)
    if device is not None and torch.device(device).type != "ipu":
        return func(*args, **dict(kwargs, device=device))
    if args and isinstance(args[0], IpuTensor):
        logger.warning("To copy a tensor of the IPU use x.clone().detach() rather than torch.tensor(x)")
        return args[0].detach().clone()
    kwargs.pop("requires_grad", None)
    kwargs.pop("pin_memory", None)
    capture.busy = True
    try:
        data = func(*args, **dict(kwargs, device="cpu"))
    finally:
        capture.busy = False
    return capture.lift(data)


@_function(torch.Tensor.__getitem__)
def _getitem(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    x, index = args
    x = capture._stand_ins(x)
    if not isinstance(x, IpuTensor) and not _mentions_ipu(index):
        return NotImplemented
    return getitem(capture, x if isinstance(x, IpuTensor) else capture.lift(x), capture._stand_ins(index))


@_function(torch.Tensor.__setitem__)
def _setitem(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    x, index, value = args
    x, value = capture._stand_ins(x), capture._stand_ins(value)
    if not isinstance(x, IpuTensor):
        if not _mentions_ipu(index) and not isinstance(value, IpuTensor):
            return NotImplemented
        raise createPoptorchError(f"A tensor of the host is changed in place by values of the IPU at {capture.where()}. "
                                  "Make it a buffer (register_buffer) or a tensor made in forward()")
    return setitem(capture, x, capture._stand_ins(index), value)


def _mentions_ipu(index: Any) -> bool:
    if isinstance(index, (tuple, list)):
        return any(_mentions_ipu(i) for i in index)
    if isinstance(index, slice):
        return _mentions_ipu((index.start, index.stop, index.step))
    return isinstance(index, IpuTensor)


# ---- methods whose bindings ask for the device in C, which this torch has no support for ----

_GUARDED = {
    torch.Tensor.contiguous: "contiguous",
    torch.Tensor.copy_: "copy_",
    torch.Tensor.nonzero: "nonzero",
    torch.nonzero: "nonzero",
    torch.Tensor.__invert__: "bitwise_not",
}


@_function(*_GUARDED)
def _guarded(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    args = capture._stand_ins(args)
    if not _mentions_ipu(args):
        return NotImplemented
    if kwargs.pop("as_tuple", False):
        return torch.ops.aten.nonzero_numpy(*args)
    return getattr(torch.ops.aten, _GUARDED[func])(*args, **kwargs)


@_function(torch.Tensor.new_tensor)
def _new_tensor(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    like = capture._stand_ins(args[0])
    if not isinstance(like, IpuTensor):
        return NotImplemented
    dtype = kwargs.get("dtype") or like.dtype
    return _tensor(capture, torch.tensor, args[1:], {"dtype": dtype})


@_function(torch.Tensor.new)
def _new(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    like = capture._stand_ins(args[0])
    if not isinstance(like, IpuTensor):
        return NotImplemented
    if len(args) == 2 and isinstance(args[1], (list, tuple)) and not isinstance(args[1], torch.Size):
        return _tensor(capture, torch.tensor, args[1:], {"dtype": like.dtype})
    size = args[1] if len(args) == 2 and isinstance(args[1], torch.Size) else args[1:]
    return torch.ops.aten.new_zeros(like, list(size))


@_function(torch.Tensor.to)
def _to(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    """To the IPU a tensor of the host is lifted; one that is there only changes its type."""
    device, others = _device_among(args[1:], kwargs)
    if device is None or device.type != "ipu":
        return NotImplemented
    x = capture._stand_ins(args[0])
    if not isinstance(x, IpuTensor):
        x = capture.lift(x)
    dtype = others.get("dtype")
    if dtype is None or (dtype == x.dtype and not others.get("copy", False)):
        return x.clone() if others.get("copy", False) else x
    return torch.ops.aten._to_copy(x, dtype=dtype)


def _device_among(args: tuple, kwargs: dict) -> Any:
    """The device that .to(...) names, None if none, and the other arguments."""
    device, others = kwargs.get("device"), dict(kwargs)
    for a in args:
        if isinstance(a, (str, torch.device)):
            device = a
        elif isinstance(a, torch.dtype):
            others["dtype"] = a
        elif isinstance(a, torch.Tensor):
            device, others["dtype"] = a.device, a.dtype
    return (torch.device(device) if device is not None else None), others


@_function(torch.narrow, torch.Tensor.narrow)
def _narrow(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A start that only the run knows; a number is left to torch."""
    x, dim, start, length = (args + tuple(kwargs[k] for k in ("dim", "start", "length")[max(0, len(args) - 1):]))[:4]
    x = capture._stand_ins(x)
    if not isinstance(start, IpuTensor) or not isinstance(x, IpuTensor):
        return NotImplemented
    return slice_at(capture, x, dim, start, length)


@_function(torch.select, torch.Tensor.select)
def _select(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    """An index that only the run knows; a number is left to torch."""
    x, dim, index = (args + tuple(kwargs[k] for k in ("dim", "index")[max(0, len(args) - 1):]))[:3]
    x, index = capture._stand_ins(x), capture._stand_ins(index)
    if not isinstance(index, IpuTensor) or not isinstance(x, IpuTensor):
        return NotImplemented
    return select_at(capture, x, dim % x.dim(), index)


@_function(torch.take_along_dim, torch.Tensor.take_along_dim)
def _take_along_dim(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    """int32 indices as int64: torch looks at their type before the op is seen."""
    args = tuple(_long(capture, a) if at == 1 else a for at, a in enumerate(args))
    return func(*args, **{k: _long(capture, v) if k == "indices" else v for k, v in kwargs.items()})


def _long(capture: Any, index: torch.Tensor) -> torch.Tensor:
    index = capture._stand_ins(index)
    return index.long() if index.dtype is torch.int32 else index


@_function(torch.tensor_split, torch.Tensor.tensor_split)
def _tensor_split(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Places to split at that are constants, as tensors made in forward() are: torch takes those of the host only."""

    def known(value: Any) -> Any:
        value = capture._stand_ins(value)
        return value.tolist() if isinstance(value, torch.Tensor) else value

    args = tuple(known(a) if at == 1 else a for at, a in enumerate(args))
    return func(*args, **{k: known(v) if "indices" in k else v for k, v in kwargs.items()})


@_function(torch.nn.functional.embedding)
def _embedding(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    """A table whose rows are shortened changes in place, unseen by autograd; others are left to torch."""
    names = ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse")
    given = {**dict(zip(names, args)), **kwargs}
    if given.get("max_norm") is None:
        return NotImplemented
    return capture.call_named("poptorch::embedding_renormed",
                              (given["input"], given["weight"], given.get("padding_idx"), given["max_norm"],
                               given.get("norm_type", 2.0), given.get("scale_grad_by_freq", False)))


@_op("aten::_local_scalar_dense", "aten::is_nonzero", "aten::item")
def _item(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    return args[0].item()


@_op("aten::equal", "aten::allclose")
def _compare(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    raise _no_data(f"torch.{schema.packet[6:]}")


@_op("aten::is_same_size", "aten::_has_compatible_shallow_copy_type", "aten::is_set_to")
def _ask(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    return tuple(args[0].shape) == tuple(args[1].shape)


@_op("aten::_to_copy")
def _to_copy(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    device = kwargs.get("device")
    if device is not None and torch.device(device).type not in ("ipu", "cpu"):
        raise createPoptorchError(f"A tensor cannot be moved to {device} in forward() (at {capture.where()})")
    if isinstance(args[0], IpuTensor):
        return NotImplemented
    dtype = kwargs.get("dtype")
    return capture.lift(args[0].to(dtype) if dtype is not None else args[0])


@_op("aten::copy_")
def _copy(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    target, source = args[0], args[1]
    if isinstance(target, IpuTensor) and isinstance(source, IpuTensor) and target._cell is source._cell and \
            target._views == source._views:
        return target
    return NotImplemented


@_op("aten::lift_fresh", "aten::lift")
def _lift(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    return args[0] if isinstance(args[0], IpuTensor) else NotImplemented


@_op("aten::resize_", "aten::resize_as_", "aten::set_")
def _resize(capture: Any, schema: Any, args: tuple, kwargs: dict) -> Any:
    size = args[1] if len(args) > 1 else None
    size = tuple(size.shape) if isinstance(size, torch.Tensor) else size
    if size is not None and tuple(size) == tuple(args[0].shape):
        return args[0]
    raise createPoptorchError(f"{schema.packet} at {capture.where()}: the shape of a tensor cannot change on the IPU")


@_function(torch.autograd.grad)
def _grad(capture: Any, func: Callable, args: tuple, kwargs: dict) -> Any:
    if not _mentions_ipu(capture._stand_ins((args, tuple(kwargs.values())))):
        return NotImplemented
    from .gradients import grad
    return grad(capture, *args, **kwargs)
