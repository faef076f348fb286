#!/usr/bin/env bash
# The six workloads trained 50 steps beside PyTorch. Usage: torch_training_test.sh [BUILD] [NAME...]. Skips where
# /usr/bin/python3 (Debian's python3-torch) has no torch.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-${BUILD:-build}}
[ $# = 0 ] || shift
python=/usr/bin/python3
if ! "$python" -c 'import torch, numpy' 2> /dev/null; then
    echo "1..1"
    echo "ok 1 # SKIP $python has no torch: apt-get install python3-torch python3-numpy"
    exit 0
fi
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT

"$build/tests/training_test" "$box" "$@" || { echo "0 passed, 1 failed"; exit 1; }
"$python" tests/torch/train.py "$box"
