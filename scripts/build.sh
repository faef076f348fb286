#!/usr/bin/env bash
# Configures (when sources or options changed) and builds. Arguments: ninja targets; none: the
# library, tools and examples. MESON_OPTIONS: more options for meson, e.g. -Dfuzz=true.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build

# A compiler cache, if one is installed, serves every build folder and every checkout. CCACHE_DISABLE=1 goes without.
launcher=
if [[ $CC != *ccache* ]] && command -v ccache > /dev/null; then launcher="ccache "; fi

options=${MESON_OPTIONS:-}
stamp=$BUILD/.configured
now=$(
    say "$CC" "$options"
    for kind in lib simd yacc lex unit tests support tools web links examples bench conformance conformance-support fuzz; do
        scripts/sources.sh "$kind"
    done
    pkg-config --modversion cmocka 2> /dev/null || true
)

if [ ! -f "$BUILD/build.ninja" ] || [ "$now" != "$(cat "$stamp" 2> /dev/null)" ]; then
    mkdir -p "$BUILD"
    mode=
    [ ! -f "$BUILD/build.ninja" ] || mode=--reconfigure
    log=$BUILD/configure.log
    CC=$launcher$CC meson setup $mode "$BUILD" $options > "$log" 2>&1 || { tail -n 8 "$log"; die "meson failed; all of it: $log"; }
    say "$now" > "$stamp"
fi
exec ninja -C "$BUILD" ${NINJA_FLAGS:-} "$@"
