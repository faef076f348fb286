#!/usr/bin/env bash
# A network that has seen drawn digits only reads at least 80% of MNIST's test set, and the picture of the example.
# Usage: digits_mnist_test.sh [IPU]. MNIST is in $MNIST_DIR or ../shared/data/mnist; skips where it is not.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/support/check.sh
check_ipu "${1:-}"
mnist=${MNIST_DIR:-../shared/data/mnist}
if ! ls "$mnist"/t10k-images-idx3-ubyte* > /dev/null 2>&1; then
    echo "1..1"
    echo "ok 1 # SKIP there is no MNIST: neither in MNIST_DIR nor in ../shared/data/mnist"
    exit 0
fi

scores() # LEAST FILE: the score in the last line of FILE's "top1 score: X" is at least LEAST.
{
    cat "$2"
    awk -v least="$1" '/^top1 score: / { score = $3 } END { exit !(score >= least) }' "$2"
}

"$ipu" dataset digits --out "$box/digits" --count 20000 > "$box/log" 2>&1
mkdir "$box/mixed"
ln -s "$box"/digits/train-* "$(realpath "$mnist")"/t10k-* "$box/mixed"
check "a network is trained on drawn digits" \
    bash -c '"$1" train --data "$2" --epochs 1 --batch-size 32 --lr 0.03 --save "$3" > "$4" 2>&1; code=$?; cat "$4"; exit $code' \
    - "$ipu" "$box/mixed" "$box/model.onnx" "$box/train"
check "it reads 80% of MNIST" scores 0.80 "$box/train"
check "it reads the picture of the example" \
    bash -c '"$1" infer "$2" examples/mnist/image/infer_3.png | tee /dev/stderr | grep -q "is: 3"' - "$ipu" "$box/model.onnx"

check_end
