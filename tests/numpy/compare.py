"""Arrays of every type, order and shape written by numpy, copied by our reader and writer, read by numpy again.

Usage: compare.py COPY CHECKPOINT FOLDER, where `COPY FROM TO` reads FROM and writes TO (.npy or .npz), and `CHECKPOINT TO`
writes the checkpoint of train/checkpoint_test.c.
"""
import json
import os
import subprocess
import sys

import numpy as np

TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "V2"]
SHAPES = [(), (1,), (7,), (0,), (3, 4), (4, 0, 2), (2, 3, 4), (2, 1, 3, 2), (2, 1, 2, 1, 3, 1, 2, 2)]


def arrays():
    """Pairs (name, array); the bits are random, so that NaNs and both zeros are among them."""
    random = np.random.default_rng(5)
    for kind in TYPES:
        for shape in SHAPES:
            size = np.dtype(kind).itemsize
            bits = random.integers(0, 2 if kind == "?" else 256, (*shape, size), dtype=np.uint8)
            a = np.frombuffer(bits.tobytes(), dtype=kind).reshape(shape)
            swapped = a.byteswap().newbyteorder() if kind != "V2" else a
            yield f"{kind}{shape}", a
            yield f"{kind}{shape} F", np.asfortranarray(a)
            yield f"{kind}{shape} big", swapped
            yield f"{kind}{shape} F big", np.asfortranarray(swapped)


def same(a, b):
    kind = a.dtype.newbyteorder("=") if a.dtype.kind != "V" else a.dtype
    if b.dtype != kind or b.shape != a.shape:
        return False
    return b.tobytes() == np.ascontiguousarray(a).astype(kind).tobytes()


def main():
    copy, write_checkpoint, folder = sys.argv[1:]
    results = []

    def check(name, ok):
        results.append(ok)
        if not ok:
            print("differs:", name)

    def run(source, target):
        subprocess.run([copy, source, target], check=True)

    all_arrays = dict(arrays())
    for save in (np.savez, np.savez_compressed):
        source, target = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
        save(source, **all_arrays)
        run(source, target)
        with np.load(target) as z:
            check("names", list(z.files) == list(all_arrays))
            for name, a in all_arrays.items():
                check(f"{save.__name__} {name}", same(a, z[name]))
    source, target = os.path.join(folder, "in.npy"), os.path.join(folder, "out.npy")
    for version in ((1, 0), (2, 0), (3, 0)):
        for kind in TYPES:
            a = np.asfortranarray(all_arrays[f"{kind}(2, 3, 4)"])
            with open(source, "wb") as f:
                np.lib.format.write_array(f, a, version=version)
            run(source, target)
            check(f"version {version} {kind}", same(a, np.load(target)))
            if not a.flags["C_CONTIGUOUS"]:
                np.save(source, np.ascontiguousarray(a))
                check(f"bytes of {kind}", open(source, "rb").read() == open(target, "rb").read() or kind == "V2")
    for name, a in {"object": np.array([{}, 1], dtype=object), "string": np.array(["a"]), "complex": np.array([1j]),
                    "structured": np.zeros(2, dtype=[("a", "f4"), ("b", "i4")])}.items():
        np.save(source, a)
        done = subprocess.run([copy, source, target], stderr=subprocess.PIPE, text=True, check=False)
        check(f"{name} is refused", done.returncode == 1 and "cannot read" in done.stderr)
    source = os.path.join(folder, "checkpoint.npz")
    subprocess.run([write_checkpoint, source], check=True)
    with np.load(source) as z:
        check("step", z["checkpoint/step"] == 1234567890123 and z["checkpoint/step"].shape == ())
        check("position", z["checkpoint/position"].tolist() == [3, 77])
        check("model", z["checkpoint/model"].tobytes() == b"seed-cnn")
        check("text", json.loads(z["checkpoint/text"].tobytes())["lr"] == 0.01)
        weight = np.array([0x7fc01234, 0xffc00001, 0x80000000, 1, 0x3f800000, 0x7f800000], "u4").view("f4").reshape(2, 3)
        check("weight", same(weight, z["conv1.weight"]))
        check("no more", len(z.files) == 9)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")


main()
