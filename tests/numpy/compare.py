"""Arrays of every type, order and shape written by numpy, copied by our reader and writer, read by numpy again.

Usage: compare.py COPY FOLDER, where `COPY FROM TO` reads FROM and writes TO (.npy or .npz).
"""
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
    copy, folder = sys.argv[1:]
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
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")


main()
