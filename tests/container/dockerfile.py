"""What containers/Dockerfile must keep to. dockerfile.py TOP [--packages | --libraries FILE...]; prints what is wrong."""

import re
import subprocess
import sys
from pathlib import Path

top = Path(sys.argv[1])
problems = []


def parse():
    """Instructions of the file: (kind, text), stage by stage."""
    text = re.sub(r"^\s*#.*\n", "", (top / "containers/Dockerfile").read_text(), flags=re.M)
    text = re.sub(r"\s*\\\n\s*", " ", text)
    stages = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "FROM":
            stages.append([])
        if kind:
            stages[-1].append((kind, rest))
    return stages


def expect(holds, what):
    if not holds:
        problems.append(what)


def output(*command):
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout


def of(stage, kind):
    return [text for k, text in stage if k == kind]


def packages(stage):
    """Those that apt-get is told to install."""
    installs = re.findall(r"apt-get install ([^&]*)", " && ".join(of(stage, "RUN")))
    return [word for text in installs for word in text.split() if word[0] not in "-$"]


def check_rules(stages):
    listed = output(top / "scripts/container_check.sh", "--list").splitlines()
    expect(listed == [f"{kind} {text}" for stage in stages for kind, text in stage],
           "container_check.sh runs other instructions:\n" + "\n".join(listed))
    build, image = stages
    everything = build + image
    for kind, text in everything:
        expect(kind in ("FROM", "ARG", "LABEL", "WORKDIR", "COPY", "RUN", "USER", "HEALTHCHECK", "CMD"),
               f"{kind}: container_check.sh does not know it")
        expect(not re.search(r"\b(curl|wget|git clone|sudo|chmod 777)\b", text), f"{kind} {text}: nothing from elsewhere")
    expect(all(text.split()[0] == "debian:12" for text in of(everything, "FROM")), "FROM: expected debian:12")
    expect(of(image, "USER") and of(image, "USER")[-1] not in ("root", "0"), "USER: expected one that is not root")
    last = [kind for kind, _ in image if kind in ("USER", "RUN", "COPY")][-1]
    expect(last == "USER", "USER: expected after all RUN and COPY")
    expect(any("useradd" in text and text.split("&&")[1].strip().endswith(f" {of(image, 'USER')[-1]}")
               for text in of(image, "RUN") if "&&" in text), "USER: expected to be added before")
    expect(of(image, "HEALTHCHECK") and "gc-info" in of(image, "HEALTHCHECK")[0], "HEALTHCHECK: expected gc-info")
    expect(any("scripts/deps.sh build" in text for text in of(build, "RUN")), "RUN: expected scripts/deps.sh build")
    expect(any(text.startswith("make install DESTDIR=") for text in of(build, "RUN")), "RUN: expected make install")
    for text in of(everything, "RUN"):
        expect("apt-get install" not in text or "--no-install-recommends" in text, f"{text}: recommends nothing")
    expect(all("rm -rf /var/lib/apt/lists/*" in text for text in of(image, "RUN") if "apt-get" in text),
           "RUN: expected apt's lists to be removed from the image")
    for text in of(everything, "COPY"):
        words = text.split()
        if not words[0].startswith("--from="):
            expect((top / words[0]).exists(), f"COPY {text}: there is no {words[0]}")
    ignored = (top / ".dockerignore").read_text().split("\n")
    expect({".git", "build"} <= set(ignored), ".dockerignore: expected .git and build")
    expect(not {"scripts", "containers", "python", "include"} & set(ignored), ".dockerignore: leaves out sources")


def check_packages(stages):
    sets = re.search(r"\[build\]=\"([^\"]*)\"", (top / "scripts/deps.sh").read_text()).group(1).split()
    more = re.findall(r'PACKAGES\+=" ([^"]*)"', (top / "containers/docker_utils/build_docker.sh").read_text())
    names = sets + [p for stage in stages for p in packages(stage)] + " ".join(more).split()
    expect(len(names) > 20, f"only {len(names)} names found")
    known = {line.split("|")[0].strip() for line in output("apt-cache", "madison", *names).splitlines()}
    for name in names:
        expect(name in known, f"there is no package {name}")


def check_libraries(stages, files):
    """The package of each library that is linked is named; libc6 is in every image."""
    named = set(packages(stages[1])) | {"libc6"}
    linked = set()
    for file in files:
        linked |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", file)))
    linked -= {"libipu.so.0"}
    expect(len(linked) > 5, f"only {len(linked)} libraries found")
    for library in sorted(linked):
        owners = {line.split(":")[0] for line in output("dpkg-query", "-S", f"*/{library}").splitlines()
                  if not line.startswith("diversion")}
        expect(owners & named, f"{library} of {', '.join(sorted(owners)) or 'no package'} is not in the image: add it to "
               "apt-get install in containers/Dockerfile")


stages_found = parse()
mode = sys.argv[2] if len(sys.argv) > 2 else ""
if mode == "--packages":
    check_packages(stages_found)
elif mode == "--libraries":
    check_libraries(stages_found, sys.argv[3:])
else:
    check_rules(stages_found)
print("\n".join(problems))
sys.exit(bool(problems))
