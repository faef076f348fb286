#!/usr/bin/env bash
# All that CI runs. Every suite runs, whatever the others gave; the last line sums them.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test check sanitize fuzz valgrind
# Paths in debug information are relative, so a compiler cache may serve another checkout's objects.
export CCACHE_NOHASHDIR=1
# The seed is fixed, so that a red run can be run again; `make fuzz` looks for what is new.
export IPU_INNER_RUN=1 FUZZ_SECONDS=${CI_FUZZ_SECONDS:-30} FUZZ_SEED=${FUZZ_SEED:-1}

rm -f "$LOGS"/*.tally
mkdir -p "$LOGS"
broken=0
for suite in test check conformance sanitize fuzz valgrind; do
    say "==== $suite"
    began=$SECONDS
    if ! scripts/$suite.sh; then
        broken=1
        # A suite that stopped before it could count is a failure of its own.
        tallies=$LOGS/$suite.tally
        [ "$suite" != sanitize ] || tallies="$LOGS/asan.tally $LOGS/tsan.tally"
        grep -qs '^fail' $tallies || say "fail 1 $suite stopped" > "$LOGS/$suite.stopped.tally"
    fi
    say "$suite took $((SECONDS - began)) s"
done
# Said again at the end, where a reader of the tail sees it: what failed, and the last lines it printed.
for tally in "$LOGS"/*.tally; do
    SUITE=$(basename "$tally" .tally)
    while read -r _ _ name; do
        say "failed: $name"
        for log in "$(log_of "$name")" "$LOGS/$SUITE/${name%%: *}.log"; do
            [ ! -f "$log" ] || tail -n 15 "$log" | cut -c 1-300
        done
    done < <(grep '^fail' "$tally")
done
count_tallies "$LOGS"/*.tally || broken=1
exit "$broken"
