#!/usr/bin/env bash
# Random networks against PyTorch: forward and gradients. Usage: torch_test.sh [BUILD]. Skips where /usr/bin/python3
# (Debian's python3-torch) has no torch. TORCH_SEED and TORCH_COUNT choose other networks.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-${BUILD:-build}}
python=/usr/bin/python3
if ! "$python" -c 'import torch, numpy' 2> /dev/null; then
    echo "1..1"
    echo "ok 1 # SKIP $python has no torch: apt-get install python3-torch python3-numpy"
    exit 0
fi
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT

"$build/tests/networks_test" "$box" "${TORCH_SEED:-1}" "${TORCH_COUNT:-600}" || { echo "0 passed, 1 failed"; exit 1; }
"$python" tests/torch/compare.py "$box"
