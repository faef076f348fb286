"""Batches of a run: from how a framework arranges them to how the library takes them, and back.

    batches = Batches(iterations=10, replicas=2, accumulation=4)      N = 80 of them
    shape = batches.shape_of_one(x.shape, axis=1)                     what the network is built for
    x = batches.joined(x, axis=1)                                     N * n along axis 0, as the library takes it
    y = batches.split(y, axis=1)                                      the output of all batches, joined along that axis again

    batches.from_axes(x, "iar")        leading axes [iterations, accumulation, replicas, ...], each of its own
    batches.to_axes(y, "ria")          and an output with such axes in another order

Works on arrays of numpy and of whatever has its reshape and transpose; on tensors of torch, too. What is in the library's
order already is not copied.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

from .error import Error
from .settings import OutputMode

#: The library's order of batches, the outermost first: iterations, accumulation, replicas.
ORDER = "iar"


def _permuted(x: Any, perm: Sequence[int]) -> Any:
    if list(perm) == list(range(len(perm))):
        return x
    return x.permute(*perm) if hasattr(x, "permute") else x.transpose(*perm)


#: Output modes that say what to give of all batches: DEFAULT depends on whether it is trained.
_SELECTED = (OutputMode.ALL, OutputMode.EVERY_N, OutputMode.FINAL, OutputMode.SUM, OutputMode.MEAN)


def _type_name(x: Any) -> str:
    return str(x.dtype).rpartition(".")[2]


def _sum(batches: Any) -> Any:
    if _type_name(batches) == "bool":
        raise Error("an output is bool: there is no sum of it; expected another output mode, or the output cast to int32")
    return batches.sum(0, dtype=batches.dtype)


def _mean(batches: Any) -> Any:
    """As the library makes it: of half it is added up in float, and whole numbers are rounded towards 0."""
    n, dtype, name = batches.shape[0], batches.dtype, _type_name(batches)
    is_torch = hasattr(batches, "permute")
    if name == "float16":
        batches = batches.float() if is_torch else batches.astype("float32")
    mean = _sum(batches)
    if "float" in name:
        mean = mean / n
    else:
        mean = mean.long() if is_torch else mean.astype("int64")
        rest = mean % n
        mean = (mean - rest) // n + ((rest != 0) & (mean < 0))
    return mean.to(dtype) if is_torch else mean.astype(dtype)


class Batches:
    """How many batches a run takes, and in what order.

    :param iterations: runs of the network on the device in one run of the host; of a training model, steps of the optimizer.
    :param replicas: copies of the network that run at the same time.
    :param accumulation: batches to one step of the optimizer.
    :param group_size: replicas that get the same input.
    """

    def __init__(self, iterations: int = 1, replicas: int = 1, accumulation: int = 1, group_size: int = 1) -> None:
        if min(iterations, replicas, accumulation, group_size) < 1 or replicas % group_size:
            raise Error(f"{iterations} iterations, {replicas} replicas in groups of {group_size}, accumulation {accumulation}: "
                        "expected numbers from 1 on, and groups that divide the replicas")
        self.iterations, self.replicas, self.accumulation, self.group_size = iterations, replicas, accumulation, group_size

    @property
    def n(self) -> int:
        """How many batches the inputs of a run hold."""
        return self.iterations * self.accumulation * (self.replicas // self.group_size)

    @property
    def n_out(self) -> int:
        """How many batches all outputs of a run hold: each replica has its own."""
        return self.iterations * self.accumulation * self.replicas

    def _count(self, letter: str, is_input: bool) -> int:
        replicas = self.replicas // self.group_size if is_input else self.replicas
        return {"i": self.iterations, "a": self.accumulation, "r": replicas}[letter]

    # ---- one axis that holds all batches ----

    def shape_of_one(self, shape: Sequence[int], axis: int = 0, what: str = "an input") -> Tuple[int, ...]:
        """The shape of one batch of an array that holds those of a run along an axis."""
        shape = tuple(shape)
        if not shape:
            if self.n != 1:
                raise Error(f"{what} has no axis, and a run takes {self.n} batches: expected one for each")
            return shape
        if not -len(shape) <= axis < len(shape):
            raise Error(f"{what} of shape {list(shape)} has no axis {axis}, which is to hold the batches")
        axis %= len(shape)
        if shape[axis] % self.n:
            raise Error(f"{what} of shape {list(shape)}: axis {axis} holds the batches of {self.iterations} iterations x "
                        f"{self.replicas // self.group_size} inputs of replicas x accumulation {self.accumulation}, and "
                        f"must be a multiple of {self.n}, found {shape[axis]}")
        return shape[:axis] + (shape[axis] // self.n, ) + shape[axis + 1:]

    def joined(self, x: Any, axis: int = 0, what: str = "an input") -> Any:
        """An array that holds the batches of a run along an axis, as the library takes it: batch after batch along axis 0."""
        one = self.shape_of_one(x.shape, axis, what)
        if not one or axis % len(one) == 0:
            return x
        axis %= len(one)
        apart = x.reshape(*x.shape[:axis], self.n, *one[axis:])
        order = [axis, *range(axis), *range(axis + 1, len(one) + 1)]
        return _permuted(apart, order).reshape(self.n * one[0], *one[1:])

    def split(self, y: Any, axis: int = 0, n: int = 0) -> Any:
        """An output of the library, batch after batch along axis 0, joined along another axis. `n`: how many batches it
        holds, where the output mode gives others than all."""
        n = n or self.n_out
        rank = len(y.shape)
        if rank == 0 or axis % rank == 0:
            return y
        axis %= rank
        apart = y.reshape(n, y.shape[0] // n, *y.shape[1:])
        order = [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)]
        one = apart.shape[1:]
        return _permuted(apart, order).reshape(*one[:axis], n * one[axis], *one[axis + 1:])

    def selected(self, y: Any, mode: int, period: int = 1) -> Any:
        """What an output mode (openipu.settings.OutputMode) gives of an output that holds all batches along axis 0."""
        if mode not in _SELECTED:
            raise Error(f"output mode {getattr(mode, 'name', mode)}: expected one of "
                        f"{', '.join(known.name for known in _SELECTED)}, which say what to give of all batches")
        n = self.n_out
        if mode == OutputMode.ALL or n == 1:
            return y
        batches = y.reshape(n, y.shape[0] // n, *y.shape[1:])
        if mode == OutputMode.EVERY_N:
            chosen = batches[period - 1::period]
        elif mode == OutputMode.FINAL:
            chosen = batches[n - self.replicas:]
        else:
            add = _sum if mode == OutputMode.SUM else _mean
            chosen = add(batches.reshape(n // self.replicas, self.replicas, *batches.shape[1:]))
        return chosen.reshape(chosen.shape[0] * chosen.shape[1], *y.shape[1:])

    # ---- an axis for each of iterations, accumulation, replicas ----

    def from_axes(self, x: Any, order: str = ORDER, dropped: bool = False, what: str = "an input") -> Any:
        """An array whose first axes are iterations (i), accumulation (a) and replicas (r) in some order, as the library takes
        it. With `dropped` those of extent 1 are not there."""
        letters = [c for c in _checked(order) if not dropped or self._count(c, True) > 1]
        wanted = [self._count(c, True) for c in letters]
        if list(x.shape[:len(letters)]) != wanted:
            raise Error(f"{what} of shape {list(x.shape)}: expected it to begin with {wanted}, the "
                        f"{', '.join(_NAMES[c] for c in letters)}")
        ours = [letters.index(c) for c in ORDER if c in letters]
        x = _permuted(x, [*ours, *range(len(letters), len(x.shape))])
        rest = x.shape[len(letters):]
        return x.reshape(self.n * rest[0], *rest[1:]) if len(rest) else x.reshape(self.n)

    def to_axes(self, y: Any, order: str = ORDER, dropped: bool = False, is_scalar: bool = False) -> Any:
        """An output of all batches with its first axes iterations, accumulation and replicas in some order, those of extent 1
        left out with `dropped`. `is_scalar`: the network's output is one, of which the library gives a vector."""
        counts = [self._count(c, False) for c in ORDER]
        rest = () if is_scalar else (y.shape[0] // self.n_out, *y.shape[1:])
        places = [ORDER.index(c) for c in _checked(order)]
        y = _permuted(y.reshape(*counts, *rest), [*places, *range(3, 3 + len(rest))])
        kept = [counts[p] for p in places if not dropped or counts[p] > 1]
        return y.reshape(tuple(kept) + tuple(rest))


_NAMES = {"i": "iterations", "a": "accumulation", "r": "replicas"}


def _checked(order: str) -> List[str]:
    if sorted(order) != sorted(ORDER):
        raise Error(f"order {order!r}: expected the letters i (iterations), a (accumulation) and r (replicas), such as "
                    f"{ORDER!r}")
    return list(order)
