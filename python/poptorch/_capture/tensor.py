"""IpuTensor: what forward() computes with while a model is captured. It has a shape and a type, but no data."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Optional, Tuple

import torch
from torch.utils.hooks import RemovableHandle

from .._errors import createPoptorchError
from .._logging import logger
from .graph import Slot

_active = threading.local()


def current() -> Any:
    """The capture in progress in this thread, or None."""
    return getattr(_active, "capture", None)


def set_current(capture: Any) -> Any:
    """Make it the capture in progress; the one that was before."""
    before, _active.capture = current(), capture
    return before


def required(what: Any) -> Any:
    """The capture in progress. Error: there is none, though `what` needs it."""
    capture = current()
    if capture is None:
        raise createPoptorchError(f"{what} was called with a tensor of a model that is not being compiled any more: "
                                  "tensors made in forward() cannot be kept and used outside of it")
    return capture


class Cell:
    """Memory as torch would have it: tensors that are views of one another share it.

    :ivar slot: what it holds now; :ivar version: how often it was changed.
    :ivar home: the block it was made in; None: it is there from the start.
    """

    __slots__ = ("slot", "version", "kept", "input", "home")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.version = 0
        self.kept: Any = None
        self.input: Optional[int] = None
        self.home = slot.block


def _no_data(what: str) -> Exception:
    capture = current()
    where = capture.where() if capture is not None else ""
    at = f" at {where}" if where else ""
    return createPoptorchError(
        f"{what} needs the value of a tensor on the IPU{at}, which is not known while the model is compiled: "
        "control flow and Python numbers cannot depend on it. Keep it a tensor (torch.where, poptorch.cond, "
        "poptorch.for_loop), or compute it on the host and pass it as an argument.")


class IpuTensor(torch.Tensor):
    """A tensor on the IPU: shape, type and strides of a tensor, without data."""

    @staticmethod
    def __new__(cls, meta: torch.Tensor, cell: Cell, views: Tuple[Any, ...], slot: Slot) -> "IpuTensor":
        tensor = torch.Tensor._make_wrapper_subclass(cls, meta.size(), strides=meta.stride(),
                                                     storage_offset=meta.storage_offset(), dtype=meta.dtype,
                                                     layout=meta.layout, device="ipu:0", requires_grad=False)
        tensor._meta = meta
        tensor._cell = cell
        tensor._views = views
        tensor._slot = slot
        tensor._seen = cell.version
        return tensor

    def __init__(self, *args: Any) -> None:
        super().__init__()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        return required(func).call(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        name = "Parameter containing: tensor" if getattr(self, "_is_param", False) else "tensor"
        dtype = f", dtype={self._meta.dtype}" if self._meta.dtype is not torch.get_default_dtype() else ""
        return f"{name}(<unavailable>, size={tuple(self._meta.shape)}, device='ipu:0'{dtype})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: dict) -> "IpuTensor":
        return self.clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise _no_data("Saving or copying")

    @property
    def data(self) -> "IpuTensor":
        return self.detach()

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        required("data = ...").replace(self, value)

    @property
    def requires_grad(self) -> bool:
        """Whether a parameter that is trained has a part in it."""
        return self._slot.has_gradient

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> "IpuTensor":
        """For torch.autograd.grad in forward(); parameters that are trained have gradients anyway."""
        capture = current()
        if capture is not None and requires_grad:
            capture.want_gradient(self)
        return self

    def retain_grad(self) -> None:
        logger.warning("retain_grad() does nothing in a model for the IPU: poptorch.Options.anchorTensor shows gradients")

    def register_hook(self, hook: Any) -> RemovableHandle:
        """`hook` is called with the gradient of what uses the tensor from now on, and may return another."""
        from .gradients import hook as attach
        attach(required("register_hook"), self, hook)
        return RemovableHandle(OrderedDict())

    # ---- values: known of constants only

    def _known(self, what: str) -> torch.Tensor:
        capture = current()
        value = capture.known_value(self) if capture is not None else None
        if value is None:
            raise _no_data(what)
        return value

    def item(self) -> Any:
        return self._known(".item()").item()

    def tolist(self) -> Any:
        return self._known(".tolist()").tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        return self._known(".numpy()").numpy(*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._known("Converting to a numpy array").__array__(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self._known("bool(), or `if`,"))

    def __int__(self) -> int:
        return int(self._known("int()"))

    def __float__(self) -> float:
        return float(self._known("float()"))

    def __index__(self) -> int:
        return self._known("Use as an index or size").__index__()

    def __complex__(self) -> complex:
        return complex(self._known("complex()"))

    def __contains__(self, element: Any) -> bool:
        return bool(self._known("`in`").eq(element).any())

    def backward(self, *args: Any, **kwargs: Any) -> None:
        raise createPoptorchError("backward() cannot be called in forward(): gradients are taken by "
                                  "poptorch.trainingModel, from the loss that forward() computes")


IpuTensor.__name__ = "Tensor"  # as torch's messages about arguments, and users who look, know it
