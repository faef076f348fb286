#!/usr/bin/env bash
# embed.sh FILE...: writes a C source that holds the files of a page, as tools/web/files.h has them.
set -euo pipefail

type_of()
{
    case $1 in
        *.html) echo "text/html; charset=utf-8" ;;
        *.css) echo "text/css; charset=utf-8" ;;
        *.js) echo "text/javascript; charset=utf-8" ;;
        *.svg) echo "image/svg+xml" ;;
        *) echo "embed.sh: no type is known for $1" >&2; return 1 ;;
    esac
}

path_of() { case $1 in index.html) echo / ;; *) echo "/$1" ;; esac; }

echo '/* Made by scripts/embed.sh. */'
echo '#include "web/files.h"'
i=0
for file in "$@"; do
    echo "static const unsigned char file$((i++))[] = {"
    od -An -v -tu1 "$file" | sed 's/\([0-9][0-9]*\)/\1,/g'
    echo '};'
done
echo 'const web_file web_files[] = {'
i=0
for file in "$@"; do
    name=$(basename "$file")
    type=$(type_of "$name")
    echo "    {\"$(path_of "$name")\", \"$type\", file$i, sizeof file$i},"
    i=$((i + 1))
done
echo '    {0, 0, 0, 0},'
echo '};'
