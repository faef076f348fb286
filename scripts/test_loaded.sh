#!/usr/bin/env bash
# All tests on a machine that is busy: LOAD processes that only compute (default: 8 for each core) run until the tests are over.
# Arguments are those of scripts/test.sh.
. "$(dirname "$0")/lib.sh"
case ${LOAD:=$((8 * $(nproc)))} in '' | *[!0-9]*) die "LOAD: expected a number of processes, found \"$LOAD\"" ;; esac
: "${TEST_TIMEOUT:=7200}" "${PYTEST_TIMEOUT:=3600}"
export TEST_TIMEOUT PYTEST_TIMEOUT
scripts/build.sh all tests

busy=()
spin() # PID: until that process ends, however it does
{
    while kill -0 "$1" 2> /dev/null; do
        for ((i = 0; i < 200000; i++)); do :; done
    done
}
trap '[ ${#busy[@]} = 0 ] || kill "${busy[@]}" 2> /dev/null || true; wait' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if command -v stress-ng > /dev/null; then
    setpriv --pdeathsig TERM stress-ng --quiet --cpu "$LOAD" &
    busy+=("$!")
else
    for ((n = 0; n < LOAD; n++)); do
        spin $$ &
        busy+=("$!")
    done
fi
say "$LOAD busy processes on $(nproc) cores"
status=0
scripts/test.sh "$@" || status=$?
exit "$status"
