#!/usr/bin/env bash
# The tables of docs/precision.md: what each precision of `ipu train` reaches, and what it costs on the chip.
# Arguments: DATA-FOLDER MODEL [EPOCHS]; or MODEL alone: costs only.
. "$(dirname "$0")/lib.sh"
usage='usage: scripts/precision_table.sh [DATA-FOLDER] MODEL [EPOCHS]'
data='' epochs=5
case $# in
    1) model=$1 ;;
    2) data=$1 model=$2 ;;
    3) data=$1 model=$2 epochs=$3 ;;
    *) die "$usage" ;;
esac
ipu=${IPU_TOOL:-$BUILD/tools/ipu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# number FILE NAME: the number after "NAME": in a file of JSON, the first one.
number() { tr ',' '\n' < "$1" | sed -n 's/.*"'"$2"'": *\([-0-9.e+]*\).*/\1/p' | head -n 1; }

# train DATA EPOCHS OPTION...: writes result.json and the profile.
train()
{
    local from=$1 n=$2
    shift 2
    "$ipu" train --data "$from" --model "$model" --epochs "$n" --json --profile "$work/profile" "$@" \
        > "$work/result.json" 2> /dev/null
}

reaches() # TITLE OPTION...
{
    local title=$1
    shift
    train "$data" "$epochs" "$@"
    printf '| %s | %.2f %% | %.0f |\n' "$title" \
        "$(number "$work/result.json" top1 | awk '{ print 100 * $1 }')" \
        "$(number "$work/result.json" images_per_second)"
}

costs() # TITLE OPTION...
{
    local title=$1
    shift
    train "$work/digits" 1 "$@"
    tr ',' '\n' < "$work/profile/profile.json" | sed -n '/"memory"/,$p' > "$work/memory.json"
    printf '| %s | %.0f | %.0f | %.0f |\n' "$title" "$(number "$work/result.json" cycles_per_step)" \
        "$(number "$work/memory.json" always_live)" "$(number "$work/memory.json" most)"
}

if [ -n "$data" ]; then
    printf '| `%s`, %s epochs | test accuracy | images/s of the host |\n|---|---|---|\n' "$model" "$epochs"
    reaches "32" --precision 32
    reaches "16" --precision 16
    reaches "16, stochastic, loss scale auto" --precision 16 --stochastic-rounding --loss-scale auto
    reaches "16-true, nearest" --precision 16-true
    reaches "16-true, stochastic, loss scale auto" --precision 16-true --stochastic-rounding --loss-scale auto
    printf '\n'
fi
"$ipu" dataset digits --out "$work/digits" --count 64 > /dev/null
printf '| `%s`, batch 16 | modelled cycles a step | bytes always live | bytes of the fullest tile |\n' "$model"
printf '|---|---|---|---|\n'
costs "32" --precision 32
costs "16" --precision 16
costs "16, partials half" --precision 16 --partials half
costs "16, stochastic" --precision 16 --stochastic-rounding
costs "16, loss scale auto" --precision 16 --loss-scale auto
costs "16-true" --precision 16-true
costs "16-true, partials half" --precision 16-true --partials half
costs "16-true, loss scale auto" --precision 16-true --loss-scale auto
