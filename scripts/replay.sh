#!/usr/bin/env bash
# Does this tree still do what commit BASE does? Builds both, and compares, over networks and ways to train and run them: kernels and their
# implementations, the steps of programs, what they would cost on the chip, and the bits of results and weights (tests/replay).
# Usage: replay.sh BASE [CASE...]             differences; exit status 1 if there are any
#        replay.sh --speed BASE [ROW...]      times of the rows of bench/speed instead, both in turns (bench/turns.py)
#        replay.sh --python BASE [ROW...]     the same of PopTorch: the rows of python/bench/speed.py
# For changes of the structure; `make ci` does not run it. Both builds stay in build/replay.
. "$(dirname "$0")/lib.sh"
usage="usage: replay.sh [--speed|--python] BASE [CASE|ROW...]"
speed=
case "${1:-}" in
--speed | --python)
    speed=$1
    shift
    ;;
--help)
    say "$usage"
    exit
    ;;
esac
case "${1:-}" in
"" | -*) die "$usage" ;;
esac
base=$1
shift
commit=$(git rev-parse --verify --quiet "$base^{commit}") || die "replay.sh: no commit \"$base\""
scripts/deps.sh build test
there=$PWD/$BUILD/replay/base
# A clone and not a work tree, which this repository would remember after build/ is gone.
[ -e "$there/.git" ] || git clone --quiet --shared --no-checkout . "$there" || die "replay.sh: no clone in $there"
git -C "$there" checkout --quiet --detach "$commit" || die "replay.sh: $there cannot be set to $base: remove it and try again"

targets=all
[ "$speed" != --speed ] || targets="all bench/speed"
scripts/build.sh $targets > "$BUILD/replay/tree.log" 2>&1 || die "replay.sh: the tree does not build: $BUILD/replay/tree.log"
(cd "$there" && unset LOGS && BUILD=build scripts/build.sh $targets) > "$BUILD/replay/base.log" 2>&1 \
    || die "replay.sh: $base does not build: $BUILD/replay/base.log"

if [ "$speed" = --speed ]; then
    exec python3 bench/turns.py "$there/build/bench/speed" "$BUILD/bench/speed" "$@"
elif [ "$speed" = --python ]; then
    exec python3 bench/turns.py --python "$there" "$PWD" "$@"
fi

compile() # ROOT LIBRARY-FOLDER OUT
{
    $CC -O1 -std=gnu17 -D_GNU_SOURCE -I"$1/include" tests/replay/replay.c -o "$3" -L"$2" -Wl,-rpath,"$2" -lipu -lm
}
compile "$there" "$there/build/src" "$BUILD/replay/base.replay"
compile "$PWD" "$PWD/$BUILD/src" "$BUILD/replay/tree.replay"

[ $# -gt 0 ] || set -- $("$BUILD/replay/tree.replay")
differ=0
for name in "$@"; do
    broken=
    for side in base tree; do
        "$BUILD/replay/$side.replay" "$name" > "$BUILD/replay/$side.$name" 2>&1 || broken="$broken $side: $name ended with status $?;"
    done
    if [ -n "$broken" ]; then
        differ=$((differ + 1))
        say "failed $broken $(tail -n 1 "$BUILD/replay/tree.$name" | cut -c 1-200)"
    elif cmp -s "$BUILD/replay/base.$name" "$BUILD/replay/tree.$name"; then
        say "same    $name ($(wc -l < "$BUILD/replay/tree.$name") lines)"
    else
        differ=$((differ + 1))
        say "differs $name:"
        diff "$BUILD/replay/base.$name" "$BUILD/replay/tree.$name" | head -n "${REPLAY_LINES:-6}" | cut -c 1-200 || true
    fi
done
say "$(($# - differ)) the same, $differ not"
[ "$differ" = 0 ]
