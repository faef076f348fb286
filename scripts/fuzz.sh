#!/usr/bin/env bash
# Runs each fuzzer for FUZZ_SECONDS from its corpus in fuzz/corpus/NAME. A crash, an input that takes more than five
# seconds or a gigabyte fails; it is kept in $BUILD/fuzz/found, the grown corpus in $BUILD/fuzz/corpus.
# FUZZ_SEED: the same choices again.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build fuzz
tally_begin fuzz
fuzzers=$(scripts/sources.sh fuzz | sed 's:.*/::; s:\.c$::')
[ -n "$fuzzers" ] || die "there are no fuzzers in fuzz/"

folder=$BUILD/fuzz
CC=clang BUILD=$folder MESON_OPTIONS="-Dfuzz=true -Dwerror=false -Db_lundef=false" scripts/build.sh
mkdir -p "$folder/found"

fuzz_one()
{
    local name=$1 seeds=
    mkdir -p "$folder/corpus/$name"
    [ ! -d "fuzz/corpus/$name" ] || seeds=fuzz/corpus/$name
    "$folder/fuzz/$name" -max_total_time="$FUZZ_SECONDS" -timeout=5 \
        ${FUZZ_SEED:+-seed=$FUZZ_SEED} -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$folder/found/$name-" "$folder/corpus/$name" $seeds
}

# One for each CPU at a time.
read -r -d "" -a names <<< "${FUZZERS:-$fuzzers}" || true
for ((i = 0; i < ${#names[@]}; i += JOBS)); do
    for name in "${names[@]:i:JOBS}"; do
        step "$name for $FUZZ_SECONDS s" fuzz_one "$name" &
    done
    wait
done
grep -h 'number_of_executed_units' "$LOGS/$SUITE".*_fuzz_for_*.log || true
tally_end
