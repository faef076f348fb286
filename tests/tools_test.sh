#!/usr/bin/env bash
# Runs the built `ipu` with good and bad arguments; checks what it prints and its exit codes.
# Usage: tools_test.sh [IPU]. Prints a line per check and ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
ipu=${1:-${IPU_BIN:-}}
for candidate in "${BUILD:-build}/tools/ipu" "${BUILD:-build}/ipu"; do
    if [ -z "$ipu" ] && [ -x "$candidate" ]; then ipu=$candidate; fi
done
if [ ! -x "$ipu" ]; then
    echo "no ipu to test: build first, or give its path" >&2
    exit 1
fi
ipu=$(realpath "$ipu")
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
passed=0 failed=0 skipped=0

result() # ok|not NAME
{
    if [ "$1" = ok ]; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $2"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $2"
        sed 's/^/# /' "$box/out" "$box/err"
    fi
}

skip() # WHY
{
    skipped=$((skipped + 1))
    echo "# skipped: $1"
}

# run CODE ARGUMENT...: leaves output in $box/out and $box/err; true if the exit code is CODE.
run()
{
    local expected=$1 code=0
    shift
    "$ipu" "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    [ "$code" = "$expected" ] && return
    echo "exit code $code, not $expected" >> "$box/err"
    return 1
}

# good NAME PATTERN ARGUMENT...: exit code 0, a line of output matches, nothing on standard error.
good()
{
    local name=$1 pattern=$2
    shift 2
    if run 0 "$@" && grep -qE -- "$pattern" "$box/out" && [ ! -s "$box/err" ]; then result ok "$name"; else result not "$name"; fi
}

# bad NAME CODE PATTERN ARGUMENT...: that exit code, a line of standard error matches, no output.
bad()
{
    local name=$1 code=$2 pattern=$3
    shift 3
    if run "$code" "$@" && grep -qE -- "$pattern" "$box/err" && [ ! -s "$box/out" ]; then result ok "$name"; else result not "$name"; fi
}

# that NAME COMMAND...: the command is true.
that()
{
    local name=$1
    shift
    : > "$box/out"
    if "$@" > "$box/out" 2> "$box/err"; then result ok "$name"; else result not "$name"; fi
}

# json EXPRESSION ARGUMENT...: the output is JSON `d` for which the Python expression is true.
json()
{
    local expression=$1
    shift
    "$ipu" "$@" > "$box/json" || return
    python3 -m json.tool "$box/json" > /dev/null || return
    python3 -c "import json, sys
d = json.load(open(sys.argv[1]))
assert ($expression), d" "$box/json"
}

same() { diff "$1" "$2"; }

# ---- the frame ----

good "version" '^ipu [0-9]+\.[0-9]+\.[0-9]+$' --version
good "version by letter" '^ipu [0-9]' -V
good "help lists the commands" '^  dump +read a graph or model' --help
good "help tells the exit codes" '^  2  the command line is wrong' --help
good "help command equals --help" '^Usage: ipu \[OPTION' help
bad "no command" 2 'expected a command'
bad "unknown command names the nearest" 2 'no command "dmup"; did you mean "dump"' dmup x
bad "unknown command with no near one" 2 'no command "xyzzyplugh"$' xyzzyplugh
bad "unknown option of the frame" 2 'no option --verzion; did you mean --version' --verzion
bad "the frame is no command" 2 'no command "ipu"' ipu
for command in help target ops dump run show dataset info monitor inventory reset partition \
    hosttraffictest iputraffictest hostsynclatencytest memorytest exchangetest links flops powertest; do
    good "help of $command" "^Usage: ipu $command \\[OPTION" help $command
    good "$command --help" "^Usage: ipu $command \\[OPTION" $command --help
    good "$command -h, after other arguments" "^Usage: ipu $command \\[OPTION" $command x -h
done
bad "unknown option names the nearest" 2 'ipu dump: no option --sumary; did you mean --summary' dump --sumary x
bad "unknown letter" 2 'no option -z' target -z
bad "option without its argument" 2 'option --output needs an argument: FILE' dump x --output
bad "argument to an option that takes none" 2 'option --json takes no argument' target --json=yes
bad "too many operands" 2 'unexpected "b"' target a b
bad "too few operands" 2 'ipu dump: expected FILE' dump
good "options may be abbreviated" '"chips"' target --js

# ---- help ----

bad "help of an unknown command" 2 'did you mean "target"' help tagret
good "help options lists those of the engine" '^  threads \(default: ' help options
good "help engine lists them" '^  null  +computes nothing' help engine
bad "no man page of engines" 2 'no command "engine"' help --man engine
bad "completion stands alone" 2 'stands alone' help --completion dump
bad "no man page of options" 2 'no command "options"' help --man options
for page in ipu help target ops dump run show dataset info monitor inventory reset partition \
    hosttraffictest iputraffictest hostsynclatencytest memorytest exchangetest links flops powertest; do
    good "man page of $page" '^\.SH "EXIT STATUS"' help --man $page
    cp "$box/out" "$box/page.1"
    if command -v groff > /dev/null; then
        groff -man -Tascii -P-cbou -ww "$box/page.1" > "$box/page.txt" 2> "$box/complaints"
        that "groff has no complaint about it ($page)" test ! -s "$box/complaints"
        that "it shows its options ($page)" grep -q -e '--help' "$box/page.txt"
    else
        skip "no groff here"
    fi
done

# ---- completion ----

"$ipu" help --completion > "$box/completion"
# completes EXPECTED WORD...: bash offers EXPECTED (words joined by blanks) for the last word.
completes()
{
    local expected=$1
    shift
    bash --norc -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ipu; echo "${COMPREPLY[*]}"' \
        - "$box/completion" "$@" > "$box/offered" || return
    [ "$(cat "$box/offered")" = "$expected" ] || { cat "$box/offered"; false; }
}
that "completion: commands" completes "help target ops dump profile run show dataset train infer codelet info monitor inventory reset hosttraffictest iputraffictest hostsynclatencytest memorytest exchangetest links flops powertest poprun partition docker podman check" ipu ""
that "completion: options of a command" completes "--summary --side --side-out" ipu dump --s
that "completion: targets" completes "bow bow-2000 bow-pod16 bow-pod64 bow-pod256" ipu target bow
that "completion: ops" completes "matmul matmul_integer" ipu ops matm
that "completion: options of the frame" completes "--version" ipu --v
: > "$box/a graph.ipu"
that "completion: files, with blanks in their names" completes "$box/a graph.ipu" ipu dump "$box/a"
that "completion: options of a link" completes "--ipu-count --ipu-arch" gc-info --ipu
that "completion: a link has no operands" completes "" gc-monitor ""
that "completion: actions of partition" completes "remove" ipu partition re
that "completion: a new partition has any name" completes "" ipu partition create ""
devices_are_completed()
(
    export HOME=$box/home IPU_RUNTIME_DIR=$box/run
    mkdir -p "$box/home"
    unset IPU_PARTITION IPUOF_VIPU_API_PARTITION_ID IPUOF_CONFIG_PATH
    completes "0 1 2 3 4 5 6" "$ipu" info --device-id "" && completes "5" "$ipu" iputraffictest --device0 5 \
        && "$ipu" partition create pair --ipus 2 && "$ipu" partition create quartet --ipus 4 \
        && completes "0 1 2" "$ipu" reset -d "" && completes "pair" "$ipu" partition remove p \
        && completes "quartet" "$ipu" poprun --vipu-partition q && PATH=${ipu%/*}:$PATH completes "2" gc-flops -d 2
)
that "completion: devices and partitions, as they are now" devices_are_completed
that "completion: targets where an option takes one" completes "pod4 pod16 pod64 pod128 pod256" ipu partition create p1 --target pod
that "completion: actions of dataset" completes "show sheet" ipu dataset sh
that "completion: then files" completes "tests/tools_test.sh" ipu dataset show tests/tools_te
that "completion: nothing where a number goes" completes "" ipu target --ipus ""

# ---- target ----

good "list of chips" '^  gc200 +1472 tiles x 624 KiB +1.33 GHz' target
good "list of systems" '^  pod16 +16 x gc200 +4 machines' target
that "list as JSON" json '{c["name"]: c["tiles"] for c in d["chips"]}["gc2"] == 1216' target --json
that "systems as JSON" json '{s["name"]: s["machines"] for s in d["systems"]}["bow-pod64"] == 16' target -j
good "constants have human units, certainty and source" '^bytes_per_tile +624 KiB +read +IPU programmer' target gc200
good "names in any case" '^gc200: ' target GC200
good "architecture names" '^c600: ' target ipu21
good "a small number of seconds" '^ipu_sync_hop_seconds +15 ns ' target bow
good "an address" '^memory_base_address +0x4C000 ' target bow
good "a system tells its links" '^system pod16: 16 IPUs in 4 machines; .*IPU-Link' target POD16
good "some IPUs of a system" '^8 IPUs, 11776 tiles' target pod16 --ipus 8
good "several IPUs of a chip" '^4 IPUs, 5888 tiles' target -n4 gc200
that "a target as JSON" json 'd["chip"] == "gc200" and d["ipus"] == 2 and d["tiles"] == 2944 and d["system"] is None' \
    target gc200 --ipus 2 --json
that "every constant as JSON has unit, certainty and source" \
    json 'all(c["unit"] and c["certainty"] and c["source"] for c in d["constants"]) and len(d["constants"]) > 40' \
    target bow --json
that "numbers are exact in JSON" \
    json '{c["name"]: c["value"] for c in d["constants"]}["ipu_link_efficiency"] == 0.85 and
          {c["name"]: c["value"] for c in d["constants"]}["ipu_sync_hop_seconds"] == 15e-9' target bow --json
that "a system as JSON" json 'd["system"]["name"] == "pod64" and d["ipus"] == 64' target pod64 --json
bad "unknown target lists those there are" 1 'no target "gc300".*gc200.*pod64' target gc300
bad "three IPUs" 1 'power of two' target gc200 --ipus 3
bad "more IPUs than the system has" 1 'it has 16' target pod16 --ipus 32
bad "IPUs that are no number" 2 '"many" is no number from 1 to 256' target gc200 --ipus many
bad "IPUs without a name" 2 'ipus needs the name' target --ipus 2

# ---- ops ----

good "list of ops by family" '^  matmul +a, b.* -> out +matrix product' ops
good "families are titles" '^matmul$' ops
good "one family" '^  matmul ' ops --family matmul
that "only of that family" json 'all(o["family"] == "matmul" for o in d["ops"]) and len(d["ops"]) > 0' ops -f matmul -j
bad "unknown family" 1 'no family "matmull"' ops --family matmull
good "one op in detail" '^  transpose_a +int +' ops matmul
good "its samples" '^  float\[3,4\], float\[4,5\]' ops matmul
good "required attributes" '^  value +float +required' ops fill
good "defaults that are text" '^  type +text += "float"' ops fill
that "one op as JSON" json 'd["name"] == "matmul" and d["inputs"][:2] == ["a", "b"] and d["outputs"] == ["out"]' ops matmul --json
that "all ops as JSON" json 'len({o["name"] for o in d["ops"]}) == len(d["ops"]) and all(o["summary"] for o in d["ops"])' ops -j
bad "unknown op names the nearest" 1 'no op "matmull" \(did you mean "matmul"' ops matmull
bad "a family and a name" 2 'give it or NAME' ops matmul --family matmul

# ---- dump ----

cat > "$box/good.ipu" << 'END'
# out of order on purpose: blanks, and a mapping in two pieces that are one
graph target tiny { codelet Adder { in float x, in float y, out float sum }
var a float[2] on { 0: 0..1, 0: 1..2 }; var b float [2] on { 0: 0..1,
   1: 1..2 };
const c float[2] = {1, 2} on 1;
compute_set add { vertex Adder on 0 { x = {a[0]}, y = {c[0]}, sum = {b[0]} } }
program { copy c -> a; repeat 3 { execute add; } } }
END
good "dump prints the graph" 'var a float\[2\] on 0' dump "$box/good.ipu"
cp "$box/out" "$box/canonical"
good "dump of a dump" 'compute_set add' dump "$box/canonical"
cp "$box/out" "$box/again"
that "is the same" same "$box/canonical" "$box/again"
that "dump reads standard input" bash -c '"$1" dump - < "$2" | cmp - "$3"' - "$ipu" "$box/good.ipu" "$box/canonical"
good "locations name the text's lines" 'at ".*good.ipu":3' dump --locations "$box/good.ipu"
good "summary" '^vertices +1$' dump --summary "$box/good.ipu"
good "summary tells the memory" '^fullest tile +0: 12 B of 16 KiB' dump -s "$box/good.ipu"
good "summary tells the target" '^target +tiny, 1 IPU$' dump -s "$box/good.ipu"
that "summary as JSON" json 'd["target"] == "tiny" and d["ipus"] == 1 and d["tiles"] == 4 and d["variables"] == 3
    and d["compute_sets"] == 1 and d["vertices"] == 1 and d["programs"] == 1 and d["replication"] == 1
    and d["bytes"] == 24 and d["tiles_used"] == 2 and d["fullest_tile"] == 0 and d["fullest_tile_bytes"] == 12' \
    dump --json "$box/good.ipu"
bad "summary does not go with locations" 2 'not its summary' dump --summary --locations "$box/good.ipu"
cat > "$box/convolutions.ipu" << 'END'
model {
  input x float[16,3,12,12];
  parameter w1 float[5,3,3,3];
  parameter w2 float[7,5,3,3];
  a = conv(x, w1);
  b = relu(a);
  c = conv(b, w2);
  output z = c;
}
END
good "layouts of a model" '^conv .* x:plain w:plain .*out:(plain|lanes|blocked)$' dump --layouts "$box/convolutions.ipu"
good "what they take" '^4 kernels, .*B turned$' dump -L "$box/convolutions.ipu"
that "layouts as JSON" json '[k["name"] for k in d["kernels"]][:2] == ["conv", "conv"] and d["turned_bytes"] >= 0
    and d["kernels"][0]["operands"][-1]["layout"] == d["kernels"][1]["operands"][0]["layout"]' \
    dump --layouts --json "$box/convolutions.ipu"
bad "layouts stand alone" 2 'in place of the text' dump --layouts --summary "$box/good.ipu"
bad "layouts of a graph need its codelets" 1 'Add' dump --layouts "$box/good.ipu"

that "output to a file" "$ipu" dump "$box/good.ipu" -o "$box/new.ipu"
that "holds the same" same "$box/canonical" "$box/new.ipu"
cp "$box/good.ipu" "$box/self.ipu"
chmod 640 "$box/self.ipu"
that "output over the input" "$ipu" dump "$box/self.ipu" -o "$box/self.ipu"
that "holds the same, too" same "$box/canonical" "$box/self.ipu"
that "with the rights it had" test "$(stat -c %a "$box/self.ipu")" = 640
that "no temporary file is left" bash -c '! ls "$1"/*.ipu.?????? 2> /dev/null' - "$box"
that "output to a device" "$ipu" dump "$box/good.ipu" -o /dev/null
bad "output to a full device" 1 'cannot write /dev/full: No space left' dump "$box/good.ipu" -o /dev/full
ln -s kept2.ipu "$box/link.ipu" && echo old > "$box/kept2.ipu"
that "output to a link" "$ipu" dump "$box/good.ipu" -o "$box/link.ipu"
that "the link stays, and what it names is replaced" bash -c '[ -L "$1/link.ipu" ] && cmp "$1/new.ipu" "$1/kept2.ipu"' - "$box"
if [ "$(id -u)" = 0 ]; then
    mkdir -m 1777 "$box/shared" && mkdir "$box/own" && echo precious > "$box/own/file"
    ln -s ../own/file "$box/shared/file" && ln -s ../own "$box/shared/folder"
    chown -h 65534 "$box/shared/file" "$box/shared/folder"
    for planted in file folder/file; do
        bad "output to a planted link: $planted" 1 'is a link that another user has put' dump "$box/good.ipu" -o "$box/shared/$planted"
    done
    that "what they name is as it was" grep -qx precious "$box/own/file"
fi
that "output that is too large is reported" bash -c 'ulimit -f 1; "$1" help --man train > "$2/man" 2> "$2/err"; [ $? = 1 ] && grep "cannot write to standard output: .*ulimit -f" "$2/err"' - "$ipu" "$box"
bad "output to nowhere" 1 'cannot write .*: No such file' dump "$box/good.ipu" -o "$box/none/x"

bad "no such file" 1 'cannot read .*none.ipu: No such file' dump "$box/none.ipu"
bad "a folder" 1 'cannot read .*: Is a directory' dump "$box"
bad "empty input" 1 '/dev/null:1:1: expected a graph' dump /dev/null
printf 'graph target tiny {\n  var a float[2] on 0\n}\n' > "$box/wrong.ipu"
bad "a syntax error names line and column" 1 'wrong.ipu:3:1: ' dump "$box/wrong.ipu"
printf 'graph target tiny {\n  var a float[2] on 9;\n}\n' > "$box/tile.ipu"
bad "a tile out of range names line and tile" 1 'tile.ipu:2.*tile 9' dump "$box/tile.ipu"
printf '\0\1\377graph' > "$box/binary.ipu"
bad "binary input" 1 'binary.ipu:1:1: ' dump "$box/binary.ipu"
cp "$box/canonical" "$box/kept.ipu"
bad "a wrong input leaves the output as it was" 1 'wrong.ipu' dump "$box/wrong.ipu" -o "$box/kept.ipu"
that "indeed" same "$box/canonical" "$box/kept.ipu"

printf 'graph target tiny {\n var a float[2];\n var b float[2] on 0;\n program { copy a -> b; }\n}\n' > "$box/unmapped.ipu"
good "an unmapped variable prints" '^ *var a float\[2\];' dump "$box/unmapped.ipu"
bad "but --check reports it" 1 'unmapped.ipu:2: variable "a".*not mapped' dump --check "$box/unmapped.ipu"
printf 'graph target tiny {\n var a float[2] on 1;\n var b float[2] on 0;\n program { copy a -> b; }\n}\n' > "$box/mapped.ipu"
good "--check passes a sound graph and prints it" 'copy a -> b' dump --check "$box/mapped.ipu"

{
    printf 'graph target tiny {\n const c float[100] = {'
    seq -s, 0 99 | tr -d '\n'
    printf '} on 0;\n}\n'
} > "$box/large.ipu"
that "large constants go to a side file" "$ipu" dump "$box/large.ipu" --side-out "$box/side" -o "$box/hashed.ipu"
that "and not into the text" bash -c '! grep -q 98 "$1" && [ -s "$2" ]' - "$box/hashed.ipu" "$box/side"
bad "without it the text is incomplete" 1 'side' dump "$box/hashed.ipu"
good "with it, it is whole" ', 99' dump "$box/hashed.ipu" --side "$box/side"

# ---- dump and profile of models ----

cat > "$box/model.ipu" << 'END'
# a model: out of order on purpose
model { constant zero float[2,2] = {0, 0, 0, 0}; input x float[2,3];
  parameter w float[3,2] = fill(0.5);
  y = matmul(x, w); z = add(y, zero); same = matmul(x, w); output z = z; output same = same; }
END
good "dump prints a model" '^  parameter w float\[3,2\] = fill\(0.5\);$' dump "$box/model.ipu"
cp "$box/out" "$box/canonical"
good "dump of a dump of a model" '^model \{' dump "$box/canonical"
cp "$box/out" "$box/again"
that "is the same, for models" same "$box/canonical" "$box/again"
good "a model after the passes" '^  output z = y;' dump --optimise "$box/model.ipu"
that "has fewer ops" json 'd["ops"] == 1 and d["inputs"] == 1 and d["elements"] == 6 and d["bytes"] == 24' dump -O -j "$box/model.ipu"
good "summary of a model" '^parameters  1: 6 elements, 24 B' dump -s "$box/model.ipu"
good "locations of a model" 'y = matmul.* at ".*model.ipu":4;' dump -l "$box/model.ipu"
good "--check lowers a model" '^model' dump --check "$box/model.ipu"
bad "--optimise is for models" 1 'is for models' dump -O "$box/good.ipu"
printf 'model {\n  y = relu6(x);\n}\n' > "$box/wrong.ipu"
bad "an error in a model names line and column" 1 "wrong.ipu:2:13: no value 'x'" dump "$box/wrong.ipu"
good "profile of a model" 'matmul' profile --steps "$box/model.ipu"
good "on another chip" 'bow' profile --target bow "$box/model.ipu"
bad "--target is for models" 1 'is for models' profile --target bow "$box/good.ipu"
bad "of an unknown chip" 1 'no target "gc300"' profile --target gc300 "$box/model.ipu"

# ---- output that cannot be written ----

# fails PATTERN COMMAND-LINE: run by bash, exit code 1 of the first command, and the message.
fails()
{
    local code=0
    bash -c "set -o pipefail; $2" - "$ipu" 2> "$box/message" || code=$?
    cat "$box/message"
    [ $code = 1 ] && grep -qE "$1" "$box/message"
}
that "a full disk is reported" fails 'cannot write to standard output: No space left' '"$1" target gc200 > /dev/full'
for words in --help "ops --json" "dump $box/good.ipu" inventory monitor "profile $box/good.ipu" "help --man"; do
    that "$words: a full disk is reported" fails 'cannot write to standard output: No space left' "\"\$1\" $words > /dev/full"
done
that "a closed output is reported" fails 'cannot write to standard output: Bad file' '"$1" --version >&-'
# torn STATUS IGNORED WORD...: nobody reads its output; it says nothing and ends with this status, as Python has it. Was SIGPIPE ignored?
torn()
{
    python3 - "$@" << 'EOF'
import os, signal, subprocess, sys
ours, its = os.pipe()
os.close(ours)
ignored = sys.argv[2] == "ignored"
signal.signal(signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL)
p = subprocess.run(sys.argv[3:], stdout=its, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=120, check=False, restore_signals=False)
print(p)
sys.exit((str(p.returncode), p.stderr) != (sys.argv[1], b""))
EOF
}
by_sigpipe=-13
mkdir -p "$box/home" "$box/run"
chmod 700 "$box/run"
alone=(env "HOME=$box/home" "IPU_RUNTIME_DIR=$box/run" "$ipu")
for words in --version --help help ops "ops --json" "ops matmul" target "target bow" "target bow --json" "dump $box/good.ipu" \
    info inventory "monitor --json" monitor "partition list" "profile $box/good.ipu" "check --help" "help --man" "help --completion" \
    "monitor --csv --interval 3600" "flops -s 600 -v" "iputraffictest --forever -v -t 2"; do
    that "$words: without a reader it ends, and says nothing" torn $by_sigpipe minded "${alone[@]}" $words
done
for words in --version ops "target bow --json" "monitor --csv --interval 3600"; do
    that "$words: so it does where SIGPIPE is ignored" torn 1 ignored "${alone[@]}" $words
done
good "digits to train with" . dataset digits --out "$box/digits" --count 160 --test-count 32
that "a training goes on to its end without a reader" torn $by_sigpipe minded "${alone[@]}" train --data "$box/digits" --epochs 2 --threads 1 \
    --save "$box/torn.onnx" --checkpoint-dir "$box/torn"
good "and saves what it learned" '^nodes ' show "$box/torn.onnx"
that "show: without a reader it ends, and says nothing" torn $by_sigpipe minded "${alone[@]}" show "$box/torn.onnx"
that "an error is one without a reader, too" fails 'no target "gc300"' '"$1" target gc300 | true'
# What it says and what others say beside it are lines of their own: a message is one write.
stays_whole()
{
    local other
    : > "$box/beside"
    while :; do echo said; done >> "$box/beside" &
    other=$!
    for _ in $(seq 20); do "$ipu" target gc300; done 2>> "$box/beside"
    kill $other
    wait $other 2> /dev/null
    [ "$(grep -c '^ipu: no target "gc300": .*[^d]$' "$box/beside")" = 20 ] && ! grep -vE '^said$|^ipu: no target' "$box/beside"
}
that "a message stays whole beside what others write" stays_whole
that "JSON to a full disk is reported" fails 'No space left' '"$1" target gc200 --json > /dev/full'

echo "1..$((passed + failed))"
if [ $skipped -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
