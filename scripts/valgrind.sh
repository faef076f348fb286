#!/usr/bin/env bash
# Runs every example under valgrind: any error or leak fails, and so does other output than expected.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build valgrind
tally_begin valgrind
scripts/build.sh
export IPU_EXAMPLE_WRAPPER="valgrind --quiet --error-exitcode=99 --leak-check=full --num-callers=30"
for name in $(scripts/sources.sh examples | sed 's:.*/::; s:\.c$::'); do
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n || true; done
    step "valgrind $name" scripts/run_examples.sh "$name" &
done
wait
tally_end
