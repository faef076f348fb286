"""The log of `ipu train` in a folder: read_log.py FOLDER STEPS [EPOCHS]. Steps 1 to STEPS (0: any, in order) are there once, in the table and, as a reader
sees them who heeds what is superseded, in event files, and have the same losses; so are the epochs. Without EPOCHS, event files may lack what the
table has, as where there was no room or the process was killed between the two. The code shares nothing with the
library: it checks checksums bit by bit and reads fields by their numbers."""

import csv
import math
import struct
import sys
from pathlib import Path


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8]), f"{path}: the length at {at}"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"{path}: cut short at {at}"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"{path}: the record at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """Numbers and values of a message's fields: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        else:
            n = {1: 8, 5: 4}.get(kind)
            if n is None:
                n, at = varint(data, at)
            value, at = data[at:at + n], at + n
        yield key >> 3, value


def events(folder):
    """Tag -> step -> value, in the end."""
    curves = {}
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for i, body in enumerate(records(path)):
            event = dict(fields(body))
            step = event.get(2, 0)
            assert struct.unpack("<d", event[1])[0] > 1.7e9
            assert i > 0 or event[3] == b"brain.Event:2", path
            if 7 in event:
                assert dict(fields(event[7])) == {1: 1}
                for curve in curves.values():
                    for old in [s for s in curve if s >= step]:
                        del curve[old]
            for number, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                assert number == 1
                if 2 in value:
                    curve = curves.setdefault(value[1].decode(), {})
                    assert step not in curve, (path, value[1], step)
                    curve[step] = struct.unpack("<f", value[2])[0]
    return curves


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-6)


def main(folder, n_steps, n_epochs=None):
    curves = events(folder)
    steps = list(csv.DictReader(open(folder / "steps.csv", newline="", encoding="utf-8")))
    epochs = list(csv.DictReader(open(folder / "epochs.csv", newline="", encoding="utf-8")))
    numbers = [int(row["step"]) for row in steps]
    assert numbers == (list(range(1, n_steps + 1)) if n_steps else sorted(set(numbers))), numbers
    for tag, column in (("train/loss", "loss"), ("train/accuracy", "accuracy"), ("train/rate", "rate")):
        assert n_epochs is None or sorted(curves[tag]) == list(range(1, n_steps + 1)), (tag, sorted(curves[tag]))
        for row in steps:
            value = curves[tag].get(int(row["step"]))
            assert (value is None and n_epochs is None) or close(value, float(row[column])), (tag, row, value)
    if n_epochs is not None:
        assert [int(row["epoch"]) for row in epochs] == list(range(1, n_epochs + 1)), epochs
        assert len(curves["test/accuracy"]) == n_epochs
    for row in epochs:
        value = curves["test/loss"].get(int(row["step"]))
        assert (value is None and n_epochs is None) or close(value, float(row["test_loss"])), (row, value)


main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
