"""openipu.emitter: what all front ends emit with."""

from __future__ import annotations

import numpy as np
import openipu
import pytest
from openipu.emitter import Emitter, Unsupported, axes_of, axis_of, numpy_promotion, same_type
from networks import emitter, ops, run

X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def result(g, value, **inputs):
    g.output(value, "y")
    return run(g.model, inputs)["y"]


def test_numbers_become_constants_of_the_type_beside_them():
    g = emitter()
    x, h, i = g.input("x", "float32", (2, 3)), g.input("h", np.float16, (2, )), g.input("i", "int32", (2, ))
    assert g.op.add(x, 1).type == "float" and g.op.mul(2.5, h).type == "half" and g.op.add(i, 7).type == "int32"
    y = result(g, g.op.maximum(g.op.mul(x, 2), 1), x=X, h=np.zeros(2, np.float16), i=np.zeros(2, np.int32))
    assert y.tolist() == np.maximum(X * 2, 1).tolist()


def test_numbers_of_numpy_do_too():
    g = emitter()
    x, i = g.input("x", "float32", (2, 3)), g.input("i", "int32", (2, ))
    assert g.op.mul(np.float16(2.5), x).type == "float" and g.op.add(i, np.int64(7)).type == "int32"
    assert g.op.add(x, np.float32(1)).type == "float"
    assert [same_type(np.float32(1)), same_type(np.int8(1)), same_type(np.bool_(True))] == ["float", "int32", "bool"]
    assert [numpy_promotion(i, np.float32(2)), numpy_promotion(i, np.int64(2))] == ["float", "int32"]
    assert [g.const(v).type for v in (np.float16(1), np.int8(1), np.bool_(True))] == ["half", "int8", "bool"]
    y = result(g, g.op.maximum(g.op.mul(x, np.float32(2)), np.int64(1)), x=X, i=np.zeros(2, np.int32))
    assert y.tolist() == np.maximum(X * 2, 1).tolist()


def test_types():
    g = emitter()
    assert [g.type_of(t) for t in ("float", "int64", np.float64, "float16", np.dtype("int64"), bool, "bool")] == \
        ["float", "int64", "float", "half", "int32", "bool", "bool"]
    for wrong in ("complex64", "nothing", None, object()):
        with pytest.raises(openipu.Error, match="are not supported; use one of"):
            g.type_of(wrong)


def test_constants():
    g = emitter()
    assert [g.const(v).type for v in (True, 3, 2.5)] == ["bool", "int32", "float"]
    assert g.const(2**40).type == "int32" and g.const(3, "half", (2, 2)).shape == (2, 2)
    wide = g.const(np.array([2**40, -2**40, 5]))
    assert wide.type == "int32"
    g.output(wide, "wide")
    g.output(g.const(X.T), "turned")
    g.output(g.const([1], "float32", (3, )), "repeated")
    found = run(g.model, {})
    assert found["wide"].tolist() == [2**31 - 1, -2**31, 5]
    assert found["turned"].tolist() == X.T.tolist() and found["repeated"].tolist() == [1, 1, 1]


def test_promotion_by_the_rule_that_is_given():
    g = emitter()
    x, h, i = g.input("x", "float32", (2, )), g.input("h", "float16", (2, )), g.input("i", "int32", (2, ))
    flag = g.input("f", "bool", (2, ))
    assert [v.type for v in g.promote(i, 3)] == ["int32", "int32"]
    with pytest.raises(openipu.Error, match="float, half: they must be of one; cast them"):
        g.promote(x, h)
    assert [same_type(1, 2.5), same_type(True), same_type(h, 2.5)] == ["float", "bool", "half"]
    n = Emitter(g.model, promotion=numpy_promotion)
    assert [v.type for v in n.promote(x, h)] == ["float", "float"]
    assert [numpy_promotion(h, 2.5), numpy_promotion(i, 2.5), numpy_promotion(flag, 2), numpy_promotion(i, True)] == \
        ["half", "float", "int32", "int32"]
    assert [v.type for v in n.promote_floating(i, 3)] == ["float", "float"]
    assert [v.type for v in n.promote(i, flag, dtype="float16")] == ["half", "half"]


def test_nothing_is_emitted_for_what_is_there():
    g = emitter()
    x = g.input("x", "float32", (2, 3))
    assert g.cast(x, "float32") is x and g.reshape(x, (2, 3)) is x and g.broadcast(x, (2, 3)) is x
    assert g.transpose(x, (0, -1)) is x and g.const(x) is x
    assert ops(g.model) == []
    y = g.broadcast(g.reshape(g.transpose(g.cast(x, "int32"), (1, 0)), (6, 1)), (6, 2))
    g.output(y, "y")
    assert ops(g.model) == ["cast", "transpose", "reshape", "expand"]
    assert run(g.model, {"x": X})["y"].tolist() == np.repeat(X.T.reshape(6, 1), 2, 1).tolist()


@pytest.mark.parametrize("perm, message", [((0, 2), r"axis 2 of a value of shape \[2, 3\]: expected one of -2 to 1"),
                                           ((-3, 1), "axis -3 of"), ((0, 1.0), "axis 1.0 .* a whole number, found float")])
def test_orders_of_axes_that_are_not_there(perm, message):
    g = emitter()
    with pytest.raises(openipu.Error, match=message):
        g.transpose(g.input("x", "float32", (2, 3)), perm)


def test_axes_counted_from_the_front():
    x, s = emitter().input("x", "float32", (2, 3, 4)), emitter().input("s", "float32", ())
    assert axis_of(np.int64(-1), x.shape) == 2 and axes_of(None, x) == axes_of([], x) == [0, 1, 2]
    assert axes_of(np.int64(-1), x) == [2] and axes_of(np.array([0, -1]), x) == [0, 2] and axes_of(1, x) == [1]
    assert axes_of(None, s) == axes_of(0, s) == axes_of([-1], s) == []
    with pytest.raises(openipu.Error, match="axis 0 of a scalar: expected a value that has axes"):
        axis_of(0, ())
    with pytest.raises(openipu.Error, match="axis 1 of"):
        axes_of(1, s)


@pytest.mark.parametrize("x, expected", [(3, 13), (-3, 3)])
def test_branches(x, expected):
    g = emitter()
    v = g.input("x", "float32", (1, ))
    y, = g.branch(g.op.greater(v, 0), lambda: [g.op.add(v, 10)], lambda: [g.op.neg(v)])
    assert result(g, y, x=np.array([x], np.float32)).tolist() == [expected]


def test_branches_must_be_alike():
    g = emitter()
    v = g.input("x", "float32", (1, ))
    with pytest.raises(openipu.Error, match="branches give float.1. and int32.1.: they must be alike"):
        g.branch(g.op.greater(v, 0), lambda: [v], lambda: [g.cast(v, "int32")])


def test_loops():
    g = emitter()
    v, i = g.input("x", "float32", ()), g.input("i", "int32", ())
    y, n = g.repeat(4, lambda a, b: (g.op.mul(a, 2), g.op.add(b, g.turns[-1])), [v, i])
    assert g.turns == []
    below, = g.repeat_while(lambda a: g.op.less(a, 100), lambda a: [g.op.mul(a, 3)], [v], 50)
    cut, = g.repeat_while(lambda a: g.op.less(a, 100), lambda a: [g.op.mul(a, 3)], [v], 2)
    never, = g.repeat_while(lambda a: g.op.less(a, 0), lambda a: [g.op.mul(a, 3)], [v], 5)
    for name, value in (("y", y), ("n", n), ("below", below), ("cut", cut), ("never", never)):
        g.output(value, name)
    found = run(g.model, {"x": np.float32(2), "i": np.int32(0)})
    assert {k: v.item() for k, v in found.items()} == {"y": 32, "n": 6, "below": 162, "cut": 18, "never": 2}
    assert g.repeat(0, lambda a: [a], [v]) == (v, )


def test_loops_that_change_shape_say_so():
    g = emitter()
    v = g.input("x", "float32", (2, ))
    with pytest.raises(openipu.Error, match=r"given float\[2\] and gives float\[4\]: number and shapes cannot change"):
        g.repeat(3, lambda a: [g.op.concat(a, a, axis=0)], [v])


def test_random_numbers_differ_from_turn_to_turn():
    g = emitter()
    v = g.input("x", "float32", (4, ))

    def body(a, b):
        return b, g.emit("random_uniform", [g.seed()], low=0, high=1, shape=(4, ), type="float")

    a, b = g.repeat(3, body, [v, v], draws=True)
    g.output(a, "a")
    g.output(b, "b")
    found = run(g.model, {"x": np.zeros(4, np.float32)})
    assert not np.array_equal(found["a"], found["b"]) and found["a"].all()


def test_kept_weights_and_groups_of_replicas():
    g = emitter()
    replica = g.input("r", "int32", ())
    w = g.keep("w", "float32", (2, 3), True)
    s = g.keep("s", "float32", (3, ), False)
    own = g.keep("own", "float32", (2, 3), False, groups=(0, 1, 1), replica=replica)
    assert own.shape == (3, ) and set(g.kept) == {"w", "s", "own"}
    g.update("s", g.op.add(s, 1))
    g.update("w", w)  # itself: nothing to do
    g.output(own, "found")
    found = run(g.model, {"w": X, "s": X[0], "own": X, "r": np.int32(2)})
    assert found["found"].tolist() == X[1].tolist()
    text = g.model.text()
    assert "update" in text and text.count("update") == 1


def test_losses_are_scalars():
    g = emitter(training=True)
    w = g.keep("w", "float32", (2, 3), True)
    g.loss(g.op.square(w))
    (name, value), = g.model.outputs()
    assert (name, value.shape) == ("loss", ()) and ops(g.model) == ["square", "reduce_sum"]


def test_stages_are_numbered_in_their_order():
    g = emitter()
    g.begin_stages(["a", "b"])
    x = g.input("x", "float32", (2, ))
    g.stage("b")
    y = g.op.neg(x)
    g.stage("b")
    g.output(y, "y")
    assert openipu.lib().ipu_model_n_stages(g.model.pointer) == 2


def test_errors_name_the_op_and_its_place():
    g = emitter()
    x = g.input("x", "float32", (2, 3))
    with pytest.raises(openipu.Error, match=r"^my\.matmul: .*net\.py:12") as e:
        with g.doing("my.matmul", "net.py", 12):
            g.op.matmul(x, x)
    assert e.value.message.count("net.py:12") == 1


def test_all_unsupported_ops_are_told_at_once():
    program = [("relu", "a.py:1"), ("fft", "a.py:2"), ("svd", "a.py:3"), ("fft", "a.py:9"), ("fft", "a.py:9"), ("eig", "")]
    with pytest.raises(openipu.Error) as e:
        Emitter.require(program, {"relu"})
    assert e.value.message.splitlines() == [
        "Unsupported ops found in compiled model: [fft, svd, eig]. Not all operations are supported yet. "
        "Rewrite them with others, or run that part on the host:", "  fft (at a.py:2, a.py:9)", "  svd (at a.py:3)", "  eig"]
    assert e.value.status == "UNSUPPORTED"
    Emitter.require(program[:1], {"relu"})
    assert not Unsupported()


def test_a_front_end_has_its_own_types_and_errors():

    class Mine(Emitter):
        types = {"f": "float", "h": "half"}
        default_floating = "h"

        def error(self, message):
            return ValueError(message)

    g = Mine(emitter().model)
    assert g.type_of("h") == "half" and g.type_of("int32") == "int32"
    assert [v.type for v in g.promote_floating(g.input("i", "int32", (2, )), 1)] == ["half", "half"]
    with pytest.raises(ValueError, match="Tensors of type no are not supported; use one of f, h"):
        g.type_of("no")
