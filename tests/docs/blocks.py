"""The code blocks of a manual do what the manual says.

    blocks.py DOCUMENT...

The current folder is where blocks run, in order, with what the caller put on PATH; documents are Markdown files. Prints
TAP. docs/layout.md says which blocks are run and how the others are marked.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Set, Tuple

# Those that run, and those that are only read.
RUN = ("console", "sh", "bash", "c", "python")
READ = ("", "text", "json", "yaml", "ini", "xml")
SECONDS = 120

MARKERS = {
    "not run": "why it is not run",
    "figures vary": "why its figures are not compared",
    "file": "name of the file that it is",
    "needs": "commands, and modules of Python as python:NAME, without which it is skipped",
}
MARKER = re.compile(r"^\s*<!-- (%s):\s*(.*?)\s*-->\s*$" % "|".join(MARKERS))
ELSEWHERE = re.compile(r"^<!-- blocks run by: (\S+) -->$", re.M)
FENCE = re.compile(r"^( *)```\s*(\S*)\s*$")
COMMAND = re.compile(r"(\$ |[A-Z_]+=\S+ \S|"
                     r"(ipu|make|poprun|mpirun|pip|python3|cc|gc-[a-z]+|(build|scripts|containers)/\S+)(\s|$))")

# Times, rates, dates and processes are never compared.
FIGURE = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
VARYING = [
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|\b\d\d:\d\d:\d\d(\.\d+)?"), "<time>"),
    (re.compile(FIGURE + r"(\s?)(?=(ns|us|ms|s|min|seconds)\b)"), r"#\1"),
    (re.compile(FIGURE + r"(?=\s[\w/.]*(/s|per s|per second)\b)"), "#"),
    (re.compile(r"(?i)\b(pid )\d+"), r"\1#"),
]
ANY_FIGURE = re.compile(r"(?<![A-Za-z_])" + FIGURE)


@dataclass
class Block:
    """A fenced block: its text without indentation, and the markers before it."""

    document: str
    line: int
    language: str
    lines: List[str] = field(default_factory=list)
    markers: Dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(l + "\n" for l in self.lines)

    @property
    def name(self) -> str:
        first = self.markers.get("file") or next((l for l in self.lines if l.strip()), "")
        first = re.sub(r"\s*(#.*)?$", "", first) if self.language in ("sh", "bash", "console") else first
        return f"{self.document}:{self.line}: {first[:70]}".rstrip().replace("#", "")

    def runs(self) -> bool:
        if self.language == "c":
            return "file" in self.markers or any("main(" in l for l in self.lines)
        return self.language in RUN or "file" in self.markers


class Wrong(Exception):
    """What a document shows is not so."""


def blocks_of(document: str, text: str) -> Tuple[List[Block], List[str]]:
    """The blocks of a document, and what is wrong with how they are written."""
    blocks: List[Block] = []
    wrong: List[str] = []
    markers: Dict[str, str] = {}
    inside: Optional[Block] = None
    indent = 0
    for number, line in enumerate(text.split("\n"), 1):
        fence, marker = FENCE.match(line), MARKER.match(line)
        at = f"{document}:{number}"
        if inside and fence and not fence[2]:
            blocks.append(inside)
            inside = None
        elif inside:
            inside.lines.append(line[min(indent, len(line) - len(line.lstrip())):])
        elif fence:
            indent = len(fence[1])
            inside = Block(document, number, fence[2], [], markers)
            markers = {}
            if fence[2] not in RUN + READ:
                wrong.append(f'{at}: a block of "{fence[2]}": expected one of {", ".join(RUN + READ[1:])}')
        elif marker:
            markers[marker[1]] = marker[2]
            if not marker[2]:
                wrong.append(f'{at}: "{marker[1]}" says nothing: expected {MARKERS[marker[1]]}')
        elif line.strip():
            if markers:
                wrong.append(f"{at}: a marker stands before this line, which begins no block")
                markers = {}
            if line.startswith("    ") and COMMAND.match(line.strip()):
                wrong.append(f"{at}: a command in an indented block, which no test sees: put it into one of sh or console")
    if inside:
        wrong.append(f"{document}:{inside.line}: the block does not end")
    for b in blocks:
        if b.language in ("text", "") and not b.markers and b.lines and COMMAND.match(b.lines[0]):
            wrong.append(f"{document}:{b.line}: a command in a block of text: make it one of sh or console")
    return blocks, wrong


def anchors(path: Path) -> Set[str]:
    """Names of a page's headings, as Markdown makes them."""
    found: Set[str] = set()
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
        found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


def dead_links(document: str, path: Path, text: str) -> List[str]:
    """Links to files and headings that are not there. Those to other hosts are not asked."""
    folder, wrong = path.resolve().parent, []
    for number, line in enumerate(text.split("\n"), 1):
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", line):
            page = folder / target if target else path
            if ":" in target:
                continue
            if not page.exists():
                wrong.append(f"{document}:{number}: there is no {target}")
            elif anchor and page.suffix == ".md" and anchor not in anchors(page):
                wrong.append(f"{document}:{number}: {page.name} has no heading for #{anchor}")
    return wrong


# ---- comparing ----


def masked(line: str, every_figure: bool) -> str:
    """The line without what differs from run to run, and with single blanks, as columns follow their figures."""
    for pattern, by in VARYING:
        line = pattern.sub(by, line)
    if every_figure:
        line = ANY_FIGURE.sub("#", line)
    return re.sub(r"\s+", " ", line.rstrip())


def pattern_of(expected: List[str], every_figure: bool) -> "re.Pattern[str]":
    """What output has to match: a line `...` stands for any lines, `...` at an end for the rest of a line."""
    out = ""
    for line in expected:
        if line.strip() == "...":
            out += r"(?:.*\n)*?"
        elif line.endswith("..."):
            out += re.escape(masked(line[:-3], every_figure)) + r".*\n"
        else:
            out += re.escape(masked(line, every_figure)) + r"\n"
    return re.compile(out)


def compare(expected: List[str], printed: str, every_figure: bool) -> None:
    lines = printed.rstrip("\n").split("\n") if printed.strip("\n") else []
    text = "".join(masked(l, every_figure) + "\n" for l in lines)
    if pattern_of(expected, every_figure).fullmatch(text):
        return
    difference = difflib.unified_diff(expected, lines, "shown", "printed", lineterm="", n=2)
    raise Wrong("\n".join(difference) or f"printed:\n{printed}")


# ---- running ----


def run(words: List[str], **more) -> Tuple[int, str]:
    """Exit status and all output. What is still there after SECONDS is ended, with what it has started."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True, **more) as process:
        try:
            out, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            raise Wrong(f"ran for more than {SECONDS} s; it printed\n{out.decode(errors='replace')}") from None
    return process.returncode, out.decode(errors="replace")


def must(words: List[str]) -> str:
    status, out = run(words)
    if status != 0:
        raise Wrong(f"exit status {status}; it printed\n{out}")
    return out


def commands_of(b: Block) -> Iterator[Tuple[str, List[str]]]:
    """Commands of a session and what each prints. Lines go on behind a backslash, and with "> "."""
    command: Optional[str] = None
    shown: List[str] = []
    for line in b.lines:
        goes_on = command is not None and not shown and (line.startswith("> ") or command.endswith("\\"))
        if goes_on:
            command = f"{command}\n{line[2:] if line.startswith('> ') else line}"
        elif line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown = line[2:], []
        elif command is None:
            raise Wrong(f'a session begins with "$ ": {line}')
        else:
            shown.append(line)
    if command is not None:
        yield command, shown


def run_console(b: Block) -> None:
    commands = list(commands_of(b))
    if not commands:
        raise Wrong("a session without a command")
    script = "exec 2>&1\n"
    for command, _ in commands:
        script += f"{command}\nprintf '\\001%d\\001' $?\n"
    _, out = run(["bash", "-o", "pipefail", "-c", script])
    parts = out.split("\001")  # output, status, output, status, ..., what comes last
    for i, (command, shown) in enumerate(commands):
        if 2 * i + 1 >= len(parts):
            raise Wrong(f"the session ended in: {command}\n{parts[-1]}")
        printed, status = parts[2 * i], parts[2 * i + 1]
        if status != "0":
            raise Wrong(f"exit status {status}: {command}\n{printed}")
        while shown and not shown[-1].strip():
            shown.pop()
        compare(shown, printed, "figures vary" in b.markers)


def run_block(b: Block) -> None:
    if "file" in b.markers:
        path = Path(b.markers["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(b.text, encoding="utf-8")
    elif b.language == "console":
        run_console(b)
    elif b.language in ("sh", "bash"):
        must(["bash", "-euo", "pipefail", "-c", b.text])
    elif b.language == "python":
        must(["python3", "-c", b.text])
    else:
        Path("block.c").write_text(b.text, encoding="utf-8")
        must(["bash", "-c", "cc -Wall -Werror block.c -o block $(pkg-config --cflags --libs ipu)"])
        must(["./block"])


def lacking(b: Block) -> List[str]:
    """What it needs and is not here."""
    found = []
    for word in b.markers.get("needs", "").split():
        kind, _, name = word.rpartition(":")
        there = importlib.util.find_spec(name) if kind == "python" else shutil.which(name)
        if not there:
            found.append(word)
    return found


class Tap:
    """Numbers what was found out."""

    def __init__(self) -> None:
        self.n = 0
        self.failed = 0

    def tell(self, name: str, why: str = "") -> None:
        self.n += 1
        self.failed += bool(why)
        print(f"{'not ok' if why else 'ok'} {self.n} - {name}")
        for line in why.split("\n") if why else []:
            print(f"#   {line}")
        sys.stdout.flush()

    def skip(self, name: str) -> None:
        self.n += 1
        print(f"ok {self.n} # SKIP {name}", flush=True)


def test(document: str, path: Path, tap: Tap) -> None:
    text = path.read_text(encoding="utf-8")
    blocks, wrong = blocks_of(document, text)
    elsewhere = ELSEWHERE.search(text)
    if elsewhere and not (path.resolve().parents[1] / elsewhere[1]).is_file():
        wrong.append(f"{document}: there is no {elsewhere[1]}")
    wrong += dead_links(document, path, text)
    tap.tell(f"{document}: its blocks are marked, and its links lead somewhere", "\n".join(wrong))
    for b in blocks if not elsewhere else []:
        if "not run" in b.markers:
            print(f"# {b.name}: not run: {b.markers['not run']}")
            continue
        if not b.runs():
            continue
        if lacking(b):
            tap.skip(f"{b.name}: needs {' '.join(lacking(b))}")
            continue
        try:
            run_block(b)
            tap.tell(b.name)
        except Wrong as e:
            tap.tell(b.name, str(e))


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    tap = Tap()
    for word in sys.argv[1:]:
        path = Path(word)
        test("/".join(path.parts[-2:]) if path.parent.name == "docs" else path.name, path, tap)
    print(f"1..{tap.n}")
    return 1 if tap.failed else 0


if __name__ == "__main__":
    sys.exit(main())
