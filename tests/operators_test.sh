#!/usr/bin/env bash
# docs/operators.md does what it says: every `sh` block runs, with a device held beside it; units of systemd and Prometheus's
# files are checked by those. Usage: operators_test.sh [IPU].
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
root=$PWD build=$(realpath "${BUILD:-build}")
page=$root/docs/operators.md
unset IPU_DEVICE_ID IPU_ELASTIC IPU_MONITOR_TOKEN GCDA_OPTIONS IPU_ENGINE_OPTIONS
check_alone
mkdir -m 700 -p run && mkdir bin work
for name in ipu $(sed -n 's/^LINK("\(.*\)", .*/\1/p' "$root/tools/links.inc"); do ln -s "$ipu" "bin/$name"; done
printf '#!/bin/sh\nexec %s "$@"\n' "$python" > bin/python3 && chmod +x bin/python3
export PATH=$box/bin:$PATH PYTHONPATH=$root/python IPU_LIBRARY=$build/src/libipu.so

# Someone is attached to IPU 3, so that there is something to see.
: > held && mkfifo open && exec 9<> open
"$build/tests/hold" 3 < open > held 2>&1 &
holder=$!
release() { kill "$holder" 2> /dev/null && wait "$holder" 2> /dev/null; }
trap 'release; chmod -R u+w "$box"; rm -rf "$box"' EXIT
for ((i = 0; i < 1000; i++)); do grep -q attached held && break; sleep 0.1; done

# block KIND N: the N-th block of that kind, without the indentation of a list.
block() { awk -v kind="$1" -v wanted="$2" '$1 == "```" && inside { exit } inside { print } $1 == "```" kind && ++n == wanted { inside = 1 }' "$page"; }
count() { grep -cE "^ *\`\`\`$1\$" "$page"; }

run_block() # N
{
    block sh "$1" > lines
    cat lines
    [ -s lines ] && (cd work && bash -euo pipefail ../lines)
}

# Only what a block is to show is asked for here; that it ends well is asked of each.
for ((n = 1; n <= $(count sh); n++)); do
    first=$(block sh "$n" | sed 's/ *#.*//; q' | cut -c 1-60)
    if block sh "$n" | grep -q gc-links; then release; fi # it wants all IPUs
    if block sh "$n" | grep -qw jq && ! command -v jq > /dev/null; then
        skip "no jq: apt-get install jq"
    else
        check "runs: $first" run_block "$n"
    fi
done

rows() { cat work/usage.csv; [ "$(grep -c ",$holder," work/usage.csv)" = 3 ] && [ "$(wc -l < work/usage.csv)" = 13 ]; }
fired() { cat work/alerts.log work/changes.log; [ "$(cat work/alerts.log)" = "firing: free<5: partition default" ] && [ "$(wc -l < work/changes.log)" = 1 ]; }
check "usage has a row for each IPU and look, and the holder's" rows
check "an alert ran its command once" fired

config()
{
    block yaml 1 > prometheus.yml && block yaml 2 > ipu-rules.yml
    promtool check config prometheus.yml && promtool check rules ipu-rules.yml
}
# Every metric of the rules is one that the monitor gives.
known()
{
    grep -oE '\bopenipu_[a-z_]+' ipu-rules.yml | sort -u | while read -r name; do
        grep -rqF "$name" "$root/tools/monitor/metrics.inc" "$root/tools/monitor/metrics.c" ||
            grep -rqF "${name#openipu_}" "$root/tools/monitor/metrics.inc" || { echo "no $name"; exit 1; }
    done
}
if command -v promtool > /dev/null; then
    check "Prometheus takes the configuration and the rules" config
    check "their metrics exist" known
else
    skip "no promtool: apt-get install prometheus"
fi

# The command line of the unit is one that is understood: it is run with another port, for one look.
unit()
{
    local line
    line=$(block ini 1 | sed -n 's/^ExecStart=//p; s/%%/%/g' | sed 's/%%/%/g')
    [ -n "$line" ] || return
    line=${line/--web/--jsonl --count 1}
    [ "$(id -u)" = 0 ] || line=${line/--all-users/}
    eval "${line/\/usr\/local\/bin\/ipu/$ipu}"
}
check "the service's command line is understood" unit
check_end
