"""openipu.hook: a framework that is imported gets its front end, and an interpreter without one notices nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).resolve().parents[2]
FRAMEWORK = "print('framework')\nversion = 1\n"
FRONT_END = "import fakeframe\nprint('front end of', fakeframe.version)\nfakeframe.has_ipu = True\n"


@pytest.fixture
def site(tmp_path):
    """A site-packages that Python reads when it starts: the hook with a framework in its table, and that framework."""
    shown = subprocess.run([sys.executable, "-c", "import site; print(site.ENABLE_USER_SITE, site.getusersitepackages())"],
                           env={**os.environ, "PYTHONUSERBASE": str(tmp_path)}, capture_output=True, text=True, check=True)
    enabled, folder = shown.stdout.split()
    if enabled != "True":
        pytest.skip("this Python reads no site-packages of users")
    folder = Path(folder)
    (folder / "openipu").mkdir(parents=True)
    for name in ("__init__.py", "hook.py"):
        shutil.copy(PYTHON / "openipu" / name, folder / "openipu")
    shutil.copy(PYTHON / "openipu.pth", folder)
    hook = folder / "openipu" / "hook.py"
    text = hook.read_text()
    assert text.count('FRONT_ENDS: "dict[str, str]" = {') == 1
    hook.write_text(text.replace('FRONT_ENDS: "dict[str, str]" = {', 'FRONT_ENDS = {"fakeframe": "fakeframe_ipu", ', 1))
    (folder / "fakeframe").mkdir()
    (folder / "fakeframe" / "__init__.py").write_text(FRAMEWORK)
    (folder / "fakeframe" / "part.py").write_text("number = 7\n")
    (folder / "fakeframe_ipu.py").write_text(FRONT_END)
    return folder


def python(site, code, **environment):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "IPU_NO_HOOK")}
    env["PYTHONUSERBASE"] = str(site.parents[2])
    done = subprocess.run([sys.executable, "-c", code], env={**env, **environment}, capture_output=True, text=True, check=True,
                          timeout=60, cwd=site)
    return done.stdout, done.stderr


def test_a_framework_gets_its_front_end(site):
    out, error = python(site, "import fakeframe; print(fakeframe.has_ipu)")
    assert out.split("\n") == ["framework", "front end of 1", "True", ""] and error == ""


def test_once_and_for_parts_of_it_too(site):
    out, _ = python(site, "import fakeframe.part; import fakeframe; print(fakeframe.has_ipu, fakeframe.part.number)")
    assert out == "framework\nfront end of 1\nTrue 7\n"


def test_the_module_is_as_it_would_be_alone(site):
    code = ("import fakeframe, inspect, importlib; print(type(fakeframe.__loader__).__name__, "
            "type(fakeframe.__spec__.loader).__name__, inspect.getsource(fakeframe).count('version')); importlib.reload(fakeframe)")
    out, error = python(site, code)
    assert "SourceFileLoader SourceFileLoader 1\n" in out and error == ""


@pytest.mark.parametrize("value, is_off", [("1", True), ("yes", True), ("0", False), ("", False)])
def test_it_can_be_turned_off(site, value, is_off):
    out, _ = python(site, "import fakeframe; print(hasattr(fakeframe, 'has_ipu'))", IPU_NO_HOOK=value)
    assert out.endswith(f"{not is_off}\n") and ("front end" in out) != is_off


@pytest.mark.parametrize("wrong, what", [("raise OSError('no device')", "OSError: no device"), ("import nothing_like_it",
                                         "ModuleNotFoundError: No module named 'nothing_like_it'"), ("x = (", "SyntaxError")])
def test_a_front_end_that_fails_is_a_warning_when_its_framework_is_imported(site, wrong, what):
    (site / "fakeframe_ipu.py").write_text(wrong)
    assert python(site, "print('other')") == ("other\n", "")
    out, error = python(site, "import fakeframe; print(fakeframe.version)")
    assert out == "framework\n1\n"
    assert "RuntimeWarning: fakeframe cannot use IPUs: its front end fakeframe_ipu failed with " + what in error


def test_a_framework_that_is_not_there_is_missed_as_always(site):
    shutil.rmtree(site / "fakeframe")
    out, _ = python(site, "try:\n import fakeframe\nexcept ModuleNotFoundError as e: print(e.name)")
    assert out == "fakeframe\n"


def test_a_framework_that_fails_fails_as_always(site):
    (site / "fakeframe" / "__init__.py").write_text("raise ValueError('its own')")
    out, error = python(site, "try:\n import fakeframe\nexcept ValueError as e: print(e)")
    assert out == "its own\n" and error == ""


def test_a_broken_hook_breaks_no_interpreter(site):
    (site / "openipu" / "hook.py").write_text("raise RuntimeError('broken')")
    assert python(site, "import fakeframe") == ("framework\n", "")
    shutil.rmtree(site / "openipu")
    assert python(site, "import fakeframe") == ("framework\n", "")


def test_what_it_costs_an_interpreter_that_does_not_use_it(site):
    code = ("import sys; print(sorted(m for m in sys.modules if m.startswith('openipu')), "
            "[f for f in sys.meta_path if type(f).__module__ == 'openipu.hook'] != [], "
            "'ctypes' in sys.modules, 'numpy' in sys.modules)")
    assert python(site, code)[0] == "['openipu', 'openipu.hook'] True False False\n"
    shutil.copy(PYTHON / "openipu" / "hook.py", site / "openipu")
    from openipu import hook
    assert python(site, code)[0] == f"['openipu', 'openipu.hook'] {bool(hook.FRONT_ENDS)} False False\n"


def test_registering_later(site):
    shutil.copy(PYTHON / "openipu" / "hook.py", site / "openipu")
    register = "import openipu.hook as h; h.register('fakeframe', 'fakeframe_ipu')"
    assert python(site, f"{register}; import fakeframe")[0] == "framework\nfront end of 1\n"
    assert python(site, f"import fakeframe; {register}")[0] == "framework\nfront end of 1\n"
    assert python(site, f"{register}; h.unregister('fakeframe'); import fakeframe")[0] == "framework\n"
    assert python(site, f"{register}; h.uninstall(); import fakeframe")[0] == "framework\n"
    assert python(site, f"import fakeframe; {register}", IPU_NO_HOOK="1")[0] == "framework\n"
