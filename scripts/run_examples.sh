#!/usr/bin/env bash
# Runs built examples and compares what they print with expected/NAME.expected.
# Arguments: names of examples; none: all. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
passed=0 failed=0
[ $# -gt 0 ] || set -- $(scripts/sources.sh examples | sed 's:.*/::; s:\.c$::')

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for name in "$@"; do
    status=0
    timeout -k 10 "${TEST_TIMEOUT:-600}" ${IPU_EXAMPLE_WRAPPER:-} "$build/examples/$name" \
        > "$out/stdout" 2> "$out/stderr" < /dev/null || status=$?
    if [ ! -f "examples/expected/$name.expected" ]; then
        echo "no file examples/expected/$name.expected: write there what the example must print"
        status=1
    elif ! diff -u "examples/expected/$name.expected" "$out/stdout"; then
        status=1
    fi
    if [ "$status" = 0 ]; then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        cat "$out/stderr"
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
