#!/usr/bin/env bash
# Builds and runs the benchmarks: every bench/*.c, one after the other, and those of python/bench beside PyTorch's. Arguments:
# names; none: all, and last the speed of networks beside PyTorch's, of which the last line is the mean, first without AVX-512.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
all=
if [ $# = 0 ]; then
    set -- $(scripts/sources.sh bench | sed 's:.*/::; s:\.c$::' | grep -vx speed)
    all=yes
fi
[ $# -gt 0 ] || { say "there are no benchmarks in bench/ yet"; exit 0; }
scripts/build.sh benches tools/ipu
for name in "$@"; do
    say "== $name"
    "$BUILD/bench/$name"
done
if [ -n "$all" ]; then
    for script in python/bench/*.py; do
        say "== $script"
        IPU_LIBRARY=$PWD/$BUILD/src/libipu.so PYTHONPATH=python LD_LIBRARY_PATH=$(dirname /usr/lib/*/openblas-openmp/libblas.so.3) \
            /usr/bin/python3 "$script"
    done
    say "== speed, AVX2"
    "$BUILD/bench/speed" --avx2 --rounds 3 2t
    say "== speed"
    "$BUILD/bench/speed"
fi
