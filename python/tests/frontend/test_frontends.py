"""docs/frontends.md: its example runs and prints what the document says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

DOC = Path(__file__).resolve().parents[3] / "docs" / "frontends.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", DOC.read_text(), re.MULTILINE | re.DOTALL)


def test_the_example_runs_as_it_is_written(tmp_path):
    program = tmp_path / "toy.py"
    program.write_text("\n".join(blocks("python")))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "".join(blocks("text")), done.stderr
    assert done.returncode == 0


def test_the_front_end_is_as_short_as_it_says():
    front_end = blocks("python")[1]
    lines = [line for line in front_end.splitlines() if line.strip()]
    assert "TABLE = Table(" in front_end and len(lines) <= 45


def test_no_front_end_needs_the_framework_of_another():
    code = ("import sys, openipu.emitter, openipu.optable, openipu.arrays, openipu.batching, openipu.layout, openipu.executor, "
            "openipu.host, openipu.hook, openipu.settings; print('torch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "False\n"


def test_poptorch_is_a_small_part():
    """What is not about torch's ops or capturing them, and could be another front end's too, is openipu's."""
    root = DOC.parents[1] / "python" / "poptorch"
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in root.rglob("*.py")
             if path.relative_to(root).parts[0] not in ("_ops", "_capture")}
    assert len(lines) > 20 and sum(lines.values()) < 4000, (
        f"{sum(lines.values())} lines; expected fewer than 4000: move to openipu what another front end could use")


def test_what_the_document_names_is_there():
    import openipu.emitter
    import openipu.optable
    text = DOC.read_text()
    g = openipu.emitter.Emitter(openipu.Network.create())
    for name in re.findall(r"`g\.(\w+)", text):
        assert hasattr(g, name), name
    for name in re.findall(r"`g\.model\.(\w+)", text):
        assert hasattr(g.model, name), name
    for module, name in re.findall(r"`openipu\.(\w+)\.(\w+)", text):
        assert hasattr(__import__(f"openipu.{module}", fromlist=[name]), name), f"{module}.{name}"
