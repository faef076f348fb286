#!/usr/bin/env bash
# run_test.sh LOGS NAME COMMAND...: runs one test program, prints a line per test in it, and
# leaves LOGS/NAME.log (its output), LOGS/NAME.tally (its results) and LOGS/NAME.time (seconds by the clock, of CPU
# time). Says so if it took 20 s or more.
# Understood: cmocka's TAP output; a last line "N passed, N failed"; else the exit status.
set -u
logs=$1 name=$2
shift 2
log=$logs/$name.log tally=$logs/$name.tally

status=0
SECONDS=0
TIMEFORMAT='%R %U %S'
{
    time CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 10 "${TEST_TIMEOUT:-900}" ${IPU_TEST_WRAPPER:-} "$@" > "$log" 2>&1 < /dev/null
} 2> "$logs/$name.time" || status=$?

awk -v name="$name" -v status="$status" '
    function result(kind, count, what) { if (count > 0) print kind, count, what; n[kind] += count }
    /^1\.\.[0-9]+/               { plan += substr($1, 4); next }
    /^(not )?ok [0-9]+ # SKIP/   { sub(/.*SKIP */, ""); result("skip", 1, name ": " $0); next }
    /^ok [0-9]+ - /              { sub(/^ok [0-9]+ - /, ""); result("pass", 1, name ": " $0); next }
    /^not ok [0-9]+ - /          { sub(/^not ok [0-9]+ - /, ""); result("fail", 1, name ": " $0); next }
    /^[0-9]+ passed, [0-9]+ failed/ { passed = $1; failed = $3; skipped = $5; summed = 1 }
    END {
        if (!plan && summed) {
            result("pass", passed, name)
            result("fail", failed, name)
            result("skip", skipped, name)
        }
        reported = n["pass"] + n["fail"] + n["skip"]
        if (plan > reported) result("fail", plan - reported, name ": tests that did not report")
        if (status != 0 && !n["fail"])
            result("fail", 1, name ": exit status " status (status == 124 ? " (too slow)" : ""))
        if (status == 0 && reported == 0) result("pass", 1, name)
    }' "$log" > "$tally"

if [ "$SECONDS" -ge 20 ]; then echo "note $name took $SECONDS s"; fi
awk '{ kind = $1; count = $2; $1 = $2 = ""; printf "%-4s%s%s\n", kind, $0, (count > 1 ? " (" count ")" : "") }' "$tally"
if grep -q '^fail' "$tally"; then
    echo "---- last lines of $log"
    tail -n 40 "$log"
    echo "----"
fi
exit 0
