"""Files that hold pickled objects, known by how they begin."""

from __future__ import annotations

import os
import pickle
from typing import Any


def place(name: str, of_folder: str) -> str:
    """Where to write: the file of that name, in a folder that is made; if it is a folder itself, its file ``of_folder``."""
    folder = os.path.dirname(name)
    if folder:
        assert not os.path.exists(folder) or os.path.isdir(folder), f"Destination folder {folder} is not a directory"
        os.makedirs(folder, exist_ok=True)
    return os.path.join(name, of_folder) if os.path.isdir(name) else name


def write(path: str, magic: bytes, content: Any) -> None:
    """The whole file or none: what was there before stays until it is written."""
    pickled = pickle.dumps(content, protocol=4)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(magic)
        file.write(pickled)
    os.replace(temporary, path)


def read(path: str, magic: bytes) -> Any:
    """What ``write`` was given; None: the file begins with something else. Who wrote it runs code here."""
    with open(path, "rb") as file:
        return pickle.load(file) if file.read(len(magic)) == magic else None
