# What scripts of checks share. To be sourced where the repository's root is the current folder:
#
#     cd "$(dirname "$0")/.." || exit 1
#     . tests/support/check.sh
#     check "it says its version" exits 0 '^ipu [0-9]' --version
#     check_end
#
# $box is a folder of the script's own, gone when it ends. `ipu` is the command that is tested, `python` Debian's.
# shellcheck shell=bash
passed=0 failed=0
python=/usr/bin/python3
box=$(mktemp -d)
trap 'chmod -R u+w "$box"; rm -rf "$box"' EXIT

# check_ipu [PATH]: `ipu` is PATH, or the one of the build; the script ends where there is none.
check_ipu()
{
    ipu=${1:-${IPU_BIN:-${BUILD:-build}/tools/ipu}}
    [ -x "$ipu" ] || { echo "no $ipu to test: build first, or give its path" >&2; exit 1; }
    ipu=$(realpath "$ipu")
}

# check_python MODULE... PACKAGES: the script is skipped where python has not all of MODULE.
check_python()
{
    local packages=${*: -1}
    "$python" -c "import $(IFS=,; echo "${*:1:$#-1}")" 2> /dev/null && return
    echo "1..1"
    echo "ok 1 # SKIP $python has no ${*:1:1}: apt-get install $packages"
    exit 0
}

# check_alone: a home and devices of the script's own; goes to $box.
check_alone()
{
    export HOME=$box/home IPU_RUNTIME_DIR=$box/run
    unset IPU_CACHE_DIR POPTORCH_CACHE_DIR XDG_CACHE_HOME IPU_PARTITION IPUOF_CONFIG_PATH IPU_LOG_LEVEL
    mkdir -p "$HOME"
    cd "$box" || exit 1
}

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
        head -n 200 "$box/log" | sed 's/^/# /'
    fi
}

skip() { passed=$((passed + 1)); echo "ok $((passed + failed)) # SKIP $*"; }

# warns WARNING PATTERN ARGUMENT...: `ipu ARGUMENT...` ends with 0; a line of output matches PATTERN, and of errors, which are
# all warnings, WARNING.
warns()
{
    local warning=$1 pattern=$2
    shift 2
    "$ipu" "$@" > "$box/out" 2> "$box/err" < /dev/null || { cat "$box/err"; return 1; }
    cat "$box/out" "$box/err"
    ! grep -qv '^ipu: warning: ' "$box/err" && grep -qE -- "$warning" "$box/err" && grep -qE -- "$pattern" "$box/out"
}

# exits CODE PATTERN ARGUMENT...: `ipu ARGUMENT...` ends with CODE; a line of output or errors matches, and there are no
# errors if CODE is 0.
exits()
{
    local expected=$1 pattern=$2 code=0
    shift 2
    "$ipu" "$@" > "$box/out" 2> "$box/err" < /dev/null || code=$?
    cat "$box/out" "$box/err"
    [ "$code" = "$expected" ] || return
    [ "$code" != 0 ] || [ ! -s "$box/err" ] || return
    grep -qE -- "$pattern" "$box/out" "$box/err"
}

# refused CODE PATTERN ARGUMENT...: the same as exits, and nothing on standard output.
refused() { exits "$@" && [ ! -s "$box/out" ]; }

# json EXPRESSION ARGUMENT...: the output is JSON `d` for which the Python expression is true.
json()
{
    local expression=$1
    shift
    "$ipu" "$@" > "$box/json" 2> "$box/err"
    "$python" -c "import json, sys
d = json.load(open(sys.argv[1]))
assert ($expression), d" "$box/json"
}

byte() { printf '%b' "\\x$(printf %02x "$1")"; }
word() { byte $(($1 >> 8)); byte $(($1 & 255)); }

# idx PATH COUNT: two of MNIST's files, of COUNT < 65536 pictures of no sense.
idx()
{
    {
        printf '\0\0\10\3\0\0'; word "$2"; printf '\0\0\0\34\0\0\0\34'
        seq "$2" 1 200000 | head -c $((784 * $2))
    } > "$1-images-idx3-ubyte"
    {
        printf '\0\0\10\1\0\0'; word "$2"
        for ((i = 0; i < $2; i++)); do byte $((i % 10)); done
    } > "$1-labels-idx1-ubyte"
}

# The last lines of a script, and its exit status.
check_end()
{
    echo "1..$((passed + failed))"
    echo "$passed passed, $failed failed"
    [ "$failed" = 0 ]
}
