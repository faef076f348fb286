"""Pictures of digits for train_tools_test.sh, made of a dataset of MNIST's form. Usage: pictures.py DATA OUT"""
import pathlib
import struct
import sys
import zlib

import numpy as np


def write_png(path, a):
    """uint8 [height, width] or [height, width, 3 or 4]"""
    kind = {2: 0, 3: {3: 2, 4: 6}.get(a.shape[-1])}[a.ndim]

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + row.tobytes() for row in a)
    head = struct.pack(">IIBBBBB", a.shape[1], a.shape[0], 8, kind, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def enlarge(a, factor):
    """Bilinear, in the middle of a larger, dark picture."""
    n = a.shape[0] * factor
    at = np.clip((np.arange(n) + 0.5) / factor - 0.5, 0, a.shape[0] - 1)
    low = at.astype(int)
    high = np.minimum(low + 1, a.shape[0] - 1)
    part = at - low
    rows = a[low] * (1 - part)[:, None] + a[high] * part[:, None]
    big = rows[:, low] * (1 - part) + rows[:, high] * part
    return np.pad(big, ((30, 90), (200, 10)))


def main():
    data, out = map(pathlib.Path, sys.argv[1:])
    images = np.frombuffer((data / "t10k-images-idx3-ubyte").read_bytes(), np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer((data / "t10k-labels-idx1-ubyte").read_bytes(), np.uint8, offset=8)
    for digit in range(10):
        a = images[np.flatnonzero(labels == digit)[0]].astype(float)
        big = enlarge(a, 7)[..., None] / 255
        ink, paper = np.array([20, 30, 160]), np.array([250, 240, 200])
        write_png(out / f"same_{digit}.png", a.astype(np.uint8))
        write_png(out / f"dark_{digit}.png", (255 - a).astype(np.uint8))
        write_png(out / f"big_{digit}.png", (255 * big[..., 0]).astype(np.uint8))
        write_png(out / f"colour_{digit}.png", (ink * big + paper * (1 - big)).astype(np.uint8))
        write_png(out / f"clear_{digit}.png", np.concatenate([0 * big, 0 * big, 0 * big, 255 * big], -1).astype(np.uint8))


main()
