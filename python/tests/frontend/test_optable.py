"""openipu.optable: rows of op tables emit what they say, and wrong ones are found."""

from __future__ import annotations

import re

import numpy as np
import openipu
import pytest
from openipu.emitter import numpy_promotion
from openipu.optable import FIRST, FLOAT_PROMOTE, PROMOTE, RESULT, SAME, Const, Table, axes, axis, row
from networks import emitter, ops, run

TABLE = Table({
    "leaky": row("leaky_relu", "x", alpha="slope=0.01"),
    "less_y": row("sub", "y=self x=other"),
    "add": row("add", "x y", cast=PROMOTE, of={"bool": "logical_or"}),
    "quotient": row("div", "x y", cast=FLOAT_PROMOTE),
    "exp": row("exp", "x", cast=RESULT),
    "like": row("mul", "x y", cast=FIRST),
    "both": row("logical_and", "x y", cast="bool"),
    "floor": row("floor", "x", of={"whole": SAME}),
    "isnan": row("isnan", "x", of={"whole": False}),
    "top": row("topk", "x", n_out=2, k="k", axis="axis=-1", largest=1, ignore="sorted"),
    "linear": row("linear", "x weight bias?"),
    "mse": row("mse_loss", "x target", reduction=Const("sum")),
})
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def test_rows_are_right():
    assert TABLE.check() == []
    assert len(TABLE) == 12 and "add" in TABLE and "sub" not in TABLE


@pytest.mark.parametrize("op, args, kwargs, expected", [
    ("leaky", "x", {}, np.where(X > 0, X, X * np.float32(0.01))),
    ("leaky", "x", {"slope": 0.5}, np.where(X > 0, X, X * 0.5)),
    ("less_y", "xi", {}, None),
    ("less_y", "xx2", {}, X),
    ("add", "xi", {}, X + 7),
    ("add", "bb", {}, np.array([True, False, True])),
    ("quotient", "i2", {}, 3.5),
    ("exp", "i", {"result": "float32"}, np.exp(np.float32(7))),
    ("like", "xi", {}, X * 7),
    ("both", "xb", {}, np.array([[True, False, True]] * 2)),
    ("floor", "i", {}, 7),
    ("isnan", "i", {}, False),
    ("mse", "xx2", {}, (X**2).sum()),
    ("linear", "xx", {}, X @ X.T),
])
def test_what_rows_emit(op, args, kwargs, expected):
    g = emitter(promotion=numpy_promotion)
    values = {"x": g.input("x", "float32", (2, 3)), "i": g.input("i", "int32", ()), "b": g.input("b", "bool", (3, ))}
    data = {"x": X, "i": np.int32(7), "b": np.array([True, False, True])}
    given = [values[a] if a in values else int(a) for a in args.replace("x2", "d")] if "x2" not in args else None
    if given is None:
        given = [values["x"], g.op.mul(values["x"], 2)]
    if expected is None:
        with pytest.raises(openipu.Error):
            TABLE.emit(g, op, *given, **kwargs)
        return
    g.output(TABLE.emit(g, op, *given, **kwargs), "y")
    np.testing.assert_allclose(run(g.model, data)["y"], expected, rtol=1e-6)


def test_results_of_several_and_arguments_that_mean_nothing():
    g = emitter()
    values, indices = TABLE.emit(g, "top", g.input("x", "float32", (2, 3)), 2, sorted=True)
    g.output(values, "values")
    g.output(indices, "indices")
    found = run(g.model, {"x": X})
    assert found["values"].tolist() == [[3, 1], [5, -4]] and found["indices"].tolist() == [[2, 0], [1, 0]]
    assert ops(g.model) == ["topk"]


@pytest.mark.parametrize("wrong, message", [
    (row("reluu", "x"), "reluu"),
    (row("relu", "x", alpha="slope"), "op relu has no attribute 'alpha'; it has: none"),
    (row("add", "x"), "op add needs input y"),
    (row("add", "x y z"), "op add has 2 inputs .x, y.; the row has 3"),
    (row("add", "x=a x=b"), "op add has 2 inputs"),
    (row("add", "x z=b"), "op add has no input 'z'; it has: x, y"),
    (row("linear", "x weight?"), "op linear needs input weight, which weight. may leave out"),
    (row("leaky_relu", "x", alpha=Const("much")), "attribute 'alpha' of op leaky_relu cannot be 'much'"),
    (row("leaky_relu", "x", alpha="slope='steep'"), "cannot be 'steep'"),
    (row("add", "x y", cast="promoted"), "cast is 'promoted': expected a type, or one of result, promote"),
    (row("floor", "x", of={"integers": SAME}), "`of` has 'integers'"),
    (row("floor", "x", of={"bool": "flor"}), "flor"),
])
def test_wrong_rows_are_found(wrong, message):
    problems = Table({"op": wrong}).check()
    assert problems and all(p.startswith("op: ") for p in problems)
    assert re.search(message, problems[0]), problems


def test_needed_attributes_are_missed():
    needed = [(name, attribute) for name in ("reshape", "transpose", "topk", "one_hot", "cast")
              for attribute in openipu.op_info(name).required]
    assert needed
    for name, attribute in needed:
        assert any(f"needs attribute {attribute!r}" in p for p in Table({"op": row(name, "x")}).check()), name


@pytest.mark.parametrize("args, kwargs, message", [
    ((), {}, "argument 'x' is missing"),
    ((1, 2, 3), {}, "it takes 2 arguments, found 3"),
    ((1, ), {"alpha": 1}, "it has no argument 'alpha'; it has: x, slope"),
    ((1, ), {"x": 1}, "argument 'x' is given twice")])
def test_wrong_calls_say_so(args, kwargs, message):
    with pytest.raises(openipu.Error, match=message):
        TABLE["leaky"].bind(args, kwargs)
    with pytest.raises(openipu.Error, match="nothing is not supported"):
        TABLE.emit(emitter(), "nothing")


def test_numbers_among_the_inputs_and_arguments_used_twice():
    table = Table({"half": row("mul", "x 0.5"), "shrink": row("shrink", "x", bias="by=1", **{"lambda": "by=1"}),
                   "inf": row("equal", "x -inf", of={"whole": False})})
    assert table.check() == []
    g = emitter()
    x = g.input("x", "float32", (2, 3))
    for op in table:
        g.output(table.emit(g, op, x), op)
    found = run(g.model, {"x": X})
    assert found["half"].tolist() == (X / 2).tolist() and not found["inf"].any()
    assert found["shrink"].tolist() == (np.sign(X) * np.maximum(np.abs(X) - 1, 0)).tolist()
    assert [p.name for p in table["shrink"].parameters] == ["x", "by"]


def test_axes():
    table = Table({"sum": row("reduce_sum", "x", axes=axes("dim=None"), keep_dims="keepdim=False"),
                   "softmax": row("softmax", "x", axis=axis("dim=-1")),
                   "top": row("topk", "x", n_out=2, k=1, axis=axis("dim"), largest=1)})
    assert table.check() == []
    g = emitter()
    x, s = g.input("x", "float32", (2, 3)), g.input("s", "float32", ())
    values = {"all": table.emit(g, "sum", x), "one": table.emit(g, "sum", x, -1), "two": table.emit(g, "sum", x, [0, -1], True),
              "scalar": table.emit(g, "sum", s, 0), "soft": table.emit(g, "softmax", s), "top": table.emit(g, "top", s, 0)[1]}
    for name, value in values.items():
        g.output(value, name)
    found = run(g.model, {"x": X, "s": np.float32(4)})
    assert found["all"] == X.sum() and found["one"].tolist() == X.sum(1).tolist() and found["two"].tolist() == [[X.sum()]]
    assert found["scalar"] == 4 and found["soft"] == 1 and found["top"] == 0 and found["top"].shape == ()


def test_axes_out_of_range_are_errors():
    table = Table({"sum": row("reduce_sum", "x", axes=axes("dim=None")),
                   "softmax": row("softmax", "x", axis=axis("dim=-1"))})
    g = emitter()
    x, s = g.input("x", "float32", (2, 3, 4)), g.input("s", "float32", ())
    says = r"axis 7 of a value of shape \[2, 3, 4\]: expected one of -3 to 2"
    for op, dim in (("softmax", 7), ("sum", 7), ("sum", [0, 7]), ("sum", np.int64(7))):
        with pytest.raises(openipu.Error, match=says):
            table.emit(g, op, x, dim)
    for op in table:
        with pytest.raises(openipu.Error, match="axis -2 of"):
            table.emit(g, op, s, -2)
    assert ops(g.model) == []


def test_axes_may_be_numbers_of_numpy():
    table = Table({"sum": row("reduce_sum", "x", axes=axes("dim=None")),
                   "softmax": row("softmax", "x", axis=axis("dim=-1"))})
    g = emitter()
    x = g.input("x", "float32", (2, 3))
    for name, value in (("one", table.emit(g, "sum", x, np.int64(-1))), ("both", table.emit(g, "sum", x, np.array([0, 1]))),
                        ("soft", table.emit(g, "sum", table.emit(g, "softmax", x, np.int32(0)), 0))):
        g.output(value, name)
    found = run(g.model, {"x": X})
    assert found["one"].tolist() == X.sum(1).tolist() and found["both"] == X.sum()
    np.testing.assert_allclose(found["soft"], np.ones(3), rtol=1e-6)
