"""torch's own database of ops and sample arguments: every op gives what torch gives, and so do its gradients."""

import sys
import types
import unittest
import warnings

import pytest
import torch

import poptorch
from support import _check_training, _Function, assert_same, tensors

SAMPLES = 4  # of each op and type


def _database() -> list:
    """torch.testing's list of ops; empty where torch comes without it."""
    if "expecttest" not in sys.modules:  # torch.testing wants it, but not for this
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase, stand_in.ACCEPT = unittest.TestCase, False
        sys.modules["expecttest"] = stand_in
    arguments, sys.argv = sys.argv, sys.argv[:1]
    default = torch.get_default_dtype()
    try:
        from torch.testing._internal.common_methods_invocations import op_db
        return list(op_db)
    except ImportError:
        return []
    finally:
        torch.set_default_dtype(default)
        sys.argv = arguments


#: Ops that are not there: decompositions of matrices, Fourier transforms, rare functions, ...
UNSUPPORTED = {
    "cholesky", "cholesky_inverse", "cholesky_solve", "symeig", "geqrf", "lu", "lu_unpack", "lu_solve", "matrix_exp",
    "ormqr", "qr", "triangular_solve", "pinverse", "svd", "frexp", "nextafter", "igamma", "igammac", "histogram",
    "histogramdd", "segment_reduce", "stft", "istft", "polygamma", "special.polygamma", "special.zeta", "svd_lowrank",
    "pca_lowrank", "to_sparse", "cdouble", "cfloat", "chalf", "complex", "polar"}
#: ... whose results' shapes depend on values, which no compiled model can have ...
BY_VALUES = {"masked_select", "nonzero", "argwhere", "unique", "unique_consecutive", "resize_", "resize_as_", "narrow",
             "tensor_split", "bincount", "repeat_interleave", "nn.functional.one_hot"}
#: ... that draw other random numbers than torch, or give what was in memory ...
RANDOM = {"uniform", "normal", "bernoulli", "multinomial", "randn", "randn_like", "rand_like", "randint",
          "randint_like", "empty", "empty_like", "new_empty", "new_empty_strided", "nn.functional.rrelu",
          "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "nn.functional.dropout",
          "nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout",
          "nn.functional._scaled_dot_product_attention", "nn.functional.alpha_dropout"}
#: ... or where torch leaves open which of equal elements it finds, or a type is narrowed on the device.
OTHERWISE = {"topk", "kthvalue", "mode", "bfloat16", "aminmax", "addr", "norm", "native_batch_norm",
             "native_layer_norm", "nn.functional.layer_norm"}
#: Gradients that torch defines in other ways: through what an op changes in place, or of ends of intervals.
UNTRAINED = {"as_strided_scatter", "nn.functional.embedding", "nn.functional.embedding_bag", "nn.functional.ctc_loss"}
#: Of floating point numbers only (layers), or where orders of equal whole numbers are left open.
FLOATING_ONLY = {"addmm", "addmv", "addbmm", "baddbmm", "sort", "argsort"}
#: Families with a prefix that are not tried.
PREFIXES = ("fft.", "linalg.", "sparse.", "jiterator", "masked.", "special.", "_masked.", "ops.", "signal.")
TRIED_IN_FAMILIES = {"linalg.vector_norm", "linalg.cross", "special.entr", "special.erfcx", "special.i0e", "special.i1",
                     "special.i1e", "special.log_ndtr", "special.ndtr", "special.ndtri", "special.xlog1py"}

_SKIPPED = UNSUPPORTED | BY_VALUES | RANDOM | OTHERWISE
OPS = [op for op in _database()
       if op.name not in _SKIPPED and (op.name in TRIED_IN_FAMILIES or not op.name.startswith(PREFIXES))]


def _label(op) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def _rebuilt(structure, elements):
    """The structure with its tensors taken from an iterator."""
    if isinstance(structure, torch.Tensor):
        return next(elements)
    if isinstance(structure, (tuple, list)):
        return type(structure)(_rebuilt(e, elements) for e in structure)
    if isinstance(structure, dict):
        return {k: _rebuilt(e, elements) for k, e in structure.items()}
    return structure


class _Sample:
    """A call of an op as a function of the tensors among its arguments."""

    def __init__(self, op, sample) -> None:
        self.op = op
        self.args, self.kwargs = (sample.input, ) + tuple(sample.args), sample.kwargs
        self.inputs = tensors([list(self.args), self.kwargs])

    def __call__(self, *inputs):
        elements = iter(inputs)
        return self.op(*_rebuilt(self.args, elements), **_rebuilt(self.kwargs, elements))

    def expected(self):
        """What torch gives; None where it gives nothing that could be compared."""
        if not self.inputs or any(t.is_complex() for t in self.inputs):
            return None
        try:
            results = tensors(self(*[t.clone() for t in self.inputs]))
        except (RuntimeError, TypeError, IndexError, ValueError):
            return None
        return results if results and not any(t.is_complex() for t in results) else None

    def has_gradients(self) -> bool:
        """Whether torch can differentiate it by all its floating inputs."""
        inputs = [t.clone().requires_grad_(t.is_floating_point()) for t in self.inputs]
        try:
            sum(y.sum() for y in tensors(self(*inputs)) if y.is_floating_point()).backward()
        except (RuntimeError, AttributeError):
            return False
        return all(t.grad is not None for t in inputs if t.is_floating_point())


def _samples(op, dtype: torch.dtype) -> list:
    is_layer = op.name.startswith("nn.functional.") or op.name in FLOATING_ONLY
    if not op.supports_dtype(dtype, "cpu") or (is_layer and not dtype.is_floating_point):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = []
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            found.append(_Sample(op, sample))
            if len(found) == SAMPLES:
                break
        return found


def _check(sample: _Sample, train: bool) -> None:
    expected = sample.expected()
    if expected is None:
        return
    model = poptorch.inferenceModel(_Function(sample))
    found = tensors(model(*[t.clone() for t in sample.inputs]))
    model.destroy()
    assert_same(found, expected, 1e-4, 1e-4, "result")
    narrowed = {torch.int64: torch.int32, torch.float64: torch.float32}
    for y, e in zip(found, expected):
        assert y.dtype in (e.dtype, narrowed.get(e.dtype)), f"type {y.dtype}, expected {e.dtype}"
    if train and any(y.is_floating_point() for y in expected) and sample.has_gradients():
        _check_training(_Function(sample), sample.inputs, expected, False, 1e-3, 1e-3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPS, ids=_label)
def test_op(op):
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.int64, torch.bool):
        for sample in _samples(op, dtype):
            _check(sample, train=dtype is torch.float32 and op.name not in UNTRAINED)
