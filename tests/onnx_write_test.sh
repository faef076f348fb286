#!/usr/bin/env bash
# Files that we write, for onnx's own checker. Usage: onnx_write_test.sh [BUILD]. Skips without python3-onnx.
# Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-${BUILD:-build}}
suite=/usr/share/libonnx-testdata/data
. tests/support/check.sh
check_python onnx python3-onnx
mkdir "$box/networks" "$box/ops" "$box/saved"

save_suite() { "$build/tests/onnx_networks_test" "$box/saved" - < "$box/list"; }

check "networks, branches and loops are written" "$build/tests/onnx_networks_test" "$box/networks"
check "onnx.checker accepts them" "$python" tests/onnx/check.py files "$box/networks"
check "samples of all ops are written" "$build/tests/onnx_write_ops_test" --write "$box/ops"
check "onnx.checker accepts them, in every type and opset" "$python" tests/onnx/check.py files "$box/ops"
check "the types that ONNX ops take are those of their schemas" \
    "$python" tests/onnx/check.py types src/onnx/export/types.inc
if [ -d "$suite" ]; then
    find "$suite" -name model.onnx | sort > "$box/list"
    check "models of the public suite are read and saved" save_suite
    check "they say the same as before" "$python" tests/onnx/check.py same "$box/list" "$box/saved"
fi

check_end
