#!/usr/bin/env bash
# `ipu dataset`: digits drawn, datasets described and shown, and every kind of files read. Usage: dataset_tools_test.sh
# [IPU]. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
ipu=$(realpath "${1:-${IPU_BIN:-${BUILD:-build}/tools/ipu}}")
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

# run CODE ARGUMENT...: true if the exit code of `ipu dataset` is CODE.
run()
{
    local expected=$1 code=0
    shift
    "$ipu" dataset "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    [ "$code" = "$expected" ] && return
    echo "exit code $code, not $expected" >> "$box/err"
    return 1
}

good() # NAME PATTERN ARGUMENT...
{
    local name=$1 pattern=$2
    shift 2
    if run 0 "$@" && grep -qE -- "$pattern" "$box/out" && [ ! -s "$box/err" ]; then result ok "$name"; else result not "$name"; fi
}

bad() # NAME CODE PATTERN ARGUMENT...
{
    local name=$1 code=$2 pattern=$3
    shift 3
    if run "$code" "$@" && grep -qE -- "$pattern" "$box/err" && [ ! -s "$box/out" ]; then result ok "$name"; else result not "$name"; fi
}

that() # NAME COMMAND...
{
    local name=$1
    shift
    if "$@" > "$box/out" 2> "$box/err"; then result ok "$name"; else result not "$name"; fi
}

# json EXPRESSION ARGUMENT...: the output is JSON `d` for which the Python expression is true.
json()
{
    local expression=$1
    shift
    "$ipu" dataset "$@" > "$box/json" || return
    python3 -c "import json, sys
d = json.load(open(sys.argv[1]))
assert ($expression), d" "$box/json"
}

# ---- digits ----

good "digits are drawn into a folder that is made" '600 digits to train and 100 to test with \(seed 7\)$' \
    digits --out "$box/new/digits" --count 600 --seed 7
that "as MNIST's four files" test "$(stat -c %s "$box"/new/digits/* | sort -n | tr '\n' ' ')" = "108 608 78416 470416 "
bad "a dataset that is there is not replaced" 1 'there is a dataset already: .*--force' digits --out "$box/new/digits"
cp "$box/new/digits/train-images-idx3-ubyte" "$box/first"
that "unless it is said, as JSON" json 'd["train"] == 600 and d["test"] == 50 and d["seed"] == 7' \
    digits --out "$box/new/digits" -n 600 -m 50 -s 7 --force --json
that "the same seed draws the same" cmp "$box/first" "$box/new/digits/train-images-idx3-ubyte"
bad "digits to nowhere" 1 'cannot make the folder' digits --out /proc/none/digits --count 6
bad "digits without a folder" 2 'digits needs --out DIR' digits
bad "no digits" 2 'from 1 to' digits --out "$box/x" --count 0

# ---- show ----

good "what a dataset holds" '^fields +images float\[1,28,28\], labels int32$' show "$box/new/digits"
good "its classes" '^  class 9 +[0-9]+$' show "$box/new/digits"
that "as JSON" json 'd["kind"] == "IDX files" and d["classes"] == 10 and d["train"]["samples"] == 600
    and sum(d["train"]["per_class"]) == 600 and d["test"]["samples"] == 50
    and 0.1 < d["train"]["mean"] < 0.2 and d["fields"][0]["shape"] == [1, 28, 28]' show "$box/new/digits" --json
gzip -n "$box"/new/digits/train-*
that "gzip makes no difference" json 'sum(d["train"]["per_class"]) == 600' show "$box/new/digits" -j
bad "no such folder" 1 'no dataset at .*none: No such file' show "$box/none"
mkdir "$box/empty"
bad "an empty folder: says what was looked for" 1 'expected a folder with train-images-idx3-ubyte.*x_train.npy.*\.npz' show "$box/empty"
truncate -s 100 "$box/new/digits/train-images-idx3-ubyte.gz"
bad "a damaged file is named" 1 'train-images-idx3-ubyte.gz: its compressed data are damaged' show "$box/new/digits"

# ---- draw, sheet ----

good "one digit at any size" 'a.png: a [0-9]$' draw 3 --size 64 --out "$box/a.png"
that "is a PNG file of that size" python3 -c "import struct, sys
b = open(sys.argv[1], 'rb').read()
assert b[:8] == b'\x89PNG\r\n\x1a\n' and struct.unpack('>II', b[16:24]) == (64, 64)" "$box/a.png"
bad "a size that is too large" 2 'from 28 to 4096' draw 3 --size 5000 --out "$box/b.png"
bad "a number that is none" 2 'is no number' draw three --out "$box/b.png"
"$ipu" dataset digits --out "$box/digits" --count 60 > "$box/out" 2>&1
good "a sheet of pictures" 'sheet.png: [0-9]+ pictures$' sheet "$box/digits" --out "$box/sheet.png" --count 40
that "is a PNG file of ten rows" python3 -c "import struct, sys
b = open(sys.argv[1], 'rb').read()
assert struct.unpack('>II', b[16:24]) == (2 + 4 * 58, 2 + 10 * 58)" "$box/sheet.png"
good "of the test set" 'pictures$' sheet "$box/digits" --out "$box/sheet.png" --test
bad "a sheet to nowhere" 1 'none/s.png' sheet "$box/digits" --out "$box/none/s.png"
bad "a sheet without a file" 2 'sheet needs --out FILE.png' sheet "$box/digits"

# ---- other files ----

for i in 1 2 3 4 5 6 7 8 9; do
    mkdir -p "$box/png/class$((i % 3))"
    "$ipu" dataset draw "$i" --size 32 --out "$box/png/class$((i % 3))/$i.png" > "$box/out" || break
done
that "class folders of PNG files" json 'd["kind"] == "PNG files in class folders" and d["classes"] == 3
    and d["train"]["samples"] + d["test"]["samples"] == 9 and d["fields"][0]["shape"] == [1, 32, 32]' show "$box/png" --json
if /usr/bin/python3 -c 'import numpy' 2> /dev/null; then
    that "files of numpy's are made" /usr/bin/python3 -c "import numpy as np, os, sys
r = np.random.default_rng(1)
x, y = r.integers(0, 256, (90, 8, 9, 3), dtype=np.uint8), r.integers(0, 4, 90)
os.mkdir(sys.argv[1] + '/npy')
np.savez(sys.argv[1] + '/keras.npz', x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
np.savez_compressed(sys.argv[1] + '/plain.npz', images=x, labels=y)
np.save(sys.argv[1] + '/npy/images.npy', np.asfortranarray(x / 255))
np.save(sys.argv[1] + '/npy/labels.npy', y.astype('>i2'))" "$box"
    that "an .npz as Keras has it" json 'd["kind"] == ".npz file" and d["train"]["samples"] == 80 and d["test"]["samples"] == 10
        and d["fields"][0]["shape"] == [3, 8, 9]' show "$box/keras.npz" -j
    that "an .npz of images and labels" json 'd["train"]["samples"] == 75 and d["test"]["samples"] == 15' show "$box/plain.npz" -j
    that "a folder of .npy files" json 'd["kind"] == ".npy files" and d["train"]["samples"] == 75 and abs(d["train"]["mean"] - 0.5) < 0.02' \
        show "$box/npy" -j
    good "colours on a sheet" 'pictures$' sheet "$box/plain.npz" --out "$box/colours.png"
else
    skip "/usr/bin/python3 has no numpy"
fi

# ---- the command line ----

bad "an unknown action" 2 'expected digits, show, sheet or draw, found "list"' list
bad "an option of another action" 2 'option --seed does not go with show' show "$box/digits" --seed 1
bad "an operand too many" 2 'unexpected "x"' digits x --out "$box/y"
bad "show without a path" 2 'expected show PATH' show

echo "1..$((passed + failed))"
if [ $skipped -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ $failed = 0 ]
