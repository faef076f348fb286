#!/usr/bin/env bash
# One small rule about the text of the files, by name: blanks, length, paths, headers.
set -euo pipefail
cd "$(dirname "$0")/.."

# All files of the project that are text, whether git knows them yet or not.
all() { git ls-files -co --exclude-standard | grep -vE '^fuzz/corpus/|\.(expected|png)$' | while read -r f; do [ -f "$f" ] && echo "$f"; done; }
code() { all | grep -E '\.([chyl]|inc|sh|py)$' || true; }

# Fails if the command prints anything.
empty() { local found; found=$("$@" || true); [ -z "$found" ] || { echo "$found"; return 1; }; }

blanks()
{
    all | grep -v '^Makefile$' | xargs -r -d '\n' grep -nIHP '\t' || true
    all | xargs -r -d '\n' grep -nIHE '[[:blank:]]+$' || true
    all | while read -r f; do [ -s "$f" ] && [ -n "$(tail -c 1 "$f")" ] && echo "$f: no newline at the end"; done || true
}

length() { code | xargs -r -d '\n' wc -l | awk '$1 >= 800 && $2 != "total" { print $2 ": " $1 " lines; fewer than 800 expected" }'; }

# A folder that shows what is in it. Corpora of fuzzers and expected outputs are data.
folders()
{
    all | grep -v '\.expected$' | sed 's:/[^/]*$::' | sort | uniq -c | awk '$1 > 40 { print $2 "/: " $1 " files; 40 at most expected" }'
}

# A type of ours that two files define: `typedef struct x { ... } x;`, or `struct x {`.
types()
{
    code | grep -E '^(src|include)/.*\.[ch]$' | grep -v '_test\.[ch]$' | xargs -r -d '\n' awk '
        function define(name) { if (name in of && of[name] != FILENAME) print FILENAME ": " name " is defined in " of[name] ", too"; of[name] = FILENAME }
        FNR == 1 { open = 0 }
        /^typedef .*\{/ { open = 1 }
        open && /^\} ipu_[a-z0-9_]+;/ { name = $2; sub(/;.*/, "", name); define(name); open = 0 }
        /^struct ipu_[a-z0-9_]+ \{/ { define($2) }'
}

# A name that headers of src/ define and include/ does not know: ipu__ and IPU__ are for these.
names()
{
    local public
    public=$(grep -rohE '\b(ipu|IPU)_[A-Za-z0-9_]+' include | sort -u)
    code | grep -E '^src/.*\.h$' | xargs -r -d '\n' grep -nE '^(#define|typedef|\}) ?.*\b(ipu|IPU)_[A-Za-z0-9]' | awk -v public="$public" '
        BEGIN { n = split(public, list, "\n"); for (i = 1; i <= n; i++) known[list[i]] = 1 }
        {
            line = $0; sub(/^[^:]*:[^:]*:/, "", line)
            if (line ~ /^#define/) { split(line, word, /[ (]/); name = word[2] }
            else if (line ~ /^\}/) { name = line; sub(/^\} */, "", name); sub(/;.*/, "", name) }
            else if (line ~ /^typedef (struct|enum|union) /) { split(line, word, " "); name = word[3] }
            else next
            if (name ~ /^(ipu|IPU)_[A-Za-z0-9]/ && name !~ /_H$/ && !(name in known)) print $0 ": expected ipu__ or IPU__, since it is internal"
        }'
}

# Paths that exist on one machine only.
paths() { all | xargs -r -d '\n' grep -nIHE '(^|[^A-Za-z0-9_.])/(home|root|work|Users)/' || true; }

# The first line of a source says what the file does.
opening()
{
    code | grep -E '\.[chyl]$' | while read -r f; do
        head -n 3 "$f" | grep -q '/\*' || echo "$f: begins without a comment that says what it does"
    done
    code | grep -E '\.py$' | while read -r f; do
        head -n 3 "$f" | grep -q '"""' || echo "$f: begins without a docstring that says what it does"
    done
}

unfinished() { code | grep -v '^scripts/' | xargs -r -d '\n' grep -nIHE '\b(TODO|FIXME|XXX|HACK)\b' || true; }

case $1 in
    blanks | length | folders | types | names | paths | opening | unfinished) empty "$1" ;;
    *) echo "check_hygiene.sh: no rule \"$1\"" >&2; exit 2 ;;
esac
