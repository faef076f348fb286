#!/usr/bin/env bash
# The order of the layers (docs/layout.md). Every #include respects it: a folder of src/ includes itself and those before it;
# tools and examples include ipu/*.h and their own headers; tests may include any. And so does every symbol: no object of the
# archive refers to what a layer after its own defines, and an engine defines no ipu_engine_* itself.
# Usage: check_layers.sh [BUILD]; without libipu.a there, only #includes are checked.
set -euo pipefail
build=${1:-build}
cd "$(dirname "$0")/.."

layers="base target device graph data summary cost comm engine profile op model session onnx train"
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
    # Right in src/ lies what puts the layers together (kernels.c).
    [[ $from != *.c ]] || from=${layers##* }
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
        *) [ -f "${file%%/*}/$to" ] || [ -f "${file%/*}/$to" ] ||
            complain "$file:$line: only ipu/*.h and headers of ${file%%/*}/, found \"$to\"" ;;
    esac
done < <(find tools examples -name '*.[ch]' 2> /dev/null | while read -r f; do includes "$f" || true; done)

while IFS=: read -r file line to; do
    case $to in
        ipu/*) ;;
        *) complain "$file:$line: a public header includes \"$to\"" ;;
    esac
done < <(for f in include/ipu/*.h include/ipu/*/*.h; do includes "$f" || true; done)

# Objects are named after their sources: "graph_kernel.c.o". Those of generated code (meson-generated_.._parse.tab.c.o) and of what
# lies right in src/ are of no layer.
upward()
{
    nm -A "$1" 2> /dev/null | awk -v layers="$layers" '
        BEGIN { n = split(layers, name, " "); for (i = 1; i <= n; i++) rank[name[i]] = i }
        {
            object = $1; sub(/^[^:]*:/, "", object); sub(/:.*/, "", object)
            layer = object; sub(/[_.].*/, "", layer)
            if ($(NF - 1) ~ /^[TDBRVWC]$/) { defined_in[$NF] = object; layer_of[$NF] = layer }
            else if ($(NF - 1) == "U" && layer in rank) { from[++uses] = object; own[uses] = layer; uses_name[uses] = $NF }
            if ($(NF - 1) == "T" && $NF ~ /^ipu_engine_/ && object ~ /^engine_/ && object !~ /^engine_run_/)
                print object ": defines " $NF ", which is for src/engine/run"
        }
        END {
            for (i = 1; i <= uses; i++)
                if (rank[layer_of[uses_name[i]]] > rank[own[i]])
                    print from[i] ": " uses_name[i] " is defined in " defined_in[uses_name[i]] ", a layer below it"
        }'
}
if [ -f "$build/src/libipu.a" ]; then
    while read -r found; do complain "$found"; done < <(upward "$build/src/libipu.a")
fi
exit $status
