# shellcheck shell=bash
# What the other scripts share: sourced by them, in bash, from anywhere.
# Results are lines "pass|fail|skip COUNT NAME" in $LOGS/<suite>.tally.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

: "${BUILD:=build}" "${PREFIX:=/usr/local}" "${DESTDIR:=}" "${CC:=gcc}" "${FUZZ_SECONDS:=600}"
: "${JOBS:=$(nproc)}" "${LOGS:=$BUILD/logs}"
export BUILD PREFIX DESTDIR CC FUZZ_SECONDS JOBS LOGS
export LC_ALL=C.UTF-8

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# tally_begin SUITE: starts the count of a suite.
tally_begin()
{
    SUITE=$1
    TALLY=$LOGS/$SUITE.tally
    mkdir -p "$LOGS"
    : > "$TALLY"
}

# tally pass|fail|skip NAME: counts and prints one result.
tally()
{
    printf '%s 1 %s\n' "$1" "$2" >> "$TALLY"
    printf '%-4s %s\n' "$1" "$2"
}

# count_tallies FILE...: "N passed, N failed" (and skipped); fails if any failed or none passed.
count_tallies()
{
    awk '{ n[$1] += $2 }
        END {
            printf "%d passed, %d failed", n["pass"], n["fail"]
            if (n["skip"]) printf ", %d skipped", n["skip"]
            print ""
            exit n["fail"] > 0 || n["pass"] == 0
        }' "$@"
}

# tally_end: the last line of a suite and its exit status. Inside a larger run the line carries
# the suite's name, so that only one line of the whole run is the sum.
tally_end()
{
    local line status=0
    line=$(count_tallies "$TALLY") || status=$?
    sed -n 's/^fail [0-9]* /failed: /p' "$TALLY"
    [ "$status" = 0 ] || say "logs: $LOGS"
    say "${IPU_INNER_RUN:+$SUITE: }$line"
    return "$status"
}

# log_of NAME: the log file of one step of the suite.
log_of() { say "$LOGS/$SUITE.${1//[^A-Za-z0-9_.-]/_}.log"; }

# step NAME COMMAND...: one check; its output is shown only if it fails.
step()
{
    local name=$1 log
    shift
    log=$(log_of "$name")
    if "$@" > "$log" 2>&1; then
        tally pass "$name"
    else
        tail -n 60 "$log"
        tally fail "$name"
    fi
}
