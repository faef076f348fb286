#!/usr/bin/env bash
# The public ONNX suite of Debian's libonnx-testdata, forward and gradients; writes docs/onnx-ops.md.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
tally_begin conformance
scripts/build.sh conformances
data=${ONNX_TESTDATA:-/usr/share/libonnx-testdata/data}

# count NAME WORD: the number before WORD in the last line of NAME's log; 0 if there is none.
count() { tail -n 1 "$(log_of "$1")" | grep -oE "[0-9]+ $2" | grep -oE '[0-9]+' || say 0; }

# suite NAME GOOD LEAST COMMAND...: its last line is "N GOOD, N .., N wrong"; at least LEAST must be good, none wrong.
suite()
{
    local name=$1 good=$2 least=$3 wrong
    shift 3
    "$@" > "$(log_of "$name")" 2>&1 || true
    grep '^wrong' "$(log_of "$name")" || true
    tail -n 1 "$(log_of "$name")"
    printf 'pass %d %s\n' "$(count "$name" "$good")" "$name" >> "$TALLY"
    wrong=$(count "$name" wrong)
    [ "$wrong" = 0 ] || printf 'fail %d %s\n' "$wrong" "$name" >> "$TALLY"
    [ "$(count "$name" "$good")" -ge "$least" ] || tally fail "$name: at least $least should be good"
}

suite "onnx suite" passed 1040 "$BUILD/conformance/onnx_conformance" --report docs/onnx-ops.md "$data"
say "refused, by reason:"
sed -n 's/^refused [^:]*: //p' "$(log_of "onnx suite")" | sed 's/^node [0-9]* \("[^"]*" \)\?//; s/"[^"]*"/"..."/g' \
    | sort | uniq -c | sort -rn
suite "onnx written again" passed 1000 "$BUILD/conformance/onnx_write_conformance" "$data"
suite "onnx gradients" agreed 880 "$BUILD/conformance/onnx_gradients_conformance" "$data"
tally_end
