#!/usr/bin/env bash
# As on hosts with 1 to 256 CPUs, which this one pretends to have (tests/threads/pretend_cpus.c): samples of all ops in as
# many parts, the examples, a training and what it learnt, `ipu check`. Arguments: other numbers of CPUs.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test
scripts/build.sh all tests/sweep_test tests/pretend_cpus.so
[ $# -gt 0 ] || set -- 1 2 3 7 8 24 64 256
tally_begin threads
out=$BUILD/threads
rm -rf "$out"
mkdir -p "$out"
ipu=$BUILD/tools/ipu

train()
{
    "$@" "$ipu" train --model seed-cnn --data "$out/digits" --epochs 1 --save "$out/digits.onnx" &&
        "$@" "$ipu" infer "$out/digits.onnx" examples/mnist/image/infer_3.png
}

"$ipu" dataset digits --out "$out/digits" --count 3200 --test-count 320 > /dev/null
for n in "$@"; do
    pretend=(env "LD_PRELOAD=$PWD/$BUILD/tests/pretend_cpus.so" "PRETEND_CPUS=$n")
    case $BUILD in /*) pretend[1]=LD_PRELOAD=$BUILD/tests/pretend_cpus.so ;; esac
    step "$n threads: ops" "$BUILD/tests/sweep_test" parts "$n"
    step "$n threads: check" "${pretend[@]}" "$ipu" check
    step "$n threads: training" train "${pretend[@]}"
    IPU_EXAMPLE_WRAPPER="${pretend[*]}" step "$n threads: examples" scripts/run_examples.sh
done
tally_end
