#!/usr/bin/env bash
# Does an installation work, in a container or on a host? Devices are seen, programs run, Python finds its packages.
set -euo pipefail

usage()
{
    cat << 'END'
Usage: verify.sh [--help]

Checks an installation of OpenIPU, as in a container that was just started: gc-info and gc-monitor show devices, a small
program trains on one and on two IPUs, Python reads the devices and runs a network, and poptorch does where torch is installed.

Exit status:
  0  everything works; what is not installed (Python, torch, a compiler) is told
  1  something is broken
  2  the command line is wrong
END
}

case ${1:-} in
    -h | --help) usage; exit 0 ;;
    "") ;;
    *) echo "verify.sh: unexpected \"$1\"" >&2; echo "Try: verify.sh --help" >&2; exit 2 ;;
esac

if ! command -v gc-monitor > /dev/null; then
    echo "verify.sh: there is no gc-monitor on the PATH: install OpenIPU (make install), and source its enable.sh" >&2
    exit 1
fi

passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

check() # NAME COMMAND...: its output is shown if it fails
{
    local name=$1
    shift
    if "$@" > "$log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $name"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
        sed 's/^/# /' "$log"
    fi
}

skip() # WHY
{
    skipped=$((skipped + 1))
    echo "# skipped: $1"
}

monitor() { gc-monitor | grep -E '^\|  gc-monitor   \| +Partition: .* has [0-9]+ .*IPUs? '; }
counts() { [ "$(gc-info --ipu-count)" -ge 1 ] && [ "$(gc-inventory | grep -c Device:)" = "$(gc-info --ipu-count)" ]; }

python_has() { python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

# What is under this name is what was installed, not a folder of that name that happens to be here.
python_runs() { (cd / && timeout 300 python3 -c "$1"); }

reads_devices='
import gcipuinfo
devices = gcipuinfo.gcipuinfo().getDevices()
assert devices and all(int(d["clock"][:-3]) > 0 for d in devices), devices'

runs_network='
import ctypes, openipu
from openipu.library import Target, check, lib
net = openipu.Network.create()
net.output(net.emit("mul", [net.input("x", "float", (2, )), net.scalar(3, "float")]), "y")
net.check()
target, exe, engine = Target(), ctypes.c_void_p(), ctypes.c_void_p()
check(lib().ipu_target_find(b"gc200", 1, ctypes.byref(target)))
check(lib().ipu_model_compile(net.pointer, ctypes.byref(target), None, ctypes.byref(exe)))
check(lib().ipu_engine_create(exe, None, ctypes.byref(engine)))
numbers = (ctypes.c_float * 2)(2, 5)
check(lib().ipu_engine_write(engine, b"x", numbers, 8))
check(lib().ipu_engine_run(engine, 0))
check(lib().ipu_engine_read(engine, b"y", numbers, 8))
assert list(numbers) == [6, 15], list(numbers)
lib().ipu_engine_destroy(engine)
lib().ipu_executable_release(exe)'

runs_poptorch='
import poptorch, torch
model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)
assert torch.allclose(poptorch.inferenceModel(model)(x), model(x), atol=1e-6)'

check "gc-info lists devices" gc-info -l
check "gc-monitor shows a partition" monitor
gc-monitor || true
check "gc-inventory knows each IPU" counts
check "programs run: ipu check" ipu check
sed 's/^/# /' "$log"
if ! command -v python3 > /dev/null; then
    skip "there is no python3 here"
elif ! python_has openipu; then
    skip "python3 has no openipu: pip install ."
else
    check "openipu is installed: $(python3 -c 'import importlib.metadata as m; print(m.version("openipu"))' 2> /dev/null || echo "no version")" \
        python_runs 'import openipu; openipu.lib()'
    check "Python reads the devices: gcipuinfo" python_runs "$reads_devices"
    check "Python runs a network: openipu" python_runs "$runs_network"
    if python_has torch; then
        check "PyTorch runs a network: poptorch" python_runs "$runs_poptorch"
    else
        skip "python3 has no torch: poptorch needs it"
    fi
fi

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
echo "OpenIPU is installed successfully."
