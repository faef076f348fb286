#!/usr/bin/env bash
# Every #include respects the order of the layers (docs/layout.md): a folder of src/ includes itself and
# those before it; tools and examples include ipu/*.h and their own headers. Tests may include any.
set -euo pipefail
cd "$(dirname "$0")/.."

layers="base target device graph data cost comm engine profile op model onnx train"
status=0
complain() { echo "$*"; status=1; }

rank() # the place of a layer in the order, 0 if it is none
{
    local i=0 layer
    for layer in $layers; do
        i=$((i + 1))
        if [ "$layer" = "$1" ]; then echo $i; return; fi
    done
    echo 0
}

for folder in src/*/; do
    [ "$(rank "$(basename "$folder")")" != 0 ] || complain "$folder: not a layer; the order is: $layers"
done

# Lines "file:line:included", of includes in quotes.
includes() { grep -nHE '^[[:space:]]*#[[:space:]]*include[[:space:]]+"' "$@" | sed -E 's/:[[:space:]]*#[^"]*"([^"]*)".*/:\1/'; }

while IFS=: read -r file line to; do
    from=${file#src/}
    from=${from%%/*}
    case $to in
        ipu/*) [ -f "include/$to" ] || complain "$file:$line: no public header $to" ;;
        */*)
            layer=${to%%/*}
            if [ "$(rank "$layer")" = 0 ]; then
                complain "$file:$line: \"$to\": expected ipu/NAME.h or LAYER/NAME.h"
            elif [ "$(rank "$layer")" -gt "$(rank "$from")" ]; then
                complain "$file:$line: src/$from includes \"$to\", a layer below it"
            fi ;;
        *.tab.h | *.yy.h | *.pb-c.h | *.inc) ;;
        *) [ -f "$(dirname "$file")/$to" ] || complain "$file:$line: \"$to\" is not beside this file" ;;
    esac
done < <(find src -name '*.[chyl]' ! -name '*_test.c' -print0 | xargs -0 -r grep -lE '#[[:space:]]*include[[:space:]]+"' \
    | while read -r f; do includes "$f"; done)

while IFS=: read -r file line to; do
    case $to in
        ipu/*) [ -f "include/$to" ] || complain "$file:$line: no public header $to" ;;
        *) [ -f "$(dirname "$file")/$to" ] || complain "$file:$line: only ipu/*.h and headers beside this file, found \"$to\"" ;;
    esac
done < <(find tools examples -name '*.[ch]' 2> /dev/null | while read -r f; do includes "$f" || true; done)

while IFS=: read -r file line to; do
    case $to in
        ipu/*) ;;
        *) complain "$file:$line: a public header includes \"$to\"" ;;
    esac
done < <(for f in include/ipu/*.h; do includes "$f" || true; done)
exit $status
