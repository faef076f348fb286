#!/usr/bin/env bash
# gc-info, gc-monitor, gc-inventory, gc-reset and `ipu partition`: every table and JSON against tests/gc/*.expected, what
# scripts scrape, misuse, terminals, two users. Usage: gc_tools_test.sh [IPU]. Ends with "N passed, N failed".
# UPDATE=1 writes what is printed into the expectations first: read the difference before you commit it.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
ipu=$(realpath "${1:-${IPU_BIN:-$build/tools/ipu}}")
hold=$build/tests/hold
gc=$PWD/tests/gc
for program in "$ipu" "$hold"; do
    [ -x "$program" ] || { echo "no $program to test with: build it first" >&2; exit 1; }
done
version=$("$ipu" --version | cut -d ' ' -f 2)
unset IPUOF_CONFIG_PATH IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PARTITION_ID IPU_PARTITION IPU_DEVICE_ID IPU_ELASTIC COLUMNS \
    GCDA_OPTIONS GCDA_MONITOR GCDA_SUPPRESS_UTILISATION_MEASUREMENT IPU_ENGINE_OPTIONS

box=$(mktemp -d)
holders=()
release() # the processes that hold devices
{
    local pid
    for pid in "${holders[@]}"; do kill "$pid" 2> /dev/null && wait "$pid" 2> /dev/null; done
    holders=()
}
trap 'release; rm -rf "$box"' EXIT
chmod 755 "$box"
mkdir -m 700 "$box/run" && mkdir -p "$box/home" "$box/bin"
export HOME=$box/home IPU_RUNTIME_DIR=$box/run
for name in gc-info gc-inventory gc-monitor gc-reset; do ln -s "$ipu" "$box/bin/$name"; done
ln -s "$ipu" "$box/bin/ipu"
cp "$hold" "$box/bin/python3"
mkfifo "$box/open" && exec 9<> "$box/open" # never ends while this script runs
python=$(command -v python3)
export PATH=$box/bin:$PATH
passed=0 failed=0 skipped=0
me=$(id -un)

# ---- what checks are made of ----

check() # NAME COMMAND...
{
    local name=$1
    shift
    if "$@" > "$box/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $name"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $name"
        sed 's/^/# /' "$box/log"
    fi
}

skip() # WHY
{
    skipped=$((skipped + 1))
    echo "# skipped: $1"
}

# What differs from run to run, in tables and in JSON: cells keep their width.
normal()
{
    sed -E -e "s/^\|[^|]{8}\|( *(python3|hold) *)\|[^|]{8}\|[^|]{12}\|/|  PID   |\1|  TIME  |    USER    |/" \
        -e 's/("timestamp"|"process start time"): "[0-9TZ]+"/\1: "TIME"/' -e 's/"time": "[0-9]+s"/"time": "0s"/' \
        -e 's/"PID": "[1-9][0-9]*"/"PID": "1"/' -e 's/("executable"|"user executable"): "[^"]*"/\1: "PATH"/' \
        -e "s/\"user\": \"$me\"/\"user\": \"USER\"/" -e "s/\\b${version//./\\.}\\b/VERSION/"
}

# golden FILE COMMAND...: the output is what the file says, nothing on standard error, exit code 0.
golden()
{
    local file=$gc/$1.expected code=0
    shift
    "$@" > "$box/raw" 2> "$box/err" || code=$?
    cat "$box/err"
    normal < "$box/raw" > "$box/out"
    [ "$code" = 0 ] && [ ! -s "$box/err" ] || return 1
    [ -z "${UPDATE:-}" ] || cp "$box/out" "$file"
    diff "$file" "$box/out"
}

# The same without any allowance: the seed document's table is no expectation of ours.
published() { "$@" | cmp - "$gc/monitor.expected"; }

# fails CODE PATTERN COMMAND...: that exit code, a line of standard error matches, no output.
fails()
{
    local expected=$1 pattern=$2 code=0
    shift 2
    "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    [ "$code" = "$expected" ] && [ ! -s "$box/out" ] && grep -qE -- "$pattern" "$box/err"
}

prints() # TEXT COMMAND...: that is all of the output
{
    local expected=$1 found
    shift
    found=$("$@") || return
    echo "$found"
    [ "$found" = "$expected" ]
}

matches() # PATTERN COMMAND...: a line of the output does
{
    local pattern=$1
    shift
    "$@" > "$box/out" || return
    cat "$box/out"
    grep -qE -- "$pattern" "$box/out"
}

json() # EXPRESSION COMMAND...: the output is JSON `d` for which the Python expression is true
{
    local expression=$1
    shift
    "$@" > "$box/json" || return
    "$python" -c "import json, sys
d = json.load(open(sys.argv[1]))
assert ($expression), d" "$box/json"
}

with() { env "$@"; } # NAME=VALUE... COMMAND...

# attach PROGRAM WHAT: starts it and waits until it holds the device.
attach()
{
    : > "$box/attached"
    "$1" "$2" < "$box/open" > "$box/attached" 2>&1 9>&- &
    holders+=($!)
    for _ in $(seq 2000); do
        grep -q attached "$box/attached" && return
        sleep 0.05
    done
    cat "$box/attached"
    return 1
}

# ---- tables, with nobody attached ----

seed=(with "IPUOF_CONFIG_PATH=$gc/ipuof.conf")
one=(with "IPUOF_CONFIG_PATH=$gc/p1.conf")
mkdir "$box/two" "$box/two/.ipuof.conf.d"
cp "$gc/p1.conf" "$gc/p2.conf" "$box/two/.ipuof.conf.d"
two=(with "HOME=$box/two")
mkdir "$box/domains" "$box/domains/.ipuof.conf.d"
for i in 0 1; do
    echo "{\"partition\": \"p1\", \"attributes\": {\"GCD Id\": \"$i\"}}" > "$box/domains/.ipuof.conf.d/p1_gcd$i.conf"
done

check "gc-monitor is as published, byte for byte" published "${seed[@]}" gc-monitor
check "ipu monitor is gc-monitor" published "${seed[@]}" ipu monitor
check "gc-monitor --no-card-info" golden monitor_no_cards "${seed[@]}" gc-monitor --no-card-info
check "gc-monitor --all-partitions" golden monitor_all "${two[@]}" gc-monitor --all-partitions
check "gc-monitor of the default partition" golden monitor_default gc-monitor
check "gc-info -l" golden list "${one[@]}" gc-info -l
check "gc-info with nothing said lists" golden list "${one[@]}" gc-info
check "ipu info is gc-info" golden list "${one[@]}" ipu info --list-devices
check "gc-info -l --all-partitions" golden list_all "${two[@]}" gc-info -l --all-partitions
check "gc-info -i -d 0" golden info "${one[@]}" gc-info -i -d 0
check "gc-info -d alone is -i" golden info "${one[@]}" gc-info -d 0
check "gc-info -i of a group has what its IPUs share" golden info_group "${one[@]}" gc-info -i -d 4
check "gc-info -i of another partition" golden info_other "${two[@]}" gc-info -i -d 4 --all-partitions
check "gc-info --tile-overview" golden tiles "${one[@]}" gc-info --tile-overview -d 0
check "gc-inventory" golden inventory "${one[@]}" gc-inventory
check "domains of one partition are told apart" golden monitor_gcd with "HOME=$box/domains" gc-monitor --no-card-info --all-partitions
check "ipu partition list" golden partitions sh -c "HOME=$box/two ipu partition list | sed 's: [^ ]*/: :'"

# ---- JSON ----

check "gc-monitor --json" golden monitor.json "${one[@]}" gc-monitor --json
check "gc-monitor --json --all-partitions" golden monitor_all.json "${two[@]}" gc-monitor --json --all-partitions
check "gc-info -l -j" golden list.json "${one[@]}" gc-info -l -j
check "gc-info -i -d 0 -j" golden info.json "${one[@]}" gc-info -i -d 0 -j
check "gc-info --tile-overview -j" golden tiles.json "${one[@]}" gc-info --tile-overview -d 3 -j
check "gc-inventory -j" golden inventory.json "${one[@]}" gc-inventory -j
check "gc-info --ipu-count -j" json 'd == {"ipu count": "4"}' gc-info --ipu-count -j
check "gc-info --ipu-arch -j" json 'd == {"ipu architecture": "ipu2"}' gc-info --ipu-arch -j
check "gc-info --tile-clock-speed -j" json 'd == {"clock": "1330MHz"}' gc-info --tile-clock-speed -j
check "ipu partition list --json" json '[(p["name"], p["ipus"], p["active"], p["elastic"]) for p in d["partitions"]] == \
    [("p1", 4, True, False), ("p2", 4, False, False)]' "${two[@]}" ipu partition list --json

# ---- what scripts do ----

count_in_shell() { N=$(gc-info --ipu-count) && [ "$N" -eq 4 ]; }
reset_all() { for i in $(seq 0 $(($(gc-info --ipu-count) - 1))); do gc-reset -d "$i" || return; done; }
scrape_ids() { [ "$(gc-info -l | grep -oP 'Id:\s+\[\K[0-9]+(?=\], target: \[Fabric)' | tr '\n' ' ')" = "0 1 2 3 " ]; }
scrape_group() { [ "$(gc-info -l | grep -B1 -A4 'Id: \[6\]' | grep -c -- '^ |---')" -ge 4 ]; }
scrape_partition() { [ "$(gc-monitor | sed -nE 's/.*Partition: (\S+) \[active\] has ([0-9]+) reconfigurable IPUs.*/\1 \2/p')" = "default 4" ]; }
scrape_columns() { [ "$(gc-monitor | grep M2000 | cut -d '|' -f 8 | tr -d ' \n')" = 0123 ]; }
check "N=\$(gc-info --ipu-count)" count_in_shell
check "a loop of gc-reset" reset_all
check "single ids by a regular expression" scrape_ids
check "members of a group" scrape_group
check "partition and size of gc-monitor" scrape_partition
check "ids by column of gc-monitor" scrape_columns
check "--ipu-count of all partitions" prints 8 "${two[@]}" gc-info --ipu-count --all-partitions
check "--ipu-arch" prints ipu2 gc-info --ipu-arch
check "--ipu-arch of a device" prints ipu2 gc-info --ipu-arch -d 6
check "--tile-clock-speed" prints 1330MHz gc-info --tile-clock-speed
check "--tile-clock-speed of another partition" prints 1850MHz "${two[@]}" gc-info --tile-clock-speed -d 4 --all-partitions
check "--tile-clock-speed of the active partition" prints 1850MHz "${two[@]}" IPU_PARTITION=p2 gc-info --tile-clock-speed
check "int(clock[:-3])" json 'int(d["devices"][0]["clock"][:-3]) == 1330' gc-inventory -j
check "gc-inventory: remote buffers" json 'd["devices"][0]["remote buffers"] == "1"' gc-inventory -j
check "gc-inventory | grep -c Device:" prints 4 sh -c 'gc-inventory | grep -c Device:'
check "every value is text" json 'all(isinstance(v, str) for x in d["devices"] for v in x.values())' gc-inventory -j
check "nobody attached: no PID" json 'not any("PID" in i for c in d["cards"] for i in c["ipus"])' gc-monitor --json
check "nobody attached: no user process id" json '"user process id" not in d' gc-info -i -d 0 -j
check "-l keeps the ids of the active partition" matches 'Id: \[6\], target: \[Multi IPU\]' "${two[@]}" IPU_PARTITION=p2 gc-info -l

# ---- with processes ----

hold=$box/bin/python3
export IPUOF_CONFIG_PATH=$gc/p1.conf
check "a process attaches to two IPUs" attach "$hold" 4
check "gc-monitor with one process" golden monitor_process gc-monitor
check "another to a third" attach "$hold" 2
check "gc-monitor with two" golden monitor_processes gc-monitor --no-card-info
check "gc-monitor as wide as COLUMNS says" golden monitor_wide with COLUMNS=158 gc-monitor --no-card-info
check "gc-monitor in 80 columns" golden monitor_narrow with COLUMNS=80 gc-monitor --no-card-info
check "gc-monitor --json with processes" golden monitor_processes.json gc-monitor --json
check "IPUs in use, as Graphcore's script counts them" \
    json 'sum("PID" in str(i) for c in d["cards"] for i in c["ipus"]) == 3' gc-monitor --json
check "the PID is the process's" json "d['cards'][1]['ipus'][0]['PID'] == '${holders[1]}'" gc-monitor --json
check "gc-info names the process" matches "user process id: ${holders[0]}$" gc-info -i -d 1
check "gc-info names the user" matches "user name: $me$" gc-info -i -d 4
if command -v jq > /dev/null; then
    check "IPUs in use by jq" prints 3 sh -c "gc-monitor --json | jq '[.cards[].ipus[] | select(.PID)] | length'"
    check "who uses them, by jq" matches "^2[[:space:]]${holders[1]}[[:space:]]${me}[[:space:]]python3[[:space:]]0.00%$" \
        sh -c "gc-monitor --json | jq -r '.cards[].ipus[] | select(.PID) | [.id, .PID, .user, .command, .[\"ipu utilisation\"]] | @tsv'"
else
    skip "no jq here"
fi
check "gc-monitor disturbs nobody" kill -0 "${holders[@]}"
check "--tile-overview of a busy device names the holder" fails 1 "^gc-info: .*pid ${holders[0]} \(python3\) of user $me" \
    gc-info --tile-overview -d 0
check "--tile-overview of a free one" matches '^ 22 \.\.\.\. ' gc-info --tile-overview -d 3
check "gc-reset of a busy device" fails 1 "^gc-reset: .*pid ${holders[1]} " gc-reset -d 6
check "gc-reset of a free one" prints "Device 3 has been reset" gc-reset -d 3
several() { gc-reset -d 6 -d 3 -d 99 > "$box/out" 2> "$box/err"; [ $? = 1 ] && [ "$(cat "$box/out")" = "Device 3 has been reset" ] && [ "$(wc -l < "$box/err")" = 2 ]; }
check "gc-reset of several: all that can be" several
wrong_one() { gc-reset -d 3 -d x > "$box/out" 2>&1; [ $? = 2 ] && ! grep 'has been reset' "$box/out"; }
check "gc-reset of several, one no number: nothing is done" wrong_one
nasty=$box/bin/$'a\e[31m\n  id: 7\xc2\x9b'
cp "$hold" "$nasty"
check "a process with controls in its name" attach "$nasty" 3
no_controls() { "$@" > "$box/out" 2>&1; cat -v "$box/out"; grep -qF 'a?[31m?  id: 7??' "$box/out" && ! LC_ALL=C grep -qP '[\x00-\x08\x0b-\x1f\x7f]|\xc2\x9b' "$box/out"; }
check "they do nothing in attributes" no_controls gc-info -i -d 3
check "nor in the table" no_controls gc-monitor --no-card-info
check "nor in JSON" no_controls gc-monitor --json
check "nor in an error" no_controls gc-reset -d 3
kill "${holders[2]}" && wait "${holders[2]}" 2> /dev/null
unset 'holders[2]'
check "ipu partition list counts" matches '^p1 .* 3 +yes' ipu partition list
release
check "when they end, nobody is attached" json 'not any("PID" in i for c in d["cards"] for i in c["ipus"])' gc-monitor --json
unset IPUOF_CONFIG_PATH
check "an elastic partition gives further IPUs" attach "$hold" +8
check "gc-monitor shows them without ids" golden monitor_elastic gc-monitor --no-card-info
check "gc-monitor --json has them apart" \
    json 'd["elastic"][0]["ipus"] == "8" and not any("PID" in i for c in d["cards"] for i in c["ipus"])' gc-monitor --json
release

# ---- errors of IPUs ----

break_device() { ! GCDA_OPTIONS='{"simulateSOCError.errorList":"IPUSOFTERR"}' "$build/examples/01_hello_tile"; }
refused() { ! "$build/examples/01_hello_tile" > "$box/out" 2>&1 && cat "$box/out" && grep -q 'gc-reset -d 0' "$box/out"; }
check "no error" matches 'ipu error state: no errors$' gc-info -i -d 0
check "a program makes one" break_device
check "gc-info tells it" matches 'ipu error state: IPUSOFTERR$' gc-info -i -d 0
check "gc-monitor --json tells it" json 'd["cards"][0]["ipus"][0]["ipu error state"] == "IPUSOFTERR"' gc-monitor --json
check "gc-info --tile-overview tells it" matches '^  0 EEEE EEEE ' gc-info --tile-overview -d 0
check "the next program is refused" refused
check "gc-reset of the group clears it" prints "Device 6 has been reset" gc-reset -d 6
check "no error any more" matches 'ipu error state: no errors$' gc-info -i -d 0

# ---- partitions ----

check "create" ipu partition create big --target pod16
check "it is the active one" prints 16 gc-info --ipu-count
check "it has 31 devices" json 'len(d["partitions"][0]["devices"]) == 31' gc-info -l -j
check "create it again" fails 1 'partition big exists' ipu partition create big
check "create a Bow POD256" ipu partition create huge --target bow-pod256 --elastic
check "256 IPUs" prints 256 with IPU_PARTITION=huge gc-info --ipu-count
check "64 machines in gc-monitor" prints 256 sh -c 'IPU_PARTITION=huge gc-monitor | grep -c localhost'
check "create one that is not reconfigurable" ipu partition create fixed --ipus 2 --fixed
check "it is one device" golden list_fixed with IPU_PARTITION=fixed gc-info -l
check "gc-monitor of it" matches 'Partition: fixed has 2 IPUs  ' gc-monitor --all-partitions
check "a partition of cards" ipu partition create card --target c600
check "its target is PCIe" matches '^-\+- Id: \[0\], target: \[PCIe\]' with IPU_PARTITION=card gc-info -l
check "its architecture is ipu21" prints ipu21 with IPU_PARTITION=card gc-info --ipu-arch
check "create a hard one of Bow" ipu partition create bow16 --target bow-pod16
check "models are compiled for its chip" matches '^training on 2 IPUs +ok' with IPU_PARTITION=bow16 ipu check
check "remove it" ipu partition remove bow16
check "remove" ipu partition remove big
check "it is gone" fails 1 'big' ipu partition remove big
check "one in use is not removed: attach" with IPU_PARTITION=fixed true
IPU_PARTITION=fixed attach "$hold" 0
check "one in use is not removed" fails 1 "fixed is in use.*pid ${holders[0]}" ipu partition remove fixed
release
for name in huge fixed card; do check "remove $name" ipu partition remove $name; done
check "the default is back" prints 4 gc-info --ipu-count
check "the default is not removed" fails 1 'default' ipu partition remove default
check "a name that is a path" fails 1 'partition' ipu partition create ../x
check "a target that is none" fails 1 'no target "pod17"' ipu partition create x --target pod17
check "three IPUs" fails 1 'power of two' ipu partition create x --ipus 3

# ---- misuse: 2 for the command line, 1 for the rest ----

for tool in gc-info gc-inventory gc-monitor gc-reset; do
    check "$tool: unknown option" fails 2 "^$tool: no option --frob" $tool --frob
    check "$tool: an operand" fails 2 "^$tool: unexpected \"x\"" $tool x
    check "$tool: hint" fails 2 "^Try: $tool --help" $tool --frob
    check "$tool --help" matches "^Usage: $tool \[OPTION" $tool --help
    check "$tool documents its exit codes" matches '^  2  the command line is wrong' $tool --help
done
check "gc-monitor: an option of its sisters" fails 2 'did you mean --json?' gc-monitor --json-output
check "gc-info: an option nearly right" fails 2 'did you mean --ipu-count' gc-info --ipu-coutn
check "gc-info: device that is no number" fails 2 '"zero" is no number' gc-info -i -d zero
check "gc-info: device below 0" fails 2 '"-1" is no number' gc-info -i -d -1
check "gc-info: no such device" fails 1 'no device 7: its 4 IPUs make devices 0 to 6' gc-info -i -d 7
check "gc-info: no such device of all" fails 1 'no device 8: .* are 0 to 7' "${two[@]}" gc-info -i -d 8 --all-partitions
check "gc-info: tiles of no such device" fails 1 'no device 7' gc-info --tile-overview -d 7
check "gc-info: -i without -d" fails 2 'expected --device-id N' gc-info -i
check "gc-info: --tile-overview without -d" fails 2 'expected --device-id N' gc-info --tile-overview
check "gc-info: two questions" fails 2 '--list-devices and --ipu-count do not go together' gc-info -l --ipu-count
check "gc-info: -d with -l" fails 2 'does not go with --list-devices' gc-info -l -d 0
check "gc-reset: no device" fails 2 'expected --device-id N' gc-reset
check "gc-reset: no such device" fails 1 'no device 99' gc-reset -d 99
check "ipu partition: no action" fails 2 'expected create NAME' ipu partition
check "ipu partition: unknown action" fails 2 'found "destroy"' ipu partition destroy x
check "ipu partition: no name" fails 2 'expected create NAME' ipu partition create
check "ipu partition: option of another action" fails 2 '--json does not go with create' ipu partition create x --json

# ---- configurations that are wrong: each tool says which file, and exits with 1 ----

echo '{"partition": "p", "ipuz": 4}' > "$box/wrong.conf"
echo '{"partition": ' > "$box/torn.conf"
for tool in "gc-info -l" gc-inventory gc-monitor "gc-monitor --json" "gc-reset -d 0" "ipu partition list"; do
    check "$tool: an unknown key" fails 1 'wrong.conf: key "ipuz" is not known' with IPUOF_CONFIG_PATH="$box/wrong.conf" $tool
    check "$tool: no JSON" fails 1 'torn.conf' with IPUOF_CONFIG_PATH="$box/torn.conf" $tool
    check "$tool: no file" fails 1 'none.conf' with IPUOF_CONFIG_PATH="$box/none.conf" $tool
    check "$tool: no such partition" fails 1 'nowhere' with IPU_PARTITION=nowhere $tool
    check "$tool: a server is asked for" fails 1 'IPUOF_VIPU_API_HOST' with IPUOF_VIPU_API_HOST=10.1.3.101 $tool
done
one_line() { IPU_PARTITION=nowhere gc-monitor 2>&1 | wc -l | grep -qx 1; }
check "gc-monitor without a partition: one line" one_line

# ---- outputs that fail ----

full() { "$@" > /dev/full 2> "$box/err"; [ $? = 1 ] && cat "$box/err" && grep -q 'cannot write to standard output: No space' "$box/err"; }
closed() { ("$@" >&- 2> "$box/err"); [ $? = 1 ] && grep -q 'cannot write to standard output' "$box/err"; }
torn_pipe()
{
    "$@" 2> "$box/err" | true
    local code=${PIPESTATUS[0]}
    [ ! -s "$box/err" ] && { [ "$code" -le 1 ] || [ "$code" = 141 ]; } # 0: it was faster
}
for tool in "gc-info -l" gc-inventory "gc-inventory -j" gc-monitor "gc-monitor --json" "gc-info --ipu-count"; do
    check "$tool: disk full" full $tool
    check "$tool: standard output closed" closed $tool
    check "$tool: reader gone" torn_pipe $tool
done
printed_into_state()
{
    (ipu iputraffictest -v -i 10 -t 2 <&- >&- 2> "$box/err")
    [ $? = 1 ] && grep -q 'cannot write to standard output: Bad file' "$box/err" && gc-info -l
}
check "standard input and output closed: the state is not written to instead" printed_into_state
no_room()
{
    (trap '' XFSZ && ulimit -f 0 && fails 1 'cannot write' ipu partition create x 2>&1 | cat) || return
    [ -z "$(find "$HOME/.ipuof.conf.d" -name '*x*' 2> /dev/null)" ]
}
check "ipu partition create: no room; nothing is left" no_room

# ---- terminals ----

if command -v script > /dev/null; then
    # Neither the caller's shell nor a SIGCHLD that it ignores may decide: script waits for ever without the signal.
    in_terminal() # COLUMNS COMMAND
    {
        SHELL=/bin/sh timeout -k 5 30 env --default-signal=CHLD script -qec "stty cols $1; $2" /dev/null < /dev/null |
            tr -d '\r' > "$box/out"
        cat "$box/out"
    }
    IPUOF_CONFIG_PATH=$gc/p1.conf attach "$hold" 0
    widest() { IPUOF_CONFIG_PATH=$gc/p1.conf in_terminal "$1" "gc-monitor --no-card-info" > /dev/null; awk '{ if (length > n) n = length } END { print n }' "$box/out"; }
    check "a terminal of 140 columns is filled" prints 140 widest 140
    check "in one of 80 the table keeps its least width" prints 98 widest 80
    if command -v watch > /dev/null; then
        watched() # in the foreground: what is not may not set its terminal and is stopped
        {
            TERM=xterm IPUOF_CONFIG_PATH=$gc/p1.conf in_terminal 130 'timeout --foreground -k 5 2 watch -n 1 gc-monitor' > /dev/null
            grep -aq 'Attached processes in partition p1' "$box/out"
        }
        check "under watch" watched
    else
        skip "no watch here"
    fi
    release
else
    skip "no script here, for a terminal"
fi

# ---- names that would do something to a terminal ----

# plain COMMAND...: whatever its exit code, all it says is UTF-8 without controls or what turns text around.
plain()
{
    "$@" > "$box/out" 2>&1 < /dev/null
    "$python" -c "import sys, unicodedata
text = open(sys.argv[1], 'rb').read().decode()
assert len(text) > 20 and not [c for c in text if c != '\n' and unicodedata.category(c) in ('Cc', 'Cf', 'Zl', 'Zp')], ascii(text)" "$box/out"
}
evil=$'\x1b[31m\x9b\xff\xe2\x80\xae\xc2\x9b'
cp "$hold" "$box/bin/$evil"
check "one with such a name attaches" attach "$box/bin/$evil" 4
mkdir "$box/$evil" "$box/$evil/.ipuof.conf.d" && cp "$gc/p1.conf" "$box/$evil/.ipuof.conf.d/$evil.conf"
for tool in "gc-info -l" "gc-info -d 0 -i" "gc-info -d 0 -i --json" "gc-inventory" "gc-inventory --json" "gc-monitor" "gc-monitor --json" "gc-reset -d 0" \
    "ipu partition list" "ipu monitor --csv --count 1" "ipu monitor --jsonl --count 1"; do
    read -ra words <<< "$tool"
    check "$tool: a name" plain "${words[@]}"
    check "$tool: a configuration's file" plain with "HOME=$box/$evil" "${words[@]}"
done
echo "no JSON" > "$box/$evil/.ipuof.conf.d/$evil.conf"
check "gc-info: a file that is wrong" plain with "HOME=$box/$evil" gc-info -l
release

# ---- two users ----

if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    stranger=(setpriv --reuid 65534 --regid 65534 --clear-groups env "HOME=$box/nobody" "PATH=$PATH")
    reachable() { "${stranger[@]}" ipu --version; }
    if reachable > /dev/null 2>&1; then
        install -d -o 65534 -g 65534 -m 700 "$box/nobody" "$box/nobody/run"
        check "a process of root's attaches" attach "$hold" 6
        mine=("${stranger[@]}" "IPU_RUNTIME_DIR=$box/nobody/run")
        theirs=("${stranger[@]}" "IPU_RUNTIME_DIR=$box/run")
        check "another user does not see it" matches 'No attached processes' "${mine[@]}" gc-monitor
        check "their IPUs are free" matches '^  0 \.\.\.\. ' "${mine[@]}" gc-info --tile-overview -d 0
        check "nor may they look into the other's folder" fails 1 "$box/run: expected a folder of user 65534's" "${theirs[@]}" gc-monitor
        check "nor can they reset the other's" fails 1 "$box/run" "${theirs[@]}" gc-reset -d 0
        check "root's process is still attached" json 'sum("PID" in i for c in d["cards"] for i in c["ipus"]) == 4' gc-monitor --json
        check "a folder that is not theirs" fails 1 'cannot' "${mine[@]}" "HOME=$box/home" ipu partition create x
        chmod 600 "$box/wrong.conf"
        check "a file that is not theirs" fails 1 'wrong.conf: Permission denied|cannot .*wrong.conf.*Permission denied' \
            "${mine[@]}" "IPUOF_CONFIG_PATH=$box/wrong.conf" gc-info -l
        check "partitions of one are not the other's" ipu partition create rooted
        check "so the other has the default" prints default "${mine[@]}" sh -c 'gc-info -l | sed -n "s/^Partition: \(.*\) .*/\1/p"'
        check "and root has their own" prints rooted sh -c 'gc-info -l | sed -n "s/^Partition: \(.*\) .*/\1/p"'
        ipu partition remove rooted
        release
    else
        skip "another user cannot reach the build folder"
    fi
else
    skip "not root: two users"
fi

echo "1..$((passed + failed))"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
