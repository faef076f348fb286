"""Clients on this host that take all the places of `ipu monitor --web` they can get: others are served all the same. tests/web_test.sh
runs it."""
import concurrent.futures
import os
import subprocess
import sys
import time

import tap
from monitor import Monitor, clean, started, world
from tap import check, equal, note, until

ATTACK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attack.py")
GOOD = 40


class Attack:
    """Others' processes, one for each kind."""

    def __init__(self, m, *kinds):
        self.processes = [subprocess.Popen([sys.executable, ATTACK, m.host, str(m.port), kind, "300", "60"], text=True,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE) for kind in kinds]
        started.extend(self.processes)
        for p in self.processes:
            equal(p.stdout.readline(), "on\n")

    def end(self):
        """How many connections they opened."""
        return sum(int(p.communicate(timeout=60)[0]) for p in self.processes)


def ask(m, number):
    """The seconds a request took; None: there was no answer."""
    begin = time.monotonic()
    try:
        return time.monotonic() - begin if m.ask("/api/sample" if number % 2 else "/healthz")[0] == 200 else None
    except OSError:
        return None


def pressed(m, name, *kinds, pause=0.0):
    """Good requests, one after the other and a few at a time, while the attack lasts."""
    attack = Attack(m, *kinds)
    begin = time.monotonic()
    alone = []
    for i in range(GOOD):
        alone.append(ask(m, i))
        time.sleep(pause)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda i: ask(m, i), range(GOOD)))
    seconds = time.monotonic() - begin
    opened = attack.end()
    with check(f"{name}: of {GOOD} requests one by one all are answered"):
        equal(len([s for s in alone if s is not None]), GOOD)
    with check(f"{name}: of {GOOD} requests eight at a time all are answered"):
        equal(len([s for s in together if s is not None]), GOOD)
    slowest = max([s for s in alone + together if s is not None], default=0)
    note(f"{name}: {opened} hostile connections in {seconds:.1f} s; {2 * GOOD} requests, the slowest took {slowest:.3f} s")


def main():
    """All of it."""
    m = Monitor(world("pressure"))
    until(lambda: m.ask("/healthz")[0] == 200)
    files = m.files()
    pressed(m, "half-open requests that are opened again and again", "half")
    pressed(m, "connections that say nothing", "silent")
    pressed(m, "connections that ask once and stay", "idle")
    pressed(m, "answers that nobody reads", "unread")
    pressed(m, "two of these for a while", "half", "idle", pause=0.02)
    with check("its files are closed afterwards"):
        until(lambda: m.files() <= files + 2, 60)
    with check("it said nothing on standard error, and ends in order"):
        equal(m.stop(), 143)
        equal(m.stderr(), "")


if __name__ == "__main__":
    try:
        main()
    finally:
        clean()
    tap.finish()
