#!/usr/bin/env bash
# Random uses of every op for SWEEP_SECONDS, one process for each CPU, each with a seed of its own; arguments: names of
# ops. SWEEP_SEED: the first seed (default: the time). A case that fails is printed as a command that runs it again.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
scripts/build.sh tests/sweep_test
export SWEEP_SECONDS=${SWEEP_SECONDS:-600}
seed=${SWEEP_SEED:-$(date +%s)}
tally_begin sweep

for ((i = 0; i < JOBS; i++)); do
    SWEEP_SEED=$((seed + i)) step "sweep for $SWEEP_SECONDS s from seed $((seed + i))" "$BUILD/tests/sweep_test" "$@" &
done
wait
tally_end
