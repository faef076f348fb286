"""openipu: networks built value by value, host functions, gradients of one's own, messages."""

from __future__ import annotations

import ctypes

import numpy as np
import openipu
import pytest
from openipu import Network
from openipu.host import HostFunction, call, show
from openipu.library import Target, check, lib


def _run(network, inputs, outputs):
    """Compile, run once, and read outputs (name: shape) as floats."""
    target, exe, engine = Target(), ctypes.c_void_p(), ctypes.c_void_p()
    network.check()
    check(lib().ipu_target_find(b"gc200", 1, ctypes.byref(target)))
    check(lib().ipu_model_compile(network.pointer, ctypes.byref(target), None, ctypes.byref(exe)))
    try:
        check(lib().ipu_engine_create(exe, None, ctypes.byref(engine)))
        for name, array in inputs.items():
            check(lib().ipu_engine_write(engine, name.encode(), array.ctypes.data, array.nbytes))
        check(lib().ipu_engine_run(engine, 0))
        results = {}
        for name, shape in outputs.items():
            results[name] = np.empty(shape, np.float32)
            check(lib().ipu_engine_read(engine, name.encode(), results[name].ctypes.data, results[name].nbytes))
        return results
    finally:
        if engine:
            lib().ipu_engine_destroy(engine)
        lib().ipu_executable_release(exe)


def test_ops_and_constants():
    net = Network.create()
    x = net.input("x", "float", (2, 3))
    y = net.emit("reduce_sum", [net.emit("add", [x, net.array(np.arange(3, dtype=np.float32))])], axes=[1])
    y = net.emit("mul", [y, net.scalar(2, "float")])
    assert y.shape == (2, ) and y.type == "float" and y.rank == 1 and y.n_elements == 2
    net.output(y, "y")
    data = np.ones((2, 3), np.float32)
    assert _run(net, {"x": data}, {"y": (2, )})["y"].tolist() == [12.0, 12.0]
    assert "reduce_sum" in net.text()


def test_equal_constants_are_one():
    net = Network.create()
    assert net.scalar(1, "float").id == net.scalar(1, "float").id
    assert net.scalar(1, "float").id != net.scalar(1, "int32").id
    assert net.scalar(True, "bool").id != net.scalar(False, "bool").id


def test_concat_of_many():
    net = Network.create()
    x = net.input("x", "float", (1, ))
    y = net.emit("concat", [x] * 40, axis=0)
    assert y.shape == (40, )


def test_branches_and_loops():
    net = Network.create()
    x = net.input("x", "float", ())
    net.begin_if(net.emit("greater", [x, net.scalar(0, "float")]))
    net.yield_values([net.emit("neg", [x])])
    net.begin_else()
    net.yield_values([net.emit("mul", [x, net.scalar(3, "float")])])
    y, = net.end(1)
    (inside, ), index = net.begin_loop(4, [y])
    net.yield_values([net.emit("add", [inside, net.emit("cast", [index], to="float")])])
    z, = net.end(1)
    net.output(z, "z")
    assert _run(net, {"x": np.array(2, np.float32)}, {"z": ()})["z"] == -2 + 6


def test_states():
    net = Network.create()
    start = np.full(3, 2, np.float32)
    s = net.state("s", "float", (3, ), start.ctypes.data)
    net.update(s, net.emit("mul", [s, s]))
    net.output(s, "now")
    results = _run(net, {}, {"now": (3, ), "s": (3, )})
    assert results["now"].tolist() == [2, 2, 2] and results["s"].tolist() == [4, 4, 4]


def test_errors_say_what_is_wrong():
    net = Network.create()
    x = net.input("x", "float", (2, 3))
    with pytest.raises(openipu.Error, match="inner dimensions differ"):
        net.emit("matmul", [x, x])
    with pytest.raises(openipu.Error, match="has no attribute 'axle'"):
        Network.create().emit("reduce_sum", [], axle=1)
    with pytest.raises(openipu.Error) as e:
        Network.create().emit("reduce_som", [])
    assert "reduce_sum" in e.value.message and e.value.status == "NOT_FOUND"
    with pytest.raises(openipu.Error, match="at most 8 dimensions"):
        Network.create().input("x", "float", (1, ) * 9)


def test_host_functions():
    net = Network.create()
    x = net.input("x", "float", (4, ))
    seen = []
    double = HostFunction("double", lambda ins: [ins[0] * 2, ins[0].sum()])
    shown = HostFunction("shown", lambda ins: seen.append(ins[0].tolist()))
    y, total = call(net, double, [x], [("float", (4, )), ("float", ())])
    net.output(show(net, y, shown), "y")
    net.output(total, "total")
    results = _run(net, {"x": np.arange(4, dtype=np.float32)}, {"y": (4, ), "total": ()})
    assert results["y"].tolist() == [0, 2, 4, 6] == seen[0] and results["total"] == 6
    double.close()
    shown.close()


def test_host_function_that_fails():
    net = Network.create()
    x = net.input("x", "float", (1, ))

    def fail(ins):
        raise ValueError("not today")

    function = HostFunction("fail", fail)
    y, = call(net, function, [x], [("float", (1, ))])
    net.output(y, "y")
    with pytest.raises(openipu.Error, match="not today"):
        _run(net, {"x": np.zeros(1, np.float32)}, {"y": (1, )})
    assert isinstance(function.error, ValueError)
    function.close()


def test_gradients_of_ones_own():
    net = Network.create()
    x = net.input("x", "float", ())
    y, = net.custom_gradient([x], [net.emit("square", [x])], lambda d: [net.emit("mul", [d[0], net.scalar(7, "float")])])
    dx = (openipu.library.RawValue * 1)()
    lib().ipu_model_gradients(net.pointer, y.raw, net.raws([x]), 1, None, dx)
    net.output(y, "y")
    net.output(net.value(dx[0]), "dx")
    results = _run(net, {"x": np.array(3, np.float32)}, {"y": (), "dx": ()})
    assert results["y"] == 9 and results["dx"] == 7 and net.raised is None


def _error_of(net):
    x = net.input("x", "float", (2, 3))
    with pytest.raises(openipu.Error) as e:
        net.emit("matmul", [x, x])
    return e.value.message


def test_names_of_files_outlive_their_network():
    """The library goes on pointing to the name that its thread was told last."""
    file = "a_file_of_a_network_that_is_gone.py"
    before, net = Network.create(), Network.create()
    net.at("".join(list(file)), 12)  # a text of its own
    del net
    others = [b"M" * len(file) for _ in range(1000)]  # where the name was, if it was freed
    assert _error_of(before).startswith(f"{file}:12: ") and others


def test_a_network_begins_without_a_place():
    first = Network.create()
    first.at("another.py", 12)
    assert "another.py" not in _error_of(Network.create())


def test_negative_zero_is_a_constant_of_its_own():
    net = Network.create()
    y = net.emit("div", [net.scalar(1, "float"), net.emit("concat", [net.scalar(0.0, "float", (1, )),
                                                                    net.scalar(-0.0, "float", (1, ))], axis=0)])
    net.output(y, "y")
    assert _run(net, {}, {"y": (2, )})["y"].tolist() == [np.inf, -np.inf]


def test_numbers_of_numpy_are_the_same_constants():
    net = Network.create()
    assert net.scalar(np.float32(2), "float").id == net.scalar(2.0, "float").id
    assert net.scalar(np.int64(2), "int32").id == net.scalar(2, "int32").id


def test_values_by_their_names():
    net = Network.create()
    x = net.input("x", "float", (2, 3))
    w = net.parameter("w", "float", (2, 3))
    with net.scope("encoder"):
        h = net.named(net.emit("mul", [x, w]), "h")
    net.output(net.emit("reduce_sum", [net.emit("square", [h])]), "loss")
    assert [net.value_named(name).id for name in ("x", "w", "encoder/h")] == [x.id, w.id, h.id]
    found = net.value_named("encoder/h")
    assert found.shape == (2, 3) and found.type == "float"
    d_h, = net.gradients(net.value_named("loss"), [found])
    net.output(d_h, "d_h")
    x, w = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)
    assert _run(net, {"x": x, "w": w}, {"d_h": (2, 3)})["d_h"].tolist() == (2 * x * w).tolist()


def test_names_that_are_not_there_are_no_errors_of_the_network():
    net = Network.create()
    with net.scope("encoder"):
        h = net.named(net.input("x", "float", (2, )), "scores")
    for name, says in (("encoder/score", 'has no value "encoder/score".*encoder/scores'), ("scores", 'no value "scores"'),
                       ("", "without a name")):
        with pytest.raises(openipu.Error, match=says) as e:
            net.value_named(name)
        assert e.value.status == "NOT_FOUND"
    net.check()
    assert net.value_named("encoder/scores").id == h.id


def test_a_scope_ends_where_it_fails():
    net = Network.create()
    with pytest.raises(ValueError):
        with net.scope("encoder"):
            raise ValueError("not today")
    y = net.named(net.emit("neg", [net.input("x", "float", ())]), "y")
    assert net.value_named("y").id == y.id
