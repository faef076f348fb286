#!/usr/bin/env bash
# Checks of the source that need no run: each prints its name and pass or fail.
# Arguments: names of checks; none: all.
. "$(dirname "$0")/lib.sh"
scripts/deps.sh build test check
tally_begin check

clang_build=$BUILD/clang

format() { scripts/sources.sh own | xargs -r -d '\n' clang-format --dry-run -Werror; }

gcc_build() { scripts/build.sh all tests; }

clang_build() { CC=clang BUILD=$clang_build scripts/build.sh all tests; }

# The clang build gives the flags; the parsers' generated code is not ours to judge. The file that defines
# what scripts/analyzer.h wraps goes without it. Tests, which run under the sanitizers, are not analyzed.
# TIDY_NODES: how far the analyzer goes in one function; its own 225000 takes three times as long.
tidy()
{
    clang_build > /dev/null 2>&1 || echo "note: the clang build fails"
    local word told="--extra-arg=-I$PWD/src --extra-arg=-I$PWD/include --extra-arg=-include --extra-arg=$PWD/scripts/analyzer.h"
    for word in -Xclang -analyzer-config -Xclang "max-nodes=${TIDY_NODES:-50000}"; do told+=" --extra-arg=$word"; done
    {
        for kind in lib tools; do scripts/sources.sh "$kind"; done \
            | sed "\\:^src/base/status\\.c\$: ! s:\$: $told:"
        for kind in unit tests support examples; do scripts/sources.sh "$kind"; done \
            | sed 's:$: --checks=-clang-analyzer-*:'
    } \
        | xargs -r -P "$JOBS" -L 1 clang-tidy -p "$clang_build" --quiet 2> /dev/null
}

cppcheck_all()
{
    for kind in lib tools; do scripts/sources.sh "$kind"; done > "$LOGS/cppcheck.files"
    cppcheck --file-list="$LOGS/cppcheck.files" -j "$JOBS" --std=c11 --language=c --quiet \
        --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
        --suppress=missingIncludeSystem --suppress=missingInclude --suppress=toomanyconfigs \
        --suppressions-list=scripts/cppcheck.supp \
        --template='{file}:{line}: {severity}: {message} [{id}]' \
        -Iinclude -Isrc -Itools -DIPU_NO_LOCATIONS -D_GNU_SOURCE -DNDEBUG -D__x86_64__ -D__linux__
}

scripts_all() { find scripts tests containers .ci \( -name '*.sh' -o -path '.ci/run' \) -print0 | xargs -0 shellcheck; }

exports() { scripts/check_exports.sh "$BUILD"; }

layers() { scripts/check_layers.sh "$BUILD"; }

checks=(
    "format|format"
    "no tabs or trailing blanks|scripts/check_hygiene.sh blanks"
    "files under 800 lines|scripts/check_hygiene.sh length"
    "folders of 40 files at most|scripts/check_hygiene.sh folders"
    "no type defined twice|scripts/check_hygiene.sh types"
    "internal names begin with ipu__|scripts/check_hygiene.sh names"
    "no machine paths|scripts/check_hygiene.sh paths"
    "every source says what it does|scripts/check_hygiene.sh opening"
    "nothing unfinished|scripts/check_hygiene.sh unfinished"
    "gcc build|gcc_build"
    "clang build|clang_build"
    "exports|exports"
    "layers|layers"
    "shellcheck|scripts_all"
    "cppcheck|cppcheck_all"
    "clang-tidy|tidy"
)
for check in "${checks[@]}"; do
    name=${check%%|*}
    [ $# = 0 ] || [[ " $* " == *" ${check##*|} "* ]] || [[ " $* " == *" $name "* ]] || continue
    step "$name" ${check##*|}
done
tally_end
