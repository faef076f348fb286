#!/usr/bin/env bash
# Builds and runs the benchmarks: every bench/*.c, one after the other. Arguments: names; none: all.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
[ $# -gt 0 ] || set -- $(scripts/sources.sh bench | sed 's:.*/::; s:\.c$::')
[ $# -gt 0 ] || { say "there are no benchmarks in bench/ yet"; exit 0; }
scripts/build.sh benches
for name in "$@"; do
    say "== $name"
    "$BUILD/bench/$name"
done
