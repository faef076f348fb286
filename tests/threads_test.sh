#!/usr/bin/env bash
# As on hosts with more CPUs than this one has: samples of all ops in up to 256 parts (ops_test has 1 to 3), `ipu check`,
# a training and what it learnt, with the number of threads that is the default there.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
tests=$(realpath "${BUILD:-build}/tests")
picture=$PWD/examples/mnist/image/infer_3.png
check_alone

as_with() # CPUS COMMAND...
{
    LD_PRELOAD=$tests/pretend_cpus.so PRETEND_CPUS=$1 "${@:2}"
}

check "samples in many parts" "$tests/sweep_test" parts 7 8 24 64 256
"$ipu" dataset digits --out digits --count 640 --test-count 64 > /dev/null
for n in 8 64; do
    as_with "$n" "$ipu" check > check.txt 2>&1
    check "$n CPUs: ipu check runs on all of them" grep -Eq "^engine +ok: .* $n host threads$" check.txt
    check "$n CPUs: ipu check is content" grep -q '^OpenIPU is installed successfully!' check.txt
    check "$n CPUs: ipu train" as_with "$n" "$ipu" train --model seed-cnn --data digits --epochs 1 --save "m$n.onnx"
    check "$n CPUs: ipu infer" as_with "$n" "$ipu" infer "m$n.onnx" "$picture"
done
check_end
