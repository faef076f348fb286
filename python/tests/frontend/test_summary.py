"""openipu.summary: event files read back record by record."""

from __future__ import annotations

import math
import struct

import numpy as np
import openipu
import pytest
from openipu.summary import Summary


def records(path):
    """The messages of a file; tests of the library look at checksums."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, = struct.unpack_from("<Q", data, at)
        yield data[at + 12:at + 12 + length]
        at += 16 + length
    assert at == len(data)


def message(n, *parts):
    """Field n, of parts."""
    body = b"".join(parts)
    return bytes([n << 3 | 2, len(body)]) + body


def scalar(tag, value):
    return message(1, message(1, tag.encode()), b"\x15" + struct.pack("<f", value))


def test_scalars_and_texts(tmp_path):
    with Summary(tmp_path / "run", purge=5) as summary:
        summary.add_scalar(7, "a", 1.5)
        summary.add_scalars(8, {"ü/loss": math.inf, "b": 0})
        summary.add_text(9, "notes", "with *half*")
        path = summary.path
        found = [body[9:] for body in records(path)]  # without the time
    assert path.startswith(str(tmp_path / "run" / "events.out.tfevents."))
    assert found[0] == message(3, b"brain.Event:2")
    assert found[1] == b"\x10\x05" + message(7, b"\x08\x01")
    assert found[2] == b"\x10\x07" + message(5, scalar("a", 1.5))
    assert found[3] == b"\x10\x08" + message(5, scalar("ü/loss", math.inf), scalar("b", 0))
    assert found[4].startswith(b"\x10\x09") and b"with *half*" in found[4] and len(found) == 5


def test_histograms(tmp_path):
    summary = Summary(tmp_path)
    values = np.arange(12, dtype=np.float32).reshape(3, 4).T  # not contiguous
    summary.add_histogram(1, "w", values)
    body = list(records(summary.path))[1]
    assert struct.pack("<d", 0) in body and struct.pack("<d", 11) in body and struct.pack("<d", 66) in body  # min, max, sum
    with pytest.raises(openipu.Error, match="\"w\": expected an array with a finite element, found none in 2"):
        summary.add_histogram(1, "w", np.full(2, np.nan))
    with pytest.raises(openipu.Error, match="tensors of complex64 are not supported"):
        summary.add_histogram(1, "w", np.zeros(2, np.complex64))


def test_misuse(tmp_path):
    summary = Summary(tmp_path)
    with pytest.raises(openipu.Error, match="expected a tag that is not empty"):
        summary.add_scalar(1, "", 1)
    with pytest.raises(openipu.Error, match="at step -1: expected none below 0"):
        summary.add_scalars(-1, {"a": 1})
    summary.add_scalar(1, "bad \udcff", 1)
    assert "bad \ufffd".encode() in list(records(summary.path))[1]
    summary.close()
    with pytest.raises(openipu.Error, match="this summary was closed"):
        summary.add_scalar(1, "a", 1)
    (tmp_path / "file").touch()
    with pytest.raises(openipu.Error, match="Not a directory") as caught:
        Summary(tmp_path / "file")
    assert caught.value.status == "IO"
