"""Small ONNX models, arrays and test data for onnx_tools_test.sh. Usage: make_models.py FOLDER."""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, initializers=(), opsets=(("", 13),)):
    graph = helper.make_graph(nodes, "small", inputs, outputs, list(initializers))
    model = helper.make_model(graph, producer_name="make_models", opset_imports=[helper.make_opsetid(*o) for o in opsets])
    model.ir_version = 7
    helper.set_model_props(model, {"author": "nobody", "task": "testing"})
    onnx.save(model, path)
    return model


def save_set(folder, inputs, outputs):
    os.makedirs(folder)
    for what, arrays in (("input", inputs), ("output", outputs)):
        for i, a in enumerate(arrays):
            with open(os.path.join(folder, f"{what}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(a).SerializeToString())


def main():
    os.chdir(sys.argv[1])
    save("add.onnx", [helper.make_node("Add", ["x", "y"], ["z"])],
         [value("x", FLOAT, ["N", 3]), value("y", FLOAT, ["N", 3])], [value("z", FLOAT, ["N", 3])])
    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    save("linear.onnx", [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
         [value("x", FLOAT, [2, 4])], [value("y", FLOAT, [2, 3])], [numpy_helper.from_array(weights, "w")])
    rng   = np.random.default_rng(1)
    deep  = [op for i in range(4) for op in (helper.make_node("MatMul", ["x" if i == 0 else f"t{i}", f"w{i}"], [f"h{i}"]),
                                             helper.make_node("Tanh", [f"h{i}"], [f"t{i + 1}" if i < 3 else "y"]))]
    save("deep.onnx", deep, [value("x", FLOAT, ["N", 64])], [value("y", FLOAT, ["N", 64])],
         [numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), f"w{i}") for i in range(4)])
    save("ints.onnx", [helper.make_node("Add", ["i", "i"], ["twice"]), helper.make_node("Not", ["b"], ["other"])],
         [value("i", INT64, [50]), value("b", BOOL, [20])], [value("twice", INT64, [50]), value("other", BOOL, [20])])
    save("reshape.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])],
         [value("x", FLOAT, [6]), value("shape", INT64, [2])], [value("y", FLOAT, None)])
    save("any_shape.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", FLOAT, None)], [value("y", FLOAT, None)])
    save("strange.onnx", [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Wobble", ["a"], ["y"], domain="my.ops")],
         [value("x", FLOAT, [3])], [value("y", FLOAT, [3])], opsets=(("", 13), ("my.ops", 1)))
    save("log.onnx", [helper.make_node("Log", ["x"], ["y"])], [value("x", FLOAT, [4])], [value("y", FLOAT, [4])])
    save("wide.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", FLOAT, [20000])], [value("y", FLOAT, [20000])])

    save("sequence.onnx", [helper.make_node("Identity", ["s"], ["t"])],
         [helper.make_tensor_sequence_value_info("s", FLOAT, None)], [helper.make_tensor_sequence_value_info("t", FLOAT, None)],
         opsets=(("", 14),))
    for name, items in (("sequence.pb", [np.float32([1, 2]), np.float32([[3]])]), ("shorter.pb", [np.float32([1, 2])])):
        with open(name, "wb") as f:
            f.write(numpy_helper.from_list(items, dtype=onnx.SequenceProto.TENSOR).SerializeToString())

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save("x.npy", x)
    np.save("rows.npy", rng.standard_normal((12, 64)).astype(np.float32))
    np.save("ones.npy", np.ones((2, 3), np.float32))
    np.save("double.npy", x.astype(np.float64))
    np.save("wrong.npy", np.zeros((2, 5), np.float32))
    np.save("log.npy", np.array([1, 0, -1, np.e], np.float32))
    np.savez("both.npz", x=x, ones=np.ones((2, 3), np.float32))
    np.save("six.npy", np.arange(6, dtype=np.float32))
    np.save("shape.npy", np.array([3, 2]))
    np.save("big.npy", np.array([2**60 + 1] * 50))

    a = np.array([[1, 0, -1, 2], [0.5, 1, 0, 0]], np.float32)
    y = np.maximum(a @ weights, 0)
    near, far = y * np.float32(1.0005), y.copy()
    far[1, 2] += 1
    save_set("good/test_data_set_0", [a], [y])
    save_set("good/test_data_set_1", [a], [near])
    save_set("good/test_data_set_10", [a], [y])
    save_set("mixed/test_data_set_0", [a], [y])
    save_set("mixed/test_data_set_1", [a], [far])
    save_set("shapes", [a], [y.reshape(3, 2)])
    save_set("many", [a, a], [y])
    for folder, out in (("same", "sequence.pb"), ("shorter", "shorter.pb")):
        os.makedirs(folder)
        shutil.copy("sequence.pb", os.path.join(folder, "input_0.pb"))
        shutil.copy(out, os.path.join(folder, "output_0.pb"))
    os.makedirs("hollow/test_data_set_0")


main()
