#!/usr/bin/env bash
# The whole way once, each step checked: builds, finds MNIST or draws digits, trains seed-cnn on one virtual GC200,
# saves it, reads a picture with it, writes a profile. MNIST_DIR: where MNIST is. DEMO: an example to run instead.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build
least=0.98
out=$BUILD/demo
began=$SECONDS

build() # TARGET
{
    mkdir -p "$LOGS"
    say "building; what the compilers say goes to $LOGS/build.log"
    scripts/build.sh "$1" > "$LOGS/build.log" 2>&1 || { tail -n 40 "$LOGS/build.log"; die "the build failed"; }
}

if [ -n "${DEMO:-}" ]; then
    [ -f "examples/$DEMO.c" ] || die "no example \"$DEMO\"; there are: $(scripts/sources.sh examples | sed 's:.*/::; s:\.c$::' | paste -sd' ')"
    build "examples/$DEMO" >&2
    exec "$BUILD/examples/$DEMO"
fi

build tools/ipu
ipu=$BUILD/tools/ipu
mkdir -p "$out"

data=
for folder in "${MNIST_DIR:-}" data/mnist ../shared/data/mnist; do
    if [ -n "$folder" ] && compgen -G "$folder/train-images-idx3-ubyte*" > /dev/null; then
        data=$folder
        break
    fi
done
if [ -z "$data" ]; then
    data=$out/digits
    say "no MNIST in \$MNIST_DIR, data/mnist or ../shared/data/mnist: drawing digits into $data"
    [ -f "$data/t10k-labels-idx1-ubyte" ] || "$ipu" dataset digits --force --out "$data"
fi

say "training on $data"
"$ipu" train --model seed-cnn --data "$data" --epochs 2 --save "$out/model/mnist.onnx" --plot "$out/loss.svg" \
    --profile "$out/profile" | tee "$out/train.log"
score=$(sed -n 's/^top1 score: //p' "$out/train.log")
awk -v score="$score" -v least="$least" 'BEGIN { exit !(score >= least) }' ||
    die "the score is ${score:-not there}: expected at least $least"

picture=examples/mnist/image/infer_3.png
"$ipu" infer "$out/model/mnist.onnx" "$picture" | tee "$out/infer.log"
grep -q "^Inference result of $picture is: 3" "$out/infer.log" || die "expected a 3 in $picture"

for file in model/mnist.onnx loss.svg profile/profile.txt profile/profile.json; do
    [ -s "$out/$file" ] || die "$out/$file is not there"
done
say "in $out: model/mnist.onnx, loss.svg, profile/profile.txt; $((SECONDS - began)) s in all"
