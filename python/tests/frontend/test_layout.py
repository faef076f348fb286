"""openipu.layout: programs with their channels last have no transposes but where the order of elements is looked at."""

from __future__ import annotations

import numpy as np
import openipu
import pytest
from openipu.layout import Laid, Layouts, channels_first, order_of, same_padding
from networks import emitter, ops, run

R = np.random.default_rng(3)
X = R.standard_normal((2, 8, 6, 3)).astype(np.float32)


def conv_nhwc(x, w, bias=None, padding=0, stride=1, groups=1):
    """A convolution of NHWC by HWIO, as its definition says."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    kh, kw, ci, co = w.shape
    h, v = (x.shape[1] - kh) // stride + 1, (x.shape[2] - kw) // stride + 1
    y = np.zeros((x.shape[0], h, v, co), np.float64)
    for i in range(kh):
        for j in range(kw):
            part = x[:, i:i + h * stride:stride, j:j + v * stride:stride]
            for c in range(co):
                first = c // (co // groups) * ci
                y[..., c] += part[..., first:first + ci] @ w[i, j, :, c]
    return y if bias is None else y + bias


def pooled_nhwc(x):
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).max((2, 4))


class Weights:
    """Weights of a program and their arrays as the library keeps them."""

    def __init__(self, lay):
        self.lay, self.arrays, self.ours = lay, {}, {}

    def kernel(self, name, shape, axes="HWIO", stored="OIHW"):
        self.ours[name] = (R.standard_normal(shape) * 0.3).astype(np.float32)
        value = self.lay.keep(name, "float32", shape, True, axes, stored)
        self.arrays[name] = self.lay.to_store(name, self.ours[name])
        return value

    def plain(self, name, shape):
        self.ours[name] = R.standard_normal(shape).astype(np.float32) + 1.5
        self.arrays[name] = self.ours[name]
        return self.lay.keep(name, "float32", shape, True).value


def test_a_network_has_a_transpose_at_its_input_and_where_it_is_flattened():
    g = emitter()
    lay = Layouts(g)
    weights = Weights(lay)
    w = weights.ours
    x = lay.of(g.input("x", "float32", X.shape))

    def relu(v):
        return lay.elementwise("relu", v)

    y = relu(lay.conv(x, weights.kernel("c1", (3, 3, 3, 4)), weights.plain("b1", (4, )), padding=(1, 1)))
    y = lay.norm("batch_norm_inference", y, weights.plain("mean", (4, )), weights.plain("var", (4, )),
                 weights.plain("scale", (4, )), weights.plain("shift", (4, )), epsilon=1e-3)
    z = lay.conv(y, weights.kernel("c2", (3, 3, 4, 4)), padding=(1, 1))
    z = lay.elementwise("add", z, weights.plain("b2", (4, )))  # a vector of the channels, which come last
    y = relu(lay.elementwise("add", y, z))
    y = lay.pool("max_pool", y, kernel=(2, 2), strides=(2, 2))
    deep = lay.depthwise_conv(y, weights.kernel("d", (3, 3, 4, 2), "HWIM", "IMHW"), padding=(1, 1))
    y = lay.concat([y, deep], axis=-1)
    y = lay.pad(y, (0, 1, 0, 0), (0, 0, 2, 0), value=0)
    gates = lay.reduce("reduce_mean", y, axes=(1, 2), keep_dims=True)
    y = lay.elementwise("mul", y, lay.elementwise("sigmoid", gates))
    y = lay.conv(y, weights.kernel("c3", (2, 2, 12, 5)), stride=(2, 2))
    y = lay.along("softmax", y, axis=-1)
    mean = lay.reduce("reduce_mean", y, axes=(1, 2))
    assert ops(g.model).count("transpose") == 1
    flat = lay.reshape(y, (2, -1))
    assert ops(g.model).count("transpose") == 2
    g.output(lay.plain(mean), "average")
    g.output(g.op.matmul(lay.plain(flat), weights.plain("dense", (flat.shape[1], 3))), "logits")
    assert ops(g.model).count("transpose") == 2

    e = np.maximum(conv_nhwc(X, w["c1"], w["b1"], 1), 0)
    e = (e - w["mean"]) / np.sqrt(w["var"] + 1e-3) * w["scale"] + w["shift"]
    e = np.maximum(e + conv_nhwc(e, w["c2"], w["b2"], 1), 0)
    e = pooled_nhwc(e)
    d = conv_nhwc(e, w["d"].reshape(3, 3, 1, 8), padding=1, groups=4)
    e = np.concatenate([e, d], -1)
    e = np.pad(e, ((0, 0), (1, 0), (0, 2), (0, 0)))
    e = e / (1 + np.exp(-e.mean((1, 2), keepdims=True)))
    e = conv_nhwc(e, w["c3"], stride=2)
    e = np.exp(e) / np.exp(e).sum(-1, keepdims=True)
    found = run(g.model, {"x": X, **{k: np.abs(a) if k == "var" else a for k, a in weights.arrays.items()}})
    np.testing.assert_allclose(found["average"], e.mean((1, 2)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["logits"], e.reshape(2, -1) @ w["dense"], rtol=1e-4, atol=1e-4)


def test_other_inputs_may_be_weights_that_are_kept():
    """keep() gives Laid values, which convolutions and norms take for all of their inputs."""
    g = emitter()
    lay = Layouts(g)
    weights = Weights(lay)
    w = weights.ours

    def vector(name, n):
        weights.arrays[name] = w[name] = R.standard_normal(n).astype(np.float32) + 1.5
        return lay.keep(name, "float32", (n, ), True)

    y = lay.conv(g.input("x", "float32", X.shape), weights.kernel("c", (3, 3, 3, 4)), vector("b", 4), padding=(1, 1))
    y = lay.depthwise_conv(y, weights.kernel("d", (1, 1, 4, 1), "HWIM", "IMHW"), bias=vector("db", 4))
    y = lay.norm("batch_norm_inference", y, vector("mean", 4), vector("var", 4), vector("scale", 4), vector("shift", 4),
                 epsilon=1e-3)
    g.output(lay.plain(y), "y")
    w["var"] = weights.arrays["var"] = np.abs(w["var"]) + 0.5
    e = conv_nhwc(X, w["c"], w["b"], 1) * w["d"].reshape(4) + w["db"]
    e = (e - w["mean"]) / np.sqrt(w["var"] + 1e-3) * w["scale"] + w["shift"]
    np.testing.assert_allclose(run(g.model, {"x": X, **weights.arrays})["y"], e, rtol=1e-4, atol=1e-4)


def test_training_adds_none():
    g = emitter(training=True)
    lay = Layouts(g)
    w = lay.keep("w", "float32", (3, 3, 3, 4), True, "HWIO", "OIHW")
    y = lay.elementwise("relu", lay.conv(lay.of(g.input("x", "float32", X.shape)), w))
    loss = lay.reduce("reduce_sum", y).value
    dw, = g.model.gradients(loss, [w.value])
    assert dw.shape == (4, 3, 3, 3) and ops(g.model).count("transpose") == 1


def test_weights_are_transposed_where_they_are_loaded_and_saved():
    lay = Layouts(emitter())
    w = lay.keep("w", "float32", (3, 2, 5, 4), True, "HWIO", "OIHW")
    plain = lay.keep("p", "float32", (3, 2), True)
    a = R.standard_normal((3, 2, 5, 4))
    assert w.shape == (3, 2, 5, 4) and w.value.shape == (4, 5, 3, 2) and plain.is_plain
    stored = lay.to_store("w", a)
    assert stored.shape == (4, 5, 3, 2) and stored.flags.c_contiguous and stored[1, 2, 0, 1] == a[0, 1, 2, 1]
    assert np.array_equal(lay.from_store("w", stored), a)
    assert np.array_equal(lay.from_store("p", lay.to_store("p", a[0, :, 0])), a[0, :, 0])


def both(build, expected, **more):
    """A function of Layouts and a value gives the same for values in the program's order and in another."""
    for order in (range(4), order_of("NHWC", "NCHW"), (2, 0, 3, 1)):
        g = emitter()
        lay = Layouts(g)
        laid = lay.in_order(g.input("x", "float32", X.shape), order)
        y = build(lay, laid)
        g.output(lay.plain(y), "y")
        found = run(g.model, {"x": X, **more})["y"]
        assert found.shape == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


ROW = R.standard_normal((6, 1)).astype(np.float32)


@pytest.mark.parametrize("build, expected", [
    (lambda lay, x: lay.reduce("reduce_sum", x, (0, -2)), X.sum((0, 2))),
    (lambda lay, x: lay.reduce("reduce_max", x, (3, )), X.max(3)),
    (lambda lay, x: lay.reduce("reduce_mean", x, (1, ), keep_dims=True), X.mean(1, keepdims=True)),
    (lambda lay, x: lay.reduce("reduce_sum", x), X.sum()),
    (lambda lay, x: lay.arg("argmax", x, -1), X.argmax(-1)),
    (lambda lay, x: lay.arg("argmin", x, 1, keep_dims=True), X.argmin(1)[:, None]),
    (lambda lay, x: lay.along("cumsum", x, 2), X.cumsum(2)),
    (lambda lay, x: lay.concat([x, lay.g.input("z", "float32", X.shape)], 1), np.concatenate([X, X], 1)),
    (lambda lay, x: lay.slice(x, (1, -1), (2, 0), (8, 3), (3, 2)), X[:, 2:8:3, :, 0:3:2]),
    (lambda lay, x: lay.transpose(x, (3, 0, 2, 1)), X.transpose(3, 0, 2, 1)),
    (lambda lay, x: lay.reshape(x, (4, -1)), X.reshape(4, -1)),
    (lambda lay, x: lay.elementwise("mul", x, lay.g.const(ROW)), X * ROW),
    (lambda lay, x: lay.elementwise("sub", 1.0, x), 1 - X),
    (lambda lay, x: lay.elementwise("add", lay.g.const(X[0, 0, 0]), x), X + X[0, 0, 0]),
    (lambda lay, x: lay.elementwise("add", lay.reduce("reduce_sum", x, (0, )), x), X + X.sum(0)),
    (lambda lay, x: lay.apply(lambda v: lay.g.op.leaky_relu(v, alpha=0.5), x), np.where(X > 0, X, X / 2)),
    (lambda lay, x: lay.cast(x, "int32"), np.trunc(X)),
])
def test_ops_in_any_order(build, expected):
    more = {"z": X} if "concat" in build.__code__.co_names else {}
    both(build, expected, **more)


def test_a_value_is_transposed_once_and_axes_of_one_move_for_nothing():
    g = emitter()
    lay = Layouts(g)
    x = lay.of(g.input("x", "float32", X.shape))
    a = lay.conv(x, lay.keep("a", "float32", (1, 1, 3, 4), True, "HWIO", "OIHW"))
    b = lay.conv(x, lay.keep("b", "float32", (1, 1, 3, 4), True, "HWIO", "OIHW"))
    y = lay.pool("average_pool", lay.elementwise("add", a, b), kernel=(8, 6), strides=(1, 1))
    assert y.shape == (2, 1, 1, 4) and not y.is_plain
    g.output(lay.plain(lay.reshape(y, (2, 4))), "y")
    assert ops(g.model).count("transpose") == 1


def test_of_operands_alike_the_one_that_has_moved_decides():
    g = emitter()
    lay = Layouts(g)
    x = lay.of(g.input("x", "float32", X.shape))
    for i in range(3):  # a block with a way around it
        x = lay.elementwise("add", x, lay.conv(x, lay.keep(f"w{i}", "float32", (1, 1, 3, 3), True, "HWIO", "OIHW")))
    assert not x.is_plain and ops(g.model).count("transpose") == 1


def test_transposes_made_in_a_branch_stay_there():
    g = emitter()
    lay = Layouts(g)
    x = lay.in_order(g.input("x", "float32", X.shape), order_of("NHWC", "NCHW"))
    y, = g.branch(g.const(True), lambda: [lay.plain(x)], lambda: [g.op.neg(lay.plain(x))])
    g.output(g.op.add(y, lay.plain(x)), "y")
    assert run(g.model, {"x": X})["y"].tolist() == (X + X).tolist()


def test_one_and_three_spatial_axes():
    assert channels_first("NWC") == "NCW" and channels_first("NDHWC") == "NCDHW" and channels_first("NCHW") == "NCHW"
    g = emitter()
    lay = Layouts(g)
    w = lay.keep("w", "float32", (4, 3, 5), True, "WIO", "OIW")
    y = lay.conv(g.input("x", "float32", (2, 9, 3)), w, data="NWC", kernel="WIO")
    assert y.shape == (2, 6, 5) and y.value.shape == (2, 5, 6)
    w = lay.keep("t", "float32", (2, 2, 7, 3), True, "HWOI", "IOHW")
    y = lay.conv(g.input("x2", "float32", (2, 4, 4, 3)), w, kernel="HWOI", op="conv_transpose", stride=(2, 2))
    assert y.shape == (2, 8, 8, 7)
    w = lay.keep("n", "float32", (3, 3, 3, 4), True, "HWIO", "OIHW")
    first = lay.conv(g.input("x3", "float32", (2, 3, 8, 8)), w, data="NCHW")
    assert first.shape == (2, 4, 6, 6) and first.is_plain


def test_batch_norm_by_the_batch():
    g = emitter(training=True)
    lay = Layouts(g)
    y, mean, var = lay.norm("batch_norm", g.input("x", "float32", X.shape), None, None, n_out=3, epsilon=1e-3)
    assert y.shape == X.shape and not y.is_plain
    for name, value in (("y", lay.plain(y)), ("mean", mean), ("var", var)):
        g.output(value, name)
    found = run(g.model, {"x": X})
    m, v = X.mean((0, 1, 2)), X.var((0, 1, 2))
    np.testing.assert_allclose(found["mean"], m, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found["y"], (X - m) / np.sqrt(v + 1e-3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel, stride, dilation", [((3, 3), (1, 1), (1, 1)), ((2, 4), (2, 3), (1, 1)), ((3, 2), (1, 2), (2, 1)),
                                                      ((1, 1), (3, 4), (1, 1))])
def test_the_padding_that_is_called_same(kernel, stride, dilation):
    padding = same_padding(X.shape[1:3], kernel, stride, dilation)
    before, after = padding[:2], padding[2:]
    assert all(b <= a <= b + 1 for b, a in zip(before, after))
    g = emitter()
    lay = Layouts(g)
    w = lay.keep("w", "float32", (*kernel, 3, 4), True, "HWIO", "OIHW")
    y = lay.conv(g.input("x", "float32", X.shape), w, padding=padding, stride=stride, dilation=dilation)
    assert y.shape == (2, -(-8 // stride[0]), -(-6 // stride[1]), 4)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    assert all(b + a < r for b, a, r in zip(before, after, reach))  # no window lies in the padding alone


@pytest.mark.parametrize("wrong, message", [
    (lambda lay, x: lay.reduce("reduce_sum", x, (4, )), r"axis 4 of a value of shape \[2, 8, 6, 3\]: expected one of -4 to 3"),
    (lambda lay, x: lay.pool("max_pool", x, data="NWC", kernel=(2, )), "axes 'NWC' of a value of shape"),
    (lambda lay, x: lay.pad(x, (1, ), (1, )), "padding of 1 and 1 axes; the value has 4"),
    (lambda lay, x: lay.of(x.value, "NHWC", "NHWD"), "axes 'NHWC' cannot be stored as 'NHWD'"),
    (lambda lay, x: channels_first("HWC"), "expected N, C and the spatial ones"),
    (lambda lay, x: lay.elementwise("add", 1, 2), "expected a value among the operands")])
def test_errors(wrong, message):
    lay = Layouts(emitter())
    with pytest.raises(openipu.Error, match=message):
        wrong(lay, lay.of(lay.g.input("x", "float32", X.shape)))


def test_a_laid_value_shows_both_shapes():
    g = emitter()
    laid = Laid(g.input("x", "float32", (2, 3, 8, 6)), order_of("NHWC", "NCHW"))
    assert repr(laid) == "Laid(float[2, 8, 6, 3] in Value(float[2, 3, 8, 6]))" and laid.type == "float"
