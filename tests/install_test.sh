#!/usr/bin/env bash
# Installs to a folder of its own, builds programs against what is there, enables it in several shells,
# and removes it again. Ends with "N passed, N failed". BUILD: the build folder.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0 skipped=0
box=$(mktemp -d)
trap 'rm -rf "$box"' EXIT
unset POPLAR_SDK_ENABLED IPU_SDK_ENABLED LD_LIBRARY_PATH PKG_CONFIG_PATH MANPATH

proves() # NAME COMMAND...
{
    local name=$1
    shift
    if "$@" > "$box/log" 2>&1; then
        echo "ok   $name"
        passed=$((passed + 1))
    else
        cat "$box/log"
        echo "FAIL $name"
        failed=$((failed + 1))
    fi
}

# needs PROGRAM: false, and a skip, where it is not installed.
needs()
{
    command -v "$1" > /dev/null && return
    echo "skip: there is no $1 here"
    skipped=$((skipped + 1))
    return 1
}

sdk=$box/sdk
mkdir -p "$box/sdk/bin"
echo mine > "$box/sdk/bin/other"
find "$sdk" | sort > "$box/before"

cat > "$box/program.c" << 'END'
#include <stdio.h>
#include <string.h>

#include <ipu/ipu.h>

int main(void)
{
    ipu_target target;
    if (ipu_target_find("gc200", 2, &target) != IPU_OK) return 1;
    printf("%s %lld\n", ipu_version(), (long long)ipu_target_n_tiles(&target));
    return 0;
}
END
expected="$(scripts/version.sh) 2944"

flags() { PKG_CONFIG_PATH=$sdk/lib/pkgconfig pkg-config "$@" ipu; }

make_install() { make --no-print-directory install PREFIX="$sdk" DESTDIR=; }

has_everything()
{
    local path
    for path in include/ipu/ipu.h lib/libipu.so lib/libipu.so.0 lib/libipu.a lib/pkgconfig/ipu.pc bin/ipu \
        bin/gc-info \
        share/man/man1/ipu.1 share/man/man1/ipu-target.1 share/man/man1/gc-info.1 \
        share/bash-completion/completions/ipu.bash share/bash-completion/completions/gc-info.bash enable.sh; do
        [ -s "$sdk/$path" ] || { echo "missing: $path"; return 1; }
    done
}

has_soname() { readelf -d "$sdk/lib/libipu.so" | grep -q 'SONAME.*\[libipu.so.0\]'; }

# Only what libipu.so itself needs may be named by a program that links to it.
links_shared()
{
    gcc -std=c17 -Wall -Wextra -Wpedantic -Werror "$box/program.c" -o "$box/shared" $(flags --cflags --libs) \
        && [ "$(LD_LIBRARY_PATH=$sdk/lib "$box/shared")" = "$expected" ] \
        && readelf -d "$box/shared" | grep -q 'NEEDED.*libipu.so.0'
}

links_static()
{
    local libs
    libs=$(flags --static --libs | sed 's/-lipu\b/-l:libipu.a/')
    gcc -std=c17 "$box/program.c" -o "$box/static" $(flags --cflags) $libs \
        && [ "$("$box/static")" = "$expected" ] \
        && ! readelf -d "$box/static" | grep -q libipu
}

compiles_as_cpp()
{
    echo '#include <ipu/ipu.h>
int main() { return ipu_version()[0] == 0; }' > "$box/program.cpp"
    g++ -Wall -Werror "$box/program.cpp" -o "$box/cpp" $(flags --cflags --libs) && LD_LIBRARY_PATH=$sdk/lib "$box/cpp"
}

tool_runs_in_place() { "$sdk/bin/ipu" --version | grep -qF "$(scripts/version.sh)"; }

links_run_in_place() { [ "$(HOME=$box IPU_RUNTIME_DIR=$box/run "$sdk/bin/gc-info" --ipu-arch)" = ipu2 ]; }

manual_is_found() { MANPATH=$sdk/share/man man -w ipu | grep -q "^$sdk/"; }

# What a shell sees after sourcing the file twice.
enabled_in() # SHELL
{
    "$1" -c '. "$0/enable.sh" && . "$0/enable.sh" || exit 1
        [ "$IPU_SDK_ENABLED" = "$0" ] && [ "$POPLAR_SDK_ENABLED" = "$0" ] || exit 2
        [ "$(command -v ipu)" = "$0/bin/ipu" ] || exit 3
        [ "$LD_LIBRARY_PATH" = "$0/lib" ] && [ "$PKG_CONFIG_PATH" = "$0/lib/pkgconfig" ] || exit 4
        [ "$MANPATH" = "$0/share/man:" ] || exit 5
        [ "$(printf "%s\n" "$PATH" | tr : "\n" | grep -cxF "$0/bin")" = 1 ] || exit 6
        set | grep "^ipu_enable_p" && exit 7
        exit 0' "$sdk" || { echo "$1: exit status $?"; return 1; }
}

keeps_what_was_there()
{
    MANPATH=/a LD_LIBRARY_PATH=/b:/c bash -c '. "$0/enable.sh"
        [ "$MANPATH" = "$0/share/man:/a" ] && [ "$LD_LIBRARY_PATH" = "$0/lib:/b:/c" ]' "$sdk"
}

completes_where_one_types()
{
    bash --norc -ic '. "$0/enable.sh"; complete -p ipu gc-info' "$sdk" 2> /dev/null | grep -c -- '-F _ipu' | grep -qx 2 \
        && ! bash --norc -c '. "$0/enable.sh"; complete -p ipu' "$sdk" 2> /dev/null
}

refuses_beside_another()
{
    POPLAR_SDK_ENABLED=/opt/other bash -c '. "$0/enable.sh"' "$sdk" > "$box/out" 2>&1 && return 1
    grep -q 'another SDK is enabled already: /opt/other' "$box/out"
}

works_after_a_move()
{
    mv "$sdk" "$box/moved" && bash -c '. "$0/enable.sh" && [ "$IPU_SDK_ENABLED" = "$0" ] && ipu --version' "$box/moved"
    local status=$?
    mv "$box/moved" "$sdk"
    return $status
}

make_uninstall() { make --no-print-directory uninstall PREFIX="$sdk" DESTDIR=; }

leaves_nothing() { find "$sdk" | sort | diff "$box/before" -; }

staged()
{
    make --no-print-directory install PREFIX=/opt/ipu DESTDIR="$box/stage" \
        && [ -x "$box/stage/opt/ipu/bin/ipu" ] && grep -q "'/opt/ipu'" "$box/stage/opt/ipu/enable.sh" \
        && make --no-print-directory uninstall PREFIX=/opt/ipu DESTDIR="$box/stage" \
        && [ -z "$(find "$box/stage" -mindepth 1)" ]
}

nothing_to_remove() { ! make_uninstall; }

proves "install" make_install
proves "everything is there" has_everything
proves "the shared library has its soname" has_soname
proves "a program links to the shared library" links_shared
proves "a program links to the static library" links_static
needs g++ && proves "the headers compile as C++" compiles_as_cpp
proves "the command runs in place" tool_runs_in_place
proves "links to the command run in place" links_run_in_place
needs man && proves "man finds the manual" manual_is_found
for shell in bash sh zsh; do needs $shell && proves "enable.sh in $shell" enabled_in $shell; done
proves "enable.sh keeps what was in the variables" keeps_what_was_there
proves "enable.sh completes in a shell that somebody types into" completes_where_one_types
proves "enable.sh refuses beside another SDK" refuses_beside_another
proves "enable.sh works after a move" works_after_a_move
proves "install again" make_install
proves "uninstall" make_uninstall
proves "uninstall leaves what it found" leaves_nothing
proves "uninstall of nothing fails" nothing_to_remove
proves "DESTDIR" staged
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
