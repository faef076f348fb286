#!/usr/bin/env bash
# Builds and runs the example that shows most. DEMO: the name of another.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build
demo=${DEMO:-08_stencil_with_halos}
[ -f "examples/$demo.c" ] || die "no example \"$demo\"; there are: $(scripts/sources.sh examples | sed 's:.*/::; s:\.c$::' | paste -sd' ')"
mkdir -p "$LOGS"
say "building; what the compilers say goes to $LOGS/build.log" >&2
scripts/build.sh > "$LOGS/build.log" 2>&1 || { tail -n 40 "$LOGS/build.log"; die "the build failed"; }
exec "$BUILD/examples/$demo"
