"""Loaded into each pytest of run.py: writes what happens to a file as it happens, so that nothing is lost when a
process dies.

Environment: CONFORMANCE_EVENTS (the file), CONFORMANCE_DONE (a file with the tests to leave out),
CONFORMANCE_NO_COMPUTE (1: see guard.py).
"""

from __future__ import annotations

import json
import os
import unittest.mock  # noqa: F401  (a test file uses it without importing it)
from typing import Any, Dict, Optional

import pytest

# Packages that the tests' authors had: tests that need them are left out, with that reason.
ABSENT = {
    "transformers", "torch_scatter", "torch_geometric", "poptorch_geometric", "pva", "popart", "popdist", "horovod",
    "requests", "bs4"
}

_events = open(os.environ["CONFORMANCE_EVENTS"], "a", encoding="utf-8", buffering=1)


def _write(**event: Any) -> None:
    _events.write(json.dumps(event) + "\n")


def _missing_package(error: Optional[BaseException]) -> Optional[str]:
    """The package whose absence an error comes from, if it is one of those above."""
    while error is not None:
        name = (getattr(error, "name", None) or "").split(".")[0] if isinstance(error, ImportError) else ""
        if name in ABSENT:
            return name
        error = error.__cause__ or error.__context__
    return None


def _first_line(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return text.strip().split("\n")[0][:300]


def pytest_configure(config: Any) -> None:  # pylint: disable=unused-argument
    if os.environ.get("CONFORMANCE_NO_COMPUTE") == "1":
        import guard  # pylint: disable=import-outside-toplevel
        guard.install()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: Any) -> None:
    with open(os.environ["CONFORMANCE_DONE"], encoding="utf-8") as file:
        done = set(file.read().split("\n"))
    items[:] = [item for item in items if item.nodeid not in done]
    _write(event="collected", tests=[item.nodeid for item in items])


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        text = str(report.longrepr)
        package = next((name for name in ABSENT if f"No module named '{name}" in text), None)
        if package is not None:
            _write(event="result", test=report.nodeid, outcome="skipped", reason=f"needs the package {package}",
                   seconds=0)
        else:
            reason = [line for line in text.split("\n") if line.startswith("E ")] or [text.split("\n")[-1]]
            _write(event="result", test=report.nodeid, outcome="failed",
                   reason="cannot be collected: " + reason[-1][2:].strip(), seconds=0)


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(event="start", test=nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:  # pylint: disable=unused-argument
    outcome = yield
    report = outcome.get_result()
    package = _missing_package(call.excinfo.value) if call.excinfo is not None and report.failed else None
    if package is not None:
        report.outcome = "skipped"
        report.longrepr = (str(item.fspath), 0, f"Skipped: needs the package {package}")


_worst: Dict[str, Any] = {}


def pytest_runtest_logreport(report: Any) -> None:
    found = _worst.setdefault(report.nodeid, {"outcome": "passed", "reason": "", "seconds": 0.0})
    found["seconds"] += report.duration
    if report.failed and found["outcome"] != "failed":
        found.update(outcome="failed", reason=_first_line(report))
    elif report.skipped and found["outcome"] == "passed":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        found.update(outcome="skipped", reason=reason.replace("Skipped: ", "").split("\n")[0][:300])
    if report.when == "teardown":
        _write(event="result", test=report.nodeid, **_worst.pop(report.nodeid))
