#!/usr/bin/env bash
# Compiles codelets with the built `ipu`: what it lists, what it says of mistakes, its cache and its files.
# Usage: codelet_test.sh [IPU]. Prints a line per check and ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
ipu=${1:-${IPU_BIN:-${BUILD:-build}/tools/ipu}}
if [ ! -x "$ipu" ]; then
    echo "no ipu to test: build first, or give its path" >&2
    exit 1
fi
ipu=$(realpath "$ipu")
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
export IPU_CACHE_DIR=$box/cache
unset IPU_CC
cd "$box" || exit 1
passed=0 failed=0

result() # ok|not NAME
{
    if [ "$1" = ok ]; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $2"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $2"
        sed 's/^/# /' out err
    fi
}

run() # CODE ARGUMENT...
{
    local expected=$1 code=0
    shift
    "$ipu" codelet "$@" > out 2> err < /dev/null || code=$?
    [ "$code" = "$expected" ] && return
    echo "exit code $code, not $expected" >> err
    return 1
}

good() # NAME PATTERN ARGUMENT...: exit code 0, a line of output matches, nothing on standard error
{
    local name=$1 pattern=$2
    shift 2
    if run 0 "$@" && grep -qE -- "$pattern" out && [ ! -s err ]; then result ok "$name"; else result not "$name"; fi
}

warned() # NAME WARNING PATTERN ARGUMENT...: exit code 0, a line of output matches, and one of the warnings
{
    local name=$1 warning=$2 pattern=$3
    shift 3
    if run 0 "$@" && grep -qE -- "$pattern" out && grep -qE -- "^ipu: warning: $warning" err; then
        result ok "$name"
    else
        result not "$name"
    fi
}

quiet() # NAME ARGUMENT...: exit code 0 and no output at all
{
    local name=$1
    shift
    if run 0 "$@" && [ ! -s out ] && [ ! -s err ]; then result ok "$name"; else result not "$name"; fi
}

bad() # NAME CODE PATTERN ARGUMENT...: that exit code, a line of standard error matches, no output
{
    local name=$1 code=$2 pattern=$3
    shift 3
    if run "$code" "$@" && grep -qE -- "$pattern" err && [ ! -s out ]; then result ok "$name"; else result not "$name"; fi
}

that() # NAME COMMAND...: the command is true
{
    local name=$1
    shift
    if "$@" > out 2> err; then result ok "$name"; else result not "$name"; fi
}

cat > filter.c << 'SOURCE'
#include <ipu/codelet.h>
#include <math.h>
#include "taps.h"

#define FILTER(F)                  \
    F(IN_VECTOR, float, x)         \
    F(OUT_VECTOR, ipu_half, y)     \
    F(STATE, int32_t, n)

IPU_VERTEX(Filter, FILTER)
{
    for (size_t i = 0; i < v->y.size; i++) v->y.data[i] = ipu_half_from_float(sqrtf(v->x.data[i]) * TAPS);
    return v->n >= 0;
}

#define CLEAR(F) F(INOUT_VECTORS, int8_t, rows)
IPU_MULTI_VERTEX(Clear, CLEAR)
{
    for (size_t i = worker; i < v->rows.size; i += n_workers)
        for (size_t k = 0; k < v->rows.data[i].size; k++) v->rows.data[i].data[k] = 0;
    return true;
}
SOURCE
echo '#define TAPS 3' > taps.h
printf '#include "ipu/codelet.h"\nint f(void) { return mystery; }\n' > wrong.c
printf '#!/bin/sh\necho run >> "%s/count"\nexec cc "$@"\n' "$box" > counting-cc
chmod +x counting-cc
runs() { if [ -f count ]; then wc -l < count; else echo 0; fi; }
runs_are() { [ "$(runs)" = "$1" ] || { echo "the compiler ran $(runs) times, not $1"; false; }; }

# ---- lists ----

good "a vertex and its size" '^Filter, 40 bytes$' filter.c
good "a field: form, type, name" '^  out vector     half      y$' filter.c
good "a multi-vertex" '^Clear multi, 16 bytes$' filter.c
good "--list says the same" '^  inout vectors  int8      rows$' filter.c --list
run 0 filter.c --json && cp out list.json
that "--json is JSON" python3 -c "import json
d = json.load(open('list.json'))['codelets']
assert [c['name'] for c in d] == ['Clear', 'Filter'], d
assert d[0]['multi'] and not d[1]['multi'], d
assert d[1]['fields'][2] == {'name': 'n', 'form': 'state', 'type': 'int32', 'offset': 32}, d"
good "help" '^Usage: ipu codelet ' --help
[ -n "$(command -v clang)" ] && IPU_CC=clang good "another compiler" '^Filter, 40 bytes$' filter.c

# ---- mistakes ----

bad "no operand" 2 'expected FILE.c or --clear-cache'
bad "a missing file" 1 'none.c: No such file' none.c
bad "what the compiler says" 1 '^wrong.c:2:.*mystery' wrong.c
bad "which file does not compile" 1 'wrong.c does not compile: .* ended with status 1' wrong.c
cp filter.c filter.codelet
good "a file of another name is C all the same" '^Filter' filter.codelet
printf 'INPUT(nothing.o)\n' > script.ld
bad "the linker is not given the user's file" 1 'script.ld:1:' script.ld
IPU_CC=/nonexistent bad "no compiler" 1 'no C compiler: IPU_CC is "/nonexistent"' filter.c
bad "flags are no shell" 1 'flag ";": expected options' filter.c --flags '; touch pwned'
bad "flags write nowhere" 1 'flag "-opwned"' filter.c --flags '-opwned'
that "and nothing was written" test ! -e pwned
bad "output to a folder that is not there" 1 'none/filter.so' filter.c -o none/filter.so

# ---- compiled files ----

quiet "--output is silent" filter.c -o filter.so
good "a compiled file needs no compiler" '^Filter, 40 bytes$' filter.so
IPU_CC=/nonexistent good "none at all" '^Clear multi' filter.so
good "--output --list" '^Filter' filter.c -o filter.so --list
head -c 5000 filter.so > cut.so
bad "a compiled file that was cut off" 1 'cut.so: expected C source or what' cut.so
cp "$(type -P true)" foreign.so
bad "another binary file" 1 'foreign.so: expected C source or what' foreign.so
bad "a compiled file takes no flags" 1 'is compiled already: expected no flags' filter.so --flags -O2

# ---- the cache ----

export IPU_CC=$box/counting-cc
good "compiled once" '^Filter' filter.c
good "and taken from the cache" '^Filter' filter.c
that "one run of the compiler" runs_are 1
good "flags count" '^Filter' filter.c --flags -O1
that "two runs" runs_are 2
sleep 0.02
echo '#define TAPS 5' > taps.h
good "a header beside the source changed" '^Filter' filter.c
that "three runs" runs_are 3
mkdir elsewhere
cp filter.c taps.h elsewhere
(cd elsewhere && "$ipu" codelet filter.c) > out 2> err
that "another folder is another source" runs_are 4
quiet "--clear-cache alone" --clear-cache
that "leaves no entry" bash -c '! ls cache/codelets/*.so cache/codelets/*.dep'
good "--clear-cache and a file" '^Filter' --clear-cache filter.c
that "compiles again" runs_are 5
that "a private folder" test "$(stat -c %a cache/codelets)" = 700

many() # 16 at once, of which all must succeed
{
    local i pids=() status=0
    for i in $(seq 16); do
        "$ipu" codelet filter.c --flags -DMANY > "many.$i" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || status=1; done
    for i in $(seq 16); do grep -q '^Filter, 40 bytes$' "many.$i" || { cat "many.$i"; status=1; }; done
    return "$status"
}
that "sixteen processes at once" many

chmod 777 cache/codelets
before=$(runs)
warned "a folder that others may write to is not used" 'the cache folder .* .others may write to it' '^Filter' filter.c
that "so it was compiled" runs_are $((before + 1))
chmod 700 cache/codelets
IPU_CACHE_DIR=/proc/none warned "a folder that cannot be made" 'the cache folder /proc/none cannot be used' '^Filter' filter.c

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
