#!/usr/bin/env bash
# Lists source files of one kind, one per line: sources are found by folder, never listed.
# Folders may be missing or empty.
cd "$(dirname "$0")/.." || exit 1

list() # FOLDER DEPTH NAME [NOT-NAME]...
{
    [ -d "$1" ] && find "$1" -maxdepth "$2" -type f -name "$3" ! -name "${4:-}" ! -name "${5:-}" ! -name "${6:-}" | sort
}

case "$1" in
    lib)      list src 9 '*.c' '*_test.c' '*_simd.c' '*_plugin.c' ;;
    simd)     list src 9 '*_simd.c' ;;
    yacc)     list src 9 '*.y' ;;
    lex)      list src 9 '*.l' ;;
    unit)     list src 9 '*_test.c' ;;
    tests)    list tests 2 '*_test.c' ;; # what they share is in support/
    support)  list tests/support 1 '*.c' ;;
    tools)    list tools 9 '*.c' ;;
    web)      list tools/web/page 1 '*' ;; # the monitor's page
    links)    sed -n 's/^LINK("\(.*\)", \(.*\))$/\1=\2/p' tools/links.inc ;; # NAME=COMMAND
    examples) list examples 1 '*.c' ;;
    bench)    list bench 1 '*.c' ;;
    conformance)         list conformance 1 '*.c' ;;
    conformance-support) list conformance/support 1 '*.c' ;;
    fuzz)     list fuzz 1 '*_fuzz.c' ;;
    own)      for d in include src tools tests examples bench conformance fuzz; do
                  list "$d" 9 '*.c'
                  list "$d" 9 '*.h'
              done ;;
    *)        echo "sources.sh: no kind \"$1\"" >&2; exit 2 ;;
esac
exit 0
