"""Orders of axes: programs whose channels come last, on a library whose channels come second.

    lay = Layouts(g)
    x = lay.of(g.input("x", "float32", (8, 28, 28, 1)))                 axes as the program has them: N H W C
    w = lay.keep("w", "float32", (3, 3, 1, 16), True, "HWIO", "OIHW")   stored as the library wants it
    y = lay.elementwise("relu", lay.conv(x, w, data="NHWC", padding=(1, 1)))
    y = lay.concat([y, y], axis=-1)                                     axes are always the program's
    g.output(lay.plain(y), "y")

A Laid value has the program's axes in whatever order they came to be in. Ops are told in the program's axes and are emitted
for the order that is there; a transpose is emitted only where another is needed: for the first convolution, and for what looks
at elements in their order (reshapes, products of matrices, outputs), once for each value.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .emitter import NUMBER, Emitter, axis_of
from .error import Error
from .network import Value

Operand = Union["Laid", Value, int, float, bool]


class Laid:
    """A value with axes in an order of its own: axis i of the program is axis order[i] of the value.

    :ivar shape: as the program has it.
    """

    __slots__ = ("value", "order", "shape")

    def __init__(self, value: Value, order: Sequence[int]) -> None:
        self.value = value
        self.order = tuple(order)
        self.shape = tuple([value.shape[p] for p in self.order])

    @property
    def rank(self) -> int:
        return len(self.order)

    @property
    def type(self) -> str:
        return self.value.type

    @property
    def is_plain(self) -> bool:
        """Whether its axes are in the program's order."""
        return self.order == tuple(range(len(self.order)))

    def __repr__(self) -> str:
        return f"Laid({self.type}{list(self.shape)} in {self.value!r})"


def _inverse(order: Sequence[int]) -> List[int]:
    """The program's axis at each place."""
    at = [0] * len(order)
    for axis, place in enumerate(order):
        at[place] = axis
    return at


def order_of(axes: str, stored: str) -> Tuple[int, ...]:
    """The order of a value whose axes have these names in the program, and are stored in that order: "NHWC", "NCHW"."""
    if sorted(axes) != sorted(stored) or len(set(axes)) != len(axes):
        raise Error(f"axes {axes!r} cannot be stored as {stored!r}: expected the same letters, each once")
    return tuple([stored.index(axis) for axis in axes])


def channels_first(axes: str) -> str:
    """The order that convolutions, pools and norms want: "NHWC" is "NCHW"."""
    if "N" not in axes or "C" not in axes:
        raise Error(f"axes {axes!r}: expected N, C and the spatial ones, such as \"NHWC\"")
    return "NC" + axes.replace("N", "").replace("C", "")


def same_padding(size: Sequence[int], kernel: Sequence[int], stride: Optional[Sequence[int]] = None,
                 dilation: Optional[Sequence[int]] = None) -> List[int]:
    """The padding that TensorFlow calls SAME, for spatial axes of these extents: as many results as size / stride, rounded up,
    with the odd element after. Before all axes, then after all, as convolutions and pools take it."""
    before, after = [], []
    for i, (n, k) in enumerate(zip(size, kernel)):
        s, d = stride[i] if stride else 1, dilation[i] if dilation else 1
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        before.append(total // 2)
        after.append(total - total // 2)
    return before + after


class Layouts:
    """Emits ops on Laid values.

    :ivar stored: for each kept weight the order that its array is stored in.
    """

    def __init__(self, g: Emitter) -> None:
        self.g = g
        self.stored: Dict[str, Tuple[int, ...]] = {}

    # ---- values ----

    def of(self, value: Union[Laid, Value], axes: str = "", stored: str = "") -> Laid:
        """A value with its axes in the program's order, or stored in another: of(v, "NHWC", "NCHW")."""
        if isinstance(value, Laid):
            return value
        return Laid(value, order_of(axes, stored) if stored else range(value.rank))

    def keep(self, name: str, dtype: Any, shape: Sequence[int], trained: bool, axes: str = "", stored: str = "",
             **options: Any) -> Laid:
        """A parameter or state that the program has with this shape and these axes; `to_store` and `from_store` are for its
        arrays."""
        order = order_of(axes, stored) if stored else tuple(range(len(shape)))
        value = self.g.keep(name, dtype, [shape[axis] for axis in _inverse(order)], trained, **options)
        self.stored[name] = order
        return Laid(value, order)

    def to_store(self, name: str, array: np.ndarray) -> np.ndarray:
        """The program's array of a weight as the library keeps it."""
        return np.ascontiguousarray(np.transpose(array, _inverse(self.stored[name]))) if name in self.stored else array

    def from_store(self, name: str, array: np.ndarray) -> np.ndarray:
        """The library's array of a weight as the program has it: a view of it."""
        return np.transpose(array, self.stored[name]) if name in self.stored else array

    def plain(self, x: Union[Laid, Value]) -> Value:
        """The value with its axes in the program's order, for what looks at elements in their order."""
        x = self.of(x)
        return self.in_order(x, range(x.rank)).value

    def in_order(self, x: Union[Laid, Value], order: Sequence[int]) -> Laid:
        """The same value in another order. Axes of extent 1 move for nothing."""
        x = self.of(x)
        order = tuple(order)
        return x if x.order == order else Laid(self._arranged(x, order), order)

    def _arranged(self, x: Laid, order: Sequence[int]) -> Value:
        """The value of `x` in an order of as many axes, or more: those in front have extent 1."""
        more = len(order) - x.rank
        there = [axis + more for axis in _inverse(x.order)]
        shape = (1, ) * more + x.shape
        at = _inverse(order)
        wanted = [axis for axis in at if axis >= more]
        value = x.value
        if [a for a in there if shape[a] != 1] != [a for a in wanted if shape[a] != 1]:
            value = self._transposed(value, [there.index(axis) for axis in wanted])
        return self.g.reshape(value, [shape[axis] for axis in at])

    def _transposed(self, value: Value, perm: List[int]) -> Value:
        """Once for each value and order."""
        key = ("transpose", value.id, *perm)
        known = self.g.model.recall(key)
        if known is None:
            known = self.g.transpose(value, perm)
            self.g.model.remember(key, known)
        return known

    # ---- ops that do not look at the order ----

    def _common(self, operands: Sequence[Operand]) -> Tuple[int, ...]:
        """The order that operands meet in: that of the largest of those with the most axes. Among equally large ones one
        that has left the program's order goes before: it has come from a convolution, and others may follow."""
        laid = [self.of(v) for v in operands if not isinstance(v, NUMBER)]
        if not laid:
            raise Error("expected a value among the operands, found numbers alone")
        rank = max(v.rank for v in laid)
        best = max((v for v in laid if v.rank == rank), key=lambda v: (v.value.n_elements, not v.is_plain))
        return best.order

    def elementwise(self, op: str, *operands: Operand, **attributes: Any) -> Laid:
        """An op of elements alone, with the rule of broadcasting in the program's axes."""
        order = self._common(operands)
        values = [v if isinstance(v, NUMBER) else self._spread(self.of(v), order) for v in operands]
        return Laid(self.g.emit(op, values, **attributes), order)

    def _spread(self, x: Laid, order: Tuple[int, ...]) -> Value:
        return x.value if x.rank == 0 else self._arranged(x, order)

    def apply(self, function: Any, x: Union[Laid, Value]) -> Laid:
        """What a function of one Value, which keeps its shape, gives: a row of a table of ops of elements, a cast."""
        x = self.of(x)
        return Laid(function(x.value), x.order)

    def cast(self, x: Union[Laid, Value], dtype: Any) -> Laid:
        """In another type."""
        return self.apply(lambda value: self.g.cast(value, dtype), x)

    # ---- ops along axes ----

    @staticmethod
    def _axis(x: Laid, axis: int) -> int:
        return x.order[axis_of(axis, x.shape)]

    def along(self, op: str, x: Union[Laid, Value], axis: int, **attributes: Any) -> Laid:
        """An op along one axis that keeps the shape: softmax, cumsum, ..."""
        x = self.of(x)
        return Laid(self.g.emit(op, [x.value], axis=self._axis(x, axis), **attributes), x.order)

    def reduce(self, op: str, x: Union[Laid, Value], axes: Optional[Sequence[int]] = None, keep_dims: bool = False) -> Laid:
        """reduce_sum, ... over axes (None: all)."""
        x = self.of(x)
        places = list(range(x.rank)) if axes is None else sorted({self._axis(x, axis) for axis in axes})
        if not places:
            return x
        value = self.g.emit(op, [x.value], axes=places, keep_dims=keep_dims)
        return Laid(value, x.order if keep_dims else _without(x.order, places))

    def arg(self, op: str, x: Union[Laid, Value], axis: int, keep_dims: bool = False, **attributes: Any) -> Laid:
        """argmax or argmin along an axis."""
        x = self.of(x)
        place = self._axis(x, axis)
        value = self.g.emit(op, [x.value], axis=place, keep_dims=keep_dims, **attributes)
        return Laid(value, x.order if keep_dims else _without(x.order, [place]))

    def concat(self, values: Sequence[Union[Laid, Value]], axis: int) -> Laid:
        """Joined along an axis."""
        order = self._common(values)
        laid = [self.in_order(v, order) for v in values]
        return Laid(self.g.emit("concat", [v.value for v in laid], axis=self._axis(laid[0], axis)), order)

    def pad(self, x: Union[Laid, Value], before: Sequence[int], after: Sequence[int], op: str = "pad",
            **attributes: Any) -> Laid:
        """`pad`, or with op="pad_around" its other modes; so many elements before and after each axis."""
        x = self.of(x)
        at = _inverse(x.order)
        if len(before) != x.rank or len(after) != x.rank:
            raise Error(f"padding of {len(before)} and {len(after)} axes; the value has {x.rank}")
        if not any(before) and not any(after):
            return x
        before, after = [before[a] for a in at], [after[a] for a in at]
        return Laid(self.g.emit(op, [x.value], before=before, after=after, **attributes), x.order)

    def slice(self, x: Union[Laid, Value], axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
              step: Optional[Sequence[int]] = None) -> Laid:
        """Elements begin, begin + step, ... < end of each of the axes."""
        x = self.of(x)
        places = [self._axis(x, axis) for axis in axes]
        return Laid(self.g.emit("slice", [x.value], axes=places, begin=begin, end=end, step=step), x.order)

    def transpose(self, x: Union[Laid, Value], perm: Sequence[int]) -> Laid:
        """The program's own transposition, of which nothing is emitted."""
        x = self.of(x)
        return Laid(x.value, [self._axis(x, axis) for axis in perm])

    def reshape(self, x: Union[Laid, Value], shape: Sequence[int]) -> Laid:
        """Other axes: it is brought to the program's order first, if elements are in another one."""
        return self.of(self.g.reshape(self.plain(x), shape))

    # ---- ops that want channels second ----

    def _first(self, x: Union[Laid, Value], data: str) -> Laid:
        x = self.of(x)
        if len(data) != x.rank:
            raise Error(f"axes {data!r} of a value of shape {list(x.shape)}: expected {x.rank} letters")
        return self.in_order(x, order_of(data, channels_first(data)))

    def _given(self, x: Union[Laid, Value, None]) -> Optional[Value]:
        """An input in the program's order, or what stands for none."""
        return self.plain(x) if isinstance(x, Laid) else x

    def conv(self, x: Union[Laid, Value], w: Union[Laid, Value], bias: Union[Laid, Value, None] = None, data: str = "NHWC",
             kernel: str = "HWIO", op: str = "conv", **attributes: Any) -> Laid:
        """A convolution of values with axes `data` by kernels with axes `kernel`; attributes name the spatial axes in the
        order that they have in `data`. With op="conv_transpose" the letter I is x's channels as well."""
        x = self._first(x, data)
        spatial = channels_first(data)[2:]
        stored = ("OI" if op == "conv" else "IO") + spatial
        w = self.in_order(w, order_of(kernel, stored))
        return Laid(self.g.emit(op, [x.value, w.value, self._given(bias)], **attributes), x.order)

    def depthwise_conv(self, x: Union[Laid, Value], w: Union[Laid, Value], bias: Union[Laid, Value, None] = None,
                       data: str = "NHWC", kernel: str = "HWIM", **attributes: Any) -> Laid:
        """Each channel by kernels of its own, M for each of the I channels; output channel i * M + m is of kernel m of
        channel i."""
        x = self._first(x, data)
        w = self.in_order(w, order_of(kernel, "IM" + channels_first(data)[2:]))
        channels, kernels, *window = w.value.shape
        w_value = self.g.reshape(w.value, [channels * kernels, 1, *window])
        return Laid(self.g.emit("conv", [x.value, w_value, self._given(bias)], groups=channels, **attributes), x.order)

    def pool(self, op: str, x: Union[Laid, Value], data: str = "NHWC", **attributes: Any) -> Laid:
        """max_pool, average_pool or lp_pool; attributes name the spatial axes in the order that they have in `data`."""
        x = self._first(x, data)
        return Laid(self.g.emit(op, [x.value], **attributes), x.order)

    def norm(self, op: str, x: Union[Laid, Value], *others: Union[Laid, Value, None], data: str = "NHWC", n_out: int = 1,
             **attributes: Any) -> Any:
        """batch_norm, batch_norm_inference, group_norm or instance_norm with its other inputs, which are vectors of the
        channels. Results after the first are such vectors too."""
        x = self._first(x, data)
        results = self.g.emit(op, [x.value, *map(self._given, others)], n_out=n_out, **attributes)
        return Laid(results, x.order) if n_out == 1 else (Laid(results[0], x.order), *results[1:])


def _without(order: Sequence[int], places: Sequence[int]) -> List[int]:
    """The order of what is left when the axes at these places are gone."""
    return [place - sum(gone < place for gone in places) for place in order if place not in places]
