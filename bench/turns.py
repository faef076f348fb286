#!/usr/bin/env python3
"""Times of two builds of bench/speed, ours only, in turns; and of the first one twice, which says how much is noise.

    turns.py BASE/bench/speed TREE/bench/speed [ROW...]       ROW: "seed-cnn/16/train/2"; none: all below
    turns.py --python BASE TREE [ROW...]    PopTorch in two source trees with their builds; rows of python/bench/speed.py

Each row has three processes (the base, the tree, the base again) that answer in turn, in a new order each round. A row's figure is the
median over rounds of the tree's time divided by the base's; of compile times the least of some counts; the last line has the geometric
means. Exit status 1 if that of the tree is above 1.02, or a row is slower by more than 5 % beyond what the two runs of the base differ;
2 if something cannot be measured.
"""
import itertools
import math
import os
import statistics
import subprocess
import sys

ROWS = [f"{name}/{batch}/{mode}/{threads}"
        for name, batch, modes in (("seed-cnn", 16, ("train", "infer")), ("seed-cnn", 64, ("train", "infer")),
                                   ("mnist-cnn", 16, ("train", "infer")), ("mnist-cnn", 256, ("train",)),
                                   ("mlp", 16, ("train", "infer")), ("mlp", 256, ("train",)), ("lstm", 64, ("train", "infer")),
                                   ("resnet18", 32, ("train",)), ("bert-mini", 8, ("train", "infer")), ("resnet50", 1, ("infer",)))
        for mode in modes for threads in (2, 1)]
PYTHON_ROWS = ["add-one", "small-cnn", "small-cnn-20", "resnet18", "encoder"]
ROUNDS, SLICE, COMPILATIONS = 15, 0.06, 5


def fail(message):
    print(f"turns.py: {message}", file=sys.stderr)
    sys.exit(2)


class Program:
    """What is started, and with which variables."""

    def __init__(self, command, **variables):
        self.command, self.environment = command, {**os.environ, **variables}

    @classmethod
    def of_speed(cls, path):
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            fail(f"{path} is no program: expected build/bench/speed of a tree (scripts/build.sh bench/speed)")
        return cls([os.path.abspath(path)])

    @classmethod
    def of_python(cls, root):
        """The driver is this tree's in either case."""
        driver = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python", "bench", "speed.py")
        root = os.path.abspath(root)
        library = f"{root}/build/src/libipu.so"
        if not os.path.isfile(library):
            fail(f"there is no {library}: expected a source tree that is built")
        return cls(["/usr/bin/python3", driver], IPU_LIBRARY=library, PYTHONPATH=f"{root}/python", IPU_CACHE_DIR="",
                   PYTHONDONTWRITEBYTECODE="1")


class Side:
    """One process of `speed --work`; its seconds for a call, and to compile."""

    def __init__(self, program, row):
        self.process = subprocess.Popen([*program.command, "--work", *row.split("/")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=program.environment)
        ready = self.process.stdout.readline().split()
        if len(ready) < 2:
            fail(f'row "{row}" cannot be measured: {" ".join(program.command)} --work ended with status {self.process.wait()}')
        self.compiled = float(ready[1])
        self.calls = 1
        self.calls = 1 + int(SLICE / max(self.time(), 1e-6))
        self.times = []

    def time(self):
        print("time", self.calls, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compile_seconds(program, row):
    side = Side(program, row)
    side.end()
    return side.compiled


def compare(base, tree, row):
    programs = [base, tree, base]
    compiled = [min(times) for times in zip(*([compile_seconds(p, row) for p in programs] for _ in range(COMPILATIONS)))]
    sides = [Side(base, row), Side(tree, row), Side(base, row)]
    for order in itertools.islice(itertools.cycle(itertools.permutations(sides)), ROUNDS):
        for side in order:
            side.times.append(side.time())
    for side in sides:
        side.end()

    def ratio(side):
        return statistics.median(a / b for a, b in zip(side.times, sides[0].times))
    return ratio(sides[1]), ratio(sides[2]), statistics.median(sides[0].times), compiled[1] / compiled[0], compiled[2] / compiled[0]


def mean(values):
    return math.exp(statistics.fmean(math.log(v) for v in values))


def main():
    arguments = sys.argv[1:]
    is_python = arguments[:1] == ["--python"]
    arguments = arguments[is_python:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        sys.exit()
    if len(arguments) < 2 or any(a.startswith("-") for a in arguments):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    base, tree = (Program.of_python(a) if is_python else Program.of_speed(a) for a in arguments[:2])
    compare_all(base, tree, arguments[2:] or (PYTHON_ROWS if is_python else ROWS))


def compare_all(base, tree, rows):
    found = []
    print(f"{'row':28} {'base us':>10} {'tree':>6} {'again':>6} {'compile':>8} {'again':>6}")
    for row in rows:
        ratio, again, seconds, compiled, compiled_again = compare(base, tree, row)
        slow = ratio > 1.05 * max(1, again)
        found.append((ratio, again, compiled, compiled_again, slow))
        print(f"{row:28} {1e6 * seconds:10.1f} {ratio:6.3f} {again:6.3f} {compiled:8.2f} {compiled_again:6.2f}{'  slower' if slow else ''}", flush=True)
    means = [mean(f[i] for f in found) for i in range(4)]
    print(f"{'geometric mean':28} {'':10} {means[0]:6.3f} {means[1]:6.3f} {means[2]:8.2f} {means[3]:6.2f}")
    sys.exit(means[0] > 1.02 or any(f[4] for f in found))


main()
