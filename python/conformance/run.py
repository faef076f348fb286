"""Runs the public PopTorch test suite, from a checkout of it that is kept elsewhere, against this package.

    python3 conformance/run.py CHECKOUT [--jobs 2] [--json FILE] [--failures FILE] [--no-compute] [--only PATTERN]
    [--minimum 2700]

Each file of tests runs in a process of its own with a time limit; when that process dies the rest of the file goes on
in another. Exit status 0 means that at least as many tests as --minimum have passed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, TextIO

from reader import quietly

HERE = Path(__file__).resolve().parent
# Files that say nothing about this package, and why.
LEFT_OUT = {
    "test_doc_urls.py": "reads web pages",
    "custom_ops_test.py": "needs operators compiled against another library",
    "custom_ops_attributes_test.py": "needs operators compiled against another library",
}
# The files that take longest begin first.
LONGEST = [
    "dataloader_test.py", "torch_nn_test.py", "type_support_test.py", "other_ops_test.py", "optimizers_test.py",
    "tensor_ops_test.py", "math_ops_test.py", "io_performance_test.py", "attach_detach_wait_for_ipu_test.py",
    "random_sampling_test.py"
]


@dataclass
class Limits:
    """Seconds."""
    test: float
    file: float


@dataclass
class FileResult:
    """What became of the tests of one file."""
    name: str
    tests: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    def counts(self) -> Counter:
        return Counter(test["outcome"] for test in self.tests.values())


class FileRun:
    """Runs one file of tests, in as many processes as it takes."""
    def __init__(self, path: Path, limits: Limits, environment: Dict[str, str]) -> None:
        self._path = path
        self._limits = limits
        self._environment = environment
        self._result = FileResult(path.name)
        self._collected: Optional[List[str]] = None
        self._running: Optional[str] = None
        self._read = 0

    def run(self) -> FileResult:
        """Every test of the file, once."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="poptorch-conformance-") as folder:
            while self._run_rest(Path(folder), begin + self._limits.file):
                pass
        self._result.seconds = time.monotonic() - begin
        return self._result

    def _run_rest(self, folder: Path, deadline: float) -> bool:
        """Run what has not run yet, in one process. Returns whether another one is needed."""
        events, done = folder / "events", folder / "done"
        done.write_text("\n".join(self._result.tests), encoding="utf-8")
        self._running = None
        n_before = len(self._result.tests)
        devices = Path(folder) / "devices"  # of its own: files that run at the same time do not wait for each other
        devices.mkdir(mode=0o700, exist_ok=True)
        environment = dict(self._environment, CONFORMANCE_EVENTS=str(events), CONFORMANCE_DONE=str(done),
                           IPU_RUNTIME_DIR=str(devices))
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "plugin", "--extended-tests",
            f"--timeout={self._limits.test:.0f}", str(self._path)
        ]
        log = folder / "log"
        with open(log, "ab") as output:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
            why = self._watch(process, events, deadline)
        self._read_events(events)
        left = [test for test in self._collected or () if test not in self._result.tests]
        if not left and self._running is None:
            if not self._result.tests:
                self._note(self._path.name, "failed" if self._collected is None else "skipped",
                           f"no test ran: {_last_line(log)}")
            return False
        if self._running is not None:
            self._note(self._running, "failed", why)
        if time.monotonic() > deadline or len(self._result.tests) == n_before:
            for test in left:
                if test not in self._result.tests:
                    self._note(test, "failed", f"did not run: {why}")
            return False
        return True

    def _watch(self, process: subprocess.Popen, events: Path, deadline: float) -> str:
        """Wait for a process as long as it gets on. Returns how it ended."""
        size, since = -1, time.monotonic()
        why = ""
        while True:
            try:
                process.wait(timeout=1.0)
                break
            except subprocess.TimeoutExpired:
                pass
            now = time.monotonic()
            new_size = events.stat().st_size if events.exists() else 0
            if new_size != size:
                size, since = new_size, now
            if now - since > 2 * self._limits.test or now > deadline:
                why = "took too long" if now <= deadline else "the time for this file was over"
                _kill_group(process)
        _kill_group(process)
        code = process.returncode
        return why or (f"the process died of signal {signal.Signals(-code).name}"
                       if code < 0 else f"the process ended with status {code}")

    def _read_events(self, events: Path) -> None:
        if not events.exists():
            return
        with open(events, encoding="utf-8") as file:
            file.seek(self._read)
            lines = file.read().split("\n")
            self._read = file.tell()
        for line in lines:
            event = json.loads(line) if line else {"event": None}
            if event["event"] == "collected":
                if self._collected is None:
                    self._collected = event["tests"]
            elif event["event"] == "start":
                self._running = event["test"]
            elif event["event"] == "result":
                self._running = None
                self._result.tests[event["test"]] = {key: event[key] for key in ("outcome", "reason", "seconds")}

    def _note(self, test: str, outcome: str, reason: str) -> None:
        self._result.tests[test] = {"outcome": outcome, "reason": reason, "seconds": 0.0}


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().split("\n")
    return lines[-1][:300]


def _kill_group(process: subprocess.Popen) -> None:
    """End a process and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _environment(no_compute: bool, jobs: int) -> Dict[str, str]:
    path = [str(HERE.parent), str(HERE), str(HERE / "shims"), os.environ.get("PYTHONPATH", "")]
    threads = max(1, (os.cpu_count() or 1) // jobs)
    return dict(os.environ, PYTHONPATH=os.pathsep.join(part for part in path if part),
                PATH=str(Path(sys.executable).parent) + os.pathsep + os.environ.get("PATH", ""),
                PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS=str(threads),
                CONFORMANCE_NO_COMPUTE="1" if no_compute else "0")


def _files(checkout: Path, pattern: str) -> List[Path]:
    found = [
        path for kind in ("*_test.py", "test_*.py") for path in checkout.glob(f"tests/{kind}")
        if fnmatch.fnmatch(path.name, pattern)
    ]
    order = {name: i for i, name in enumerate(LONGEST)}
    return sorted(set(found), key=lambda path: (order.get(path.name, len(order)), path.name))


def run_all(files: List[Path], limits: Limits, environment: Dict[str, str], jobs: int,
            failures: TextIO) -> List[FileResult]:
    """Run files of tests, several at a time, and say how each one went."""
    lock = threading.Lock()

    def one(path: Path) -> FileResult:
        if path.name in LEFT_OUT:
            note = {"outcome": "skipped", "reason": LEFT_OUT[path.name], "seconds": 0.0}
            result = FileResult(path.name, {path.name: note})
        else:
            result = FileRun(path, limits, environment).run()
        with lock:
            print(f"{result.name:<44}{_summary(result.counts())}   {result.seconds:7.1f} s", flush=True)
            _write_failures(failures, result)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, files))


def _summary(counts: Counter) -> str:
    return f"{counts['passed']:5} passed, {counts['failed']:4} failed, {counts['skipped']:4} skipped"


def _write_failures(file: TextIO, result: FileResult) -> None:
    for name, test in result.tests.items():
        if test["outcome"] == "failed":
            file.write(f"{name}\n    {test['reason']}\n")
    file.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a checkout of graphcore/poptorch")
    parser.add_argument("--jobs", type=int, default=2, help="how many files run at a time")
    parser.add_argument("--only", default="*", help="run only files of such names, such as 'math*'")
    parser.add_argument("--test-seconds", type=float, default=100, help="the limit for one test")
    parser.add_argument("--file-seconds", type=float, default=1500, help="the limit for one file")
    parser.add_argument("--json", help="write all results to this file")
    parser.add_argument("--failures", default="poptorch-failures.txt",
                        help="write the tests that failed, and why, to this file")
    parser.add_argument("--no-compute", action="store_true", help="fail where torch itself computes while a model runs")
    parser.add_argument("--minimum", type=int, default=2700, help="how many tests must pass")
    arguments = parser.parse_args()
    files = _files(arguments.checkout, arguments.only)
    if not files:
        parser.error(
            f"no tests in {arguments.checkout / 'tests'}: expected a checkout of github.com/graphcore/poptorch")
    limits = Limits(arguments.test_seconds, arguments.file_seconds)
    begin = time.monotonic()
    environment = _environment(arguments.no_compute, arguments.jobs)
    with open(arguments.failures, "w", encoding="utf-8") as failures:
        results = run_all(files, limits, environment, arguments.jobs, failures)
    total = sum((result.counts() for result in results), Counter())
    print(f"{'in all':<44}{_summary(total)}   {time.monotonic() - begin:7.1f} s")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            by_file = {result.name: {"seconds": result.seconds, "tests": result.tests} for result in results}
            json.dump({"total": dict(total), "files": by_file}, file, indent=1)
    return 0 if total["passed"] >= arguments.minimum else 1


if __name__ == "__main__":
    sys.exit(quietly(main))
