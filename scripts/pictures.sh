#!/usr/bin/env bash
# Makes the pictures of README.md, in docs/pictures, from runs: heat on a plate, the losses of a training, speed beside PyTorch.
# The last is drawn from docs/pictures/speed.json; with --measure that is measured anew first (ten minutes).
. "$(dirname "$0")/lib.sh"
case ${1:-} in
    "" | --measure) ;;
    *) die "usage: scripts/pictures.sh [--measure]" ;;
esac
scripts/deps.sh build test
scripts/build.sh tools/ipu examples/08_stencil_with_halos bench/speed
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
pictures=docs/pictures

"$BUILD/examples/08_stencil_with_halos" > "$box/plate.txt"
/usr/bin/python3 scripts/pictures.py plate "$box/plate.txt" $pictures/plate.svg

"$BUILD/tools/ipu" dataset digits --count 6000 --out "$box/digits"
"$BUILD/tools/ipu" train --data "$box/digits" --model seed-cnn --plot $pictures/loss.svg

if [ "${1:-}" = --measure ]; then
    # Before other processes, where that is allowed: they would take the second thread from either side.
    first=(chrt -f 1)
    "${first[@]}" true 2> /dev/null || first=()
    "${first[@]}" "$BUILD/bench/speed" --json 2t > "$box/speed.json"
    /usr/bin/python3 scripts/pictures.py keep "$box/speed.json" $pictures/speed.json
fi
/usr/bin/python3 scripts/pictures.py speed $pictures/speed.json $pictures/speed.svg
