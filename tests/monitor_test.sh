#!/usr/bin/env bash
# `ipu monitor`: lines of CSV and JSON, alerts and their commands, all users, and the live view through a terminal of
# tmux's. Usage: monitor_test.sh [IPU]. Ends with "N passed, N failed". Waits are for text, not for time.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "$@"
build=${BUILD:-build}
hold=$(realpath "$build/tests/hold")
busy=$(realpath "$build/tests/busy")
for program in "$hold" "$busy"; do
    [ -x "$program" ] || { echo "no $program to test with: build it first" >&2; exit 1; }
done
unset IPUOF_CONFIG_PATH IPUOF_VIPU_API_HOST IPUOF_VIPU_API_PARTITION_ID IPU_PARTITION IPU_ELASTIC IPU_DEVICE_ID COLUMNS LINES \
    NO_COLOR TMUX GCDA_OPTIONS GCDA_MONITOR GCDA_SUPPRESS_UTILISATION_MEASUREMENT IPU_ENGINE_OPTIONS

pids=()
mux() { tmux -S "$box/tmux" -f /dev/null "$@"; }
release() # the processes that hold devices, and other children
{
    local pid
    for pid in "${pids[@]}"; do kill -CONT "$pid" 2> /dev/null; kill "$pid" 2> /dev/null && wait "$pid" 2> /dev/null; done
    pids=()
}
# What runs in terminals. By SIGKILL: the SIGCONT that comes with a hangup undoes the SIGSTOP by which LeakSanitizer looks
# at a process that ends, and both then wait for ever.
end_in_terminals()
{
    local pane
    for pane in $(mux list-panes -a -F '#{pane_pid}' 2> /dev/null); do pkill -KILL -P "$pane"; done
}
finish()
{
    release
    end_in_terminals
    mux kill-server 2> /dev/null
    [ -z "${their_folder:-}" ] || rm -rf "$their_folder"
    rm -rf "$box"
}
trap finish EXIT
chmod 755 "$box"
mkdir -m 700 "$box/run" && mkdir -p "$box/home" "$box/bin"
export HOME=$box/home IPU_RUNTIME_DIR=$box/run LC_ALL=C.UTF-8 TERM=xterm-256color SHELL=/bin/sh
ln -s "$ipu" "$box/bin/ipu"
ln -s "$ipu" "$box/bin/gc-monitor"
mkfifo "$box/open" && exec 9<> "$box/open" # never ends while this script runs
export PATH=$box/bin:$PATH

# ---- what checks are made of ----

until_true() # COMMAND...: for up to two minutes
{
    for _ in $(seq 1200); do
        "$@" > /dev/null 2>&1 && return
        sleep 0.1
    done
    "$@"
}

# fails CODE PATTERN COMMAND...: that exit code, a line of standard error matches, no output.
fails()
{
    local expected=$1 pattern=$2 code=0
    shift 2
    "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    [ "$code" = "$expected" ] && [ ! -s "$box/out" ] && grep -qE -- "$pattern" "$box/err"
}

with() { env "$@"; } # NAME=VALUE... COMMAND...

start() # PROGRAM ARGUMENT...: one that says "attached" when it has its device
{
    : > "$box/attached"
    "$@" < "$box/open" > "$box/attached" 2>&1 9>&- &
    pids+=($!)
    until_true grep -q attached "$box/attached"
}

# python TEXT ARGUMENT...: statements after imports; rows of CSV and samples of JSON by name
python()
{
    local text=$1
    shift
    python3 - "$@" << END
import csv, json, re, sys
def rows(path): return list(csv.DictReader(open(path, newline="")))
def samples(path): return [json.loads(line) for line in open(path)]
def only(sample, *owners): # what is there of these, whoever else uses IPUs on this host
    for key in "partitions", "ipus", "processes": sample[key] = [x for x in sample[key] if x["owner"] in owners]
    told = [x for x in (sample["problem"] or "").split("; ") if any(x.startswith(f"user {name}: ") for name in owners)]
    return sample | {"problem": told[0] if told else None}
$text
END
}

# ---- CSV and JSON lines, with nobody and with two processes ----

lines() { "$@" > "$box/lines" 2> "$box/err" < /dev/null && [ ! -s "$box/err" ]; }

check "--csv" lines ipu monitor --csv --count 3 --interval 0.1
check "a row for each IPU and look, and one header" python 'r = rows(sys.argv[1])
assert len(r) == 12 and [x["id"] for x in r] == ["0", "1", "2", "3"] * 3, r
assert list(r[0]) == ("time owner partition gcd id machine board number error pid user command device ipus seconds utilisation "
    "utilisation_session runs supersteps cycles host_bytes tile_bytes").split(), list(r[0])
assert all(x["pid"] == x["command"] == x["utilisation"] == x["error"] == "" for x in r), r
assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", x["time"]) for x in r), r
assert len({x["time"] for x in r}) == 3 and None not in r[0], r' "$box/lines"
check "--jsonl" lines ipu monitor --jsonl --count 2 --interval 0.1
check "a line for each look" python 's = samples(sys.argv[1])
assert len(s) == 2 and s[1]["time"] > s[0]["time"], s
assert list(s[0]) == ["time", "problem", "partitions", "ipus", "processes", "alerts"], s
assert s[0]["problem"] is None and s[0]["processes"] == [] and s[0]["alerts"] == [], s
p = s[0]["partitions"][0]
assert (p["name"], p["ipus"], p["free"], p["active"], p["elastic"], p["chip"]) == ("default", 4, 4, True, True, "gc200"), p
assert all(i["pid"] is None and i["utilisation"] is None and i["error"] is None for i in s[0]["ipus"]), s' "$box/lines"
check "gc-monitor --csv too" lines gc-monitor --csv --count 1

evil=$'ev"il,\x1b[31m\xff'
cp "$hold" "$box/bin/$evil"
cp "$busy" "$box/bin/worker"
check "one holds two IPUs" start "$box/bin/$evil" 4
holder=${pids[0]}
check "another works on a third" start worker 2 60
worker=${pids[1]}
ready() { ipu monitor --jsonl --count 1 < /dev/null > "$box/lines" && python 's = samples(sys.argv[1])[-1]
assert s["ipus"][2]["utilisation"] > 0.3, s' "$box/lines"; }
check "it is seen at work" until_true ready
check "--csv of these" lines ipu monitor --csv --count 2 --interval 0.3
check "who, since when, how much" python 'r = rows(sys.argv[1])
assert [x["pid"] for x in r[:4]] == [sys.argv[2], sys.argv[2], sys.argv[3], ""], r
assert r[0]["command"] == "ev\"il,?[31m?" and r[2]["command"] == "worker", r
assert (r[0]["device"], r[0]["ipus"], r[0]["utilisation"], r[0]["runs"]) == ("4", "2", "0", "0"), r[0]
assert 0.2 < float(r[2]["utilisation"]) <= 1 and int(r[6]["runs"]) > 3 and int(r[6]["host_bytes"]) >= 4096, r
assert r[2]["cycles"] == r[2]["tile_bytes"] == "" and float(r[6]["seconds"]) > float(r[2]["seconds"]), r' \
    "$box/lines" "$holder" "$worker"
check "--jsonl of these" lines ipu monitor --jsonl --count 3 --interval 0.3
check "the same in JSON, with rates" python 's = samples(sys.argv[1])[-1]
a, b = s["processes"]
assert (a["pid"], a["device"], a["first_ipu"], a["ipus"], a["runs"], a["cycles"]) == (int(sys.argv[2]), 4, 0, 2, 0, None), a
assert a["runs_per_second"] == 0 and a["seconds"] > 0 and a["command"] == "ev\"il,?[31m?", a
assert b["runs_per_second"] > 0 and b["host_bytes_per_second"] > 0 and b["utilisation_session"] > 0.1, b
assert s["partitions"][0]["free"] == 1 and s["ipus"][2]["pid"] == b["pid"], s' "$box/lines" "$holder"
check "further IPUs of an elastic partition" start "$hold" +8
check "--csv has a row for them" lines ipu monitor --csv --count 1
check "without an id" python 'r = rows(sys.argv[1])
assert len(r) == 5 and r[4]["id"] == r[4]["device"] == "" and r[4]["ipus"] == "8" and r[4]["pid"] == sys.argv[2], r' \
    "$box/lines" "${pids[2]}"
mkdir -p "$HOME/.ipuof.conf.d"
echo '{"partition": "p1", "system": "m2000"}' > "$HOME/.ipuof.conf.d/p1.conf"
echo '{"partition": "p2", "system": "pod16"}' > "$HOME/.ipuof.conf.d/p2.conf"
check "--all-partitions" lines ipu monitor --csv --all-partitions --count 1
check "ids go on from one to the next" python 'r = rows(sys.argv[1])
assert [int(x["id"]) for x in r] == list(range(20)) and r[3]["partition"] == "p1" and r[4]["partition"] == "p2", r' "$box/lines"
check "256 IPUs" with HOME="$box/large" sh -c "mkdir -p $box/large && ipu partition create huge --target bow-pod256 &&
    ipu monitor --csv --count 1 | wc -l | grep -qx 257"

# ---- ends: pipes, disks, signals, configurations ----

full() { timeout 120 "$@" > /dev/full 2> "$box/err"; [ $? = 1 ] && cat "$box/err" && grep -q 'cannot write to standard output: No space' "$box/err"; }
torn() # its reader goes away: it ends as SIGPIPE ends a program (1: where that is ignored) and says nothing
{
    "$@" 2> "$box/err" | head -1 > /dev/null
    local code=${PIPESTATUS[0]}
    [ ! -s "$box/err" ] && { [ "$code" = 141 ] || [ "$code" = 1 ]; }
}
closed() { (timeout 120 "$@" >&- 2> "$box/err"); [ $? = 1 ] && cat "$box/err" && grep -q 'cannot write to standard output' "$box/err"; }
for format in --csv --jsonl; do
    check "$format: standard output closed" closed ipu monitor $format
    check "$format: disk full" full ipu monitor $format
    check "$format: reader gone" torn timeout 120 ipu monitor $format --interval 0.1
done
stopped() # SIGNAL CODE COMMAND...: it ends with that code, in order
{
    local signal=$1 expected=$2 pid code=0
    shift 2
    rm -f "$box/lines" # written anew: it runs
    "$@" > "$box/lines" 2> "$box/err" < /dev/null &
    pid=$!
    until_true test -s "$box/lines" || { kill -9 "$pid"; return 1; }
    kill -s "$signal" "$pid"
    wait "$pid" || code=$?
    cat "$box/err"
    [ "$code" = "$expected" ] && [ ! -s "$box/err" ] && [ -z "$(tail -c 1 "$box/lines")" ]
}
# Job control, so that what runs in the background does not ignore SIGINT.
check "SIGINT ends it with 130" bash -c "set -m; $(declare -f stopped until_true); box=$box; stopped INT 130 ipu monitor --csv --interval 3600"
check "SIGTERM ends it with 143" stopped TERM 143 ipu monitor --jsonl --interval 3600
check "SIGHUP ends it with 129" stopped HUP 129 ipu monitor --csv --interval 3600
blocked() # a reader that does not read: SIGTERM ends it all the same
{
    local code=0
    mkfifo "$box/stuck"
    exec 8<> "$box/stuck"
    ipu monitor --jsonl --interval 0.1 > "$box/stuck" 2> "$box/err" < /dev/null 8>&- &
    local pid=$!
    sleep 2
    kill -TERM $pid
    wait $pid || code=$?
    exec 8>&-
    cat "$box/err"
    [ $code = 143 ]
}
check "SIGTERM while the reader does not read" blocked
check "a configuration that is wrong at first is an error" fails 1 'key "ipuz" is not known' \
    with IPUOF_CONFIG_PATH=<(echo '{"ipuz": 4}') ipu monitor --csv
several() { [ "$(grep -c -- "$1" "$2")" -ge 4 ]; } # PATTERN FILE
goes_wrong() # later it is told once, and what is mended is told
{
    rm -f "$box/lines"
    ipu monitor --jsonl --interval 0.1 > "$box/lines" 2> "$box/err" < /dev/null &
    local pid=$!
    pids+=("$pid")
    until_true test -s "$box/lines" || return
    echo '{"ipuz": 4}' > "$HOME/.ipuof.conf.d/p0.conf"
    until_true several '"problem":"[^"]*p0.conf' "$box/lines" || return
    rm "$HOME/.ipuof.conf.d/p0.conf"
    until_true grep -q 'is mended' "$box/err" || return
    kill "$pid"
    wait "$pid"
    cat "$box/err"
    [ "$(grep -c 'key \\*"ipuz' "$box/err")" = 1 ] && python 's = samples(sys.argv[1])
wrong = [x for x in s if x["problem"]]
assert wrong and all(x["partitions"][0]["stale"] and len(x["ipus"]) == 4 for x in wrong), wrong
assert s[-1]["problem"] is None and not s[-1]["partitions"][0]["stale"]' "$box/lines"
}
check "one that goes wrong later keeps the picture, and is told once" goes_wrong
release
rm -r "$HOME/.ipuof.conf.d"

# ---- misuse ----

check "--alert: a metric that is nearly right" fails 2 'no metric "utilization" \(did you mean "utilisation"' ipu monitor --alert 'utilization<5%'
check "--alert: which there are" fails 2 'expected one of utilisation, .*, errors, free, attached, processes' ipu monitor --alert 'heat>1'
check "--alert: operators" fails 2 'operators are < <= > >= == !=' ipu monitor --alert 'free 1'
check "--alert: hint" fails 2 '^Try: ipu monitor --help' ipu monitor --alert x
check "--exec without --alert" fails 2 '\-\-exec needs --alert' ipu monitor --csv --exec true
check "--csv and --jsonl" fails 2 '\-\-csv and --jsonl do not go together' ipu monitor --csv --jsonl
check "--json and --csv" fails 2 '\-\-json and --csv do not go together' ipu monitor --csv --json
check "--once and --interval" fails 2 '\-\-interval does not go with --once' ipu monitor --once --interval 2
check "--json and --alert" fails 2 '\-\-alert does not go with --json' ipu monitor --json --alert 'free<1'
check "--interval alone, in a pipe" fails 2 '\-\-interval needs --csv' ipu monitor --interval 2
check "--interval 0" fails 2 '"0" is no number from 0.1 to 86400' ipu monitor --csv --interval 0
check "--interval soon" fails 2 '"soon" is no number' ipu monitor --csv --interval soon
check "--interval nan" fails 2 '"nan" is no number' ipu monitor --csv --interval nan
check "--count 0" fails 2 '"0" is no number from 1' ipu monitor --csv --count 0
check "gc-monitor says its own name" fails 2 '^gc-monitor: --csv and --jsonl' gc-monitor --csv --jsonl

# ---- alerts ----

watch_alerts() # NAME ARGUMENT...: in the background, into files NAME.out and NAME.err
{
    local name=$1
    shift
    ipu monitor --interval 0.1 "$@" > "$box/$name.out" 2> "$box/$name.err" < /dev/null &
    pids+=($!)
}
check "an idle process holds two IPUs" start "$hold" 4
holder=${pids[0]}
# shellcheck disable=SC2016 # the command's shell expands it
record='printf "%s|" "$IPU_ALERT_STATE" "$IPU_ALERT" "$IPU_ALERT_SUBJECT" "$IPU_ALERT_PID" "$IPU_ALERT_IPU" "$IPU_ALERT_IPUS" "$IPU_ALERT_PARTITION" "$IPU_ALERT_USER" "$IPU_ALERT_COMMAND" "$IPU_ALERT_VALUE" >> "$OUT"; echo >> "$OUT"'
export OUT=$box/record
watch_alerts idle --alert 'utilisation<5% for 0.5s' --alert 'free<1' --exec "$record"
me=$(id -un)
subject="IPUs 0 to 1 of default (pid $holder, $me)"
has_line() { cat "$2"; grep -qF -- "$1" "$2"; } # TEXT FILE
check "a device held and idle fires, and the command is run" until_true has_line \
    "firing|utilisation<5% for 0.5s|$subject|$holder|0|2|default|$me|hold|0|" "$box/record"
check "a line is printed" until_true grep -qE "^[0-9]{4}-.*Z firing utilisation<5% for 0.5s: IPUs 0 to 1 of default .pid $holder, $me.: 0.00%$" "$box/idle.out"
kill "$holder"
check "when it is gone it is resolved, once more by the command" until_true has_line "resolved|utilisation<5% for 0.5s|$subject|$holder|" "$box/record"
check "and by a line" until_true grep -q " resolved utilisation<5% for 0.5s: .*: gone$" "$box/idle.out"
twice() { sleep 0.5; cat "$box/record"; [ "$(wc -l < "$box/record")" = 2 ] && [ "$(wc -l < "$box/idle.out")" = 2 ] && [ ! -s "$box/idle.err" ]; }
check "nothing else was told" twice
release

check "an IPU with an error" sh -c "! GCDA_OPTIONS='{\"simulateSOCError.errorList\":\"IPUSOFTERR\"}' $build/examples/01_hello_tile"
watch_alerts error --jsonl --alert 'errors>0' --alert 'free<1'
fires() { python 's = samples(sys.argv[1])[-1]
a = {x["alert"]: x for x in s["alerts"]}
assert a["errors>0"]["state"] == "firing" and a["errors>0"]["subject"] == "IPU 0 of default" and a["errors>0"]["value"] == 1, s
assert a["free<1"] == {"alert": "free<1", "state": "ok", "subject": None, "since": None, "value": None}, s
assert s["ipus"][0]["error"] == "IPUSOFTERR", s' "$box/error.out"; }
check "errors>0 fires, in JSON" until_true fires
check "and is told on standard error" until_true grep -q '^ipu: alert firing errors>0: IPU 0 of default: 1$' "$box/error.err"
check "gc-reset" ipu reset -d 0
check "resolves it" until_true grep -q '^ipu: alert resolved errors>0: IPU 0 of default: 0$' "$box/error.err"
release

check "all IPUs are taken" start "$hold" 6
watch_alerts hostile --alert 'free<1' --alert 'held>0s' --exec 'echo said; exit 7'
check "a command that fails is told" until_true grep -q '^ipu: --exec failed for free<1, partition default, firing: exit status 7$' "$box/hostile.err"
check "what it prints is apart from the output" sh -c "grep -q ^said '$box/hostile.err' && ! grep -q ^said '$box/hostile.out'"
release
check "a name that would be a command" cp "$hold" "$box/bin/\$(touch hacked)"
check "it holds a device" start "$box/bin/\$(touch hacked)" 0
rm -f "$OUT"
watch_alerts spliced --alert 'held>0s' --exec "cd '$box'; $record"
check "is only ever a value" until_true grep -qF '$(touch hacked)' "$box/record"
check "and not run" test ! -e "$box/hacked"
release
slow() # a command that never ends holds up neither the watch nor its end
{
    start "$hold" 6 || return
    timeout 120 ipu monitor --jsonl --interval 0.1 --count 20 --alert 'free<1' --exec 'echo $$ > '"$box/slow"'; exec sleep 600' \
        > "$box/lines" 2> "$box/err" < /dev/null || return
    [ "$(wc -l < "$box/lines")" = 20 ] && grep -q 'still run' "$box/err" || return
    kill -0 "$(cat "$box/slow")" && kill "$(cat "$box/slow")"
}
check "a command that does not end" slow
release
many() # of 40 commands, 8 run at a time
{
    local pid code=0 i
    HOME=$box/many ipu partition create many --ipus 64 --target pod64 || return
    for i in $(seq 0 39); do HOME=$box/many "$hold" "$i" < "$box/open" > "$box/many.$i" 2>&1 9>&- & pids+=($!); done
    for i in $(seq 0 39); do until_true grep -q attached "$box/many.$i" || return; done
    # shellcheck disable=SC2016
    HOME=$box/many ipu monitor --interval 0.2 --count 2 --alert 'held>0s' \
        --exec 'mkdir '"$box"'/at.$$ && ls -d '"$box"'/at.* | wc -l >> '"$box/at"'; sleep 0.1; rmdir '"$box"'/at.$$' > "$box/out" 2>&1 < /dev/null || code=$?
    cat "$box/out"
    [ $code = 0 ] && [ "$(grep -c firing "$box/out")" = 40 ] && [ "$(wc -l < "$box/at")" = 40 ] && [ "$(sort -n "$box/at" | tail -1)" -le 8 ]
}
mkdir "$box/many"
check "forty at once" many
release
unset OUT

# ---- all users ----

if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then
    uid=$((1000000 + $$)) # a user without a name, another one in each run
    their_folder=/tmp/openipu-$uid
    stranger=(setpriv --reuid "$uid" --regid "$uid" --clear-groups env -u IPU_RUNTIME_DIR -u XDG_RUNTIME_DIR HOME=/dev/null "PATH=$PATH")
    if [ -e "$their_folder" ]; then
        their_folder=
        skip "another user has IPUs already: all users"
    elif ! "${stranger[@]}" "$ipu" --version > /dev/null 2>&1; then
        skip "another user cannot reach the build folder"
    else
        check "--all-users is for root" fails 1 '\-\-all-users is for root' "${stranger[@]}" ipu monitor --csv --all-users
        check "a process of root's" start "$hold" 0
        check "a process of another user's" start "${stranger[@]}" "$hold" 4
        their=$uid
        sees() { ipu monitor --jsonl --all-users --count 1 > "$box/lines" 2> "$box/err" < /dev/null; cat "$box/err"; python "s = only(samples(sys.argv[1])[-1], '$me', '$their')
$1" "$box/lines"; }
        check "root sees both" sees "assert s['problem'] is None, s
assert [(i['owner'], i['id'], i['user']) for i in s['ipus'] if i['pid']] == [('$me', 0, '$me'), ('$their', 0, '$their'), ('$their', 1, '$their')], s
assert [p['owner'] for p in s['partitions']] == ['$me', '$their'] and len(s['ipus']) == 8, s"
        check "without it only their own" lines ipu monitor --csv --count 1
        check "four rows" sh -c "grep -c default '$box/lines' | grep -qx 4"
        check "an alert names the owner" sh -c "ipu monitor --all-users --interval 0.1 --count 2 --alert 'held>0s' | grep -q 'IPUs 0 to 1 of default (pid [0-9]*, $their)'"
        # What they can put in the way of root's look is told, and does no harm.
        state=$their_folder/default.gcd0.ipus1
        noise() # in the records of their state; the locks are the kernel's
        {
            local seed
            for seed in 1 2 3 4 5 6 7 8; do
                "${stranger[@]}" python3 -c "import random, sys
random.seed($seed)
with open(sys.argv[1], 'r+b') as f:
    size = f.seek(0, 2) - 4096
    f.seek(4096)
    f.write(bytes(random.choice((0, 255, 127, 128, random.randrange(256))) for _ in range(20000)) + random.randbytes(size - 20000))" "$state" || return
                for format in --jsonl --csv; do
                    ipu monitor $format --all-users --interval 0.1 --count 3 --alert 'held>0s' --alert 'runs_per_second<1' --alert 'ipus<1000000' \
                        > "$box/lines" 2> "$box/err" < /dev/null || { cat "$box/err"; return 1; }
                    [ $format = --csv ] || python "def no(x): raise ValueError(x)
for line in open(sys.argv[1]): s = json.loads(line, parse_constant=no)
assert all(0 <= (i['utilisation'] or 0) <= 1 for i in s['ipus']) and all(p['runs'] >= 0 and p['seconds'] >= 0 for p in s['processes']), s
assert len(only(s, '$me', '$their')['ipus']) == 8, s" "$box/lines" || return
                done
            done
        }
        check "they fill their state with noise" noise
        check "they cut their state short" "${stranger[@]}" truncate -s 5000 "$state"
        check "they and root's own are seen nevertheless" sees "assert s['problem'] is None and len(s['ipus']) == 8 and len([i for i in s['ipus'] if i['pid']]) == 3, s
assert all(p['seconds'] < 86400 for p in s['processes']), s"
        release
        rm -rf "$their_folder"
        check "a folder of theirs that all may write to" "${stranger[@]}" mkdir -m 777 "$their_folder"
        "${stranger[@]}" chmod 777 "$their_folder"
        check "is not believed" sees "assert 'user $their: the state of devices cannot be kept' in s['problem'], s"
        rmdir "$their_folder"
        ln -s "$IPU_RUNTIME_DIR" "$their_folder" # root's own folder under their name
        check "nor is a link, nor a folder that is not theirs" sees "assert s['problem'] is None and len(s['partitions']) == 1, s"
        rm "$their_folder"
        "${stranger[@]}" mkdir -m 700 "$their_folder"
        stuck=$their_folder/default.gcd0.ipus1
        check "they put a pipe in the place of the state" "${stranger[@]}" mkfifo "$stuck"
        check "it blocks nothing, and is no state" sees "assert s['problem'] is None and len(s['partitions']) == 2 and not any(p['user'] == '$their' for p in s['processes']), s"
        rm -rf "$their_folder"
        # With a name and a home of theirs, in a namespace of mounts that ends with the command: a configuration that would never end.
        { cat /etc/passwd; echo "theirs:x:$uid:$uid::$box/theirs:/bin/sh"; } > "$box/passwd"
        install -d -o "$uid" -m 755 "$box/theirs" "$box/theirs/.ipuof.conf.d"
        if unshare --mount mount --bind "$box/passwd" /etc/passwd 2> /dev/null; then
            "${stranger[@]}" mkdir -m 700 "$their_folder"
            mkfifo "$box/theirs/.ipuof.conf.d/p.conf"
            as_named="mount --bind '$box/passwd' /etc/passwd || exit;" # in a namespace of mounts
            never_ends() { unshare --mount sh -c "$as_named exec ipu monitor --jsonl --all-users --interval 0.1 --count ${1:-1}" > "$box/lines" 2> "$box/err" < /dev/null; }
            check "they put a pipe in the place of a configuration" never_ends 9
            check "which is not waited for" python "s = only(samples(sys.argv[1])[-1], '$me', 'theirs')
assert 'p.conf: expected a regular file, found a pipe' in s['problem'] and len(s['partitions']) == 1, s" "$box/lines"
            rm "$box/theirs/.ipuof.conf.d/p.conf"
            odd=$box/theirs/.ipuof.conf.d/$'\e[31mred\xff'.conf
            echo 'no JSON' > "$odd"
            check "they give a configuration a name that colours terminals" never_ends
            check "root's terminal is not coloured" sh -c "grep -a 'user theirs: .*?\[31mred?\.conf:1: not JSON' '$box/err' && ! grep -q '[[:cntrl:]]' '$box/err'"
            rm "$odd"
            # A file system that does not answer: what looks there does not even end when it is killed.
            mkfifo "$box/serves" && exec 7<> "$box/serves"
            stuck() # the file system ends when looks have met it
            {
                rm -f "$box/lines"
                unshare --mount sh -c "$as_named python3 tests/gc/stuck.py '$box/theirs/.ipuof.conf.d' $uid < '$box/serves' > '$box/mounted' 7>&- & \
                    until grep -q mounted '$box/mounted'; do kill -0 \$! || exit 77; sleep 0.1; done; \
                    exec ipu monitor --jsonl --all-users --interval 0.2 7>&-" > "$box/lines" 2> "$box/err" < /dev/null &
                local pid=$! problem
                pids+=("$pid")
                for problem in 'no answer within 3 s' 'still blocks an earlier look'; do
                    until_true grep -q "user theirs: [^;]*$problem" "$box/lines" || return
                done
                exec 7>&-
                until_true grep -q 'user theirs: cannot read ' "$box/lines" || return
                kill $pid
                wait $pid
                [ $? = 143 ] && python "n = [len(only(s, '$me')['ipus']) for s in samples(sys.argv[1])]
assert len(n) >= 3 and set(n) == {4}, n" "$box/lines"
            }
            if [ -c /dev/fuse ]; then
                check "they have a file system that does not answer" stuck
                release
            else
                skip "no /dev/fuse: a file system that does not answer"
            fi
            exec 7>&-
            echo '{"partition": "theirs", "system": "pod16"}' > "$box/theirs/.ipuof.conf.d/p.conf"
            check "a partition of theirs" never_ends
            check "is seen as theirs" python "s = only(samples(sys.argv[1])[-1], '$me', 'theirs')
assert s['problem'] is None and [(p['owner'], p['name'], p['ipus']) for p in s['partitions']][1] == ('theirs', 'theirs', 16), s" "$box/lines"
            rm -rf "$their_folder"
            mkdir "$their_folder" # root's, in the way of theirs
            check "their state is in their home if another has made their folder in /tmp" start "${stranger[@]}" env HOME="$box/theirs" "$hold" 0
            check "a look at all users" never_ends
            check "finds it there" python "s = only(samples(sys.argv[1])[-1], '$me', 'theirs')
assert s['problem'] is None and [i['id'] for i in s['ipus'] if i['owner'] == 'theirs' and i['pid']] == [0], s" "$box/lines"
            release
            rm -rf "$their_folder"
        else
            skip "no mounts of one's own here: a home of the other user's"
        fi
    fi
else
    skip "not root: all users"
fi

# ---- live, on a terminal ----

if ! command -v tmux > /dev/null; then
    skip "no tmux here: the live view"
    check_end
    exit
fi

mux new-session -d -s keep 'exec cat' # the server stays while other sessions come and go
screen() { mux capture-pane -p -t live; }
shows() { screen; screen | grep -qE -- "$1"; }   # PATTERN: now
sees_text() { until_true shows "$1"; }           # PATTERN: within a while
lacks() { screen; ! screen | grep -qE -- "$1"; } # PATTERN
gone() { until_true lacks "$1"; }
key() { mux send-keys -t live "$@"; }
press() # KEY PATTERN: after that key the screen shows it
{
    key "$1" && sees_text "$2"
}
live() # COLUMNS LINES COMMAND: in a terminal of that size; its exit code is shown when it ends
{
    end_in_terminals
    mux kill-session -t live 2> /dev/null
    mux new-session -d -s live -x "$1" -y "$2" "$3; echo \"ended with \$?\"; exec cat"
}
ended() { sees_text "^ended with $1"; }
row_of() { screen | grep -nE -- "$1" | head -1 | cut -d : -f 1; } # PATTERN: the line it is in
before() { screen; [ "$(row_of "$1")" -lt "$(row_of "$2")" ]; }   # PATTERN PATTERN: one is above the other

check "one sleeps on two IPUs" start "$box/bin/$evil" 4
holder=${pids[0]}
check "one works on a third" start worker 2 60
worker=${pids[1]}
live 120 30 "ipu monitor --interval 0.2 --alert 'utilisation<5% for 0.5s' --alert 'free<1'"
check "live: the header" sees_text "^ipu monitor .* partition default \[active\], gc200 .*every 0.2s"
check "live: the summary" sees_text '^4 IPUs: 1 free, 0 with errors, 3 attached, utilisation of these [0-9.]+%; 2 processes'
check "live: a row for each IPU: held, busy, free" sees_text '^ +0 localhost #3 +held +0\.0% '
check "live: busy, with a bar" sees_text '^ +2 localhost #1 +busy +[0-9.]+% █+'
check "live: its history grows" sees_text "busy .*[▃▄▅▆▇█]{6} $worker worker"
check "live: free" shows '^ +3 localhost #0 +free *$'
check "live: processes, with rates" sees_text "^ +$worker $me +worker +2 +[0-9]+s +[0-9.]+% +[0-9.]+ +[0-9.]+ k?B *$"
check "live: a hostile name does no harm" sees_text "^ +$holder $me +ev\"il,\?\[31m\? +0-1 "
check "live: an alert fires" sees_text "^FIRING  utilisation<5% for 0.5s: IPUs 0 to 1 of default \(pid $holder, "
check "live: the line of keys" shows '^q Quit  h Help'
check "live: help" press h '^Keys and columns'
check "live: and back" press h '^q Quit'
check "live: attributes of the IPU" press e '^IPU 0 of partition default of'
check "live: read on" press NPage '^ipu utilisation  '
check "live: back" press q '^q Quit'
check "live: sorted by the process, then the other way" before "$holder ev" "$worker worker"
key s && key s && key s && key s
check "live: the column is marked" sees_text 'PROCESS▲'
check "live: reversed" press r 'PROCESS▼'
check "live: the other order" until_true before "^ +2 localhost" "^ +0 localhost"
key r && key '<' && key '<' && key '<' && key '<'
check "live: back to the first column" sees_text '^ +ID▲'
check "live: filter" press / '^filter: _'
mux send-keys -t live -l 'WORK'
check "live: as it is typed" sees_text '^filter: WORK_'
check "live: only what has it" gone '^ +0 localhost'
check "live: that it is on is shown" press Enter 'filter: WORK$'
check "live: Escape shows all" press Escape '^ +0 localhost'
check "live: paused" press p 'PAUSED'
clock_of() { screen | head -1 | grep -oE '[0-9]+:[0-9]+:[0-9]+'; }
still() { local a; a=$(clock_of); sleep 1.2; [ "$a" = "$(clock_of)" ]; }
check "live: the clock stands" still
check "live: and goes on" press p '^ipu monitor .*every 0.2s'
moves() { local a; a=$(clock_of); until_true eval "[ \"\$(clock_of)\" != \"$a\" ]"; }
check "live: the clock moves" moves
check "live: longer from look to look" press + 'every 0.5s'
check "live: shorter" press - 'every 0.2s'
check "live: the other table" press Tab 'PID'
key Home
check "live: details of a process" press e "^Process $holder, ev"
check "live: its executable" shows '^user executable +/'
key q

# Ending processes: only the one that was meant, and only after the question.
check "kill: it asks, and names the process" press k "pid $holder \(ev\"il,\?\[31m\?\) of $me"
check "kill: and what it holds" shows 'which holds IPUs 0 to 1 of default'
check "kill: no is no" press n 'nothing was sent'
check "kill: the process lives" kill -0 "$holder"
check "kill: F9 asks too" press F9 'Send a signal to'
check "kill: Escape is no" press Escape 'nothing was sent'
check "kill: it still lives" kill -0 "$holder"
key k k k k
sleep 0.5
key Escape
check "kill: a key held too long ends nothing" kill -0 "$holder"
key k
check "kill: asked once more" sees_text 'Send a signal to'
check "kill: SIGTERM" press t "SIGTERM sent to pid $holder"
check "kill: it is gone from the tables" gone "^ +$holder "
dead() { ! kill -0 "$1" 2> /dev/null; }
check "kill: and from the host" until_true dead "$holder"
key k
check "kill: the other is asked about" sees_text "pid $worker \(worker\)"
kill "$worker"
until_true dead "$worker"
check "kill: one that ended while it asked" press K 'it is gone already'
check "live: the alert is resolved" sees_text '^2 alerts: ok'
check "live: no processes" sees_text '^  no attached processes'
check "kill: nobody to end" press k 'nobody is attached here'
check "live: q ends it with 0" press q '^ended with 0'
release

# Sizes, terminals, signals.
mkdir -p "$box/large"
live 100 30 "HOME=$box/large ipu monitor --interval 0.2"
check "256 IPUs" sees_text '^256 IPUs: 256 free'
check "the last of them" press End '^ 255 localhost #0'
check "the first again" press Home '^   0 localhost #3'
mux resize-window -t live -x 60 -y 12
check "smaller" gone '^q Quit.*Detail'
check "smaller: still a table" sees_text '^   0 .*free'
mux resize-window -t live -x 20 -y 5
check "too small says so" sees_text '^too small: 20x5'
mux resize-window -t live -x 1 -y 1
sleep 0.3
mux resize-window -t live -x 110 -y 20
check "larger again" sees_text '^256 IPUs: 256 free'
mkdir -p "$box/large/.ipuof.conf.d"
echo '{"partition": "small", "system": "m2000"}' > "$box/large/.ipuof.conf.d/small.conf"
check "all partitions" press a '^260 IPUs: .*'
check "with a column for them" shows 'PARTITION'
check "the active one again" press a '^256 IPUs'
echo '{"ipuz": 1}' > "$box/large/.ipuof.conf.d/wrong.conf"
check "a configuration that goes wrong is told, the picture stays" sees_text 'wrong.conf: key "ipuz" is not known'
check "256 IPUs all the while" shows '^256 IPUs'
rm "$box/large/.ipuof.conf.d/wrong.conf"
check "and mended" gone 'ipuz'
key q
live 100 20 'LC_ALL=C ipu monitor --interval 0.2'
check "ASCII where the locale has no more" sees_text '^ +ID\^'
key q
# shellcheck disable=SC2016
no_escapes() { mux capture-pane -e -p -t live | grep -q 'held\|free' && ! mux capture-pane -e -p -t live | grep -qE $'\x1b\\[([0-9;]*;)?(3[0-7]|4[0-7])m'; }
live 100 20 'NO_COLOR=1 ipu monitor --interval 0.2'
check "NO_COLOR" until_true no_escapes
key q
live 100 20 'TERM=vt100 ipu monitor --interval 0.2'
check "a terminal without colours" until_true no_escapes
check "vt100: keys work" press Down '^ +1 localhost'
key q
live 100 20 'TERM=no-such-terminal ipu monitor'
check "a terminal that is not known" sees_text '^ipu: the terminal "no-such-terminal" is not known: set TERM'
check "is an error" ended 1
live 100 20 'TERM=dumb ipu monitor'
check "one that cannot place text" sees_text 'cannot place text'
live 100 20 'IPU_PARTITION=nowhere ipu monitor'
check "no such partition: an error before anything is drawn" sees_text '^ipu: .*nowhere'
check "exit code 1" ended 1
live 100 20 'ipu monitor --count 2 --interval 0.1'
check "--count ends it" ended 0
live 100 20 'ipu monitor --once'
check "--once prints the one picture" sees_text 'No attached processes in partition default'
live 100 20 'gc-monitor'
check "gc-monitor does so on a terminal, too" sees_text 'No attached processes in partition default'
live 100 20 'ipu monitor < /dev/null'
check "and ipu monitor without a terminal to read from" sees_text 'No attached processes in partition default'
for signal in INT QUIT TERM HUP; do
    live 100 20 "before=\$(stty -g); ipu monitor; code=\$?; [ \"\$before\" = \"\$(stty -g)\" ] && echo as before; (exit \$code)"
    sees_text '^4 IPUs'
    pane=$(mux display-message -p -t live '#{pane_pid}')
    monitor=$(pgrep -P "$pane" -f 'ipu monitor' | head -1)
    kill -s "$signal" "$monitor"
    case $signal in INT) code=130 ;; QUIT) code=131 ;; TERM) code=143 ;; HUP) code=129 ;; esac
    check "SIG$signal ends it with $code" ended $code
    check "SIG$signal: the terminal is as before" sees_text '^as before'
done
live 100 20 'bash --norc --noprofile -i'
sees_text '[$#] *$'
mux send-keys -t live 'PS1="prompt> "; ipu monitor --interval 0.2' Enter
sees_text '^4 IPUs'
key C-z
check "Ctrl-Z stops it" sees_text 'Stopped'
mux send-keys -t live 'fg' Enter
check "fg shows it again" sees_text '^4 IPUs: 4 free'
check "and keys work" press h '^Keys and columns'
key q
sleep 0.2
key C-c
check "Ctrl-C ends it" sees_text '^prompt> *$'
gone_terminal() # the terminal goes away: it does not stay behind
{
    live 100 20 "ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 ipu monitor" # see end_in_terminals
    sees_text '^4 IPUs' || return
    local pane monitor
    pane=$(mux display-message -p -t live '#{pane_pid}')
    monitor=$(pgrep -P "$pane" -f 'ipu monitor' | head -1)
    [ -n "$monitor" ] && mux kill-session -t live && until_true dead "$monitor"
}
check "a terminal that goes away" gone_terminal

check_end
