"""Programs made at random against torch: views, changes in place, arithmetic, reductions, indexing, types.

A program is a list of steps on a growing list of tensors. It is made on the host, where steps that torch refuses (or
whose numbers grow too large) are left out; then it is captured and run, and all tensors must be the same.

    POPTORCH_RANDOM_PROGRAMS=2000 pytest test_random_programs.py        more of them
    POPTORCH_RANDOM_FIRST=5000    ...                                   others
"""
from __future__ import annotations

import contextlib
import copy
import os
import random
from typing import Any, Callable, List, Optional, Sequence, Tuple

import pytest
import torch

import poptorch

N_PROGRAMS = int(os.environ.get("POPTORCH_RANDOM_PROGRAMS", "15"))
FIRST = int(os.environ.get("POPTORCH_RANDOM_FIRST", "0"))
FLOATS = (torch.float32, torch.float16)
LARGEST = 1e3

Made = Tuple[str, Callable]  # what a step does to its tensors, and its name


def _number(r: random.Random, dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return r.random() < 0.5
    return r.randrange(-3, 4) if not dtype.is_floating_point else r.randrange(-12, 13) / 8


# ---- steps: each is made for the shape and type of one tensor, and is given it and another


def _view(r: random.Random, x: torch.Tensor) -> Made:
    ways: List[Made] = [("view_as", lambda t, o: t.view_as(t)), ("reshape(-1)", lambda t, o: t.reshape(-1)),
                        ("squeeze", lambda t, o: t.squeeze()), ("[..., None]", lambda t, o: t[..., None]),
                        ("view(-1)", lambda t, o: t.view(-1)), ("detach", lambda t, o: t.detach()),
                        ("ravel", lambda t, o: t.ravel())]
    n = x.dim()
    if n == 0 or 0 in x.shape:
        return r.choice(ways)
    d = r.randrange(n)
    e = r.randrange(n)
    extent = x.shape[d]
    first = r.randrange(extent)
    last, step, order = r.randrange(first, extent) + 1, r.choice([1, 1, 2]), r.sample(range(n), n)
    back = d - n
    ways = r.choice([ways, [
        (f"select({back}, {first})", lambda t, o: t.select(back, first)),
        (f"narrow({d}, {first}, {last - first})", lambda t, o: t.narrow(d, first, last - first)),
        (f"[{d}: {first}:{last}:{step}]", lambda t, o: t[(slice(None), ) * d + (slice(first, last, step), )]),
        (f"[..., {first - extent}:]", lambda t, o: t[..., -1:]),
        (f"unsqueeze({back})", lambda t, o: t.unsqueeze(back)),
        (f"transpose({d}, {e})", lambda t, o: t.transpose(d, e)),
        (f"split({d})[-1]", lambda t, o: t.split(max(1, extent // 2), d)[-1]),
        (f"split_with_sizes({d})", lambda t, o: t.split([first, extent - first], back)[1]),
        (f"chunk(2, {d})[0]", lambda t, o: t.chunk(2, d)[0]),
        (f"tensor_split(2, {d})[-1]", lambda t, o: t.tensor_split(2, d)[-1]),
        (f"unbind({d})[{first}]", lambda t, o: t.unbind(d)[first]),
        ("expand_as", lambda t, o: t.expand_as(t)),
        ("expand(2)", lambda t, o: t.expand(2, *t.shape)),
        (f"movedim({d}, -1)", lambda t, o: t.movedim(d, -1)),
        (f"permute({order})", lambda t, o: t.permute(order)),
        (f"flatten({min(d, e)}, {max(d, e)})", lambda t, o: t.flatten(min(d, e), max(d, e))),
        (f"unflatten({d})", lambda t, o: t.unflatten(d, (1, extent))),
        (f"squeeze({d})", lambda t, o: t.squeeze(d)),
        (f"unfold({d})", lambda t, o: t.unfold(d, min(2, extent), 2)),
        ("diagonal", lambda t, o: t.diagonal(0, d, e)), ("diagonal(1)", lambda t, o: t.diagonal(1, -1, -2)),
        ("mT", lambda t, o: t.mT), ("T", lambda t, o: t.t()), (f"swapaxes({d})", lambda t, o: t.swapaxes(d, 0)),
        ("as_strided", lambda t, o: t.as_strided((2, ), (1, ))),
        ("hsplit", lambda t, o: t.hsplit(1)[0]), ("view(1, *)", lambda t, o: t.view(1, *t.shape)),
    ]])
    return r.choice(ways)


def _index(r: random.Random, x: torch.Tensor) -> Tuple[str, Any]:
    """An index of a tensor with at least one dimension."""
    extent = x.shape[0]
    if extent == 0:
        return ":", slice(None)
    rows = torch.tensor([r.randrange(-extent, extent) for _ in range(r.randrange(1, 4))])
    ways = [("0", 0), ("-1", -1), ("::2", slice(None, None, 2)), ("...", Ellipsis), (f"{rows.tolist()}", rows),
            (f"rows {sorted(set(rows.tolist()))}", sorted(set((rows % extent).tolist()))), ("None", None),
            ("mask", torch.tensor([r.random() < 0.5 for _ in range(extent)]))]
    if x.dim() > 1 and x.shape[1] > 0:
        columns = torch.tensor([r.randrange(x.shape[1]) for _ in rows])
        ways += [("rows, columns", (rows, columns)), (":, columns", (slice(None), columns)), ("0, ..., None", (0, Ellipsis, None)),
                 ("1:, 0", (slice(1, None), 0)), ("..., 0", (Ellipsis, 0)), ("rows, :1", (rows, slice(0, 1))),
                 ("..., columns", (Ellipsis, torch.tensor([r.randrange(x.shape[-1]) for _ in range(2)] if x.shape[-1] else []).long()))]
    return r.choice(ways)


def _change(r: random.Random, x: torch.Tensor) -> Made:
    k = _number(r, x.dtype)
    j = abs(_number(r, x.dtype))
    ways: List[Made] = [
        (f"add_({k})", lambda t, o: t.add_(k)), (f"mul_({k})", lambda t, o: t.mul_(k)), (f"fill_({k})", lambda t, o: t.fill_(k)),
        ("zero_", lambda t, o: t.zero_()), ("copy_(sum)", lambda t, o: t.copy_(o.sum())), ("copy_", lambda t, o: t.copy_(o)),
        ("sub_", lambda t, o: t.sub_(o)), ("add_", lambda t, o: t.add_(o)), ("mul_", lambda t, o: t.mul_(o)),
        ("clamp_", lambda t, o: t.clamp_(-1, 1)), ("neg_", lambda t, o: t.neg_()), ("+=", _plus), ("*=", _times),
        (f"masked_fill_({k})", lambda t, o: t.masked_fill_(t > 0, k)), ("copy_(* 2)", lambda t, o: t.copy_(t * 2)),
        ("relu_", lambda t, o: t.relu_()), ("abs_", lambda t, o: t.abs_()), ("sigmoid_", lambda t, o: t.sigmoid_()),
        ("tanh_", lambda t, o: t.tanh_()), (f"clamp_min_({k})", lambda t, o: t.clamp_min_(k)),
        ("addcmul_", lambda t, o: t.addcmul_(o, o, value=0.5)), ("lerp_", lambda t, o: t.lerp_(o, 0.25)),
        ("gt_", lambda t, o: t.gt_(0)), ("div_(2)", lambda t, o: t.div_(2)), ("remainder_", lambda t, o: t.remainder_(j + 1)),
        ("out=add", lambda t, o: _into(t, torch.add, t, o)), ("out=mul", lambda t, o: _into(t, torch.mul, o, k)),
        ("out=sum", lambda t, o: _into(t, torch.sum, o, (0, ))), ("out=clamp", lambda t, o: _into(t, torch.clamp, o, -1, 1)),
        ("out=tanh", lambda t, o: _into(t, torch.tanh, o)), ("detach copy_", _set_detached), ("set bool", lambda t, o: t.__setitem__(t > 0, k)),
        ("setitem where", lambda t, o: t.__setitem__(o > 0, k)), ("masked_scatter_", lambda t, o: _scatter_masked(t)),
        ("logical_not_", lambda t, o: t.logical_not_()), ("round_", lambda t, o: t.round_()),
        ("ior", lambda t, o: t.__ior__(o)), ("square_", lambda t, o: t.square_()),
        ("copy_(flip)", lambda t, o: t.copy_(t.flip(0))), ("copy_(mT)", lambda t, o: t.copy_(t.mT)),
    ]
    if x.dim() and x.shape[0] > 0:
        d = r.randrange(x.dim())
        name, key = _index(r, x)
        rows = torch.tensor([r.randrange(x.shape[d]) for _ in range(2)] if x.shape[d] else [], dtype=torch.long)
        ways = r.choice([ways, [
            (f"[{name}] = {k}", lambda t, o: t.__setitem__(key, k)), (f"[{name}] = o", lambda t, o: t.__setitem__(key, o)),
            (f"[{name}] += {k}", lambda t, o: t.__setitem__(key, t[key] + k)), (f"[{name}] *= t", lambda t, o: t[key].mul_(o)),
            (f"[{name}] = flipped", lambda t, o: t.__setitem__(key, t[key].flip(0))),
            ("index_fill_", lambda t, o: t.index_fill_(d, rows, k)), ("index_add_", lambda t, o: t.index_add_(d, rows, t.index_select(d, rows))),
            ("index_copy_", lambda t, o: t.index_copy_(d, rows[:1], t.narrow(d, 0, 1).clone())),
            ("index_put_", lambda t, o: t.index_put_((rows % t.shape[0], ), torch.full_like(t[rows % t.shape[0]], k), accumulate=True)),
            ("scatter_", lambda t, o: t.scatter_(d, torch.zeros_like(t, dtype=torch.long), t.clone().sort(d)[0]) if t.shape[d] == 1 else t.add_(k)),
            ("scatter_add_", lambda t, o: t.scatter_add_(d, torch.zeros(t.shape, dtype=torch.long), t.clone())),
            ("cumsum_", lambda t, o: t.cumsum_(d)), ("transpose_", lambda t, o: t.transpose_(d, 0)), ("unsqueeze_", lambda t, o: t.unsqueeze_(d)),
            ("fill_diagonal_", lambda t, o: t.fill_diagonal_(k)), ("tril_", lambda t, o: t.tril_()),
            ("out=cat", lambda t, o: torch.cat([t[:1], t[1:]], out=t)), ("foreach", lambda t, o: torch._foreach_add_([t], 1.0)),
        ]])
    return r.choice(ways)


def _plus(t: torch.Tensor, o: torch.Tensor) -> None:
    t += o


def _times(t: torch.Tensor, o: torch.Tensor) -> None:
    t *= o


def _scatter_masked(t: torch.Tensor) -> None:
    if not t.is_contiguous():
        raise RuntimeError("the order is that of memory in torch")
    t.masked_scatter_(t > 0, t.clone())


def _into(t: torch.Tensor, function: Callable, *args: Any) -> None:
    if function(*args).shape != t.shape:
        raise RuntimeError("shapes cannot change")
    function(*args, out=t)


def _set_detached(t: torch.Tensor, o: torch.Tensor) -> None:
    if t.shape != o.shape or t.dtype != o.dtype:
        raise RuntimeError("shapes cannot change")
    t.detach().copy_(o)


def _compute(r: random.Random, x: torch.Tensor) -> Made:
    k, dtype = _number(r, x.dtype), r.choice([torch.float32, torch.float16, torch.int32, torch.int64, torch.bool, torch.uint8])
    n = _number(r, torch.float32)
    if n == int(n):
        n = int(n)
    ways: List[Made] = [
        ("clone", lambda t, o: t.clone()), ("+", lambda t, o: t + o), ("-", lambda t, o: t - o), ("*", lambda t, o: t * o),
        (f"+ {n}", lambda t, o: t + n), (f"{n} -", lambda t, o: n - t), (f"* {n}", lambda t, o: t * n), ("/", lambda t, o: t / (o.abs() + 1)),
        (f"/ {n}", lambda t, o: t / (abs(n) + 1)), (f"// {n}", lambda t, o: t // (abs(n) + 1)), (f"% {n}", lambda t, o: t % (abs(n) + 1)),
        ("neg", lambda t, o: -t), ("abs", lambda t, o: t.abs()), ("tanh", lambda t, o: torch.tanh(t)), ("exp", lambda t, o: (-t.abs()).exp()),
        ("sigmoid", lambda t, o: t.sigmoid()), ("where", lambda t, o: torch.where(t > o, t, o)), ("where n", lambda t, o: torch.where(t > 0, t, n)),
        (f"to {dtype}", lambda t, o: t.to(dtype)), ("type_as", lambda t, o: t.type_as(o)), (">", lambda t, o: t > o), ("==", lambda t, o: t == o),
        (f"<= {n}", lambda t, o: t <= n), ("max", lambda t, o: torch.maximum(t, o)), ("&", lambda t, o: t & o), ("~", lambda t, o: ~t),
        ("pow 2", lambda t, o: t**2), ("sqrt", lambda t, o: t.abs().sqrt()), ("clamp", lambda t, o: t.clamp(-1, 2)), ("round", lambda t, o: t.round()),
        ("sum", lambda t, o: t.sum()), ("mean", lambda t, o: t.float().mean()), ("all", lambda t, o: t.all()), ("any", lambda t, o: t.any()),
        ("prod", lambda t, o: t.prod()), ("max()", lambda t, o: t.max()), ("zeros_like", lambda t, o: torch.zeros_like(t)),
        ("cat", lambda t, o: torch.cat([t, t * 2])), ("stack", lambda t, o: torch.stack([t, t])), ("contiguous", lambda t, o: t.contiguous()),
        ("flip", lambda t, o: t.flip(0)), ("roll", lambda t, o: t.roll(1)), ("repeat", lambda t, o: t.repeat(2)), ("floor", lambda t, o: t.floor()),
        ("new_full", lambda t, o: t.new_full((2, 3), k)), ("full_like", lambda t, o: torch.full_like(t, n)), ("xor", lambda t, o: t ^ o),
        ("matmul", lambda t, o: t @ o), ("relu", lambda t, o: t.relu()), ("atan2", lambda t, o: torch.atan2(t, o.abs() + 1)),
        ("lerp", lambda t, o: torch.lerp(t, o, 0.5)), ("outer", lambda t, o: torch.outer(t, t)), ("diag", lambda t, o: t.diag()),
        ("arange", lambda t, o: t + torch.arange(t.shape[-1])), ("sign", lambda t, o: t.sign()), ("masked_fill", lambda t, o: t.masked_fill(t > 0, k)),
        ("int()", lambda t, o: t.int()), ("logical_or", lambda t, o: torch.logical_or(t, o)), ("fmod", lambda t, o: torch.fmod(t, o.abs() + 1)),
        ("div floor", lambda t, o: torch.div(t, o.abs() + 1, rounding_mode="floor")), ("div trunc", lambda t, o: torch.div(t, o.abs() + 1, rounding_mode="trunc")),
        ("add alpha", lambda t, o: torch.add(t, o, alpha=2)), ("rsub", lambda t, o: torch.rsub(t, o, alpha=3)), ("count", lambda t, o: t.count_nonzero()),
        ("broadcast", lambda t, o: torch.broadcast_tensors(t, o)[0]), ("minimum", lambda t, o: torch.minimum(t, o)), ("sum f", lambda t, o: t.sum(dtype=torch.float32)),
    ]
    if x.dim() and 0 not in x.shape:
        d = r.randrange(-x.dim(), x.dim())
        keep = r.random() < 0.5
        name, key = _index(r, x)
        rows = torch.tensor([r.randrange(x.shape[d]) for _ in range(3)])
        ways = r.choice([ways, [
            (f"sum({d}, {keep})", lambda t, o: t.sum(d, keepdim=keep)), (f"mean({d})", lambda t, o: t.mean(d)), (f"amax({d})", lambda t, o: t.amax(d, keep)),
            (f"max({d})", lambda t, o: t.max(d, keep)[0]), (f"argmax({d})", lambda t, o: t.argmax(d, keep)), (f"min({d}) i", lambda t, o: t.min(d)[1]),
            (f"prod({d})", lambda t, o: t.prod(d)), (f"any({d})", lambda t, o: t.any(d)), (f"var({d})", lambda t, o: t.var(d, unbiased=False)),
            (f"softmax({d})", lambda t, o: t.softmax(d)), (f"cumsum({d})", lambda t, o: t.cumsum(d)), (f"norm({d})", lambda t, o: t.norm(dim=d)),
            (f"logsumexp({d})", lambda t, o: t.logsumexp(d)), (f"[{name}]", lambda t, o: t[key]), (f"[{name}] + ", lambda t, o: t[key] + 1),
            (f"index_select({d})", lambda t, o: t.index_select(d, rows)), (f"gather({d})", lambda t, o: t.gather(d, t.argsort(d))),
            (f"sort({d})", lambda t, o: t.sort(d)[0]), (f"topk({d})", lambda t, o: t.topk(1, d)[0]), (f"flip({d})", lambda t, o: t.flip(d)),
            (f"roll({d})", lambda t, o: t.roll(1, d)), (f"cat({d})", lambda t, o: torch.cat([t, t.narrow(d, 0, 1)], d)), (f"all({d})", lambda t, o: t.all(d, keep)),
            ("tril", lambda t, o: t.tril()), ("pad", lambda t, o: torch.nn.functional.pad(t, (1, 2), value=k)), (f"repeat_interleave({d})", lambda t, o: t.repeat_interleave(2, d)),
            ("take", lambda t, o: t.take(rows % t.numel())), ("one_hot", lambda t, o: torch.nn.functional.one_hot(t.long().clamp(0, 3), 4)),
            (f"stack({d})", lambda t, o: torch.stack(t.unbind(d), d)), ("einsum", lambda t, o: torch.einsum("...i->...", t)), ("select_scatter", lambda t, o: t.select_scatter(t.select(d, 0) * 2, d, -1)),
            (f"cumprod({d})", lambda t, o: t.cumprod(d)), (f"std({d})", lambda t, o: t.std(d)), ("median", lambda t, o: t.median(d)[0]), ("index_add", lambda t, o: t.index_add(d, rows, t.index_select(d, rows))),
            ("where3", lambda t, o: torch.where(t > t.mean(d, keepdim=True), t, t * 2)), ("log_softmax", lambda t, o: t.log_softmax(d)), ("mm", lambda t, o: t @ t.mT),
        ]])
    return r.choice(ways)


class Step:
    """A function of tensors i and j of those there are."""

    def __init__(self, kind: str, made: Made, i: int, j: int, no_grad: bool) -> None:
        self.kind, (self.name, self.function), self.i, self.j, self.no_grad = kind, made, i, j, no_grad

    def run(self, tensors: List[torch.Tensor]) -> None:
        t = tensors[self.i]
        if self.kind == "change" and any(d > 1 and s == 0 for d, s in zip(t.shape, t.stride())):
            raise RuntimeError("writes to expanded tensors are refused")
        with torch.no_grad() if self.no_grad else contextlib.nullcontext():
            result = self.function(tensors[self.i], tensors[self.j])
        if self.kind != "change":
            tensors.append(result)

    def __repr__(self) -> str:
        quiet = "no_grad " if self.no_grad else ""
        return f"{quiet}{self.kind} t{self.i} {self.name} (t{self.j})"


class Program(torch.nn.Module):
    """Steps on arguments, a parameter and a buffer; a training model's loss is of all that is computed."""

    def __init__(self, seed: int, trained: bool, kinds: Sequence[str]) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.trained = trained
        self.weight = torch.nn.Parameter((torch.randn(3, 4, generator=g) * 4).round() / 4 if not trained else torch.randn(3, 4, generator=g))
        self.offset = torch.nn.Parameter(torch.zeros(2, 3, 2))
        self.register_buffer("kept", torch.randn(4, 3, generator=g))
        self.register_buffer("count", torch.randint(-3, 4, (3, ), generator=g, dtype=torch.int32))
        self.steps: List[Step] = []
        self.kinds = kinds

    def values(self, *inputs: torch.Tensor) -> List[torch.Tensor]:
        tensors = [self.weight, self.kept, self.count, *inputs]
        tensors[3] = tensors[3] + self.offset
        if self.trained:
            tensors.append(self.weight * 1)
        for step in self.steps:
            step.run(tensors)
        return tensors

    def forward(self, *inputs: torch.Tensor) -> Any:
        tensors = self.values(*inputs)
        if not self.trained:
            return tensors[3:]
        loss = sum(((y * y).mean() * (0.1 + 0.05 * i) for i, y in enumerate(tensors) if y.dtype is torch.float32 and y.numel()))
        return tensors[3:], poptorch.identity_loss(loss, reduction="sum")


def _inputs(seed: int, trained: bool) -> List[torch.Tensor]:
    g = torch.Generator().manual_seed(seed + 1)
    some = torch.randint(-4, 5, (3, 4), generator=g)
    halves = [] if trained else [(torch.randint(-8, 9, (4, ), generator=g) / 4).half()]
    return [torch.randn(2, 3, 2, generator=g), some, torch.rand(3, 4, generator=g) > 0.5, torch.randn(3, generator=g), *halves]


def _on_host(program: Program, seed: int) -> Optional[Tuple]:
    """What torch makes of a program: results, inputs, program (after a step of training); None: it refuses."""
    host = copy.deepcopy(program)
    inputs = _inputs(seed, program.trained)
    try:
        if not program.trained:
            with torch.no_grad():
                results = host(*inputs)
            loss = None
        else:
            results, loss = host(*inputs)
            loss.backward()
            results = [t.detach().clone() for t in results]
            torch.optim.SGD(host.parameters(), lr=0.1).step()
            loss = loss.detach()
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None
    before = [*_inputs(seed, program.trained), *program.state_dict().values()]
    if any(a.shape != b.shape for a, b in zip(before, [*inputs, *host.state_dict().values()])):
        return None  # inputs and buffers keep their shapes on the device
    every = [*results, *host.state_dict().values()]
    if any(t.numel() > 500 for t in every):
        return None
    if any(t.numel() and not bool((t.detach().float().abs() <= LARGEST).all()) for t in every):
        return None
    return [t.detach() for t in results], inputs, host, loss


def _make(seed: int, trained: bool, kinds: Sequence[str] = ("view", "change", "compute")) -> Program:
    r = random.Random(seed)
    program = Program(seed, trained, kinds)
    makers = {"view": _view, "change": _change, "compute": _compute}
    for _ in range(r.randrange(4, 14)):
        with torch.no_grad():
            tensors = copy.deepcopy(program).values(*_inputs(seed, trained))
        i, j = r.randrange(len(tensors)), r.randrange(len(tensors))
        kind = r.choice(kinds)
        program.steps.append(Step(kind, makers[kind](r, tensors[i]), i, j, trained and r.random() < 0.2))
        if _on_host(program, seed) is None:
            program.steps.pop()
    return program


def _close(found: Any, expected: torch.Tensor, what: str) -> None:
    found = found.detach()
    assert tuple(found.shape) == tuple(expected.shape), f"{what}: shape {tuple(found.shape)}, expected {tuple(expected.shape)}"
    wide = {torch.int64: torch.int32, torch.float64: torch.float32}.get(expected.dtype, expected.dtype)
    assert wide == {torch.int64: torch.int32}.get(found.dtype, found.dtype), f"{what}: {found.dtype}, expected {wide}"
    rough = 1e-2 if expected.dtype is torch.float16 else 2e-4
    torch.testing.assert_close(found.double(), expected.double(), rtol=rough, atol=rough, msg=lambda m: f"{what}: {m}")


def check(program: Program, seed: int) -> None:
    """A program does on the device what it does on the host."""
    expected, host_inputs, host, loss = _on_host(program, seed)
    device, inputs = copy.deepcopy(program), _inputs(seed, program.trained)
    if program.trained:
        model = poptorch.trainingModel(device, optimizer=torch.optim.SGD(device.parameters(), lr=0.1))
        found, found_loss = model(*inputs)
        _close(found_loss, loss, "loss")
    else:
        model = poptorch.inferenceModel(device)
        found = model(*inputs)
        model.copyWeightsToHost()
    for i, (a, b) in enumerate(zip(found, expected)):
        _close(a, b, f"t{i + 3}")
    for i, (a, b) in enumerate(zip(inputs, host_inputs)):
        _close(a, b, f"input {i} afterwards")
    state = device.state_dict()
    for name, b in host.state_dict().items():
        _close(state[name], b, f"{name} afterwards")
    model.destroy()


SEEDS = range(FIRST, FIRST + N_PROGRAMS)


@pytest.mark.parametrize("seed", SEEDS)
def test_results(seed):
    program = _make(seed, trained=False)
    check(program, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_training(seed):
    program = _make(seed, trained=True)
    check(program, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_in_place(seed):
    program = _make(seed, trained=seed % 2 == 1, kinds=("view", "change"))
    check(program, seed)
