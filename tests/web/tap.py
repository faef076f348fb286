"""Checks that print `ok N - name` or `not ok N - name`, and their sum."""
import contextlib
import sys
import threading
import time
import traceback

_lock = threading.Lock()
_count = {"passed": 0, "failed": 0, "skipped": 0}


def _tell(ok, name, why=""):
    with _lock:
        _count["passed" if ok else "failed"] += 1
        n = _count["passed"] + _count["failed"]
        print(f"{'ok' if ok else 'not ok'} {n} - {name}", flush=True)
        for line in why.splitlines():
            print(f"# {line}", flush=True)


@contextlib.contextmanager
def check(name):
    """A check that holds if its body raises nothing."""
    try:
        yield
    except Exception:  # whatever it is, the next check goes on
        _tell(False, name, traceback.format_exc())
    else:
        _tell(True, name)


def equal(found, expected, about=""):
    """Raises if they differ."""
    assert found == expected, f"{about} expected {expected!r}, found {found!r}"


def skip(why):
    """Something could not be checked here."""
    with _lock:
        _count["skipped"] += 1
        print(f"# skipped: {why}", flush=True)


def note(text):
    """A figure, for who reads the log."""
    with _lock:
        print(f"# {text}", flush=True)


def until(question, seconds=120, every=0.05):
    """Waits until the answer is true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        assert time.monotonic() < end, f"not so within {seconds} s: {question.__doc__ or question}"
        time.sleep(every)


def together(*functions):
    """Runs them at the same time: each waits a lot. One that raises is a check that failed."""
    def whole(function):
        with check(f"{function.__name__} ran to its end"):
            function()
    threads = [threading.Thread(target=whole, args=(f,)) for f in functions]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def finish():
    """The last line, and the exit status."""
    n = _count["passed"] + _count["failed"]
    print(f"1..{n}")
    print(f"{_count['passed']} passed, {_count['failed']} failed, {_count['skipped']} skipped")
    sys.exit(_count["failed"] != 0 or n == 0)
