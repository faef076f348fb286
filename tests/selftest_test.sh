#!/usr/bin/env bash
# The self-tests of devices (gc-hosttraffictest, gc-iputraffictest, gc-hostsynclatencytest, gc-memorytest, gc-exchangetest,
# gc-links, gc-flops, gc-powertest): their text and JSON, that figures fit together, that faults are found, busy and wrong
# devices, misuse, signals, terminals. Usage: selftest_test.sh [IPU]. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tests/support/check.sh
. tests/support/check.sh
check_ipu "$@"
hold=$(realpath "${BUILD:-build}/tests/hold")
[ -x "$hold" ] || { echo "no $hold to test with: build it first" >&2; exit 1; }
unset IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PARTITION_ID IPU_ELASTIC IPU_DEVICE_ID GCDA_OPTIONS IPU_ENGINE_OPTIONS IPU_SELFTEST_FAULT
check_alone

holder=
release() # the process that holds a device
{
    [ -z "$holder" ] || { kill "$holder" 2> /dev/null && wait "$holder" 2> /dev/null; }
    holder=
}
trap 'release; rm -rf "$box"' EXIT
mkdir -m 700 run && mkdir bin
tests="hosttraffictest iputraffictest hostsynclatencytest memorytest exchangetest links flops powertest"
for name in $tests reset monitor; do ln -s "$ipu" "bin/gc-$name"; done
ln -s "$ipu" bin/ipu
mkfifo open && exec 9<> open # never ends while this script runs
export PATH=$box/bin:$PATH

# Each of them, so small that it takes a moment.
declare -A small=(
    [hosttraffictest]="-i 150 -t 4 -s 2"
    [iputraffictest]="-i 5 -t 3"
    [hostsynclatencytest]="-i 2 --mark-count 100"
    [memorytest]="-t 3"
    [exchangetest]="-t 9 -i 2"
    [links]=""
    [flops]="-s 0.01"
)
names="hosttraffictest iputraffictest hostsynclatencytest memorytest exchangetest links flops" # those that measure

# ---- what checks are made of ----

# fails CODE PATTERN COMMAND...: that exit code, a line of standard error matches, no output.
fails()
{
    local expected=$1 pattern=$2 code=0
    shift 2
    "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    echo "exit code $code"
    [ "$code" = "$expected" ] && [ ! -s "$box/out" ] && grep -qE -- "$pattern" "$box/err"
}

# The same, but with output, of which a line matches too.
fails_with() # CODE PATTERN OUTPUT-PATTERN COMMAND...
{
    local expected=$1 pattern=$2 output=$3 code=0
    shift 3
    "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    echo "exit code $code"
    [ "$code" = "$expected" ] && grep -qE -- "$pattern" "$box/err" && grep -qE -- "$output" "$box/out"
}

# text PATTERN... -- COMMAND...: exit code 0, nothing on standard error, lines that match in this order, and at last what was
# measured.
text()
{
    local patterns=()
    while [ "$1" != -- ]; do patterns+=("$1"); shift; done
    shift
    "$@" > "$box/out" 2> "$box/err" < /dev/null || { cat "$box/err"; return 1; }
    cat "$box/out" "$box/err"
    [ ! -s "$box/err" ] && "$python" - "$box/out" "${patterns[@]}" \
        'Measured on virtual IPUs of this host; "modelled" is an estimate for the chip \w+\.' << 'EOF'
import re, sys
lines = iter(open(sys.argv[1]).read().splitlines())
for pattern in sys.argv[2:]:
    assert any(re.fullmatch(pattern, line) for line in lines), f"no line, or not in its place: {pattern}"
assert next(lines, None) is None, "lines after the last"
EOF
}

# json EXPRESSION COMMAND...: JSON `d` whose values are all text, and for which the Python expression is true. In it f is
# float, i is int, near says that numbers are equal but for rounding, and gbps is the arithmetic of speeds.
json()
{
    local expression=$1
    shift
    "$@" > "$box/json" 2> "$box/err" || { cat "$box/err"; return 1; }
    [ ! -s "$box/err" ] && judge "$expression"
}

judge()
{
    "$python" - "$box/json" "$1" << 'EOF'
import json, re, sys
def pairs(p):
    assert len({k for k, _ in p}) == len(p), "a key is there twice"
    return dict(p)
d = json.load(open(sys.argv[1]), object_pairs_hook=pairs)
def leaves(x):
    if isinstance(x, dict): x = list(x.values())
    return sum(map(leaves, x), []) if isinstance(x, list) else [x]
assert all(isinstance(x, str) for x in leaves(d)), d
f, i = float, int
def near(a, b): return abs(float(a) - float(b)) <= 0.006 + 1e-4 * abs(float(b))
def gbps(bytes, seconds): return float(bytes) * 8 / float(seconds) / 1e9
assert eval("(" + sys.argv[2] + ")", {**globals(), "d": d}), json.dumps(d, indent=1)
EOF
}

# attach ID: a process that has the device, until release.
attach()
{
    : > "$box/attached"
    "$hold" "$1" < "$box/open" > "$box/attached" 2>&1 9>&- &
    holder=$!
    for _ in $(seq 2000); do
        grep -q attached "$box/attached" && return
        sleep 0.05
    done
    cat "$box/attached"
    return 1
}

with() { env "$@"; } # NAME=VALUE... COMMAND...

of() # NAME ARGUMENT...: the small test of that name; a parameter that is given twice has the later value
{
    local name=$1
    shift
    "gc-$name" ${small[$name]} "$@"
}

measured='d["measurement"] == {"device": "virtual", "measured": "time of this host", "modelled_for": "gc200"}'

# ---- gc-hosttraffictest ----

speed='[0-9]+\.[0-9]{2} Gb/s'
check "host traffic: text" text \
    "host <- buffer <- tile: [0-9.]+ s, host $speed, tile $speed \(each alone: host $speed, tile $speed; modelled: tile $speed\)" \
    "host -> buffer -> tile: .*" "host -> buffer <- tile: .*" "host <- buffer -> tile: .*" -- of hosttraffictest
check "host traffic: JSON has the vendor's keys and four directions" json \
    "$measured"' and d["configuration"] == {"number_of_ipus": "1", "tile_transfers_enabled": "true", "tiles_per_ipu": "4",
        "transfer_size_64byte_blocks": "2", "iterations": "150", "host_transfers_enabled": "true"}
     and {k: v["description"] for k, v in d["repeat_0"].items()} == {
        "host_from_buffer_from_tile": "host <- buffer <- tile", "host_to_buffer_to_tile": "host -> buffer -> tile",
        "host_to_buffer_from_tile": "host -> buffer <- tile", "host_from_buffer_to_tile": "host <- buffer -> tile"}
     and all({"description", "duration_seconds", "host_data_transferred_bytes", "tile_data_transferred_bytes",
              "host_transfer_speed_gbps", "tile_transfer_speed_gbps"} <= set(v) for v in d["repeat_0"].values())
     and set(d) == {"configuration", "repeat_0", "measurement"}' of hosttraffictest -j
check "host traffic: bytes are iterations x blocks x tiles x IPUs, speeds follow from them" json \
    'all(i(v[side + "_data_transferred_bytes"]) == 150 * 2 * 64 * 4 * 4 and f(v["duration_seconds"]) > 0
         and near(v[side + "_transfer_speed_gbps"], gbps(v[side + "_data_transferred_bytes"], v["duration_seconds"]))
         and near(f(v["host_side_seconds"]) + f(v["tile_side_seconds"]), v["duration_seconds"]) and v["errors"] == "0"
         for v in d["repeat_0"].values() for side in ("host", "tile"))' of hosttraffictest -j -d 6
check "host traffic: fewer iterations than a batch, one block on one tile" json \
    'i(d["repeat_0"]["host_to_buffer_to_tile"]["tile_data_transferred_bytes"]) == 64' gc-hosttraffictest -i 1 -t 1 -s 1 -j
check "host traffic: repeats" json 'set(d) == {"configuration", "repeat_0", "repeat_1", "repeat_2", "measurement"}' \
    of hosttraffictest -r 3 -j
check "host traffic: as a script checks it" bash -c 'gc-hosttraffictest -d 0 -i 500 > /dev/null; [ $? -ne 0 ] && exit 1; exit 0'

# ---- gc-iputraffictest ----

check "IPU traffic: text" text 'IPU 0 <-> IPU 1 of device 4: 5 iterations of 64 KB from each of 3 tiles, both ways' \
    "1920 KB in [0-9.e-]+ s: $speed \(modelled: $speed\), 0 errors" -- of iputraffictest
check "IPU traffic: verbose tells of runs" text '  5 iterations: 1920 KB, .* Gb/s, 0 errors' \
    'IPU 0 .*' '1920 KB in .*' -- of iputraffictest -v
check "IPU traffic: JSON has the vendor's keys, and figures that fit" json \
    "$measured"' and set(d) == {"tile_to_tile", "measurement"} and all(
        set(t) == {"boards", "device0", "device1", "duration_sec", "kbytes_transferred", "gbytes_transferred", "gbps",
                   "modelled_gbps", "errors", "power"}
        and t["device0"] == "1" and t["device1"] == "2" and t["errors"] == "0" and t["power"] == "N/A"
        and i(t["kbytes_transferred"]) == 5 * 3 * 2 * 64
        and near(t["gbytes_transferred"], i(t["kbytes_transferred"]) / 1024 ** 2)
        and near(t["gbps"], gbps(i(t["kbytes_transferred"]) * 1024, t["duration_sec"]))
        and all(re.fullmatch(r"[0-9]+\.xxxx\.[0-9]+", serial)
                and set(b) == {"power_sensors", "device_ids", "type", "board_power"}
                and set(b["power_sensors"]) == {"XDPE132G5C:0", "XDPE132G5C:1"} for serial, b in t["boards"].items())
        and sorted(sum((b["device_ids"] for b in t["boards"].values()), [])) == ["1", "2"]
        for t in [d["tile_to_tile"]])' of iputraffictest --device0 1 --device1 2 -j
# Of a GC200, four links between the IPUs of a pair and two from pair to pair; a published sample, of two IPUs that it does not name, has 423.
check "IPU traffic: modelled over the links of a pair" json '840 < float(d["tile_to_tile"]["modelled_gbps"]) < 871' \
    gc-iputraffictest --device0 0 --device1 1 -i 2 -j
check "IPU traffic: modelled from pair to pair, near the published sample" json '0.95 < float(d["tile_to_tile"]["modelled_gbps"]) / 423 < 1.05' \
    gc-iputraffictest --device0 0 --device1 2 -i 2 -j
check "IPU traffic: the smallest group that has both" text 'IPU 2 <-> IPU 3 of device 5: .*' '.*' -- \
    of iputraffictest --device0 2 --device1 3
check "IPU traffic: or all" text 'IPU 3 <-> IPU 0 of device 6: .*' '.*' -- of iputraffictest --device0 3 --device1 0
check "IPU traffic: one iteration" json 'd["tile_to_tile"]["kbytes_transferred"] == "256"' gc-iputraffictest -i 1 -t 2 -j
check "IPU traffic: several runs, and a rest that is odd" text '  256 iterations: 1048576 KB, .*' \
    '  261 iterations: 1069056 KB, .*' 'IPU 0 .*' '1069056 KB in .*, 0 errors' -- gc-iputraffictest -i 261 -v
check "IPU traffic: all links at the same time" json 'd["tile_to_tile"]["device0"] == "all" and d["tile_to_tile"]["errors"] == "0"
    and i(d["tile_to_tile"]["kbytes_transferred"]) == 4 * 5 * 3 * 2 * 64
    and sorted(sum((b["device_ids"] for b in d["tile_to_tile"]["boards"].values()), [])) == ["0", "1", "2", "3"]' \
    of iputraffictest --all-links -j

# ---- gc-hostsynclatencytest ----

check "host sync: text is the vendor's" text 'o Using device Id - 0' 'o Using sync mode: Polling, HSP: hsp1' \
    '  - Issuing 100 syncs, .*' 'o Loading binary on all tiles\.\.\. done' 'o Syncs took on average [0-9.]+ us' \
    '  - One sync: p50 [0-9.]+ us, p99 [0-9.]+ us' '  - A run of one sync: p50 .*' 'o Result - Pass' -- of hostsynclatencytest
check "host sync: JSON has the vendor's keys and defaults" json \
    "$measured"' and {k: d[k] for k in ("ipu_id", "sync_mode", "hsp", "delay_cycles", "num_delays", "iterations", "mark_count",
        "result")} == {"ipu_id": "0", "sync_mode": "polling", "hsp": "hsp1", "delay_cycles": "5", "num_delays": "32",
        "iterations": "1", "mark_count": "4095", "result": "pass"} and "split_increments" in d
     and 0 < f(d["sync_us_p50"]) <= f(d["sync_us_p99"]) and 0 < f(d["run_us_p50"]) <= f(d["run_us_p99"])
     and f(d["time_to_sync_us"]) > 0' gc-hostsynclatencytest -j
check "host sync: options are told" json \
    'd["ipu_id"] == "6" and d["sync_mode"] == "hybrid" and d["hsp"] == "both" and d["delay_cycles"] == "20"
     and d["num_delays"] == "7" and d["mark_count"] == "1" and d["iterations"] == "3" and d["sync_us_p50"] == "N/A"' \
    gc-hostsynclatencytest -d 6 --sync-mode hybrid --hsp both --delay-cycles 20 --num-delays 7 --mark-count 1 -i 3 -j

# ---- gc-memorytest ----

check "memory: text" text 'Device 0: 3 tiles, [0-9]+ bytes of each \(99\.[0-9] %\), [0-9]+ bytes in all' \
    'Patterns: 0x00 0xff 0x55 0xaa address random' "Took [0-9.]+ s: $speed written and read \(modelled: [0-9.]+ s, $speed\)" \
    '0 errors: passed' -- of memorytest
check "memory: JSON, nearly all of each tile, figures that fit" json \
    "$measured"' and d["result"] == "pass" and d["errors"] == "0" and d["tiles_tested"] == "3"
     and d["patterns"] == ["0x00", "0xff", "0x55", "0xaa", "address", "random"] and d["bytes_per_tile"] == "638976"
     and 0.99 < i(d["bytes_per_tile_tested"]) / 638976 <= 1
     and i(d["bytes_tested"]) == 3 * i(d["bytes_per_tile_tested"])
     and near(d["gbps"], gbps(2 * 6 * i(d["bytes_tested"]), d["duration_seconds"]))
     and near(d["modelled_gbps"], gbps(2 * 6 * i(d["bytes_tested"]), d["modelled_seconds"]))' of memorytest -j
check "memory: quick, a group" json 'd["patterns"] == ["address", "random"] and d["tiles_tested"] == "8"
    and d["number_of_ipus"] == "4"' gc-memorytest -d 6 -t 2 --quick -j
check "memory: more than one pass" json 'd["tiles_tested"] == "120" and d["errors"] == "0"' gc-memorytest -t 120 -q -j

# ---- gc-exchangetest ----

check "exchange: text" text 'All to all between 9 tiles of each IPU, blocks of 256 bytes, 2 iterations' \
    "IPU 0: exchange $speed; with vertices [0-9]+ supersteps/s, [0-9]+ vertices/s; 0 errors" "Modelled: exchange $speed; .*" \
    'Result: passed' -- of exchangetest
check "exchange: JSON, real supersteps and vertices, figures that fit" json \
    "$measured"' and d["result"] == "pass" and len(d["ipus"]) == 4 and all(
        u["ipu_id"] == str(k) and u["errors"] == "0" and i(u["exchange_bytes"]) == 2 * 9 * 8 * 256
        and i(u["supersteps"]) == 2 * 8 and i(u["vertices"]) == 2 * 8 * 9
        and near(u["exchange_gbps"], gbps(u["exchange_bytes"], u["exchange_duration_seconds"]))
        and abs(f(u["vertices_per_second"]) * f(u["vertex_duration_seconds"]) / i(u["vertices"]) - 1) < 0.01
        for k, u in enumerate(d["ipus"]))' of exchangetest -d 6 -j
check "exchange: two tiles, an even and an odd number of them" bash -c \
    'for n in 2 3 4 64 65; do gc-exchangetest -t $n -i 1 > /dev/null || exit 1; done'
check "exchange: all tiles" json 'd["tiles_per_ipu"] == "1472" and d["errors"] == "0"' gc-exchangetest -i 1 -j

# ---- gc-links ----

check "links: text" text 'IPU 0 -> IPU 1: passed' 'IPU 1 -> IPU 0: passed' 'IPU 2 -> IPU 3: passed' 'IPU 3 -> IPU 2: passed' \
    '4 IPUs, 4 links, 0 training fails: passed' "$speed, all links together \(modelled: $speed\)" -- gc-links
check "links: JSON has the vendor's keys, with arrays" json \
    "$measured"' and d["num ipus"] == "4" and d["overall result"] == "passed" and d["training fails"] == "0"
     and [(l["from id"], l["to id"]) for l in d["ipu to ipu"]] == [("0", "1"), ("1", "0"), ("0", "2"), ("2", "0"), ("1", "3"),
         ("3", "1"), ("2", "3"), ("3", "2")]
     and all(l["from pcie id"] == str(3 - i(l["from id"])) and l["to pcie id"] == str(3 - i(l["to id"]))
             and l["channel"] == [{"from": "N/A", "to": "N/A", "status": "passed", "gen": "N/A", "lanes": "N/A"}]
             for l in d["ipu to ipu"])' gc-links -j

check "links: of a group" text 'IPU 2 -> IPU 3: passed' 'IPU 3 -> IPU 2: passed' '2 IPUs, 1 link, 0 training fails: passed' '.*' \
    -- gc-links -d 5
check "links: of a single IPU there are none" fails 1 'device 1 of partition default has one IPU' gc-links -d 1

# ---- gc-flops ----

for fp in FP16 FP32; do
    check "flops: text of $fp" text '.*0\.01 seconds.*' 'Loading binary into IPU\(s\)' "Starting $fp FLOPS calculation\.\.\." \
        "Flops per IPU \($fp\): [0-9.e-]+ teraFLOPS \(took: [0-9.e-]+ seconds\)" 'IPU clock speed: 1330 MHz' 'Best run: [0-9.e-]+ teraFLOPS' \
        "Modelled flops per IPU \($fp\): [0-9.]+ teraFLOPS, .*" -- of flops -p $fp
done
check "flops: FP16 by default; JSON of a group tells the lowest" json \
    "$measured"' and d["fp"] == "FP16" and d["result"] == "pass" and d["errors"] == "0" and len(d["ipus"]) == 4
     and f(d["best_teraflops"]) >= f(d["teraflops"]) == min(f(u["teraflops"]) for u in d["ipus"]) > 0 and f(d["modelled_teraflops"]) > 1
     and [u["ipu_id"] for u in d["ipus"]] == ["0", "1", "2", "3"]' of flops -d 6 -j
check "flops: FP8 is told to be missing" fails 1 'FP8 is not supported: the engine has no 8-bit floats' gc-flops -p FP8
check "flops: any other type is misuse" fails 2 'option --fp: "FP64" is not FP16 or FP32' gc-flops -p FP64
check "flops: the clock stays" fails_with 0 'no clock to lower' 'Flops per IPU' gc-flops -l -s 0.01
check "flops: version" bash -c 'gc-flops -v | grep -qE "^gc-flops [0-9]+\.[0-9]+\.[0-9]+$"'

# ---- gc-powertest ----

check "power: nothing to test" fails 1 'device 0 is virtual: it draws no power .*nothing was tested' gc-powertest
check "power: of a group" fails 1 'device 6 is virtual' gc-powertest -d 6
check "power: no such device" fails 1 'no device 7' gc-powertest -d 7

# ---- faults are found ----

declare -A verdict=([hosttraffictest]='"errors": "1"' [iputraffictest]='"errors": "1"' [hostsynclatencytest]='"result": "fail"'
    [memorytest]='"result": "fail"' [exchangetest]='"result": "fail"' [links]='"overall result": "failed"' [flops]='"result": "fail"')
for name in $names; do
    check "$name: a flipped bit is a failure" fails_with 1 'wrong .*: 1($|;)' . with IPU_SELFTEST_FAULT=1 \
        bash -c "gc-$name ${small[$name]}"
    check "$name: in JSON too, which is complete" fails_with 1 'wrong .*: 1($|;)' "${verdict[$name]}" \
        with IPU_SELFTEST_FAULT=1 bash -c "gc-$name ${small[$name]} -j"
    cp "$box/out" "$box/json"
    check "$name: and well-formed" judge '"measurement" in d'
done
check "FP32: a flipped bit is a failure" fails_with 1 'wrong rows of products: 1$' 'Flops per IPU' with IPU_SELFTEST_FAULT=1 gc-flops -p FP32 -s 0.01
check "memory: a fault is told with its place" fails_with 1 \
    'pattern 0x00, is at byte [0-9]+ of tile 1 of IPU 0: expected 0x0000000000000000, found 0x0001000000000000' '1 errors: failed' \
    with IPU_SELFTEST_FAULT=1 gc-memorytest -t 3
simulate='GCDA_OPTIONS={"simulateSOCError.errorList":"IPUSOFTERR","simulateSOCError.triggerCount":"2"}'
check "an error of the device is a failure" fails 1 'IPUSOFTERR' with "$simulate" gc-memorytest -t 2 -j
check "which stays until it is reset" fails 1 'IPUSOFTERR.*gc-reset|reset' gc-exchangetest -t 4 -j
check "by gc-reset" gc-reset -d 0
check "then all is well" of exchangetest

# ---- devices that are busy, or not there ----

attach 0
for name in $names; do
    check "$name: busy names the holder" fails 1 \
        'device [046] is occupied by another process: .* by pid [0-9]+ \(hold\)' bash -c "gc-$name ${small[$name]} -j"
done
check "another device is not" of memorytest -d 2
check "a group with a busy IPU is" fails 1 'device 6 is occupied by another process' gc-flops -d 6 -j
release
for name in hosttraffictest hostsynclatencytest memorytest exchangetest flops; do
    check "$name: no such device" fails 1 'no device 7.*0 to 6' "gc-$name" -d 7
    check "$name: a device that is no number" fails 2 '"x" is no number' "gc-$name" -d x
done
check "no such IPU" fails 1 'no device 9' gc-iputraffictest --device0 0 --device1 9
check "an IPU and itself" fails 1 'device 1 is given twice' gc-iputraffictest --device0 1 --device1 1
check "a group is no IPU" fails 1 'device 4 is a group of 2 IPUs: expected a single one' gc-iputraffictest --device1 4
check "a partition that is not there" fails 1 'IPU_PARTITION' with IPU_PARTITION=none gc-links

check "IPU_DEVICE_ID is the device if none is said" json 'd["device_id"] == "5" and d["tiles_tested"] == "4"' \
    with IPU_DEVICE_ID=5 gc-memorytest -t 2 -q -j
check "and allows no other" fails 1 'IPU_DEVICE_ID=5 allows' with IPU_DEVICE_ID=5 gc-memorytest -d 0 -t 2
check "links of what it allows" json 'len(d["ipu to ipu"]) == 2' with IPU_DEVICE_ID=5 gc-links -j
check "all of them, too" json 'd["tile_to_tile"]["kbytes_transferred"] == "256"' \
    with IPU_DEVICE_ID=5 gc-iputraffictest --all-links -i 1 -t 2 -j
check "it is a number" fails 1 'IPU_DEVICE_ID' with IPU_DEVICE_ID=x gc-memorytest -t 2

# ---- misuse ----

for name in $tests; do
    check "$name: help" bash -c "gc-$name --help | grep -q '^Usage: gc-$name'"
    check "$name: operands" fails 2 'unexpected "x"' "gc-$name" x
    check "$name: unknown options" fails 2 'no option --bogus' "gc-$name" --bogus
done
check "no iterations" fails 2 'option --iterations: "0" is no number from 1' gc-hosttraffictest -i 0
check "iterations beyond all bounds" fails 2 'is no number from 1' gc-iputraffictest -i 99999999999999999999
check "more tiles than there are" fails 1 'an IPU has 1472 tiles, not 1473' gc-memorytest -t 1473
check "tiles of an exchange" fails 2 '"1" is no number from 2' gc-exchangetest -t 1
check "blocks" fails 2 '"4097" is no number from 1 to 4096' gc-hosttraffictest -s 4097
check "delay cycles" fails 2 '"21" is no number from 0 to 20' gc-hostsynclatencytest --delay-cycles 21
check "a sync mode" fails 2 '"eager" is not posted, polling or hybrid' gc-hostsynclatencytest --sync-mode eager
check "a host sync port" fails 2 '"hsp3" is not hsp1, hsp2 or both' gc-hostsynclatencytest --hsp hsp3
check "seconds" fails 2 '"-1" is no number' gc-flops -s -1
check "seconds that are none" fails 2 '"nan" is no number' gc-flops -s nan
check "forever has no JSON" fails 2 'never comes to its JSON' gc-iputraffictest --forever -j
check "forever has no iterations" fails 2 'expected one of them' gc-iputraffictest --forever -i 3
check "all links are of no two IPUs" fails 2 'without --device0 and --device1' gc-iputraffictest --all-links --device0 1
check "verbose JSON" fails 2 'not of JSON' gc-iputraffictest -v -j
for name in hosttraffictest links; do
    check "$name: output that cannot be written" bash -c \
        "gc-$name ${small[$name]} -j > /dev/full 2> $box/err; [ \$? = 1 ] && grep -q 'No space left' $box/err"
done

# ---- other partitions ----

check "IPU_DEVICE_ID that is no device is named" fails 1 'IPU_DEVICE_ID: partition default has no device 99' with IPU_DEVICE_ID=99 gc-flops -s 0.01

check "a partition of one IPU" ipu partition create one --target gc200
check "has no links" fails 1 'device 0 of partition one has one IPU: there is no link' gc-links
check "nor all of them" fails 1 'there is no link' gc-iputraffictest --all-links
check "it is gone" ipu partition remove one
check "a partition of a chip with no room for a product" ipu partition create tiny --target tiny
check "flops: what cannot be modelled is N/A" json 'd["modelled_teraflops"] == d["modelled_matrix_side"] == "N/A" and f(d["teraflops"]) > 0' \
    with IPU_PARTITION=tiny gc-flops -s 0.01 -j
check "flops: in text, too" bash -c "IPU_PARTITION=tiny gc-flops -s 0.01 | grep -q '^Modelled flops per IPU (FP16): N/A'"
check "it is removed" ipu partition remove tiny
check "a card" ipu partition create card --target c600-card
check "moves tiles' side only, and its streaming memory is not modelled" json \
    'd["configuration"]["host_transfers_enabled"] == "false" and d["measurement"]["modelled_for"] == "c600"
     and all(v["host_data_transferred_bytes"] == "0" and v["host_transfer_speed_gbps"] == "0.00"
             and f(v["tile_transfer_speed_gbps"]) > 0 and v["modelled_tile_transfer_speed_gbps"] == "N/A"
             for v in d["repeat_0"].values())' of hosttraffictest -j
check "and passes the others" bash -c 'gc-memorytest -t 2 -q && gc-exchangetest -t 5 -i 1 && gc-hostsynclatencytest && gc-flops -s 0.01'
check "it is gone, too" ipu partition remove card
check "a partition of one device" ipu partition create whole --fixed
check "links of all its IPUs" json 'd["num ipus"] == "4" and d["overall result"] == "passed"' gc-links -j
check "has no single IPUs" fails 1 'not reconfigurable.*--all-links' gc-iputraffictest
check "but links" of iputraffictest --all-links
check "so it is removed" ipu partition remove whole
check "64 machines" ipu partition create pod --target pod256
if [ "$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)" -lt 1000000000 ]; then
    check "too much memory is refused" fails 1 'would take .* of this host.s memory.*fewer --tiles' \
        gc-hosttraffictest -d 510 -t 1472 -s 4096
else
    skip "this host has the terabyte that is asked for"
fi
check "so many links" json 'len(d["ipu to ipu"]) == 2 * 376 and d["overall result"] == "passed"' gc-links -j
check "an IPU of the last machine" json 'd["tiles_tested"] == "2"' gc-memorytest -d 255 -t 2 -q -j
check "and they are gone" ipu partition remove pod

# ---- signals and terminals ----

# signalled SIGNAL CODE WHEN COMMAND...: when its output has a line that matches, the signal; then that exit code.
signalled()
{
    "$python" - "$@" << 'EOF'
import re, signal, subprocess, sys
number, code, when = getattr(signal, sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def ignore_nothing():
    for s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_DFL)
p = subprocess.Popen(sys.argv[4:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=ignore_nothing)
for line in p.stdout:
    print(line, end="")
    if re.search(when, line): break
busy = subprocess.run(["gc-memorytest", "-t", "1", "-q"], capture_output=True, text=True)
p.send_signal(number)
out, err = p.communicate(timeout=180)
print(out, err, p.returncode)
assert "occupied by another process" in busy.stderr, busy
assert p.returncode == code and err == "", (p.returncode, err)
assert code or re.search("^[0-9]+ KB in .* 0 errors$", out, re.M), out
EOF
}
check "Ctrl-C ends --forever with its result, and until then the device is held" signalled SIGINT 0 '  [0-9]+ iterations' \
    gc-iputraffictest --forever -v -t 2
check "Ctrl-C ends a test in order" signalled SIGINT 130 Starting gc-flops -s 600
check "so does SIGTERM" signalled SIGTERM 143 Starting gc-flops -s 600 -p FP32
check "the device is free" bash -c 'gc-monitor --json | /usr/bin/python3 -c "import json, sys
d = json.load(sys.stdin)
assert not [i for c in d[\"cards\"] for i in c[\"ipus\"] if \"PID\" in i], d"'

# on_terminal COMMAND...: standard error is a terminal, and shows how far it is.
on_terminal()
{
    "$python" - "$@" << 'EOF'
import os, pty, subprocess, sys
main, other = pty.openpty()
p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=other, env={**os.environ, "TERM": "xterm"})
os.close(other)
seen = b""
while True:
    try: part = os.read(main, 4096)
    except OSError: break
    if not part: break
    seen += part
print(seen)
assert p.wait() == 0
assert b"IPU 0 " in seen and b"%" in seen and seen.endswith(b"\r\x1b[K"), seen
EOF
}
check "a terminal shows progress, and nothing of it remains" on_terminal gc-flops -s 2.5
check "a file does not" bash -c "gc-flops -s 1.5 2> $box/err > /dev/null && [ ! -s $box/err ]"

check_end
