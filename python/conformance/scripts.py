"""Runs public PopTorch programs, as they are, against this package.

    python3 conformance/scripts.py [--poptorch DIR] [--examples DIR] [--training DIR] [--data DIR] [--only PATTERN]
    [--seconds 600] [--jobs 1]

DIRs: checkouts of github.com/graphcore/poptorch, .../examples and .../IPU-Training; those that are not given are left
out. --data: a folder with mnist/ and fashion-mnist/, which hold the four .gz files of each. A program is right when
it ends with status 0 and prints what it should.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from reader import quietly

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Script:
    """A program, and how to tell that it did its work.

    checkout: of which repository. number: a pattern with one group; its last match in the output must be at least
    `least`. notebook: it is the code of a notebook, and ends at once where it finds itself run as a file.
    """
    checkout: str
    path: str
    arguments: Tuple[str, ...] = ()
    number: str = ""
    least: float = 0.0
    notebook: bool = False


# As a notebook runs it: __main__ is no file.
NOTEBOOK = "import sys; sys.argv.pop(0); exec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'))"


def _pytorch(path: str, *arguments: str, number: str = "", least: float = 0.0, notebook: bool = False) -> Script:
    return Script("examples", "tutorials/tutorials/pytorch/" + path, arguments, number, least, notebook)


GUIDE = ("api", "buffers", "debugging", "device_iterations", "error_handling", "inferenceModel", "phased_execution",
         "poptorch_training_simple", "precompilation", "replica_grouped_weights", "sumAnchorReturnType",
         "trainingModel")
ACCURACY = r"[Aa]ccuracy[^0-9]*([0-9.]+)"

SCRIPTS: List[Script] = [
    Script("poptorch", "examples/simple_adder.py"),
    Script("poptorch", "examples/lstm.py"),
    *[Script("poptorch", f"docs/user_guide/{name}.py") for name in GUIDE],
    Script("poptorch", "docs/user_guide/mnist.py", ("--strategy", "pipelined"), ACCURACY, 90),
    Script("poptorch", "docs/user_guide/mnist.py", ("--strategy", "phased"), ACCURACY, 90),
    Script("poptorch", "examples/mnist.py", (), r"we got: ([0-9.]+)% correct", 90),
    Script("examples", "tutorials/simple_applications/pytorch/mnist/mnist_poptorch.py", ("--epochs", "2"), ACCURACY,
           97),
    Script("examples", "tutorials/simple_applications/pytorch/mnist/mnist_poptorch_code_only.py", ("--epochs", "1"),
           ACCURACY, 96),
    _pytorch("efficient_data_loading/tuto_data_loading.py"),
    _pytorch("efficient_data_loading/tuto_data_loading.py", "--synthetic-data"),
    _pytorch("efficient_data_loading/walkthrough_code_only.py", notebook=True),
    _pytorch("observing_tensors/anchor_tensor_example.py"),
    _pytorch("pipelining/mnist_pipeline.py", "--epochs", "1", number=ACCURACY, least=90),
    _pytorch("pipelining/walkthrough_code_only.py", number=ACCURACY, least=90, notebook=True),
    _pytorch("basics/walkthrough_code_only.py", number=ACCURACY, least=80),
    _pytorch("basics/walkthrough.py", number=ACCURACY, least=80),
    _pytorch("mixed_precision/walkthrough_code_only.py", number=ACCURACY, least=80),
    _pytorch("mixed_precision/walkthrough_code_only.py", "--execution-half", "--optimizer-half",
             "--stochastic-rounding", number=ACCURACY, least=80),
    Script("training", "PyTorch/fashion-mnist-pytorch-ipu-todo-solution.py", (), ACCURACY, 85),
]


def lay_out_data(data: Path, folder: Path) -> None:
    """Put data where torchvision looks for it: folder/MNIST/raw and folder/FashionMNIST/raw."""
    for source, name in (("mnist", "MNIST"), ("fashion-mnist", "FashionMNIST")):
        raw = folder / name / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        for packed in sorted((data / source).glob("*.gz")):
            (raw / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))


def lay_out_weights(home: Path) -> None:
    """Weights, of random values, where torchvision looks for those that it would load from the network."""
    import torch  # pylint: disable=import-outside-toplevel
    import torchvision  # pylint: disable=import-outside-toplevel
    folder = home / ".cache" / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(torchvision.models.mobilenet_v2().state_dict(), folder / "mobilenet_v2-b0353104.pth")


def _environment(home: Path) -> Dict[str, str]:
    path = [str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    return dict(os.environ, HOME=str(home), PYTHONPATH=os.pathsep.join(part for part in path if part),
                PYTHONDONTWRITEBYTECODE="1", MPLBACKEND="Agg", POPLAR_EXECUTABLE_CACHE_DIR=str(home / "cache"))


def _lay_out_folder(folder: Path, script: Path, home: Path) -> None:
    """What programs expect to find where they are run: data, and files that the programs' own build puts into tmp/."""
    os.symlink(home / ".torch" / "datasets", folder / "mnist_data")
    for file in script.parent.glob("*.conf"):
        (folder / "tmp").mkdir(exist_ok=True)
        shutil.copy(file, folder / "tmp")


def _run(script: Script, checkout: Path, home: Path, seconds: float, log: Path) -> Tuple[str, float]:
    """Run a program. Returns "ok ..." or why it is wrong, and how long it took."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="poptorch-script-") as folder, open(log, "wb") as output:
        _lay_out_folder(Path(folder), checkout / script.path, home)
        process = subprocess.Popen(
            [sys.executable, "-u", *(["-c", NOTEBOOK] if script.notebook else []), str(checkout / script.path),
             *script.arguments], cwd=folder, env=_environment(home),
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status: Optional[int] = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
    took = time.monotonic() - begin
    return _verdict(script, status, log.read_text(encoding="utf-8", errors="replace")), took


def _verdict(script: Script, status: Optional[int], output: str) -> str:
    lines = [line for line in output.replace("\r", "\n").split("\n") if line.strip()] or [""]
    if status is None:
        return f"wrong: not done in time; its last line: {lines[-1][:160]}"
    if status != 0:
        return f"wrong: status {status}; its last line: {lines[-1][:160]}"
    if not script.number:
        return "ok"
    found = re.findall(script.number, output)
    if not found or float(found[-1].rstrip(".")) < script.least:
        return f"wrong: {script.number} gave {found[-1] if found else 'nothing'}, not {script.least} or more"
    return f"ok: {found[-1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("poptorch", "examples", "training", "data"):
        parser.add_argument("--" + name, type=Path)
    parser.add_argument("--only", default="*", help="run only programs whose path is like this, such as '*mnist*'")
    parser.add_argument("--seconds", type=float, default=600, help="the limit for one program")
    parser.add_argument("--jobs", type=int, default=1, help="how many run at a time")
    parser.add_argument("--logs", type=Path, default=Path("poptorch-scripts"), help="a folder for what they print")
    arguments = parser.parse_args()
    arguments.logs.mkdir(parents=True, exist_ok=True)
    chosen = [
        script for script in SCRIPTS
        if getattr(arguments, script.checkout) is not None and fnmatch.fnmatch(script.path, arguments.only)
    ]
    with tempfile.TemporaryDirectory(prefix="poptorch-home-") as home:
        lay_out_weights(Path(home))
        if arguments.data is not None:
            lay_out_data(arguments.data, Path(home) / ".torch" / "datasets")

        def one(item: Tuple[int, Script]) -> bool:
            number, script = item
            log = arguments.logs / f"{number:02}-{Path(script.path).stem}.log"
            checkout = getattr(arguments, script.checkout).resolve()
            verdict, took = _run(script, checkout, Path(home), arguments.seconds, log)
            print(f"{script.path} {' '.join(script.arguments)}\n    {verdict}   {took:.1f} s", flush=True)
            return verdict.startswith("ok")

        with ThreadPoolExecutor(arguments.jobs) as pool:
            right = list(pool.map(one, enumerate(chosen)))
    print(f"{sum(right)} right, {len(right) - sum(right)} wrong; logs: {arguments.logs}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(quietly(main))
