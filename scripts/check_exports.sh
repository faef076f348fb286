#!/usr/bin/env bash
# The functions libipu.so shows are exactly those declared in include/ipu, and the static library adds
# nothing to a program's names but ipu_*. Argument: the build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

# gcc itself lists the declarations that come from a file of ours.
declared=$(printf '#include "ipu/ipu.h"\n' \
    | gcc -std=gnu17 -DIPU_NO_LOCATIONS -Iinclude -fsyntax-only -aux-info /dev/stdout -x c - \
    | sed -n 's:^/\* include/ipu/[^ ]* \*/.*[ *]\(ipu_[A-Za-z0-9_]*\) (.*:\1:p' | sort -u)
exported=$(nm -D --defined-only "$build/src/libipu.so" | awk '{ print $3 }' | sort -u)
foreign=$(nm -g --defined-only "$build/src/libipu.a" 2> /dev/null | awk 'NF == 3 && $3 !~ /^ipu_/ { print $3 }' | sort -u)
unlisted=$(for header in include/ipu/*.h include/ipu/*/*.h; do
    name=${header#include/}
    [ "$name" = ipu/ipu.h ] || grep -qF "#include \"$name\"" include/ipu/*.h || echo "$name"
done)

[ -n "$declared" ] || { echo "no declarations found in include/ipu"; exit 1; }
status=0
report() # TITLE LIST
{
    [ -z "$2" ] && return
    echo "$1:"
    printf '    %s\n' $2
    status=1
}
report "declared in include/ipu but not in libipu.so" "$(comm -23 <(echo "$declared") <(echo "$exported"))"
report "in libipu.so but not declared in include/ipu" "$(comm -13 <(echo "$declared") <(echo "$exported"))"
report "names in libipu.a that do not begin with ipu_" "$foreign"
report "headers that ipu.h does not reach" "$unlisted"
echo "$(wc -l <<< "$declared") functions declared, $(wc -l <<< "$exported") exported"
exit $status
