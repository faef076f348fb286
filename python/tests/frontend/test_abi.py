"""Structures and constants in Python are those of the headers and of the library."""

import ctypes
import re
from pathlib import Path

import pytest

from openipu import abi, executor, library  # pylint: disable=unused-import
from support import python

HEADERS = Path(__file__).resolve().parents[3] / "include" / "ipu"


def members_of(text, name):
    """Names of the members of a structure, from its declaration."""
    found = re.search(r"typedef struct " + name + r" \{(.*?)\n\} " + name + ";", text, re.S)
    assert found, f"{name} is not in the headers"
    body = re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.S)
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r" \1", body)  # a function
    names = []
    for declaration in body.split(";"):
        for part in declaration.split(","):
            word = re.search(r"(\w+)\s*(\[\w+\])?\s*$", part)
            if word:
                names.append(word.group(1))
    return names


def headers():
    if not HEADERS.is_dir():
        pytest.skip("there are no headers here")
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(HEADERS.rglob("*.h")))


def test_all_members_are_described():
    text = headers()
    library.lib()
    assert len(abi._layouts) >= 18
    for name, layout in abi._layouts.items():
        assert [member[0] for member in layout.members] == members_of(text, name), name


def test_all_constants_of_an_enumeration_are_described():
    text = headers()
    library.lib()
    for name in ("ipu_output_mode", "ipu_reduction", "ipu_attach_when", "ipu_pipeline_schedule", "ipu_precision",
                 "ipu_nn_optimizer_kind", "ipu_attribute_kind", "ipu_dataset_part", "ipu_schedule_kind", "ipu_trainer_begin"):
        body = re.search(r"typedef enum " + name + r" \{(.*?)\} " + name + ";", text, re.S).group(1)
        for constant in re.findall(r"\bIPU_\w+", re.sub(r"/\*.*?\*/", "", body, flags=re.S)):
            assert constant in abi._constants, constant


def test_every_structure_is_one_of_the_librarys():
    """No class repeats a structure of a header."""
    root = Path(abi.__file__).resolve().parents[1]
    for path in [*root.glob("openipu/**/*.py"), *root.glob("poptorch/**/*.py")]:
        text = path.read_text(encoding="utf-8")
        assert path.name == "abi.py" or "(Structure)" not in text, path


def test_sizes_and_offsets():
    library.lib()
    assert abi._records["ipu_shape"] is library.Shape
    for name, cls in abi._records.items():
        layout = abi._layouts[name]
        assert ctypes.sizeof(cls) == layout.n_bytes
        for member, _, offset, n_bytes in layout.members:
            found = getattr(cls, member)
            assert (found.offset, found.size) == (offset, n_bytes), (name, member)


WRONG = """
import ctypes, openipu
from openipu import abi, library
{change}
try:
    library.lib()
    print("no error")
except openipu.Error as e:
    print(e.status, e)
"""


@pytest.mark.parametrize("change, says", [
    ("abi.expect('IPU_PRECISION_', {'FLOAT': 1})", "IPU_PRECISION_FLOAT is 1 in Python, and 0 in libipu.so"),
    ("abi.expect('IPU_PRECISION_', {'QUARTER': 3})", "IPU_PRECISION_QUARTER is 3 in Python, and None in libipu.so"),
    ("type('Later', (abi.Record, ), {'_name_': 'ipu_later'})", "libipu.so does not describe ipu_later: it is older"),
])
def test_another_library_is_refused(change, says):
    found = python(WRONG.format(change=change))
    assert found.startswith("UNSUPPORTED") and says in found


def test_an_incomplete_description_is_refused():
    """As if a member had been forgotten in src/abi.inc."""
    library.lib()
    layout = abi._Layout(24)
    layout.members = [("a", "int64", 0, 8), ("c", "int64", 16, 8)]
    abi._layouts["incomplete"] = layout
    try:
        with pytest.raises(library.Error, match="incomplete.c is at 8 in Python, and at 16 in libipu.so"):
            type("Incomplete", (abi.Record, ), {"_name_": "incomplete"})
    finally:
        del abi._layouts["incomplete"], abi._records["incomplete"]


def test_structures_come_with_the_library():
    """The first object loads it, and so does the first array."""
    for use in ("library.Shape()", "(library.RawValue * 2)()"):
        assert python("from openipu import library\n"
                      f"assert library._loaded is None\n{use}\nprint(library._loaded is not None)") == "True\n"


WITH_STRUCTURES = [path.stem for path in sorted(Path(abi.__file__).parent.glob("*.py"))
                   if "(Record)" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", WITH_STRUCTURES)
def test_modules_may_be_imported_after_the_library_is_loaded(module):
    """Classes come before those whose members they are: what is a member has one class."""
    assert python(f"import openipu; openipu.lib(); import openipu.{module}; print('good')") == "good\n"


def test_a_class_that_comes_too_late_is_refused():
    library.lib()
    name = next(n for n, cls in abi._records.items() if cls.__module__ == abi.__name__)
    with pytest.raises(TypeError, match=f"comes after a class whose members it is among: {name}"):
        type("Late", (abi.Record, ), {"_name_": name})
