#!/usr/bin/env bash
# README.md and docs/*.md do what they show: code blocks are run, and what sessions print is compared (docs/layout.md has the rules).
# Usage: docs_test.sh [DOCUMENT...] (default: all), or --self: whether it finds what is wrong.
set -u
cd "$(dirname "$0")/.." || exit 1
for document in "$@"; do
    [ -f "$document" ] || [ "$*" = --self ] || {
        echo "docs_test.sh: no document \"$document\": expected paths from the root of the tree, as docs/cost.md, or --self" >&2
        exit 2
    }
done
. tests/support/check.sh
root=$PWD build=$(realpath "${BUILD:-build}")
documents=("$@")
[ $# -gt 0 ] || documents=(README.md docs/*.md)
[ "${1:-}" != --self ] || documents=(tests/docs/right.md)
mapfile -t documents < <(realpath -- "${documents[@]}")
check_ipu "${IPU_BIN:-}"
# What a document may count on: this build's commands, library and Python packages, the source tree's folders by their names, pictures to
# train with, and nothing else of this machine's.
unset IPU_DEVICE_ID IPU_ELASTIC IPU_MONITOR_TOKEN GCDA_OPTIONS IPU_ENGINE IPU_ENGINE_OPTIONS POPLAR_ENGINE_OPTIONS IPU_CHECK COLUMNS
check_alone
export LC_ALL=C.UTF-8 TERM=dumb PYTHONDONTWRITEBYTECODE=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -m 700 -p run && mkdir bin work pc
for name in ipu $(sed -n 's/^LINK("\(.*\)", .*/\1/p' "$root/tools/links.inc"); do ln -s "$ipu" "bin/$name"; done
printf '#!/bin/sh\nexec %s "$@"\n' "$python" > bin/python3 && chmod +x bin/python3
printf '%s\n' "Name: ipu" "Description: this build's" "Version: 0" "Cflags: -I$root/include" "Libs: -L$build/src -lipu" > pc/ipu.pc
export PATH=$box/bin:$PATH PYTHONPATH=$root/python IPU_LIBRARY=$build/src/libipu.so LD_LIBRARY_PATH=$build/src PKG_CONFIG_PATH=$box/pc
for name in examples tests scripts docs python; do ln -s "$root/$name" "work/$name"; done
ln -s "$build" work/build
if grep -q 'data/mnist' "${documents[@]}"; then
    "$ipu" dataset digits --count 6000 --test-count 1000 --out work/data/mnist > log 2>&1 || { cat log; exit 1; }
fi
blocks() { (cd work && "$python" "$root/tests/docs/blocks.py" "$@"); }
# All blocks of a document fail, N of them.
finds() # N DOCUMENT
{
    blocks "$2" > found && return 1
    cat found
    [ "$(grep -c '^not ok' found)" = "$1" ] && [ "$(grep -c '^ok' found)" = 1 ] && ! grep -q Traceback found
}
forms()
{
    blocks "$root/tests/docs/forms.md" > found && return 1
    cat found
    [ "$(grep -c '^#   docs/forms.md:' found)" = 9 ]
}
missing()
{
    "$root/tests/docs_test.sh" no-such-page > found 2>&1
    [ $? = 2 ] && grep -q '^docs_test.sh: no document "no-such-page"' found && ! grep -q Traceback found
}
listed()
{
    local page
    for page in "$root"/docs/*.md; do
        page=${page##*/}
        grep -qF "($page)" "$root/docs/index.md" || [ "$page" = index.md ] || { echo "docs/index.md does not list $page"; return 1; }
    done
}
# Those that are drawn from what is in the tree.
drawn() # PICTURE FROM
{
    "$python" "$root/scripts/pictures.py" "$1" "$root/$2" drawn.svg && cmp drawn.svg "$root/docs/pictures/$1.svg"
}
if [ "${1:-}" = --self ]; then
    check "what is right passes" blocks "$root/tests/docs/right.md"
    check "what is wrong is found" finds 13 "$root/tests/docs/wrong.md"
    check "blocks that are not marked are found" forms
    check "a document that is not there is an error" missing
    check "docs/index.md lists every manual" listed
    check "the plate is what the example prints" drawn plate examples/expected/08_stencil_with_halos.expected
    check "the chart of speed shows its measurements" drawn speed docs/pictures/speed.json
    check_end
else
    blocks "${documents[@]}"
fi
