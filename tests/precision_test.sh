#!/usr/bin/env bash
# `ipu train` in each precision, on digits that are drawn: all of them learn about the same, a training of halves goes on
# where it was stopped, and what does not go together is refused.
# Usage: precision_test.sh [IPU]. Ends with "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
check_alone

# top1 OPTION...: how many of 1000 test digits are told right.
top1()
{
    "$ipu" train --data digits --epochs 2 --threads 1 --json "$@" 2> "$box/err" \
        | sed -n 's/.*"top1": *\([0-9.]*\).*/\1/p' | awk '{ printf "%d", 1000 * $1 + 0.5 }'
}

# near OPTION...: within 1.5 points of float, where chance is 10 of 100.
near()
{
    local found
    found=$(top1 "$@")
    echo "$found of 1000, float $float"
    cat "$box/err"
    [ "${found:-0}" -ge $((float - 15)) ]
}

refused() # PATTERN OPTION...
{
    local pattern=$1 code=0
    shift
    "$ipu" train --data digits "$@" > "$box/out" 2>&1 || code=$?
    cat "$box/out"
    [ "$code" = 2 ] && grep -qE -- "$pattern" "$box/out"
}

check "digits are drawn" "$ipu" dataset digits --out digits --count 6000 --test-count 1000 --seed 3
float=$(top1 --precision 32)
check "float learns" test "${float:-0}" -gt 900
check "16" near --precision 16
check "16, accumulated" near --precision 16 --batch-size 8 --gradient-accumulation 2 --partials half
check "16, a fixed scale" near --precision 16 --loss-scale 1024
check "16, stochastic" near --precision 16 --stochastic-rounding --loss-scale auto
check "16-true" near --precision 16-true
check "16-true, stochastic" near --precision 16-true --stochastic-rounding --loss-scale auto
check "16-true, stochastic, replicas" near --precision 16-true --stochastic-rounding --batch-size 8 --replicas 2

# ---- going on ----

"$ipu" dataset digits --out few --count 640 --test-count 64 --seed 4 > /dev/null
go=(train --data few --threads 1 --schedule constant --precision 16-true --stochastic-rounding --loss-scale auto)
goes_on()
{
    "$ipu" "${go[@]}" --epochs 3 --save whole.onnx && "$ipu" "${go[@]}" --epochs 1 --checkpoint-dir c \
        && "$ipu" "${go[@]}" --epochs 3 --checkpoint-dir c --resume --save parts.onnx && cmp whole.onnx parts.onnx
}
check "halves go on where they were stopped" goes_on
other()
{
    ! "$ipu" train --data few --threads 1 --schedule constant --precision 16 --stochastic-rounding --loss-scale auto \
        --epochs 3 --checkpoint-dir c --resume 2> "$box/err"
    grep -q '"precision" is "16-true" in the checkpoint, and "16" now' "$box/err"
}
check "not in another precision" other
# So that trainings begun before there were others go on.
says_nothing()
{
    "$ipu" train --data few --threads 1 --epochs 1 --checkpoint-dir plain > /dev/null \
        && grep -raq gradient-accumulation plain && ! grep -raqE 'precision|loss-scale|stochastic' plain
}
check "a checkpoint of floats says nothing of it" says_nothing

# ---- misuse ----

check "no such precision" refused 'no precision "8"; there are: 32, 16, 16-true' --precision 8
check "no such partials" refused '--partials: expected half or float, found "int"' --precision 16 --partials int
check "floats are not rounded" refused 'for --precision 16 and 16-true' --stochastic-rounding
check "no scale" refused 'loss-scale' --precision 16 --loss-scale none

check_end
