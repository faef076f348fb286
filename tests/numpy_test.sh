#!/usr/bin/env bash
# .npy and .npz files against numpy, both ways, and checkpoints. Usage: numpy_test.sh [BUILD]. Skips where /usr/bin/python3 has no numpy.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-${BUILD:-build}}
python=/usr/bin/python3
if ! "$python" -c 'import numpy' 2> /dev/null; then
    echo "1..1"
    echo "ok 1 # SKIP $python has no numpy: apt-get install python3-numpy"
    exit 0
fi
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
"$python" tests/numpy/compare.py "$(realpath "$build/src/data_npz_test")" "$(realpath "$build/src/train_checkpoint_test")" "$box"
