#!/usr/bin/env bash
# Public suites run against the library: ONNX's, of Debian's libonnx-testdata.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
tally_begin conformance
scripts/build.sh all conformances
data=${ONNX_TESTDATA:-/usr/share/libonnx-testdata/data}
log=$(log_of onnx)
if "$BUILD/conformance/onnx_conformance" "$data" > "$log" 2>&1; then status=0; else status=$?; fi
# Refusals by reason, what was wrong, and the sum.
sed -n 's/^refused [^:]*: //p' "$log" | sed 's/^node [0-9]* ("[^"]*" )\?//; s/"[^"]*"/"..."/g' | sort | uniq -c | sort -rn | sed -n '1,40p'
grep '^wrong' "$log" || true
tail -n 1 "$log"
passed=$(sed -n 's/^\([0-9]*\) passed.*/\1/p' "$log" | tail -n 1)
wrong=$(sed -n 's/.* \([0-9]*\) wrong$/\1/p' "$log" | tail -n 1)
LEAST=${ONNX_LEAST:-1030}
printf 'pass %d onnx suite\n' "${passed:-0}" >> "$TALLY"
if [ "$status" != 0 ] || [ "${wrong:-1}" != 0 ]; then printf 'fail %d onnx suite\n' "$((${wrong:-0} > 0 ? wrong : 1))" >> "$TALLY"; fi
if [ "${passed:-0}" -lt "$LEAST" ]; then tally fail "onnx suite: at least $LEAST should pass"; fi
tally_end
