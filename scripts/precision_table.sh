#!/usr/bin/env bash
# The table of docs/precision.md: each precision of `ipu train` on real data. Arguments: DATA-FOLDER [MODEL [EPOCHS]].
. "$(dirname "$0")/lib.sh"
data=${1:?usage: scripts/precision_table.sh DATA-FOLDER [MODEL [EPOCHS]]}
model=${2:-mnist-cnn} epochs=${3:-5}
ipu=${IPU_TOOL:-$BUILD/tools/ipu}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The number after "$2": in the JSON file $1, the first one.
number() { sed -n 's/.*"'"$2"'": *\([-0-9.e+]*\).*/\1/p' "$1" | head -n 1; }

row() { # title, options of `ipu train`
    local title=$1
    shift
    "$ipu" train --data "$data" --model "$model" --epochs "$epochs" --json --profile "$work/profile" "$@" \
        >"$work/result.json" 2>/dev/null
    tr ',' '\n' <"$work/profile/profile.json" | sed -n '/"memory"/,$p' >"$work/memory.json"
    printf '| %s | %.2f %% | %.0f | %.0f | %.0f |\n' "$title" \
        "$(number "$work/result.json" top1 | awk '{ print 100 * $1 }')" \
        "$(number "$work/result.json" images_per_second)" \
        "$(number "$work/result.json" cycles_per_step)" \
        "$(number "$work/memory.json" most)"
}

printf '| %s, %s epochs | test accuracy | images/s | modelled cycles a step | bytes of the fullest tile |\n' \
    "$model" "$epochs"
printf '| --- | --- | --- | --- | --- |\n'
row "float" --precision 32
row "mixed" --precision 16
row "mixed, partials half" --precision 16 --partials half
row "mixed, loss scale auto" --precision 16 --loss-scale auto
row "mixed, stochastic" --precision 16 --stochastic-rounding --loss-scale auto
row "half, nearest" --precision 16-true
row "half, loss scale auto" --precision 16-true --loss-scale auto
row "half, stochastic" --precision 16-true --stochastic-rounding --loss-scale auto
