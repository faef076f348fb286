#!/usr/bin/env bash
# `ipu monitor --web` without a browser: addresses, paths, tokens, events, metrics, and clients that mean harm.
# Usage: web_test.sh [IPU]. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
BUILD=$(realpath "$build") IPU_BIN=$(realpath "${1:-${IPU_BIN:-$build/tools/ipu}}")
export BUILD IPU_BIN PYTHONDONTWRITEBYTECODE=1
for program in "$IPU_BIN" "$BUILD/tests/hold" "$BUILD/tests/busy"; do
    [ -x "$program" ] || { echo "no $program to test with: build it first" >&2; exit 1; }
done

# Debian's Python has Debian's modules; another may be first on the path.
python=python3
"$python" -c 'import prometheus_client' 2> /dev/null || [ ! -x /usr/bin/python3 ] || python=/usr/bin/python3

status=0 passed=0 failed=0 skipped=0
for part in http strict pressure hostile; do
    "$python" "tests/web/${part}_test.py" > "$BUILD/web_$part.out" 2>&1 || status=1
    grep -v '^1\.\.' "$BUILD/web_$part.out" | grep -vE '^[0-9]+ passed, '
    line=$(grep -E '^[0-9]+ passed, ' "$BUILD/web_$part.out" || echo "0 passed, 1 failed, 0 skipped")
    read -r p _ f _ s _ <<< "$line"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    rm -f "$BUILD/web_$part.out"
done
echo "1..$((passed + failed))"
echo "$passed passed, $failed failed, $skipped skipped"
exit "$status"
