"""Structures and constants in Python are those of the headers and of the library."""

import ctypes
import dataclasses
import enum
import re
from pathlib import Path

import pytest

from openipu import abi, executor, library, settings
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


def name_in_c(cls):
    """The first word of the docstring of a class of settings."""
    return re.match(r"``(\w+)``", cls.__doc__).group(1)


def settings_of(kind):
    """The dataclasses, or the enumerations, of openipu.settings."""
    found = [cls for cls in vars(settings).values() if isinstance(cls, type) and cls.__module__ == settings.__name__
             and (issubclass(cls, enum.Enum) if kind == "enum" else dataclasses.is_dataclass(cls))]
    assert len(found) >= 7
    return found


@pytest.mark.parametrize("name", [*map(name_in_c, settings_of("enum")), "ipu_attribute_kind"])
def test_all_constants_of_an_enumeration_are_described(name):
    library.lib()
    body = re.search(r"typedef enum " + name + r" \{(.*?)\} " + name + ";", headers(), re.S).group(1)
    for constant in re.findall(r"\bIPU_\w+", re.sub(r"/\*.*?\*/", "", body, flags=re.S)):
        assert constant in abi._constants, constant


def test_every_constant_is_in_python():
    """And all of Python's are checked against the library's when it is loaded."""
    library.lib()
    known = set()
    for prefix, names in abi._expected:
        known |= {prefix + name.upper() for name in getattr(names, "__members__", names)}
    assert known == set(abi._constants)


@pytest.mark.parametrize("cls", settings_of("enum"))
def test_every_enumeration_is_checked(cls):
    assert cls in [names for _, names in abi._expected]


#: What is no setting: lengths, what trainers are given beside their options, and what the package fills in itself.
NO_SETTINGS = {
    "ipu_executor_options": {"n_stage_ipus"},
    "ipu_nn_training": {"n_groups"},
    "ipu_schedule": {"n_milestones"},
    "ipu_trainer_options": {"module", "data", "test", "rate_user", "metric_user", "n_may_differ", "events", "words"},
}


@pytest.mark.parametrize("cls", settings_of("dataclass"))
def test_settings_have_all_members(cls):
    library.lib()
    name = name_in_c(cls)
    members = [member[0] for member in abi._layouts[name].members if member[0] not in NO_SETTINGS.get(name, ())]
    assert sorted(f.name for f in dataclasses.fields(cls)) == sorted(members)


@pytest.mark.parametrize("cls", settings_of("dataclass"))
def test_plain_settings_reach_c(cls):
    """`fill` passes by what it does not know."""
    library.lib()
    kinds = {"bool": True, "int64": 3, "size": 3, "double": 0.5, "uint": 1}
    given = {member: kinds[kind] for member, kind, _, _ in abi._layouts[name_in_c(cls)].members
             if kind in kinds and member not in NO_SETTINGS.get(name_in_c(cls), ())}
    needed = {"parameters": []} if cls is settings.Group else {}
    structure = executor.fill(abi._element(name_in_c(cls))(), cls(**needed, **given))
    assert {member: getattr(structure, member) for member in given} == given


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


THREADS = """
import os, sys, threading
from openipu import abi, library
sys.setswitchinterval(1e-6)
opened, found, together, original = [], [], threading.Barrier(16), library._open

def counted():
    opened.append(threading.get_ident())
    for _ in range(1000):
        os.sched_yield()  # the others may come, if nothing keeps them out
    return original()

def use(i):
    together.wait()
    try:
        library.lib()
        found.append(library.Shape.of((i, 2)).tuple())
        type(f"Target{i}", (abi.Record, ), {"_name_": "ipu_target"})(), (library.RawValue * 2)()
        abi.expect("IPU_", {"MAX_RANK": 8})
        library.declare("ipu_version", library.c_char_p, [])
    except Exception as e:
        found.append(e)

library._open = counted
threads = [threading.Thread(target=use, args=(i, )) for i in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(opened), sorted(found, key=str) == sorted([(i, 2) for i in range(16)], key=str) or found)
"""


def test_threads_load_the_library_once():
    assert python(THREADS) == "1 True\n"


LOCKED = """
import threading
from openipu import abi, library
original, taken = library.abi.read, []

def watched(*arguments):
    thread = threading.Thread(target=lambda: taken.append(abi.loading.acquire(blocking=False)))
    thread.start()
    thread.join()
    original(*arguments)

abi.read = watched
library.lib()
print(taken)
"""


def test_what_modules_add_waits_for_the_loading():
    """Else what comes while the library is read sees half of its structures."""
    assert python(LOCKED) == "[False]\n"


WITH_STRUCTURES = [path.stem for path in sorted(Path(abi.__file__).parent.glob("*.py"))
                   if "(Record)" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", WITH_STRUCTURES)
def test_modules_may_be_imported_after_the_library_is_loaded(module):
    """Classes come before those whose members they are: what is a member has one class."""
    assert python(f"import openipu; openipu.lib(); import openipu.{module}; print('good')") == "good\n"


def test_a_class_that_comes_too_late_is_refused():
    library.lib()
    abi._layouts["inner"], abi._layouts["outer"] = abi._Layout(8), abi._Layout(8)
    abi._layouts["inner"].members = [("a", "int64", 0, 8)]
    abi._layouts["outer"].members = [("b", "inner", 0, 8)]
    try:
        type("Outer", (abi.Record, ), {"_name_": "outer"})
        with pytest.raises(TypeError, match="comes after a class whose members it is among: inner"):
            type("Late", (abi.Record, ), {"_name_": "inner"})
    finally:
        for name in ("inner", "outer"):
            del abi._layouts[name], abi._records[name]
