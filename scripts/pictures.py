#!/usr/bin/python3
"""Pictures of the manuals, as SVG for light and dark backgrounds.

    pictures.py plate PLATE.txt OUT.svg      heat on a plate: what examples/08_stencil_with_halos prints
    pictures.py keep SPEED.json OUT.json     of what `bench/speed --json` wrote, what the chart shows
    pictures.py speed KEPT.json OUT.svg      speed beside PyTorch

scripts/pictures.sh makes all of them.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Dict, List

# The colours of tools/plot.c, on the same backgrounds.
STYLE = ("svg{background:#fff;font-family:system-ui,sans-serif;font-size:13px}"
         "text{fill:#333}.title{font-size:17px;font-weight:600;fill:#111}.small{font-size:11px}"
         ".grid{stroke:#e4e4e4}.axis{stroke:#888}.b0{fill:#0072b2}.b1{fill:#d55e00}"
         "@media(prefers-color-scheme:dark){svg{background:#16181d}text{fill:#c8ccd4}.title{fill:#f2f4f8}"
         ".grid{stroke:#2c3038}.axis{stroke:#7a808c}.b0{fill:#56b4e9}.b1{fill:#ff9a4d}}")


def svg(width: float, height: float, title: str, style: str, parts: List[str]) -> str:
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" role="img">')
    return "\n".join([head, f"<title>{title}</title>", f"<style>{style}</style>", *parts, "</svg>"]) + "\n"


def text(x: float, y: float, what: str, more: str = "") -> str:
    what = what.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}"{" " + more if more else ""}>{what}</text>'


# ---- heat on a plate ----

SHADES = " .,:;-=+*oxOX%@#"  # the ramp of the example, from cold to hot


def colour(share: float, dark: bool) -> str:
    """From the background through orange to a deep red, or on dark to a light yellow."""
    stops = [(22, 24, 29), (110, 30, 60), (214, 94, 0), (255, 214, 120)] if dark else \
            [(255, 255, 255), (255, 214, 150), (222, 94, 0), (110, 10, 40)]
    at = share * (len(stops) - 1)
    i = min(int(at), len(stops) - 2)
    return "#" + "".join(f"{round(a + (at - i) * (b - a)):02x}" for a, b in zip(stops[i], stops[i + 1]))


def plate(printed: str) -> str:
    """A square for each tile. Of what the example prints, the last plate."""
    rows: List[str] = []
    for line in printed.splitlines():
        if line.startswith("after "):
            rows = []
        elif line.startswith("|"):
            rows.append(line[1:-1])
    if not rows or len({len(r) for r in rows}) != 1:
        raise SystemExit("pictures.py: there is no plate in what the example printed")
    side, gap = 12, 2
    squares: Dict[str, str] = {}
    for y, row in enumerate(rows):
        for x, shade in enumerate(row):
            squares[shade] = squares.get(shade, "") + f"M{x * side + gap} {y * side + gap}h10v10h-10z"
    of = [colour(i / (len(SHADES) - 1), False) for i in range(len(SHADES))]
    of_dark = [colour(i / (len(SHADES) - 1), True) for i in range(len(SHADES))]
    of[0], of_dark[0] = "#f1f1f1", "#22252c"  # so that cold tiles are seen, too
    style = "svg{background:#fff}" + "".join(f".t{i}{{fill:{c}}}" for i, c in enumerate(of))
    style += "@media(prefers-color-scheme:dark){svg{background:#16181d}"
    style += "".join(f".t{i}{{fill:{c}}}" for i, c in enumerate(of_dark)) + "}"
    parts = [f'<path class="t{SHADES.index(s)}" d="{d}"/>' for s, d in sorted(squares.items())]
    width, height = len(rows[0]) * side + gap, len(rows) * side + gap
    return svg(width, height, f"Heat on a plate, on {len(rows) * len(rows[0])} tiles", style, parts)


# ---- speed beside PyTorch ----


def keep(measured: dict) -> dict:
    """What is drawn and told: samples a second of both sides with two threads."""
    rows = []
    for r in measured["rows"]:
        if not r["counts"] or r["threads"] != 2:
            continue
        theirs = r[r["counts"]]
        rows.append({"network": r["network"], "batch": r["batch"], "mode": r["mode"],
                     "ours": round(r["batch"] / r["ours"]["seconds"], 1), "pytorch": round(r["batch"] / theirs["seconds"], 1),
                     "how": r["counts"], "quiet": round(min(r["ours"]["quiet"], theirs["quiet"]), 3)})
    if not rows:
        raise SystemExit("pictures.py: there is no PyTorch in these measurements")
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.M)
    return {"cpu": cpu[1] if cpu else "", "peak_gflops": round(measured["peak_gflops"]["2"], 1), "rows": rows}


def mean_of(rows: List[dict]) -> float:
    return math.exp(sum(math.log(r["ours"] / r["pytorch"]) for r in rows) / len(rows))


def speed(kept: dict) -> str:
    """A bar for each row: how many times as fast as PyTorch."""
    rows = kept["rows"]
    groups: Dict[str, List[dict]] = {}
    for r in rows:
        groups.setdefault(f'{r["network"]}, batch {r["batch"]}', []).append(r)
    left, right, top, bar, group = 165, 55, 76, 12, 30
    width, height = 800, top + group * len(groups) + 48
    most = max(r["ours"] / r["pytorch"] for r in rows)
    unit = (width - left - right) / most
    foot = top + group * len(groups)
    parts = [text(left, 30, "How many times as fast as PyTorch", 'class="title"'),
             text(left, 50, f"two threads of an {kept['cpu']}; geometric mean {mean_of(rows):.1f}")]
    for i, name in enumerate(("training", "inference")):
        x = width - right - 190 + 100 * i
        parts += [f'<rect class="b{i}" x="{x}" y="40" width="11" height="11"/>', text(x + 17, 50, name)]
    for n in range(0, int(most) + 1, 2):
        parts += [f'<path class="grid" d="M{left + n * unit:.1f} {top - 8}V{foot}"/>',
                  text(left + n * unit, foot + 18, str(n), 'text-anchor="middle"')]
    for i, (name, members) in enumerate(groups.items()):
        y = top + group * i
        parts.append(text(left - 10, y + 17, name, 'text-anchor="end"'))
        for r in members:
            k = int(r["mode"] != "train")
            ratio, at = r["ours"] / r["pytorch"], y + (7 if len(members) == 1 else (bar + 1) * k)
            parts += [f'<rect class="b{k}" x="{left}" y="{at}" width="{ratio * unit:.1f}" height="{bar}"/>',
                      text(left + ratio * unit + 6, at + 11, f"{ratio:.1f}", 'class="small"')]
    parts += [f'<path class="axis" stroke-dasharray="3 3" d="M{left + unit:.1f} {top - 8}V{foot}"/>',
              text(left + unit, foot + 18, "1", 'text-anchor="middle"'),
              f'<path class="axis" d="M{left} {top - 8}V{foot}"/>',
              text(left, foot + 38,
                   "Debian's PyTorch 1.13, eager or TorchScript, whichever is faster, in the same run of build/bench/speed",
                   'class="small"')]
    return svg(width, height, "Speed of training and inference beside PyTorch", STYLE, parts)


def main() -> int:
    what = {"plate": plate, "keep": lambda t: json.dumps(keep(json.loads(t)), indent=1) + "\n",
            "speed": lambda t: speed(json.loads(t))}
    if len(sys.argv) != 4 or sys.argv[1] not in what:
        print(__doc__, file=sys.stderr)
        return 2
    made = what[sys.argv[1]](Path(sys.argv[2]).read_text(encoding="utf-8"))
    Path(sys.argv[3]).write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
